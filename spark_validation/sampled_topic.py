"""A sampled topic: its estimates, and the counts that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spark_validation.arrivals import EVEN_RATIO, Spread, judge_spread
from spark_validation.imbalance import chance_limit, expected_ratio
from spark_validation.key_counts import CountsLayout, Floats, HotKey, KeyCounts, estimate_squares
from spark_validation.policy import MIN_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.hashing import Int64s
    from spark_validation.results import Estimate, PartitionChange, TopicResult
    from spark_validation.windows import SamplePlan

NULLS_WORTH_NAMING = 0.01
"""The share of records without a key from which they are a cause: one in a hundred is no stray producer."""
SURELY = 1 + (EVEN_RATIO - 1) / 2
"""The least lower bound of an uneven ratio: half of the excess is then no sampling error."""
MAX_CHANCE_RATIO = 1.5
"""Up to this ratio, what so many equal keys make by chance is as even as these keys can be. Beyond it, they
are too few for the partitions."""
CHANCE_IS_ENOUGH = 0.5
"""The part of the excess that the number of keys alone must explain by chance."""
STANDS_OUT = 3.0
"""A key is hot if its share is so many times that of the average key less frequent than it: equal keys,
however few, are not."""
MIN_HOT_KEY_LIFT = 0.05
"""A hot key must also alone fill a partition to this part of the mean: less shows in no ratio."""
CLUMPED = 3.0
"""From this dispersion on (`dispersion`), records come in batches."""
ENOUGH_EXPLAINED_SHARE = 0.75
"""Keys are added, largest first, until they explain this part of the excess."""
WORTH_NAMING = 0.25
"""Keys that explain less of the excess are no cause of it."""
MIN_RECORDS_OF_KEY = 5
"""A key with fewer records in the sample is not hot: no split divides one large record."""
MANY_KEYS_PER_PARTITION = 20
"""So many keys for each partition are not few, though the fullest of many is far above the mean."""
MEASURES = ("records", "bytes")
CountBetween: TypeAlias = "Callable[[int, int], Sequence[int] | None]"
"""The type of `analysis.LogFacts.count_between`."""
OffsetsAt: TypeAlias = "Callable[[int], Sequence[int] | None]"
"""The type of `analysis.LogFacts.offsets_at`."""


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The fewest keys that explain the skew.

    Attributes:
        keys: Largest first.
        shares: Of the topic's records or bytes, alike.
        by: `records` or `bytes`.
        explains: The part of the excess that goes with them (`SampledTopic.explain_excess`).
    """

    keys: tuple[HotKey, ...]
    shares: tuple[float, ...]
    by: str
    explains: float


@dataclass(frozen=True, eq=False)
class SampledTopic:
    """A topic with its sample.

    Attributes:
        plan: The windows that were read.
        layout: The layout of the counts.
        partition_changes: Changes of the partition count that were recorded, in the order of time.
        count_between: Counts the records written between two times; None if the cluster cannot be asked.
        offsets_at: Finds the first offsets that are not older than a time; None likewise.
    """

    result: TopicResult
    counts: KeyCounts
    plan: SamplePlan
    layout: CountsLayout
    partition_changes: tuple[PartitionChange, ...] = ()
    count_between: CountBetween | None = None
    offsets_at: OffsetsAt | None = None

    @property
    def partitions(self) -> int:
        """The topic's partition count."""
        return self.layout.partitions

    @cached_property
    def weights(self) -> Floats:
        """The number of records that one record read stands for (partitions)."""
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
        """Return counts per offset that was read (partitions by replicates); 0 where none was."""
        return np.asarray(counts / np.maximum(self.offsets, 1.0), dtype=np.float64)

    def loads(self, by: str) -> Floats:
        """Estimate the records or bytes of the topic from those that were read (partitions)."""
        return self.weigh(self.counts.records if by == "records" else self.counts.bytes)

    @property
    def written(self) -> Floats:
        """The records that were written in the period (partitions)."""
        return np.array([partition.records.value for partition in self.result.partitions])

    def nulls(self, by: str) -> Floats:
        """Estimate the records or bytes without a key (partitions)."""
        return self.weigh(self.counts.null_records if by == "records" else self.counts.null_bytes)

    def key_loads(self, key: HotKey, by: str) -> Floats:
        """Estimate the records or bytes of a key (partitions)."""
        return self.weigh(key.records if by == "records" else key.bytes)

    def weigh(self, counts: Floats | Int64s) -> Floats:
        """Return counts (partitions by replicates) as estimates for the topic (partitions)."""
        return np.asarray(counts.sum(axis=1) * self.weights, dtype=np.float64)

    def ratio(self, by: str) -> Estimate:
        """Return the fullest partition over the mean."""
        imbalance = self.result.by_records if by == "records" else self.result.by_bytes
        return imbalance.max_mean_ratio

    def skewed(self, by: str) -> bool:
        """Return whether partitions are less even than chance makes them.

        The ratio is above EVEN_RATIO, its lower bound above SURELY, and it is more than what so many records
        (`arrivals.judge_spread`) and keys of these sizes (`chance_limit`) make by chance.
        """
        ratio = self.ratio(by)
        if self.partitions < 2 or ratio.value <= EVEN_RATIO or ratio.low <= SURELY:
            return False
        if by == "records" and judge_spread(self.written.round().astype(int).tolist()) is not Spread.UNEVEN:
            return False
        # Mostly without keys, or with too few of them, chance is no excuse for a skew; nor for a hot key's.
        if self.result.null_key_share.value > 0.5 or self.has_few_keys:
            return True
        hot = self.hot_keys[by]
        if hot is not None and hot.explains > 1 - CHANCE_IS_ENOUGH and self.is_large(hot.keys[0], by):
            return True
        return ratio.value > self.chance_limit(by)

    @property
    def has_few_keys(self) -> bool:
        """Return whether keys are too few for the partitions, so that chance alone makes these uneven."""
        keys = self.result.distinct_keys.value
        return (
            keys < MANY_KEYS_PER_PARTITION * self.partitions
            and expected_ratio(keys, self.partitions) > MAX_CHANCE_RATIO
        )

    def chance_limit(self, by: str) -> float:
        """Return the ratio that keys but the large ones exceed by chance in one of 100 cases."""
        return self._chance_limits[by]

    @cached_property
    def _chance_limits(self) -> dict[str, float]:
        return {by: self._find_chance_limit(by) for by in MEASURES}

    def is_large(self, key: HotKey, by: str) -> bool:
        """Return whether a key alone makes its partition uneven."""
        load, mean = float(self.key_loads(key, by).sum()), float(self.loads(by).mean())
        return load > (EVEN_RATIO - 1) * mean and bool(key.records.sum() >= MIN_RECORDS_OF_KEY)

    def _find_chance_limit(self, by: str) -> float:
        keyed = float((self.loads(by) - self.nulls(by)).sum())
        squares = float(self.counts.squares[MEASURES.index(by)])
        large, single, whole = [], 0.0, self.plan.full
        for key in self.counts.hot:
            is_large = self.is_large(key, by)
            # What is known of a key from a few sampled records is in the squares.
            if not is_large and not whole and key.records.sum() < MIN_RECORDS_OF_KEY:
                if key.records.sum() == 1:
                    single = max(single, float(self.key_loads(key, by).sum()))
                continue
            load = float(self.key_loads(key, by).sum())
            keyed -= load
            squares -= float(estimate_squares(getattr(key, by), self.weights).sum())
            large += [] if is_large else [load]
        # So many equal keys have the same sum of squares (Kish, *Survey Sampling*, 1965).
        keyed = max(keyed, 0.0)
        keys = max(1.0, min(self.result.distinct_keys.value, keyed**2 / max(squares, 1e-12)))
        limit = chance_limit(np.array(large), keys, keyed, self.partitions)
        # A key that was sampled once stands for many, and chance puts it beside others, too.
        return max(limit, single and 1 + single / float(self.loads(by).mean()))

    @cached_property
    def hot_keys(self) -> dict[str, HotKeys | None]:
        """By `records` and `bytes`, the few keys that explain the skew; None where none do."""
        return {by: self._find_hot_keys(by) for by in MEASURES}

    def _find_hot_keys(self, by: str) -> HotKeys | None:
        chosen: list[HotKey] = []
        shares: list[float] = []
        part: Floats | None = None
        best: HotKeys | None = None
        for key, share in self._find_prominent_keys(by):
            chosen.append(key)
            shares.append(share)
            load = self.key_loads(key, by)
            part = load if part is None else part + load
            explains = self.explain_excess(part, by)
            # A further key on other partitions lowers the mean alone, and explains no more.
            if best is None or explains > best.explains:
                best = HotKeys(tuple(chosen), tuple(shares), by, explains)
            if explains >= ENOUGH_EXPLAINED_SHARE:
                break
        return best if best is not None and best.explains >= WORTH_NAMING else None

    def _find_prominent_keys(self, by: str) -> list[tuple[HotKey, float]]:
        """Return the keys that are far larger than most, with their shares, largest first."""
        total = float(self.loads(by).sum())
        if total <= 0:
            return []
        shares = [(key, float(self.key_loads(key, by).sum()) / total) for key in self.counts.hot]
        shares.sort(key=lambda entry: (-entry[1], entry[0].digest))
        remaining = 1 - float(self.nulls(by).sum()) / total
        # The estimate must not be below the keys that were seen.
        distinct = max(self.result.distinct_keys.value, len(shares))
        prominent = []
        for number, (key, share) in enumerate(shares, start=1):
            remaining -= share
            average = max(remaining, 0.0) / (distinct - number) if distinct > number else 0.0
            if share < STANDS_OUT * average or share * self.partitions < MIN_HOT_KEY_LIFT:
                break
            if key.records.sum() >= MIN_RECORDS_OF_KEY:
                prominent.append((key, share))
        return prominent

    @cached_property
    def spread(self) -> Spread:
        """The verdict on how evenly the records or bytes that were written lie on partitions."""
        if float(self.written.sum()) < MIN_RECORDS:
            return Spread.LITTLE
        return Spread.UNEVEN if any(self.skewed(by) for by in MEASURES) else Spread.EVEN

    @cached_property
    def null_dispersion(self) -> float | None:
        """The dispersion of records without a key: about 1 where each has none independently of the others.

        It is far above 1 where producers send such records in batches to one partition after another. None
        where all records, or none, have a key.
        """
        read, nulls = self.counts.records, self.counts.null_records
        clumping = dispersion(nulls.reshape(1, -1), read.reshape(1, -1))[0]
        return None if np.isnan(clumping) else float(clumping)

    def uncertainty(self, counts: Floats | Int64s) -> Floats:
        """Return the variance of an estimate over its value, for what not every offset has (partitions).

        That is the weight of a record times the dispersion of the records among the offsets that were read:
        far above 1 where stretches of offsets have none, as the log was compacted, transactions were aborted,
        or records without a key came in batches. 0 for a partition where every offset has one.

        Args:
            counts: Records (partitions by replicates).
        """
        # fmax ignores NaN, which stands for a partition where nothing varies.
        varies = np.fmax(1.0, dispersion(counts, self.offsets))
        return np.where((counts == self.offsets).all(axis=1), 0.0, self.weights * varies)

    def explain_excess(self, part: Floats, by: str) -> float:
        """Return the part of the fullest partition's excess over the mean that goes away with some records.

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
        """Return the number of the fullest partition, whether its records could be read or not."""
        return max(self.result.partitions, key=lambda partition: getattr(partition, by).value).partition


def dispersion(counts: Floats | Int64s, read: Floats | Int64s) -> Floats:
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
    """Return the largest over the mean; 1 where there is nothing."""
    total = float(loads.sum())
    return float(loads.max()) * len(loads) / total if total > 0 else 1.0
