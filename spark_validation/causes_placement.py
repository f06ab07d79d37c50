"""The partitioners that placed the keys of a topic, now and earlier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from spark_validation.causes_repartition import (
    BEYOND_CHANCE,
    ENOUGH,
    MIN_ASCRIBED_SHARE,
    MISFIT_RECORDS,
    UNLIKELY,
    WORTH_NAMING,
    Repartition,
    find_repartition,
    find_steps,
    in_order,
)
from spark_validation.hashing import PARTITIONERS, are_alike, chance_of_none
from spark_validation.history import MAX_ABSENCE_RATIO
from spark_validation.key_counts import NEVER, Bools, Floats
from spark_validation.results import MixedFacts, OwnPlacement, SkewCause, Step, TopicResult
from spark_validation.sampled_topic import CLUMPED, SampledTopic, dispersion

SHARED_RECORDS = 0.02
"""From this share of records, keys on several partitions show that keys do not decide the partition."""
MIN_KEYS = 8
"""The fewest keys that do not lie by chance where a partitioner or an earlier count puts them."""
OF_MEDIAN = math.sqrt(math.pi / 2)
"""The standard deviation of a median over that of a mean, of many normal values."""
SHADOW = 0.7
"""Up to this part of the excess of another partitioner with the same hash, one fits only the other's keys."""


@dataclass(frozen=True, slots=True)
class PartitionerMix:
    """The partitioners that placed the records with a key.

    Attributes:
        main: The partitioner that explains all, or else murmur2 if it is at work, or else the one that
            explains most.
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

    @property
    def shares_keys(self) -> bool:
        """Return whether more than a few records have a key that is on several partitions."""
        return self.shared >= SHARED_RECORDS


def partitioner_mix(topic: SampledTopic, first: int = 0) -> PartitionerMix | None:
    """Estimate the partitioners of the records; None where none has a key, or there is one partition.

    Only partitions from number `first` on are examined: no earlier partition count placed records there.

    A record of one partitioner lies where another would put it too by chance, with q = 1 / partitions. If
    f of the records lie where the main partitioner puts them, f = a + (1 - a) q for its share a, so that
    1 - a = (1 - f) / (1 - q). The part of 1 - a that lies where no partitioner puts it gives the share of
    unknown ones in the same way; the rest is divided among partitioners that fit more records than by chance.
    That is judged by the median over partitions of their fit, as one frequent key may fit by chance, but only
    on its own partition.
    """
    keyed = float(topic.weigh(topic.keyed)[first:].sum())
    if topic.partitions < 2 or keyed <= 0:
        return None
    fits = {
        name: float(topic.weigh(topic.counts.fits[number])[first:].sum()) / keyed
        for number, name in enumerate(PARTITIONERS)
    }
    shared = topic.counts.shared_records / float(topic.keyed.sum())
    # murmur2 is the first of PARTITIONERS: where a few keys fit several, Java's default is named.
    for name, fit in fits.items():
        if 1 - fit < WORTH_NAMING:
            return PartitionerMix(name, 1 - fit, {name: 1.0}, shared)
    none = float(topic.weigh(topic.counts.fits_none)[first:].sum()) / keyed
    unknown = min(1.0, none * _unknown_factor(topic))
    main, shares = _divide_shares(fits, _excess_over_chance(topic, first), unknown, 1 / topic.partitions)
    return PartitionerMix(main, 1 - fits[main], shares, shared)


def _divide_shares(
    fits: dict[str, float], beyond: dict[str, float], unknown: float, chance: float
) -> tuple[str, dict[str, float]]:
    """Return the main partitioner, and the share of each.

    Args:
        fits: The share of records that lie where each partitioner puts them.
        beyond: For those that fit more than chance, by how much.
        unknown: The share of records that no known partitioner placed.
        chance: 1 / partitions: what a partitioner fits of the records of another.
    """
    # Java's is called the main one wherever it is at work: advice is to adopt it, as most clients can.
    main = "murmur2" if "murmur2" in beyond else max(fits, key=lambda name: fits[name])
    if main not in beyond and unknown >= MIN_ASCRIBED_SHARE:
        return main, {"other": 1.0}
    foreign = min(1.0, (1 - fits[main]) / (1 - chance))
    secondary = {name: fit for name, fit in beyond.items() if name != main}
    if unknown < MIN_ASCRIBED_SHARE * foreign:
        unknown = 0.0
        if not secondary:
            # With so few keys chance hides which one it is, but it must be a known one: the best fit.
            secondary = {max(set(fits) - {main}, key=lambda name: fits[name]): 1.0}
    if not secondary or unknown > (1 - MIN_ASCRIBED_SHARE) * foreign:
        return main, {main: 1 - foreign, "other": foreign}
    total = sum(secondary.values())
    shares = {main: 1 - foreign} | {
        name: (foreign - unknown) * fit / total for name, fit in secondary.items()
    }
    return main, shares | ({"other": unknown} if unknown else {})


def _unknown_factor(topic: SampledTopic) -> float:
    """Return the records of no known partitioner for each one that no partitioner puts where it lies.

    Of many keys, some lie by chance where a known partitioner puts them, too; of a few keys, none is assumed
    to.
    """
    records = topic.counts.misfits[:, MISFIT_RECORDS].astype(np.float64)
    if not len(records) or float(records.sum()) ** 2 / float((records**2).sum()) < MIN_KEYS:
        return 1.0
    return 1 / chance_of_none(topic.partitions)


def _excess_over_chance(topic: SampledTopic, first: int) -> dict[str, float]:
    """Return the excess over chance of each partitioner that has one: the median over partitions."""
    records = topic.keyed.sum(axis=1)
    # The fit of a partition with few records is mostly chance, and would only add noise to the median.
    filled = records >= min(100.0, float(np.median(records[first:])))
    filled &= (records > 0) & (np.arange(topic.partitions) >= first)
    chance = 1 / topic.partitions
    beyond = {}
    for number, name in enumerate(PARTITIONERS):
        # The median over partitions: one frequent key that fits by chance moves its own partition only.
        rates: Floats = topic.counts.fits[number].sum(axis=1)[filled] / records[filled]
        excess = float(np.median(rates)) - chance
        keys = max(1.0, float(np.median(_effective_keys(topic)[filled])))
        deviation = OF_MEDIAN * np.sqrt(chance * (1 - chance) / keys / filled.sum())
        if excess > BEYOND_CHANCE * deviation:
            beyond[name] = excess
    return {name: excess for name, excess in beyond.items() if not _is_shadow(name, beyond)}


def _is_shadow(name: str, beyond: dict[str, float]) -> bool:
    """Return whether a partitioner fits only what one with the same hash has placed.

    That is half of these records: if both were at work, each would fit half of the other's besides its own.
    """
    return any(
        beyond[name] < SHADOW * excess
        for partitioner, excess in beyond.items()
        if partitioner != name and are_alike(name, partitioner)
    )


def _effective_keys(topic: SampledTopic) -> Floats:
    """Return for each partition the number of equal keys that would vary as its keys do (partitions).

    One over the sum of squared shares (Kish's effective sample size, *Survey Sampling*, 1965;
    the inverse Simpson index); keys that are not hot are assumed to share the rest equally.
    """
    records = np.maximum(topic.keyed.sum(axis=1), 1.0)
    squares = np.zeros(topic.partitions)
    hot = np.zeros(topic.partitions)
    for key in topic.counts.hot:
        on = key.records.sum(axis=1)
        squares += (on / records) ** 2
        hot += on
    rest_keys = np.maximum(topic.counts.keys - len(topic.counts.hot) / topic.partitions, 1.0)
    # n equal keys with a share s together have n (s / n)² = s² / n as their sum of squares.
    squares += ((records - hot).clip(0) / records) ** 2 / rest_keys
    return np.asarray(1 / np.maximum(squares, 1e-12), dtype=np.float64)


MOSTLY = 0.9
"""The part of the records of no known partitioner that a few partitions must have to be named."""


@dataclass(frozen=True, slots=True)
class LatestPartitioner:
    """The partitioners of the newest part of the log.

    Attributes:
        main: The partitioner that explains most of them.
        known: The share that another known partitioner placed, corrected for chance.
        unknown: The share that no known partitioner placed, likewise.
        certain: Whether the newest part is long enough for the absence of misplaced records to be evidence.
        ended: The ends of the misplaced records before the newest part, for each partition where they show.
        times: How often misplaced records were seen, where they come back; 0 elsewhere.
    """

    main: str
    known: float
    unknown: float
    certain: bool
    ended: tuple[Step, ...]
    times: int = 0

    @property
    def single(self) -> bool:
        """Return whether one partitioner explains them all."""
        return not self.known and not self.unknown


def _find_latest_partitioner(topic: SampledTopic, first: int) -> LatestPartitioner | None:
    """Estimate the newest part's partitioners; None where no record has a key, or there is one partition."""
    wrong = (topic.keyed - topic.counts.fits)[:, first:]
    keyed = topic.keyed[first:]
    by_replicate, of_each = keyed.sum(axis=0), wrong.sum(axis=1)
    filled = np.flatnonzero(by_replicate)
    if not len(filled) or topic.partitions < 2:
        return None
    # The newest part follows the last replicate that has misplaced records.
    until = [
        int(np.flatnonzero(errors >= WORTH_NAMING * by_replicate.clip(1))[-1:].sum())
        if errors.sum() >= WORTH_NAMING * by_replicate.sum()
        else -1
        for errors in of_each
    ]
    # The partitioner whose misplaced records end first; of equal ones that with the fewest at the end.
    number = min(range(len(until)), key=lambda index: (until[index], of_each[index, filled[-1]]))
    times = _count_returns(topic, wrong[number], keyed, first)
    # Of what comes back, all of the log shows what is at work.
    begin = 0 if times else min(until[number] + 1, int(filled[-1]))
    read = float(by_replicate[begin:].sum())
    misplaced = float(of_each[number, begin:].sum()) / read
    none = float(topic.counts.fits_none[first:, begin:].sum()) / read
    unknown = min(1.0, none * _unknown_factor(topic))
    # Of another partitioner's records, one in n lies by chance where this one puts it.
    foreign = min(1.0, misplaced / (1 - 1 / topic.partitions))
    # Of the records of no known partitioner some lie by chance where another one puts them.
    known = foreign - unknown if foreign - unknown >= 2 * MIN_ASCRIBED_SHARE * foreign else 0.0
    before = float(of_each[number, :begin].sum()) / max(1.0, float(by_replicate[:begin].sum()))
    return LatestPartitioner(
        list(PARTITIONERS)[number],
        known if known >= WORTH_NAMING else 0.0,
        unknown if unknown >= WORTH_NAMING else 0.0,
        misplaced >= WORTH_NAMING or before * read >= ENOUGH,
        find_steps(topic, first, topic.partitions, topic.keyed - topic.counts.fits[number]) or (),
        times,
    )


def _count_returns(topic: SampledTopic, wrong: Floats, keyed: Floats, first: int) -> int:
    """Return how often misplaced records were seen, if they come and go and may come again; else 0.

    They come and go if windows between the first and the last that have some have none, or shares that vary
    far more than by chance. They have ended if they are away for much longer than they were before, and than
    windows show.

    Args:
        wrong: The misplaced records (partitions from number `first` on, by replicates).
        keyed: The records with a key, alike.
    """
    there: Bools = np.asarray(wrong > 0)
    number = np.arange(wrong.shape[1])
    if not there.any() or not in_order(topic):
        return 0
    last = len(number) - 1 - there[:, ::-1].argmax(axis=1)
    # The outermost windows may have some in a part of them only.
    inner = (
        (number > there.argmax(axis=1)[:, None])
        & (number < last[:, None])
        & np.asarray(there.any(axis=1, keepdims=True))
    )
    usual = keyed * float(wrong.sum() / keyed[there].sum())
    gone = np.count_nonzero(inner & ~there & (usual >= ENOUGH / 2))
    varies = np.median(np.nan_to_num(dispersion(wrong * inner, keyed * inner)))
    if gone <= MIN_ASCRIBED_SHARE * np.count_nonzero(inner) and varies < CLUMPED:
        return 0
    begins, ends = topic.counts.first_ms[first:], topic.counts.last_ms[first:]
    order = np.argsort(begins[there])
    starts, until = begins[there][order], np.maximum.accumulate(ends[there][order])
    gaps = np.append(starts[1:] - until[:-1], 0).clip(0)
    away = int(ends.max()) - int(until[-1])
    length = float(np.median((ends - begins)[there]))
    returns = away > 0 and away <= MAX_ABSENCE_RATIO * (int(gaps.max()) + length)
    return 1 + int(np.count_nonzero(gaps)) if returns else 0


@dataclass(frozen=True, slots=True)
class Placement:
    """The partitioners of a topic's keys.

    Attributes:
        mix: The partitioners that placed records on the present partition count; None where none did.
        newest: Those of the newest part of the log; None where there is none.
        repartition: The partition increases that explain other records; None where there are none.
        unknown: The share of records with a key that no known partitioner placed, on this or an earlier
            partition count, corrected for chance.
        unknown_now: The same of the newest part of the log.
        strays: The partitions that have nearly all of these, where they are few; else empty.
    """

    mix: PartitionerMix | None
    newest: LatestPartitioner | None
    repartition: Repartition | None
    unknown: float
    unknown_now: float
    strays: tuple[int, ...]

    @property
    def mixed_now(self) -> bool:
        """Return whether two known partitioners are at work in the newest part of the log."""
        return self.newest is not None and self.newest.known > 0

    @property
    def partitioner_now(self) -> str | None:
        """The known partitioner that places all keys now; None where there are several, or none."""
        if self.mix is None or self.newest is None or self.mixed_now:
            return None
        if self.ended:
            return self.newest.main
        # Records of no known partitioner are no evidence of another known one.
        return self.mix.main if set(self.mix.shares) - {"other"} == {self.mix.main} else None

    @property
    def ended(self) -> bool:
        """Return whether one partitioner alone is at work since records were placed otherwise."""
        return self.newest is not None and self.newest.single and self.newest.certain


def find_placement(topic: SampledTopic) -> Placement:
    """Find the partitioners that placed the keys."""
    repartition = find_repartition(topic)
    first = repartition.increases[-1].earlier if repartition else 0
    if not topic.keyed[first:].any():
        # Nothing was written since the increase: earlier records show the partitioners.
        first = 0
    mix, newest = partitioner_mix(topic, first), _find_latest_partitioner(topic, first)
    if repartition is not None and first == 0 and repartition.explains > 1 - MIN_ASCRIBED_SHARE:
        # Records that the earlier count placed are no evidence of another partitioner.
        main = repartition.increases[-1].partitioners[0]
        shared = topic.counts.shared_records / max(1.0, float(topic.keyed.sum()))
        mix = PartitionerMix(main, 0.0, {main: 1.0}, shared)
        newest = LatestPartitioner(main, 0.0, 0.0, False, ())
    keyed = float(topic.weigh(topic.keyed).sum())
    if mix is None or newest is None or keyed <= 0:
        return Placement(None, None, None, 0.0, 0.0, ())
    strange = topic.weigh(topic.counts.fits_none)
    unexplained = 1 - repartition.explains if repartition else 1.0
    unknown = min(1.0, float(strange.sum()) / keyed * _unknown_factor(topic)) * unexplained
    if unknown < WORTH_NAMING:
        # A few strays, though they may be more than a few of the newest part alone.
        return Placement(mix, replace(newest, unknown=0.0), repartition, 0.0, 0.0, ())
    strays = _find_strays(topic, strange) if repartition is None and not mix.unknown else ()
    return Placement(
        mix, newest, repartition, unknown, newest.unknown if repartition is None or first else 0.0, strays
    )


def _find_strays(topic: SampledTopic, strange: Floats) -> tuple[int, ...]:
    """Return the partitions with nearly all records of no known partitioner; empty if they are not few."""
    order = np.argsort(-strange, kind="stable")
    so_far = strange[order].cumsum()
    few = int(np.searchsorted(so_far, MOSTLY * so_far[-1])) + 1
    # More than a quarter of the partitions are not a few that a producer sets itself.
    return tuple(sorted(order[:few].tolist())) if few <= max(1, topic.partitions // 4) else ()


def by_chance(keys: float, partitions: int) -> bool:
    """Return whether so few keys may by chance all lie where one of the known partitioners puts them."""
    return len(PARTITIONERS) * math.pow(1 / partitions, max(0.0, keys)) > UNLIKELY


def mixed_by_chance(keys: float, partitions: int) -> bool:
    """Return whether so few keys may by chance each lie where some known partitioner puts it."""
    return math.pow(1 - chance_of_none(partitions), max(0.0, keys)) > UNLIKELY


def mixed_cause(topic: SampledTopic, placement: Placement) -> SkewCause | None:
    """Return the cause, if more than one partitioner placed the records."""
    mix = placement.mix
    if mix is None or mix.single or (mix.unknown and not mix.shares_keys):
        return None
    explains = None
    if placement.strays and topic.skewed("records"):
        strange = topic.weigh(topic.counts.fits_none) * _unknown_factor(topic)
        explains = topic.explain_excess(strange, "records")
    facts = MixedFacts(
        mix.main,
        mix.misplaced,
        mix.shares,
        1 / topic.partitions,
        topic.counts.shared_keys,
        mix.shared,
        placement.strays,
    )
    times = placement.newest.times if placement.newest is not None else 0
    extended = _add_extent(topic, placement, facts)
    return SkewCause("mixed_partitioners", explains=explains, facts=extended, times=times or None)


def _add_extent(topic: SampledTopic, placement: Placement, facts: MixedFacts) -> MixedFacts:
    """Add in which part of the log misplaced records lie, or when they ended."""
    newest = placement.newest
    if newest is None:
        return facts
    if placement.ended:
        after, before = _find_end(topic, newest.ended)
        return replace(
            facts, now=newest.main, ended_after_ms=after, ended_before_ms=before, steps=newest.ended
        )
    number = list(PARTITIONERS).index(facts.main)
    misplaced = (topic.keyed - topic.counts.fits[number]).sum(axis=0)
    parts = np.flatnonzero(misplaced >= WORTH_NAMING * topic.keyed.sum(axis=0).clip(1))
    return replace(
        facts, first_part=int(parts[0]) + 1, last_part=int(parts[-1]) + 1, parts=topic.layout.replicates
    )


def _find_end(topic: SampledTopic, steps: tuple[Step, ...]) -> tuple[int | None, int | None]:
    """Return the times between which misplaced records end (ms); None where times do not show it."""
    low = [time for step in steps if (time := int(topic.counts.first_ms[step.partition, step.last])) < NEVER]
    high = [time for step in steps if (time := int(topic.counts.first_ms[step.partition, step.next])) < NEVER]
    if not (low and high and in_order(topic)):
        return None, None
    # Producers may not all have changed at the same time.
    begin, end = max(low), min(high)
    return (begin, end) if begin <= end else (end, max(high))


def find_own_placement(topic: SampledTopic, placement: Placement) -> OwnPlacement | None:
    """Return the placement of keys that are not where Java's default puts them; None for other topics."""
    mix = placement.mix
    if mix is None or placement.repartition is not None:
        return None
    if mix.single and mix.main != "murmur2" and not by_chance(topic.counts.distinct, topic.partitions):
        return OwnPlacement(mix.main, 1 - 1 / topic.partitions, topic.counts.shared_keys)
    if mix.single or not mix.unknown or mix.shares_keys:
        return None
    return OwnPlacement(None, None, topic.counts.shared_keys)


def misplaced_share(result: TopicResult) -> float:
    """Return the share of records that the partitioner which explains most does not explain."""
    return 1 - max((result.partitioners.get(name, 0.0) for name in PARTITIONERS), default=1.0)
