"""One Spark session for the tests of this folder: local, small, started when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.jars.spark import class_archive, connector_jars
from spark_validation.configuration import SessionSettings
from spark_validation.session import start


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with Kafka's connector; tests that need another one run it in a process of its own."""
    archive = class_archive(find_java())
    settings = SessionSettings(
        jars=tuple(connector_jars()),
        master="local[2]",
        memory="1g",
        # Where there is none yet, tests of the command line make one; two at a time would do so for nothing.
        class_archive=archive if archive.exists() else None,
    )
    with start(settings) as session:
        yield session
