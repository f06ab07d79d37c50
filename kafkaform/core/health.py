"""The health of a cluster, as plain data that is read with admin requests only."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaform.core.values import Value, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.partitions import Broker, PartitionState
    from kafkaform.core.transactions import OpenTransaction


class Part(StrEnum):
    """A part of a reading that can be missing from it."""

    PARTITIONS = "partitions"
    MIN_ISR = "min.insync.replicas"
    QUORUM = "the controller quorum"
    REASSIGNMENTS = "running reassignments"
    LOG_DIRS = "log directories"
    TRANSACTIONS = "open transactions"
    THROTTLES = "replication throttles"


class Voter(Value):
    """One voter of the controller quorum.

    Attributes:
        id: The controller's node id.
        lag: Records of the metadata log that it is behind the leader; None if unknown.
        silent_ms: Milliseconds since it last fetched from the leader; None for the leader, or if unknown.
    """

    id: int
    lag: int | None
    silent_ms: int | None = None


class Quorum(Value):
    """The controller quorum.

    Attributes:
        leader: The active controller; None if there is none.
        voters: All voters, the leader among them.
    """

    leader: int | None
    voters: tuple[Voter, ...] = ()


class LogDir(Value):
    """A log directory of a broker, and the volume that it is on.

    Attributes:
        broker: The broker's id.
        path: The directory, as in `log.dirs`.
        total: The size of the volume in bytes; None if the directory is offline, as its volume failed.
        usable: The free bytes of the volume.
    """

    broker: int
    path: str
    total: int | None
    usable: int = 0


class ThrottleConfigs(Value):
    """The configs of replication throttles (KIP-73) that a topic or a broker has.

    Attributes:
        entity_type: `topics` or `brokers`.
        name: The name of the topic, or the id of the broker; empty for the default of all brokers.
        values: The value by config: a list of replicas, which may be empty, or a rate.
    """

    entity_type: str
    name: str
    values: Mapping[str, str]


class Health(Value):
    """One reading of a cluster's health.

    Attributes:
        controller: The broker or controller that answers for the cluster; None if there is none.
        partitions: Every partition that this account can see, in order.
        min_insync_replicas: The effective value by topic, where it could be read.
        quorum: The controller quorum (without voters where ZooKeeper elects the controller); None where
            this account may not see it (see `unread`).
        reassigning: The partitions that a running reassignment moves, with the brokers being added;
            None where this account may not see it.
        unread: The parts that could not be read, in full or in part, and why.
        not_offered: The parts that this cluster does not report to any account.
        cluster_id: The cluster's id; empty if unknown.
        log_dirs: The log directories of the live brokers, by broker and path; none of brokers before
            Kafka 3.3, which do not report the size of their volumes (KIP-827).
        transactions: The open transactions; empty unless `Cluster.open_transactions` read them.
        throttles: The configs of throttles; empty unless `Cluster.throttle_configs` read them.
        release: The newest minor version of Kafka all of whose requests a broker offers; empty if unknown.
    """

    controller: int | None
    brokers: tuple[Broker, ...]
    partitions: tuple[PartitionState, ...] = ()
    min_insync_replicas: Mapping[str, int] = field(default_factory=dict)
    quorum: Quorum | None = None
    # None and empty differ: without the list, a replica that is out of sync may be one that a reassignment
    # is copying.
    reassigning: Mapping[tuple[str, int], tuple[int, ...]] | None = field(default_factory=dict)
    unread: Mapping[Part, str] = field(default_factory=dict)
    cluster_id: str = ""
    log_dirs: tuple[LogDir, ...] = ()
    not_offered: frozenset[Part] = frozenset()
    transactions: tuple[OpenTransaction, ...] = ()
    throttles: tuple[ThrottleConfigs, ...] = ()
    release: str = ""

    @property
    def topics(self) -> list[str]:
        """The names of the topics of the partitions, in order."""
        return list(dict.fromkeys(partition.topic for partition in self.partitions))
