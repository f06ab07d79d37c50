"""Which partitioners put the records where they lie, and whether they are several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.hashing import PARTITIONERS
from spark_validation.observation import Observation, listed, percent
from spark_validation.results import Cause

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
class Placing:
    """Who placed the records that have a key.

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
    def one(self) -> bool:
        """Whether the main partitioner explains them all."""
        return self.misplaced < WORTH_NAMING

    @property
    def unknown(self) -> bool:
        """Whether none of the known partitioners is at work."""
        return set(self.shares) == {"other"}


def placing(seen: Observation) -> Placing | None:
    """Estimate who placed the records; None where none has a key, or there is one partition.

    A record of one partitioner lies where another would put it too by chance, with q = 1 / partitions. If
    f of the records lie where the main partitioner puts them, f = a + (1 - a) q for its share a, so that
    1 - a = (1 - f) / (1 - q). What of 1 - a lies where no partitioner puts it gives the share of others in
    the same way, and the rest is divided among partitioners that fit more records than chance has it. That
    is judged by the median over partitions of their fit, since by chance one frequent key may fit, but only
    on its own partition.
    """
    keyed = float(seen.weighted(seen.keyed).sum())
    if seen.partitions < 2 or keyed <= 0:
        return None
    fits = {
        name: float(seen.weighted(seen.tally.fits[number]).sum()) / keyed
        for number, name in enumerate(PARTITIONERS)
    }
    shared = seen.tally.shared_records / float(seen.keyed.sum())
    for name, fit in fits.items():
        if 1 - fit < WORTH_NAMING:
            return Placing(name, 1 - fit, {name: 1.0}, shared)
    none = float(seen.weighted(seen.tally.fits_none).sum()) / keyed
    main, shares = _shares(fits, _beyond_chance(seen), none, 1 / seen.partitions)
    return Placing(main, 1 - fits[main], shares, shared)


def _shares(
    fits: dict[str, float], beyond: dict[str, float], none: float, chance: float
) -> tuple[str, dict[str, float]]:
    """The main partitioner, and all shares."""
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


def _beyond_chance(seen: Observation) -> dict[str, float]:
    """For each partitioner that fits more than chance has it, by how much: the median over partitions."""
    records = seen.keyed.sum(axis=1)
    there = records >= min(100.0, float(np.median(records)))
    there &= records > 0
    chance = 1 / seen.partitions
    found = {}
    for number, name in enumerate(PARTITIONERS):
        rates: Floats = seen.tally.fits[number].sum(axis=1)[there] / records[there]
        above = float(np.median(rates)) - chance
        keys = max(1.0, float(np.median(_effective_keys(seen)[there])))
        if above > BEYOND_CHANCE * np.sqrt(chance * (1 - chance) / keys / there.sum()):
            found[name] = above
    return found


def _effective_keys(seen: Observation) -> Floats:
    """For each partition how many equal keys would vary as its keys do: 1 over the sum of squared shares."""
    records = np.maximum(seen.keyed.sum(axis=1), 1.0)
    squares = np.zeros(seen.partitions)
    hot = np.zeros(seen.partitions)
    for key in seen.tally.hot:
        on = key.records.sum(axis=1)
        squares += (on / records) ** 2
        hot += on
    rest_keys = np.maximum(seen.tally.keys - len(seen.tally.hot) / seen.partitions, 1.0)
    squares += ((records - hot).clip(0) / records) ** 2 / rest_keys
    return np.asarray(1 / np.maximum(squares, 1e-12), dtype=np.float64)


def mixed_cause(seen: Observation, found: Placing) -> Cause | None:
    """The cause, if records were placed by more than one partitioner."""
    if found.one:
        return None
    chance = percent(1 / seen.partitions)
    keys = seen.tally.shared_keys
    shared = f"{keys:,} sampled keys lie on several partitions" if keys > 1 else (
        "one sampled key lies on several partitions" if keys else "no sampled key lies on several partitions"
    )  # fmt: skip
    if found.unknown:
        if found.shared < SHARED_RECORDS:
            return None
        return Cause(
            "mixed_partitioners",
            f"No partitioner explains where the records lie: murmur2, CRC32 and FNV-1a each fit no more of "
            f"them than chance ({chance}), and {shared}, which have {percent(found.shared)} of the records "
            f"with a key: producers ignore the key, or choose partitions themselves.",
        )
    who = [
        f"{NAMES[name]} {percent(share)}" if name in NAMES else f"none of these {percent(share)}"
        for name, share in found.shares.items()
    ]
    return Cause(
        "mixed_partitioners",
        f"{percent(found.misplaced)} of the records with a key do not lie where "
        f"{NAMES[found.main]} puts them; corrected for chance ({chance}), the records were placed by: "
        f"{listed(who)}; {shared}{_until(seen, found)}.",
    )


def _until(seen: Observation, found: Placing) -> str:
    """Whether the misplaced records are spread over the log, or end."""
    number = list(PARTITIONERS).index(found.main)
    misplaced = (seen.keyed - seen.tally.fits[number]).sum(axis=0)
    there = np.flatnonzero(misplaced >= WORTH_NAMING * seen.keyed.sum(axis=0).clip(1))
    slices = seen.layout.slices
    if len(there) == slices:
        return ", in every part of the log"
    first, last = int(there[0]) + 1, int(there[-1]) + 1
    return f", from part {first} to part {last} of {slices} equal parts of the log"


def note(seen: Observation, found: Placing | None) -> str:
    """What is to be known of a topic whose keys one partitioner, but not Java's, places."""
    if found is None:
        return ""
    if found.one and found.main != "murmur2":
        return (
            f" All keys lie where {NAMES[found.main]} puts them: a Java producer with its default "
            f"partitioner would put {percent(1 - 1 / seen.partitions)} of the keys on other partitions."
        )
    if found.one or not found.unknown or found.shared >= SHARED_RECORDS:
        return ""
    return (
        " No known partitioner (murmur2, CRC32, FNV-1a) explains where the keys lie, yet each key keeps to "
        "one partition: producers choose partitions themselves."
    )
