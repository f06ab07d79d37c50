"""Live groups as data."""

from __future__ import annotations

import pytest

from kafkaform.resources.groups import Group, Member, Position

HELD = Member("a", assignment=frozenset({("t", 0)}))
IDLE = Member("b")


@pytest.mark.parametrize(
    ("committed", "end", "lag"),
    [(4, 9, 5), (9, 9, 0), (0, 0, 0), (12, 9, 0), (None, 9, None), (4, None, None), (None, None, None)],
)
def test_lag_is_never_negative(committed: int | None, end: int | None, lag: int | None) -> None:
    assert Position("t", 0, committed, end=end).lag == lag


def test_lag_and_topics_are_computed_from_known_positions() -> None:
    positions = (Position("t", 0, 4, end=9), Position("t", 1, None, end=9), Position("u", 0, 2, end=3))
    assert Group("g", "classic", "Empty", positions=positions).lag == 6
    assert Group("g", "classic", "Empty", positions=positions[:1]).lag == 5
    assert Group("g", "classic", "Empty", positions=positions[1:2]).lag is None
    assert Group("g", "classic", "Empty").lag is None
    assert Group("g", "classic", "Stable", members=(HELD, IDLE)).idle_members == (IDLE,)
    assert Group("g", "classic", "Stable", members=(HELD,)).idle_members == ()
    positions = (Position("t", 0, 4), Position("t", 1, 0), Position("u", 0, None))
    group = Group("g", "classic", "Empty", positions=positions)
    assert group.topics == {"t", "u"}
    assert group.committed == {("t", 0): 4, ("t", 1): 0}


@pytest.mark.parametrize(
    ("state", "members", "active"),
    [
        ("Empty", (), False),
        ("Dead", (), False),
        ("", (), False),
        ("Stable", (IDLE,), True),
        ("PreparingRebalance", (), True),
        ("Empty", (IDLE,), True),
        ("NotReady", (), True),
    ],
)
def test_group_with_members_is_active(state: str, members: tuple[Member, ...], active: bool) -> None:
    assert Group("g", "classic", state, members=members).active is active
