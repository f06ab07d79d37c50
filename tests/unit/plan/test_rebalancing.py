"""Planning rebalances on a cluster in memory, and moves onto disks that cannot hold them."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.settings import ClusterSettings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, PermissionDenied
from kafkaform.core.health import LogDir
from kafkaform.core.model import Desired, Risk, Status
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker, LogSpan, Replicas, TopicPartition
from kafkaform.core.plans import Plan
from kafkaform.plan.rebalancing import Rebalance, RebalanceRequest, make_rebalance, static_topics
from kafkaform.resources.replicas.layout import parse_assignment
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.values import fields_of
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import fail, laid_out, now_on, override
from tests.support.plans.scenes import (
    FakeClock,
    Watched,
    declare_topic,
    judge_saved,
    list_statuses,
    plan_for,
    topic,
)


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


def list_messages(made: Rebalance) -> list[str]:
    return [found.message for found in made.plan.diagnostics]


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
    unmoved, remaining, static = list_messages(made)
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
def test_contradictory_request_is_refused(
    cluster: MemoryCluster, asked: dict[str, object], message: str
) -> None:
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
    fixed = Fixed(brokers=[Broker(number, "x") for number in (1, 2)])
    laid_out(fixed, "a", ((1,), (1,)))
    with pytest.raises(NotOffered, match="AlterPartitionReassignments"):
        run_rebalance(fixed)
    even = Fixed(brokers=[Broker(number, "x") for number in (1, 2)])
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
def memory() -> MemoryCluster:
    """Three brokers, of which the third has a volume of 160 MiB."""
    cluster = MemoryCluster(brokers=[Broker(number, f"rack-{number}") for number in (1, 2, 3)])
    cluster.pace(1000)
    volume(cluster)
    return cluster


def volume(cluster: MemoryCluster, usable: int = 160) -> None:
    cluster.set_log_dirs(3, LogDir(3, "/data", 160 * MIB, usable * MIB))


def holding(cluster: MemoryCluster, name: str, size: int, *partitions: Replicas, **configs: str) -> None:
    laid_out(cluster, name, partitions or ((1,),), **configs)
    cluster.fill(topic(name), size * MIB)


def reason_of(plan: Plan, name: str = "a") -> str:
    (planned,) = (planned for planned in plan.changes if planned.ref.name == name)
    return str(planned.reason)


def move_of(plan: Plan, name: str = "a") -> str:
    (planned,) = (planned for planned in plan.changes if planned.ref.name == name)
    return {field.path: field.assessment.reason for field in fields_of(planned.change)}["placement"]


def test_replicas_larger_than_disk_are_refused(memory: MemoryCluster) -> None:
    holding(memory, "a", 212)
    (planned,) = plan_for(memory, declare_topic("a", 1, 3)).changes
    assert planned.status is Status.REFUSED
    assert "broker 3 cannot hold its largest replica: 212.0 MiB" in str(planned.reason)
    assert "limits.diskReserve" in str(planned.remedy)
    assert {field.assessment.risk for field in fields_of(planned.change)} >= {Risk.IMPOSSIBLE}


def test_foreign_moves_take_disk_space(memory: MemoryCluster) -> None:
    holding(memory, "a", 80)
    holding(memory, "foreign", 100)
    assert list_statuses(plan_for(memory, declare_topic("a", 1, 3))) == {"a": Status.PLANNED}
    memory.reassign({("foreign", 0): (1, 3)})
    reason = reason_of(plan_for(memory, declare_topic("a", 1, 3)))
    assert re.search(r"80\.0 MiB to copy, .* MiB of other moves", reason)


def test_rebalance_without_disk_space_is_refused(memory: MemoryCluster) -> None:
    holding(memory, "a", 212, (1, 2))
    made = make_rebalance(RebalanceRequest(remove=frozenset({1})), memory, None)
    assert list_statuses(made.plan) == {"a": Status.REFUSED}
    assert (made.not_emptied, made.before, made.moves.replicas) == ((1,), made.after, 0)


def test_saved_plan_is_judged_by_current_disks(memory: MemoryCluster) -> None:
    holding(memory, "a", 100)
    plan = plan_for(memory, declare_topic("a", 1, 3))
    for now in (plan, judge_saved(plan, memory).plan):
        assert list_statuses(now) == {"a": Status.PLANNED}
    volume(memory, usable=110)
    now = judge_saved(plan, memory).plan
    assert list_statuses(now) == {"a": Status.REFUSED}
    assert "110.0 MiB usable" in reason_of(now)


def test_unknown_disk_space_is_noted(memory: MemoryCluster) -> None:
    holding(memory, "a", 212)
    silent = override(memory, log_dirs=fail(PermissionDenied("this account may not")))
    plan = plan_for(silent, declare_topic("a", 1, 3))
    assert list_statuses(plan) == {"a": Status.PLANNED}
    assert "whether brokers have enough disk space: this account may not" in move_of(plan)
    memory.set_log_dirs(3)
    unreported = move_of(plan_for(memory, declare_topic("a", 1, 3)))
    assert "whether broker 3 has enough disk space: brokers report it since Kafka 3.3" in unreported
    assert "disk space" not in move_of(plan_for(memory, declare_topic("a", 1, 2)))


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


def test_records_written_during_copy_count(memory: MemoryCluster) -> None:
    holding(memory, "a", 60)
    holding(memory, "busy", 160, (3,), retention_ms="-1", retention_bytes="-1")
    assert list_statuses(plan_for(memory, declare_topic("a", 1, 3), target=SLOW)) == {"a": Status.PLANNED}
    plan = plan_for(Written(memory), declare_topic("a", 1, 3), target=SLOW)
    # Twice 60 MiB leave broker 1, at 0.1 MiB a second; meanwhile broker 3 gets twice 80 MiB.
    assert "60.0 MiB to copy, about 160.0 MiB written meanwhile" in reason_of(plan)


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
    memory: MemoryCluster, configs: dict[str, Any], changed: dict[str, Any], status: Status
) -> None:
    holding(memory, "a", 60)
    holding(memory, "busy", 160, (3,), **configs)
    desired = declare_topic("a", 1, 3), declare_topic("busy", 1, 1, **{**configs, **changed})
    assert list_statuses(plan_for(Written(memory), *desired, target=SLOW))["a"] is status
