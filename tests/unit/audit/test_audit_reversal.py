"""Undoing recorded changes in manifests: what goes back, what cannot, and what must be asked for twice."""

from __future__ import annotations

import pytest

from kafkaform.audit.entries import AuditEntry
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.editing import Edit
from kafkaform.core.model import Desired, FieldValue, Intent, ResourceRef
from kafkaform.core.values import replace
from kafkaform.inspect.reversal import Reversal, plan_reversal
from tests.support.golden import wording
from tests.support.plans.audit import Story
from tests.support.plans.scenes import DAY, WEEK, absent, declared

RETENTION = "config.retention.ms"
ORDERS = ResourceRef("Topic", "orders")
GROUP = ResourceRef("ConsumerGroup", "g")


def undo(
    story: Story, *changes: AuditEntry, desired: tuple[Desired, ...] = (), force: bool = False
) -> Reversal:
    return plan_reversal(changes, story.entries, {one.ref: one for one in desired}, force=force)


def refusal(found: Reversal) -> str:
    assert (found.edits, found.restored) == ([], [])
    (reason,) = found.refused
    return reason


# --- updates ---------------------------------------------------------------------------------------


def test_the_values_from_before_come_back(story: Story) -> None:
    change = story.add(
        "update",
        "orders",
        {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1000"), "replicationFactor": (1, 3)},
    )
    now = declared("orders", replicas=3, retention_ms=DAY, segment_ms="1000")
    found = undo(story, change, desired=(now,))
    assert found.edits == [
        Edit(ORDERS, RETENTION, WEEK),
        Edit(ORDERS, "config.segment.ms", None),
        Edit(ORDERS, "replicationFactor", 1),
    ]
    assert (found.refused, found.notes) == ([], [])


def test_replicas_follow_the_replication_factor_unless_a_manifest_lists_them(story: Story) -> None:
    change = story.add(
        "update", "orders", {"replicationFactor": (1, 2), "placement": ("1,2,3", "1:2,2:3,3:1")}
    )
    now = declared("orders", replicas=2)
    found = undo(story, change, desired=(now,))
    assert (found.edits, found.refused) == ([Edit(ORDERS, "replicationFactor", 1)], [])
    (note,) = found.notes
    assert note == wording
    listed = replace(now, state={**(now.state or {}), "placement": "1:2,2:3,3:1"})
    (reason,) = undo(story, change, desired=(listed,)).refused
    assert reason == wording


def test_partitions_do_not_come_back_and_the_rest_does(story: Story) -> None:
    change = story.add("update", "orders", {"partitions": (3, 6), RETENTION: (WEEK, DAY)})
    found = undo(story, change, desired=(declared("orders", 6, retention_ms=DAY),))
    assert found.edits == [Edit(ORDERS, RETENTION, WEEK)]
    (reason,) = found.refused
    assert reason == wording
    forced = undo(story, change, desired=(declared("orders", 6, retention_ms=DAY),), force=True)
    assert forced.refused == found.refused


def test_offsets_are_for_a_reset(story: Story) -> None:
    change = story.add(
        "update",
        "g",
        {"offsets.orders:2": (41, 7), "offsets.prices": (None, "earliest")},
        kind="ConsumerGroup",
    )
    found = undo(story, change, desired=(Desired(GROUP, {}),))
    assert found.edits == []
    assert found.refused[0] == wording
    assert found.refused[1] == wording


def test_a_reset_of_many_partitions_is_undone_by_one_command(story: Story) -> None:
    fields: dict[str, tuple[FieldValue, FieldValue]] = {f"offsets.orders:{n}": (0, 7) for n in range(12)}
    same = story.add("update", "g", {**fields, "offsets.prices:3": (0, 7)}, kind="ConsumerGroup")
    (refused,) = undo(story, same, desired=(Desired(GROUP, {}),)).refused
    assert refused == wording


def test_offsets_that_differ_are_for_a_file(story: Story) -> None:
    fields: dict[str, tuple[FieldValue, FieldValue]] = {f"offsets.orders:{n}": (n, 70) for n in range(12)}
    different = story.add("update", "g", fields, kind="ConsumerGroup")
    found = undo(story, different, desired=(Desired(GROUP, {}),))
    assert found.refused == []
    assert found.offsets == {GROUP: {("orders", n): n for n in range(12)}}


def test_a_manifest_that_went_back_already_is_left_alone(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    found = undo(story, change, desired=(declared("orders", retention_ms=WEEK),))
    assert (found.edits, found.refused, found.notes) == ([], [], [wording])


def test_a_manifest_that_was_changed_by_hand_since_is_not_overruled(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    by_now = (declared("orders", retention_ms="3600000"),)
    assert refusal(undo(story, change, desired=by_now)) == wording
    assert undo(story, change, desired=by_now, force=True).edits == [Edit(ORDERS, RETENTION, WEEK)]


def test_a_field_that_a_later_apply_changed_is_not_overruled(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1")})
    story.add("update", "orders", {RETENTION: (DAY, "3600000")})
    now = (declared("orders", retention_ms="3600000", segment_ms="1"),)
    found = undo(story, change, desired=now)
    assert found.edits == [Edit(ORDERS, "config.segment.ms", None)]
    (reason,) = found.refused
    assert reason == wording
    assert Edit(ORDERS, RETENTION, WEEK) in undo(story, change, desired=now, force=True).edits


def test_a_later_apply_that_did_nothing_stands_in_no_way(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    story.add("update", "orders", {RETENTION: (DAY, "1")}, result="failed")
    story.add("update", "orders", {"partitions": (1, 2)})
    story.add("update", "prices", {RETENTION: (DAY, "1")})
    assert undo(story, change, desired=(declared("orders", retention_ms=DAY),)).refused == []


def test_a_later_apply_without_a_result_may_have_done_something(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    story.add("update", "orders", {RETENTION: (DAY, "3600000")}, result=None)
    now = (declared("orders", retention_ms=DAY),)
    assert refusal(undo(story, change, desired=now)) == wording
    assert undo(story, change, desired=now, force=True).edits == [Edit(ORDERS, RETENTION, WEEK)]
    made_again = story.add("create", "orders", {RETENTION: (None, DAY)})
    story.add("delete", "orders", {RETENTION: (DAY, None)}, result=None)
    assert refusal(undo(story, made_again, desired=now)) == wording


def test_a_resource_that_was_made_anew_is_another_one(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    story.add("delete", "orders", {RETENTION: (DAY, None)})
    story.add("create", "orders", {RETENTION: (None, DAY)})
    assert refusal(undo(story, change, desired=(declared("orders", retention_ms=DAY),))) == wording


def test_without_a_manifest_there_is_nothing_to_edit(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    for force in (False, True):
        assert refusal(undo(story, change, force=force)) == wording
        gone = undo(story, change, desired=(absent("orders"),), force=force)
        assert refusal(gone) == wording


# --- what is not known, or did not happen ----------------------------------------------------------


@pytest.mark.parametrize("result", ["not_tried", "moved", "already", "failed"])
def test_what_was_not_carried_out_needs_no_undoing(story: Story, result: str) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)}, result=result)
    found = undo(story, change, desired=(declared("orders", retention_ms=DAY),), force=True)
    assert (found.edits, found.refused, found.notes) == ([], [], [wording])


def test_only_the_half_that_was_carried_out_goes_back(story: Story) -> None:
    both = {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1")}
    change = story.add("update", "orders", both, result="failed", done=[RETENTION])
    now = (declared("orders", retention_ms=DAY, segment_ms="1"),)
    assert undo(story, change, desired=now).edits == [Edit(ORDERS, RETENTION, WEEK)]


def test_without_a_result_it_takes_force(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)}, result=None)
    now = (declared("orders", retention_ms=DAY),)
    assert refusal(undo(story, change, desired=now)) == wording
    assert undo(story, change, desired=now, force=True).edits == [Edit(ORDERS, RETENTION, WEEK)]


def test_a_field_that_no_answer_came_for_takes_force(story: Story) -> None:
    both = {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1")}
    change = story.add(
        "update", "orders", both, result="failed", done=["config.segment.ms"], in_doubt=[RETENTION]
    )
    now = (declared("orders", retention_ms=DAY, segment_ms="1"),)
    found = undo(story, change, desired=now)
    assert found.edits == [Edit(ORDERS, "config.segment.ms", None)]
    (reason,) = found.refused
    assert reason == wording
    forced = undo(story, change, desired=now, force=True)
    assert {edit.path for edit in forced.edits} == {RETENTION, "config.segment.ms"}
    whole = story.add("update", "orders", both, result="failed", in_doubt=[*both])
    assert refusal(undo(story, whole, desired=now)) == wording


def test_it_does_not_go_back_behind_what_may_have_been_changed(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "1")})
    again = {RETENTION: (DAY, "5"), "config.segment.ms": ("1", "2")}
    story.add("update", "orders", again, result="failed", in_doubt=[RETENTION])
    now = (declared("orders", retention_ms=DAY, segment_ms="1"),)
    found = undo(story, change, desired=now)
    assert found.edits == [Edit(ORDERS, "config.segment.ms", None)], "which the later apply did not change"
    (reason,) = found.refused
    assert reason == wording


def test_what_is_not_on_record_in_full_is_not_guessed(story: Story) -> None:
    change = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    now = (declared("orders", retention_ms=DAY),)
    cut = replace(change, fields=(replace(change.fields[0], cut=True),))
    for damaged in (cut, replace(change, complete=False)):
        assert refusal(undo(story, damaged, desired=now, force=True)) == wording


# --- creations and deletions -----------------------------------------------------------------------


def test_a_creation_becomes_a_tombstone_and_says_what_that_costs(story: Story) -> None:
    change = story.add("create", "orders", {"partitions": (None, 3)})
    found = undo(story, change, desired=(declared("orders", protected=True),))
    assert found.edits == [Edit(ORDERS, "state", "absent")]
    assert found.notes[0] == wording
    assert "deletionProtection prevents that" in found.notes[1]
    assert "no manifest declares it" in refusal(undo(story, change))
    assert undo(story, change, desired=(absent("orders"),)).notes[0] == wording


def test_a_creation_that_was_undone_already(story: Story) -> None:
    change = story.add("create", "orders", {"partitions": (None, 3)})
    story.add("update", "orders", {"partitions": (3, 6)})
    assert undo(story, change, desired=(declared("orders"),)).refused == []
    story.add("delete", "orders", {"partitions": (6, None)})
    assert "apply run2 deleted it since" in refusal(undo(story, change, desired=(declared("orders"),)))


def test_a_deletion_takes_its_tombstone_back(story: Story) -> None:
    change = story.add(
        "delete", "orders", {"partitions": (6, None), "replicationFactor": (1, None), RETENTION: (DAY, None)}
    )
    found = undo(story, change, desired=(absent("orders"),))
    assert found.edits == [
        Edit(ORDERS, "partitions", 6),
        Edit(ORDERS, "replicationFactor", 1),
        Edit(ORDERS, RETENTION, DAY),
        Edit(ORDERS, "state", None),
    ]
    assert found.notes[0] == wording
    assert "a manifest declares it again" in undo(story, change, desired=(declared("orders"),)).notes[0]


def test_a_deletion_without_a_manifest_gets_a_new_one(story: Story) -> None:
    change = story.add(
        "delete", "orders", {"partitions": (6, None), "replicationFactor": (1, None), RETENTION: (DAY, None)}
    )
    (restored,) = undo(story, change).restored
    assert build_live_manifest(restored).data["spec"] == {
        "partitions": 6,
        "replicationFactor": 1,
        "retention": "1d",
    }


def test_a_group_comes_back_without_its_offsets_and_that_is_said(story: Story) -> None:
    recorded = {
        "config.consumer.session.timeout.ms": ("50000", None),
        "offsets.orders": ("committed", None),
        "offsets.orders:0": (7, None),
        "offsets.orders:1": (8, None),
    }
    change = story.add("delete", "g", recorded, kind="ConsumerGroup")  # type: ignore[arg-type]
    found = undo(story, change)
    (restored,) = found.restored
    assert build_live_manifest(restored).data["spec"]["topics"] == ["orders"]
    assert build_live_manifest(restored).data["spec"]["config"] == {"consumer.session.timeout.ms": "50s"}
    assert found.notes[0] == wording
    tombstone = Desired(GROUP, None, Intent())
    assert undo(story, change, desired=(tombstone,)).edits == [
        Edit(GROUP, "config.consumer.session.timeout.ms", "50000"),
        Edit(GROUP, "state", None),
    ]


def test_a_deletion_that_was_undone_already(story: Story) -> None:
    change = story.add("delete", "orders", {"partitions": (6, None)})
    story.add("create", "orders", {"partitions": (None, 6)})
    assert "apply run1 created it since" in refusal(undo(story, change))


# --- a whole apply ---------------------------------------------------------------------------------


def test_the_changes_of_one_apply_do_not_stand_in_each_others_way(story: Story) -> None:
    first = story.add("update", "orders", {RETENTION: (WEEK, DAY)})
    second = story.add("update", "prices", {RETENTION: (WEEK, DAY)}, result="not_tried")
    third = story.add("create", "new", {"partitions": (None, 1)})
    now = (declared("orders", retention_ms=DAY), declared("new", 1), declared("prices", retention_ms=DAY))
    found = undo(story, third, second, first, desired=now)
    assert found.edits == [
        Edit(ResourceRef("Topic", "new"), "state", "absent"),
        Edit(ORDERS, RETENTION, WEEK),
    ]
    assert found.refused == []
    assert len(found.notes) == 2


def test_what_only_a_later_version_manages_is_refused(story: Story) -> None:
    for action, fields in (("update", {"rate": (1, 2)}), ("create", {"rate": (None, 1)}), ("delete", {})):
        change = story.add(action, "a", fields, kind="Quota")
        assert refusal(undo(story, change)) == wording
