"""Documents and tables: equal in all formats, harmless, folded in short rooms, and nothing is ever lost."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from kafkaform.core.printable import escape_text, is_plain, printable
from kafkaform.report.bars import MARK, draw_bar
from kafkaform.report.document import (
    Bar,
    Block,
    Chart,
    CodeBlock,
    Column,
    Inline,
    Item,
    Paragraph,
    Point,
    ReportDocument,
    Role,
    Row,
    Section,
    Subsection,
    Table,
    TextSpan,
    Verbatim,
    count_left_out,
    split_spans,
)
from kafkaform.report.html import write_html
from kafkaform.report.markdown import MIN_LIMIT, write_markdown
from kafkaform.report.page import Page, render_page
from tests.support.builds import builds
from tests.support.html import ATTRIBUTES, TAGS, parse_html
from tests.support.markdown import REFERENCES, parse_markdown, read_as_github
from tests.support.plans.strategies import BLOCK_STARTS, hostile_text

COLUMNS = (Column("Name", role=Role.CODE), Column("Count", right=True))
BARS = (COLUMNS[0], Column("mean", mean=0.2))
CHART = Chart("c", "a chart", [Point("a", 0.0, 0.5, 0.4, 0.6)], str, str)


def starting_text() -> st.SearchStrategy[str]:
    """Hostile text that begins with what starts or continues a block."""
    return builds(str.__add__, st.sampled_from(["", " ", *BLOCK_STARTS]), hostile_text())


@st.composite
def documents(draw: st.DrawFn) -> ReportDocument:
    """Documents with every kind of block behind every other, and hostile text in all of them."""
    text = starting_text()
    spans = builds(TextSpan, text, st.sampled_from(Role))
    joined = st.lists(text | spans, max_size=3).map(lambda parts: [p for part in parts for p in (part, ", ")])
    inline = text | spans | joined | spans.map(lambda span: [span])
    paragraphs = builds(Paragraph, inline, st.sampled_from(["", "why"]))
    verbatim = builds(Verbatim, text, st.sampled_from(["", "consent"]))
    below = st.lists(paragraphs | verbatim | builds(Item, inline, inline), max_size=2)
    items = builds(Item, inline, inline, below, st.lists(paragraphs, max_size=2), st.just(" "), inline)
    rows = st.lists(st.tuples(inline, inline), max_size=3)
    tables = builds(Table, st.just(COLUMNS), rows, inline)
    tables |= builds(Table, st.just(BARS), st.lists(st.tuples(inline, inline | builds(Bar, st.floats(0, 1)))))
    code = builds(CodeBlock, st.just("diff"), st.lists(text, max_size=3))
    blocks = paragraphs | verbatim | items | tables | code | st.just(CHART)
    subsections = builds(
        Subsection,
        inline,
        st.lists(blocks, max_size=3),
        inline,
        st.booleans(),
        conclusion=st.lists(items, max_size=2),
    )
    title: dict[str, Any] = {"title": draw(inline), "subtitle": draw(text), "folded": draw(st.booleans())}
    sections: list[Block | Section[Any]] = [
        Section(draw(st.lists(blocks | subsections, max_size=4)), lambda entry: entry, **title),
        Section(draw(rows), lambda row: row, columns=COLUMNS, **title),
        Section(draw(st.lists(builds(Item, inline), max_size=5)), lambda name: name, joined=True, **title),
    ]
    return ReportDocument(
        draw(inline),
        draw(st.permutations([*draw(st.lists(blocks | subsections, max_size=3)), *sections])),
        draw(inline),
        draw(st.lists(inline, max_size=2)),
        draw(st.lists(inline, max_size=1)),
        draw(inline),
    )


def is_blank(*inlines: Inline) -> bool:
    spans = [span for inline in inlines for span in split_spans(inline)]
    return all(not span.role.is_code and not span.text.strip(" ") for span in spans)


def outline_all(blocks: Sequence[Block], heading: str) -> Iterator[str]:
    """Yield the outline of blocks; items that follow each other are one list."""
    drawn = [block for block in blocks if not isinstance(block, Chart)]
    for is_list, run in groupby(drawn, lambda block: isinstance(block, Item)):
        yield from ["ul"] * is_list
        for block in run:
            yield from outline_block(block, heading)
        yield from ["/ul"] * is_list


def outline_block(block: Block, heading: str) -> Iterator[str]:
    match block:
        case Paragraph():
            yield from ["p"] * (bool(block.lead) or _is_shown(block.text))
        case Verbatim():
            yield "p"
        case CodeBlock():
            yield "pre"
        case Item():
            below = [part if isinstance(part, Item) else Item("") for part in block.below]
            yield from ("li", *outline_all(below, heading), "/li")
        case Table():
            yield from ["p"] * bool(block.title and _is_shown(block.title))
            yield from outline_table(block.rows)
        case Chart():
            pass
        case Subsection():
            yield from ("details", "summary") if block.folded else (heading,)
            yield from outline_all([*block.blocks[:1], *block.conclusion, *block.blocks[1:]], "h4")
            yield from ["/details"] * block.folded


def _is_shown(text: Inline) -> bool:
    # A sentence has its full stop at least.
    plain = isinstance(text, str) or (
        isinstance(text, TextSpan) and not text.role.is_code | text.role.is_strong
    )
    return plain or not is_blank(text)


def outline_table(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("table", "tr", "th", "th")
    for _ in rows:
        yield from ("tr", "td", "td")
    yield "/table"


def outline_section(section: Section[Any]) -> Iterator[str]:
    titled = not is_blank(section.title)
    yield from ("details", "summary") if section.folded else ["h3"] * titled
    yield from ["p"] * bool(section.subtitle)
    if section.columns:
        yield from outline_table(section.entries)
    elif section.joined:
        yield "p"
    else:
        yield from outline_all(section.entries, "h4" if titled else "h3")
    yield from ["/details"] * section.folded


def outline(document: ReportDocument) -> list[str]:
    """Return the outline of a document."""
    context = [*document.context, *document.origin]
    tags = ["h2"]
    tags += ["p"] * (len(context) > 1 or not is_blank(*context))
    tags += ["p"] * (not is_blank(document.summary))
    for block in document.blocks:
        if isinstance(block, Section):
            tags += outline_section(block) if block.entries else ()
        else:
            tags += outline_all([block], "h3")
    # Markdown joins lists that follow each other.
    return " ".join(tags).replace("/ul ul ", "").split()


@given(documents(), st.sampled_from([None, 40, 120]))
def test_foreign_text_is_printable(document: ReportDocument, width: int | None) -> None:
    text = render_page(document, width=width).plain
    assert all(char == "\n" or is_plain(char) for char in text)


@given(documents())
def test_foreign_text_is_escaped_in_markdown(document: ReportDocument) -> None:
    written = write_markdown(document)
    assert read_as_github(written) == outline(document), written
    found = parse_markdown(written)
    assert not {"link_open", "image", "html_inline", "ordered_list_open", "hr", "code_block"} & found.types
    assert all(re.fullmatch(r"(</?details>|<summary>.*</summary>|\s)+", tag) for tag in found.html)
    assert not [text for text in found.texts if REFERENCES.search(text)]


@given(documents())
def test_foreign_text_is_escaped_in_html(document: ReportDocument) -> None:
    written = write_html(document)
    assert all(char == "\n" or is_plain(char) for char in written)
    page = parse_html(written)
    assert len(re.findall(r"<[a-z]", written)) == len(page.all(*TAGS, "pre"))
    assert {name for item in page.all(*TAGS) for name in item.attributes} <= ATTRIBUTES


def build_blocks(text: Inline) -> list[Block]:
    """Return a block of every kind, each with this text wherever it can stand."""
    paragraph, verbatim = Paragraph(text), Verbatim(str(text))
    item = Item(text, text, [paragraph, verbatim, Item(text)], mark=text)
    table, code = Table(COLUMNS, [(text, text)], text), CodeBlock("diff", [str(text)])
    blocks: list[Block] = [paragraph, verbatim, item, Item([TextSpan("1")], notes=[paragraph]), table, code]
    return [*blocks, Subsection(text, blocks), Subsection(text, [table], folded=True)]


@pytest.mark.parametrize("rest", ["", " a", "a | b `c`"])
@pytest.mark.parametrize("start", BLOCK_STARTS)
def test_text_does_not_start_or_continue_markdown_blocks(start: str, rest: str) -> None:
    """Right after a block of any kind, in a section or not."""
    text = f"{start}{rest}"
    pairs = [*product(build_blocks(text), repeat=2)]
    sections = [Section(pair, lambda entry: entry) for pair in pairs]
    blocks = [block for pair in pairs for block in pair]
    for document in (
        ReportDocument(text, sections, text, [text], [text], text),
        ReportDocument([text], blocks, [text], [[TextSpan(" "), text]], (), [text]),
        ReportDocument("t", build_blocks([TextSpan("  "), TextSpan(" "), TextSpan(" "), text])),
        ReportDocument("t", [Section([Item([text])] * 2, lambda entry: entry, joined=True), *blocks]),
    ):
        written = write_markdown(document, limit=10**7)
        assert read_as_github(written) == outline(document), written


@pytest.mark.parametrize("number", [3, 400, 5_000])
def test_sections_share_limit_and_count_omitted(number: int) -> None:
    def list_names(start: str, share: float) -> Section[str]:
        names = [f"{start}{n:04}" for n in range(number)]
        return Section(
            names, lambda name: Item(TextSpan(name, Role.CODE)), count_left_out(start, "see it"), share=share
        )

    written = write_markdown(
        ReportDocument("t", [list_names("a", 0.5), list_names("b", 1.0)]), limit=MIN_LIMIT
    )
    assert len(written) <= MIN_LIMIT
    for start in "ab":
        left_out = sum(
            int(n.replace(",", "")) for n in re.findall(rf"… ([0-9,]+) more {start}s? left out", written)
        )
        assert written.count(f"- `{start}") + left_out == number
        assert written.count(f"- `{start}") > 0


NARROW = (Column("NAME", least=8), Column("COUNT", right=True), Column("NOTE", least=6))


@given(
    st.lists(st.tuples(hostile_text(), st.integers().map(str), hostile_text()), max_size=6),
    st.integers(20, 120),
)
@example([("x" * 14, "-10000000", " " + "y" * 30)], 52)
def test_every_text_is_printed_within_width(rows: list[tuple[str, str, str]], width: int) -> None:
    page = Page(width)
    page.table(NARROW, rows)
    shown = page.plain
    assert escape_text(shown.replace("\n", "")) == shown.replace("\n", "")
    least = 8 + 2 + max(5, *(len(count) for _, count, _ in rows)) + 2 + 13 if rows else 0
    words = [word for row in rows for text in row for word in printable(text).split(" ")]
    least = max([least, *map(cell_len, words)])
    # A wide character may stand where there is room for half of it.
    assert max(map(cell_len, shown.split("\n"))) <= max(width, least)
    letters = sorted("".join(printable(text) for row in rows for text in row).replace(" ", ""))
    assert sorted(shown.replace("\n", "").replace(" ", "").removeprefix("NAMECOUNTNOTE")) == letters


@given(st.floats(0, 1), st.floats(0.001, 1), st.integers(1, 60))
def test_bar_fits_width_and_marks_mean(share: float, top: float, room: int) -> None:
    bar = draw_bar(min(share, top), top, top / 2, room)
    assert len(bar) <= room
    assert re.fullmatch("[█▌▏│ ]+", bar)
    assert MARK in bar


def test_bars_grow_with_share() -> None:
    assert [draw_bar(share, 1.0, 0.5, 10) for share in (0, 0.01, 0.05, 0.1, 0.5, 1.0)] == [
        "     │",
        "▏    │",
        "▌    │",
        "█    │",
        "█████│",
        "█████│████",
    ]
    assert draw_bar(0.0, 0.0, 0.0, 10) == ""
