"""Committing offsets for groups on a real cluster: first ones, and resets."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from confluent_kafka import (
    KafkaError,
)

from kafkaform.cluster.kafka import admin_groups, coordinators
from kafkaform.cluster.kafka.group_listing import list_groups
from kafkaform.cluster.kafka.groups import read_each_committed
from kafkaform.cluster.kafka.log_spans import LogFailure, LogReading, ask_leaders, read_partition_counts
from kafkaform.cluster.protocol import SETTLE_TIMEOUT_S
from kafkaform.cluster.transport.translation import MISSING, MOVING, UNSETTLED
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    PermissionDenied,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.offset_spec import (
    Earliest,
    Latest,
    parse_initial,
    time_of,
)
from kafkaform.core.rights import Right, grant
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.groups import Group, LogSpan
    from kafkaform.core.layout import TopicPartition as Partition
    from kafkaform.core.lock import Guard
    from kafkaform.core.offset_spec import InitialSpec
    from kafkaform.core.operations import CommitInitialOffsets, ResetOffsets


Outcome: TypeAlias = "ClusterError | None"
K = TypeVar("K")
V = TypeVar("V")
Place: TypeAlias = "tuple[Partition, InitialSpec]"

WRITE_TIMEOUT_S = 30.0
"""The time that the commits of a group may take."""

PAUSE_S = 0.2
"""The time to wait before asking again for what brokers have not heard of yet."""

_SHOWN = 5
"""The most partitions that an error names."""
_NOT_YET = MOVING | {KafkaError(code).name() for code in UNSETTLED - {KafkaError._TIMED_OUT}}
"""The errors of a broker that has not heard of a topic yet, or is not ready to coordinate a group."""
_UNKNOWN = MISSING | {KafkaError._UNKNOWN_PARTITION}
"""Codes by which a partition is not known to the brokers that were asked for its log."""


def commit_initial_offsets(
    connection: Connection, operations: Sequence[CommitInitialOffsets], guard: Guard
) -> dict[int, Outcome]:
    """See `CommitInitialOffsets`; returns the outcome of each operation by its `id`.

    What a partition or a group fails by is its own: all others go on.
    """
    if not operations:
        return {}
    groups, outcomes = _read(connection, operations)
    ready = [o for o in operations if outcomes[id(o)] is None]
    topics = {topic for o in ready for topic in o.topics}
    counts = _once_known(topics, partial(read_partition_counts, connection))
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
        committed = groups[name].committed if name in groups else {}
        specs[name] = {
            (topic, number): parse_initial(text)
            for topic, text in operation.topics.items()
            for number in range(counts[topic])
            if (topic, number) not in committed
        }
    places, lost = _places(connection, {(p, spec) for of in specs.values() for p, spec in of.items()})
    offsets = {
        name: {p: places[p, spec] for p, spec in of.items() if (p, spec) in places}
        for name, of in specs.items()
    }
    answers = _commit(connection, offsets, guard)
    for operation in ready:
        if (name := operation.ref.name) in specs:
            unread = {p: lost[p, spec] for p, spec in specs[name].items() if (p, spec) in lost}
            outcomes[id(operation)] = _outcome(operation, answers[name] | unread, len(specs[name]))
    return outcomes


def reset_offsets(
    connection: Connection, operations: Sequence[ResetOffsets], guard: Guard
) -> dict[int, Outcome]:
    """See `ResetOffsets`; returns the outcome of each operation by its `id`."""
    if not operations:
        return {}
    _, outcomes = _read(connection, operations)
    reading = ask_leaders(connection, {p for o in operations for p in o.offsets}, None)
    for operation in operations:
        outcomes[id(operation)] = outcomes[id(operation)] or _outside(operation, reading)
    ready = [o for o in operations if outcomes[id(o)] is None]
    answers = _commit(connection, {o.ref.name: o.offsets for o in ready}, guard)
    outcomes.update({id(o): _outcome(o, answers[o.ref.name], len(o.offsets)) for o in ready})
    return outcomes


def _read(
    connection: Connection, operations: Sequence[CommitInitialOffsets | ResetOffsets]
) -> tuple[Mapping[str, Group], dict[int, Outcome]]:
    """Read the groups; returns those that exist, and what stands against each operation by its `id`."""
    names = [o.ref.name for o in operations]
    reading, failed = read_each_committed(connection, list_groups(connection), names)
    failed |= {name: _make_denial(name, why) for name, why in reading.denied.items()}
    groups = reading.groups
    return groups, {id(o): failed.get(o.ref.name) or _obstacle(groups.get(o.ref.name)) for o in operations}


def _make_denial(name: str, why: str) -> PermissionDenied:
    return PermissionDenied(why, hint=f"grant it: {grant(Right('Read', 'group', name))}")  # and so Describe


def _obstacle(group: Group | None) -> Outcome:
    """Find what stands against committing offsets for a group."""
    if group is None:
        return None
    if group.active:
        return RequestRejected(
            f"group {group.name} has {counted(len(group.members), 'member')} and is "
            f"{group.state or 'in use'}: offsets can only be committed for a group without members "
            "(NON_EMPTY_GROUP)",
            code="NON_EMPTY_GROUP",
            hint="stop the members of the group first",
        )
    if group.unread:
        return ClusterError(f"group {group.name} could not be read: {group.unread}")
    return None


def _outside(operation: ResetOffsets, reading: LogReading) -> Outcome:
    problems, unread = [], {}
    for (topic, number), offset in sorted(operation.offsets.items()):
        span = reading.spans.get((topic, number))
        if span is None:
            failure = reading.failed[topic, number]
            if failure.code in _UNKNOWN:
                problems.append(f"{topic}:{number} is not known to the brokers")
            else:
                unread[topic, number] = failure.error
        elif not span.start <= offset <= span.end:
            problems.append(f"{offset} is outside of {topic}:{number}, which has {span.start} to {span.end}")
    if unread:
        return _outcome(operation, unread, len(unread))
    if not problems:
        return None
    return RequestRejected(
        f"{operation.ref}: {_some(problems)} (OFFSET_OUT_OF_RANGE)",
        code="OFFSET_OUT_OF_RANGE",
        hint="the log has changed since: plan the reset again",
    )


def _places(
    connection: Connection, wanted: Collection[Place]
) -> tuple[dict[Place, int], dict[Place, ClusterError]]:
    """The offset of each place, and why the others are not known."""
    now_ms = time.time_ns() // 1_000_000
    by_time: dict[int | None, list[Place]] = {}
    for partition, spec in wanted:
        by_time.setdefault(time_of(spec, now_ms), []).append((partition, spec))
    places: dict[Place, int] = {}
    lost: dict[Place, ClusterError] = {}
    for at_ms, some in by_time.items():
        reading = _once_settled(connection, {partition for partition, _ in some}, at_ms)
        for partition, spec in some:
            if partition in reading.spans:
                places[partition, spec] = _place(spec, reading.spans[partition])
            else:
                lost[partition, spec] = reading.failed[partition].error
    return places, lost


def _once_settled(connection: Connection, partitions: Collection[Partition], at_ms: int | None) -> LogReading:
    """The ends of logs; a partition that may only be too new, or change its leader, is asked for again."""
    failed: dict[Partition, LogFailure] = {}

    def ask(some: Collection[Partition]) -> Mapping[Partition, LogSpan | None]:
        reading = ask_leaders(connection, some, at_ms)
        failed.update(reading.failed)
        final = [p for p, failure in reading.failed.items() if failure.code not in UNSETTLED]
        return {**reading.spans, **dict.fromkeys(final)}

    known = _once_known(partitions, ask)
    spans = {partition: span for partition, span in known.items() if span is not None}
    return LogReading(spans, {p: failure for p, failure in failed.items() if p not in spans})


def _place(spec: InitialSpec, span: LogSpan) -> int:
    match spec:
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case _:
            return span.end if span.at is None else span.at


def _once_known(wanted: Collection[K], ask: Callable[[Collection[K]], Mapping[K, V]]) -> dict[K, V]:
    """Answers about topics or partitions, some of which brokers may not have heard of yet.

    They are given up once nothing new is answered for SETTLE_TIMEOUT_S.
    """
    known: dict[K, V] = {}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while open_ := [each for each in wanted if each not in known]:
        if answers := ask(open_):
            known.update(answers)
            deadline = time.monotonic() + SETTLE_TIMEOUT_S
        if len(known) == len(wanted) or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return known


def _commit(
    connection: Connection, offsets: Mapping[str, Mapping[Partition, int]], guard: Guard
) -> dict[str, dict[Partition, ClusterError]]:
    """Commit offsets; returns for each group the partitions that failed, and why.

    A broker that is not ready yet is asked again, until nothing new was taken for SETTLE_TIMEOUT_S. Once the
    lock is lost, what was never sent fails by that, and what was by the broker's last answer.
    """
    failures: dict[str, dict[Partition, ClusterError]] = {name: {} for name in offsets}
    todo = {name: dict(of) for name, of in offsets.items() if of}
    commit = coordinators.commit if coordinators.are_reachable(connection) else admin_groups.commit
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while todo:
        again: dict[str, dict[Partition, int]] = {}
        for name, wanted in todo.items():
            try:
                guard()
            except LockLost as lost:
                failures[name] = dict.fromkeys(wanted, lost) | failures[name]
                continue
            refused = commit(connection, name, wanted, WRITE_TIMEOUT_S)
            answered = {p: why for p, why in failures[name].items() if p not in wanted}
            failures[name] = answered | refused
            not_yet = {p: wanted[p] for p, error in refused.items() if _is_not_yet(error)}
            if len(not_yet) < len(wanted):
                deadline = time.monotonic() + SETTLE_TIMEOUT_S
            if not_yet and time.monotonic() < deadline:
                again[name] = not_yet
        todo = again
        if todo:
            time.sleep(PAUSE_S)
    return failures


def _is_not_yet(error: ClusterError) -> bool:
    refused = isinstance(error, RequestRejected) and error.code in _NOT_YET
    return refused or isinstance(error, Unreachable)  # the coordinator's broker may be restarting


def _outcome(
    operation: CommitInitialOffsets | ResetOffsets, failures: Mapping[Partition, ClusterError], asked: int
) -> Outcome:
    """One error for all partitions of an operation that failed, of as many as were asked for."""
    if not failures:
        return None
    error = _summed_up(str(operation.ref), failures)
    error.in_part = len(failures) < asked or any(
        type(failure) is not type(error) for failure in failures.values()
    )
    return error


def _summed_up(subject: str, failures: Mapping[Partition, ClusterError]) -> ClusterError:
    """One error that names the partitions that failed, by why."""
    if lost := next((error for error in failures.values() if isinstance(error, LockLost)), None):
        return LockLost(lost.message, hint=lost.hint)
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
