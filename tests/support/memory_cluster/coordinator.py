"""The rules of a coordinator for groups in memory, and logs: pure, answered as real brokers answer.

The codes were seen on Apache Kafka 4.3.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self, TypeAlias, assert_never

from kafkaform.core import kafka_configs
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.core.offset_spec import Earliest, InitialSpec, Latest, parse_initial, time_of
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.partitions import LogSpan, TimedOffset, TopicPartition
from kafkaform.core.transactions import OpenTransaction, ProducerState
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.groups import Group, Member, Position
from tests.support.memory_cluster.controller import build_rejection, store_config

GroupOperation: TypeAlias = AlterConfigs | CommitInitialOffsets | ResetOffsets | DeleteGroup
"""The operations on a group."""

_ASSIGNORS = {"classic": "range", "consumer": "uniform", "share": "simple"}


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one partition.

    Attributes:
        batches: The first offset of each batch and the time of all its records, in milliseconds since 1970.
        transaction: The transaction that is open.
        transactional: Whether there ever was one.
    """

    start: int = 0
    end: int = 0
    batches: tuple[tuple[int, int], ...] = ()
    transaction: OpenTransaction | None = None
    transactional: bool = False
    producers: tuple[ProducerState, ...] = ()

    def append(self, records: int, timestamp_ms: int) -> Self:
        """The log with so many more records, all of one time."""
        if records < 1:
            raise ValueError(f"a batch of {records} records")
        return replace(self, end=self.end + records, batches=(*self.batches, (self.end, timestamp_ms)))

    def expire(self, start: int) -> Self:
        """The log without what is before an offset."""
        if not self.start <= start <= self.end:
            raise ValueError(f"offset {start} is not within the log ({self.start} to {self.end})")
        return replace(self, start=start)

    def update_producer(self, producer: ProducerState, records: int) -> Self:
        """Return the log whose leader remembers so many more records of a producer."""
        before = next((each for each in self.producers if each.id == producer.id), producer)
        others = [each for each in self.producers if each.id != producer.id]
        state = replace(producer, sequence=before.sequence + records)
        return replace(self, producers=(*others, state))

    def open_transaction(self, transaction: OpenTransaction) -> Self:
        """The log where what is written from now on belongs to an open transaction."""
        return replace(self, transaction=replace(transaction, start=self.end), transactional=True)

    def end_transaction(self, timestamp_ms: int) -> Self:
        """The log once that transaction is at its end, of which a marker tells."""
        return replace(self.append(1, timestamp_ms), transaction=None)

    def span(self, at_ms: int | None = None, *, committed: bool = False) -> LogSpan:
        """The ends of the log, and the offset from which on its records are not older than a time.

        Times need not rise along a log: Kafka too looks for the first record in the order of offsets.
        """
        end = self.transaction.start if committed and self.transaction is not None else self.end
        if at_ms is None:
            return LogSpan(self.start, end, epoch=0)
        record = self.record_at(at_ms)
        return LogSpan(self.start, end, end if record is None else min(end, record.offset), 0)

    def record_at(self, at_ms: int) -> TimedOffset | None:
        """The first record that is not older than a time."""
        firsts = (*(first for first, _ in self.batches), self.end)
        records = (
            TimedOffset(max(first, self.start), timestamp)
            for (first, after), (_, timestamp) in zip(pairwise(firsts), self.batches, strict=True)
            if after > self.start and timestamp >= at_ms
        )
        return next(records, None)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group as a coordinator keeps it.

    Attributes:
        known: Whether a coordinator knows it; one that has only configs is not known.
        configs: Its own configs, which outlive it.
        joined: Whether it ever had a member.
    """

    known: bool = False
    protocol: str = "classic"
    state: str = "Empty"
    assignor: str = ""
    members: tuple[Member, ...] = ()
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    joined: bool = False


NO_GROUP = GroupRecord()


def result(
    before: GroupRecord, operation: GroupOperation, *, logs: Mapping[str, Sequence[Log | None]], now_ms: int
) -> tuple[GroupRecord, RequestRejected | None]:
    """Return the group after an operation (NO_GROUP: nothing is left of it), and the part that was refused.

    The log of a partition without a leader is None.
    """
    match operation:
        case AlterConfigs():
            kept = {name: value for name, value in before.configs.items() if name not in operation.unset}
            given = {
                name: store_config(kafka_configs.group_configs(), "group", name, value)
                for name, value in operation.set.items()
            }
            return replace(before, configs={**kept, **given}), None
        case CommitInitialOffsets(ref=ref, topics=topics):
            _check_inactive(ref.name, before)
            starts = {topic: parse_initial(text) for topic, text in topics.items()}
            first = _first_offsets(before, starts, logs, now_ms)
            lost = sorted(f"{topic}:{number}" for (topic, number), offset in first.items() if offset is None)
            found = {partition: offset for partition, offset in first.items() if offset is not None}
            return _commit_offsets(before, found), _leaderless(ref, lost) if lost else None
        case ResetOffsets(ref=ref, offsets=offsets):
            _check_inactive(ref.name, before)
            problems = [problem for p in sorted(offsets) if (problem := _outside(p, offsets[p], logs))]
            if problems:
                raise build_rejection("OFFSET_OUT_OF_RANGE", f"{ref}: {'; '.join(problems)}")
            return _commit_offsets(before, offsets), None
        case DeleteGroup(ref=ref):
            _check_inactive(ref.name, before)
            kept = {name: value for name, value in before.configs.items() if name not in operation.configs}
            return replace(NO_GROUP, configs=kept), None
        case _:
            assert_never(operation)


def topics_of(operation: GroupOperation) -> set[str]:
    """The topics whose logs an operation is about."""
    match operation:
        case CommitInitialOffsets(topics=topics):
            return set(topics)
        case ResetOffsets(offsets=offsets):
            return {topic for topic, _ in offsets}
        case AlterConfigs() | DeleteGroup():
            return set()
        case _:
            assert_never(operation)


def records(before: GroupRecord, after: GroupRecord) -> int:
    """The number of records that a controller writes to get from one to the other; offsets take none."""
    return len({name for name, _ in before.configs.items() ^ after.configs.items()})


def describe_group(
    name: str, group: GroupRecord, spans: Mapping[TopicPartition, LogSpan] | None = None
) -> Group:
    """Return a group as it is described; the ends of logs are None where they were not asked for."""
    assigned = {partition for member in group.members for partition in member.assignment}
    positions = []
    for partition in sorted({*assigned, *group.offsets}):
        span = (spans or {}).get(partition)
        ends = (span.start, span.end) if span is not None else (None, None)
        positions.append(Position(*partition, group.offsets.get(partition), *ends))
    endless = sorted({p.topic for p in positions if p.end is None}) if spans is not None else []
    return Group(
        name,
        group.protocol,
        group.state,
        protocol_type=group.protocol if group.protocol in {"share", "streams"} else "consumer",
        assignor=group.assignor,
        members=group.members,
        positions=tuple(positions),
        unread=f"the ends of the log of {', '.join(endless)} (no leader)" if endless else "",
        never_joined=group.known and not group.joined,
    )


def join_members(
    before: GroupRecord, protocol: str, members: Sequence[Member], *, state: str, assignor: str | None
) -> GroupRecord:
    """A group that has these members and no others."""
    return replace(
        before,
        known=True,
        joined=True,
        protocol=protocol,
        state=state,
        assignor=_ASSIGNORS.get(protocol, "") if assignor is None else assignor,
        members=tuple(members),
    )


def empty_group(before: GroupRecord) -> GroupRecord:
    """A group whose members have all gone; a classic one forgets its assignor."""
    assignor = "" if before.protocol == "classic" else before.assignor
    return replace(before, state="Empty", assignor=assignor, members=())


def remove_topic(before: GroupRecord, topic: str) -> GroupRecord:
    """A group after the deletion of a topic: its offsets there are gone, the group itself is not."""
    return replace(before, offsets={p: offset for p, offset in before.offsets.items() if p[0] != topic})


def forget_topic(name: str, before: GroupRecord, topic: str) -> GroupRecord:
    """A group without its offsets in a topic; refused while a member reads it. A share group keeps none."""
    group = describe_group(name, before)
    if topic in group.topics and group.active:
        raise build_rejection(
            "GROUP_SUBSCRIBED_TO_TOPIC",
            f"{topic} is read by {name} ({counted(len(group.members), 'member')})",
        )
    return before if before.protocol == "share" else remove_topic(before, topic)


def dealt(partitions: Sequence[TopicPartition], members: int) -> tuple[Member, ...]:
    """So many members with the partitions dealt to them in turn; those that are left over have none."""
    return tuple(
        Member(
            f"member-{number}",
            client_id=f"client-{number}",
            host="127.0.0.1",
            assignment=frozenset(partitions[number::members]),
        )
        for number in range(members)
    )


def _first_offsets(
    group: GroupRecord,
    starts: Mapping[str, InitialSpec],
    logs: Mapping[str, Sequence[Log | None]],
    now_ms: int,
) -> dict[TopicPartition, int | None]:
    """The first offset in each partition without one; None where nobody tells the ends of its log."""
    missing = [topic for topic in starts if topic not in logs]
    if missing:
        raise build_rejection("UNKNOWN_TOPIC_OR_PART", f"no such topic: {', '.join(missing)}")
    first: dict[TopicPartition, int | None] = {}
    for topic, spec in starts.items():
        for number, log in enumerate(logs[topic]):
            if (topic, number) not in group.offsets:
                span = None if log is None else log.span(time_of(spec, now_ms))
                first[topic, number] = None if span is None else _start(spec, span)
    return first


def _start(spec: InitialSpec, span: LogSpan) -> int:
    match spec:
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case _:
            return span.end if span.at is None else span.at


def _leaderless(ref: ResourceRef, partitions: Sequence[str]) -> RequestRejected:
    return build_rejection(
        "LEADER_NOT_AVAILABLE", f"{ref}: {', '.join(partitions)}: no leader told the ends of its log"
    )


def _outside(partition: TopicPartition, offset: int, logs: Mapping[str, Sequence[Log | None]]) -> str | None:
    topic, number = partition
    name, partitions = f"{topic}:{number}", logs.get(topic, ())
    log = partitions[number] if 0 <= number < len(partitions) else None
    if log is None:
        return f"{name} does not exist, or is not visible to this account"
    if log.start <= offset <= log.end:
        return None
    return f"{offset} is outside of the log of {name} ({log.start} to {log.end})"


def _check_inactive(name: str, group: GroupRecord) -> None:
    if group.known and describe_group(name, group).active:
        raise build_rejection("NON_EMPTY_GROUP", f"group {name} has {len(group.members)} members")


def _commit_offsets(before: GroupRecord, offsets: Mapping[TopicPartition, int]) -> GroupRecord:
    return replace(before, known=True, offsets={**before.offsets, **offsets}) if offsets else before
