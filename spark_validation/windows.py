"""The offsets of a topic that are read: windows, spread over every partition and over time.

Every partition is cut into G parts of equal length, and one window lies at a random place in each part. The
g-th windows of all partitions together are the g-th *replicate*: a small sample of the whole topic. This is
replicated sampling (Deming, *Sample Design in Business Research*, 1960; "random groups" in Wolter,
*Introduction to Variance Estimation*, 2nd ed., 2007, chapter 2): how much the replicates differ shows how
precise an estimate is, however records cluster. A partition that is read whole is cut into the same parts,
and its records have a replicate too, but it adds nothing to a standard error.

The JSON report calls replicates `slices`, as its format 1 was made with that name.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOWS = 128
"""Windows of a whole topic, unless its partitions are too many for that: each costs a seek and a task."""
MIN_PER_PARTITION = 4
"""The fewest windows of a partition that show the variance between windows."""
MAX_PER_PARTITION = 16
MAX_PER_PARTITION_LATER = 32
"""The most windows of a partition in a further sample, which has up to twice as many as the one before: where
records come in stretches, the number of windows counts, and not their length."""
SMALLEST = 25
"""The fewest records of a window that are worth its seek."""
MAX_GROWTH = 20
"""The most times the offsets of a sample that the next one has: few records are poor evidence of the rest."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of one partition that an analysis is about.

    Attributes:
        start: The first offset.
        end: The offset after the last.
        log_bytes: Bytes of the whole partition on disk, one replica; None if unknown.
        kept_from: The first offset that the log keeps; None if that is `start`.
        kept_since_ms: The time of the record there, in milliseconds since 1970; None if unknown.
        readable_from: The first offset to read; None for the first that is kept. Compaction has removed
            records before it: those that are left do not represent what was written.
    """

    partition: int
    start: int
    end: int
    log_bytes: int | None = None
    kept_from: int | None = None
    kept_since_ms: int | None = None
    readable_from: int | None = None

    @property
    def records(self) -> int:
        """Offsets in the span: so many records, or fewer where some are compacted away or are markers."""
        return max(0, self.end - self.start)

    @property
    def first(self) -> int:
        """The first offset that may be read."""
        return max(self.start, self.kept_from or 0, self.readable_from or 0)

    @property
    def readable(self) -> int:
        """Offsets that may be read."""
        return max(0, self.end - self.first)


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets that are read: `start` up to, and without, `end`, by replicate number `replicate`."""

    partition: int
    replicate: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """The offsets that are read of one topic.

    Attributes:
        spans: One for each partition, by number, without a gap.
        replicates: The number of replicates.
        windows: By partition and replicate. The windows of a partition are of equal length (to one record).
        seed: The seed of the random places.
    """

    spans: tuple[Span, ...]
    replicates: int
    windows: tuple[Window, ...]
    seed: int

    @property
    def records(self) -> int:
        """Offsets that are read."""
        return sum(window.end - window.start for window in self.windows)

    @property
    def full(self) -> bool:
        """Return whether every offset that may be read is read."""
        return self.records == sum(span.readable for span in self.spans)

    @property
    def read_whole(self) -> tuple[bool, ...]:
        """For each partition, whether it is read whole, so that nothing is estimated there."""
        read = self.offsets_read
        return tuple(read[span.partition] == span.records for span in self.spans)

    @property
    def offsets_read(self) -> tuple[int, ...]:
        """The number of offsets that are read of each partition."""
        read = [0] * len(self.spans)
        for window in self.windows:
            read[window.partition] += window.end - window.start
        return tuple(read)

    @property
    def weights(self) -> tuple[float, ...]:
        """The number of records that one read stands for, by partition; 0 where none is read."""
        return tuple(
            span.records / read if read else 0.0
            for span, read in zip(self.spans, self.offsets_read, strict=True)
        )


def plan_windows(spans: Sequence[Span], *, records: int, seed: int) -> SamplePlan:
    """Choose windows: from each partition in proportion to its length, all of a partition that is short.

    Args:
        spans: One for each partition, by number, without a gap.
        records: The number of records wanted; a topic that has no more is read whole.
        seed: The same seed and spans give the same windows.
    """
    total = sum(span.readable for span in spans)
    share = min(1.0, records / total) if total else 1.0
    filled = sum(1 for span in spans if span.readable)
    # About WINDOWS in all; above 32 partitions more, as each has at least MIN_PER_PARTITION.
    replicates = max(MIN_PER_PARTITION, min(MAX_PER_PARTITION, WINDOWS // max(1, filled)))
    wanted = [max(round(span.readable * share), SMALLEST * replicates) for span in spans]
    return _place_windows(spans, replicates, wanted, seed)


def larger_plan(plan: SamplePlan, sampled: Sequence[int], *, share: float) -> SamplePlan:
    """Choose more and longer windows, where a first sample had too few records.

    Offsets may have no record: those of compacted and aborted records, and of transaction markers. So more is
    read of a partition where windows would have fewer than SMALLEST records.

    Args:
        plan: The plan that was read.
        sampled: The records that were read (partitions).
        share: The part of every partition that is wanted; none gets more than MAX_GROWTH times its offsets.
    """
    records_each = (
        share * sum(map(operator.mul, plan.weights, sampled)) / max(1, np.count_nonzero(plan.weights))
    )
    fitting = min(MAX_PER_PARTITION_LATER, 2 * plan.replicates, int(records_each / SMALLEST))
    replicates = max(plan.replicates, fitting)
    least = SMALLEST * replicates
    wanted = [
        min(
            MAX_GROWTH * offsets,
            max(
                math.ceil(span.readable * share),
                # Without a record, the density is unknown, and as much is read as may be.
                offsets * max(1, -(-least // records)) if records else span.readable,
            ),
        )
        for span, offsets, records in zip(plan.spans, plan.offsets_read, sampled, strict=True)
    ]
    return _place_windows(plan.spans, replicates, wanted, plan.seed)


def _place_windows(spans: Sequence[Span], replicates: int, wanted: Sequence[int], seed: int) -> SamplePlan:
    """Place windows at random that have as many offsets of each partition as are wanted."""
    chosen: list[Window] = []
    # One generator for all partitions: with the seed anew for each, equal logs would get equal places, and
    # the windows of a replicate would share what is special about one time.
    random = np.random.default_rng(seed)
    for span, offsets in zip(spans, wanted, strict=True):
        # Reading all of it is cheaper than skipping so little between windows.
        read_whole = offsets * 10 >= span.readable * 9
        chosen += _place_in_span(span, replicates, span.readable if read_whole else offsets, random)
    return SamplePlan(tuple(spans), replicates, tuple(chosen), seed)


def _place_in_span(span: Span, replicates: int, wanted: int, random: np.random.Generator) -> list[Window]:
    """Place one window in each part of a partition; together they have `wanted` offsets, or a few less."""
    # In whole numbers: the parts differ by one offset at most, and none is left out between them.
    edges = [span.first + span.readable * number // replicates for number in range(replicates + 1)]
    if wanted == span.readable:
        return [
            Window(span.partition, number, start, end)
            for number, (start, end) in enumerate(itertools.pairwise(edges))
            if end > start
        ]
    size = wanted // replicates
    windows = []
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        # integers() excludes its upper end, so that the last place at which a window fits counts, too.
        first = start + int(random.integers(0, end - start - size + 1))
        windows.append(Window(span.partition, number, first, first + size))
    return windows
