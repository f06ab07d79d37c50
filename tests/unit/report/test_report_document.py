"""Documents in both backends: foreign text stays text, nothing runs away, and what is left out is counted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.printable import is_plain
from kafkaform.report.document import (
    Column,
    Item,
    Paragraph,
    ReportDocument,
    Role,
    Section,
    Subsection,
    Table,
    TextSpan,
    Verbatim,
    count_left_out,
)
from kafkaform.report.markdown import LEAST, write_markdown
from kafkaform.report.page import render_page
from tests.support.plans.strategies import hostile_text
from tests.unit.report.test_report_markdown import REFERENCES, parse


@st.composite
def documents(draw: st.DrawFn) -> ReportDocument:
    """Documents with every kind of block, and hostile text in all of them."""
    text = hostile_text()
    spans = st.builds(TextSpan, text, st.sampled_from(Role))
    joined = st.lists(text | spans, max_size=3).map(lambda parts: [p for part in parts for p in (part, ", ")])
    inline = text | spans | joined
    paragraphs = st.builds(Paragraph, inline, st.sampled_from(["", "why"]))
    verbatim = st.builds(Verbatim, text, st.sampled_from(["", "consent"]))
    items = st.builds(
        Item, inline, inline, st.lists(paragraphs | verbatim, max_size=2), st.lists(paragraphs, max_size=2)
    )
    rows = st.lists(st.tuples(inline, inline), min_size=1, max_size=3)
    tables = st.builds(Table, st.just((Column("Name", role=Role.CODE), Column("Count", right=True))), rows)
    blocks = paragraphs | verbatim | items | tables
    subsections = st.builds(Subsection, inline, st.lists(blocks, max_size=3), inline, st.booleans())
    entries = draw(st.lists(blocks | subsections, max_size=4))
    section = Section(
        entries, lambda entry: entry, title=draw(inline), remark=draw(text), folded=draw(st.booleans())
    )
    return ReportDocument(
        draw(inline),
        [*draw(st.lists(blocks, max_size=3)), section],
        draw(inline),
        draw(st.lists(inline, max_size=2)),
    )


@given(documents(), st.sampled_from([None, 40, 120]))
def test_foreign_text_reaches_no_terminal(document: ReportDocument, width: int | None) -> None:
    text = render_page(document, width=width).plain
    assert all(char == "\n" or is_plain(char) for char in text)


@given(documents())
def test_foreign_text_stays_text_in_markdown(document: ReportDocument) -> None:
    written = write_markdown(document)
    found = parse(written)
    assert not {"link_open", "image", "html_inline", "ordered_list_open", "hr", "code_block"} & found.types
    assert all(re.fullmatch(r"(</?details>|<summary>.*</summary>|\s)+", tag) for tag in found.html)
    assert not [text for text in found.texts if REFERENCES.search(text)]


@pytest.mark.parametrize("text", ["1. first", "- a", "+ a", "12) a", "= a"])
def test_a_paragraph_starts_no_list(text: str) -> None:
    found = parse(write_markdown(ReportDocument("t", [Paragraph(text)])))
    assert not {"ordered_list_open", "bullet_list_open"} & found.types


@pytest.mark.parametrize("number", [3, 400, 5_000])
def test_sections_share_the_room_and_count_what_they_leave_out(number: int) -> None:
    def list_names(start: str, share: float) -> Section[str]:
        names = [f"{start}{n:04}" for n in range(number)]
        return Section(
            names, lambda name: Item(TextSpan(name, Role.CODE)), count_left_out(start, "see it"), share=share
        )

    written = write_markdown(ReportDocument("t", [list_names("a", 0.5), list_names("b", 1.0)]), limit=LEAST)
    assert len(written) <= LEAST
    for start in "ab":
        left_out = sum(
            int(n.replace(",", "")) for n in re.findall(rf"… ([0-9,]+) more {start}s? left out", written)
        )
        assert written.count(f"- `{start}") + left_out == number
        assert written.count(f"- `{start}") > 0


def test_a_terminal_gets_a_few_entries_unless_it_lists_everything() -> None:
    section = Section(range(9), lambda n: Item(f"entry {n}"), title="Numbers", few=3)
    short, long = (render_page(ReportDocument("t", [section]), verbose=v).plain for v in (False, True))
    assert (short.count("entry"), long.count("entry")) == (3, 9)
    assert "… 6 more" in short


@pytest.mark.parametrize(("width", "lines"), [(80, 1), (30, 2), (16, 3)])
def test_a_mark_and_a_text_move_below_where_there_is_no_room(width: int, lines: int) -> None:
    item = Item([TextSpan("a.long.name")], "1 → 2", mark=TextSpan("disruptive", Role.WARNING))
    text = render_page(ReportDocument("", [item], indent=0), width=width).plain
    assert len(text.split("\n")) == lines
