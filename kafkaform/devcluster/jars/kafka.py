"""The jars that an Apache Kafka broker runs with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.progress import Progress, silent
from kafkaform.devcluster.jars.cache import fetched
from kafkaform.devcluster.jars.ivy import Dependency, JarSet

if TYPE_CHECKING:
    from pathlib import Path

    from kafkaform.devcluster.jars.java import Java

KAFKA_VERSION = "4.3.1"

# Kafka logs through SLF4J and comes with log4j2, but without what ties one to the other.
_LOG_BINDING = Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")


def kafka_classpath(
    version: str = KAFKA_VERSION, *, java: Java | None = None, progress: Progress = silent
) -> list[Path]:
    """The jars that a broker of this version runs with, fetched on first use.

    Args:
        version: Of Apache Kafka.
        java: Runs the download; looked for when needed.
        progress: Told when a download begins, as it takes a minute.

    Raises:
        JavaError: The jars are not there and cannot be fetched.
    """
    broker = Dependency("org.apache.kafka", "kafka_2.13", version)
    wanted = JarSet("Apache Kafka", "kafka", version, (broker, _LOG_BINDING))
    return fetched(wanted, java=java, progress=progress)
