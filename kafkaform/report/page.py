"""Terminal text under construction: lines, paragraphs under a hanging lead, blocks with a title.

Tables are columns side by side, folded at blanks to a terminal's width, and never cut short.

Tables for people: columns side by side, folded at blanks to a terminal's width, and never cut short.

A name is never broken, so that it can be copied: one that is wider than its column has a line of its own,
above its row in the first column, below it in any other.

rich's own tables take 0.4 s for a thousand rows, a hundred times as long as laying them out here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rich.cells import cell_len

from kafkaform.core.printable import plain_quotes, printable, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text


Part: TypeAlias = str | tuple[str, str]
"""Plain text, or text and a style."""

FIELD_INDENT = 6
NOTE_INDENT = 8
PROSE = 1200
"""Characters of one reason or message; more than that is not prose."""
_LEAST_ROOM = 20


class Page:
    """Lines under construction; every piece of text passes the gate against control characters here.

    Args:
        width: Where to wrap prose, in columns; None leaves it in whole lines.

    Attributes:
        has_body: Whether anything but the head is there.
    """

    def __init__(self, width: int | None) -> None:
        self.has_body = False
        self._width = width
        self._pieces: list[tuple[str, str | None]] = []

    @property
    def is_empty(self) -> bool:
        """Whether there is no text so far."""
        return not self._pieces

    @property
    def plain(self) -> str:
        """The lines so far, without styles."""
        return "".join([text for text, _ in self._pieces])

    @property
    def text(self) -> Text:
        """The lines so far, styled; who needs no styles takes `plain`, for which rich is not imported."""
        from rich.text import Text

        # All at once: a rich text takes three times as long to grow piece by piece.
        return Text().append_tokens(self._pieces)

    def line(self, *parts: Part, indent: int = 0) -> None:
        """Add one line."""
        if before := ("" if self.is_empty else "\n") + " " * indent:
            self._pieces.append((before, None))
        for part in parts:
            text, style = (part, None) if isinstance(part, str) else part
            if text:
                self._pieces.append((printable(text), style or None))

    def fits(self, *parts: Part, indent: int = 0) -> bool:
        """Whether a line of these parts is not broken by the terminal."""
        if self._width is None:
            return True
        text = "".join(part if isinstance(part, str) else part[0] for part in parts)
        return indent + cell_len(text) <= self._width

    def note(self, lead: str, prose: str, style: str = "", *, indent: int = NOTE_INDENT) -> None:
        """Add a paragraph under a hanging lead."""
        text = plain_quotes(printable(prose))
        room = None if self._width is None else self._width - indent - len(lead)
        lines = [text] if room is None or room < _LEAST_ROOM else wrapped(text, room)
        for number, line in enumerate(lines):
            self.line((lead if number == 0 else " " * len(lead), "dim"), (line, style), indent=indent)

    def verbatim(self, lead: str, text: str, *, indent: int = FIELD_INDENT) -> None:
        """Add what is to be copied: never wrapped; on a line of its own where the lead leaves no room."""
        if self.fits(lead, text, indent=indent):
            self.line((lead, "dim"), text, indent=indent)
        else:
            self.line((lead.rstrip(), "dim"), indent=indent)
            self.line(text, indent=NOTE_INDENT)

    def section(self, *parts: Part) -> None:
        """Start a block: a blank line, and its title."""
        self.has_body = True
        self.line()
        self.line(*parts, indent=2)


_GAP = "  "
_SHORT = 13
"""A word up to this long stays in its column; a longer one may get a line of its own."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        header: What stands above it.
        right: Whether it holds numbers.
        least: How narrow it may become where the room is short; 0 for one that is never folded.
        rank: `fit_columns` leaves out the highest rank first; 0 for a column that always stays.
    """

    header: str
    right: bool = False
    least: int = 0
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and the rich style to show it in."""

    text: str
    style: str = ""


Row: TypeAlias = "Sequence[str | Cell]"


def table(columns: Sequence[Column], rows: Sequence[Row], width: int | None = None) -> Text:
    """Lay a table out, a header and a line (or more, where it folds) for each row.

    Args:
        columns: The columns.
        rows: As many texts each as there are columns; made printable here.
        width: The characters of a line; None where no terminal reads it: then nothing is folded. What is too
            wide even when folded is left to the terminal.
    """
    from rich.text import Text

    header = [Cell(column.header, "bold") for column in columns]
    cells = [[_cell(cell) for cell in row] for row in rows]
    lines = [header, *cells]
    widths = [max(cell_len(row[i].text) for row in lines) for i in range(len(columns))]
    if width is not None:
        _shrink(widths, _leasts(columns, lines), width)
    text = Text()
    for row in lines:
        above, inside, below = _apart(row, widths)
        for cell in above:
            for piece in _pieces(cell.text, max(width or 0, 1)):
                _start(text).append(piece.strip(" "), cell.style)
        if any(cell.text for cell in inside):
            for line in _folded(inside, widths):
                _append(text, columns, line, widths)
        for i, cell in below:
            start = sum(widths[:i]) + len(_GAP) * i
            for piece in _pieces(cell.text.strip(), max(width or 0, 1)):
                _start(text).append(" " * max(0, min(start, (width or 0) - cell_len(piece))))
                text.append(piece, cell.style)
    return text


def fit_columns(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> list[int]:
    """Choose the columns that leave the first one, which has the names, as wide as its names are.

    Args:
        columns: The columns; those with a rank may be left out.
        rows: As for `table`.
        width: The characters of a line; None where no terminal reads it: then all columns stay.

    Returns:
        The indices of the columns that stay, in order. A name that has no room beside the columns without a
        rank does not count: `table` gives it a line of its own.
    """
    kept = list(range(len(columns)))
    if width is None:
        return kept
    lines = [[Cell(column.header) for column in columns], *([_cell(cell) for cell in row] for row in rows)]
    widest = [max(cell_len(line[i].text) for line in lines) for i in kept]
    least = [
        min(low, most) if low else most for low, most in zip(_leasts(columns, lines), widest, strict=True)
    ]
    room = width - sum(least[i] + len(_GAP) for i in kept[1:])
    optional = sorted((i for i in kept if columns[i].rank), key=lambda i: -columns[i].rank)
    most = room + sum(least[i] + len(_GAP) for i in optional)
    name = max((size for line in lines if (size := cell_len(line[0].text)) <= most), default=0)
    for i in optional:
        if name <= room:
            break
        room += least[i] + len(_GAP)
        kept.remove(i)
    return kept


def _apart(
    row: Sequence[Cell], widths: Sequence[int]
) -> tuple[list[Cell], list[Cell], list[tuple[int, Cell]]]:
    """The cell that stands above a row, what stands in it, and the cells of columns that stand below it."""
    wide = [
        i for i, cell in enumerate(row) if any(cell_len(word) > widths[i] for word in cell.text.split(" "))
    ]
    above = [row[i] for i in wide if i == 0]
    inside = [Cell("") if i in wide else cell for i, cell in enumerate(row)]
    return above, inside, [(i, row[i]) for i in wide if i]


def _start(text: Text) -> Text:
    return text.append("\n") if text else text


def _cell(cell: str | Cell) -> Cell:
    given = Cell(cell) if isinstance(cell, str) else cell
    return Cell(printable(given.text), given.style)


def _leasts(columns: Sequence[Column], lines: Sequence[Sequence[Cell]]) -> list[int]:
    """How narrow each column may become; no narrower than its shorter words, but for the first one."""
    words = [
        max(
            (size for line in lines for size in map(cell_len, line[i].text.split(" ")) if size <= _SHORT),
            default=0,
        )
        for i in range(len(columns))
    ]
    return [max(column.least, words[i] if i and column.least else 0) for i, column in enumerate(columns)]


def _shrink(widths: list[int], leasts: Sequence[int], width: int) -> None:
    """Take width from the first column, then from the widest others that fold, until the table fits."""
    room = width - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room:
        foldable = [i for i, least in enumerate(leasts) if 0 < least < widths[i]]
        if not foldable:
            return
        widths[0 if 0 in foldable else max(foldable, key=widths.__getitem__)] -= 1


def _folded(row: Sequence[Cell], widths: Sequence[int]) -> Iterator[list[Cell]]:
    if all(cell_len(cell.text) <= width for cell, width in zip(row, widths, strict=True)):
        yield list(row)
        return
    pieces = [list(_pieces(cell.text, width)) for cell, width in zip(row, widths, strict=True)]
    for i in range(max(map(len, pieces))):
        yield [
            Cell(parts[i] if i < len(parts) else "", cell.style)
            for parts, cell in zip(pieces, row, strict=True)
        ]


def _pieces(text: str, width: int) -> Iterator[str]:
    """Lines, broken at blanks only."""
    if cell_len(text) > width:
        text = text.strip(" ")
    while cell_len(text) > width:
        end = len(text)
        while end and cell_len(text[:end]) > width:
            end -= 1
        blank = text.rfind(" ", 1, end + 1)
        if blank < 0 and (blank := text.find(" ", 1)) < 0:
            break
        yield text[:blank].rstrip(" ")
        text = text[blank:].lstrip(" ")
    yield text


def _append(text: Text, columns: Sequence[Column], line: Sequence[Cell], widths: Sequence[int]) -> None:
    last = max((i for i, cell in enumerate(line) if cell.text), default=0)
    _start(text)
    for i, (column, cell, width) in enumerate(zip(columns, line, widths, strict=True)):
        if i > last:
            break
        blank = " " * (width - cell_len(cell.text))
        if column.right:
            text.append(blank)
        text.append(cell.text, cell.style)
        if i < last:
            text.append(_GAP if column.right else blank + _GAP)
