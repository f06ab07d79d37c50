from __future__ import annotations

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
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import ChangeOrigin, Consent, Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.printable import clipped, is_plain, printable, split_code, wrap_text
from kafkaform.core.values import replace
from kafkaform.core.wording import command
from kafkaform.plan.gate import resolve_consents
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.summary import describe_extent, headline, summary_sentence
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


def test_given_consent_is_not_requested_again() -> None:
    second = RiskAssessment(Risk.DESTRUCTIVE, "cleanup-policy", "compaction deletes")
    change = update(
        retention("2", "1"), FieldChange("config.cleanup.policy", "delete", "compact", assessment=second)
    )
    plan = replace(
        plan_of(change, Status.NEEDS_CONSENT), consents=(Consent("Topic/t", "retention-cut", "yes"),)
    )
    lines = lines_of(plan)
    assert has_line(lines, "consent: --allow Topic/t:cleanup-policy")
    assert not has_line(lines, "--allow", "retention-cut")


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


def build_warning(name: str, code: str = "KF111", severity: Severity = Severity.WARNING) -> Diagnostic:
    place = Location(f"topics/{name}.yaml", 9, 5)
    return Diagnostic(code, severity, f"{code} on {name}", place, "set segment.ms", ref=topic(name))


CODES = "KF104, KF111, KF212, KF213"


def test_findings_on_unchanged_resources_are_summarized() -> None:
    group = ResourceRef("ConsumerGroup", "g")
    plan = replace(
        plan_of(LONGER),
        unchanged=39,
        diagnostics=(
            *(build_warning(f"other{i}") for i in range(38)),
            build_warning("t", "KF105"),
            Diagnostic("KF212", Severity.WARNING, "latest", ref=group),
            Diagnostic("KF213", Severity.WARNING, "reads nothing", ref=group),
            *(build_warning(f"other{i}", "KF104", Severity.INFO) for i in range(13)),
            Diagnostic("KF411", Severity.WARNING, "brokers differ"),
        ),
    )
    lines = lines_of(plan)
    assert len(lines) <= 14
    assert [line.strip() for line in lines[6:]] == [
        "warning KF105  topics/t.yaml:9:5: KF105 on t",
        "hint: set segment.ms",
        "warning KF411  brokers differ",
        f"40 warnings and 13 notes on unchanged resources ({CODES}): `kafkaform plan --verbose` lists them",
        "",
        lines[-1],
    ]
    verbose = lines_of(plan, verbose=True)
    assert all(has_line(verbose, found.message) for found in plan.diagnostics)


def test_error_on_unchanged_resource_is_printed() -> None:
    errors = [build_warning(f"other{i}", "KF109", Severity.ERROR) for i in range(3)]
    waived = replace(build_warning("other", "KF110", Severity.ERROR), waived="TICKET-1")
    plan = replace(plan_of(LONGER), diagnostics=(*errors, waived))
    lines = lines_of(plan)
    assert all(has_line(lines, "error KF109", found.message) for found in errors)
    assert not has_line(lines, "error KF110")
    assert has_line(lines, "1 note on an unchanged resource")


def test_saved_plan_shows_provenance() -> None:
    line = "Plan saved 2025-06-01 12:00 UTC by kafkaform 0.1.0, commit 1a2b3c."
    assert render_provenance(HEADER).plain == line
    assert "commit" not in render_provenance(replace(HEADER, commit=None)).plain


@pytest.mark.parametrize(
    ("change", "status", "style"),
    [
        (Create(topic("t"), {"partitions": 1}), Status.PLANNED, "green"),
        (LONGER, Status.PLANNED, "yellow"),
        (Delete(topic("t"), None, {}, SAFE), Status.PLANNED, "red"),
        (Create(topic("t"), {"partitions": 1}), Status.REFUSED, "red"),
    ],
)
def test_symbol_colour_follows_risk_and_status(change: Change, status: Status, style: str) -> None:
    text = render_plan(plan_of(change, status)).text
    symbol = next(i for i, char in enumerate(text.plain) if char in "+~-!")
    assert any(span.start == symbol and style in str(span.style) for span in text.spans)


# --- the last line ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        Plan("c", undeclared=(UndeclaredConfig(topic("t"), "config.k", "1"),)),
        Plan("c", unknown=(topic("t"),)),
        plan_of(update(retention("2", "1")), Status.REFUSED),
        plan_of(update(FieldChange("replicationFactor", 2, 3, deferred="later"))),
        Plan("c", diagnostics=(Diagnostic("KF1", Severity.ERROR, "could not read"),)),
    ],
)
def test_open_plan_does_not_report_no_changes(plan: Plan) -> None:
    assert "no changes" not in render_plan(plan).plain.lower()
    assert headline(plan) != "no changes"


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


@pytest.mark.parametrize(
    ("message", "codes"),
    [
        ("keep it with `state: absent`; plan again (or `plan`).", ["state: absent", "plan"]),
        ("write `` a`b ``, ```` ``` ````", ["a`b", "```"]),
        ("no `pair", []),
        ("a`b`c, [`d`] and `e`f", []),
        ("a name of `` ` ``: one", ["`"]),
    ],
)
def test_code_in_text_is_split(message: str, codes: list[str]) -> None:
    assert [piece for piece, is_code in split_code(message) if is_code] == codes


def test_prose_is_wrapped_but_names_and_code_are_not() -> None:
    name = "a" * 90
    lines = wrap_text(
        f"look at {name}, or {command('reset', 'one  two', options=('--to', 'a'))} 5 %", 30, "  "
    )
    assert lines == ["look at", f"  {name},", "  or", "  `kafkaform reset 'one  two' --to a`", "  5 %"]


# --- what decides the verdict ----------------------------------------------------------------------

BRAKE = Diagnostic("KF404", Severity.ERROR, "460 of 500 topics would be put at risk", None, "smaller steps")


def build_refused(number: int, reason: str, remedy: str | None) -> list[PlannedChange]:
    """Changes of many shapes, so that no two of them are equal but for the name."""
    return [
        PlannedChange(
            update(
                *(
                    FieldChange(f"config.k{field}.{i}", "1", "2", assessment=CUT)
                    for field in range(1 + i % 3)
                ),
                name=f"orders-{i:03}",
            ),
            Status.REFUSED,
            None,
            reason,
            remedy,
        )
        for i in range(number)
    ]


@pytest.mark.parametrize(
    ("diagnostics", "reason", "remedy"),
    [
        ((BRAKE,), f"KF404: {BRAKE.message}", BRAKE.suggestion),
        # A rule objects to each of them, too.
        ((BRAKE,), f"KF110: too short; KF404: {BRAKE.message}", f"longer; {BRAKE.suggestion}"),
        ((), "retention-cut is forbidden on this cluster", "see `forbid:`"),
        ((), "the cluster is not healthy: KF303: 1 partition has no leader", "wait"),
        (tuple(build_warning(f"other{i}", "KF109", Severity.ERROR) for i in range(400)), "no", None),
    ],
    ids=["brake", "brake and rule", "forbidden", "unhealthy", "errors"],
)
def test_deciding_finding_is_printed_first_and_once(
    diagnostics: tuple[Diagnostic, ...], reason: str, remedy: str | None
) -> None:
    safe = [
        PlannedChange(Create(topic(f"safe{i}"), {"partitions": i + 1}), Status.PLANNED) for i in range(50)
    ]
    plan = Plan("c", (*safe, *build_refused(100, reason, remedy)), diagnostics=diagnostics)
    decisive = diagnostics[0].message if diagnostics else reason
    for shown in (render_plan(plan).plain, render_plan_markdown(plan)):
        flat = shown.replace("`", "")
        assert flat.count(decisive.replace("`", "")) == 1
        assert decisive.replace("`", "") in "\n".join(flat.splitlines()[:12])
        assert flat.index(decisive.replace("`", "")) < flat.index("orders-000") < flat.index("safe0")
        # Every name is there, however many share a reason.
        assert all(f"orders-{i:03}" in flat for i in range(100))
    assert sum("KF109" in line for line in render_plan(plan).plain.splitlines()) <= 12


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
