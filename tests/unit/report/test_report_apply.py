"""The progress of moves, and the report of an apply."""

from __future__ import annotations

import re

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.core.values import replace
from kafkaform.report.apply import render_apply
from kafkaform.report.moves import Pace, format_progress
from kafkaform.resources.replicas.moves import MoveProgress
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.applies import NO
from tests.support.plans.scenes import FakeClock, create_topic, declare_topic, plan_for, topic

MIB = 1024**2
BEGUN = MoveProgress(1, 1, 0, 12, 0, 80 * MIB, 50_000_000)


@pytest.mark.parametrize(
    ("progress", "left_s", "expected"),
    [
        (BEGUN, None, "nothing of 80.0 MiB, 0 of 12 partitions, at most 50 MB/s per broker"),
        (
            replace(BEGUN, throttle=300_000),
            None,
            "nothing of 80.0 MiB, 0 of 12 partitions, at most 300000 bytes/s per broker",
        ),
        (
            replace(BEGUN, bytes_done=MIB),
            200.0,
            "1.0 MiB of 80.0 MiB, 0 of 12 partitions, at most 50 MB/s per broker, about 3 minutes left",
        ),
        (
            replace(BEGUN, throttle=None, stalled="broker 3 is down"),
            9.0,
            "nothing of 80.0 MiB, 0 of 12 partitions, no progress for a while: broker 3 is down",
        ),
        (
            replace(BEGUN, bytes_done=80 * MIB, partitions_done=12, throttle=None),
            0.0,
            "80.0 MiB of 80.0 MiB, 12 of 12 partitions",
        ),
        # Nothing is copied, so that no throttle holds it back.
        (replace(BEGUN, bytes_total=0), None, "0 of 12 partitions"),
    ],
)
def test_progress_is_formatted(progress: MoveProgress, left_s: float | None, expected: str) -> None:
    assert format_progress(progress, left_s) == expected


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


# --- text ------------------------------------------------------------------------------------------


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


# --- hostile text ----------------------------------------------------------------------------------
