"""Fetching jars with the Ivy that ships inside PySpark."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from kafkaform.core.errors import JavaError

if TYPE_CHECKING:
    from kafkaform.devcluster.jars.java import Java

SETTINGS_VARIABLE = "KAFKAFORM_IVY_SETTINGS"
"""Names an ivysettings.xml of one's own, for networks that only reach a mirror."""

# The ibiblio resolver's own default is Maven Central. A user's ~/.m2, which may be half filled, is not asked.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="bounded" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" timeoutConstraint="bounded"/>
  </resolvers>
</ivysettings>
"""


class NoSuchArtefact(JavaError):  # noqa: N818
    """The repository answers, and does not have what is wanted."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A Maven artefact; written `org.apache.kafka:kafka_2.13:4.3.1`."""

    organisation: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artefacts that are fetched together with all they need.

    Attributes:
        title: For people, such as `Apache Kafka`.
        folder: Of the cache, such as `kafka`.
        version: Names the finished set in it.
        dependencies: What is wanted; the first is named in messages.
    """

    title: str
    folder: str
    version: str
    dependencies: tuple[Dependency, ...]


def pyspark_jars() -> list[Path]:
    """The jars of the installed PySpark, which is not imported; none if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations if spec else None) or []
    return sorted(jar for location in locations for jar in Path(location).glob("jars/*.jar"))


def find_ivy() -> Path:
    """The Ivy jar of the installed PySpark.

    Raises:
        JavaError: PySpark is not installed, or holds no Ivy.
    """
    jars = [jar for jar in pyspark_jars() if jar.name.startswith("ivy-")]
    if not jars:
        raise JavaError(
            "jars are downloaded with a part of PySpark, which is not installed",
            hint="pip install 'kafkaform[spark]'",
        )
    return jars[-1]


def retrieve(java: Java, ivy: Path, wanted: JarSet, *, into: Path, cache: Path, log: Path) -> None:
    """Copy the jars of a set into the directory `into`.

    Raises:
        NoSuchArtefact: The first dependency does not exist.
        JavaError: Something could not be fetched; Ivy's words are in `log`.
    """
    into.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    module = into / "ivy.xml"
    module.write_text(_module(wanted), encoding="utf-8")
    settings = into / "ivysettings.xml"
    settings.write_text(_SETTINGS, encoding="utf-8")
    command = [
        str(java.path), "-cp", str(ivy), "org.apache.ivy.Main",
        "-settings", os.environ.get(SETTINGS_VARIABLE) or str(settings),
        "-ivy", str(module),
        "-cache", str(cache),
        "-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]",
        "-types", "jar", "bundle",  # snappy-java and scala-logging are OSGi bundles
        "-confs", "default",
    ]  # fmt: skip
    with log.open("wb") as output:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    module.unlink()
    settings.unlink()
    if done.returncode != 0:
        first = wanted.dependencies[0]
        told = log.read_text(encoding="utf-8", errors="replace")
        # What Ivy could not ask for counts as not found, too.
        absent = f":: {first.organisation}#{first.name};{first.version}: not found"
        if absent in told and "Server access error" not in told:
            raise NoSuchArtefact(f"Maven Central has no {first}", hint=f"Ivy's output is in {log}")
        raise JavaError(
            f"{wanted.dependencies[0]} could not be downloaded from Maven Central",
            hint=f"the first use needs the network, later ones do not; to use a mirror, set"
            f" {SETTINGS_VARIABLE}; Ivy's output is in {log}",
        )


def _module(wanted: JarSet) -> str:
    lines = [
        f"    <dependency org={quoteattr(d.organisation)} name={quoteattr(d.name)}"
        f" rev={quoteattr(d.version)}/>"
        for d in wanted.dependencies
    ]
    listed = "\n".join(lines)
    return f"""<ivy-module version="2.0">
  <info organisation="kafkaform" module="jars"/>
  <configurations defaultconfmapping="default->default"><conf name="default"/></configurations>
  <dependencies>
{listed}
  </dependencies>
</ivy-module>
"""
