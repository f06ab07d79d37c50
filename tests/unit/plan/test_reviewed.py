"""A plan compared with the reviewed one: what stops an apply, and what is a note."""

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    FieldChange,
    FieldValue,
    Intent,
    Location,
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
from tests.support.plans import strategies
from tests.support.plans.risk import render_catalogue
from tests.support.plans.scenes import topic

HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "prod", "2025-06-01T12:00:00Z")
LATER = PlanHeader("0.1.1", None, "p", "prod", "2025-07-01T12:00:00Z")
DAY = "86400000"
WEEK = "604800000"
LOSS = RiskAssessment(Risk.DESTRUCTIVE, "delete", "all records are lost")


def build_planned(change: Change, status: Status = Status.PLANNED) -> PlannedChange:
    return PlannedChange(change, status, Location("a.yaml", 1))


def update(*fields: FieldChange, uid: str = "id-a") -> Update:
    return Update(topic("a"), uid, fields)


def plan(*changes: Change | PlannedChange) -> Plan:
    return Plan("c1", tuple(c if isinstance(c, PlannedChange) else build_planned(c) for c in changes))


def declare(name: str = "a", /, **state: FieldValue) -> Desired:
    return Desired(topic(name), {key.replace("_", "."): value for key, value in state.items()})


def compare_plans(reviewed: Plan, now: Plan, *desired: Desired) -> ReviewComparison:
    return compare((reviewed, HEADER), (now, LATER), desired)


PARTITIONS = FieldChange("partitions", 3, 6)
RETENTION = FieldChange("config.retention.ms", DAY, WEEK)
BOTH = plan(update(PARTITIONS, RETENTION))
CREATE = Create(topic("a"), {"partitions": 3, "config.retention.ms": WEEK})
DELETE = Delete(topic("a"), "id-a", {"partitions": 3}, LOSS)


@given(strategies.plans(max_changes=3), strategies.headers(), st.data())
def test_wording_and_sizes_are_no_differences(made: Plan, header: PlanHeader, data: st.DataObject) -> None:
    assert compare((made, header), (made, header), ()) == ReviewComparison()
    changes = tuple(
        replace(c, location=None, reason="other words", remedy=None, change=_reword(c.change))
        for c in made.changes
    )
    found = (Diagnostic("KF1", Severity.INFO, "m"),)
    second = replace(made, changes=changes, unchanged=made.unchanged + 1, unmanaged=(), diagnostics=found)
    second = replace(second, broker_validated=not made.broker_validated)
    later = replace(data.draw(strategies.headers()), environment=header.environment)
    assert compare((made, header), (second, later), ()) == ReviewComparison()


def _reword(change: Change) -> Change:
    def other(assessment: RiskAssessment) -> RiskAssessment:
        return replace(assessment, reason="3 GiB less", remedy="wait")

    if isinstance(change, Update):
        fields = (replace(f, assessment=other(f.assessment), effective_before="1") for f in change.fields)
        return replace(change, fields=tuple(fields))
    return replace(change, assessment=other(change.assessment))


FACTOR = FieldChange("replicationFactor", 1, 3)
PLACEMENT = FieldChange("placement", "1,2", "1:2:3,2:3:1")
OTHER_PLACEMENT = replace(PLACEMENT, after="1:3:2,2:1:3")
DEFERRED = replace(FACTOR, deferred="later")
RISKY = replace(PARTITIONS, assessment=RiskAssessment(Risk.DISRUPTIVE, "partition-increase", "r"))
ONLY_RETENTION = plan(update(RETENTION))
REFUSED = plan(build_planned(update(PARTITIONS), Status.REFUSED))
PLACED = plan(update(FACTOR, PLACEMENT))
GROWN = plan(update(FACTOR, PLACEMENT, RETENTION))
WANTED = declare(partitions=3, config_retention_ms=WEEK)
SIX, TRIPLE = declare(partitions=6), declare(replicationFactor=3)
HALF = plan(update(replace(FACTOR, before="1-3"), replace(PLACEMENT, before="1:2:3,2")))
MORE = declare(replicationFactor=3, config_retention_ms=WEEK)
GONE = Desired(topic("a"), None)
RESET = plan(update(FieldChange("config.segment.ms", "5000", None)))
KEPT = replace(declare(partitions=3), intent=Intent(undeclared=Undeclared.KEEP))
UNKNOWN = replace(plan(), unknown=(topic("a"),))


def consent(ticket: str) -> Plan:
    return replace(plan(DELETE), consents=(Consent("Topic/a", "delete", ticket),))


Rows = dict[str, tuple[Plan, Plan, tuple[Desired, ...]]]
"""The reviewed plan, that of now, and the manifests."""
STOPPED: Rows = {
    "another value": (BOTH, plan(update(PARTITIONS, replace(RETENTION, after="259200000"))), ()),
    "another live value": (BOTH, plan(update(replace(PARTITIONS, before=4), RETENTION)), ()),
    "a field more": (ONLY_RETENTION, BOTH, ()),
    "a field less": (BOTH, ONLY_RETENTION, (WANTED,)),
    "a creation more": (plan(), plan(CREATE), ()),
    "an update more": (plan(), plan(update(PARTITIONS)), ()),
    "a deletion more": (plan(), plan(DELETE), ()),
    "another action": (plan(CREATE), plan(update(PARTITIONS)), ()),
    "refused now": (plan(update(PARTITIONS)), REFUSED, ()),
    "refused then": (REFUSED, plan(update(PARTITIONS)), ()),
    "made again": (BOTH, plan(update(PARTITIONS, RETENTION, uid="id-b")), ()),
    "riskier": (plan(update(PARTITIONS)), plan(update(RISKY)), ()),
    "deferred then": (plan(update(PARTITIONS, DEFERRED)), plan(update(PARTITIONS, FACTOR)), ()),
    "another cluster": (plan(), replace(plan(), cluster_id="c2\x1b"), ()),
    "another consent": (consent("TICKET-1"), consent("TICKET-2"), ()),
    "a field of a creation less": (
        plan(CREATE),
        plan(Create(topic("a"), {"partitions": 3})),
        (declare(partitions=3),),
    ),
    "another state of a deletion": (plan(DELETE), plan(replace(DELETE, state={"partitions": 5})), ()),
    "other listed replicas": (
        PLACED,
        plan(update(FACTOR, OTHER_PLACEMENT)),
        (declare(replicationFactor=3, placement=OTHER_PLACEMENT.after),),
    ),
    "other live replicas": (
        PLACED,
        plan(update(replace(FACTOR, before=2), replace(PLACEMENT, before="1:3,2:1"))),
        (TRIPLE,),
    ),
    "replicas more": (plan(update(PARTITIONS)), plan(update(PARTITIONS, PLACEMENT)), (SIX,)),
    "replicas that are not placed": (GROWN, plan(update(DEFERRED, RETENTION)), (MORE,)),
    "a deletion in place of a creation": (plan(CREATE), plan(DELETE), ()),
    "a creation that is not declared": (plan(CREATE), plan(), ()),
    "a creation of what is to be absent": (plan(CREATE), plan(), (GONE,)),
    "a creation of other values": (plan(CREATE), plan(), (declare(partitions=4, config_retention_ms=WEEK),)),
    "an update to another value": (plan(update(PARTITIONS)), plan(), (declare(partitions=3),)),
    "an update that is not declared": (plan(update(PARTITIONS)), plan(), ()),
    "a deletion of what is declared": (plan(DELETE), plan(), (declare(partitions=3),)),
    "a deletion of what nobody declares, and is there": (
        plan(DELETE),
        replace(plan(), unmanaged=(topic("a"),)),
        (),
    ),
    "a creation that is not visible": (plan(CREATE), UNKNOWN, (WANTED,)),
    "a deletion that is not visible": (plan(DELETE), UNKNOWN, (GONE,)),
    "a reset that is not done": (
        RESET,
        replace(plan(), undeclared=(UndeclaredConfig(topic("a"), "config.segment.ms", "5000"),)),
        (declare(partitions=3),),
    ),
    "a reset that is not reported": (RESET, plan(), (KEPT,)),
}
NOTED: Rows = {
    "a deletion more without consent": (plan(), plan(build_planned(DELETE, Status.NEEDS_CONSENT)), ()),
    "a creation that is done": (plan(CREATE), plan(), (WANTED,)),
    "an update that is done": (plan(update(replace(PARTITIONS, after=3), RETENTION)), plan(), (WANTED,)),
    "a field that is done": (BOTH, ONLY_RETENTION, (declare(partitions=6, config_retention_ms=WEEK),)),
    "other brokers": (PLACED, plan(update(FACTOR, OTHER_PLACEMENT)), (TRIPLE,)),
    "half a move": (PLACED, HALF, (TRIPLE,)),
    "a move that is done": (GROWN, ONLY_RETENTION, (MORE,)),
    "a reset that is done": (RESET, plan(), (declare(partitions=3),)),
    "a declared reset that is done": (RESET, plan(), (replace(KEPT, state={"config.segment.ms": None}),)),
    "a deletion that is done": (plan(DELETE), plan(), (GONE,)),
    "a deletion that is done and not declared": (plan(DELETE), plan(), ()),
}


def test_differences_and_notes_match_golden(golden: SnapshotAssertion) -> None:
    found = {}
    for name, (reviewed, now, desired) in {**STOPPED, **NOTED}.items():
        comparison = compare_plans(reviewed, now, *desired)
        assert bool(comparison.differences) is (name in STOPPED), name
        beyond = " (beyond the review)" if comparison.beyond else ""
        found[name] = "; ".join((*comparison.differences, *comparison.notes)) + beyond
    assert render_catalogue(found) == golden(name="differences.txt")


def test_other_environment_is_difference() -> None:
    comparison = compare((plan(), HEADER), (plan(), replace(HEADER, environment=None)), ())
    assert comparison.differences == ("the reviewed plan is for environment prod; this is no environment",)


def test_hostile_names_are_printed_on_single_line() -> None:
    hostile = plan(Create(topic("a\n::error::\x1b[2J"), {"config.x\n": "\x1b[31m\n"}))
    for found in (compare_plans(plan(), hostile), compare_plans(hostile, plan())):
        assert found.differences
        assert all(line.isprintable() for line in found.differences)
