"""Tests of the progress of a count, by Spark's status tracker of its one job."""

from types import SimpleNamespace
from typing import Any

import pytest

from spark_validation.job import COUNTING, READING, _ProgressWatcher


def track_job(*stages: tuple[int, int] | None) -> Any:
    """A job of stages, each with its finished and all of its tasks; None for one that is not known yet."""
    found = [stage and SimpleNamespace(numCompletedTasks=stage[0], numTasks=stage[1]) for stage in stages]
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: [7] if stages else [],
        getJobInfo={7: SimpleNamespace(stageIds=[*reversed(range(len(stages)))])}.get,
        getStageInfo=found.__getitem__,
    )
    return SimpleNamespace(statusTracker=lambda: tracker)


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
    watch = _ProgressWatcher(track_job(*stages), lambda *_: None)
    assert watch._progress() == said
