"""Kafka's messages: the schemas are Kafka's own, field by field, and the answers of a broker are read."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest

from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire import group_messages, large_responses, message_schema, messages
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.values import replace
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from tests.support.clusters.responses import read_or_refuse, schemas_of

SOURCE = Path(__file__).parents[1] / "support" / "clusters" / "KafkaMessages.java"
NUMBERS = ("INT8", "INT16", "UINT16", "INT32", "INT64", "FLOAT64", "BOOLEAN")
TYPES: dict[Any, Any] = {
    **{getattr(message_schema, name): name for name in (*NUMBERS, "STRING", "UUID")},
    message_schema.NULLABLE_STRING: {"nullable": "STRING"},
    message_schema.OCTETS: "BYTES",
}
RENAMED = {
    *(("assignor", "protocol_data"), ("credentials", "credential_infos"), ("filters", "filter_results")),
    *(("fetched_ms", "last_fetch_timestamp"), ("written_ms", "last_timestamp"), ("groups", "group_ids")),
    *(("groups", "results"), ("resources", "responses"), ("topics", "responses"), ("topics", "results")),
    *(("index", "partition"), ("index", "partition_id"), ("least", "min_version"), ("most", "max_version")),
    *(("matches", "matching_acls"), ("name", "topic"), ("partitions", "partition_indexes")),
    *(("partitions", "partition_result"), ("replicas", "broker_ids"), ("replicas", "replica_nodes")),
    *(("states", "state_filters"), ("topics", "replica_election_results"), ("topics", "topic_names")),
    *(("topics", "topic_partitions"), ("transactions", "transaction_states")),
    ("changelogs", "state_changelog_topics"),
}
"""Our names and Kafka's of fields that have no word in common: any other such pair is at the wrong place."""

ACCEPTED = ["Metadata v12 response.topics[].name may be null"]
"""Of a topic that was asked for by its id, which is never done."""


def list_messages() -> Iterator[tuple[RequestType[Any], Any, Any]]:
    """The requests that have schemas, with those of request and response."""
    for module in (messages, group_messages, large_responses):
        for request_type in vars(module).values():
            if isinstance(request_type, RequestType):
                with suppress(KeyError):
                    yield request_type, *schemas_of(request_type)


def describe(field_type: Any, version: int) -> Any:
    """A type in the form of KafkaMessages.java; the schemas are functions, which hold their parts."""
    if field_type in TYPES:
        return TYPES[field_type]
    parts = getclosurevars(field_type).nonlocals
    if "versioned" in parts:
        fields = parts["versioned"].items()
        return {name: describe(field.of, version) for name, field in fields if field.has(version)}
    element = describe(parts["of"], version)
    if "nullable" not in parts:
        return {"nullable": element}
    return {"nullable": [element]} if parts["nullable"] else [element]


def compare(path: str, ours: Any, kafkas: Any, *, is_request: bool) -> Iterator[str]:
    """Return the differences; requests need not allow null, a null array of a response is read as empty."""
    ours_null, kafkas_null = (
        "nullable" in each if isinstance(each, dict) else False for each in (ours, kafkas)
    )
    ours, kafkas = ours["nullable"] if ours_null else ours, kafkas["nullable"] if kafkas_null else kafkas
    if ours_null and not kafkas_null:
        yield f"{path} is never null"
    if kafkas_null and not ours_null and not is_request and not isinstance(kafkas, list):
        yield f"{path} may be null"
    if (
        type(ours) is not type(kafkas)
        or len(ours) != len(kafkas)
        or (isinstance(ours, str) and ours != kafkas)
    ):
        yield f"{path} is {kafkas}, not {ours}"
    elif isinstance(ours, list):
        yield from compare(f"{path}[]", ours[0], kafkas[0], is_request=is_request)
    elif isinstance(ours, dict):
        for (name, field), (kafkas_name, kafkas_field) in zip(ours.items(), kafkas.items(), strict=True):
            is_alike = {*name.split("_")} & {*kafkas_name.split("_")}
            if not is_alike and (name, kafkas_name) not in RENAMED:
                yield f"{path}.{kafkas_name} is at the place of {name}"
            yield from compare(f"{path}.{kafkas_name}", field, kafkas_field, is_request=is_request)


@pytest.mark.nightly("a Java program is compiled; the schemas change with a message only")
def test_message_schemas_match_kafka_classes() -> None:
    classpath = os.pathsep.join(map(str, fetch_kafka_classpath()))
    run = subprocess.run(
        [find_java().path, "-cp", classpath, SOURCE], capture_output=True, text=True, check=True
    )
    kafkas = {
        (key, version): remaining for key, version, *remaining in map(json.loads, run.stdout.splitlines())
    }
    differing, checked = [], 0
    for request_type, request, response in list_messages():
        for version in range(request_type.versions[0], request_type.versions[1] + 1):
            is_flexible, kafkas_request, kafkas_response = kafkas[request_type.key, version]
            checked += 1
            name = f"{request_type.name} v{version}"
            if is_flexible != (version >= request_type.flexible):
                differing.append(f"{name} is {'' if is_flexible else 'not '}flexible")
            for part, schema, kafkas_schema in (
                ("request", request, kafkas_request),
                ("response", response, kafkas_response),
            ):
                described = describe(schema, version)
                is_request = part == "request"
                differing += compare(f"{name} {part}", described, kafkas_schema, is_request=is_request)
    assert differing == ACCEPTED, "\n".join(differing)
    assert checked > 100


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
