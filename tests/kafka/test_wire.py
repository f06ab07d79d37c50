"""The answers of a broker are read in every version; tests/unit/cluster/test_wire.py damages them."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import group_messages, large_responses, messages
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.values import replace
from tests.support.clusters.responses import read_or_refuse

NOBODY = "nobody-is-here"


def name_partition(**fields: object) -> list[dict[str, object]]:
    """Return a partition of a topic that does not exist, as requests name it."""
    return [{"name": NOBODY, "partitions": [fields]}]


DRY_RUN = {"timeout_ms": 3_000, "validate_only": True}
NEW_TOPIC = {"name": "only-checked", "partitions": 1, "replication_factor": 1, "assignments": ()}
DESCRIBED: dict[str, object] = {"groups": [NOBODY], "operations": False}
COMMITTED: dict[str, object] = {"group_id": NOBODY, "topics": None}
REQUESTS: list[tuple[RequestType[Any], object]] = [
    (large_responses.METADATA, None),
    (large_responses.TOPIC_CONFIGS, {"__consumer_offsets": None, NOBODY: None}),
    (large_responses.BROKER_CONFIGS, {"1": ["log.retention.ms", "num.partitions"]}),
    (messages.CONFIG_RESOURCES, {"types": [32]}),
    (messages.LOG_DIRS, {"topics": [{"name": "__consumer_offsets", "partitions": [0, 1]}]}),
    (messages.LIST_OFFSETS, {"replica": -1, "topics": name_partition(index=0, timestamp=-1)}),
    (
        messages.OFFSET_FOR_EPOCH,
        {"replica": -1, "topics": name_partition(index=0, current_epoch=-1, epoch=0)},
    ),
    (messages.DESCRIBE_PRODUCERS, {"topics": [{"name": NOBODY, "partitions": [0]}]}),
    (messages.DESCRIBE_TRANSACTIONS, {"transactional_ids": [NOBODY]}),
    (messages.LIST_TRANSACTIONS, {"states": (), "producer_ids": ()}),
    (
        messages.CREATE_TOPICS,
        {"topics": [{**NEW_TOPIC, "configs": [{"name": "retention.ms", "value": "1000"}]}], **DRY_RUN},
    ),
    (messages.CREATE_PARTITIONS, {"topics": [{"name": NOBODY, "count": 2, "assignments": None}], **DRY_RUN}),
    (messages.LIST_REASSIGNMENTS, {"timeout_ms": 3_000, "topics": None}),
    (messages.QUORUM, {"topics": [{"name": "__cluster_metadata", "partitions": [{"index": 0}]}]}),
    (group_messages.LIST_GROUPS, {}),
    (group_messages.FIND_COORDINATORS, {"key_type": 0, "keys": [NOBODY]}),
    (group_messages.FIND_COORDINATOR, {"key_type": 0, "key": NOBODY}),
    (group_messages.DESCRIBE_CLASSIC, {"groups": [NOBODY]}),
    (group_messages.DESCRIBE_CONSUMER, DESCRIBED),
    (group_messages.OFFSET_FETCH, COMMITTED),
    (group_messages.OFFSET_FETCHES, {"groups": [COMMITTED], "stable": False}),
    (group_messages.OFFSET_COMMIT, {"group_id": NOBODY, "generation": -1, "member_id": "", "topics": ()}),
    (group_messages.DELETE_GROUPS, {"groups": [NOBODY]}),
    (group_messages.DESCRIBE_SHARE, DESCRIBED),
    (group_messages.DESCRIBE_STREAMS, DESCRIBED),
    (group_messages.SHARE_OFFSETS, {"groups": [COMMITTED]}),
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("responses", "group_listing"):
        monkeypatch.setattr(f"kafkaform.cluster.kafka.{module}.COORDINATOR_TIMEOUT_S", -1.0)
    monkeypatch.setattr("kafkaform.cluster.transport.brokers._PAUSE_S", 0)


@pytest.fixture
def connection(servers: str) -> Iterator[Connection]:
    given = {"bootstrap.servers": servers}
    with closing(Connection(to_librdkafka(given), lambda: to_transport(given))) as made:
        yield made


def test_responses_are_read_in_every_version(connection: Connection) -> None:
    for request_type, request in REQUESTS:
        least, most = connection.read_api_versions()[request_type.key]
        for version in range(max(least, request_type.versions[0]), min(most, request_type.versions[1]) + 1):
            of_version = replace(request_type, versions=(version, version), read=lambda body, _: bytes(body))
            (body,) = connection.send(of_version, [request])
            assert read_or_refuse(request_type, version, body) is not None, (request_type.name, version)


def test_metadata_is_the_same_in_every_version(connection: Connection) -> None:
    answers = {}
    for version in range(4, 13):
        of_version = replace(large_responses.METADATA, versions=(version, version))
        (answer,) = connection.send(of_version, [None])
        topics = [topic._replace(topic_id=b"") for topic in answer.topics]
        answers[version] = replace(answer, topics=sorted(topics))
    assert answers[12].brokers
    assert all(answer == answers[12] for answer in answers.values())
