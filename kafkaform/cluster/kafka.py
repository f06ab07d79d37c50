"""A real Kafka cluster."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from kafkaform.cluster.connection import Connection
from kafkaform.cluster.facts import read_facts
from kafkaform.cluster.group_reader import read_groups
from kafkaform.cluster.health import read_health
from kafkaform.cluster.log_spans import read_log_spans, read_partition_counts
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.reader import read
from kafkaform.cluster.sizes import read_partition_sizes, read_sizes
from kafkaform.cluster.writer import submit, validate
from kafkaform.lock import unguarded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaform.cluster.audit_topic import AuditTopic
    from kafkaform.errors import ClusterError
    from kafkaform.groups import GroupReading, LogSpan, TopicPartition
    from kafkaform.health import Health
    from kafkaform.lock import Guard, Holder
    from kafkaform.model import Facts, Observation, Observed, ResourceRef
    from kafkaform.operations import Operation
    from kafkaform.progress import Progress


class KafkaCluster:
    """The cluster behind a set of client properties; connects on first use.

    Args:
        librdkafka: Properties for librdkafka, secrets filled in.
        kafka_python: Makes the keyword arguments for kafka-python, where that client is needed.
    """

    def __init__(self, librdkafka: Mapping[str, object], kafka_python: Callable[[], dict[str, Any]]) -> None:
        self._connection = Connection(librdkafka, kafka_python)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def facts(self) -> Facts:
        """See `Cluster.facts`."""
        return read_facts(self._connection)

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
    ) -> Observation:
        """See `Cluster.observe`."""
        return read(self._connection, refs, also, kinds)

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        """See `Cluster.groups`."""
        return read_groups(self._connection, names)

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        """See `Cluster.log_spans`."""
        return read_log_spans(self._connection, partitions, at_ms, committed=committed)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `Cluster.partition_counts`."""
        return read_partition_counts(self._connection, topics)

    def health(self) -> Health:
        """See `Cluster.health`."""
        return read_health(self._connection)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, int]:
        """See `Cluster.sizes`."""
        return read_sizes(self._connection, resources)

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """See `Cluster.partition_sizes`."""
        return read_partition_sizes(self._connection, partitions)

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.validate`."""
        return validate(self._connection, operations)

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        """See `Cluster.execute`."""
        return submit(self._connection, operations, guard)

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        """See `Cluster.lock`."""
        from kafkaform.cluster.lock import lock

        return lock(self._connection, holder, timeout_s=timeout_s, tell=tell)

    def append_audit(self, lines: Sequence[str]) -> None:
        """See `Cluster.append_audit`."""
        self._audit_topic.append(lines)

    def read_audit(self) -> Sequence[str]:
        """See `Cluster.read_audit`."""
        return self._audit_topic.read()

    @cached_property
    def _audit_topic(self) -> AuditTopic:
        from kafkaform.cluster.audit_topic import AuditTopic

        return AuditTopic(self._connection)

    def close(self) -> None:
        """See `Cluster.close`."""
        self._connection.close()
