"""The health of a cluster, as plain data: what brokers and controllers say by admin calls alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Broker, PartitionState
    from kafkaform.core.transactions import OpenTransaction


class Part(StrEnum):
    """A part of a reading that can be missing from it."""

    PARTITIONS = "partitions"
    MIN_ISR = "min.insync.replicas"
    QUORUM = "the controller quorum"
    REASSIGNMENTS = "running reassignments"
    LOG_DIRS = "log directories"
    TRANSACTIONS = "open transactions"


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter of the controller quorum.

    Attributes:
        id: The controller's node id.
        lag: Records of the metadata log that it is behind the leader; None if it was not told.
        silent_ms: Milliseconds since it last fetched from the leader; None for the leader, or if not told.
    """

    id: int
    lag: int | None
    silent_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Quorum:
    """The controllers.

    Attributes:
        leader: The active controller; None if there is none.
        voters: All voters, the leader among them.
    """

    leader: int | None
    voters: tuple[Voter, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDir:
    """One log directory of a broker, and the volume that it lies on.

    Attributes:
        broker: The broker's id.
        path: The directory, as in `log.dirs`.
        total: Bytes that the volume has; None if the directory is offline, as its volume failed.
        usable: Bytes that are free on it.
    """

    broker: int
    path: str
    total: int | None
    usable: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """One reading of a cluster's health.

    Attributes:
        controller: The broker or controller that answers for the cluster; None if there is none.
        brokers: The live brokers.
        partitions: Every partition that this account can see, in order.
        min_insync_replicas: The value in force by topic, where it could be read.
        quorum: The controller quorum (without voters where ZooKeeper elects the controller); None where
            this account may not see it (see `unread`).
        reassigning: The partitions that a running reassignment moves, with the brokers being added;
            None where this account may not see it.
        unread: What could not be read, in full or in part, and why.
        not_offered: What of it this cluster does not tell anybody.
        cluster_id: The id that the cluster gave itself; empty if it was not told.
        log_dirs: The log directories of the live brokers, by broker and path; none of brokers before
            Kafka 3.3, which do not tell how full their volumes are (KIP-827).
        transactions: The open transactions; empty unless `Cluster.open_transactions` was asked for them.
    """

    controller: int | None
    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionState, ...] = ()
    min_insync_replicas: Mapping[str, int] = field(default_factory=dict)
    quorum: Quorum | None = None
    reassigning: Mapping[tuple[str, int], tuple[int, ...]] | None = field(default_factory=dict)
    unread: Mapping[Part, str] = field(default_factory=dict)
    cluster_id: str = ""
    log_dirs: tuple[LogDir, ...] = ()
    not_offered: frozenset[Part] = frozenset()
    transactions: tuple[OpenTransaction, ...] = ()

    @property
    def topics(self) -> list[str]:
        """The names of the topics that partitions are of, in order."""
        return list(dict.fromkeys(partition.topic for partition in self.partitions))
