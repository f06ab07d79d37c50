"""The history of a part of a topic's records, such as those of a key: since when and until when it was large.

The intervals of a timeline are divided where the part's share of the records changes most, and both sides
again, as long as chance does not explain the change (binary segmentation: Scott and Knott 1974; Vostrikova
1981). A level is high from half of the highest level on.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spark_validation.causes_burst import Timeline, count_share, sum_part
from spark_validation.sampled_topic import MEASURES, MIN_HOT_KEY_LIFT, SampledTopic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_validation.hashing import Int64s
    from spark_validation.key_counts import Floats

MIN_CHANGE_DEVIATIONS = 6.0
"""A change must be so many standard deviations above what chance gives."""
MIN_LEVEL_RATIO = 1.25
"""The least quotient of two levels that are told apart."""
HIGH_LEVEL_FRACTION = 0.4
"""From this part of the highest level on, a level is high."""
BY_OFFSETS_UNIT = 2.0
"""The variance of records that offsets show over their number: their own, and that of the others there."""
MIN_PEAK_SHARE = 0.1
"""The highest level has at least this part of the records, with those above it."""
MAX_ABSENCE_RATIO = 2.0
"""What came back has ended when it is away so many times as long as it was before."""
_MEDIAN_OF_SQUARE = 0.4549


@dataclass(frozen=True, slots=True)
class ShareHistory:
    """The history of a part of the records.

    Attributes:
        now: Its share in what is written now, since its level last changed; of what comes back, its share
            when it is there.
        since_ms: When it began to be high, in milliseconds since 1970; None if it always was, or comes back.
        until_ms: When it ended to be high; None if it is, or comes back.
        times: How often it was high, with lower levels between.
        overall: Its share in the whole period.
    """

    now: float
    overall: float
    since_ms: int | None = None
    until_ms: int | None = None
    times: int = 1

    @property
    def changed(self) -> bool:
        """Return whether its share is another one now than overall; not where no interval of time has it."""
        return self.overall > 0 and not 1 / MIN_LEVEL_RATIO < self.now / self.overall < MIN_LEVEL_RATIO


Histories: TypeAlias = "Mapping[str, Mapping[str, ShareHistory]]"
"""By `records` and `bytes`, the histories of frequent keys whose share is another one now, by hash."""


def trace_keys(topic: SampledTopic, line: Timeline | None) -> Histories:
    """Return the histories of frequent keys whose share is another one now; none without a timeline."""
    if line is None:
        return {}
    traced = {}
    for by in MEASURES:
        whole, least = getattr(topic.counts, by), MIN_HOT_KEY_LIFT * float(topic.loads(by).mean())
        traced[by] = {
            key.key_hash: history
            for key in topic.counts.hot
            if float(topic.key_loads(key, by).sum()) >= least
            and (history := trace(topic, line, getattr(key, by), whole, key.mean_size(by))).changed
        }
    return {by: histories for by, histories in traced.items() if histories}


def trace(
    topic: SampledTopic, line: Timeline, part: Floats | Int64s, whole: Floats | Int64s, size: float = 1.0
) -> ShareHistory:
    """Return the history of a part of the records or bytes.

    Args:
        part: What was read of the part (partitions by replicates).
        whole: What was read of all (partitions by replicates).
        size: The size of a record of the part: its bytes, or 1 where records are counted.
    """
    part_sums, by_offsets = sum_part(topic, line, part, whole)
    whole_sums, records = (line.sum_all(topic, counts) for counts in (whole, topic.counts.records))
    parts, wholes = part_sums.sum(axis=0), whole_sums.sum(axis=0)
    overall = float(parts.sum()) / max(float(wholes.sum()), 1e-12)
    unit = BY_OFFSETS_UNIT if by_offsets else _unit(topic, line, part / size, whole / size)
    levels = [*_divide(parts, wholes, 0, len(parts), size * unit)]
    if len(levels) == 1:
        return ShareHistory(overall, overall)
    shares = [_share(parts, wholes, start, end) for start, end in levels]
    # A single high interval with few of the records is no level of the others.
    falling = np.argsort(shares)[::-1]
    upto = np.cumsum([parts[slice(*levels[number])].sum() for number in falling])
    top = shares[falling[int(np.argmax(upto >= MIN_PEAK_SHARE * upto[-1]))]]
    high = [share >= HIGH_LEVEL_FRACTION * top for share in shares]
    # The stretches of high and of lower levels in turn: where each begins and ends.
    runs = [
        (is_high, [level for level, _ in run])
        for is_high, run in groupby(zip(levels, high, strict=True), key=lambda entry: entry[1])
    ]
    there = [(run[0][0], run[-1][1]) for is_high, run in runs if is_high]
    edges = line.edges
    away = [float(edges[after] - edges[end]) for (_, end), (after, _) in pairwise(there)]
    is_high, last = runs[-1][0], runs[-1][1][0][0]
    if len(there) > 1 and (is_high or edges[-1] - edges[last] <= MAX_ABSENCE_RATIO * max(away)):
        when = np.concatenate([np.arange(start, end) for start, end in there])
        return ShareHistory(float(parts[when].sum() / wholes[when].sum()), overall, times=len(there))
    now = count_share(topic, line, levels[-1], part_sums, whole_sums, records)
    return ShareHistory(
        shares[-1] if now is None else now,
        overall,
        int(edges[there[0][0]]) if there[0][0] else None,
        None if is_high else int(edges[last]),
        len(there),
    )


def _divide(parts: Floats, wholes: Floats, start: int, end: int, unit: float) -> Iterator[tuple[int, int]]:
    """Divide intervals into levels; yield where each begins and ends."""
    at = np.arange(start + 1, end)
    if len(at):
        upto, of = (np.cumsum(values[start:end]) for values in (parts, wholes))
        part, whole = max(float(upto[-1]), 1e-12), max(float(of[-1]), 1e-12)
        left, right = (upto[:-1], of[:-1]), (upto[-1] - upto[:-1], of[-1] - of[:-1])
        # The logarithm of the likelihood ratio of two Poisson rates against one.
        gains = sum(_log_likelihood(own, out_of) for own, out_of in (left, right)) - part * np.log(
            part / whole
        )
        best = int(np.argmax(gains))
        rates = sorted(float(own[best]) / max(float(out_of[best]), 1e-12) for own, out_of in (left, right))
        if gains[best] > MIN_CHANGE_DEVIATIONS**2 / 2 * unit and rates[1] >= MIN_LEVEL_RATIO * rates[0]:
            yield from _divide(parts, wholes, start, int(at[best]), unit)
            yield from _divide(parts, wholes, int(at[best]), end, unit)
            return
    yield start, end


def _log_likelihood(part: Floats, whole: Floats) -> Floats:
    return np.asarray(part * np.log(np.maximum(part, 1e-12) / np.maximum(whole, 1e-12)))


def _share(parts: Floats, wholes: Floats, start: int, end: int) -> float:
    """Return the share at a level, without the intervals at its ends where it may begin or end within."""
    inner = slice(start + (start > 0), end - (end < len(parts)))
    if float(wholes[inner].sum()) < float(wholes[start:end].sum()) / 2:
        inner = slice(start, end)
    return float(parts[inner].sum()) / max(float(wholes[inner].sum()), 1e-12)


def _unit(topic: SampledTopic, line: Timeline, part: Floats | Int64s, whole: Floats | Int64s) -> float:
    """Return the variance of an estimate of the part over its value.

    By the differences of neighbouring windows of the partition that has most of it: their median, which a few
    changes of the level do not affect.
    """
    on = int(np.argmax(part.sum(axis=1)))
    read = whole[on] > 0
    own, of = part[on, read].astype(np.float64), whole[on, read].astype(np.float64)
    share = float(own.sum()) / max(1.0, float(of.sum()))
    if line.exact or len(own) < 2 or not 0 < share < 1:
        return float(topic.weights[on])
    chance = share * (1 - share) * (1 / of[1:] + 1 / of[:-1])
    dispersion = float(np.median(np.diff(own / of) ** 2 / chance)) / _MEDIAN_OF_SQUARE
    return float(topic.weights[on]) * max(1.0, dispersion)
