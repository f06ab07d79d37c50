"""Tests of placement in plans for a cluster of three racks, and of the obstacles to it."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import ClusterError, PermissionDenied, RequestRejected, Unreachable
from kafkaform.core.model import FieldChange, Observation, Status
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.summary import summary_sentence
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.layout import Assignment, Layout, parse_assignment
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions
from kafkaform.resources.values import fields_of
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, laid_out, override
from tests.support.plans.scenes import (
    FakeClock,
    create_topic,
    declare_placement,
    declare_topic,
    judge_saved,
    list_statuses,
    plan_for,
    save_plan,
    topic,
)


@pytest.fixture
def memory() -> MemoryCluster:
    return build_cluster()


def build_cluster(brokers: int = 3, sort: type[MemoryCluster] = MemoryCluster) -> MemoryCluster:
    cluster = sort(brokers=[Broker(n, f"rack-{n}") for n in range(1, brokers + 1)])
    cluster.pace(1000)
    return cluster


def list_fields(plan: Plan) -> dict[str, FieldChange]:
    (planned,) = plan.changes
    return {field.path: field for field in fields_of(planned.change)}


def read_target(plan: Plan) -> Assignment:
    return parse_assignment(str(list_fields(plan)["placement"].after))


def list_codes(plan: Plan) -> list[str]:
    return [found.code for found in plan.diagnostics if found.code.startswith("KF4")]


def find_message(plan: Plan, code: str) -> str:
    (found,) = [found for found in plan.diagnostics if found.code == code]
    return found.message


def find_refusal(plan: Plan) -> str:
    (planned,) = plan.changes
    assert planned.status is Status.REFUSED
    return str(planned.reason)


class Placing(MemoryCluster):
    """A cluster that takes no places for new partitions, as Redpanda's brokers do not."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        answers = super().validate(operations)
        refusal = RequestRejected("no custom assignment (INVALID_REQUEST)", code="INVALID_REQUEST")
        return [
            refusal if isinstance(operation, AddPartitions) and operation.assignment else answer
            for operation, answer in zip(operations, answers, strict=True)
        ]


def test_brokers_without_placement_support_place_new_partitions() -> None:
    cluster = build_cluster(sort=Placing)
    laid_out(cluster, "a", ((1, 2), (2, 3)))
    plan = plan_for(cluster, declare_topic("a", 4, 2))
    (planned,) = plan.changes
    assert (planned.status, list(list_fields(plan))) == (Status.PLANNED, ["partitions"])
    assert carry_out(cluster, plan) == [AddPartitions(topic("a"), 2, 4)]
    message = "the brokers place the new partitions of a themselves: no custom assignment (INVALID_REQUEST)"
    assert find_message(plan, "KF441") == message
    listed = declare_placement(declare_topic("a", 5, 2), "static", "1:2,2:3,1:2,2:3,3:1")
    assert "(INVALID_REQUEST)" in find_refusal(plan_for(cluster, listed))


def carry_out(memory: MemoryCluster, plan: Plan) -> list[Operation]:
    """Return the requests of a plan; the possible ones are carried out."""
    operations = [o for p in plan.changes for o in KINDS[p.ref.kind].operations(p.change)]
    for operation in operations:
        assert isinstance(operation, Reassign) or memory.execute([operation]) == [None]
    return operations


def test_partitions_without_placement_are_placed_by_controller(memory: MemoryCluster) -> None:
    laid_out(memory, "a", ((1, 2, 3),))
    memory.stop_broker(3)
    plan = plan_for(memory, declare_topic("a", 2, 3))
    (planned,) = plan.changes
    assert planned.status is Status.PLANNED
    assert KINDS["Topic"].operations(planned.change) == (AddPartitions(topic("a"), 1, 2),)
    assert "replicationFactor is 3, but only 2 brokers are live" in find_message(plan, "KF423")


def test_partitions_with_mixed_replication_are_not_increased(memory: MemoryCluster) -> None:
    laid_out(memory, "a", ((1, 2), (2, 3)))
    memory.replicate(topic("a"), (2, 1))
    reason = find_refusal(plan_for(memory, declare_topic("a", 3, 2)))
    assert "its partitions have 1 to 2 replicas" in reason
    assert "declare `partitions: 2` first" in reason


def test_static_placement_is_planned_as_listed(memory: MemoryCluster) -> None:
    laid_out(memory, "a", ((1, 2), (2, 3)))
    plan = plan_for(memory, declare_placement(declare_topic("a", 2, 2), "static", "1:2,3:1"))
    assert list_fields(plan)["placement"].after == "1:2,3:1"
    assert plan_for(memory, declare_placement(declare_topic("a", 2, 2), "static", "1:2,2:3")).changes == ()
    order = plan_for(memory, declare_placement(declare_topic("a", 2, 2), "static", "2:1,2:3"))
    assert list_fields(order)["placement"].assessment.hazard == ""


def test_copied_bytes_of_topics_are_added(memory: MemoryCluster) -> None:
    for name, replicas in (("a", ((1,),)), ("b", ((2,),)), ("c", ((1, 2),))):
        laid_out(memory, name, replicas)
        memory.fill(topic(name), 1_000_000_000)
    plan = plan_for(memory, declare_topic("a", 1, 3), declare_topic("b", 1, 2), declare_topic("c", 1, 2))
    message = find_message(plan, "KF429")
    assert "3 replicas are copied (2.8 GiB, about 40 seconds at 50 MB/s per broker)" in message
    # Broker 1 sends both of the first topic's; broker 2 sends the second's, or the first's was sent to it.
    assert summary_sentence(plan).startswith(f"Plan: 2 to update, 1 unchanged. {message}. ")
    assert list_codes(narrow(plan, ["Topic/a"])) == []
    assert list_codes(narrow(plan, ["Topic/*"])) == ["KF429"]
    assert list_codes(plan_for(memory, declare_topic("a", 1, 3))) == []
    slow = ClusterSettings("prod", ClientProperties(), moves=MoveOptions(throttle=1_000_000))
    now = find_message(judge_saved(save_plan(plan), memory, target=slow).plan, "KF429")
    assert now == message.replace("about 40 seconds at 50 MB/s", "about 33 minutes at 1 MB/s")


def test_foreign_reassignment_of_topic_refuses_change(memory: MemoryCluster) -> None:
    for name in ("a", "b"):
        laid_out(memory, name, ((1,), (2,)))
    assert not any(memory.reassign({("a", 0): (3,)}).values())
    plan = plan_for(memory, declare_topic("a", 2, 2), declare_topic("b", 2, 2))
    assert list_statuses(plan) == {"a": Status.REFUSED, "b": Status.PLANNED}
    assert "reassign" in str(plan.changes[0].reason)
    assert list_codes(plan) == ["KF427"]


def test_unreadable_layout_defers_replica_fields_only(memory: MemoryCluster) -> None:
    for name in ("a", "b"):
        laid_out(memory, name, ((1,), (2,)))
    static = declare_placement(declare_topic("b", 2, 1), "static", "1,3")

    def observe(*arguments: Any, **options: Any) -> Observation:
        found = memory.observe(*arguments, **options)
        live = {
            ref: replace(each, live=each.live if ref == topic("a") else None)
            for ref, each in found.resources.items()
        }
        return replace(found, resources=live)

    blind = override(memory, layout=fail(Unreachable("no answer in time")), observe=observe)
    plan = plan_for(blind, declare_topic("a", 4, 2, min_insync_replicas="2"), static)
    assert list_codes(plan) == ["KF423"]
    assert list_statuses(plan) == {"a": Status.PLANNED, "b": Status.REFUSED}
    fields = list_fields(narrow(plan, ["Topic/a"]))
    assert {path: bool(field.deferred) for path, field in fields.items()} == {
        "partitions": False,
        "replicationFactor": True,
        "config.min.insync.replicas": True,
    }


def test_unreadable_reassignments_refuse_moves(memory: MemoryCluster) -> None:
    for name in ("grows", "moves", "racks"):
        laid_out(memory, name, ((1, 2), (2, 3)))
    racks = declare_placement(declare_topic("racks", 2, 2), "rack-aware")
    veiled = override(memory, layout=lambda topics=None: replace(memory.layout(topics), reassigning=None))
    plan = plan_for(veiled, declare_topic("grows", 3, 2), declare_topic("moves", 2, 3), racks)
    assert list_statuses(plan) == {"grows": Status.PLANNED, "moves": Status.REFUSED}
    assert "lacks Describe on the cluster" in str(plan.changes[1].reason)
    assert list_codes(plan) == ["KF423"]


@pytest.mark.parametrize("unread", ["partition_sizes", "throttles"])
def test_replicas_of_unknown_size_are_planned(memory: MemoryCluster, unread: str) -> None:
    laid_out(memory, "a", ((1,), (2,)))
    plan = plan_for(override(memory, **{unread: fail(PermissionDenied("no"))}), declare_topic("a", 2, 2))
    assert list_fields(plan)["placement"].assessment.reason.startswith("2 replicas are copied")
    assert list_codes(plan) == ["KF416"]


def test_replicas_moved_during_planning_refuse_change(memory: MemoryCluster) -> None:
    def layout(topics: Collection[str] | None = None) -> Layout:
        memory.execute([AddPartitions(topic("a"), 2, 3)])
        return memory.layout(topics)

    laid_out(memory, "a", ((1,), (2,)))
    plan = plan_for(override(memory, layout=layout), declare_topic("a", 2, 2))
    assert "moved while the plan was made" in find_refusal(plan)


def test_moves_left_by_killed_apply_are_continued(memory: MemoryCluster) -> None:
    laid_out(memory, "a", ((1,), (2,), (3,)))
    first = read_target(plan_for(memory, declare_topic("a", 3, 2)))
    assert not any(memory.reassign({("a", 0): first[0], ("a", 1): first[1]}).values())
    plan = plan_for(memory, declare_topic("a", 3, 2))
    (planned,) = plan.changes
    assert planned.status is Status.PLANNED
    assert list_fields(plan)["placement"].before == "1,2,3"
    assert read_target(plan)[:2] == first[:2]
    assert list_codes(plan) == []


FACTORS = st.integers(1, 3)
TOPICS = st.tuples(st.integers(1, 4), FACTORS, st.integers(0, 2), FACTORS, st.booleans())


@given(st.lists(TOPICS, min_size=1, max_size=4))
def test_plan_after_apply_is_empty(topics: list[tuple[int, int, int, int, bool]]) -> None:
    memory = build_cluster(4)
    memory.pace(2)
    desired = []
    for number, (partitions, factor, extra, wanted, spread) in enumerate(topics):
        create_topic(memory, f"t{number}", partitions, factor)
        least = str(max(1, wanted - 1))
        meant = {f"replication-factor-cut from {factor}": "meant"} if wanted == 1 < factor else None
        item = declare_topic(f"t{number}", partitions + extra, wanted, allow=meant, min_insync_replicas=least)
        desired.append(declare_placement(item, "rack-aware") if spread else item)
    plan = plan_for(memory, *desired)
    assert all(planned.status is Status.PLANNED for planned in plan.changes)
    report = apply(plan, memory, ApplyOptions(clock=FakeClock().clock))
    assert [result.message for result in report.results if result.result is not Result.APPLIED] == []
    assert plan_for(memory, *desired).changes == ()
    again = apply(plan, memory, ApplyOptions(clock=FakeClock().clock))
    assert {result.result for result in again.results} <= {Result.ALREADY}
    for planned in plan.changes:
        wanted_there = {f.path: f.after for f in getattr(planned.change, "fields", ())}.get("placement")
        if wanted_there is not None:
            assert memory.layout().assignment(planned.ref.name) == parse_assignment(str(wanted_there))
