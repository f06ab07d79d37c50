"""A real Kafka cluster."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Self

from kafkaform.cluster.kafka.facts import read_facts
from kafkaform.cluster.kafka.prefetch import Prefetch
from kafkaform.cluster.kafka.readers import read
from kafkaform.cluster.kafka.topics import TopicReader
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.transport.connection import Connection
from kafkaform.core.lock import unguarded
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager

    from kafkaform.cluster.kafka.audit_topic import AuditTopic
    from kafkaform.config.client_properties.transport import TransportSettings
    from kafkaform.core.errors import ClusterError
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


class KafkaCluster:
    """The cluster behind a set of client properties; connects on first use.

    Args:
        librdkafka: Properties for librdkafka, secrets filled in.
        transport: Makes the settings of our own connections; see `Connection`.
    """

    def __init__(self, librdkafka: Mapping[str, object], transport: Callable[[], TransportSettings]) -> None:
        self._connection = Connection(librdkafka, transport)
        self._prefetch: Prefetch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prefetch(self) -> Callable[[ResourceRef], None]:
        """Begin to connect and to read, in the background, what the next `facts` and `observe` return.

        No part of an interface: these two return the same without it, later. What goes wrong is raised there.
        A plan of 1,000 topics on a broker nearby takes 6 % longer without it, one of 5,000 topics 10 %
        (medians of alternating runs); of a distant broker, it is each round trip that is not waited for.

        Returns:
            Takes each resource that `observe` will be asked for, as soon as it is known: it may be read while
            the next manifests are.
        """
        self._prefetch = Prefetch(self._connection)
        return self._prefetch.expect

    def facts(self) -> Facts:
        """See `Cluster.facts`."""
        if self._prefetch is None:
            return read_facts(self._connection)
        return self._prefetch.facts()

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
    ) -> Observation:
        """See `Cluster.observe`."""
        prefetch, self._prefetch = self._prefetch, None  # read again, everything is asked for anew
        readers = {TopicKind.name: TopicReader(prefetch.source())} if prefetch is not None else {}
        return read(self._connection, refs, also, kinds, readers)

    def observe_fields(self, fields: Mapping[ResourceRef, Collection[str]]) -> Observation:
        """See `Cluster.observe_fields`."""
        from kafkaform.cluster.kafka.readers import read_fields

        return read_fields(self._connection, fields)

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        """See `Cluster.groups`."""
        from kafkaform.cluster.kafka.groups import read_groups

        return read_groups(self._connection, names)

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        """See `Cluster.log_spans`."""
        from kafkaform.cluster.kafka.log_spans import read_log_spans

        return read_log_spans(self._connection, partitions, at_ms, committed=committed)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TimedOffset]:
        """See `Cluster.offsets_at`."""
        from kafkaform.cluster.kafka.log_spans import read_offsets_at

        return read_offsets_at(self._connection, times)

    def open_transactions(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        """See `Cluster.open_transactions`."""
        from kafkaform.cluster.kafka.transactions import read_open_transactions

        return read_open_transactions(self._connection, partitions)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `Cluster.partition_counts`."""
        from kafkaform.cluster.kafka.log_spans import read_partition_counts

        return read_partition_counts(self._connection, topics)

    def health(self) -> Health:
        """See `Cluster.health`."""
        from kafkaform.cluster.kafka.health import read_health

        return read_health(self._connection)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        """See `Cluster.sizes`."""
        from kafkaform.cluster.kafka.sizes import read_sizes

        return read_sizes(self._connection, resources)

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Cluster.partition_sizes`."""
        from kafkaform.cluster.kafka.sizes import read_partition_sizes

        return read_partition_sizes(self._connection, partitions)

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.validate`."""
        from kafkaform.cluster.kafka.writer import validate

        return validate(self._connection, operations)

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        """See `Cluster.execute`."""
        from kafkaform.cluster.kafka.writer import submit

        return submit(self._connection, operations, guard)

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        """See `Cluster.layout`."""
        from kafkaform.cluster.kafka.replicas import read_layout

        return read_layout(self._connection, topics)

    def replica_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[tuple[str, int, int], int]:
        """See `Cluster.replica_sizes`."""
        from kafkaform.cluster.kafka.sizes import read_replica_sizes

        return read_replica_sizes(self._connection, partitions)

    def log_dirs(self) -> tuple[Sequence[LogDir], Mapping[int, ClusterError]]:
        """See `Cluster.log_dirs`."""
        from kafkaform.cluster.kafka.sizes import TIMEOUT_S, read_log_dirs

        return read_log_dirs(self._connection, TIMEOUT_S)

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """See `Cluster.reassign`."""
        from kafkaform.cluster.kafka.reassignments import reassign

        return reassign(self._connection, targets, guard)

    def elect_leaders(
        self, partitions: Collection[TopicPartition], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        """See `Cluster.elect_leaders`."""
        from kafkaform.cluster.kafka.reassignments import elect_leaders

        return elect_leaders(self._connection, partitions, guard)

    def throttles(self, topics: Collection[str]) -> Throttles:
        """See `Cluster.throttles`."""
        from kafkaform.cluster.kafka.throttles import read_throttles

        return read_throttles(self._connection, topics)

    def set_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """See `Cluster.set_throttles`."""
        from kafkaform.cluster.kafka.throttles import set_throttles

        set_throttles(self._connection, throttles, guard)

    def clear_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        """See `Cluster.clear_throttles`."""
        from kafkaform.cluster.kafka.throttles import clear_throttles

        clear_throttles(self._connection, throttles, guard)

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        """See `Cluster.lock`."""
        from kafkaform.cluster.kafka.lock import lock

        return lock(self._connection, holder, timeout_s=timeout_s, tell=tell)

    def begin_audit(self) -> None:
        """Begin to connect, in the background, what `append_audit` needs; what goes wrong is raised there."""
        self._audit_topic.begin()

    def append_audit(self, lines: Sequence[str]) -> None:
        """See `Cluster.append_audit`."""
        self._audit_topic.append(lines)

    def read_audit(self) -> Sequence[str]:
        """See `Cluster.read_audit`."""
        return self._audit_topic.read()

    @cached_property
    def _audit_topic(self) -> AuditTopic:
        from kafkaform.cluster.kafka.audit_topic import AuditTopic

        return AuditTopic(self._connection)

    def close(self) -> None:
        """Close the connections."""
        if self._prefetch is not None:
            self._prefetch.end()
        self._connection.close()
