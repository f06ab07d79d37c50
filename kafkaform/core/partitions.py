"""Brokers, partitions and offsets, as plain data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

TopicPartition: TypeAlias = tuple[str, int]
"""A partition by the name of its topic and its number."""

Replicas: TypeAlias = tuple[int, ...]
"""The ids of the brokers that hold one partition, the preferred leader first."""


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        numbers[topic].append(number)
    return numbers


class Broker(Value):
    """One broker of the cluster."""

    id: int
    rack: str | None = None


class PartitionState(Value):
    """One partition.

    Attributes:
        leader: The broker that leads it; None while it is offline.
        replicas: The brokers that hold it, the preferred leader first.
        isr: The brokers that are in sync.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: Replicas
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The offsets of one partition's log.

    Attributes:
        start: The first offset that can be read.
        end: The offset after the last record that can be read.
        at: The first offset whose record is not older than the given time (`end` if there is none);
            None if no time was given.
        epoch: The epoch of the leader that answered: all records before `end` are of it, or an earlier one.
            None if the brokers report none.
    """

    start: int
    end: int
    at: int | None = None
    epoch: int | None = field(default=None, compare=False)


class TimedOffset(NamedTuple):
    """A record that was found by its time.

    Attributes:
        time_ms: Its time, in milliseconds since 1970.
    """

    offset: int
    time_ms: int
