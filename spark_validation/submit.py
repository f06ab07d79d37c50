r"""The file for spark-submit: from topics of one cluster to a report in a file.

spark-submit spark_validation/submit.py --bootstrap-server host:9092 orders.v1 \
        --out hdfs:///reports/orders.json

Spark's settings are spark-submit's.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__" and sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
    # Python looks for modules beside the file that it runs, but the package is one folder up.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import argparse
import json
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn

from py4j.protocol import Py4JJavaError

from spark_validation import __version__
from spark_validation.analysis import LogFacts
from spark_validation.arrivals import find_arrivals
from spark_validation.configuration import is_local, session_settings, zip_package
from spark_validation.errors import JobFailed, SkewError, find_changed_topics, java_causes
from spark_validation.job import TopicRequest, run_topics
from spark_validation.kafka_client import READERS_OWN, OffsetReader
from spark_validation.metrics import FORMATS, MetricsTable, metric_rows
from spark_validation.options import OPTIONS, build_job, find_contradictions
from spark_validation.policy import is_inconclusive, judge, limits_of
from spark_validation.results import SkewLimits, SkewReport, TopicResult, to_json
from spark_validation.session import hide_pandas_warning
from spark_validation.text_files import read_file
from spark_validation.time_search import LogEnds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_validation.windows import Span


# EX_USAGE of sysexits.h: argparse's own 2 is the code of a broken policy here.
WRONG_USAGE = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage()
        self.exit(WRONG_USAGE, f"error: {message.removeprefix('argument ')}\n")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line, in which topics and options may have any order; raises SystemExit."""
    parser = _Parser(
        prog="spark_validation", description="Measure how evenly written records spread over partitions."
    )
    add = parser.add_argument
    add("topics", nargs="*", metavar="TOPIC", help="Default: the topics that have a policy.")
    add("--bootstrap-server", metavar="HOST:PORT", help="The brokers; also from the command config.")
    add("--command-config", metavar="FILE", help="Client properties by librdkafka's names, such as secrets.")
    add(
        "--policy",
        action="append",
        type=_convert(_parse_policy),
        default=[],
        dest="policies",
        metavar="TOPIC:LIMIT=N,...",
        help="The skew policy of a topic as in its manifest (repeatable), such as"
        " orders.v1:maxPartitionRatio=2,maxKeyShare=0.05,by=bytes.",
    )
    add(
        "--policies",
        type=_convert(_read_policies),
        default={},
        dest="policy_file",
        metavar="FILE",
        help='Policies as JSON, such as {"orders.v1": {"maxPartitionRatio": 2}}.',
    )
    add("-o", "--out", required=True, metavar="FILE", help="The report: any path that Hadoop supports.")
    for flag, metavar, explanation, parse in OPTIONS:
        if metavar is None:
            add(flag, action="store_true", help=explanation)
        else:
            add(flag, metavar=metavar, type=_convert(parse), help=explanation)
    add("--history-format", choices=FORMATS, help=f"Of that table.  [default: {FORMATS[0]}]")
    add("--cluster-name", metavar="NAME", help="The cluster's name in the report.")
    given = parser.parse_intermixed_args(arguments)
    for contradiction in find_contradictions(given):
        parser.error(contradiction)
    if not (given.topics or given.policies or given.policy_file):
        parser.error("give a TOPIC, or a topic with a --policy")
    return given


def _convert(parse: Callable[[str], object]) -> Callable[[str], object]:
    """Return a type of argparse, which shows the reason of this error only."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def _parse_policy(text: str) -> tuple[str, SkewLimits]:
    topic, colon, limits = text.partition(":")
    if not topic or not colon:
        raise ValueError(f"{text} is not TOPIC:LIMIT=N,...")
    return topic, _parse_limits(topic, dict(part.partition("=")[::2] for part in limits.split(",")))


def _read_policies(file: str) -> dict[str, SkewLimits]:
    try:
        document = json.loads(read_file(file))
    except OSError as error:
        raise ValueError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON: {error}") from error
    if not isinstance(document, dict) or not all(isinstance(policy, dict) for policy in document.values()):
        raise ValueError(f'{file} is not of the form {{"TOPIC": {{"LIMIT": N}}}}')
    return {topic: _parse_limits(topic, policy) for topic, policy in document.items()}


def _parse_limits(topic: str, policy: Mapping[str, object]) -> SkewLimits:
    """Return the limits of a policy, by the names and within the bounds of a manifest."""
    try:
        return limits_of(policy)
    except ValueError as error:
        raise ValueError(f"the policy of {topic}: {error}") from error


_NO_CONTEXT = "org.apache.hadoop.fs.UnsupportedFileSystemException"


def write(spark: SparkSession, path: str, text: str) -> None:
    """Write a file, or replace one: readers see the old one or the new one, complete.

    Args:
        spark: A session whose JVM can be reached.
        path: A path or URI; without a scheme it is of the file system that Hadoop is configured for.
        text: The content, written as UTF-8.

    Raises:
        Py4JJavaError: The file system refused.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's documented way to the JVM's own classes
    hadoop = jvm.org.apache.hadoop
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    target = hadoop.fs.Path(path)
    # FileSystem.get returns an instance that Spark shares, and close() would close that one, too.
    system = hadoop.fs.FileSystem.newInstance(target.toUri(), configuration)
    try:
        # Without this, local files get a companion file with their checksum.
        system.setWriteChecksum(False)
        target = system.makeQualified(target)
        # Hadoop's readers skip files whose names begin with a dot.
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
    # A nested class of Java, which Python cannot write as an attribute.
    rename = getattr(fs, "Options$Rename")
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    # rename takes variable arguments, which Py4J passes only as an array.
    options = gateway.new_array(rename, 1)
    options[0] = rename.OVERWRITE
    try:
        context = fs.FileContext.getFileContext(target.toUri(), system.getConf())
        context.rename(source, target, options)
    except Py4JJavaError as error:
        if not any(_NO_CONTEXT in cause.names for cause in java_causes(error)):
            raise
        # Only a FileContext can rename over a file, and this file system has none: two steps instead.
        system.delete(target, False)
        if not system.rename(source, target):
            raise JobFailed(f"{source} could not be renamed to {target}") from error


FAILED = 1
BEYOND_POLICY = 2


def run(arguments: Sequence[str]) -> int:
    """Analyse topics and write the report.

    Returns:
        2 where a topic surely breaks its policy; 1 where a topic could not be analysed (stderr has the
        reason) or the report could not be written; else 0.

    Raises:
        SystemExit: The arguments are wrong.
    """
    given = parse_arguments(arguments)
    try:
        with hide_pandas_warning(), _session() as spark:
            return write_report(spark, given)
    except SkewError as error:
        hint = f"hint: {error.hint}\n" if error.hint else ""
        sys.stderr.write(f"error: {error.message}\n{hint}")
        return FAILED


@contextmanager
def _session() -> Iterator[SparkSession]:
    """Start the session of spark-submit's driver, and stop it afterwards."""
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    wanted = session_settings(dict(SparkConf().getAll()))
    spark = SparkSession.builder.appName("kafkaform skew").config(map=dict(wanted)).getOrCreate()
    try:
        with TemporaryDirectory(prefix="kafkaform-spark-") as folder:
            if not is_local(spark.conf.get("spark.master")):
                # Executors on other machines do not have this package.
                spark.sparkContext.addPyFile(str(zip_package(Path(folder))))
            yield spark
    finally:
        spark.stop()


def write_report(spark: SparkSession, given: argparse.Namespace) -> int:
    """Analyse the topics, and write the report of those that have results.

    Returns:
        The exit code that `run` returns.

    Raises:
        SkewError: None of them can be analysed, or the report cannot be written.
    """
    policies = {**given.policy_file, **dict(given.policies)}
    topics = sorted({*(given.topics or policies)})
    table = MetricsTable(given.history, given.history_format or FORMATS[0]) if given.history else None
    # Before records are read: a table of other columns must not cost a whole measurement.
    if table is not None:
        table.check(spark)
    kafka = client_properties(given)
    job = build_job(given)
    admin = OffsetReader(kafka)
    cluster_id = admin.cluster_id()
    ids = admin.topic_ids(topics)
    kept, unread = admin.spans(topics)
    requests = list(_make_requests(admin, kept, policies, given.since))
    read = run_topics(spark, requests, kafka, job, spans_now=partial(_read_spans, admin, ids))
    results, failed = _judge({**unread, **read}, policies)
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    report = SkewReport(__version__, cluster_id, given.cluster_name, created, results)
    _write_json(spark, given, report)
    if table is not None:
        table.append(spark, metric_rows(report))
    # A report that lacks a topic matters more than a verdict on the others.
    if failed or any(map(is_inconclusive, results)):
        return FAILED
    return BEYOND_POLICY if any(result.policy and result.policy.status == "fail" for result in results) else 0


def _read_spans(
    admin: OffsetReader, ids: Mapping[str, str], topics: Sequence[str]
) -> Mapping[str, Sequence[Span] | SkewError]:
    """Read the spans of topics once more; one that was deleted and made again since gets an error."""
    spans, _ = admin.spans(topics)
    return {**spans, **find_changed_topics(ids, admin.topic_ids(topics))}


def _make_requests(
    admin: OffsetReader,
    kept: Mapping[str, Sequence[Span]],
    policies: Mapping[str, SkewLimits],
    since_ms: int | None,
) -> Iterator[TopicRequest]:
    """Yield requests for the period that all logs of a topic cover."""
    logs = {topic: [LogEnds(span.start, span.end) for span in spans] for topic, spans in kept.items()}
    configs = admin.configs(sorted(kept))
    by_topic = find_arrivals(
        logs,
        admin.find_offsets,
        time.time_ns() // 1_000_000,
        since_ms,
        recent=True,
        read_records=admin.read_records,
        ordered=[
            topic
            for topic, config in configs.items()
            if config.get("message.timestamp.type") == "LogAppendTime"
            and "compact" not in config.get("cleanup.policy", "compact")
        ],
    )
    for topic, spans in sorted(kept.items()):
        arrivals, config = by_topic[topic], configs.get(topic, {})
        limit = config.get("retention.bytes")
        yield TopicRequest(
            topic,
            [
                replace(span, start=start, kept_from=span.start, kept_since_ms=kept_since_ms)
                for span, start, kept_since_ms in zip(
                    spans, arrivals.starts, arrivals.kept_since_ms, strict=True
                )
            ],
            policies.get(topic, SkewLimits()),
            log=LogFacts(
                arrivals,
                "compact" in config["cleanup.policy"] if "cleanup.policy" in config else None,
                int(limit) if limit else None,
            ),
            since_ms=arrivals.since_ms,
        )


def _judge(
    outcomes: Mapping[str, TopicResult | SkewError], policies: Mapping[str, SkewLimits]
) -> tuple[tuple[TopicResult, ...], bool]:
    """Judge results by their policies; write broken limits and failed topics to stderr.

    Returns:
        The results, and whether a topic has none.

    Raises:
        SkewError: No topic has one.
    """
    results = []
    errors = [outcome for outcome in outcomes.values() if isinstance(outcome, SkewError)]
    if len(errors) == len(outcomes) == 1:
        raise errors[0]
    for topic, outcome in sorted(outcomes.items()):
        if isinstance(outcome, SkewError):
            hint = f" ({outcome.hint})" if outcome.hint else ""
            sys.stderr.write(f"not read: {outcome.message}{hint}\n")
            continue
        policy = judge(outcome, policies[topic]) if topic in policies else None
        results.append(replace(outcome, policy=policy))
        if policy is not None and policy.status != "pass":
            sys.stderr.writelines(f"{policy.status}: {reason}\n" for reason in policy.reasons)
    if not results:
        raise JobFailed("no topic could be analysed")
    return tuple(results), bool(errors)


def _write_json(spark: SparkSession, given: argparse.Namespace, report: SkewReport) -> None:
    try:
        write(spark, given.out, to_json(report))
    except Exception as error:
        if not (causes := java_causes(error)):
            raise
        raise JobFailed(
            f"the report cannot be written to {given.out}: {causes[0].line}",
            hint="give a path that the driver's Hadoop configuration supports and this account may write to",
        ) from error


_JAVA_PROPERTIES = {
    "sasl.jaas.config": "sasl.username and sasl.password (or sasl.oauthbearer.client.id and .client.secret)",
    "sasl.login.callback.handler.class": "sasl.oauthbearer.method and sasl.oauthbearer.token.endpoint.url",
    "sasl.client.callback.handler.class": "sasl.mechanism=AWS_MSK_IAM",
    "ssl.truststore.location": "ssl.ca.location, with the path of a PEM file",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.truststore.password": "ssl.ca.location, with the path of a PEM file",
    "ssl.truststore.type": "ssl.ca.location, with the path of a PEM file",
    "ssl.keystore.type": "ssl.keystore.location, with the path of a PKCS#12 file",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Properties of Kafka's Java clients alone, and their equivalents for librdkafka."""
# The first bytes of a JKS store, which librdkafka cannot read.
_JKS = b"\xfe\xed\xfe\xed"


def client_properties(given: argparse.Namespace) -> dict[str, str]:
    """Return the properties of the command config, with the addresses of the arguments.

    Raises:
        JobFailed: They cannot be read, are those of Kafka's Java clients, or give no address.
    """
    kafka = _read_entries(given.command_config) if given.command_config else {}
    if given.bootstrap_server:
        kafka["bootstrap.servers"] = given.bootstrap_server
    if not kafka.get("bootstrap.servers"):
        raise JobFailed("no broker address is given", hint="give --bootstrap-server HOST:PORT")
    for name, instead in _JAVA_PROPERTIES.items():
        if name in kafka:
            raise JobFailed(
                f"{given.command_config}: {name} is a property of Kafka's Java clients, and this job reads"
                " with librdkafka",
                hint=f"write {instead}",
            )
    store = Path(kafka.get("ssl.keystore.location", ""))
    if store.is_file() and _read_start(store, len(_JKS)) == _JKS:
        raise JobFailed(
            f"{given.command_config}: ssl.keystore.location: {store} is a JKS store",
            hint=f"convert it: keytool -importkeystore -srckeystore {store} -destkeystore client.p12"
            " -deststoretype PKCS12",
        )
    for name in sorted(READERS_OWN & kafka.keys()):
        del kafka[name]
        sys.stderr.write(f"note: {name} in {given.command_config} is not used: the reader sets it itself\n")
    return kafka


def _read_start(file: Path, count: int) -> bytes:
    with file.open("rb") as stream:
        return stream.read(count)


def _read_entries(file: str) -> dict[str, str]:
    """Return the `name=value` lines of a file; a line break in PEM text is written as in C."""
    try:
        lines = read_file(file).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise JobFailed(
            f"cannot read {file}: {reason}",
            hint="on a cluster, pass it to the driver: `spark-submit --files client.properties`",
        ) from error
    entries: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        # Both begin a comment in Java's format of properties files.
        if not line or line.startswith(("#", "!")):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            # It may be a part of a secret.
            raise JobFailed(
                f"{file}, line {number}: not NAME=VALUE", hint="write a property and its value on one line"
            )
        name, value = name.strip(), value.strip()
        entries[name] = value.replace("\\n", "\n") if name.endswith(".pem") else value
    return entries


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
