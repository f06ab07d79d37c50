"""The progress of successions as text, JSON and Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.core.units import format_duration
from kafkaform.core.wording import setting
from kafkaform.inspect.successions import GroupStage, SuccessionVerdict
from kafkaform.report.document import Column, Paragraph, ReportDocument, Role, Table, TextSpan
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.inspect.successions import GroupProgress, Succession
    from kafkaform.report.document import Block
    from kafkaform.report.page import Page

_VERDICTS = {
    SuccessionVerdict.OVER: Role.GOOD,
    SuccessionVerdict.UNDER_WAY: Role.PENDING,
    SuccessionVerdict.STUCK: Role.BAD,
}
_STAGES = {GroupStage.MOVED: Role.GOOD, GroupStage.READY: Role.PENDING, GroupStage.READING: Role.TEXT}
_COLUMNS = (
    Column("group", least=12),
    Column("Stage"),
    Column("Left", right=True),
    Column("Records/s", right=True, rank=2),
    Column("Time left", right=True, rank=1),
    Column("Next", least=20),
)
_NOTHING = "-"


def render_successions(successions: Sequence[Succession], *, width: int | None = None) -> Page:
    """Render successions for a terminal of `width` columns; None if the output is no terminal."""
    return render_page(_build(successions), width=width)


def successions_to_markdown(successions: Sequence[Succession], *, limit: int = LIMIT) -> str:
    """Return successions as Markdown of at most `limit` characters."""
    return write_markdown(_build(successions), limit=limit)


def _build(successions: Sequence[Succession]) -> ReportDocument:
    blocks: list[Block] = []
    for succession in successions:
        verdict = TextSpan(succession.verdict.value, _VERDICTS[succession.verdict])
        names = (
            TextSpan(succession.successor, Role.NAME),
            " succeeds ",
            TextSpan(succession.name, Role.NAME),
        )
        blocks.append(Paragraph([*names, ": ", verdict]))
        blocks += [Paragraph(text) for text in list_notes(succession)]
        if succession.groups:
            blocks.append(Table(_COLUMNS, [_row(group) for group in succession.groups]))
    if not successions:
        blocks.append(Paragraph("No topic of the manifests succeeds another one."))
    return ReportDocument("", blocks, indent=0)


def list_notes(succession: Succession) -> list[str]:
    """Return who writes to the predecessor, what could not be read, and when it can be deleted."""
    predecessor, name = succession.predecessor, succession.name
    if predecessor is None:
        return [
            f"{name} is gone: remove {setting('succeeds', name)} from the manifest of {succession.successor}"
        ]
    notes = [predecessor.obstacle] if predecessor.obstacle else []
    if succession.unread:
        notes.append(f"some groups may be missing: {succession.unread}")
    if succession.verdict is SuccessionVerdict.OVER:
        keep = f"keep {name} for now: {predecessor.recent}"
        delete = f"{name} can be deleted: write {setting('state', 'absent')} into its manifest"
        notes.append(keep if predecessor.recent else delete)
    return notes


def _row(group: GroupProgress) -> tuple[str | TextSpan, ...]:
    rate = _NOTHING if group.per_second is None else f"{group.per_second:,.1f}"
    return (
        group.name,
        TextSpan(str(group.stage), _STAGES.get(group.stage, Role.BAD)),
        f"{group.remaining:,}",
        rate,
        _NOTHING if group.time_left_ms is None else format_duration(group.time_left_ms),
        group.next_step,
    )


def successions_to_json(successions: Sequence[Succession]) -> str:
    """Return successions as JSON; unknown figures are null."""
    document = {
        "format_version": 1,
        "successions": [
            {
                "successor": succession.successor,
                "predecessor": succession.name,
                "verdict": succession.verdict.value,
                "notes": list_notes(succession),
                "groups": [
                    {
                        "name": group.name,
                        "stage": str(group.stage),
                        "records_left": group.remaining,
                        "records_per_second": group.per_second,
                        "time_left_ms": group.time_left_ms,
                        "next": group.next_step or None,
                    }
                    for group in succession.groups
                ],
            }
            for succession in successions
        ],
    }
    return json.dumps(document, indent=2)
