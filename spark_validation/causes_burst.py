"""Bursts: a partition, or a key, that is hot at some times only.

Windows lie at equal steps of offsets. A partition that is hot for an hour has most of its windows in this
hour, so that windows of the same replicate are of different times. Here the timestamps at which windows begin
and end are taken as points of a curve for each partition, offset over time (piecewise linear), and partitions
are compared in intervals of time that each hold the same number of the topic's records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.key_counts import NEVER
from spark_validation.results import SkewCause
from spark_validation.sampled_topic import (
    LEAST_LIFT,
    NULLS_WORTH_NAMING,
    SampledTopic,
    capitalised,
    named,
    percent,
    utc,
)

if TYPE_CHECKING:
    from spark_validation.key_counts import Bools, Floats, HotKey


INTERVALS = 48
"""Intervals of time; a burst that is much shorter than one is not seen."""
FINER = 4
"""So many of the last intervals are divided into as many each: what has just begun is only there."""
FEWEST_TIMES = 4
"""Distinct timestamps for each replicate, below which they are too coarse."""
LEAST_MS = 60_000
"""A log that was written in less time shows the batches of its producers, and no bursts."""
OUT_OF_ORDER = 0.1
"""The part of windows that may begin before the one before them has ended, by as much of the whole time."""


@dataclass(frozen=True, slots=True, eq=False)
class OffsetCurve:
    """The curve of one partition: for each point its time, its offset and its window's replicate.

    Attributes:
        partition: The partition.
        times: In milliseconds since 1970, ascending.
        offsets: The offset at each.
        replicates: Those of the windows to which the points belong.
    """

    partition: int
    times: Floats
    offsets: Floats
    replicates: np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The curves of the partitions that have records, over the time in which all can be compared.

    Attributes:
        curves: By partition.
        partitions: The topic's partition count.
        edges: Where intervals of time begin and end (ms since 1970), ascending; they hold equally many
            records.
    """

    curves: tuple[OffsetCurve, ...]
    partitions: int
    edges: Floats

    def by_interval(self, density: Floats) -> Floats:
        """Return the amount of something in each interval (partitions by intervals).

        Args:
            density: The amount per offset (partitions by replicates).
        """
        return _by_interval(self.curves, self.partitions, self.edges, density)


def timeline(topic: SampledTopic) -> Timeline | None:
    """The timeline of a topic; None where timestamps are too coarse, or not in the order of the offsets."""
    known = (topic.counts.last_ms >= 0) & (topic.counts.first_ms < NEVER)
    if not known.any():
        return None
    times = np.concatenate([topic.counts.first_ms[known], topic.counts.last_ms[known]])
    start, end = float(times.min()), float(times.max())
    if end - start < LEAST_MS or len(np.unique(times)) < FEWEST_TIMES * topic.layout.replicates:
        return None
    if _out_of_order(topic, end - start):
        return None
    # An end is extrapolated by one replicate's time at most: a slow partition would otherwise stretch it.
    farthest = (end - start) / topic.layout.replicates
    earliest, latest = start - farthest, end + farthest
    curves = [
        curve
        for number in range(topic.partitions)
        if (curve := _curve(topic, number, earliest, latest)) is not None
    ]
    starts = [max(_start(topic, curve), earliest) for curve in curves]
    ends = [min(_end(topic, curve), latest) for curve in curves]
    # Where the outermost window has no record, it is not known when it was written.
    first = [
        at for curve, at in zip(curves, starts, strict=True) if known[curve.partition, curve.replicates[0]]
    ]
    last = [
        at for curve, at in zip(curves, ends, strict=True) if known[curve.partition, curve.replicates[-1]]
    ]
    low, high = min([start, *first]), max([end, *last])
    # Where retention has removed the start of a partition, earlier times say nothing of it.
    trimmed = [topic.plan.spans[curve.partition].first > 0 for curve in curves]
    extended = tuple(
        _to_the_ends(topic, curve, first if cut else low, high)
        for curve, first, cut in zip(curves, starts, trimmed, strict=True)
    )
    low = max([low, *(first for first, cut in zip(starts, trimmed, strict=True) if cut)])
    if high <= low:
        return None
    return Timeline(extended, topic.partitions, _edges(extended, topic, low, high))


def _curve(topic: SampledTopic, partition: int, earliest: float, latest: float) -> OffsetCurve | None:
    """Draw the curve through the ends of windows; None where no time is known.

    The ends of a window without a record lie between those of its neighbours, or beyond the first or last, as
    far as the pace between these says, but not before `earliest` or after `latest`.
    """
    counts = topic.counts
    times: list[float] = []
    offsets: list[float] = []
    replicates: list[int] = []
    for window in topic.plan.windows:
        if window.partition != partition:
            continue
        # The times of a window are not known if it has no record, and may be unknown where all is read.
        for time, offset in (
            (int(counts.first_ms[partition, window.replicate]), window.start),
            (int(counts.last_ms[partition, window.replicate]), window.end),
        ):
            times.append(time if 0 <= time < NEVER else np.nan)
            offsets.append(offset)
            replicates.append(window.replicate)
    known = np.isfinite(times)
    if not known.any():
        return None
    at, places = np.array(times, dtype=np.float64), np.array(offsets, dtype=np.float64)
    ascending = np.maximum.accumulate(at[known])
    filled = np.interp(places, places[known], ascending)
    pace = _pace(ascending[[0, -1]], places[known][[0, -1]])
    filled += pace * (np.minimum(places - places[known][0], 0) + np.maximum(places - places[known][-1], 0))
    filled = filled.clip(earliest, latest)
    filled[known] = ascending
    return OffsetCurve(partition, filled, places, np.array(replicates))


def _start(topic: SampledTopic, curve: OffsetCurve) -> float:
    """Return when the first offset was written (ms), at the pace from the first window to the second."""
    unread = curve.offsets[0] - topic.plan.spans[curve.partition].first
    return float(curve.times[0] - unread * _pace(curve.times[:3:2], curve.offsets[:3:2]))


def _end(topic: SampledTopic, curve: OffsetCurve) -> float:
    """Return when the last offset was written (ms), at the pace between the last two windows."""
    unread = topic.plan.spans[curve.partition].end - curve.offsets[-1]
    return float(curve.times[-1] + unread * _pace(curve.times[-3::2], curve.offsets[-3::2]))


def _to_the_ends(topic: SampledTopic, curve: OffsetCurve, low: float, high: float) -> OffsetCurve:
    """The curve with the offsets before the first window, and after the last."""
    span = topic.plan.spans[curve.partition]
    return OffsetCurve(
        curve.partition,
        np.concatenate(([min(low, curve.times[0])], curve.times, [max(high, curve.times[-1])])),
        np.concatenate(([span.first], curve.offsets, [span.end])),
        np.concatenate((curve.replicates[:1], curve.replicates, curve.replicates[-1:])),
    )


def _pace(times: Floats, offsets: Floats) -> float:
    """Milliseconds for each offset; 0 where there is one window only."""
    steps = float(np.diff(offsets).sum())
    return float(np.diff(times).sum()) / steps if steps else 0.0


def _out_of_order(topic: SampledTopic, duration_ms: float) -> bool:
    """Return whether windows begin clearly before the window before them has ended."""
    steps = early = 0
    for partition in range(topic.partitions):
        known = (topic.counts.last_ms[partition] >= 0) & (topic.counts.first_ms[partition] < NEVER)
        replicates = np.flatnonzero(known)
        first = topic.counts.first_ms[partition, replicates]
        last = topic.counts.last_ms[partition, replicates]
        steps += max(0, len(replicates) - 1)
        early += int(np.count_nonzero(last[:-1] - first[1:] > OUT_OF_ORDER * duration_ms))
    return early > OUT_OF_ORDER * steps


def _edges(curves: tuple[OffsetCurve, ...], topic: SampledTopic, low: float, high: float) -> Floats:
    points = np.unique(np.concatenate([[low, high], *[curve.times for curve in curves]]).clip(low, high))
    density = topic.per_offset(topic.counts.records)
    in_each = _by_interval(curves, topic.partitions, points, density).sum(axis=0)
    total = np.concatenate(([0.0], np.cumsum(in_each)))
    parts = np.arange(INTERVALS + 1.0)
    newest = np.arange(INTERVALS - FINER, INTERVALS, 1 / FINER)
    edges = np.interp(np.union1d(parts, newest) / INTERVALS * total[-1], total, points)
    return np.asarray(np.unique(edges), dtype=np.float64)


def _by_interval(curves: tuple[OffsetCurve, ...], partitions: int, edges: Floats, density: Floats) -> Floats:
    found = np.zeros((partitions, len(edges) - 1))
    for curve in curves:
        densities = density[curve.partition, curve.replicates]
        if not densities.any():
            continue
        # Between two windows neither is nearer: the mean of both.
        steps = np.diff(curve.offsets) * (densities[:-1] + densities[1:]) / 2
        so_far = np.concatenate(([0.0], np.cumsum(steps)))
        found[curve.partition] = np.diff(np.interp(edges, curve.times, so_far))
    return found


ODDS = 2.5
"""So many times its usual odds (share over the rest's share) a partition or key must have at its peak. A key
that simply began half-way has twice its overall odds or little more: that is no burst."""
PEAK_RATIO = 1.5
"""And the partition must then have so many times the mean of all partitions."""
KEY_PEAK_RATIO = 1.0
"""Or, where only replicates can be compared, the key alone must have as much as the mean partition. A
replicate holds an equal part of each partition, so that a key cannot have a larger share of a replicate than
its partition has of the topic."""
DEVIATIONS = 6.0
"""And be so many standard deviations above what chance gives (Poisson for records; for bytes by the median
absolute deviation over all partitions and intervals): among thousands of intervals chance does not do it."""
INTERPOLATED = 4.0
"""So many by records, of the median absolute deviation: simulated with a log that was written on and off, it
was called bursty in 9 of 60 samples without that, and in 1 with it; bursts were found as before."""
BESIDE = 3.0
"""And so many of the same time."""
FEWEST_BESIDE = 6
"""Partitions, below which those beside a partition that bursts are too few to be compared with each other."""
MOST_OF_IT = 0.5
"""The part of a partition's surplus in a burst that one key must have, to be named as its reason."""


@dataclass(frozen=True, slots=True)
class Burst:
    """The strongest burst.

    Attributes:
        partition: Where; None where only a key was seen to burst.
        by: `records` or `bytes`.
        share: The partition's, or else the key's, share of the topic at its peak.
        usual: The same over all the time that is compared.
        start_ms: When it began; 0 where timestamps could not be used.
        end_ms: When it ended, alike.
        key: The key that makes it; None where no frequent key does.
        place: In words, where timestamps could not be used.
        others: Other partitions that burst at some time.
        ongoing: Whether it lasts to the end of the log.
    """

    partition: int | None
    by: str
    share: float
    usual: float
    start_ms: float = 0.0
    end_ms: float = 0.0
    key: HotKey | None = None
    place: str = ""
    others: int = 0
    ongoing: bool = False


def peaks(topic: SampledTopic) -> dict[str, float]:
    """Return how many times its overall share a key has at its peak, for frequent keys that surely have one.

    Shares are of the records of an interval of time; a replicate, which holds an equal part of each
    partition, would show less of a key that is hot for a short time only.
    """
    line = timeline(topic)
    if line is None:
        return {}
    everything = line.by_interval(topic.per_offset(topic.counts.records)).sum(axis=0)
    found = {}
    for key in topic.counts.hot:
        if float(topic.of_key(key, "records").sum()) * topic.partitions < LEAST_LIFT * everything.sum():
            continue
        mass = line.by_interval(topic.per_offset(key.records)).sum(axis=0)
        usual = float(mass.sum() / everything.sum())
        expected = usual * everything
        surely = mass - expected > DEVIATIONS * np.sqrt(np.maximum(expected, 1.0) * topic.weights.max())
        if surely.any():
            found[key.key_hash] = float((mass[surely] / everything[surely]).max() / usual)
    return found


def burst(topic: SampledTopic) -> Burst | None:
    """Look for bursts by records, then by bytes, in time; then for keys that are hot in some replicates."""
    if topic.partitions < 2:
        return None
    line = timeline(topic)
    if line is not None:
        by_records = _by_records(topic, line)
        found = (by_records and _verify(topic, by_records)) or _by_bytes(topic, line)
        # Batches of records without a key come and go by themselves: then only a key makes a burst.
        batches = topic.result.null_key_share.value >= NULLS_WORTH_NAMING
        if found is not None and (found.key is not None or not batches):
            return found
    return _by_replicate(topic)


def _verify(topic: SampledTopic, burst: Burst) -> Burst | None:
    """Count a burst by offsets at its ends; None if what windows of the sample showed was chance.

    Between two windows a curve is a straight line, and a record with a late time bends it.
    """
    start, end = int(burst.start_ms), int(burst.end_ms)
    counts = topic.count_between(start, end) if topic.count_between is not None else None
    if counts is None or burst.partition is None:
        return burst
    arrived, total = counts[burst.partition], sum(counts)
    written = topic.written
    usual = float(written[burst.partition] / max(float(written.sum()), 1.0))
    share = arrived / max(1, total)
    steep = _odds(np.array(share)) >= ODDS * _odds(np.array(usual)) and share * topic.partitions >= PEAK_RATIO
    if not steep or arrived - usual * total <= DEVIATIONS * np.sqrt(max(usual * total, 1.0)):
        return None
    return replace(burst, share=share, usual=usual)


def _by_records(topic: SampledTopic, line: Timeline) -> Burst | None:
    """Records with a key only: the others are sent in batches, which are bursts of their own."""
    mass = line.by_interval(topic.per_offset(topic.keyed))
    usual, in_all = _usual(mass)
    expected = usual[:, None] * in_all
    # When an offset was written is known; how many of them have a record with a key only as far as windows
    # tell it.
    units = np.maximum(1.0, topic.uncertainty(topic.keyed))
    surely = (mass - expected) > DEVIATIONS * np.sqrt(np.maximum(expected, 1.0) * units[:, None])
    # Where records come and go all the time, the curves are wrong by as much between two windows.
    surely &= _beyond_the_usual(mass, expected, INTERPOLATED) & _beyond_its_time(mass, expected)
    found = _strongest(topic, line, mass, surely, "records")
    if found is None:
        return None
    within = (line.edges[:-1] < found.end_ms) & (line.edges[1:] > found.start_ms)
    partition = found.partition
    surplus = float((mass - expected)[partition, within].sum())
    for key in topic.counts.hot:
        records = line.by_interval(topic.per_offset(key.records))[partition]
        steady = float(records.sum()) * float(in_all[within].sum()) / float(in_all.sum())
        if float(records[within].sum()) - steady >= MOST_OF_IT * surplus:
            return Burst(
                partition,
                "records",
                found.share,
                found.usual,
                found.start_ms,
                found.end_ms,
                key,
                others=found.others,
                ongoing=found.ongoing,
            )
    return found


def _by_bytes(topic: SampledTopic, line: Timeline) -> Burst | None:
    mass = line.by_interval(topic.per_offset(topic.counts.bytes))
    usual, in_all = _usual(mass)
    expected = usual[:, None] * in_all
    surely = _beyond_the_usual(mass, expected, DEVIATIONS)
    # A sparse partition may have more records at a time than it seems to have.
    size = mass.sum() / max(float(line.by_interval(topic.per_offset(topic.counts.records)).sum()), 1e-12)
    units = topic.uncertainty(topic.counts.records)[:, None]
    surely &= mass - expected > DEVIATIONS * np.sqrt(np.maximum(expected, size) * size * units)
    return _strongest(topic, line, mass, surely, "bytes")


def _beyond_the_usual(mass: Floats, expected: Floats, deviations: float) -> Bools:
    """Return what is so many deviations above the expected, as all partitions and intervals are from it."""
    filled = (mass > 0) & (expected > 0)
    logs = np.log(np.where(filled, mass, 1.0) / np.where(filled, expected, 1.0))
    middle, deviation = _middle_and_deviation(logs[filled])
    return filled & (logs - middle > deviations * max(deviation, 1e-9))


def _beyond_its_time(mass: Floats, expected: Floats) -> Bools:
    """Return what is above the expected, by more than other partitions are from it at the same time.

    Where nothing is written for a while, the curves of all partitions are wrong just then: between the last
    window before and the first one after, each is a straight line of its own.
    """
    filled = (mass > 0) & (expected > 0)
    beyond = filled.copy()
    if len(mass) < FEWEST_BESIDE:
        return beyond
    logs = np.log(np.where(filled, mass, 1.0) / np.where(filled, expected, 1.0))
    for interval in np.flatnonzero(filled.any(axis=0)):
        near = slice(max(0, interval - 1), interval + 2)
        middle, deviation = _middle_and_deviation(logs[:, near][filled[:, near]])
        beyond[:, interval] &= logs[:, interval] - middle > BESIDE * deviation
    return beyond


def _middle_and_deviation(values: Floats) -> tuple[float, float]:
    """The median, and the median absolute deviation as a standard deviation; 0 where there is no value."""
    if not len(values):
        return 0.0, 0.0
    middle = float(np.median(values))
    # That of a normal variable is its standard deviation over 1.4826.
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def _usual(mass: Floats) -> tuple[Floats, Floats]:
    """Return each partition's share over all intervals (partitions), and each interval's sum (intervals)."""
    total = max(float(mass.sum()), 1e-12)
    return mass.sum(axis=1) / total, mass.sum(axis=0)


def _strongest(topic: SampledTopic, line: Timeline, mass: Floats, surely: Bools, by: str) -> Burst | None:
    usual, in_all = _usual(mass)
    share = mass / np.maximum(in_all, 1e-12)
    odds = _odds(share) / np.maximum(_odds(usual)[:, None], 1e-12)
    steep = (odds >= ODDS) & (share * topic.partitions >= PEAK_RATIO) & (usual[:, None] > 0)
    high = steep & surely
    if not high.any():
        return None
    partition, peak = np.unravel_index(int(np.argmax(np.where(high, share, 0.0))), share.shape)
    first = last = int(peak)
    # A burst that is sure goes on as long as the share stays as high.
    while first > 0 and steep[partition, first - 1]:
        first -= 1
    while last + 1 < high.shape[1] and steep[partition, last + 1]:
        last += 1
    return Burst(
        int(partition),
        by,
        float(mass[partition, first : last + 1].sum() / in_all[first : last + 1].sum()),
        float(usual[partition]),
        float(line.edges[first]),
        float(line.edges[last + 1]),
        others=int(np.count_nonzero(high.any(axis=1))) - 1,
        ongoing=last + 1 == high.shape[1],
    )


def _odds(share: Floats) -> Floats:
    return np.asarray(share / np.maximum(1 - share, 1e-9), dtype=np.float64)


def _by_replicate(topic: SampledTopic) -> Burst | None:
    """Find the key with the steepest peak in one replicate: for logs whose timestamps are of no use."""
    totals = (topic.counts.records * topic.weights[:, None]).sum(axis=0)
    read = topic.counts.records.sum(axis=0)
    best: Burst | None = None
    for key in topic.counts.hot:
        records = (key.records * topic.weights[:, None]).sum(axis=0)
        usual = float(records.sum()) / max(float(totals.sum()), 1e-12)
        share = records / np.maximum(totals, 1e-12)
        peak = int(np.argmax(share))
        if usual * topic.partitions < LEAST_LIFT or share[peak] * topic.partitions < KEY_PEAK_RATIO:
            continue
        expected = usual * float(read[peak])
        counted = key.records.sum(axis=0)
        # The windows differ by more than single records do where these come in batches or transactions.
        _, usually = _middle_and_deviation(counted - usual * read)
        surely = counted[peak] - expected > DEVIATIONS * max(np.sqrt(max(expected, 1.0)), usually)
        steep = _odds(share[peak]) >= ODDS * _odds(np.array(usual))
        if surely and steep and (best is None or share[peak] > best.share):
            seen_in = int(np.count_nonzero(key.records.sum(axis=0)))
            place = (
                f"in part {peak + 1} of {len(share)} equal parts of the log (it occurs in {seen_in} of them)"
            )
            best = Burst(None, "records", float(share[peak]), usual, key=key, place=place)
    return best


BURST_PEAK = 2.0
"""A key's peak is worth telling from so many times its overall share on."""
ONGOING = "This lasts to the end of the log."


def burst_cause(topic: SampledTopic, found: Burst) -> SkewCause:
    """Word the cause; a key that bursts explains the part of the overall skew that goes with it."""
    explains = topic.explained(topic.of_key(found.key, "records"), "records") if found.key else None
    if not topic.skewed("records"):
        explains = None
    if found.partition is None and found.key is not None:
        return SkewCause(
            "bursty",
            f"{capitalised(named(found.key))} has {percent(found.share)} of the records {found.place}, "
            f"and {percent(found.usual)} overall.",
            explains,
        )
    start, end = found.start_ms, found.end_ms
    ratio = found.share * topic.partitions
    reason = f"; {named(found.key)} causes it" if found.key else ""
    for key in topic.result.hot_keys:
        if found.key and key.key_hash == found.key.key_hash and key.peak >= BURST_PEAK:
            reason += f", with up to {key.peak:.3g} times its overall share"
    now = f" {ONGOING}" if found.ongoing else ""
    others = (
        f" {found.others} other partition{'s' if found.others > 1 else ''} had bursts too."
        if found.others
        else ""
    )
    return SkewCause(
        "bursty",
        f"Partition {found.partition} got {percent(found.share)} of the {found.by} from "
        f"{utc(start, within=end - start)} to {utc(end, within=end - start)} ({ratio:.2f} times the mean), "
        f"and {percent(found.usual)} overall{reason}.{now}{others}",
        explains,
    )
