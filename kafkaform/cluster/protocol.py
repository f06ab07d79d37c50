"""What the rest of kafkaform asks of a cluster, real or in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from kafkaform.errors import ClusterError, RequestRejected
from kafkaform.model import DeleteTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.model import Facts, Observation, Observed, Operation, ResourceRef


def none_besides(_: ResourceRef) -> bool:
    """Ask for no other resources than the named ones."""
    return False


def repeated(request: Sequence[Operation]) -> dict[int, RequestRejected]:
    """The refusals, by `id` of the operation, of all that concern the same topic in one request.

    Brokers refuse these too (INVALID_REQUEST), but librdkafka then fails the whole request, or crashes.
    """
    times = Counter(map(_subject, request))
    return {
        id(operation): RequestRejected(
            f"{operation.ref} comes {times[_subject(operation)]} times in one request (INVALID_REQUEST)",
            code="INVALID_REQUEST",
        )
        for operation in request
        if times[_subject(operation)] > 1
    }


def _subject(operation: Operation) -> object:
    return (isinstance(operation, DeleteTopic) and operation.uid) or operation.ref


class Cluster(Protocol):
    """A Kafka cluster. Every method raises a `ClusterError` when the cluster cannot be reached or read."""

    def facts(self) -> Facts:
        """The cluster's id, brokers, and defaults."""

    def observe(
        self, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool] = none_besides
    ) -> Observation:
        """Read resources; never changes anything, and never makes a broker create a topic.

        Args:
            refs: The resources to read in detail, whether they exist or not.
            also: Which other resources, of those that this account can see, to read in detail.
        """

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, int]:
        """The bytes of data that resources hold, one replica counted; those nobody tells of are left out."""

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """Let the brokers check operations without carrying them out.

        Returns:
            For each operation None where the brokers would take it, or their objection;
            `PermissionDenied` where the account may not even ask. Deletions are never objected to.
        """

    def execute(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """Carry operations out, in one request for each sort of operation.

        One that depends on another of another sort belongs into a later call.

        Returns:
            For each operation None where it was carried out, or why it was not; `OutcomeUnknown` where
            no answer came in time.
        """

    def close(self) -> None:
        """Give the connections back."""
