"""Values: copies, comparison, and what is hidden."""

import copy
import json
import pickle
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.core.secrets import HIDDEN, Reference, Secret, UnreadableSecret, read_secret
from kafkaform.core.strict_json import encode_canonical
from kafkaform.core.values import HiddenValue, Value, compare_fields, field, replace
from kafkaform.core.wording import counted, did_you_mean, join_words, listed, nearest, quoted
from kafkaform.plan.plan_file import format_json
from kafkaform.plan.summary import word_consent_count


class Point(Value):
    """A point."""

    x: int
    labels: dict[str, int] = field(default_factory=dict)
    note: str = ""

    __eq__, __hash__ = compare_fields("x")


class Password(HiddenValue):
    """A secret."""

    text: str


@dataclass(frozen=True)
class Size:
    """A dataclass, as of spark_validation."""

    width: int


def test_replaced_value_is_immutable_copy() -> None:
    point = Point(1, note="a")
    assert replace(point, x=2) == Point(2)
    assert replace(Size(1), width=2) == Size(2)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        replace(point, z=1)
    assert Point(1).labels is not Point(1).labels


def test_values_are_compared_by_compared_fields() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert len({Point(1, note="a"), Point(1, note="b"), Point(2)}) == 2
    assert Point(1) != Size(1)


def test_secret_field_is_hidden_in_repr() -> None:
    assert repr(Password("x")) == "Password(<hidden>)"


def test_secret_text_is_hidden() -> None:
    secret = Secret("s3cr3t")
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>9}", f"{[secret]}"} == {HIDDEN, f"[{HIDDEN}]"}
    assert "%s" % secret == HIDDEN  # noqa: UP031 - another way to format
    for leak in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as error:
            leak(secret)
        assert "s3cr3t" not in str(error.value)
    assert not hasattr(secret, "__dict__")
    assert secret.reveal() == "s3cr3t"


def test_reference_is_read_at_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"s3cr3t\r\n")
    monkeypatch.setenv("PW", "from the environment")
    assert read_secret(Reference("file", str(file))).reveal() == "s3cr3t"
    assert read_secret(Reference("env", "PW")).reveal() == "from the environment"
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("ODD", "s3cr3t\udcff")
    for name, reason in (("MISSING", "is not set"), ("EMPTY", "is empty"), ("ODD", "is not UTF-8")):
        with pytest.raises(UnreadableSecret, match=f"{name}.* {reason}"):
            read_secret(Reference("env", name))


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below) | st.dictionaries(st.text(), below) | st.lists(below).map(tuple),
    max_leaves=30,
)


@given(VALUES)
@example({"a": [], "b": {}, "c": ()})
@example([[], [[]], {"": {"": [1]}}])
@example([2**64, -(2**63) - 1])
@example({"line\n\x7f\x9b\ud800": "\u2028\n"})
def test_json_encoding_matches_python(value: object) -> None:
    assert encode_canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    assert format_json(value) == json.dumps(value, indent=2, ensure_ascii=False) + "\n"


FIELDS = ("partitions", "replicationFactor", "retention", "config", "keyed")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("partitons", "partitions"),
        ("replicationfactor", "replicationFactor"),
        ("replication_factor", "replicationFactor"),
        ("CONFIG", "config"),
        ("owner", None),
        ("", None),
    ],
)
def test_nearest_of_the_candidates_is_suggested(written: str, meant: str | None) -> None:
    assert nearest(written, FIELDS) == meant


def test_suggestion_does_not_depend_on_order() -> None:
    assert {nearest("ab", order) for order in permutations(["abc", "abd", "AB"])} == {"AB"}
    assert len({nearest("abx", order) for order in permutations(["abc", "abd", "abe"])}) == 1
    assert did_you_mean("delte", ["compact", "delete"]) == "; did you mean 'delete'?"
    assert did_you_mean("zzz", ["compact", "delete"]) == ""
    assert quoted("a\nb\x1b[31m") == r"'a\nb\x1b[31m'"
    assert len(quoted("x" * 10_000_000)) == 62


@pytest.mark.parametrize(
    ("number", "noun", "verb"),
    [
        (0, "0 topics", "0 need consent"),
        (1, "1 topic", "1 needs consent"),
        (2, "2 topics", "2 need consent"),
        (1_200, "1,200 topics", "1,200 need consent"),
    ],
)
def test_numbers_agree_with_nouns_and_verbs(number: int, noun: str, verb: str) -> None:
    assert (counted(number, "topic"), word_consent_count(number)) == (noun, verb)


@pytest.mark.parametrize(
    ("number", "short", "series"),
    [(1, "a", "a"), (2, "a and 1 more topic", "a and b"), (3, "a and 2 more topics", "a, b and c")],
)
def test_lists_are_shortened_or_joined(number: int, short: str, series: str) -> None:
    items = ["a", "b", "c"][:number]
    assert (listed(items, 1, noun="topic"), join_words(items)) == (short, series)
