"""The contents of a cluster in memory: topics, their logs, groups, and the brokers that are down.

What follows for its health is computed here, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar

from kafkaform.core.acls import Acl
from kafkaform.core.health import Health, LogDir, Quorum, Voter
from kafkaform.core.partitions import Broker, LogSpan, PartitionState, Replicas, TopicPartition
from kafkaform.core.values import replace
from kafkaform.resources.client_quota.entity import QuotaEntity
from tests.support.memory_cluster import coordinator
from tests.support.memory_cluster.controller import Move, Topic
from tests.support.memory_cluster.coordinator import NO_GROUP, GroupRecord, Log
from tests.support.memory_cluster.users import StoredCredential

K = TypeVar("K")
V = TypeVar("V")
_CONTROLLERS = (3001, 3002, 3003)
"""Nodes of their own, which no broker takes along when it stops."""
_VOLUME = 1 << 40
"""Bytes of the volume of each broker, all of them free: records in memory have no bytes."""


def partition_state(
    partition: TopicPartition,
    replicas: Replicas,
    stopped: Sequence[int],
    *,
    behind: Collection[int] = (),
    led: int | None = None,
) -> PartitionState:
    """Return the leader of a partition, and the replicas in sync.

    The first of its replicas that lives and is in sync leads, so the preferred one soonest, unless `led`
    keeps the lead. Real brokers give the lead back minutes after a restart only; here it is at once.
    New replicas that are not full yet are `behind`.
    """
    full = [broker for broker in replicas if broker not in behind]
    alive = tuple(broker for broker in full if broker not in stopped)
    leader = led if led in alive else next(iter(alive), None)
    # The last one in sync stays so when it stops: nobody else may lead after it.
    return PartitionState(*partition, leader, replicas, alive or tuple(sorted(full, key=stopped.index)[-1:]))


def health_of(
    cluster_id: str,
    partitions: tuple[PartitionState, ...],
    alive: tuple[Broker, ...],
    min_insync_replicas: Mapping[str, int],
    reassigning: Mapping[TopicPartition, tuple[int, ...]],
) -> Health:
    """The health of the cluster; the controllers are always in sync."""
    return Health(
        controller=alive[0].id if alive else None,
        brokers=alive,
        partitions=partitions,
        min_insync_replicas=min_insync_replicas,
        quorum=Quorum(_CONTROLLERS[0], tuple(Voter(controller, lag=0) for controller in _CONTROLLERS)),
        reassigning=reassigning,
        cluster_id=cluster_id,
        log_dirs=volumes_of(alive, {}),
    )


def volumes_of(alive: Sequence[Broker], volumes: Mapping[int, Sequence[LogDir]]) -> tuple[LogDir, ...]:
    """The log directories of brokers, those that a test has set or a large empty one each."""
    return tuple(
        log_dir
        for broker in alive
        for log_dir in volumes.get(broker.id, (LogDir(broker.id, "/var/lib/kafka", _VOLUME, _VOLUME),))
    )


def put(store: dict[K, Mapping[str, V]], key: K, values: Mapping[str, V]) -> None:
    """Keep the values of an entity or a user; without any, it is gone."""
    if values:
        store[key] = values
    else:
        store.pop(key, None)


@dataclass(slots=True)
class Contents:
    """The present contents; what has nothing is not here.

    Attributes:
        stopped: The ids of the brokers that are down, in the order in which they stopped.
        steps: How many steps it takes to fill a new replica.
        led: Who leads partitions that kept their leader when the order of their replicas changed.
        rates: The dynamic configs of brokers, by id.
        coordinated: Whether coordinators are up, and so learn of deletions of topics.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, GroupRecord] = field(default_factory=dict)
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    moves: dict[TopicPartition, Move] = field(default_factory=dict)
    steps: int = 0
    led: dict[TopicPartition, int] = field(default_factory=dict)
    rates: dict[int, dict[str, str]] = field(default_factory=dict)
    quotas: dict[QuotaEntity, Mapping[str, str]] = field(default_factory=dict)
    acls: set[Acl] = field(default_factory=set)
    users: dict[str, Mapping[str, StoredCredential]] = field(default_factory=dict)
    coordinated: bool = True

    def copy(self) -> Self:
        return replace(
            self,
            topics=dict(self.topics),
            groups=dict(self.groups),
            logs=dict(self.logs),
            moves=dict(self.moves),
            led=dict(self.led),
            quotas=dict(self.quotas),
            acls=set(self.acls),
            users=dict(self.users),
        )

    def put_topic(self, name: str, topic: Topic | None) -> None:
        """Keep a topic, or delete it with its records and every group's offsets in it."""
        if topic is not None:
            self.topics[name] = topic
            return
        del self.topics[name]
        self.logs = {partition: log for partition, log in self.logs.items() if partition[0] != name}
        self.moves = {partition: move for partition, move in self.moves.items() if partition[0] != name}
        self.led = {partition: leader for partition, leader in self.led.items() if partition[0] != name}
        for group, record in self.groups.items() if self.coordinated else ():
            self.groups[group] = coordinator.remove_topic(record, name)

    def put_replicas(self, partition: TopicPartition, replicas: Replicas) -> None:
        """Give a partition other replicas; whoever leads it goes on leading it if it still holds it."""
        topic, number = partition
        leader, held = self.state(partition).leader, [*self.topics[topic].replicas]
        held[number] = replicas
        self.topics[topic] = replace(self.topics[topic], replicas=tuple(held))
        self.led.pop(partition, None)
        if leader is not None and leader in replicas and leader != replicas[0]:
            self.led[partition] = leader

    def put_group(self, name: str, group: GroupRecord) -> None:
        if group == NO_GROUP:
            self.groups.pop(name, None)
        else:
            self.groups[name] = group

    def partitions(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic; none if there is no such topic."""
        return [(topic, number) for number in range(self._count(topic))]

    def log(self, partition: TopicPartition) -> Log | None:
        """The log of a partition; None if there is no such partition, or nobody leads it."""
        topic, number = partition
        if not 0 <= number < self._count(topic):
            return None
        return self.logs.get(partition, Log()) if self.state(partition).leader is not None else None

    def state(self, partition: TopicPartition) -> PartitionState:
        """The replicas of a partition, its leader, and those in sync."""
        topic, number = partition
        move = self.moves.get(partition)
        return partition_state(
            partition,
            self.topics[topic].replicas[number],
            self.stopped,
            behind=move.list_unfilled(self.steps) if move is not None else (),
            led=self.led.get(partition),
        )

    def states(self, topic: str) -> tuple[PartitionState, ...]:
        return tuple(map(self.state, self.partitions(topic)))

    def spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> dict[TopicPartition, LogSpan]:
        """The ends of logs; see `Cluster.log_spans`."""
        logs = {partition: self.log(partition) for partition in partitions}
        return {p: log.span(at_ms, committed=committed) for p, log in logs.items() if log is not None}

    def _count(self, topic: str) -> int:
        return len(self.topics[topic].replicas) if topic in self.topics else 0
