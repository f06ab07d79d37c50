"""The reports of one command about several clusters: side by side first, then one after the other."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.text import Text

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted
from kafkaform.inspect.drift import DriftVerdict
from kafkaform.inspect.health_check import HealthVerdict
from kafkaform.plan.summary import headline, summarise
from kafkaform.report import drift_wording
from kafkaform.report.doctor import VERDICTS, verdict_words
from kafkaform.report.markdown import LEAST, LIMIT
from kafkaform.report.markdown_escape import code, prose
from kafkaform.report.page import Cell, Column, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkaform.core.model import Plan
    from kafkaform.inspect.drift import Drift
    from kafkaform.inspect.health_check import HealthReport
    from kafkaform.inspect.importing import Import
    from kafkaform.inspect.resource_status import StatusReport
    from kafkaform.report.page import Page

_LONG = 600
_ROW = 1_000
"""More than a row of the table of clusters takes, with room for what is above it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The report of one cluster.

    Attributes:
        name: The cluster.
        environment: Its environment; None if it has none.
        content: What is reported.
        render: Renders it in the format that was chosen, with the options `width`, `verbose` and `limit`
            as far as that format has them.
    """

    name: str
    environment: str | None
    content: Any
    render: Callable[..., Text | Page | str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A cluster without a report.

    Attributes:
        name: The cluster.
        environment: Its environment; None if it has none.
        message: The reason, in one line.
        hint: What to do about it.
        problems: Everything that is wrong in files, a line each.
    """

    name: str
    environment: str | None
    message: str
    hint: str | None = None
    problems: tuple[str, ...] = ()


Member: TypeAlias = Answered | Failed
"""The outcome for one cluster."""


@dataclass(frozen=True, slots=True)
class _Summary:
    """How the reports of a command are summed up.

    Attributes:
        column: The heading of the column of verdicts.
        failed: What is said of a cluster without a report.
        verdict: Words one report for the table, with a style.
        total: Words all of them for the last line.
        headed: Whether the text of a report begins with the cluster's name.
    """

    column: str
    failed: str
    verdict: Callable[[Any], tuple[str, str]]
    total: Callable[[Sequence[Any]], list[str]]
    headed: bool = True


def render_fleet(
    members: Sequence[Member], command: str = "plan", *, verbose: bool = False, width: int | None = None
) -> Text:
    """Word a line for each cluster, then every report, then the sum.

    Args:
        members: The outcome for each cluster.
        command: The command, a key of `SUMMARIES`.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap, in columns; None leaves whole lines.
    """
    summary = SUMMARIES[command]
    columns = [Column("cluster"), Column("environment"), Column(summary.column, least=20)]
    text = table(columns, [_row(member, summary) for member in members], width)
    for member in members:
        text.append("\n\n")
        match member:
            case Answered(render=render):
                if not summary.headed:
                    text.append_text(_heading(member, command)).append("\n")
                text.append_text(_styled(render(verbose=verbose, width=width)))
            case Failed():
                text.append_text(_failure(member, command, summary))
    text.append("\n\n")
    text.append(fleet_sentence(members, command), "bold")
    return text


def _styled(rendered: Text | Page | str) -> Text:
    match rendered:
        case Text():
            return rendered
        case str():
            return Text(rendered.rstrip("\n"))
        case _:
            return rendered.text


def _row(member: Member, summary: _Summary) -> Sequence[str | Cell]:
    environment = member.environment or ""
    match member:
        case Answered(name=name, content=content):
            return (name, environment, Cell(*summary.verdict(content)))
        case Failed(name=name, message=message):
            return (name, environment, Cell(f"{summary.failed}: {clipped(message, _LONG)}", "red"))


def _heading(member: Member, command: str) -> Text:
    text = Text(f"kafkaform {command}", "bold").append(f" · cluster {clipped(member.name, 80)}", "not bold")
    if member.environment:
        text.append(f" · environment {clipped(member.environment, 80)}", "not bold")
    return text


def _failure(failed: Failed, command: str, summary: _Summary) -> Text:
    text = _heading(failed, command)
    for problem in failed.problems:
        text.append(f"\n  {printable(problem)}")
    text.append(f"\n  {summary.failed}: {clipped(failed.message, _LONG)}", "bold red")
    if failed.hint:
        text.append(f"\n  hint: {clipped(failed.hint, _LONG)}", "not bold")
    return text


def fleet_sentence(members: Sequence[Member], command: str = "plan") -> str:
    """Return the sum over all clusters, in one line."""
    summary = SUMMARIES[command]
    contents = [member.content for member in members if isinstance(member, Answered)]
    parts = summary.total(contents) if contents else []
    if len(contents) < len(members):
        parts.append(f"{len(members) - len(contents):,} {summary.failed}")
    return f"{counted(len(members), 'cluster')}: {', '.join(parts)}."


def fleet_to_json(members: Sequence[Member]) -> str:
    """Write `{"clusters": {NAME: REPORT}}`, with an `error` in the place of a report that failed."""
    entries = [f"{json.dumps(member.name)}: {_document(member)}" for member in members]
    return '{\n  "clusters": {\n' + textwrap.indent(",\n".join(entries), "    ") + "\n  }\n}\n"


def _document(member: Member) -> str:
    match member:
        case Answered(render=render):
            return str(render()).rstrip("\n")
        case Failed():
            error = {"message": member.message, "hint": member.hint, "problems": list(member.problems)}
            return json.dumps({"environment": member.environment, "error": error}, indent=2)


def fleet_to_markdown(members: Sequence[Member], command: str = "plan", *, limit: int = LIMIT) -> str:
    """Write the same for a comment on GitHub, in at most `limit` characters if every report fits at all.

    A report that does not is only in the table, which says so.
    """
    summary = SUMMARIES[command]
    rooms = _rooms(members, limit - _ROW * (len(members) + 1))
    rows = "".join(_markdown_row(member, summary, command, shown=member.name in rooms) for member in members)
    head = (
        f"## kafkaform {command}: {counted(len(members), 'cluster')}\n\n"
        f"**{fleet_sentence(members, command)}**\n\n"
        f"| Cluster | Environment | {summary.column.capitalize()} |\n| --- | --- | --- |\n{rows}"
    )
    reports = [
        str(member.render(limit=rooms[member.name]))
        for member in members
        if isinstance(member, Answered) and member.name in rooms
    ]
    return "\n".join([head, *reports])


def _rooms(members: Sequence[Member], room: int) -> dict[str, int]:
    """Return the characters of each report: short ones what they need, and the rest is shared evenly."""
    answered = [member for member in members if isinstance(member, Answered)]
    needs = sorted((len(str(member.render())), member.name) for member in answered)
    rooms: dict[str, int] = {}
    for index, (need, name) in enumerate(needs):
        share = room // (len(needs) - index)
        if need <= share or share >= LEAST:
            rooms[name] = max(LEAST, min(need, share))
            room -= min(need, share)
    return rooms


def _markdown_row(member: Member, summary: _Summary, command: str, *, shown: bool) -> str:
    environment = code(member.environment, 60, cell=True) if member.environment else ""
    match member:
        case Answered(name=name, content=content):
            more = "" if shown else f" (left out below: too long; see its own {command})"
            text = f"{prose(summary.verdict(content)[0], 300)}{more}".replace("|", r"\|")
        case Failed(name=name, message=message, hint=hint):
            remedy = f" ({prose(hint, 200)})" if hint else ""
            text = f"**{summary.failed}**: {prose(message, 300)}{remedy}".replace("|", r"\|")
    return f"| {code(name, 60, cell=True)} | {environment} | {text} |\n"


# --- the commands ------------------------------------------------------------------------------------


def _plan(plan: Plan) -> tuple[str, str]:
    style = "red" if plan.open_errors or plan.unknown else "yellow" if plan.changes else ""
    return headline(plan), style


def _plans(plans: Sequence[Plan]) -> list[str]:
    changing = [plan for plan in plans if plan.changes]
    held = sum(summary.refused + summary.needs_consent for summary in map(summarise, plans))
    parts = []
    if changing:
        total = sum(len(plan.changes) for plan in changing)
        parts.append(
            f"{counted(total, 'change')} on {len(changing):,}" + (f" ({held:,} held back)" if held else "")
        )
    if len(changing) < len(plans):
        parts.append(f"no changes on {len(plans) - len(changing):,}")
    if errors := sum(len(plan.open_errors) for plan in plans):
        parts.append(counted(errors, "error"))
    return parts


_DRIFT = {
    DriftVerdict.DRIFT: ("drift", "yellow"),
    DriftVerdict.UNKNOWN: ("drift not determined", "red"),
    DriftVerdict.CLEAN: ("no drift", "green"),
}


def _drift(drift: Drift) -> tuple[str, str]:
    return drift_wording.headline(drift), _DRIFT[drift.verdict][1]


def _drifts(drifts: Sequence[Drift]) -> list[str]:
    counts = Counter(drift.verdict for drift in drifts)
    return [f"{words} on {counts[verdict]:,}" for verdict, (words, _) in _DRIFT.items() if counts[verdict]]


def _health(report: HealthReport) -> tuple[str, str]:
    return verdict_words(report), VERDICTS[report.verdict]


def _healths(reports: Sequence[HealthReport]) -> list[str]:
    counts = Counter(report.verdict for report in reports)
    order = (HealthVerdict.UNHEALTHY, HealthVerdict.UNKNOWN, HealthVerdict.HEALTHY)
    return [f"{counts[verdict]:,} {verdict}" for verdict in order if counts[verdict]]


def _status(report: StatusReport) -> tuple[str, str]:
    words = ", ".join(_things(report.topics, report.groups))
    return (f"{words}; read in part", "yellow") if report.unread else (words, "")


def _statuses(reports: Sequence[StatusReport]) -> list[str]:
    topics = [topic for report in reports for topic in report.topics]
    groups = [group for report in reports for group in report.groups]
    return _things(topics, groups)


def _things(topics: Sequence[object], groups: Sequence[object]) -> list[str]:
    return [counted(len(topics), "topic"), counted(len(groups), "group")]


def _import(made: Import) -> tuple[str, str]:
    style = "red" if made.unread or made.unlike else ""
    return ", ".join(_imports([made])), style


def _imports(imports: Iterable[Import]) -> list[str]:
    imports = [*imports]
    files = sum(len(made.files) for made in imports)
    refs = sum(len(made.refs) for made in imports)
    parts = [f"{counted(refs, 'manifest')} in {counted(files, 'file')}"]
    if lacking := sum(len({*made.unread, *made.unlike}) for made in imports):
        parts.append(f"{lacking:,} not as on the cluster")
    return parts


SUMMARIES: Mapping[str, _Summary] = {
    "plan": _Summary("plan", "not planned", _plan, _plans),
    "drift": _Summary("drift", "not compared", _drift, _drifts),
    "doctor": _Summary("health", "not examined", _health, _healths),
    "status": _Summary("status", "not read", _status, _statuses, headed=False),
    "import": _Summary("import", "not imported", _import, _imports, headed=False),
}
"""How the reports of each command are summed up."""
