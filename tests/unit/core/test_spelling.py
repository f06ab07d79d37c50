from itertools import permutations

import pytest

from kafkaform.core.wording import counted, did_you_mean, join_words, listed, nearest, quoted
from kafkaform.plan.summary import word_consent_count

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
