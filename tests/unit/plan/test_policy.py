"""Tests of the changes that an unhealthy cluster, or a rule, holds back."""

from __future__ import annotations

import pytest

from kafkaform.core.errors import UsageError
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.plan.gate import (
    find_idle_grants,
    moves_data,
    refuse_while_unhealthy,
    resolve_consents,
    word_refusal,
)
from kafkaform.resources.consent import Grant
from tests.support.plans.scenes import topic

SICK = Diagnostic("KF303", Severity.ERROR, "3 partitions of 1 topic are under-replicated")
LOSS = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "records go")


def build_update(
    path: str, assessment: RiskAssessment, deferred: str | None = None, ref: ResourceRef | None = None
) -> Update:
    return Update(ref or topic("a"), "id", (FieldChange(path, 1, 2, 1, 2, assessment, deferred),))


GROUP = ResourceRef("ConsumerGroup", "g")
MOVING: dict[str, Change] = {
    "delete": Delete(topic("a"), "id", {}, LOSS),
    "delete group": Delete(GROUP, None, {}, LOSS),
    "cut": build_update("config.retention.ms", LOSS),
    "safe increase": build_update("partitions", RiskAssessment()),
    "move": build_update("placement", RiskAssessment(Risk.DISRUPTIVE, "replica-move")),
    "reset": build_update("offsets.a:0", RiskAssessment(Risk.DESTRUCTIVE, "offset-reset"), ref=GROUP),
}
STAYING: dict[str, Change] = {
    "create": Create(topic("a"), {"partitions": 3}),
    "raise": build_update("config.retention.ms", RiskAssessment()),
    "disruptive": build_update("config.min.insync.replicas", RiskAssessment(Risk.DISRUPTIVE, "x")),
    "deferred": build_update("partitions", RiskAssessment(), deferred="later"),
    "deferred move": build_update("placement", RiskAssessment(), deferred="later"),
}


@pytest.mark.parametrize("change", MOVING.values(), ids=MOVING)
def test_change_that_moves_data_is_refused_while_unhealthy(change: Change) -> None:
    assert moves_data(change)
    (held,) = refuse_while_unhealthy(Plan("c", (PlannedChange(change, Status.PLANNED),)), [SICK]).changes
    assert held.status is Status.REFUSED
    assert held.reason == f"the cluster is not healthy: KF303: {SICK.message}"
    assert "kafkaform doctor --wait" in str(held.remedy)


@pytest.mark.parametrize("change", STAYING.values(), ids=STAYING)
def test_change_without_data_movement_is_planned_while_unhealthy(change: Change) -> None:
    assert not moves_data(change)
    plan = Plan("c", (PlannedChange(change, Status.PLANNED),))
    assert refuse_while_unhealthy(plan, [SICK]) == plan


@pytest.mark.parametrize("status", [Status.REFUSED, Status.NEEDS_CONSENT])
def test_refused_change_keeps_own_reason(status: Status) -> None:
    plan = Plan("c", (PlannedChange(MOVING["delete"], status, reason="for another reason"),))
    assert refuse_while_unhealthy(plan, [SICK]) == plan


def test_refusal_by_many_rules_quotes_two() -> None:
    codes = (101, 102, 103, 103)
    found = [Diagnostic(f"KF{n}", Severity.ERROR, f"wrong {n}", suggestion=f"mend {n}") for n in codes]
    assert word_refusal([SICK])[1] is None
    assert word_refusal(found[:1]) == ("KF101: wrong 101", "mend 101")
    assert word_refusal(found[:2])[0] == "KF101: wrong 101; KF102: wrong 102"
    reason = "KF101: wrong 101; KF102: wrong 102; and KF103, see the findings"
    assert word_refusal(found) == (reason, "mend 101; mend 102")


DEVICES = topic("identity.devices.v1")
CUT = FieldChange("config.retention.ms", "2", "1", assessment=LOSS)
CUT_OF_DEVICES = resolve_consents(
    Plan("c", (PlannedChange(Update(DEVICES, None, (CUT,)), Status.NEEDS_CONSENT),))
)


@pytest.mark.parametrize(
    ("grant", "note"),
    [
        ("destructive", None),
        ("Topic/*:destructive", None),
        ("Topic/identity.*:retention-*", None),
        ("Topic/identity.devices.v1:retention-cut", None),
        ("Topic/payments.*:delete", "matches no resource of this plan"),
        ("Topic/quiet:delete", "nothing in this plan needs `--allow Topic/quiet:delete`"),
        ("Topic/*:delete", "the resources that it matches need retention-cut"),
    ],
)
def test_idle_grant_is_reported(grant: str, note: str | None) -> None:
    notes = [*find_idle_grants([Grant.parse(grant)], CUT_OF_DEVICES, [topic("quiet")])]
    assert len(notes) == (note is not None)
    assert note is None or note in notes[0]


def test_grant_for_a_misspelt_resource_is_refused() -> None:
    grant = Grant.parse("Topic/identity.device.v1:retention-cut")
    with pytest.raises(UsageError, match="this plan covers no Topic") as error:
        [*find_idle_grants([grant], CUT_OF_DEVICES, [topic("quiet")])]
    assert "did you mean Topic/identity.devices.v1?" in str(error.value.hint)
