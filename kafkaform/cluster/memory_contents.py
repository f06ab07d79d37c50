"""What a cluster in memory holds: topics, their logs, groups, and which brokers are down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkaform.cluster import coordinator
from kafkaform.cluster.coordinator import NO_GROUP
from kafkaform.cluster.memory_health import partition_state
from kafkaform.cluster.memory_logs import Log

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.cluster.controller import Topic
    from kafkaform.cluster.coordinator import GroupRecord
    from kafkaform.cluster.memory_moves import Move
    from kafkaform.core.groups import LogSpan, TopicPartition
    from kafkaform.core.layout import PartitionState, Replicas


@dataclass(slots=True)
class Contents:
    """The present contents.

    Attributes:
        topics: By name.
        groups: By name; those of which nothing is left are not here.
        logs: By partition; one that nothing was ever written to is not here.
        stopped: The ids of the brokers that are down, in the order in which they stopped.
        moves: The reassignments that are running.
        steps: How many steps it takes to fill a new replica.
        led: Who leads partitions that kept their leader when the order of their replicas changed.
        rates: The dynamic configs of brokers, by id.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    groups: dict[str, GroupRecord] = field(default_factory=dict)
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    moves: dict[TopicPartition, Move] = field(default_factory=dict)
    steps: int = 0
    led: dict[TopicPartition, int] = field(default_factory=dict)
    rates: dict[int, dict[str, str]] = field(default_factory=dict)

    def copy(self) -> Contents:
        """A copy that later changes do not reach."""
        return replace(
            self,
            topics=dict(self.topics),
            groups=dict(self.groups),
            logs=dict(self.logs),
            moves=dict(self.moves),
            led=dict(self.led),
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
        for group, record in self.groups.items():
            self.groups[group] = coordinator.without_topic(record, name)

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
        """Keep what is left of a group."""
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
        """Who holds and leads a partition, and who is in sync."""
        topic, number = partition
        move = self.moves.get(partition)
        return partition_state(
            partition,
            self.topics[topic].replicas[number],
            self.stopped,
            behind=move.behind(self.steps) if move is not None else (),
            led=self.led.get(partition),
        )

    def states(self, topic: str) -> tuple[PartitionState, ...]:
        """The same for all partitions of a topic."""
        return tuple(map(self.state, self.partitions(topic)))

    def spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> dict[TopicPartition, LogSpan]:
        """The ends of logs; see `Cluster.log_spans`."""
        logs = {partition: self.log(partition) for partition in partitions}
        return {p: log.span(at_ms, committed=committed) for p, log in logs.items() if log is not None}

    def _count(self, topic: str) -> int:
        return len(self.topics[topic].replicas) if topic in self.topics else 0
