"""What is said of a plan that was saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform.cli.options import Where
from kafkaform.cli.show import Saving
from kafkaform.core.model import Create, Plan, PlannedChange, Status
from tests.support.scenes import topic


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ((), "saved to p.json: it has nothing to apply"),
        ((Status.PLANNED,), "saved: kafkaform apply p.json applies exactly this plan"),
        ((Status.REFUSED,), "saved to p.json, but an apply of it changes nothing: 1 refused"),
    ],
)
def test_an_apply_is_offered_only_where_there_is_something_to_apply(
    changes: tuple[Status, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan("c", tuple(PlannedChange(Create(topic("t"), {}), status) for status in changes))
    Saving(Path("p.json")).tell(plan, Where())
    assert capsys.readouterr().err == f"{said}\n"
