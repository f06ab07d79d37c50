"""First offsets that were committed before and are gone: not committed again without a word."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaform.audit.journal import open_journal
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import AuditSettings, ClusterSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import OutcomeUnknown, RequestRejected
from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    FieldValue,
    Intent,
    ResourceRef,
    Risk,
    Status,
    Update,
)
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.consent import Grant
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import ALICE, HEADER, recorded_apply
from tests.support.plans.scenes import QUIET, absent, create_topic, declare_topic

HAZARD = "offset-recommit"
TARGET = ClusterSettings("dev", ClientProperties())


@pytest.fixture
def memory(memory: MemoryCluster) -> MemoryCluster:
    create_topic(memory, "orders", 2)
    return memory


def group(*topics: str, start: str = "earliest", name: str = "g", **intent: object) -> Desired:
    state: dict[str, FieldValue] = {f"offsets.{topic}": start for topic in topics}
    spec = {"topics": list(topics), "protocol": "consumer"}
    return Desired(ResourceRef("ConsumerGroup", name), state, Intent(spec=spec, **intent))  # type: ignore[arg-type]


def plan_for(
    cluster: Cluster, *desired: Desired, allow: str | None = None, target: ClusterSettings | None = TARGET
) -> Plan:
    grants = (Grant.parse(allow),) if allow else ()
    return build_plan(Request(desired, allow=grants), cluster, Settings(rules=QUIET), target)


def commit_first(cluster: Cluster, *desired: Desired) -> str:
    """Commit first offsets by an apply that is recorded."""
    run, report = recorded_apply(plan_for(cluster, *desired), cluster)
    assert {result.result for result in report.results} == {Result.APPLIED}
    return run


def expire(cluster: MemoryCluster, name: str = "g") -> None:
    """Let a group be forgotten, as Kafka does seven days after the last commit of an empty one."""
    del cluster._contents.groups[name]
    cluster.offset_retention_ms = 0


def status_of(plan: Plan, name: str = "g") -> Status | None:
    return next((change.status for change in plan.changes if change.ref.name == name), None)


def test_first_time_is_safe(memory: MemoryCluster) -> None:
    plan = plan_for(memory, group("orders"))
    assert status_of(plan) is Status.PLANNED
    assert memory.read_audit() == ()


def test_group_that_expired_needs_consent_to_begin_anew(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    assert plan_for(memory, group("orders")).changes == ()
    expire(memory)
    plan = plan_for(memory, group("orders"))
    (planned,) = plan.changes
    assert planned.status is Status.NEEDS_CONSENT
    assert isinstance(planned.change, Create)
    assessment = planned.change.assessment
    assert (assessment.risk, assessment.hazard) == (Risk.DESTRUCTIVE, HAZARD)
    assert "by alice committed them" in (assessment.reason or "")
    assert "records are read again" in (assessment.reason or "")
    assert assessment.remedy is not None


@pytest.mark.parametrize(
    ("start", "effect"),
    [
        ("earliest", "records are read again"),
        ("latest", "unread records are skipped"),
        ("2026-01-01T00:00:00Z", "records are read again, or skipped"),
    ],
)
def test_reason_reports_what_beginning_anew_means(memory: MemoryCluster, start: str, effect: str) -> None:
    commit_first(memory, group("orders"))
    expire(memory)
    (planned,) = plan_for(memory, group("orders", start=start)).changes
    assert isinstance(planned.change, Create)
    assert planned.change.assessment.reason.endswith(f"starting again, {effect}")


def test_consent_is_taken_from_the_manifest_and_from_the_command_line(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    expire(memory)
    meant = group("orders", allow={HAZARD: "the group was idle on purpose"})
    assert status_of(plan_for(memory, meant)) is Status.PLANNED
    by_flag = plan_for(memory, group("orders"), allow=f"ConsumerGroup/g:{HAZARD}")
    assert status_of(by_flag) is Status.PLANNED
    commit_first(memory, meant)
    assert plan_for(memory, group("orders")).changes == ()


def test_group_that_lost_one_topic_needs_consent_for_that(memory: MemoryCluster) -> None:
    create_topic(memory, "prices", 1)
    commit_first(memory, group("orders", "prices"))
    record = memory._contents.groups["g"]
    kept = {partition: offset for partition, offset in record.offsets.items() if partition[0] == "prices"}
    memory._contents.groups["g"] = replace(record, offsets=kept)
    (planned,) = plan_for(memory, group("orders", "prices")).changes
    assert isinstance(planned.change, Update)
    assert [field.path for field in planned.change.fields] == ["offsets.orders"]
    assert (planned.change.fields[0].assessment.hazard, planned.status) == (HAZARD, Status.NEEDS_CONSENT)


def test_new_topic_of_the_group_is_safe(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    create_topic(memory, "prices", 1)
    (planned,) = plan_for(memory, group("orders", "prices")).changes
    assert planned.status is Status.PLANNED


def test_group_that_an_apply_deleted_may_come_back(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    gone = Desired(ResourceRef("ConsumerGroup", "g"), None, Intent(allow={"delete": "TICKET-1"}))
    plan = plan_for(memory, gone)
    assert isinstance(plan.changes[0].change, Delete)
    recorded_apply(plan, memory)
    assert status_of(plan_for(memory, group("orders"))) is Status.PLANNED


def test_topic_that_an_apply_recreated_has_nothing_to_skip(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    recorded_apply(plan_for(memory, absent("orders"), allow="Topic/orders:delete"), memory)
    assert status_of(plan_for(memory, declare_topic("orders", 2), group("orders"))) is Status.PLANNED, (
        "in one plan"
    )
    recorded_apply(plan_for(memory, declare_topic("orders", 2)), memory)
    assert status_of(plan_for(memory, group("orders"))) is Status.PLANNED, "one after the other"


def test_commit_that_failed_was_none(memory: MemoryCluster) -> None:
    memory.fail_next(RequestRejected("no (NOT_COORDINATOR)", code="NOT_COORDINATOR"))
    recorded_apply(plan_for(memory, group("orders")), memory)
    assert status_of(plan_for(memory, group("orders"))) is Status.PLANNED


def test_commit_without_a_result_may_have_been_one(memory: MemoryCluster) -> None:
    """As an apply leaves it that is killed before it could write what became of it.

    Within the time for which brokers keep offsets, a group that is not there shows that it was none.
    """
    plan = plan_for(memory, group("orders"))
    journal = open_journal(memory, AuditSettings(), plan, HEADER, "sha256:0", ALICE)
    journal.intend(plan.changes)
    assert status_of(plan_for(memory, group("orders", start="latest"))) is Status.PLANNED
    memory.offset_retention_ms = 0
    (planned,) = plan_for(memory, group("orders", start="latest")).changes
    assert planned.status is Status.NEEDS_CONSENT
    assert isinstance(planned.change, Create)
    assessment = planned.change.assessment
    assert assessment.hazard == HAZARD
    assert "whether it did is not known" in (assessment.reason or "")
    assert "unread records are skipped" in (assessment.reason or "")


def test_group_that_is_there_does_not_show_that_a_commit_was_none(memory: MemoryCluster) -> None:
    plan = plan_for(memory, group("orders"))
    open_journal(memory, AuditSettings(), plan, HEADER, "sha256:0", ALICE).intend(plan.changes)
    create_topic(memory, "prices", 1)
    memory.commit("g", {("prices", 0): 0})
    assert status_of(plan_for(memory, group("orders", "prices"))) is Status.NEEDS_CONSENT


@pytest.mark.parametrize("carried_out", [True, False])
def test_commit_without_an_answer_may_have_been_one(memory: MemoryCluster, *, carried_out: bool) -> None:
    """Reading back has not shown it: the brokers took too long, or the group had been forgotten by then."""
    g = ResourceRef("ConsumerGroup", "g")
    long = 1_000
    memory.lag(long)
    memory.fail_next(OutcomeUnknown("no answer in time"), g, carried_out=carried_out)
    _, report = recorded_apply(plan_for(memory, group("orders")), memory)
    (failed,) = report.results
    assert failed.result is Result.FAILED
    assert failed.in_doubt == failed.not_done == (CommitInitialOffsets(g, {"orders": "earliest"}),)
    memory.lag(0)
    for _ in range(long):
        memory.observe([])
    if carried_out:
        expire(memory)
    (planned,) = plan_for(memory, group("orders")).changes
    assert planned.status is Status.NEEDS_CONSENT
    assert isinstance(planned.change, Create)
    reason = planned.change.assessment.reason or ""
    assert "whether it did is not known" in reason
    assert "records are read again" in reason


def test_commit_that_was_refused_for_some_partitions_may_be_one(memory: MemoryCluster) -> None:
    refused = RequestRejected("orders:1: no (NOT_COORDINATOR)", code="NOT_COORDINATOR")
    refused.is_partial = True
    memory.fail_next(refused)
    recorded_apply(plan_for(memory, group("orders")), memory)
    assert status_of(plan_for(memory, group("orders"))) is Status.NEEDS_CONSENT


def test_topic_or_a_group_that_may_have_been_deleted_may_also_be_the_same(memory: MemoryCluster) -> None:
    commit_first(memory, group("orders"))
    gone = Desired(ResourceRef("ConsumerGroup", "g"), None, Intent(allow={"delete": "TICKET-1"}))
    plan = plan_for(memory, gone, absent("orders"))
    assert len(plan.changes) == 2
    open_journal(memory, AuditSettings(), plan, HEADER, "sha256:0", ALICE).intend(plan.changes)
    expire(memory)
    assert status_of(plan_for(memory, group("orders"))) is Status.NEEDS_CONSENT


@pytest.mark.parametrize("target", [None, replace(TARGET, audit=AuditSettings(topic=False))])
def test_where_no_record_is_kept_nothing_is_known(
    memory: MemoryCluster, target: ClusterSettings | None
) -> None:
    commit_first(memory, group("orders"))
    expire(memory)
    assert status_of(plan_for(memory, group("orders"), target=target)) is Status.PLANNED


def test_record_is_read_for_nothing_else() -> None:
    class Counting(MemoryCluster):
        asked = 0

        def read_audit(self) -> Sequence[str]:
            self.asked += 1
            return super().read_audit()

    cluster = Counting()
    create_topic(cluster, "orders", 2)
    plan_for(cluster, declare_topic("orders", 4), declare_topic("new"))
    assert cluster.asked == 0
    plan_for(cluster, declare_topic("orders", 2), group("orders"))
    assert cluster.asked == 1


def test_record_that_cannot_be_read_is_a_note_and_no_failure(memory: MemoryCluster) -> None:
    memory.hide(AUDIT_TOPIC)
    plan = plan_for(memory, group("orders"))
    assert status_of(plan) is Status.PLANNED
    (note,) = [note for note in plan.diagnostics if note.code == "KF422"]
    assert "the topic __kafkaform_audit cannot be read" in note.message
    assert note.suggestion is not None
    assert "grant Read" in note.suggestion
