"""What members of a group get of a topic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation.analysis import ASSIGNORS, Group, assign

SHARES = [0.4, 0.3, 0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("assignor", "given_"),
    [
        ("range", [(0, 1), (2, 3), (4,)]),
        ("uniform", [(0, 1), (2, 3), (4,)]),
        ("roundrobin", [(0, 3), (1, 4), (2,)]),
        ("sticky", [(0, 3), (1, 4), (2,)]),
        ("cooperative-sticky", [(0, 3), (1, 4), (2,)]),
    ],
)
def test_partitions_are_given_as_the_assignor_does(assignor: str, given_: list[tuple[int, ...]]) -> None:
    found = assign(Group("checkout", assignor, 3), SHARES)
    assert (found.name, found.assignor) == ("checkout", assignor)
    assert [member.partitions for member in found.members] == given_


def test_the_busiest_member_is_set_against_the_mean() -> None:
    by_range = assign(Group("g", "range", 3), SHARES)
    assert [member.share for member in by_range.members] == pytest.approx([0.7, 0.2, 0.1])
    assert by_range.max_mean_ratio == pytest.approx(2.1)
    assert assign(Group("g", "roundrobin", 3), SHARES).max_mean_ratio == pytest.approx(1.5)


def test_more_members_than_partitions_leave_some_idle() -> None:
    found = assign(Group("g", "range", 8), SHARES)
    assert [member.partitions for member in found.members[4:]] == [(4,), (), (), ()]
    assert found.max_mean_ratio == pytest.approx(0.4 * 8)


def test_an_empty_topic_gives_nothing_to_anybody() -> None:
    assert assign(Group("g", "range", 2), [0.0, 0.0]).max_mean_ratio == 0.0


def test_an_unknown_assignor_is_named() -> None:
    with pytest.raises(ValueError, match=r"group g: assignor 'com\.acme\.Own' is not known"):
        assign(Group("g", "com.acme.Own", 2), SHARES)


def test_a_group_without_members_is_refused() -> None:
    with pytest.raises(ValueError, match="group g: it needs at least one member"):
        assign(Group("g", "range", 0), SHARES)


@given(st.sampled_from(sorted(ASSIGNORS)), st.integers(1, 200), st.integers(1, 200))
def test_every_partition_has_one_member_and_counts_differ_by_one(
    assignor: str, partitions: int, members: int
) -> None:
    found = assign(Group("g", assignor, members), [1 / partitions] * partitions)
    dealt = [partition for member in found.members for partition in member.partitions]
    counts = [len(member.partitions) for member in found.members]
    assert sorted(dealt) == list(range(partitions))
    assert len(counts) == members
    assert max(counts) - min(counts) <= 1
