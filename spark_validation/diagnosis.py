"""The diagnosis of a topic: its causes, ranked. Hot, few and null keys are found here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_validation import causes_burst, causes_placement
from spark_validation.arrivals import EVEN_RATIO, MUCH_MORE, Spread
from spark_validation.causes_repartition import repartition_cause
from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.history import trace
from spark_validation.imbalance import expected_ratio
from spark_validation.policy import MIN_RECORDS
from spark_validation.results import (
    BalancedFacts,
    EmptyFacts,
    FewKeysFacts,
    HotKeysFacts,
    KeyShare,
    LittleDataFacts,
    NullKeysFacts,
    SkewCause,
    UnexplainedFacts,
)
from spark_validation.sampled_topic import (
    CHANCE_IS_ENOUGH,
    CLUMPED,
    MANY_KEYS_PER_PARTITION,
    MEASURES,
    NULLS_WORTH_NAMING,
    HotKeys,
    SampledTopic,
    max_over_mean,
)
from spark_validation.windows import MIN_PER_PARTITION

if TYPE_CHECKING:
    from spark_validation.causes_burst import Timeline
    from spark_validation.causes_placement import Placement
    from spark_validation.key_counts import Floats

SERIOUS = 0.05
"""The share of misplaced records from which broken order matters more than any skew."""
MIN_CHOSEN_TIME_FRACTION = 0.9
"""The part of the time in which a chosen partition has more records without a key than the mean."""
MIN_CHOSEN_RATIO = 1.5
"""It also has so many times as many of these records as any that was not chosen: partitioners that prefer the
brokers that answer faster (KIP-794) make smaller steps."""
FULL = 1.0
"""The rank of a cause that explains all."""


def diagnose(
    topic: SampledTopic,
    placement: Placement,
    windows: Timeline | None,
    fine: Timeline | None,
    line: Timeline | None,
) -> tuple[SkewCause, ...]:
    """Return the causes of how the keys lie, the main one first; else `balanced` or `empty` alone.

    The order: keys placed in two ways, by partitioners or partition counts, come first where they concern
    more than strays (SERIOUS), because they break order, and because what they leave looks like skew. Then
    what makes the skew, by the part of the excess that it explains; at the same part a burst before the
    frequent key that makes it, and too few keys before some of these. Then what makes no skew.

    Args:
        topic: Its result is complete but for diagnosis, causes and advice.
        placement: The partitioners that placed its keys.
        windows: Its timeline by windows; None where times do not show it.
        fine: The same in as many intervals as are known.
        line: The one of which histories are traced; None where keys have moved, too.
    """
    if not int(topic.counts.records.sum()):
        return (SkewCause("empty", facts=EmptyFacts(topic.plan.records)),)
    if topic.spread is Spread.LITTLE:
        facts = LittleDataFacts(round(float(topic.written.sum())), MIN_RECORDS)
        return (SkewCause("too_little_data", facts=facts),)
    ranked = _rank_placement(topic, placement, line)
    repartitioned = any(cause.name == "repartitioned" for _, cause in ranked)
    ranked += _rank_skew(topic, windows, fine, line, repartitioned=repartitioned)
    uneven = any(topic.skewed(by) for by in MEASURES)
    if uneven and topic.result.keys_withheld is not None:
        ranked.append((FULL, _unexplained_cause(topic, placement)))
    nulls = find_null_keys_cause(topic, windows)
    if nulls is not None:
        rank = topic.result.null_key_share.value if nulls.explains is None else nulls.explains
        nulls = _add_history(topic, line, nulls, topic.counts.null_records, topic.counts.records)
        ranked.append((rank, nulls))
    if not ranked:
        ranked = [(FULL, _unexplained_cause(topic, placement) if uneven else _balanced_cause(topic))]
    ranked.sort(key=lambda entry: -entry[0])
    (_, main), *others = ranked
    main = replace(main, placement=causes_placement.find_own_placement(topic, placement))
    return (main, *(cause for _, cause in others))


def _rank_placement(
    topic: SampledTopic, placement: Placement, line: Timeline | None
) -> list[tuple[float, SkewCause]]:
    """Rank the causes that place keys in two ways: above a full explanation, unless only strays are."""
    ranked = []
    mix, repartition = placement.mix, placement.repartition
    if repartition is not None:
        newer = mix.main if mix is not None and mix.single else None
        ranked.append((repartition.misplaced, repartition_cause(topic, repartition, newer)))
    mixed = causes_placement.mixed_cause(topic, placement)
    if mixed is not None and mix is not None:
        if not placement.ended and mixed.times is None:
            misplaced = topic.keyed - topic.counts.fits[list(PARTITIONERS).index(mix.main)]
            mixed = replace(mixed, since_ms=_add_history(topic, line, mixed, misplaced, topic.keyed).since_ms)
        ranked.append((mix.misplaced, mixed))
    return [(2 * FULL if misplaced >= SERIOUS else misplaced, cause) for misplaced, cause in ranked]


def _add_history(
    topic: SampledTopic,
    line: Timeline | None,
    cause: SkewCause,
    part: Floats | Int64s,
    whole: Floats | Int64s,
    size: float = 1.0,
) -> SkewCause:
    """Add since when and until when a cause held; part, whole and size are those of `trace`."""
    if line is None:
        return cause
    history = trace(topic, line, part, whole, size)
    return replace(
        cause,
        since_ms=history.since_ms,
        until_ms=history.until_ms,
        times=history.times if history.times > 1 else None,
        share_now=history.now if history.changed else None,
    )


def _rank_skew(
    topic: SampledTopic,
    windows: Timeline | None,
    fine: Timeline | None,
    line: Timeline | None,
    *,
    repartitioned: bool,
) -> list[tuple[float, SkewCause]]:
    """Rank the causes of skew, overall or at times; equal ones stay in this order."""
    ranked: list[tuple[float, SkewCause]] = []
    if topic.result.keys_withheld is not None:
        return ranked
    hot = find_hot_keys(topic)
    # A partition increase changes all shares at one time, which is no burst.
    burst = None if repartitioned else causes_burst.find_burst(topic, windows, fine)
    if burst is not None:
        cause = causes_burst.burst_cause(topic, burst)
        if (key := topic.counts.find_hot(burst.key_hash)) is not None:
            history = _add_history(topic, line, cause, key.records, topic.counts.records)
            cause = replace(cause, times=history.times if history.until_ms is None else None)
        rank = cause.explains
        if rank is None:
            # Without a part of the skew, a burst comes after the causes of it, and first where there is none.
            rank = 0.0 if any(topic.skewed(by) for by in MEASURES) else FULL
        if hot is not None and burst.key_hash in {key.key_hash for key in hot.keys}:
            rank = max(rank, hot.explains)
        ranked.append((rank, cause))
    few = find_few_keys_cause(topic)
    if few is not None:
        ranked.append((few.explains or 0.0, few))
    if hot is not None:
        ranked.append((hot.explains, make_hot_keys_cause(topic, line, hot)))
        # One key may be hot by records, and another by bytes.
        for by in (by for by in MEASURES if by != hot.by and topic.skewed(by)):
            by_measure = topic.hot_keys[by]
            further = [key for key in by_measure.keys if key not in hot.keys] if by_measure else []
            if (
                by_measure
                and further
                and (further[0] is by_measure.keys[0] or not topic.is_large(further[0], hot.by))
            ):
                ranked.append(
                    (min(hot.explains, by_measure.explains), make_hot_keys_cause(topic, line, by_measure))
                )
    return ranked


def find_few_keys_cause(topic: SampledTopic) -> SkewCause | None:
    """Return the cause, if keys are so few that chance would make the skew even of equal keys."""
    distinct = topic.result.distinct_keys.value
    by = next((by for by in MEASURES if topic.skewed(by)), None)
    if distinct < 1 or by is None:
        return None
    expected = expected_ratio(distinct, topic.partitions)
    # Records without a key are spread evenly by their producers, and dilute what few keys do.
    keyed = 1 - topic.result.null_key_share.value
    explains = min(1.0, keyed * (expected - 1) / (topic.ratio(by).value - 1))
    if distinct >= MANY_KEYS_PER_PARTITION * topic.partitions or (
        explains < CHANCE_IS_ENOUGH and distinct >= topic.partitions
    ):
        return None
    facts = FewKeysFacts(
        topic.result.distinct_keys,
        topic.partitions,
        int(np.count_nonzero(topic.counts.keys == 0)),
        expected,
        topic.ratio(by),
        by,
    )
    return SkewCause("few_keys", explains=explains, facts=facts)


def find_null_keys_cause(topic: SampledTopic, windows: Timeline | None) -> SkewCause | None:
    """Return the cause, if more records than strays have no key."""
    share = topic.result.null_key_share.value
    if share < NULLS_WORTH_NAMING:
        return None
    nulls = topic.nulls("records")
    ratio = max_over_mean(nulls)
    dispersion = topic.null_dispersion
    chosen = _find_chosen_partitions(topic, windows) if ratio > EVEN_RATIO else ()
    spread = "evenly" if ratio <= EVEN_RATIO else "unevenly"
    if chosen:
        spread = "by choice"
    elif dispersion is not None and dispersion >= CLUMPED:
        spread = "in batches"
    explains = topic.explain_excess(nulls, "records") if topic.skewed("records") else None
    facts = NullKeysFacts(topic.result.null_key_share, spread, ratio, dispersion, chosen)
    return SkewCause("null_keys", explains=explains, facts=facts)


def _find_chosen_partitions(topic: SampledTopic, windows: Timeline | None) -> tuple[int, ...]:
    """Return the partitions that producers choose for records without a key; empty if a partitioner does.

    Batches of a sticky partitioner go to one partition after another. A partition that has more of these
    records than others at nearly all times was chosen.
    """
    nulls = topic.nulls("records")
    if windows is not None:
        loads = windows.sum_intervals(topic.per_offset(topic.counts.null_records))
    else:
        # Without keys and times, windows show nothing, but no partitioner fills one partition alone.
        loads = topic.counts.null_records * topic.weights[:, None]
        if not topic.keyed.any() and nulls.max() < MIN_CHOSEN_TIME_FRACTION * nulls.sum():
            return ()
    total = loads.sum(axis=0)
    above = loads[:, total > 0] * topic.partitions > EVEN_RATIO * total[total > 0]
    if above.shape[1] < MIN_PER_PARTITION:
        return ()
    chosen = above.mean(axis=1) >= MIN_CHOSEN_TIME_FRACTION
    alone = chosen.any() and nulls[chosen].min() >= MIN_CHOSEN_RATIO * nulls[~chosen].max(initial=0.0)
    return tuple(np.flatnonzero(chosen).tolist()) if alone else ()


def _unexplained_cause(topic: SampledTopic, placement: Placement) -> SkewCause:
    """Return the cause of a skew that no other cause explains, under the nearest name."""
    by = next(by for by in MEASURES if topic.skewed(by))
    largest = sorted((float(topic.key_loads(key, by).sum()) for key in topic.counts.hot), reverse=True)
    total, fullest, keys = float(topic.loads(by).sum()), topic.fullest(by), topic.counts.keys
    if topic.result.keys_withheld is not None:
        name, reason = "unknown", "keys_withheld"
    elif placement.mix is not None and placement.mix.unknown:
        name, reason = "mixed_partitioners", "own_partitioner"
    elif not largest:
        name, reason = "null_keys", "no_keys"
    else:
        name, reason = "hot_keys", "many_keys"
    facts = UnexplainedFacts(
        reason,
        by,
        fullest,
        topic.ratio(by),
        topic.ratio("records"),
        len(largest),
        largest[0] / total if largest else 0.0,
        sum(largest) / total if largest else 0.0,
        float(keys[fullest] / keys.mean()) if keys.any() else 1.0,
    )
    return SkewCause(name, facts=facts)


def _balanced_cause(topic: SampledTopic) -> SkewCause:
    largest = max((float(topic.key_loads(key, "records").sum()) for key in topic.counts.hot), default=0.0)
    total = float(topic.loads("records").sum())
    facts = BalancedFacts(
        topic.partitions,
        topic.ratio("records"),
        topic.ratio("bytes"),
        largest / total if total else 0.0,
        topic.result.null_key_share,
        next((topic.chance_limit(by) for by in MEASURES if topic.ratio(by).value > EVEN_RATIO), None),
    )
    return SkewCause("balanced", facts=facts)


def find_hot_keys(topic: SampledTopic) -> HotKeys | None:
    """Find the few keys that cause the skew; None where none do.

    They are measured by bytes where these are far more uneven, or else by records.
    """
    by_records, by_bytes = (topic.ratio(by).value - 1 for by in MEASURES)
    # Consumers are limited by records or by bytes; the more uneven one shows which keys to split.
    for by in reversed(MEASURES) if by_bytes > MUCH_MORE * by_records else MEASURES:
        if topic.skewed(by):
            hot = topic.hot_keys[by]
            if hot is not None:
                return hot
    return None


def make_hot_keys_cause(topic: SampledTopic, line: Timeline | None, hot: HotKeys) -> SkewCause:
    """Return the cause that these keys are, with its history."""
    ratio = topic.ratio(hot.by)
    keys = [
        KeyShare(key.key_hash, key.length, share) for key, share in zip(hot.keys, hot.shares, strict=True)
    ]
    without = 1 + (ratio.value - 1) * (1 - hot.explains)
    facts = HotKeysFacts(hot.by, tuple(keys), topic.fullest(hot.by), ratio, without, topic.ratio("records"))
    part = np.sum([getattr(key, hot.by) for key in hot.keys], axis=0)
    size = max(key.mean_size(hot.by) for key in hot.keys)
    cause = SkewCause("hot_keys", explains=hot.explains, facts=facts)
    return _add_history(topic, line, cause, part, getattr(topic.counts, hot.by), size)
