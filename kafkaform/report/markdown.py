"""Documents as GitHub's Markdown of bounded length."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kafkaform.core.values import replace
from kafkaform.report.bars import draw_bars
from kafkaform.report.document import (
    MAX_PROSE_LENGTH,
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
from kafkaform.report.markdown_escape import code, code_block, html, prose
from kafkaform.report.truncation import BoundedList, fit_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.report import document
    from kafkaform.report.document import Column, Inline, ReportDocument, Row

LIMIT = 60_000
"""GitHub takes comments of up to 65,536 characters; the margin is for what a workflow adds."""
MIN_LIMIT = 6_000
"""The characters that headings and notes alone may need."""
# What `prose` leaves as plain text and Markdown still reads at the start of a line: markers of lists, which
# have at most nine digits, and the lines of `=` or `-` that make a heading of the line above.
_BLOCK_START = re.compile(r"^(\d{1,9})?([-+=.)])(?=\s|$)")
_BLANK = "&nbsp;"
_BAR = 20
"""The characters of the longest bar in a table."""


def write_markdown(document: ReportDocument, *, limit: int = LIMIT) -> str:
    """Return a document as Markdown of at most `limit` characters.

    Sections share the room that the other blocks leave; a line counts whatever is left out.

    Raises:
        ValueError: `limit` is below 6,000.
    """
    if limit < MIN_LIMIT:
        raise ValueError(f"{limit:,} characters are too few for a report; allow at least {MIN_LIMIT:,}")
    # Only sections can be shortened. They get the room that all other blocks leave, so those are written
    # first, and a section keeps its place with an empty text until then.
    texts = [_write_head(document)]
    sections: list[tuple[int, BoundedList[Any]]] = []
    for block in document.blocks:
        if not isinstance(block, Section):
            texts.append(f"\n{_write_block(block, '###')}\n")
        elif block.entries:
            sections.append((len(texts), _to_list(block)))
            texts.append("")
    fitted = fit_lists([bounded for _, bounded in sections], limit - sum(map(len, texts)))
    for (position, _), text in zip(sections, fitted, strict=True):
        texts[position] = text
    return "".join(texts)


def write_inline(inline: Inline, *, cell: bool = False) -> str:
    """Return text within a line.

    Args:
        cell: Whether it is in a table, where a pipe would end the cell.
    """
    parts = (inline,) if isinstance(inline, str | TextSpan) else inline
    text = ""
    for part in parts:
        written = prose(part, MAX_PROSE_LENGTH) if isinstance(part, str) else _write_span(part)
        # Two spans of code side by side would be one with other fences.
        text += f" {written}" if text.endswith("`") and written.startswith("`") else written
    # GFM splits a row into cells before it reads code spans: a pipe needs its backslash in code, too.
    return text.replace("|", r"\|") if cell else text


def _write_head(document: ReportDocument) -> str:
    heading = f"## {write_inline(document.title)}"
    if document.verdict:
        heading += f": {_write_title(document.verdict)}"
    context = " · ".join(map(write_inline, (*document.context, *document.origin)))
    summary = _write_title(document.summary)
    # Nothing of the head is cut: it has the verdict and the counts, whatever is left out below.
    lines = [heading, _write_line(_capitalise(context)), summary and f"**{summary}**"]
    return "\n\n".join(line for line in lines if line) + "\n"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _write_span(span: TextSpan) -> str:
    if span.role.is_code:
        return code(span.text, span.longest) if span.text else ""
    text = prose(span.text, span.longest)
    # With a space at its start or end, it would be no mark of strong text.
    return f"**{text.strip()}**" if span.role.is_strong and text.strip() else text


def _write_line(text: str) -> str:
    """Return a line that starts no other block, neither by a marker nor by the indent of code."""
    # The backslash makes the marker plain text.
    return _BLOCK_START.sub(r"\1\\\2", text.strip())


def _write_text(inline: Inline, lead: str = "") -> str:
    """Return a paragraph in one line; plain text ends with one full stop."""
    span = TextSpan(inline) if isinstance(inline, str) else inline
    if isinstance(span, TextSpan) and not (span.role.is_code or span.role.is_strong):
        text = f"{write_inline(replace(span, text=span.text.rstrip().rstrip('.')))}."
    else:
        text = write_inline(inline)
    return _write_line(f"{_capitalise(lead)}: {text}" if lead else text)


def _to_list(section: Section[Any]) -> BoundedList[Any]:
    title = _write_title(section.title)
    head, tail = (f"\n### {title}\n\n" if title else "\n"), ""
    if section.folded:
        head = _fold(section.title, f": {len(section.entries):,}")
        # The blank line keeps the tag out of the last paragraph or list item.
        tail = "\n</details>\n"
    if section.joined:
        tail = f"\n{tail}"
    if section.subtitle:
        head += f"{_capitalise(_write_text(section.subtitle))}\n\n"
    if section.columns:
        head += _write_table_head(section.columns)
    return BoundedList(
        head,
        section.entries,
        _entry_writer(section, section.show),
        lambda entries: write_inline(section.left_out(entries)),
        tail,
        None if section.brief is None else _entry_writer(section, section.brief),
        section.share,
        section.most,
    )


def _entry_writer(
    section: Section[Any], show: Callable[[Any], document.Block | Row]
) -> Callable[[object], str]:
    def write(entry: object) -> str:
        shown: Any = show(entry)
        if section.columns:
            return _write_row(shown)
        # Joined names are one paragraph: as a list, hundreds of them would take a line each.
        if section.joined and isinstance(shown, Item):
            return f"{_write_line(write_inline(shown.head)) or _BLANK} "
        # A section without a title has no heading of its own, so its subsections take that level.
        text = _write_block(shown, "####" if _write_title(section.title) else "###")
        # A table or a fold takes in whatever follows without a blank line, and a paragraph the line below it.
        # Between items, that line would make the list loose.
        return f"{text}\n" if isinstance(shown, Item) else f"\n{text}\n\n"

    return write


def _write_block(block: document.Block, heading: str = "####") -> str:
    match block:
        case Paragraph():
            return _capitalise(_write_text(block.text, block.lead))
        case Verbatim():
            # Code keeps the spaces and quotes of a command; as prose, each special word would be a span of
            # its own, and none of them could be copied with its neighbours.
            line = code(block.text, block.limit)
            return f"{_capitalise(block.lead)}: {line}" if block.lead else line
        case Item():
            return "\n".join(_list_lines(block, ""))
        case Table():
            rows = block.rows
            if block.columns[-1].mean is not None:
                # As code, whose characters are all of one width.
                rows = draw_bars(block.columns, rows, _BAR, Role.CODE)
            title = f"{_write_text(block.title)}\n\n" if block.title else ""
            table = _write_table_head(block.columns) + "".join(map(_write_row, rows)).removesuffix("\n")
            return title + table
        case Chart():
            return ""
        case CodeBlock():
            return code_block(block.language, [*block.lines])
        case Subsection():
            return _write_subsection(block, heading)


def _write_subsection(block: Subsection, heading: str) -> str:
    title, text = split_spans(block.title), split_spans(block.text)
    title += [TextSpan(": "), *text] if text else []
    parts = [_fold(title).strip("\n") if block.folded else f"{heading} {_write_title(title)}"]
    previous: document.Block | None = None
    for part in (*block.blocks[:1], *block.conclusion, *block.blocks[1:]):
        if isinstance(part, Chart):
            continue
        # A blank line between items would make the list loose, and GitHub would set each item as a paragraph.
        if isinstance(part, Item) and isinstance(previous, Item):
            parts[-1] += f"\n{_write_block(part)}"
        else:
            parts.append(_write_block(part))
        previous = part
    # What follows the tag without a blank line would be HTML.
    return "\n\n".join([*parts, "</details>"] if block.folded else parts)


def _list_lines(item: Item, indent: str) -> Iterator[str]:
    """Yield the lines of an item and of the items below it."""
    label = isinstance(item.head, str)
    if label and not item.text and not item.below:
        line = _write_text(item.head)
    else:
        line = write_inline(item.head)
        line = _capitalise(line) if label and item.text else line
        line += f": {_write_text(item.text)}" if item.text else ""
        line += f" ({write_inline(item.mark)})" if item.mark else ""
    for note in item.notes:
        line += f"{'' if line.endswith('.') else '.'} {_write_block(note)}"
    # Two spaces are the width of `- `: less would start a list beside this one, not below the item.
    # A marker without text, right below the text of an item, would make a heading of that.
    yield f"{indent}- {_write_line(line) or _BLANK}"
    for block in item.below:
        if isinstance(block, Item):
            yield from _list_lines(block, f"{indent}  ")
        else:
            yield f"{indent}  - {_write_block(block) or _BLANK}"


def _write_title(title: Inline) -> str:
    """Return a title with its strong spans as plain text, as the whole title is strong."""
    spans = [replace(s, role=Role.TEXT) if s.role.is_strong else s for s in split_spans(title)]
    return write_inline(spans).strip()


def _fold(title: Inline, count: str = "") -> str:
    """Return the start of a fold; its title is HTML."""
    # GitHub does not read Markdown inside of a tag's line, so code is an element here, not a span.
    parts = (
        f"<code>{html(span.text, span.longest)}</code>"
        if span.role.is_code
        else html(span.text, span.longest)
        for span in split_spans(title)
    )
    # The blank line ends the HTML block (CommonMark, 4.6): without it, GitHub would show the Markdown of the
    # entries as it is written.
    return f"\n<details><summary>{''.join(parts)}{count}</summary>\n\n"


def _write_table_head(columns: Sequence[Column]) -> str:
    headers = [write_inline(TextSpan(column.header, column.role), cell=True) for column in columns]
    rules = ["---:" if column.right else "---" for column in columns]
    return f"| {' | '.join(headers)} |\n| {' | '.join(rules)} |\n"


def _write_row(row: Row) -> str:
    cells = [write_inline(cell, cell=True) for cell in row if not isinstance(cell, Bar)]
    return f"| {' | '.join(cells)} |\n"
