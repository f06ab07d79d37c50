"""Tests of the progress of a count, by Spark's status tracker of its one job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_validation.job import COUNTING, READING, _ProgressWatcher


class Tracker:
    """A job of stages, each with its finished and all of its tasks; None for one that is not known yet."""

    def __init__(self, *stages: tuple[int, int] | None) -> None:
        self.stages = stages

    def statusTracker(self) -> Tracker:  # noqa: N802 - as PySpark has it
        return self

    def getActiveJobsIds(self) -> list[int]:  # noqa: N802
        return [7] if self.stages else []

    def getJobInfo(self, job: int) -> Any:  # noqa: N802
        assert job == 7
        return SimpleNamespace(stageIds=list(reversed(range(len(self.stages)))))

    def getStageInfo(self, number: int) -> Any:  # noqa: N802
        found = self.stages[number]
        return None if found is None else SimpleNamespace(numCompletedTasks=found[0], numTasks=found[1])


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ((), None),
        ((None,), None),
        (((3, 120), (0, 4)), (3, 120, READING)),
        (((120, 120), None), (120, 120, READING)),
        (((120, 120), (0, 4)), (0, 4, COUNTING)),
        (((120, 120), (3, 4)), (3, 4, COUNTING)),
        (((12, 12), (4, 4), (1, 8)), (5, 12, COUNTING)),
    ],
)
def test_progress_phase_follows_spark_stage(
    stages: tuple[tuple[int, int] | None, ...], said: tuple[int, int, str] | None
) -> None:
    watch = _ProgressWatcher(Tracker(*stages), lambda *_: None)
    assert watch._progress() == said
