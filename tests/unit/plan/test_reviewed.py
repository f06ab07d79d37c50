from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import (
    SAFE,
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    FieldChange,
    FieldValue,
    Intent,
    Location,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Undeclared,
    Update,
)
from kafkaform.core.plans import Consent, Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.values import replace
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.reviewed import ReviewComparison, compare
from kafkaform.resources.values import fields_of
from tests.support.golden import wording
from tests.support.plans import strategies
from tests.support.plans.scenes import topic

HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "prod", "2025-06-01T12:00:00Z")
LATER = replace(
    HEADER, tool_version="0.1.1", commit=None, cluster_name="p", created_at="2025-07-01T12:00:00Z"
)
DAY = "86400000"
WEEK = "604800000"
LOSS = RiskAssessment(Risk.DESTRUCTIVE, "delete", "all records are lost")


def planned(change: Change, status: Status = Status.PLANNED) -> PlannedChange:
    return PlannedChange(change, status, Location("a.yaml", 1))


def update(*fields: FieldChange, name: str = "a", uid: str = "id-a") -> Update:
    return Update(topic(name), uid, fields)


def plan(*changes: Change | PlannedChange) -> Plan:
    return Plan("c1", tuple(c if isinstance(c, PlannedChange) else planned(c) for c in changes))


def declared(name: str = "a", /, **state: FieldValue) -> Desired:
    return Desired(topic(name), {key.replace("_", "."): value for key, value in state.items()})


def compared(reviewed: Plan, now: Plan, *desired: Desired) -> ReviewComparison:
    return compare((reviewed, HEADER), (now, LATER), desired)


def differences(reviewed: Plan, now: Plan, *desired: Desired) -> Sequence[str]:
    return compared(reviewed, now, *desired).differences


PARTITIONS = FieldChange("partitions", 3, 6)
RETENTION = FieldChange("config.retention.ms", DAY, WEEK)
BOTH = plan(update(PARTITIONS, RETENTION))
CREATE = Create(topic("a"), {"partitions": 3, "config.retention.ms": WEEK})
DELETE = Delete(topic("a"), "id-a", {"partitions": 3}, LOSS)


# --- laws ------------------------------------------------------------------------------------------


@given(strategies.plans(max_changes=3), strategies.headers())
def test_a_plan_does_what_it_does(made: Plan, header: PlanHeader) -> None:
    assert compare((made, header), (made, header), ()) == ReviewComparison()


@given(strategies.plans(max_changes=3), strategies.headers(), st.data())
def test_wording_sizes_places_and_findings_do_not_count(
    made: Plan, header: PlanHeader, data: st.DataObject
) -> None:
    changes = tuple(
        replace(c, location=None, reason="other words", remedy=None, change=_reworded(c.change))
        for c in made.changes
    )
    other = replace(
        made,
        changes=changes,
        unchanged=made.unchanged + 1,
        unmanaged=(),
        diagnostics=(Diagnostic("KF1", Severity.INFO, "m"),),
        broker_validated=not made.broker_validated,
    )
    later = replace(data.draw(strategies.headers()), environment=header.environment)
    assert compare((made, header), (other, later), ()) == ReviewComparison()


def _reworded(change: Change) -> Change:
    def other(assessment: RiskAssessment) -> RiskAssessment:
        return replace(assessment, reason="3 GiB less", remedy="wait")

    if isinstance(change, Update):
        fields = (replace(f, assessment=other(f.assessment), effective_before="1") for f in change.fields)
        return replace(change, fields=tuple(fields))
    return replace(change, assessment=other(change.assessment))


@given(strategies.planned_changes(), st.data())
def test_any_edit_of_what_is_done_is_a_difference_both_ways(
    change: PlannedChange, data: st.DataObject
) -> None:
    change = replace(change, status=Status.PLANNED)
    edited = data.draw(_edits(change))
    for pair in ((plan(change), plan(edited)), (plan(edited), plan(change))):
        found = differences(*pair)
        assert found
        assert all(line.isprintable() for line in found)


def _edits(change: PlannedChange) -> st.SearchStrategy[PlannedChange]:
    """The change with another status, action, identity, or one other value in a field."""
    ref = change.ref
    actions: list[Change] = [Create(ref, {"partitions": 1}), Delete(ref, None, {"partitions": 1}, LOSS)]
    actions = [other for other in actions if type(other) is not type(change.change)]
    found = [
        st.sampled_from([Status.REFUSED, Status.NEEDS_CONSENT]).map(lambda s: replace(change, status=s)),
        st.sampled_from(actions).map(lambda other: replace(change, change=other)),
    ]
    inner = change.change
    if isinstance(inner, Update | Delete):
        found.append(st.just(replace(change, change=replace(inner, uid="another"))))
    if isinstance(inner, Update):
        first, *rest = inner.fields
        if first.deferred is None:
            sides = (replace(first, before=_other(first.before)), replace(first, after=_other(first.after)))
            edits = (replace(inner, fields=(side, *rest)) for side in sides)
            found += [st.just(replace(change, change=edit)) for edit in edits]
    elif inner.state:
        path = min(inner.state)
        state = {**inner.state, path: _other(inner.state[path])}
        found.append(st.just(replace(change, change=replace(inner, state=state))))
    return st.one_of(found)


def _other(value: FieldValue) -> FieldValue:
    return value + 1 if isinstance(value, int) else f"{value or ''}x"


@given(st.booleans(), strategies.names(), strategies.hostile_text(min_size=1))
def test_any_other_consent_is_a_difference(is_changing: bool, name: str, reason: str) -> None:
    made = plan(Create(topic(name if is_changing else f"not {name}"), {"partitions": 3}))
    more = replace(made, consents=(Consent(str(topic(name)), "delete", reason),))
    (line,) = differences(made, more)
    assert line.endswith(" was not given when the plan was reviewed")
    assert bool(differences(more, made)) == is_changing  # one that nothing needs any more is no loss


# --- what a person reads ---------------------------------------------------------------------------


def test_every_difference_from_the_reviewed_plan_stops() -> None:
    other = plan(update(PARTITIONS, replace(RETENTION, after="259200000")))
    assert differences(BOTH, other) == (wording,)
    other = plan(update(replace(PARTITIONS, before=4), RETENTION))
    assert differences(BOTH, other) == (wording,)
    less = plan(update(RETENTION))
    assert differences(less, BOTH) == (wording,)
    assert differences(BOTH, less, declared(partitions=3, config_retention_ms=WEEK)) == (wording,)
    for change, what in ((CREATE, "creates"), (update(PARTITIONS), "changes"), (DELETE, "deletes")):
        line = f"Topic/a is not in the reviewed plan: an apply now {what} it"
        assert differences(plan(), plan(change)) == (line,)
        assert compared(plan(), plan(change)).beyond
    assert differences(plan(CREATE), plan(update(PARTITIONS))) == (wording,)
    # Another status.
    refused = plan(planned(update(PARTITIONS), Status.REFUSED))
    (line,) = differences(plan(update(PARTITIONS)), refused)
    assert line == wording
    (line,) = differences(refused, plan(update(PARTITIONS)))
    assert line == wording
    one = plan(planned(update(PARTITIONS), Status.REFUSED))
    other = plan(planned(DELETE, Status.NEEDS_CONSENT))
    assert compared(one, other) == ReviewComparison()
    assert compared(one, plan()) == ReviewComparison()
    other = plan(update(PARTITIONS, RETENTION, uid="id-b"))
    assert differences(BOTH, other) == (wording,)


def test_what_another_branch_asks_for_is_told_from_what_is_otherwise_than_reviewed() -> None:
    less = plan(update(RETENTION))
    assert compared(less, BOTH).beyond
    assert not compared(BOTH, less).beyond
    assert not compared(plan(CREATE), plan(DELETE)).beyond
    assert not compared(plan(), plan(planned(DELETE, Status.NEEDS_CONSENT))).beyond


def test_a_resource_more_that_is_left_alone_does_not_stop() -> None:
    new = plan(planned(DELETE, Status.NEEDS_CONSENT))
    assert compared(plan(), new) == ReviewComparison((), (wording,))


def test_another_risk_cluster_environment_or_consent_stops() -> None:
    # A risk that rose.
    risky = plan(
        update(replace(PARTITIONS, assessment=RiskAssessment(Risk.DISRUPTIVE, "partition-increase", "r")))
    )
    safe = plan(update(replace(PARTITIONS, assessment=SAFE)))
    assert differences(safe, risky) == (wording,)
    assert differences(risky, safe) == ()
    other = replace(plan(), cluster_id="c2\x1b")
    found = compare((plan(), HEADER), (other, replace(HEADER, environment=None)), ())
    assert found.differences == wording
    deferred = FieldChange("replicationFactor", 1, 3, deferred="later")
    assert compared(plan(update(PARTITIONS, deferred)), plan(update(PARTITIONS))) == ReviewComparison()
    due = plan(update(PARTITIONS, replace(deferred, deferred=None)))
    assert differences(plan(update(PARTITIONS, deferred)), due) == (wording,)
    one = replace(plan(DELETE), consents=(Consent("Topic/a", "delete", "TICKET-1"),))
    other = replace(plan(DELETE), consents=(Consent("Topic/a", "delete", "TICKET-2"),))
    assert differences(one, other) == wording


def test_hostile_names_stay_in_their_line() -> None:
    hostile = Create(ResourceRef("Topic", "a\n::error::\x1b[2J"), {"config.x\n": "\x1b[31m\n"})
    for found in (differences(plan(), plan(hostile)), differences(plan(hostile), plan())):
        assert found
        assert all(line.isprintable() for line in found)


# --- what is done already --------------------------------------------------------------------------


@pytest.mark.parametrize("change", [CREATE, update(replace(PARTITIONS, after=3), RETENTION)])
def test_what_is_done_already_is_a_note(change: Change) -> None:
    wanted = declared(partitions=3, config_retention_ms=WEEK)
    reviewed = replace(plan(change), consents=(Consent("Topic/a", "h", "TICKET-1"),))
    assert compared(reviewed, plan(), wanted) == ReviewComparison((), (wording,))


def test_what_is_done_by_now_is_a_note() -> None:
    wanted = declared(partitions=6, config_retention_ms=WEEK)
    assert compared(BOTH, plan(update(RETENTION)), wanted) == ReviewComparison(
        (), ("Topic/a already has partitions 6",)
    )
    # A config that no manifest mentions is done only where it is gone.
    reset = plan(update(FieldChange("config.segment.ms", "5000", None)))
    gone = declared(partitions=3)
    assert compared(reset, plan(), gone).notes
    there = replace(plan(), undeclared=(UndeclaredConfig(topic("a"), "config.segment.ms", "5000"),))
    assert differences(reset, there, gone)
    unseen = replace(gone, intent=Intent(undeclared=Undeclared.KEEP))
    assert differences(reset, plan(), unseen)
    explicit = Desired(topic("a"), {"config.segment.ms": None}, Intent(undeclared=Undeclared.KEEP))
    assert compared(reset, plan(), explicit).notes
    change = update(FieldChange("config.cleanup.policy", "delete", "compact,delete"))
    assert compared(plan(change), plan(), declared(config_cleanup_policy="delete,compact")).notes


@pytest.mark.parametrize("desired", [(), (Desired(topic("a"), None),)])
def test_a_delete_that_is_done(desired: tuple[Desired, ...]) -> None:
    assert compared(plan(DELETE), plan(), *desired).notes
    assert not differences(plan(DELETE), plan(), *desired)


@pytest.mark.parametrize(
    ("change", "now", "desired"),
    [
        # The manifests have changed: what is no longer wanted is not done.
        (CREATE, plan(), ()),
        (CREATE, plan(), (Desired(topic("a"), None),)),
        (CREATE, plan(), (declared(partitions=4, config_retention_ms=WEEK),)),
        (update(PARTITIONS), plan(), (declared(partitions=3),)),
        (update(PARTITIONS), plan(), ()),
        (DELETE, plan(), (declared(partitions=3),)),
        # Nobody declares it any more, and it is still there.
        (DELETE, replace(plan(), unmanaged=(topic("a"),)), ()),
        # This account cannot tell whether it is there.
        (CREATE, replace(plan(), unknown=(topic("a"),)), (declared(partitions=3, config_retention_ms=WEEK),)),
        (DELETE, replace(plan(), unknown=(topic("a"),)), (Desired(topic("a"), None),)),
    ],
)
def test_what_is_not_done_and_would_not_be_done_any_more(
    change: Change, now: Plan, desired: tuple[Desired, ...]
) -> None:
    (line,) = differences(plan(change), now, *desired)
    assert line == wording


def test_fields_are_those_of_every_action() -> None:
    """A guard for the tests above: a create's and a delete's fields are compared like an update's."""
    assert [f.path for f in fields_of(CREATE)] == ["partitions", "config.retention.ms"]
    other = plan(Create(topic("a"), {"partitions": 3}))
    assert differences(plan(CREATE), other, declared(partitions=3)) == (wording,)
    moved = plan(replace(DELETE, state={"partitions": 5}))
    assert differences(plan(DELETE), moved) == (wording,)


# --- replicas --------------------------------------------------------------------------------------

FACTOR = FieldChange("replicationFactor", 1, 3)
TOPIC = FieldChange("placement", "1,2", "1:2:3,2:3:1")


def test_listed_replicas_count_and_other_brokers_do_not() -> None:
    one = plan(update(FACTOR, TOPIC))
    other = plan(update(FACTOR, replace(TOPIC, after="1:3:2,2:1:3")))
    assert compared(one, other, declared(replicationFactor=3)) == ReviewComparison((), (wording,))
    # Replicas that a manifest lists are compared as every field is.
    listed = declared(replicationFactor=3, placement="1:3:2,2:1:3")
    one = plan(update(FACTOR, TOPIC))
    other = plan(update(FACTOR, replace(TOPIC, after="1:3:2,2:1:3")))
    (line,) = differences(one, other, listed)
    assert line == wording


def test_moves_that_stopped_half_way_can_be_gone_on_with() -> None:
    one = plan(update(FACTOR, TOPIC))
    half = plan(update(replace(FACTOR, before="1-3"), replace(TOPIC, before="1:2:3,2")))
    for wanted in (declared(replicationFactor=3), declared(replicationFactor=3, placement=TOPIC.after)):
        assert differences(one, half, wanted) == ()
    assert compared(one, half, declared(replicationFactor=3)).notes == (wording,)
    other = plan(update(replace(FACTOR, before=2), replace(TOPIC, before="1:3,2:1")))
    assert differences(one, other, declared(replicationFactor=3)) == (wording,)


def test_replicas_that_nobody_reviewed_or_that_cannot_be_placed_stop() -> None:
    one = plan(update(PARTITIONS))
    assert differences(one, plan(update(PARTITIONS, TOPIC)), declared(partitions=6)) == (wording,)
    # Replicas that are there by now are told.
    one = plan(update(FACTOR, TOPIC, RETENTION))
    now = declared(replicationFactor=3, config_retention_ms=WEEK)
    found = compared(one, plan(update(RETENTION)), now)
    assert (found.differences, found.notes) == ((), wording)
    one = plan(update(FACTOR, TOPIC, RETENTION))
    later = plan(update(replace(FACTOR, deferred="the layout is not known"), RETENTION))
    assert differences(one, later, declared(replicationFactor=3, config_retention_ms=WEEK)) == (wording,)
