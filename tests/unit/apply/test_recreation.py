"""Recreating a topic: consent, steps, and what an apply that was killed leaves to the next one."""

from collections.abc import Sequence
from functools import partial

import pytest

from kafkaform.apply.earlier import read_earlier
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.errors import ClusterError, OutcomeUnknown, RequestRejected
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import Desired, Recreate, Status
from kafkaform.core.operations import Operation
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.difference import SavedPlan, diff_saved
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.topic.operations import CreateTopic, DeleteOffsets, DeleteTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans import scenes
from tests.support.plans.audit import HEADER, TOPIC_ONLY, entries_of, recorded_apply
from tests.support.plans.scenes import (
    FakeClock,
    create_topic,
    declare_reader,
    declare_topic,
    group_ref,
    judge_saved,
    list_statuses,
    state_of,
    topic,
)

READER = declare_reader("orders")
STEPS = (DeleteOffsets, DeleteTopic, CreateTopic, CommitInitialOffsets)
NO = RequestRejected("a policy says no (POLICY_VIOLATION)", code="POLICY_VIOLATION")
plan_for = partial(scenes.plan_for, target=ClusterSettings("dev", ClientProperties()))


@pytest.fixture
def uid(memory: MemoryCluster) -> str:
    """The id of a topic with records, of which a group has read some; its coordinator is down later."""
    uid = create_topic(memory, "orders", 6)
    memory.write("orders", 0, 5)
    memory.commit("g", {("orders", 0): 3, ("orders", 5): 0})
    memory.keep_offsets()
    assert uid is not None
    return uid


def declare(uid: str, partitions: int = 2, *, protected: bool = False) -> Desired:
    """The topic as it is to be created again, with consent."""
    allow = {f"recreate of {uid}": "TICKET-1"}
    desired = declare_topic("orders", partitions, allow=allow, protected=protected)
    return replace(desired, intent=replace(desired.intent, spec={"recreate": uid}))


def carry_out(plan: Plan, memory: MemoryCluster) -> ApplyReport:
    return apply(plan, memory, ApplyOptions(clock=FakeClock().clock))


def check_recreated(memory: MemoryCluster, uid: str, *desired: Desired) -> None:
    """Nothing of the earlier topic is left, and nothing is left to plan."""
    assert memory.topic_ids(["orders"])["orders"] != uid
    assert state_of(memory, "orders") == {"partitions": 2, "replicationFactor": 1}
    assert memory.groups(["g"]).groups["g"].committed == {("orders", 0): 0, ("orders", 1): 0}
    assert plan_for(memory, *desired).changes == ()


def test_topic_is_recreated_once(memory: MemoryCluster, uid: str) -> None:
    desired = declare(uid), READER
    plan = plan_for(memory, *desired)
    change = plan.changes[0].change
    assert isinstance(change, Recreate)
    assert "up to 5 records in the 6 partitions" in change.assessment.reason
    assert "and the offsets of g in it" in change.assessment.reason
    assert [consent.hazard for consent in plan.consents] == ["recreate"]
    saved, _ = plan_from_json(plan_to_json(plan, HEADER), "plan.json")
    assert saved == plan
    reading = memory.observe([topic("orders"), group_ref()])
    assert len(diff_saved(SavedPlan(saved, {}), reading, memory.facts())) == 2
    before = len(memory.executed)
    assert carry_out(judge_saved(saved, memory).plan, memory).complete
    assert tuple(type(operation) for operation in memory.executed[before:]) == STEPS
    check_recreated(memory, uid, *desired)
    again = carry_out(judge_saved(saved, memory).plan, memory)
    assert {result.result for result in again.results} == {Result.ALREADY}


def test_recreation_keeps_offsets_in_other_topics(memory: MemoryCluster, uid: str) -> None:
    create_topic(memory, "other")
    memory.commit("g", {("other", 0): 0})
    assert carry_out(plan_for(memory, declare(uid)), memory).complete
    assert memory.groups(["g"]).groups["g"].committed == {("other", 0): 0}


def test_recreation_without_consent_changes_nothing(memory: MemoryCluster, uid: str) -> None:
    desired = declare("3dBzWnVfRkWvGk1yQn2c8A")
    asking = replace(desired, intent=replace(desired.intent, spec={"recreate": uid}))
    plan = plan_for(memory, asking, READER, replace(READER, ref=group_ref("new")))
    assert plan.changes[0].missing == ("recreate",)
    report = carry_out(plan, memory)
    results = {result.planned.ref.name: result.result for result in report.results}
    assert results == {"orders": Result.NEEDS_CONSENT, "g": Result.ALREADY, "new": Result.FAILED}
    assert memory.topic_ids(["orders"]) == {"orders": uid}


@pytest.mark.parametrize(("protected", "members"), [(True, 0), (False, 2)])
def test_protected_or_used_topic_is_refused(
    memory: MemoryCluster, uid: str, protected: bool, members: int
) -> None:
    if members:
        memory.join("g", ["orders"], members)
    (planned,) = plan_for(memory, declare(uid, protected=protected)).changes
    assert planned.status is Status.REFUSED
    assert ("stop the members of this group" in (planned.remedy or "")) is bool(members)
    assert planned.reason == ("it is read by g (2 members)" if members else "spec.deletionProtection is true")


def test_recreation_of_topic_joined_since_plan_is_refused(memory: MemoryCluster, uid: str) -> None:
    plan = plan_for(memory, declare(uid))
    memory.join("g", ["orders"], 1)
    (result,) = carry_out(plan, memory).results
    assert (result.result, result.done) == (Result.FAILED, ())
    assert "orders is read by g (1 member)" in result.message
    (judged,) = judge_saved(plan, memory).plan.changes
    assert judged.status is Status.REFUSED
    assert memory.topic_ids(["orders"]) == {"orders": uid}


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("saved", [False, True])
def test_killed_apply_is_continued(
    memory: MemoryCluster,
    uid: str,
    monkeypatch: pytest.MonkeyPatch,
    step: type[Operation],
    carried_out: bool,
    saved: bool,
) -> None:
    execute = memory.execute

    def die(operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        if type(operations[0]) is step:
            if carried_out:
                execute(operations, guard)
            raise Killed
        return execute(operations, guard)

    desired = declare(uid), READER
    plan = plan_for(memory, *desired)
    monkeypatch.setattr(memory, "execute", die)
    with pytest.raises(Killed):
        recorded_apply(plan, memory)
    monkeypatch.setattr(memory, "execute", execute)
    later = judge_saved(plan, memory).plan if saved else plan_for(memory, *desired)
    read_earlier(memory, TOPIC_ONLY, plan.cluster_id).record_results(memory, "later")
    _, report = recorded_apply(later, memory)
    assert report.complete
    check_recreated(memory, uid, *desired)


@pytest.mark.parametrize(
    ("step", "error"),
    [(DeleteOffsets, NO), (DeleteTopic, NO), (CreateTopic, NO), (DeleteTopic, OutcomeUnknown("no answer"))],
)
def test_failed_step_skips_following_steps(
    memory: MemoryCluster, uid: str, step: type[Operation], error: ClusterError
) -> None:
    plan = plan_for(memory, declare(uid), READER)
    earlier = STEPS[: STEPS.index(step)]
    for _ in earlier:
        memory.fail_next(None, topic("orders"), carried_out=True)  # type: ignore[arg-type]
    memory.fail_next(error, topic("orders"))
    run, report = recorded_apply(plan, memory)
    recreation, reader = report.results
    assert recreation.result is Result.FAILED
    assert recreation.message.partition("; not verified")[0] == error.message
    assert tuple(type(done) for done in recreation.done) == earlier
    assert [type(operation) for operation in recreation.in_doubt] == ([] if error is NO else [step])
    # Its first offsets would let the group read the old records again.
    assert CommitInitialOffsets not in {type(done) for done in reader.done}
    entry = entries_of(memory, run)["orders"]
    assert entry.outcome is not None
    assert entry.outcome.steps == tuple(done.step for done in recreation.done)
    assert entry.took_place is (step is CreateTopic)


RECREATED = "deleted, but it was created again since, with another id"


@pytest.mark.parametrize(
    ("step", "partitions", "result", "message"),
    [
        (CreateTopic, 1, Result.FAILED, RECREATED),
        (CreateTopic, 2, Result.FAILED, RECREATED),
        # Before anything of it was carried out, it is as if the plan had not been needed.
        (DeleteOffsets, 2, Result.ALREADY, ""),
        (CreateTopic, None, Result.FAILED, "not verified: it is no longer visible to this account"),
    ],
)
def test_topic_recreated_or_hidden_by_others_is_reported(
    memory: MemoryCluster,
    uid: str,
    monkeypatch: pytest.MonkeyPatch,
    step: type[Operation],
    partitions: int | None,
    result: Result,
    message: str,
) -> None:
    execute = memory.execute

    def meddle(operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        if type(operations[0]) is not step:
            return execute(operations, guard)
        if partitions is None:
            memory.hide(topic("orders"))
        elif step is DeleteOffsets:
            execute([DeleteTopic(topic("orders"), uid)])
        if partitions is not None:
            execute([CreateTopic(topic("orders"), partitions, 1, {})])
        return [NO]

    plan = plan_for(memory, declare(uid))
    monkeypatch.setattr(memory, "execute", meddle)
    (found,) = carry_out(plan, memory).results
    assert (found.result, tuple(map(type, found.done))) == (result, STEPS[: STEPS.index(step)])
    assert message in found.message
    assert not message or found.hint


def test_refused_recreation_plans_no_group_change(memory: MemoryCluster, uid: str) -> None:
    plan = plan_for(memory, declare(uid, protected=True), READER)
    assert list_statuses(plan) == {"orders": Status.REFUSED}
    create_topic(memory, "other", 3)
    plan = plan_for(memory, declare(uid, protected=True), declare_topic("other", 2), declare_reader("other"))
    assert list_statuses(plan) == {"orders": Status.REFUSED, "other": Status.REFUSED, "g": Status.PLANNED}


def test_offsets_that_expired_since_the_recreation_need_consent(memory: MemoryCluster, uid: str) -> None:
    recorded_apply(plan_for(memory, declare(uid), READER), memory)
    memory._contents.groups.clear()
    memory.offset_retention_ms = 0
    assert list_statuses(plan_for(memory, declare(uid), READER)) == {"g": Status.NEEDS_CONSENT}
