"""Documents as a self-contained HTML page: no network access, no script, no other file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import TYPE_CHECKING, Any

from kafkaform.core.printable import clipped, split_code
from kafkaform.core.wording import counted
from kafkaform.report.charts import draw_chart
from kafkaform.report.document import (
    Bar,
    Chart,
    CodeBlock,
    Item,
    Paragraph,
    Role,
    Section,
    Subsection,
    Table,
    TextSpan,
    Verbatim,
    split_spans,
)
from kafkaform.report.truncation import BoundedList, fit_lists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkaform.report.document import Block, Column, Inline, ReportDocument, Row

LIMIT = 2_000_000
"""The characters of a page."""
_UNFOLDED = 20
"""The most rows of a table that is not folded."""
_CLASSES = {
    Role.STRONG: "none",
    Role.MUTED: "dim",
    Role.PLACE: "dim",
    Role.GOOD: "pass",
    Role.VERY_GOOD: "pass",
    Role.WARNING: "warn",
    Role.VERY_WARNING: "warn",
    Role.BAD: "fail",
    Role.VERY_BAD: "fail",
}


def write_html(document: ReportDocument, *, footer: str = "", limit: int = LIMIT) -> str:
    """Return a document as an HTML page of at most `limit` characters; sections share the room."""
    title = write_inline(document.title)
    title += f": {write_inline(document.verdict)}" if document.verdict else ""
    context = [write_inline(part) for part in (*document.context, *document.origin)]
    css = _read_stylesheet()
    name = " · ".join(_join_text(part) for part in (document.title, *document.context))
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{_allow_style(css)}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n',
        f"<title>{escape(name)}</title>\n<style>{css}</style>\n</head>\n<body>\n",
        f'<header class="page">\n<h1>{title}</h1>\n<p>{" · ".join(context)}</p>\n',
        f'<p class="lead">{write_inline(document.summary)}</p>\n' if document.summary else "",
        "</header>\n<main>\n",
    ]
    lists: list[tuple[int, BoundedList[Any]]] = []
    for block in document.blocks:
        if not isinstance(block, Section):
            parts.append(_write_block(block, 2))
        elif block.entries:
            lists.append((len(parts), _to_list(block)))
            parts.append("")
    parts.append(f"</main>\n<footer>{escape(clipped(footer, 280))}</footer>\n</body>\n</html>\n")
    fitted = fit_lists([bounded for _, bounded in lists], limit - sum(map(len, parts)))
    for (position, _), text in zip(lists, fitted, strict=True):
        parts[position] = text
    return "".join(parts)


def write_inline(inline: Inline) -> str:
    """Return text within a line."""
    return "".join(map(_write_span, split_spans(inline)))


def _write_span(span: TextSpan) -> str:
    text = clipped(span.text, span.longest)
    if span.role.is_code:
        written = f"<code>{escape(text)}</code>"
    else:
        pieces = split_code(text)
        written = "".join(
            f"<code>{escape(piece)}</code>" if is_code else escape(piece) for piece, is_code in pieces
        )
        if kind := _CLASSES.get(span.role):
            written = f'<span class="{kind}">{written}</span>'
    return f'<a href="#{span.target}">{written}</a>' if span.target else written


def _join_text(inline: Inline) -> str:
    return "".join(clipped(span.text, span.longest) for span in split_spans(inline))


def _to_list(section: Section[Any]) -> BoundedList[Any]:
    first = section.show(section.entries[0])
    title = f"<h2>{write_inline(section.title)}</h2>\n" if section.title else ""
    title += f"<p>{write_inline(section.subtitle)}</p>\n" if section.subtitle else ""
    head, tail, left_out = f"<section>\n{title}", "</section>\n", '<p class="note">{}</p>'
    if section.columns:
        start, end = _start_table(section.columns)
        left_out = f'<tr><td class="left" colspan="{len(section.columns)}">{{}}</td></tr>'
        head, tail = head + start, end + tail
    elif isinstance(first, Item):
        head, tail, left_out = f"{head}<ul>\n", f"</ul>\n{tail}", "<li>{}</li>"
    elif isinstance(first, Subsection):
        # Each is a section of its own.
        head, tail = title, ""

    def write(entry: Block | Row) -> str:
        if section.columns:
            return _write_row(section.columns, entry)  # type: ignore[arg-type]
        return _write_item(entry) if isinstance(entry, Item) else _write_block(entry, 2)  # type: ignore[arg-type]

    brief = section.brief
    return BoundedList(
        head,
        section.entries,
        lambda entry: write(section.show(entry)),
        lambda entries: left_out.format(write_inline(section.left_out(entries))),
        tail,
        None if brief is None else lambda entry: write(brief(entry)),
        section.share,
        section.most,
    )


def _write_block(block: Block, level: int) -> str:
    match block:
        case Paragraph():
            lead = f"<b>{escape(block.lead)}:</b> " if block.lead else ""
            return f"<p>{lead}{write_inline(block.text)}</p>\n"
        case Verbatim():
            return f"<p>{escape(block.lead)} <code>{escape(clipped(block.text, block.limit))}</code></p>\n"
        case Item():
            return f"<ul>\n{_write_item(block)}</ul>\n"
        case Table():
            return _write_table(block)
        case Chart():
            return draw_chart(block)
        case CodeBlock():
            return f"<pre>{escape(chr(10).join(clipped(line, 4000) for line in block.lines))}</pre>\n"
        case Subsection():
            return _write_subsection(block, level)


def _write_subsection(block: Subsection, level: int) -> str:
    anchor = f' id="{block.anchor}"' if block.anchor else ""
    title = f"<h{level}{anchor}>{write_inline(block.title)}</h{level}>"
    kind = next((_CLASSES[span.role] for span in split_spans(block.text) if span.role in _CLASSES), "none")
    badge = f'\n<p class="badge {kind}">{escape(_join_text(block.text))}</p>' if block.text else ""
    conclusion = "".join(map(_write_item, block.conclusion))
    conclusion = f'<ul class="conclusion">\n{conclusion}</ul>\n' if conclusion else ""
    blocks = [
        f'<header class="top">{title}{badge}</header>\n',
        *_write_blocks(block.blocks[:1], level + 1),
        conclusion,
        *_write_blocks(block.blocks[1:], level + 1),
    ]
    return f"<section>\n{''.join(blocks)}</section>\n" if level == 2 else "".join(blocks)


def _write_blocks(blocks: Sequence[Block], level: int) -> Iterator[str]:
    """Yield blocks; items that follow each other are one list, and charts are side by side."""
    for kind, run in groupby(blocks, type):
        if kind is Item:
            yield f"<ul>\n{''.join(_write_item(item) for item in run if isinstance(item, Item))}</ul>\n"
        elif kind is Chart:
            yield f'<div class="charts">\n{"".join(_write_block(chart, level) for chart in run)}</div>\n'
        else:
            yield from (_write_block(block, level) for block in run)


def _write_item(item: Item) -> str:
    text = write_inline(item.head)
    if item.text:
        text = f"<b>{text}</b> {write_inline(item.text)}"
    text += f" {write_inline(item.mark)}" if item.mark else ""
    for note in item.notes:
        text += f'<br><span class="dim">{escape(note.lead)}: {write_inline(note.text)}</span>'
    below = "".join(_write_block(part, 3) for part in item.below)
    return f"<li>{text}{below}</li>\n"


def _align(column: Column) -> str:
    return "" if column.right else ' class="left"'


def _start_table(columns: Sequence[Column]) -> tuple[str, str]:
    """Return what is before and after the rows of a table."""
    headers = "".join(
        f'<th scope="col"{_align(column)}>{escape(clipped(column.header, 280))}</th>' for column in columns
    )
    label = escape(clipped(columns[0].header, 280))
    start = f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">\n<table>\n'
    return f"{start}<thead><tr>{headers}</tr></thead>\n<tbody>\n", "</tbody>\n</table>\n</div>\n"


def _write_table(block: Table) -> str:
    start, end = _start_table(block.columns)
    top = max((cell.share for row in block.rows for cell in row if isinstance(cell, Bar)), default=0.0) or 1.0
    table = f"{start}{''.join(_write_row(block.columns, row, top) for row in block.rows)}{end}"
    title = f"<p>{write_inline(block.title)}</p>\n" if block.title else ""
    if len(block.rows) > _UNFOLDED:
        summary = f"{counted(len(block.rows), 'row')} by {block.columns[0].header.lower()}"
        table = f"<details>\n<summary>{escape(summary)}</summary>\n{table}</details>\n"
    return title + table


def _write_row(columns: Sequence[Column], row: Row, top: float = 1.0) -> str:
    cells = []
    for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
        kind = _align(column)
        if isinstance(cell, Bar):
            cells.append(f'<td class="wide">{_draw_bar(cell, top, column.mean or 0.0)}</td>')
        elif number:
            cells.append(f"<td{kind}>{write_inline(cell)}</td>")
        else:
            cells.append(f'<th scope="row"{kind}>{write_inline(cell)}</th>')
    return f"<tr>{''.join(cells)}</tr>\n"


def _draw_bar(bar: Bar, top: float, mean: float) -> str:
    # The row has its figure as text.
    kind = "bar" if bar.role is Role.TEXT else "hot"
    width, mark = (f"{100 * share / top:.1f}%" for share in (bar.share, mean))
    return (
        f'<svg class="row" aria-hidden="true"><rect class="{kind}" y="3" height="10" width="{width}"/>'
        f'<line class="level" x1="{mark}" x2="{mark}" y1="0" y2="16"/></svg>'
    )


@cache
def _read_stylesheet() -> str:
    return files("kafkaform").joinpath("templates", "report.css").read_text("utf-8")


def _allow_style(css: str) -> str:
    """Return a content security policy that allows only the page's own style."""
    # Browsers run no script, load nothing, and apply no style but this one, whatever a name would inject. The
    # policy also forbids style attributes, so the charts use attributes of SVG.
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
