"""Committing offsets for groups on a real cluster: initial ones and resets."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkaform.cluster.kafka import coordinators
from kafkaform.cluster.kafka.group_listing import list_groups
from kafkaform.cluster.kafka.groups import read_committed, read_each_committed
from kafkaform.cluster.kafka.log_spans import LogFailure, LogReading, query_leaders, read_partition_counts
from kafkaform.cluster.kafka.responses import GroupResponses, is_missing, retry_until_ready
from kafkaform.cluster.protocol import SETTLE_TIMEOUT_S
from kafkaform.cluster.transport.translation import MISSING, MOVING, UNSETTLED
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import ClusterError, LockLost, PermissionDenied, RequestRejected, Unreachable
from kafkaform.core.offset_spec import Earliest, InitialSpec, Latest, parse_initial, time_of
from kafkaform.core.rights import Right, grant
from kafkaform.core.wording import code, counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.lock import Guard
    from kafkaform.core.partitions import LogSpan
    from kafkaform.core.partitions import TopicPartition as Partition
    from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, ResetOffsets
    from kafkaform.resources.groups import Group
    from kafkaform.resources.topic.operations import DeleteOffsets

Outcome: TypeAlias = "ClusterError | None"
K = TypeVar("K")
V = TypeVar("V")
OffsetLookup: TypeAlias = "tuple[Partition, InitialSpec]"

WRITE_TIMEOUT_S = 30.0
"""The time that the commits of a group may take."""

PAUSE_S = 0.2
"""The pause before brokers are asked again about new topics."""

_SHOWN = 5
"""The most partitions that an error names."""
_RETRIABLE = MOVING | {code.name for code in UNSETTLED}
"""The codes of a broker that does not know a new topic yet, or is not ready to coordinate a group."""


def commit_initial_offsets(
    connection: Connection, operations: Sequence[CommitInitialOffsets], guard: Guard
) -> dict[object, Outcome]:
    """Carry out `CommitInitialOffsets` operations; returns their outcomes by subject.

    A partition or group that fails does not stop the others.
    """
    groups, outcomes = _read(connection, operations)
    ready = [o for o in operations if outcomes[o.subject] is None]
    # The same apply may have created these topics: brokers know a new topic only a moment after the
    # controller.
    topics = {topic for o in ready for topic in o.topics}
    counts = _retry_until_known(topics, partial(read_partition_counts, connection))
    specs: dict[str, dict[Partition, InitialSpec]] = {}
    for operation in ready:
        name = operation.ref.name
        if unknown := sorted(operation.topics.keys() - counts.keys()):
            outcomes[operation.subject] = RequestRejected(
                f"{operation.ref}: {', '.join(unknown)}: no such topic, or this account may not see it",
                code=ErrorCode.UNKNOWN_TOPIC_OR_PART.name,
                hint="create the topic, or grant Describe on it",
            )
            continue
        committed = groups[name].committed if name in groups else {}
        specs[name] = {
            (topic, number): parse_initial(text)
            for topic, text in operation.topics.items()
            for number in range(counts[topic])
            # An offset that the group has committed is never replaced by an initial one.
            if (topic, number) not in committed
        }
    resolved, unresolved = _find_offsets(
        connection, {(p, spec) for group_offsets in specs.values() for p, spec in group_offsets.items()}
    )
    offsets = {
        name: {p: resolved[p, spec] for p, spec in group_offsets.items() if (p, spec) in resolved}
        for name, group_offsets in specs.items()
    }
    responses = _commit(connection, offsets, guard)
    for operation in ready:
        if (name := operation.ref.name) in specs:
            unread = {p: unresolved[p, spec] for p, spec in specs[name].items() if (p, spec) in unresolved}
            outcomes[operation.subject] = _make_outcome(operation, responses[name] | unread, len(specs[name]))
    return outcomes


def reset_offsets(
    connection: Connection, operations: Sequence[ResetOffsets], guard: Guard
) -> dict[object, Outcome]:
    """Carry out `ResetOffsets` operations; returns their outcomes by subject."""
    _, outcomes = _read(connection, operations)
    reading = query_leaders(connection, {p for o in operations for p in o.offsets}, None)
    for operation in operations:
        outcomes[operation.subject] = outcomes[operation.subject] or _check_range(operation, reading)
    ready = [o for o in operations if outcomes[o.subject] is None]
    responses = _commit(connection, {o.ref.name: o.offsets for o in ready}, guard)
    outcomes.update({o.subject: _make_outcome(o, responses[o.ref.name], len(o.offsets)) for o in ready})
    return outcomes


def delete_offsets(
    connection: Connection, operations: Sequence[DeleteOffsets], guard: Guard
) -> dict[object, Outcome]:
    """Carry out `DeleteOffsets` operations; returns their outcomes by subject."""
    outcomes: dict[object, Outcome] = {}
    for operation in operations:
        try:
            outcomes[operation.subject] = _delete_offsets(connection, operation.ref.name, guard)
        except ClusterError as error:
            outcomes[operation.subject] = error
    return outcomes


def _delete_offsets(connection: Connection, topic: str, guard: Guard) -> Outcome:
    """Delete all offsets in a topic; return the error of the first group that keeps some."""
    # Twice, as a consumer that uses assign() looks idle, and may have committed in between.
    for _ in range(2):
        listing = list_groups(connection)
        groups = read_committed(connection, listing, listing).groups.values()
        for group in groups:
            # Unread: it may be a member of it that reads the topic.
            if group.unread:
                return ClusterError(f"group {group.name} could not be read: {group.unread}")
        readers = [group for group in groups if topic in group.topics]
        if active := [f"{g.name} ({counted(len(g.members), 'member')})" for g in readers if g.active]:
            return RequestRejected(
                f"{topic} is read by {listed(active)}",
                code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC.name,
                hint="stop their members first",
            )
        # KIP-932: brokers keep the position of a share group by the topic's id, so a new topic has none.
        committed = {
            g.name: [p for p in g.committed if p[0] == topic] for g in readers if g.protocol != "share"
        }
        committed = {name: partitions for name, partitions in committed.items() if partitions}
        if not committed:
            return None

        def send(
            names: Collection[str], offsets: Mapping[str, list[Partition]] = committed
        ) -> GroupResponses[None]:
            responses: GroupResponses[None] = GroupResponses()
            for name in names:
                guard()
                responses.update(
                    coordinators.delete_offsets(connection, name, offsets[name], WRITE_TIMEOUT_S)
                )
            return responses

        for name, error in retry_until_ready([*committed], send).failed.items():
            if not is_missing(error):
                return _sum_up(f"group {name}", dict.fromkeys(committed[name], error))
    return RequestRejected(
        f"a consumer without a group membership commits for {listed([*committed])} in {topic}",
        code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC.name,
        hint="stop the consumer, which uses assign() with this group.id",
    )


def _read(
    connection: Connection, operations: Sequence[CommitInitialOffsets | ResetOffsets]
) -> tuple[Mapping[str, Group], dict[object, Outcome]]:
    """Read the groups that exist; also returns the obstacle to each operation, by subject."""
    names = [o.ref.name for o in operations]
    reading, failed = read_each_committed(connection, list_groups(connection), names)
    # Read implies Describe.
    failed |= {
        name: PermissionDenied(why, hint=f"grant it: {code(grant(Right('Read', 'group', name)))}")
        for name, why in reading.denied.items()
    }
    groups = reading.groups
    return groups, {
        o.subject: failed.get(o.ref.name) or _find_obstacle(groups.get(o.ref.name)) for o in operations
    }


def _find_obstacle(group: Group | None) -> Outcome:
    """Return the error that prevents committing offsets for a group, if any."""
    # A commit creates the group (classic, Empty): consumers of either protocol then start at the offset.
    if group is None:
        return None
    # Coordinators refuse it too, for each partition (UNKNOWN_MEMBER_ID); this names the members. Consumers
    # that assign partitions to themselves are no members, and cannot be detected.
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


def _check_range(operation: ResetOffsets, reading: LogReading) -> Outcome:
    problems, unread = [], {}
    for (topic, number), offset in sorted(operation.offsets.items()):
        span = reading.spans.get((topic, number))
        if span is None:
            failure = reading.failed[topic, number]
            if failure.code in MISSING:
                problems.append(f"{topic}:{number} does not exist, or is not visible to this account")
            else:
                unread[topic, number] = failure.error
        # Brokers accept a commit beyond the end of the log; consumers then start by auto.offset.reset.
        elif not span.start <= offset <= span.end:
            problems.append(
                f"{offset} is outside of the log of {topic}:{number} ({span.start} to {span.end})"
            )
    if unread:
        return _make_outcome(operation, unread, len(unread))
    if not problems:
        return None
    return RequestRejected(
        f"{operation.ref}: {_list_some(problems)} (OFFSET_OUT_OF_RANGE)",
        code="OFFSET_OUT_OF_RANGE",
        hint="the log has changed since: plan the reset again",
    )


def _find_offsets(
    connection: Connection, wanted: Collection[OffsetLookup]
) -> tuple[dict[OffsetLookup, int], dict[OffsetLookup, ClusterError]]:
    """Return the offset for each partition and spec, and the errors of the others."""
    # One time for all partitions: a duration such as 7d means the same moment in each.
    now_ms = time.time_ns() // 1_000_000
    by_time: dict[int | None, list[OffsetLookup]] = {}
    for partition, spec in wanted:
        by_time.setdefault(time_of(spec, now_ms), []).append((partition, spec))
    resolved: dict[OffsetLookup, int] = {}
    unresolved: dict[OffsetLookup, ClusterError] = {}
    for at_ms, some in by_time.items():
        reading = _read_settled_logs(connection, {partition for partition, _ in some}, at_ms)
        for partition, spec in some:
            if partition in reading.spans:
                resolved[partition, spec] = _choose_offset(spec, reading.spans[partition])
            else:
                unresolved[partition, spec] = reading.failed[partition].error
    return resolved, unresolved


def _read_settled_logs(
    connection: Connection, partitions: Collection[Partition], at_ms: int | None
) -> LogReading:
    """Read the ends of logs, again for partitions that are new or changing their leader."""
    failed: dict[Partition, LogFailure] = {}

    def send(some: Collection[Partition]) -> Mapping[Partition, LogSpan | None]:
        reading = query_leaders(connection, some, at_ms)
        failed.update(reading.failed)
        final = [p for p, failure in reading.failed.items() if failure.code not in UNSETTLED]
        return {**reading.spans, **dict.fromkeys(final)}

    known = _retry_until_known(partitions, send)
    spans = {partition: span for partition, span in known.items() if span is not None}
    return LogReading(spans, {p: failure for p, failure in failed.items() if p not in spans})


def _choose_offset(spec: InitialSpec, span: LogSpan) -> int:
    match spec:
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case _:
            # No record is as young as that: the group starts with the next one.
            return span.end if span.at is None else span.at


def _retry_until_known(wanted: Collection[K], send: Callable[[Collection[K]], Mapping[K, V]]) -> dict[K, V]:
    """Ask about topics or partitions until brokers know all of them.

    Gives up once there is no new response for SETTLE_TIMEOUT_S.
    """
    known: dict[K, V] = {}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while unknown := [key for key in wanted if key not in known]:
        if responses := send(unknown):
            known.update(responses)
            deadline = time.monotonic() + SETTLE_TIMEOUT_S
        if len(known) == len(wanted) or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    return known


def _commit(
    connection: Connection, offsets: Mapping[str, Mapping[Partition, int]], guard: Guard
) -> dict[str, dict[Partition, ClusterError]]:
    """Commit offsets; returns the errors by group and partition.

    Retries with brokers that are not ready, until none accepts a commit for SETTLE_TIMEOUT_S. Once the lock
    is lost, commits that were never sent fail with LockLost, the others with the broker's last error.
    """
    failures: dict[str, dict[Partition, ClusterError]] = {name: {} for name in offsets}
    remaining = {name: dict(group_offsets) for name, group_offsets in offsets.items() if group_offsets}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while remaining:
        retries: dict[str, dict[Partition, int]] = {}
        for name, wanted in remaining.items():
            try:
                guard()
            except LockLost as lost:
                failures[name] = dict.fromkeys(wanted, lost) | failures[name]
                continue
            # One group per request: each is preceded by its own proof that the lock is held.
            refused = coordinators.commit(connection, name, wanted, WRITE_TIMEOUT_S)
            answered = {p: why for p, why in failures[name].items() if p not in wanted}
            failures[name] = answered | refused
            retriable = {p: wanted[p] for p, error in refused.items() if _is_retriable(error)}
            if len(retriable) < len(wanted):
                deadline = time.monotonic() + SETTLE_TIMEOUT_S
            if retriable and time.monotonic() < deadline:
                retries[name] = retriable
        remaining = retries
        if remaining:
            time.sleep(PAUSE_S)
    return failures


def _is_retriable(error: ClusterError) -> bool:
    refused = isinstance(error, RequestRejected) and error.code in _RETRIABLE
    return refused or isinstance(error, Unreachable)  # the coordinator's broker may be restarting


def _make_outcome(
    operation: CommitInitialOffsets | ResetOffsets, failures: Mapping[Partition, ClusterError], requested: int
) -> Outcome:
    """Return one error for the failed partitions of an operation, out of `requested`; None for none."""
    if not failures:
        return None
    error = _sum_up(str(operation.ref), failures)
    error.is_partial = len(failures) < requested or any(
        type(failure) is not type(error) for failure in failures.values()
    )
    return error


def _sum_up(subject: str, failures: Mapping[Partition, ClusterError]) -> ClusterError:
    """Return one error that lists the failed partitions by reason."""
    # A lost lock is why all later commits were not sent: it outweighs the errors of single partitions.
    if lost := next((error for error in failures.values() if isinstance(error, LockLost)), None):
        return LockLost(lost.message, hint=lost.hint)
    by_reason: dict[str, list[str]] = {}
    for (topic, number), error in sorted(failures.items(), key=lambda item: item[0]):
        by_reason.setdefault(error.message, []).append(f"{topic}:{number}")
    reasons = "; ".join(f"{_list_some(partitions, ', ')}: {why}" for why, partitions in by_reason.items())
    message, first = f"{subject}: {reasons}", next(iter(failures.values()))
    if isinstance(first, RequestRejected):
        return RequestRejected(message, code=first.code, hint=first.hint)
    return type(first)(message, hint=first.hint)


def _list_some(texts: Sequence[str], separator: str = "; ") -> str:
    hidden = len(texts) - _SHOWN
    return separator.join(texts[:_SHOWN]) + (f"{separator}and {hidden} more" if hidden > 0 else "")
