"""Keys placed in two ways: by several partitioners, or by an earlier, smaller partition count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.key_counts import NEVER
from spark_validation.results import SkewCause
from spark_validation.sampled_topic import SampledTopic, listed, percent, utc

if TYPE_CHECKING:
    from spark_validation.key_counts import Floats


WORTH_NAMING = 0.001
"""Records that one partitioner does not explain are named from this share on. A partitioner explains all of
its own records exactly, so this is no matter of chance, but of a few strays that nobody need look after."""
BEYOND_CHANCE = 3.0
"""By how many standard deviations of chance more records must lie where a second partitioner puts them."""
LEAST_ASCRIBED = 0.05
"""The share of the misplaced records from which a partitioner is one of those at work."""
SHARED_RECORDS = 0.02
"""From this share of records on, keys on several partitions say that keys do not decide the partition."""
NAMES = {
    "murmur2": "murmur2 (Java's default)",
    "crc32": "CRC32 (librdkafka's default)",
    "fnv1a": "FNV-1a (Sarama's default)",
}


@dataclass(frozen=True, slots=True)
class PartitionerMix:
    """The partitioners that placed the records with a key.

    Attributes:
        main: The partitioner that explains all, or else murmur2 if it is at work, or else what explains most.
        misplaced: The share that it does not explain.
        shares: For each partitioner at work, and `other`, its estimated share, corrected for chance.
        shared: The share of the sampled records whose key lies on several partitions.
    """

    main: str
    misplaced: float
    shares: dict[str, float]
    shared: float

    @property
    def single(self) -> bool:
        """Return whether the main partitioner explains them all."""
        return self.misplaced < WORTH_NAMING

    @property
    def unknown(self) -> bool:
        """Return whether none of the known partitioners is at work."""
        return set(self.shares) == {"other"}


def partitioner_mix(topic: SampledTopic) -> PartitionerMix | None:
    """Estimate who placed the records; None where none has a key, or there is one partition.

    A record of one partitioner lies where another would put it too by chance, with q = 1 / partitions. If
    f of the records lie where the main partitioner puts them, f = a + (1 - a) q for its share a, so that
    1 - a = (1 - f) / (1 - q). What of 1 - a lies where no partitioner puts it gives the share of others in
    the same way, and the rest is divided among partitioners that fit more records than chance has it. That
    is judged by the median over partitions of their fit, since by chance one frequent key may fit, but only
    on its own partition.
    """
    keyed = float(topic.weighted(topic.keyed).sum())
    if topic.partitions < 2 or keyed <= 0:
        return None
    fits = {
        name: float(topic.weighted(topic.counts.fits[number]).sum()) / keyed
        for number, name in enumerate(PARTITIONERS)
    }
    shared = topic.counts.shared_records / float(topic.keyed.sum())
    for name, fit in fits.items():
        if 1 - fit < WORTH_NAMING:
            return PartitionerMix(name, 1 - fit, {name: 1.0}, shared)
    none = float(topic.weighted(topic.counts.fits_none).sum()) / keyed
    main, shares = _shares(fits, _beyond_chance(topic), none, 1 / topic.partitions)
    return PartitionerMix(main, 1 - fits[main], shares, shared)


def _shares(
    fits: dict[str, float], beyond: dict[str, float], none: float, chance: float
) -> tuple[str, dict[str, float]]:
    """Return the main partitioner, and the share of each.

    Args:
        fits: The share of records that lie where each partitioner puts them.
        beyond: For those that fit more than chance, by how much.
        none: The share of records that lie where none puts them.
        chance: 1 / partitions: what a partitioner fits of the records of another.
    """
    # Of the records of no known partitioner, a chance part fits one of them.
    other = min(1.0, none / (1 - chance) ** len(PARTITIONERS))
    main = "murmur2" if "murmur2" in beyond else max(fits, key=lambda name: fits[name])
    if main not in beyond and other >= LEAST_ASCRIBED:
        return main, {"other": 1.0}
    foreign = min(1.0, (1 - fits[main]) / (1 - chance))
    others = {name: fit for name, fit in beyond.items() if name != main}
    if other < LEAST_ASCRIBED * foreign:
        other = 0.0
        if not others:
            # Chance hides who it is, with so few keys, but known it must be: who fits most.
            others = {max(set(fits) - {main}, key=lambda name: fits[name]): 1.0}
    if not others or other > (1 - LEAST_ASCRIBED) * foreign:
        return main, {main: 1 - foreign, "other": foreign}
    total = sum(others.values())
    shares = {main: 1 - foreign} | {name: (foreign - other) * fit / total for name, fit in others.items()}
    return main, shares | ({"other": other} if other else {})


def _beyond_chance(topic: SampledTopic) -> dict[str, float]:
    """For each partitioner that fits more than chance has it, by how much: the median over partitions."""
    records = topic.keyed.sum(axis=1)
    filled = records >= min(100.0, float(np.median(records)))
    filled &= records > 0
    chance = 1 / topic.partitions
    found = {}
    for number, name in enumerate(PARTITIONERS):
        rates: Floats = topic.counts.fits[number].sum(axis=1)[filled] / records[filled]
        excess = float(np.median(rates)) - chance
        keys = max(1.0, float(np.median(_effective_keys(topic)[filled])))
        if excess > BEYOND_CHANCE * np.sqrt(chance * (1 - chance) / keys / filled.sum()):
            found[name] = excess
    return found


def _effective_keys(topic: SampledTopic) -> Floats:
    """For each partition the number of equal keys that would vary as its keys do (partitions).

    One over the sum of squared shares (Kish's effective sample size, *Survey Sampling*, 1965;
    the inverse Simpson index); keys that are no hot ones are taken to have equal shares of the rest.
    """
    records = np.maximum(topic.keyed.sum(axis=1), 1.0)
    squares = np.zeros(topic.partitions)
    hot = np.zeros(topic.partitions)
    for key in topic.counts.hot:
        on = key.records.sum(axis=1)
        squares += (on / records) ** 2
        hot += on
    rest_keys = np.maximum(topic.counts.keys - len(topic.counts.hot) / topic.partitions, 1.0)
    squares += ((records - hot).clip(0) / records) ** 2 / rest_keys
    return np.asarray(1 / np.maximum(squares, 1e-12), dtype=np.float64)


def mixed_cause(topic: SampledTopic, found: PartitionerMix) -> SkewCause | None:
    """The cause, if records were placed by more than one partitioner."""
    if found.single:
        return None
    chance = percent(1 / topic.partitions)
    keys = topic.counts.shared_keys
    shared = f"{keys:,} sampled keys are on several partitions" if keys > 1 else (
        "one sampled key is on several partitions" if keys else "no sampled key is on several partitions"
    )  # fmt: skip
    if found.unknown:
        if found.shared < SHARED_RECORDS:
            return None
        return SkewCause(
            "mixed_partitioners",
            f"No known partitioner explains where the records are: murmur2, CRC32 and FNV-1a each fit no "
            f"more of them than chance would ({chance}), and {shared}, which have {percent(found.shared)} of "
            f"the records with a key: producers ignore the key or choose partitions themselves.",
        )
    shares = [
        f"{NAMES[name]} {percent(share)}" if name in NAMES else f"an unknown partitioner {percent(share)}"
        for name, share in found.shares.items()
    ]
    return SkewCause(
        "mixed_partitioners",
        f"{percent(found.misplaced)} of the records with a key are not where "
        f"{NAMES[found.main]} puts them; corrected for chance ({chance}), the records were placed by: "
        f"{listed(shares)}; {shared}{_until(topic, found)}.",
    )


def _until(topic: SampledTopic, found: PartitionerMix) -> str:
    """Say in which part of the log the misplaced records lie."""
    number = list(PARTITIONERS).index(found.main)
    misplaced = (topic.keyed - topic.counts.fits[number]).sum(axis=0)
    parts = np.flatnonzero(misplaced >= WORTH_NAMING * topic.keyed.sum(axis=0).clip(1))
    replicates = topic.layout.replicates
    if len(parts) == replicates:
        return "; such records are in every part of the log"
    first, last = int(parts[0]) + 1, int(parts[-1]) + 1
    return f"; such records are in parts {first} to {last} of {replicates} equal parts of the log"


def note(topic: SampledTopic, found: PartitionerMix | None) -> str:
    """Sentence on a topic whose keys one partitioner, but not Java's, places; empty for others."""
    if found is None:
        return ""
    if found.single and found.main != "murmur2":
        return (
            f" All keys are where {NAMES[found.main]} puts them: a Java producer with its default "
            f"partitioner would put {percent(1 - 1 / topic.partitions)} of the keys on other partitions."
        )
    if found.single or not found.unknown or found.shared >= SHARED_RECORDS:
        return ""
    return (
        " No known partitioner (murmur2, CRC32, FNV-1a) explains where the keys are, yet each key stays on "
        "one partition: producers choose partitions themselves."
    )


MURMUR2 = list(PARTITIONERS).index("murmur2")
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
class PartitionIncrease:
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


def partition_increase(topic: SampledTopic) -> PartitionIncrease | None:
    """Look for an earlier count that explains the misplaced records, and for their end.

    Records of a second partitioner can be explained by an earlier count too where they have few keys; but
    they do not end when those begin that only the present count explains.
    """
    misplaced = topic.keyed - topic.counts.fits[MURMUR2]
    total, keyed = float(misplaced.sum()), float(topic.keyed.sum())
    if not len(topic.counts.earlier) or keyed <= 0 or total < WORTH_NAMING * keyed:
        return None
    explained = topic.counts.earlier / total
    tried = np.flatnonzero(explained >= min(NEARLY_ALL, float(explained.max())))
    found = [
        increase
        for index in tried.tolist()
        if (increase := _try(topic, index, misplaced, float(explained[index])))
    ]
    # Of several that explain them, the largest count: its new partitions are the ones that matter last.
    return max(found, key=lambda increase: (increase.explains >= NEARLY_ALL, increase.earlier), default=None)


def _try(topic: SampledTopic, index: int, misplaced: Int64s, explains: float) -> PartitionIncrease | None:
    earlier = index + 1
    steps = _steps(topic, earlier, misplaced)
    last = int(topic.counts.earlier_last_ms[index])
    first = int(topic.counts.later_first_ms[index])
    # Where nothing was written since, only many keys say that it is no chance.
    in_time = topic.counts.distinct >= FEWEST_KEYS if first == NEVER else last - first < _slack(topic)
    nearly_all = explains >= NEARLY_ALL and float(misplaced[earlier:].sum()) <= (1 - NEARLY_ALL) * float(
        misplaced.sum()
    )
    chance = 1 / topic.partitions
    several_counts = explains >= max(SEVERAL, FAR_BEYOND_CHANCE * chance)
    if not (
        (nearly_all and (in_time or steps is not None)) or (several_counts and in_time and first != NEVER)
    ):
        return None
    share = float(topic.weighted(misplaced).sum() / topic.weighted(topic.keyed).sum())
    return PartitionIncrease(
        earlier,
        share,
        explains,
        last if in_time else None,
        first if in_time and first != NEVER else None,
        steps or (),
    )


def _slack(topic: SampledTopic) -> float:
    """Return how long records may still be placed by the earlier count after the increase (ms)."""
    read = topic.counts.records > 0
    if not read.any():
        return 0.0
    span = float(topic.counts.last_ms[read].max() - topic.counts.first_ms[read].min())
    return min(METADATA_AGE_MS, LITTLE_TIME * span)


def _steps(topic: SampledTopic, earlier: int, misplaced: Int64s) -> tuple[Step, ...] | None:
    """Find where misplaced records end, by offset; None where in most partitions they do not."""
    windows = {(window.partition, window.replicate): window for window in topic.plan.windows}
    steps: list[Step] = []
    ended = going_on = 0.0
    for partition in range(min(earlier, topic.partitions)):
        wrong, keyed = misplaced[partition], topic.keyed[partition]
        replicates = np.flatnonzero(wrong)
        if not len(replicates):
            continue
        last = int(replicates[-1])
        keyed_until, keyed_since = float(keyed[: last + 1].sum()), float(keyed[last + 1 :].sum())
        # At the rate seen so far, the later windows would have fewer than ENOUGH: their absence says nothing.
        if float(wrong.sum()) / keyed_until * keyed_since < ENOUGH:
            going_on += float(wrong.sum())
            continue
        ended += float(wrong.sum())
        next_read = last + 1 + int(np.flatnonzero(keyed[last + 1 :])[0])
        steps.append(Step(partition, windows[partition, last].start, windows[partition, next_read].end))
    return tuple(steps) if ended > going_on else None


def partition_increase_cause(topic: SampledTopic, found: PartitionIncrease) -> SkewCause:
    """Word the cause."""
    present = topic.partitions
    explained = "all" if found.explains == 1 else percent(found.explains)
    evidence = (
        f"{percent(found.misplaced)} of the records with a key are not where murmur2 puts them with "
        f"{present} partitions, and {explained} of these are where it puts them with {found.earlier}: "
        f"the partition count was increased{_when(found)}"
    )
    if found.steps:
        shown = [f"{step.partition} between {step.start:,} and {step.end:,}" for step in found.steps[:SHOWN]]
        more = f" (and in {len(found.steps) - SHOWN} more)" if len(found.steps) > SHOWN else ""
        evidence += f"; by offset, in partition {listed(shown)}{more}"
    keys = topic.counts.shared_keys
    if keys:
        evidence += (
            f"; {keys:,} sampled key{'s are' if keys > 1 else ' is'} on several partitions, and the order "
            f"of a key's records breaks at that point"
        )
    else:
        evidence += "; the next record of such a key goes to another partition, and its order breaks there"
    return SkewCause("repartitioned", evidence + ".", _explains(topic))


def _when(found: PartitionIncrease) -> str:
    last, first = found.last_before_ms, found.first_after_ms
    if last is None:
        return " (the time is unknown: timestamps are not in offset order)"
    if first is None:
        return f" after {utc(last)}"
    low, high = min(last, first), max(last, first)
    return f" between {utc(low, within=high - low)} and {utc(high, within=high - low)}"


def _explains(topic: SampledTopic) -> float | None:
    """The part of the excess that goes when every key lies where the present count puts it."""
    ratio = topic.ratio("records").value
    cases = topic.result.what_if
    placed = next((case for case in cases if case.partitions == topic.partitions), None)
    if placed is None or not topic.skewed("records"):
        return None
    return float(np.clip((ratio - placed.max_mean_ratio.value) / (ratio - 1), 0.0, 1.0))
