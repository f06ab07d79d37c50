"""What a cluster in memory shows of each kind, and what becomes of each operation: a table of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkaform.cluster.testing import controller, coordinator
from kafkaform.cluster.testing.coordinator import NO_GROUP
from kafkaform.core.groups import observed_state
from kafkaform.core.model import CONFIG_PREFIX, Observed
from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CommitInitialOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    ResetOffsets,
)
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.topic import TopicKind
from kafkaform.resources.topic.live import TopicLive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.testing.contents import Contents
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.operations import Operation

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class World:
    """What readers and effects may look at.

    Attributes:
        contents: What the cluster holds.
        brokers: The ids of its brokers.
        defaults: By kind, the brokers' defaults of configs.
        now_ms: Tells the time, in milliseconds since 1970.
        number: Counts the topics that were made.
        sees: Whether this account sees a topic.
    """

    contents: Contents
    brokers: Sequence[int]
    defaults: Mapping[str, Mapping[str, str | None]]
    now_ms: Callable[[], int]
    number: Callable[[], int]
    sees: Callable[[str], bool]


# --- reading ---------------------------------------------------------------------------------------


class MemoryReader(Protocol):
    """Shows the resources of one kind."""

    def names(self, contents: Contents) -> Collection[str]:
        """The names of those that there are."""

    def observed(self, ref: ResourceRef, world: World) -> Observed:
        """One of them."""


class _TopicReader:
    """Shows topics, with where their replicas are."""

    def names(self, contents: Contents) -> Collection[str]:
        """See `MemoryReader.names`."""
        return contents.topics.keys()

    def observed(self, ref: ResourceRef, world: World) -> Observed:
        """See `MemoryReader.observed`."""
        topic = world.contents.topics[ref.name]
        own, inherited = _prefixed(topic.configs), _prefixed(world.defaults[ref.kind])
        moves = world.contents.moves.items()
        targets = {p: move.reassignment.target for p, move in moves if p[0] == ref.name}
        replicas = tuple(targets.get((ref.name, n), shown) for n, shown in enumerate(topic.replicas))
        fewest, most = min(map(len, replicas)), max(map(len, replicas))
        counts = {
            "partitions": len(replicas),
            "replicationFactor": fewest if fewest == most else f"{fewest}-{most}",
        }
        return Observed(
            ref,
            topic.uid,
            {**counts, **own},
            {**inherited, **own},
            ref.name in _INTERNAL,
            TopicLive(replicas, frozenset(number for _, number in targets)),
        )


class _GroupReader:
    """Shows groups, those that have nothing but configs too."""

    def names(self, contents: Contents) -> Collection[str]:
        """See `MemoryReader.names`."""
        return contents.groups.keys()

    def observed(self, ref: ResourceRef, world: World) -> Observed:
        """See `MemoryReader.observed`."""
        record = world.contents.groups[ref.name]
        group = coordinator.described(ref.name, record) if record.known else None
        effective = _prefixed({**world.defaults[ref.kind], **record.configs})
        return Observed(ref, None, observed_state(group, record.configs), effective, live=group)


READERS: dict[str, MemoryReader] = {TopicKind.name: _TopicReader(), ConsumerGroupKind.name: _GroupReader()}
"""Who shows the resources of each kind."""


def _prefixed(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    return {CONFIG_PREFIX + name: value for name, value in configs.items()}


# --- operations ------------------------------------------------------------------------------------


class Accepted(NamedTuple):
    """What an accepted operation makes of its resource.

    Attributes:
        put: Puts it into the contents.
        records: How many records a controller writes for it.
        problem: What of it is refused, if not all is done.
    """

    put: Callable[[Contents], None]
    records: int
    problem: ClusterError | None = None


class Effect(NamedTuple):
    """The effect of one type of operation.

    Attributes:
        step: Finds out what becomes of the resource, or raises why brokers refuse the operation.
        checked: Whether brokers can check it without carrying it out.
        alone: Whether each takes a request of its own, to the coordinator of the group.
    """

    step: Callable[[Any, World], Accepted]
    checked: bool = False
    alone: bool = False


def _create(operation: CreateTopic, world: World) -> Accepted:
    return _of_topic(operation, world, world.number())


def _change(operation: AlterConfigs | AddPartitions | DeleteTopic, world: World) -> Accepted:
    return _of_topic(operation, world)


def _of_topic(operation: controller.TopicOperation, world: World, number: int = 0) -> Accepted:
    topics = world.contents.topics
    name, after = controller.result(topics, operation, brokers=world.brokers, number=number)
    records = controller.records(topics.get(name), after)
    return Accepted(lambda contents: contents.put_topic(name, after), records)


def _of_group(operation: coordinator.GroupOperation, world: World) -> Accepted:
    contents, name = world.contents, operation.ref.name
    before = contents.groups.get(name, NO_GROUP)
    logs = {
        topic: [contents.log(partition) for partition in contents.partitions(topic)]
        for topic in coordinator.topics_of(operation)
        if topic in contents.topics and world.sees(topic)
    }
    after, problem = coordinator.result(before, operation, logs=logs, now_ms=world.now_ms())
    records = coordinator.records(before, after)
    return Accepted(lambda contents: contents.put_group(name, after), records, problem)


_CONFIGURED: dict[str, Callable[[AlterConfigs, World], Accepted]] = {
    TopicKind.name: _change,
    ConsumerGroupKind.name: _of_group,
}
"""What becomes of the configs of each kind."""


def _alter(operation: AlterConfigs, world: World) -> Accepted:
    return _CONFIGURED[operation.ref.kind](operation, world)


EFFECTS: dict[type[Operation], Effect] = {
    CreateTopic: Effect(_create, checked=True),
    AlterConfigs: Effect(_alter, checked=True),
    AddPartitions: Effect(_change, checked=True),
    CommitInitialOffsets: Effect(_of_group, alone=True),
    ResetOffsets: Effect(_of_group, alone=True),
    DeleteGroup: Effect(_of_group, alone=True),
    DeleteTopic: Effect(_change),
}
"""The effect of each operation that a request carries out, in the order in which they are sent."""
