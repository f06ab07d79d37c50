"""`kafkaform skew`: its exit codes, with an engine that answers at once."""

import subprocess
import sys
import time
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.values import replace
from spark_validation.results import Estimate
from tests.support.cli.project import ROOT, Project, environment
from tests.support.clusters.fixtures import TIMEOUT_S
from tests.support.clusters.topics import delete_records
from tests.support.skew import scenes
from tests.support.skew.producers import create_topic, produce_keys

BROKEN = scenes.imbalance(Estimate(9.0, 8.5, 9.5))


def test_only_failed_skew_policy_exits_2(
    project: Project, real_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}orders", 3, ["a"])
    project.topic("orders", partitions=3, skew={"maxPartitionRatio": 2.0})
    codes = {
        "pass": (scenes.build_result(), 0),
        "warn": (replace(scenes.build_result(), by_records=scenes.imbalance(Estimate(2.1, 1.9, 2.3))), 0),
        "fail": (replace(scenes.build_result(), by_records=BROKEN), 2),
    }
    monkeypatch.setattr("spark_validation.session.start", lambda _: nullcontext())
    for status, (result, code) in codes.items():
        answer = {name: replace(result, name=name)}
        monkeypatch.setattr("spark_validation.job.run_topics", lambda *_, answer=answer, **__: answer)
        call = project.run("skew", "--format", "json").needs(code)
        (topic,) = call.json["topics"]
        assert (topic["name"], topic["policy"]["status"]) == (name, status)
        assert call.json["cluster_name"] is None
        assert call.json["cluster_id"] == real_cluster.facts().cluster_id


COUNTS = (400, 400, 1_600)
OLD_MS = 3 * 3_600_000
"""Some records are this old, so that periods have a beginning."""


def write_topic(project: Project, name: str, counts: tuple[int, ...]) -> str:
    """Make a topic with these numbers of records by partition, of which half are three hours old."""
    full, now_ms = project.prefix + name, time.time_ns() // 1_000_000
    create_topic(project.servers, full, len(counts))
    producer = Producer({"bootstrap.servers": project.servers, "linger.ms": 5})
    for partition, count in enumerate(counts):
        for number in range(count):
            at = now_ms - (OLD_MS if number < count // 2 else 10_000) + number
            producer.produce(full, b"x" * 20, partition=partition, timestamp=at)
    assert producer.flush(TIMEOUT_S) == 0
    return full


def test_hot_partition_with_deleted_records_is_found(project: Project) -> None:
    hot = write_topic(project, "hot", COUNTS)
    even = write_topic(project, "even", (600, 600, 600))
    # As retention.bytes leaves it: each partition holds 300 records.
    delete_records(project.servers, {(hot, number): count - 100 for number, count in enumerate(COUNTS)})
    call = project.run("arrivals", f"{project.prefix}*", "--format", "json").needs(0)
    found = {topic["name"]: topic for topic in call.json["topics"]}
    # What is left of the hot partition was written after all others were.
    assert (found[hot]["spread"], found[hot]["records"]) == ("too little data", 99)
    assert found[hot]["max_over_mean_since_made"] == pytest.approx(2.0)
    assert [item["records_since_made"] for item in found[hot]["partitions"]] == list(COUNTS)
    assert (found[even]["spread"], found[even]["max_over_mean"]) == ("even", 1.0)
    assert (found[even]["since_made"], found[even]["records"]) == (True, 1_800)


def test_arrivals_history_is_written_without_spark(project: Project) -> None:
    hot = write_topic(project, "hot", COUNTS)
    script = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in {'pyspark', 'numpy', 'pandas'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from kafkaform.cli.main import main\n"
        "main()\n"
    )
    arguments = project.add_cluster(("arrivals", hot, "--history", "rows", "--history-format", "parquet"))
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=project.folder,
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "BEFORE" in done.stdout
    for history, before in (("rows", 2.0), ("kept", None), ("kept", 2.0)):
        again = project.run("arrivals", hot, "--history", history, "--format", "json").needs(0)
        assert again.json["topics"][0]["max_over_mean_before"] == before
    assert len([*(project.folder / "kept").glob("arrivals-*.jsonl")]) == 2
    rows = ds.dataset(project.folder / "rows", partitioning="hive").to_table().to_pylist()
    found = [(row["topic"], row["metric"], row["value"]) for row in rows if row["partition"] is None]
    ratio, records = ("arrivals.common.max_mean_ratio", 2.0), ("arrivals.common.records", 2_400.0)
    assert sorted(found) == [(hot, *ratio), (hot, *ratio), (hot, *records), (hot, *records)]
    assert {row["cluster_id"] for row in rows} != {None}


def test_history_table_with_other_schema_is_refused(project: Project) -> None:
    (project.folder / "delta" / "_delta_log").mkdir(parents=True)
    call = project.run("arrivals", "--history", "delta", "--history-format", "parquet").needs(1)
    assert "is a Delta table" in call.err
    second = project.folder / "other" / "day=2026-11-01"
    second.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), second / "part.parquet")
    assert "has other columns" in project.run("arrivals", "--history", "other").needs(1).err


def test_status_sorts_topics_by_skew(project: Project) -> None:
    hot = write_topic(project, "z-hot", COUNTS)
    even = write_topic(project, "even", (600, 600, 600))
    few = write_topic(project, "few", (2, 2, 2))
    pattern = f"{project.prefix}*"
    call = project.run("status", pattern, "--sort", "skew", "--format", "json").needs(0)
    assert [(topic["name"], topic["arrivals"]) for topic in call.json["topics"]] == [
        (hot, {"spread": "uneven", "max_over_mean": 2.0}),
        (even, {"spread": "even", "max_over_mean": 1.0}),
        (few, {"spread": "too little data", "max_over_mean": 1.0}),
    ]
    assert "MAX/MEAN" in project.run("status", pattern, "--sort", "skew").needs(0).out
    assert "MAX/MEAN" not in project.run("status", pattern).needs(0).out
