"""Whether some keys are so frequent, or so large, that they make the skew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.observation import MEASURES, Observation, listed, percent, times_mean
from spark_validation.results import Cause

if TYPE_CHECKING:
    from spark_validation.key_counts import Floats, HotKey

STANDS_OUT = 3.0
"""A key is hot if its share is so many times that of the average key less frequent than it: equal keys,
however few, are not."""
LEAST_LIFT = 0.05
"""And if it alone fills a partition by this part of the mean: what is below is not seen in any ratio."""
MOST_OF_IT = 0.75
"""Keys are added, largest first, until they explain this part of the excess."""
WORTH_NAMING = 0.25
"""Keys that explain less of the excess are no cause of it."""
NAMED = 3
"""How many keys a sentence names."""


@dataclass(frozen=True, slots=True)
class HotKeys:
    """The fewest keys that explain the skew.

    Attributes:
        keys: Largest first.
        shares: Of the topic's records or bytes, alike.
        by: `records` or `bytes`.
        explains: The part of the excess that goes with them (Observation.explained).
    """

    keys: tuple[HotKey, ...]
    shares: tuple[float, ...]
    by: str
    explains: float


def hot_keys(seen: Observation) -> HotKeys | None:
    """The keys that make the skew by records, or else that by bytes; None where it is not keys."""
    for by in MEASURES:
        if seen.skewed(by):
            found = _by(seen, by)
            if found is not None and found.explains >= WORTH_NAMING:
                return found
    return None


def hot_cause(seen: Observation, hot: HotKeys) -> Cause:
    """In words."""
    ratio = seen.ratio(hot.by).value
    named = [
        f"{key.digest[:12]} ({percent(share)})"
        for key, share in zip(hot.keys[:NAMED], hot.shares, strict=False)
    ]
    if len(hot.keys) == 1:
        who = f"Key {hot.keys[0].digest[:12]} has {percent(hot.shares[0])} of the {hot.by}"
    else:
        more = f" and {len(hot.keys) - NAMED} more" if len(hot.keys) > NAMED else ""
        names = ", ".join(named) + more if more else listed(named)
        who = f"Keys {names} have {percent(sum(hot.shares))} of the {hot.by}"
    left = 1 + (ratio - 1) * (1 - hot.explains)
    evidence = (
        f"{who}; the fullest partition, {seen.fullest(hot.by)}, has {times_mean(ratio)}, and would have "
        f"{left:.2f} without {'it' if len(hot.keys) == 1 else 'them'}."
    )
    if hot.by == "bytes":
        evidence += f" By records the ratio is {seen.ratio('records').value:.2f}."
    return Cause("hot_keys", evidence, hot.explains)


def _by(seen: Observation, by: str) -> HotKeys | None:
    chosen: list[HotKey] = []
    shares: list[float] = []
    part: Floats | None = None
    best: HotKeys | None = None
    for key, share in standing_out(seen, by):
        chosen.append(key)
        shares.append(share)
        load = seen.of_key(key, by)
        part = load if part is None else part + load
        explains = seen.explained(part, by)
        if best is None or explains > best.explains:
            best = HotKeys(tuple(chosen), tuple(shares), by, explains)
        if explains >= MOST_OF_IT:
            break
    return best


def standing_out(seen: Observation, by: str) -> list[tuple[HotKey, float]]:
    """Keys that are larger than most, with their shares, largest first."""
    total = float(seen.loads(by).sum())
    if total <= 0:
        return []
    shares = [(key, float(seen.of_key(key, by).sum()) / total) for key in seen.tally.hot]
    shares.sort(key=lambda one: (-one[1], one[0].digest))
    left = 1 - float(seen.nulls(by).sum()) / total
    distinct = max(seen.result.distinct_keys.value, len(shares))
    found = []
    for number, (key, share) in enumerate(shares, start=1):
        left -= share
        average = max(left, 0.0) / (distinct - number) if distinct > number else 0.0
        if share < STANDS_OUT * average or share * seen.partitions < LEAST_LIFT:
            break
        found.append((key, share))
    return found
