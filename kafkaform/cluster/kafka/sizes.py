"""The sizes of topics, and of the volumes that hold them, from the brokers' log directories."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.messages import LOG_DIRS
from kafkaform.core.errors import ClusterError, NotOffered
from kafkaform.core.health import LogDir
from kafkaform.core.model import DataSize
from kafkaform.resources.topic.live import topic_live

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.layout import TopicPartition
    from kafkaform.core.model import Observed, ResourceRef


TIMEOUT_S = 10.0
"""The time that a broker may take to look into its folders; one that does not answer is left out."""


def read_sizes(connection: Connection, topics: Collection[Observed]) -> dict[ResourceRef, DataSize]:
    """Return how much data each topic holds.

    A partition that none of its brokers lists counts as unread if one of them does not answer, or has a log
    directory that is offline. Otherwise brokers have not opened its log yet, which takes them about a second
    after its creation: it holds nothing. A topic is left out if this account may not see it.
    """
    counts = {topic.ref: count for topic in topics if isinstance(count := topic.state["partitions"], int)}
    asked = [(ref.name, number) for ref, count in counts.items() for number in range(count)]
    reading = _read_replicas(connection, asked)
    largest = _largest(reading.sizes)
    sizes = {}
    for topic in topics:
        if topic.ref not in counts:
            continue
        name, count = topic.ref.name, counts[topic.ref]
        places = topic_live(topic).replicas
        known = [size for number in range(count) if (size := largest.get((name, number))) is not None]
        unread = [
            number
            for number in range(count)
            if (name, number) not in largest
            and not (number < len(places) and reading.complete.issuperset(places[number]))
        ]
        silent = {broker for number in unread if number < len(places) for broker in places[number]}
        silent -= reading.answered
        if silent or len(unread) < count:
            sizes[topic.ref] = DataSize(sum(known), count, len(unread), tuple(sorted(silent)))
    return sizes


def read_partition_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int]:
    """The bytes of each partition, one replica counted: the largest, as others may lag.

    One of which no broker tells anything is left out.
    """
    return _largest(read_replica_sizes(connection, partitions))


def _largest(replicas: Mapping[tuple[str, int, int], int]) -> dict[TopicPartition, int]:
    largest: dict[TopicPartition, int] = {}
    for (name, partition, _), size in replicas.items():
        largest[name, partition] = max(size, largest.get((name, partition), 0))
    return largest


def read_replica_sizes(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[tuple[str, int, int], int]:
    """See `Cluster.replica_sizes`; raises why no broker at all answers."""
    return _read_replicas(connection, partitions).sizes


class _ReplicaReading(NamedTuple):
    """The bytes of replicas, and the brokers that answered: those with all of their log directories apart."""

    sizes: dict[tuple[str, int, int], int]
    answered: frozenset[int] = frozenset()
    complete: frozenset[int] = frozenset()


def _read_replicas(connection: Connection, partitions: Collection[TopicPartition]) -> _ReplicaReading:
    """Read the bytes of replicas; raises why no broker at all answers."""
    asked: dict[str, list[int]] = defaultdict(list)
    for name, partition in partitions:
        asked[name].append(partition)
    if not asked:
        return _ReplicaReading({})

    topics = [{"name": name, "partitions": partitions} for name, partitions in asked.items()]
    answers = connection.ask_each(LOG_DIRS, {"topics": topics}, TIMEOUT_S)
    failures = [answer for answer in answers.values() if isinstance(answer, ClusterError)]
    if failures and len(failures) == len(answers):
        raise failures[0]
    answered = {broker: answer for broker, answer in answers.items() if not isinstance(answer, ClusterError)}
    sizes = {
        (topic["name"], partition["index"], broker): partition["size"]
        for broker, answer in answered.items()
        for folder in answer["results"]
        for topic in folder["topics"]
        for partition in topic["partitions"]
        if not partition["future"]
    }
    # Without the right to see them, there are no directories at all.
    complete = {
        broker
        for broker, answer in answered.items()
        if answer["results"] and not any(folder["error_code"] for folder in answer["results"])
    }
    return _ReplicaReading(sizes, frozenset(answered), frozenset(complete))


def read_log_dirs(
    connection: Connection, timeout_s: float
) -> tuple[tuple[LogDir, ...], dict[int, ClusterError]]:
    """Return the log directories of the brokers that report them.

    Args:
        connection: The cluster.
        timeout_s: How long a broker may take.

    Returns:
        The directories by broker and path, none if the brokers are older than Kafka 3.3; and the errors of
        the brokers that could not be read.

    Raises:
        NotOffered: No broker has the request.
        KafkaformError: Nobody can be asked.
    """
    found: list[LogDir] = []
    unread: dict[int, ClusterError] = {}
    answers = connection.ask_each(LOG_DIRS, {"topics": ()}, timeout_s)
    lacking = [answer for answer in answers.values() if isinstance(answer, NotOffered)]
    if lacking and len(lacking) == len(answers):
        raise lacking[0]
    for broker, answer in sorted(answers.items()):
        if isinstance(answer, ClusterError):
            unread[broker] = answer
        elif answer["error_code"]:
            error = translate_code(answer["error_code"], "")
            unread[broker] = name_right(error, LOG_DIRS.name)
        else:
            found += [
                _log_dir(broker, log_dir)
                for log_dir in answer["results"]
                if log_dir["total"] >= 0 or log_dir["error_code"]
            ]
    return tuple(sorted(found, key=lambda log_dir: (log_dir.broker, log_dir.path))), unread


def _log_dir(broker: int, described: Mapping[str, Any]) -> LogDir:
    if described["error_code"]:  # KAFKA_STORAGE_ERROR: it is offline
        return LogDir(broker, described["log_dir"], None)
    return LogDir(broker, described["log_dir"], max(0, described["total"]), max(0, described["usable"]))
