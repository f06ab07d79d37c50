"""What a schema refuses, said so that its author finds and mends it."""

from __future__ import annotations

import pytest

from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.structure import extract_sound_part, find_structure_problems
from kafkaform.config.manifests.yaml12 import Document, read_documents
from kafkaform.core.errors import Problem
from tests.support.golden import wording

HEAD = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: t}\n"


def document(text: str) -> Document:
    problems: list[Problem] = []
    (found,) = read_documents(text.encode(), "f", problems.append, verbatim=VERBATIM)
    assert problems == []
    return found


def problems(text: str, schema: str = "topic") -> list[str]:
    return [str(problem) for problem in find_structure_problems(document(text), schema)]


TOPICS = {
    "misspelt field": HEAD + "spec:\n  partitons: 3\n",
    "field in the wrong case": HEAD + "spec: {replicationfactor: 3}\n",
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


@pytest.mark.parametrize("text", TOPICS.values(), ids=TOPICS.keys())
def test_what_does_not_fit_the_schema_of_a_topic_is_told_at_its_place(text: str) -> None:
    assert problems(text) == wording


CONFIGS = {
    "not a mapping": "- 1",
    "kind": "apiVersion: kafkaform/v2\nkind: Topic\n",
    "rules": "apiVersion: kafkaform/v1\nkind: Config\nrules: {KF1: off, KF101: false}\n",
    "lists": "apiVersion: kafkaform/v1\nkind: Config\nmanifests: []\nenvironments: [a, b, a]\nowns: [1]\n",
}


@pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS.keys())
def test_what_does_not_fit_the_schema_of_the_configuration_is_told_at_its_place(text: str) -> None:
    assert problems(text, "config") == wording


def test_what_fits_a_schema_or_a_part_of_it_has_no_problems() -> None:
    text = HEAD + "spec: {partitions: 12, replicationFactor: 0x3, config: {a: 1, b: [x, 2]}}\n"
    assert problems(text) == []
    # A part of a document.
    found = document("defaults: {Topic: {partitons: 3}}")
    assert [
        str(p) for p in find_structure_problems(found, "topic", part="spec", path=["defaults", "Topic"])
    ] == [wording]
    assert extract_sound_part(found, "topic", part="spec", path=["defaults", "Topic"]) == {}


def test_the_sound_part_is_what_is_left_without_the_problems() -> None:
    text = HEAD + (
        "spec:\n  partitons: 3\n  partitions: many\n  keyed: true\n  overrides: {dev: {x: 1, keyed: false}}\n"
        "  config: {cleanup.policy: [delete, ~], retention.ms: {}}\n"
    )
    assert extract_sound_part(document(text), "topic") == {
        "apiVersion": "kafkaform/v1",
        "kind": "Topic",
        "metadata": {"name": "t"},
        "spec": {
            "keyed": True,
            "overrides": {"dev": {"keyed": False}},
            "config": {"cleanup.policy": ["delete"]},
        },
    }
    assert extract_sound_part(document("- 1"), "topic") is None


def test_hostile_names_stay_in_one_line() -> None:
    text = HEAD + f'spec:\n  "a\\n\\e[31m": 1\n  overrides:\n    "x\\ny":\n      ? {"k" * 3000}\n      : 1\n'
    found = problems(text)
    assert len(found) == 2
    for problem in found:
        assert problem.isprintable()
        assert len(problem) < 400
