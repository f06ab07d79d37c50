"""Analysis of one topic: from the counts of a sample to estimates, causes and advice.

Of a consumer group only this topic is looked at: its members all subscribe to it and have no partitions yet.
With more topics, or after members came and went, an assignor may give other partitions to other members.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_validation import causes_burst, estimates
from spark_validation.advice import advise
from spark_validation.causes_placement import placement
from spark_validation.diagnosis import diagnose
from spark_validation.estimates import distinct_keys
from spark_validation.hashing import PARTITIONERS
from spark_validation.imbalance import measure_imbalance
from spark_validation.intervals import Weighting
from spark_validation.key_counts import NEVER
from spark_validation.predictions import what_if, withheld
from spark_validation.results import (
    GroupResult,
    HotKeyResult,
    MemberShare,
    PartitionResult,
    SampleResult,
    SkewLimits,
    TopicResult,
)
from spark_validation.salts import partition_loads
from spark_validation.sampled_topic import MEASURES, SampledTopic, utc
from spark_validation.windows import FEWEST_PER_PARTITION, larger_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spark_validation.arrivals import TopicArrivals
    from spark_validation.key_counts import CountsLayout, KeyCounts
    from spark_validation.sampled_topic import CountBetween, PartitionChange
    from spark_validation.windows import SamplePlan


_NAMED = 8
"""How many partitions are named one by one."""


def sample_notes(counts: KeyCounts, plan: SamplePlan, arrivals: TopicArrivals | None = None) -> Iterator[str]:
    """Notes on partitions without records, offsets without a record, too few windows, and the period."""
    if arrivals is not None and arrivals.added_from is not None and arrivals.since_ms is not None:
        last = len(arrivals.counts) - 1
        added = (
            f"Partitions {arrivals.added_from} to {last} are"
            if arrivals.added_from < last
            else f"Partition {last} is"
        )
        yield (
            f"{added} written to only since {utc(arrivals.since_ms)}: the shares of partitions are of the "
            "records since then, and those of keys of all records that were read."
        )
    if arrivals is not None and arrivals.emptied:
        keep = "keeps" if len(arrivals.emptied) == 1 else "keep"
        yield (
            f"{_listed(arrivals.emptied)} had records and {keep} next to none: if they were deleted by "
            "hand, it is not known what was written in the period."
        )
    without = [span.partition for span in plan.spans if not span.records]
    if without and len(without) < len(plan.spans):
        yield f"{_listed(without)} {'has' if len(without) == 1 else 'have'} no records."
    read, found = plan.records, int(counts.records.sum())
    if found < read:
        missing = 100.0 * (1.0 - found / read)
        amount = "all" if found == 0 else "less than 0.1 %" if missing < 0.1 else f"{missing:.1f} %"
        yield (
            f"{amount[0].upper()}{amount[1:]} of the {read:,} offsets read have no record: they were "
            "compacted, deleted or aborted, or are transaction markers."
        )
    if found and not all(plan.read_whole) and plan.replicates <= FEWEST_PER_PARTITION:
        yield (
            f"Only {plan.replicates} windows were read from each partition: intervals are wide, and a key "
            "that is hot only for a short time may be missed."
        )


def _listed(partitions: Sequence[int]) -> str:
    if len(partitions) == 1:
        return f"Partition {partitions[0]}"
    if len(partitions) > _NAMED:
        return f"{len(partitions)} partitions"
    *most, last = map(str, partitions)
    return f"Partitions {', '.join(most)} and {last}"


PASSES = 3
"""How many samples of a topic are read at most, each larger than the one before."""
ENOUGH = 0.9
"""The part of the wanted records with which reading ends."""
_RESERVE = 1.2
"""A second sample is larger by this factor than the first one asks for: the width of an interval from few
replicates is itself uncertain."""


def analyse(
    name: str,
    counts: KeyCounts,
    plan: SamplePlan,
    layout: CountsLayout,
    *,
    mode: str,
    limits: SkewLimits,
    groups: Sequence[ReaderGroup] = (),
    since_ms: int | None = None,
    precision: float | None = None,
    notes: Sequence[str] = (),
    partition_changes: Callable[[], Sequence[PartitionChange]] | None = None,
    log: LogFacts | None = None,
) -> TopicResult:
    """Analyse a topic, all but rules and policy.

    Args:
        name: The topic.
        counts: What was counted.
        plan: What was read.
        layout: The layout of the counts.
        mode: `sample`, `full` or `file`.
        limits: Of the topic's skew policy; advice aims at them.
        groups: Declared groups that read the topic.
        since_ms: From when on records were read, in milliseconds since 1970; None for all.
        precision: The wanted half width of the interval of a share; None if none was asked for.
        notes: What was met while reading; what the counts show is added.
        partition_changes: Reads the changes of the topic's partition count that were recorded; called where
            records lie as no partitioner puts them now.
        log: What is known of the topic's log without reading it.

    Raises:
        ValueError: A group has an assignor that is not known, or no members.
    """
    log = log or LogFacts()
    weighting = Weighting.of(plan, counts.records)
    records, size = estimates.estimate_totals(counts, weighting, log.exact)
    partitions = estimates.partitions(counts, plan, weighting, log.exact)
    hot = () if log.keys_withheld else estimates.hot_keys(counts, weighting)
    shares = [partition.share.value for partition in partitions]
    result = TopicResult(
        name=name,
        diagnosis="",
        causes=(),
        advice=(),
        sample=SampleResult(
            mode=mode,
            records=int(counts.records.sum()),
            offsets=plan.records,
            population=sum(span.records for span in plan.spans),
            windows=len(plan.windows),
            slices=plan.replicates,
            since_ms=since_ms,
            seed=plan.seed,
            precision=precision,
            achieved=_widest(partitions, hot),
            notes=(*notes, *sample_notes(counts, plan, log.arrivals)),
        ),
        partitions=partitions,
        by_records=measure_imbalance(records),
        by_bytes=measure_imbalance(size),
        distinct_keys=distinct_keys(counts, weighting),
        sampled_distinct_keys=counts.distinct,
        null_key_share=estimates.null_share(counts, weighting),
        partitioners=_partitioners(counts),
        hot_keys=hot,
        what_if=(),
        groups=tuple(assign(group, shares) for group in groups),
        arrivals=log.arrivals.periods or None if log.arrivals else None,
        arrivals_unknown=log.arrivals.unknown if log.arrivals else None,
        keys_withheld=log.keys_withheld,
        keys_since_ms=_keys_since(counts, plan),
        retention_bytes=log.retention_bytes,
    )
    changes = partition_changes() if partition_changes is not None and len(counts.misfits) else ()
    topic = SampledTopic(result, counts, plan, layout, tuple(changes), log.count_between)
    result = replace(result, spread=str(topic.spread))
    topic = replace(topic, result=result)
    placed = placement(topic)
    if counts.placements and (reason := withheld(topic, placed, weighting)):
        result = replace(result, what_if_withheld=reason)
    else:
        cases = [
            what_if(count, counts.placed_by(count, placed.partitioner_now), counts, weighting)
            for count in sorted(counts.placements)
        ]
        result = replace(result, what_if=tuple(cases))
    topic = replace(topic, result=result)
    peaks = causes_burst.peaks(topic)
    hot = tuple(replace(key, peak=peaks.get(key.key_hash, key.peak)) for key in hot)
    topic = replace(topic, result=replace(topic.result, hot_keys=hot))
    causes = diagnose(topic, placed)
    result = replace(topic.result, causes=causes, diagnosis=causes[0].name)
    loads = {by: partition_loads(topic, by) for by in MEASURES}
    return replace(result, advice=advise(result, limits, loads, placed))


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The facts about a topic's log that are known without reading records.

    Attributes:
        arrivals: What was written, by offsets; None if that is not known.
        compacted: Whether compaction removes records: what is left says nothing of what was written.
        retention_bytes: The topic's retention.bytes; None without a limit.
        keys_withheld: Why nothing is to be told of the shares of keys.
        count_between: Counts the offsets that were written to each partition between two times (ms since
            1970, from and without); None where that cannot be asked, and its result is None where the logs
            do not cover that.
    """

    arrivals: TopicArrivals | None = None
    compacted: bool = False
    retention_bytes: int | None = None
    keys_withheld: str | None = None
    count_between: CountBetween | None = None

    @property
    def exact(self) -> tuple[int, ...] | None:
        """The arrivals of each partition, where offsets tell them and the records that were read do not.

        That is where compaction has removed some, and where partitions were added within the period.
        """
        arrivals = self.arrivals
        if arrivals is None or not arrivals.total:
            return None
        return arrivals.counts if self.compacted or arrivals.added_from is not None else None


def _keys_since(counts: KeyCounts, plan: SamplePlan) -> int | None:
    """The time of the first record that was read, where earlier ones could not be (ms since 1970)."""
    if not any(span.readable < span.records for span in plan.spans):
        return None
    known = counts.first_ms[(counts.first_ms < NEVER) & (counts.first_ms >= 0)]
    return int(known.min()) if len(known) else None


def needed(
    result: TopicResult, plan: SamplePlan, *, records: int, precision: float | None
) -> SamplePlan | None:
    """Return the larger sample that a topic needs, first for enough records and then to be precise enough.

    At most PASSES samples of a topic are read, the first one included. Its records count, and not the
    offsets, of which some or most may have no record. The square of the half width of an interval goes with
    1 / n - 1 / N for n of N records (Cochran 1977, section 4.6). That holds while longer windows bring other
    keys; where keys come in long bursts, a larger sample brings less.

    Args:
        result: Of the sample that was read.
        plan: Of this sample.
        records: How many records are wanted.
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
    found = [partition.sampled_records for partition in result.partitions]
    most = sum(weight * count for weight, count in zip(plan.weights, found, strict=True))
    read, achieved = sum(found), result.sample.achieved
    if not read or read < ENOUGH * min(records, most):
        return larger_plan(plan, found, share=min(1.0, records / most) if read else 1.0)
    if precision is None or achieved is None or achieved <= precision or most <= read:
        return None
    remaining = (1.0 / read - 1.0 / most) * (precision / achieved) ** 2 / _RESERVE
    return larger_plan(plan, found, share=1.0 / (1.0 + most * remaining))


def _widest(partitions: Sequence[PartitionResult], hot: Sequence[HotKeyResult]) -> float | None:
    """The half width of the widest interval of a share, by records or by bytes."""
    measured: list[PartitionResult | HotKeyResult] = [*partitions, *hot]
    shares = [share for result in measured for share in (result.share, result.byte_share)]
    return max(((share.high - share.low) / 2 for share in shares), default=None)


def _partitioners(counts: KeyCounts) -> dict[str, float]:
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
        name: The group.
        assignor: The short name of its assignor: one of ASSIGNORS.
        members: How many members it is expected to have, at least 1.
    """

    name: str
    assignor: str
    members: int


def _runs(partitions: int, members: int) -> list[range]:
    """Neighbouring partitions together; the first members have one more where it does not come out even."""
    size, more = divmod(partitions, members)
    starts = [member * size + min(member, more) for member in range(members + 1)]
    return [range(starts[member], starts[member + 1]) for member in range(members)]


def _turns(partitions: int, members: int) -> list[range]:
    """One partition after the other to one member after the other."""
    return [range(member, partitions, members) for member in range(members)]


ASSIGNORS: Mapping[str, Callable[[int, int], list[range]]] = {
    "range": _runs,
    "roundrobin": _turns,
    "sticky": _turns,
    "cooperative-sticky": _turns,
    "uniform": _runs,
}
"""As Kafka's assignors of these names give partitions to a new group; `uniform` is KIP-848's."""


def assign(group: ReaderGroup, shares: Sequence[float]) -> GroupResult:
    """Share a topic out among the members of a group.

    Args:
        group: The group.
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
