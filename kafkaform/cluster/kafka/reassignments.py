"""Reading, starting and cancelling partition reassignments (KIP-455), and electing leaders.

During a reassignment, metadata shows both the old and the new replicas.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.messages import ALTER_REASSIGNMENTS, ELECT_LEADERS, LIST_REASSIGNMENTS
from kafkaform.core.errors import ClusterError, KafkaformError, LockLost, OutcomeUnknown
from kafkaform.core.model import Diagnostic, ResourceRef, Severity
from kafkaform.core.partitions import Replicas, TopicPartition, group_by_topic
from kafkaform.core.values import Value
from kafkaform.resources import topic_ref
from kafkaform.resources.replicas.layout import Reassignment, describe_running

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.lock import Guard


def read_running(connection: Connection, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """Read the running reassignments."""
    request = {"timeout_ms": int(timeout_s * 1000), "topics": None}
    response = connection.send_to_controller(LIST_REASSIGNMENTS, request, timeout_s)
    if response["error_code"]:
        raise name_right(translate_response(response), LIST_REASSIGNMENTS.name)
    return {
        (topic["name"], partition["index"]): Reassignment(
            # While a reassignment runs, `replicas` has the brokers of both ends: the target is what remains
            # without the removed ones.
            tuple(broker for broker in partition["replicas"] if broker not in partition["removing"]),
            frozenset(partition["adding"]),
            frozenset(partition["removing"]),
        )
        for topic in response["topics"]
        for partition in topic["partitions"]
    }


class Reassignments(Value):
    """The running reassignments of a cluster.

    Attributes:
        running: The reassignments by topic and partition.
        unread: Why they could not be read, or None.
        remedy: How to make them readable, or None.
    """

    running: Mapping[str, Mapping[int, Reassignment]]
    unread: str | None = None
    remedy: str | None = None

    def moving(self, topic: str) -> Mapping[int, Replicas]:
        """Return the target replicas of each partition of a topic that is being reassigned."""
        return {number: move.target for number, move in self.running.get(topic, {}).items()}

    def diagnostics(self, refs: Collection[ResourceRef]) -> tuple[Diagnostic, ...]:
        """Return the notes of a plan on reassignments of its resources."""
        if self.unread is not None:
            return (
                Diagnostic(
                    "KF413",
                    Severity.INFO,
                    f"could not read running reassignments ({self.unread}): a different replication factor "
                    "may be one that is being changed right now",
                    suggestion=self.remedy,
                ),
            )
        moving = sorted(topic for topic in self.running if topic_ref(topic) in refs)
        return tuple(
            Diagnostic(
                "KF309",
                Severity.INFO,
                f"a partition reassignment of {topic} is running: {describe_running(self.running[topic])}",
                ref=topic_ref(topic),
            )
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an error becomes `unread`."""
    try:
        running = read_running(connection, timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        # A plan goes on without them: the right is Describe on the cluster, which many accounts lack (KF413
        # reports it).
        return Reassignments({}, error.message, error.hint)
    by_topic: dict[str, dict[int, Reassignment]] = defaultdict(dict)
    for (topic, partition), reassignment in running.items():
        by_topic[topic][partition] = reassignment
    return Reassignments(dict(by_topic))


ALTER_TIMEOUT_S = 60.0
"""The time that a controller may take; under load it is slow, not dead."""
BATCH = 1_000
"""The most partitions in one request: a controller refuses requests that need over 10,000 records."""

_PREFERRED = 0
"""The type of an election that makes the preferred replica the leader (ElectionType)."""


def reassign(
    connection: Connection, targets: Mapping[TopicPartition, Replicas | None], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """Start or cancel reassignments, as `Cluster.reassign` does."""

    def send(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, ClusterError | None]]:
        topics = [
            {
                "name": topic,
                "partitions": [{"index": number, "replicas": targets[topic, number]} for number in numbers],
            }
            for topic, numbers in batch.items()
        ]
        request = {"timeout_ms": int(ALTER_TIMEOUT_S * 1000), "topics": topics}
        response = connection.send_to_controller(ALTER_REASSIGNMENTS, request, ALTER_TIMEOUT_S)
        if response["error_code"]:
            raise translate_response(response)
        return (
            (
                (topic["name"], partition["index"]),
                translate_response(partition) if partition["error_code"] else None,
            )
            for topic in response["topics"]
            for partition in topic["partitions"]
        )

    return _send_in_batches(targets, send, guard, partial(name_right, request=ALTER_REASSIGNMENTS.name))


def elect_leaders(
    connection: Connection, partitions: Collection[TopicPartition], guard: Guard
) -> dict[TopicPartition, ClusterError | None]:
    """Elect the preferred replicas as leaders, as `Cluster.elect_leaders` does."""

    def send(batch: Mapping[str, Sequence[int]]) -> Iterable[tuple[TopicPartition, ClusterError | None]]:
        request = {
            "election_type": _PREFERRED,
            "topics": [{"name": topic, "partitions": numbers} for topic, numbers in batch.items()],
            "timeout_ms": int(ALTER_TIMEOUT_S * 1000),
        }
        response = connection.send_to_controller(ELECT_LEADERS, request, ALTER_TIMEOUT_S)
        if response["error_code"]:
            raise translate_response(response)
        return (
            ((topic["name"], partition["index"]), _parse_election(partition))
            for topic in response["topics"]
            for partition in topic["partitions"]
        )

    return _send_in_batches(partitions, send, guard, partial(name_right, request=ELECT_LEADERS.name))


def _parse_election(partition: Mapping[str, Any]) -> ClusterError | None:
    # ELECTION_NOT_NEEDED: the preferred replica leads already.
    if partition["error_code"] in {0, ErrorCode.ELECTION_NOT_NEEDED}:
        return None
    return translate_response(partition)


def _send_in_batches(
    partitions: Collection[TopicPartition],
    send: Callable[[Mapping[str, Sequence[int]]], Iterable[tuple[TopicPartition, ClusterError | None]]],
    guard: Guard,
    explain: Callable[[ClusterError], ClusterError],
) -> dict[TopicPartition, ClusterError | None]:
    """Send a request about partitions in batches; returns the outcome of each partition."""
    remaining = list(partitions)
    outcomes: dict[TopicPartition, ClusterError | None] = {}
    for start in range(0, len(remaining), BATCH):
        batch = remaining[start : start + BATCH]
        try:
            guard()
        except LockLost as lost:
            # The batches before were sent, and keep their outcomes.
            return {**outcomes, **dict.fromkeys(remaining[start:], lost)}
        outcomes.update(
            # Until the response says otherwise: the controller may have carried out what its response omits.
            dict.fromkeys(batch, OutcomeUnknown("the controller's response does not include this partition"))
        )
        try:
            outcomes.update(
                (partition, explain(error) if error is not None else None)
                for partition, error in send(group_by_topic(batch))
            )
        except KafkaformError as error:
            failure = (
                error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
            )
            outcomes.update(dict.fromkeys(batch, explain(failure)))
    return outcomes
