"""Operations on a cluster, as plain data, and the batches that a controller accepts.

An operation defines its phase in an apply, its weight in a request, its words in a report, and the fields
that the record names for it. The code that carries it out is registered by its type, in
`kafkaform.cluster.kafka.writer`.

A KRaft controller writes at most 10,000 records for one request and fails the whole request beyond that
(POLICY_VIOLATION, measured on 4.3.1); of 11,000 reassignments it starts 10,000, and answers UNKNOWN to the
others. A topic takes one record, and so does each of its partitions and configs, so requests are cut by that
weight, at half the limit. How many replicas a partition has makes no difference.
"""

from __future__ import annotations

from abc import abstractmethod
from enum import IntEnum, auto
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from kafkaform.core.model import CONFIG_PREFIX, FieldValue, ResourceRef
from kafkaform.core.values import AbstractValue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

FieldFormatter: TypeAlias = "Callable[[str, FieldValue], str]"
"""Formats a field and its new value, such as `retention.ms = 7d (604800000)`."""

MAX_WEIGHT = 5_000
"""The most controller records that one request may ask for."""


class Phase(IntEnum):
    """The phases of an apply, in order: operations that can be undone come before those that cannot.

    A change has at most one operation in each.
    """

    CREATE = auto()
    """New resources."""
    PREPARE = auto()
    """What later phases rely on, such as configs."""
    EXTEND = auto()
    """Additions to resources, such as partitions."""
    # After EXTEND: the partitions that were added are moved by the same reassignment.
    ALTER = auto()
    """Moves, such as of replicas."""
    FORGET = auto()
    """What is to be gone before a resource is replaced, such as the offsets in a topic."""
    REMOVE = auto()
    """Deletions of resources that are created again."""
    REPLACE = auto()
    """Their creation."""
    # min.insync.replicas is raised here: before the new replicas are in sync, it would stop acks=all writes.
    SETTLE = auto()
    """What relies on earlier phases, such as first offsets."""
    REVOKE = auto()
    """What readers lose, such as offsets."""
    DELETE = auto()
    """Deletions."""
    RELEASE = auto()
    """What deletions rely on, such as denials: a topic stays closed until it is deleted."""


class Operation(AbstractValue):
    """One operation on one resource of a cluster."""

    ref: ResourceRef

    follows_others: ClassVar[bool] = False
    """Whether it needs the results of other operations: the cluster has to show these first."""
    step: ClassVar[str] = ""
    """Its name in the record where a change takes several steps; empty if it has none."""

    @property
    @abstractmethod
    def phase(self) -> Phase:
        """The phase of an apply in which it is carried out."""

    @property
    @abstractmethod
    def weight(self) -> int:
        """The number of records that the controller writes for it, or slightly more."""

    @property
    def subject(self) -> object:
        """The key by which brokers find duplicates in a request."""
        return self.ref

    @property
    def needs(self) -> Collection[ResourceRef]:
        """The resources that must exist, so that it is not sent if their creation failed."""
        return ()

    @property
    def rehearsal(self) -> Operation:
        """The operation that brokers can validate in its place."""
        return self

    @abstractmethod
    def words(self, format_field: FieldFormatter) -> str:
        """Return what it sets, in a few printable words."""

    @abstractmethod
    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return the fields of the change that it sets, or contributes to."""

    def is_open(self, missing: Collection[str]) -> bool:
        """Return whether it has not been carried out yet, or not in full.

        Args:
            missing: The fields of the change that the cluster still lacks; empty if it lacks all of them.
        """
        return not missing or any(path in missing for path in self.paths(missing))


class AlterConfigs(Operation):
    """Set and unset dynamic configs of one resource; others stay as they are.

    Attributes:
        set: The new values.
        unset: The configs whose own value is removed.
    """

    set: Mapping[str, str]
    unset: tuple[str, ...] = ()

    phase = Phase.PREPARE

    @property
    def weight(self) -> int:
        """One for each config."""
        return 1 + len(self.set) + len(self.unset)

    def words(self, format_field: FieldFormatter) -> str:
        """Return each config with its value."""
        values = sorted([*self.set.items(), *dict.fromkeys(self.unset).items()])
        return ", ".join(format_field(CONFIG_PREFIX + name, value) for name, value in values)

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the paths of the configs."""
        return [CONFIG_PREFIX + name for name in (*self.set, *self.unset)]


class Deletion(Operation):
    """Delete one resource."""

    step = "delete"

    def words(self, _format_field: FieldFormatter) -> str:
        """Return a word for all fields."""
        return "everything"

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return all fields of the change."""
        return changed


def batches(operations: Iterable[Operation], max_weight: int = MAX_WEIGHT) -> Iterator[list[Operation]]:
    """Split operations into batches, in order; one that exceeds the maximum gets its own batch."""
    batch: list[Operation] = []
    total = 0
    for operation in operations:
        # An operation cannot be divided. One that is too large for the controller alone fails with its own
        # error.
        if batch and total + operation.weight > max_weight:
            yield batch
            batch, total = [], 0
        batch.append(operation)
        total += operation.weight
    if batch:
        yield batch
