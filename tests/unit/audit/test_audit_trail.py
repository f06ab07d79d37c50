"""Tests of the authors of values: as far back as the resource has been the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkaform.audit.trail import Trail, read_trail
from kafkaform.config.settings import AuditSettings
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied, Unreachable
from kafkaform.core.model import ResourceRef
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story, recorded_apply
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import DAY, WEEK, declare_topic, plan_for

RETENTION = "config.retention.ms"
ORDERS = ResourceRef("Topic", "orders")


def values(story: Story, path: str = RETENTION, ref: ResourceRef = ORDERS) -> list[object]:
    return [setting.value for setting in Trail(story.entries).settings(ref, path)]


def test_change_without_result_is_uncertain(story: Story) -> None:
    """A deletion or a creation that may not have been ends nothing: what was set before may still be so."""
    story.add("create", "orders", {RETENTION: (None, WEEK)})
    story.add("delete", "orders", {RETENTION: (WEEK, None)}, result=None)
    story.add("create", "orders", {RETENTION: (None, DAY)}, result=None)
    trail = Trail(story.entries)
    settings = trail.settings(ORDERS, RETENTION)
    assert [(setting.value, setting.certain) for setting in settings] == [(DAY, False), (WEEK, True)]
    assert trail.replaced_since(ORDERS, "")
    assert not trail.replaced_since(ORDERS, story.entries[0].at)
    assert trail.find_open(ORDERS, "delete") is None
    deletion = Trail(story.entries[:2]).find_open(ORDERS, "delete")
    assert deletion is not None
    assert (deletion.run, deletion.certain, deletion.unended) == ("run1", False, True)


@pytest.mark.parametrize(
    ("action", "uid", "replaced"),
    [
        ("recreate", "new", True),
        ("recreate", "old", False),
        ("recreate", None, False),
        ("create", "new", False),
    ],
)
def test_recreation_in_doubt_took_place_if_another_topic_is_live(
    story: Story, action: str, uid: str | None, replaced: bool
) -> None:
    story.add(action, "orders", {"partitions": (6, 2)}, result=None, uid="old")
    trail = Trail(story.entries)
    assert trail.replaced_since(ORDERS, "", uid) is replaced
    assert trail.was_recreated_by(ORDERS, "run0") is (action == "recreate")
    assert not trail.was_recreated_by(ORDERS, "run1")


def test_changes_on_other_cluster_are_ignored(tmp_path: Path) -> None:
    """One file may be kept for several, and a topic may be mirrored."""
    audit = AuditSettings(False, tmp_path / "audit.jsonl")
    staging, prod = MemoryCluster("staging"), MemoryCluster("prod")
    recorded_apply(plan_for(staging, declare_topic("orders", retention_ms=WEEK)), staging, audit)
    assert read_trail(prod, audit, "prod").settings(ORDERS, RETENTION) == ()
    assert len(read_trail(staging, audit, "staging").settings(ORDERS, RETENTION)) == 1
    assert len(read_trail(prod, audit, "staging").settings(ORDERS, RETENTION)) == 1


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (PermissionDenied("no right"), "grant Read on the topic"),
        (Unreachable("nobody there", hint="is it up?"), "is it up?"),
    ],
)
def test_unreadable_audit_topic_is_reported(memory: MemoryCluster, error: ClusterError, hint: str) -> None:
    with pytest.raises(AuditError, match=f"cannot be read: {error.message}") as caught:
        read_trail(override(memory, read_audit=fail(error)), AuditSettings(), "any")
    assert (caught.value.hint or "").startswith(hint)


def test_unreadable_audit_file_is_reported(memory: MemoryCluster, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=f"the record in {tmp_path} cannot be read: "):
        read_trail(memory, AuditSettings(False, tmp_path), "any")
    (tmp_path / "odd.jsonl").write_bytes(b"\xff\xfe\n\n")
    odd = AuditSettings(False, tmp_path / "odd.jsonl")
    assert read_trail(memory, odd, "any").settings(ORDERS, "x") == ()
