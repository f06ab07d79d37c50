import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.model import (
    SAFE,
    Change,
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import ChangeOrigin, Plan, PlannedChange
from kafkaform.core.printable import clipped, is_plain, printable
from kafkaform.core.values import replace
from kafkaform.plan.gate import resolve_consents
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.summary import describe_extent, summary_sentence
from kafkaform.report.plan import render_plan, render_plan_markdown, render_provenance
from kafkaform.resources.values import MAX_VALUE_LENGTH, fields_of, format_field, format_value
from tests.support.plans import strategies
from tests.support.plans.scenes import topic

DAY = 86_400_000
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


# --- what a reader sees ----------------------------------------------------------------------------


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
def test_changes_needing_attention_are_not_summarized(
    change: Change, status: Status, origin: ChangeOrigin | None
) -> None:
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


# --- the last line ---------------------------------------------------------------------------------


# --- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ((str(7 * DAY), None), (str(DAY), None), "7d → 1d (604800000 → 86400000)"),
        ((None, str(7 * DAY)), (str(DAY), str(DAY)), "default 7d → 1d (604800000 → 86400000)"),
        ((str(DAY), str(DAY)), (None, str(7 * DAY)), "1d → default 7d (86400000 → 604800000)"),
        ((None, str(DAY)), (str(DAY), str(DAY)), "set explicitly to the default 1d (86400000)"),
        ((str(DAY), str(DAY)), (None, str(DAY)), "no longer set; the default is 1d (86400000), too"),
        ((None, None), (str(DAY), None), "(unset) → 1d ((unset) → 86400000)"),
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


# --- what foreign text cannot do -------------------------------------------------------------------


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


# --- replicas --------------------------------------------------------------------------------------

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
def test_deciding_finding_is_printed_first_and_once(
    diagnostics: tuple[Diagnostic, ...], reason: str, remedy: str
) -> None:
    safe = [PlannedChange(Create(topic(f"safe{i}"), {"partitions": i}), Status.PLANNED) for i in range(50)]
    plan = Plan("c", (*safe, *build_refused(100, reason, remedy)), diagnostics=diagnostics)
    decisive = diagnostics[0].message if diagnostics else reason
    for shown in (render_plan(plan).plain, render_plan_markdown(plan)):
        flat = shown.replace("`", "")
        assert flat.count(decisive) == 1
        assert decisive in "\n".join(flat.splitlines()[:12])
        assert flat.index(decisive) < flat.index("orders-000") < flat.index("safe0")
        assert all(f"orders-{i:03}" in flat for i in range(100)), "however many share a reason"


# --- what decides the verdict ----------------------------------------------------------------------


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
