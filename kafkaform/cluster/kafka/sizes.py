"""Reading the sizes of topics and volumes from the brokers' log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.messages import LOG_DIRS
from kafkaform.core.errors import ClusterError, NotOffered
from kafkaform.core.health import LogDir
from kafkaform.core.model import DataSize, Observed, ResourceRef
from kafkaform.core.partitions import TopicPartition, group_by_topic
from kafkaform.resources.replicas.facts import get_replicas

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection

TIMEOUT_S = 10.0
"""The time that a broker may take to describe its log directories."""


def read_sizes(connection: Connection, topics: Collection[Observed]) -> dict[ResourceRef, DataSize]:
    """Return how much data each topic holds.

    A partition that none of its brokers lists counts as unread if one of them does not answer, or has an
    offline log directory. Otherwise it is empty: brokers open a log about a second after its creation.
    Topics that this account may not see are left out.
    """
    counts = {topic.ref: count for topic in topics if isinstance(count := topic.state["partitions"], int)}
    partitions = [(ref.name, number) for ref, count in counts.items() for number in range(count)]
    reading = _read_replicas(connection, partitions)
    largest = _find_largest(reading.sizes)
    sizes = {}
    for topic in topics:
        if topic.ref not in counts:
            continue
        name, count = topic.ref.name, counts[topic.ref]
        replicas = get_replicas(topic).replicas
        known = [size for number in range(count) if (size := largest.get((name, number))) is not None]
        unread = [
            number
            for number in range(count)
            if (name, number) not in largest
            and not (number < len(replicas) and reading.complete.issuperset(replicas[number]))
        ]
        pending = {broker for number in unread if number < len(replicas) for broker in replicas[number]}
        pending -= reading.answered
        if pending or len(unread) < count:
            sizes[topic.ref] = DataSize(sum(known), count, len(unread), tuple(sorted(pending)))
    return sizes


def read_partition_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the bytes of each partition, of its largest replica, as the others may lag.

    Partitions that no broker reports are left out.
    """
    return _find_largest(read_replica_sizes(connection, partitions))


def _find_largest(replicas: Mapping[tuple[str, int, int], int]) -> dict[TopicPartition, int]:
    largest: dict[TopicPartition, int] = {}
    for (name, partition, _), size in replicas.items():
        largest[name, partition] = max(size, largest.get((name, partition), 0))
    return largest


def read_replica_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[tuple[str, int, int], int]:
    """Return replica sizes, as `Cluster.replica_sizes` does; raises ClusterError if no broker answers."""
    return _read_replicas(connection, partitions).sizes


class _ReplicaReading(NamedTuple):
    """The bytes of replicas, the brokers that answered, and those that described all log directories."""

    sizes: dict[tuple[str, int, int], int]
    answered: frozenset[int] = frozenset()
    complete: frozenset[int] = frozenset()


def _read_replicas(connection: Connection, partitions: Collection[TopicPartition]) -> _ReplicaReading:
    """Read the bytes of replicas; raises ClusterError if no broker answers."""
    if not partitions:
        return _ReplicaReading({})
    topics = [{"name": name, "partitions": own} for name, own in group_by_topic(partitions).items()]
    responses = connection.send_to_each(LOG_DIRS, {"topics": topics}, TIMEOUT_S)
    failures = [response for response in responses.values() if isinstance(response, ClusterError)]
    # Some brokers are enough, as replicas are copies; sizes that are missing all the same are reported as
    # unread.
    if failures and len(failures) == len(responses):
        raise failures[0]
    answered = {
        broker: response for broker, response in responses.items() if not isinstance(response, ClusterError)
    }
    sizes = {
        (topic["name"], partition["index"], broker): partition["size"]
        for broker, response in answered.items()
        for folder in response["results"]
        for topic in folder["topics"]
        for partition in topic["partitions"]
        # A future replica is being copied between two directories of one broker (KIP-113): it is no further
        # replica.
        if not partition["future"]
    }
    # Without the right to see them, an account gets no directories at all.
    complete = {
        broker
        for broker, response in answered.items()
        if response["results"] and not any(folder["error_code"] for folder in response["results"])
    }
    return _ReplicaReading(sizes, frozenset(answered), frozenset(complete))


def read_log_dirs(
    connection: Connection, timeout_s: float
) -> tuple[tuple[LogDir, ...], dict[int, ClusterError]]:
    """Return the log directories of the brokers that report them.

    Args:
        timeout_s: How long a broker may take.

    Returns:
        The directories, ordered by broker and path, none from brokers older than Kafka 3.3; and the errors
        of brokers that could not be read, by id.

    Raises:
        NotOffered: No broker offers the request.
        KafkaformError: No broker can be reached.
    """
    log_dirs: list[LogDir] = []
    unread: dict[int, ClusterError] = {}
    responses = connection.send_to_each(LOG_DIRS, {"topics": ()}, timeout_s)
    lacking = [response for response in responses.values() if isinstance(response, NotOffered)]
    if lacking and len(lacking) == len(responses):
        raise lacking[0]
    for broker, response in sorted(responses.items()):
        if isinstance(response, ClusterError):
            unread[broker] = response
        elif response["error_code"]:
            error = translate_code(response["error_code"], "")
            unread[broker] = name_right(error, LOG_DIRS.name)
        else:
            log_dirs += [
                _make_log_dir(broker, log_dir)
                for log_dir in response["results"]
                # Brokers before Kafka 3.3 report -1: they do not describe volumes (KIP-827). An offline
                # directory is a finding on any version.
                if log_dir["total"] >= 0 or log_dir["error_code"]
            ]
    return tuple(sorted(log_dirs, key=lambda log_dir: (log_dir.broker, log_dir.path))), unread


def _make_log_dir(broker: int, described: Mapping[str, Any]) -> LogDir:
    if described["error_code"]:  # KAFKA_STORAGE_ERROR: it is offline
        return LogDir(broker, described["log_dir"], None)
    return LogDir(broker, described["log_dir"], max(0, described["total"]), max(0, described["usable"]))
