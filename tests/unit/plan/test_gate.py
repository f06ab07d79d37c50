"""Consents and what they cover, and the changes that an unhealthy cluster or a rule holds back."""

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
from kafkaform.core.plans import Consent, Plan, PlannedChange
from kafkaform.plan.gate import (
    find_idle_grants,
    moves_data,
    refuse_while_unhealthy,
    resolve_consents,
    word_refusal,
)
from kafkaform.resources.consent import Consents, Grant, parse_annotation
from tests.support.plans.scenes import topic

ORDERS = ResourceRef("Topic", "orders.v1")


COVERING = (
    *("Topic/orders.v1:retention-cut", "Topic/orders.*:retention-cut", "*/orders.v1:retention-*"),
    *("destructive", "Topic/orders.v1:destructive"),
)
OTHERS = (
    *("ConsumerGroup/*:destructive", "Topic/orders.v1:delete", "Topic/orders:retention-cut"),
    *("topic/orders.v1:retention-cut", "ConsumerGroup/orders.v1:retention-cut"),
)


@pytest.mark.parametrize("text", [*COVERING, *OTHERS])
def test_grant_covers_matching_hazards_and_resources(text: str) -> None:
    grant = Grant.parse(text)
    assert grant.covers(ORDERS, "retention-cut") is (text in COVERING)
    assert Grant.parse(grant.text) == grant


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        *((text, "--allow KIND/NAME:HAZARD") for text in ("", "*", "retention-cut", "orders:retention-cut")),
        *((text, "--allow KIND/NAME:HAZARD") for text in ("Topic/orders", "Topic/a:")),
        ("Topic/x:retention-cutt", "did you mean 'retention-cut'?"),
        ("Topic/x:nonsense-*", "hazards: access-removal"),
    ],
)
def test_invalid_grants_are_refused(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        Grant.parse(text)
    assert error.value.exit_code == 64
    assert hint in str(error.value.hint)


def test_reviewed_consent_is_preferred() -> None:
    both = Consents((Grant.parse("destructive"),), {"delete": "unused since May"})
    assert both.find(ORDERS, "delete") == Consent("Topic/orders.v1", "delete", "unused since May")
    assert both.find(ORDERS, "retention-cut") == Consent("Topic/orders.v1", "retention-cut", "--allow")
    assert Consents((), {"delete": "unused"}).find(ORDERS, "retention-cut") is None
    # A glob in a manifest would consent to what no reviewer has seen.
    assert Consents((), {"*": "everything"}).find(ORDERS, "delete") is None


@pytest.mark.parametrize(
    ("text", "reasons", "bad"),
    [
        ("", {}, []),
        ("retention-cut: hold ended: T-1", {"retention-cut": "hold ended: T-1"}, []),
        ("  a :  x \n\n b:y\r\n", {"a": "x", "b": "y"}, []),
        ("retention-cut", {}, ["retention-cut"]),
        ("retention-cut:", {}, ["retention-cut:"]),
        (": reason", {}, [": reason"]),
        ("two words: reason\nb: y", {"b": "y"}, ["two words: reason"]),
        ("retention-cut  from 50 GiB: why", {"retention-cut from 50 GiB": "why"}, []),
        ("delete of a-B_c: why\ndelete of d: so", {"delete of a-B_c": "why", "delete of d": "so"}, []),
        ("delete of: why", {}, ["delete of: why"]),
        ("retention-cut to 7d: why", {}, ["retention-cut to 7d: why"]),
    ],
)
def test_annotation_lists_consents_with_reasons(text: str, reasons: dict[str, str], bad: list[str]) -> None:
    assert parse_annotation(text) == (reasons, bad)


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


@pytest.mark.parametrize("name", [*MOVING, *STAYING])
def test_change_that_moves_data_is_refused_while_unhealthy(name: str) -> None:
    change = {**MOVING, **STAYING}[name]
    assert moves_data(change) is (name in MOVING)
    plan = Plan("c", (PlannedChange(change, Status.PLANNED),))
    (held,) = refuse_while_unhealthy(plan, [SICK]).changes
    if name in MOVING:
        assert held.status is Status.REFUSED
        assert held.reason == f"the cluster is not healthy: KF303: {SICK.message}"
        assert "kafkaform doctor --wait" in str(held.remedy)
    else:
        assert held == plan.changes[0]
    for status in (Status.REFUSED, Status.NEEDS_CONSENT):
        refused = Plan("c", (PlannedChange(change, status, reason="for another reason"),))
        assert refuse_while_unhealthy(refused, [SICK]) == refused


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
