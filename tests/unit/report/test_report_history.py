"""The record in words and as JSON: one line for each fact, and harmless whatever is in it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.audit.entries import AuditRecord, AuditResult
from kafkaform.audit.trail import Trail
from kafkaform.core.model import FieldValue, ResourceRef
from kafkaform.report.drift_wording import apply_words
from kafkaform.report.history import history_to_json, render_history
from tests.support.audit_scenes import Story
from tests.support.scenes import DAY, WEEK
from tests.support.strategies import hostile_text, values

RETENTION = "config.retention.ms"


@pytest.fixture
def story() -> Story:
    return Story()


def words(story: Story, earlier: int = 0, width: int | None = None) -> list[str]:
    return render_history(story.entries[::-1], earlier, width=width).plain.splitlines()


def test_an_apply_with_all_of_its_changes(story: Story) -> None:
    first = story.add("create", "new", {"partitions": (None, 3), RETENTION: (None, WEEK)})
    second = story.add("update", "orders", {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "3600000")})
    third = story.add("delete", "old", {"partitions": (1, None)})
    url = "https://ci.example/42"
    story.entries = [
        replace(entry, id=f"run0.{n}", run="run0", at=first.at, url=url, environment="prod")
        for n, entry in enumerate((first, second, third), 1)
    ]
    story.entries[1] = replace(story.entries[1], consents=(("retention-cut", "legal hold ended"),))
    assert words(story) == [
        "run0  2026-11-03 12:00:00 UTC  alice on ci-3  commit 0123456789ab  environment prod",
        "  https://ci.example/42",
        "  + run0.1  Topic/new  created",
        "      partitions: 3",
        "      retention.ms: 7d (604800000)",
        "  ~ run0.2  Topic/orders  updated",
        "      retention.ms: 7d → 1d (604800000 → 86400000)",
        "      segment.ms: (unset) → 1h (3600000)",
        "      consent: retention-cut: legal hold ended",
        "  - run0.3  Topic/old  deleted",
        "      partitions: 1",
    ]


@pytest.mark.parametrize("number", [2, 40])
def test_equal_changes_of_an_apply_are_one_entry_with_every_name(story: Story, number: int) -> None:
    names = [f"orders-{n:02}" for n in range(number)]
    changes = [story.add("update", name, {RETENTION: (WEEK, DAY)}) for name in names]
    other = story.add("update", "other", {RETENTION: (WEEK, DAY), "partitions": (1, 2)})
    story.entries = [
        replace(entry, id=f"run0.{n}", run="run0", at=other.at)
        for n, entry in enumerate([*changes, other], 1)
    ]
    lines = render_history(story.entries[::-1], 0, verbose=False, width=80).plain.splitlines()
    assert lines[1] == f"  ~ run0.1-{number}  {number} topics  updated: retention.ms 7d → 1d"
    assert len(lines) <= 14
    assert max(map(len, lines)) <= 80
    named = " ".join(lines[2:]).partition(" ~ ")[0].replace(",", "").split()
    assert named == names
    each = render_history(story.entries[::-1], 0, verbose=True).plain
    assert all(f"Topic/{name}  updated" in each for name in names)


def test_changes_that_ended_differently_are_entries_of_their_own(story: Story) -> None:
    same = [story.add("update", name, {RETENTION: (WEEK, DAY)}) for name in "abc"]
    failed = AuditResult("failed", same[0].at, "b is too large")
    story.entries = [
        replace(entry, id=f"run0.{n}", run="run0", at=same[0].at) for n, entry in enumerate(same)
    ]
    story.entries[1] = replace(story.entries[1], outcome=failed)
    lines = render_history(story.entries[::-1], 0, verbose=False).plain.splitlines()
    assert lines[1:5] == [
        "  ~ run0.0,2  2 topics  updated: retention.ms 7d → 1d",
        "      a, c",
        "  ! run0.1  Topic/b  update FAILED: retention.ms 7d → 1d",
        "      b is too large",
    ]


def test_the_plain_list_has_a_line_for_each_change(story: Story) -> None:
    configs = {f"config.x{n}": (None, "1") for n in range(4)}
    first = story.add("create", "new", {"partitions": (None, 3), RETENTION: (None, WEEK)})
    second = story.add("update", "orders", {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "3600000")})
    third = story.add("update", "many", configs)
    fourth = story.add("delete", "old", {"partitions": (1, None)})
    changes = enumerate((first, second, third, fourth), 1)
    story.entries = [replace(entry, id=f"run0.{n}", run="run0", at=first.at) for n, entry in changes]
    story.entries[1] = replace(story.entries[1], consents=(("retention-cut", "legal hold ended"),))
    story.entries[3] = replace(story.entries[3], consents=(("delete", "unused"),))
    long = ": retention.ms 7d → 1d, segment.ms (unset) → 1h (with consent to retention-cut)"
    expected = [
        "  + run0.1  Topic/new  created: 2 fields",
        f"  ~ run0.2  Topic/orders  updated{long}",
        "  ~ run0.3  Topic/many  updated: 4 fields",
        "  - run0.4  Topic/old  deleted (with consent to delete)",
        "",
        "every field: kafkaform history Topic/old or kafkaform history run0, or --verbose for all",
    ]
    plain = render_history(story.entries[::-1], 0, verbose=False).plain.splitlines()
    assert plain[1:] == expected
    narrow = render_history(story.entries[::-1], 0, verbose=False, width=80).plain.splitlines()
    assert max(map(len, narrow)) <= 80
    assert narrow[2:5] == [
        "  ~ run0.2  Topic/orders  updated",
        "      retention.ms 7d → 1d, segment.ms (unset) → 1h (with consent to",
        "      retention-cut)",
    ]


def test_a_commit_that_the_files_differed_from_is_marked(story: Story) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567-dirty"
    entry = story.add("update", "orders", {RETENTION: (WEEK, DAY)}, commit=commit)
    assert words(story)[0].endswith("  commit 0123456789ab-dirty")
    setting = Trail(story.entries).settings(entry.ref, RETENTION)[0]
    assert apply_words(setting).endswith("by alice (commit 0123456789ab-dirty)")


def test_the_latest_apply_comes_first_and_its_changes_in_order(story: Story) -> None:
    story.add("update", "orders", {"partitions": (1, 2)})
    for number in (1, 2, 10):
        story.add("update", f"t{number}", {"partitions": (1, 2)}, id=f"run9.{number}", run="run9")
    heads = [line.split()[0] for line in words(story) if line and not line.startswith(" ")]
    assert heads == ["run9", "run0"]
    assert [line.split()[1] for line in words(story) if " Topic/" in line] == [
        "run9.1",
        "run9.2",
        "run9.10",
        "run0.1",
    ]


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (None, "  ? run0.1  Topic/orders  update: result unknown (killed, or still running)"),
        ("failed", "  ! run0.1  Topic/orders  update FAILED"),
        ("moved", "  ! run0.1  Topic/orders  update not applied (somebody else changed it first)"),
        ("not_tried", "  ! run0.1  Topic/orders  update not tried"),
        ("already", "  ~ run0.1  Topic/orders  update already in place"),
    ],
)
def test_what_did_not_go_through_says_so(story: Story, result: str | None, line: str) -> None:
    story.add("update", "orders", {"partitions": (1, 2)}, result=result, message="why")
    shown = words(story)
    assert shown[1] == line
    assert (shown[2] == "      why") == (result is not None)


def test_a_half_that_was_not_done_is_marked(story: Story) -> None:
    both = {"partitions": (1, 2), RETENTION: (WEEK, DAY)}
    story.add("update", "orders", both, result="failed", done=[RETENTION])  # type: ignore[arg-type]
    story.add("update", "orders", both, done=["partitions"])  # type: ignore[arg-type]
    shown = words(story)
    assert "      partitions: 1 → 2  (not done)" in shown
    assert "      retention.ms: 7d → 1d (604800000 → 86400000)  (already in place)" in shown
    assert "      partitions: 1 → 2" in shown


def test_what_no_answer_came_for_is_not_called_undone(story: Story) -> None:
    three: dict[str, tuple[FieldValue, FieldValue]] = {
        "partitions": (1, 2),
        RETENTION: (WEEK, DAY),
        "config.segment.ms": (None, "1"),
    }
    story.add(
        "update", "orders", three, result="failed", unsure=[RETENTION], message="no answer; not verified"
    )
    shown = words(story)
    assert shown[1:4] == [
        "  ! run0.1  Topic/orders  update FAILED",
        "      no answer; not verified",
        "      what is not known may have been done; the next apply that finds it done records the result",
    ]
    assert "      partitions: 1 → 2  (not done)" in shown
    assert "      retention.ms: 7d → 1d (604800000 → 86400000)  (unknown)" in shown
    document = json.loads(history_to_json(story.entries, AuditRecord(tuple(story.entries))))
    assert [field["in_doubt"] for field in document["changes"][0]["fields"]] == [False, True, False]


def test_many_fields_are_counted(story: Story) -> None:
    story.add("delete", "g", {f"offsets.orders:{n}": (n, None) for n in range(40)}, kind="ConsumerGroup")
    assert words(story)[-1] == "      and 28 more fields: see --format json"


def test_what_is_not_shown_is_told(story: Story) -> None:
    assert words(story) == ["No matching change is recorded."]
    story.add("update", "orders", {"partitions": (1, 2)})
    assert words(story, 7)[-1] == "and 7 earlier changes: see --limit"


def test_clusters_are_named_where_there_are_several(story: Story) -> None:
    story.add("update", "orders", {"partitions": (1, 2)})
    assert "cluster" not in words(story)[0]
    story.add("update", "orders", {"partitions": (1, 2)}, cluster_id="other")
    assert words(story)[0].endswith("  cluster other")


def test_programs_get_all_of_it(story: Story) -> None:
    story.add("update", "orders", {RETENTION: (WEEK, DAY), "partitions": (1, 2)}, done=[RETENTION])
    story.add("create", "killed", {"partitions": (None, 2)}, result=None)
    document = json.loads(
        history_to_json(story.entries, AuditRecord(tuple(story.entries), ("line 3 is damaged",)))
    )
    assert document["format_version"] == 1
    assert document["problems"] == ["line 3 is damaged"]
    first, second = document["changes"]
    assert first["fields"] == [
        {"path": RETENTION, "before": WEEK, "after": DAY, "done": True, "in_doubt": False, "cut": False},
        {"path": "partitions", "before": 1, "after": 2, "done": False, "in_doubt": False, "cut": False},
    ]
    assert (first["result"], first["id"], first["who"]) == ("applied", "run0.1", "alice")
    assert (second["result"], second["concluded_at"]) == (None, None)


@given(st.data())
def test_no_text_in_the_record_reaches_a_terminal(data: st.DataObject) -> None:
    """Anybody who may write to the topic chooses all of it."""
    story = Story()
    text = hostile_text(min_size=1)
    entry = story.add(
        data.draw(st.sampled_from(["create", "update", "delete"])),
        data.draw(text),
        {data.draw(text): (data.draw(values()), data.draw(values()))},
        result=data.draw(st.sampled_from(["applied", "failed", None])),
        message=data.draw(hostile_text()),
        who=data.draw(text),
        host=data.draw(text),
        url=data.draw(text),
        commit=data.draw(text),
        environment=data.draw(text),
        cluster_id=data.draw(text),
        consents=((data.draw(text), data.draw(text)),),
    )
    assert isinstance(entry.ref, ResourceRef)
    for width in (None, 80):
        lines = render_history([entry, replace(entry, cluster_id="b")], 1, width=width).plain.split("\n")
        assert all(line.isprintable() for line in lines), lines
    for line in history_to_json([entry], AuditRecord()).splitlines():
        assert line.isascii()


def test_a_kind_of_a_later_version_is_shown_as_recorded(story: Story) -> None:
    story.add("update", "a", {"placement": ("1", "2"), RETENTION: ("1000", "2000")}, kind="Quota")
    story.add("create", "b", {"placement": (None, "1:2")}, kind="Quota")
    shown = "\n".join(words(story))
    assert "placement: 1 → 2" in shown
    assert "retention.ms: 1000 → 2000" in shown
    assert "placement: 1:2" in shown
