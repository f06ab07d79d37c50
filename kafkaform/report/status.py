"""How topics and groups stand, as tables for people and JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from rich.text import Text

from kafkaform.core.kafka_configs import readable, topic_configs
from kafkaform.core.printable import printable
from kafkaform.core.units import rounded_size
from kafkaform.core.wording import counted
from kafkaform.report.page import Cell, Column, fit_columns, table
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaform.core.groups import Group, Member
    from kafkaform.inspect.resource_status import GroupStatus, StatusReport, TopicStatus
    from kafkaform.report.page import Row
    from spark_validation.arrivals import TopicArrivals

_Item = TypeVar("_Item")

_NOTHING = "-"
_MISSING = Cell("does not exist", "red")
_UNDECLARED = Cell("no", "yellow")
_FEW = 3
"""How many readers of a topic a terminal is shown by name."""
_SCREEN = 20
"""Above this many rows, a line below the tables counts them."""
_BUSY = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})

_TOPIC_COLUMNS = (
    Column("TOPIC", least=12),
    Column("PARTITIONS", right=True),
    Column("RF", right=True),
    Column("RETENTION", least=9),
    Column("SIZE", right=True),
    Column("MAX/MEAN", right=True),
    Column("GROUPS", least=12, rank=1),
    Column("TEAM", least=10, rank=2),
    Column("DECLARED", rank=3),
)
_SKEW = 5
"""The place of the ratio of the fullest partition to the mean, which is there where it was read."""
_GROUP_COLUMNS = (
    Column("GROUP", least=14),
    Column("PROTOCOL", rank=1),
    Column("STATE", least=8),
    Column("MEMBERS", least=7),
    Column("PARTITIONS", right=True, rank=2),
    Column("LAG", right=True, least=8),
    Column("TEAM", least=10, rank=3),
    Column("DECLARED", rank=4),
)
_PARTITION_COLUMNS = (
    Column("TOPIC", least=14),
    Column("PARTITION", right=True),
    Column("COMMITTED", right=True),
    Column("END", right=True),
    Column("LAG", right=True),
    Column("MEMBER", least=10),
    Column("HOST", least=10),
)
_IDLE_COLUMNS = (Column("IDLE MEMBER", least=11), Column("HOST", least=10), Column("ID", least=10))


def render_status(report: StatusReport, globs: Collection[str] = (), *, width: int | None = None) -> Text:
    """Word a reading for people.

    Args:
        report: What was read.
        globs: The names that were asked for: where one of them is the only group, its partitions are shown.
        width: The characters of a line of the terminal; None where no terminal reads it: then no name is
            folded, and none is left out.
    """
    parts = []
    if report.topics:
        rows = [(*_topic_row(topic, width), *_owner(topic)) for topic in report.topics]
        with_skew = any(topic.arrivals is not None for topic in report.topics)
        kept = [i for i in range(len(_TOPIC_COLUMNS)) if with_skew or i != _SKEW]
        parts.append(_table(_choose(_TOPIC_COLUMNS, kept), [_choose(row, kept) for row in rows], width))
    if report.groups:
        rows = [(*_group_row(one), *_owner(one)) for one in report.groups]
        parts.append(_table(_GROUP_COLUMNS, rows, width))
    if len({group.name for group in report.groups}.intersection(globs)) == 1:
        parts += [part for one in report.groups if one.group for part in _partitions(one.group, width)]
    if not parts:
        parts.append(Text("No group has lag." if report.without_lag else "No topics or groups to show."))
    counts = "; ".join(_counts(report))
    if counts:
        parts.append(Text(counts, "dim"))
    if report.hidden:
        hidden = counted(report.hidden, "name")
        parts.append(Text(f"{hidden} hidden by ignore patterns (--all shows them)", "dim"))
    return Text("\n\n").join(parts)


def status_to_json(report: StatusReport, *, indent: int | None = 2) -> str:
    """A reading for programs; what is not known is null."""
    data = {
        "topics": [_topic_json(topic) for topic in report.topics],
        "groups": [_group_json(group) for group in report.groups],
        "unread": list(report.unread),
        "notes": list(report.notes),
    }
    return json.dumps(data, indent=indent)


def _table(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Text:
    """Lay out what has a value in any row: teams only if one is known, DECLARED only if something is not."""
    known = [any(row[-2] != _NOTHING for row in rows), any(row[-1] == _UNDECLARED for row in rows)]
    kept = [i for i in range(len(columns)) if i < len(columns) - 2 or known[i - len(columns)]]
    columns, rows = _choose(columns, kept), [_choose(row, kept) for row in rows]
    fitting = fit_columns(columns, rows, width)
    return table(_choose(columns, fitting), [_choose(row, fitting) for row in rows], width)


def _choose(items: Sequence[_Item], indices: Sequence[int]) -> list[_Item]:
    return [items[i] for i in indices]


def _counts(report: StatusReport) -> Iterable[str]:
    """Count what a screen does not show at once, or what is left out."""
    topics, groups = report.topics, report.groups
    lagging = sum(bool(group.lag) for group in groups)
    if report.without_lag:
        if groups:
            yield f"{counted(lagging, 'group')} with lag, {report.without_lag:,} without are not listed"
        return
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


def _topic_row(topic: TopicStatus, width: int | None) -> Row:
    groups = _names(topic.groups, width)
    if topic.observed is None:
        return (topic.name, _NOTHING, _NOTHING, _MISSING, _NOTHING, _NOTHING, groups)
    state = topic.observed.state
    size = _NOTHING
    if topic.size is not None:
        size = f"{'≥ ' if topic.size.unread else ''}{rounded_size(topic.size.bytes)}"
    counts = str(state["partitions"]), str(state["replicationFactor"])
    return (topic.name, *counts, _retention(topic), size, _skew(topic), groups)


def _skew(topic: TopicStatus) -> Cell:
    """The fullest partition over the mean, by the records that arrived."""
    arrivals = topic.arrivals
    if arrivals is None or arrivals.ratio is None:
        return Cell(_NOTHING)
    return Cell(f"{arrivals.ratio:.2f}", "red" if arrivals.spread is Spread.UNEVEN else "")


def _retention(topic: TopicStatus) -> str:
    """By time and by size, as far as each limits anything; a topic that is only compacted has neither."""
    policies = (topic.config("cleanup.policy") or "").split(",")
    if "delete" not in policies and policies != [""]:
        return policies[0]
    time, size = topic.number("retention.ms"), topic.number("retention.bytes")
    limits = [
        readable(topic_configs()[name], str(value))
        for name, value in (("retention.ms", time), ("retention.bytes", size))
        if value is not None and value >= 0
    ]
    if not limits and time is None:
        return _NOTHING
    return " or ".join(limits) or "unlimited"


def _topic_json(topic: TopicStatus) -> dict[str, Any]:
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
        **(_arrivals_json(topic.arrivals) if topic.arrivals is not None else {}),
        "groups": list(topic.groups),
    }


def _arrivals_json(arrivals: TopicArrivals) -> dict[str, Any]:
    return {"arrivals": {"spread": str(arrivals.spread), "max_over_mean": arrivals.ratio}}


# --- groups ----------------------------------------------------------------------------------------


def _group_row(one: GroupStatus) -> Row:
    group = one.group
    if group is None:
        state = Cell("not visible", "yellow") if one.denied else _MISSING
        if one.only_configs:
            state = Cell("only configs", "yellow")
        expected = f"0 of {one.expected}" if one.expected and not one.denied else _NOTHING
        return (one.name, _NOTHING, state, expected, _NOTHING, _NOTHING)
    state = Cell(group.state, _state_style(one, group))
    return (
        one.name,
        group.protocol or _NOTHING,
        state,
        _members(one, group),
        str(len(group.positions)),
        _lag(group),
    )


def _state_style(one: GroupStatus, group: Group) -> str:
    if group.state == "Stable":
        return "green"
    return "yellow" if group.state in _BUSY or one.expected else ""


def _members(one: GroupStatus, group: Group) -> Cell:
    idle = len(group.idle_members)
    text = f"{len(group.members):,}"
    if one.expected is not None:
        text += f" of {one.expected:,}"
    if idle:
        text += f", {idle:,} idle"
    short = one.expected is not None and len(group.members) < one.expected
    return Cell(text, "yellow" if short or idle else "")


def _lag(group: Group) -> str:
    """The lag, and of how many partitions it is known where that is not all."""
    if group.lag is None:
        return _NOTHING
    known = sum(position.lag is not None for position in group.positions)
    part = f" in {known:,} of {len(group.positions):,}" if known < len(group.positions) else ""
    return f"{group.lag:,}{part}"


def _partitions(group: Group, width: int | None) -> Iterable[Text]:
    holders = {partition: member for member in group.members for partition in member.assignment}
    facts = [f"assignor {group.assignor}"] if group.assignor else []
    if group.coordinator is not None:
        facts.append(f"coordinator broker {group.coordinator}")
    head = Text(printable(group.name), "bold")
    head.append(printable(": ".join(["", ", ".join(facts)]) if facts else ""), "not bold")
    if group.positions:
        rows = [
            (
                position.topic,
                str(position.partition),
                _count(position.committed),
                _count(position.end),
                _count(position.lag),
                *_holder(holders.get((position.topic, position.partition))),
            )
            for position in group.positions
        ]
        yield head.append("\n").append_text(table(_PARTITION_COLUMNS, rows, width))
    else:
        yield head.append("\nno partition has a committed offset or a member", "not bold")
    if group.idle_members:
        idle = [(*_holder(member), member.id) for member in group.idle_members]
        yield table(_IDLE_COLUMNS, idle, width)


def _holder(member: Member | None) -> tuple[str, str]:
    """What a person knows a member by, and where it is."""
    if member is None:
        return _NOTHING, _NOTHING
    return member.instance_id or member.client_id or member.id, member.host.removeprefix("/") or _NOTHING


def _group_json(one: GroupStatus) -> dict[str, Any]:
    group = one.group
    return {
        "name": one.name,
        "exists": None if one.denied else group is not None,
        "declared": one.declared,
        "team": one.team or None,
        "state": group.state if group else None,
        "protocol": (group.protocol or None) if group else None,
        "assignor": group.assignor or None if group else None,
        "coordinator": group.coordinator if group else None,
        "only_configs": one.only_configs,
        "expected_members": one.expected,
        "members": [_member_json(member) for member in group.members] if group else [],
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


def _member_json(member: Member) -> dict[str, Any]:
    return {
        "id": member.id,
        "client_id": member.client_id,
        "host": member.host,
        "instance_id": member.instance_id,
        "assignment": [
            {"topic": topic, "partition": partition} for topic, partition in sorted(member.assignment)
        ],
    }


# --- both ------------------------------------------------------------------------------------------


def _owner(one: TopicStatus | GroupStatus) -> Row:
    """Return the team, and whether a manifest declares it."""
    declared = _NOTHING if one.declared is None else "yes" if one.declared else _UNDECLARED
    return one.team or _NOTHING, declared


def _names(names: Sequence[str], width: int | None) -> str:
    """Names in a list; on a terminal some of them, and how many more there are."""
    if not names:
        return _NOTHING
    if width is None or len(names) <= _FEW:
        return ", ".join(names)
    return f"{', '.join(names[: _FEW - 1])} and {len(names) - _FEW + 1:,} more"


def _count(number: int | None) -> str:
    return _NOTHING if number is None else f"{number:,}"
