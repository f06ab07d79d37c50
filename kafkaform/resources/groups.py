"""Live groups, as plain data: members, state and committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.kafka_configs import PROTOCOL_PREFIXES
from kafkaform.core.model import CONFIG_PREFIX, Live, Observed, State
from kafkaform.core.values import Value, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.partitions import TopicPartition

PROTOCOLS = ("classic", "consumer", "share", "streams")
"""Kafka's group protocols; `consumer` is KIP-848, `share` KIP-932, `streams` KIP-1071."""


def protocol_of_configs(state: State) -> str:
    """Return the protocol of a group's own configs; empty if they are of none, or of several."""
    protocols = [
        protocol
        for protocol, prefix in PROTOCOL_PREFIXES.items()
        if any(path.startswith(f"{CONFIG_PREFIX}{prefix}") for path in state)
    ]
    # Kafka stores configs of any protocol for any group, whether it uses them or not.
    return protocols[0] if len(protocols) == 1 else ""


class Member(Value):
    """A member of a group.

    Attributes:
        id: The id that the coordinator or the client generated.
        client_id: The `client.id`.
        host: The address that it connects from.
        instance_id: The `group.instance.id` of a static member; None for a dynamic one.
        assignment: The partitions that it is assigned.
    """

    id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None
    assignment: frozenset[TopicPartition] = frozenset()

    @property
    def label(self) -> str:
        """Its most readable name."""
        return self.instance_id or self.client_id or self.id


class Position(Value):
    """The position of a group in one partition.

    Attributes:
        topic: The partition's topic.
        committed: The committed offset (of a share group, its start offset); None if there is none.
        start: The first offset of the log; None if it was not read.
        end: The offset after the last record of the log; None if it was not read.
    """

    topic: str
    partition: int
    committed: int | None
    start: int | None = None
    end: int | None = None

    @property
    def lag(self) -> int | None:
        """The records between the committed offset and the end, as in Kafka's own tool; None if unknown."""
        if self.committed is None or self.end is None:
            return None
        # Both are read one after the other, and a commit past the end of the log is accepted (measured on
        # 4.3.1).
        return max(0, self.end - self.committed)

    @property
    def removed(self) -> int:
        """The records that were removed before the group read them, at most; 0 if unknown."""
        if self.committed is None or self.start is None:
            return 0
        return max(0, self.start - self.committed)

    @property
    def is_beyond_end(self) -> bool:
        """True if the committed offset is known to be after the end of the log."""
        return self.committed is not None and self.end is not None and self.committed > self.end


class Group(Live):
    """A group as its coordinator describes it; the live data of a ConsumerGroup.

    Attributes:
        name: The group's id.
        state: Kafka's name of the state, such as `Stable`, `Empty` or `PreparingRebalance`.
        protocol_type: The use of a classic group: `consumer`, `connect`, ...; empty if unknown.
        assignor: The assignor in use; empty without one.
        coordinator: The broker that coordinates it; None if unknown.
        positions: Every partition in which it has an offset, or that a member is assigned.
        unread: The reason why a part of this could not be read; empty if all was.
        never_joined: Whether it is certain that no member ever joined: it was created by committing offsets.
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
        """True if it has members, so that others cannot commit offsets for it."""
        # A group that does not exist is described as Dead, without an error (measured on 4.3.1).
        return bool(self.members) or self.state not in {"Empty", "Dead", ""}

    def intended_protocol(self, state: State) -> str:
        """Return the protocol of the group; empty if unknown.

        Brokers report a group that no member has joined as classic, whatever its intended protocol.
        """
        # A group that exists by committed offsets alone gets its protocol from its first member.
        return protocol_of_configs(state) if self.never_joined else self.protocol

    @property
    def idle_members(self) -> tuple[Member, ...]:
        """The members without a partition."""
        return tuple(member for member in self.members if not member.assignment)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it has offsets in or reads."""
        return frozenset(position.topic for position in self.positions)

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The committed offsets by partition."""
        return {(p.topic, p.partition): p.committed for p in self.positions if p.committed is not None}

    @property
    def lag(self) -> int | None:
        """The sum over the partitions whose lag is known; None if there are none."""
        known = [lag for lag in self.lags.values() if lag is not None]
        return sum(known) if known else None

    @property
    def lags(self) -> dict[str, int | None]:
        """The lag by topic."""
        lags: dict[str, int | None] = dict.fromkeys(sorted(self.topics))
        for position in self.positions:
            if (lag := position.lag) is not None:
                lags[position.topic] = (lags[position.topic] or 0) + lag
        return lags


class GroupReading(Value):
    """One reading of groups.

    Attributes:
        groups: The groups that coordinators describe, by name, without groups that only have configs.
        denied: The reasons why this account may not see requested groups, by name.
        unread: The reason why the list may be incomplete; empty if it is complete.
    """

    groups: Mapping[str, Group]
    denied: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""


class RecreationFacts(Value):
    """The records and the readers of topics that are to be recreated.

    Attributes:
        records: The most records that each topic can have, by name: compaction and transactions leave gaps.
        groups: The groups that coordinators describe, by name.
        unread: The reason why groups or records may be missing; empty if none is.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)
    unread: str = ""


def get_group(observed: Observed) -> Group | None:
    """Return the group of a live resource; None for one that only has configs."""
    return observed.live if isinstance(observed.live, Group) else None
