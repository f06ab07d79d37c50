"""Pin the jars of Apache Kafka that `kafkaform dev` downloads: `pin_kafka_jars.py [--cache FOLDER]`.

Writes kafkaform/devcluster/jars/pins.json for the releases of kafkaform/devcluster/releases.py. Ivy, which
PySpark ships, finds the dependencies and downloads them (half a gigabyte) into a folder.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkaform need not be installed

from kafkaform.devcluster.jars.cache import PINS, get_repository
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.releases import RELEASES, parse_minor_version

if TYPE_CHECKING:
    from collections.abc import Sequence

# Kafka logs through SLF4J and ships Log4j 2, but not the binding between them.
LOG_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
# Brokers log with Log4j 2 from 4.0 on (KIP-653); older ones refer to classes of Log4j 1.
LOG4J_1 = "org.apache.logging.log4j:log4j-1.2-api:2.25.4"
LOG4J_2_SINCE = (4, 0)
PATTERN = "[organisation]/[artifact]/[revision]/[artifact]-[revision](-[classifier]).[ext]"
SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <resolvers><ibiblio name="maven" m2compatible="true" root="{root}/"/></resolvers>
</ivysettings>
"""


def main() -> int:
    """Write the pins anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, help="a folder for the downloads, to keep them")
    given = parser.parse_args().cache
    with tempfile.TemporaryDirectory() as temporary:
        folder = given or Path(temporary)
        pins: dict[str, dict[str, Any]] = {}
        for release in RELEASES:
            logging = [LOG_BINDING, *([LOG4J_1] if parse_minor_version(release) < LOG4J_2_SINCE else [])]
            jars = resolve([f"org.apache.kafka:kafka_2.13:{release}", *logging], folder)
            print(f"{release}: {len(jars)} jars")
            for jar in jars:
                content = jar.read_bytes()
                pin = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "kafka": []}
                pins.setdefault(jar.relative_to(folder / "jars").as_posix(), pin)["kafka"].append(release)
    if twice := [name for name, count in Counter(Path(path).name for path in pins).items() if count > 1]:
        sys.exit(f"two jars have the name {twice[0]}, and the cache is one folder")
    lines = ",\n".join(f"{json.dumps(path)}: {json.dumps(pin)}" for path, pin in sorted(pins.items()))
    PINS.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    return 0


def resolve(artefacts: Sequence[str], folder: Path) -> list[Path]:
    """Return the jars of artefacts and of their dependencies, in folder/jars as in a Maven repository."""
    [spark] = (
        importlib.util.find_spec("pyspark") or sys.exit("PySpark is missing")
    ).submodule_search_locations or ()
    [ivy] = Path(spark).glob("jars/ivy-*.jar")
    dependencies = "".join(
        '<dependency org="{}" name="{}" rev="{}"/>'.format(*artefact.split(":")) for artefact in artefacts
    )
    module = (
        '<ivy-module version="2.0"><info organisation="kafkaform" module="jars"/>'
        '<configurations defaultconfmapping="default->default"><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    with tempfile.TemporaryDirectory() as temporary:
        files = {"ivysettings.xml": SETTINGS.format(root=get_repository()), "ivy.xml": module}
        for name, text in files.items():
            Path(temporary, name).write_text(text, "utf-8")
        command = [
            str(find_java().path), "-cp", str(ivy), "org.apache.ivy.Main",
            "-settings", f"{temporary}/ivysettings.xml",
            "-ivy", f"{temporary}/ivy.xml",
            "-cache", str(folder / "ivy"),
            "-retrieve", f"{temporary}/{PATTERN}",
            "-types", "jar", "bundle",  # snappy-java and scala-logging are OSGi bundles
        ]  # fmt: skip
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(run.stdout + run.stderr)
        jars = []
        for jar in Path(temporary).glob("*/*/*/*.jar"):
            organisation, *path = jar.relative_to(temporary).parts
            kept = folder.joinpath("jars", *organisation.split("."), *path)
            kept.parent.mkdir(parents=True, exist_ok=True)
            jars.append(jar.replace(kept))
    return sorted(jars)


if __name__ == "__main__":
    sys.exit(main())
