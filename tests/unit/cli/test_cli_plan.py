"""With what `kafkaform plan` exits."""

from __future__ import annotations

import pytest

from kafkaform.cli.plan import exit_code
from kafkaform.core.model import Create, FieldChange, ResourceRef, Status, Update
from kafkaform.core.plans import Plan, PlannedChange

WAITING = Update(
    ResourceRef("Topic", "a"),
    None,
    (FieldChange("replicationFactor", 1, 3, deferred="the layout is not known"),),
)
CODES = [
    (Plan("c"), 0, 0, 0),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.PLANNED),)), 0, 2, 0),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.REFUSED),)), 0, 2, 1),
    (Plan("c", (PlannedChange(Create(ResourceRef("Topic", "a"), {}), Status.NEEDS_CONSENT),)), 0, 2, 1),
    (Plan("c", (PlannedChange(WAITING, Status.PLANNED),)), 0, 2, 1),
    (Plan("c", unknown=(ResourceRef("Topic", "a"),)), 1, 1, 1),
]


@pytest.mark.parametrize(("made", "simple", "with_detail", "strict"), CODES)
def test_plan_exit_codes_have_precedence(made: Plan, simple: int, with_detail: int, strict: int) -> None:
    assert exit_code(made, detailed=False, strict=False) == simple
    assert exit_code(made, detailed=True, strict=False) == with_detail
    assert exit_code(made, detailed=False, strict=True) == strict
    assert exit_code(made, detailed=True, strict=True) == (strict or with_detail)
