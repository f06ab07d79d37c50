"""Generate kafkaform/core/data/kafka_configs.json from Kafka's jars: `generate_kafka_configs.py [--check]`.

The valid values of topic, group and consumer configs are read from the classes that brokers and clients use,
so that nothing is maintained by hand and a new Kafka version needs one run. A validator of an unknown class
stops the run, so that its rule is not lost silently.

The first version of each config is read from the jars of earlier versions: `--history` downloads them (half a
gigabyte) and writes the names of their configs to kafka_history.json, which the other runs read.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkaform need not be installed

from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.releases import KAFKA_VERSION, RELEASES, needs_zookeeper

HERE = Path(__file__).resolve().parent
EARLIER = [version for version in RELEASES if version != KAFKA_VERSION and not needs_zookeeper(version)]
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

    if arguments.history:
        HISTORY.write_text(json.dumps(read_history(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    text = render(run_java("KafkaConfigs.java", find_jars(arguments.jars)), find_first_versions())
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


def run_java(source: str, jars: list[Path]) -> dict[str, Any]:
    """Run a Java source beside this file, which Java 17 does without a build, and parse its JSON output."""
    java = shutil.which("java")
    if java is None:
        sys.exit("java is not on the PATH; Java 17 or newer is needed")
    classpath = os.pathsep.join(str(jar) for jar in jars)
    run = subprocess.run(
        [java, "-cp", classpath, str(HERE / source)], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        sys.exit(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


def read_history() -> dict[str, dict[str, list[str]]]:
    """Return the names of new configs, by kind and earlier version."""
    history: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    for version in EARLIER:
        names = run_java("KafkaNames.java", find_jars(None, version))
        for kind, firsts in history.items():
            firsts[strip_patch(version)] = sorted(set(names[kind]).difference(*firsts.values()))
    return history


def find_first_versions() -> dict[str, dict[str, str | None]]:
    """Return the minor version that added each config; None if the earliest version has it."""
    recorded: dict[str, dict[str, list[str]]] = json.loads(HISTORY.read_text(encoding="utf-8"))
    return {
        kind: {
            name: None if version == strip_patch(EARLIER[0]) else version
            for version, names in firsts.items()
            for name in names
        }
        for kind, firsts in recorded.items()
    }


def strip_patch(version: str) -> str:
    """Return a version without its patch level."""
    return version.rpartition(".")[0]


def render(raw: dict[str, Any], seen: dict[str, dict[str, str | None]]) -> str:
    """Render the file: sorted, with each key shortened."""
    newest = strip_patch(raw["kafka_version"])
    document = {
        "kafka_version": raw["kafka_version"],
        "retired_topics": raw["retired_topics"],
        "refused_consumers": raw["refused_consumers"],
        **{
            kind: {
                name: shorten_key(key | {"since": seen[kind].get(name, newest)})
                for name, key in raw[kind].items()
            }
            for kind in KINDS
        },
    }
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
