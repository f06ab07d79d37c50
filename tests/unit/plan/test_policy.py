"""What an unhealthy cluster holds back, and what a rule can."""

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
from tests.support.golden import wording
from tests.support.plans.scenes import topic

SICK = Diagnostic("KF303", Severity.ERROR, "3 partitions of 1 topic are under-replicated")
LOSS = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "records go")


def update(
    path: str, assessment: RiskAssessment, deferred: str | None = None, ref: ResourceRef | None = None
) -> Update:
    return Update(ref or topic("a"), "id", (FieldChange(path, 1, 2, 1, 2, assessment, deferred),))


GROUP = ResourceRef("ConsumerGroup", "g")
MOVING: dict[str, Change] = {
    "delete": Delete(topic("a"), "id", {}, LOSS),
    "delete group": Delete(GROUP, None, {}, LOSS),
    "cut": update("config.retention.ms", LOSS),
    "safe increase": update("partitions", RiskAssessment()),
    "move": update("placement", RiskAssessment(Risk.DISRUPTIVE, "replica-move", "2 replicas are copied")),
    "reset": update("offsets.a:0", RiskAssessment(Risk.DESTRUCTIVE, "offset-reset", "read again"), ref=GROUP),
}
STAYING: dict[str, Change] = {
    "create": Create(topic("a"), {"partitions": 3}),
    "raise": update("config.retention.ms", RiskAssessment()),
    "disruptive": update("config.min.insync.replicas", RiskAssessment(Risk.DISRUPTIVE, "min-isr-raise")),
    "deferred": update("partitions", RiskAssessment(), deferred="later"),
    "deferred move": update("placement", RiskAssessment(), deferred="later"),
}


@pytest.mark.parametrize("change", MOVING.values(), ids=MOVING)
def test_what_destroys_or_places_data_waits_until_the_cluster_is_healthy(change: Change) -> None:
    assert moves_data(change)
    (held,) = refuse_while_unhealthy(Plan("c", (PlannedChange(change, Status.PLANNED),)), [SICK]).changes
    assert (held.status, held.reason) == (Status.REFUSED, wording)
    assert held.remedy is not None
    assert "kafkaform doctor --wait" in held.remedy


@pytest.mark.parametrize("change", STAYING.values(), ids=STAYING)
def test_the_rest_goes_on(change: Change) -> None:
    assert not moves_data(change)
    plan = Plan("c", (PlannedChange(change, Status.PLANNED),))
    assert refuse_while_unhealthy(plan, [SICK]) == plan


def test_a_healthy_cluster_holds_nothing_back() -> None:
    plan = Plan("c", tuple(PlannedChange(change, Status.PLANNED) for change in MOVING.values()))
    assert refuse_while_unhealthy(plan, []) is plan


@pytest.mark.parametrize("status", [Status.REFUSED, Status.NEEDS_CONSENT])
def test_what_is_held_back_already_keeps_its_own_reason(status: Status) -> None:
    plan = Plan("c", (PlannedChange(MOVING["delete"], status, reason="for another reason"),))
    assert refuse_while_unhealthy(plan, [SICK]) == plan


def test_a_refusal_by_many_rules_quotes_two_and_names_the_rest() -> None:
    codes = (101, 102, 103, 103)
    found = [Diagnostic(f"KF{n}", Severity.ERROR, f"wrong {n}", suggestion=f"mend {n}") for n in codes]
    assert word_refusal(found[:1]) == ("KF101: wrong 101", "mend 101")
    reason = "KF101: wrong 101; KF102: wrong 102; and KF103, see the findings"
    assert word_refusal(found) == (reason, "mend 101; mend 102")


def test_consents_that_nothing_needs_are_told() -> None:
    cut = FieldChange(
        "config.retention.ms", "2", "1", assessment=RiskAssessment(Risk.DESTRUCTIVE, "retention-cut")
    )
    devices = topic("identity.devices.v1")
    plan = resolve_consents(Plan("c", (PlannedChange(Update(devices, None, (cut,)), Status.NEEDS_CONSENT),)))

    def told(*texts: str) -> list[str]:
        return [*find_idle_grants(map(Grant.parse, texts), plan, [topic("quiet")])]

    exact = "Topic/identity.devices.v1:retention-cut"
    assert told("destructive", "Topic/*:destructive", "Topic/identity.*:retention-*", exact) == []
    assert told("Topic/payments.*:delete") == [wording]
    assert told("Topic/quiet:delete") == [wording]
    assert told("Topic/*:delete") == [wording]
    with pytest.raises(UsageError, match="this plan covers no Topic") as raised:
        told("Topic/identity.device.v1:retention-cut")
    assert raised.value.hint == wording


def test_a_refusal_without_a_suggestion_has_no_remedy() -> None:
    assert word_refusal([SICK])[1] is None
