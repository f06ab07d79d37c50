"""Predictions of other partition counts, and the reasons for which there are none.

A prediction places the sampled keys as their partitioners would, and spreads records without a key evenly.
Where the records of the log contradict either, no prediction holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_validation import intervals
from spark_validation.arrivals import EVEN_RATIO, FEWEST_RECORDS, Spread
from spark_validation.imbalance import expected_ratio, max_mean_ratio
from spark_validation.results import WhatIf
from spark_validation.sampled_topic import max_over_mean, percent

if TYPE_CHECKING:
    from spark_validation.causes_placement import Placement
    from spark_validation.intervals import ReplicatedTotals, Weighting
    from spark_validation.key_counts import KeyCounts, KeyPlacement
    from spark_validation.sampled_topic import SampledTopic


MOST_UNEXPLAINED = 0.05
"""The share of records with a key, corrected for chance, that no known partitioner may have placed: all on
one of 12 partitions, they would add 0.6 to a ratio."""
MOST_UNEVEN = EVEN_RATIO - 1
"""By so much batches of records without a key may raise the ratio that is predicted without them."""
FARTHEST = 2
"""On so many times the present partition count: the usual increase."""
BEYOND_SAMPLING = 3.0
"""So many times the variance of sampling the loads of partitions must have to be called uneven."""


def what_if(count: int, placement: KeyPlacement, counts: KeyCounts, weighting: Weighting) -> WhatIf:
    """Estimate the topic on another number of partitions.

    Keys go where the one partitioner that is at work now puts them, or else the one that placed each; records
    without a key are spread evenly, as producers do it.

    Args:
        count: The number of partitions.
        placement: Of `KeyCounts.placed_by`.
        counts: The counts.
        weighting: The weights of the sample.
    """
    nulls, null_bytes = weighting.whole(counts.null_records), weighting.whole(counts.null_bytes)
    keyed = weighting.placed(placement.records)
    moved = weighting.placed(placement.records_moved)
    return WhatIf(
        partitions=count,
        max_mean_ratio=max_mean_ratio(keyed + _divided_evenly(nulls, count)),
        byte_max_mean_ratio=max_mean_ratio(
            weighting.placed(placement.bytes) + _divided_evenly(null_bytes, count)
        ),
        keys_moved=placement.keys_moved / counts.distinct if counts.distinct else 0.0,
        records_moved=intervals.share_interval(moved / (keyed.sum + nulls)),
    )


def _divided_evenly(total: ReplicatedTotals, count: int) -> ReplicatedTotals:
    each = np.full(count, 1.0 / count)
    return total.with_values(each * total.total, each[:, None] * total.without)


def withheld(topic: SampledTopic, placement: Placement, weighting: Weighting) -> str | None:
    """Return why no prediction of another partition count holds for a topic; None if they do."""
    if topic.spread is Spread.LITTLE:
        return f"There are fewer than {FEWEST_RECORDS} records."
    if topic.result.keys_withheld is not None:
        return topic.result.keys_withheld
    if topic.partitions < 2:
        return None
    if placement.unknown > MOST_UNEXPLAINED:
        return (
            f"{percent(placement.unknown)} of the records with a key are on partitions that neither murmur2, "
            f"CRC32 nor FNV-1a chose, so their partitions under another count cannot be predicted."
        )
    if _null_excess(topic, weighting) > MOST_UNEVEN:
        share = topic.result.null_key_share.value
        fullest = max_over_mean(topic.nulls("records"))
        return (
            f"Records without a key ({percent(share)}) are not spread evenly: a partition has {fullest:.2f} "
            "times their mean. How they would spread over another count cannot be predicted."
        )
    return None


def _null_excess(topic: SampledTopic, weighting: Weighting) -> float:
    """By how much records without a key raise the ratio on more partitions, as unevenly as they are spread.

    B equal batches, spread at random over n partitions, have loads with a variance of n / B over the squared
    mean. So many batches are then expected to make the fullest partition as full as so many equal keys.
    """
    relative = weighting.by_partition(topic.counts.null_records).over_mean
    sampling = float(np.mean(np.maximum(relative.noise, relative.deviation) ** 2))
    variance = float(relative.total.var(ddof=1))
    if variance <= BEYOND_SAMPLING * sampling:
        return 0.0
    fullest = expected_ratio(topic.partitions / (variance - sampling), FARTHEST * topic.partitions)
    return topic.result.null_key_share.value * (fullest - 1)
