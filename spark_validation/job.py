"""The analysis of topics from offsets to results, shared by the command line and spark-submit."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_validation import analysis, wording
from spark_validation.analysis import LogFacts, ReaderGroup
from spark_validation.arrivals import FEW_KEPT
from spark_validation.configuration import find_secrets, is_local, is_sensitive
from spark_validation.errors import ReadingFailed, SkewError, translate_error
from spark_validation.kafka_client import executor_properties
from spark_validation.kafka_source import find_dense
from spark_validation.key_counts import CountsLayout, KeyCounts, candidate_counts
from spark_validation.measure import CountedTopic, count_topics
from spark_validation.policy import MIN_RECORDS
from spark_validation.windows import SamplePlan, Span, plan_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_validation.options import JobSettings
    from spark_validation.results import PartitionChange, SkewLimits, TopicResult

_log = logging.getLogger(__name__)
_CONNECT_DEFAULT = 16
"""The task slots assumed of a Spark Connect server that does not state them."""


def task_slots(spark: SparkSession) -> int:
    """Return the task slots of a session.

    A Spark Connect client gets its server's only if the server's configuration has them.
    """
    if is_connect(spark):
        return int(spark.conf.get("spark.default.parallelism", str(_CONNECT_DEFAULT)) or _CONNECT_DEFAULT)
    return max(1, spark.sparkContext.defaultParallelism)


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session's JVM is out of reach, behind Spark Connect."""
    # By its name: to import the class of Spark Connect needs gRPC, which may be missing.
    return type(spark).__module__.startswith("pyspark.sql.connect")


ProgressCallback: TypeAlias = Callable[[int, int, str], None]
"""Takes the tasks that are done, all tasks, and the phase; it is called from another thread."""

READING = "reading"
COUNTING = "counting"

_PAUSE_S = 0.2
_JOIN_S = 5.0


@contextmanager
def report_progress(spark: SparkSession, on_progress: ProgressCallback | None) -> Iterator[None]:
    """Report Spark's progress while the body runs, except through Spark Connect, which does not show it.

    Args:
        spark: Runs one count at a time.
        on_progress: Called on each change; None to report nothing.
    """
    if on_progress is None or is_connect(spark):
        yield
        return
    from pyspark import InheritableThread

    over = threading.Event()
    watch = _ProgressWatcher(spark.sparkContext, on_progress)
    # An InheritableThread ends its thread of the JVM with itself.
    thread = InheritableThread(target=watch.run, args=(over,), session=spark)
    thread.daemon = True
    thread.start()
    try:
        yield
    finally:
        over.set()
        # The wait is limited, so that a JVM that does not answer cannot hold up the result.
        thread.join(_JOIN_S)


class _ProgressWatcher:
    """A watcher of the job of a count: its first stage reads, the others count."""

    def __init__(self, context: Any, on_progress: ProgressCallback) -> None:
        self._tracker = context.statusTracker()
        self._on_progress = on_progress
        self._last: tuple[int, int, str] | None = None

    def run(self, over: threading.Event) -> None:
        while not over.wait(_PAUSE_S):
            now = self._progress()
            # The body may have ended while the JVM answered: nothing is reported after its end.
            if now is not None and now != self._last and not over.is_set():
                self._last = now
                self._on_progress(*now)

    def _progress(self) -> tuple[int, int, str] | None:
        active = self._tracker.getActiveJobsIds()
        info = self._tracker.getJobInfo(min(active)) if active else None
        if info is None:
            return None
        known = map(self._tracker.getStageInfo, sorted(info.stageIds))
        stages = [stage for stage in known if stage is not None]
        if not stages:
            return None
        first, *counting = stages
        if first.numCompletedTasks < first.numTasks or not counting:
            return first.numCompletedTasks, first.numTasks, READING
        done = sum(stage.numCompletedTasks for stage in counting)
        return done, sum(stage.numTasks for stage in counting), COUNTING


def retention_notes(plan: SamplePlan, now: Sequence[Span]) -> tuple[str, ...]:
    """Return a note on records that retention removed from a plan's windows; empty if none were.

    Args:
        plan: The windows that were to be read.
        now: The spans, read again after the job. Missing partitions count as removed.
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
    return (wording.note_removed_records(plan.records, sum(lost.values()), sorted(lost)),)


SpansNow: TypeAlias = "Callable[[Sequence[str]], Mapping[str, Sequence[Span] | SkewError]]"


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """A topic that is to be analysed.

    Attributes:
        spans: One for each partition, by number, without a gap.
        limits: The topic's policy, for advice.
        groups: Declared groups that read the topic, as `analysis.analyse` takes them.
        partition_changes: Reads recorded changes of the partition count, as `analysis.analyse` takes it.
        log: The facts about the topic's log, as `analysis.analyse` takes them.
        since_ms: The time at which the spans start, in milliseconds since 1970; None for all. It is only
            reported.
    """

    name: str
    spans: Sequence[Span]
    limits: SkewLimits
    groups: Sequence[ReaderGroup] = ()
    partition_changes: Callable[[], Sequence[PartitionChange]] | None = None
    log: LogFacts = field(default_factory=LogFacts)
    since_ms: int | None = None


_TOPICS_IN_JOB = 250
# About 200 MB of counts that come to the driver.
_PARTITIONS_IN_JOB = 10_000


def run_topics(
    spark: SparkSession,
    requests: Sequence[TopicRequest],
    kafka: Mapping[str, str],
    settings: JobSettings,
    *,
    on_progress: ProgressCallback | None = None,
    spans_now: SpansNow | None = None,
) -> dict[str, TopicResult | SkewError]:
    """Sample topics, or read them whole, and analyse what was counted; many of them in one Spark job.

    Args:
        spark: The session of `session.start`.
        kafka: Properties by librdkafka's names; secrets among them.
        settings: What is read, and what is reported.
        on_progress: Called with Spark's progress, as `report_progress` does.
        spans_now: Reads the spans of topics once more, to find what retention removed during a job; or gives
            the error of a topic that is another one by now.

    Returns:
        The result or the error of each topic: a topic that fails does not affect the others.
    """
    try:
        if is_connect(spark) and (secret := sorted(filter(is_sensitive, kafka))):
            raise ReadingFailed(
                f"a Spark Connect server writes requests to its log and event log, where {', '.join(secret)}"
                " could be read",
                hint="use --master, or a listener that needs no secret",
            )
        local = not is_connect(spark) and is_local(spark.conf.get("spark.master"))
        properties = executor_properties(kafka, local=local)
    except SkewError as error:
        return {request.name: error for request in requests}
    job = _Job(spark, properties, settings, on_progress, spans_now)
    outcomes: dict[str, TopicResult | SkewError] = {}
    for chunk in _chunks(requests):
        readable, failed = readable_requests(chunk, kafka)
        outcomes |= failed | (job.run(readable) if readable else {})
    return outcomes


_MIN_COVERED_SHARE = 0.9
"""The part of the arrivals whose partitions must have records that compaction has not reached."""


def readable_requests(
    requests: Sequence[TopicRequest], kafka: Mapping[str, str]
) -> tuple[list[TopicRequest], dict[str, SkewError]]:
    """Limit topics whose logs lack records of the period to what can be read.

    Of a compacted topic that is the part of each log that compaction has not reached. Where that is too
    small, all that is left is read, and the shares of keys are not reported.

    Args:
        kafka: Properties of librdkafka; secrets among them.

    Returns:
        The requests in their order, and the errors of topics that cannot be read.
    """
    # Unknown counts as compacted: to take what is left of a compacted log for all of it would be wrong.
    compacted = [request for request in requests if request.log.compacted is not False]
    dense, failed = find_dense({request.name: request.spans for request in compacted}, kafka)
    readable: list[TopicRequest] = []
    for request in requests:
        if request.name in failed:
            continue
        spans, arrivals = dense.get(request.name, request.spans), request.log.arrivals
        trimmed = arrivals is not None and arrivals.is_trimmed
        if not trimmed and request.log.compacted is False:
            readable.append(request)
            continue
        written = sum(span.records for span in spans)
        # A few records do not show the keys of all that were removed.
        covered = sum(span.records for span in spans if span.readable >= min(FEW_KEPT, span.records))
        if sum(span.readable for span in spans) >= min(written, MIN_RECORDS) and (
            covered >= _MIN_COVERED_SHARE * written
        ):
            readable.append(replace(request, spans=spans))
        else:
            withheld = wording.REMOVED if trimmed else wording.COMPACTED
            readable.append(replace(request, log=replace(request.log, keys_withheld=withheld)))
    return readable, failed


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
    """The session and settings that all topics of a run share."""

    spark: SparkSession
    kafka: Mapping[str, str]
    settings: JobSettings
    on_progress: ProgressCallback | None
    spans_now: SpansNow | None

    def run(self, requests: Sequence[TopicRequest]) -> dict[str, TopicResult | SkewError]:
        """Analyse topics; those that need a larger sample are read again, together."""
        plans = {request.name: self._plan(request.spans) for request in requests}
        outcomes: dict[str, TopicResult | SkewError] = {}
        waiting = list(requests)
        for _ in range(analysis.PASSES):
            results = self._measure(waiting, plans)
            outcomes |= results
            # A larger sample is read from its beginning: its windows lie at other places.
            larger = self._plan_larger_samples(results, plans)
            if not larger:
                break
            plans |= larger
            waiting = [request for request in waiting if request.name in larger]
        return outcomes

    def _plan(self, spans: Sequence[Span]) -> SamplePlan:
        everything = sum(span.records for span in spans)
        wanted = everything if self.settings.full else self.settings.records
        return plan_windows(spans, records=wanted, seed=self.settings.seed)

    def _plan_larger_samples(
        self, results: Mapping[str, TopicResult | SkewError], plans: Mapping[str, SamplePlan]
    ) -> dict[str, SamplePlan]:
        if self.settings.full:
            return {}
        wanted, precision = self.settings.records, self.settings.precision
        needed = {
            name: analysis.plan_next_sample(result, plans[name], records=wanted, precision=precision)
            for name, result in results.items()
            if not isinstance(result, SkewError)
        }
        return {name: plan for name, plan in needed.items() if plan is not None}

    def _measure(
        self, requests: Sequence[TopicRequest], plans: Mapping[str, SamplePlan]
    ) -> dict[str, TopicResult | SkewError]:
        topics = [self._prepare(request, plans[request.name]) for request in requests]
        try:
            with report_progress(self.spark, self.on_progress):
                counts = count_topics(self.spark, topics, self.kafka, slots=task_slots(self.spark))
        except (Py4JError, PySparkException) as error:
            _log.debug("a job of %d topics", len(topics), exc_info=error)
            # Spark's errors do not say which topic failed, so that all topics of the job have the error.
            hide = find_secrets(self.kafka)
            return {topic.name: translate_error(error, topic=topic.name, secrets=hide) for topic in topics}
        # After the job, as retention may remove records while it reads.
        now = self.spans_now([topic.name for topic in topics]) if self.spans_now else {}
        outcomes: dict[str, TopicResult | SkewError] = {}
        for request, topic, outcome in zip(requests, topics, counts, strict=True):
            spans = now.get(topic.name)
            if isinstance(outcome, SkewError):
                outcomes[topic.name] = outcome
            elif isinstance(spans, SkewError):
                outcomes[topic.name] = spans
            else:
                outcomes[topic.name] = self._analyse(request, topic, outcome, spans)
        return outcomes

    def _prepare(self, request: TopicRequest, plan: SamplePlan) -> CountedTopic:
        count = len(request.spans)
        layout = CountsLayout(
            count,
            plan.replicates,
            plan.weights,
            plan.read_whole,
            tuple(candidate_counts(count, self.settings.what_if)),
            keep_keys=self.settings.show_keys,
        )
        return CountedTopic(request.name, plan, layout)

    def _analyse(
        self, request: TopicRequest, topic: CountedTopic, counts: KeyCounts, now: Sequence[Span] | None
    ) -> TopicResult:
        context = analysis.AnalysisContext(
            mode="full" if self.settings.full else "sample",
            limits=request.limits,
            groups=request.groups,
            since_ms=request.since_ms,
            precision=self.settings.precision,
            notes=() if now is None else retention_notes(topic.plan, now),
            partition_changes=request.partition_changes,
            log=request.log,
        )
        return analysis.analyse(request.name, counts, topic.plan, topic.layout, context)
