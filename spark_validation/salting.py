"""Into how many salts frequent keys must be split."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.occupancy import likely_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_SALTS = 1_000
"""More salts than this for one key are no advice: who reads the key must read as many."""


@dataclass(frozen=True, slots=True)
class Salts:
    """How frequent keys are split.

    Attributes:
        counts: For each key, into how many salts.
        ratio: What the fullest partition then is over the mean, in nine of ten cases at most.
    """

    counts: tuple[int, ...]
    ratio: float


def salts(
    shares: Sequence[float], rest: float, partitions: int, *, ratio: float, key_share: float | None = None
) -> Salts | None:
    """The fewest salts with which a topic keeps a ratio, and each salted key a share.

    Keys of shares s_k are split so that all salts are nearly alike: m_k = ceil(s_k / u) of share u at most.
    With S the sum of s_k and M of m_k, these M salts fall on partitions as equal keys do, so that in nine of
    ten cases the fullest partition has no more than L(M) times their mean (occupancy.likely_ratio). What is
    left has the ratio `rest` (R'). The largest sum is at most the sum of the largest:

        ratio <= S max(m_k u) / s_k L(M) + (1 - S) R'

    and u is made smaller until this is kept; then u <= key_share is kept too.

    Args:
        shares: Of the keys, 0 to 1.
        rest: The ratio of the topic without them.
        partitions: Its partition count.
        ratio: The largest ratio allowed.
        key_share: The largest share of one key allowed.

    Returns:
        None where no number of salts suffices: the rest alone is too uneven.
    """
    together = sum(shares)
    left = (1 - together) * rest
    if together + left >= ratio:
        return None
    unit = min(max(shares), key_share or 1.0)
    while True:
        counts = tuple(max(1, math.ceil(share / unit - 1e-9)) for share in shares)
        largest = max(share / count for share, count in zip(shares, counts, strict=True))
        # Salts of unequal size count as so many of the largest, which are more than there are.
        alike = max(1, math.floor(together / largest))
        reached = together * likely_ratio(alike, partitions) + left
        if reached <= ratio:
            return Salts(counts, reached)
        if max(counts) >= MOST_SALTS:
            return None
        # One salt more for the largest key, or a twentieth where there are many.
        unit = largest * min(max(counts) / (max(counts) + 1), 0.95)
