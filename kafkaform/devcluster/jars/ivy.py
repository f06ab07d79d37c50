"""Downloads of jars, with the Ivy that ships with PySpark."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from kafkaform.core.errors import JavaError
from kafkaform.core.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from kafkaform.devcluster.jars.java import Java

SETTINGS_VARIABLE = "KAFKAFORM_IVY_SETTINGS"
"""The path of a custom ivysettings.xml, for networks that only reach a mirror."""

# The ibiblio resolver defaults to Maven Central. ~/.m2 is not used, as it may have incomplete artefacts.
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
    """The repository responded, but does not have the artefact."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """A Maven artefact, such as `org.apache.kafka:kafka_2.13:4.3.1`."""

    organisation: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artefacts that are downloaded together with their transitive dependencies.

    Attributes:
        title: The name for messages, such as `Apache Kafka`.
        folder: The folder in the cache, such as `kafka`.
        version: The name of the finished set in that folder.
        dependencies: The artefacts; messages name the first.
    """

    title: str
    folder: str
    version: str
    dependencies: tuple[Dependency, ...]


def list_pyspark_jars() -> list[Path]:
    """List the jars of the installed PySpark, without importing it; none if it is not installed."""
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations if spec else None) or []
    return sorted(jar for location in locations for jar in Path(location).glob("jars/*.jar"))


def find_ivy() -> Path:
    """Return the Ivy jar of the installed PySpark.

    Raises:
        JavaError: PySpark is not installed, or has no Ivy.
    """
    jars = [jar for jar in list_pyspark_jars() if jar.name.startswith("ivy-")]
    if not jars:
        raise JavaError(
            "jars are downloaded with the Ivy of PySpark, which is not installed",
            hint="pip install 'kafkaform[spark]'",
        )
    return jars[-1]


def retrieve(java: Java, ivy: Path, wanted: JarSet, *, into: Path, cache: Path, log: Path) -> None:
    """Copy the jars of a set into the directory `into`.

    Raises:
        NoSuchArtefact: The first dependency does not exist.
        JavaError: A download failed; Ivy's output is in `log`.
    """
    into.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    module = into / "ivy.xml"
    module.write_text(_render_module(wanted), encoding="utf-8")
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
    # Ivy writes hundreds of lines, which help only after a failure.
    with log.open("wb") as stdout:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.STDOUT, check=False
        )
    module.unlink()
    settings.unlink()
    if done.returncode != 0:
        first = wanted.dependencies[0]
        output = log.read_text(encoding="utf-8", errors="replace")
        # Ivy also reports "not found" where it could not reach the server.
        absent = f":: {first.organisation}#{first.name};{first.version}: not found"
        if absent in output and "Server access error" not in output:
            raise NoSuchArtefact(f"Maven Central has no {first}", hint=f"Ivy's output is in {log}")
        raise JavaError(
            f"cannot download {first} from Maven Central",
            hint=f"check the network, which only the first start needs; to use a mirror, set"
            f" {SETTINGS_VARIABLE}; Ivy's output is in {log}",
        )


def _render_module(wanted: JarSet) -> str:
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
