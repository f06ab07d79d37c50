"""Brokers, and where the replicas of every partition are, read from the bytes of a Metadata response.

`wire.read_metadata` reads the same bytes for plans, which need none of this.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from kafkaform.cluster.transport.api import RequestType
from kafkaform.cluster.wire.large_answers import (
    METADATA,
    array_length,
    check_end,
    compact_string,
    ints,
    skip_tags,
)
from kafkaform.core.layout import Broker, PartitionState

if TYPE_CHECKING:
    from collections.abc import Mapping


_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_PARTITION = Struct(">hii").unpack_from  # error code, index, leader


@dataclass(frozen=True, slots=True)
class Placement:
    """The brokers and partitions of a cluster, as one broker knows them.

    Attributes:
        cluster_id: The id that the cluster gave itself; empty if it was not told.
        controller: The broker that answers for the controllers; None if there is none.
        brokers: The live brokers.
        partitions: The states of the partitions of every topic.
        failed: The error codes of topics that are not told of.
    """

    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionState, ...]
    failed: Mapping[str, int]

    @property
    def topics(self) -> list[str]:
        """The names of the topics that partitions are of, in order."""
        return list(dict.fromkeys(partition.topic for partition in self.partitions))


def read_placement(body: bytes) -> Placement:
    """Read the body of a Metadata response of version 12."""
    count, at = array_length(body, 4)  # behind the throttle time
    brokers = []
    for _ in range(count):
        (broker,) = _INT(body, at)
        _, at = compact_string(body, at + 4)  # host
        rack, at = compact_string(body, at + 4)  # port
        at = skip_tags(body, at)
        brokers.append(Broker(broker, rack))
    cluster_id, at = compact_string(body, at)
    (controller,) = _INT(body, at)
    count, at = array_length(body, at + 4)
    partitions: list[PartitionState] = []
    failed: dict[str, int] = {}
    for _ in range(count):
        (error_code,) = _SHORT(body, at)
        name, at = compact_string(body, at + 2)
        at = _partitions(body, at + 17, name or "", partitions)  # topic id, internal
        if error_code:
            failed[name or ""] = error_code
    check_end(body, skip_tags(body, at))
    return Placement(
        cluster_id or "",
        controller if controller >= 0 else None,
        tuple(sorted(brokers, key=lambda broker: broker.id)),
        tuple(sorted(partitions, key=lambda partition: (partition.topic, partition.partition))),
        failed,
    )


PLACEMENT = RequestType(METADATA, read_placement)


def _partitions(body: bytes, at: int, topic: str, partitions: list[PartitionState]) -> int:
    count, at = array_length(body, at)
    for _ in range(count):
        _, index, leader = _PARTITION(body, at)
        replicas, at = _ids(body, at + 14)  # also the leader's epoch
        isr, at = _ids(body, at)
        _, at = _ids(body, at)  # offline replicas
        at = skip_tags(body, at)
        partitions.append(PartitionState(topic, index, leader if leader >= 0 else None, replicas, isr))
    return skip_tags(body, at + 4)  # authorised operations


def _ids(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = array_length(body, at)
    return ints(count)(body, at), at + 4 * count
