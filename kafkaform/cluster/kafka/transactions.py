"""Reading the open transactions of a real cluster, as KIP-664 describes.

Two ListOffsets requests to each leader find the partitions whose last stable offset is before the end of the
log. Only of these are the producers read from the leaders, and the transactions from the coordinators.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.log_spans import query_leaders, query_undecided, read_leaders
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, translate_code, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import BROKER_CONFIGS, METADATA
from kafkaform.cluster.wire.messages import DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from kafkaform.core.errors import ClusterError, NotOffered
from kafkaform.core.partitions import LogSpan, TopicPartition, group_by_topic
from kafkaform.core.transactions import (
    DEFAULT_MAX_TIMEOUT_MS,
    GRACE_MS,
    OpenTransaction,
    ProducerReading,
    ProducerState,
    TransactionReading,
)
from kafkaform.core.values import Value
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_LEADERLESS = MISSING | {ErrorCode.LEADER_NOT_AVAILABLE}
"""The codes of partitions that are deleted or have no leader, which another rule reports."""
_HIDDEN = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND})
"""The codes of transactions that have ended since, or that this account may not describe."""


class _Producer(Value):
    """A producer, as the leader of a partition describes it.

    Attributes:
        start: The first offset of its open transaction; -1 if it has none.
        coordinator_epoch: The epoch of the last marker that ended one of its transactions here; -1 if none.
    """

    id: int
    epoch: int
    start: int
    written_ms: int
    sequence: int
    coordinator_epoch: int

    @property
    def is_transactional(self) -> bool:
        return self.start >= 0 or self.coordinator_epoch >= 0


class _CoordinatedTransaction(Value):
    """A transaction as its coordinator describes it."""

    transactional_id: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]


def read_open_transactions(
    connection: Connection, partitions: Collection[TopicPartition]
) -> TransactionReading:
    """Read open transactions, as `Cluster.open_transactions` does."""
    reading = query_undecided(connection, partitions)
    unread = _explain_failures({p: f.error for p, f in reading.failed.items() if f.code not in _LEADERLESS})
    # A log whose last stable offset is its end has no open transaction.
    undecided = {p: span for p, span in reading.spans.items() if span.start < span.end}
    if not undecided:
        return TransactionReading((), unread)
    producers, failed = _read_open(connection, undecided)
    coordinated, failures = _read_coordinated(
        connection, {producer.id for described in producers.values() for producer in described}
    )
    now_ms = time.time_ns() // 1_000_000
    open_transactions: list[OpenTransaction] = []
    uncoordinated: dict[TopicPartition, list[_Producer]] = defaultdict(list)
    for partition, described in producers.items():
        for producer in described:
            known = coordinated.get(producer.id)
            # Hanging, by KIP-664: the leader has an open transaction that no coordinator will end.
            if known is None or partition not in known.partitions:
                uncoordinated[partition].append(producer)
                continue
            transaction = OpenTransaction(
                partition,
                producer.start,
                undecided[partition].end,
                max(0, now_ms - known.started_ms),
                known.timeout_ms,
                (producer.id, producer.epoch),
                known.transactional_id,
                coordinated=True,
            )
            open_transactions.append(transaction)
    if uncoordinated or failed:
        # Without a coordinator, the timeout is unknown: no transaction may be open for longer than brokers
        # allow.
        longest = _read_max_timeout(connection)
        names = {number: known.transactional_id for number, known in coordinated.items()}
        open_transactions += _read_uncoordinated(connection, uncoordinated, undecided, names, longest)
        open_transactions += _describe_unknown(connection, failed, undecided, longest, now_ms)
    open_transactions.sort(key=lambda transaction: (transaction.partition, transaction.start))
    # A coordinator that fails only matters where a transaction has none: it may be the one.
    return TransactionReading(tuple(open_transactions), unread or (failures if uncoordinated else ""))


def _read_uncoordinated(
    connection: Connection,
    uncoordinated: Mapping[TopicPartition, Sequence[_Producer]],
    undecided: Mapping[TopicPartition, LogSpan],
    names: Mapping[int, str],
    max_timeout_ms: int,
) -> Iterator[OpenTransaction]:
    """Yield the transactions that no coordinator has, unless they have ended meanwhile."""
    if not uncoordinated:
        return
    # A coordinator drops a transaction before the leaders have its markers: only what is still open now
    # hangs.
    producers, failed = _read_open(connection, uncoordinated)
    now_ms = time.time_ns() // 1_000_000
    for partition, described in uncoordinated.items():
        still_open = {(producer.id, producer.start) for producer in producers.get(partition, ())}
        for producer in described:
            if partition in failed or (producer.id, producer.start) in still_open:
                yield OpenTransaction(
                    partition,
                    producer.start,
                    undecided[partition].end,
                    max(0, now_ms - producer.written_ms) if producer.written_ms >= 0 else 0,
                    max_timeout_ms,
                    (producer.id, producer.epoch),
                    names.get(producer.id),
                )


def _describe_unknown(
    connection: Connection,
    failed: Mapping[TopicPartition, ClusterError],
    undecided: Mapping[TopicPartition, LogSpan],
    max_timeout_ms: int,
    now_ms: int,
) -> Iterator[OpenTransaction]:
    """Yield the transactions whose producers could not be read, with an age limit by timestamps."""
    if not failed:
        return
    limit_ms = max_timeout_ms + GRACE_MS
    spans = query_leaders(connection, failed, now_ms - limit_ms).spans
    for partition, error in failed.items():
        start, end = undecided[partition].start, undecided[partition].end
        # All records before the first one that is young enough are older than the limit.
        is_old = partition in spans and start < (spans[partition].at or 0)
        age_ms = limit_ms if is_old else 0
        yield OpenTransaction(partition, start, end, age_ms, max_timeout_ms, unknown=error.message)


def read_transactional(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, bool]:
    """Return whether transactions write to partitions, as `Cluster.transactional` does."""
    producers, _ = _read_producers(connection, partitions)
    return {
        partition: any(p.is_transactional for p in described) for partition, described in producers.items()
    }


def read_producers(connection: Connection, partitions: Collection[TopicPartition]) -> ProducerReading:
    """Read the producers that leaders remember, as `Cluster.producers` does."""
    by_partition, failed = _read_producers(connection, partitions)
    described = [(partition, each) for partition in sorted(by_partition) for each in by_partition[partition]]
    transactional = {producer.id for _, producer in described if producer.is_transactional}
    listed, failures = _list_transactions(connection, transactional)
    coordinators = {number: (name, node) for node, names in listed.items() for name, number in names.items()}
    return ProducerReading(
        tuple(
            ProducerState(
                partition,
                producer.id,
                producer.epoch,
                producer.written_ms,
                producer.sequence,
                *coordinators.get(producer.id, (None, None)),
            )
            for partition, producer in described
        ),
        _explain_failures(failed) or next(iter(failures), ""),
    )


def _read_open(
    connection: Connection, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, list[_Producer]], dict[TopicPartition, ClusterError]]:
    """Return the producers with an open transaction, and the errors, by partition."""
    producers, failed = _read_producers(connection, partitions)
    return {
        partition: [p for p in described if p.start >= 0] for partition, described in producers.items()
    }, failed


def _read_producers(
    connection: Connection, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, list[_Producer]], dict[TopicPartition, ClusterError]]:
    """Return the producers and the errors, by partition."""
    leaders, unled = read_leaders(connection, partitions)
    failed = {partition: failure.error for partition, failure in unled.items()}
    requests = {}
    for node, led in leaders.items():
        topics = [{"name": name, "partitions": numbers} for name, numbers in group_by_topic(led).items()]
        requests[node] = [{"topics": topics}]
    producers: dict[TopicPartition, list[_Producer]] = {}
    for node, result in connection.send_to_nodes(DESCRIBE_PRODUCERS, requests, READ_TIMEOUT_S).items():
        if isinstance(result, ClusterError):
            failed.update(dict.fromkeys(leaders[node], result))
            continue
        for topic in result[0]["topics"]:
            for response in topic["partitions"]:
                partition = topic["name"], response["index"]
                if response["error_code"]:
                    failed[partition] = name_right(
                        translate_response(response), "DescribeProducers", topic["name"]
                    )
                else:
                    producers[partition] = [
                        _Producer(
                            p["id"],
                            p["epoch"],
                            p["start"],
                            p["written_ms"],
                            p["sequence"],
                            p["coordinator_epoch"],
                        )
                        for p in response["producers"]
                    ]
    return producers, {p: error for p, error in failed.items() if p in partitions}


def _read_coordinated(
    connection: Connection, producers: Collection[int]
) -> tuple[dict[int, _CoordinatedTransaction], str]:
    """Return the coordinators' transactions by producer id, and the first error, if any."""
    listed, failures = _list_transactions(connection, producers)
    coordinated: dict[int, _CoordinatedTransaction] = {}
    requests = {node: [{"transactional_ids": [*names]}] for node, names in listed.items()}
    for node, result in connection.send_to_nodes(DESCRIBE_TRANSACTIONS, requests, READ_TIMEOUT_S).items():
        if isinstance(result, ClusterError):
            failures.append(result.message)
            continue
        for response in result[0]["transactions"]:
            code = response["error_code"]
            if not code:
                coordinated[response["producer_id"]] = _CoordinatedTransaction(
                    response["transactional_id"],
                    response["timeout_ms"],
                    response["started_ms"],
                    frozenset((t["name"], number) for t in response["topics"] for number in t["partitions"]),
                )
            elif code not in _HIDDEN:
                failures.append(f"broker {node}: {translate_code(code, '').message}")
    return coordinated, failures[0] if failures else ""


def _list_transactions(
    connection: Connection, producers: Collection[int]
) -> tuple[dict[int, dict[str, int]], list[str]]:
    """Return producers by coordinator, the broker that lists them, and transactional id; and the errors."""
    if not producers:
        return {}, []
    request = {"states": (), "producer_ids": sorted(producers)}
    failures: list[str] = []
    listed: dict[int, dict[str, int]] = {}
    for node, response in connection.send_to_each(LIST_TRANSACTIONS, request, READ_TIMEOUT_S).items():
        if isinstance(response, ClusterError):
            # Brokers before Kafka 3.0 list no transactions: the age of the last record decides.
            failures += [] if isinstance(response, NotOffered) else [response.message]
        elif response["error_code"]:
            failures.append(f"broker {node}: {translate_code(response['error_code'], '').message}")
        elif response["transactions"]:
            listed[node] = {
                each["transactional_id"]: each["producer_id"] for each in response["transactions"]
            }
    return listed, failures


def _read_max_timeout(connection: Connection) -> int:
    """Return the longest timeout that brokers allow, in milliseconds; Kafka's default if unread."""
    (metadata,) = connection.send(METADATA, [()])
    # The same request goes to all brokers: each responds for itself, and refuses the other entries.
    request = {str(broker): [_MAX_TIMEOUT] for broker in metadata.brokers}
    values = [
        int(value)
        for response in connection.send_to_each(BROKER_CONFIGS, request, READ_TIMEOUT_S).values()
        if not isinstance(response, ClusterError)
        for described in response
        if not described.error_code
        and (value := described.configs.effective.get(_MAX_TIMEOUT) or "").isdecimal()
    ]
    # Any broker may coordinate the transaction: the one that allows most decides.
    return max(values, default=DEFAULT_MAX_TIMEOUT_MS)


def _explain_failures(failed: Mapping[TopicPartition, ClusterError]) -> str:
    for (topic, number), error in sorted(failed.items()):
        return f"{counted(len(failed), 'partition')}, such as {topic}:{number}: {error.message}"
    return ""
