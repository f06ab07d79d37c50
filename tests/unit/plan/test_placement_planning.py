"""Placement and rebalances in plans for small clusters, and the obstacles to them, such as full disks."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    NotOffered,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.health import LogDir
from kafkaform.core.model import Desired, FieldChange, Observation, Risk, Status
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker, LogSpan, Replicas, TopicPartition
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.rebalancing import Rebalance, RebalanceRequest, make_rebalance, static_topics
from kafkaform.plan.summary import summary_sentence
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.layout import Assignment, Layout, parse_assignment
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.topic.operations import AddPartitions
from kafkaform.resources.values import fields_of
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, laid_out, now_on, override
from tests.support.plans.scenes import (
    FakeClock,
    Watched,
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


def explain_move(plan: Plan) -> str:
    return list_fields(plan)["placement"].assessment.reason


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
    listed = declare_placement(declare_topic("a", 3, 2), "static", "1:2,2:3,3:1")
    assert "(INVALID_REQUEST)" in find_refusal(plan_for(cluster, listed))
    plan = plan_for(cluster, declare_topic("a", 4, 2))
    (planned,) = plan.changes
    assert (planned.status, list(list_fields(plan))) == (Status.PLANNED, ["partitions"])
    operations = KINDS["Topic"].operations(planned.change)
    assert operations == (AddPartitions(topic("a"), 2, 4),)
    assert cluster.execute(operations) == [None]
    message = "the brokers place the new partitions of a themselves: no custom assignment (INVALID_REQUEST)"
    assert find_message(plan, "KF441") == message


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
    assert explain_move(plan).startswith("2 replicas are copied")
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


@pytest.fixture
def cluster() -> MemoryCluster:
    """Four brokers in two racks; nothing of topic a is on broker 4, of topic b everything is on 1 and 2."""
    racks = {1: "x", 2: "y", 3: "x", 4: "y"}
    memory = MemoryCluster(brokers=[Broker(number, rack) for number, rack in racks.items()])
    laid_out(memory, "a", ((1, 2), (2, 3), (3, 2), (1, 2)))
    laid_out(memory, "b", ((1, 2), (1, 2), (1, 2), (1, 2)))
    memory.fill(topic("b"), 400)
    return memory


def run_rebalance(cluster: MemoryCluster, **asked: object) -> Rebalance:
    return make_rebalance(RebalanceRequest(**asked), cluster, None)  # type: ignore[arg-type]


def places(made: Rebalance) -> dict[str, tuple[str, str]]:
    fields = {planned.ref.name: fields_of(planned.change) for planned in made.plan.changes}
    assert {field.path for changed in fields.values() for field in changed} <= {"placement"}
    return {name: (str(field.before), str(field.after)) for name, (field,) in fields.items()}


def test_replicas_and_leaders_are_spread(cluster: MemoryCluster) -> None:
    made = run_rebalance(cluster)
    assert made.before.replicas == {1: 6, 2: 8, 3: 2, 4: 0}
    assert made.after.replica_spread <= 1
    assert made.after.leader_spread <= 1
    assert made.after.narrow == 0
    assert made.moves.replicas >= 6
    for before, after in places(made).values():
        assert [len(replicas) for replicas in parse_assignment(after)] == [2] * 4
        assert before != after
    report = apply(made.plan, cluster, ApplyOptions(clock=FakeClock().clock))
    assert [result.result for result in report.results] == [Result.APPLIED] * len(made.plan.changes)
    again = run_rebalance(cluster)
    assert (again.plan.changes, again.before, again.moves.replicas) == ((), made.after, 0)


def test_broker_is_emptied(cluster: MemoryCluster) -> None:
    made = run_rebalance(cluster, remove=frozenset({2}))
    assert made.not_emptied == ()
    assert made.after.replicas[2] == 0
    assert made.after.narrow == 0
    # What was not on it stays.
    assert places(made)["a"][0] == "1:2,2:3,3:2,1:2"
    apply(made.plan, cluster, ApplyOptions(clock=FakeClock().clock))
    assert all(2 not in replicas for name in "ab" for replicas in now_on(cluster, name))


def test_broker_that_cannot_be_emptied_is_named(cluster: MemoryCluster) -> None:
    laid_out(cluster, "wide", ((1, 2, 3, 4),))
    laid_out(cluster, "wider", ((1, 2, 3, 4),))
    made = run_rebalance(cluster, remove=frozenset({2}), static=frozenset({"b"}))
    assert made.not_emptied == (2,)
    unmoved, remaining, static = (found.message for found in made.plan.diagnostics)
    assert "wide, wider stay where they are: partition 0 has 4 replicas" in unmoved
    assert "it holds replicas of b, wide, wider" in remaining
    assert "b: the manifest places every replica" in static


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"remove": frozenset({9})}, "--remove-broker 9: there is no such broker"),
        ({"add": frozenset({9})}, "--add-broker 9: no such broker is running"),
        ({"add": frozenset({1}), "remove": frozenset({1})}, "broker 1 cannot be added and removed"),
        ({"remove": frozenset({1, 2, 3, 4})}, "no broker would remain"),
        ({"globs": ("c*", "d")}, "--topics c*, d matches no topic"),
    ],
)
def test_contradictory_request_is_refused(cluster: MemoryCluster, asked: Any, message: str) -> None:
    with pytest.raises(KafkaformError) as caught:
        run_rebalance(cluster, **asked)
    assert message in caught.value.message


class Fixed(MemoryCluster):
    """A cluster that moves no replicas, and tells no sizes, as Amazon MSK Serverless does not."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        return [NotOffered("AlterPartitionReassignments") for _ in operations]

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        raise NotOffered(f"DescribeLogDirs of {len(partitions)}")


def test_unsupported_reassignment_refuses_rebalance_with_moves() -> None:
    fixed, even = build_cluster(2, Fixed), build_cluster(2, Fixed)
    laid_out(fixed, "a", ((1,), (1,)))
    with pytest.raises(NotOffered, match="AlterPartitionReassignments"):
        run_rebalance(fixed)
    laid_out(even, "a", ((1,), (2,)))
    assert run_rebalance(even).plan.changes == ()


def test_topics_with_static_placement_are_not_moved() -> None:
    declared = [
        Desired(topic("a"), {"partitions": 1, "placement": "1:2"}),
        Desired(topic("b"), {"partitions": 1}),
        Desired(topic("c"), None),
    ]
    assert static_topics(declared) == {"a"}


MIB = 1024**2


@pytest.fixture
def disks(memory: MemoryCluster) -> MemoryCluster:
    """Three brokers, of which the third has a volume of 160 MiB."""
    volume(memory)
    return memory


def volume(cluster: MemoryCluster, usable: int = 160) -> None:
    cluster.set_log_dirs(3, LogDir(3, "/data", 160 * MIB, usable * MIB))


def holding(cluster: MemoryCluster, name: str, size: int, *partitions: Replicas, **configs: str) -> None:
    laid_out(cluster, name, partitions or ((1,),), **configs)
    cluster.fill(topic(name), size * MIB)


def test_replicas_larger_than_disk_are_refused(disks: MemoryCluster) -> None:
    holding(disks, "a", 212)
    (planned,) = plan_for(disks, declare_topic("a", 1, 3)).changes
    assert planned.status is Status.REFUSED
    assert "broker 3 cannot hold its largest replica: 212.0 MiB" in str(planned.reason)
    assert "limits.diskReserve" in str(planned.remedy)
    assert {field.assessment.risk for field in fields_of(planned.change)} >= {Risk.IMPOSSIBLE}


def test_foreign_moves_take_disk_space(disks: MemoryCluster) -> None:
    holding(disks, "a", 80)
    holding(disks, "foreign", 100)
    assert list_statuses(plan_for(disks, declare_topic("a", 1, 3))) == {"a": Status.PLANNED}
    disks.reassign({("foreign", 0): (1, 3)})
    reason = find_refusal(plan_for(disks, declare_topic("a", 1, 3)))
    assert re.search(r"80\.0 MiB to copy, .* MiB of other moves", reason)


def test_rebalance_without_disk_space_is_refused(disks: MemoryCluster) -> None:
    holding(disks, "a", 212, (1, 2))
    made = make_rebalance(RebalanceRequest(remove=frozenset({1})), disks, None)
    assert list_statuses(made.plan) == {"a": Status.REFUSED}
    assert (made.not_emptied, made.before, made.moves.replicas) == ((1,), made.after, 0)


def test_saved_plan_is_judged_by_current_disks(disks: MemoryCluster) -> None:
    holding(disks, "a", 100)
    plan = plan_for(disks, declare_topic("a", 1, 3))
    for now in (plan, judge_saved(plan, disks).plan):
        assert list_statuses(now) == {"a": Status.PLANNED}
    volume(disks, usable=110)
    now = judge_saved(plan, disks).plan
    assert list_statuses(now) == {"a": Status.REFUSED}
    assert "110.0 MiB usable" in find_refusal(now)


def test_unknown_disk_space_is_noted(disks: MemoryCluster) -> None:
    holding(disks, "a", 212)
    silent = override(disks, log_dirs=fail(PermissionDenied("this account may not")))
    plan = plan_for(silent, declare_topic("a", 1, 3))
    assert list_statuses(plan) == {"a": Status.PLANNED}
    assert "whether brokers have enough disk space: this account may not" in explain_move(plan)
    disks.set_log_dirs(3)
    unreported = explain_move(plan_for(disks, declare_topic("a", 1, 3)))
    assert "whether broker 3 has enough disk space: brokers report it since Kafka 3.3" in unreported
    assert "disk space" not in explain_move(plan_for(disks, declare_topic("a", 1, 2)))


class Written(Watched):
    """Reports that half of the records of a topic are of the last minutes."""

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        assert at_ms is not None
        assert not committed
        assert abs(time.time() * 1000 - at_ms - 600_000) < 300_000
        return {key: LogSpan(0, 100, 50 if key[0] == "busy" else 100) for key in partitions}


SLOW = ClusterSettings("dev", ClientProperties(), moves=MoveOptions(throttle=MIB // 10))
"""At which 60 MiB take as long as half of what `Written` reports: ten minutes."""
SEGMENTS = {"segment_bytes": str(MIB)}


def test_records_written_during_copy_count(disks: MemoryCluster) -> None:
    holding(disks, "a", 60)
    holding(disks, "busy", 160, (3,), retention_ms="-1", retention_bytes="-1")
    assert list_statuses(plan_for(disks, declare_topic("a", 1, 3), target=SLOW)) == {"a": Status.PLANNED}
    plan = plan_for(Written(disks), declare_topic("a", 1, 3), target=SLOW)
    # Twice 60 MiB leave broker 1, at 0.1 MiB a second; meanwhile broker 3 gets twice 80 MiB.
    assert "60.0 MiB to copy, about 160.0 MiB written meanwhile" in find_refusal(plan)


@pytest.mark.parametrize(
    ("configs", "changed", "status"),
    [
        ({"retention_ms": "-1", "retention_bytes": str(160 * MIB), **SEGMENTS}, {}, Status.PLANNED),
        ({"retention_ms": "600000", "retention_bytes": "-1", **SEGMENTS}, {}, Status.PLANNED),
        ({"retention_ms": "-1", "retention_bytes": str(320 * MIB)}, {}, Status.REFUSED),
        ({"retention_ms": "6000000", "retention_bytes": "-1"}, {}, Status.REFUSED),
        ({"retention_ms": "600000", "cleanup_policy": "compact"}, {}, Status.REFUSED),
        ({"retention_ms": "600000", **SEGMENTS}, {"retention_ms": "6000000"}, Status.REFUSED),
        ({"retention_ms": "600000", **SEGMENTS}, {"flush_ms": "6000000"}, Status.PLANNED),
    ],
)
def test_bounded_retention_adds_no_disk_usage(
    disks: MemoryCluster, configs: dict[str, Any], changed: dict[str, Any], status: Status
) -> None:
    holding(disks, "a", 60)
    holding(disks, "busy", 160, (3,), **configs)
    desired = declare_topic("a", 1, 3), declare_topic("busy", 1, 1, **{**configs, **changed})
    assert list_statuses(plan_for(Written(disks), *desired, target=SLOW))["a"] is status
