"""A succession on a real Kafka: fewer partitions, every record read once, and in order per key."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.support.cli.project import Project
from tests.support.clusters.fixtures import TIMEOUT_S, eventually

KEYS = 20
QUIET = "2s"


def produce(project: Project, topic: str, numbers: Sequence[int]) -> None:
    """Produce the records of these numbers, each with the key of its remainder."""
    producer = Producer({"bootstrap.servers": project.servers})
    for number in numbers:
        producer.produce(topic, str(number), str(number % KEYS))
    assert producer.flush(TIMEOUT_S) == 0


def consume(project: Project, group: str, topic: str, protocol: str, records: int) -> list[int]:
    """Read so many records as a member of a group, commit, and leave; returns their numbers."""
    consumer = Consumer(
        {
            "bootstrap.servers": project.servers,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(numbers) < records and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None:
            assert message.error() is None
            numbers.append(int(message.value() or b""))
    consumer.commit(asynchronous=False)
    consumer.close()
    assert len(numbers) == records
    return numbers


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_read_each_key_in_order_across_both_topics(project: Project, protocol: str) -> None:
    old = project.topic("old", partitions=6)
    group = project.group("g", topics=[old], protocol=protocol, offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    produce(project, old, range(200))
    numbers = consume(project, group, old, protocol, 80)
    new = project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET)
    project.group("g", topics=[new], protocol=protocol, offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    # Producers have moved; the group has not read all of the predecessor, and nobody reads it.
    produce(project, new, range(200, 300))
    assert [group["stage"] for group in follow(project, 1)] == ["stopped"]
    numbers += consume(project, group, old, protocol, 120)
    eventually(lambda: follow(project), lambda groups: [group["stage"] for group in groups] == ["ready"])
    assert project.apply("topics").code == 0
    # auto.offset.reset is an error here, so that it starts at the committed offset.
    numbers += consume(project, group, new, protocol, 100)
    assert sorted(numbers) == list(range(300))
    read = defaultdict(list)
    for number in numbers:
        read[number % KEYS].append(number)
    assert all(in_order == sorted(in_order) for in_order in read.values())
    assert [group["stage"] for group in follow(project, 0)] == ["moved"]
    # A producer that stayed behind is seen.
    produce(project, old, range(300, 301))
    assert [group["stage"] for group in follow(project, 1)] == ["moved early"]
    consume(project, group, old, protocol, 1)
    project.topic("old", state="absent")
    consent = ("--allow", f"Topic/{old}:delete")
    refused = project.run("plan", "topics", *consent)
    assert (refused.code, "KF120" in refused.out) == (1, True)
    project.topic("new", partitions=2, succeeds=old, quietPeriod=QUIET, recoveryWindow=QUIET)
    eventually(lambda: project.apply("topics", *consent).code, lambda code: code == 0)
    assert follow(project, 0) == []


def test_group_waits_for_open_transaction_on_predecessor(project: Project) -> None:
    old = project.topic("old", partitions=1)
    group = project.group("g", topics=[old], offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    producer = Producer({"bootstrap.servers": project.servers, "transactional.id": old})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(old, "0", "0")
    assert producer.flush(TIMEOUT_S) == 0
    new = project.topic("new", partitions=1, succeeds=old, quietPeriod=QUIET)
    project.group("g", topics=[new], offsets={"initial": "earliest"})
    assert project.apply("topics").code == 0
    # Not before the quiet period is over, so that only the transaction holds the group up.
    eventually(lambda: follow_all(project)["producers"], lambda named: named == [])
    plan = project.run("plan", "topics", "--verbose").needs(0)
    assert "KF218" in plan.words
    assert f"transaction '{old}' (producer " in plan.words
    assert "No changes" in plan.out
    (note,) = follow_all(project, 1)["notes"]
    assert note.startswith(f"transaction '{old}'")
    producer.commit_transaction(TIMEOUT_S)
    consume(project, group, old, "classic", 1)
    # Its position is before the marker, which is no record.
    consent = ("--allow", f"ConsumerGroup/{group}:offset-reset")
    project.run("reset", group, "--topic", old, "--to", "latest", "--out", "reset.json", *consent).needs(0)
    assert project.apply("reset.json").code == 0
    eventually(lambda: follow(project), lambda groups: [group["stage"] for group in groups] == ["ready"])
    assert project.apply("topics").code == 0
    assert [group["stage"] for group in follow(project, 0)] == ["moved"]


def test_producer_of_late_records_is_named_and_record_has_the_steps(project: Project) -> None:
    old = project.topic("old", partitions=1)
    project.group("g", topics=[old], offsets={"initial": "earliest"})
    new = project.topic("new", partitions=1, succeeds=old)
    audited = {"KAFKAFORM_AUDIT": "true"}
    project.run("apply", "topics", "--auto-approve", "--no-lock", env=audited).needs(0)
    producer = Producer({"bootstrap.servers": project.servers, "enable.idempotence": True})
    producer.produce(old, "0", "0")
    assert producer.flush(TIMEOUT_S) == 0
    (named,) = follow_all(project, 1)["producers"]
    assert (named["partition"], named["last_sequence"], named["transactional_id"]) == (0, 0, None)
    assert f"producer {named['id']}" in project.run("succession").out
    assert f"{new} succeeds {old}: stuck" in project.run("doctor", "topics", "--rule", "KF314").needs(2).words
    project.topic("new", partitions=1, succeeds=old, quietPeriod=QUIET)
    group = project.group("g", topics=[new], offsets={"initial": "earliest"})
    consume(project, group, old, "classic", 1)
    eventually(lambda: follow(project), lambda groups: [group["stage"] for group in groups] == ["ready"])
    project.run("apply", "topics", "--auto-approve", "--no-lock", env=audited).needs(0)
    (change, *_) = project.run("history", group, "--format", "json").needs(0).json["changes"]
    assert change["successions"] == [{"from": old, "to": new, "step": "first offsets"}]


def follow(project: Project, code: int | None = None) -> list[dict[str, Any]]:
    """Return the groups of the project's succession; its exit code is this one."""
    return list(follow_all(project, code)["groups"])


def follow_all(project: Project, code: int | None = None) -> dict[str, Any]:
    """Return the project's succession."""
    project.config()
    call = project.run("succession", "--format", "json")
    assert code in (None, call.code), call.out + call.err
    (succession,) = call.json["successions"]
    return dict(succession)
