"""One topic from its offsets to its result: what the command line and the spark-submit entry share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_validation import analysis
from spark_validation.candidates import candidates
from spark_validation.configuration import is_sensitive
from spark_validation.errors import ReadingFailed
from spark_validation.key_counts import Layout, Tally
from spark_validation.measure import records, reducers, tally
from spark_validation.progress import following, is_connect, slots
from spark_validation.windows import SamplePlan, plan_windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_validation.assignment import Group
    from spark_validation.progress import Tell
    from spark_validation.results import Limits, TopicResult
    from spark_validation.windows import Span


_NAMED = 5


def removed(plan: SamplePlan, now: Sequence[Span]) -> tuple[str, ...]:
    """What of a plan's windows is gone by now, in one sentence; nothing if all is there.

    Args:
        plan: What was to be read.
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
        f"retention moved while the topic was read: of {plan.records:,} offsets that were asked for,"
        f" up to {sum(lost.values()):,} were removed meanwhile (partition{'s' if len(lost) > 1 else ''}"
        f" {named}{more}); the oldest records count too little"
    )
    return (note,)


RECORDS = 1_000_000
"""How many records a sample has unless said otherwise."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What is read of a topic, and what is said of it.

    Attributes:
        records: How many records are wanted.
        seed: Of the windows' places.
        full: Every record is read.
        precision: The wanted half width of the interval of a share, 0 to 1; more records are read, once,
            where the first sample does not reach it.
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
    limits: Limits,
    groups: Sequence[Group] = (),
    tell: Tell | None = None,
    spans_now: Callable[[], Sequence[Span]] | None = None,
) -> TopicResult:
    """Sample a topic, or read it whole, and analyse what was counted.

    Args:
        spark: Of `session.start`.
        name: The topic.
        spans: One for each partition, by number, without a gap.
        kafka: Properties of Kafka's Java client; secrets among them.
        settings: What is read, and what is said of it.
        limits: The topic's policy, for advice.
        groups: Declared groups that read the topic, as `analysis.analyse` takes them.
        tell: Told how far Spark is; see `progress.following`.
        spans_now: Reads the spans once more, to find what retention removed during the job.

    Raises:
        ReadingFailed: Secrets would be sent to a Spark Connect server.
        Exception: As Spark raises it; `errors.translated` makes one line of it.
    """
    if is_connect(spark) and (secret := sorted(filter(is_sensitive, kafka))):
        raise ReadingFailed(
            f"Spark Connect keeps what it is asked in its server's log and event log: {', '.join(secret)}"
            " would be there to read",
            hint="use --master, or a listener and account that need no secret",
        )
    placed = _placed(kafka)

    def once(wanted: int) -> tuple[TopicResult, SamplePlan]:
        plan = plan_windows(spans, records=wanted, seed=settings.seed)
        counts = tuple(candidates(len(spans), settings.what_if))
        layout = Layout(
            len(spans), plan.slices, plan.weights, plan.census, counts, keep_keys=settings.show_keys
        )
        counted = _counted(spark, name, plan, layout, placed, tell)
        result = analysis.analyse(
            name,
            counted,
            plan,
            layout,
            mode="full" if settings.full else "sample",
            limits=limits,
            groups=groups,
            since_ms=settings.since_ms,
            precision=settings.precision,
            notes=removed(plan, spans_now()) if spans_now else (),
        )
        return result, plan

    if settings.full:
        return once(sum(span.records for span in spans))[0]
    result, plan = once(settings.records)
    if settings.precision is None:
        return result
    more = analysis.needed(result, settings.precision, plan)
    return result if more is None else once(more)[0]


def _placed(kafka: Mapping[str, str]) -> dict[str, str]:
    """Properties whose files are named from the root: Spark does not run in this directory."""
    return {
        name: str(Path(value).absolute()) if name.endswith(".location") else value
        for name, value in kafka.items()
    }


def _counted(
    spark: SparkSession,
    name: str,
    plan: SamplePlan,
    layout: Layout,
    kafka: Mapping[str, str],
    tell: Tell | None,
) -> Tally:
    if not plan.records:
        return Tally.empty(layout)
    parts = reducers(plan.records, slots(spark))
    with following(spark, tell):
        return tally(records(spark, name, plan, kafka), layout, reducers=parts, group=plan.full)
