"""Whether the records lie on partitions as an earlier, smaller partition count put them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.key_counts import NEVER
from spark_validation.observation import Observation, listed, percent, utc
from spark_validation.results import Cause

MURMUR2 = list(PARTITIONERS).index("murmur2")
WORTH_NAMING = 0.001
"""The share of misplaced records below which nothing is said of them."""
NEARLY_ALL = 0.9
"""An earlier count that explains this part of the misplaced records is the only one there was. By chance a
count explains about 1 / partitions of them."""
SEVERAL = 0.4
"""After several increases the last count but one explains less; it must then be told by time."""
FAR_BEYOND_CHANCE = 2.0
"""And it must explain so many times what chance does."""
METADATA_AGE_MS = 5 * 60_000
"""So long producers may use the earlier count after the increase: `metadata.max.age.ms` by default."""
LITTLE_TIME = 0.1
"""But no longer than this part of the time that the records span."""
ENOUGH = 10.0
"""Misplaced records that are to be expected of later windows, for their absence to mean anything."""
FEWEST_KEYS = 8
"""So many keys do not lie by chance where an earlier count puts them."""
SHOWN = 3
"""How many partitions' offsets a sentence gives."""


@dataclass(frozen=True, slots=True)
class Step:
    """A partition whose misplaced records end.

    Attributes:
        partition: The partition.
        start: The first offset of the last window that has misplaced records.
        end: The offset after the last of the next window, which has none.
    """

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Repartition:
    """A partition increase that the records show.

    Attributes:
        earlier: The partition count before.
        misplaced: The share of records with a key that murmur2 does not put where they lie now.
        explains: The part of these that the earlier count explains.
        last_before_ms: The latest timestamp of these; None where times are not in order.
        first_after_ms: The earliest timestamp of records that only the present count explains, likewise;
            None too where there are none yet.
        steps: Partitions where the end of the misplaced records can be seen.
    """

    earlier: int
    misplaced: float
    explains: float
    last_before_ms: int | None
    first_after_ms: int | None
    steps: tuple[Step, ...]


def repartition(seen: Observation) -> Repartition | None:
    """Look for an earlier count that explains the misplaced records, and for their end.

    Records of a second partitioner can be explained by an earlier count too where they have few keys; but
    they do not end when those begin that only the present count explains.
    """
    misplaced = seen.keyed - seen.tally.fits[MURMUR2]
    total, keyed = float(misplaced.sum()), float(seen.keyed.sum())
    if not len(seen.tally.earlier) or keyed <= 0 or total < WORTH_NAMING * keyed:
        return None
    explained = seen.tally.earlier / total
    tried = np.flatnonzero(explained >= min(NEARLY_ALL, float(explained.max())))
    found = [
        one for index in tried.tolist() if (one := _try(seen, index, misplaced, float(explained[index])))
    ]
    # Of several that explain them, the largest count: its new partitions are the ones that matter last.
    return max(found, key=lambda one: (one.explains >= NEARLY_ALL, one.earlier), default=None)


def _try(seen: Observation, index: int, misplaced: Int64s, explains: float) -> Repartition | None:
    earlier = index + 1
    steps = _steps(seen, earlier, misplaced)
    last = int(seen.tally.earlier_last_ms[index])
    first = int(seen.tally.later_first_ms[index])
    # Where nothing was written since, only many keys say that it is no chance.
    in_time = seen.tally.distinct >= FEWEST_KEYS if first == NEVER else last - first < _slack(seen)
    nearly_all = explains >= NEARLY_ALL and float(misplaced[earlier:].sum()) <= (1 - NEARLY_ALL) * float(
        misplaced.sum()
    )
    chance = 1 / seen.partitions
    several = explains >= max(SEVERAL, FAR_BEYOND_CHANCE * chance)
    stepped = steps is not None
    if not ((nearly_all and (in_time or stepped)) or (several and in_time and first != NEVER)):
        return None
    share = float(seen.weighted(misplaced).sum() / seen.weighted(seen.keyed).sum())
    return Repartition(
        earlier,
        share,
        explains,
        last if in_time else None,
        first if in_time and first != NEVER else None,
        steps or (),
    )


def _slack(seen: Observation) -> float:
    """By how much the last record of before may be later than the first of after, in milliseconds."""
    held = seen.tally.records > 0
    if not held.any():
        return 0.0
    span = float(seen.tally.last_ms[held].max() - seen.tally.first_ms[held].min())
    return min(METADATA_AGE_MS, LITTLE_TIME * span)


def _steps(seen: Observation, earlier: int, misplaced: Int64s) -> tuple[Step, ...] | None:
    """Where misplaced records end, by offset; None where in most partitions they do not."""
    windows = {(one.partition, one.slice): one for one in seen.plan.windows}
    steps: list[Step] = []
    ended = going_on = 0.0
    for partition in range(min(earlier, seen.partitions)):
        wrong, keyed = misplaced[partition], seen.keyed[partition]
        having = np.flatnonzero(wrong)
        if not len(having):
            continue
        last = int(having[-1])
        before, after = float(keyed[: last + 1].sum()), float(keyed[last + 1 :].sum())
        if float(wrong.sum()) / before * after < ENOUGH:
            going_on += float(wrong.sum())
            continue
        ended += float(wrong.sum())
        following = last + 1 + int(np.flatnonzero(keyed[last + 1 :])[0])
        one, other = windows[partition, last], windows[partition, following]
        steps.append(Step(partition, one.start, other.end))
    return tuple(steps) if ended > going_on else None


def repartition_cause(seen: Observation, found: Repartition) -> Cause:
    """In words."""
    now = seen.partitions
    part = "all" if found.explains == 1 else percent(found.explains)
    evidence = (
        f"{percent(found.misplaced)} of the records with a key do not lie where murmur2 puts them on "
        f"{now} partitions, and {part} of these lie where it puts them on {found.earlier}: "
        f"the partition count was increased{_when(found)}"
    )
    if found.steps:
        shown = [f"{one.partition} between {one.start:,} and {one.end:,}" for one in found.steps[:SHOWN]]
        more = f" (and in {len(found.steps) - SHOWN} more)" if len(found.steps) > SHOWN else ""
        evidence += f"; by offset, in partition {listed(shown)}{more}"
    keys = seen.tally.shared_keys
    if keys:
        evidence += (
            f"; {keys:,} sampled key{'s lie' if keys > 1 else ' lies'} on several partitions, and the order "
            f"of a key's records is broken across that point"
        )
    else:
        evidence += "; the next record of such a key goes to another partition, and its order breaks there"
    return Cause("repartitioned", evidence + ".", _explains(seen))


def _when(found: Repartition) -> str:
    last, first = found.last_before_ms, found.first_after_ms
    if last is None:
        return " (when cannot be told: the timestamps are not in the order of the offsets)"
    if first is None:
        return f" after {utc(last)}"
    low, high = min(last, first), max(last, first)
    return f" between {utc(low, within=high - low)} and {utc(high, within=high - low)}"


def _explains(seen: Observation) -> float | None:
    """The part of the excess that goes when every key lies where the present count puts it."""
    ratio = seen.ratio("records").value
    placed = next((one for one in seen.result.what_if if one.partitions == seen.partitions), None)
    if placed is None or not seen.skewed("records"):
        return None
    return float(np.clip((ratio - placed.max_mean_ratio.value) / (ratio - 1), 0.0, 1.0))
