"""Offset resets: from where a group stands to where it is to stand, as a plan that can be reviewed.

Offsets are exported and read as the CSV of `kafka-consumer-groups`.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from kafkaform.core.errors import (
    ClusterError,
    InvalidInput,
    KafkaformError,
    Problem,
)
from kafkaform.core.groups import partition_path
from kafkaform.core.model import (
    Desired,
    Diagnostic,
    Intent,
    Location,
    Plan,
    ResourceRef,
    Severity,
)
from kafkaform.core.offset_spec import (
    Ago,
    AtOffset,
    AtTime,
    Current,
    Earliest,
    Latest,
    ShiftBy,
    time_of,
)
from kafkaform.core.rights import Right, lacking
from kafkaform.core.transactions import OpenTransaction, group_by_producer, list_places
from kafkaform.core.wording import aged, command, nearest, spans
from kafkaform.plan.planner import conclude, diff_update, judge
from kafkaform.plan.planning import check_identity, review, silent
from kafkaform.plan.policy import Policy
from kafkaform.resources.consumer_group import group_of, group_ref
from kafkaform.rules import RuleContext

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Iterable,
        Iterator,
        Mapping,
    )

    from kafkaform.cluster.protocol import ClusterReader, PartitionReader
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.groups import Group, LogSpan
    from kafkaform.core.layout import TopicPartition
    from kafkaform.core.model import Observation
    from kafkaform.core.offset_spec import OffsetSpec
    from kafkaform.resources.consent import Grant


_PARTITIONS = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResetRequest:
    """What a reset is asked to do.

    Attributes:
        group: The group.
        target: Where to, for all partitions alike; None where `offsets` says it.
        offsets: The offset of each partition, as a file gives it.
        topics: Only these topics, and of each only these partitions (None: all); empty: all partitions of
            the topics in which the group has an offset.
        allow: Consents given on the command line.
    """

    group: str
    target: OffsetSpec | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    allow: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """A planned reset.

    Attributes:
        plan: The change; none where the group stands there already.
        offsets: Where the group stands afterwards, in every partition that was asked for.
    """

    plan: Plan
    offsets: Mapping[TopicPartition, int]


def make_reset(
    request: ResetRequest,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    now_ms: int,
    *,
    tell: Callable[[str], None] = silent,
) -> Reset:
    """Plan the way from the committed offsets of a group to those asked for, within the log's ends.

    Args:
        request: What is asked for.
        cluster: The cluster.
        settings: The severities of rules.
        target: The cluster's settings: its id, and what it forbids.
        now_ms: The present, in milliseconds since 1970, for "6h ago".
        tell: Is told what a person would otherwise wait for without knowing.

    Raises:
        ClusterError: The cluster cannot be read, or this account may not see the group.
        KafkaformError: There is no such group, topic or partition, or nothing to start from.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    ref = group_ref(request.group)
    observation = cluster.observe([ref])
    group = _existing(ref, observation)
    partitions, counts = _selected(request, group, cluster)
    asked = time_of(request.target, now_ms) if request.target is not None else None
    spans = cluster.log_spans(partitions, asked)
    lost = [name_of(partition) for partition in partitions if partition not in spans]
    if lost:
        raise KafkaformError(
            f"the log of {', '.join(lost[:3])} cannot be read",
            hint="it was deleted, or has no leader: see kafkaform doctor; or exclude it with --topic",
        )
    wanted = {p: _wanted(p, request, group.committed.get(p), spans[p]) for p in partitions}
    clamped = {p: min(max(offset, spans[p].start), spans[p].end) for p, offset in wanted.items()}
    desired = Desired(ref, {partition_path(p): offset for p, offset in clamped.items()}, Intent())
    policy = Policy(forbid=target.forbid if target else (), allow=request.allow)
    difference = diff_update(desired, desired.state or {}, observation, facts)
    proposals = judge(difference.proposals, observation, facts)
    context = RuleContext(
        (), facts, observation.inventory, settings.limits, live=observation.resources, subset=True
    )
    reviewed = review(proposals, observation, facts, context, policy, cluster, settings, tell=tell)
    plan = conclude(difference, reviewed.gated, facts, policy)
    notes = [note for p in partitions if (note := _clamping(p, wanted[p], clamped[p], spans[p]))]
    notes += _skipped_transactions(cluster, clamped)
    notes += _left_out(request, partitions, counts)
    notes += _unchanged(group, clamped)
    notes = [*plan.diagnostics, *reviewed.findings, *notes]
    return Reset(replace(plan, diagnostics=tuple(notes), subset=True), clamped)


def _existing(ref: ResourceRef, observation: Observation) -> Group:
    if ref in observation.invisible:
        raise ClusterError(
            f"{ref} is not visible to this account: {observation.invisible[ref]}",
            hint=lacking(*(Right(operation, "group", ref.name) for operation in ("Describe", "Read")))[1],
        )
    observed = observation.resources.get(ref)
    group = group_of(observed) if observed is not None else None
    if group is not None:
        if group.protocol == "share":
            raise KafkaformError(
                f"{ref.name} is a share group: its position is kept by the brokers, record by record",
                hint="use kafka-share-groups --reset-offsets",
            )
        return group
    near = nearest(ref.name, [other.name for other in observation.inventory if other.kind == ref.kind])
    meant = f"did you mean {near!r}? " if near else ""
    raise KafkaformError(
        f"group {ref.name!r} does not exist",
        hint=f"{meant}a new group starts at offsets.initial of its manifest",
    )


def _selected(
    request: ResetRequest, group: Group, cluster: PartitionReader
) -> tuple[list[TopicPartition], Mapping[str, int]]:
    """The partitions to reset, in order, which all exist; and how many their topics have."""
    if request.offsets:
        chosen = set(request.offsets)
    elif not request.topics:
        chosen = set(group.committed)
        if not chosen:
            raise KafkaformError(
                f"group {group.name!r} has no committed offset", hint="name its topics: --topic TOPIC"
            )
    else:
        chosen = set()
    named = {topic for topic, _ in chosen} | set(request.topics)
    counts = cluster.partition_counts(named)
    for topic in sorted(named - set(counts)):
        raise KafkaformError(
            f"topic {topic!r} does not exist, or this account may not see it",
            hint="leave it out with --topic, or check its name",
        )
    if not request.offsets and not request.topics and not isinstance(request.target, Current | ShiftBy):
        chosen = {(topic, number) for topic in named for number in range(counts[topic])}
    for topic, numbers in request.topics.items():
        chosen |= {(topic, number) for number in (range(counts[topic]) if numbers is None else numbers)}
    for topic, number in sorted(chosen):
        if number >= counts[topic]:
            raise KafkaformError(
                f"{topic} has no partition {number}", hint=f"it has {counts[topic]}: 0 to {counts[topic] - 1}"
            )
    return sorted(chosen), counts


def _left_out(
    request: ResetRequest, partitions: Iterable[TopicPartition], counts: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """What the reset does not move, of topics of which nobody chose the partitions."""
    if request.topics:
        return
    if request.offsets:
        why, suggestion = "not in the file", "add it to the file, or move it with"
    else:
        why = f"the group has no offset there, and {request.target} counts from one"
        suggestion = "give it an offset with"
    chosen: dict[str, set[int]] = {}
    for topic, number in partitions:
        chosen.setdefault(topic, set()).add(number)
    for topic, numbers in chosen.items():
        others = spans(set(range(counts[topic])) - numbers)
        if others:
            options = ("--to", "earliest", "--topic", f"{topic}:{others}")
            yield Diagnostic(
                "KF438",
                Severity.WARNING,
                f"{topic}:{others} is not changed: {why}",
                suggestion=f"{suggestion}: {command('reset', request.group, options=options)}",
            )


def _unchanged(group: Group, offsets: Mapping[TopicPartition, int]) -> Iterator[Diagnostic]:
    """The partitions in which the group stands there already."""
    there: dict[str, list[int]] = {}
    for (topic, number), offset in offsets.items():
        if group.committed.get((topic, number)) == offset:
            there.setdefault(topic, []).append(number)
    for topic, numbers in there.items():
        yield Diagnostic(
            "KF439", Severity.INFO, f"{topic}:{spans(numbers)} is not changed: the group is already there"
        )


def _wanted(partition: TopicPartition, request: ResetRequest, committed: int | None, span: LogSpan) -> int:
    match request.target:
        case None:
            return request.offsets[partition]
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case AtTime() | Ago():
            return span.end if span.at is None else span.at
        case AtOffset(offset):
            return offset
        case Current():
            return _standing(partition, committed)
        case ShiftBy(records):
            return _standing(partition, committed) + records
        case _:
            assert_never(request.target)


def _standing(partition: TopicPartition, committed: int | None) -> int:
    if committed is None:
        raise KafkaformError(
            f"the group has no offset in {name_of(partition)}, so there is no offset to shift from",
            hint="give --to earliest, latest, a time or an offset for this partition",
        )
    return committed


def _clamping(partition: TopicPartition, wanted: int, offset: int, span: LogSpan) -> Diagnostic | None:
    if wanted == offset:
        return None
    edge = "before the start" if wanted < offset else "past the end"
    return Diagnostic(
        "KF408",
        Severity.WARNING,
        f"{name_of(partition)}: {wanted:,} is {edge} of the log ({span.start:,} to {span.end:,}): "
        f"{offset:,} is taken",
    )


def _skipped_transactions(
    cluster: PartitionReader, offsets: Mapping[TopicPartition, int]
) -> Iterator[Diagnostic]:
    """The open transactions whose records lie before the new offsets."""
    stable = cluster.log_spans(offsets, committed=True)
    beyond = {p: stable[p].end for p, offset in offsets.items() if p in stable and offset > stable[p].end}
    if not beyond:
        return
    try:
        transactions = cluster.open_transactions(beyond).transactions
    except KafkaformError as error:  # the producers are missing then, not the offsets
        transactions = tuple(
            OpenTransaction(p, start, offsets[p], 0, 0, unknown=error.message) for p, start in beyond.items()
        )
    for some in group_by_producer(t for t in transactions if t.start < offsets[t.partition]):
        first = some[0]
        since = f" for {aged(timedelta(milliseconds=max(t.age_ms for t in some)))}" if first.producer else ""
        yield Diagnostic(
            "KF452",
            Severity.WARNING,
            f"{first.name} has been open{since} in {list_places(some)}: read_committed consumers cannot read "
            "beyond that yet, and the group will skip its records there, even if it is committed",
            suggestion="end the transaction first, which is hanging: kafkaform doctor --rule KF311 names the "
            "command"
            if first.producer is not None and first.is_hanging
            else "wait until the transaction has ended, then plan the reset again",
        )


def name_of(partition: TopicPartition) -> str:
    """A partition as the command line writes it."""
    return f"{partition[0]}:{partition[1]}"


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int] | None]:
    """Read `TOPIC`, `TOPIC:3`, `TOPIC:0,1,2`, as Kafka's own tool does, or `TOPIC:0-5,8`.

    Raises:
        ValueError: One is none of these.
    """
    topics: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        chosen = [_partition_numbers(part) for part in numbers.split(",")] if colon else []
        if not topic or None in chosen:
            raise ValueError(f"{text!r} is not a topic; write TOPIC, TOPIC:3, TOPIC:0,1,2 or TOPIC:0-5,8")
        before = topics.get(topic, frozenset())
        topics[topic] = (
            before.union(*(part for part in chosen if part is not None))
            if colon and before is not None
            else None
        )
    return topics


def _partition_numbers(text: str) -> range | None:
    """The partitions that `3` or `0-5` names; None if it is neither."""
    match = _PARTITIONS.fullmatch(text)
    if match is None:
        return None
    first = int(match[1])
    last = int(match[2] or first)
    return range(first, last + 1) if first <= last else None


_FORMAT = "write topic,partition,offset"
_COLUMNS = 3
_COLUMNS_WITH_GROUP = 4


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """One line a partition: topic, partition, offset; no header, as Kafka's tool has none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([topic, number, offset] for (topic, number), offset in sorted(offsets.items()))
    return text.getvalue()


def read_offsets(text: str, file: str, group: str) -> dict[TopicPartition, int]:
    """Read offsets; lines with four columns begin with the group, and those of other groups are left out.

    Args:
        text: The content of the file.
        file: Its name, for messages.
        group: The group that is meant.

    Raises:
        InvalidInput: With every line that is no offset, or says another one for the same partition.
    """
    problems: list[Problem] = []
    offsets: dict[TopicPartition, int] = {}
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if not row:
                continue
            place = Location(file, reader.line_num)
            columns = [column.strip() for column in row]
            if len(columns) == _COLUMNS_WITH_GROUP and columns.pop(0) != group:
                continue
            if len(columns) != _COLUMNS or not all(c.isascii() and c.isdigit() for c in columns[1:]):
                problems.append(Problem("is no offset", place, _FORMAT))
                continue
            partition = columns[0], int(columns[1])
            if offsets.setdefault(partition, int(columns[2])) != int(columns[2]):
                problems.append(
                    Problem(f"another offset for {partition[0]}:{partition[1]}", place, "keep one of the two")
                )
    except csv.Error as error:
        problems.append(Problem(f"not CSV: {error}", Location(file, reader.line_num)))
    if not problems and not offsets:
        problems.append(Problem(f"no offset of group {group}", Location(file), _FORMAT))
    if problems:
        raise InvalidInput(problems)
    return offsets
