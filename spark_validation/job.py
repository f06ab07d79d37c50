"""Analyse topics, from their offsets to their results: the command line and spark-submit share it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_validation import analysis
from spark_validation.analysis import LogFacts
from spark_validation.arrivals import FEWEST_RECORDS
from spark_validation.configuration import is_local, is_sensitive, secrets
from spark_validation.errors import ReadingFailed, SkewError, translated
from spark_validation.kafka_client import travelling
from spark_validation.kafka_source import find_dense
from spark_validation.key_counts import CountsLayout, KeyCounts, candidate_counts
from spark_validation.measure import Counted, count_topics
from spark_validation.windows import plan_windows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_validation.analysis import ReaderGroup
    from spark_validation.results import SkewLimits, TopicResult
    from spark_validation.sampled_topic import PartitionChange
    from spark_validation.windows import SamplePlan, Span


_log = logging.getLogger(__name__)
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
    """

    records: int = RECORDS
    seed: int = 0
    full: bool = False
    precision: float | None = None
    what_if: tuple[int, ...] = ()
    show_keys: bool = False


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A topic that is to be analysed.

    Attributes:
        name: The topic.
        spans: One for each partition, by number, without a gap.
        limits: The topic's policy, for advice.
        groups: Declared groups that read the topic, as `analysis.analyse` takes them.
        partition_changes: Reads recorded changes of the partition count, as `analysis.analyse` takes it.
        log: What is known of the topic's log, as `analysis.analyse` takes it.
        since_ms: Where the spans start in time, in milliseconds since 1970; None for all. For the report
            only: the spans say it in offsets.
    """

    name: str
    spans: Sequence[Span]
    limits: SkewLimits
    groups: Sequence[ReaderGroup] = ()
    partition_changes: Callable[[], Sequence[PartitionChange]] | None = None
    log: LogFacts = field(default_factory=LogFacts)
    since_ms: int | None = None


_TOPICS_IN_JOB = 250
_PARTITIONS_IN_JOB = 10_000
"""About 200 MB of counts that come to the driver."""


def run_topics(
    spark: SparkSession,
    requests: Sequence[TopicRequest],
    kafka: Mapping[str, str],
    settings: JobSettings,
    *,
    on_progress: ProgressCallback | None = None,
    spans_now: Callable[[Sequence[str]], Mapping[str, Sequence[Span]]] | None = None,
) -> dict[str, TopicResult | SkewError]:
    """Sample topics, or read them whole, and analyse what was counted; many of them in one Spark job.

    Args:
        spark: Of `session.start`.
        requests: The topics.
        kafka: Properties by librdkafka's names; secrets among them.
        settings: What is read, and what is said of it.
        on_progress: Called with how far Spark is; see `reporting_progress`.
        spans_now: Reads the spans of topics once more, to find what retention removed during a job.

    Returns:
        By topic its result, or why it has none: one that fails does not keep the others.
    """
    try:
        if is_connect(spark) and (secret := sorted(filter(is_sensitive, kafka))):
            raise ReadingFailed(
                f"a Spark Connect server writes requests to its log and event log, where {', '.join(secret)}"
                " could be read",
                hint="use --master, or a listener that needs no secret",
            )
        local = not is_connect(spark) and is_local(spark.conf.get("spark.master"))
        properties = travelling(kafka, local=local)
    except SkewError as error:
        return {request.name: error for request in requests}
    job = _Job(spark, properties, settings, on_progress, spans_now)
    found: dict[str, TopicResult | SkewError] = {}
    for chunk in _chunks(requests):
        readable, failed = readable_requests(chunk, kafka)
        found |= failed | (job.run(readable) if readable else {})
    return found


_LEAST_COVERED = 0.9
"""The part of the arrivals whose partitions must have records that compaction has not reached."""


def readable_requests(
    requests: Sequence[TopicRequest], kafka: Mapping[str, str]
) -> tuple[list[TopicRequest], dict[str, SkewError]]:
    """Find what can be read of compacted topics: the part of each log that compaction has not reached.

    Where there is too little of it, all that is left is read, and nothing is told of the shares of keys.

    Args:
        requests: The topics.
        kafka: Properties of librdkafka; secrets among them.

    Returns:
        The requests in their order, and why topics cannot be read.
    """
    compacted = [request for request in requests if request.log.compacted]
    if not compacted:
        return [*requests], {}
    dense, failed = find_dense({request.name: request.spans for request in compacted}, kafka)
    readable: list[TopicRequest] = []
    for request in requests:
        if request.name in failed:
            continue
        spans = dense.get(request.name, request.spans)
        written = sum(span.records for span in spans)
        covered = sum(span.records for span in spans if span.readable)
        if sum(span.readable for span in spans) >= min(written, FEWEST_RECORDS) and (
            covered >= _LEAST_COVERED * written
        ):
            readable.append(replace(request, spans=spans))
        else:
            readable.append(replace(request, log=replace(request.log, keys_withheld=COMPACTED)))
    return readable, failed


COMPACTED = (
    "Compaction has reached the end of the log, or transactions have left gaps like those of compaction: the "
    "records that are left say nothing of the shares of keys in what was written. --watch 10m counts the "
    "keys of new records."
)


def _chunks(requests: Sequence[TopicRequest]) -> Iterator[list[TopicRequest]]:
    chunk: list[TopicRequest] = []
    partitions = 0
    for request in requests:
        full = len(chunk) >= _TOPICS_IN_JOB or partitions + len(request.spans) > _PARTITIONS_IN_JOB
        if chunk and full:
            yield chunk
            chunk, partitions = [], 0
        chunk.append(request)
        partitions += len(request.spans)
    if chunk:
        yield chunk


@dataclass(frozen=True, slots=True)
class _Job:
    """What is alike for all topics of a run."""

    spark: SparkSession
    kafka: Mapping[str, str]
    settings: JobSettings
    on_progress: ProgressCallback | None
    spans_now: Callable[[Sequence[str]], Mapping[str, Sequence[Span]]] | None

    def run(self, requests: Sequence[TopicRequest]) -> dict[str, TopicResult | SkewError]:
        """Analyse topics; those of which a larger sample is needed are read again, together."""
        plans = {request.name: self._plan(request.spans) for request in requests}
        found: dict[str, TopicResult | SkewError] = {}
        waiting = list(requests)
        for _ in range(analysis.PASSES):
            results = self._measured(waiting, plans)
            found |= results
            larger = self._larger(results, plans)
            if not larger:
                break
            plans |= larger
            waiting = [request for request in waiting if request.name in larger]
        return found

    def _plan(self, spans: Sequence[Span]) -> SamplePlan:
        everything = sum(span.records for span in spans)
        wanted = everything if self.settings.full else self.settings.records
        return plan_windows(spans, records=wanted, seed=self.settings.seed)

    def _larger(
        self, results: Mapping[str, TopicResult | SkewError], plans: Mapping[str, SamplePlan]
    ) -> dict[str, SamplePlan]:
        if self.settings.full:
            return {}
        wanted, precision = self.settings.records, self.settings.precision
        needed = {
            name: analysis.needed(result, plans[name], records=wanted, precision=precision)
            for name, result in results.items()
            if not isinstance(result, SkewError)
        }
        return {name: plan for name, plan in needed.items() if plan is not None}

    def _measured(
        self, requests: Sequence[TopicRequest], plans: Mapping[str, SamplePlan]
    ) -> dict[str, TopicResult | SkewError]:
        topics = [self._counted(request, plans[request.name]) for request in requests]
        try:
            with reporting_progress(self.spark, self.on_progress):
                counts = count_topics(self.spark, topics, self.kafka, slots=task_slots(self.spark))
        except (Py4JError, PySparkException) as error:
            _log.debug("a job of %d topics", len(topics), exc_info=error)
            hide = secrets(self.kafka)
            return {topic.name: translated(error, topic=topic.name, secrets=hide) for topic in topics}
        now = self.spans_now([topic.name for topic in topics]) if self.spans_now else {}
        return {
            topic.name: found
            if isinstance(found, SkewError)
            else self._analysed(request, topic, found, now.get(topic.name))
            for request, topic, found in zip(requests, topics, counts, strict=True)
        }

    def _counted(self, request: TopicRequest, plan: SamplePlan) -> Counted:
        count = len(request.spans)
        layout = CountsLayout(
            count,
            plan.replicates,
            plan.weights,
            plan.read_whole,
            tuple(candidate_counts(count, self.settings.what_if)),
            keep_keys=self.settings.show_keys,
        )
        return Counted(request.name, plan, layout)

    def _analysed(
        self, request: TopicRequest, topic: Counted, counts: KeyCounts, now: Sequence[Span] | None
    ) -> TopicResult:
        return analysis.analyse(
            request.name,
            counts,
            topic.plan,
            topic.layout,
            mode="full" if self.settings.full else "sample",
            limits=request.limits,
            groups=request.groups,
            since_ms=request.since_ms,
            precision=self.settings.precision,
            notes=() if now is None else retention_notes(topic.plan, now),
            partition_changes=request.partition_changes,
            log=request.log,
        )
