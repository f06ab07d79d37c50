"""Contract tests of replicas, run on the cluster in memory and on three brokers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import cast

import pytest
from confluent_kafka import Producer

from kafkaform.cluster.protocol import Cluster
from kafkaform.core.errors import ClusterError, LockLost, RequestRejected, Unreachable
from kafkaform.core.lock import Guard
from kafkaform.core.model import Observed
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.partitions import Broker, PartitionState, Replicas, TopicPartition
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.replicas.facts import get_replicas
from kafkaform.resources.replicas.layout import Assignment, Reassignment
from kafkaform.resources.replicas.moves import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Rates,
    ThrottledReplicas,
    Throttles,
)
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.clusters.contract import carry_out
from tests.support.clusters.fixtures import TIMEOUT_S, bring_back, connect, eventually
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import topic

BYTES = 4_000_000
"""What a filled partition holds."""
SLOW = 1_000
"""Bytes per second: at this rate, nothing of that size is moved while a test looks at it."""


@pytest.fixture
def real_cluster(kafka3: DevCluster) -> Iterator[Cluster]:
    """Brokers 1 to 3, without throttles afterwards."""
    with connect(kafka3.bootstrap_servers) as real:
        yield real
        clear_throttles(real)


@pytest.fixture
def fill(request: pytest.FixtureRequest, cluster: Cluster) -> Callable[[str, int], None]:
    """Lets every partition of a topic hold BYTES, in records of which the real one sends one at a time."""

    def write_topic(name: str, partitions: int) -> None:
        if isinstance(cluster, MemoryCluster):
            cluster.fill(topic(name), BYTES * partitions)
            return
        servers = cast("DevCluster", request.getfixturevalue("kafka3")).bootstrap_servers
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
        for number in range(BYTES // 500_000):
            for partition in range(partitions):
                producer.produce(name, b"%d" % number * 500_000, partition=partition)
            producer.flush(TIMEOUT_S)

    return write_topic


def clear_throttles(cluster: Cluster) -> None:
    throttles = cluster.throttles([])
    cluster.clear_throttles(throttles)
    eventually(lambda: cluster.throttles([]), lambda found: not found.rates)


def place_topic(cluster: Cluster, name: str, *assignment: Replicas) -> None:
    count = len(assignment[0])
    carry_out(cluster, CreateTopic(topic(name), len(assignment), count, {}, assignment))
    wait_for_replicas(cluster, name, *assignment)


def wait_for_replicas(cluster: Cluster, name: str, *assignment: Replicas) -> tuple[PartitionState, ...]:
    """The partitions of a topic, once they have just these replicas, all in sync, and nothing is moved."""

    def there(states: tuple[PartitionState, ...]) -> bool:
        return [(s.replicas, {*s.isr}) for s in states] == [(r, {*r}) for r in assignment] and all(
            s.leader is not None for s in states
        )

    return eventually(lambda: read_states(cluster, name), there)


def read_states(cluster: Cluster, name: str) -> tuple[PartitionState, ...]:
    return cluster.layout().topics.get(name, ())


def start_moves(cluster: Cluster, targets: Mapping[TopicPartition, Replicas | None]) -> None:
    assert cluster.reassign(targets) == dict.fromkeys(targets)


def code(outcome: ClusterError | None) -> str:
    assert isinstance(outcome, RequestRejected), outcome
    return outcome.code


def slow_down(cluster: Cluster, name: str) -> None:
    """Let nothing of this topic be moved for as long as a test takes."""
    if isinstance(cluster, MemoryCluster):
        cluster.pace(1_000_000)
    replicas = {f"{n}:{b}" for n in range(9) for b in (1, 2, 3)}
    cluster.set_throttles(
        Throttles(
            dict.fromkeys((1, 2, 3), Rates(SLOW, SLOW)),
            {name: ThrottledReplicas(frozenset(replicas), frozenset(replicas))},
        )
    )


def speed_up(cluster: Cluster) -> None:
    if isinstance(cluster, MemoryCluster):
        cluster.pace(2)
    cluster.clear_throttles(Throttles(dict.fromkeys((1, 2, 3), Rates(SLOW, SLOW))))


def observe_topic(cluster: Cluster, name: str) -> Observed:
    return cluster.observe([topic(name)]).resources[topic(name)]


def wait_for_assignment(cluster: Cluster, name: str, assignment: Assignment) -> Observed:
    return eventually(
        lambda: observe_topic(cluster, name), lambda observed: get_replicas(observed).replicas == assignment
    )


def test_layout_has_brokers_racks_and_every_partition(cluster: Cluster, prefix: str) -> None:
    place_topic(cluster, f"{prefix}b", (3, 1), (1, 2))
    place_topic(cluster, f"{prefix}a", (2,))
    layout = cluster.layout()
    assert layout.brokers == (Broker(1, "rack-1"), Broker(2, "rack-2"), Broker(3, "rack-3"))
    assert list(layout.topics) == sorted(layout.topics)
    first, second = layout.topics[f"{prefix}b"]
    assert (first.topic, first.partition, first.leader, first.replicas) == (f"{prefix}b", 0, 3, (3, 1))
    assert (second.partition, second.leader, second.replicas) == (1, 1, (1, 2))
    assert layout.reassigning == {}
    assert layout.assignment(f"{prefix}b") == ((3, 1), (1, 2))
    part = cluster.layout({f"{prefix}a", f"{prefix}missing"})
    assert part.topics == {f"{prefix}a": layout.topics[f"{prefix}a"]}
    assert (part.brokers, part.reassigning) == (layout.brokers, layout.reassigning)
    assert cluster.layout(()).topics == {}
    observed = wait_for_assignment(cluster, f"{prefix}b", ((3, 1), (1, 2)))
    assert get_replicas(observed).moving == frozenset()


def test_invalid_replica_assignment_of_new_topic_is_refused(cluster: Cluster, prefix: str) -> None:
    def create(*assignment: Replicas) -> CreateTopic:
        return CreateTopic(topic(f"{prefix}a"), len(assignment), len(assignment[0]), {}, assignment)

    for wrong in (create((1, 1)), create((1, 9)), create((1,), (1, 2))):
        for outcomes in (cluster.validate([wrong]), cluster.execute([wrong])):
            assert code(outcomes[0]) == "INVALID_REPLICA_ASSIGNMENT", wrong
    right = create((1, 2), (2, 3))
    assert cluster.validate([right]) == cluster.execute([right]) == [None]


def test_invalid_replica_assignment_of_added_partitions_is_refused(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (2, 3))

    def add(total: int, *assignment: Replicas) -> AddPartitions:
        return AddPartitions(topic(name), 2, total, assignment)

    many, few = add(4, (3, 1)), add(2, (3, 1))
    wrong = (add(3, (3,)), add(3, (3, 1, 2)), add(3, (3, 3)), add(3, (3, 9)), add(3, (3, 1), (1, 2)), many)
    for added in (*wrong, few):
        for outcomes in (cluster.validate([added]), cluster.execute([added])):
            expected = "INVALID_PARTITIONS" if added is few else "INVALID_REPLICA_ASSIGNMENT"
            assert code(outcomes[0]) == expected, added
    right = add(3, (3, 1))
    assert cluster.validate([right]) == cluster.execute([right]) == [None]
    wait_for_replicas(cluster, name, (1, 2), (2, 3), (3, 1))


def test_reassignment_cannot_be_executed_as_operation(cluster: Cluster, prefix: str) -> None:
    move = Reassign(topic(f"{prefix}a"), {0: (1,)}, {0: (2,)})
    assert cluster.validate([move]) == [None]
    with pytest.raises(TypeError):
        cluster.execute([move])


def test_replicas_are_moved_added_and_removed(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (1, 2), (1, 2), (1, 2))
    start_moves(cluster, {(name, 0): (1, 3), (name, 1): (2, 1, 3), (name, 2): (2,), (name, 3): (2, 1)})
    after = wait_for_replicas(cluster, name, (1, 3), (2, 1, 3), (2,), (2, 1))
    assert [state.leader for state in after] == [1, 1, 2, 1], "a leader that stays goes on leading"
    eventually(cluster.layout, lambda layout: not layout.reassigning)
    observed = wait_for_assignment(cluster, name, ((1, 3), (2, 1, 3), (2,), (2, 1)))
    assert observed.state["replicationFactor"] == "1-3"


def test_running_reassignment_lists_adding_and_removing_replicas(
    cluster: Cluster, prefix: str, fill: Callable[[str, int], None]
) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (2, 3))
    fill(name, 2)
    slow_down(cluster, name)
    start_moves(cluster, {(name, 0): (3, 1)})
    layout = eventually(cluster.layout, lambda seen: seen.topics[name][0].replicas == (3, 1, 2))
    running = Reassignment((3, 1), frozenset({3}), frozenset({2}))
    assert layout.reassigning == {(name, 0): running}
    assert {*layout.topics[name][0].isr} == {1, 2}
    assert layout.topics[name][0].leader == 1
    assert layout.assignment(name) == ((3, 1), (2, 3))
    observed = wait_for_assignment(cluster, name, ((3, 1), (2, 3)))
    assert get_replicas(observed).moving == {0}
    assert observed.state["replicationFactor"] == 2
    assert cluster.health().reassigning == {(name, 0): (3,)}
    start_moves(cluster, {(name, 0): (3, 1)})  # again, which changes nothing
    layout = cluster.layout()
    assert layout.reassigning == {(name, 0): running}
    assert {*layout.topics[name][0].isr} == {1, 2}
    speed_up(cluster)
    wait_for_replicas(cluster, name, (3, 1), (2, 3))


def test_cancelled_reassignment_keeps_the_new_order(
    cluster: Cluster, prefix: str, fill: Callable[[str, int], None]
) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (1, 2), (1, 2))
    fill(name, 3)
    slow_down(cluster, name)
    start_moves(cluster, {(name, 0): (1, 3), (name, 1): (3, 2), (name, 2): (2, 1, 3)})
    eventually(cluster.layout, lambda seen: len(seen.reassigning or ()) == 3)
    start_moves(cluster, dict.fromkeys([(name, 0), (name, 1), (name, 2)]))
    assert cluster.layout().reassigning == {}
    after = wait_for_replicas(cluster, name, (1, 2), (2, 1), (2, 1))
    assert [state.leader for state in after] == [1, 1, 1]
    outcomes = cluster.reassign({(name, 0): None})
    assert code(outcomes[name, 0]) == "NO_REASSIGNMENT_IN_PROGRESS"


def test_reassignment_with_changed_target_does_not_complete(
    cluster: Cluster, prefix: str, fill: Callable[[str, int], None]
) -> None:
    """Return the reason to cancel the first: 3 is added and removed, and Kafka waits for it to be in sync."""
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2))
    fill(name, 1)
    slow_down(cluster, name)
    start_moves(cluster, {(name, 0): (3, 1)})
    eventually(cluster.layout, lambda seen: bool(seen.reassigning))
    start_moves(cluster, {(name, 0): (2, 1)})
    stuck = {(name, 0): Reassignment((2, 1), frozenset({3}), frozenset({3}))}
    eventually(cluster.layout, lambda seen: seen.reassigning == stuck)
    speed_up(cluster)
    eventually(lambda: {*read_states(cluster, name)[0].isr}, lambda isr: isr == {1, 2, 3})
    assert cluster.layout().reassigning == stuck
    start_moves(cluster, {(name, 0): None})
    wait_for_replicas(cluster, name, (2, 1))


def test_invalid_reassignments_are_refused_individually(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1,), (1,), (1,), (1,))
    targets = enumerate([(2,), (2, 2), (2, 9), (), (2,)])
    moves = {(name, number): target for number, target in targets}
    outcomes = dict(cluster.reassign({**moves, (f"{prefix}missing", 0): (2,)}))
    assert outcomes.pop((name, 0)) is None
    assert [code(outcome) for outcome in outcomes.values()] == [
        *["INVALID_REPLICA_ASSIGNMENT"] * 3,
        *["UNKNOWN_TOPIC_OR_PART"] * 2,
    ]
    wait_for_replicas(cluster, name, (2,), (1,), (1,), (1,))


def test_preferred_leaders_are_elected(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (1, 2))
    start_moves(cluster, {(name, 0): (2, 1)})
    assert [state.leader for state in wait_for_replicas(cluster, name, (2, 1), (1, 2))] == [1, 1]
    outcomes = cluster.elect_leaders([(name, 0), (name, 1), (name, 2), (f"{prefix}missing", 0)])
    assert (outcomes[name, 0], outcomes[name, 1]) == (None, None)
    assert code(outcomes[name, 2]) == code(outcomes[f"{prefix}missing", 0]) == "UNKNOWN_TOPIC_OR_PART"
    eventually(lambda: [s.leader for s in read_states(cluster, name)], lambda leaders: leaders == [2, 1])


def test_lost_lock_prevents_move_requests(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1,))
    lost = LockLost("the lock went to another apply")

    def guard() -> None:
        raise lost

    assert cluster.reassign({(name, 0): (2,)}, guard) == {(name, 0): lost}
    assert cluster.elect_leaders([(name, 0)], guard) == {(name, 0): lost}
    throttles = Throttles({1: Rates(SLOW)}, {name: ThrottledReplicas(frozenset({"0:1"}))})
    change: Callable[[Throttles, Guard], None]
    for change in (cluster.set_throttles, cluster.clear_throttles):
        with pytest.raises(LockLost):
            change(throttles, guard)
    assert not cluster.throttles([name])
    wait_for_replicas(cluster, name, (1,))


def test_size_of_each_replica_is_read(
    cluster: Cluster, prefix: str, fill: Callable[[str, int], None]
) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2), (2, 3))
    fill(name, 2)
    slow_down(cluster, name)
    start_moves(cluster, {(name, 0): (1, 2, 3)})
    both = [(name, 0), (name, 1), (f"{prefix}missing", 0), (name, 7)]
    sizes = eventually(lambda: cluster.replica_sizes(both), lambda found: (name, 0, 3) in found)
    assert sizes.keys() == {(name, 0, 1), (name, 0, 2), (name, 0, 3), (name, 1, 2), (name, 1, 3)}
    full = {size for replica, size in sizes.items() if replica != (name, 0, 3)}
    assert len(full) == 1
    assert BYTES <= max(full) < BYTES * 1.01
    assert sizes[name, 0, 3] < max(full)
    assert cluster.partition_sizes([(name, 0)]) == {(name, 0): max(full)}
    speed_up(cluster)
    wait_for_replicas(cluster, name, (1, 2, 3), (2, 3))
    assert cluster.replica_sizes([(name, 0)])[name, 0, 3] == max(full)
    assert cluster.replica_sizes([]) == {}


def replica_lists(leader: str = "", follower: str = "") -> ThrottledReplicas:
    return ThrottledReplicas(*(frozenset(filter(None, text.split(","))) for text in (leader, follower)))


def wait_for_throttles(cluster: Cluster, names: list[str], wanted: Throttles) -> None:
    assert eventually(lambda: cluster.throttles(names), lambda found: found == wanted) == wanted


def test_throttles_are_set_extended_and_cleared(cluster: Cluster, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    place_topic(cluster, a, (1, 2))
    place_topic(cluster, b, (1, 2))
    assert not cluster.throttles([a, b])
    first = Throttles({1: Rates(5000, 6000), 3: Rates(follower=7000)}, {a: replica_lists("0:1,0:2", "0:3")})
    cluster.set_throttles(first)
    assert cluster.throttles([a, b]) == first
    assert cluster.throttles([b]) == Throttles(first.rates)
    second = Throttles(
        {3: Rates(leader=8000)}, {a: replica_lists("0:2,0:3"), b: replica_lists(follower="0:1")}
    )
    cluster.set_throttles(second)
    both = Throttles(
        {1: Rates(5000, 6000), 3: Rates(8000, 7000)},
        {a: replica_lists("0:1,0:2,0:3", "0:3"), b: replica_lists(follower="0:1")},
    )
    assert cluster.throttles([a, b]) == both
    found = cluster.throttle_configs([a, b])
    assert {(config.entity_type, config.name, *sorted(config.values)) for config in found} == {
        ("topics", a, FOLLOWER_REPLICAS, LEADER_REPLICAS),
        ("topics", b, FOLLOWER_REPLICAS),
        ("brokers", "1", FOLLOWER_RATE, LEADER_RATE),
        ("brokers", "3", FOLLOWER_RATE, LEADER_RATE),
    }
    cluster.clear_throttles(second)
    wait_for_throttles(cluster, [a, b], Throttles(first.rates, {a: replica_lists("0:1", "0:3")}))
    cluster.clear_throttles(first)
    wait_for_throttles(cluster, [a, b], Throttles())
    lists = {f"config.{LEADER_REPLICAS}", f"config.{FOLLOWER_REPLICAS}"}
    eventually(lambda: observe_topic(cluster, a), lambda observed: not lists & observed.state.keys())
    cluster.clear_throttles(both)  # all of it is gone: no error


def test_throttle_clearing_keeps_entries_of_other_tools(cluster: Cluster, prefix: str) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (1, 2))

    def build(leader: str = "", follower: str = "", **rates: Rates) -> Throttles:
        return Throttles(
            {int(broker[1:]): rate for broker, rate in rates.items()}, {name: replica_lists(leader, follower)}
        )

    # A list is longer than one request names.
    many = build(",".join(f"{number}:1" for number in range(2_500)), "0:2")
    cluster.set_throttles(many)
    assert cluster.throttles([name]) == many
    cluster.clear_throttles(many)
    wait_for_throttles(cluster, [name], Throttles())
    # What somebody else has set stays.
    ours = build("0:1", "0:2", b1=Rates(5000, 5000), b2=Rates(5000, 5000))
    cluster.set_throttles(ours)
    cluster.set_throttles(build(follower="0:3", b1=Rates(leader=9000)))
    cluster.clear_throttles(ours)
    wait_for_throttles(cluster, [name], build(follower="0:3", b1=Rates(leader=9000)))
    cluster.clear_throttles(build(follower="0:3", b1=Rates(leader=9000)))
    wait_for_throttles(cluster, [name], Throttles())
    # A list of all replicas stays one.
    carry_out(cluster, AlterConfigs(topic(name), {LEADER_REPLICAS: "*"}))
    eventually(lambda: cluster.throttles([name]), lambda found: bool(found.replicas))
    cluster.set_throttles(build("0:1", "0:2"))
    assert cluster.throttles([name]) == build("*", "0:2")
    cluster.clear_throttles(build("0:1", "0:2"))
    wait_for_throttles(cluster, [name], build("*"))


def test_throttles_of_deleted_topic_are_cleared(cluster: Cluster, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    place_topic(cluster, a, (1, 2))
    place_topic(cluster, b, (1, 2))
    ours = Throttles({1: Rates(5000)}, {a: replica_lists("0:1"), b: replica_lists("0:1")})
    cluster.set_throttles(ours)
    found = eventually(lambda: cluster.observe([topic(a)]).resources, lambda there: topic(a) in there)
    carry_out(cluster, DeleteTopic(topic(a), found[topic(a)].uid))
    eventually(cluster.layout, lambda layout: a not in layout.topics)
    assert cluster.throttles([a, b]) == Throttles(ours.rates, {b: replica_lists("0:1")})
    cluster.clear_throttles(ours)
    # Not even an empty list is left on the other one.
    assert eventually(lambda: cluster.throttle_configs([a, b]), lambda found: not found) == ()
    with pytest.raises(RequestRejected) as caught:
        cluster.set_throttles(Throttles({}, {a: replica_lists("0:1")}))
    assert caught.value.code == "UNKNOWN_TOPIC_OR_PART"


@pytest.fixture
def broker_3_down(
    request: pytest.FixtureRequest, cluster: Cluster
) -> Callable[[], AbstractContextManager[None]]:
    """Stops broker 3, and brings it back; of one that is killed, the others would take 9 s to know."""

    @contextmanager
    def down() -> Iterator[None]:
        if isinstance(cluster, MemoryCluster):
            cluster.stop_broker(3)
            yield
            cluster.start_broker(3)
            return
        kafka3 = cast("DevCluster", request.getfixturevalue("kafka3"))
        kafka3.stop_node(3)
        try:
            yield
        finally:
            bring_back(kafka3, 3)

    return down


def test_moves_tolerate_stopped_broker(
    cluster: Cluster, prefix: str, broker_3_down: Callable[[], AbstractContextManager[None]]
) -> None:
    name = f"{prefix}a"
    place_topic(cluster, name, (3, 1), (1, 2))
    ours = Throttles(dict.fromkeys((1, 2, 3), Rates(10**9)), {name: replica_lists("0:1")})
    cluster.set_throttles(ours)
    with broker_3_down():
        sizes = cluster.replica_sizes([(name, 0), (name, 1)])
        assert sizes.keys() == {(name, 0, 1), (name, 1, 1), (name, 1, 2)}
        layout = eventually(cluster.layout, lambda seen: len(seen.brokers) == 2)
        assert [broker.id for broker in layout.brokers] == [1, 2]
        first, second = layout.topics[name]
        assert (first.replicas, first.leader, first.isr) == ((3, 1), 1, (1,))
        assert (second.replicas, second.leader, {*second.isr}) == ((1, 2), 1, {1, 2})

        start_moves(cluster, {(name, 1): (1, 3)})
        running = Reassignment((1, 3), frozenset({3}), frozenset({2}))
        layout = eventually(cluster.layout, lambda seen: seen.topics[name][1].replicas == (1, 3, 2))
        assert layout.reassigning == {(name, 1): running}
        assert code(cluster.elect_leaders([(name, 0)])[name, 0]) == "PREFERRED_LEADER_NOT_AVAILABLE"

        assert cluster.throttles([name]).rates == dict.fromkeys((1, 2), Rates(10**9))
        for broker in (3, 9):
            with pytest.raises(Unreachable, match=f"broker {broker} is down"):
                cluster.set_throttles(Throttles({broker: Rates(5000)}))
        with pytest.raises(Unreachable, match="broker 3 is down"):
            cluster.clear_throttles(ours)
        wait_for_throttles(cluster, [name], Throttles())
        assert cluster.layout().reassigning == {(name, 1): running}
    wait_for_replicas(cluster, name, (3, 1), (1, 3))
    wait_for_throttles(cluster, [name], Throttles({3: Rates(10**9)}))
    cluster.clear_throttles(ours)
    wait_for_throttles(cluster, [name], Throttles())
    assert cluster.elect_leaders([(name, 0)]) == {(name, 0): None}
    eventually(lambda: read_states(cluster, name)[0].leader, lambda leader: leader == 3)
