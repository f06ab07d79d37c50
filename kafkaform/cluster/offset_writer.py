"""Committing offsets for groups on a real cluster: first ones, and resets."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from kafkaform.cluster.group_listing import list_groups
from kafkaform.cluster.group_reader import read_committed
from kafkaform.cluster.log_spans import read_log_spans, read_partition_counts
from kafkaform.cluster.translation import (
    MOVING,
    kafka_error,
    translate,
    translate_code,
    translate_error,
)
from kafkaform.errors import ClusterError, LockLost, PermissionDenied, RequestRejected
from kafkaform.offset_spec import Earliest, Latest, parse_initial, time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import GroupReading, LogSpan
    from kafkaform.groups import TopicPartition as Partition
    from kafkaform.lock import Guard
    from kafkaform.offset_spec import InitialSpec
    from kafkaform.operations import CommitInitialOffsets, ResetOffsets

Outcome: TypeAlias = "ClusterError | None"
K = TypeVar("K")
V = TypeVar("V")

SETTLE_TIMEOUT_S = 10.0
"""How long brokers may not know of a topic that was just made, or not be ready to take a commit."""
WRITE_TIMEOUT_S = 30.0
"""How long the commits of a group may take."""

PAUSE_S = 0.2
"""How long to wait before asking again for what brokers have not heard of yet."""

_SHOWN = 5
"""How many partitions an error names."""
_NOT_YET = MOVING | {KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART).name()}
"""How a broker answers that has not heard of a topic yet, or is not ready to coordinate a group."""


def commit_initial_offsets(
    connection: Connection, operations: Sequence[CommitInitialOffsets], guard: Guard
) -> dict[int, Outcome]:
    """See `CommitInitialOffsets`; returns the outcome of each operation by its `id`."""
    if not operations:
        return {}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    reading = _read(connection, [o.ref.name for o in operations])
    outcomes: dict[int, Outcome] = {id(o): _obstacle(reading, o.ref.name) for o in operations}
    ready = [o for o in operations if outcomes[id(o)] is None]
    topics = {topic for o in ready for topic in o.topics}
    counts = _once_known(topics, partial(read_partition_counts, connection), deadline)
    specs: dict[str, dict[Partition, InitialSpec]] = {}
    for operation in ready:
        name = operation.ref.name
        if unknown := sorted(operation.topics.keys() - counts.keys()):
            outcomes[id(operation)] = RequestRejected(
                f"{operation.ref}: {', '.join(unknown)}: no such topic, or this account may not see it",
                code=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART).name(),
                hint="create the topic, or grant Describe on it",
            )
            continue
        committed = reading.groups[name].committed if name in reading.groups else {}
        specs[name] = {
            (topic, number): parse_initial(text)
            for topic, text in operation.topics.items()
            for number in range(counts[topic])
            if (topic, number) not in committed
        }
    places = _places(connection, {(p, spec) for of in specs.values() for p, spec in of.items()}, deadline)
    offsets = {
        name: {p: places[p, spec] for p, spec in of.items() if (p, spec) in places}
        for name, of in specs.items()
    }
    lost = {name: [p for p in of if p not in offsets[name]] for name, of in specs.items()}
    answers = _commit(connection, offsets, deadline, guard)
    for operation in ready:
        if operation.ref.name in specs:
            failures = answers[operation.ref.name] | dict.fromkeys(lost[operation.ref.name], _no_ends())
            outcomes[id(operation)] = _outcome(str(operation.ref), failures)
    return outcomes


def reset_offsets(
    connection: Connection, operations: Sequence[ResetOffsets], guard: Guard
) -> dict[int, Outcome]:
    """See `ResetOffsets`; returns the outcome of each operation by its `id`."""
    if not operations:
        return {}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    reading = _read(connection, [o.ref.name for o in operations])
    outcomes: dict[int, Outcome] = {id(o): _obstacle(reading, o.ref.name) for o in operations}
    spans = read_log_spans(connection, {p for o in operations for p in o.offsets}, None)
    for operation in operations:
        outcomes[id(operation)] = outcomes[id(operation)] or _outside(operation, spans)
    ready = [o for o in operations if outcomes[id(o)] is None]
    answers = _commit(connection, {o.ref.name: o.offsets for o in ready}, deadline, guard)
    outcomes.update({id(o): _outcome(str(o.ref), answers[o.ref.name]) for o in ready})
    return outcomes


def _read(connection: Connection, names: Collection[str]) -> GroupReading:
    return read_committed(connection, list_groups(connection), names)


def _obstacle(reading: GroupReading, name: str) -> Outcome:
    """What stands against committing offsets for a group."""
    if name in reading.denied:
        return PermissionDenied(reading.denied[name])
    group = reading.groups.get(name)
    if group is None:
        return None
    if group.active:
        return RequestRejected(
            f"group {name} has {len(group.members)} members and is {group.state or 'in use'}: offsets can "
            "only be committed for a group without members (NON_EMPTY_GROUP)",
            code="NON_EMPTY_GROUP",
            hint="stop the members of the group first",
        )
    if group.unread:
        return ClusterError(f"group {name} could not be read: {group.unread}")
    return None


def _no_ends() -> ClusterError:
    error = KafkaError.LEADER_NOT_AVAILABLE
    return translate_code(error, "no leader told the ends of its log")


def _outside(operation: ResetOffsets, spans: Mapping[Partition, LogSpan]) -> Outcome:
    problems = []
    for (topic, number), offset in sorted(operation.offsets.items()):
        span = spans.get((topic, number))
        if span is None:
            problems.append(f"{topic}:{number} is not known to the brokers")
        elif not span.start <= offset <= span.end:
            problems.append(f"{offset} is outside of {topic}:{number}, which has {span.start} to {span.end}")
    if not problems:
        return None
    return RequestRejected(
        f"{operation.ref}: {_some(problems)} (OFFSET_OUT_OF_RANGE)",
        code="OFFSET_OUT_OF_RANGE",
        hint="the log has moved since: make the reset again",
    )


def _places(
    connection: Connection, wanted: Collection[tuple[Partition, InitialSpec]], deadline: float
) -> dict[tuple[Partition, InitialSpec], int]:
    """The offset of each place; one whose log nobody tells the ends of is left out."""
    now_ms = time.time_ns() // 1_000_000
    by_time: dict[int | None, list[tuple[Partition, InitialSpec]]] = {}
    for partition, spec in wanted:
        by_time.setdefault(time_of(spec, now_ms), []).append((partition, spec))
    places = {}
    for at_ms, some in by_time.items():
        spans = _once_known(
            {partition for partition, _ in some},
            partial(read_log_spans, connection, at_ms=at_ms),
            deadline,
        )
        for partition, spec in some:
            if partition in spans:
                places[partition, spec] = _place(spec, spans[partition])
    return places


def _place(spec: InitialSpec, span: LogSpan) -> int:
    match spec:
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case _:
            return span.end if span.at is None else span.at


def _once_known(
    wanted: Collection[K], ask: Callable[[Collection[K]], Mapping[K, V]], deadline: float
) -> dict[K, V]:
    """Answers about topics or partitions, some of which brokers may not have heard of yet."""
    known: dict[K, V] = {}
    while open_ := [each for each in wanted if each not in known]:
        known.update(ask(open_))
        if len(known) == len(wanted) or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return known


def _commit(
    connection: Connection, offsets: Mapping[str, Mapping[Partition, int]], deadline: float, guard: Guard
) -> dict[str, dict[Partition, ClusterError]]:
    """Commit offsets; returns for each group the partitions that failed, and why.

    A broker that is not ready yet is asked again. Once the lock is lost, what was never sent fails by that,
    and what was by the broker's last answer.
    """
    failures: dict[str, dict[Partition, ClusterError]] = {name: {} for name in offsets}
    todo = {name: dict(of) for name, of in offsets.items() if of}
    while todo:
        again: dict[str, dict[Partition, int]] = {}
        for name, wanted in todo.items():
            try:
                guard()
            except LockLost as lost:
                failures[name] = dict.fromkeys(wanted, lost) | failures[name]
                continue
            refused = _commit_once(connection, name, wanted)
            answered = {p: why for p, why in failures[name].items() if p not in wanted}
            failures[name] = answered | {p: translate_error(error) for p, error in refused.items()}
            not_yet = {p: wanted[p] for p, error in refused.items() if error.name() in _NOT_YET}
            if not_yet and time.monotonic() < deadline:
                again[name] = not_yet
        todo = again
        if todo:
            time.sleep(PAUSE_S)
    return failures


def _commit_once(
    connection: Connection, group: str, offsets: Mapping[Partition, int]
) -> dict[Partition, KafkaError]:
    """Commit for one group, as the client takes one a call; returns the partitions that failed, and why."""
    partitions = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
    future = connection.reached.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=WRITE_TIMEOUT_S
    )[group]
    try:
        told = future.result()
    except KafkaException as exception:
        error = kafka_error(exception)
        if error is None:
            raise translate(exception) from exception
        return dict.fromkeys(offsets, error)
    # It succeeds where single partitions fail.
    return {
        (each.topic, each.partition): each.error
        for each in told.topic_partitions or ()
        if each.error is not None
    }


def _outcome(subject: str, failures: Mapping[Partition, ClusterError]) -> Outcome:
    """One error that names the partitions that failed, by why."""
    if not failures:
        return None
    if lost := next((error for error in failures.values() if isinstance(error, LockLost)), None):
        return lost
    by_reason: dict[str, list[str]] = {}
    for (topic, number), error in sorted(failures.items(), key=lambda item: item[0]):
        by_reason.setdefault(error.message, []).append(f"{topic}:{number}")
    reasons = "; ".join(f"{_some(partitions, ', ')}: {why}" for why, partitions in by_reason.items())
    message, first = f"{subject}: {reasons}", next(iter(failures.values()))
    if isinstance(first, RequestRejected):
        return RequestRejected(message, code=first.code, hint=first.hint)
    return type(first)(message, hint=first.hint)


def _some(texts: Sequence[str], separator: str = "; ") -> str:
    more = len(texts) - _SHOWN
    return separator.join(texts[:_SHOWN]) + (f"{separator}and {more} more" if more > 0 else "")
