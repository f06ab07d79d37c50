from __future__ import annotations

from itertools import permutations

import pytest

from kafkaform.core.wording import did_you_mean, nearest, quoted

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
