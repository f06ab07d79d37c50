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
    "misspelt field": HEAD + "spec:\n  partitons: 3\n",
    "field in the wrong case": HEAD + "spec: {replicationfactor: 3}\n",
    "malformed topic id": HEAD + "spec: {recreate: abc}\n",
    "field that is like no other": HEAD + "spec: {zzz: 3}\n",
    "field at the top": HEAD + "spec: {}\nstatus: {}\n",
    "field of an override": HEAD + "spec:\n  overrides:\n    dev: {keyd: true, overrides: {}}\n",
    "retention shorthand": HEAD + "spec: {retention: {tiem: 7d}}\n",
    "key that is not text": HEAD + "spec: {1: 2, null: 3}\n",
    "everything missing": "{}",
    "null": HEAD + "spec:\n",
    "null config": HEAD + "spec: {config: ~}\n",
    "null overrides": HEAD + "spec: {overrides: , keyed: null}\n",
    "text for a count": HEAD + "spec: {partitions: '12'}\n",
    "half a partition": HEAD + "spec: {partitions: 12.5}\n",
    "YAML 1.1": HEAD
    + "spec: {keyed: yes, deletionProtection: off, partitions: 1:30, replicationFactor: true}\n",
    "a list for a mapping": HEAD + "spec: [1]\n",
    "a mapping for a value": HEAD + "spec: {config: {retention.ms: {a: 1}}}\n",
    "null in a list": HEAD + "spec: {config: {cleanup.policy: [delete, ~]}}\n",
    "too few": HEAD + "spec: {partitions: 0}\n",
    "too many": HEAD + "spec: {partitions: 1e9}\n",
    "very many": HEAD + f"spec: {{partitions: {'9' * 399}, replicationFactor: {'9' * 500}}}\n",
    "share": HEAD + "spec: {skew: {maxKeyShare: 0, maxPartitionRatio: .inf, by: record}}\n",
    "choice": HEAD + "spec: {state: abset, undeclared: drop}\n",
    "names": "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: '', labels: {a: ~}}\nspec: {}\n",
    "a name that is a number": "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: 010}\nspec: {}\n",
}


CONFIGS = {
    "not a mapping": "- 1",
    "kind": "apiVersion: kafkaform/v2\nkind: Topic\n",
    "rules": "apiVersion: kafkaform/v1\nkind: Config\nrules: {KF1: off, KF101: false}\n",
    "lists": "apiVersion: kafkaform/v1\nkind: Config\nmanifests: []\nenvironments: [a, b, a]\nowns: [1]\n",
}


def test_invalid_document_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {f"topic, {name}": list_problems(text) for name, text in TOPICS.items()}
    texts |= {f"config, {name}": list_problems(text, "config") for name, text in CONFIGS.items()}
    assert list_texts(texts) == golden(name="invalid.txt")


OTHER_NAMES = {
    "topic": {
        "replicationFactor": "replicas replication_factor replication.factor replicaCount",
        "partitions": "partitionCount partitions_count num.partitions partitons",
        "spec.config": "retention.ms retentionMs cleanupPolicy min-insync-replicas",
        "config": "configs settings topicConfig",
        "metadata.name": "topicName",
        "metadata": "name labels",
        "labels": "owner team",
        "retention": "retentionMinutes retention_time",
    },
    "consumergroup": {
        "metadata.name": "groupId group.id group",
        "spec.client": "max.poll.records maxPollRecords auto_offset_reset",
        "topics": "topic",
    },
    "clientquota": {
        "spec.config": "producer_byte_rate producerByteRate requestPercentage",
        "config": "quotas limits",
        "spec.entity": "user client-id",
    },
    "user": {
        "scram: [": "authentication",
        "spec.scram": "password mechanism",
        "Access manifest": "authorization acls",
        "ClientQuota manifest": "quotas",
    },
    "access": {
        "principals": "principal user acl_principal",
        "produces": "producer producers",
        "consumes": "consumer consumers",
        "hosts": "host acl_host acls.host",
        "operations": "acls.operation acls.acl_operation",
        "prefix": "acls.patternType acls.resource_pattern_type_filter",
        "permission": "acls.type acls.acl_permission_type",
        "name": "acls.resourceName acls.resource_name",
        "resource": "acls.resource_type acls.resourceType",
    },
}
"""By the schema and the field that is meant, fields of other tools; `acls.x` is one of an ACL."""


@pytest.mark.parametrize(
    ("schema", "meant", "name"),
    [
        (schema, meant, name)
        for schema, fields in OTHER_NAMES.items()
        for meant, names in fields.items()
        for name in names.split()
    ],
)
def test_field_names_of_other_tools_suggest_fields(schema: str, meant: str, name: str) -> None:
    (kind,) = [kind for kind in KINDS.values() if kind.schema == schema]
    field = f"acls: [{{{name.removeprefix('acls.')}: a}}]" if name.startswith("acls.") else f"{name}: a"
    text = f"apiVersion: kafkaform/v1\nkind: {kind.name}\nmetadata: {{name: t}}\nspec:\n  {field}\n"
    problems, _ = check_structure(parse_document(text), schema)
    (found,) = [problem for problem in problems if problem.message.startswith("unknown field")]
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
def test_misplaced_configuration_field_suggests_location(meant: str, line: str) -> None:
    found, _ = check_structure(parse_document(f"apiVersion: kafkaform/v1\nkind: Config\n{line}\n"), "config")
    hints = [problem.hint for problem in found if problem.hint is not None]
    assert [hint for hint in hints if re.search(rf"{re.escape(meant)}(,|:|\?|$)", hint)], found


@pytest.mark.parametrize("value", ["3", "{}", "[1]"])
def test_user_defined_name_is_not_misplaced_field(value: str) -> None:
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


def test_hostile_names_are_printed_on_single_line() -> None:
    text = HEAD + f'spec:\n  "a\\n\\e[31m": 1\n  overrides:\n    "x\\ny":\n      ? {"k" * 3000}\n      : 1\n'
    found = list_problems(text)
    assert len(found) == 2
    for problem in found:
        assert problem.isprintable()
        assert len(problem) < 400
