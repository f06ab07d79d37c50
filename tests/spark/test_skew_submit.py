"""The job as spark-submit runs it, in a session that is there, and on a cluster of Spark's own."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.inspect import skew_analysis
from kafkaform.inspect.skew_input import read_logs
from spark_validation import submit
from spark_validation.errors import JobFailed, ReadingFailed, SkewError
from spark_validation.job import SpansNow, TopicRequest, run_topics
from spark_validation.kafka_client import OffsetReader
from spark_validation.options import JobSettings
from spark_validation.results import SkewLimits, SkewVerdict, TopicResult, from_document
from spark_validation.windows import Span
from tests.support.clusters.fixtures import remove_topics
from tests.support.clusters.topics import delete_records
from tests.support.skew.producers import create_topic, fill_topic, name_keys, read_spans, result_of, send

RECORDS = 9_000
PARTITIONS = 3
BEGIN = int(time.time() * 1000) - 3_600_000


def test_missed_precision_reads_more_records(spark: SparkSession, kafka: DevCluster, prefix: str) -> None:
    topic, servers = f"{prefix}a", kafka.bootstrap_servers
    fill_topic(servers, topic, RECORDS, BEGIN)
    spans, properties = read_spans(servers, topic), {"bootstrap.servers": servers}
    readings = []

    def spans_now(topics: Sequence[str]) -> dict[str, list[Span]]:
        readings.append(1)
        return dict.fromkeys(topics, spans)

    small = JobSettings(records=1_200)
    first = result_of(spark, topic, spans, properties, small, spans_now=spans_now)
    assert first.sample.offsets < RECORDS
    assert first.sample.achieved is not None
    assert first.sample.achieved > 0
    wanted = JobSettings(records=1_200, precision=first.sample.achieved / 3)
    second = result_of(spark, topic, spans, properties, wanted, spans_now=spans_now)
    assert second.sample.offsets > first.sample.offsets
    assert len(readings) == 3


@pytest.mark.parametrize("partitions", [PARTITIONS, PARTITIONS + 2])
@pytest.mark.parametrize("by", ["kafkaform", "spark-submit"])
def test_topic_recreated_during_job_fails(
    spark: SparkSession, kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, by: str, partitions: int
) -> None:
    """The records that were read may be of either topic, however many partitions the new one has."""
    topic, servers = f"{prefix}a", kafka.bootstrap_servers
    fill_topic(servers, topic, RECORDS, BEGIN)
    reader = OffsetReader({"bootstrap.servers": servers})
    logs = read_logs(real_cluster, {topic: PARTITIONS}, BEGIN + 3_600_000)
    check: SpansNow = partial(submit._read_spans, reader, reader.topic_ids([topic]))
    if by == "kafkaform":
        check = partial(skew_analysis.read_spans, real_cluster, logs)

    def spans_now(topics: Sequence[str]) -> Mapping[str, Sequence[Span] | SkewError]:
        remove_topics(servers, topic)
        create_topic(servers, topic, partitions)
        return check(topics)

    request = TopicRequest(topic, read_spans(servers, topic), SkewLimits())
    settings = JobSettings(full=True)
    found = run_topics(spark, [request], {"bootstrap.servers": servers}, settings, spans_now=check)
    assert isinstance(found[topic], TopicResult), "nothing has happened yet"
    found = run_topics(spark, [request], {"bootstrap.servers": servers}, settings, spans_now=spans_now)
    error = found[topic]
    assert isinstance(error, ReadingFailed)
    assert f"{topic} was deleted and made again" in error.message


def test_report_is_written_atomically(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "new folder" / "report.json"
    for text in ("a longer text with ü", "short"):
        submit.write(spark, f"file:{target}", text)
        assert target.read_text(encoding="utf-8") == text
        assert [path.name for path in target.parent.iterdir()] == ["report.json"]


def test_failed_write_leaves_the_older_report(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.json"
    submit.write(spark, str(target), "old")

    def fail(*_: object) -> None:
        raise JobFailed("no")

    monkeypatch.setattr(submit, "_replace", fail)
    with pytest.raises(JobFailed):
        submit.write(spark, str(target), "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "old")]


def test_submit_errors_are_single_line(
    spark: SparkSession, kafka: DevCluster, prefix: str, tmp_path: Path
) -> None:
    fill_topic(kafka.bootstrap_servers, f"{prefix}a", RECORDS, BEGIN)
    server = ["--bootstrap-server", kafka.bootstrap_servers]
    good, out = [f"{prefix}a"], ["--out", str(tmp_path / "report.json")]
    cases: list[tuple[list[str], type[SkewError], str]] = [
        ([*server, f"{prefix}none", *out], ReadingFailed, f"{prefix}none does not exist"),
        ([*good, *out], JobFailed, "no broker address"),
        ([*good, *out, "--command-config", str(tmp_path / "none")], JobFailed, "cannot read"),
        ([*server, *good, "--out", "nosuch://host/x"], JobFailed, "cannot be written to nosuch://host/x"),
    ]
    for words, kind, message in cases:
        with pytest.raises(kind, match=message) as raised:
            submit.write_report(spark, submit.parse_arguments(words))
        assert "\n" not in raised.value.message
        assert raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_submitted_job_reports_written_records(
    spark: SparkSession, kafka: DevCluster, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition with half of the records is trimmed to the others' size."""
    monkeypatch.setattr(submit, "_session", lambda: nullcontext(spark))
    topic, servers = f"{prefix}a", kafka.bootstrap_servers
    create_topic(servers, topic, PARTITIONS)
    partitions = (0 if number % 2 else number // 2 % PARTITIONS for number in range(RECORDS))
    keys = name_keys(number % 300 for number in range(RECORDS))
    send(servers, topic, keys, times=count(BEGIN), partitions=partitions)
    delete_records(servers, {(topic, 0): RECORDS // 2})
    target = tmp_path / "report.json"
    words = ["--bootstrap-server", servers, topic, "--records", "all", "--out", str(target)]
    assert submit.run(words) == 0
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.spread == "uneven"
    assert found.by_records.max_mean_ratio.value == pytest.approx(2.0, abs=0.01)
    assert found.arrivals is not None
    assert [period.name for period in found.arrivals] == ["common", "hour", "made"]
    assert found.partitions[0].kept_from == RECORDS // 2
    assert found.sample.since_ms == found.arrivals[0].since_ms == (found.partitions[0].kept_since_ms or 0) + 1


def test_policies_decide_the_exit_code(
    spark: SparkSession,
    kafka: DevCluster,
    prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submit, "_session", lambda: nullcontext(spark))
    topic = f"{prefix}a"
    fill_topic(kafka.bootstrap_servers, topic, RECORDS, BEGIN)
    target = tmp_path / "report.json"
    base = ["--bootstrap-server", kafka.bootstrap_servers, "--out", str(target)]
    metrics = ["--history", str(tmp_path / "metrics")]
    assert submit.run([*base, *metrics, "--policy", f"{topic}:maxPartitionRatio=1.5"]) == 0
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.policy == SkewVerdict("pass")
    assert submit.run([*base, "--policy", f"{topic}:minDistinctKeys=1000"]) == 2
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.policy is not None
    assert found.policy.status == "fail"
    assert capsys.readouterr().err.startswith(f"fail: {topic} has 300 ")
    broken = ["--policy", f"{topic}:minDistinctKeys=1000", topic, f"{prefix}none"]
    assert submit.run([*base, *metrics, *broken]) == 1
    assert [item.name for item in from_document(json.loads(target.read_text())).topics] == [topic]
    assert f"not read: topic {prefix}none does not exist" in capsys.readouterr().err
    rows = ds.dataset(tmp_path / "metrics", partitioning="hive").to_table().to_pylist()
    assert [row["value"] for row in rows if (row["metric"], row["partition"]) == ("records", None)] == [
        RECORDS
    ] * 2
