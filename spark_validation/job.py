"""Analyse one topic, from its offsets to its result: the command line and spark-submit share it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_validation import analysis
from spark_validation.configuration import is_local, is_sensitive
from spark_validation.errors import ReadingFailed
from spark_validation.kafka_client import travelling
from spark_validation.kafka_source import records
from spark_validation.key_counts import CountsLayout, KeyCounts, candidate_counts
from spark_validation.measure import count_keys, reducers
from spark_validation.windows import SamplePlan, plan_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_validation.analysis import ReaderGroup
    from spark_validation.results import SkewLimits, TopicResult
    from spark_validation.sampled_topic import PartitionChange
    from spark_validation.windows import Span


_CONNECT_DEFAULT = 16


def task_slots(spark: SparkSession) -> int:
    """Task slots of a session.

    A Spark Connect client cannot ask for its server's, unless the server's configuration says them.
    """
    if is_connect(spark):
        return int(spark.conf.get("spark.default.parallelism", str(_CONNECT_DEFAULT)) or _CONNECT_DEFAULT)
    return max(1, spark.sparkContext.defaultParallelism)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session's JVM is out of reach, behind Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


ProgressCallback: TypeAlias = Callable[[int, int, str], None]
"""Takes tasks that are done, tasks in all, and the phase; it is called from another thread."""

READING = "reading"
COUNTING = "counting"

_PAUSE_S = 0.2
_JOIN_S = 5.0


@contextmanager
def reporting_progress(spark: SparkSession, on_progress: ProgressCallback | None) -> Iterator[None]:
    """Report how far Spark is while the body runs; a Spark Connect client cannot know.

    Args:
        spark: Runs one count at a time.
        on_progress: Called whenever something changed; None for no one.
    """
    if on_progress is None or is_connect(spark):
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()
    watch = _Watch(spark.sparkContext, on_progress)
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

    def __init__(self, context: Any, on_progress: ProgressCallback) -> None:
        self._tracker = context.statusTracker()
        self._on_progress = on_progress
        self._last: tuple[int, int, str] | None = None

    def run(self, over: threading.Event) -> None:
        while not over.wait(_PAUSE_S):
            now = self._now()
            if now is not None and now != self._last and not over.is_set():
                self._last = now
                self._on_progress(*now)

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


_NAMED = 5


def retention_notes(plan: SamplePlan, now: Sequence[Span]) -> tuple[str, ...]:
    """Say in one sentence what retention has removed of a plan's windows; empty if nothing.

    Args:
        plan: The windows that were to be read.
        now: The spans, read again after the job. Partitions that are not there are taken for gone.
    """
    starts = {span.partition: span.start for span in now}
    lost: dict[int, int] = {}
    for window in plan.windows:
        start = starts.get(window.partition, window.end)
        gone = min(window.end, start) - window.start
        if gone > 0:
            lost[window.partition] = lost.get(window.partition, 0) + gone
    if not lost:
        return ()
    named = ", ".join(str(partition) for partition in sorted(lost)[:_NAMED])
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    note = (
        f"retention removed records while the topic was being read: of {plan.records:,} offsets requested,"
        f" up to {sum(lost.values()):,} were removed (partition{'s' if len(lost) > 1 else ''}"
        f" {named}{more}); the oldest records are underrepresented"
    )
    return (note,)


RECORDS = 1_000_000
"""How many records a sample has unless said otherwise."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """Settings of a job: what is read of a topic, and what is reported of it.

    Attributes:
        records: How many records are wanted; more offsets are read where many have no record.
        seed: Of the windows' places.
        full: Every record is read.
        precision: The wanted half width of the interval of a share, 0 to 1; more records are read where a
            sample does not reach it.
        what_if: Partition counts that were asked for.
        show_keys: Whether the keys themselves may be reported.
        since_ms: Where the spans start in time, in milliseconds since 1970; None for all. For the
            report only: the spans say it in offsets.
    """

    records: int = RECORDS
    seed: int = 0
    full: bool = False
    precision: float | None = None
    what_if: tuple[int, ...] = ()
    show_keys: bool = False
    since_ms: int | None = None


def run_topic(
    spark: SparkSession,
    name: str,
    spans: Sequence[Span],
    kafka: Mapping[str, str],
    settings: JobSettings,
    *,
    limits: SkewLimits,
    groups: Sequence[ReaderGroup] = (),
    on_progress: ProgressCallback | None = None,
    spans_now: Callable[[], Sequence[Span]] | None = None,
    partition_changes: Callable[[], Sequence[PartitionChange]] | None = None,
) -> TopicResult:
    """Sample a topic, or read it whole, and analyse what was counted.

    Args:
        spark: Of `session.start`.
        name: The topic.
        spans: One for each partition, by number, without a gap.
        kafka: Properties by librdkafka's names; secrets among them.
        settings: What is read, and what is said of it.
        limits: The topic's policy, for advice.
        groups: Declared groups that read the topic, as `analysis.analyse` takes them.
        on_progress: Called with how far Spark is; see `reporting_progress`.
        spans_now: Reads the spans once more, to find what retention removed during the job.
        partition_changes: Reads recorded changes of the partition count, as `analysis.analyse` takes it.

    Raises:
        ReadingFailed: Secrets would be sent to a Spark Connect server.
        Exception: As Spark raises it; `errors.translated` makes one line of it.
    """
    if is_connect(spark) and (secret := sorted(filter(is_sensitive, kafka))):
        raise ReadingFailed(
            f"a Spark Connect server writes requests to its log and event log, where {', '.join(secret)}"
            " could be read",
            hint="use --master, or a listener that needs no secret",
        )

    def measured(plan: SamplePlan) -> TopicResult:
        what_if_counts = tuple(candidate_counts(len(spans), settings.what_if))
        layout = CountsLayout(
            len(spans),
            plan.replicates,
            plan.weights,
            plan.read_whole,
            what_if_counts,
            keep_keys=settings.show_keys,
        )
        counted = _counted(spark, name, plan, layout, kafka, on_progress)
        return analysis.analyse(
            name,
            counted,
            plan,
            layout,
            mode="full" if settings.full else "sample",
            limits=limits,
            groups=groups,
            since_ms=settings.since_ms,
            precision=settings.precision,
            notes=retention_notes(plan, spans_now()) if spans_now else (),
            partition_changes=partition_changes,
        )

    everything = sum(span.records for span in spans)
    plan = plan_windows(spans, records=everything if settings.full else settings.records, seed=settings.seed)
    result = measured(plan)
    for _ in range(analysis.PASSES - 1):
        larger = analysis.needed(result, plan, records=settings.records, precision=settings.precision)
        if larger is None:
            break
        plan, result = larger, measured(larger)
    return result


def _counted(
    spark: SparkSession,
    name: str,
    plan: SamplePlan,
    layout: CountsLayout,
    kafka: Mapping[str, str],
    on_progress: ProgressCallback | None,
) -> KeyCounts:
    if not plan.records:
        return KeyCounts.empty(layout)
    parts = reducers(plan.records, task_slots(spark))
    local = not is_connect(spark) and is_local(spark.sparkContext.master)
    rows = records(spark, name, plan, travelling(kafka, local=local), task_slots(spark))
    with reporting_progress(spark, on_progress):
        return count_keys(rows, layout, reducers=parts, group=plan.full)
