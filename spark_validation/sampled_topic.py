"""A sampled topic as a diagnosis sees it: its estimates, the counts they come from, and words for both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spark_validation.arrivals import EVEN_RATIO, FEWEST_RECORDS, Spread, judge_spread
from spark_validation.imbalance import chance_limit, expected_ratio
from spark_validation.key_counts import HotKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.hashing import Int64s
    from spark_validation.key_counts import CountsLayout, Floats, KeyCounts
    from spark_validation.results import Estimate, HotKeyResult, TopicResult
    from spark_validation.windows import SamplePlan

NULLS_WORTH_NAMING = 0.01
"""The share of records without a key from which they are a cause: one in a hundred is no stray producer."""
SURELY = 1 + (EVEN_RATIO - 1) / 2
"""The lower bound that the ratio must have besides: half of the excess is then no sampling error."""
MOST_BY_CHANCE = 1.5
"""Up to this ratio, what so many equal keys make by chance is as even as these keys can be. Beyond it, they
are too few for the partitions."""
STANDS_OUT = 3.0
"""A key is hot if its share is so many times that of the average key less frequent than it: equal keys,
however few, are not."""
LEAST_LIFT = 0.05
"""And if it alone fills a partition by this part of the mean: what is below is not seen in any ratio."""
MEASURES = ("records", "bytes")
CountBetween: TypeAlias = "Callable[[int, int], Sequence[int] | None]"
"""See `analysis.LogFacts.count_between`."""


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of a topic's partition count that was recorded.

    Attributes:
        before: The partition count before.
        after: The count after.
        since_ms: When it took place at the earliest, in milliseconds since 1970.
        until_ms: When at the latest.
        source: What recorded it, such as `the audit record`.
    """

    before: int
    after: int
    since_ms: int
    until_ms: int
    source: str


@dataclass(frozen=True, eq=False)
class SampledTopic:
    """One topic as its sample shows it.

    Attributes:
        result: The estimates.
        counts: The counts.
        plan: What was read.
        layout: How the counts are laid out.
        partition_changes: Changes of the partition count that were recorded, in the order of time.
        count_between: Counts what was written between two times; None where that cannot be asked.
    """

    result: TopicResult
    counts: KeyCounts
    plan: SamplePlan
    layout: CountsLayout
    partition_changes: tuple[PartitionChange, ...] = ()
    count_between: CountBetween | None = None

    @property
    def partitions(self) -> int:
        """The partition count."""
        return self.layout.partitions

    @cached_property
    def weights(self) -> Floats:
        """For each partition, how many records one record that was read stands for (partitions)."""
        return np.array(self.layout.weights, dtype=np.float64)

    @cached_property
    def keyed(self) -> Floats:
        """Sampled records with a key (partitions by replicates)."""
        return (self.counts.records - self.counts.null_records).astype(np.float64)

    @cached_property
    def offsets(self) -> Floats:
        """Offsets that were read (partitions by replicates): as many records, or fewer in a sparse log."""
        read = np.zeros(self.counts.records.shape)
        for window in self.plan.windows:
            read[window.partition, window.replicate] = window.end - window.start
        return read

    def per_offset(self, counts: Int64s | Floats) -> Floats:
        """Counts (partitions by replicates) over the offsets that were read; 0 where none was."""
        return np.asarray(counts / np.maximum(self.offsets, 1.0), dtype=np.float64)

    def loads(self, by: str) -> Floats:
        """Estimated records or bytes of the topic (partitions), from those that were read."""
        return self.weighted(self.counts.records if by == "records" else self.counts.bytes)

    @property
    def written(self) -> Floats:
        """The records that were written in the period (partitions)."""
        return np.array([partition.records.value for partition in self.result.partitions])

    def nulls(self, by: str) -> Floats:
        """The part of these that has no key (partitions)."""
        return self.weighted(self.counts.null_records if by == "records" else self.counts.null_bytes)

    def of_key(self, key: HotKey, by: str) -> Floats:
        """The part of these that belongs to a key (partitions)."""
        return self.weighted(key.records if by == "records" else key.bytes)

    def weighted(self, counts: Floats | Int64s) -> Floats:
        """Counts (partitions by replicates) as estimates for the topic (partitions)."""
        return np.asarray(counts.sum(axis=1) * self.weights, dtype=np.float64)

    def ratio(self, by: str) -> Estimate:
        """The fullest partition over the mean."""
        imbalance = self.result.by_records if by == "records" else self.result.by_bytes
        return imbalance.max_mean_ratio

    def skewed(self, by: str) -> bool:
        """Return whether partitions are less even than chance makes them.

        The ratio is above EVEN_RATIO, its lower bound above SURELY, and it is more than what so many records
        (`arrivals.judge_spread`) and so many keys of equal weight make by chance in 19 of 20 cases.
        """
        ratio = self.ratio(by)
        if self.partitions < 2 or ratio.value <= EVEN_RATIO or ratio.low <= SURELY:
            return False
        if by == "records" and judge_spread(self.written.round().astype(int).tolist()) is not Spread.UNEVEN:
            return False
        keys = self.result.distinct_keys.value
        if self.result.null_key_share.value > 0.5 or expected_ratio(keys, self.partitions) > MOST_BY_CHANCE:
            return True
        return ratio.value > chance_limit(keys, self.partitions)

    @cached_property
    def spread(self) -> Spread:
        """The verdict on how evenly the records or bytes that were written lie on partitions."""
        if float(self.written.sum()) < FEWEST_RECORDS:
            return Spread.LITTLE
        return Spread.UNEVEN if any(self.skewed(by) for by in MEASURES) else Spread.EVEN

    @cached_property
    def null_dispersion(self) -> float | None:
        """The dispersion of records without a key: about 1 where each has none independently of the others.

        It is far above 1 where producers send such records in batches to one partition after another. None
        where all records, or none, have a key.
        """
        read, nulls = self.counts.records, self.counts.null_records
        found = _dispersion(nulls.reshape(1, -1), read.reshape(1, -1))[0]
        return None if np.isnan(found) else float(found)

    def uncertainty(self, counts: Floats | Int64s) -> Floats:
        """Return the variance of an estimate over its value, for what not every offset has (partitions).

        That is the weight of a record times the dispersion of the records among the offsets that were read:
        far above 1 where stretches of offsets have none, as the log was compacted, transactions were aborted,
        or records without a key came in batches. 0 for a partition where every offset has one.

        Args:
            counts: Records (partitions by replicates).
        """
        dispersion = np.fmax(1.0, _dispersion(counts, self.offsets))
        return np.where((counts == self.offsets).all(axis=1), 0.0, self.weights * dispersion)

    def explained(self, part: Floats, by: str) -> float:
        """The part of the excess of the fullest partition over the mean that goes away with some records.

        (R - R') / (R - 1), cut to 0 … 1, where R is the largest load over the mean load, and R' the same
        without these records; both are taken from the same estimates, so that they can be compared.

        Args:
            part: Estimated records or bytes to leave out (partitions).
            by: `records` or `bytes`.
        """
        loads = self.loads(by)
        excess = max_over_mean(loads) - 1
        remaining = max_over_mean(np.maximum(loads - part, 0.0)) - 1
        return float(np.clip((excess - remaining) / excess, 0.0, 1.0)) if excess > 0 else 0.0

    def fullest(self, by: str) -> int:
        """The partition with the most."""
        return int(np.argmax(self.loads(by)))


def _dispersion(counts: Floats | Int64s, read: Floats | Int64s) -> Floats:
    """Return the variance of counts between windows over the binomial one, for each row of windows.

    This is Pearson's chi-squared statistic over its degrees of freedom. NaN where all or none of what was
    read counts, or where there is one window.
    """
    windows = (read > 0).sum(axis=1)
    total = np.maximum(read.sum(axis=1), 1)
    share = counts.sum(axis=1) / total
    known = (share > 0) & (share < 1) & (windows > 1)
    expected = read * share[:, None]
    squares = (counts - expected) ** 2 / np.where(
        read > 0, np.maximum(expected * (1 - share[:, None]), 1e-12), 1.0
    )
    return np.where(known, squares.sum(axis=1) / np.maximum(windows - 1, 1), np.nan)


def max_over_mean(loads: Floats) -> float:
    """The largest over the mean; 1 where there is nothing."""
    total = float(loads.sum())
    return float(loads.max()) * len(loads) / total if total > 0 else 1.0


def named(key: HotKey | HotKeyResult) -> str:
    """Name a key within a sentence: by the start of its hash, or as the empty key."""
    length = key.length if isinstance(key, HotKey) else key.key_length
    return f"key {key.key_hash}" if length else "the empty key"


def capitalised(text: str) -> str:
    """Return a text for the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    """A share of 0 to 1 with three digits at most."""
    value = 100 * share
    for digits, smallest in ((0, 99.95), (1, 0.95), (2, 0.0095)):
        if value >= smallest:
            text = f"{value:.{digits}f}"
            return f"{text.rstrip('0').rstrip('.') if digits else text} %"
    return "0 %" if value == 0 else "less than 0.01 %"


def times_mean(ratio: float) -> str:
    """A ratio in words."""
    return f"{ratio:.2f} times the mean"


def utc(milliseconds: float, *, within: float = 0.0) -> str:
    """A time such as 2026-11-01 00:00:00 UTC, with milliseconds where they matter.

    Args:
        milliseconds: Since 1970.
        within: The time that it is compared with spans so many milliseconds: below a minute, they matter.
    """
    time = datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    precise = "milliseconds" if 0 < within < 60_000 else "seconds"
    return f"{time.replace(tzinfo=None).isoformat(sep=' ', timespec=precise)} UTC"


def listed(items: list[str], conjunction: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {conjunction} {items[-1]}"
