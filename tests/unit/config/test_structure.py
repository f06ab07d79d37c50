"""Tests of the schema's refusals, worded so that an author finds and mends the place."""

import copy
from typing import Any, cast

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.yaml12 import Data, Document, read_documents
from kafkaform.core import schema_files
from kafkaform.core.errors import Problem
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS
from tests.support.cli.project import ROOT
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
    "malformed topic id": HEAD + "spec: {recreate: abc}\n",
    "field at the top": HEAD + "spec: {}\nstatus: {}\n",
    "field of an override": HEAD + "spec:\n  overrides:\n    dev: {keyd: true, overrides: {}}\n",
    "retention shorthand": HEAD + "spec: {retention: {tiem: 7d}}\n",
    "key that is not text": HEAD + "spec: {1: 2, null: 3}\n",
    "everything missing": "{}",
    "null": HEAD + "spec:\n",
    "null overrides": HEAD + "spec: {overrides: , keyed: null}\n",
    "text for a count": HEAD + "spec: {partitions: '12'}\n",
    "YAML 1.1": HEAD
    + "spec: {keyed: yes, deletionProtection: off, partitions: 1:30, replicationFactor: true}\n",
    "a list for a mapping": HEAD + "spec: [1]\n",
    "a mapping for a value": HEAD + "spec: {config: {retention.ms: {a: 1}}}\n",
    "null in a list": HEAD + "spec: {config: {cleanup.policy: [delete, ~]}}\n",
    "too many": HEAD + "spec: {partitions: 1e9}\n",
    "very many": HEAD + f"spec: {{partitions: {'9' * 399}, replicationFactor: {'9' * 500}}}\n",
    "share": HEAD + "spec: {skew: {maxKeyShare: 0, maxPartitionRatio: .inf, by: record}}\n",
    "choice": HEAD + "spec: {state: abset, undeclared: drop}\n",
    "names": "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: '', labels: {a: ~}}\nspec: {}\n",
}


CONFIGS = {
    "kind": "apiVersion: kafkaform/v2\nkind: Topic\n",
    "rules": "apiVersion: kafkaform/v1\nkind: Config\nrules: {KF1: off, KF101: false}\n",
    "lists": "apiVersion: kafkaform/v1\nkind: Config\nmanifests: []\nenvironments: [a, b, a]\nowns: [1]\n",
}


OTHER_NAMES = {
    "Topic": (
        "replicas replication_factor replication.factor replicaCount partitionCount partitions_count "
        "num.partitions partitons retention.ms retentionMs cleanupPolicy min-insync-replicas configs "
        "settings topicConfig topicName name labels owner team retentionMinutes retention_time"
    ),
    "ConsumerGroup": "groupId group.id group max.poll.records maxPollRecords auto_offset_reset topic",
    "ClientQuota": "producer_byte_rate producerByteRate requestPercentage quotas limits user client-id",
    "User": "authentication password mechanism authorization acls quotas",
    "Access": (
        "principal user acl_principal producer producers consumer consumers host acl_host acls.host "
        "acls.operation acls.acl_operation acls.patternType acls.resource_pattern_type_filter acls.type "
        "acls.acl_permission_type acls.resourceName acls.resource_name acls.resource_type acls.resourceType"
    ),
}
"""Fields of other tools by the kind that they are written for; `acls.x` is one of an ACL."""


def list_unknown_fields(kind: str, name: str) -> list[str]:
    field = f"acls: [{{{name.removeprefix('acls.')}: a}}]" if name.startswith("acls.") else f"{name}: a"
    text = f"apiVersion: kafkaform/v1\nkind: {kind}\nmetadata: {{name: t}}\nspec:\n  {field}\n"
    return [problem for problem in list_problems(text, KINDS[kind].schema) if "unknown field" in problem]


MISPLACED = (
    *("forbid: [a]", "client: {}", "clusterId: a", "verifyKey: a"),
    *("bootstrapServers: a", "bootstrap.servers: a", "security.protocol: SSL"),
    *("clusters: {dev: {bootstrapServers: a}}", "clusters: {dev: {sasl.username: a}}"),
    *("clusters: {dev: {client: {forbid: [a]}}}", "clusters: {dev: {owns: [a]}}"),
    "clusters: {dev: {client: {}, protected: [a]}}",
    *("defaults: {partitions: 3}", "defaults: {retention: 7d}", "defaults: {Topic: {replicas: 3}}"),
    "limits: {blast-radius: 0.1}",
    # The name of a field that a policy requires is not misplaced.
    "policies: [{name: a, message: b, require: {fields: {partitions: 3}}}]",
)


def test_invalid_document_messages_match_golden(golden: SnapshotAssertion) -> None:
    texts = {f"topic, {name}": list_problems(text) for name, text in TOPICS.items()}
    texts |= {f"config, {name}": list_problems(text, "config") for name, text in CONFIGS.items()}
    texts |= {line: list_problems(f"apiVersion: kafkaform/v1\nkind: Config\n{line}\n", "config")
              for line in MISPLACED}  # fmt: skip
    texts |= {
        f"{kind}, {name}": list_unknown_fields(kind, name)
        for kind, names in OTHER_NAMES.items()
        for name in names.split()
    }
    assert list_texts(texts) == golden(name="invalid.txt")


def test_hostile_names_are_printed_on_single_line() -> None:
    text = HEAD + f'spec:\n  "a\\n\\e[31m": 1\n  overrides:\n    "x\\ny":\n      ? {"k" * 3000}\n      : 1\n'
    found = list_problems(text)
    assert len(found) == 2
    for problem in found:
        assert problem.isprintable()
        assert len(problem) < 400


SCHEMAS = {"Config": "config"} | {name: kind.schema for name, kind in KINDS.items()}
ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 3.0, 0.5, 1.5, -0.0, 1e300, 5e-324),
    *(2**53 + 1, 2**63, 2**64, 10**50, -(10**50)),
    *("", "a", "1", "true", "7d", "-1", "present", "\ud800", "\x00", "é", "x" * 300, "a\n", "7d\n"),
    *([], [""], ["a", "a"], {}, {"a": 1}, {"": None}),
]


def examples() -> list[tuple[str, Data]]:
    """The schema and the data of every document of this repository."""
    found: list[tuple[str, Data]] = []
    problems: list[Problem] = []
    for file in [ROOT / "kafkaform.yaml", *sorted((ROOT / "topics").rglob("*.yaml"))]:
        for document in read_documents(file.read_bytes(), file.name, problems.append, verbatim=VERBATIM):
            assert isinstance(document.data, dict)
            found.append((SCHEMAS[str(document.data["kind"])], document.data))
    assert problems == []
    return found


EXAMPLES = examples()


@pytest.mark.parametrize(("schema", "data"), EXAMPLES)
def test_valid_example_is_accepted_by_fast_check(schema: str, data: Data) -> None:
    assert schema_files._is_surely_valid(schema, data)


@st.composite
def mutate_document(draw: st.DrawFn) -> tuple[str, Any]:
    """A document of this repository in which a few values are others, are gone, or stand where none was."""
    schema, original = draw(st.sampled_from(EXAMPLES))
    data: Any = copy.deepcopy(original)
    known = sorted(set(_names(load_schema(schema))))
    for _ in range(draw(st.integers(1, 3))):
        node: Any = data
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not keys or draw(st.integers(0, 9)) == 0:
                key: Any = draw(st.sampled_from(known))
                break
            key = draw(st.sampled_from(keys))
            below = node[key]
            if not isinstance(below, dict | list) or draw(st.booleans()):
                break
            node = below
        value = draw(st.sampled_from(ODD) | st.text(max_size=4) | st.integers() | st.floats(allow_nan=False))
        if isinstance(node, dict):
            if key in node and draw(st.integers(0, 3)) == 0:
                del node[key]
            else:
                node[str(key)] = copy.deepcopy(value)
        elif isinstance(key, int):
            node[key] = copy.deepcopy(value)
    return schema, data


def _names(schema: Any) -> list[str]:
    """Every name of a property in a schema."""
    if isinstance(schema, list):
        return [name for item in schema for name in _names(item)]
    if not isinstance(schema, dict):
        return []
    own = list(cast("dict[str, Any]", schema.get("properties", {})))
    return own + [name for below in schema.values() for name in _names(below)]


@given(mutate_document())
@example(
    ("topic", {"apiVersion": "kafkaform/v1", "kind": "Topic", "metadata": {"name": "\ud800"}, "spec": {}})
)
@example(("topic", {"kind": "Topic", "spec": {"partitions": 10**50}}))
def test_fast_check_accepts_nothing_that_full_check_refuses(changed: tuple[str, Any]) -> None:
    schema, data = changed
    if schema_files._is_surely_valid(schema, data):
        assert [*schema_files._load_validator(schema).iter_errors(data)] == [], yaml.safe_dump(data)
