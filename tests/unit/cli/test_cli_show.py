"""Tests of showing a saved plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.show import Saving
from kafkaform.core.model import Create, Status
from kafkaform.core.plans import Plan, PlannedChange
from tests.support.plans.scenes import topic


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "it has nothing to apply"),
        ((Status.PLANNED,), "`kafkaform apply p.json`"),
        ((Status.REFUSED,), "changes nothing: 1 refused"),
    ],
)
def test_saved_plan_suggests_apply_only_with_planned_changes(
    changes: tuple[Status, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan("c", tuple(PlannedChange(Create(topic("t"), {}), status) for status in changes))
    Saving(Path("p.json")).tell(plan, ClusterSelector())
    assert words in capsys.readouterr().err
