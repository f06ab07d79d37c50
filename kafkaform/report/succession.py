"""The progress of successions as text, JSON and Markdown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform.core.units import format_duration
from kafkaform.report.document import Block, Column, Paragraph, ReportDocument, Role, Table, TextSpan
from kafkaform.report.markdown import LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from kafkaform.report.skew_values import moment
from kafkaform.resources.succession import GroupStage, SuccessionVerdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.transactions import ProducerState
    from kafkaform.resources.succession import GroupProgress, Succession, TopicWriter

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
_PRODUCER_COLUMNS = (
    Column("producer", least=12),
    Column("Epoch", right=True),
    Column("Partition", right=True),
    Column("Last record"),
    Column("Sequence", right=True, rank=1),
    Column("Coordinator", right=True, rank=2),
)
_WRITER_COLUMNS = (Column("may write", least=12), Column("By"), Column("Declared in", least=20))
_NOTHING = "-"


def render_successions(successions: Sequence[Succession], *, width: int | None = None) -> Page:
    """Render successions for a terminal of `width` columns; None if the output is no terminal."""
    return render_page(_build(successions), width=width)


def successions_to_markdown(successions: Sequence[Succession], *, limit: int = LIMIT) -> str:
    """Return successions as Markdown of at most `limit` characters."""
    return write_markdown(_build(successions, "kafkaform succession"), limit=limit)


def _build(successions: Sequence[Succession], title: str = "") -> ReportDocument:
    blocks: list[Block] = []
    for succession in successions:
        verdict = TextSpan(succession.verdict.value, _VERDICTS[succession.verdict])
        names = (
            TextSpan(succession.successor, Role.NAME),
            " succeeds ",
            TextSpan(succession.name, Role.NAME),
        )
        blocks.append(Paragraph([*names, ": ", verdict]))
        blocks += [Paragraph(text, "note") for text in succession.notes]
        if succession.predecessor is not None and succession.predecessor.producers:
            rows = [_row_of_producer(producer) for producer in succession.predecessor.producers]
            blocks.append(Table(_PRODUCER_COLUMNS, rows))
        if succession.writers:
            blocks.append(Table(_WRITER_COLUMNS, [_row_of_writer(writer) for writer in succession.writers]))
        if succession.groups:
            blocks.append(Table(_COLUMNS, [_row(group) for group in succession.groups]))
    if not successions:
        blocks.append(Paragraph("No topic of the manifests succeeds another one."))
    return ReportDocument(title, blocks, indent=0)


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


def _row_of_producer(producer: ProducerState) -> tuple[str, ...]:
    return (
        producer.transactional_id or str(producer.id),
        str(producer.epoch),
        str(producer.partition[1]),
        moment(producer.written_ms),
        str(producer.sequence),
        _NOTHING if producer.coordinator is None else str(producer.coordinator),
    )


def _row_of_writer(writer: TopicWriter) -> tuple[str, ...]:
    return writer.principal, writer.right, str(writer.location or "no manifest")


def successions_to_json(successions: Sequence[Succession]) -> str:
    """Return successions as JSON; unknown figures are null."""
    document = {
        "format_version": 1,
        "successions": [
            {
                "successor": succession.successor,
                "predecessor": succession.name,
                "verdict": succession.verdict.value,
                "notes": succession.notes,
                "producers": [
                    {
                        "id": producer.id,
                        "epoch": producer.epoch,
                        "partition": producer.partition[1],
                        "last_timestamp_ms": producer.written_ms,
                        "last_sequence": producer.sequence,
                        "transactional_id": producer.transactional_id,
                        "coordinator": producer.coordinator,
                    }
                    for producer in (succession.predecessor.producers if succession.predecessor else ())
                ],
                "writers": [
                    {
                        "principal": writer.principal,
                        "right": writer.right,
                        "file": writer.location.file if writer.location else None,
                        "line": writer.location.line if writer.location else None,
                    }
                    for writer in succession.writers
                ],
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
