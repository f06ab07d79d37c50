"""Services beside Kafka that manage some kinds of resources, such as a schema registry.

A service is connected to only if a resource of its kinds is read. What it cannot read is not visible, and
stops no other resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkaform.core.errors import ClusterError, KafkaformError, UsageError
from kafkaform.core.model import UNLISTED, Diagnostic, Observation, Severity, merge_observations
from kafkaform.resources import KINDS
from kafkaform.resources.subject import SubjectKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.core.lock import Guard
    from kafkaform.core.model import FieldValue, ResourceRef, State
    from kafkaform.core.operations import Operation


class Service(Protocol):
    """Reads and changes the resources of its kinds, as `ResourceWriter` does those of Kafka."""

    def observe(
        self, refs: Mapping[ResourceRef, State], also: Callable[[ResourceRef], bool], *, listed: bool
    ) -> Observation:
        """Read resources, with their declared values.

        Args:
            refs: The resources to read, whether they exist or not.
            also: Selects other resources to read.
            listed: Whether the inventory has all resources, not only those that are read.
        """

    def find_value(self, ref: ResourceRef, kept: FieldValue) -> FieldValue:
        """Return the whole of a value, as `Services.find_value` does."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """Have the service validate operations, as `ResourceReader.validate` does."""

    def execute(self, operations: Sequence[Operation], guard: Guard) -> list[ClusterError | None]:
        """Carry out operations, as `ResourceWriter.execute` does."""


Send: TypeAlias = "Callable[[Sequence[Operation]], list[ClusterError | None]]"
"""Sends operations to Kafka, and returns their outcomes."""


class Services:
    """The services of one cluster, each opened on first use.

    Args:
        openers: What opens the service of a kind, by the kind's name; raises a KafkaformError if it is not
            configured.
    """

    def __init__(self, openers: Mapping[str, Callable[[], Service]]) -> None:
        self._openers = openers
        self._open: dict[str, Service] = {}

    @property
    def kinds(self) -> Collection[str]:
        """The kinds that services manage."""
        return self._openers.keys()

    def observe(
        self, refs: Mapping[ResourceRef, State], also: Callable[[ResourceRef], bool], kinds: Collection[str]
    ) -> Observation:
        """Read the resources of these kinds; those of a service that does not answer are not visible."""
        readings = []
        for kind in self._openers:
            own = {ref: state for ref, state in refs.items() if ref.kind == kind}
            if not own and kind not in kinds:
                continue
            try:
                readings.append(self._get(kind).observe(own, also, listed=kind in kinds))
            except KafkaformError as error:
                text = f"could not list {KINDS[kind].words.collection}: {error.message}"
                note = Diagnostic(UNLISTED, Severity.WARNING, text, suggestion=error.hint)
                # Without a configured service, there is nothing to list.
                notes = () if isinstance(error, UsageError) or kind not in kinds else (note,)
                why = error.message if error.hint is None else f"{error.message}; {error.hint}"
                readings.append(Observation({}, frozenset(), dict.fromkeys(own, why), notes))
        return merge_observations(readings)

    def find_value(self, ref: ResourceRef, kept: FieldValue) -> FieldValue:
        """Return the whole of a value of which the record keeps a digest; None if no service has it."""
        return self._get(ref.kind).find_value(ref, kept) if ref.kind in self._openers else None

    def exclude(self, refs: Mapping[ResourceRef, State]) -> dict[ResourceRef, State]:
        """Return the resources that no service manages: those of Kafka."""
        return {ref: state for ref, state in refs.items() if ref.kind not in self._openers}

    def validate(self, operations: Sequence[Operation], by_kafka: Send) -> list[ClusterError | None]:
        """Have each service validate its operations, and Kafka the others."""
        return self._send(operations, by_kafka, lambda service, own: service.validate(own))

    def execute(
        self, operations: Sequence[Operation], guard: Guard, by_kafka: Send
    ) -> list[ClusterError | None]:
        """Have each service carry out its operations, and Kafka the others."""
        return self._send(operations, by_kafka, lambda service, own: service.execute(own, guard))

    def _send(
        self,
        operations: Sequence[Operation],
        by_kafka: Send,
        by_service: Callable[[Service, Sequence[Operation]], list[ClusterError | None]],
    ) -> list[ClusterError | None]:
        outcomes: dict[int, ClusterError | None] = {}
        for kind in dict.fromkeys(operation.ref.kind for operation in operations):
            own = [operation for operation in operations if operation.ref.kind == kind]
            if kind in self._openers:
                sent = by_service(self._get(kind), own)
                outcomes.update(
                    (id(operation), outcome) for operation, outcome in zip(own, sent, strict=True)
                )
        others = [operation for operation in operations if id(operation) not in outcomes]
        if others:
            sent = by_kafka(others)
            outcomes.update((id(operation), outcome) for operation, outcome in zip(others, sent, strict=True))
        return [outcomes[id(operation)] for operation in operations]

    def _get(self, kind: str) -> Service:
        if kind not in self._open:
            self._open[kind] = self._openers[kind]()
        return self._open[kind]


NO_SERVICES = Services({})
"""No service: all resources are of Kafka."""


def _open_schema_registry(properties: Mapping[str, str]) -> Service:
    from kafkaform.cluster.schema_registry import open_registry  # few clusters have one

    return open_registry(properties)


SERVICES: Mapping[str, Callable[[Mapping[str, str]], Service]] = {SubjectKind.name: _open_schema_registry}
"""What opens the service of a kind, from the client properties of a cluster."""
