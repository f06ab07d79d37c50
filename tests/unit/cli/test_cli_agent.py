"""The exit code of `kafkaform agent` after its plan was applied, on the cluster in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkaform.core.model import SAFE, Delete
from kafkaform.core.operations import AlterConfigs
from kafkaform.resources import KINDS
from tests.support.cli.agent import Team, build_team
from tests.support.cli.memory_program import Connected
from tests.support.plans.scenes import topic


@pytest.fixture
def team(connected: Connected, tmp_path: Path) -> Team:
    """A team whose topic `old` is live."""
    made = build_team("127.0.0.1:1", "", tmp_path)
    made.work.topic("old", partitions=3, keyed=False, retention="7d")
    made.work.apply().needs(0)
    assert topic("old") in connected.observe([topic("old")]).resources
    return made


HELD: dict[str, dict[str, Any]] = {
    "needs consent": {"partitions": 3, "retention": "1h"},
    "is refused": {"partitions": 2, "retention": "7d"},
    "both": {"partitions": 1, "retention": "1h"},
}


@pytest.mark.parametrize("case", HELD)
def test_held_back_change_fails_agent_until_resolved(team: Team, connected: Connected, case: str) -> None:
    team.work.topic("old", keyed=False, **HELD[case])
    team.release(new=1, code=1)
    assert "1 created" in team.run().needs(1).words
    for _ in range(2):
        call = team.run().needs(1)
        assert "its plan is applied already, except for what is held back" in call.words
        assert "Topic/old" in call.out
        assert "1 created" not in call.words
    # Somebody made the change by hand, with consent.
    live = connected.observe([topic("old")]).resources[topic("old")]
    assert connected.execute(KINDS["Topic"].operations(Delete(live.ref, live.uid, {}, SAFE))) == [None]
    team.run().needs(1)  # now it would be created, which nobody reviewed
    team.work.apply("--target", "Topic/old").needs(0)
    assert "held back" not in team.run().needs(0).words


def test_change_outside_kafkaform_is_not_held_back(team: Team, connected: Connected) -> None:
    team.work.topic("old", partitions=3, keyed=False, retention="1h")
    team.release(new=1, code=1)
    team.run().needs(1)
    connected.execute([AlterConfigs(topic("new"), {"retention.ms": "5"})])
    assert "Topic/new" not in team.run().needs(1).out
    connected.execute([AlterConfigs(topic("old"), {"retention.ms": "3600000"})])
    assert "is applied already" in team.run().needs(0).err
