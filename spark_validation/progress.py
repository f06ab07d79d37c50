"""How many tasks a session can run at once, and how far a running count is."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


_CONNECT_DEFAULT = 16


def slots(spark: SparkSession) -> int:
    """Task slots of a session.

    A Spark Connect client cannot ask for its server's, unless the server's configuration says them.
    """
    if is_connect(spark):
        return int(spark.conf.get("spark.default.parallelism", str(_CONNECT_DEFAULT)) or _CONNECT_DEFAULT)
    return max(1, spark.sparkContext.defaultParallelism)


def is_connect(spark: SparkSession) -> bool:
    """Whether the session's JVM is out of reach, behind Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


Tell: TypeAlias = Callable[[int, int, str], None]
"""Takes tasks that are done, tasks in all, and the phase; it is called from another thread."""

READING = "reading"
COUNTING = "counting"

_PAUSE_S = 0.2
_JOIN_S = 5.0


@contextmanager
def following(spark: SparkSession, tell: Tell | None) -> Iterator[None]:
    """Tell how far Spark is while the body runs; through Spark Connect nobody can.

    Args:
        spark: Runs one count at a time.
        tell: What to call, whenever something changed; None for nobody.
    """
    if tell is None or is_connect(spark):
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()
    watch = _Watch(spark.sparkContext, tell)
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
    """Watches the job of a count: its first stage reads, the others count."""

    def __init__(self, context: Any, tell: Tell) -> None:
        self._tracker = context.statusTracker()
        self._tell = tell
        self._last: tuple[int, int, str] | None = None

    def run(self, over: threading.Event) -> None:
        while not over.wait(_PAUSE_S):
            now = self._now()
            if now is not None and now != self._last and not over.is_set():
                self._last = now
                self._tell(*now)

    def _now(self) -> tuple[int, int, str] | None:
        active = self._tracker.getActiveJobsIds()
        info = self._tracker.getJobInfo(min(active)) if active else None
        if info is None:
            return None
        known = map(self._tracker.getStageInfo, sorted(info.stageIds))
        stages = [stage for stage in known if stage is not None]
        if not stages:
            return None
        first, *rest = stages
        if first.numCompletedTasks < first.numTasks or not rest:
            return first.numCompletedTasks, first.numTasks, READING
        done = sum(stage.numCompletedTasks for stage in rest)
        return done, sum(stage.numTasks for stage in rest), COUNTING
