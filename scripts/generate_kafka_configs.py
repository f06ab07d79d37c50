"""Generate kafkaform/data/kafka_configs.json from Kafka's own jars: `generate_kafka_configs.py [--check]`.

What Kafka accepts for a topic or group config is read out of the classes that the broker itself uses, so
that nothing is typed by hand and a new Kafka version is one run away. A validator of an unknown class stops
the run, lest its rule be lost silently.
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
HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "kafkaform" / "data" / "kafka_configs.json"

# A key says only what is not the usual case.
USUAL: dict[str, object] = {
    "default": None,
    "deprecated": False,
    "empty_allowed": False,
    "internal": False,
    "synonyms": [],
}


def main() -> int:
    """Write the file, or with `--check` say by the exit code whether it is as it should be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--jars", type=Path, help="a folder of Kafka's jars (default: the development cluster's)"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file would change")
    arguments = parser.parse_args()

    text = render(facts(jars_in(arguments.jars)))
    if arguments.check:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        if not same:
            print(f"{TARGET.name} is not what the jars say; run {Path(__file__).name}", file=sys.stderr)
        return 0 if same else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def jars_in(folder: Path | None) -> list[Path]:
    """The jars of Kafka: those of a folder, else those of the development cluster."""
    if folder is not None:
        jars = sorted(folder.glob("*.jar"))
        if not jars:
            sys.exit(f"no jars in {folder}")
        return jars
    sys.path.insert(0, str(HERE.parent))  # so that it runs in a checkout that is not installed
    from kafkaform.devcluster.jars import kafka_classpath

    return list(kafka_classpath(version=KAFKA_VERSION))


def facts(jars: list[Path]) -> dict[str, Any]:
    """What the Java half prints: Java 17 runs a single source file without a build."""
    java = shutil.which("java")
    if java is None:
        sys.exit("java is not on the PATH; Java 17 or newer is needed")
    classpath = os.pathsep.join(str(jar) for jar in jars)
    run = subprocess.run(
        [java, "-cp", classpath, str(HERE / "KafkaConfigs.java")], capture_output=True, text=True, check=False
    )
    if run.returncode != 0:
        sys.exit(run.stderr)
    printed: dict[str, Any] = json.loads(run.stdout)
    return printed


def render(raw: dict[str, Any]) -> str:
    """The file's text: sorted, and each key without what is usual."""
    document = {
        "kafka_version": raw["kafka_version"],
        "retired_topics": raw["retired_topics"],
        **{kind: {name: terse(key) for name, key in raw[kind].items()} for kind in ("groups", "topics")},
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
