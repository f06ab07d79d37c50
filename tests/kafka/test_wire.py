"""The bytes of answers: lengths, and answers that are damaged, or made by somebody who means harm."""

from __future__ import annotations

import random
from struct import pack
from typing import Any

import pytest

from kafkaform.cluster.kafka import group_listing, reassignments, sizes
from kafkaform.cluster.transport.api import RequestType
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import group_messages, large_answers
from kafkaform.cluster.wire.partitions import PLACEMENT
from kafkaform.devcluster.cluster import DevCluster
from tests.unit.cluster.test_wire import _TELLING, read


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("answers", "group_listing"):
        monkeypatch.setattr(f"kafkaform.cluster.kafka.{module}.COORDINATOR_TIMEOUT_S", -1.0)
    monkeypatch.setattr("kafkaform.cluster.transport.kafka_python._PAUSE_S", 0)


def test_answers_of_a_real_broker_are_read_damaged_or_not(kafka: DevCluster) -> None:
    address = kafka.bootstrap_servers
    connection = Connection({"bootstrap.servers": address}, lambda: {"bootstrap_servers": address})
    group = ["nobody-is-here"]
    asked: list[tuple[RequestType[Any], bytes]] = [
        (large_answers.TOPICS, large_answers.metadata_of_all_topics()),
        (PLACEMENT, large_answers.metadata_of_all_topics()),
        (
            large_answers.TOPIC_CONFIGS,
            large_answers.describe_topic_configs(["__consumer_offsets", "nobody-is-here"]),
        ),
        (
            large_answers.BROKER_CONFIGS,
            large_answers.describe_configs_of_brokers([1], ["log.retention.ms", "num.partitions"]),
        ),
        (group_listing._LIST_GROUPS, group_listing._EVERY_STATE_AND_TYPE),
        (group_listing._WITH_CONFIGS, group_listing._GROUPS_ALONE),
        (group_messages.FIND_COORDINATORS, group_messages.groups_to_find(group)),
        (group_messages.DESCRIBE_CLASSIC, group_messages.groups_to_describe(group)),
        (group_messages.DESCRIBE_SHARE, group_messages.groups_to_describe(group)),
        (group_messages.DESCRIBE_STREAMS, group_messages.groups_to_describe(group)),
        (group_messages.SHARE_OFFSETS, group_messages.share_groups_to_tell_offsets_of(group)),
        (sizes._LOG_DIRS, sizes._sizes_of({"__consumer_offsets": [0, 1]})),
        (reassignments._RUNNING, pack(">i", 3_000) + b"\x00\x00"),
    ]
    chance = random.Random(0)
    for request_type, request in asked:
        (body,) = connection.ask(RequestType(request_type.api, bytes), [request])
        assert read(request_type, body) is not None, request_type.api
        for _ in range(500):
            changed = bytearray(body)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(changed))
                changed[at : at + chance.randint(0, 2)] = chance.choice(_TELLING)
            read(request_type, bytes(changed))
    connection.close()
