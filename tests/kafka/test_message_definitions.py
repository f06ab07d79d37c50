"""The schemas of Kafka's messages are Kafka's own, field by field, in every version that is used."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest

from kafkaform.cluster.wire import group_messages, large_responses, message_schema, messages
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.devcluster.jars.cache import fetch_kafka_classpath
from kafkaform.devcluster.jars.java import find_java
from tests.support.clusters.responses import schemas_of

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
