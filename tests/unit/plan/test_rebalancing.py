"""Planning rebalances, on a cluster in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker, TopicPartition
from kafkaform.plan.rebalancing import Rebalance, RebalanceRequest, make_rebalance
from kafkaform.resources.replicas.layout import parse_assignment
from kafkaform.resources.values import fields_of
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.moves import laid_out, now_on
from tests.support.plans.scenes import FakeClock, topic


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
