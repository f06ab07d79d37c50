"""What a cluster is asked to do, as plain data: a closed set that is matched exhaustively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Assignment, Replicas
    from kafkaform.core.model import ResourceRef


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a topic; a replication factor or partition count of -1 is the broker's default.

    Attributes:
        ref: The topic.
        partitions: How many.
        replication_factor: How many replicas each has.
        configs: Its own configs.
        assignment: Which brokers hold them; empty leaves it to the controller.
    """

    ref: ResourceRef
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    assignment: Assignment = ()


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Set and unset dynamic configs of one resource; what is not named stays as it is.

    Attributes:
        ref: The resource.
        set: The new values.
        unset: What has no own value any more.
        least_in_sync: How many replicas of every partition must be in sync before it is done: it follows the
            reassignments of the topic then. 0: it does not matter.
    """

    ref: ResourceRef
    set: Mapping[str, str]
    unset: tuple[str, ...] = ()
    least_in_sync: int = 0


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Raise a topic's partition count from `present` to `total`.

    Attributes:
        ref: The topic.
        present: How many it has.
        total: How many it is to have.
        assignment: Which brokers hold the new ones; empty leaves it to the controller.
    """

    ref: ResourceRef
    present: int
    total: int
    assignment: Assignment = ()


@dataclass(frozen=True, slots=True)
class Reassign:
    """Give partitions of a topic other replicas, the preferred leader first (KIP-455).

    It is over once all new replicas are in sync, which can take hours.

    Attributes:
        ref: The topic.
        before: The replicas that each partition is expected to have.
        after: The replicas that it is to have; the same partitions.
    """

    ref: ResourceRef
    before: Mapping[int, Replicas]
    after: Mapping[int, Replicas]


@dataclass(frozen=True, slots=True)
class CommitInitialOffsets:
    """Give a group that has no member a first offset in every partition of topics that it has none in.

    Attributes:
        ref: The group.
        topics: For each topic, where to start, as `kafkaform.core.offset_spec` writes it.
    """

    ref: ResourceRef
    topics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Move the committed offsets of a group that has no member.

    Attributes:
        ref: The group.
        offsets: The new offset by topic and partition; one outside of the log is refused.
    """

    ref: ResourceRef
    offsets: Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    """Delete a group that has no member, if it is known; then take away configs, which Kafka would keep.

    Attributes:
        ref: The group.
        configs: The configs to take away.
    """

    ref: ResourceRef
    configs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete the topic that has this id, and no other of the same name."""

    ref: ResourceRef
    uid: str | None


Operation: TypeAlias = (
    CreateTopic
    | AlterConfigs
    | AddPartitions
    | Reassign
    | CommitInitialOffsets
    | ResetOffsets
    | DeleteGroup
    | DeleteTopic
)
