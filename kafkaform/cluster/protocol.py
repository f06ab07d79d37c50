"""The interfaces of a cluster, real or in memory.

A function takes the narrowest one that it uses: with a `ClusterReader` it cannot change anything.
Every method raises a `ClusterError` when the cluster cannot be reached or read.
"""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from kafkaform.core.errors import ClusterError, RequestRejected, Unreachable
from kafkaform.core.lock import Guard, Holder, unguarded
from kafkaform.resources.replicas.operations import Reassign

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaform.core.health import Health, LogDir, ThrottleConfigs
    from kafkaform.core.model import DataSize, Facts, Observation, Observed, ResourceRef, State
    from kafkaform.core.operations import Operation
    from kafkaform.core.partitions import LogSpan, Replicas, TimedOffset, TopicPartition
    from kafkaform.core.progress import Progress
    from kafkaform.core.transactions import ProducerReading, TransactionReading
    from kafkaform.resources.groups import GroupReading
    from kafkaform.resources.replicas.layout import Layout
    from kafkaform.resources.replicas.moves import Throttles

SETTLE_TIMEOUT_S = 30.0
"""The longest wait for the next visible effect of a change, in seconds, before it counts as failed.

Brokers apply a large plan step by step: 12,000 new partitions were visible after 15 s on a busy machine, in
three steps. A limit for the whole plan would fail large plans that are going well.
"""


NOTHING_DECLARED: Mapping[ResourceRef, State] = MappingProxyType({})
"""No declared values."""


def none_besides(_: ResourceRef) -> bool:
    """Return False: read no other resources than the named ones."""
    return False


def reject_duplicates(request: Sequence[Operation]) -> dict[int, RequestRejected]:
    """Return an error for each operation whose subject occurs twice in one request, by `id` of the operation.

    Brokers refuse such requests too (INVALID_REQUEST), with one response for all of them.
    """
    times = Counter(operation.subject for operation in request)
    return {
        id(operation): RequestRejected(
            f"{operation.ref} appears {times[operation.subject]} times in one request (INVALID_REQUEST)",
            code="INVALID_REQUEST",
        )
        for operation in request
        if times[operation.subject] > 1
    }


def refuse_moves(operations: Sequence[Operation]) -> None:
    """Raise TypeError for a `Reassign`: it takes more than one request."""
    if any(isinstance(operation, Reassign) for operation in operations):
        raise TypeError("Reassign is carried out by Cluster.reassign, and by waiting")


def make_broker_down_error(broker: int) -> Unreachable:
    """Return the error for the replication rates of a broker that is down: no other broker has them."""
    return Unreachable(
        f"broker {broker} is down: its replication throttle rates cannot be changed",
        hint="they throttle nothing while no topic lists its replicas; start it and run this again",
    )


class ResourceReader(Protocol):
    """Reads resources, and has brokers validate changes. Changes nothing."""

    def facts(self) -> Facts:
        """Return the cluster's id, brokers and config defaults."""

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
        declared: Mapping[ResourceRef, State] = NOTHING_DECLARED,
    ) -> Observation:
        """Read resources; never makes a broker create a topic.

        Args:
            refs: The resources to read in detail, whether they exist or not.
            also: Selects other visible resources to read in detail.
            kinds: Kinds whose inventory is read even if no resource of theirs is named.
            declared: The values that resources should have: some, such as passwords, brokers do not return,
                and can only be compared.
        """

    def observe_fields(self, fields: Mapping[ResourceRef, State]) -> Observation:
        """Read only some fields of resources, which is fast enough to poll.

        Args:
            fields: The resources, whether they exist or not, and the fields of each, with the values that
                they should have.

        Returns:
            An observation as of `observe`. States may lack the fields that are not named; the inventory may
            lack the resources that are not named.
        """

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        """Return how much data resources hold, without those that this account may not see."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """Have the brokers validate operations without carrying them out.

        Returns:
            For each operation None if the brokers would accept it, or their objection: `PermissionDenied`
            if the account may not even ask, `NotOffered` if the cluster has no such request. Brokers have no
            other objection to deletions and reassignments, as they cannot validate them.
        """


class ResourceWriter(ResourceReader, Protocol):
    """Changes resources, and reads them back."""

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        """Carry out operations in as few requests as Kafka allows, one after the other.

        An operation that depends on one of another type belongs in a later call.

        Args:
            operations: The operations, of any types.
            guard: Called before each request; once it raises `LockLost`, no further one is sent.

        Returns:
            For each operation None if it was carried out, or the error: `OutcomeUnknown` if no response came
            in time, `LockLost` if it was not sent.

        Raises:
            TypeError: One is a `Reassign`, which `reassign` carries out.
        """


class GroupReader(Protocol):
    """Reads consumer groups: members, offsets, lag."""

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        """Read groups with their offsets and lag in every partition.

        Args:
            names: The groups; the result lacks those that do not exist. None: all that this account can see.
        """


class PartitionReader(Protocol):
    """Reads the logs of partitions: their offsets and sizes."""

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        """Return the first and last offsets of partitions, in a few requests for any number of them.

        Args:
            partitions: The partitions; the result lacks those that do not exist or have no leader.
            at_ms: Also find the first offset that is not older than this, in milliseconds since 1970.
            committed: End before the first open transaction, as a read_committed consumer does.
        """

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TimedOffset]:
        """Return the first record of each partition not older than a time, with one request per leader.

        "First" is by offset: timestamps need not increase along a log.

        Args:
            times: The time for each partition, in milliseconds since 1970. The result lacks partitions that
                do not exist, have no leader, or have no record as young as that.
        """

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return where the records of leaders up to an epoch end in each log, with one request per leader.

        An unclean leader election cuts a log short: what follows there was written by later leaders.

        Args:
            epochs: The epoch of each partition; the result lacks partitions whose leader does not answer.
        """

    def open_transactions(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """Read the open transactions of partitions, with their producers and ages.

        Costs two requests per leader if none is open. Partitions without a leader are left out.

        Raises:
            KafkaformError: No leader answers.
        """

    def transactional(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, bool]:
        """Return whether transactions write to partitions, with one request per leader.

        Leaders remember producers for a day (producer.id.expiration.ms).

        Args:
            partitions: The partitions; the result lacks those that do not exist, have no leader, or may not
                be read by this account, and all if the brokers are older than Kafka 2.8.
        """

    def producers(self, partitions: Collection[TopicPartition]) -> ProducerReading:
        """Read the producers that leaders remember, for a day by default (producer.id.expiration.ms).

        Only idempotent and transactional producers have a state there, from Kafka 2.8 on. One request per
        leader, and one per broker for the transactional ids, if there are any.
        """

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the partition counts of topics, without those that do not exist or are not visible."""

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        """Return the ids of topics, without those that have none (before Kafka 2.8) or are not visible.

        A topic that was deleted and made again has another id.
        """

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the bytes of each partition, counting one replica, without those that no broker reports."""


class ReplicaReader(Protocol):
    """Reads replica placement, running reassignments and replication throttles."""

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        """Read replicas, which of them are in sync, and running reassignments, in three requests.

        Args:
            topics: The topics to read, so that polling need not read a whole large cluster; those that do not
                exist are left out. None: all. Running reassignments are those of all topics.

        A finished reassignment may appear in `topics` with its old replicas for a moment after it has left
        `reassigning`: it is done once the replicas equal its target.
        """

    def replica_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[tuple[str, int, int], int]:
        """Return the bytes of every replica by topic, partition and broker, including those being copied.

        Replicas that no broker reports, such as those of a broker that is down, are left out.
        """

    def log_dirs(self) -> tuple[Sequence[LogDir], Mapping[int, ClusterError]]:
        """Read the log directories of the live brokers; also returns the errors of brokers, by id.

        Brokers before Kafka 3.3 are in neither, as they do not report how full their volumes are (KIP-827).
        """

    def throttles(self, topics: Collection[str]) -> Throttles:
        """Return the dynamically set replication throttles of the live brokers and of topics.

        A topic that does not exist has none.
        """

    def throttle_configs(self, topics: Collection[str]) -> tuple[ThrottleConfigs, ...]:
        """Return the configs behind the throttles of the live brokers and of topics, also empty lists."""


class ReplicaWriter(ReplicaReader, Protocol):
    """Moves replicas from broker to broker, throttled."""

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """Start reassignments of partitions in as few requests as Kafka allows; returns at once.

        Args:
            targets: The replicas that each partition is to have; None cancels a running reassignment, which
                keeps the order of its target. Repeating a request is harmless; a new target for a partition
                that is being reassigned needs a cancellation first (Kafka 4.3.1 would wait forever for a
                broker that it both adds and removes).
            guard: As of `execute`.

        Returns:
            For each partition None if its reassignment was started or cancelled, or the error.
        """

    def elect_leaders(
        self, partitions: Collection[TopicPartition], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """Elect the preferred replicas as leaders; returns None for each that leads, or the error."""

    def set_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """Set rates and add to the lists of throttled replicas; all others stay as they are.

        Rates are set first, as lists without a rate throttle nothing. A list of `*` includes all replicas.

        Raises:
            ClusterError: Not all were set; `Unreachable` for brokers that are down.
        """

    def clear_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """Remove the given rates and list entries, and nothing else.

        A rate that has another value by now stays. A list without entries is unset. Having nothing to
        remove, as of a deleted topic, is no error.

        Raises:
            ClusterError: Some could not be removed: the rates of a broker that is down stay (`Unreachable`),
                and throttle nothing without lists.
        """


class HealthReader(Protocol):
    """Reads the health of brokers, controllers and partitions."""

    def health(self) -> Health:
        """Read the health that brokers and controllers report."""


class AuditReader(Protocol):
    """Reads the audit topic, in which the cluster keeps the record of applies."""

    def read_audit(self) -> Sequence[str]:
        """Return all lines of the audit topic, oldest first; none if it does not exist."""


class AuditLog(AuditReader, Protocol):
    """Reads and writes the record of applies."""

    def append_audit(self, lines: Sequence[str]) -> None:
        """Append lines to the audit topic, which is created if missing; returns once brokers confirm them.

        Args:
            lines: As `kafkaform.audit.record` writes them.
        """


class LockProvider(Protocol):
    """Locks the cluster, so that there is one apply at a time."""

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        """Return a context that holds the cluster's lock; a process must not take it twice.

        Args:
            holder: The description of this process that waiting processes show.
            timeout_s: How long to wait for another holder.
            tell: Receives progress lines about the current holder.

        Returns:
            A context; each call of its guard proves that the lock is still held.

        Raises:
            LockHeld: On entry: another holder did not release the lock in time.
            ClusterError: On entry: the cluster has no such lock, or this account may not use it.
        """


class ClusterReader(
    ResourceReader, GroupReader, PartitionReader, ReplicaReader, HealthReader, AuditReader, Protocol
):
    """Reads all of a cluster, for planning, drift, status and doctor."""


class ClusterWriter(ResourceWriter, ReplicaWriter, Protocol):
    """Changes resources and moves replicas, for an apply."""


class Cluster(ClusterReader, ClusterWriter, AuditLog, LockProvider, Protocol):
    """The whole interface of a cluster."""
