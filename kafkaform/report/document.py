"""A report as a document: titles, paragraphs, items, tables and code that the backends lay out.

`page.render_page` lays a document out for a terminal, `markdown.write_markdown` for GitHub. Text in
a document is untrusted: the backends make it printable, escape it, and clip it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from kafkaform.core.printable import printable
from kafkaform.core.values import Value
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_T = TypeVar("_T")

MAX_NAME_LENGTH = 280
"""The most characters of a name, value or place; a topic's name has at most 249."""
MAX_PROSE_LENGTH = 1200
"""The most characters of a sentence."""


class Role(Enum):
    """The role of a span: its style on a terminal, and whether it is code or strong in Markdown."""

    # Style on a terminal, and form in Markdown. Names and values are code there: as prose, GitHub would make
    # links of some of them.
    TEXT = "", ""
    STRONG = "bold", "strong"
    MUTED = "dim", ""
    NAME = "bold", "code"
    CODE = "", "code"
    PLACE = "dim", "code"
    UNEXPECTED = "yellow", "code"
    GOOD = "green", ""
    WARNING = "yellow", ""
    BAD = "red", ""
    PENDING = "cyan", ""
    FOREIGN = "magenta", ""
    # Strong in Markdown, which has no colours; if every GOOD or BAD word were strong, none would stand out.
    VERY_GOOD = "bold green", "strong"
    VERY_WARNING = "bold yellow", "strong"
    VERY_BAD = "bold red", "strong"

    def __init__(self, style: str, form: str) -> None:
        self.style = style
        self.is_code = form == "code"
        self.is_strong = form == "strong"


class TextSpan(Value):
    """A text in one role.

    Attributes:
        text: The text. In prose, backticks mark code: it is code in Markdown, and in quotes on a terminal.
        limit: The most characters; None for the default of the role.
        target: The anchor of the subsection that it is a link to in HTML.
    """

    text: str
    role: Role = Role.TEXT
    limit: int | None = None
    target: str = ""

    @property
    def longest(self) -> int:
        """The most characters to show."""
        return self.limit or (MAX_NAME_LENGTH if self.role.is_code else MAX_PROSE_LENGTH)


Inline: TypeAlias = "str | TextSpan | Sequence[str | TextSpan]"
"""Text within a line: prose, a span, or several that follow each other without a space."""


def split_spans(inline: Inline) -> list[TextSpan]:
    """Return the spans of an inline text that are not empty."""
    parts = (inline,) if isinstance(inline, (str, TextSpan)) else inline
    spans = [TextSpan(part) if isinstance(part, str) else part for part in parts]
    return [span for span in spans if span.text]


class Bar(Value):
    """A share as a cell of a table, drawn as a bar on the scale of its column."""

    share: float
    role: Role = Role.TEXT


class Column(Value):
    """A column of a table.

    Attributes:
        right: Whether it is right-aligned, for numbers.
        least: The least width when room is short; 0 for a column that is never wrapped.
        rank: A terminal leaves out the highest rank first; 0 for a column that always stays.
        role: The role of the heading; a terminal shows a heading with the role TEXT in capitals.
        mean: The share that is marked in each bar of a column of bars, which must be the last one.
    """

    header: str
    right: bool = False
    least: int = 0
    rank: int = 0
    role: Role = Role.TEXT
    mean: float | None = None


class Paragraph(Value):
    """A paragraph. A string, or a single span with the role TEXT, is a sentence: Markdown adds a full stop.

    Attributes:
        text: The text; a terminal wraps it.
        lead: A word or two before it, such as `because`; a terminal indents further lines by it.
    """

    text: Inline
    lead: str = ""


class Verbatim(Value):
    """A command or a line of a file to be copied: never wrapped.

    Attributes:
        lead: A word or two before it.
        limit: The most characters in Markdown; a terminal shows as many as of any line.
    """

    text: str
    lead: str = ""
    limit: int = 800


class Item(Value):
    """An item of a list.

    Attributes:
        head: The text that is never wrapped on a terminal; a string is a label of `text`, written before it.
        text: The text beside the head; below it on a terminal without room for both. Code is never wrapped.
        below: What belongs to the item, as nested items.
        notes: Sentences on the item: below it on a terminal, after it in Markdown.
        gap: What separates head and text on a terminal.
        mark: A few words after the text; below it on a terminal without room for both.
    """

    head: Inline
    text: Inline = ()
    below: Sequence[Paragraph | Verbatim | Item] = ()
    notes: Sequence[Paragraph] = ()
    gap: str = "  "
    mark: Inline = ()


class Table(Value):
    """A table.

    Attributes:
        rows: The cells of each row, one for each column.
        title: A sentence above it.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    title: Inline = ()


class Point(Value):
    """A value of a chart with its 95 % interval.

    Attributes:
        at: Its place on the horizontal axis.
        low: The lower end of its interval.
        high: The upper end.
    """

    name: str
    at: float
    value: float
    low: float
    high: float


class Chart(Value):
    """Values as columns or as a curve; only HTML draws it, so tables or sentences must have its figures.

    Attributes:
        text: The description for screen readers, with the main figures.
        points: The points in order; at least one.
        form: Formats a value.
        item: The noun for a column, such as `partition`; empty for a curve.
        axis: The quantity of the horizontal axis.
        tick: Formats a value on the vertical axis.
        ticks: The labelled places of the horizontal axis of a curve.
        level: The height of a dashed line, and its meaning.
        mark: A place of the horizontal axis that is marked, and its label.
        measured: A point off the curve.
        is_cumulative: Whether the points are a Lorenz curve, which is compared with the diagonal.
        least: The least upper end of the vertical axis, so that noise does not look like change.
        most: The most columns, or dots; further columns are drawn as groups of neighbours.
        note: An explanation below the chart.
    """

    title: str
    text: str
    points: Sequence[Point]
    form: Callable[[float], str]
    tick: Callable[[float], str]
    item: str = ""
    axis: str = ""
    ticks: Sequence[tuple[float, str]] = ()
    level: tuple[float, str] | None = None
    mark: tuple[float, str] | None = None
    measured: Point | None = None
    is_cumulative: bool = False
    least: float = 0.0
    most: int = 60
    note: str = ""


class CodeBlock(Value):
    """Lines of code or of a diagram, such as Mermaid's; a terminal prints the lines."""

    language: str
    lines: Sequence[str]


class Subsection(Value):
    """Blocks under a title.

    Attributes:
        text: The text beside the title.
        folded: Whether Markdown folds it under its title.
        further: Further lines of the title on a terminal.
        gap: What separates title and text on a terminal.
        conclusion: The items that a reader acts on: after the first block, but last on a terminal, next to
            the prompt.
        anchor: An id, to which a `TextSpan.target` leads in HTML.
    """

    title: Inline
    blocks: Sequence[Block]
    text: Inline = ()
    folded: bool = False
    further: Sequence[Item] = ()
    gap: str = "  "
    conclusion: Sequence[Item] = ()
    anchor: str = ""


Block: TypeAlias = "Paragraph | Verbatim | Item | Table | Chart | CodeBlock | Subsection"
Row: TypeAlias = "Sequence[Inline | Bar]"
"""The cells of a row; on a terminal, a cell has one style."""


class Section(Value, Generic[_T]):
    """A list that may be too long to show as a whole; without entries it is left out.

    Attributes:
        entries: What is listed.
        show: Writes an entry: as an item or another block, or as a row of the table if there are columns.
        title: The title; empty for a list without one.
        subtitle: A sentence below the title.
        columns: The columns of a table.
        left_out: Writes the sentence on the entries that Markdown left out.
        brief: A shorter `show`, used in Markdown when not everything fits.
        share: The part of the remaining room in Markdown that it may take, from 0 to 1.
        most: The most entries in Markdown, however much room there is; None for no limit.
        few: The most entries on a terminal without --verbose, 0 to only count them; None for no limit.
        folded: Whether Markdown folds it under its title, which has the number of entries.
        joined: Whether the entries are joined into one paragraph; they must be items without a text.
    """

    entries: Sequence[_T]
    show: Callable[[_T], Block | Row]
    # A sentence, not a number: a report says where to find the rest, and how many changes of which kind they
    # are.
    left_out: Callable[[Sequence[_T]], str] = lambda entries: f"… {len(entries):,} more left out"
    title: Inline = ""
    subtitle: str = ""
    columns: Sequence[Column] = ()
    brief: Callable[[_T], Block | Row] | None = None
    share: float = 1.0
    most: int | None = None
    few: int | None = None
    folded: bool = False
    joined: bool = False


class ReportDocument(Value):
    """A report.

    Attributes:
        title: The command, such as `kafkaform drift`.
        blocks: The content, in order.
        verdict: The result in a few words, for the heading in Markdown; on a terminal if there is no summary.
        context: What the report is about, such as the cluster; beside the title on a terminal.
        origin: What it was made with, below the title.
        summary: The result in a sentence: Markdown begins with it, on a terminal it stands above the prompt.
        indent: The indent of the blocks on a terminal; 0 for tables alone, which programs may read.
    """

    title: Inline
    blocks: Sequence[Block | Section[Any]]
    verdict: Inline = ()
    context: Sequence[Inline] = ()
    origin: Sequence[Inline] = ()
    summary: Inline = ()
    indent: int = 2


def mark_code(compose: Callable[[Callable[[str], str]], str]) -> list[str | TextSpan]:
    """Return a sentence that `compose` writes around names; they become code.

    Args:
        compose: Gets a function that marks a name, and returns the sentence.
    """
    # Printable text has no \0, so no name can end its own mark and continue as prose.
    parts = compose(lambda name: f"\0{printable(name)}\0").split("\0")
    return [TextSpan(part, Role.CODE) if number % 2 else part for number, part in enumerate(parts) if part]


def list_codes(texts: Iterable[str], limit: int | None = None) -> list[str | TextSpan]:
    """Return names, values or commands, separated by commas."""
    return [part for text in texts for part in (", ", TextSpan(text, Role.CODE, limit))][1:]


def name_cluster(name: str | None, cluster_id: str | None) -> list[str | TextSpan]:
    """Return `cluster NAME (ID)`, or `cluster` with the one that is given; at least one must be."""
    # Kafka's own cluster ids have 22 characters; 80 keep the line of the title short whatever a plan file
    # contains.
    names = [TextSpan(part, Role.CODE, 80) for part in (name, cluster_id) if part is not None]
    return ["cluster ", names[0], *(part for span in names[1:] for part in (" (", span, ")"))]


def count_left_out(noun: str, see: str) -> Callable[[Sequence[object]], str]:
    """Return a function that counts entries: `… 12 more configs left out; see plan.json …`."""
    return lambda entries: f"… {counted(len(entries), f'more {noun}')} left out; {see}"
