"""Texts with a marker: found again, never longer than GitHub takes, never cut without a word."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.vcs.forge.markers import LIMIT, Marker, is_same

PLAN = Marker("plan-prod")
NOTE = re.compile(r"\*\*Truncated: ([\d,]+) of ([\d,]+) lines are shown\.\*\*\n\n")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(texts)
def test_short_text_is_kept_completely(text: str) -> None:
    body = PLAN.render_body(text)
    assert PLAN.marks(body)
    assert is_same(body, f"{PLAN.line}\n{text}")
    assert PLAN.render_body(text) == body


@given(texts.filter(bool), st.integers(1, 2_000), texts)
@example("x" * LIMIT, 1, "")
@example("🌈" * LIMIT, 1, "")
@example("🌈\n" * LIMIT, 1, "")
@example("", 1, "\n" * LIMIT + "end")
def test_body_is_within_github_limit(line: str, times: int, end: str) -> None:
    body = PLAN.render_body((line + "\n") * times * (LIMIT // 300 // len(line or "x") + 1) + end)
    assert units(body) <= LIMIT
    assert PLAN.marks(body)
    assert len(body.encode()) <= 4 * LIMIT


@given(st.lists(texts.map(lambda text: "".join(text.split()) or "x"), min_size=1, max_size=20))
def test_truncated_text_has_whole_lines_and_counts(lines: list[str]) -> None:
    many = lines * (LIMIT // sum(units(line) + 1 for line in lines) + 1)
    body = PLAN.render_body("\n".join(many))
    first, remaining = body.split("\n", 1)
    assert first == PLAN.line
    note = NOTE.match(remaining)
    assert note is not None
    shown = remaining[note.end() :].split("\n")
    assert shown == many[: len(shown)]
    assert note[1] == f"{len(shown):,}"
    assert note[2] == f"{len(many):,}"
    assert units(body) > LIMIT - 400


def test_single_long_line_is_truncated() -> None:
    body = PLAN.render_body("🌈" * LIMIT)
    assert LIMIT - 2 < units(body) <= LIMIT
    assert body.endswith("🌈🌈")


@pytest.mark.parametrize("text", ["a\r\nb\r\n", "a\nb", "a\nb\n\n"])
def test_line_endings_are_normalised(text: str) -> None:
    assert PLAN.render_body(text) == f"{PLAN.line}\na\nb"


@pytest.mark.parametrize(
    ("body", "is_ours"),
    [
        ("<!-- kafkaform:plan-prod -->\nx", True),
        ("<!-- kafkaform:plan-prod -->\r\nx", True),
        ("<!-- kafkaform:plan-prod -->", True),
        ("<!-- kafkaform:plan-Prod -->", False),
        ("<!-- kafkaform:plan-prod-eu -->\nx", False),
        ("<!-- kafkaform:plan-prod:closed -->\nx", False),
        (" <!-- kafkaform:plan-prod -->\nx", False),
        ("x\n<!-- kafkaform:plan-prod -->", False),
        ("", False),
        (None, False),
    ],
)
def test_only_own_first_line_marks_text(body: str | None, is_ours: bool) -> None:
    assert PLAN.marks(body) is is_ours


@pytest.mark.parametrize("name", ["", "-plan", "a b", "a:b", "a>b", "--><b>", "plan\n", "é", "x" * 65])
def test_invalid_marker_id_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid id"):
        Marker(name)
