"""Running partition reassignments: during one, metadata shows the old replicas and the new ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from struct import pack
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.transport.api import READ_TIMEOUT_S, Api, RequestType
from kafkaform.cluster.transport.kafka_python import retried
from kafkaform.cluster.transport.translation import one_line, translate_code
from kafkaform.cluster.wire import large_answers
from kafkaform.cluster.wire.message_schema import INT16, INT32, NULLABLE_STRING, STRING, array, struct, whole
from kafkaform.cluster.wire.partitions import PLACEMENT
from kafkaform.core.errors import KafkaformError
from kafkaform.core.layout import Reassignment
from kafkaform.core.model import Diagnostic, ResourceRef, Severity
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Replicas


_PARTITION = struct(index=INT32, replicas=array(INT32), adding=array(INT32), removing=array(INT32))
_RUNNING = RequestType(
    Api(46, 0, flexible=True, name="ListPartitionReassignments"),
    whole(
        struct(
            throttle_ms=INT32,
            error_code=INT16,
            error_message=NULLABLE_STRING,
            topics=array(struct(name=STRING, partitions=array(_PARTITION))),
        )
    ),
)
"""ListPartitionReassignmentsRequest.json and its response."""


def read_running(connection: Connection, timeout_s: float) -> dict[TopicPartition, Reassignment]:
    """Read the reassignments that are running (KIP-455)."""
    answer = retried(lambda: _answer(connection, timeout_s))
    if answer["error_code"]:
        raise translate_code(answer["error_code"], one_line(answer["error_message"] or ""))
    return {
        (topic["name"], partition["index"]): Reassignment(
            tuple(broker for broker in partition["replicas"] if broker not in partition["removing"]),
            frozenset(partition["adding"]),
            frozenset(partition["removing"]),
        )
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


def _answer(connection: Connection, timeout_s: float) -> Any:
    every_topic, no_tags = b"\x00", b"\x00"
    body = pack(">i", int(timeout_s * 1000)) + every_topic + no_tags
    (answer,) = connection.ask(_RUNNING, [body], timeout_s=timeout_s)
    if answer["error_code"] == KafkaError.NOT_CONTROLLER:  # where ZooKeeper elects it, it is asked itself
        (placement,) = connection.ask(PLACEMENT, [large_answers.metadata_of_no_topic()], timeout_s=timeout_s)
        (answer,) = connection.ask(_RUNNING, [body], node=placement.controller, timeout_s=timeout_s)
    return answer


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The replicas that running reassignments lead to.

    Attributes:
        targets: By topic, the replicas that each moving partition will have.
        unread: Why running reassignments could not be read, or None.
    """

    targets: Mapping[str, Mapping[int, Replicas]]
    unread: str | None = None

    def moving(self, topic: str) -> Mapping[int, Replicas]:
        """The same for one topic."""
        return self.targets.get(topic, {})

    def diagnostics(self, refs: Collection[ResourceRef]) -> tuple[Diagnostic, ...]:
        """What the reader of a plan about some resources must know."""
        if self.unread is not None:
            return (
                Diagnostic(
                    "KF413",
                    Severity.INFO,
                    f"running reassignments were not read ({self.unread}): a replication factor that differs "
                    "may be one that is being changed right now",
                ),
            )
        moving = sorted(topic for topic in self.targets if topic_ref(topic) in refs)
        return tuple(
            Diagnostic(
                "KF309",
                Severity.INFO,
                f"a partition reassignment of {topic} is running",
                ref=topic_ref(topic),
            )
            for topic in moving
        )


def read_reassignments(connection: Connection) -> Reassignments:
    """Read the running reassignments; an account that may not, or a client that cannot, is told of."""
    try:
        running = read_running(connection, timeout_s=READ_TIMEOUT_S)
    except KafkaformError as error:
        return Reassignments({}, error.message)
    targets: dict[str, dict[int, Replicas]] = defaultdict(dict)
    for (topic, partition), reassignment in running.items():
        targets[topic][partition] = reassignment.target
    return Reassignments(dict(targets))
