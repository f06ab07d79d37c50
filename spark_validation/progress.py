"""How far a running count is, for somebody who waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_validation.slots import is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

Tell: TypeAlias = Callable[[int, int, str], None]
"""Takes tasks that are done, tasks in all, and the phase; it is called from another thread."""

READING = "reading"
COUNTING = "counting"

_PAUSE_S = 0.2
_JOIN_S = 5.0


@contextmanager
def following(spark: SparkSession, tell: Tell | None, reducers: int) -> Iterator[None]:
    """Tell how far Spark is while the body runs; through Spark Connect nobody can.

    Args:
        spark: Runs one count at a time.
        tell: What to call, whenever something changed; None for nobody.
        reducers: The parts of the count: each is a job of its own, the first of which also reads.
    """
    if tell is None or is_connect(spark):
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()
    watch = _Watch(spark.sparkContext, tell, reducers)
    # Its JVM side ends with it.
    thread = InheritableThread(target=watch.run, args=(over,), session=spark)
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_JOIN_S)


class _Watch:
    def __init__(self, context: Any, tell: Tell, reducers: int) -> None:
        self._tracker = context.statusTracker()
        self._tell = tell
        self._reducers = reducers
        self._first: int | None = None
        self._last: tuple[int, int, str] | None = None

    def run(self, over: threading.Event) -> None:
        while not over.wait(_PAUSE_S):
            now = self._now()
            if now is not None and now != self._last and not over.is_set():
                self._last = now
                self._tell(*now)

    def _now(self) -> tuple[int, int, str] | None:
        jobs = [
            (job, info)
            for job in self._tracker.getActiveJobsIds()
            if (info := self._tracker.getJobInfo(job)) is not None
        ]
        if not jobs:
            return None
        job, info = min(jobs, key=lambda one: one[0])
        if self._first is None:
            self._first = job
        stages = [
            stage
            for number in sorted(info.stageIds)
            if (stage := self._tracker.getStageInfo(number)) is not None
        ]
        if job == self._first and stages and stages[0].numCompletedTasks < stages[0].numTasks:
            return stages[0].numCompletedTasks, stages[0].numTasks, READING
        return min(job - self._first, self._reducers), self._reducers, COUNTING
