"""The job as spark-submit runs it, in a session that is there, and on a cluster of Spark's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql import SparkSession

from kafkaform.devcluster.cluster import DevCluster
from spark_validation.errors import JobFailed, ReadingFailed, SkewError
from spark_validation.job import JobSettings
from spark_validation.kafka_client import OffsetReader
from spark_validation.results import SkewVerdict, from_document
from spark_validation.submit import parser
from spark_validation.windows import Span
from tests.support.kafka_fixtures import Account, admin_client
from tests.support.skew_producers import result_of
from tests.support.spark_cluster import spark_home, standalone

ROOT = Path(__file__).parents[2]
RECORDS = 9_000
PARTITIONS = 3
BEGIN = int(time.time() * 1000) - 3_600_000


def filled(servers: str, topic: str) -> None:
    """Records of 300 keys where murmur2 puts them, a millisecond apart, the first at BEGIN."""
    admin = admin_client(servers)
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2_random"})
    for number in range(RECORDS):
        producer.produce(topic, key=f"key-{number % 300}", value="x" * 10, timestamp=BEGIN + number)
    assert producer.flush(60) == 0


# --- the job ---------------------------------------------------------------------------------------


def test_a_precision_that_is_missed_is_read_again_with_more_records(
    spark: SparkSession, kafka: DevCluster, prefix: str
) -> None:
    topic = f"{prefix}a"
    filled(kafka.bootstrap_servers, topic)
    spans, properties = spans_read(kafka, topic), {"bootstrap.servers": kafka.bootstrap_servers}
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


def spans_read(kafka: DevCluster, topic: str) -> list[Span]:
    return OffsetReader({"bootstrap.servers": kafka.bootstrap_servers}).spans([topic])[0][topic]


# --- the report ------------------------------------------------------------------------------------


def test_a_report_is_written_whole_and_replaces_an_older_one(spark: SparkSession, tmp_path: Path) -> None:
    from spark_validation.submit import write

    target = tmp_path / "new folder" / "report.json"
    for text in ("a longer text with ü", "short"):
        write(spark, f"file:{target}", text)
        assert target.read_text(encoding="utf-8") == text
        assert [path.name for path in target.parent.iterdir()] == ["report.json"]


def test_a_report_that_cannot_be_written_leaves_the_older_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_validation import submit

    target = tmp_path / "report.json"
    submit.write(spark, str(target), "old")

    def fail(*_: object) -> None:
        raise JobFailed("no")

    monkeypatch.setattr(submit, "_replace", fail)
    with pytest.raises(JobFailed):
        submit.write(spark, str(target), "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.json", "old")]


def test_the_entry_says_what_is_wrong_in_one_line(
    spark: SparkSession, kafka: DevCluster, prefix: str, tmp_path: Path
) -> None:
    from spark_validation.submit import write_report

    filled(kafka.bootstrap_servers, f"{prefix}a")
    server = ["--bootstrap-server", kafka.bootstrap_servers]
    good, out = ["--topic", f"{prefix}a"], ["--output", str(tmp_path / "report.json")]
    cases: list[tuple[list[str], type[SkewError], str]] = [
        ([*server, "--topic", f"{prefix}none", *out], ReadingFailed, f"{prefix}none does not exist"),
        ([*good, *out], JobFailed, "no broker address"),
        ([*good, *out, "--command-config", str(tmp_path / "none")], JobFailed, "cannot read"),
        ([*server, *good, "--output", "nosuch://host/x"], JobFailed, "cannot be written to nosuch://host/x"),
    ]
    for words, kind, message in cases:
        with pytest.raises(kind, match=message) as raised:
            write_report(spark, parser().parse_args(words))
        assert "\n" not in raised.value.message
        assert raised.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_job_is_about_what_was_written_too(
    spark: SparkSession,
    kafka: DevCluster,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A partition with half of the records is trimmed to the others' size."""
    from spark_validation import submit

    monkeypatch.setattr(submit, "_session", lambda: nullcontext(spark))
    topic, servers = f"{prefix}a", kafka.bootstrap_servers
    admin = admin_client(servers)
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        partition = 0 if number % 2 else number // 2 % PARTITIONS
        producer.produce(topic, b"v", b"k%d" % (number % 300), partition, timestamp=BEGIN + number)
    assert producer.flush(60) == 0
    for future in admin.delete_records([TopicPartition(topic, 0, RECORDS // 2)]).values():
        future.result(30)
    target = tmp_path / "report.json"
    words = ["--bootstrap-server", servers, "--topic", topic, "--full", "--output", str(target)]
    assert submit.run(words) == 0
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.spread == "uneven"
    assert found.by_records.max_mean_ratio.value == pytest.approx(2.0, abs=0.01)
    assert found.arrivals is not None
    assert [period.name for period in found.arrivals] == ["common", "hour", "made"]
    assert found.partitions[0].kept_from == RECORDS // 2
    assert found.sample.since_ms == found.arrivals[0].since_ms == (found.partitions[0].kept_since_ms or 0) + 1


def test_a_topic_that_fails_keeps_no_other_and_policies_decide_the_exit_code(
    spark: SparkSession,
    kafka: DevCluster,
    prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from spark_validation import submit

    monkeypatch.setattr(submit, "_session", lambda: nullcontext(spark))
    topic = f"{prefix}a"
    filled(kafka.bootstrap_servers, topic)
    target = tmp_path / "report.json"
    base = ["--bootstrap-server", kafka.bootstrap_servers, "--output", str(target)]
    metrics = ["--metrics", str(tmp_path / "metrics")]
    assert submit.run([*base, *metrics, "--policy", f"{topic}:maxPartitionRatio=1.5"]) == 0
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.policy == SkewVerdict("pass")
    assert submit.run([*base, "--policy", f"{topic}:minDistinctKeys=1000"]) == 2
    (found,) = from_document(json.loads(target.read_text())).topics
    assert found.policy is not None
    assert found.policy.status == "fail"
    assert capsys.readouterr().err == f"fail: {topic} has 300 distinct keys; the policy asks for 1,000\n"
    broken = ["--policy", f"{topic}:minDistinctKeys=1000", "--topic", topic, "--topic", f"{prefix}none"]
    assert submit.run([*base, *metrics, *broken]) == 1
    assert [one.name for one in from_document(json.loads(target.read_text())).topics] == [topic]
    assert f"not read: topic {prefix}none does not exist" in capsys.readouterr().err
    rows = ds.dataset(tmp_path / "metrics", partitioning="hive").to_table().to_pylist()
    assert [row["value"] for row in rows if (row["metric"], row["partition"]) == ("records", None)] == [
        RECORDS
    ] * 2


# --- a real cluster --------------------------------------------------------------------------------

THROUGH_MASTER = """
import json, sys
from pathlib import Path
from spark_validation.results import to_json
from spark_validation.job import JobSettings, TopicRequest, run_topics
from spark_validation.kafka_client import OffsetReader
from spark_validation.results import SkewLimits, SkewReport
from spark_validation.session import start
from spark_validation.configuration import SessionSettings
from spark_validation.windows import Span

master, topic, spans, kafka = json.loads(sys.stdin.read())
conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
settings = SessionSettings(master=master, memory="512m", conf=conf)
with start(settings) as spark:
    job = JobSettings(records=1200, seed=7, what_if=(24,))
    request = TopicRequest(topic, [Span(*s) for s in spans], SkewLimits())
    result = run_topics(spark, [request], kafka, job)[topic]
print(to_json(SkewReport("", None, None, "", (result,))))
"""


@pytest.mark.nightly(
    "a Spark cluster with two drivers: six JVMs; the job that they run is tested here and in test_skew_truth"
)
def test_a_standalone_cluster_counts_what_this_machine_counts(
    spark: SparkSession,
    kafka_acl: DevCluster,
    account: Callable[..., Account],
    prefix: str,
    tmp_path: Path,
) -> None:
    """Through --master and by spark-submit; the account's password is in nothing that the cluster keeps."""
    topic = f"{prefix}a"
    filled(kafka_acl.bootstrap_servers, topic)
    reader = account(f"TOPIC:{topic}:READ", "CLUSTER:kafka-cluster:DESCRIBE").properties
    kafka = {**reader, "bootstrap.servers": kafka_acl.sasl_bootstrap_servers}
    admin = OffsetReader(kafka)
    spans, cluster_id = admin.spans([topic])[0][topic], admin.cluster_id()
    job = JobSettings(records=1200, seed=7, what_if=(24,))
    local = result_of(spark, topic, spans, kafka, job)
    assert 0 < local.sample.records < RECORDS

    secret = kafka["sasl.password"]
    config = tmp_path / "client.properties"
    entries = {**kafka, "group.id": "mine", "auto.offset.reset": "earliest"}
    config.write_text("".join(f"{name}={value}\n" for name, value in entries.items()))
    cluster_folder = tmp_path / "cluster"
    with standalone(cluster_folder) as master:
        rows = [[s.partition, s.start, s.end, s.log_bytes] for s in spans]
        through_master = subprocess.run(
            [sys.executable, "-c", THROUGH_MASTER],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            input=json.dumps([master, topic, rows, kafka]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert through_master.returncode == 0, through_master.stderr[-3000:]
        submitted = _submit(
            master, tmp_path, "--command-config", str(config), "--topic", topic, "--records", "1200",
            "--seed", "7", "--what-if", "24", "--output", (tmp_path / "report.json").as_uri(),
        )  # fmt: skip
        assert submitted.returncode == 0, submitted.stderr[-3000:]
        logs = {path: path.read_text(errors="replace") for path in cluster_folder.rglob("std*")}
        logs |= {path: path.read_text(errors="replace") for path in cluster_folder.glob("*.log")}
    assert not cluster_folder.exists()

    assert rounded(from_document(json.loads(through_master.stdout)).topics[0]) == rounded(local)
    report = from_document(json.loads((tmp_path / "report.json").read_text()))
    (submitted_result,) = report.topics
    assert submitted_result.arrivals is not None
    assert sum(submitted_result.arrivals[0].counts) == RECORDS
    partitions = [replace(one, kept_from=None, kept_since_ms=None) for one in submitted_result.partitions]
    without_offsets = replace(submitted_result, arrivals=None, partitions=tuple(partitions))
    assert rounded(without_offsets) == rounded(local)
    assert report.cluster_id == cluster_id
    # spark-submit passes its script's stderr on as stdout.
    assert "note: group.id in" in submitted.stdout
    assert "Running task" in "".join(logs.values()), "the executors' logs are there to be looked at"
    shown = [*logs.values(), submitted.stdout, submitted.stderr, through_master.stderr]
    assert not [text for text in shown if secret in text]


def rounded(found: Any) -> Any:
    """A result without the last digits of its numbers: other reducers add them up in another order."""
    if isinstance(found, float):
        return float(f"{found:.12g}")
    if isinstance(found, dict):
        return {name: rounded(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return rounded(asdict(found)) if is_dataclass(found) and not isinstance(found, type) else found


def _submit(master: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    conf = ["--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"]
    script = ROOT / "spark_validation" / "submit.py"
    return subprocess.run(
        [spark_home() / "bin" / "spark-submit", "--master", master, "--driver-memory", "512m",
         *conf, script, *arguments],
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
