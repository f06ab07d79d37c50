"""Diagnosis of a topic: the causes of how its keys lie, ranked. Hot, few and null keys are found here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_validation import causes_burst, causes_placement
from spark_validation.arrivals import EVEN_RATIO, FEWEST_RECORDS, MUCH_MORE, Spread
from spark_validation.imbalance import expected_ratio
from spark_validation.results import SkewCause
from spark_validation.sampled_topic import (
    LEAST_LIFT,
    MEASURES,
    NULLS_WORTH_NAMING,
    STANDS_OUT,
    SampledTopic,
    capitalised,
    listed,
    max_over_mean,
    named,
    percent,
    times_mean,
)

if TYPE_CHECKING:
    from spark_validation.causes_placement import Placement
    from spark_validation.key_counts import Floats, HotKey


CHANCE_IS_ENOUGH = 0.5
"""The part of the excess that the number of keys alone must explain by chance."""
SERIOUS = 0.05
"""The share of misplaced records from which broken order matters more than any skew."""
CLUMPED = 3.0
"""From this dispersion on (SampledTopic.null_dispersion), records without a key come in batches."""
FULL = 1.0
"""The rank of a cause that explains all."""


def diagnose(topic: SampledTopic, placement: Placement) -> tuple[SkewCause, ...]:
    """Return the causes of how the keys lie, the most telling first; else `balanced` or `empty` alone.

    The order: keys placed in two ways, by partitioners or partition counts, come first where they concern
    more than strays (SERIOUS), because they break order, and because what they leave looks like skew. Then
    what makes the skew, by the part of the excess that it explains; at the same part a burst before the
    frequent key that makes it, and too few keys before some of these. Then what makes no skew.

    Args:
        topic: Its result is complete but for diagnosis, causes and advice.
        placement: Who placed its keys.
    """
    if not int(topic.counts.records.sum()):
        where = " in the sample." if topic.plan.records else "."
        return (SkewCause("empty", f"There are no records{where}"),)
    if topic.spread is Spread.LITTLE:
        return (_too_little(topic),)
    ranked = _placed(topic, placement)
    repartitioned = any(cause.name == "repartitioned" for _, cause in ranked)
    ranked += _skewing(topic, repartitioned=repartitioned)
    uneven = any(topic.skewed(by) for by in MEASURES)
    if uneven and topic.result.keys_withheld is not None:
        ranked.append((FULL, _unexplained(topic, placement, "")))
    nulls = null_cause(topic)
    if nulls is not None:
        rank = topic.result.null_key_share.value if nulls.explains is None else nulls.explains
        ranked.append((rank, nulls))
    note = causes_placement.note(topic, placement)
    if not ranked and uneven:
        return (_unexplained(topic, placement, note),)
    if not ranked:
        return (_balanced(topic, note),)
    ranked.sort(key=lambda entry: -entry[0])
    causes = [cause for _, cause in ranked]
    first = causes[0]
    return (SkewCause(first.name, first.evidence + note, first.explains), *causes[1:])


def _placed(topic: SampledTopic, placement: Placement) -> list[tuple[float, SkewCause]]:
    """Keys placed in two ways; with a rank above that of a cause that explains all, if it matters."""
    ranked = []
    increased = causes_placement.repartition_cause(topic, placement)
    if increased is not None and placement.repartition is not None:
        misplaced = placement.repartition.misplaced
        ranked.append((2 * FULL if misplaced >= SERIOUS else misplaced, increased))
    mixed = causes_placement.mixed_cause(topic, placement)
    if mixed is not None and placement.mix is not None:
        misplaced = placement.mix.misplaced
        ranked.append((2 * FULL if misplaced >= SERIOUS else misplaced, mixed))
    return ranked


def _skewing(topic: SampledTopic, *, repartitioned: bool) -> list[tuple[float, SkewCause]]:
    """Causes of skew, overall or at times, with their ranks: equal ones stay in this order."""
    ranked: list[tuple[float, SkewCause]] = []
    if topic.result.keys_withheld is not None:
        return ranked
    hot = hot_keys(topic)
    # A partition increase changes all shares at one time, which is no burst.
    burst = None if repartitioned else causes_burst.burst(topic)
    if burst is not None:
        cause = causes_burst.burst_cause(topic, burst)
        rank = cause.explains
        if rank is None:
            rank = 0.0 if any(topic.skewed(by) for by in MEASURES) else FULL
        if hot is not None and burst.key is not None and burst.key in hot.keys:
            rank = max(rank, hot.explains)
        ranked.append((rank, cause))
    few = few_cause(topic)
    if few is not None:
        ranked.append((few.explains or 0.0, few))
    if hot is not None:
        ranked.append((hot.explains, hot_cause(topic, hot)))
    return ranked


def few_cause(topic: SampledTopic) -> SkewCause | None:
    """Too few keys: so few that, were all alike, chance would be expected to make the skew."""
    distinct = topic.result.distinct_keys.value
    ratio = topic.ratio("records").value
    if distinct < 1 or not topic.skewed("records"):
        return None
    expected = expected_ratio(distinct, topic.partitions)
    keyed = 1 - topic.result.null_key_share.value
    explains = min(1.0, keyed * (expected - 1) / (ratio - 1))
    if explains < CHANCE_IS_ENOUGH and distinct >= topic.partitions:
        return None
    keyless = int(np.count_nonzero(topic.counts.keys == 0))
    without = f", and {keyless} partitions have none" if keyless > 1 else (
        ", and one partition has none" if keyless else ""
    )  # fmt: skip
    keys = f"{distinct:,.0f} distinct keys are" if round(distinct) > 1 else "One distinct key is"
    return SkewCause(
        "few_keys",
        f"{keys} too few for {topic.partitions} partitions{without}: even equally frequent keys would "
        f"by chance give the fullest partition {times_mean(expected)}; it has {ratio:.2f}.",
        explains,
    )


def null_cause(topic: SampledTopic) -> SkewCause | None:
    """Records without a key, if they are more than strays."""
    share = topic.result.null_key_share.value
    if share < NULLS_WORTH_NAMING:
        return None
    nulls = topic.nulls("records")
    ratio = max_over_mean(nulls)
    dispersion = topic.null_dispersion
    if dispersion is not None and dispersion >= CLUMPED:
        manner = (
            f"in batches (their share varies {dispersion:.0f} times as much between windows as by chance)"
        )
    elif ratio <= EVEN_RATIO:
        manner = "evenly"
    else:
        manner = "unevenly"
    explains = topic.explained(nulls, "records") if topic.skewed("records") else None
    subject = "No record has a key" if share == 1 else f"{percent(share)} of the records have no key"
    return SkewCause(
        "null_keys",
        f"{subject}; they are spread {manner}, with {ratio:.2f} times their mean on the fullest partition, "
        f"and have no order relative to each other.",
        explains,
    )


def _too_little(topic: SampledTopic) -> SkewCause:
    records = round(float(topic.written.sum()))
    noun = "record was" if records == 1 else "records were"
    return SkewCause(
        "too_little_data",
        f"{records:,} {noun} written in the period; of fewer than {FEWEST_RECORDS} nothing is said.",
    )


def _unexplained(topic: SampledTopic, placement: Placement, note: str) -> SkewCause:
    """Word a skew that none of the causes explains, by the nearest name."""
    by = next(by for by in MEASURES if topic.skewed(by))
    ratio, fullest = topic.ratio(by).value, topic.fullest(by)
    evidence = f"Partition {fullest} has {times_mean(ratio)} by {by}"
    if by == "bytes":
        evidence += f" (by records the fullest has {topic.ratio('records').value:.2f})"
    if topic.result.keys_withheld is not None:
        return SkewCause("unknown", f"{evidence}; which keys cause it cannot be told.{note}")
    if placement.mix is not None and placement.mix.unknown:
        return SkewCause("mixed_partitioners", f"{evidence}, and no frequent key causes it.{note}")
    largest = sorted((float(topic.of_key(key, by).sum()) for key in topic.counts.hot), reverse=True)
    total = float(topic.loads(by).sum())
    if not largest:
        return SkewCause("null_keys", f"{evidence}, though no record has a key.{note}")
    return SkewCause(
        "hot_keys",
        f"{evidence}; not a few keys cause it, but many keys of uneven size: the largest has "
        f"{percent(largest[0] / total)}, the {len(largest)} largest have {percent(sum(largest) / total)} "
        f"of the {by}.{note}",
    )


def _balanced(topic: SampledTopic, note: str) -> SkewCause:
    if topic.partitions == 1:
        return SkewCause("balanced", "The topic has only one partition.")
    by_records, by_bytes = (topic.ratio(by) for by in MEASURES)
    evidence = (
        f"The fullest partition has {times_mean(by_records.value)} by records and {by_bytes.value:.2f} by "
        f"bytes"
    )
    largest = max((float(topic.of_key(key, "records").sum()) for key in topic.counts.hot), default=0.0)
    total = float(topic.loads("records").sum())
    if largest and total:
        evidence += f"; the most frequent key has {percent(largest / total)} of the records"
    nulls = topic.result.null_key_share.value
    if nulls:
        evidence += f"; {percent(nulls)} have no key"
    return SkewCause("balanced", f"{evidence}.{note}")


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


def hot_keys(topic: SampledTopic) -> HotKeys | None:
    """The keys that make the skew; None where it is not keys.

    They are told in the measure that is the more uneven by far, or else by records.
    """
    by_records, by_bytes = (topic.ratio(by).value - 1 for by in MEASURES)
    for by in reversed(MEASURES) if by_bytes > MUCH_MORE * by_records else MEASURES:
        if topic.skewed(by):
            found = _by(topic, by)
            if found is not None and found.explains >= WORTH_NAMING:
                return found
    return None


def hot_cause(topic: SampledTopic, hot: HotKeys) -> SkewCause:
    """Word the cause."""
    ratio = topic.ratio(hot.by).value
    noun = "Keys " if all(key.length for key in hot.keys[:NAMED]) else ""
    parts = [
        f"{named(key).removeprefix(noun[:-2].lower()).strip()} ({percent(share)})"
        for key, share in zip(hot.keys[:NAMED], hot.shares, strict=False)
    ]
    if len(hot.keys) == 1:
        subject = f"{capitalised(named(hot.keys[0]))} has {percent(hot.shares[0])} of the {hot.by}"
    else:
        more = f" and {len(hot.keys) - NAMED} more" if len(hot.keys) > NAMED else ""
        names = ", ".join(parts) + more if more else listed(parts)
        subject = f"{capitalised(noun + names)} have {percent(sum(hot.shares))} of the {hot.by}"
    remaining = 1 + (ratio - 1) * (1 - hot.explains)
    evidence = (
        f"{subject}; the fullest partition, {topic.fullest(hot.by)}, has {times_mean(ratio)}, and would have "
        f"{remaining:.2f} without {'it' if len(hot.keys) == 1 else 'them'}."
    )
    if hot.by == "bytes":
        evidence += f" By records the ratio is {topic.ratio('records').value:.2f}."
    return SkewCause("hot_keys", evidence, hot.explains)


def _by(topic: SampledTopic, by: str) -> HotKeys | None:
    chosen: list[HotKey] = []
    shares: list[float] = []
    part: Floats | None = None
    best: HotKeys | None = None
    for key, share in standing_out(topic, by):
        chosen.append(key)
        shares.append(share)
        load = topic.of_key(key, by)
        part = load if part is None else part + load
        explains = topic.explained(part, by)
        if best is None or explains > best.explains:
            best = HotKeys(tuple(chosen), tuple(shares), by, explains)
        if explains >= MOST_OF_IT:
            break
    return best


def standing_out(topic: SampledTopic, by: str) -> list[tuple[HotKey, float]]:
    """Keys that are larger than most, with their shares, largest first."""
    total = float(topic.loads(by).sum())
    if total <= 0:
        return []
    shares = [(key, float(topic.of_key(key, by).sum()) / total) for key in topic.counts.hot]
    shares.sort(key=lambda entry: (-entry[1], entry[0].digest))
    remaining = 1 - float(topic.nulls(by).sum()) / total
    distinct = max(topic.result.distinct_keys.value, len(shares))
    found = []
    for number, (key, share) in enumerate(shares, start=1):
        remaining -= share
        average = max(remaining, 0.0) / (distinct - number) if distinct > number else 0.0
        if share < STANDS_OUT * average or share * topic.partitions < LEAST_LIFT:
            break
        found.append((key, share))
    return found
