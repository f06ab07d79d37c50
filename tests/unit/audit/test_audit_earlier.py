"""Tests of an apply after earlier ones: results that were never written, and plans that are spent."""

from pathlib import Path
from typing import Any

import pytest

from kafkaform.apply.earlier import EarlierApplies, read_earlier
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.journal import open_journal
from kafkaform.audit.trail import read_record
from kafkaform.cli.safeguards import Safeguards, record_results
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import AuditSettings, ClusterSettings
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import ALICE, HEADER, Story, ends, entries_of
from tests.support.plans.scenes import DAY, WEEK, FakeClock, absent, create_topic, declare_topic, plan_for

KEPT = AuditSettings()
RETENTION = "config.retention.ms"
"""So many readings: more than an apply takes before it gives up."""


def kill_apply(plan: Plan, cluster: MemoryCluster, *, done: bool = True) -> str:
    """Apply a plan, or only mean to, and write no result; returns the id of the apply."""
    journal = open_journal(cluster, KEPT, plan, HEADER, "sha256:0", ALICE)
    if done:
        apply(plan, cluster, ApplyOptions(journal=journal, clock=FakeClock().clock))
    else:
        journal.intend(plan.changes)
    return journal.run


def settle_open(cluster: Cluster) -> list[str]:
    earlier = read_earlier(cluster, KEPT, "memory")
    return [str(entry.ref) for entry in earlier.record_results(cluster, "later")]


def test_visible_changes_of_killed_apply_are_recorded_as_applied(memory: MemoryCluster) -> None:
    for name in ("cut", "gone"):
        create_topic(memory, name, retention_ms=WEEK)
    cut, new = declare_topic("cut", 6, retention_ms=DAY), declare_topic("new", segment_ms=DAY)
    plan = plan_for(memory, cut, absent("gone"), new, allow="Topic/cut:retention-cut")
    run = kill_apply(plan, memory)
    assert ends(entries_of(memory, run)) == {"cut": None, "gone": None, "new": None}
    assert settle_open(memory) == ["Topic/cut", "Topic/gone", "Topic/new"]
    assert ends(entries_of(memory, run)) == dict.fromkeys(("cut", "gone", "new"), "applied")
    entry = read_record(memory, KEPT).entries[0]
    assert entry.carried_out == entry.fields
    assert entry.outcome is not None
    assert "later found the change on the cluster" in entry.outcome.message
    settle_nothing(memory)


def settle_nothing(memory: MemoryCluster) -> None:
    lines = memory.read_audit()
    assert settle_open(memory) == []
    assert memory.read_audit() == lines


def test_invisible_changes_of_killed_apply_stay_open(memory: MemoryCluster) -> None:
    """It may have been carried out and undone, so nothing may be said of it; nor of a half."""
    for name in ("cut", "gone", "half"):
        create_topic(memory, name, retention_ms=WEEK)
    whole = (declare_topic("cut", retention_ms=DAY), declare_topic("half", 6, retention_ms=DAY))
    desired = (*whole, absent("gone"), declare_topic("new"))
    run = kill_apply(plan_for(memory, *desired, allow="Topic/*:retention-cut"), memory, done=False)
    half = plan_for(memory, declare_topic("half", retention_ms=DAY), allow="Topic/half:retention-cut")
    apply(half, memory, ApplyOptions(clock=FakeClock().clock))
    settle_nothing(memory)
    assert set(ends(entries_of(memory, run)).values()) == {None}


def test_change_of_later_apply_is_not_attributed_to_earlier(memory: MemoryCluster, story: Story) -> None:
    uid = create_topic(memory, "a", retention_ms=DAY)
    story.add("update", "a", {RETENTION: (WEEK, DAY), "partitions": (1, 3)}, result=None, uid=uid)
    story.add("update", "a", {RETENTION: (WEEK, DAY)})
    (found,) = EarlierApplies(story.entries, KEPT).record_results(memory, "later")
    assert [field.path for field in found.fields] == ["partitions"]
    story.add("update", "a", {"partitions": (1, 3)})
    assert EarlierApplies(story.entries, KEPT).record_results(memory, "later") == ()
    story.entries[2:] = []
    story.add("create", "a", {})
    assert EarlierApplies(story.entries, KEPT).record_results(memory, "later") == ()


@pytest.mark.parametrize(
    ("more", "spent"),
    [
        ({}, True),
        ({"plan": "sha256:1"}, False),
        ({"result": None}, False),
        ({"result": "failed", "done": [RETENTION]}, False),
        ({"result": "already"}, False),
    ],
)
def test_completely_applied_change_is_spent(story: Story, more: Any, spent: bool) -> None:
    entry = story.add("update", "a", {RETENTION: (WEEK, DAY), "partitions": (1, 3)}, **more)
    found = EarlierApplies(story.entries).find_spent("sha256:0", "2026-11-03T11:00:00.000Z")
    assert found == ({entry.ref: entry} if spent else {})


@pytest.mark.parametrize(
    ("created_at", "spent"),
    [
        ("2026-11-03T11:59:59Z", True),
        ("2026-11-03T12:00:00.000Z", True),
        ("2026-11-03T12:00:00.001Z", False),
        ("2026-11-04T00:00:00Z", False),
        ("2026-11-31T00:00:00Z", True),
    ],
)
def test_plan_created_after_apply_is_not_spent(story: Story, created_at: str, spent: bool) -> None:
    """Its digest is the same, as that is over content without times."""
    story.add("update", "a", {RETENTION: (WEEK, DAY)})
    assert bool(EarlierApplies(story.entries).find_spent("sha256:0", created_at)) == spent


def test_unreadable_record_is_noted_and_does_not_stop_apply(
    memory: MemoryCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    target = ClusterSettings("dev", ClientProperties())
    create_topic(memory, "a", retention_ms=WEEK)
    kill_apply(plan_for(memory, declare_topic("a", 6, retention_ms=WEEK)), memory)
    memory.hide(AUDIT_TOPIC)
    assert Safeguards().earlier(memory, target, "memory", saved=True) == EarlierApplies()
    assert "the topic __kafkaform_audit cannot be read" in capsys.readouterr().err
    assert Safeguards(audit=False).earlier(memory, target, "memory", saved=False).entries == ()
    assert capsys.readouterr().err == ""


def test_unwritable_result_is_noted_and_does_not_stop_apply(
    memory: MemoryCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_apply(plan_for(memory, declare_topic("a")), memory)
    nowhere = AuditSettings(file=tmp_path / "missing" / "audit.jsonl")
    record_results(replace(read_earlier(memory, KEPT, "memory"), kept=nowhere), memory, "later")
    assert "audit.jsonl cannot be written" in capsys.readouterr().err
