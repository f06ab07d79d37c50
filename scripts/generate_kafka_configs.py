"""Generate kafkaform/core/data/kafka_configs.json from Kafka's jars: `generate_kafka_configs.py [--check]`.

What Kafka accepts for a topic, group or consumer config is read out of the classes that broker and client
themselves use, so that nothing is typed by hand and a new Kafka version is one run away. A validator of an
unknown class stops the run, lest its rule be lost silently.

Since which version a config exists is told by the jars of earlier versions: `--history` fetches them (half
a gigabyte) and writes their names into kafka_history.json, which the other runs read. Before raising
KAFKA_VERSION to a new minor version, add the old one to EARLIER.
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

KAFKA_VERSION = "4.3.1"
EARLIER = ("3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.0", "4.1.0", "4.2.0")
"""One release of each earlier minor version, from 3.3 on, the first that is fit for production with KRaft."""
HERE = Path(__file__).resolve().parent
HISTORY = HERE / "kafka_history.json"
TARGET = HERE.parent / "kafkaform" / "core" / "data" / "kafka_configs.json"

KINDS = ("consumers", "groups", "topics")

# A key says only what is not the usual case.
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
    """Write the file, or with `--check` say by the exit code whether it is as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--jars", type=Path, help="a folder of Kafka's jars (default: the development cluster's)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file would change")
    parser.add_argument("--history", action="store_true", help="read the jars of earlier versions anew")
    arguments = parser.parse_args()

    if arguments.history:
        HISTORY.write_text(json.dumps(history(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    text = render(printed("KafkaConfigs.java", jars_in(arguments.jars)), first_seen())
    if arguments.check:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        if not same:
            print(f"{TARGET.name} is not what the jars say; run {Path(__file__).name}", file=sys.stderr)
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def jars_in(folder: Path | None, version: str = KAFKA_VERSION) -> list[Path]:
    """The jars of Kafka: those of a folder, else those of a development cluster of this version."""
    if folder is not None:
        jars = sorted(folder.glob("*.jar"))
        if not jars:
            sys.exit(f"no jars in {folder}")
        return jars
    sys.path.insert(0, str(HERE.parent))  # so that it runs in a checkout that is not installed
    from kafkaform.devcluster.jars.cache import kafka_classpath

    return list(kafka_classpath(version=version))


def printed(source: str, jars: list[Path]) -> dict[str, Any]:
    """What a Java source beside this file prints: Java 17 runs a single file without a build."""
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


def history() -> dict[str, dict[str, list[str]]]:
    """For each kind of config and each earlier version, the names that it was the first to have."""
    found: dict[str, dict[str, list[str]]] = {kind: {} for kind in KINDS}
    for version in EARLIER:
        names = printed("KafkaNames.java", jars_in(None, version))
        for kind, firsts in found.items():
            firsts[minor(version)] = sorted(set(names[kind]).difference(*firsts.values()))
    return found


def first_seen() -> dict[str, dict[str, str | None]]:
    """The minor version that each config of an earlier version came with; None where all of them have it."""
    recorded: dict[str, dict[str, list[str]]] = json.loads(HISTORY.read_text(encoding="utf-8"))
    return {
        kind: {
            name: None if version == minor(EARLIER[0]) else version
            for version, names in firsts.items()
            for name in names
        }
        for kind, firsts in recorded.items()
    }


def minor(version: str) -> str:
    """The version without its patch level."""
    return version.rpartition(".")[0]


def render(raw: dict[str, Any], seen: dict[str, dict[str, str | None]]) -> str:
    """The file's text: sorted, and each key without what is usual."""
    newest = minor(raw["kafka_version"])
    document = {
        "kafka_version": raw["kafka_version"],
        "retired_topics": raw["retired_topics"],
        "refused_consumers": raw["refused_consumers"],
        **{
            kind: {
                name: terse(key | {"since": seen[kind].get(name, newest)}) for name, key in raw[kind].items()
            }
            for kind in KINDS
        },
    }
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def terse(key: dict[str, Any]) -> dict[str, Any]:
    """One key, with plain short documentation."""
    said = {name: value for name, value in key.items() if name not in USUAL or value != USUAL[name]}
    return said | {"documentation": opening(key["documentation"]), "importance": key["importance"].lower()}


def opening(documentation: str) -> str:
    """The first two sentences of a documentation, without HTML, lists and later paragraphs."""
    text = re.split(r"<(?:ul|ol|p|br)\b[^>]*>", documentation, maxsplit=1)[0] or documentation
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())
    return " ".join(re.split(r"(?<=[.!?]) (?=[A-Z])", text)[:2])


if __name__ == "__main__":
    sys.exit(main())
