"""What spark-submit runs: topics of one cluster to a report in a file.

It finds out by itself, through the Kafka client of Spark's JVM, what the command line of kafkaform asks
clients of its own for. Spark's settings are spark-submit's.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from spark_validation import __version__
from spark_validation.admin import admin, java_properties
from spark_validation.arguments import job_settings, parser
from spark_validation.configuration import is_local, session_settings
from spark_validation.document import to_json
from spark_validation.errors import JobFailed, SkewError
from spark_validation.hadoop_files import write
from spark_validation.job import run_topic
from spark_validation.redaction import secrets
from spark_validation.results import Limits, Report
from spark_validation.shipping import zipped
from spark_validation.translation import chain, translated

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

FAILED = 1

# What Spark's source sets itself, and refuses from others.
_SPARKS_OWN = (
    "auto.offset.reset",
    "client.id",
    "enable.auto.commit",
    "group.id",
    "group.instance.id",
    "interceptor.classes",
    "isolation.level",
    "key.deserializer",
    "value.deserializer",
)


def run(arguments: Sequence[str]) -> int:
    """Analyse topics and write the report.

    Returns:
        0; or 1 after one line to stderr, and a hint if there is one. Then no report is written.

    Raises:
        SystemExit: The arguments are wrong.
    """
    given = parser().parse_args(arguments)
    try:
        with _session() as spark:
            write_report(spark, given)
    except SkewError as error:
        hint = f"hint: {error.hint}\n" if error.hint else ""
        sys.stderr.write(f"error: {error.message}\n{hint}")
        return FAILED
    return 0


@contextmanager
def _session() -> Iterator[SparkSession]:
    """The session of spark-submit's driver."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    wanted = session_settings(dict(SparkConf().getAll()))
    spark = SparkSession.builder.appName("kafkaform skew").config(map=dict(wanted)).getOrCreate()
    try:
        with TemporaryDirectory(prefix="kafkaform-spark-") as folder:
            if not is_local(spark.conf.get("spark.master")):
                spark.sparkContext.addPyFile(str(zipped(Path(folder))))
            yield spark
    finally:
        spark.stop()


def write_report(spark: SparkSession, given: argparse.Namespace) -> None:
    """Analyse the topics, and write the report once all of them are done.

    Raises:
        SkewError: One of them cannot be analysed, or the report not be written.
    """
    kafka = _client_properties(spark, given)
    settings = job_settings(given)
    hide = secrets(kafka)
    with _one_line("the brokers", hide), admin(spark, kafka) as client:
        cluster_id = client.cluster_id()
        spans = {}
        for topic in sorted({*given.topics}):
            with _one_line(topic, hide):
                spans[topic] = client.spans(topic, since_ms=settings.since_ms)
        results = []
        for topic, found in spans.items():
            with _one_line(topic, hide):
                now = partial(client.spans, topic)
                result = run_topic(spark, topic, found, kafka, settings, limits=Limits(), spans_now=now)
                results.append(result)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = Report(__version__, cluster_id, given.cluster_name, created, tuple(results))
    try:
        write(spark, given.output, to_json(report))
    except Exception as error:
        if not (causes := chain(error)):
            raise
        raise JobFailed(
            f"the report cannot be written to {given.output}: {causes[0].line}",
            hint="give a path that the driver's Hadoop configuration knows, and that this account may write",
        ) from error


def _client_properties(spark: SparkSession, given: argparse.Namespace) -> dict[str, str]:
    kafka: dict[str, str] = {}
    if given.command_config:
        try:
            text = Path(given.command_config).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise JobFailed(
                f"cannot read {given.command_config}: {reason}",
                hint="on a cluster, hand it to the driver: spark-submit --files client.properties",
            ) from error
        kafka = java_properties(spark, text)
    if given.bootstrap_server:
        kafka["bootstrap.servers"] = given.bootstrap_server
    if not kafka.get("bootstrap.servers"):
        raise JobFailed("no broker's address is given", hint="give --bootstrap-server HOST:PORT")
    for name in _SPARKS_OWN:
        if kafka.pop(name, None) is not None:
            sys.stderr.write(f"note: {name} in {given.command_config} is not used: Spark sets it itself\n")
    return kafka


@contextmanager
def _one_line(topic: str, hide: frozenset[str]) -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise translated(error, topic=topic, secrets=hide) from None
