"""Fetching jars with the Ivy that ships inside PySpark."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from kafkaform.errors import DevClusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.devcluster.java import Java

SETTINGS_VARIABLE = "KAFKAFORM_IVY_SETTINGS"
"""Names an ivysettings.xml of one's own, for networks that only reach a mirror."""

# The ibiblio resolver's own default is Maven Central.
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


@dataclass(frozen=True, slots=True)
class Dependency:
    """A Maven artefact; written `org.apache.kafka:kafka_2.13:4.3.1`."""

    organisation: str
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.version}"


def find_ivy() -> Path:
    """The Ivy jar of the installed PySpark, which is not imported.

    Raises:
        DevClusterError: PySpark is not installed, or holds no Ivy.
    """
    spec = importlib.util.find_spec("pyspark")
    locations = (spec.submodule_search_locations if spec else None) or []
    jars = sorted(jar for location in locations for jar in Path(location).glob("jars/ivy-*.jar"))
    if not jars:
        raise DevClusterError(
            "the development cluster fetches Kafka with a part of PySpark, which is not installed",
            hint="pip install 'kafkaform[spark]'",
        )
    return jars[-1]


def retrieve(
    java: Java, ivy: Path, dependencies: Sequence[Dependency], *, into: Path, cache: Path, log: Path
) -> None:
    """Copy the jars of `dependencies`, and all they need, into the directory `into`.

    Raises:
        DevClusterError: Something could not be fetched; Ivy's words are in `log`.
    """
    into.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    module = into / "ivy.xml"
    module.write_text(_module(dependencies), encoding="utf-8")
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
        raise DevClusterError(
            f"{dependencies[0]} could not be fetched from Maven Central",
            hint=f"the first use needs the network, later ones do not; what Ivy said is in {log}",
        )


def _module(dependencies: Sequence[Dependency]) -> str:
    lines = "\n".join(
        f"    <dependency org={quoteattr(d.organisation)}"
        f" name={quoteattr(d.name)} rev={quoteattr(d.version)}/>"
        for d in dependencies
    )
    return f"""<ivy-module version="2.0">
  <info organisation="kafkaform" module="devcluster"/>
  <configurations defaultconfmapping="default->default"><conf name="default"/></configurations>
  <dependencies>
{lines}
  </dependencies>
</ivy-module>
"""
