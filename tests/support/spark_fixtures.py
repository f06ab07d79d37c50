"""One Spark session for all tests: local, small, started by the first test that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkaform.jars.spark import connector_jars
from spark_validation.session import SessionSettings, start

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SPARK = "spark"
"""The fixture's name."""

SPARK_FILES = frozenset(
    {
        "test_measure.py",
        "test_skew_files.py",
        "test_skew_session.py",
        "test_skew_source.py",
        "test_skew_submit.py",
        "test_skew_truth.py",
    }
)
"""The files with tests that use it: one worker runs them all, as a session takes a core and 1 GiB."""

LEAKS = (
    # PySpark leaves the sockets through which it collects rows to the garbage collector.
    r"ignore:unclosed <socket\.socket .*127\.0\.0\.1:ResourceWarning",
    r"ignore:.*<socket\.socket .*127\.0\.0\.1:pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with Kafka's connector; tests that need another one run it in a process of its own."""
    settings = SessionSettings(jars=tuple(connector_jars()), master="local[2]", memory="1g")
    with start(settings) as session:
        yield session
