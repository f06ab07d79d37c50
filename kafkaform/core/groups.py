"""Live groups, as plain data: what consumers, brokers and committed offsets say about each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Live

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import TopicPartition
    from kafkaform.core.model import State


PROTOCOLS = ("classic", "consumer", "share", "streams")
"""The group protocols that Kafka has; `consumer` is KIP-848, `share` KIP-932, `streams` KIP-1071."""

CONFIG_PREFIXES = {"consumer": "consumer.", "share": "share.", "streams": "streams."}
"""The prefix of the GROUP configs of a protocol; a classic group has none."""


def protocol_of_configs(state: State) -> str:
    """Return the protocol that a group's own configs are for; empty if they are for none, or for several."""
    protocols = [
        protocol
        for protocol, prefix in CONFIG_PREFIXES.items()
        if any(path.startswith(f"{CONFIG_PREFIX}{prefix}") for path in state)
    ]
    return protocols[0] if len(protocols) == 1 else ""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        id: The id that the coordinator or the client made up.
        client_id: What the client calls itself.
        host: Where it connects from.
        instance_id: The `group.instance.id` of a static member; None for a dynamic one.
        assignment: The partitions that it has.
    """

    id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    assignment: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands in one partition.

    Attributes:
        topic: The partition's topic.
        partition: Its number.
        committed: The committed offset (for a share group its start offset); None if there is none.
        start: The first offset of the log; None if it was not asked for.
        end: The offset after the last record of the log; None if it was not asked for.
    """

    topic: str
    partition: int
    committed: int | None
    start: int | None = None
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """Records between the committed offset and the end, as Kafka's own tool counts; None if unknown."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Group(Live):
    """A group as its coordinator knows it; what is live of a ConsumerGroup.

    Attributes:
        name: The group's id.
        protocol: One of PROTOCOLS.
        state: Kafka's own word, such as `Stable`, `Empty` or `PreparingRebalance`.
        protocol_type: What a classic group is used for: `consumer`, `connect`, ...; empty if unsaid.
        assignor: The assignor in use; empty where there is none.
        coordinator: The broker that coordinates it; None if it was not told.
        members: Its members.
        positions: Every partition in which it has an offset, or that a member is assigned.
        unread: Why a part of this could not be read; empty if all was.
        never_joined: Whether it is known that no member ever joined: it was made by committing offsets.
    """

    name: str
    protocol: str
    state: str
    protocol_type: str = ""
    assignor: str = ""
    coordinator: int | None = None
    members: tuple[Member, ...] = ()
    positions: tuple[Position, ...] = ()
    unread: str = ""
    never_joined: bool = False

    @property
    def active(self) -> bool:
        """Whether it has members, so that offsets cannot be committed for it from outside."""
        return bool(self.members) or self.state not in {"Empty", "Dead", ""}

    def intended_protocol(self, state: State) -> str:
        """Return the protocol of the group; empty if it is not known.

        Brokers list a group that no member has joined as classic, whatever it is meant for.

        Args:
            state: Its own values.
        """
        return protocol_of_configs(state) if self.never_joined else self.protocol

    @property
    def idle_members(self) -> tuple[Member, ...]:
        """Members that have no partition."""
        return tuple(member for member in self.members if not member.assignment)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it has offsets in or reads."""
        return frozenset(position.topic for position in self.positions)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets."""
        return {(p.topic, p.partition): p.committed for p in self.positions if p.committed is not None}

    @property
    def lag(self) -> int | None:
        """The sum over the partitions of which the lag is known; None if it is of none."""
        known = [lag for position in self.positions if (lag := position.lag) is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class GroupReading:
    """One reading of groups.

    Attributes:
        groups: Those that coordinators know, by name; one that has only configs is not among them.
        denied: Why this account may not see a group that was asked for, by name.
        unread: Why there may be more groups than these; empty if there are not.
    """

    groups: Mapping[str, Group]
    denied: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The offsets of one partition's log.

    Attributes:
        start: The first offset that can be read.
        end: The offset after the last record that can be read.
        at: The first offset whose record is not older than the time asked for (`end` if there is none);
            None if no time was given.
    """

    start: int
    end: int
    at: int | None = None


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """A record that was looked for by its time.

    Attributes:
        offset: Its offset.
        time_ms: Its time, in milliseconds since 1970.
    """

    offset: int
    time_ms: int


OFFSETS_PREFIX = "offsets."
"""What the paths of offsets start with: `offsets.TOPIC` is where a group starts in a topic,
`offsets.TOPIC:PARTITION` its committed offset in a partition."""
COMMITTED = "committed"
"""The live value of `offsets.TOPIC` where the group has an offset: it is never moved by a declaration."""


def topic_path(topic: str) -> str:
    """The field that says where a group starts in a topic."""
    return OFFSETS_PREFIX + topic


def partition_path(partition: TopicPartition) -> str:
    """The field that holds a committed offset; no topic has a colon in its name."""
    return f"{OFFSETS_PREFIX}{partition[0]}:{partition[1]}"


def partition_of(path: str) -> TopicPartition | None:
    """The partition whose committed offset a field holds; None for any other field."""
    topic, colon, number = path.removeprefix(OFFSETS_PREFIX).rpartition(":")
    return (topic, int(number)) if colon and path.startswith(OFFSETS_PREFIX) else None


def observed_state(group: Group | None, configs: Mapping[str, str | None]) -> dict[str, FieldValue]:
    """The fields of a group: its own configs, and its committed offsets.

    Args:
        group: What its coordinator knows; None where it has nothing but configs.
        configs: Its own configs.
    """
    state: dict[str, FieldValue] = {CONFIG_PREFIX + name: value for name, value in configs.items()}
    for partition, offset in (group.committed if group is not None else {}).items():
        state[topic_path(partition[0])] = COMMITTED
        state[partition_path(partition)] = offset
    return state
