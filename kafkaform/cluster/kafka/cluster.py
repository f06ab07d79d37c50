"""A real Kafka cluster."""

# ruff: noqa: D102 - the protocols of kafkaform.cluster.protocol document these methods

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from kafkaform.cluster.kafka.facts import read_facts
from kafkaform.cluster.kafka.prefetch import Prefetch
from kafkaform.cluster.kafka.readers import read
from kafkaform.cluster.protocol import NOTHING_DECLARED, none_besides
from kafkaform.cluster.services import NO_SERVICES, Services
from kafkaform.cluster.transport.connection import Connection
from kafkaform.core.lock import Guard, Holder, unguarded
from kafkaform.core.model import merge_observations
from kafkaform.core.progress import Progress, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from kafkaform.cluster.kafka.audit_topic import AuditTopic
    from kafkaform.config.client_properties.transport import TransportSettings
    from kafkaform.core.authorizer import AccessReading
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.health import Health, LogDir, ThrottleConfigs
    from kafkaform.core.model import DataSize, Facts, FieldValue, Observation, Observed, ResourceRef, State
    from kafkaform.core.operations import Operation
    from kafkaform.core.partitions import LogSpan, Replicas, TimedOffset, TopicPartition
    from kafkaform.core.transactions import ProducerReading, TransactionReading
    from kafkaform.resources.groups import GroupReading
    from kafkaform.resources.replicas.layout import Layout
    from kafkaform.resources.replicas.moves import Throttles


class KafkaCluster:
    """The cluster behind a set of client properties; connects on first use.

    Args:
        properties: Properties for librdkafka, with secrets filled in.
        transport: Makes the settings of our own connections; see `Connection`.
        tell: Receives a line for a user who waits for the first response.
        services: The services beside the brokers that manage some kinds.
    """

    def __init__(
        self,
        properties: Mapping[str, object],
        transport: Callable[[], TransportSettings],
        tell: Progress = silent,
        services: Services = NO_SERVICES,
    ) -> None:
        self._services = services
        self._connection = Connection(properties, transport, tell)
        self._prefetch: Prefetch | None = None
        self._leaders: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def prefetch(self) -> Callable[[ResourceRef], None]:
        """Start to connect, and to read in the background what the next `facts` and `observe` return.

        Only saves time; these two raise its errors. Without it, a plan of 1,000 topics on a nearby broker
        takes 6 % longer, one of 5,000 topics 10 % (medians of alternating runs); with a distant broker, it
        saves waiting for round trips.

        Returns:
            A function to call with each resource that `observe` will be asked for, as soon as it is known: it
            may be read while the next manifests are parsed.
        """
        self._prefetch = Prefetch(self._connection)
        return self._prefetch.expect

    def facts(self) -> Facts:
        if self._prefetch is None:
            return read_facts(self._connection)
        return self._prefetch.facts()

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
        declared: Mapping[ResourceRef, State] = NOTHING_DECLARED,
    ) -> Observation:
        prefetch, self._prefetch = self._prefetch, None  # a second call reads everything again
        readers = prefetch.readers() if prefetch is not None else {}
        wanted = {ref: declared.get(ref, {}) for ref in refs}
        served = self._services.observe(wanted, also, kinds)
        own, own_kinds = self._services.exclude(wanted), [k for k in kinds if k not in self._services.kinds]
        return merge_observations([read(self._connection, own, also, own_kinds, readers), served])

    def observe_fields(self, fields: Mapping[ResourceRef, State]) -> Observation:
        from kafkaform.cluster.kafka.readers import read_fields

        served = self._services.observe(fields, none_besides, ())
        return merge_observations([read_fields(self._connection, self._services.exclude(fields)), served])

    def find_value(self, ref: ResourceRef, kept: FieldValue) -> FieldValue:
        """Return the whole of a value of which the record keeps a digest; None if nothing has it any more."""
        return self._services.find_value(ref, kept)

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        # Imported where it is used, as below: a plan needs few of these modules, and each takes time.
        from kafkaform.cluster.kafka.groups import read_groups

        return read_groups(self._connection, names)

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        from kafkaform.cluster.kafka.log_spans import read_log_spans

        return read_log_spans(self._connection, partitions, at_ms, self._leaders, committed=committed)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TimedOffset]:
        from kafkaform.cluster.kafka.log_spans import read_offsets_at

        return read_offsets_at(self._connection, times, self._leaders)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        from kafkaform.cluster.kafka.log_spans import read_epoch_ends

        return read_epoch_ends(self._connection, epochs)

    def open_transactions(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        from kafkaform.cluster.kafka.transactions import read_open_transactions

        return read_open_transactions(self._connection, partitions)

    def transactional(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, bool]:
        from kafkaform.cluster.kafka.transactions import read_transactional

        return read_transactional(self._connection, partitions)

    def producers(self, partitions: Collection[TopicPartition]) -> ProducerReading:
        from kafkaform.cluster.kafka.transactions import read_producers

        return read_producers(self._connection, partitions)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        from kafkaform.cluster.kafka.log_spans import read_partition_counts

        return read_partition_counts(self._connection, topics)

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        from kafkaform.cluster.kafka.log_spans import read_topic_ids

        return read_topic_ids(self._connection, topics)

    def health(self) -> Health:
        from kafkaform.cluster.kafka.health import read_health

        return read_health(self._connection)

    def access(self) -> AccessReading:
        from kafkaform.cluster.kafka.acls import read_access

        return read_access(self._connection)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        from kafkaform.cluster.kafka.sizes import read_sizes

        return read_sizes(self._connection, resources)

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        from kafkaform.cluster.kafka.sizes import read_partition_sizes

        return read_partition_sizes(self._connection, partitions)

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        from kafkaform.cluster.kafka.writer import validate

        return self._services.validate(operations, partial(validate, self._connection))

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        from kafkaform.cluster.kafka.writer import submit

        return self._services.execute(operations, guard, lambda own: submit(self._connection, own, guard))

    def layout(self, topics: Collection[str] | None = None) -> Layout:
        from kafkaform.cluster.kafka.replicas import read_layout

        return read_layout(self._connection, topics)

    def replica_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[tuple[str, int, int], int]:
        from kafkaform.cluster.kafka.sizes import read_replica_sizes

        return read_replica_sizes(self._connection, partitions)

    def log_dirs(self) -> tuple[Sequence[LogDir], Mapping[int, ClusterError]]:
        from kafkaform.cluster.kafka.sizes import TIMEOUT_S, read_log_dirs

        return read_log_dirs(self._connection, TIMEOUT_S)

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        from kafkaform.cluster.kafka.reassignments import reassign

        return reassign(self._connection, targets, guard)

    def elect_leaders(
        self, partitions: Collection[TopicPartition], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        from kafkaform.cluster.kafka.reassignments import elect_leaders

        return elect_leaders(self._connection, partitions, guard)

    def throttles(self, topics: Collection[str]) -> Throttles:
        from kafkaform.cluster.kafka.throttles import read_throttles

        return read_throttles(self._connection, topics)

    def throttle_configs(self, topics: Collection[str]) -> tuple[ThrottleConfigs, ...]:
        from kafkaform.cluster.kafka.throttles import read_throttle_configs

        return read_throttle_configs(self._connection, topics)

    def set_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        from kafkaform.cluster.kafka.throttles import set_throttles

        set_throttles(self._connection, throttles, guard)

    def clear_throttles(self, throttles: Throttles, guard: Guard = unguarded) -> None:
        from kafkaform.cluster.kafka.throttles import clear_throttles

        clear_throttles(self._connection, throttles, guard)

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        from kafkaform.cluster.kafka.lock import lock

        return lock(self._connection, holder, timeout_s=timeout_s, tell=tell)

    def begin_audit(self) -> None:
        """Start to connect in the background for `append_audit`, which raises any errors."""
        self._audit_topic.begin()

    def append_audit(self, lines: Sequence[str]) -> None:
        self._audit_topic.append(lines)

    def read_audit(self) -> Sequence[str]:
        return self._audit_topic.read()

    @cached_property
    def _audit_topic(self) -> AuditTopic:
        from kafkaform.cluster.kafka.audit_topic import AuditTopic

        return AuditTopic(self._connection)

    def close(self) -> None:
        """Close all connections, those of prefetching and of the audit topic too."""
        if self._prefetch is not None:
            self._prefetch.end()
        # cached_property keeps the value there: asking for it would make a topic that nothing has used.
        if "_audit_topic" in self.__dict__:
            self._audit_topic.close()
        self._connection.close()
