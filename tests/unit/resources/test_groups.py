"""Live groups as data."""

from __future__ import annotations

from kafkaform.resources.groups import Group, Member, Position

HELD = Member("a", assignment=frozenset({("t", 0)}))
IDLE = Member("b")


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
