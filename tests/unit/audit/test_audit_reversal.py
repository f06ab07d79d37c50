"""Undoing recorded changes in manifests: what goes back, what cannot, and what must be asked for twice."""

from typing import Any

import pytest

from kafkaform.audit.entries import AuditEntry
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.editing import Edit
from kafkaform.core.model import Desired, ResourceRef
from kafkaform.core.values import replace
from kafkaform.inspect.reversal import Reversal, plan_reversal
from tests.support.plans.audit import Story
from tests.support.plans.scenes import DAY, WEEK, absent, declare_topic

RETENTION = "config.retention.ms"
ORDERS = ResourceRef("Topic", "orders")
GROUP = ResourceRef("ConsumerGroup", "g")


def plan_undo(
    story: Story, *changes: AuditEntry, desired: tuple[Desired, ...] = (), force: bool = False
) -> Reversal:
    return plan_reversal(changes, story.entries, {item.ref: item for item in desired}, force=force)


def get_refusal(found: Reversal) -> str:
    assert (found.edits, found.restored) == ([], [])
    (reason,) = found.refused
    return reason


def cut(story: Story, **more: Any) -> AuditEntry:
    return story.add("update", "orders", {RETENTION: (WEEK, DAY)}, **more)


CUT = (declare_topic("orders", retention_ms=DAY),)
RESTORED = Edit(ORDERS, RETENTION, WEEK)


def test_earlier_values_are_restored(story: Story) -> None:
    fields: Any = {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1000"), "replicationFactor": (1, 3)}
    change = story.add("update", "orders", fields)
    now = declare_topic("orders", replicas=3, retention_ms=DAY, segment_ms="1000")
    found = plan_undo(story, change, desired=(now,))
    assert found.edits == [Edit(ORDERS, path, before) for path, (before, _) in fields.items()]
    assert (found.refused, found.notes) == ([], [])


def test_placement_follows_restored_replication_factor(story: Story) -> None:
    fields = {"replicationFactor": (1, 2), "placement": ("1,2,3", "1:2,2:3,3:1")}
    change = story.add("update", "orders", fields)
    now = declare_topic("orders", replicas=2)
    found = plan_undo(story, change, desired=(now,))
    assert (found.edits, found.refused) == ([Edit(ORDERS, "replicationFactor", 1)], [])
    (note,) = found.notes
    assert "balanced again" in note
    listed = replace(now, state={**(now.state or {}), "placement": "1:2,2:3,3:1"})
    (reason,) = plan_undo(story, change, desired=(listed,)).refused
    assert "earlier replicas into the manifest by hand" in reason


@pytest.mark.parametrize("force", [False, True])
def test_partition_increase_is_not_undone(story: Story, force: bool) -> None:
    change = story.add("update", "orders", {"partitions": (3, 6), RETENTION: (WEEK, DAY)})
    now = (declare_topic("orders", 6, retention_ms=DAY),)
    found = plan_undo(story, change, desired=now, force=force)
    assert found.edits == [RESTORED]
    (reason,) = found.refused
    assert "partitions: Kafka cannot remove partitions (3 → 6)" in reason


def test_offsets_are_restored_by_reset_command_or_file(story: Story) -> None:
    fields: Any = {"offsets.orders:2": (41, 7), "offsets.prices": (None, "earliest")}
    change = story.add("update", "g", fields, kind="ConsumerGroup")
    found = plan_undo(story, change, desired=(Desired(GROUP, {}),))
    assert found.edits == []
    prices, orders = found.refused
    assert "offsets.prices: committed offsets cannot be restored" in prices
    assert "`kafkaform reset g --topic orders:2 --to 41`" in orders
    different = {f"offsets.orders:{n}": (n, 70) for n in range(12)}
    change = story.add("update", "g", different, kind="ConsumerGroup")
    found = plan_undo(story, change, desired=(Desired(GROUP, {}),))
    assert found.refused == []
    assert found.offsets == {GROUP: {("orders", n): n for n in range(12)}}


def test_manifest_with_earlier_value_is_unchanged(story: Story) -> None:
    change = cut(story)
    found = plan_undo(story, change, desired=(declare_topic("orders", retention_ms=WEEK),))
    assert (found.edits, found.refused) == ([], [])
    assert "already has 7d" in found.notes[0]


HOUR = "3600000"


@pytest.mark.parametrize(
    ("later", "declared", "reason"),
    [
        ([], HOUR, "the manifest has 1h now"),
        ([("update", (DAY, HOUR), "applied")], HOUR, "apply run1 changed it again, to 1h"),
        ([("update", (DAY, HOUR), None)], DAY, "apply run1 may have changed it again, to 1h"),
        ([("delete", (DAY, None), None)], DAY, "apply run1 may have deleted the resource since"),
        (
            [("delete", (DAY, None), "applied"), ("create", (None, DAY), "applied")],
            DAY,
            "apply run1 deleted the resource since",
        ),
    ],
)
def test_value_changed_since_needs_force(story: Story, later: Any, declared: str, reason: str) -> None:
    change = cut(story)
    for action, values, result in later:
        story.add(action, "orders", {RETENTION: values}, result=result)
    now = (declare_topic("orders", retention_ms=declared),)
    assert f"{reason}; --force" in get_refusal(plan_undo(story, change, desired=now))
    assert plan_undo(story, change, desired=now, force=True).edits == [RESTORED]


def test_missing_manifest_is_refused(story: Story) -> None:
    change = cut(story)
    for force in (False, True):
        assert "no manifest declares the resource" in get_refusal(plan_undo(story, change, force=force))
        gone = plan_undo(story, change, desired=(absent("orders"),), force=force)
        assert "the manifest has `state: absent`" in get_refusal(gone)


@pytest.mark.parametrize("result", ["not_tried", "moved", "already", "failed"])
def test_change_not_applied_needs_no_undo(story: Story, result: str) -> None:
    found = plan_undo(story, cut(story, result=result), desired=CUT, force=True)
    assert (found.edits, found.refused) == ([], [])
    assert f"({result})" in found.notes[0]


def test_field_in_doubt_needs_force(story: Story) -> None:
    both = {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1")}
    change = story.add(
        "update", "orders", both, result="failed", done=["config.segment.ms"], in_doubt=[RETENTION]
    )
    now = (declare_topic("orders", retention_ms=DAY, segment_ms="1"),)
    found = plan_undo(story, change, desired=now)
    assert found.edits == [Edit(ORDERS, "config.segment.ms", None)]
    (reason,) = found.refused
    assert "retention.ms: its result is not known" in reason
    forced = plan_undo(story, change, desired=now, force=True)
    assert {edit.path for edit in forced.edits} == {RETENTION, "config.segment.ms"}
    for result in ("failed", None):
        whole = story.add("update", "orders", both, result=result, in_doubt=[*both])
        assert "its result is not known" in get_refusal(plan_undo(story, whole, desired=now))
        assert len(plan_undo(story, whole, desired=now, force=True).edits) == 2


def test_incomplete_record_is_refused(story: Story) -> None:
    change = cut(story)
    shortened = replace(change, fields=(replace(change.fields[0], cut=True),))
    for damaged in (shortened, replace(change, complete=False)):
        assert "incomplete" in get_refusal(plan_undo(story, damaged, desired=CUT, force=True))


def test_creation_is_undone_by_tombstone(story: Story) -> None:
    change = story.add("create", "orders", {"partitions": (None, 3)})
    found = plan_undo(story, change, desired=(declare_topic("orders", protected=True),))
    assert found.edits == [Edit(ORDERS, "state", "absent")]
    assert "needs consent to delete" in found.notes[0]
    assert "deletionProtection prevents that" in found.notes[1]
    assert "no manifest declares it" in get_refusal(plan_undo(story, change))
    assert "already has `state: absent`" in plan_undo(story, change, desired=(absent("orders"),)).notes[0]
    story.add("delete", "orders", {"partitions": (3, None)}, result=None)
    reason = get_refusal(plan_undo(story, change, desired=CUT))
    assert "apply run1 may have deleted it since; --force" in reason


DELETED: Any = {"partitions": (6, None), "replicationFactor": (1, None), RETENTION: (DAY, None)}


def test_deletion_is_undone_by_removing_tombstone(story: Story) -> None:
    change = story.add("delete", "orders", DELETED)
    found = plan_undo(story, change, desired=(absent("orders"),))
    edits = [Edit(ORDERS, path, before) for path, (before, _) in DELETED.items()]
    assert found.edits == [*edits, Edit(ORDERS, "state", None)]
    assert "its records are lost" in found.notes[0]
    again = plan_undo(story, change, desired=(declare_topic("orders"),))
    assert "a manifest declares it again" in again.notes[0]


def test_deleted_group_is_restored_without_offsets(story: Story) -> None:
    session = "config.consumer.session.timeout.ms"
    recorded: Any = {session: ("50000", None), "offsets.orders": ("committed", None)}
    recorded |= {"offsets.orders:0": (7, None), "offsets.orders:1": (8, None)}
    change = story.add("delete", "g", recorded, kind="ConsumerGroup")
    found = plan_undo(story, change)
    (restored,) = found.restored
    spec: Any = build_live_manifest(restored).data["spec"]
    assert (spec["topics"], spec["config"]) == (["orders"], {"consumer.session.timeout.ms": "50s"})
    assert "its 2 committed offsets" in found.notes[0]
    assert "`kafkaform history run0.1 --format json`" in found.notes[0]
    edits = plan_undo(story, change, desired=(Desired(GROUP, None),)).edits
    assert edits == [Edit(GROUP, session, "50000"), Edit(GROUP, "state", None)]


def test_unknown_kind_is_refused(story: Story) -> None:
    for action, fields in (("update", {"rate": (1, 2)}), ("create", {"rate": (None, 1)}), ("delete", {})):
        change = story.add(action, "a", fields, kind="Quota")
        assert "does not manage its kind" in get_refusal(plan_undo(story, change))
