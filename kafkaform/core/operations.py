"""What a cluster is asked to do, as plain data.

Everything that is said of an operation stands with it: when an apply carries it out, what it weighs in a
request, its words in a report, and the fields that the record names for it. What carries it out is registered
by its type, in `kafkaform.cluster.kafka.writer` for real brokers and in `kafkaform.cluster.testing.memory`
for those in memory.

Cutting work into requests that a controller takes.

A KRaft controller writes at most 10,000 records for one request and fails the whole request beyond that
(POLICY_VIOLATION, measured on 4.3.1); of 11,000 reassignments it starts 10,000, and answers UNKNOWN to the
others. A topic takes one record, and so does each of its partitions and configs, so requests are cut by that
weight, at half the limit. How many replicas a partition has makes no difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.core.groups import partition_path, topic_path
from kafkaform.core.layout import replica_changes
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
    )

    from kafkaform.core.layout import Assignment, Replicas
    from kafkaform.core.model import FieldValue, ResourceRef


Shown: TypeAlias = "Callable[[str, FieldValue], str]"
"""Words a field and the value that it gets, such as `retention.ms = 7d (604800000)`."""

_DELETION = "everything"


class Phase(IntEnum):
    """The phases of an apply, in order: what can be taken back comes before what cannot.

    A change has at most one operation in each. min.insync.replicas is lowered before replicas are dropped,
    and raised once the new ones are in sync: the other way round, producers with acks=all would stop
    meanwhile.
    """

    CREATE = auto()
    CONFIGURE = auto()
    ADD_PARTITIONS = auto()
    MOVE_REPLICAS = auto()
    CONFIGURE_IN_SYNC = auto()
    COMMIT_OFFSETS = auto()
    RESET_OFFSETS = auto()
    DELETE_GROUPS = auto()
    DELETE = auto()


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """One thing that a cluster is asked to do to one resource.

    Attributes:
        ref: The resource.
    """

    ref: ResourceRef

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """When an apply carries it out."""

    @property
    @abstractmethod
    def weight(self) -> int:
        """How many records the controller writes for it, or a little more."""

    @property
    def subject(self) -> object:
        """What brokers go by when they refuse a request that names a resource twice."""
        return self.ref

    @abstractmethod
    def words(self, shown: Shown) -> str:
        """What it sets, in a few printable words."""

    @abstractmethod
    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """The fields that it sets, or has a part in setting, of those that the change has."""


@dataclass(frozen=True, slots=True)
class CreateTopic(Operation):
    """Create a topic; a replication factor or partition count of -1 is the broker's default.

    Attributes:
        partitions: How many.
        replication_factor: How many replicas each has.
        configs: Its own configs.
        assignment: Which brokers hold them; empty leaves it to the controller.
    """

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    assignment: Assignment = ()

    phase = Phase.CREATE

    @property
    def weight(self) -> int:
        """One for the topic, one for each partition and config."""
        return 1 + max(self.partitions, 1) + len(self.configs)

    def words(self, _shown: Shown) -> str:
        """Its size."""
        return f"{counted(self.partitions, 'partition')}, {counted(self.replication_factor, 'replica')} each"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """All of them."""
        return changed


@dataclass(frozen=True, slots=True)
class AlterConfigs(Operation):
    """Set and unset dynamic configs of one resource; what is not named stays as it is.

    Attributes:
        set: The new values.
        unset: What has no own value any more.
        least_in_sync: How many replicas of every partition must be in sync before it is done: it follows the
            reassignments of the topic then. 0: it does not matter.
    """

    set: Mapping[str, str]
    unset: tuple[str, ...] = ()
    least_in_sync: int = 0

    @property
    def phase(self) -> Phase:
        """After the reassignments if it waits for them."""
        return Phase.CONFIGURE_IN_SYNC if self.least_in_sync else Phase.CONFIGURE

    @property
    def weight(self) -> int:
        """One for each config."""
        return 1 + len(self.set) + len(self.unset)

    def words(self, shown: Shown) -> str:
        """Each config with its value."""
        values = sorted([*self.set.items(), *dict.fromkeys(self.unset).items()])
        return ", ".join(shown(CONFIG_PREFIX + name, value) for name, value in values)

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """The configs."""
        return [CONFIG_PREFIX + name for name in (*self.set, *self.unset)]


@dataclass(frozen=True, slots=True)
class AddPartitions(Operation):
    """Raise a topic's partition count from `present` to `total`.

    Attributes:
        present: How many it has.
        total: How many it is to have.
        assignment: Which brokers hold the new ones; empty leaves it to the controller.
    """

    present: int
    total: int
    assignment: Assignment = ()

    phase = Phase.ADD_PARTITIONS

    @property
    def weight(self) -> int:
        """One for each new partition."""
        return 1 + self.total - self.present

    def words(self, _shown: Shown) -> str:
        """Both counts."""
        return f"partitions {self.present:,} → {self.total:,}"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """The count, and where the new ones are."""
        return ["partitions", "placement"] if "placement" in changed else ["partitions"]


@dataclass(frozen=True, slots=True)
class Reassign(Operation):
    """Give partitions of a topic other replicas, the preferred leader first (KIP-455).

    It is over once all new replicas are in sync, which can take hours.

    Attributes:
        before: The replicas that each partition is expected to have.
        after: The replicas that it is to have; the same partitions.
    """

    before: Mapping[int, Replicas]
    after: Mapping[int, Replicas]

    phase = Phase.MOVE_REPLICAS

    @property
    def weight(self) -> int:
        """One for each partition."""
        return 1 + len(self.after)

    def words(self, _shown: Shown) -> str:
        """How many replicas are added and dropped."""
        return str(replica_changes(self.before, self.after))

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """What says how many replicas there are, and where."""
        return [path for path in ("replicationFactor", "placement") if path in changed]


@dataclass(frozen=True, slots=True)
class CommitInitialOffsets(Operation):
    """Give a group that has no member a first offset in every partition of topics that it has none in.

    Attributes:
        topics: For each topic, where to start, as `kafkaform.core.offset_spec` writes it.
    """

    topics: Mapping[str, str]

    phase = Phase.COMMIT_OFFSETS

    @property
    def weight(self) -> int:
        """One for each topic, at least."""
        return 1 + len(self.topics)

    def words(self, _shown: Shown) -> str:
        """Where it starts in each topic."""
        return ", ".join(f"{printable(name)} from {start}" for name, start in sorted(self.topics.items()))

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """The start in each topic."""
        return map(topic_path, self.topics)


@dataclass(frozen=True, slots=True)
class ResetOffsets(Operation):
    """Move the committed offsets of a group that has no member.

    Attributes:
        offsets: The new offset by topic and partition; one outside of the log is refused.
    """

    offsets: Mapping[tuple[str, int], int]

    phase = Phase.RESET_OFFSETS

    @property
    def weight(self) -> int:
        """One for each offset."""
        return 1 + len(self.offsets)

    def words(self, _shown: Shown) -> str:
        """How many offsets."""
        return counted(len(self.offsets), "offset")

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """The offset of each partition."""
        return map(partition_path, self.offsets)


@dataclass(frozen=True, slots=True)
class DeleteGroup(Operation):
    """Delete a group that has no member, if it is known; then take away configs, which Kafka would keep.

    Attributes:
        configs: The configs to take away.
    """

    configs: tuple[str, ...] = ()

    phase = Phase.DELETE_GROUPS

    @property
    def weight(self) -> int:
        """One for each config."""
        return 1 + len(self.configs)

    def words(self, _shown: Shown) -> str:
        """Nothing stays."""
        return _DELETION

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """All of them."""
        return changed


@dataclass(frozen=True, slots=True)
class DeleteTopic(Operation):
    """Delete the topic that has this id, and no other of its name; without an id, whatever has the name."""

    uid: str | None

    phase = Phase.DELETE

    @property
    def weight(self) -> int:
        """One."""
        return 1

    @property
    def subject(self) -> object:
        """Its id."""
        return self.uid or self.ref

    def words(self, _shown: Shown) -> str:
        """Nothing stays."""
        return _DELETION

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """All of them."""
        return changed


MAX_WEIGHT = 5_000
"""The most controller records that one request may ask for."""


def batches(operations: Iterable[Operation], max_weight: int = MAX_WEIGHT) -> Iterator[list[Operation]]:
    """Cut operations into batches, in order; one that is too heavy by itself goes alone."""
    batch: list[Operation] = []
    total = 0
    for operation in operations:
        if batch and total + operation.weight > max_weight:
            yield batch
            batch, total = [], 0
        batch.append(operation)
        total += operation.weight
    if batch:
        yield batch
