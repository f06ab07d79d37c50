from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import (
    SAFE,
    Change,
    Consent,
    Create,
    Delete,
    Desired,
    Diagnostic,
    FieldChange,
    FieldValue,
    Intent,
    Location,
    Plan,
    PlannedChange,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Undeclared,
    UndeclaredConfig,
    Update,
)
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.reviewed import ReviewComparison, compare
from kafkaform.resources.values import fields_of
from tests.support import strategies
from tests.support.scenes import topic

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


def test_another_value() -> None:
    other = plan(update(PARTITIONS, replace(RETENTION, after="259200000")))
    assert differences(BOTH, other) == ("Topic/a would get retention.ms 3d: the reviewed plan sets it to 7d",)


def test_the_cluster_moved() -> None:
    other = plan(update(replace(PARTITIONS, before=4), RETENTION))
    assert differences(BOTH, other) == ("Topic/a has partitions 4 now, and had 3 when the plan was reviewed",)


def test_a_field_more_and_a_field_less() -> None:
    less = plan(update(RETENTION))
    assert differences(less, BOTH) == (
        "Topic/a would get partitions 6: the reviewed plan leaves that field alone",
    )
    assert differences(BOTH, less, declared(partitions=3, config_retention_ms=WEEK)) == (
        "Topic/a would keep its partitions: the reviewed plan sets it to 6",
    )


def test_a_resource_more() -> None:
    for change, what in ((CREATE, "creates"), (update(PARTITIONS), "changes"), (DELETE, "deletes")):
        line = f"Topic/a is not in the reviewed plan: now an apply {what} it"
        assert differences(plan(), plan(change)) == (line,)
        assert compared(plan(), plan(change)).beyond


def test_what_another_branch_asks_for_is_told_from_what_is_otherwise_than_reviewed() -> None:
    less = plan(update(RETENTION))
    assert compared(less, BOTH).beyond
    assert not compared(BOTH, less).beyond
    assert not compared(plan(CREATE), plan(DELETE)).beyond
    assert not compared(plan(), plan(planned(DELETE, Status.NEEDS_CONSENT))).beyond


def test_a_resource_more_that_is_left_alone_does_not_stop() -> None:
    new = plan(planned(DELETE, Status.NEEDS_CONSENT))
    assert compared(plan(), new) == ReviewComparison(
        (),
        ("Topic/a is not in the reviewed plan: now an apply leaves it alone, as the delete needs consent",),
    )


def test_another_action() -> None:
    assert differences(plan(CREATE), plan(update(PARTITIONS))) == (
        "Topic/a is another change: the reviewed plan creates it; now an apply changes it",
    )


def test_another_status() -> None:
    refused = plan(planned(update(PARTITIONS), Status.REFUSED))
    (line,) = differences(plan(update(PARTITIONS)), refused)
    assert line.endswith("plan changes it; now an apply leaves it alone, as the update is refused")
    (line,) = differences(refused, plan(update(PARTITIONS)))
    assert line.endswith("plan leaves it alone, as the update is refused; now an apply changes it")


def test_what_neither_plan_does_does_not_count() -> None:
    one = plan(planned(update(PARTITIONS), Status.REFUSED))
    other = plan(planned(DELETE, Status.NEEDS_CONSENT))
    assert compared(one, other) == ReviewComparison()
    assert compared(one, plan()) == ReviewComparison()


def test_made_again() -> None:
    other = plan(update(PARTITIONS, RETENTION, uid="id-b"))
    assert differences(BOTH, other) == ("Topic/a was deleted and created again since the review",)


def test_a_risk_that_rose() -> None:
    risky = plan(
        update(replace(PARTITIONS, assessment=RiskAssessment(Risk.DISRUPTIVE, "partition-increase", "r")))
    )
    safe = plan(update(replace(PARTITIONS, assessment=SAFE)))
    assert differences(safe, risky) == (
        "Topic/a has a riskier change: safe in the reviewed plan, and disruptive now",
    )
    assert differences(risky, safe) == ()


def test_another_cluster_and_another_environment() -> None:
    other = replace(plan(), cluster_id="c2\x1b")
    found = compare((plan(), HEADER), (other, replace(HEADER, environment=None)), ())
    assert found.differences == (
        r"the reviewed plan is for the cluster c1; this is c2\x1b",
        "the reviewed plan is for environment prod; this is no environment",
    )


def test_a_deferred_field_is_not_carried_out_and_does_not_count() -> None:
    deferred = FieldChange("replicationFactor", 1, 3, deferred="later")
    assert compared(plan(update(PARTITIONS, deferred)), plan(update(PARTITIONS))) == ReviewComparison()
    due = plan(update(PARTITIONS, replace(deferred, deferred=None)))
    assert differences(plan(update(PARTITIONS, deferred)), due) == (
        "Topic/a would get replicationFactor 3: the reviewed plan leaves that field alone",
    )


def test_another_consent() -> None:
    one = replace(plan(DELETE), consents=(Consent("Topic/a", "delete", "TICKET-1"),))
    other = replace(plan(DELETE), consents=(Consent("Topic/a", "delete", "TICKET-2"),))
    assert differences(one, other) == (
        "Topic/a: consent to delete (TICKET-1) counted when the plan was reviewed, and is not given now",
        "Topic/a: consent to delete (TICKET-2) was not given when the plan was reviewed",
    )


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
    assert compared(reviewed, plan(), wanted) == ReviewComparison(
        (), ("Topic/a is as the reviewed plan would have it already",)
    )


def test_half_of_a_resource_done_already_is_a_note() -> None:
    wanted = declared(partitions=6, config_retention_ms=WEEK)
    assert compared(BOTH, plan(update(RETENTION)), wanted) == ReviewComparison(
        (), ("Topic/a has partitions 6 already",)
    )


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
    assert line.startswith("Topic/a would stay as it is: the reviewed plan ")
    assert line.endswith("; now an apply leaves it alone")


def test_a_config_that_no_manifest_mentions_is_done_only_where_it_is_gone() -> None:
    reset = plan(update(FieldChange("config.segment.ms", "5000", None)))
    gone = declared(partitions=3)
    assert compared(reset, plan(), gone).notes
    there = replace(plan(), undeclared=(UndeclaredConfig(topic("a"), "config.segment.ms", "5000"),))
    assert differences(reset, there, gone)
    unseen = replace(gone, intent=Intent(undeclared=Undeclared.KEEP))
    assert differences(reset, plan(), unseen)
    explicit = Desired(topic("a"), {"config.segment.ms": None}, Intent(undeclared=Undeclared.KEEP))
    assert compared(reset, plan(), explicit).notes


def test_values_that_mean_the_same_to_kafka_are_done() -> None:
    change = update(FieldChange("config.cleanup.policy", "delete", "compact,delete"))
    assert compared(plan(change), plan(), declared(config_cleanup_policy="delete,compact")).notes


def test_fields_are_those_of_every_action() -> None:
    """A guard for the tests above: a create's and a delete's fields are compared like an update's."""
    assert [f.path for f in fields_of(CREATE)] == ["partitions", "config.retention.ms"]
    other = plan(Create(topic("a"), {"partitions": 3}))
    assert differences(plan(CREATE), other, declared(partitions=3)) == (
        "Topic/a would keep its retention.ms: the reviewed plan sets it to 7d",
    )
    moved = plan(replace(DELETE, state={"partitions": 5}))
    assert differences(plan(DELETE), moved) == (
        "Topic/a has partitions 5 now, and had 3 when the plan was reviewed",
    )


# --- replicas --------------------------------------------------------------------------------------

FACTOR = FieldChange("replicationFactor", 1, 3)
PLACED = FieldChange("placement", "1,2", "1:2:3,2:3:1")


def test_other_brokers_than_reviewed_are_told_and_do_not_stop() -> None:
    one = plan(update(FACTOR, PLACED))
    other = plan(update(FACTOR, replace(PLACED, after="1:3:2,2:1:3")))
    found = compared(one, other, declared(replicationFactor=3))
    assert found == ReviewComparison(
        (),
        (
            (
                "Topic/a gets its replicas on other brokers than in the reviewed plan, "
                "because the cluster has changed"
            ),
        ),
    )


def test_replicas_that_a_manifest_lists_are_compared_as_every_field_is() -> None:
    listed = declared(replicationFactor=3, placement="1:3:2,2:1:3")
    one = plan(update(FACTOR, PLACED))
    other = plan(update(FACTOR, replace(PLACED, after="1:3:2,2:1:3")))
    (line,) = differences(one, other, listed)
    assert line.startswith("Topic/a would get placement 1:3:2,2:1:3: the reviewed plan sets it to ")


def test_moves_that_stopped_half_way_can_be_gone_on_with() -> None:
    one = plan(update(FACTOR, PLACED))
    half = plan(update(replace(FACTOR, before="1-3"), replace(PLACED, before="1:2:3,2")))
    for wanted in (declared(replicationFactor=3), declared(replicationFactor=3, placement=PLACED.after)):
        assert differences(one, half, wanted) == ()
    assert compared(one, half, declared(replicationFactor=3)).notes == (
        "Topic/a has a part of its replicas placed already",
    )
    other = plan(update(replace(FACTOR, before=2), replace(PLACED, before="1:3,2:1")))
    assert differences(one, other, declared(replicationFactor=3)) == (
        "Topic/a has replicationFactor 2 now, and had 1 when the plan was reviewed",
    )


def test_replicas_that_nobody_reviewed_stop() -> None:
    one = plan(update(PARTITIONS))
    assert differences(one, plan(update(PARTITIONS, PLACED)), declared(partitions=6)) == (
        "Topic/a would get placement 1:2:3,2:3:1: the reviewed plan leaves that field alone",
    )


def test_replicas_that_are_there_by_now_are_told() -> None:
    one = plan(update(FACTOR, PLACED, RETENTION))
    now = declared(replicationFactor=3, config_retention_ms=WEEK)
    found = compared(one, plan(update(RETENTION)), now)
    assert found.differences == ()
    assert "Topic/a has its replicas placed already" in found.notes


def test_replicas_that_cannot_be_placed_any_more_stop() -> None:
    one = plan(update(FACTOR, PLACED, RETENTION))
    later = plan(update(replace(FACTOR, deferred="the layout is not known"), RETENTION))
    found = differences(one, later, declared(replicationFactor=3, config_retention_ms=WEEK))
    assert found == ("Topic/a would keep its replicationFactor: the reviewed plan sets it to 3",)
