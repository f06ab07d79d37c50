"""Splits of frequent keys into salts: the same key with one of several suffixes, chosen to land apart.

Suffixes taken at random fall on partitions as balls fall into bins, so that many are needed for none of them
to get much more than its part. But the partition of a suffixed key can be computed: the reducer of a key does
so for the first SUFFIXES suffixes. So a few are chosen whose partitions differ, and are the emptiest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.sampled_topic import MEASURES, MIN_RECORDS_OF_KEY, SampledTopic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spark_validation.history import Histories
    from spark_validation.key_counts import Floats

MAX_SALTS = 50
"""The most salts of all keys together that are advised: a reader of a key must read all of its salts."""


@dataclass(frozen=True, slots=True, eq=False)
class SaltedKey:
    """The loads of one frequent key, and the partitions of its salts.

    Attributes:
        loads: Records and bytes of the key (MEASURES by partitions).
        suffixed: The partition of the key with each suffix; None where its partitioner is unknown or it takes
            no suffix, and any partition may be chosen.
        is_text: Whether it and most keys of the topic are text, so that it takes a suffix.
    """

    loads: Floats
    suffixed: Int64s | None
    is_text: bool


@dataclass(frozen=True, slots=True, eq=False)
class TopicLoads:
    """The loads that producers cause.

    Attributes:
        partitions: Records and bytes of partitions (MEASURES by partitions).
        keys: The part of each frequent key, by its hash.
        histories: Those of keys whose share is another one now: the loads are what is written now.
    """

    partitions: Floats
    keys: Mapping[str, SaltedKey]
    histories: Histories = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """A split of frequent keys into salts.

    Attributes:
        suffixes: For each key that is split, by its index, the numbers of the suffixes; where these are not
            known, the numbers of the partitions.
        ratios: The fullest partition over the mean with these, of each measure.
    """

    suffixes: Mapping[int, tuple[int, ...]]
    ratios: tuple[float, ...]

    @property
    def salts(self) -> int:
        """The salts of all keys."""
        return sum(map(len, self.suffixes.values()))


def partition_loads(topic: SampledTopic, partitioner: str | None, histories: Histories) -> TopicLoads:
    """Return the loads of partitions, and the part of each frequent key that can be split.

    These are the loads that current producers cause: every key lies where their partitioner puts it on
    the present count, and records without a key are spread evenly. Where no such prediction holds, they are
    those of the log. Keys have the share that they have now, and the others share the rest.

    Args:
        partitioner: The one that places all keys now; None where there are several, or it is not known.
        histories: Of the keys whose share is another one now.
    """
    number = -1 if partitioner is None else list(PARTITIONERS).index(partitioner)
    predicted = (
        number in topic.counts.differences
        and topic.partitions in topic.counts.placements
        and topic.result.what_if_withheld is None
    )
    loads = np.stack([topic.loads(by) for by in MEASURES])
    if predicted:
        placed = topic.counts.placed_by(topic.partitions, partitioner)
        nulls = np.array([[topic.nulls(by).sum() / topic.partitions] for by in MEASURES])
        loads = np.stack([placed.records.sum(axis=1), placed.bytes.sum(axis=1)]) + nulls
    # A few bytes of binary keys happen to be text.
    mostly_text = 2 * sum(key.is_text for key in topic.counts.hot) >= len(topic.counts.hot)
    keys = {}
    for key in topic.counts.hot:
        if key.records.sum() < MIN_RECORDS_OF_KEY or (predicted and number not in key.suffixed):
            continue
        own = np.stack([topic.key_loads(key, by) for by in MEASURES])
        is_text = key.is_text and mostly_text
        suffixed = None
        if predicted:
            at, *suffixes = key.suffixed[number]
            own, whole = np.zeros(own.shape), own.sum(axis=1)
            own[:, at] = whole
            suffixed = np.array(suffixes) if is_text else None
        keys[key.key_hash] = SaltedKey(own, suffixed, is_text)
    for by, traced in histories.items():
        row = MEASURES.index(by)
        total = float(loads[row].sum())
        now = {name: history.now for name, history in traced.items() if name in keys}
        unchanged = np.maximum(loads[row] - sum(keys[name].loads[row] for name in now), 0.0)
        unchanged *= max(0.0, 1 - sum(now.values())) * total / max(float(unchanged.sum()), 1e-12)
        for name, share in now.items():
            own = keys[name].loads[row]
            own *= share * total / max(float(own.sum()), 1e-12)
            unchanged += own
        loads[row] = unchanged
    return TopicLoads(loads, keys, histories)


def split(
    loads: Floats, keys: Sequence[SaltedKey], measures: Sequence[int], *, ratio: float, key_share: float
) -> Split | None:
    """Find few salts with which a topic keeps a ratio, and each salt a share.

    As long as the fullest partition is too full by any measure, the key with the largest load on it gets one
    salt more. Salts are placed largest first, each by the suffix that puts it on the emptiest partition.

    Args:
        loads: Records and bytes of partitions, with these keys (MEASURES by partitions).
        keys: The keys that may be split.
        measures: The measures that count, as indices of MEASURES.
        ratio: The largest ratio allowed.
        key_share: The largest share of one key allowed, by the first of the measures.

    Returns:
        None where not even MAX_SALTS suffice, or where the fullest partition has none of the keys.
    """
    chosen_loads = loads[[*measures]]
    unit = chosen_loads.shape[1] / np.maximum(chosen_loads.sum(axis=1, keepdims=True), 1e-12)
    level, parts = chosen_loads * unit, [key.loads[[*measures]] * unit for key in keys]
    # In units of the mean load, a share of s is s times the partition count.
    most = key_share * level.shape[1]
    # The rounding of a quotient must not cost a further salt.
    salts = [max(1, int(np.ceil(float(part[0].sum()) / most - 1e-9))) for part in parts]
    while sum(count for count in salts if count > 1) <= MAX_SALTS:
        placed, chosen, on = _place_salts(level, keys, parts, salts)
        measure, fullest = np.unravel_index(int(np.argmax(placed)), placed.shape)
        if placed[measure, fullest] <= ratio:
            return Split(chosen, tuple(placed.max(axis=1).tolist()))
        # Only what lies on the fullest partition can lower the ratio.
        there = [number for number in range(len(keys)) if on[number][measure, fullest] > 0]
        if not there:
            return None
        salts[max(there, key=lambda number: on[number][measure, fullest])] += 1
    return None


def _place_salts(
    level: Floats, keys: Sequence[SaltedKey], parts: Sequence[Floats], salts: Sequence[int]
) -> tuple[Floats, dict[int, tuple[int, ...]], list[Floats]]:
    """Place the salts: the loads of partitions over their mean, the suffixes chosen, and each key's loads."""
    divided = [number for number, count in enumerate(salts) if count > 1]
    # Floating point may leave less than nothing of a partition that has only these keys.
    placed = np.maximum(level - sum((parts[number] for number in divided), np.zeros(level.shape)), 0.0)
    on = list(parts)
    chosen: dict[int, tuple[int, ...]] = {}
    for number in sorted(divided, key=lambda number: -parts[number].sum(axis=1).max() / salts[number]):
        size = parts[number].sum(axis=1) / salts[number]
        on[number] = np.zeros(level.shape)
        known = keys[number].suffixed
        # Without a known partitioner any partition may be reached, and more than once.
        suffixed = np.arange(level.shape[1]).repeat(salts[number]) if known is None else known
        free = np.ones(len(suffixed), dtype=bool)
        taken: list[int] = []
        for _ in range(salts[number]):
            after = (placed[:, suffixed] + size[:, None]).max(axis=0)
            index = int(np.argmin(np.where(free, after, np.inf)))
            free[index] = False
            taken.append(int(suffixed[index]) if known is None else index)
            placed[:, suffixed[index]] += size
            on[number][:, suffixed[index]] += size
        chosen[number] = tuple(sorted(taken))
    return placed, chosen, on
