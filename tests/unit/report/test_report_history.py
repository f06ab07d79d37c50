"""Applies and their record, in words and as JSON: progress, one line for each fact, and harmless text."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.entries import AuditRecord
from kafkaform.core.apply_result import ApplyReport
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import FieldValue, ResourceRef
from kafkaform.core.values import replace
from kafkaform.report.apply import apply_to_json, render_apply
from kafkaform.report.history import history_to_json, render_history
from kafkaform.report.moves import Pace, format_progress
from kafkaform.resources.replicas.moves import MoveProgress
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story
from tests.support.plans.scenes import DAY, WEEK, FakeClock, create_topic, declare_topic, plan_for, topic
from tests.support.plans.strategies import hostile_text, values

RETENTION = "config.retention.ms"


def test_results_other_than_applied_match_golden(golden: SnapshotAssertion) -> None:
    story = Story()
    fields: dict[str, tuple[FieldValue, FieldValue]] = {
        "partitions": (1, 2),
        RETENTION: (WEEK, DAY),
        "config.segment.ms": (None, "1"),
    }
    for result in (None, "failed", "moved", "not_tried", "already"):
        story.add("update", f"orders-{result}", fields, result=result, message="why")
    story.add("update", "half", fields, result="failed", done=[RETENTION])
    story.add("update", "done", fields, done=["partitions"])
    story.add("update", "unsure", fields, result="failed", in_doubt=[RETENTION], message="no answer")
    story.add("delete", "g", {f"offsets.orders:{n}": (n, None) for n in range(40)}, kind="ConsumerGroup")
    assert render_history(story.entries[::-1], 7).plain.rstrip("\n") == golden(name="results.txt")
    document = json.loads(history_to_json(story.entries, AuditRecord(tuple(story.entries))))
    (in_doubt,) = (change for change in document["changes"] if change["name"] == "unsure")
    assert [field["in_doubt"] for field in in_doubt["fields"]] == [False, True, False]


def test_clusters_are_named_if_several() -> None:
    story = Story()
    story.add("update", "orders", {"partitions": (1, 2)})
    assert "cluster" not in render_history(story.entries, 0).plain
    story.add("update", "orders", {"partitions": (1, 2)}, cluster_id="other")
    assert "  cluster other\n" in render_history(story.entries, 0).plain


@given(st.data())
def test_recorded_text_is_printable(data: st.DataObject) -> None:
    """Anybody who may write to the topic chooses all of it."""
    story = Story()
    text = hostile_text(min_size=1)
    entry = story.add(
        data.draw(st.sampled_from(["create", "update", "delete"])),
        data.draw(text),
        {data.draw(text): (data.draw(values()), data.draw(values()))},
        result=data.draw(st.sampled_from(["applied", "failed", None])),
        message=data.draw(hostile_text()),
        consents=((data.draw(text), data.draw(text)),),
        **{name: data.draw(text) for name in ("who", "host", "url", "commit", "environment", "cluster_id")},
    )
    assert isinstance(entry.ref, ResourceRef)
    for width in (None, 80):
        lines = render_history([entry, replace(entry, cluster_id="b")], 1, width=width).plain.split("\n")
        assert all(line.isprintable() for line in lines), lines
    for line in history_to_json([entry], AuditRecord()).splitlines():
        assert line.isascii()


MIB = 1024**2
NO = RequestRejected("not enough brokers (POLICY_VIOLATION)", code="POLICY_VIOLATION")
BEGUN = MoveProgress(1, 1, 0, 12, 0, 80 * MIB, 50_000_000)
ALL = "80.0 MiB, 0 of 12 partitions"
NONE = f"nothing of {ALL}"
LIMIT = "at most 50 MB/s per broker"


@pytest.mark.parametrize(
    ("changed", "left_s", "expected"),
    [
        ({}, None, f"{NONE}, {LIMIT}"),
        ({"throttle": 300_000}, None, f"{NONE}, at most 300000 bytes/s per broker"),
        ({"bytes_done": MIB}, 200.0, f"1.0 MiB of {ALL}, {LIMIT}, about 3 minutes left"),
        ({"throttle": None, "stalled": "it is down"}, 9.0, f"{NONE}, no progress for a while: it is down"),
        ({"batch": 2, "batches": 3, "throttle": None}, None, f"{NONE}, batch 2 of 3"),
        # Nothing is copied, so that no throttle holds it back.
        ({"bytes_total": 0}, None, "0 of 12 partitions"),
    ],
)
def test_progress_is_formatted(changed: Mapping[str, Any], left_s: float | None, expected: str) -> None:
    assert format_progress(replace(BEGUN, **changed), left_s) == expected


def test_remaining_time_follows_copy_rate() -> None:
    pace = Pace()
    assert pace.left_s(BEGUN) is None
    # What was there when it was first looked at, as of a move that is joined, was not copied meanwhile.
    pace.add_reading(replace(BEGUN, bytes_done=40 * MIB), 100.0)
    assert pace.left_s(replace(BEGUN, bytes_done=40 * MIB)) is None
    later = replace(BEGUN, bytes_done=60 * MIB)
    pace.add_reading(later, 110.0)
    assert pace.left_s(later) == pytest.approx(10.0)


def test_remaining_time_is_unknown_without_progress() -> None:
    pace = Pace()
    for bytes_done, now_s in ((0, 100.0), (20 * MIB, 110.0), (20 * MIB, 119.0)):
        reading = replace(BEGUN, bytes_done=bytes_done)
        pace.add_reading(reading, now_s)
    assert pace.idle_s == 0
    assert pace.left_s(reading) is not None
    pace.add_reading(reading, 140.0)
    assert (pace.idle_s, pace.left_s(reading)) == (30.0, None)
    assert "no progress for 30 seconds" in format_progress(reading, pace.left_s(reading), pace.idle_s)
    later = replace(BEGUN, bytes_done=30 * MIB)
    pace.add_reading(later, 141.0)
    assert pace.left_s(later) is not None


def test_many_safe_results_are_summarized_and_failures_listed() -> None:
    memory = MemoryCluster()
    names = [f"t{i:03}" for i in range(700)]
    plan = plan_for(memory, *map(declare_topic, names))
    for name in names[:300]:
        create_topic(memory, name)
    failing = names[400:650]
    for name in failing:
        memory.fail_next(NO, topic(name))
    report = apply(plan, memory, ApplyOptions(clock=FakeClock().clock))
    lines = render_apply(report, width=80).plain.split("\n")
    heads = [line for line in lines if line.startswith(("  + ", "  = ", "  ! "))]
    assert heads == [
        "  + 150 topics  created: 3 partitions, 1 replica each",
        "  = 200 topics  already exists",
        "  ! 250 topics  create FAILED",
    ]
    shown = [name for line in lines for name in re.findall(r"\bt[0-9]{3}(?=, |,?$)", line)]
    assert shown == [*names[300:400], *names[650:], *names[:200], *failing]
    assert "  … 100 more already done: topics t200 to t299 (--verbose lists them)" in lines
    verbose = render_apply(report, verbose=True).plain
    assert sum(line.startswith(("  + ", "  = ", "  ! ")) for line in verbose.split("\n")) == len(names)
    assert "…" not in verbose


def test_invisible_resource_makes_apply_incomplete() -> None:
    report = ApplyReport((), unknown=(ResourceRef("Topic", "hidden"),))
    assert not report.complete
    assert json.loads(apply_to_json(report))["unknown"] == [{"kind": "Topic", "name": "hidden"}]
    assert "1 not visible. Not complete." in render_apply(report).plain
