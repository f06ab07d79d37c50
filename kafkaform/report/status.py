"""The state of topics, groups and other resources, as tables and as JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaform.core.kafka_configs import readable, topic_configs
from kafkaform.core.printable import clipped
from kafkaform.core.units import format_duration, rounded_size
from kafkaform.core.values import asdict, replace
from kafkaform.core.wording import counted
from kafkaform.core.wording import listed as list_names
from kafkaform.inspect.usage import TopicUsage, UseVerdict
from kafkaform.report.document import (
    MAX_NAME_LENGTH,
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Subsection,
    Table,
    TextSpan,
    count_left_out,
)
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.resources import ACCESS, KINDS
from kafkaform.resources.access.spec import describe_rights
from kafkaform.resources.subject import SubjectVersions
from kafkaform.resources.subject.fields import COMPATIBILITY
from kafkaform.resources.values import format_value, label
from spark_validation.arrivals import Spread, TopicArrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaform.core.model import Observed
    from kafkaform.inspect.resource_status import GroupStatus, ResourceStatus, StatusReport, TopicStatus
    from kafkaform.report.document import Block, Row

_Item = TypeVar("_Item")

_NOTHING = "-"
_SEE = "see `kafkaform status`"
_MISSING = TextSpan("does not exist", Role.BAD)
_UNDECLARED = TextSpan("no", Role.WARNING)
_MAX_CONSUMERS = 3
"""The most readers of a topic that a terminal shows by name."""
_SCREEN = 20
"""Above this many rows, a line below the tables counts them."""
# States of classic groups while they rebalance, and of consumer groups (KIP-848) while members change.
_BUSY = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})

_TOPIC_COLUMNS = (
    Column("topic", least=12),
    Column("Partitions", right=True),
    Column("RF", right=True),
    Column("Retention", least=9),
    Column("Size", right=True),
    Column("Cost/month", right=True, rank=1),
    Column("Max/mean", right=True),
    Column("Schema", least=12, rank=1),
    Column("Groups", least=12, rank=1),
    Column("Team", least=10, rank=2),
    Column("Declared", rank=3),
)
# The index of the columns of prices, the ratio and subjects, which are left out if these are not known.
_COST, _SKEW, _SCHEMA = 5, 6, 7
_GROUP_COLUMNS = (
    Column("Group", least=14),
    Column("Protocol", rank=1),
    Column("State", least=8),
    Column("Members", least=7),
    Column("Partitions", right=True, rank=2),
    Column("Lag", right=True, least=8),
    Column("Team", least=10, rank=3),
    Column("Declared", rank=4),
)
_USAGE_COLUMNS = (
    Column("topic", least=12),
    Column("New records"),
    Column("Readers"),
    Column("All replicas", right=True),
    Column("Cost/month", right=True, rank=1),
    Column("Team", least=10, rank=1),
    Column("Declared", rank=2),
)
_USAGE_COST = 4
_USE_ROLES = {UseVerdict.NONE: Role.BAD, UseVerdict.UNKNOWN: Role.WARNING}
_NO_PROOF = (
    "This proves no topic unused: Kafka does not see consumers that assign partitions themselves and keep "
    "offsets elsewhere, and producers choose the times of records."
)
_MAX_VALUES = 5
"""The values of a resource that a row lists: an entity of quotas has at most five, a principal thousands."""
_OTHER_COLUMNS = (Column("Values", least=20), Column("Team", least=10, rank=1), Column("Declared", rank=2))
_PARTITION_COLUMNS = (
    Column("topic", least=14),
    Column("Partition", right=True),
    Column("Committed", right=True),
    Column("End", right=True),
    Column("Lag", right=True),
    Column("Member", least=10),
    Column("Host", least=10),
)
_IDLE_COLUMNS = (Column("Idle member", least=11), Column("Host", least=10), Column("ID", least=10))


def render_status(report: StatusReport, globs: Collection[str] = (), *, width: int | None = None) -> Page:
    """Render the state of resources as tables.

    Args:
        report: The state that was read.
        globs: The requested names; the partitions of a group are shown if it is the only one named.
        width: The width of the terminal in columns; None if the output is no terminal: then no name is
            folded, and none is left out.
    """
    return render_page(_build(report, globs, width), width=width)


def status_to_markdown(report: StatusReport, globs: Collection[str] = (), *, limit: int = LIMIT) -> str:
    """Return the state as Markdown of at most `limit` characters, for a comment on GitHub."""
    # As on a terminal of any width: hundreds of names in a cell would hide everything else.
    return write_markdown(replace(_build(report, globs, 80), title="kafkaform status"), limit=limit)


def _build(report: StatusReport, globs: Collection[str], width: int | None) -> ReportDocument:
    blocks: list[Block | Section[Row]] = []
    if report.period_ms is not None:
        return _build_usage(report)
    if report.topics:
        rows = [(*_topic_row(topic, report, width), *_owner_cells(topic)) for topic in report.topics]
        read = {
            _COST: report.costs is not None,
            _SKEW: any(topic.arrivals is not None for topic in report.topics),
            _SCHEMA: any(topic.subjects for topic in report.topics),
        }
        kept = [i for i in range(len(_TOPIC_COLUMNS)) if read.get(i, True)]
        blocks.append(_tabulate(_choose(_TOPIC_COLUMNS, kept), [_choose(row, kept) for row in rows]))
        blocks += _list_team_costs(report)
    if report.groups:
        rows = [(*_group_row(group), *_owner_cells(group)) for group in report.groups]
        blocks.append(_tabulate(_GROUP_COLUMNS, rows))
    # The partitions of many groups would bury the tables; named alone, a group is being examined.
    if len({group.name for group in report.groups}.intersection(globs)) == 1:
        blocks += [block for group in report.groups for block in _describe_partitions(group)]
    for kind, alike in groupby(report.others, key=lambda resource: resource.ref.kind):
        columns = (Column(KINDS[kind].words.noun, least=14), *_OTHER_COLUMNS)
        blocks.append(
            _tabulate(
                columns, [(*_other_row(resource, width), *_owner_cells(resource)) for resource in alike]
            )
        )
    if not blocks:
        blocks.append(Paragraph("No group has lag." if report.without_lag else "Nothing to show."))
    if counts := "; ".join(_list_counts(report)):
        blocks.append(Paragraph(TextSpan(counts, Role.MUTED)))
    if report.hidden:
        blocks.append(_count_hidden(report))
    return ReportDocument("", blocks, indent=0)


def _count_hidden(report: StatusReport) -> Paragraph:
    hidden = f"{counted(report.hidden, 'name')} hidden by ignore patterns (--all shows them)"
    return Paragraph(TextSpan(hidden, Role.MUTED))


def _build_usage(report: StatusReport) -> ReportDocument:
    """Return the topics that may be unused: those that are neither read nor written first, then by size."""
    listed = sorted(
        (topic for topic in report.topics if topic.usage is not None and not topic.usage.in_use),
        key=lambda topic: (-_count_unused(topic), -(topic.stored_bytes or 0), topic.name),
    )
    rows = [(*_usage_row(topic, report), *_owner_cells(topic)) for topic in listed]
    kept = [i for i in range(len(_USAGE_COLUMNS)) if i != _USAGE_COST or report.costs is not None]
    names: dict[str, list[str]] = defaultdict(list)
    for topic in listed:
        for reason in topic.usage.reasons if topic.usage is not None else ():
            names[reason].append(topic.name)
    blocks: list[Block | Section[Any]] = [
        _tabulate(_choose(_USAGE_COLUMNS, kept), [_choose(row, kept) for row in rows]),
        Section(
            [*names.items()],
            lambda pair: Item(TextSpan(list_names(pair[1]), Role.CODE), pair[0], gap=": "),
            count_left_out("reason", _SEE),
        ),
    ]
    if listed:
        blocks.append(Paragraph(TextSpan(_NO_PROOF, Role.MUTED)))
    if report.hidden:
        blocks.append(_count_hidden(report))
    unused = [topic for topic in listed if _count_unused(topic) == 2]
    size = sum(topic.stored_bytes or 0 for topic in unused)
    summary = (
        f"Of {counted(len(report.topics), 'topic')} in the last {format_duration(report.period_ms or 0)}: "
        f"{len(unused):,} without new records and readers"
        + (f" ({rounded_size(size)})" if unused else "")
        + f", {sum(_count_unused(topic) == 1 for topic in listed):,} without one of them, "
        f"{sum(_count_unused(topic) == 0 for topic in listed):,} unknown."
    )
    return ReportDocument("", blocks, summary=TextSpan(summary, Role.STRONG), indent=0)


def _count_unused(topic: TopicStatus) -> int:
    return 0 if topic.usage is None else (topic.usage.records, topic.usage.readers).count(UseVerdict.NONE)


def _usage_row(topic: TopicStatus, report: StatusReport) -> Row:
    usage, size = topic.usage, topic.stored_bytes
    uses = () if usage is None else (usage.records, usage.readers)
    cells = [TextSpan(use, _USE_ROLES.get(use, Role.TEXT)) for use in uses]
    cost = _format_cost(report, report.compute_cost(topic))
    return (topic.name, *cells, _NOTHING if size is None else rounded_size(size), cost)


def status_to_json(report: StatusReport, *, indent: int | None = 2) -> str:
    """Return the state as JSON; unknown values are null."""
    data = {
        "topics": [_topic_to_json(topic, report) for topic in report.topics],
        "groups": [_group_to_json(group) for group in report.groups],
        "resources": [_other_to_json(resource) for resource in report.others],
        **({"stale_ms": report.period_ms} if report.period_ms is not None else {}),
        **({"costs": {**asdict(report.costs), "teams": _sum_costs(report)}} if report.costs else {}),
        "unread": list(report.unread),
        "notes": list(report.notes),
    }
    return json.dumps(data, indent=indent)


def _tabulate(columns: Sequence[Column], rows: Sequence[Row]) -> Section[Row]:
    """Return a table; TEAM only if a team is known, DECLARED only if a resource is undeclared."""
    known = [any(row[-2] != _NOTHING for row in rows), any(row[-1] == _UNDECLARED for row in rows)]
    kept = [i for i in range(len(columns)) if i < len(columns) - 2 or known[i - len(columns)]]
    return Section(
        [_choose(row, kept) for row in rows],
        lambda row: row,
        count_left_out("row", _SEE),
        columns=_choose(columns, kept),
    )


def _choose(items: Sequence[_Item], indices: Sequence[int]) -> list[_Item]:
    return [items[i] for i in indices]


def _list_counts(report: StatusReport) -> Iterable[str]:
    """Yield counts of what does not fit on a screen or is left out."""
    topics, groups = report.topics, report.groups
    lagging = sum(bool(group.lag) for group in groups)
    if report.without_lag:
        if groups:
            yield f"{counted(lagging, 'group')} with lag, {report.without_lag:,} without are not listed"
        return
    # What fits on a screen can be counted at a glance.
    if len(topics) + len(groups) <= _SCREEN:
        return
    numbers = {"topic": len(topics), "group": len(groups)}
    yield ", ".join(counted(number, noun) for noun, number in numbers.items() if number)
    if lagging:
        yield f"{counted(lagging, 'group')} with lag (--lagging lists them)"
    undeclared = sum(topic.declared is False for topic in topics)
    undeclared += sum(group.declared is False for group in groups)
    if undeclared:
        yield f"{undeclared:,} not declared"


# --- topics ----------------------------------------------------------------------------------------


def _topic_row(topic: TopicStatus, report: StatusReport, width: int | None) -> Row:
    groups = _join_names(topic.groups, width)
    if topic.observed is None:
        unknown = (_NOTHING,) * 3
        return (topic.name, _NOTHING, _NOTHING, _MISSING, *unknown, _format_subjects(topic), groups)
    state = topic.observed.state
    size = _NOTHING
    if topic.size is not None:
        # The sizes of some partitions are unknown, so the sum is a lower limit.
        size = f"{'≥ ' if topic.size.unread else ''}{rounded_size(topic.size.bytes)}"
    counts = str(state["partitions"]), str(state["replicationFactor"])
    cost = _format_cost(report, report.compute_cost(topic))
    sizes = (_format_retention(topic), size, cost, _format_skew(topic))
    return (topic.name, *counts, *sizes, _format_subjects(topic), groups)


def _format_cost(report: StatusReport, cost: float | None) -> str:
    return _NOTHING if report.costs is None or cost is None else f"{cost:,.2f} {report.costs.currency}"


def _sum_costs(report: StatusReport) -> dict[str, float]:
    """Return the price of the topics of each team for a month, the highest first."""
    totals: dict[str, float] = defaultdict(float)
    for topic in report.topics:
        totals[topic.team] += report.compute_cost(topic) or 0.0
    return dict(sorted(totals.items(), key=lambda total: (-total[1], total[0])))


def _list_team_costs(report: StatusReport) -> list[Block | Section[Any]]:
    if report.costs is None:
        return []
    rows = [(team or "no team", _format_cost(report, cost)) for team, cost in _sum_costs(report).items()]
    unknown = sum(report.compute_cost(topic) is None for topic in report.topics)
    missing = f", without {counted(unknown, 'topic')} of unknown size" if unknown else ""
    total = f"{_format_cost(report, sum(_sum_costs(report).values()))} a month{missing}"
    return [
        Section(rows, lambda row: row, columns=(Column("Team", least=10), Column("Cost/month", right=True))),
        Paragraph(TextSpan(total, Role.MUTED)),
    ]


def _format_subjects(topic: TopicStatus) -> str:
    """Return the latest version and the level of the schemas of keys and values: `value v3 BACKWARD`."""
    words = [
        f"{subject.ref.name.removeprefix(f'{topic.name}-')} v{live.version} {subject.state[COMPATIBILITY]}"
        for subject in topic.subjects
        if isinstance(live := subject.live, SubjectVersions)
    ]
    return ", ".join(words) or _NOTHING


def _format_skew(topic: TopicStatus) -> TextSpan:
    """Return the ratio of the fullest partition to the mean, by records that arrived."""
    arrivals = topic.arrivals
    if arrivals is None or arrivals.ratio is None:
        return TextSpan(_NOTHING)
    return TextSpan(f"{arrivals.ratio:.2f}", Role.BAD if arrivals.spread is Spread.UNEVEN else Role.TEXT)


def _format_retention(topic: TopicStatus) -> str:
    """Format the limits by time and size; for a topic that is only compacted its policy."""
    # A topic that is only compacted keeps the last record of each key, whatever its retention is.
    policies = (topic.config("cleanup.policy") or "").split(",")
    if "delete" not in policies and policies != [""]:
        return policies[0]
    time, size = topic.number("retention.ms"), topic.number("retention.bytes")
    limits = [
        readable(topic_configs()[name], str(value))
        for name, value in (("retention.ms", time), ("retention.bytes", size))
        # Kafka's -1 is no limit.
        if value is not None and value >= 0
    ]
    # Unknown, not unlimited: the configs of the topic could not be read.
    if not limits and time is None:
        return _NOTHING
    return " or ".join(limits) or "unlimited"


def _topic_to_json(topic: TopicStatus, report: StatusReport) -> dict[str, Any]:
    state = topic.observed.state if topic.observed is not None else {}
    unread = topic.size.unread if topic.size is not None else 0
    return {
        "name": topic.name,
        "exists": topic.observed is not None,
        "declared": topic.declared,
        "team": topic.team or None,
        "partitions": state.get("partitions"),
        "replication_factor": state.get("replicationFactor"),
        "cleanup_policy": topic.config("cleanup.policy"),
        "retention_ms": topic.number("retention.ms"),
        "retention_bytes": topic.number("retention.bytes"),
        "size_bytes": topic.size.bytes if topic.size is not None else None,
        **({"partitions_without_size": unread} if unread else {}),
        **(_arrivals_to_json(topic.arrivals) if topic.arrivals is not None else {}),
        **({"cost_per_month": report.compute_cost(topic)} if report.costs is not None else {}),
        **({"subjects": [*map(_subject_to_json, topic.subjects)]} if topic.subjects else {}),
        **(_usage_to_json(topic, topic.usage) if topic.usage is not None else {}),
        "groups": list(topic.groups),
    }


def _subject_to_json(subject: Observed) -> dict[str, Any]:
    numbers = subject.live.recorded if subject.live is not None else {}
    return {"name": subject.ref.name, **numbers, "compatibility": subject.state.get(COMPATIBILITY)}


def _arrivals_to_json(arrivals: TopicArrivals) -> dict[str, Any]:
    return {"arrivals": {"spread": str(arrivals.spread), "max_over_mean": arrivals.ratio}}


def _usage_to_json(topic: TopicStatus, usage: TopicUsage) -> dict[str, Any]:
    use = {"new_records": usage.records, "readers": usage.readers, "reasons": list(usage.reasons)}
    return {"size_bytes_of_replicas": topic.stored_bytes, "usage": use}


# --- groups ----------------------------------------------------------------------------------------


def _group_row(status: GroupStatus) -> Row:
    group = status.group
    if group is None:
        # A group that the account may not see is not one that does not exist.
        state = TextSpan("not visible", Role.WARNING) if status.denied else _MISSING
        if status.only_configs:
            state = TextSpan("only configs", Role.WARNING)
        expected = f"0 of {status.expected}" if status.expected and not status.denied else _NOTHING
        return (status.name, _NOTHING, state, expected, _NOTHING, _NOTHING)
    # Between two states, or empty although members are expected.
    busy = group.state in _BUSY or status.expected
    role = Role.GOOD if group.state == "Stable" else Role.WARNING if busy else Role.TEXT
    return (
        status.name,
        group.protocol or _NOTHING,
        TextSpan(group.state, role),
        _format_members(len(group.members), status.expected, len(group.idle_members)),
        str(len(group.positions)),
        _format_lag(group.lag, [position.lag for position in group.positions]),
    )


def _format_members(members: int, expected: int | None, idle: int) -> TextSpan:
    text = f"{members:,}"
    if expected is not None:
        text += f" of {expected:,}"
    if idle:
        text += f", {idle:,} idle"
    short = expected is not None and members < expected
    return TextSpan(text, Role.WARNING if short or idle else Role.TEXT)


def _format_lag(lag: int | None, lags: Sequence[int | None]) -> str:
    """Format the lag, with the number of partitions where it is known if that is not all."""
    if lag is None:
        return _NOTHING
    known = sum(lag is not None for lag in lags)
    part = f" in {known:,} of {len(lags):,}" if known < len(lags) else ""
    return f"{lag:,}{part}"


def _describe_partitions(status: GroupStatus) -> Iterable[Block]:
    group = status.group
    if group is None:
        return
    # Kafka gives the host as Java prints an address: /10.0.0.1.
    members = {member: (member.label, member.host.removeprefix("/") or _NOTHING) for member in group.members}
    holders = {partition: members[member] for member in group.members for partition in member.assignment}
    details = [f"assignor {group.assignor}"] if group.assignor else []
    if group.coordinator is not None:
        details.append(f"coordinator broker {group.coordinator}")
    title = [TextSpan(group.name, Role.NAME), TextSpan(f": {', '.join(details)}" if details else "")]
    rows = [
        (
            position.topic,
            str(position.partition),
            _format_count(position.committed),
            _format_count(position.end),
            _format_count(position.lag),
            *holders.get((position.topic, position.partition), (_NOTHING, _NOTHING)),
        )
        for position in group.positions
    ]
    without = Paragraph("no partition has a committed offset or a member")
    yield Subsection(title, [Table(_PARTITION_COLUMNS, rows) if rows else without])
    if group.idle_members:
        yield Table(_IDLE_COLUMNS, [(*members[member], member.id) for member in group.idle_members])


def _group_to_json(status: GroupStatus) -> dict[str, Any]:
    group = status.group
    return {
        "name": status.name,
        "exists": None if status.denied else group is not None,
        "declared": status.declared,
        "team": status.team or None,
        "state": group.state if group else None,
        "protocol": (group.protocol or None) if group else None,
        "assignor": group.assignor or None if group else None,
        "coordinator": group.coordinator if group else None,
        "only_configs": status.only_configs,
        "expected_members": status.expected,
        "members": [
            {
                "id": member.id,
                "client_id": member.client_id,
                "host": member.host,
                "instance_id": member.instance_id,
                "assignment": [
                    {"topic": topic, "partition": partition} for topic, partition in sorted(member.assignment)
                ],
            }
            for member in (group.members if group else ())
        ],
        "idle_members": [member.id for member in group.idle_members] if group else [],
        "lag": group.lag if group else None,
        "partitions": [
            {
                "topic": position.topic,
                "partition": position.partition,
                "committed": position.committed,
                "end": position.end,
                "lag": position.lag,
            }
            for position in (group.positions if group else ())
        ],
    }


# --- other kinds -----------------------------------------------------------------------------------


def _other_row(resource: ResourceStatus, width: int | None) -> Row:
    if resource.observed is None:
        return (resource.ref.name, _MISSING)
    if resource.ref.kind == ACCESS.name:
        most = None if width is None else _MAX_CONSUMERS
        return (resource.ref.name, describe_rights(resource.observed, most) or _NOTHING)
    values = [
        f"{label(path)} {format_value(resource.ref.kind, path, value).short}"
        for path, value in sorted(resource.observed.state.items())
    ]
    # Fewer than the limit, because the number of all of them takes a place, too.
    shown = values if len(values) <= _MAX_VALUES else [*values[: _MAX_VALUES - 3], f"{len(values)} in all"]
    return (resource.ref.name, ", ".join(shown) or _NOTHING)


def _other_to_json(resource: ResourceStatus) -> dict[str, Any]:
    return {
        "kind": resource.ref.kind,
        "name": resource.ref.name,
        "exists": resource.observed is not None,
        "declared": resource.declared,
        "team": resource.team or None,
        "values": {**resource.observed.state} if resource.observed is not None else {},
    }


# --- all -------------------------------------------------------------------------------------------


def _owner_cells(status: TopicStatus | GroupStatus | ResourceStatus) -> Row:
    """Return the cells TEAM and DECLARED."""
    declared = _NOTHING if status.declared is None else "yes" if status.declared else _UNDECLARED
    return status.team or _NOTHING, declared


def _join_names(names: Sequence[str], width: int | None) -> TextSpan:
    """Join names; on a terminal only some of them and the number of further ones."""
    # A pipe gets all names, so that other programs can search them.
    few = _MAX_CONSUMERS if width is not None and len(names) > _MAX_CONSUMERS else len(names) + 1
    shown = list_names([clipped(name, MAX_NAME_LENGTH) for name in names], few - 1)
    return TextSpan(shown or _NOTHING, limit=len(shown) + 1)


def _format_count(number: int | None) -> str:
    return _NOTHING if number is None else f"{number:,}"
