"""Tests of the schema's refusals, worded so that an author finds and mends the place."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.yaml12 import Document, read_documents
from kafkaform.core.errors import Problem
from kafkaform.resources import KINDS
from tests.support.golden import list_texts

HEAD = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: t}\n"


def parse_document(text: str) -> Document:
    problems: list[Problem] = []
    (found,) = read_documents(text.encode(), "f", problems.append, verbatim=VERBATIM)
    assert problems == []
    return found


def list_problems(text: str, schema: str = "topic") -> list[str]:
    return [str(problem) for problem in check_structure(parse_document(text), schema)[0]]


TOPICS = {
    "misspelt field": (HEAD + "spec:\n  partitons: 3\n", "5:3"),
    "field in the wrong case": (HEAD + "spec: {replicationfactor: 3}\n", "4:8"),
    "malformed topic id": (HEAD + "spec: {recreate: abc}\n", "4:18"),
    "field that is like no other": (HEAD + "spec: {zzz: 3}\n", "4:8"),
    "field at the top": (HEAD + "spec: {}\nstatus: {}\n", "5:1"),
    "field of an override": (
        HEAD + "spec:\n  overrides:\n    dev: {keyd: true, overrides: {}}\n",
        "6:11 6:23",
    ),
    "retention shorthand": (HEAD + "spec: {retention: {tiem: 7d}}\n", "4:20"),
    "key that is not text": (HEAD + "spec: {1: 2, null: 3}\n", "4:8 4:14"),
    "everything missing": ("{}", "1:1 1:1 1:1 1:1"),
    "null": (HEAD + "spec:\n", "4:6"),
    "null config": (HEAD + "spec: {config: ~}\n", "4:16"),
    "null overrides": (HEAD + "spec: {overrides: , keyed: null}\n", "4:19 4:28"),
    "text for a count": (HEAD + "spec: {partitions: '12'}\n", "4:20"),
    "half a partition": (HEAD + "spec: {partitions: 12.5}\n", "4:20"),
    "YAML 1.1": (
        HEAD + "spec: {keyed: yes, deletionProtection: off, partitions: 1:30, replicationFactor: true}\n",
        "4:15 4:40 4:57 4:82",
    ),
    "a list for a mapping": (HEAD + "spec: [1]\n", "4:7"),
    "a mapping for a value": (HEAD + "spec: {config: {retention.ms: {a: 1}}}\n", "4:31"),
    "null in a list": (HEAD + "spec: {config: {cleanup.policy: [delete, ~]}}\n", "4:42"),
    "too few": (HEAD + "spec: {partitions: 0}\n", "4:20"),
    "too many": (HEAD + "spec: {partitions: 1e9}\n", "4:20 4:20"),
    "very many": (
        HEAD + f"spec: {{partitions: {'9' * 399}, replicationFactor: {'9' * 500}}}\n",
        "4:20 4:440",
    ),
    "share": (
        HEAD + "spec: {skew: {maxKeyShare: 0, maxPartitionRatio: .inf, by: record}}\n",
        "4:28 4:50 4:60",
    ),
    "choice": (HEAD + "spec: {state: abset, undeclared: drop}\n", "4:15 4:34"),
    "names": (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: '', labels: {a: ~}}\nspec: {}\n",
        "3:18 3:34",
    ),
    "a name that is a number": (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: 010}\nspec: {}\n",
        "3:18",
    ),
}


CONFIGS = {
    "not a mapping": ("- 1", "1:1"),
    "kind": ("apiVersion: kafkaform/v2\nkind: Topic\n", "1:13 2:7"),
    "rules": ("apiVersion: kafkaform/v1\nkind: Config\nrules: {KF1: off, KF101: false}\n", "3:26"),
    "lists": (
        "apiVersion: kafkaform/v1\nkind: Config\nmanifests: []\nenvironments: [a, b, a]\nowns: [1]\n",
        "3:12 4:15 5:8",
    ),
}


INVALID = {
    **{f"topic, {name}": ("topic", *row) for name, row in TOPICS.items()},
    **{f"config, {name}": ("config", *row) for name, row in CONFIGS.items()},
}


@pytest.mark.parametrize(("schema", "text", "places"), INVALID.values(), ids=INVALID)
def test_invalid_document_is_an_error_at_its_place(schema: str, text: str, places: str) -> None:
    assert [problem.split(": ")[0] for problem in list_problems(text, schema)] == [
        f"f:{at}" for at in places.split()
    ]


def test_messages_of_invalid_documents(golden: SnapshotAssertion) -> None:
    texts = {name: list_problems(text, schema) for name, (schema, text, _) in INVALID.items()}
    assert list_texts(texts) == golden(name="invalid.txt")


OTHER_NAMES = {
    "topic": {
        "replicationFactor": [
            "replicas: 3",
            "replication_factor: 3",
            "replication.factor: 3",
            "replicaCount: 3",
        ],
        "partitions": ["partitionCount: 3", "partitions_count: 3", "num.partitions: 3", "partitons: 3"],
        "spec.config": [
            "retention.ms: 1",
            "retentionMs: 1",
            "cleanupPolicy: compact",
            "min-insync-replicas: 2",
        ],
        "config": ["configs: {a: 1}", "settings: {a: 1}", "topicConfig: {a: 1}"],
        "metadata.name": ["topicName: x"],
        "metadata": ["name: x", "labels: {a: b}"],
        "labels": ["owner: a", "team: a"],
        "retention": ["retentionMinutes: 3", "retention_time: 3"],
    },
    "consumergroup": {
        "metadata.name": ["groupId: x", "group.id: x", "group: x"],
        "spec.client": ["max.poll.records: 3", "maxPollRecords: 3", "auto_offset_reset: latest"],
        "topics": ["topic: [a]"],
    },
    "clientquota": {
        "spec.config": ["producer_byte_rate: 1", "producerByteRate: 1", "requestPercentage: 1"],
        "config": ["quotas: {a: 1}", "limits: {a: 1}"],
        "spec.entity": ["user: a", "client-id: a"],
    },
    "user": {
        "scram: [": ["authentication: {type: scram-sha-512}"],
        "spec.scram": ["password: x", "mechanism: x"],
        "Access manifest": ["authorization: {type: simple}", "acls: []"],
        "ClientQuota manifest": ["quotas: {}"],
    },
    "access": {
        "principals": ["principal: User:a", "user: a", "acl_principal: User:a"],
        "produces": ["producer: [a]", "producers: [a]"],
        "consumes": ["consumer: [a]", "consumers: [a]"],
        "hosts": ["host: '*'", "acl_host: '*'", "acls: [{host: '*'}]"],
        "operations": ["acls: [{operation: Read}]", "acls: [{acl_operation: Read}]"],
        "prefix": ["acls: [{patternType: prefix}]", "acls: [{resource_pattern_type_filter: Prefixed}]"],
        "permission": ["acls: [{type: allow}]", "acls: [{acl_permission_type: Allow}]"],
        "name": ["acls: [{resourceName: a}]", "acls: [{resource_name: a}]"],
        "resource": ["acls: [{resource_type: topic}]", "acls: [{resourceType: topic}]"],
    },
}


@pytest.mark.parametrize(
    ("schema", "meant", "line"),
    [
        (schema, meant, line)
        for schema, fields in OTHER_NAMES.items()
        for meant, lines in fields.items()
        for line in lines
    ],
)
def test_names_of_other_tools_are_translated(schema: str, meant: str, line: str) -> None:
    kinds = {kind.schema: name for name, kind in KINDS.items()}
    text = f"apiVersion: kafkaform/v1\nkind: {kinds[schema]}\nmetadata: {{name: t}}\nspec:\n  {line}\n"
    (found,) = [
        problem
        for problem in check_structure(parse_document(text), schema)[0]
        if problem.message.startswith("unknown field")
    ]
    assert re.search(rf"(?<![\w.]){re.escape(meant)}(?!\w)", found.hint or ""), found


PLACES = {
    "clusters.NAME": ["forbid: [a]", "client: {}", "clusterId: a", "verifyKey: a"],
    "clusters.NAME.client": ["bootstrapServers: a", "bootstrap.servers: a", "security.protocol: SSL"],
    "clusters.dev.client": ["clusters: {dev: {bootstrapServers: a}}", "clusters: {dev: {sasl.username: a}}"],
    "clusters.dev": ["clusters: {dev: {client: {forbid: [a]}}}"],
    "the top level": ["clusters: {dev: {owns: [a]}}", "clusters: {dev: {client: {}, protected: [a]}}"],
    "defaults.Topic": ["defaults: {partitions: 3}", "defaults: {retention: 7d}"],
    "write replicationFactor": ["defaults: {Topic: {replicas: 3}}"],
    "'blastRadius'": ["limits: {blast-radius: 0.1}"],
}


@pytest.mark.parametrize(
    ("meant", "line"), [(meant, line) for meant, lines in PLACES.items() for line in lines]
)
def test_misplaced_field_of_the_configuration_has_its_place_as_hint(meant: str, line: str) -> None:
    found, _ = check_structure(parse_document(f"apiVersion: kafkaform/v1\nkind: Config\n{line}\n"), "config")
    hints = [problem.hint for problem in found if problem.hint is not None]
    assert [hint for hint in hints if re.search(rf"{re.escape(meant)}(,|:|\?|$)", hint)], found


@pytest.mark.parametrize("value", ["3", "{}", "[1]"])
def test_name_of_a_user_is_not_a_misplaced_field(value: str) -> None:
    policy = f"policies: [{{name: a, message: b, require: {{fields: {{partitions: {value}}}}}}}]"
    found = list_problems(f"apiVersion: kafkaform/v1\nkind: Config\n{policy}\n", "config")
    assert found
    assert "belongs" not in str(found)


def test_valid_document_has_no_problems() -> None:
    text = HEAD + "spec: {partitions: 12, replicationFactor: 0x3, config: {a: 1, b: [x, 2]}}\n"
    assert check_structure(given := parse_document(text), "topic") == ([], given)


def test_valid_part_of_a_document_is_returned() -> None:
    text = HEAD + (
        "spec:\n  partitons: 3\n  partitions: many\n  keyed: true\n  overrides: {dev: {x: 1, keyed: false}}\n"
        "  config: {cleanup.policy: [delete, ~], retention.ms: {}}\n"
    )
    _, sound = check_structure(parse_document(text), "topic")
    assert sound.data == {
        "apiVersion": "kafkaform/v1",
        "kind": "Topic",
        "metadata": {"name": "t"},
        "spec": {
            "keyed": True,
            "overrides": {"dev": {"keyed": False}},
            "config": {"cleanup.policy": ["delete"]},
        },
    }
    assert check_structure(parse_document("- 1"), "topic")[1].data is None


def test_hostile_names_stay_in_one_line() -> None:
    text = HEAD + f'spec:\n  "a\\n\\e[31m": 1\n  overrides:\n    "x\\ny":\n      ? {"k" * 3000}\n      : 1\n'
    found = list_problems(text)
    assert len(found) == 2
    for problem in found:
        assert problem.isprintable()
        assert len(problem) < 400
