"""The plans of several clusters in one report: side by side first, then one after the other."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from rich.text import Text

from kafkaform.core.printable import clipped, printable
from kafkaform.core.wording import counted
from kafkaform.plan.fleet import Failed, Made
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.summary import headline, summarise
from kafkaform.report.markdown import LEAST, LIMIT, render_markdown
from kafkaform.report.markdown_escape import code, prose
from kafkaform.report.page import Cell, Column, table
from kafkaform.report.text import render_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.plan.fleet import Member

_LONG = 600
_ROW = 1_000
"""More than a row of the table of clusters takes, with room for what is above it."""


def render_fleet(members: Sequence[Member], *, verbose: bool = False, width: int | None = None) -> Text:
    """A line for each cluster, then every plan, then the sum.

    Args:
        members: What became of each cluster.
        verbose: List everything, also what is usually only counted.
        width: Where to wrap, in columns; None leaves whole lines.
    """
    columns = [Column("cluster"), Column("environment"), Column("plan", least=20)]
    text = table(columns, [_row(member) for member in members], width)
    for member in members:
        text.append("\n\n")
        match member:
            case Made(plan=plan, header=header):
                text.append_text(render_plan(plan, header, verbose=verbose, width=width).text)
            case Failed():
                text.append_text(_failure(member))
    text.append("\n\n")
    text.append(fleet_sentence(members), "bold")
    return text


def _row(member: Member) -> Sequence[str | Cell]:
    match member:
        case Made(name=name, plan=plan, header=header):
            style = "red" if plan.open_errors or plan.unknown else "yellow" if plan.changes else ""
            return (name, header.environment or "", Cell(headline(plan), style))
        case Failed(name=name, message=message):
            return (name, "", Cell(f"not planned: {clipped(message, _LONG)}", "red"))


def _failure(failed: Failed) -> Text:
    text = Text("kafkaform plan", "bold").append(f" · cluster {clipped(failed.name, 80)}", "not bold")
    for problem in failed.problems:
        text.append(f"\n  {printable(problem)}")
    text.append(f"\n  not planned: {clipped(failed.message, _LONG)}", "bold red")
    if failed.hint:
        text.append(f"\n  hint: {clipped(failed.hint, _LONG)}", "not bold")
    return text


def fleet_sentence(members: Sequence[Member]) -> str:
    """The sum over all clusters, in one line."""
    plans = [member.plan for member in members if isinstance(member, Made)]
    changing = [plan for plan in plans if plan.changes]
    held = sum(summary.refused + summary.needs_consent for summary in map(summarise, plans))
    parts = []
    if changing:
        total = sum(len(plan.changes) for plan in changing)
        parts.append(
            f"{counted(total, 'change')} on {len(changing):,}" + (f" ({held:,} held back)" if held else "")
        )
    quiet = len(plans) - len(changing)
    if quiet:
        parts.append(f"no changes on {quiet:,}")
    if errors := sum(len(plan.open_errors) for plan in plans):
        parts.append(counted(errors, "error"))
    if len(plans) < len(members):
        parts.append(f"{len(members) - len(plans):,} not planned")
    return f"{counted(len(members), 'cluster')}: {', '.join(parts)}."


def fleet_to_json(members: Sequence[Member]) -> str:
    """`{"clusters": {NAME: PLAN}}`, each plan as it is saved, or an `error` in the place of one."""
    entries = [f"{json.dumps(member.name)}: {_document(member)}" for member in members]
    return '{\n  "clusters": {\n' + textwrap.indent(",\n".join(entries), "    ") + "\n  }\n}\n"


def _document(member: Member) -> str:
    match member:
        case Made(plan=plan, header=header):
            return plan_to_json(plan, header).rstrip("\n")
        case Failed():
            error = {"message": member.message, "hint": member.hint, "problems": list(member.problems)}
            return json.dumps({"error": error}, indent=2)


def fleet_to_markdown(members: Sequence[Member], *, limit: int = LIMIT) -> str:
    """The same for a comment on GitHub, in at most `limit` characters as long as every plan fits at all.

    A plan that does not is only in the table, which says so.
    """
    rooms = _rooms(members, limit - _ROW * (len(members) + 1))
    rows = "".join(_markdown_row(member, shown=member.name in rooms) for member in members)
    head = (
        f"## kafkaform plan: {counted(len(members), 'cluster')}\n\n**{fleet_sentence(members)}**\n\n"
        f"| Cluster | Environment | Plan |\n| --- | --- | --- |\n{rows}"
    )
    plans = [
        render_markdown(member.plan, member.header, limit=rooms[member.name])
        for member in members
        if isinstance(member, Made) and member.name in rooms
    ]
    return "\n".join([head, *plans])


def _rooms(members: Sequence[Member], room: int) -> dict[str, int]:
    """How many characters each plan gets: short ones what they need, and the rest is shared evenly."""
    made = [member for member in members if isinstance(member, Made)]
    needs = sorted((len(render_markdown(one.plan, one.header)), one.name) for one in made)
    rooms: dict[str, int] = {}
    for index, (need, name) in enumerate(needs):
        share = room // (len(needs) - index)
        if need <= share or share >= LEAST:
            rooms[name] = max(LEAST, min(need, share))
            room -= min(need, share)
    return rooms


def _markdown_row(member: Member, *, shown: bool) -> str:
    match member:
        case Made(name=name, plan=plan, header=header):
            environment = code(header.environment, 60, cell=True) if header.environment else ""
            more = "" if shown else " (left out below: too long; see its own plan)"
            said = f"{headline(plan)}{more}"
        case Failed(name=name, message=message, hint=hint):
            environment = ""
            remedy = f" ({prose(hint, 200)})" if hint else ""
            said = f"**not planned**: {prose(message, 300)}{remedy}".replace("|", r"\|")
    return f"| {code(name, 60, cell=True)} | {environment} | {said} |\n"
