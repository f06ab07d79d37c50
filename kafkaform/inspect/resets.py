"""Offset resets: plans that move a group's committed offsets.

Offsets are written and read in the CSV format of `kafka-consumer-groups`.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

from kafkaform.core.errors import ClusterError, InvalidInput, KafkaformError, Problem
from kafkaform.core.model import Desired, Diagnostic, Intent, Location, Observation, ResourceRef, Severity
from kafkaform.core.offset_spec import (
    AbsoluteTime,
    AtOffset,
    CurrentOffset,
    Earliest,
    Latest,
    OffsetSpec,
    RelativeTime,
    ShiftBy,
    time_of,
)
from kafkaform.core.rights import Right, explain_missing_rights
from kafkaform.core.transactions import OpenTransaction, group_by_producer, list_places
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import command, format_age, spans
from kafkaform.plan.conclusion import conclude
from kafkaform.plan.difference import diff_update
from kafkaform.plan.gate import review_changes
from kafkaform.plan.planning import check_identity, silent
from kafkaform.plan.policy import Policy
from kafkaform.plan.risk_assessment import judge
from kafkaform.resources import group_ref, nearest_name
from kafkaform.resources.consumer_group.fields import partition_path
from kafkaform.resources.groups import Group, get_group
from kafkaform.rules import RuleContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkaform.cluster.protocol import ClusterReader, PartitionReader
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from kafkaform.core.plans import Plan
    from kafkaform.resources.consent import Grant

_PARTITIONS = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?", re.ASCII)


class ResetRequest(Value):
    """The parameters of a reset.

    Attributes:
        target: The new position in every partition; None where `offsets` has it.
        offsets: The new offset of each partition, from a file.
        topics: Only these topics, and of each only these partitions (None for all); empty for all partitions
            of the topics in which the group has an offset.
        allow: Consents given on the command line.
    """

    group: str
    target: OffsetSpec | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, frozenset[int] | None] = field(default_factory=dict)
    allow: tuple[Grant, ...] = ()


class Reset(Value):
    """A planned reset.

    Attributes:
        plan: The plan; without changes where the group already has these offsets.
        offsets: The offsets after the reset, of every selected partition.
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
    """Plan a reset from the committed offsets of a group to the requested ones, within the ends of the logs.

    Args:
        request: The parameters of the reset.
        settings: The configuration, with the severities of rules.
        target: The cluster's settings, with its id and forbidden hazards.
        now_ms: The present, in milliseconds since 1970, for "6h-ago".
        tell: A callback for lines about long waits.

    Raises:
        ClusterError: The cluster cannot be read, or this account may not see the group.
        KafkaformError: There is no such group, topic or partition, or no committed offset to start from.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    ref = group_ref(request.group)
    observation = cluster.observe([ref])
    group = _require_group(ref, observation)
    partitions, counts = _select_partitions(request, group, cluster)
    time_ms = time_of(request.target, now_ms) if request.target is not None else None
    # Not committed=True: `latest` is the end of the log, as Kafka's own tools take it.
    spans = cluster.log_spans(partitions, time_ms)
    unreadable = [format_partition(partition) for partition in partitions if partition not in spans]
    if unreadable:
        raise KafkaformError(
            f"the log of {', '.join(unreadable[:3])} cannot be read",
            hint="it was deleted, or has no leader: see `kafkaform doctor`; or exclude it with --topic",
        )
    wanted = {p: _compute_offset(p, request, group.committed.get(p), spans[p]) for p in partitions}
    # Brokers accept offsets beyond a log, and a consumer then starts by auto.offset.reset.
    clamped = {p: min(max(offset, spans[p].start), spans[p].end) for p, offset in wanted.items()}
    # No manifest has it: a reset is a plan of one desired state, made up of offsets only.
    desired = Desired(ref, {partition_path(p): offset for p, offset in clamped.items()}, Intent())
    policy = Policy(forbid=target.forbid if target else (), allow=request.allow)
    difference = diff_update(desired, desired.state or {}, observation, facts)
    proposals = judge(difference.proposals, facts)
    context = RuleContext(
        (), facts, observation.inventory, settings.limits, live=observation.resources, subset=True
    )
    # As for any other plan: rules, consent and what a cluster forbids hold for resets too.
    reviewed = review_changes(proposals, context, policy, cluster, settings, tell)
    plan = conclude(difference, reviewed.gated, facts, policy)
    notes = [note for p in partitions if (note := _note_clamping(p, wanted[p], clamped[p], spans[p]))]
    notes += _find_skipped_transactions(cluster, clamped)
    notes += _list_unmoved(request, partitions, counts)
    notes += _list_unchanged(group, clamped)
    notes = [*plan.diagnostics, *reviewed.findings, *notes]
    return Reset(replace(plan, diagnostics=tuple(notes), subset=True), clamped)


def _require_group(ref: ResourceRef, observation: Observation) -> Group:
    # Not "does not exist": a reset of a group that is only hidden must not be taken for one of a new group.
    if ref in observation.invisible:
        raise ClusterError(
            f"{ref} is not visible to this account: {observation.invisible[ref]}",
            hint=explain_missing_rights(
                *(Right(operation, "group", ref.name) for operation in ("Describe", "Read"))
            )[1],
        )
    observed = observation.resources.get(ref)
    group = get_group(observed) if observed is not None else None
    if group is not None:
        # A share group has a start offset, and the state of each record after it (KIP-932): no single
        # position.
        if group.protocol == "share":
            raise KafkaformError(
                f"{ref.name} is a share group: its position is kept by the brokers, record by record",
                hint="use kafka-share-groups --reset-offsets",
            )
        return group
    near = nearest_name(
        ref.name, [existing.name for existing in observation.inventory if existing.kind == ref.kind]
    )
    suggestion = f"did you mean {near!r}? " if near else ""
    raise KafkaformError(
        f"group {ref.name!r} does not exist",
        hint=f"{suggestion}a new group starts at offsets.initial of its manifest",
    )


def _select_partitions(
    request: ResetRequest, group: Group, cluster: PartitionReader
) -> tuple[list[TopicPartition], Mapping[str, int]]:
    """Return the partitions to reset, sorted, and the partition counts of their topics."""
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
    # Partitions that were added have no offset yet: a reset of whole topics includes them. A shift has
    # nothing to start from there.
    if not request.offsets and not request.topics and not isinstance(request.target, CurrentOffset | ShiftBy):
        chosen = {(topic, number) for topic in named for number in range(counts[topic])}
    for topic, numbers in request.topics.items():
        chosen |= {(topic, number) for number in (range(counts[topic]) if numbers is None else numbers)}
    for topic, number in sorted(chosen):
        if number >= counts[topic]:
            raise KafkaformError(
                f"{topic} has no partition {number}", hint=f"it has {counts[topic]}: 0 to {counts[topic] - 1}"
            )
    return sorted(chosen), counts


def _list_unmoved(
    request: ResetRequest, partitions: Iterable[TopicPartition], counts: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """List the partitions that the reset does not move, unless partitions were chosen explicitly."""
    if request.topics:
        return
    if request.offsets:
        reason, suggestion = "not in the file", "add it to the file, or move it with"
    else:
        reason = f"the group has no offset there, and {request.target} needs one"
        suggestion = "give it an offset with"
    chosen: dict[str, set[int]] = {}
    for topic, number in partitions:
        chosen.setdefault(topic, set()).add(number)
    for topic, numbers in chosen.items():
        unmoved = spans(set(range(counts[topic])) - numbers)
        if unmoved:
            options = ("--to", "earliest", "--topic", f"{topic}:{unmoved}")
            yield Diagnostic(
                "KF438",
                Severity.WARNING,
                f"{topic}:{unmoved} is not changed: {reason}",
                suggestion=f"{suggestion}: {command('reset', request.group, options=options)}",
            )


def _list_unchanged(group: Group, offsets: Mapping[TopicPartition, int]) -> Iterator[Diagnostic]:
    """List the partitions in which the group already has the requested offset."""
    unchanged: dict[str, list[int]] = {}
    for (topic, number), offset in offsets.items():
        if group.committed.get((topic, number)) == offset:
            unchanged.setdefault(topic, []).append(number)
    for topic, numbers in unchanged.items():
        yield Diagnostic(
            "KF439", Severity.INFO, f"{topic}:{spans(numbers)} is not changed: the group is already there"
        )


def _compute_offset(
    partition: TopicPartition, request: ResetRequest, committed: int | None, span: LogSpan
) -> int:
    match request.target:
        case None:
            return request.offsets[partition]
        case Earliest():
            return span.start
        case Latest():
            return span.end
        case AbsoluteTime() | RelativeTime():
            return span.end if span.at is None else span.at
        case AtOffset(offset):
            return offset
        case CurrentOffset():
            return _require_committed(partition, committed)
        case ShiftBy(records):
            return _require_committed(partition, committed) + records
        case _:
            assert_never(request.target)


def _require_committed(partition: TopicPartition, committed: int | None) -> int:
    if committed is None:
        raise KafkaformError(
            f"the group has no offset in {format_partition(partition)}, so there is no offset to shift from",
            hint="give --to earliest, latest, a time or an offset for this partition",
        )
    return committed


def _note_clamping(partition: TopicPartition, wanted: int, offset: int, span: LogSpan) -> Diagnostic | None:
    if wanted == offset:
        return None
    edge = "before the start" if wanted < offset else "past the end"
    return Diagnostic(
        "KF408",
        Severity.WARNING,
        f"{format_partition(partition)}: {wanted:,} is {edge} of the log ({span.start:,} to {span.end:,}): "
        f"using {offset:,}",
    )


def _find_skipped_transactions(
    cluster: PartitionReader, offsets: Mapping[TopicPartition, int]
) -> Iterator[Diagnostic]:
    """Find the open transactions whose records the new offsets skip."""
    stable = cluster.log_spans(offsets, committed=True)
    beyond = {p: stable[p].end for p, offset in offsets.items() if p in stable and offset > stable[p].end}
    if not beyond:
        return
    try:
        transactions = cluster.open_transactions(beyond).transactions
    except KafkaformError as error:  # warn without the producers' names
        transactions = tuple(
            OpenTransaction(p, start, offsets[p], 0, 0, unknown=error.message) for p, start in beyond.items()
        )
    for group in group_by_producer(t for t in transactions if t.start < offsets[t.partition]):
        first = group[0]
        since = (
            f" for {format_age(timedelta(milliseconds=max(t.age_ms for t in group)))}"
            if first.producer
            else ""
        )
        yield Diagnostic(
            "KF452",
            Severity.WARNING,
            f"{first.name} has been open{since} in {list_places(group)}: read_committed consumers cannot "
            "read beyond that yet, and the group will skip its records there, even if it is committed",
            suggestion="first end the hanging transaction: `kafkaform doctor --rule KF311` shows the command"
            if first.producer is not None and first.is_hanging
            else "wait until the transaction has ended, then plan the reset again",
        )


def format_partition(partition: TopicPartition) -> str:
    """Return a partition in the notation of the command line."""
    return f"{partition[0]}:{partition[1]}"


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int] | None]:
    """Parse `TOPIC`, `TOPIC:3`, `TOPIC:0,1,2`, as Kafka's own tool does, or `TOPIC:0-5,8`.

    Raises:
        ValueError: A text has another form.
    """
    topics: dict[str, frozenset[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        chosen = [_parse_partition_range(part) for part in numbers.split(",")] if colon else []
        if not topic or None in chosen:
            raise ValueError(f"{text!r} is not a topic; write TOPIC, TOPIC:3, TOPIC:0,1,2 or TOPIC:0-5,8")
        earlier = topics.get(topic, frozenset())
        topics[topic] = (
            earlier.union(*(part for part in chosen if part is not None))
            if colon and earlier is not None
            else None
        )
    return topics


def _parse_partition_range(text: str) -> range | None:
    """Parse `3` or `0-5`; returns None for anything else."""
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
    """Render offsets as CSV: topic, partition, offset; without a header, as Kafka's tool writes it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([topic, number, offset] for (topic, number), offset in sorted(offsets.items()))
    return text.getvalue()


def read_offsets(text: str, file: str, group: str) -> dict[TopicPartition, int]:
    """Parse offsets; lines with four columns begin with the group, and those of other groups are skipped.

    Args:
        text: The content of the file.
        file: Its name, for messages.
        group: The group to reset.

    Raises:
        InvalidInput: A line is not an offset, or repeats a partition with another offset; lists all of them.
    """
    problems: list[Problem] = []
    offsets: dict[TopicPartition, int] = {}
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if not row:
                continue
            location = Location(file, reader.line_num)
            columns = [column.strip() for column in row]
            # Kafka's tool writes the group into each line when it exports several groups.
            if len(columns) == _COLUMNS_WITH_GROUP and columns.pop(0) != group:
                continue
            if len(columns) != _COLUMNS or not all(c.isascii() and c.isdigit() for c in columns[1:]):
                problems.append(Problem("is not an offset", location, _FORMAT))
                continue
            partition = columns[0], int(columns[1])
            # The same line twice is harmless; two offsets for one partition are a mistake.
            if offsets.setdefault(partition, int(columns[2])) != int(columns[2]):
                problems.append(
                    Problem(
                        f"another offset for {partition[0]}:{partition[1]}", location, "keep one of the two"
                    )
                )
    except csv.Error as error:
        problems.append(Problem(f"not CSV: {error}", Location(file, reader.line_num)))
    if not problems and not offsets:
        problems.append(Problem(f"no offset of group {group}", Location(file), _FORMAT))
    if problems:
        raise InvalidInput(problems)
    return offsets
