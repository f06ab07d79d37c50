"""Estimates of partitions, hot keys and distinct keys, with their intervals.

No estimator of distinct keys is good for all topics: for some, any estimate from a part r of the records is
wrong by a factor of the root of 1 / r (Charikar, Chaudhuri, Motwani and Narasayya 2000, "Towards Estimation
Error Guarantees for Distinct Values"). So their interval is wide on purpose.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from spark_validation import intervals
from spark_validation.results import Estimate, HotKeyResult, PartitionResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.intervals import ReplicatedTotals, Weighting
    from spark_validation.key_counts import Floats, HotKey, KeyCounts
    from spark_validation.windows import SamplePlan


MAX_HOT_KEYS = 20
"""The number of frequent keys that are shown."""
CHOSEN_BY_CHANCE = 100
"""A key with fewer records in the sample may look frequent by chance. With so many, its share is off by a
tenth at most by chance, which an interval from the differences between windows allows for."""


def estimate_totals(
    counts: KeyCounts, weighting: Weighting, exact: Sequence[int] | None = None
) -> tuple[ReplicatedTotals, ReplicatedTotals]:
    """Estimate the records and the bytes of partitions.

    Where offsets count the records, the bytes of a record that was read stand for those of all that were
    written to its partition (ratio estimation: Cochran 1977, chapter 6). Where none is left to be read, those
    of the mean record of all partitions do.

    Args:
        counts: The counts of the sample.
        weighting: The weights of the sample.
        exact: The records that were written (partitions); None where those read estimate them.
    """
    records, size = weighting.estimate_partitions(counts.records), weighting.estimate_partitions(counts.bytes)
    if exact is None:
        return records, size
    known = np.array(exact, dtype=np.float64)
    factors = np.divide(known, records.total, out=np.zeros(len(known)), where=records.total > 0)
    # What is known is the same without any replicate: its standard error is 0.
    without = np.repeat(known[:, None], records.replicates, axis=1)
    unread = np.where(records.total > 0, 0.0, known)
    mean = float(size.total.sum()) / max(1e-12, float(records.total.sum()))
    mean_without = size.without.sum(axis=0) / np.maximum(1e-12, records.without.sum(axis=0))
    return (
        records.replace_values(known, without),
        size.replace_values(
            size.total * factors + unread * mean,
            size.without * factors[:, None] + unread[:, None] * mean_without,
        ),
    )


def estimate_partitions(
    counts: KeyCounts, plan: SamplePlan, weighting: Weighting, exact: Sequence[int] | None = None
) -> tuple[PartitionResult, ...]:
    """Estimate every partition; arguments as of `estimate_totals`."""
    records, size = estimate_totals(counts, weighting, exact)
    shares, byte_shares = records / records.sum, size / size.sum
    sampled, read = counts.records.sum(axis=1), plan.offsets_read
    return tuple(
        PartitionResult(
            partition=number,
            log_records=span.records,
            log_bytes=span.log_bytes,
            start_offset=span.start,
            end_offset=span.end,
            sampled_records=int(sampled[number]),
            records=Estimate.exact(float(records.total[number]))
            if exact is not None
            else _estimate_records(records[number], span.records, int(sampled[number]), read[number]),
            share=intervals.share_interval(shares[number]),
            bytes=intervals.positive_interval(size[number]),
            byte_share=intervals.share_interval(byte_shares[number]),
            null_records=int(counts.null_records[number].sum()),
            distinct_keys=int(counts.keys[number]),
            kept_from=span.kept_from,
            kept_since_ms=span.kept_since_ms,
        )
        for number, span in enumerate(plan.spans)
    )


def _estimate_records(total: ReplicatedTotals, offsets: int, sampled: int, read: int) -> Estimate:
    """Estimate a partition's records: offsets that were compacted away, or end a transaction, have none."""
    if read == offsets or sampled == read:
        return Estimate.exact(float(offsets if sampled == read else sampled))
    density = total.replace_values(total.total / offsets, total.without / offsets)
    # Each replicate has one window in the partition: so many bound a density of 0 or 1.
    share = intervals.share_interval(density, total.replicates)
    value = share.value * offsets
    # The partition has at least the records that were read.
    return Estimate(value, min(value, max(share.low * offsets, float(sampled))), share.high * offsets)


def estimate_null_share(counts: KeyCounts, weighting: Weighting) -> Estimate:
    """Estimate the share of records without a key."""
    share = weighting.whole(counts.null_records) / weighting.whole(counts.records)
    return intervals.share_interval(share, weighting.windows if counts.records.any() else 0)


def estimate_hot_keys(counts: KeyCounts, weighting: Weighting) -> tuple[HotKeyResult, ...]:
    """Estimate the keys with the largest shares of records or of bytes, most records first."""
    records, size = weighting.whole(counts.records), weighting.whole(counts.bytes)
    by_replicate = (counts.records * weighting.weights[:, None]).sum(axis=0)
    read = max(float(records.total), 1e-12), max(float(size.total), 1e-12)

    def larger_share(key: HotKey) -> float:
        loads = (counted.sum(axis=1) @ weighting.weights for counted in (key.records, key.bytes))
        return max(float(part) / whole for part, whole in zip(loads, read, strict=True))

    # How far a Poisson count may be below what it should be, in one of so many keys (Boole's inequality).
    farthest = NormalDist().inv_cdf(1.0 - intervals.TAIL / max(2, counts.distinct))
    # Intervals only for those that are shown: there may be a thousand topics.
    chosen = sorted(counts.hot, key=lambda key: (-larger_share(key), key.digest))[:MAX_HOT_KEYS]
    results = [_estimate_hot_key(key, records, size, by_replicate, weighting, farthest) for key in chosen]
    return tuple(sorted(results, key=lambda key: (-key.share.value, key.key_hash)))


def _estimate_hot_key(
    key: HotKey,
    records: ReplicatedTotals,
    size: ReplicatedTotals,
    by_replicate: Floats,
    weighting: Weighting,
    farthest: float,
) -> HotKeyResult:
    share = intervals.share_interval(weighting.whole(key.records) / records, weighting.windows)
    byte_share = intervals.share_interval(weighting.whole(key.bytes) / size, weighting.windows)
    read = int(key.records.sum())
    if read < CHOSEN_BY_CHANCE and weighting.fraction < 1.0:
        share = _allow_for_choice(share, read, farthest)
        byte_share = _allow_for_choice(byte_share, read, farthest)
    own = (key.records * weighting.weights[:, None]).sum(axis=0)
    # By replicates: `analysis` replaces it where timestamps show when the key was hot.
    peak = float(np.divide(own, by_replicate, out=np.zeros(len(own)), where=by_replicate > 0).max())
    by_partition = key.records.sum(axis=1)
    order = np.argsort(-by_partition, kind="stable")[: np.count_nonzero(by_partition)]
    return HotKeyResult(
        key_hash=key.key_hash,
        key_length=key.length,
        # Keys are any bytes: what is no text is written by its codes.
        key=None if key.key is None else key.key.decode("utf-8", "backslashreplace"),
        share=share,
        byte_share=byte_share,
        partitions=tuple(order.tolist()),
        slices_seen=int(np.count_nonzero(key.records.sum(axis=0))),
        peak=peak / share.value if share.value > 0 else 0.0,
    )


def _allow_for_choice(share: Estimate, read: int, farthest: float) -> Estimate:
    """Lower the lower end for a key that may be shown because chance brought many of its records.

    Of all keys in the sample, the ones that look the most frequent are shown. The root of a Poisson count
    has a standard deviation of a half (Anscombe 1948), so that a key with `read` records may well have
    (root - farthest / 2)² to be expected.
    """
    least = max(0.0, math.sqrt(read) - farthest / 2) ** 2 / max(1, read)
    return Estimate(share.value, min(share.low, share.value * least), share.high)


def estimate_distinct_keys(counts: KeyCounts, weighting: Weighting) -> Estimate:
    """Estimate the distinct keys of the topic.

    Two estimators fit two kinds of topics. By records (Chao 1984: keys with one record in the sample, against
    those with two) fits where a key's records cluster in time; by replicates (Chao 1987: keys in one
    replicate, against those in two) fits where keys come and go within a window. The value is their geometric
    mean: they agree where keys are spread evenly. The lower end is that of the lower estimate. The upper end
    holds for every distribution, in expectation (Charikar et al. 2000, with replicates in the place of
    records): each key of only one replicate stands for 1 / fraction keys, the fraction being the part of the
    offsets that was read. Where that part is not known, it is the upper limit of the higher estimate.
    """
    seen = counts.distinct
    if weighting.fraction >= 1.0:
        return Estimate.exact(float(seen))
    read = int(counts.records.sum())
    # Each record that was not read may have a key of its own, so that there are at most so many more.
    unread = (1.0 - weighting.fraction) * float((counts.records.sum(axis=1) * weighting.weights).sum())
    if not seen:
        # Every record that was read has no key; of the others only the number is known.
        return Estimate(0.0, 0.0, unread)
    once, twice = (int(n) for n in counts.multiplicity[:2])
    single, double = (int(n) for n in counts.incidence[:2])
    by_records = _estimate_unseen(once, twice, read, weighting.fraction)
    by_replicates = _estimate_unseen(single, double, weighting.replicates, weighting.fraction)
    if weighting.fraction > 0.0:
        most = min(unread, _poisson_limit(single) * (1.0 / weighting.fraction - 1.0))
    else:
        most = max(by_records.high, by_replicates.high)
    unseen = math.sqrt((seen + by_records.value) * (seen + by_replicates.value)) - seen
    unseen = min(unseen, most)
    return Estimate(seen + unseen, seen + min(by_records.low, by_replicates.low, unseen), seen + most)


def _estimate_unseen(once: int, twice: int, units: int, fraction: float) -> Estimate:
    """Estimate the keys that were not seen.

    For sampling without replacement: Chao and Lin 2012, "Nonparametric lower bounds for species richness";
    the variance and the log-normal limits are those of Chao 1987.

    Args:
        once: Keys seen in one unit.
        twice: Keys seen in two.
        units: The number of units read.
        fraction: The part of all units that this is.
    """
    if not once:
        return Estimate.exact(0.0)
    # Chao and Lin: f1² / (2 f2 n / (n - 1) + f1 q / (1 - q)), q being the part that was read. Without a
    # key that was seen twice, f2 is set to 1, as the variance would have no value.
    odds = fraction / (1.0 - fraction)
    doubled = 2.0 * max(twice, 1) * units / max(1, units - 1)
    unseen = once**2 / (doubled + odds * once)
    ratio = once / max(twice, 1)
    variance = max(twice, 1) * (ratio**2 / 2 + ratio**3 + ratio**4 / 4)
    factor = math.exp(intervals.Z * math.sqrt(math.log1p(variance / unseen**2)))
    return Estimate(unseen, unseen / factor, unseen * factor)


def _poisson_limit(count: int) -> float:
    """Return the upper 95 % limit of the mean of a Poisson count (root transformation of Anscombe 1948)."""
    return (math.sqrt(count + 0.375) + intervals.Z / 2) ** 2
