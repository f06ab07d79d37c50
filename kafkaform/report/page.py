"""Terminal text: lines, paragraphs under a hanging lead, blocks with a title, tables.

Tables are columns side by side, folded at spaces to a terminal's width, and never cut.

A name is never broken, so that it can be copied: a name wider than its column gets a line of its own,
above its row in the first column, below it in any other.

rich's own tables are not used: for a thousand rows they take 0.4 s, a hundred times as long as these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from rich.cells import cell_len

from kafkaform.core.printable import MAX_LINE_LENGTH, clipped, printable, wrap_text
from kafkaform.core.values import Value, replace
from kafkaform.report.bars import MARK, draw_bars
from kafkaform.report.document import (
    MAX_PROSE_LENGTH,
    Bar,
    Chart,
    CodeBlock,
    Column,
    Item,
    Paragraph,
    Section,
    Subsection,
    Table,
    TextSpan,
    Verbatim,
    split_spans,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.text import Text

    from kafkaform.report.document import Block, Inline, ReportDocument, Row

__all__ = ["FIELD_INDENT", "NOTE_INDENT", "PROSE", "Page", "fit_columns", "render_page"]

Part: TypeAlias = str | tuple[str, str]
"""Plain text, or text and a style."""

FIELD_INDENT = 6
NOTE_INDENT = 8
PROSE = MAX_PROSE_LENGTH
"""The most characters of a reason or message."""
_SHIFT = 4
"""The further indent of what is below a title or an item."""
_OUTER_SHIFT = 2
"""The indent of what is below a title at the edge of the page, where wide tables are."""
_BESIDE = "   "
"""What separates a mark from the text before it."""
_MIN_ROOM = 20


class Page:
    """A page of lines; control characters in its text are escaped here.

    Args:
        width: The columns at which prose wraps; None for no wrapping.

    Attributes:
        has_body: Whether the page has more than its head.
    """

    def __init__(self, width: int | None) -> None:
        self.has_body = False
        self._width = width
        # Text and style of each piece; a line break is a piece, too. Plain strings, so that output without
        # colours needs no rich: for plans, 43 instead of 80 ms, and 7 ms of imports (benchmarks/README.md).
        self._tokens: list[tuple[str, str | None]] = []

    @classmethod
    def build(cls, text: str) -> Page:
        """Return a page of printable lines."""
        page = cls(None)
        for line in text.splitlines():
            page.line(line)
        return page

    @property
    def is_empty(self) -> bool:
        """True without any text."""
        return not self._tokens

    @property
    def plain(self) -> str:
        """The lines without styles."""
        return "".join([text for text, _ in self._tokens])

    @property
    def text(self) -> Text:
        """The lines with styles; `plain` does without importing rich."""
        from rich.text import Text

        # All at once: appending piece by piece takes three times as long.
        return Text().append_tokens(self._tokens)

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add one line of styled parts."""
        self.add(
            [
                clipped(part, MAX_LINE_LENGTH)
                if isinstance(part, str)
                else (clipped(part[0], MAX_LINE_LENGTH), part[1])
                for part in parts
            ],
            indent,
        )

    def add(self, parts: Iterable[Part], indent: int) -> None:
        """Add one line of parts that are printable."""
        tokens = self._tokens
        # The break comes before a line, not after it: a page ends without one, and whoever prints it adds it.
        if before := ("\n" if tokens else "") + " " * indent:
            tokens.append((before, None))
        for part in parts:
            text, style = (part, None) if isinstance(part, str) else part
            if text:
                tokens.append((text, style or None))

    def fits(self, *parts: Part, indent: int = 0) -> bool:
        """Return whether a line of these parts fits the terminal."""
        if self._width is None:
            return True
        text = "".join([part if isinstance(part, str) else part[0] for part in parts])
        # A character takes at most two columns: most lines fit by this test alone, and `cell_len`, which
        # looks at each character, is not called for them.
        return indent + 2 * len(text) <= self._width or indent + cell_len(text) <= self._width

    def note(self, lead: str, prose: str, style: str = "", *, indent: int = NOTE_INDENT) -> None:
        """Add a paragraph under a hanging lead."""
        text = printable(prose)
        room = None if self._width is None else self._width - indent - len(lead)
        lead = printable(lead)
        # In so little room each line would have a word or two; the terminal breaks the text instead.
        lines = [text] if room is None or room < _MIN_ROOM or len(text) <= room else wrap_text(text, room)
        for number, line in enumerate(lines):
            self.add(((lead if number == 0 else " " * len(lead), "dim"), (line, style)), indent)

    def verbatim(self, lead: str, text: str, *, indent: int = FIELD_INDENT) -> None:
        """Add text to be copied: not wrapped, on its own line if it fits there and not after the lead."""
        # A command is copied as one line. If it fits a line of its own, it gets one; if it fits nowhere,
        # another line would not help, so it stays after its lead.
        if lead and not self.fits(lead, text, indent=indent) and self.fits(text, indent=NOTE_INDENT):
            self.line((lead.rstrip(), "dim"), indent=indent)
            lead, indent = "", NOTE_INDENT
        self.line((lead, "dim"), text, indent=indent)

    def start_block(self) -> None:
        """Add a blank line, except at the start."""
        self.has_body = True
        if not self.is_empty:
            self.line()

    def table(self, columns: Sequence[Column], rows: Sequence[Row], *, indent: int = 0) -> None:
        """Add a table without the columns of lowest rank that do not fit."""
        width = None if self._width is None else self._width - indent
        # Most tables have no column that may be left out, and need no second measuring.
        kept = fit_columns(columns, rows, width) if any(column.rank for column in columns) else None
        if kept is not None:
            columns, rows = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
        if columns[-1].mean is not None:
            columns, rows = _add_bars(columns, rows, width)
        for line in _lay_out(columns, rows, width):
            self.line(*line, indent=indent)

    def append(self, other: Page) -> None:
        """Add the lines of another page."""
        if not self.is_empty:
            self.line()
        self._tokens += other._tokens
        self.has_body |= other.has_body


_GAP = "  "
_SPACIOUS = 60
"""A column is as wide as its widest cell up to this width, however short the others are."""
_SHORT = 13
"""The longest word that always stays in its column; a longer one may get a line of its own."""
_MEASURED_ROWS = 50
"""The rows from which the widths of a table are chosen."""
_MAX_BAR_LENGTH = 40
"""The most characters of a bar: the ends of longer ones would be far from the figures beside them."""
_USUAL_BAR = 24
"""The characters of a bar, for which columns of a higher rank are left out."""
_SHORTEST_BAR = 8


class _Cell(Value):
    """A text and its rich style."""

    text: str
    style: str = ""


def _lay_out(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> Iterator[list[Part]]:
    """Yield the lines of a table: the header, if a column has one, and one or more for each row."""
    header = [_Cell(printable(column.header), "bold") for column in columns]
    cells = [[_to_cell(cell) for cell in row] for row in rows]
    lines = [header, *cells] if any(cell.text for cell in header) else cells
    widths = [max(cell_len(row[i].text) for row in lines) for i in range(len(columns))]
    usual = [_find_usual_width([row[i] for row in lines]) for i in range(len(columns))]
    if width is None:
        # One line for each row, for programs: a name that is much longer than the others moves its own row.
        for row in lines:
            yield _join_cells(columns, row, usual)
        return
    widths[0] = usual[0]
    _shrink(widths, _least_widths(columns, lines), lines, width)
    for row in lines:
        above, inside, below = _split_row(row, widths)
        for cell in above:
            for piece in _break_text(cell.text, max(width, 1)):
                # A name that is wider than the terminal is broken at its spaces, if it has some; the terminal
                # breaks what remains.
                yield [(piece.strip(" "), cell.style)]
        if any(cell.text for cell in inside):
            for line in _fold_row(inside, widths):
                yield _join_cells(columns, line, widths)
        for i, cell in below:
            start = sum(widths[:i]) + len(_GAP) * i
            for piece in _break_text(cell.text.strip(), max(width, 1)):
                # Below its column if it fits there, else further to the left, at the right edge of the
                # terminal.
                yield [" " * max(0, min(start, width - cell_len(piece))), (piece, cell.style)]


def _add_bars(
    columns: Sequence[Column], rows: Sequence[Row], width: int | None
) -> tuple[Sequence[Column], Sequence[Row]]:
    """Draw the bars of the last column, which get the room that the other columns leave."""
    *leading, last = columns
    cells = [
        [_Cell(column.header) for column in leading],
        *([_to_cell(cell) for cell in row[:-1]] for row in rows),
    ]
    used = sum(max(cell_len(row[i].text) for row in cells) + len(_GAP) for i in range(len(leading)))
    room = _MAX_BAR_LENGTH if width is None else max(_SHORTEST_BAR, min(_MAX_BAR_LENGTH, width - used))
    return [*leading, replace(last, header=f"{MARK} {last.header}")], draw_bars(columns, rows, room)


def fit_columns(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[int]:
    """Choose the columns that leave the first one, the names, its full width.

    Args:
        columns: The columns; those with a rank may be left out.
        rows: As for `table`.
        width: The width of the terminal in columns; None keeps all columns.

    Returns:
        The indices of the columns to keep, in order. A name that does not fit beside the columns without a
        rank is ignored: `table` gives it a line of its own.
    """
    kept = list(range(len(columns)))
    if width is None:
        return kept
    lines = [
        [_Cell(printable(column.header)) for column in columns],
        *([_to_cell(cell) for cell in row] for row in rows),
    ]
    widest = [max(cell_len(line[i].text) for line in lines) for i in kept]
    # A short column needs no more than its widest cell, even if its `least` is larger.
    least = [
        min(low, most) if low else most
        for low, most in zip(_least_widths(columns, lines), widest, strict=True)
    ]
    room = width - sum(least[i] + len(_GAP) for i in kept[1:])
    optional = sorted((i for i in kept if columns[i].rank), key=lambda i: -columns[i].rank)
    # With all optional columns left out, a name may be this wide. A wider one gets a line of its own anyway,
    # and must not cost all others these columns.
    most = room + sum(least[i] + len(_GAP) for i in optional)
    most = min(most, _find_usual_width([line[0] for line in lines]))
    name = max((size for line in lines if (size := cell_len(line[0].text)) <= most), default=0)
    # One column after the other: as few as possible are lost.
    for i in optional:
        if name <= room:
            break
        room += least[i] + len(_GAP)
        kept.remove(i)
    return kept


def _split_row(
    row: Sequence[_Cell], widths: Sequence[int]
) -> tuple[list[_Cell], list[_Cell], list[tuple[int, _Cell]]]:
    """Split a row into the cell above it, the cells in it, and the cells below it with their columns."""
    # A word is never broken, so one word that is too wide moves the whole cell out of the row.
    wide = [
        i for i, cell in enumerate(row) if any(cell_len(word) > widths[i] for word in cell.text.split(" "))
    ]
    above = [row[i] for i in wide if i == 0]
    inside = [_Cell("") if i in wide else cell for i, cell in enumerate(row)]
    return above, inside, [(i, row[i]) for i in wide if i]


def _to_cell(cell: Inline | Bar) -> _Cell:
    if isinstance(cell, Bar):
        return _Cell(" " * _USUAL_BAR)
    if isinstance(cell, str):
        return _Cell(clipped(cell, MAX_PROSE_LENGTH))
    spans = split_spans(cell)
    style = next((span.role.style for span in spans if span.role.style), "")
    return _Cell("".join([clipped(span.text, span.longest) for span in spans]), style)


def _find_usual_width(cells: Sequence[_Cell]) -> int:
    """Return the width of a column of names: a few that are much longer than the others do not count."""
    sizes = sorted(cell_len(cell.text) for cell in cells)
    typical = sizes[-1 - max(1, len(sizes) // 10)] if len(sizes) > 1 else sizes[-1]
    return min(sizes[-1], max(_SPACIOUS, typical * 3 // 2))


def _least_widths(columns: Sequence[Column], lines: Sequence[Sequence[_Cell]]) -> list[int]:
    """Return the least width of each column: its `least`, or its longest short word if that is longer.

    The words of the first column do not count: its names may have lines of their own.
    """
    # A longer word gets a line of its own instead of widening its column in all rows.
    words = [
        max(
            (size for line in lines for size in map(cell_len, line[i].text.split(" ")) if size <= _SHORT),
            default=0,
        )
        for i in range(len(columns))
    ]
    return [max(column.least, words[i] if i and column.least else 0) for i, column in enumerate(columns)]


def _shrink(widths: list[int], leasts: Sequence[int], lines: Sequence[Sequence[_Cell]], width: int) -> None:
    """Narrow columns until the table fits: each time the one that folds the fewest cells for the room."""
    sample = lines[:: len(lines) // _MEASURED_ROWS + 1]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        steps = []
        for i, least in enumerate(leasts):
            # A column without a least width does not fold.
            if not 0 < least < widths[i]:
                continue
            cells = [[cell_len(word) for word in line[i].text.split(" ")] for line in sample]
            folds = _count_folds(cells, widths[i])
            for narrow in range(max(least, widths[i] - excess), widths[i]):
                added = _count_folds(cells, narrow) - folds
                # Of two equal steps, the names keep their room.
                steps.append((added / (widths[i] - narrow), i == 0, i, narrow))
        # Nothing folds any more: the table is left wider than the terminal, and nothing in it is cut.
        if not steps:
            return
        *_, i, narrow = min(steps)
        excess -= widths[i] - narrow
        widths[i] = narrow


def _count_folds(cells: Sequence[Sequence[int]], width: int) -> int:
    """Count the lines beyond the first that cells take in a column, by the lengths of their words."""
    folds = 0
    for words in cells:
        if max(words) > width:
            folds += 1
            continue
        used = -1
        for size in words:
            used += 1 + size
            if used > width:
                folds, used = folds + 1, size
    return folds


def _fold_row(row: Sequence[_Cell], widths: Sequence[int]) -> Iterator[list[_Cell]]:
    # Most rows need no folding, and are not looked at word by word.
    if all(cell_len(cell.text) <= width for cell, width in zip(row, widths, strict=True)):
        yield list(row)
        return
    pieces = [list(_break_text(cell.text, width)) for cell, width in zip(row, widths, strict=True)]
    for i in range(max(map(len, pieces))):
        yield [
            _Cell(parts[i] if i < len(parts) else "", cell.style)
            for parts, cell in zip(pieces, row, strict=True)
        ]


def _break_text(text: str, width: int) -> Iterator[str]:
    """Yield lines broken at spaces only."""
    # A blank at the start would count as the place to break, and give an empty line.
    if cell_len(text) > width:
        text = text.strip(" ")
    while cell_len(text) > width:
        end = 0
        while cell_len(text[: end + 1]) <= width:
            end += 1
        blank = text.rfind(" ", 1, end + 1)
        # No space within the width: the first word is too wide, and is given a line of its own.
        if blank < 0 and (blank := text.find(" ", 1)) < 0:
            break
        yield text[:blank].rstrip(" ")
        text = text[blank:].lstrip(" ")
    yield text


def _join_cells(columns: Sequence[Column], line: Sequence[_Cell], widths: Sequence[int]) -> list[Part]:
    # No blanks after the last text: they would show up in copies, and wrap where the table is too wide.
    last = max((i for i, cell in enumerate(line) if cell.text), default=0)
    parts: list[Part] = []
    for i, (column, cell, width) in enumerate(zip(columns, line, widths, strict=True)):
        if i > last:
            break
        blank = " " * (width - cell_len(cell.text))
        if column.right:
            parts.append(blank)
        parts.append((cell.text, cell.style))
        if i < last:
            parts.append(_GAP if column.right else blank + _GAP)
    return parts


# --- documents ---------------------------------------------------------------------------------------


def render_page(document: ReportDocument, *, width: int | None = None, verbose: bool = False) -> Page:
    """Lay a document out for a terminal.

    Args:
        width: The columns at which text wraps and tables fold; None for no wrapping.
        verbose: List all entries of sections.
    """
    page = Page(width)
    if document.title:
        _add_title(page, document)
    indent = document.indent
    for block in document.blocks:
        if isinstance(block, Section):
            _add_section(page, block, indent, verbose=verbose)
        else:
            # A subsection adds its own blank line.
            if not isinstance(block, Subsection):
                page.start_block()
            _add_block(page, block, indent)
    if document.summary:
        if page.has_body:
            # The summary stands last, next to the prompt, where a reader looks after a long report.
            page.line()
        _add_paragraph(page, Paragraph(document.summary), 0)
    return page


def _add_title(page: Page, document: ReportDocument) -> None:
    """Add the title and the context, on more than one line if they do not fit."""
    line = _style_parts(document.title, "bold")
    indent = 0
    for context in document.context:
        parts = _style_parts(context)
        if page.fits(*line, " · ", *parts, indent=indent):
            line += [" · ", *parts]
        else:
            page.line(*line, indent=indent)
            line, indent = parts, 2
    # The summary says the same in a sentence; without one, the title has the verdict.
    verdict = [] if document.summary else _style_parts(document.verdict)
    if verdict and page.fits(*line, ": ", *verdict, indent=indent):
        line += [": ", *verdict]
        verdict = []
    page.line(*line, ":" if verdict else "", indent=indent)
    if verdict:
        page.line(*verdict, indent=2)
    if document.origin:
        page.note("", _join_text(document.origin, " · "), "dim", indent=2)


def _add_section(page: Page, section: Section[Any], indent: int, *, verbose: bool) -> None:
    entries = section.entries
    if not entries:
        return
    few = len(entries) if verbose or section.few is None else section.few
    if not few:
        page.start_block()
        title = _join_text([section.title])
        page.line((f"{title}: {len(entries):,} (--verbose lists them)", "dim"), indent=indent)
        return
    # Only what is shown is written: the others may be thousands.
    blocks: list[Any] = [section.show(entry) for entry in entries[:few]]
    hidden = f"… {len(entries) - few:,} more (--verbose lists them)" if few < len(entries) else ""
    if section.title:
        count = f": {len(entries):,}" if section.folded else ""
        subtitle = f" ({section.subtitle})" if section.subtitle else ""
        page.start_block()
        page.line(*_style_parts(section.title, "bold"), count and (count, "bold"), subtitle, indent=indent)
        indent = _indent_below(indent)
    elif not isinstance(blocks[0], Subsection):
        page.start_block()
    if section.columns:
        _add_table(page, Table(section.columns, blocks), indent)
    elif section.joined and not verbose:
        # One paragraph instead of a line each; with --verbose, lines can be searched and counted by other
        # programs.
        names = [_join_text([block.head]) for block in blocks if isinstance(block, Item)]
        page.note("", ", ".join([*names, hidden] if hidden else names), "dim", indent=indent)
        return
    else:
        for block in blocks:
            _add_block(page, block, indent)
    if hidden:
        page.line((hidden, "dim"), indent=indent)


def _add_block(page: Page, block: Block, indent: int) -> None:
    match block:
        case Item():
            _add_item(page, block, indent)
        case Paragraph():
            _add_paragraph(page, block, indent)
        case Verbatim():
            page.verbatim(block.lead and f"{block.lead}: ", block.text, indent=indent)
        case Subsection():
            _add_subsection(page, block, indent)
        case Table():
            if block.title:
                _add_paragraph(page, Paragraph(block.title), indent)
            _add_table(page, block, indent)
        case Chart():
            pass
        case CodeBlock():
            for line in block.lines:
                page.line(line, indent=indent)


def _add_subsection(page: Page, block: Subsection, indent: int) -> None:
    page.start_block()
    for item in (Item(split_spans(block.title), block.text, gap=block.gap), *block.further):
        _add_item(page, item, indent, "bold")
    for number, part in enumerate(block.blocks):
        # The header of a table would otherwise read as one more line of the text above it.
        if number and isinstance(part, Table):
            page.line()
        _add_block(page, part, _indent_below(indent))
    if block.conclusion:
        page.line()
    for item in block.conclusion:
        _add_item(page, item, _indent_below(indent))


def _indent_below(indent: int) -> int:
    """Return the indent of what is below a title."""
    return indent + (_SHIFT if indent else _OUTER_SHIFT)


def _add_table(page: Page, block: Table, indent: int) -> None:
    columns = [
        # A heading that is a name, such as that of a cluster, must keep its case.
        column if column.role.is_code else replace(column, header=column.header.upper())
        for column in block.columns
    ]
    page.table(columns, block.rows, indent=indent)


def _add_item(page: Page, item: Item, indent: int, style: str = "") -> None:
    head, text, mark = _style_parts(item.head, style), _style_parts(item.text), _style_parts(item.mark)
    if text and isinstance(item.head, str):
        # Only code is something to copy as one line; prose is wrapped.
        if all(span.role.is_code for span in split_spans(item.text)):
            page.verbatim(f"{item.head}: ", _join_text([item.text]), indent=indent)
        else:
            _add_paragraph(page, Paragraph(item.text, item.head), indent)
    elif isinstance(item.head, str):
        _add_paragraph(page, Paragraph(item.head), indent)
    # The head is never wrapped: a name and its symbol are what a reader looks for at the start of a line.
    elif text and page.fits(*head, item.gap, *text, indent=indent):
        beside = [*head, item.gap, *text]
        if mark and page.fits(*beside, _BESIDE, *mark, indent=indent):
            beside += [_BESIDE, *mark]
            mark = []
        page.add(beside, indent)
    else:
        page.add(head, indent)
        if text:
            _add_paragraph(page, Paragraph(item.text), indent + _SHIFT)
    if mark:
        page.add(mark, indent + _SHIFT)
    for block in (*item.notes, *item.below):
        _add_block(page, block, indent + _SHIFT)


def _add_paragraph(page: Page, paragraph: Paragraph, indent: int) -> None:
    parts = _style_parts(paragraph.text)
    lead = paragraph.lead and f"{paragraph.lead}: "
    # Several styles survive only on a line that need not be wrapped: `note` wraps one text in one style.
    if len(parts) > 1 and page.fits(lead, *parts, indent=indent):
        page.line((lead, "dim"), *parts, indent=indent)
        return
    styles = [part[1] for part in parts if not isinstance(part, str)]
    page.note(lead, _join_text([paragraph.text]), styles[0] if styles else "", indent=indent)


def _style_parts(inline: Inline, style: str = "") -> list[Part]:
    """Return the parts of a line; plain text gets the style."""
    parts: list[Part] = []
    if not inline:
        return parts
    for part in (inline,) if isinstance(inline, str | TextSpan) else inline:
        if isinstance(part, str):
            text, own = clipped(part, MAX_PROSE_LENGTH), style
        else:
            text, own = clipped(part.text, part.longest), part.role.style or style
        if text:
            parts.append((text, own) if own else text)
    return parts


def _join_text(inlines: Sequence[Inline], separator: str = "") -> str:
    texts = ("".join(part if isinstance(part, str) else part[0] for part in _style_parts(i)) for i in inlines)
    return separator.join(texts)
