"""Drift: what differs, what the record knows of it, and what a run comes to."""

from itertools import product

import pytest
from hypothesis import given

from kafkaform.audit.trail import Trail
from kafkaform.core.model import Desired, FieldChange, ResourceRef, Undeclared
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.inspect.drift import (
    Drift,
    DriftCause,
    DriftVerdict,
    Unmanaged,
    find_history,
    has_drift,
    plan_adoption,
)
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story
from tests.support.plans.drift import drift_in, drifts
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    Watched,
    absent,
    create_topic,
    declare_placement,
    declare_topic,
    topic,
)

RETENTION = "config.retention.ms"
MONTH = "2592000000"


@pytest.mark.parametrize(
    ("undeclared", "verdict"), [(Undeclared.RESET, DriftVerdict.DRIFT), (Undeclared.KEEP, DriftVerdict.CLEAN)]
)
def test_undeclared_configs_follow_undeclared_setting(
    memory: MemoryCluster, undeclared: Undeclared, verdict: DriftVerdict
) -> None:
    create_topic(memory, "a", segment_ms=DAY)
    drift = drift_in(memory, declare_topic("a", undeclared=undeclared))
    assert drift.verdict is verdict
    for drifted in drift.resources:
        assert [(field.declared, field.left_alone) for field in drifted.fields] == [(False, False)]


def test_drift_only_reads_from_brokers(memory: MemoryCluster) -> None:
    create_topic(memory, "a", retention_ms=DAY)
    watched = Watched(memory)
    assert drift_in(watched, declare_topic("a", retention_ms=WEEK), declare_topic("b")).resources
    assert (watched.checks, watched.requests) == ([], [])


REF = ResourceRef("Topic", "x")


@pytest.mark.parametrize("counts", [False, True])
def test_unknown_verdict_precedes_drift(memory: MemoryCluster, counts: bool) -> None:
    """A reading that failed comes first: it may have drifted, whatever else did."""
    resources = drift_in(memory, declare_topic("a")).resources
    unmanaged: tuple[tuple[ResourceRef, ...] | None, ...] = (None, (), (REF,))
    for drifted, listed in product(((), resources), unmanaged):
        assert Drift(Plan("memory", unknown=(REF,)), drifted, listed, counts).verdict is DriftVerdict.UNKNOWN
        expected = DriftVerdict.DRIFT if drifted or (counts and listed) else DriftVerdict.CLEAN
        assert Drift(Plan("memory"), drifted, listed, counts).verdict is expected


def test_unreadable_resource_is_unknown_not_missing(memory: MemoryCluster) -> None:
    create_topic(memory, "a")
    memory.hide(topic("a"))
    drift = drift_in(memory, declare_topic("a"))
    assert (drift.unknown, drift.resources, drift.verdict) == ((topic("a"),), (), DriftVerdict.UNKNOWN)


@given(drifts())
def test_every_difference_is_reported_once_and_adopted_or_refused(drift: Drift) -> None:
    refs = [drifted.ref for drifted in drift.resources]
    assert len(set(refs)) == len(refs)
    assert {*refs} == {c.ref for c in drift.plan.changes} | {u.ref for u in drift.plan.undeclared}
    assert bool(refs) == has_drift(drift.plan)
    wanted = plan_adoption(drift)
    sorted_out = {edit.ref for edit in wanted.edits} | {ref for ref, _ in wanted.refused}
    assert {*refs} <= sorted_out
    assert {*drift.unknown} <= sorted_out
    fields = sum(len(drifted.fields) for drifted in drift.resources)
    assert len(wanted.edits) <= fields


@pytest.mark.parametrize(
    ("set_to", "cause", "source"),
    [
        ([], DriftCause.UNRECORDED, None),
        ([WEEK], DriftCause.CLUSTER, None),
        ([DAY], DriftCause.MANIFEST, None),
        ([MONTH], DriftCause.BOTH, None),
        ([DAY, WEEK], DriftCause.CLUSTER, "run0"),
        ([WEEK, DAY], DriftCause.MANIFEST, None),
        ([DAY, MONTH], DriftCause.BOTH, "run0"),
        ([None], DriftCause.BOTH, None),
    ],
)
def test_drift_cause_follows_record(set_to: list[str | None], cause: DriftCause, source: str | None) -> None:
    """The live value is 1d, the declared one 7d."""
    story = Story()
    for value in set_to:
        story.add("update", "a", {RETENTION: (None, value)})
    history = find_history(topic("a"), FieldChange(RETENTION, DAY, WEEK), Trail(story.entries))
    assert history.cause is cause
    assert (history.last is None) == (not set_to)
    assert (history.source.run if history.source else None) == source


@pytest.mark.parametrize(
    ("live", "result", "cause"),
    [
        ("1-3", None, DriftCause.INTERRUPTED),
        ("1-3", "failed", DriftCause.INTERRUPTED),
        ("1-3", "applied", DriftCause.CLUSTER),
        ("2-4", None, DriftCause.BOTH),
    ],
)
def test_interrupted_move_is_cause_of_later_drift(live: str, result: str | None, cause: DriftCause) -> None:
    story = Story()
    story.add("create", "a", {"replicationFactor": (None, 1)})
    in_doubt = ["replicationFactor"] if result == "failed" else []
    story.add("update", "a", {"replicationFactor": (1, 3)}, result=result, in_doubt=in_doubt)
    history = find_history(topic("a"), FieldChange("replicationFactor", live, 3), Trail(story.entries))
    assert history.cause is cause
    if cause is DriftCause.INTERRUPTED:
        assert history.last is not None
        assert history.last.run == "run1"


@pytest.mark.parametrize(
    ("actions", "missing", "present"),
    [
        ("", DriftCause.UNRECORDED, DriftCause.UNRECORDED),
        ("create", DriftCause.CLUSTER, DriftCause.MANIFEST),
        ("create delete", DriftCause.MANIFEST, DriftCause.CLUSTER),
        ("create delete create", DriftCause.CLUSTER, DriftCause.MANIFEST),
    ],
)
def test_cause_of_missing_or_present_resource_follows_record(
    memory: MemoryCluster, actions: str, missing: DriftCause, present: DriftCause
) -> None:
    story = Story()
    for action in actions.split():
        values = (None, 3) if action == "create" else (3, None)
        story.add(action, "a", {"partitions": values, "replicationFactor": (None, 1)})
    for desired, cause in ((declare_topic("a"), missing), (absent("a"), present)):
        (drifted,) = drift_in(memory, desired, trail=Trail(story.entries)).resources
        assert drifted.history is not None
        assert drifted.history.cause is cause
        if desired.state is not None:
            create_topic(memory, "a")


def test_adoption_edits_live_values_and_refuses_missing(memory: MemoryCluster) -> None:
    create_topic(memory, "a", 6, segment_ms=DAY)
    create_topic(memory, "gone")
    create_topic(memory, "mine")
    drift = drift_in(
        memory,
        declare_topic("a", retention_ms=WEEK),
        declare_topic("b"),
        absent("gone"),
        unmanaged=Unmanaged.ERROR,
    )
    wanted = plan_adoption(drift)
    assert {(edit.path, edit.value) for edit in wanted.edits} == {
        ("partitions", 6),
        (RETENTION, None),
        ("config.segment.ms", DAY),
    }
    assert [ref.name for ref, _ in wanted.refused] == ["b", "gone", "mine"]


def test_mixed_replication_and_offsets_are_not_adopted(memory: MemoryCluster) -> None:
    create_topic(memory, "a", retention_ms=DAY)
    (drifted,) = drift_in(memory, declare_topic("a", retention_ms=WEEK)).resources
    odd = [
        (topic("a"), FieldChange("replicationFactor", "1-3", 3)),
        (ResourceRef("ConsumerGroup", "g"), FieldChange("offsets.orders", None, "earliest")),
    ]
    resources = tuple(
        replace(drifted, desired=Desired(ref, {}), fields=(replace(drifted.fields[0], change=change),))
        for ref, change in odd
    )
    wanted = plan_adoption(replace(drift_in(memory), resources=resources))
    assert wanted.edits == ()
    (topic_ref, uneven), (group_ref, committed) = wanted.refused
    assert (topic_ref.name, group_ref.name) == ("a", "g")
    assert uneven.startswith("replicationFactor: it is 1-3 now")
    assert committed.startswith("offsets.orders: ")


def test_placement_drifts_only_if_declared(memory: MemoryCluster) -> None:
    create_topic(memory, "a", 2, 2)
    (drifted,) = drift_in(memory, declare_topic("a", 2, 3)).resources
    assert [field.change.path for field in drifted.fields] == ["replicationFactor"]
    drift = drift_in(memory, declare_placement(declare_topic("a", 2, 2), "static", "3:1,1:3"))
    (listed,) = drift.resources
    assert [field.change.path for field in listed.fields] == ["placement"]
    assert plan_adoption(drift).edits == ()
