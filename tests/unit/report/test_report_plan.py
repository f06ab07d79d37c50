"""Plans as text and Markdown: equal changes said once, their length, foreign text, and commands to paste."""

import ast
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import kafkaform
from kafkaform.cli.main import COMMANDS
from kafkaform.config.settings import Settings
from kafkaform.core.model import (
    SAFE,
    Change,
    Create,
    Delete,
    Desired,
    Diagnostic,
    FieldChange,
    FieldValue,
    Intent,
    Location,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import ChangeOrigin, Plan, PlannedChange
from kafkaform.core.printable import clipped, is_plain, printable, split_code, wrap_text
from kafkaform.core.values import replace
from kafkaform.core.wording import command, command_line
from kafkaform.plan import planning
from kafkaform.plan.gate import resolve_consents
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.summary import describe_extent, summary_sentence
from kafkaform.report.equal_changes import equal_changes
from kafkaform.report.markdown import LIMIT, MIN_LIMIT
from kafkaform.report.markdown_escape import code, code_block, prose
from kafkaform.report.plan import render_plan, render_plan_markdown, render_provenance
from kafkaform.resources.consent import Grant
from kafkaform.resources.replicas.copying import TOGETHER
from kafkaform.resources.values import MAX_VALUE_LENGTH, fields_of, format_field, format_value, is_deferred
from tests.support.markdown import REFERENCES, Parsed, parse_markdown, show_in_code
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans import strategies
from tests.support.plans.scenes import DAY, QUIET, WEEK, absent, create_topic, declare_topic, group_ref, topic
from tests.support.plans.strategies import examples

HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "live", "2025-06-01T12:00:00Z")
CUT = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "what is older than 1d is deleted", "copy it first")


def update(*fields: FieldChange, name: str = "t") -> Update:
    return Update(topic(name), None, fields)


def retention(before: FieldValue, after: FieldValue, assessment: RiskAssessment = CUT) -> FieldChange:
    return FieldChange("config.retention.ms", before, after, before, after, assessment)


def plan_of(change: Change, status: Status = Status.PLANNED) -> Plan:
    return Plan("c1", (PlannedChange(change, status, Location("topics/t.yaml", 7)),))


def lines_of(plan: Plan, *, verbose: bool = False) -> list[str]:
    return render_plan(resolve_consents(plan), HEADER, verbose=verbose).plain.split("\n")


def has_line(lines: list[str], *parts: str) -> bool:
    return any(all(part in line for part in parts) for line in lines)


LONGER = update(retention("1", "2", SAFE))
LATER = FieldChange("replicationFactor", 2, 3, 2, 3, deferred="later")


@pytest.mark.parametrize(
    ("change", "status", "origin"),
    [
        *((LONGER, held, None) for held in Status if held != "planned"),
        (update(retention("1", "2")), Status.PLANNED, None),
        (update(retention("1", "2", RiskAssessment(Risk.DISRUPTIVE, "h"))), Status.PLANNED, None),
        (Create(topic("t"), {}, RiskAssessment(Risk.DISRUPTIVE, "h")), Status.PLANNED, None),
        (Delete(topic("t"), None, {}, SAFE), Status.PLANNED, None),
        (update(retention("1", "2", SAFE), LATER), Status.PLANNED, None),
        (LONGER, Status.PLANNED, ChangeOrigin.DRIFT),
        (LONGER, Status.PLANNED, ChangeOrigin.MIXED),
    ],
)
def test_notable_changes_are_all_listed(change: Change, status: Status, origin: ChangeOrigin | None) -> None:
    changes: list[PlannedChange] = []
    for number in range(300):
        changes.append(PlannedChange(replace(LONGER, ref=topic(f"safe{number:03}")), Status.PLANNED))
        changes.append(PlannedChange(replace(change, ref=topic(f"seen{number:03}")), status, origin=origin))
    lines = lines_of(Plan("c", tuple(changes)))
    heads = [line.strip() for line in lines if re.match("  [-+~!] ", line)]
    # What makes the command fail comes first.
    if status is not Status.PLANNED or any(field.deferred for field in fields_of(change)):
        heads.reverse()
    assert heads in (["~ 200 topics", f"{sign} 300 topics"] for sign in "+~-!")
    names = [name for line in lines for name in re.findall(r"\bs(?:afe|een)[0-9]{3}(?=, |$)", line)]
    assert sorted(names) == [*(f"safe{i:03}" for i in range(200)), *(f"seen{i:03}" for i in range(300))]
    assert [line for line in lines if "…" in line] == [
        "  … 100 more to update: retention.ms of topics safe200 to safe299 (--verbose lists them)"
    ]


def test_findings_on_unchanged_resources_are_listed_if_verbose() -> None:
    found = [Diagnostic(f"KF10{i}", Severity.WARNING, f"odd {i}", ref=topic("other")) for i in range(9)]
    plan = replace(plan_of(LONGER), unchanged=1, diagnostics=tuple(found))
    assert not has_line(lines_of(plan), "odd")
    assert all(has_line(lines_of(plan, verbose=True), each.message) for each in found)


def test_saved_plan_shows_provenance() -> None:
    line = "Plan saved 2025-06-01 12:00 UTC by kafkaform 0.1.0, commit 1a2b3c."
    assert render_provenance(HEADER).plain == line
    assert "commit" not in render_provenance(replace(HEADER, commit=None)).plain


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ((WEEK, None), (DAY, None), "7d → 1d (604800000 → 86400000)"),
        ((None, WEEK), (DAY, DAY), "default 7d → 1d (604800000 → 86400000)"),
        ((DAY, DAY), (None, WEEK), "1d → default 7d (86400000 → 604800000)"),
        ((None, DAY), (DAY, DAY), "set explicitly to the default 1d (86400000)"),
        ((DAY, DAY), (None, DAY), "no longer set; the default is 1d (86400000), too"),
        ((None, None), (DAY, None), "(unset) → 1d ((unset) → 86400000)"),
        (("-1", None), ("", None), 'unlimited → "" (-1 → "")'),
        (("null", None), (" 1", None), 'null → " 1"'),
        (("(unset)", None), (None, None), '"(unset)" → (unset)'),
        (("default 1d", None), ("x", None), '"default 1d" → x'),
    ],
)
def test_transitions_are_formatted(
    before: tuple[FieldValue, FieldValue], after: tuple[FieldValue, FieldValue], shown: str
) -> None:
    field = FieldChange("config.retention.ms", before[0], after[0], before[1], after[1])
    assert str(format_field(update(field), field)) == shown


@pytest.mark.parametrize(
    ("kind", "path", "value", "shown"),
    [
        ("Topic", "partitions", 12, "12"),
        ("Topic", "config.vendor.key.ms", "1000", "1000"),
        ("ConsumerGroup", "config.consumer.session.timeout.ms", "50000", "50s (50000)"),
        ("Topic", "config.retention.bytes", "2073741824", "1.9 GiB (2073741824)"),
        ("Topic", "config.retention.bytes", str(2 * 2**30), "2 GiB (2147483648)"),
        ("Topic", "config.retention.ms", "1234567", "20m 34.567s (1234567)"),
    ],
)
def test_value_of_known_key_has_unit(kind: str, path: str, value: FieldValue, shown: str) -> None:
    assert str(format_value(kind, path, value)) == shown


def test_long_values_are_truncated_around_difference() -> None:
    common = "x" * 5_000
    field = FieldChange("config.k", common + "A" + common, common + "B" + common)
    shown = format_field(update(field), field)
    assert shown.before is not None
    assert shown.after is not None
    assert "A" in shown.before.short
    assert "B" in shown.after.short
    assert len(str(shown)) < 4 * MAX_VALUE_LENGTH
    assert "more characters" in str(shown)


@given(strategies.field_changes())
def test_different_values_are_printed_differently(field: FieldChange) -> None:
    shown = format_field(update(field), field)
    assert shown.before is not None
    assert shown.after is not None
    if str(field.before) != str(field.after):
        different = str(shown.before) != str(shown.after)
        assert different or printable(str(field.before)) == printable(str(field.after))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b", r"\x9b"),
        ("a\r\n\tb", r"a\r\n\tb"),
        ("\u202e", r"\u202e"),
        ("\u200b\ufeff", r"\u200b\ufeff"),
        ("\u2028", r"\u2028"),
        ("\u00a0", r"\xa0"),
        ("\u3164\u2800", r"\u3164\u2800"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("größe 日本 😀 50 %", "größe 日本 😀 50 %"),
    ],
)
def test_printable_escapes_control_characters(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@given(st.text() | strategies.hostile_text())
def test_printable_text_is_stable(text: str) -> None:
    shown = printable(text)
    assert all(map(is_plain, shown))
    assert printable(shown) == shown


@given(st.text() | strategies.hostile_text(), st.integers(1, 20))
def test_clipped_text_counts_missing_characters(text: str, limit: int) -> None:
    shown = clipped(text, limit)
    if shown != printable(text):
        head, _, note = shown.rpartition("… (")
        assert len(head) <= limit
        assert printable(text[: len(text) - int(note.split()[0].replace(",", ""))]) == head


@given(strategies.plans(), strategies.headers())
def test_names_cannot_imitate_changes_or_summary(plan: Plan, header: PlanHeader) -> None:
    lines = render_plan(plan, header).plain.split("\n")
    titles = [line for line in lines if line.startswith(("  + ", "  ~ ", "  - ", "  ! "))]
    assert len(titles) == len(plan.changes)
    assert [line for line in lines if line.startswith(("Plan:", "No changes", "Nothing to apply"))] == lines[
        -1:
    ]


BEFORE = "1,2,3,1,2,3,1,2,3,1,2,3"
AFTER = "1:2,2:3,3:1,1:2,2:3,3:1,1:2,2:3,3:1,1:2,2:3,3,1:3"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("1,2", "1:2,2:3", "2 partitions: 2 replicas added"),
        ("1,1,1,1,1,1", "1,1,3,1,3,1", "2 partitions: replica moves from broker 1 to 3"),
        ("1,1", "1:2:3,1:3:2", "2 partitions: 4 replicas added"),
        (
            "1:2,1:2",
            "1:3:4,1:2",
            "1 partition: replicas added on brokers 3, 4, replica dropped from broker 2",
        ),
        ("1:2,1:2", "2:1,1:2", "1 partition: a different preferred leader"),
    ],
)
def test_placement_change_is_described(before: str, after: str, told: str) -> None:
    lines = lines_of(plan_of(update(FieldChange("placement", before, after, before, after))))
    assert has_line(lines, "placement", told)
    assert not has_line(lines, "→")


def test_replicas_of_each_partition_are_listed_if_asked() -> None:
    plan = plan_of(update(FieldChange("placement", BEFORE, AFTER, BEFORE, AFTER)))
    message = "11 partitions: 11 replicas added; 1 new partition placed"
    assert has_line(lines_of(plan), "placement", message)
    verbose = lines_of(plan, verbose=True)
    assert has_line(verbose, "placement", message)
    assert [line.strip() for line in verbose if "→" in line] == [
        "partitions 0, 3, 6, 9: 1 → 1:2",
        "partitions 1, 4, 7, 10: 2 → 2:3",
        "partitions 2, 5, 8: 3 → 3:1",
        "partition 12: new → 1:3",
    ]


def test_replicas_of_new_topic_are_counted_and_listed_if_verbose() -> None:
    state: dict[str, FieldValue] = {"partitions": 3, "replicationFactor": 2, "placement": "1:2,2:3,1:2"}
    plan = plan_of(Create(topic("t"), state))
    lines = lines_of(plan)
    assert "      placement             3 partitions on brokers 1, 2, 3; --verbose lists them" in lines
    assert not has_line(lines, "1:2")
    verbose = lines_of(plan, verbose=True)
    assert verbose[-5:-2] == [
        "      placement             3 partitions on brokers 1, 2, 3",
        "          partitions 0, 2: 1:2",
        "          partition 1: 2:3",
    ]


BRAKE = Diagnostic("KF404", Severity.ERROR, "460 of 500 topics would be put at risk", None, "smaller steps")


def build_refused(number: int, reason: str, remedy: str) -> list[PlannedChange]:
    """Changes of many shapes, so that no two of them are equal but for the name."""
    changes = [
        update(
            *(FieldChange(f"config.{k}.{i}", "1", "2", assessment=CUT) for k in range(1 + i % 3)), name=name
        )
        for i, name in enumerate(f"orders-{i:03}" for i in range(number))
    ]
    return [PlannedChange(change, Status.REFUSED, None, reason, remedy) for change in changes]


@pytest.mark.parametrize(
    ("diagnostics", "reason", "remedy"),
    [
        # A rule objects to each of them, too.
        ((BRAKE,), f"KF110: too short; KF404: {BRAKE.message}", f"longer; {BRAKE.suggestion}"),
        ((), "retention-cut is forbidden on this cluster", "see the settings"),
    ],
    ids=["brake and rule", "forbidden"],
)
def test_deciding_finding_is_first(diagnostics: tuple[Diagnostic, ...], reason: str, remedy: str) -> None:
    safe = [PlannedChange(Create(topic(f"safe{i}"), {"partitions": i}), Status.PLANNED) for i in range(50)]
    plan = Plan("c", (*safe, *build_refused(100, reason, remedy)), diagnostics=diagnostics)
    decisive = diagnostics[0].message if diagnostics else reason
    for shown in (render_plan(plan).plain, render_plan_markdown(plan)):
        flat = shown.replace("`", "")
        assert flat.count(decisive) == 1
        assert decisive in "\n".join(flat.splitlines()[:12])
        assert flat.index(decisive) < flat.index("orders-000") < flat.index("safe0")
        assert all(f"orders-{i:03}" in flat for i in range(100)), "however many share a reason"


@pytest.mark.parametrize(
    ("statuses", "unvalidated", "end"),
    [
        ("pp", (), "Not validated by the brokers."),
        ("pp", "ab", "Not validated by the brokers."),
        ("ppc", "b", "Validated by the brokers, except Topic/b."),
        ("rr", (), "2 refused, 0 unchanged."),
    ],
)
def test_summary_names_unvalidated_resources(statuses: str, unvalidated: Sequence[str], end: str) -> None:
    sorts = {"p": Status.PLANNED, "c": Status.NEEDS_CONSENT, "r": Status.REFUSED}
    changes = [
        PlannedChange(update(retention("1", "2"), name=name), sorts[status])
        for name, status in zip("abc", statuses, strict=False)
    ]
    plan = Plan("c", tuple(changes), unvalidated=tuple(map(topic, unvalidated)))
    assert summary_sentence(plan).endswith(end)
    saved = plan_from_json(plan_to_json(plan, HEADER), "plan.json")[0]
    assert summary_sentence(saved) == summary_sentence(plan)


@pytest.mark.parametrize(
    ("statuses", "extent"),
    [
        ("ppp", ""),
        ("ppcccrr", "2 of 7 changes will be applied, 3 wait for consent, 2 are refused"),
        ("pcr", "1 of 3 changes will be applied, 1 waits for consent, 1 is refused"),
        ("pd", "2 of 2 changes will be applied (1 of them in part)"),
    ],
)
def test_prompt_counts_changes_to_be_applied(statuses: str, extent: str) -> None:
    sorts, longer = {"c": Status.NEEDS_CONSENT, "r": Status.REFUSED}, retention("1", "2")
    changes = [
        PlannedChange(update(LATER if sort == "d" else longer), sorts.get(sort, Status.PLANNED))
        for sort in statuses
    ]
    assert describe_extent(Plan("c", tuple(changes))) == extent


WITHOUT_HTML = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

HEADINGS = {
    *("Errors", "Refused for the same reason", "Caused by this branch", "Held back", "Consent given"),
    *("Not caused by this branch", "Not visible", "Findings", "Changes", "Risks"),
}
OUR_HTML = re.compile(
    r"</?details>"
    r"|<summary>(?:Notes|Not managed by any manifest|Configs that no manifest declares): [0-9,]+</summary>"
    r"|<summary>Changes in full: [0-9,]+</summary>"
)


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


SCREEN = 24
SCENES = {"create": (6, WEEK), "cut": (6, DAY), "decrease": (3, WEEK), "increase": (12, WEEK)}


def build_desired(scene: str, name: str) -> Desired:
    if scene == "delete":
        desired = absent(name)
    else:
        partitions, retention = SCENES[scene]
        name = f"new-{name}" if scene == "create" else name
        desired = declare_topic(name, partitions, retention_ms=retention)
    desired = replace(desired, location=Location(f"topics/{name}.yaml"))
    return replace(desired, intent=replace(desired.intent, keyed=None))


def scene_of(scene: str, number: int) -> Plan:
    """A plan that does the same to some topics, among four times as many that stay."""
    memory = MemoryCluster()
    names = [f"orders-{i:03}" for i in range(number)]
    kept = [f"kept-{i:04}" for i in range(number * 4)]
    for name in names:
        create_topic(memory, name, 6, retention_ms=WEEK)
    for name in kept:
        create_topic(memory, name)
    desired = [*(build_desired(scene, name) for name in names), *map(declare_topic, kept)]
    settings = Settings(rules={**QUIET, "KF401": "off"})
    return build_plan(Request(desired), memory, settings, None)


@pytest.mark.parametrize("number", [1, 2, 20])
@pytest.mark.parametrize("scene", [*SCENES, "delete"])
def test_equal_changes_are_grouped_with_every_name(scene: str, number: int) -> None:
    plan = scene_of(scene, number)
    text, markdown = render_plan(plan, width=80).plain, render_plan_markdown(plan)
    for planned in plan.changes:
        assert re.search(rf"\b{planned.ref.name}\b", text)
        assert f"`{planned.ref}`" in markdown
    assert scene == "create" or "…" not in text
    (entry,) = equal_changes(plan.changes)
    assert len(entry.changes) == number
    for reason in {change.reason for change in plan.changes if change.reason}:
        assert " ".join(text.split()).count(reason) <= 1
    if number == 20:
        assert max(map(len, text.splitlines())) <= 80
        assert max(len(text.splitlines()), len(markdown.splitlines())) <= SCREEN


def test_different_changes_of_field_are_grouped_with_values(memory: MemoryCluster) -> None:
    desired = []
    for i in range(20):
        name = f"orders-{i:03}"
        create_topic(memory, name, 6, retention_ms=WEEK)
        memory.fill(topic(name), (i + 1) << 20)
        wanted = declare_topic(name, 7 + i, retention_ms=WEEK)
        desired.append(replace(wanted, intent=replace(wanted.intent, keyed=None)))
    settings = Settings(rules={**QUIET, "KF401": "off", "KF404": "off"})
    plan = build_plan(Request(desired), memory, settings, None)
    text = render_plan(plan, HEADER, width=80).plain
    assert len(text.splitlines()) <= 60
    assert "orders-000 (6 → 7, 85.7 %, 1.0 MiB)" in text
    assert "orders-019 (6 → 26, 92.3 %, 20.0 MiB)" in text
    assert text.count("disruptive: partition-increase") == 1
    assert "… of keys move to another partition (if records have keys)" in text
    markdown = render_plan_markdown(plan, HEADER)
    assert "`Topic/orders-019` (6 → 26, 92.3 %, 20.0 MiB)" in markdown
    assert "`partitions: as listed`" in markdown
    verbose = render_plan(plan, HEADER, verbose=True).plain
    assert verbose.count("disruptive: partition-increase") == 20


HOSTILE = ("x;touch p;#", "a  b", "$(touch p)", "`touch p`", "it's", 'a"b', "*", "[x]", "-x", "--help", "a|b")
"""What a group may be called: Kafka allows any text."""

names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1).filter(
    lambda name: name.isprintable() and name.strip()
)


@given(names, names)
def test_printed_command_is_parsed_by_shell(name: str, value: str) -> None:
    text = f"so: {command('reset', name, options=('--to', value))}."
    (code,) = [piece for piece, is_code in split_code(text) if is_code]
    words = shlex.split(code)
    assert words[:2] == ["kafkaform", "reset"]
    assert sorted(words[2:]) == sorted([*(["--"] if name.startswith("-") else []), name, "--to", value])
    assert not name.startswith("-") or words[-2:] == ["--", name]


def test_commands_in_messages_are_quoted_by_command() -> None:
    """Each command with a value in it is made by `command`, which quotes."""
    bare = re.compile(rf"\bkafkaform (?:{'|'.join(COMMANDS)})(?: [a-z.-]+)* ['\"]?$")
    found = []
    for file in sorted(Path(kafkaform.__file__).parent.rglob("*.py")):
        source = file.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "kafkaform " in source else ():
            if isinstance(node, ast.JoinedStr):
                for part, after in zip(node.values, node.values[1:], strict=False):
                    text = str(part.value) if isinstance(part, ast.Constant) else ""
                    if isinstance(after, ast.FormattedValue) and bare.search(text):
                        found.append(f"{file.name}:{node.lineno}: {text}")
    assert found == []


def read_allow_values(text: str) -> list[str]:
    """The values of --allow in a text that has nothing else behind them in the line."""
    lines = [line[line.index("--allow") :] for line in text.splitlines() if "--allow" in line]
    return [word for line in lines for word in shlex.split(line)[1::2]]


@pytest.mark.parametrize("name", HOSTILE)
def test_suggested_consent_covers_named_resource_only(name: str) -> None:
    memory, group = MemoryCluster(), group_ref(name)
    create_topic(memory, "a")
    memory.commit(name, {("a", 0): 5})
    request = planning.Request([Desired(group, None, Intent())])
    plan = planning.build_plan(request, memory, Settings(rules=QUIET), None)
    (flag,) = read_allow_values(render_plan(plan, width=80).plain)
    grant = Grant.parse(flag)
    assert grant.covers(group, "delete")
    assert not grant.covers(group_ref("other"), "delete")
    found = parse_markdown(render_plan_markdown(plan)).spans
    assert flag in [value for span in found for value in read_allow_values(span)]
