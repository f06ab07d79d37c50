"""Splits of frequent keys into salts: the same key with one of several suffixes, chosen to land apart.

Suffixes taken at random fall on partitions as balls fall into bins, so that many are needed for none of them
to get much more than its part. But the partition of a suffixed key can be computed: the reducer of a key does
so for the first SUFFIXES suffixes. So a few are chosen whose partitions differ, and are the emptiest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from spark_validation.hashing import PARTITIONERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_validation.hashing import Int64s
    from spark_validation.history import History
    from spark_validation.key_counts import Floats
    from spark_validation.sampled_topic import SampledTopic

MOST_SALTS = 50
"""The most salts of all keys together that are advised: a reader of a key must read all of its salts."""


@dataclass(frozen=True, slots=True, eq=False)
class SaltedKey:
    """The loads of one frequent key, and the partitions of its salts.

    Attributes:
        loads: Records or bytes of the key (partitions).
        suffixed: The partition of the key with each suffix; None where its partitioner is unknown, and any
        partition may be chosen.
    """

    loads: Floats
    suffixed: Int64s | None


@dataclass(frozen=True, slots=True)
class Split:
    """A split of frequent keys into salts.

    Attributes:
        suffixes: For each key that is split, by its index, the numbers of the suffixes; where the partitioner
            is not known, the numbers of the partitions.
        ratio: The fullest partition over the mean with these.
    """

    suffixes: Mapping[int, tuple[int, ...]]
    ratio: float

    @property
    def salts(self) -> int:
        """The salts of all keys."""
        return sum(map(len, self.suffixes.values()))


Loads: TypeAlias = "Mapping[str, tuple[Floats, Mapping[str, SaltedKey]]]"
"""By `records` and `bytes`, what `partition_loads` returns."""


def partition_loads(
    topic: SampledTopic, by: str, partitioner: str | None, histories: Mapping[str, History]
) -> tuple[Floats, dict[str, SaltedKey]]:
    """Return the loads of partitions, and the part of each frequent key, by its hash.

    These are the loads that current producers cause: every key lies where their partitioner puts it on
    the present count, and records without a key are spread evenly. Where no such prediction holds, they are
    those of the log. Keys have the share that they have now, and the others share the rest.

    Args:
        topic: The topic.
        by: `records` or `bytes`.
        partitioner: The one that places all keys now; None where there are several, or it is not known.
        histories: Of the keys whose share is another one now.
    """
    loads, keys = _overall_loads(topic, by, partitioner)
    total = float(loads.sum())
    changed = {name: histories[name] for name in keys.keys() & histories.keys()}
    if not changed or total <= 0:
        return loads, keys
    unchanged = np.maximum(loads - sum(keys[name].loads for name in changed), 0.0)
    for name, history in changed.items():
        own = keys[name].loads
        keys[name] = replace(keys[name], loads=own * history.now * total / max(float(own.sum()), 1e-12))
    part = max(0.0, 1 - sum(history.now for history in changed.values()))
    unchanged *= part * total / max(float(unchanged.sum()), 1e-12)
    return unchanged + sum(keys[name].loads for name in changed), keys


def _overall_loads(
    topic: SampledTopic, by: str, partitioner: str | None
) -> tuple[Floats, dict[str, SaltedKey]]:
    hashes = {key.key_hash: key for key in topic.counts.hot}
    number = -1 if partitioner is None else list(PARTITIONERS).index(partitioner)
    if (
        partitioner is None
        or number not in topic.counts.differences
        or topic.partitions not in topic.counts.placements
        or topic.result.what_if_withheld is not None
    ):
        return topic.loads(by), {
            name: SaltedKey(topic.key_loads(key, by), None) for name, key in hashes.items()
        }
    placement = topic.counts.placed_by(topic.partitions, partitioner)
    keyed = placement.bytes if by == "bytes" else placement.records
    loads = keyed.sum(axis=1) + topic.nulls(by).sum() / topic.partitions
    keys = {}
    for name, key in hashes.items():
        whole = np.zeros(topic.partitions)
        if number in key.suffixed:
            own, *suffixed = key.suffixed[number]
            whole[own] = topic.key_loads(key, by).sum()
            keys[name] = SaltedKey(whole, np.array(suffixed))
    return loads, keys


def split(
    loads: Floats, keys: Sequence[SaltedKey], *, ratio: float, key_share: float | None = None
) -> Split | None:
    """Find few salts with which a topic keeps a ratio, and each salt a share.

    As long as the fullest partition is too full, the key with the largest load on it gets one salt more.
    Salts are placed largest first, each by the suffix that puts it on the emptiest partition.

    Args:
        loads: Records or bytes of partitions, with these keys.
        keys: The keys that may be split.
        ratio: The largest ratio allowed.
        key_share: The largest share of one key allowed.

    Returns:
        None where not even MOST_SALTS suffice, or where the fullest partition has none of the keys.
    """
    level = loads * len(loads) / max(float(loads.sum()), 1e-12)
    unit = len(loads) / max(float(loads.sum()), 1e-12)
    parts = [key.loads * unit for key in keys]
    totals = [float(part.sum()) for part in parts]
    # In units of the mean load, a share of s is s times the partition count.
    most = np.inf if key_share is None else key_share * len(loads)
    # The rounding of a quotient must not cost a further salt.
    salts = [max(1, int(np.ceil(total / most - 1e-9))) for total in totals]
    while sum(count for count in salts if count > 1) <= MOST_SALTS:
        placed, chosen, on = _place_salts(level, keys, parts, salts)
        fullest = int(np.argmax(placed))
        if placed[fullest] <= ratio:
            return Split(chosen, float(placed[fullest]))
        # Only what lies on the fullest partition can lower the ratio.
        there = [number for number in range(len(keys)) if on[number][fullest] > 0]
        if not there:
            return None
        salts[max(there, key=lambda number: on[number][fullest])] += 1
    return None


def _place_salts(
    level: Floats, keys: Sequence[SaltedKey], parts: Sequence[Floats], salts: Sequence[int]
) -> tuple[Floats, dict[int, tuple[int, ...]], list[Floats]]:
    """Place the salts: the loads of partitions over their mean, the suffixes chosen, and each key's loads."""
    divided = [number for number, count in enumerate(salts) if count > 1]
    # Floating point may leave less than nothing of a partition that has only these keys.
    placed = np.maximum(level - sum((parts[number] for number in divided), np.zeros(len(level))), 0.0)
    on = list(parts)
    chosen: dict[int, tuple[int, ...]] = {}
    for number in sorted(divided, key=lambda number: -parts[number].sum() / salts[number]):
        size = float(parts[number].sum()) / salts[number]
        on[number] = np.zeros(len(level))
        known = keys[number].suffixed
        # Without a known partitioner any partition may be reached, and more than once.
        suffixed = np.arange(len(level)).repeat(salts[number]) if known is None else known
        free = np.ones(len(suffixed), dtype=bool)
        taken: list[int] = []
        for _ in range(salts[number]):
            place = int(np.argmin(np.where(free, placed[suffixed], np.inf)))
            free[place] = False
            taken.append(int(suffixed[place]) if known is None else place)
            placed[suffixed[place]] += size
            on[number][suffixed[place]] += size
        chosen[number] = tuple(sorted(taken))
    return placed, chosen, on
