"""Reading the first and last offsets of partitions from their leaders."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kafkaform.cluster.kafka.topic_sources import EXISTING_CODES, describe_topics
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, UNSETTLED, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import METADATA, PartitionMetadata
from kafkaform.cluster.wire.messages import LIST_OFFSETS, OFFSET_FOR_EPOCH
from kafkaform.core.errors import ClusterError, Unreachable
from kafkaform.core.partitions import LogSpan, TimedOffset
from kafkaform.core.values import Value, field
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.partitions import TopicPartition as Partition


# KRaft fences a silent broker after broker.session.timeout.ms, 9 s by default. A command does not wait for
# that: it reports the partition.
LEADER_TIMEOUT_S = 3.0
"""How long to look for leaders that have just moved; metadata names a dead one for up to 9 s longer."""

_PAUSE_S = 0.1
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PART
_LATEST, _EARLIEST = -1, -2
"""The special timestamps of ListOffsets (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)."""
_TOPICS_A_REQUEST = 2_000
_OMITTED = MISSING | UNSETTLED | {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
_MOVED = UNSETTLED - {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PART}
"""The codes of a partition whose leader has moved or is about to: metadata names the new one."""


class ListedOffset(NamedTuple):
    """An offset as a leader returns it.

    Attributes:
        offset: The offset, -1 if there is no such record.
        time_ms: The time of the record there, in milliseconds since 1970; -1 for an end of the log.
        epoch: The epoch of the leader; -1 if it is not reported.
    """

    offset: int
    time_ms: int
    epoch: int


class LogFailure(Value):
    """The failure to read the offsets of a partition.

    Attributes:
        code: The error code of Kafka's protocol.
        error: The error to raise for it.
    """

    code: int
    error: ClusterError


class LogReading(Value):
    """The offsets of logs by partition, as read from leaders.

    Attributes:
        spans: The offsets of the partitions that were read.
        failed: The failures of the others.
    """

    spans: dict[Partition, LogSpan] = field(default_factory=dict)
    failed: dict[Partition, LogFailure] = field(default_factory=dict)


def _make_failure(partition: Partition, code: int) -> ClusterError:
    return name_right(translate_code(code, ""), "ListOffsets", partition[0])


def read_log_spans(
    connection: Connection,
    partitions: Collection[Partition],
    at_ms: int | None,
    leaders: dict[Partition, int],
    *,
    committed: bool = False,
) -> Mapping[Partition, LogSpan]:
    """Read spans, as `Cluster.log_spans` does; adds to `leaders`, which `read_offsets_at` uses."""
    return require_spans(query_leaders(connection, partitions, at_ms, committed=committed, known=leaders))


def require_spans(reading: LogReading) -> Mapping[Partition, LogSpan]:
    """Return the offsets that were read; raises failures other than a missing leader, topic or right."""
    for failure in reading.failed.values():
        if failure.code not in _OMITTED:
            raise failure.error
    return reading.spans


def query_leaders(
    connection: Connection,
    partitions: Collection[Partition],
    at_ms: int | None,
    *,
    committed: bool = False,
    known: dict[Partition, int] | None = None,
) -> LogReading:
    """Read the ends of logs from all leaders concurrently, with one request each.

    Leaders that have moved are looked up and asked again, for up to LEADER_TIMEOUT_S.

    Args:
        partitions: The partitions to read.
        at_ms: Also find the first offset that is not older than this, in milliseconds since 1970.
        committed: End before the first open transaction.
        known: Receives the leaders.

    Raises:
        ClusterError: No leader answers.
    """
    if not partitions:
        return LogReading()
    times = (_EARLIEST, _LATEST) if at_ms is None else (_EARLIEST, _LATEST, at_ms)
    questions = [_make_question(time, committed=committed) for time in times]
    offsets, failed = _retry_until_settled(connection, partitions, questions, {} if known is None else known)
    return LogReading({partition: _make_span(responses) for partition, responses in offsets.items()}, failed)


def read_offsets_at(
    connection: Connection, times: Mapping[Partition, int], leaders: dict[Partition, int]
) -> Mapping[Partition, TimedOffset]:
    """Read offsets by time, as `Cluster.offsets_at` does.

    Args:
        times: The time of each partition, in milliseconds since 1970.
        leaders: The last known leaders, which are asked first; receives new ones.
    """
    if not times:
        return {}
    offsets: dict[Partition, list[ListedOffset]] = {}
    questions = [_Question(times.__getitem__)]
    # Known leaders save the metadata, which takes as long as the offsets (20,000 topics).
    _query_each(connection, _group_by_leader(leaders, times), questions, offsets, {})
    remaining = [partition for partition in times if partition not in offsets]  # their leaders may have moved
    moved_offsets, failed = _retry_until_settled(connection, remaining, questions, leaders)
    require_spans(LogReading(failed=failed))
    # An offset of -1 means that no record is as young as that.
    return {
        partition: TimedOffset(response.offset, response.time_ms)
        for partition, (response,) in (offsets | moved_offsets).items()
        if response.offset >= 0
    }


def read_epoch_ends(connection: Connection, epochs: Mapping[Partition, int]) -> Mapping[Partition, int]:
    """Read where the records of epochs end, as `Cluster.epoch_ends` does."""
    leaders, _ = read_leaders(connection, epochs) if epochs else ({}, {})
    requests = {node: [_make_epoch_request(partitions, epochs)] for node, partitions in leaders.items()}
    ends: dict[Partition, int] = {}
    for responses in connection.send_to_nodes(OFFSET_FOR_EPOCH, requests, READ_TIMEOUT_S).values():
        if isinstance(responses, ClusterError):
            continue  # that leader may have died since: its partitions are left out
        for topic in responses[0]["topics"]:
            for response in topic["partitions"]:
                if not response["error_code"] and response["end_offset"] >= 0:
                    ends[topic["name"], response["index"]] = response["end_offset"]
    return ends


def _make_epoch_request(
    partitions: Collection[Partition], epochs: Mapping[Partition, int]
) -> Mapping[str, object]:
    topics: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for name, number in partitions:
        # -1: the leader does not compare its own epoch with one that this client knows.
        topics[name].append({"index": number, "current_epoch": -1, "epoch": epochs[name, number]})
    return {"replica": -1, "topics": [{"name": name, "partitions": own} for name, own in topics.items()]}


def query_undecided(connection: Connection, partitions: Collection[Partition]) -> LogReading:
    """Read the undecided part of each log: from the last stable offset to the log's end.

    It is empty if no transaction is open. Costs two requests per leader.

    Raises:
        KafkaformError: No leader answers.
    """
    # The end is read first: else records written between the two would look undecided.
    questions = [_make_question(_LATEST, committed=False), _make_question(_LATEST, committed=True)]
    offsets, failed = _retry_until_settled(connection, partitions, questions, {})
    spans = {p: LogSpan(min(stable.offset, end.offset), end.offset) for p, (end, stable) in offsets.items()}
    return LogReading(spans, failed)


class _Question(Value):
    """A question to leaders: the time for each partition, and whether to end before an open transaction."""

    time_of: Callable[[Partition], int]
    committed: bool = False


def _make_question(time_ms: int, *, committed: bool) -> _Question:
    return _Question(lambda _: time_ms, committed)


def _make_span(responses: Sequence[ListedOffset]) -> LogSpan:
    start, end, *timed_offsets = (response.offset for response in responses)
    epoch = responses[1].epoch
    # -1 if no record is as young as that; beyond the end if one was written since the end was read.
    at = (timed_offsets[0] if 0 <= timed_offsets[0] <= end else end) if timed_offsets else None
    return LogSpan(start, end, at, epoch if epoch >= 0 else None)


def _retry_until_settled(
    connection: Connection,
    partitions: Collection[Partition],
    questions: Sequence[_Question],
    known: dict[Partition, int],
) -> tuple[dict[Partition, list[ListedOffset]], dict[Partition, LogFailure]]:
    """Ask leaders for offsets, again where they have moved; returns offsets in the order of the questions.

    Args:
        partitions: The partitions to read.
        questions: The questions to each leader.
        known: Receives the leaders.
    """
    deadline = time.monotonic() + LEADER_TIMEOUT_S
    offsets: dict[Partition, list[ListedOffset]] = {}
    failed: dict[Partition, LogFailure] = {}
    remaining = partitions
    while remaining:
        leaders, unled = read_leaders(connection, remaining)
        failed.update(unled)
        known.update((partition, node) for node, led in leaders.items() for partition in led)
        _query_each(connection, leaders, questions, offsets, failed)
        remaining = [p for p in remaining if p in failed and failed[p].code in _MOVED]
        if remaining and time.monotonic() > deadline:
            break
        if remaining:
            time.sleep(_PAUSE_S)
    return offsets, failed


def _group_by_leader(
    leaders: Mapping[Partition, int], partitions: Collection[Partition]
) -> dict[int, list[Partition]]:
    by_leader: dict[int, list[Partition]] = defaultdict(list)
    for partition in partitions:
        if (node := leaders.get(partition)) is not None:
            by_leader[node].append(partition)
    return by_leader


def read_leaders(
    connection: Connection, partitions: Collection[Partition]
) -> tuple[dict[int, list[Partition]], dict[Partition, LogFailure]]:
    """Return the partitions by leader, and the failures of those without a known leader."""
    topics = sorted({topic for topic, _ in partitions})
    requests = [
        topics[start : start + _TOPICS_A_REQUEST] for start in range(0, len(topics), _TOPICS_A_REQUEST)
    ]
    codes: dict[str, int] = {}
    described: dict[Partition, PartitionMetadata] = {}
    alive: set[int] = set()
    for metadata in connection.send(METADATA, requests):
        alive.update(metadata.brokers)
        for topic in metadata.topics:
            codes[topic.name] = topic.error_code
            described.update({(topic.name, partition.number): partition for partition in topic.partitions})
    leaders: dict[int, list[Partition]] = defaultdict(list)
    failed: dict[Partition, LogFailure] = {}
    for partition in partitions:
        code, known = codes.get(partition[0], _UNKNOWN), described.get(partition)
        if known is not None and known.leader >= 0:
            leaders[known.leader].append(partition)
        # The partition exists, but no replica that may lead it is up.
        elif known is not None and code in EXISTING_CODES:
            failed[partition] = _make_leader_failure(partition, sorted({*known.replicas} - alive))
        else:
            code = _UNKNOWN if code in EXISTING_CODES else code
            failed[partition] = LogFailure(code, _make_failure(partition, code))
    return leaders, failed


def _query_each(
    connection: Connection,
    leaders: Mapping[int, Collection[Partition]],
    questions: Sequence[_Question],
    offsets: dict[Partition, list[ListedOffset]],
    failed: dict[Partition, LogFailure],
) -> None:
    """Ask leaders for offsets; adds to `offsets` and `failed`."""
    requests = {
        node: [_make_query(partitions, question) for question in questions]
        for node, partitions in leaders.items()
    }
    for node, responses in connection.send_to_nodes(LIST_OFFSETS, requests, READ_TIMEOUT_S).items():
        if isinstance(responses, ClusterError):
            # Malformed responses and refused logins are not cured by another leader.
            if not isinstance(responses, Unreachable):
                raise responses
            # A leader that does not answer may have just died: metadata names the next one, so that it counts
            # as moved.
            failure = LogFailure(ErrorCode.NETWORK_EXCEPTION, responses)
            failed.update(dict.fromkeys(leaders[node], failure))
            continue
        read: list[dict[Partition, Mapping[str, int]]] = [
            {
                (topic["name"], own["index"]): own
                for topic in response["topics"]
                for own in topic["partitions"]
            }
            for response in responses
        ]
        for partition in leaders[node]:
            try:
                own = [response[partition] for response in read]
            except KeyError:
                topic, number = partition
                raise ClusterError(f"broker {node} answered ListOffsets without {topic}:{number}") from None
            if code := next((each["error_code"] for each in own if each["error_code"]), None):
                failed[partition] = LogFailure(code, _make_failure(partition, code))
                continue
            offsets[partition] = [
                ListedOffset(each["offset"], each["timestamp"], each["epoch"]) for each in own
            ]
            failed.pop(partition, None)


def _make_query(partitions: Collection[Partition], question: _Question) -> Mapping[str, object]:
    topics: dict[str, list[Mapping[str, int]]] = defaultdict(list)
    for partition in partitions:
        topics[partition[0]].append({"index": partition[1], "timestamp": question.time_of(partition)})
    return {
        "replica": -1,
        "isolation_level": int(question.committed),
        "topics": [{"name": name, "partitions": own} for name, own in topics.items()],
    }


def _make_leader_failure(partition: Partition, down: Sequence[int]) -> LogFailure:
    brokers = listed([f"broker {broker}" for broker in down])
    why = f": {brokers} {'is' if len(down) == 1 else 'are'} down" if down else ""
    error = ClusterError(
        f"{partition[0]}:{partition[1]} has no leader{why}", hint=f"start {brokers}" if down else None
    )
    return LogFailure(ErrorCode.LEADER_NOT_AVAILABLE, error)


def read_partition_counts(connection: Connection, topics: Collection[str]) -> Mapping[str, int]:
    """Return partition counts, as `Cluster.partition_counts` does."""
    descriptions = describe_topics(connection, sorted(topics)).found
    return {name: len(description.replicas) for name, description in descriptions.items()}


def read_topic_ids(connection: Connection, topics: Collection[str]) -> Mapping[str, str]:
    """Return topic ids, as `Cluster.topic_ids` does."""
    descriptions = describe_topics(connection, sorted(topics)).found
    return {name: description.uid for name, description in descriptions.items() if description.uid}
