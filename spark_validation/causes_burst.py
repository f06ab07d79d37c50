"""Bursts: a partition, or a key, that is hot at some times only.

Windows lie at equal steps of offsets. A partition that is hot for an hour has most of its windows in this
hour, so that windows of the same replicate are of different times. Here the timestamps at which windows begin
and end are taken as points of a curve for each partition, offset over time (piecewise linear), and partitions
are compared in intervals of time that each hold the same number of the topic's records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.key_counts import NEVER, Bools, Floats
from spark_validation.results import BurstFacts, SkewCause
from spark_validation.sampled_topic import MIN_HOT_KEY_LIFT, NULLS_WORTH_NAMING, SampledTopic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.hashing import Int64s
    from spark_validation.windows import Window

INTERVALS = 48
"""Intervals of time; a burst that is much shorter than one is not found."""
TAIL_SUBDIVISIONS = 4
"""So many of the last intervals are each divided into as many: a burst that has just begun lies only
there."""
MAX_TIMELINE_POINTS = 4096
"""The most times at which the records of all partitions are added up to place intervals. All ends of windows
would be 16 for each partition: time and memory would grow with the square of the partitions."""
MIN_TIMES_PER_REPLICATE = 4
"""The fewest distinct timestamps per replicate that are fine enough."""
MIN_LOG_MS = 60_000
"""A log that was written in less time shows its producers' batches, not bursts."""
OFFSET_TIMES = 168
"""The number of times at which brokers are asked for offsets: every hour of a week."""
MAX_QUERIED_PARTITIONS = 1_000
"""The most partitions of a topic whose leaders are asked so often."""
MIN_KEY_LIFT = 0.25
"""Brokers are asked where a key alone fills a partition to this part of the mean."""
CHANCE_DEVIATIONS = 3.0
"""The standard deviations by which a peak between two times may be above what it is a sample of."""
MIN_SHARE_ON_PARTITION = 0.8
"""The part of the records or bytes of a key that must lie on one partition for offsets to show when."""
SAMPLING_DEVIATIONS = 3.0
"""The standard errors by which what offsets show of a key may differ from what was sampled of it."""
MIN_SHOWN_BY_OFFSETS = 0.5
"""The least part of it that they must show: of a key that is always there they show nothing."""
MAX_OVERLAP_FRACTION = 0.1
"""A window that overlaps the one before by less than this part of the whole time is in order."""
MAX_SHARE_OUT_OF_ORDER = 0.1
"""The part of windows, or of offsets that were searched by time, that may be out of order."""


@dataclass(frozen=True, slots=True, eq=False)
class OffsetCurve:
    """The curve of one partition: for each point its time, its offset and its window's replicate.

    Attributes:
        times: In milliseconds since 1970, ascending.
        offsets: The offset at each time.
        replicates: The replicate of each point's window.
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
        edges: The bounds of the intervals (ms since 1970), ascending; each interval has equally many records,
            or is equally long where brokers were asked for offsets.
        windows: The times of `window_times` that it follows.
        exact: Whether brokers were asked for offsets, so that the curves hold between windows.
        sums: What `sum_all` returned, with the counts that it is of, by their id.
    """

    curves: tuple[OffsetCurve, ...]
    partitions: int
    edges: Floats
    windows: Floats
    exact: bool = False
    sums: dict[int, tuple[Floats | Int64s, Floats]] = field(default_factory=dict, init=False)

    def sum_all(self, topic: SampledTopic, counts: Floats | Int64s) -> Floats:
        """Return all records or bytes in each interval, which are the same for every key."""
        if id(counts) not in self.sums:
            self.sums[id(counts)] = counts, self.sum_intervals(topic.per_offset(counts))
        return self.sums[id(counts)][1]

    def shortest_ms(self, topic: SampledTopic) -> int:
        """Return the least length of a burst that is seen: the time between offsets, or that of a window."""
        parts = OFFSET_TIMES if self.exact else topic.layout.replicates
        return round(float(self.edges[-1] - self.edges[0]) / parts)

    def sum_intervals(self, density: Floats) -> Floats:
        """Return an amount in each interval (partitions by intervals).

        Args:
            density: The amount per offset (partitions by replicates).
        """
        return _sum_intervals(self.curves, self.partitions, self.edges, density)


def window_times(topic: SampledTopic) -> Floats | None:
    """Return when each window begins and ends (partitions by replicates by 2), in ms since 1970.

    NaN where no time is known. A record with an old event time makes a window seem to begin too early, one
    with a time in the future to end too late: where windows often overlap, or beginnings and ends differ in
    order, only those are used that follow each other more evenly. None where these are not in order, and
    where times are too coarse.
    """
    counts = topic.counts
    known = (counts.last_ms >= 0) & (counts.first_ms < NEVER)
    if not known.any():
        return None
    windows = np.stack([counts.first_ms, counts.last_ms], axis=2).astype(np.float64)
    windows[~known] = np.nan
    filled = windows[known.any(axis=1)]
    if len(filled) > 2:
        # One wrong clock: a window ends after a later one, and at a time that no other partition reaches.
        ends = np.where(known, windows[:, :, 1], np.inf)
        next_ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
        latest = np.partition(np.nanmax(filled, axis=(1, 2)), -2)[-2]
        wrong = known & (ends > next_ends) & (ends > latest)
        windows[:, :, 1] = np.where(wrong, next_ends, windows[:, :, 1])
    duration = float(np.nanmax(windows) - np.nanmin(windows))
    distinct = len(np.unique(windows[known]))
    if duration < MIN_LOG_MS or distinct < MIN_TIMES_PER_REPLICATE * topic.layout.replicates:
        return None
    # Records with old times bend the beginnings, records with times in the future the ends.
    begin, end = (np.where([True, False], windows, np.nan), np.where([False, True], windows, np.nan))
    if _backwards(end, 0.0) != _backwards(begin, 0.0) or _backwards(windows, 0.0) > MAX_SHARE_OUT_OF_ORDER:
        windows = min(end, begin, key=lambda side: (_backwards(side, 0.0), _unevenness(side)))
    share = _backwards(windows, MAX_OVERLAP_FRACTION * duration)
    return None if share > MAX_SHARE_OUT_OF_ORDER else windows


def _backwards(windows: Floats, tolerance: float) -> float:
    """Return the part of the windows that begin more than `tolerance` ms before the previous one ends."""
    steps = back = 0
    for times in windows:
        known = times[np.isfinite(times).any(axis=1)]
        early = np.nanmax(known[:-1], axis=1) - np.nanmin(known[1:], axis=1)
        steps += len(early)
        back += int(np.count_nonzero(early > tolerance))
    return back / max(1, steps)


def _unevenness(windows: Floats) -> float:
    """Return how far the steps from window to window are from those of most windows, in ms.

    A burst makes steps of the beginnings and of the ends differ alike, a single record only one of them.
    """
    steps = np.concatenate([np.diff(times[np.isfinite(times)]) for times in windows])
    return float(np.abs(steps - np.median(steps)).mean()) if len(steps) else 0.0


def build_timeline(topic: SampledTopic, windows: Floats, *, extrapolated: bool = False) -> Timeline | None:
    """Return the timeline of a topic; None where it has no length.

    Args:
        windows: The times of `window_times`.
        extrapolated: Whether it reaches to where partitions begin or end by extrapolation, too.
    """
    known: Bools = np.asarray(np.isfinite(windows).any(axis=2))
    start, end = float(np.nanmin(windows)), float(np.nanmax(windows))
    # An end is extrapolated by one replicate's time at most: a slow partition would otherwise stretch it.
    farthest = (end - start) / topic.layout.replicates
    earliest, latest = start - farthest, end + farthest
    curves = [
        curve
        for number, planned in groupby(topic.plan.windows, key=lambda window: window.partition)
        if (curve := _curve([*planned], windows[number], earliest, latest)) is not None
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
    # Of beginnings alone, where a partition ends is extrapolated: the last one would seem to be alone there.
    if not extrapolated and not np.isfinite(windows[:, :, 0]).any():
        low = max(first, default=low)
    if not extrapolated and not np.isfinite(windows[:, :, 1]).any():
        high = min(last, default=high)
    # Where retention has removed the start of a partition, earlier times say nothing of it.
    trimmed = [topic.plan.spans[curve.partition].first > 0 for curve in curves]
    extended = tuple(
        _extend(topic, curve, first if cut else low, high)
        for curve, first, cut in zip(curves, starts, trimmed, strict=True)
    )
    low = max([low, *(first for first, cut in zip(starts, trimmed, strict=True) if cut)])
    if high <= low:
        return None
    return Timeline(extended, topic.partitions, _edges(extended, topic, low, high), windows)


def _curve(windows: Sequence[Window], times: Floats, earliest: float, latest: float) -> OffsetCurve | None:
    """Draw the curve through the ends of a partition's windows; None where no time is known.

    An end without a known time lies between those of its neighbours, or beyond the first or last, as
    far as the pace between these gives, but not before `earliest` or after `latest`.
    """
    replicates = np.repeat(np.array([window.replicate for window in windows], dtype=np.int64), 2)
    bounds = np.array([(window.start, window.end) for window in windows], dtype=np.float64).reshape(-1)
    at = times[replicates[::2]].reshape(-1)
    known = np.isfinite(at)
    if not known.any():
        return None
    # Times of windows may overlap a little; offsets never go back, so the curve must not either.
    ascending = np.maximum.accumulate(at[known])
    filled = np.interp(bounds, bounds[known], ascending)
    pace = _pace(ascending[[0, -1]], bounds[known][[0, -1]])
    filled += pace * (np.minimum(bounds - bounds[known][0], 0) + np.maximum(bounds - bounds[known][-1], 0))
    filled = filled.clip(earliest, latest)
    filled[known] = ascending
    return OffsetCurve(windows[0].partition, filled, bounds, replicates)


def _start(topic: SampledTopic, curve: OffsetCurve) -> float:
    """Return when the first offset was written (ms), at the pace from the first window to the second."""
    unread = curve.offsets[0] - topic.plan.spans[curve.partition].first
    return float(curve.times[0] - unread * _pace(curve.times[:3:2], curve.offsets[:3:2]))


def _end(topic: SampledTopic, curve: OffsetCurve) -> float:
    """Return when the last offset was written (ms), at the pace between the last two windows."""
    unread = topic.plan.spans[curve.partition].end - curve.offsets[-1]
    return float(curve.times[-1] + unread * _pace(curve.times[-3::2], curve.offsets[-3::2]))


def _extend(topic: SampledTopic, curve: OffsetCurve, low: float, high: float) -> OffsetCurve:
    """Extend a curve by the offsets before the first window and after the last."""
    span = topic.plan.spans[curve.partition]
    return OffsetCurve(
        curve.partition,
        np.concatenate(([min(low, curve.times[0])], curve.times, [max(high, curve.times[-1])])),
        np.concatenate(([span.first], curve.offsets, [span.end])),
        np.concatenate((curve.replicates[:1], curve.replicates, curve.replicates[-1:])),
    )


def _pace(times: Floats, offsets: Floats) -> float:
    """Return the milliseconds per offset; 0 where there is only one window."""
    steps = float(offsets[-1] - offsets[0])
    return float(times[-1] - times[0]) / steps if steps else 0.0


def _edges(curves: tuple[OffsetCurve, ...], topic: SampledTopic, low: float, high: float) -> Floats:
    points = np.unique(np.concatenate([[low, high], *[curve.times for curve in curves]]).clip(low, high))
    density = topic.per_offset(topic.counts.records)
    if len(points) > MAX_TIMELINE_POINTS:
        points = points[np.linspace(0, len(points) - 1, MAX_TIMELINE_POINTS).astype(np.int64)]
    total = np.zeros(len(points))
    for curve in curves:
        total += np.interp(points, curve.times, _accumulate(curve, density))
    total -= total[0]
    parts = np.arange(INTERVALS + 1.0)
    newest = np.arange(INTERVALS - TAIL_SUBDIVISIONS, INTERVALS, 1 / TAIL_SUBDIVISIONS)
    # The inverse of the cumulated records: equal steps of records become times.
    edges = np.interp(np.union1d(parts, newest) / INTERVALS * total[-1], total, points)
    return np.asarray(np.unique(edges), dtype=np.float64)


def _sum_intervals(
    curves: tuple[OffsetCurve, ...], partitions: int, edges: Floats, density: Floats
) -> Floats:
    totals = np.zeros((partitions, len(edges) - 1))
    # A key lies on few of many partitions.
    for curve in (curve for curve in curves if density[curve.partition].any()):
        totals[curve.partition] = np.diff(np.interp(edges, curve.times, _accumulate(curve, density)))
    return totals


def _accumulate(curve: OffsetCurve, density: Floats) -> Floats:
    """Return the amount up to each point of a curve."""
    densities = density[curve.partition, curve.replicates]
    # Between two windows, the density is the mean of both.
    steps = np.diff(curve.offsets) * (densities[:-1] + densities[1:]) / 2
    return np.concatenate(([0.0], np.cumsum(steps)))


ODDS = 2.5
"""A partition or key must have so many times its usual odds, share / (1 - share), at its peak. A key that
only began half-way has little more than twice its overall odds, and is no burst."""
PEAK_RATIO = 1.5
"""The partition must then also have so many times the mean of all partitions."""
KEY_PEAK_RATIO = 1.0
"""Where only replicates can be compared, the key alone must have so many times the mean partition instead. A
replicate holds an equal part of each partition, so that a key cannot have a larger share of a replicate than
its partition has of the topic."""
DEVIATIONS = 6.0
"""The peak must be so many standard deviations above what chance gives (Poisson for records; for bytes by the
median absolute deviation over all partitions and intervals), which chance does not reach among thousands of
intervals."""
INTERPOLATED = 4.0
"""By records, the peak must also be so many median absolute deviations above the expected: a simulated log
that was written on and off was called bursty in 9 of 60 samples without this, and in 1 with it; bursts were
found as before."""
MIN_CROSS_PARTITION_MADS = 3.0
"""The peak must also be so many median absolute deviations of the same time above the expected."""
MIN_COMPARED_PARTITIONS = 6
"""The fewest partitions whose deviations at the same time are compared."""
MIN_PEAK_CONTRAST = 2.0
"""A key's peak must have so many times what the steepest of half of the replicates have."""
MIN_KEY_SURPLUS_SHARE = 0.5
"""The part of a partition's surplus in a burst that one key must have, to be named as its cause."""


def find_timeline(topic: SampledTopic) -> Timeline | None:
    """Return the timeline of a topic; None where times do not show it."""
    windows = window_times(topic)
    return None if windows is None else build_timeline(topic, windows)


def refine_timeline(topic: SampledTopic, line: Timeline) -> Timeline:
    """Return a timeline by the offsets of many times, where brokers can be asked and a key is worth it."""
    total = float(topic.loads("records").sum())
    largest = max((float(topic.key_loads(key, "records").sum()) for key in topic.counts.hot), default=0.0)
    if (
        topic.offsets_at is None
        or not 2 <= topic.partitions <= MAX_QUERIED_PARTITIONS
        or largest * topic.partitions < MIN_KEY_LIFT * total
    ):
        return line
    times = np.linspace(line.edges[0], line.edges[-1], OFFSET_TIMES + 1)
    responses: list[Sequence[int]] = []
    for time in times:
        response = topic.offsets_at(int(time))
        if response is None:
            return line
        responses.append(response)
    offsets = np.array(responses, dtype=np.float64)
    curves = []
    for curve in line.curves:
        span = topic.plan.spans[curve.partition]
        at = np.concatenate((offsets[:-1, curve.partition], [span.end])).clip(span.first, span.end)
        window = np.searchsorted(curve.offsets, at).clip(max=len(curve.offsets) - 1)
        # A record ahead of its time hides the records behind it from a search by time.
        off = np.abs(np.interp(curve.times, times, at) - curve.offsets) * topic.layout.replicates
        if np.mean(off > span.readable) > MAX_SHARE_OUT_OF_ORDER:
            return line
        curves.append(OffsetCurve(curve.partition, times, at, curve.replicates[window]))
    return Timeline(tuple(curves), line.partitions, times, line.windows, exact=True)


def sum_part(
    topic: SampledTopic, line: Timeline, part: Floats | Int64s, whole: Floats | Int64s
) -> tuple[Floats, bool]:
    """Return a part of the records or bytes, such as those of a key.

    Windows mix what was written within them. Where offsets show when a partition was fuller, and the part
    lies there alone, it is what the rest of the partition leaves, whose pace is that of the others.

    Args:
        part: What was read of the part (partitions by replicates).
        whole: What was read of all, alike.

    Returns:
        The part (partitions by intervals), and whether offsets show when it was written.
    """
    sums = line.sum_intervals(topic.per_offset(part))
    on = int(np.argmax(sums.sum(axis=1)))
    total = float(sums[on].sum())
    if not line.exact or total < MIN_SHARE_ON_PARTITION * float(sums.sum()):
        return sums, False
    everything = line.sum_all(topic, whole)
    others = everything.sum(axis=0) - everything[on]
    # What the partition has at most times is of others, if that leaves about as much as was sampled of the
    # part: a sample that meets few of its bursts is less sure of it than offsets are.
    usual = float(np.median(everything[on] / np.maximum(others, 1e-12)))
    own = everything[on] - usual * others
    shown, error = float(own.clip(0).sum()), SAMPLING_DEVIATIONS * _sampling_error(topic, part, on)
    if not max(total - error, MIN_SHOWN_BY_OFFSETS * total) <= shown <= total + error:
        own = everything[on] - (everything[on].sum() - total) * others / max(float(others.sum()), 1e-12)
        # Where it would often be below 0, others there come and go, too.
        if float(own.clip(0).sum()) > total / MIN_SHARE_ON_PARTITION:
            return sums, False
    sums[on] = own.clip(0)
    return sums, True


def _sampling_error(topic: SampledTopic, part: Floats | Int64s, partition: int) -> float:
    """Return the standard error of the estimate of a part of a partition, by how its windows differ."""
    read = topic.offsets[partition] > 0
    windows, span = np.asarray(part)[partition, read], topic.plan.spans[partition]
    unread = 1 - min(1.0, float(topic.offsets[partition].sum()) / max(span.readable, 1))
    if len(windows) < 2:
        return 0.0
    return float(topic.weights[partition] * windows.std(ddof=1) * np.sqrt(len(windows) * unread))


def find_peaks(topic: SampledTopic, line: Timeline) -> dict[str, float]:
    """Return the peak of each frequent key that surely has one, in multiples of its overall share.

    Shares are of the records of an interval of time; a replicate, which holds an equal part of each
    partition, would show less of a key that is hot for a short time only.
    """
    arrivals = line.sum_all(topic, topic.counts.records)
    everything = arrivals.sum(axis=0)
    peak_ratios = {}
    for key in topic.counts.hot:
        if (
            float(topic.key_loads(key, "records").sum()) * topic.partitions
            < MIN_HOT_KEY_LIFT * everything.sum()
        ):
            continue
        key_records, _ = sum_part(topic, line, key.records, topic.counts.records)
        mass = key_records.sum(axis=0)
        usual = float(mass.sum() / everything.sum())
        expected = usual * everything
        # A record that was read stands for up to so many, by which the Poisson variance grows.
        surely = mass - expected > DEVIATIONS * np.sqrt(np.maximum(expected, 1.0) * topic.weights.max())
        if surely.any():
            share = np.where(surely, mass / np.maximum(everything, 1e-12), 0.0)
            peak_ratios[key.key_hash] = _peak_share(topic, line, share, key_records, arrivals) / usual
    return peak_ratios


def _peak_share(
    topic: SampledTopic, line: Timeline, share: Floats, key_records: Floats, arrivals: Floats
) -> float:
    """Return a key's share of the records at its peak.

    Args:
        share: The key's share where it surely has more than usual; 0 elsewhere (intervals).
        key_records: The key's records (partitions by intervals).
        arrivals: All records, alike.
    """
    first = last = int(np.argmax(share))
    highest = float(share[first])
    # The whole peak down to half its height: a single interval may have few records.
    while first > 0 and share[first - 1] >= highest / 2:
        first -= 1
    while last + 1 < len(share) and share[last + 1] >= highest / 2:
        last += 1
    counted = count_share(topic, line, (first, last + 1), key_records, arrivals, arrivals)
    return highest if counted is None else counted


def count_share(
    topic: SampledTopic,
    line: Timeline,
    stretch: tuple[int, int],
    part: Floats,
    whole: Floats,
    records: Floats,
) -> float | None:
    """Count by offsets which share a part of the records or bytes has in a stretch of time.

    The sample shows partitions' records only from one window's end to the next: where something begins within
    windows of other partitions, these seem to get more records during it.

    Args:
        stretch: The first interval, and the one after the last.
        part: Records or bytes (partitions by intervals).
        whole: All records or bytes, alike.

    Returns:
        None where offsets do not show it.
    """
    start, end = stretch
    begin_ms, end_ms = int(line.edges[start]), int(line.edges[end]) + 1
    counted = None if topic.count_between is None else topic.count_between(begin_ms, end_ms)
    if counted is None:
        return None
    # Compacted and aborted records leave offsets.
    read = np.maximum(topic.offsets.sum(axis=1), 1.0)
    arrived = np.array(counted) * topic.counts.records.sum(axis=1) / read
    each = arrived / np.maximum(records[:, start:end].sum(axis=1), 1e-12)
    total = float(each @ whole[:, start:end].sum(axis=1))
    return float(each @ part[:, start:end].sum(axis=1)) / total if total > 0 else None


def find_burst(topic: SampledTopic, line: Timeline | None, fine: Timeline | None) -> BurstFacts | None:
    """Look for bursts by records, then by bytes, in time; then for keys that are hot in some replicates.

    Args:
        line: Its timeline by windows.
        fine: Its timeline of `refine_timeline`.
    """
    if topic.partitions < 2:
        return None
    if line is not None:
        bursts = [
            candidate if candidate is not None and _beats_chance(topic, line.windows, candidate) else None
            for candidate in (_find_by_records(topic, line), _find_by_bytes(topic, line))
        ]
        # Offsets show bursts that windows mix with what was before and after them.
        between = _find_by_records(topic, fine) if fine is not None and fine.exact else None
        candidate = None if between is None else _verify(topic, line, between)
        first = bursts[0] or bursts[1]
        if candidate is None and first is not None:
            candidate = _verify(topic, line, first)
        # Batches of records without a key come and go by themselves: then only a key makes a burst.
        batches = topic.result.null_key_share.value >= NULLS_WORTH_NAMING
        if candidate is not None and (candidate.key_hash is not None or not batches):
            return candidate
    return _find_by_replicate(topic)


def _beats_chance(topic: SampledTopic, windows: Floats, burst: BurstFacts) -> bool:
    """Return whether a burst is more than what single windows or single records make of a sample.

    A true burst shows by the beginnings of windows alone, and by their ends alone: a record with an old event
    time, or one in the future, bends the curve at one of them only. It also shows if offsets without a record
    count: a window without records shows when its offsets were written, but not that fewer were committed or
    kept. A time that is alone before the first or after the last of all other partitions may be that of one
    record: what lies beyond them does not count.
    """
    if burst.partition is None:
        return True
    own, others = windows[burst.partition], np.delete(windows, burst.partition, axis=0)
    first, last = np.nanmin(others, initial=np.inf), np.nanmax(others, initial=-np.inf)
    start_ms = max(burst.start_ms, first) if np.sum(own < first) == 1 else burst.start_ms
    end_ms = min(burst.end_ms, last) if np.sum(own > last) == 1 else burst.end_ms
    if start_ms >= end_ms:
        return False
    measured = topic.keyed if burst.by == "records" else topic.counts.bytes
    records = topic.counts.records
    mean = measured.sum(axis=1) / np.maximum(records.sum(axis=1), 1)
    filled = np.where(records > 0, measured / np.maximum(records, 1), mean[:, None])
    # Both ends together, then the beginnings alone, then the ends alone.
    for side in ([True, True], [True, False], [False, True]):
        times = np.where(side, windows, np.nan)
        line = build_timeline(topic, times, extrapolated=True) if np.isfinite(times).any() else None
        if line is None:
            continue
        within = replace(line, edges=np.array([start_ms, end_ms]))
        for density in (topic.per_offset(measured), filled):
            usual, _ = _usual(line.sum_intervals(density))
            mass = within.sum_intervals(density)
            share = mass[burst.partition] / max(float(mass.sum()), 1e-12)
            if not _steep(share, usual[burst.partition], topic.partitions).all():
                return False
    return True


def _steep(share: Floats, usual: Floats, partitions: int) -> Bools:
    """Return whether a share is one of a burst, by itself and against the usual one."""
    odds = _odds(share) / np.maximum(_odds(usual), 1e-12)
    return np.asarray((odds >= ODDS) & (share * partitions >= PEAK_RATIO) & (usual > 0))


def _verify(topic: SampledTopic, line: Timeline, burst: BurstFacts) -> BurstFacts | None:
    """Count a burst by offsets between its ends; None if what the sample's windows showed was chance.

    Between two windows a curve is a straight line, and a record with a late time bends it. Where times are so
    far from in order that offsets between them cannot be counted, windows show no burst, either.
    """
    if topic.count_between is None or burst.partition is None:
        return burst
    counts = topic.count_between(int(burst.start_ms), int(burst.end_ms))
    if counts is None:
        return None
    loads, usual_loads = np.array(counts, dtype=np.float64), topic.written
    if burst.by == "bytes":
        # Offsets count records, whose sizes are those of the sample in the burst.
        within = replace(line, edges=np.array([burst.start_ms, burst.end_ms]))
        records, size = (
            within.sum_intervals(topic.per_offset(measured))[:, 0]
            for measured in (topic.counts.records, topic.counts.bytes)
        )
        usual_loads = topic.loads("bytes")
        loads *= size / np.maximum(records, 1e-12) * topic.written.sum() / max(float(usual_loads.sum()), 1.0)
    arrived, total = float(loads[burst.partition]), float(loads.sum())
    usual = float(usual_loads[burst.partition] / max(float(usual_loads.sum()), 1.0))
    share = arrived / max(1.0, total)
    steep = _steep(np.array(share), np.array(usual), topic.partitions)
    if not steep or arrived - usual * total <= DEVIATIONS * np.sqrt(max(usual * total, 1.0)):
        return None
    return replace(burst, burst_share=share, usual_share=usual)


def _find_by_records(topic: SampledTopic, line: Timeline) -> BurstFacts | None:
    """Find the strongest burst of records with a key; others come in batches, bursts of their own."""
    mass = line.sum_intervals(topic.per_offset(topic.keyed))
    usual, in_all = _usual(mass)
    expected = usual[:, None] * in_all
    # The times of offsets are known; how many of them have a record with a key is only sampled.
    units = np.maximum(1.0, topic.uncertainty(topic.keyed))
    surely = (mass - expected) > DEVIATIONS * np.sqrt(np.maximum(expected, 1.0) * units[:, None])
    # Where records come and go all the time, the curves are wrong by as much between two windows.
    surely &= line.exact | _exceeds_usual(mass, expected, INTERPOLATED)
    surely &= _exceeds_same_time(mass, expected, surely.any(axis=0))
    strongest = _strongest(topic, line, mass, surely, "records")
    if strongest is None:
        return None
    within = (line.edges[:-1] < strongest.end_ms) & (line.edges[1:] > strongest.start_ms)
    partition = strongest.partition
    surplus = float((mass - expected)[partition, within].sum())
    for key in topic.counts.hot:
        records = sum_part(topic, line, key.records, topic.counts.records)[0][partition]
        steady = float(records.sum()) * float(in_all[within].sum()) / float(in_all.sum())
        if float(records[within].sum()) - steady >= MIN_KEY_SURPLUS_SHARE * surplus:
            return replace(strongest, key_hash=key.key_hash, key_length=key.length)
    return strongest


def _find_by_bytes(topic: SampledTopic, line: Timeline) -> BurstFacts | None:
    mass = line.sum_intervals(topic.per_offset(topic.counts.bytes))
    usual, in_all = _usual(mass)
    expected = usual[:, None] * in_all
    surely = _exceeds_usual(mass, expected, DEVIATIONS)
    # A sparse partition may have more records at a time than it seems to have.
    size = mass.sum() / max(float(line.sum_intervals(topic.per_offset(topic.counts.records)).sum()), 1e-12)
    units = topic.uncertainty(topic.counts.records)[:, None]
    surely &= mass - expected > DEVIATIONS * np.sqrt(np.maximum(expected, size) * size * units)
    return _strongest(topic, line, mass, surely, "bytes")


def _exceeds_usual(mass: Floats, expected: Floats, deviations: float) -> Bools:
    """Return where mass exceeds the expected by so many deviations of all partitions and intervals."""
    filled, logs = _log_ratios(mass, expected)
    middle, deviation = _middle_and_deviation(logs[filled])
    return filled & (logs - middle > deviations * max(deviation, 1e-9))


def _log_ratios(mass: Floats, expected: Floats) -> tuple[Bools, Floats]:
    """Return where there is mass, and the logarithm of mass over expected there."""
    filled = (mass > 0) & (expected > 0)
    return filled, np.log(np.where(filled, mass, 1.0) / np.where(filled, expected, 1.0))


def _exceeds_same_time(mass: Floats, expected: Floats, intervals: Bools) -> Bools:
    """Return where mass exceeds the expected by more than other partitions deviate at the same time.

    Where nothing is written for a while, the curves of all partitions are wrong just then: between the last
    window before and the first one after, each is a straight line of its own.

    Args:
        mass: Records (partitions by intervals).
        expected: Those that were to be expected.
        intervals: The intervals in which other partitions are looked at.
    """
    filled, logs = _log_ratios(mass, expected)
    beyond = filled.copy()
    if len(mass) < MIN_COMPARED_PARTITIONS:
        return beyond
    for interval in np.flatnonzero(intervals):
        near = slice(max(0, interval - 1), interval + 2)
        middle, deviation = _middle_and_deviation(logs[:, near][filled[:, near]])
        beyond[:, interval] &= logs[:, interval] - middle > MIN_CROSS_PARTITION_MADS * deviation
    return beyond


def _middle_and_deviation(values: Floats) -> tuple[float, float]:
    """Return the median, and the median absolute deviation as a standard deviation; 0 without values."""
    if not len(values):
        return 0.0, 0.0
    middle = float(np.median(values))
    # That of a normal variable is its standard deviation over 1.4826.
    return middle, 1.4826 * float(np.median(np.abs(values - middle)))


def _usual(mass: Floats) -> tuple[Floats, Floats]:
    """Return each partition's share over all intervals (partitions), and each interval's sum (intervals)."""
    total = max(float(mass.sum()), 1e-12)
    return mass.sum(axis=1) / total, mass.sum(axis=0)


def _strongest(
    topic: SampledTopic, line: Timeline, mass: Floats, surely: Bools, by: str
) -> BurstFacts | None:
    usual, in_all = _usual(mass)
    share = mass / np.maximum(in_all, 1e-12)
    steep = _steep(share, usual[:, None], topic.partitions)
    # Single times have few records: chance must not make one of many the peak.
    least = (
        (mass - CHANCE_DEVIATIONS * np.sqrt(mass)).clip(0) / np.maximum(in_all, 1e-12)
        if line.exact
        else share
    )
    # Where keys come and go, as those of windows do, some partition has as large a share at any time.
    odds = _odds(least) / np.maximum(_odds(usual[:, None]), 1e-12)
    high = surely & (odds >= np.median(odds.max(axis=0)) ** 3)
    high &= _steep(least, usual[:, None], topic.partitions)
    if not high.any():
        return None
    partition, peak = np.unravel_index(int(np.argmax(np.where(high, share, 0.0))), share.shape)
    first = last = int(peak)
    # A burst that is sure goes on as long as the share stays as high.
    while first > 0 and steep[partition, first - 1]:
        first -= 1
    while last + 1 < high.shape[1] and steep[partition, last + 1]:
        last += 1
    return BurstFacts(
        by,
        float(mass[partition, first : last + 1].sum() / in_all[first : last + 1].sum()),
        float(usual[partition]),
        int(partition),
        topic.partitions,
        float(line.edges[first]),
        float(line.edges[last + 1]),
        other_partitions=int(np.count_nonzero(high.any(axis=1))) - 1,
        ongoing=last + 1 == high.shape[1],
    )


def _odds(share: Floats) -> Floats:
    return np.asarray(share / np.maximum(1 - share, 1e-9), dtype=np.float64)


def _find_by_replicate(topic: SampledTopic) -> BurstFacts | None:
    """Find the key with the steepest peak in one replicate: for logs whose timestamps are unusable."""
    totals = (topic.counts.records * topic.weights[:, None]).sum(axis=0)
    best: BurstFacts | None = None
    steepest = np.zeros(len(totals))
    for key in topic.counts.hot:
        records = (key.records * topic.weights[:, None]).sum(axis=0)
        usual = float(records.sum()) / max(float(totals.sum()), 1e-12)
        share = records / np.maximum(totals, 1e-12)
        steepest = np.maximum(steepest, np.where(_odds(share) >= ODDS * _odds(np.array(usual)), share, 0.0))
        peak = int(np.argmax(share))
        if usual * topic.partitions < MIN_HOT_KEY_LIFT or share[peak] * topic.partitions < KEY_PEAK_RATIO:
            continue
        # The key's part of the records read from its partitions: windows without records, as of aborted
        # transactions, are no evidence about the key.
        key_part = key.records.sum(axis=1) / np.maximum(topic.counts.records.sum(axis=1), 1)
        expected = key_part @ topic.counts.records
        counted = key.records.sum(axis=0)
        # The windows differ by more than single records do where these come in batches or transactions.
        _, usually = _middle_and_deviation(counted - expected)
        surely = counted[peak] - expected[peak] > DEVIATIONS * max(np.sqrt(max(expected[peak], 1.0)), usually)
        steep = _odds(share[peak]) >= ODDS * _odds(np.array(usual))
        if surely and steep and (best is None or share[peak] > best.burst_share):
            best = BurstFacts(
                "records",
                float(share[peak]),
                usual,
                None,
                topic.partitions,
                key_hash=key.key_hash,
                key_length=key.length,
                part=peak + 1,
                parts=len(share),
                parts_with_key=int(np.count_nonzero(key.records.sum(axis=0))),
            )
    return best if best is not None and best.burst_share >= MIN_PEAK_CONTRAST * np.median(steepest) else None


BURST_PEAK = 2.0
"""A key's peak is reported from so many times its overall share."""


def burst_cause(topic: SampledTopic, burst: BurstFacts) -> SkewCause:
    """Return the cause; a key that bursts explains the part of the overall skew that is due to it."""
    key = topic.counts.find_hot(burst.key_hash)
    explains = None
    if key is not None and topic.skewed("records"):
        explains = topic.explain_excess(topic.key_loads(key, "records"), "records")
    peaks = {key.key_hash: key.peak for key in topic.result.hot_keys if key.peak >= BURST_PEAK}
    facts = replace(burst, key_peak=peaks.get(burst.key_hash or ""))
    return SkewCause("bursty", explains=explains, facts=facts)
