"""One Spark session for the tests of this folder: local, small, started when it is asked for."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession

from spark_validation.configuration import SessionSettings
from spark_validation.session import start


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session; tests that need another one run it in a process of its own."""
    settings = SessionSettings(master="local[2]", memory="1g")
    with start(settings) as session:
        yield session


@pytest.fixture(scope="module")
def one_session(spark: SparkSession) -> Iterator[None]:
    """`kafkaform skew` in this process has that session, too: to start another takes 15 s of CPU time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_validation.session.start", lambda _: nullcontext(spark))
        yield
