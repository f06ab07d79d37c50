"""Generate kafkaform/core/data/kafka_configs.json from Kafka's jars: `generate_kafka_configs.py [--check]`.

The valid values of topic, group and consumer configs are read from the classes that brokers and clients use,
so that nothing is maintained by hand and a new Kafka version needs one run. A validator of an unknown class
stops the run, so that its rule is not lost silently.

Brokers and clients of earlier versions are supported, too: `--history` downloads their jars (a gigabyte) and
writes to kafka_history.json, which the other runs read, the first version of each config, limits that were
wider, and the configs that a later version retired.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkaform need not be installed

from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.releases import KAFKA_VERSION, RELEASES

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
EARLIER = [version for version in RELEASES if version != KAFKA_VERSION]
HISTORY = HERE / "kafka_history.json"
TARGET = HERE.parent / "kafkaform" / "core" / "data" / "kafka_configs.json"

KINDS = ("consumers", "groups", "topics")

# Entries equal to these defaults are omitted from a key.
USUAL: dict[str, object] = {
    "default": None,
    "deprecated": False,
    "empty_allowed": False,
    "ignores_case": False,
    "internal": False,
    "since": None,
    "synonyms": [],
}


def main() -> int:
    """Write the file, or with `--check` return 1 if it is out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--jars", type=Path, help="a folder of Kafka's jars (default: the development cluster's)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file would change")
    parser.add_argument("--history", action="store_true", help="read the jars of earlier versions again")
    arguments = parser.parse_args()

    newest = read_configs(find_jars(arguments.jars))
    if arguments.history:
        HISTORY.write_text(json.dumps(read_history(newest), indent=1, sort_keys=True) + "\n", "utf-8")
    text = render(newest, json.loads(HISTORY.read_text("utf-8")))
    if arguments.check:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        if not same:
            print(f"{TARGET.name} does not match the jars; run {Path(__file__).name}", file=sys.stderr)
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def find_jars(folder: Path | None, version: str = KAFKA_VERSION) -> list[Path]:
    """Return Kafka's jars in a folder, else those of a development cluster of this version."""
    if folder is not None:
        jars = sorted(folder.glob("*.jar"))
        if not jars:
            sys.exit(f"no jars in {folder}")
        return jars
    return fetch_kafka_classpath(version)


def read_configs(jars: list[Path]) -> dict[str, Any]:
    """Run KafkaConfigs.java beside this file, which Java 17 does without a build, and parse its output."""
    java = shutil.which("java")
    if java is None:
        sys.exit("java is not on the PATH; Java 17 or newer is needed")
    classpath = os.pathsep.join(str(jar) for jar in jars)
    run = subprocess.run(
        [java, "-cp", classpath, str(HERE / "KafkaConfigs.java")], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        sys.exit(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def read_history(newest: dict[str, Any]) -> dict[str, Any]:
    """Return what earlier versions know beyond the newest.

    Returns:
        `first`: the names of new configs, by kind and version; `limits`: wider limits of brokers, by kind and
        name;
        `retired`: the configs that the newest version does not have, as the last version with them has them.
    """
    history: dict[str, Any] = {part: {kind: {} for kind in KINDS} for part in ("first", "limits", "retired")}
    for version, later in zip(EARLIER, [*EARLIER[1:], KAFKA_VERSION], strict=True):
        configs = read_configs(find_jars(None, version))
        for kind in KINDS:
            firsts = history["first"][kind]
            firsts[strip_patch(version)] = sorted(set(configs[kind]).difference(*firsts.values()))
            for name, key in configs[kind].items():
                limits = history["limits"][kind]
                if name not in newest[kind]:
                    if not key["internal"]:
                        history["retired"][kind][name] = key | {"retired": strip_patch(later)}
                elif kind != "consumers" and (
                    wider := find_wider_limits(newest[kind][name] | limits.get(name, {}), key)
                ):
                    limits[name] = limits.get(name, {}) | wider
    return history


def find_wider_limits(known: dict[str, Any], key: dict[str, Any]) -> dict[str, Any]:
    """Return the limits that a key of an earlier version widens; a missing check there permits nothing."""
    wider: dict[str, Any] = {}
    if (before := key.get("ranges")) and (ranges := known.get("ranges")) and before != ranges:
        [[low, high]], [[least, greatest]] = ranges, before  # stops the run at several ranges that differ
        merged = [[choose_wider(min, low, least), choose_wider(max, high, greatest)]]
        wider |= {"ranges": merged} if merged != ranges else {}
    if known.get("valid_values") and (extra := set(key.get("valid_values", ())) - set(known["valid_values"])):
        wider["valid_values"] = sorted(extra.union(known["valid_values"]))
    return wider


def choose_wider(
    choose: Callable[[float, float], float], one: float | None, other: float | None
) -> float | None:
    """Return the wider of two limits; None is no limit."""
    return None if one is None or other is None else choose(one, other)


def find_first_versions(firsts: dict[str, list[str]]) -> dict[str, str | None]:
    """Return the minor version that added each config; None if the earliest version has it."""
    earliest = strip_patch(EARLIER[0])
    return {
        name: None if version == earliest else version for version, names in firsts.items() for name in names
    }


def strip_patch(version: str) -> str:
    """Return a version without its patch level."""
    return version.rpartition(".")[0]


def render(newest: dict[str, Any], history: dict[str, Any]) -> str:
    """Render the file: sorted, with each key shortened."""
    document: dict[str, Any] = {
        "kafka_version": newest["kafka_version"],
        "refused_consumers": newest["refused_consumers"],
    }
    for kind in KINDS:
        since = find_first_versions(history["first"][kind])
        document[kind] = {}
        for name, key in (newest[kind] | history["retired"][kind]).items():
            limits = history["limits"][kind].get(name, {})
            narrow = {"newest_ranges": key["ranges"]} if "ranges" in limits else {}
            first = since.get(name, strip_patch(newest["kafka_version"]))
            document[kind][name] = shorten_key(key | limits | narrow | {"since": first})
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def shorten_key(key: dict[str, Any]) -> dict[str, Any]:
    """Shorten a key: without defaults, and with the first sentences of its documentation as plain text."""
    entries = {name: value for name, value in key.items() if name not in USUAL or value != USUAL[name]}
    return entries | {
        "documentation": extract_opening(key["documentation"]),
        "importance": key["importance"].lower(),
    }


def extract_opening(documentation: str) -> str:
    """Return the first two sentences of a documentation, without HTML, lists and later paragraphs."""
    text = re.split(r"<(?:ul|ol|p|br)\b[^>]*>", documentation, maxsplit=1)[0] or documentation
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())
    return " ".join(re.split(r"(?<=[.!?]) (?=[A-Z])", text)[:2])


if __name__ == "__main__":
    sys.exit(main())
