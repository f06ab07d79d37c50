"""What a schema refuses, said so that its author finds and mends it."""

from __future__ import annotations

import pytest

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.structure import sound_part, structure_problems
from kafkaform.config.manifests.yaml12 import Document, read_documents
from kafkaform.core.errors import Problem

HEAD = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: t}\n"


def document(text: str) -> Document:
    problems: list[Problem] = []
    (found,) = read_documents(text.encode(), "f", problems.append, verbatim=VERBATIM)
    assert problems == []
    return found


def problems(text: str, schema: str = "topic") -> list[str]:
    return [str(problem) for problem in structure_problems(document(text), schema)]


SPEC_FIELDS = (
    "known here: config, deletionProtection, keyed, overrides, partitions, placement, replicationFactor, "
    "retention, skew, state, undeclared"
)

TOPICS: dict[str, tuple[str, list[str]]] = {
    "misspelt field": (
        HEAD + "spec:\n  partitons: 3\n",
        ["f:5:3: unknown field 'partitons' in spec (did you mean 'partitions'?)"],
    ),
    "field in the wrong case": (
        HEAD + "spec: {replicationfactor: 3}\n",
        ["f:4:8: unknown field 'replicationfactor' in spec (did you mean 'replicationFactor'?)"],
    ),
    "field that is like no other": (
        HEAD + "spec: {zzz: 3}\n",
        [f"f:4:8: unknown field 'zzz' in spec ({SPEC_FIELDS})"],
    ),
    "field at the top": (
        HEAD + "spec: {}\nstatus: {}\n",
        ["f:5:1: unknown field 'status' (known here: apiVersion, kind, metadata, spec)"],
    ),
    "field of an override": (
        HEAD + "spec:\n  overrides:\n    dev: {keyd: true, overrides: {}}\n",
        [
            "f:6:11: unknown field 'keyd' in spec.overrides.dev (did you mean 'keyed'?)",
            "f:6:23: unknown field 'overrides' in spec.overrides.dev (it belongs in spec)",
        ],
    ),
    "retention shorthand": (
        HEAD + "spec: {retention: {tiem: 7d}}\n",
        ["f:4:20: unknown field 'tiem' in spec.retention (did you mean 'time'?)"],
    ),
    "key that is not text": (
        HEAD + "spec: {1: 2, null: 3}\n",
        [
            f"f:4:8: unknown field '1' in spec ({SPEC_FIELDS})",
            f"f:4:14: unknown field 'null' in spec ({SPEC_FIELDS})",
        ],
    ),
    "everything missing": (
        "{}",
        [
            "f:1:1: apiVersion is missing (write apiVersion: kafkaform/v1)",
            "f:1:1: kind is missing (write kind: Topic)",
            "f:1:1: metadata is missing",
            "f:1:1: spec is missing",
        ],
    ),
    "null": (HEAD + "spec:\n", ["f:4:6: spec must be a mapping, not null"]),
    "null config": (HEAD + "spec: {config: ~}\n", ["f:4:16: spec.config must be a mapping, not null"]),
    "null overrides": (
        HEAD + "spec: {overrides: , keyed: null}\n",
        [
            "f:4:19: spec.overrides must be a mapping, not null",
            "f:4:28: spec.keyed must be true or false, not null",
        ],
    ),
    "text for a count": (
        HEAD + "spec: {partitions: '12'}\n",
        ["f:4:20: spec.partitions must be a whole number, not '12' (write 12 without quotes)"],
    ),
    "half a partition": (
        HEAD + "spec: {partitions: 12.5}\n",
        ["f:4:20: spec.partitions must be a whole number, not 12.5"],
    ),
    "YAML 1.1": (
        HEAD + "spec: {keyed: yes, deletionProtection: off, partitions: 1:30, replicationFactor: true}\n",
        [
            "f:4:15: spec.keyed must be true or false, not 'yes' (write true)",
            "f:4:40: spec.deletionProtection must be true or false, not 'off' (write false)",
            "f:4:57: spec.partitions must be a whole number, not '1:30'",
            "f:4:82: spec.replicationFactor must be a whole number, not true",
        ],
    ),
    "a list for a mapping": (
        HEAD + "spec: [1]\n",
        ["f:4:7: spec must be a mapping, not a list (write lines `name: value` without dashes)"],
    ),
    "a mapping for a value": (
        HEAD + "spec: {config: {retention.ms: {a: 1}}}\n",
        [
            (
                "f:4:31: spec.config.retention.ms must be text, a number, true or false, a list or null, "
                "not a mapping"
            )
        ],
    ),
    "null in a list": (
        HEAD + "spec: {config: {cleanup.policy: [delete, ~]}}\n",
        ["f:4:42: spec.config.cleanup.policy.1 must be text, a number or true or false, not null"],
    ),
    "too few": (
        HEAD + "spec: {partitions: 0}\n",
        ["f:4:20: spec.partitions must be at least 1, not 0"],
    ),
    "too many": (
        HEAD + "spec: {partitions: 1e9}\n",
        [
            (
                "f:4:20: spec.partitions must be a whole number, and is written as a fraction or with an "
                "exponent (write 1000000000)"
            ),
            "f:4:20: spec.partitions must be at most 100000, not 1000000000.0",
        ],
    ),
    "very many": (
        HEAD + f"spec: {{partitions: {'9' * 399}, replicationFactor: {'9' * 500}}}\n",
        [
            f"f:4:20: spec.partitions must be at most 100000, not {'9' * 20}…",
            f"f:4:440: spec.replicationFactor must be a whole number, not '{'9' * 59}…'",
        ],
    ),
    "share": (
        HEAD + "spec: {skew: {maxKeyShare: 0, maxPartitionRatio: .inf, by: record}}\n",
        [
            "f:4:28: spec.skew.maxKeyShare must be more than 0, not 0",
            "f:4:50: spec.skew.maxPartitionRatio must be a number, not '.inf'",
            "f:4:60: spec.skew.by must be one of records, bytes, not 'record' (did you mean 'records'?)",
        ],
    ),
    "choice": (
        HEAD + "spec: {state: abset, undeclared: drop}\n",
        [
            "f:4:15: spec.state must be one of present, absent, not 'abset' (did you mean 'absent'?)",
            "f:4:34: spec.undeclared must be one of report, reset, keep, not 'drop'",
        ],
    ),
    "names": (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: '', labels: {a: ~}}\nspec: {}\n",
        [
            "f:3:18: metadata.name must not be empty",
            "f:3:34: metadata.labels.a must be text, a number or true or false, not null",
        ],
    ),
    "a name that is a number": (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: 010}\nspec: {}\n",
        ["f:3:18: metadata.name must be text, not 10 (quote it, as in '10')"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), TOPICS.values(), ids=TOPICS.keys())
def test_topics(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


CONFIGS: dict[str, tuple[str, list[str]]] = {
    "not a mapping": (
        "- 1",
        ["f:1:1: the document must be a mapping, not a list (write lines `name: value` without dashes)"],
    ),
    "kind": (
        "apiVersion: kafkaform/v2\nkind: Topic\n",
        [
            "f:1:13: apiVersion must be kafkaform/v1, not 'kafkaform/v2' (did you mean 'kafkaform/v1'?)",
            "f:2:7: kind must be Config, not 'Topic'",
        ],
    ),
    "rules": (
        "apiVersion: kafkaform/v1\nkind: Config\nrules: {KF1: off, KF101: false}\n",
        [
            "f:3:26: rules.KF101 must be one of error, warning, info, off, not false",
        ],
    ),
    "lists": (
        "apiVersion: kafkaform/v1\nkind: Config\nmanifests: []\nenvironments: [a, b, a]\nowns: [1]\n",
        [
            "f:3:12: manifests must not be empty",
            "f:4:15: environments contains a duplicate",
            "f:5:8: owns.0 must be text, not 1 (quote it, as in '1')",
        ],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CONFIGS.values(), ids=CONFIGS.keys())
def test_configuration(text: str, expected: list[str]) -> None:
    assert problems(text, "config") == expected


def test_what_fits_has_no_problems() -> None:
    text = HEAD + "spec: {partitions: 12, replicationFactor: 0x3, config: {a: 1, b: [x, 2]}}\n"
    assert problems(text) == []


def test_a_part_of_a_document() -> None:
    found = document("defaults: {Topic: {partitons: 3}}")
    assert [str(p) for p in structure_problems(found, "topic", part="spec", path=["defaults", "Topic"])] == [
        "f:1:20: unknown field 'partitons' in defaults.Topic (did you mean 'partitions'?)"
    ]
    assert sound_part(found, "topic", part="spec", path=["defaults", "Topic"]) == {}


def test_the_sound_part_is_what_is_left_without_the_problems() -> None:
    text = HEAD + (
        "spec:\n  partitons: 3\n  partitions: many\n  keyed: true\n  overrides: {dev: {x: 1, keyed: false}}\n"
        "  config: {cleanup.policy: [delete, ~], retention.ms: {}}\n"
    )
    assert sound_part(document(text), "topic") == {
        "apiVersion": "kafkaform/v1",
        "kind": "Topic",
        "metadata": {"name": "t"},
        "spec": {
            "keyed": True,
            "overrides": {"dev": {"keyed": False}},
            "config": {"cleanup.policy": ["delete"]},
        },
    }
    assert sound_part(document("- 1"), "topic") is None


def test_hostile_names_stay_in_one_line() -> None:
    text = HEAD + f'spec:\n  "a\\n\\e[31m": 1\n  overrides:\n    "x\\ny":\n      ? {"k" * 3000}\n      : 1\n'
    found = problems(text)
    assert len(found) == 2
    for problem in found:
        assert problem.isprintable()
        assert len(problem) < 400
