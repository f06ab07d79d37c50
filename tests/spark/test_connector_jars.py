from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import click
import pytest

from kafkaform.cli.skew import _spark
from kafkaform.cli.skew_options import SkewOptions
from kafkaform.devcluster.jars.ivy import pyspark_jars
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.jars.spark import class_archive, connector_jars
from spark_validation.configuration import SessionSettings
from tests.support.fake_ivy import FakeIvy

VERSION = metadata.version("pyspark")
CONNECTOR = f"spark-sql-kafka-0-10_2.13-{VERSION}"


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "cache"))
    already = next(jar.stem for jar in pyspark_jars() if jar.name.startswith("scala-library"))
    return FakeIvy(tmp_path / "fake", (CONNECTOR, "kafka-clients-3.9.0", already))


def test_a_session_that_reads_files_has_the_connector_only_if_it_is_there(fake: FakeIvy) -> None:
    """So that the classes prepared for one session serve every other, whichever comes first."""
    java = find_java()

    def settings(**more: Any) -> SessionSettings:
        with click.Context(click.Command("skew")):
            return _spark(SkewOptions(**more))

    assert settings(source="orders.jsonl").jars == ()
    assert fake.runs == 0
    jars = tuple(connector_jars(java=fake.java))
    of_files, of_kafka = settings(source="orders.jsonl"), settings()
    assert of_files.jars == of_kafka.jars == jars
    assert of_files.class_archive == of_kafka.class_archive == class_archive(java)
    own = settings(spark_conf={"spark.jars.packages": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"})
    assert own.jars == ()
    assert own.class_archive == class_archive(java, own_connector=True) != of_kafka.class_archive
    assert settings(source="orders.jsonl", master="spark://host:7077").jars == ()
    assert settings(source="orders.jsonl", remote="sc://host").jars == ()
    assert fake.runs == 1
