"""Analysis of one topic: from the counts of a sample to estimates, causes and advice.

Groups are analysed for this topic alone, as if all members subscribed to it and had no partitions yet.
With more topics, or after members came and went, an assignor may give other partitions to other members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from spark_validation import causes_burst, estimates, wording
from spark_validation.advice import advise
from spark_validation.arrivals import FEW_KEPT, Spread, TopicArrivals
from spark_validation.causes_placement import Placement, by_chance, find_placement
from spark_validation.diagnosis import diagnose
from spark_validation.estimates import estimate_distinct_keys
from spark_validation.hashing import PARTITIONERS
from spark_validation.history import trace_keys
from spark_validation.imbalance import measure_imbalance
from spark_validation.intervals import Weighting
from spark_validation.key_counts import NEVER, CountsLayout, KeyCounts
from spark_validation.newest import measure_newest
from spark_validation.predictions import find_withheld_reason, what_if
from spark_validation.results import (
    Estimate,
    GroupResult,
    HotKeyResult,
    MemberShare,
    PartitionChange,
    PartitionResult,
    SampleResult,
    SkewCause,
    SkewLimits,
    TopicResult,
    bound_ratio,
)
from spark_validation.salts import partition_loads
from spark_validation.sampled_topic import CountBetween, OffsetsAt, SampledTopic
from spark_validation.time_search import KNOWN
from spark_validation.windows import MIN_PER_PARTITION, SamplePlan, larger_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


def sample_notes(counts: KeyCounts, plan: SamplePlan, log: LogFacts | None = None) -> Iterator[str]:
    """Yield notes on the period, on partitions and offsets without records, and on too few windows."""
    log = log or LogFacts()
    arrivals = log.arrivals
    if log.compacted is None:
        yield wording.CONFIGS_UNKNOWN
    if arrivals is not None:
        if arrivals.transactional and log.exact is not None:
            yield wording.MARKERS_COUNT
        if arrivals.added_from is not None and arrivals.since_ms is not None:
            last = len(arrivals.counts) - 1
            yield wording.note_added_partitions(arrivals.added_from, last, arrivals.since_ms)
        if arrivals.emptied and not arrivals.is_trimmed:
            yield wording.note_emptied_partitions(arrivals)
    unwritten = [span.partition for span in plan.spans if not span.records]
    if unwritten and len(unwritten) < len(plan.spans):
        yield wording.note_unwritten_partitions(unwritten)
    records = int(counts.records.sum())
    if records < plan.records:
        yield wording.note_missing_records(records, plan.records)
    if records and not all(plan.read_whole) and plan.replicates <= MIN_PER_PARTITION:
        yield wording.note_few_windows(plan.replicates)


PASSES = 3
"""The most samples of a topic that are read, each larger than the one before."""
ENOUGH = 0.9
"""The part of the wanted records that is enough to stop reading."""
# A second sample is larger by this factor than the first one asks for: the width of an interval from few
# replicates is itself uncertain.
_RESERVE = 1.2


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """The facts and settings for the analysis of a topic, besides its counts.

    Attributes:
        mode: `sample`, `full` or `file`.
        limits: The limits of the topic's skew policy, which advice aims at.
        groups: Declared groups that read the topic.
        since_ms: The time from which records were read, in milliseconds since 1970; None for all.
        precision: The half width wanted for the interval of a share; None if none was requested.
        notes: Notes made while reading; those that follow from the counts are added.
        partition_changes: Reads the recorded changes of the topic's partition count; called where records lie
            where no partitioner puts them now.
        log: The facts about the topic's log that are known without reading records.
    """

    mode: str
    limits: SkewLimits
    groups: Sequence[ReaderGroup] = ()
    since_ms: int | None = None
    precision: float | None = None
    notes: Sequence[str] = ()
    partition_changes: Callable[[], Sequence[PartitionChange]] | None = None
    log: LogFacts | None = None


def analyse(
    name: str, counts: KeyCounts, plan: SamplePlan, layout: CountsLayout, context: AnalysisContext
) -> TopicResult:
    """Analyse a topic, all but rules and policy.

    Args:
        counts: The topic's counts.
        plan: The windows that were read.
        layout: The layout of the counts.
        context: Further facts and settings.

    Raises:
        ValueError: A group has an assignor that is not known, or no members.
    """
    log = context.log or LogFacts()
    arrivals = log.arrivals
    weighting = Weighting.from_plan(plan, counts.records)
    records, size = estimates.estimate_totals(counts, weighting, log.exact)
    partitions = estimates.estimate_partitions(counts, plan, weighting, log.exact)
    hot = () if log.keys_withheld else estimates.estimate_hot_keys(counts, weighting)
    shares = [partition.share.value for partition in partitions]
    result = TopicResult(
        name=name,
        diagnosis="",
        causes=(),
        advice=(),
        sample=SampleResult(
            mode=context.mode,
            records=int(counts.records.sum()),
            offsets=plan.records,
            population=sum(span.records for span in plan.spans),
            windows=len(plan.windows),
            slices=plan.replicates,
            since_ms=context.since_ms,
            seed=plan.seed,
            precision=context.precision,
            achieved=_widest_half_width(partitions, hot),
            notes=(*context.notes, *sample_notes(counts, plan, log)),
        ),
        partitions=partitions,
        by_records=measure_imbalance(records),
        by_bytes=measure_imbalance(size),
        distinct_keys=estimate_distinct_keys(counts, weighting),
        sampled_distinct_keys=counts.distinct,
        null_key_share=estimates.estimate_null_share(counts, weighting),
        partitioners=_partitioner_shares(counts),
        hot_keys=hot,
        what_if=(),
        groups=tuple(assign(group, shares) for group in context.groups),
        arrivals=arrivals.periods or None if arrivals else None,
        arrivals_unknown=arrivals.unknown if arrivals else None,
        bytes_unknown=_explain_unknown_bytes(counts, log.exact),
        keys_withheld=log.keys_withheld,
        keys_since_ms=_first_key_time(counts, plan),
        retention_bytes=log.retention_bytes,
    )
    read_changes = context.partition_changes
    # Recorded changes take a while to read: only where one may explain misfits.
    changes = read_changes() if read_changes is not None and len(counts.misfits) else ()
    # Each frequent key asks for the same times.
    count_between = None if log.count_between is None else cache(log.count_between)
    topic = SampledTopic(result, counts, plan, layout, tuple(changes), count_between, log.offsets_at)
    result = replace(result, spread=str(topic.spread))
    topic = replace(topic, result=result)
    placed = find_placement(topic)
    if arrivals is not None and arrivals.alternative is not None and _was_wrong(arrivals, placed):
        # The keys show whether partitions were added, which their first records did not.
        log = replace(log, arrivals=replace(arrivals.alternative, transactional=arrivals.transactional))
        context = replace(context, log=log, since_ms=arrivals.alternative.since_ms)
        return analyse(name, counts, plan, layout, context)
    if counts.placements and (reason := find_withheld_reason(topic, placed, weighting)):
        result = replace(result, what_if_withheld=reason)
    else:
        cases = [
            what_if(count, counts.placed_by(count, placed.partitioner_now), counts, weighting)
            for count in sorted(counts.placements)
        ]
        result = replace(result, what_if=tuple(cases))
    topic = replace(topic, result=result)
    windows = causes_burst.find_timeline(topic)
    fine = None if windows is None else causes_burst.refine_timeline(topic, windows)
    # By offsets, but with no more intervals than windows show: keys are those of windows.
    line = None if windows is None or fine is None else replace(fine, edges=windows.edges)
    # A replicate has an equal part of every partition, so it shows less of a short peak than its time does.
    peaks = {} if fine is None else causes_burst.find_peaks(topic, fine)
    hot = tuple(replace(key, peak=peaks.get(key.key_hash, key.peak)) for key in hot)
    shortest_ms = None if fine is None else fine.shortest_ms(topic)
    topic = replace(topic, result=replace(topic.result, hot_keys=hot, shortest_ms=shortest_ms))
    # A partition increase moves keys, so that between two windows their shares seem to change.
    steady = line if placed.repartition is None else None
    histories = trace_keys(topic, steady)
    topic = replace(topic, result=measure_newest(topic, line))
    causes = tuple(
        replace(cause, evidence=wording.describe_cause(cause))
        for cause in diagnose(topic, placed, windows, fine, steady)
    )
    result = replace(topic.result, causes=causes, diagnosis=causes[0].name)
    if arrivals is not None:
        result = _allow_for_doubt(result, arrivals, log)
    if arrivals is not None and arrivals.requested and arrivals.unknown and arrivals.spread is Spread.UNKNOWN:
        cause = SkewCause("unknown", wording.explain_unknown_period(arrivals.unknown))
        return replace(
            result,
            spread=str(arrivals.spread),
            causes=(cause,),
            diagnosis=cause.name,
            what_if=(),
            what_if_withheld=cause.evidence,
        )
    # Suffixes chosen for a partitioner that fits by chance would lead anywhere.
    known = not by_chance(counts.distinct, topic.partitions)
    loads = partition_loads(topic, placed.partitioner_now if known else None, histories)
    return replace(result, advice=advise(result, context.limits, loads, placed))


def _was_wrong(arrivals: TopicArrivals, placed: Placement) -> bool:
    """Return whether keys contradict what is assumed of the last partitions: that they were added, or not."""
    if arrivals.added_from is not None:
        return placed.repartition is None and placed.mix is not None and placed.mix.single
    added = arrivals.alternative.added_from if arrivals.alternative is not None else None
    increases = placed.repartition.increases if placed.repartition is not None else ()
    return added in {increase.earlier for increase in increases}


def _explain_unknown_bytes(counts: KeyCounts, exact: Sequence[int] | None) -> str | None:
    """Return why the bytes of a topic are not known: too much of it was written where nothing can be read."""
    read, written = counts.records.sum(axis=1), exact or ()
    unread = [number for number, records in enumerate(written) if read[number] < min(FEW_KEPT, records)]
    missing = sum(written[number] for number in unread)
    return wording.explain_unread_bytes(unread) if missing > KNOWN * sum(written) else None


def _allow_for_doubt(result: TopicResult, arrivals: TopicArrivals, log: LogFacts) -> TopicResult:
    """Widen the intervals of partitions, and of the fullest one, by how far arrivals may be wrong."""
    least, most = arrivals.bounds(markers=log.exact is not None)
    bounds = bound_ratio(arrivals.counts, least, most)
    if least is None or most is None or bounds is None:
        return result
    partitions = []
    for partition, count, few, many in zip(result.partitions, arrivals.counts, least, most, strict=True):
        factors = (few / count, many / count) if count else (1.0, 1.0)
        records, share = (
            _widen(partition.records, *factors, float(many)),
            _widen(partition.share, *factors, 1.0),
        )
        partitions.append(replace(partition, records=records, share=share))
    factors = bounds.low / bounds.value, bounds.high / bounds.value
    by_records, by_bytes = (
        replace(by, max_mean_ratio=_widen(by.max_mean_ratio, *factors, float(len(partitions)), 1.0))
        for by in (result.by_records, result.by_bytes)
    )
    return replace(result, partitions=tuple(partitions), by_records=by_records, by_bytes=by_bytes)


def _widen(estimate: Estimate, lower: float, upper: float, most: float, least: float = 0.0) -> Estimate:
    """Return an estimate whose interval reaches further by two factors, within limits."""
    value = estimate.value
    low, high = max(least, estimate.low * lower), min(most, estimate.high * upper)
    return Estimate(value, min(value, low), max(value, high))


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts about a topic's log that are known without reading records.

    Attributes:
        arrivals: The records that were written, by offsets; None if unknown.
        compacted: Whether compaction removes records, so that the log does not represent what was written.
            None if unknown, as this account may not read the topic's configs.
        retention_bytes: The topic's retention.bytes, -1 without a limit; None if unknown.
        keys_withheld: Why the shares of keys are not reported.
        count_between: Counts the offsets that were written to each partition between two times (ms since
            1970, the second one exclusive); None if the cluster cannot be asked. Its result is None where the
            logs do not cover that time.
        offsets_at: Finds the first offset of each partition that is not older than a time (ms since 1970),
            with one request for each leader; None if the cluster cannot be asked. Its result is None where
            leaders do not answer.
    """

    arrivals: TopicArrivals | None = None
    compacted: bool | None = False
    retention_bytes: int | None = None
    keys_withheld: str | None = None
    count_between: CountBetween | None = None
    offsets_at: OffsetsAt | None = None

    @property
    def exact(self) -> tuple[int, ...] | None:
        """The arrivals of each partition, where offsets count them and the records read do not.

        That is where compaction has removed some, where partitions were added within the period, and where
        logs do not reach back to its start.
        """
        arrivals = self.arrivals
        if arrivals is None or not arrivals.total:
            return None
        by_offsets = self.compacted is not False or arrivals.added_from is not None or arrivals.is_trimmed
        return arrivals.counts if by_offsets else None


def _first_key_time(counts: KeyCounts, plan: SamplePlan) -> int | None:
    """Return the time of the first record that was read, if earlier ones could not be (ms since 1970)."""
    if not any(span.readable < span.records for span in plan.spans):
        return None
    known = counts.first_ms[(counts.first_ms < NEVER) & (counts.first_ms >= 0)]
    return int(known.min()) if len(known) else None


def plan_next_sample(
    result: TopicResult, plan: SamplePlan, *, records: int, precision: float | None
) -> SamplePlan | None:
    """Return the larger sample that a topic needs, first for enough records and then to be precise enough.

    At most PASSES samples of a topic are read, the first one included. Its records count, and not the
    offsets, of which some or most may have no record. The square of the half width of an interval is
    proportional to 1 / n - 1 / N for n of N records (Cochran 1977, section 4.6). That holds while longer
    windows bring other keys; where keys come in long bursts, a larger sample brings less.

    Args:
        result: The result of the sample that was read.
        plan: The plan of this sample.
        records: The number of records wanted.
        precision: The wanted half width of the widest interval of a partition's or a key's share; None if
            none is.

    Returns:
        The plan, to be read from its beginning; None if the sample is large enough, or has everything.

    Raises:
        ValueError: The precision is not above 0.
    """
    if precision is not None and precision <= 0.0:
        raise ValueError(f"a precision must be above 0, not {precision}")
    if plan.full:
        return None
    sampled = [partition.sampled_records for partition in result.partitions]
    most = sum(weight * count for weight, count in zip(plan.weights, sampled, strict=True))
    read, achieved = sum(sampled), result.sample.achieved
    # More than there are by the estimate cannot be read.
    if not read or read < ENOUGH * min(records, most):
        return larger_plan(plan, sampled, share=min(1.0, records / most) if read else 1.0)
    if precision is None or achieved is None or achieved <= precision or most <= read:
        return None
    remaining = (1.0 / read - 1.0 / most) * (precision / achieved) ** 2 / _RESERVE
    # From 1 / n - 1 / N = remaining follows n / N = 1 / (1 + N * remaining).
    return larger_plan(plan, sampled, share=1.0 / (1.0 + most * remaining))


def _widest_half_width(partitions: Sequence[PartitionResult], hot: Sequence[HotKeyResult]) -> float | None:
    """Return the half width of the widest interval of a share, by records or by bytes."""
    measured: list[PartitionResult | HotKeyResult] = [*partitions, *hot]
    shares = [share for result in measured for share in (result.share, result.byte_share)]
    return max(((share.high - share.low) / 2 for share in shares), default=None)


def _partitioner_shares(counts: KeyCounts) -> dict[str, float]:
    keyed = int((counts.records - counts.null_records).sum())
    fits = [*counts.fits, counts.fits_none]
    return {
        name: int(fit.sum()) / keyed if keyed else 0.0
        for name, fit in zip((*PARTITIONERS, "other"), fits, strict=True)
    }


@dataclass(frozen=True, slots=True)
class ReaderGroup:
    """A declared group that reads the topic.

    Attributes:
        assignor: The short name of its assignor: one of ASSIGNORS.
        members: The number of members expected, at least 1.
    """

    name: str
    assignor: str
    members: int


def _assign_runs(partitions: int, members: int) -> list[range]:
    """Give each member neighbouring partitions; the first members get one more if there is a remainder."""
    size, remainder = divmod(partitions, members)
    starts = [member * size + min(member, remainder) for member in range(members + 1)]
    return [range(starts[member], starts[member + 1]) for member in range(members)]


def _assign_in_turn(partitions: int, members: int) -> list[range]:
    """Give partitions to members in turn."""
    return [range(member, partitions, members) for member in range(members)]


ASSIGNORS: Mapping[str, Callable[[int, int], list[range]]] = {
    "range": _assign_runs,
    "roundrobin": _assign_in_turn,
    "sticky": _assign_in_turn,
    "cooperative-sticky": _assign_in_turn,
    "uniform": _assign_runs,
}
"""The assignments of Kafka's assignors of these names to a new group; `uniform` is KIP-848's."""


def assign(group: ReaderGroup, shares: Sequence[float]) -> GroupResult:
    """Assign a topic's partitions to the members of a group.

    Args:
        shares: The share of the topic's records of each partition.

    Raises:
        ValueError: The assignor is not known, or the group has no members.
    """
    if group.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise ValueError(f"group {group.name}: assignor {group.assignor!r} is not known ({known})")
    if group.members < 1:
        raise ValueError(f"group {group.name}: it needs at least one member, not {group.members}")
    members = tuple(
        MemberShare(tuple(assigned), sum(shares[partition] for partition in assigned))
        for assigned in ASSIGNORS[group.assignor](len(shares), group.members)
    )
    total = sum(shares)
    busiest = max(member.share for member in members)
    return GroupResult(
        group.name, group.assignor, members, busiest * group.members / total if total > 0 else 0.0
    )
