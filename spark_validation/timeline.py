"""When the records of each partition were written, so that partitions can be compared at one time.

Windows lie at equal steps of offsets. A partition that is hot for an hour has most of its windows in this
hour, so that windows of the same number are of different times. Here the timestamps at which windows begin
and end are taken as points of a curve for each partition, offset over time, and partitions are compared in
intervals of time that each hold the same number of the topic's records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.tally import NEVER

if TYPE_CHECKING:
    from spark_validation.observation import Observation
    from spark_validation.tally import Floats

INTERVALS = 48
"""Intervals of time; a burst that is much shorter than one is not seen."""
FEWEST_TIMES = 4
"""Distinct timestamps for each slice, below which they are too coarse."""
LEAST_MS = 60_000
"""A log that was written in less time shows the batches of its producers, and no bursts."""
OUT_OF_ORDER = 0.1
"""The part of windows that may begin before the one before them has ended, by as much of the whole time."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One partition: for each point its time, and the cell whose density holds up to the next point.

    Attributes:
        partition: The partition.
        times: In milliseconds since 1970, ascending.
        offsets: The offset at each.
        slices: The windows to which the points belong.
    """

    partition: int
    times: Floats
    offsets: Floats
    slices: np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The curves of the partitions that have records, and the time in which all can be compared.

    Attributes:
        curves: By partition.
        partitions: How many the topic has.
        edges: Where intervals of time begin and end, ascending; they hold equally many records.
    """

    curves: tuple[Curve, ...]
    partitions: int
    edges: Floats

    def spread(self, density: Floats) -> Floats:
        """How much of something falls into each interval, by partition and interval.

        Args:
            density: How much of it each offset has, by partition and slice.
        """
        return _spread(self.curves, self.partitions, self.edges, density)


def timeline(seen: Observation) -> Timeline | None:
    """The timeline of a topic; None where timestamps are too coarse, or not in the order of the offsets."""
    curves = [curve for number in range(seen.partitions) if (curve := _curve(seen, number)) is not None]
    if not curves:
        return None
    every = np.concatenate([curve.times for curve in curves])
    start, end = float(every.min()), float(every.max())
    if end - start < LEAST_MS or len(np.unique(every)) < FEWEST_TIMES * seen.layout.slices:
        return None
    if _out_of_order(seen, end - start):
        return None
    most = (end - start) / seen.layout.slices
    starts = [max(_start(seen, curve), start - most) for curve in curves]
    low, high = min(starts), max(min(_end(seen, curve), end + most) for curve in curves)
    # Where retention has removed the start of a partition, earlier times say nothing of it.
    trimmed = [seen.plan.spans[curve.partition].start > 0 for curve in curves]
    whole = tuple(
        _to_the_ends(seen, curve, first if cut else low, high)
        for curve, first, cut in zip(curves, starts, trimmed, strict=True)
    )
    low = max([low, *(first for first, cut in zip(starts, trimmed, strict=True) if cut)])
    if high <= low:
        return None
    return Timeline(whole, seen.partitions, _edges(whole, seen, low, high))


def _curve(seen: Observation, partition: int) -> Curve | None:
    """The curve through the ends of windows."""
    tally = seen.tally
    times: list[float] = []
    offsets: list[float] = []
    slices: list[int] = []
    for window in seen.plan.windows:
        if window.partition != partition:
            continue
        # A slice that was read whole may have records whose times are not known.
        for at, offset in (
            (int(tally.first_ms[partition, window.slice]), window.start),
            (int(tally.last_ms[partition, window.slice]), window.end),
        ):
            if 0 <= at < NEVER:
                times.append(at)
                offsets.append(offset)
                slices.append(window.slice)
    if not times:
        return None
    ascending = np.maximum.accumulate(np.array(times, dtype=np.float64))
    return Curve(partition, ascending, np.array(offsets, dtype=np.float64), np.array(slices))


def _start(seen: Observation, curve: Curve) -> float:
    """When the first offset was written, at the pace from the first window to the second."""
    before = curve.offsets[0] - seen.plan.spans[curve.partition].start
    return float(curve.times[0] - before * _pace(curve.times[:3:2], curve.offsets[:3:2]))


def _end(seen: Observation, curve: Curve) -> float:
    """When the last offset was written, at the pace from the last window but one to the last."""
    after = seen.plan.spans[curve.partition].end - curve.offsets[-1]
    return float(curve.times[-1] + after * _pace(curve.times[-3::2], curve.offsets[-3::2]))


def _to_the_ends(seen: Observation, curve: Curve, low: float, high: float) -> Curve:
    """The curve with the offsets before the first window, and after the last."""
    span = seen.plan.spans[curve.partition]
    return Curve(
        curve.partition,
        np.concatenate(([min(low, curve.times[0])], curve.times, [max(high, curve.times[-1])])),
        np.concatenate(([span.start], curve.offsets, [span.end])),
        np.concatenate((curve.slices[:1], curve.slices, curve.slices[-1:])),
    )


def _pace(times: Floats, offsets: Floats) -> float:
    """Milliseconds for each offset; 0 where there is one window only."""
    steps = float(np.diff(offsets).sum())
    return float(np.diff(times).sum()) / steps if steps else 0.0


def _out_of_order(seen: Observation, whole: float) -> bool:
    """Whether windows begin clearly before the window before them has ended."""
    steps = early = 0
    for partition in range(seen.partitions):
        known = (seen.tally.last_ms[partition] >= 0) & (seen.tally.first_ms[partition] < NEVER)
        held = np.flatnonzero(known)
        first, last = seen.tally.first_ms[partition, held], seen.tally.last_ms[partition, held]
        steps += max(0, len(held) - 1)
        early += int(np.count_nonzero(last[:-1] - first[1:] > OUT_OF_ORDER * whole))
    return early > OUT_OF_ORDER * steps


def _edges(curves: tuple[Curve, ...], seen: Observation, low: float, high: float) -> Floats:
    points = np.unique(np.concatenate([[low, high], *[curve.times for curve in curves]]).clip(low, high))
    ones = np.ones((seen.partitions, seen.layout.slices))
    in_each = _spread(curves, seen.partitions, points, ones).sum(axis=0)
    total = np.concatenate(([0.0], np.cumsum(in_each)))
    edges = np.interp(np.linspace(0, total[-1], INTERVALS + 1), total, points)
    return np.asarray(np.unique(edges), dtype=np.float64)


def _spread(curves: tuple[Curve, ...], partitions: int, edges: Floats, density: Floats) -> Floats:
    found = np.zeros((partitions, len(edges) - 1))
    for curve in curves:
        at = density[curve.partition, curve.slices]
        # Between two windows neither is nearer: the mean of both.
        steps = np.diff(curve.offsets) * (at[:-1] + at[1:]) / 2
        so_far = np.concatenate(([0.0], np.cumsum(steps)))
        found[curve.partition] = np.diff(np.interp(edges, curve.times, so_far))
    return found
