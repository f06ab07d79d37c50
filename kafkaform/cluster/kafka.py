"""A real Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kafkaform.cluster.connection import Connection
from kafkaform.cluster.facts import read_facts
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.reader import read
from kafkaform.cluster.sizes import read_sizes
from kafkaform.cluster.writer import submit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.errors import ClusterError
    from kafkaform.model import Facts, Observation, Observed, Operation, ResourceRef


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
        self, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool] = none_besides
    ) -> Observation:
        """See `Cluster.observe`."""
        return read(self._connection, refs, also)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, int]:
        """See `Cluster.sizes`."""
        return read_sizes(self._connection, resources)

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.validate`."""
        return submit(self._connection, operations, validate_only=True)

    def execute(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.execute`."""
        return submit(self._connection, operations, validate_only=False)

    def close(self) -> None:
        """See `Cluster.close`."""
        self._connection.close()
