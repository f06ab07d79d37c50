"""`kafkaform skew --arrivals` on a real Kafka: what was written, whatever the logs still hold."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support.cli_helpers import Project
from tests.support.kafka_fixtures import TIMEOUT_S, admin_client, eventually

COUNTS = (400, 400, 1_600)
OLD_MS = 3 * 3_600_000
HOUR_MS = 3_600_000
"""Some records are this old, so that periods have a beginning."""


def written(project: Project, name: str, counts: tuple[int, ...], now_ms: int) -> str:
    """Make a topic with so many records in each partition, one half of them three hours old."""
    full = project.prefix + name
    admin = admin_client(project.servers)
    admin.create_topics([NewTopic(full, len(counts), 1)])[full].result(TIMEOUT_S)
    eventually(lambda: full in admin.list_topics(timeout=TIMEOUT_S).topics, bool)
    producer = Producer({"bootstrap.servers": project.servers, "linger.ms": 5})
    for partition, count in enumerate(counts):
        for number in range(count):
            at = now_ms - (OLD_MS if number < count // 2 else 1_000)
            producer.produce(full, b"x" * 20, partition=partition, timestamp=at)
    assert producer.flush(TIMEOUT_S) == 0
    return full


@pytest.fixture
def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_hot_partition_that_was_trimmed_is_found(project: Project, now_ms: int) -> None:
    hot = written(project, "hot", COUNTS, now_ms)
    even = written(project, "even", (600, 600, 600), now_ms)
    admin = admin_client(project.servers)
    # As retention.bytes leaves it: each partition holds 300 records.
    trimmed = [TopicPartition(hot, number, count - 100) for number, count in enumerate(COUNTS)]
    for future in admin.delete_records(trimmed).values():
        future.result(TIMEOUT_S)
    call = project.run("skew", "--arrivals", f"{project.prefix}*", "--format", "json").needs(0)
    found = {topic["name"]: topic for topic in call.json["topics"]}
    # All that is left is of one moment, and others of that moment may have been removed.
    assert (found[hot]["spread"], found[hot]["records"]) == ("too little data", 0)
    assert found[hot]["max_over_mean_since_made"] == pytest.approx(2.0)
    assert [one["records_since_made"] for one in found[hot]["partitions"]] == list(COUNTS)
    assert (found[even]["spread"], found[even]["max_over_mean"]) == ("even", 1.0)
    assert (found[even]["since_made"], found[even]["records"]) == (True, 1_800)


def test_the_period_is_what_all_logs_cover(project: Project, now_ms: int) -> None:
    hot = written(project, "hot", COUNTS, now_ms)
    admin = admin_client(project.servers)
    (future,) = admin.delete_records([TopicPartition(hot, 2, 700)]).values()
    future.result(TIMEOUT_S)
    call = project.run("skew", "--arrivals", hot, "--format", "json").needs(0)
    (found,) = call.json["topics"]
    assert OLD_MS <= found["period_ms"] + 1 < OLD_MS + HOUR_MS
    # After the moment of the old records, of which partition 2 has lost some.
    assert [one["records"] for one in found["partitions"]] == [200, 200, 800]
    assert (found["spread"], found["fullest_partition"]) == ("uneven", 2)
    assert found["max_over_mean"] == pytest.approx(2.0)
    text = project.run("skew", "--arrivals", hot).needs(0).out
    assert " uneven" in text
    assert text.endswith("Arrivals in 1 topic: 1 uneven.\n")
    every = project.run("skew", "--arrivals", "--out", "arrivals.txt").code
    assert every in {0, 1}
    assert hot in (project.folder / "arrivals.txt").read_text()


def test_what_it_cannot_be_combined_with(project: Project) -> None:
    for option in (
        ("--full",),
        ("--records", "9"),
        ("--html", "x.html"),
        ("--what-if", "6"),
        ("--seed", "0"),
        ("--spark-conf", "a=b"),
    ):
        call = project.run("skew", "--arrivals", *option).needs(64)
        expected = f"Error: --arrivals reads no record and cannot be combined with {option[0]}\n"
        assert call.err.startswith(expected)
    project.run("skew", "--arrivals", "--format", "html").needs(64)
    project.run("skew", "--arrivals", f"{project.prefix}none").needs(1)


def test_doctor_and_prometheus_tell_it(project: Project, now_ms: int) -> None:
    hot = written(project, "hot", (400, 400, 3_200), now_ms)
    project.config(ignore=["other-*"])
    call = project.run("doctor", "--rule", "KF312", "--format", "json")
    assert call.code == 0, "uneven arrivals are information"
    messages = [one["message"] for one in call.json["diagnostics"] if one["code"] == "KF312"]
    assert (
        f"partition 2 of {hot} gets 2.4 times the mean of its 3 partitions" in messages or len(messages) > 5
    )
    metrics = project.run("doctor", "--rule", "KF312", "--format", "prometheus").out
    assert f'kafkaform_topic_arrivals_max_over_mean{{cluster="dev",topic="{hot}"}} 2.4' in metrics


def test_status_shows_and_sorts_by_it(project: Project, now_ms: int) -> None:
    hot = written(project, "z-hot", COUNTS, now_ms)
    even = written(project, "even", (600, 600, 600), now_ms)
    few = written(project, "few", (2, 2, 2), now_ms)
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
