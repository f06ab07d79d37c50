r"""The file for spark-submit: from topics of one cluster to a report in a file.

spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 spark_validation/submit.py \
        --bootstrap-server host:9092 --topic orders.v1 --output hdfs:///reports/orders.json

Spark's settings are spark-submit's. Offsets and sizes, for which the command line of kafkaform has clients of
its own, are read through the Kafka client of Spark's JVM.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__" and sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    # Python looks for modules beside the file that it runs, but the package is one folder up.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import argparse
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

from py4j.protocol import Py4JJavaError

from spark_validation import __version__
from spark_validation.admin import admin, java_properties
from spark_validation.configuration import is_local, secrets, session_settings, zipped
from spark_validation.errors import JobFailed, SkewError, java_causes, translated
from spark_validation.job import RECORDS, JobSettings, run_topic
from spark_validation.results import SkewLimits, SkewReport, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession


WRONG_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage()
        self.exit(WRONG_USAGE, f"error: {message}\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = _Parser(
        prog="spark_validation", description="Measure how evenly keys spread over partitions."
    )
    add = arguments.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="brokers; also from the command config")
    add("--command-config", metavar="FILE", help="properties of Kafka's Java clients; secrets stay in it")
    add("--topic", action="append", required=True, dest="topics", help="may be given several times")
    add(
        "--output",
        required=True,
        metavar="PATH",
        help="where to write the report: any path that Hadoop supports",
    )
    add("--cluster-name", help="the cluster's name in the report")
    size = arguments.add_mutually_exclusive_group()
    size.add_argument("--records", type=_count, default=RECORDS, help="sample size (default: %(default)s)")
    size.add_argument("--full", action="store_true", help="read every record")
    add("--precision", type=_share, help="the half-width of a share's interval to aim for, such as 0.01")
    add("--since-ms", type=int, help="only records since this time, in milliseconds since 1970")
    add("--seed", type=int, default=0, help="seed of the random positions (default: %(default)s)")
    add("--what-if", type=_counts, default=(), metavar="N,N", help="partition counts to predict")
    add("--show-keys", action="store_true", help="report the keys themselves, not only their hashes")
    return arguments


def job_settings(given: argparse.Namespace) -> JobSettings:
    """Return the settings that the arguments give."""
    return JobSettings(
        records=given.records,
        seed=given.seed,
        full=given.full,
        precision=given.precision,
        what_if=given.what_if,
        show_keys=given.show_keys,
        since_ms=given.since_ms,
    )


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _share(text: str) -> float:
    if not 0.0 < (value := float(text)) < 1.0:
        raise argparse.ArgumentTypeError(f"{text} must be between 0 and 1")
    return value


_NO_CONTEXT = "org.apache.hadoop.fs.UnsupportedFileSystemException"


def write(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, or put it in another one's place: whoever looks sees the old one or the new one, whole.

    Args:
        spark: Of a JVM that can be reached.
        path: A path or URI; without a scheme it is of the file system that Hadoop is configured for.
        text: Written as UTF-8.

    Raises:
        Py4JJavaError: The file system refused.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's documented way to the JVM's own classes
    hadoop = jvm.org.apache.hadoop
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    target = hadoop.fs.Path(path)
    system = hadoop.fs.FileSystem.newInstance(target.toUri(), configuration)
    try:
        # Local files would have a companion with their checksum, which is nobody's report.
        system.setWriteChecksum(False)
        target = system.makeQualified(target)
        unfinished = hadoop.fs.Path(target.getParent(), f".{target.getName()}.{uuid.uuid4().hex[:12]}")
        try:
            stream = system.create(unfinished)
            try:
                stream.write(bytearray(text.encode("utf-8")))
            finally:
                stream.close()
            _replace(spark, system, unfinished, target)
        finally:
            if system.exists(unfinished):
                system.delete(unfinished, False)
    finally:
        system.close()


def _replace(spark: SparkSession, system: Any, source: Any, target: Any) -> None:
    """Rename a file over another one: in one step wherever the file system can."""
    jvm: Any = spark._jvm  # noqa: SLF001
    fs = jvm.org.apache.hadoop.fs
    rename = getattr(fs, "Options$Rename")
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    options = gateway.new_array(rename, 1)
    options[0] = rename.OVERWRITE
    try:
        context = fs.FileContext.getFileContext(target.toUri(), system.getConf())
        context.rename(source, target, options)
    except Py4JJavaError as error:
        if not any(_NO_CONTEXT in cause.names for cause in java_causes(error)):
            raise
        system.delete(target, False)
        if not system.rename(source, target):
            raise JobFailed(f"{source} could not be renamed to {target}") from error


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
                spans_now = partial(client.spans, topic)
                result = run_topic(
                    spark, topic, found, kafka, settings, limits=SkewLimits(), spans_now=spans_now
                )
                results.append(result)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = SkewReport(__version__, cluster_id, given.cluster_name, created, tuple(results))
    try:
        write(spark, given.output, to_json(report))
    except Exception as error:
        if not (causes := java_causes(error)):
            raise
        raise JobFailed(
            f"the report cannot be written to {given.output}: {causes[0].line}",
            hint="give a path that the driver's Hadoop configuration supports and this account may write to",
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
                hint="on a cluster, pass it to the driver: spark-submit --files client.properties",
            ) from error
        kafka = java_properties(spark, text)
    if given.bootstrap_server:
        kafka["bootstrap.servers"] = given.bootstrap_server
    if not kafka.get("bootstrap.servers"):
        raise JobFailed("no broker address is given", hint="give --bootstrap-server HOST:PORT")
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


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
