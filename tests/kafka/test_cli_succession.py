"""A succession on a real Kafka: fewer partitions, every record read once, and in order per key."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence

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


def follow(project: Project, code: int | None = None) -> list[dict[str, object]]:
    """Return the groups of the project's succession; its exit code is this one."""
    project.config()
    call = project.run("succession", "--format", "json")
    assert code in (None, call.code), call.out + call.err
    (succession,) = json.loads(call.out)["successions"]
    return list(succession["groups"])
