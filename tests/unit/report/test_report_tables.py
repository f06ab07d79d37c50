"""Tables: what is folded where the room is short, and that nothing is ever lost."""

import re

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from kafkaform.core.printable import escape_text, printable
from kafkaform.report.bars import MARK, draw_bar
from kafkaform.report.document import Column
from kafkaform.report.page import Page
from tests.support.plans.strategies import hostile_text

COLUMNS = (Column("NAME", least=8), Column("COUNT", right=True), Column("NOTE", least=6))


@given(
    st.lists(st.tuples(hostile_text(), st.integers().map(str), hostile_text()), max_size=6),
    st.integers(20, 120),
)
@example([("x" * 14, "-10000000", " " + "y" * 30)], 52)
def test_every_text_is_printed_within_width(rows: list[tuple[str, str, str]], width: int) -> None:
    page = Page(width)
    page.table(COLUMNS, rows)
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
