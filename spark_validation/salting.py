"""What to do about frequent keys: into how many salts they must be split.

What more partitions would not do is said beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.imbalance import expected_ratio, likely_ratio
from spark_validation.observation import listed, percent, times_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_validation.results import Cause, HotKeyResult, TopicResult


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


REACHABLE_RATIO = 1.5
"""The ratio that advice aims at where no policy says another."""
STANDS_OUT = 3.0
"""As in causes_hot: a key is split if it has so many times the share of the average key less frequent."""
LEAST_LIFT = 0.05
"""As there: and if it alone fills a partition by this part of the mean."""
_NAMED = 3
_BURST_PEAK = 2.0


def hottest(result: TopicResult, by: str) -> list[HotKeyResult]:
    """Keys that stand out by records or bytes, largest first."""
    keys = sorted(result.hot_keys, key=lambda key: -share_of(key, by))
    left = 1 - result.null_key_share.value
    found = []
    for number, key in enumerate(keys, start=1):
        share = share_of(key, by)
        left -= share
        others = max(1.0, result.distinct_keys.value - number)
        if share < STANDS_OUT * max(0.0, left) / others or share * len(result.partitions) < LEAST_LIFT:
            break
        found.append(key)
    return found


def share_of(key: HotKeyResult, by: str) -> float:
    """A key's share of the records or bytes."""
    return key.byte_share.value if by == "bytes" else key.share.value


def bursting(result: TopicResult, cause: Cause) -> Iterator[str]:
    """What to look at, by the key that the evidence names, if it names one."""
    for key in result.hot_keys:
        if key.key_hash in cause.evidence:
            peak = f", up to {key.peak:.1f} times what it is overall" if key.peak >= _BURST_PEAK else ""
            yield (
                f"Look at what writes key {key.key_hash} at the time given: spread its writes over time, "
                f"or size consumers for its share then{peak}."
            )
            return
    yield "Look at what is written to that partition at the time given: no single frequent key explains it."


def salting(
    result: TopicResult, keys: list[HotKeyResult], by: str, *, ratio: float, key_share: float | None
) -> Iterator[str]:
    """Into how many salts keys must be split to keep a ratio, and a share of each key.

    As few salts in all as suffice, whichever number of the largest keys they take; see salting.salts for the
    formula.
    """
    shares = [share_of(key, by) for key in keys]
    over = sum(1 for share in shares if key_share is not None and share > key_share)
    spread = result.by_bytes if by == "bytes" else result.by_records
    if not keys or (spread.max_mean_ratio.value <= ratio and not over):
        return
    aim = f"a ratio of {ratio:g} by {by}" + (f" and a key share of {percent(key_share)}" if key_share else "")
    best: Salts | None = None
    for number in range(max(1, over), len(keys) + 1):
        rest = ratio_without(result, keys[:number], by)
        split = salts(shares[:number], rest, len(result.partitions), ratio=ratio, key_share=key_share)
        if split is not None and (best is None or sum(split.counts) < sum(best.counts)):
            best = split
    if best is None:
        yield (
            f"Splitting the {len(keys)} most frequent keys is not enough for {aim}: what is left of the "
            f"topic has {times_mean(ratio_without(result, keys, by))} on its fullest partition."
        )
        return
    split_keys = [(key, many) for key, many in zip(keys, best.counts, strict=False) if many > 1]
    parts = [f"{key.key_hash} into {many}" for key, many in split_keys]
    more = split_keys[_NAMED:]
    if len(more) > 1:
        parts[_NAMED:] = [f"the {len(more)} next into {more[-1][1]} to {more[0][1]}"]
    what = "keys" if len(parts) > 1 else "key"
    yield (
        f"To keep {aim}, split {what} {listed(parts)} salts: the fullest partition then has "
        f"{times_mean(best.ratio)} at most, in nine of ten cases; order is kept within a salt only."
    )


def ratio_without(result: TopicResult, keys: list[HotKeyResult], by: str) -> float:
    """The ratio of what is left without some keys.

    Where one of them lies on several partitions, its part on each is not known: then that of equal keys.
    """
    if any(len(key.partitions) > 1 for key in keys):
        return expected_ratio(max(1.0, result.distinct_keys.value - len(keys)), len(result.partitions))
    left = {
        one.partition: one.byte_share.value if by == "bytes" else one.share.value for one in result.partitions
    }
    for key in keys:
        for partition in key.partitions:
            left[partition] = max(0.0, left[partition] - share_of(key, by))
    total = sum(left.values())
    return max(left.values()) * len(left) / total if total > 0 else 1.0


def no_help(result: TopicResult, key: HotKeyResult, by: str, *, ratio: float) -> Iterator[str]:
    """That more partitions do not help: a key stays on one, of at least its share times the mean."""
    share, count = share_of(key, by), len(result.partitions)
    counts = [one.partitions for one in result.what_if if one.partitions > count] or [2 * count]
    if share * counts[-1] <= ratio:
        return
    bounds = [f"{share * many:.1f} on {many}" for many in dict.fromkeys((counts[0], counts[-1]))]
    yield (
        f"More partitions will not help: key {key.key_hash} stays on one of them, and alone fills it by that "
        f"many times the mean of all by {by}: {listed(bounds)} partitions."
    )
