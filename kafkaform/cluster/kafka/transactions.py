"""The open transactions of a real cluster, found as KIP-664 describes.

Two ListOffsets requests to each leader decide which partitions are looked into: those whose last stable
offset is before the end of the log. Of these alone the leaders describe the producers, and the coordinators
the transactions.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka.log_spans import ask_leaders, ask_undecided, read_leaders
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, refusal, translate_code
from kafkaform.cluster.wire.large_answers import BROKER_CONFIGS, METADATA
from kafkaform.cluster.wire.messages import DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from kafkaform.core.errors import ClusterError, NotOffered
from kafkaform.core.transactions import (
    DEFAULT_MAX_TIMEOUT_MS,
    GRACE_MS,
    OpenTransaction,
    TransactionReading,
)
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.groups import LogSpan
    from kafkaform.core.layout import TopicPartition

_MAX_TIMEOUT = "transaction.max.timeout.ms"
_LEADERLESS = MISSING | {KafkaError.LEADER_NOT_AVAILABLE}
"""Codes of partitions that are gone, or that nobody can read: those are for another rule to report."""
_TRANSACTIONAL_ID_NOT_FOUND = 105
_HIDDEN = frozenset({KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _TRANSACTIONAL_ID_NOT_FOUND})
"""Codes of transactions that have gone since they were listed, or that this account may not describe."""


@dataclass(frozen=True, slots=True)
class _Producer:
    """A producer with an open transaction, as the leader of a partition describes it."""

    id: int
    epoch: int
    start: int
    written_ms: int


@dataclass(frozen=True, slots=True)
class _Coordinated:
    """A transaction as its coordinator describes it."""

    transactional_id: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]


def read_open_transactions(
    connection: Connection, partitions: Collection[TopicPartition]
) -> TransactionReading:
    """Read the transactions that are open in partitions; see `Cluster.open_transactions`."""
    reading = ask_undecided(connection, partitions)
    unread = _explain_failures({p: f.error for p, f in reading.failed.items() if f.code not in _LEADERLESS})
    undecided = {p: span for p, span in reading.spans.items() if span.start < span.end}
    if not undecided:
        return TransactionReading((), unread)
    producers, failed = _read_producers(connection, undecided)
    coordinated, silent = _read_coordinated(
        connection, {producer.id for some in producers.values() for producer in some}
    )
    now_ms = time.time_ns() // 1_000_000
    open_transactions: list[OpenTransaction] = []
    lost: dict[TopicPartition, list[_Producer]] = defaultdict(list)
    for partition, some in producers.items():
        for producer in some:
            known = coordinated.get(producer.id)
            if known is None or partition not in known.partitions:
                lost[partition].append(producer)
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
    if lost or failed:
        longest = _read_max_timeout(connection)
        names = {number: known.transactional_id for number, known in coordinated.items()}
        open_transactions += _describe_lost(connection, lost, undecided, names, longest)
        open_transactions += _describe_unknown(connection, failed, undecided, longest, now_ms)
    open_transactions.sort(key=lambda transaction: (transaction.partition, transaction.start))
    return TransactionReading(tuple(open_transactions), unread or (silent if lost else ""))


def _describe_lost(
    connection: Connection,
    lost: Mapping[TopicPartition, Sequence[_Producer]],
    undecided: Mapping[TopicPartition, LogSpan],
    names: Mapping[int, str],
    max_timeout_ms: int,
) -> Iterator[OpenTransaction]:
    """Return the transactions that no coordinator has open, of those that have not ended meanwhile."""
    if not lost:
        return
    producers, failed = _read_producers(connection, lost)
    now_ms = time.time_ns() // 1_000_000
    for partition, some in lost.items():
        still_open = {(producer.id, producer.start) for producer in producers.get(partition, ())}
        for producer in some:
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
    """Return the transactions whose producers could not be read, with as much of their age as times say."""
    if not failed:
        return
    limit_ms = max_timeout_ms + GRACE_MS
    spans = ask_leaders(connection, failed, now_ms - limit_ms).spans
    for partition, error in failed.items():
        start, end = undecided[partition].start, undecided[partition].end
        # Records before the first one that is young enough are all older than that.
        is_old = partition in spans and start < (spans[partition].at or 0)
        age_ms = limit_ms if is_old else 0
        yield OpenTransaction(partition, start, end, age_ms, max_timeout_ms, unknown=error.message)


def _read_producers(
    connection: Connection, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, list[_Producer]], dict[TopicPartition, ClusterError]]:
    """Return the producers with an open transaction by partition, and why others could not be read."""
    leaders, unled = read_leaders(connection, partitions)
    failed = {partition: failure.error for partition, failure in unled.items()}
    requests = {node: [_request(of_node)] for node, of_node in leaders.items()}
    producers: dict[TopicPartition, list[_Producer]] = {}
    for node, result in connection.ask_nodes(DESCRIBE_PRODUCERS, requests, READ_TIMEOUT_S).items():
        if isinstance(result, ClusterError):
            failed.update(dict.fromkeys(leaders[node], result))
            continue
        for topic in result[0]["topics"]:
            for answer in topic["partitions"]:
                partition = topic["name"], answer["index"]
                if answer["error_code"]:
                    failed[partition] = name_right(refusal(answer), "DescribeProducers", topic["name"])
                else:
                    producers[partition] = [
                        _Producer(p["id"], p["epoch"], p["start"], p["written_ms"])
                        for p in answer["producers"]
                        if p["start"] >= 0
                    ]
    return producers, {p: error for p, error in failed.items() if p in partitions}


def _request(partitions: Collection[TopicPartition]) -> Mapping[str, Any]:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        by_topic[topic].append(number)
    return {"topics": [{"name": topic, "partitions": numbers} for topic, numbers in by_topic.items()]}


def _read_coordinated(
    connection: Connection, producers: Collection[int]
) -> tuple[dict[int, _Coordinated], str]:
    """Return the transactions that coordinators have of producers, and why one could not be read."""
    if not producers:
        return {}, ""
    request = {"states": (), "producer_ids": sorted(producers)}
    silent: list[str] = []
    names: dict[int, list[str]] = {}
    for node, answer in connection.ask_each(LIST_TRANSACTIONS, request, READ_TIMEOUT_S).items():
        if isinstance(answer, ClusterError):
            # Brokers before Kafka 3.0 list none; the age of the last record decides.
            silent += [] if isinstance(answer, NotOffered) else [answer.message]
        elif answer["error_code"]:
            silent.append(f"broker {node}: {translate_code(answer['error_code'], '').message}")
        elif answer["transactions"]:
            names[node] = [transaction["transactional_id"] for transaction in answer["transactions"]]
    coordinated: dict[int, _Coordinated] = {}
    # The broker that lists a transaction coordinates it.
    requests = {node: [{"transactional_ids": some}] for node, some in names.items()}
    for node, result in connection.ask_nodes(DESCRIBE_TRANSACTIONS, requests, READ_TIMEOUT_S).items():
        if isinstance(result, ClusterError):
            silent.append(result.message)
            continue
        for answer in result[0]["transactions"]:
            code = answer["error_code"]
            if not code:
                coordinated[answer["producer_id"]] = _Coordinated(
                    answer["transactional_id"],
                    answer["timeout_ms"],
                    answer["started_ms"],
                    frozenset((t["name"], number) for t in answer["topics"] for number in t["partitions"]),
                )
            elif code not in _HIDDEN:
                silent.append(f"broker {node}: {translate_code(code, '').message}")
    return coordinated, silent[0] if silent else ""


def _read_max_timeout(connection: Connection) -> int:
    """Return the longest timeout that a producer may ask for, in milliseconds; Kafka's default if unread."""
    (metadata,) = connection.ask(METADATA, [()])
    # One request for all brokers, sent to each: a broker answers for itself, and refuses the others.
    request = {str(broker): [_MAX_TIMEOUT] for broker in metadata.brokers}
    values = [
        int(value)
        for answer in connection.ask_each(BROKER_CONFIGS, request, READ_TIMEOUT_S).values()
        if not isinstance(answer, ClusterError)
        for described in answer
        if not described.error_code
        and (value := described.configs.effective.get(_MAX_TIMEOUT) or "").isdecimal()
    ]
    return max(values, default=DEFAULT_MAX_TIMEOUT_MS)


def _explain_failures(failed: Mapping[TopicPartition, ClusterError]) -> str:
    for (topic, number), error in sorted(failed.items()):
        return f"{counted(len(failed), 'partition')}, such as {topic}:{number}: {error.message}"
    return ""
