import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from kafkaform.core.model import (
    Create,
    Diagnostic,
    FieldChange,
    FieldValue,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.printable import is_plain, printable, wrap_text
from kafkaform.core.wording import command, command_line
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.summary import summary_sentence
from kafkaform.report.markdown import LIMIT, MIN_LIMIT
from kafkaform.report.markdown_escape import code, code_block, prose
from kafkaform.report.plan import render_plan_markdown
from kafkaform.resources.replicas.copying import TOGETHER
from kafkaform.resources.values import is_deferred
from tests.support.markdown import REFERENCES, Parsed, parse_markdown, show_in_code
from tests.support.plans import strategies
from tests.support.plans.scenes import topic
from tests.support.plans.strategies import examples

CUT = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "what is older than 1d is deleted", "copy it first")
WITHOUT_HTML = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

HEADINGS = {
    "Errors",
    "Refused for the same reason",
    "Caused by this branch",
    "Held back",
    "Consent given",
    "Not caused by this branch",
    "Not visible",
    "Findings",
    "Changes",
    "Risks",
}
OUR_HTML = re.compile(
    r"</?details>"
    r"|<summary>(?:Notes|Not managed by any manifest|Configs that no manifest declares): [0-9,]+</summary>"
    r"|<summary>Changes in full: [0-9,]+</summary>"
)


# --- length ----------------------------------------------------------------------------------------


def test_held_back_changes_are_omitted_last() -> None:
    cut = FieldChange("config.retention.ms", "604800000", "86400000", assessment=CUT)
    names = [f"h{i:04}" for i in range(300)]
    held = [PlannedChange(Update(topic(name), "id", (cut,)), Status.NEEDS_CONSENT) for name in names]
    created = [Create(topic(f"t{i:04}"), {"partitions": 12}) for i in range(5_000)]
    remaining = [PlannedChange(change, Status.PLANNED) for change in created]
    markdown = render_plan_markdown(Plan("c", (*remaining, *held)))
    assert len(markdown) <= LIMIT
    text = markdown.partition("### Held back\n")[2].partition("\n### ")[0]
    assert "\n… " not in text
    assert all(f"`Topic/{name}`" in text for name in names)


def test_long_value_is_truncated_with_length() -> None:
    states: list[dict[str, FieldValue]] = [{"config.huge": "x" * 1_000_000, "partitions": 1}, {}]
    changes = [Create(topic(name), state) for name, state in zip("tu", states, strict=True)]
    plan = Plan("c", tuple(PlannedChange(change, Status.PLANNED) for change in changes))
    markdown = render_plan_markdown(plan)
    assert len(markdown) < 3_000
    assert "`partitions: 1`" in markdown
    assert "(999,760 more characters)" in markdown


@given(strategies.plans(), strategies.headers(), st.integers(MIN_LIMIT, 20_000))
def test_report_is_within_limit(plan: Plan, header: PlanHeader, limit: int) -> None:
    assert len(render_plan_markdown(plan, header, limit=limit)) <= limit


def test_too_low_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 6,000"):
        render_plan_markdown(Plan("c"), limit=5_999)


# --- what foreign text cannot do -------------------------------------------------------------------


def parse_harmless(markdown: str) -> Parsed:
    """Return the parts of a report in which foreign text is but text."""
    assert all(char == "\n" or is_plain(char) for char in markdown)
    found = parse_markdown(markdown)
    assert set(found.headings[1:]) <= HEADINGS
    assert len(set(found.headings)) == len(found.headings)
    assert found.headings[0].startswith("kafkaform plan: ")
    assert not found.foreign
    assert not found.types & {"link_open", "image", "em_open", "s_open", "html_inline", "hr", "code_block"}
    assert not found.types & {
        "blockquote_open",
        "ordered_list_open",
        "lheading_open",
        "softbreak",
        "hardbreak",
    }
    for text in found.texts:
        assert not REFERENCES.search(text), text
    for line in "".join(found.html).splitlines():
        assert OUR_HTML.sub("", line).strip() == "", line
    return found


@examples(2)
@given(strategies.plans(), strategies.headers())
def test_hostile_text_does_not_change_structure(plan: Plan, header: PlanHeader) -> None:
    found = parse_harmless(render_plan_markdown(plan, header))
    assert len(found.rows) == (len(plan.changes) + 1 if plan.changes else 0)
    # What makes the command fail comes first: refusals, missing consents, what is not applied in full.
    ordered = [
        c
        for status in reversed(Status)
        for c in sorted(plan.select_by_status(status), key=lambda c: not is_deferred(c))
    ]
    cells = 6 if any(change.origin for change in ordered) else 5
    for row, change in zip(found.rows[1:], ordered, strict=True):
        assert len(row) == cells
        assert [token.content for token in row[1]] == [show_in_code(str(change.ref))]
        place = change.location
        source = [show_in_code(f"{place.file}:{place.line}")] if place else []
        assert [token.content for token in row[-1]] == source
    assert found.fences == []
    for name in (*plan.unknown, *plan.unmanaged):
        assert show_in_code(str(name)) in found.spans


@pytest.mark.parametrize("text", ["\x00", "a\n\n# b", "**a** <img src=x> [b](c)", "\u202e"])
def test_move_summary_from_plan_file_is_escaped(text: str) -> None:
    """It stands in the summary; that of a plan file may say anything."""
    note = Diagnostic(TOGETHER, Severity.INFO, text)
    plan = Plan("c", (PlannedChange(Create(topic("a"), {}), Status.PLANNED),), diagnostics=(note,))
    parse_harmless(render_plan_markdown(plan))
    assert summary_sentence(plan).isprintable()


@given(strategies.plans(), strategies.headers())
def test_hostile_text_is_harmless_without_html(plan: Plan, header: PlanHeader) -> None:
    markdown = render_plan_markdown(plan, header)
    found = parse_markdown(markdown, WITHOUT_HTML)
    assert set(found.headings[1:]) <= HEADINGS
    assert not found.types & {"link_open", "image", "s_open", "html_inline", "html_block", "hr"}
    assert len(found.rows) == (len(plan.changes) + 1 if plan.changes else 0)
    assert "<img" not in WITHOUT_HTML.render(markdown)


@given(st.text() | strategies.hostile_text(), st.booleans())
def test_code_span_contains_exact_text(text: str, cell: bool) -> None:
    span = code(text, cell=cell)
    if cell:
        tokens = parse_markdown(f"| a | b |\n| --- | --- |\n| {span} | x |\n").rows[1][0]
        assert [t.type for t in tokens] == ["code_inline"]
        content = tokens[0].content
    else:
        (content,) = parse_markdown(f"before {span} after\n").spans
    assert content == show_in_code(text)


@example(["before", "```", "````", "after"])
@given(st.lists(strategies.hostile_text(), max_size=8))
def test_code_block_contains_exact_lines(lines: list[str]) -> None:
    expected = "\n".join(map(printable, lines)) + "\n"
    assert parse_markdown(code_block("diff", lines) + "\n\nafter\n").fences == [expected]


@given(st.lists(st.sampled_from(strategies.HOSTILE) | st.text(max_size=12), max_size=8).map(" ".join))
def test_prose_has_only_text_and_code(text: str) -> None:
    found = parse_markdown(f"- Why: {prose(text)}\n")
    assert found.types <= {
        *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close"),
        *("paragraph_open", "paragraph_close", "inline", "text", "code_inline"),
    }
    for plain in found.texts:
        assert not REFERENCES.search(plain), plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50 % of keys move (6 → 12): order breaks.", "50 % of keys move (6 → 12): order breaks."),
        ("set retention.ms to 7d", "set `retention.ms` to 7d"),
        ('he said "no", twice', 'he said "no", twice'),
        ("ask @octocat about #12", "ask `@octocat` about `#12`"),
        ("see https://evil.example/x.", "see `https://evil.example/x`."),
        ("<img src=x>", "`<img` `src=x>`"),
        ("4,312 records; 0.5 %", "4,312 records; 0.5 %"),
        ("86400000 ms", "`86400000` ms"),
        ("TICKET-1 and GH-1", "TICKET-1 and `GH-1`"),
        ("keep it with `state: absent`, or (`a`)", "keep it with `state: absent`, or (`a`)"),
        ("one ` alone, and `` two", "one `` ` `` alone, and ``` `` ``` two"),
    ],
)
def test_prose_marks_code(text: str, shown: str) -> None:
    assert prose(text) == shown


@pytest.mark.parametrize(
    "name", ["`", "`a", "a`", "`a` b", "x ` a", "`,", "``a", "` `", "a`b", "'`'", "(`", "a `, b", "a``"]
)
def test_command_with_any_name_is_single_code_span(name: str) -> None:
    options = ("--to", "current")
    for text in (
        f"{name}: {command('reset', name, options=options)} (and the same for {name}), or `kafkaform plan`.",
        f"groups {name} and b: `kafkaform plan`, then ({command('reset', name, options=options)})",
    ):
        spans = parse_markdown(f"- {prose(text)}").spans
        assert {command_line("reset", name, options=options), "kafkaform plan"} <= {*spans}, spans
        lines = wrap_text(text, 20)
        assert any(command("reset", name, options=options) in line for line in lines)
