"""Spark's Kafka connector, in the version of the installed PySpark, which is not imported."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from kafkaform.core.errors import JavaError
from kafkaform.core.progress import Progress, silent
from kafkaform.devcluster.jars.cache import fetched
from kafkaform.devcluster.jars.ivy import Dependency, JarSet, pyspark_jars

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java

# PySpark has these, or better ones.
_EXCLUDED = (
    ("org.slf4j", "slf4j-api"),
    ("org.apache.hadoop", "hadoop-client-api"),
    ("org.apache.hadoop", "hadoop-client-runtime"),
)


def connector_jars(*, java: Java | None = None, progress: Progress = silent) -> list[Path]:
    """The jars that Spark needs to read Kafka, beside its own; fetched on first use.

    Args:
        java: Runs the download; looked for when needed.
        progress: Told when a download begins, as it takes a while.

    Raises:
        JavaError: PySpark is not installed, or the jars are not there and cannot be fetched.
    """
    return _beside_pyspark(fetched(_connector(), java=java, progress=progress))


def _connector() -> JarSet:
    connector = Dependency("org.apache.spark", "spark-sql-kafka-0-10_2.13", _pyspark_version())
    return JarSet("Spark's Kafka connector", "spark", connector.version, (connector,), _EXCLUDED)


def _beside_pyspark(jars: Sequence[Path]) -> list[Path]:
    there = {jar.name for jar in pyspark_jars()}
    return [jar for jar in jars if jar.name not in there]


def _pyspark_version() -> str:
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise JavaError(
            "key skew is measured with Spark, but PySpark is not installed",
            hint="pip install 'kafkaform[spark]'",
        ) from None
