"""The interfaces of a cluster, real or in memory.

A function takes the narrowest of them that it uses: who is given a `ClusterReader` cannot change anything.
Every method raises a `ClusterError` when the cluster cannot be reached or read.

The topic that keeps the record on the cluster itself.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafkaform.core.errors import ClusterError, RequestRejected, Unreachable
from kafkaform.core.lock import unguarded
from kafkaform.core.operations import CreateTopic, Reassign
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager

    from kafkaform.core.groups import GroupReading, LogSpan, TimedOffset
    from kafkaform.core.health import Health, LogDir
    from kafkaform.core.layout import Layout, Replicas, TopicPartition
    from kafkaform.core.lock import Guard, Holder
    from kafkaform.core.model import (
        DataSize,
        Facts,
        Observation,
        Observed,
        ResourceRef,
    )
    from kafkaform.core.moves import Throttles
    from kafkaform.core.operations import Operation
    from kafkaform.core.progress import Progress
    from kafkaform.core.transactions import TransactionReading


def none_besides(_: ResourceRef) -> bool:
    """Ask for no other resources than the named ones."""
    return False


def repeated(request: Sequence[Operation]) -> dict[int, RequestRejected]:
    """The refusals, by `id` of the operation, of all that concern the same topic in one request.

    Brokers refuse these too (INVALID_REQUEST), but librdkafka then fails the whole request, or crashes.
    """
    times = Counter(operation.subject for operation in request)
    return {
        id(operation): RequestRejected(
            f"{operation.ref} comes {times[operation.subject]} times in one request (INVALID_REQUEST)",
            code="INVALID_REQUEST",
        )
        for operation in request
        if times[operation.subject] > 1
    }


def refuse_moves(operations: Sequence[Operation]) -> None:
    """Raise TypeError where somebody means to carry a `Reassign` out as if it were over with one request."""
    if any(isinstance(operation, Reassign) for operation in operations):
        raise TypeError("Reassign is carried out by Cluster.reassign, and by waiting")


def broker_down(broker: int) -> Unreachable:
    """The error for the replication rates of a broker that is down: only it takes and shows them."""
    return Unreachable(
        f"broker {broker} is down: it keeps the replication rates that it has",
        hint="they throttle nothing while no topic lists its replicas; start it and run this again",
    )


SETTLE_TIMEOUT_S = 30.0
"""The time in which brokers may show nothing new of what was just done, before it counts as not done.

Brokers take up a large plan request by request: 12,000 new partitions showed after 15 s on a busy machine,
in three steps. A limit for all of it together would fail large plans that are going well.
"""


class ResourceReader(Protocol):
    """Reading resources, and letting the brokers check changes to them. Nothing here changes anything."""

    def facts(self) -> Facts:
        """The cluster's id, brokers, and defaults."""

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
    ) -> Observation:
        """Read resources; never changes anything, and never makes a broker create a topic.

        Args:
            refs: The resources to read in detail, whether they exist or not.
            also: Which other resources, of those that this account can see, to read in detail.
            kinds: Kinds whose inventory is wanted even if no resource of theirs is asked for.
        """

    def observe_fields(self, fields: Mapping[ResourceRef, Collection[str]]) -> Observation:
        """Read no more of resources than some of their fields, which is fast enough to be done repeatedly.

        Args:
            fields: The resources, whether they exist or not, and the paths of the fields of each.

        Returns:
            As of `observe`. Of the fields that are not named, the state of a resource has none or some; the
            inventory has none but these resources, or more.
        """

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        """Return how much data resources hold; those that this account may not see are left out."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """Let the brokers check operations without carrying them out.

        Returns:
            For each operation None where the brokers would take it, or their objection;
            `PermissionDenied` where the account may not even ask, `NotOffered` where the cluster has no such
            request. To deletions and reassignments there is no other objection.
        """


class ResourceWriter(ResourceReader, Protocol):
    """Changing resources, and reading them back."""

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        """Carry operations out, in as few requests as Kafka allows, one after the other.

        One that depends on another of another sort belongs into a later call.

        Args:
            operations: What to do.
            guard: Called before each request; once it raises `LockLost`, no further one is sent.

        Returns:
            For each operation None where it was carried out, or why it was not; `OutcomeUnknown` where
            no answer came in time, `LockLost` where nothing of it was sent.

        Raises:
            TypeError: There is a `Reassign` among them: see `reassign`.
        """


class GroupReader(Protocol):
    """Reading consumer groups: members, offsets, lag."""

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        """Read groups with the offsets of every partition that they stand in; `lag` is known of each.

        Args:
            names: Which; those that do not exist are not in the answer. None: all that this account sees.
        """


class PartitionReader(Protocol):
    """Reading the logs of partitions: their offsets and sizes."""

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        """The first and last offsets of partitions, in a few requests however many there are.

        Args:
            partitions: Which; one that does not exist or has no leader is left out.
            at_ms: Also find the first offset that is not older than this, in milliseconds since 1970.
            committed: End before the first transaction that is open, as a read_committed consumer does.
        """

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TimedOffset]:
        """The first record of each partition that is not older than a time, in one request to each leader.

        Times need not rise along a log: the first such record in the order of offsets is found.

        Args:
            times: The time for each partition, in milliseconds since 1970. Partitions that do not exist, have
                no leader or no record as young as that are left out of the answer.
        """

    def open_transactions(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """Read the transactions that are open in partitions, with their producers and ages.

        Two requests to each leader where none is open. Partitions without a leader are left out.

        Raises:
            KafkaformError: No leader can be asked, or librdkafka alone can log in.
        """

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """The numbers of partitions of topics; one that does not exist, or cannot be seen, is left out."""

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The bytes that partitions hold, one replica counted; those nobody tells of are left out."""


class ReplicaReader(Protocol):
    """Reading where replicas are and are going, and the throttles of their replication."""

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        """Read where replicas are and are going, and which are in sync, in three requests.

        Args:
            topics: The topics to read, so that a large cluster need not be read whole again and again; those
                that do not exist are left out. None: all. Running reassignments are those of all topics.

        A reassignment that is over may show in `topics` for a moment longer, with all its replicas, than in
        `reassigning`: it is done where the replicas are its target.
        """

    def replica_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[tuple[str, int, int], int]:
        """The bytes of every replica by topic, partition and broker, of those being filled too.

        Those that nobody tells of, as a broker that is down, are left out.
        """

    def log_dirs(self) -> tuple[Sequence[LogDir], Mapping[int, ClusterError]]:
        """Read the log directories of the live brokers, and the errors of those that could not be read.

        Brokers before Kafka 3.3 are in neither, as they do not report how full their volumes are (KIP-827).
        """

    def throttles(self, topics: Collection[str]) -> Throttles:
        """The replication throttles of the live brokers, as they were set dynamically, and of topics.

        A topic that does not exist has none.
        """


class ReplicaWriter(ReplicaReader, Protocol):
    """Moving replicas from broker to broker, throttled."""

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """Start reassignments of partitions, in as few requests as Kafka allows; returns at once.

        Args:
            targets: The replicas that each partition is to have; None cancels what is running, which keeps
                the order that the target had. Asking for the same again is harmless; another target for a
                partition that is being reassigned wants a cancellation first (Kafka 4.3.1 would wait for
                ever for a broker that it both adds and removes).
            guard: See `execute`.

        Returns:
            For each partition None where it was started (or cancelled), or why it was not.
        """

    def elect_leaders(
        self, partitions: Collection[TopicPartition], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """Let the preferred replicas lead; None for each that leads now, or led already."""

    def set_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """Set rates, and add to the lists of throttled replicas; what is not named stays as it is.

        The rates come first, as lists without a rate hold nothing back. A list that is `*` has all already.

        Raises:
            ClusterError: Not all of it was done. Brokers that are down take no rate: `Unreachable`.
        """

    def clear_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """Take away the rates and the list entries that are named, and nothing else.

        A rate that has another value by now stays. A list that is empty then is unset. What is gone already,
        such as a topic, is no error.

        Raises:
            ClusterError: Not all of it was done, but all that could be: the rates of a broker that is down
                stay (`Unreachable`), and hold nothing back without lists.
        """


class HealthReader(Protocol):
    """Reading the health of brokers, controllers and partitions."""

    def health(self) -> Health:
        """Read what brokers and controllers say of themselves and of every partition."""


class AuditReader(Protocol):
    """Reading the record of applies, which the cluster keeps in a topic."""

    def read_audit(self) -> Sequence[str]:
        """All lines of the audit topic up to now, oldest first; none if it does not exist."""


class AuditLog(AuditReader, Protocol):
    """Reading and writing the record of applies."""

    def append_audit(self, lines: Sequence[str]) -> None:
        """Add lines to the audit topic, which is made if it is not there; returns once brokers have them.

        Args:
            lines: As `kafkaform.audit.record` writes them.
        """


class LockProvider(Protocol):
    """Locking the cluster, so that there is one apply at a time."""

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        """Hold the cluster's lock, of which there is one for all who apply; not twice by the same process.

        Args:
            holder: Who wants it, for those who will wait.
            timeout_s: How long to wait for another holder.
            tell: Takes lines that say who holds it.

        Returns:
            A context; what it gives proves, each time it is called, that the lock is still held.

        Raises:
            LockHeld: On entering it: another holder did not let go in time.
            ClusterError: On entering it: the cluster has no such lock, or this account may not use it.
        """


class ClusterReader(
    ResourceReader, GroupReader, PartitionReader, ReplicaReader, HealthReader, AuditReader, Protocol
):
    """Reading all of a cluster: what planning, drift, status and doctor use."""


class ClusterWriter(ResourceWriter, ReplicaWriter, Protocol):
    """Changing resources and moving replicas: what an apply uses."""


class Cluster(ClusterReader, ClusterWriter, AuditLog, LockProvider, Protocol):
    """All of a cluster: what an implementation offers."""


TOPIC = topic_ref("__kafkaform_audit")
"""The topic in which the applies to a cluster write down what they do."""

_REPLICAS = 3
_LARGEST_BATCH = 1_048_588


def creation(brokers: int) -> CreateTopic:
    """The creation of the topic: nothing of it is ever deleted, and no single broker can lose it.

    Args:
        brokers: How many brokers the cluster has.
    """
    replicas = max(1, min(_REPLICAS, brokers))
    return CreateTopic(
        TOPIC,
        1,
        replicas,
        {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "min.insync.replicas": "2" if replicas > 2 else "1",
            "max.message.bytes": str(_LARGEST_BATCH),
        },
    )


def key_of(line: str) -> str:
    """The resource that a line is about, `KIND/NAME`, or `throttle/ID`: the key of its message."""
    document = json.loads(line)
    if document.get("record") == "throttle":
        return f"throttle/{document['id']}"
    return f"{document['kind']}/{document['name']}"
