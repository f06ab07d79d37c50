"""First offsets that were committed before and are gone: not committed again without a word."""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from kafkaform.audit.journal import open_journal
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import AuditSettings, ClusterSettings
from kafkaform.core.model import Create, Desired, Risk, Status
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans import scenes
from tests.support.plans.audit import ALICE, HEADER, recorded_apply
from tests.support.plans.scenes import create_topic, declare_reader, group_ref

TARGET = ClusterSettings("dev", ClientProperties())
plan_for = partial(scenes.plan_for, target=TARGET)


@pytest.fixture
def memory(memory: MemoryCluster) -> MemoryCluster:
    create_topic(memory, "orders", 2)
    return memory


def group(*topics: str, start: str = "earliest", **intent: Any) -> Desired:
    desired = declare_reader(*topics, start=start)
    return replace(desired, intent=replace(desired.intent, **intent))


def commit_first(cluster: Cluster, *desired: Desired) -> None:
    assert recorded_apply(plan_for(cluster, *desired), cluster)[1].complete


def intend(cluster: Cluster, plan: Plan, hours_ago: int = 0) -> None:
    """Record what an apply is about to do, which is killed before it could write what became of it."""
    journal = open_journal(cluster, AuditSettings(), plan, HEADER, "sha256:0", ALICE)
    journal._clock = lambda: datetime.now(UTC) - timedelta(hours=hours_ago)
    journal.intend(plan.changes)


def expire(cluster: MemoryCluster) -> None:
    """Let the group be forgotten, as Kafka does seven days after the last commit of an empty one."""
    del cluster._contents.groups["g"]
    cluster.offset_retention_ms = 0


def status_of(plan: Plan) -> Status | None:
    return next((change.status for change in plan.changes if change.ref == group_ref()), None)


@pytest.mark.parametrize(
    ("start", "effect"),
    [
        ("earliest", "records are read again"),
        ("latest", "unread records are skipped"),
        ("2026-01-01T00:00:00Z", "records are read again, or skipped"),
    ],
)
def test_expired_group_needs_consent_to_start_again(memory: MemoryCluster, start: str, effect: str) -> None:
    commit_first(memory, group("orders"))
    assert plan_for(memory, group("orders")).changes == ()
    expire(memory)
    (planned,) = plan_for(memory, group("orders", start=start)).changes
    assert planned.status is Status.NEEDS_CONSENT
    assert isinstance(planned.change, Create)
    assessment = planned.change.assessment
    assert (assessment.hazard, assessment.risk) == ("offset-recommit", Risk.DESTRUCTIVE)
    assert "by alice committed them" in assessment.reason
    assert assessment.reason.endswith(f"starting again, {effect}")
    assert assessment.remedy is not None


@pytest.mark.parametrize(("hours_ago", "status"), [(0, Status.PLANNED), (2, Status.NEEDS_CONSENT)])
def test_commit_without_result_needs_consent_after_an_hour(
    memory: MemoryCluster, hours_ago: int, status: Status
) -> None:
    """The group may have been used and deleted since."""
    intend(memory, plan_for(memory, group("orders")), hours_ago)
    assert status_of(plan_for(memory, group("orders"))) is status


@pytest.mark.parametrize("target", [None, replace(TARGET, audit=AuditSettings(topic=False))])
def test_group_without_record_needs_no_consent(memory: MemoryCluster, target: ClusterSettings | None) -> None:
    commit_first(memory, group("orders"))
    expire(memory)
    assert status_of(plan_for(memory, group("orders"), target=target)) is Status.PLANNED


def test_unreadable_record_is_noted(memory: MemoryCluster) -> None:
    memory.hide(AUDIT_TOPIC)
    plan = plan_for(memory, group("orders"))
    assert status_of(plan) is Status.PLANNED
    (note,) = [note for note in plan.diagnostics if note.code == "KF422"]
    assert "the topic __kafkaform_audit cannot be read" in note.message
    assert "grant Read" in str(note.suggestion)
