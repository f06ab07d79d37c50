"""Predictions of other partition counts, and the reasons for which there are none.

A prediction places the sampled keys as their partitioners would, and spreads records without a key evenly.
Where the records of the log contradict either, no prediction holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spark_validation import intervals, wording
from spark_validation.arrivals import EVEN_RATIO, Spread
from spark_validation.imbalance import expected_ratio, max_mean_ratio
from spark_validation.policy import MIN_RECORDS
from spark_validation.results import WhatIf
from spark_validation.sampled_topic import SampledTopic, max_over_mean

if TYPE_CHECKING:
    from spark_validation.causes_placement import Placement
    from spark_validation.intervals import ReplicatedTotals, Weighting
    from spark_validation.key_counts import KeyCounts, KeyPlacement

MAX_UNEXPLAINED_SHARE = 0.05
"""The share of records with a key, corrected for chance, that no known partitioner may have placed: all on
one of 12 partitions, they would add 0.6 to a ratio."""
MAX_STICKY_IMBALANCE = EVEN_RATIO - 1
"""The most by which batches of records without a key may raise the ratio predicted without them."""
FARTHEST = 2
"""The multiple of the present partition count on which that is judged: the usual increase."""
BEYOND_SAMPLING = 3.0
"""The multiple of the sampling variance from which the loads of partitions are called uneven."""


def what_if(count: int, placement: KeyPlacement, counts: KeyCounts, weighting: Weighting) -> WhatIf:
    """Estimate the topic on another number of partitions.

    Keys go where the one partitioner that is at work now puts them, or else the one that placed each; records
    without a key are spread evenly, as producers do it.

    Args:
        count: The number of partitions.
        placement: The keys on this number, from `KeyCounts.placed_by`.
        weighting: The weights of the sample.
    """
    nulls, null_bytes = weighting.whole(counts.null_records), weighting.whole(counts.null_bytes)
    keyed = weighting.estimate_placement(placement.records)
    moved = weighting.estimate_placement(placement.records_moved)
    return WhatIf(
        partitions=count,
        max_mean_ratio=max_mean_ratio(keyed + _divide_evenly(nulls, count)),
        byte_max_mean_ratio=max_mean_ratio(
            weighting.estimate_placement(placement.bytes) + _divide_evenly(null_bytes, count)
        ),
        keys_moved=placement.keys_moved / counts.distinct if counts.distinct else 0.0,
        records_moved=intervals.share_interval(moved / (keyed.sum + nulls)),
    )


def _divide_evenly(total: ReplicatedTotals, count: int) -> ReplicatedTotals:
    each = np.full(count, 1.0 / count)
    return total.replace_values(each * total.total, each[:, None] * total.without)


def find_withheld_reason(topic: SampledTopic, placement: Placement, weighting: Weighting) -> str | None:
    """Return why no prediction of another partition count holds for a topic; None if they do."""
    if topic.spread is Spread.LITTLE:
        return wording.explain_little_data(MIN_RECORDS)
    if topic.result.keys_withheld is not None:
        return topic.result.keys_withheld
    if topic.partitions < 2:
        return None
    if placement.unknown > MAX_UNEXPLAINED_SHARE:
        return wording.explain_unknown_partitioner(placement.unknown)
    if _null_excess(topic, weighting) > MAX_STICKY_IMBALANCE:
        fullest = max_over_mean(topic.nulls("records"))
        return wording.explain_uneven_nulls(topic.result.null_key_share.value, fullest)
    return None


def _null_excess(topic: SampledTopic, weighting: Weighting) -> float:
    """Return by how much records without a key, spread as unevenly, raise the ratio on more partitions.

    B equal batches, spread at random over n partitions, have loads with a variance of n / B over the squared
    mean. So many batches are then expected to make the fullest partition as full as so many equal keys.
    """
    relative = weighting.estimate_partitions(topic.counts.null_records).over_mean
    sampling = float(np.mean(np.maximum(relative.noise, relative.deviation) ** 2))
    variance = float(relative.total.var(ddof=1))
    if variance <= BEYOND_SAMPLING * sampling:
        return 0.0
    # The variance n / B, solved for B.
    fullest = expected_ratio(topic.partitions / (variance - sampling), FARTHEST * topic.partitions)
    return topic.result.null_key_share.value * (fullest - 1)
