"""`kafkaform arrivals` on a real Kafka: what was written, whatever the logs still hold."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from kafkaform.devcluster.cluster import DevCluster
from kafkaform.inspect.skew_input import cut_to_new_records, read_logs, read_new_records
from spark_validation.kafka_source import Range, RangeReader
from tests.support.cli.project import ROOT, Project, environment
from tests.support.clusters.fixtures import TIMEOUT_S, bring_back, connect, eventually
from tests.support.clusters.load_clients import fill
from tests.support.clusters.topics import delete_records, make_topic, read_replicas, throttle_replicas
from tests.support.skew.producers import create_topic, messages

COUNTS = (400, 400, 1_600)
OLD_MS = 3 * 3_600_000
HOUR_MS = 3_600_000
"""Some records are this old, so that periods have a beginning."""


def write_topic(
    project: Project, name: str, counts: tuple[int, ...], now_ms: int, *, ahead: int | None = None
) -> str:
    """Make a topic with so many records in each partition, one a millisecond, half of them three hours old.

    The record of number `ahead` in each partition is half an hour ahead, which brokers allow.
    """
    full = project.prefix + name
    create_topic(project.servers, full, len(counts))
    producer = Producer({"bootstrap.servers": project.servers, "linger.ms": 5})
    for partition, count in enumerate(counts):
        for number in range(count):
            at = now_ms - (OLD_MS if number < count // 2 else 10_000) + number
            at = now_ms + HOUR_MS // 2 if number == ahead else at
            producer.produce(full, b"x" * 20, partition=partition, timestamp=at)
    assert producer.flush(TIMEOUT_S) == 0
    return full


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_hot_partition_that_was_trimmed_is_found(project: Project, now_ms: int) -> None:
    hot = write_topic(project, "hot", COUNTS, now_ms)
    even = write_topic(project, "even", (600, 600, 600), now_ms)
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


def test_figures_are_kept_as_rows_without_spark(project: Project, now_ms: int) -> None:
    hot = write_topic(project, "hot", COUNTS, now_ms)
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


def test_table_without_metrics_is_refused_first(project: Project) -> None:
    (project.folder / "delta" / "_delta_log").mkdir(parents=True)
    call = project.run("arrivals", "--history", "delta", "--history-format", "parquet").needs(1)
    assert "is a Delta table" in call.err
    second = project.folder / "other" / "day=2026-11-01"
    second.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), second / "part.parquet")
    assert "has other columns" in project.run("arrivals", "--history", "other").needs(1).err


def test_status_shows_and_sorts_by_it(project: Project, now_ms: int) -> None:
    hot = write_topic(project, "z-hot", COUNTS, now_ms)
    even = write_topic(project, "even", (600, 600, 600), now_ms)
    few = write_topic(project, "few", (2, 2, 2), now_ms)
    pattern = f"{project.prefix}*"
    call = project.run("status", pattern, "--sort", "skew", "--format", "json").needs(0)
    assert [(topic["name"], topic["arrivals"]) for topic in call.json["topics"]] == [
        (hot, {"spread": "uneven", "max_over_mean": 2.0}),
        (even, {"spread": "even", "max_over_mean": 1.0}),
        (few, {"spread": "too little data", "max_over_mean": 1.0}),
    ]
    head, first, *_ = project.run("status", pattern, "--sort", "skew").needs(0).out.splitlines()
    assert "MAX/MEAN" in head
    assert first.split()[0] == hot
    assert " 2.00 " in first
    plain = project.run("status", pattern).needs(0)
    assert "MAX/MEAN" not in plain.out
    assert "arrivals" not in project.run("status", pattern, "--format", "json").out


# --- a leader change -------------------------------------------------------------------------------

LOST = 500


@pytest.mark.nightly("two brokers stop and start; that an end goes backwards is a unit test")
def test_records_that_a_leader_change_cut_off_do_not_count(
    kafka3: DevCluster, tmp_path: Path, prefix: str
) -> None:
    """The leader alone has acknowledged them, and is killed; a follower that lags takes its place.

    Ends of logs go backwards from one reading to the next, and offsets are given out again.
    """
    project = Project(tmp_path, kafka3.bootstrap_servers, prefix)
    name = f"{prefix}a"
    configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    with connect(kafka3.bootstrap_servers) as cluster:
        make_topic(cluster, name, 2, 2, ((1, 2), (3, 2)), **configs)
        append(project, name, 0, 1_000)
        append(project, name, 1, 1_000)
        with ExitStack() as stack:
            stack.enter_context(throttle_replicas(kafka3, name))
            kafka3.stop_node(2)
            eventually(lambda: read_replicas(kafka3, name)[1], lambda in_sync: in_sync == [1])
            fill(
                kafka3.bootstrap_servers, name, 1, 10_000_000
            )  # the follower will not get further than these
            append(project, name, 0, LOST)
            bring_back(kafka3, 2)
            before = read_logs(cluster, {name: 2}, now())
            kafka3.stop_node(1, graceful=False)
            stack.callback(bring_back, kafka3, 1)
            # The leaders of before are asked first: one of them is gone.
            eventually(lambda: len(cluster.offsets_at({(name, 0): 0, (name, 1): 0})), lambda read: read == 2)
            after = read_logs(cluster, {name: 2}, now())
            assert before.logs[name][0].end - after.logs[name][0].end >= LOST
            assert counted_arrivals(project, name) == seen_by_consumer(project, name)

            watched = cut_to_new_records(before, after)
            assert watched.arrivals[name].counts == (0, 0)
            (note,) = [note for note in watched.notes if "were lost" in note]
            assert f"of {name}:0, " in note
            # As a job reads that was planned by the ends of before.
            ranges = [Range(0, log.partition, (log.start, log.end), (0,)) for log in before.logs[name]]
            reader = RangeReader([name], [1], {"bootstrap.servers": project.servers})
            tables = [table for _, table in reader.read(ranges)]
            assert reader.failures == {}
            records = sum(sum(table.column("records").to_pylist()) for table in tables)
            assert records == sum(seen_by_consumer(project, name))

            append(project, name, 0, 2 * LOST)
            # The log is longer than before by now, and its offsets are given out again.
            now_longer = read_new_records(cluster, before, now())
            assert now_longer.logs[name][0].end > before.logs[name][0].end
            assert now_longer.arrivals[name].counts == (2 * LOST, 0)
            assert counted_arrivals(project, name) == seen_by_consumer(project, name)
        eventually(lambda: read_replicas(kafka3, name)[1], lambda in_sync: sorted(in_sync) == [1, 2])
        assert counted_arrivals(project, name) == seen_by_consumer(project, name)


def now() -> int:
    return time.time_ns() // 1_000_000


def append(project: Project, name: str, partition: int, count: int) -> None:
    """Write records that the leader alone acknowledges."""
    producer = Producer({"bootstrap.servers": project.servers, "acks": 1, "linger.ms": 5})
    failed: list[object] = []
    for number in range(count):
        producer.produce(
            name,
            b"v",
            b"k%d" % number,
            partition,
            on_delivery=lambda error, _: failed.extend([error] if error is not None else []),
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert not failed, failed[0]


def counted_arrivals(project: Project, name: str) -> list[int]:
    (topic,) = project.run("arrivals", name, "--format", "json").needs(0).json["topics"]
    assert topic["since_made"]
    return [partition["records"] for partition in topic["partitions"]]


def seen_by_consumer(project: Project, name: str) -> list[int]:
    partitions = Counter(message.partition() for message in messages(project.servers, name, 2))
    return [partitions[number] for number in range(2)]
