"""Who placed the keys: partitioners now and earlier, on the present partition count and on earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.hashing import INDEPENDENT, PARTITIONERS, are_alike
from spark_validation.key_counts import MISFIT_COLUMNS, NEVER, reduce_misfits
from spark_validation.results import SkewCause
from spark_validation.sampled_topic import SampledTopic, listed, percent, utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_validation.key_counts import Bools, Floats
    from spark_validation.results import TopicResult
    from spark_validation.sampled_topic import PartitionChange


WORTH_NAMING = 0.001
"""Records that one partitioner does not explain are named from this share on. A partitioner explains all of
its own records exactly, so this is no matter of chance, but of a few strays that nobody need look after."""
BEYOND_CHANCE = 3.0
"""By how many standard deviations of chance more records must lie where a second partitioner puts them."""
LEAST_ASCRIBED = 0.05
"""The share of the misplaced records from which a partitioner is one of those at work."""
SHARED_RECORDS = 0.02
"""From this share of records on, keys on several partitions say that keys do not decide the partition."""
FEWEST_KEYS = 8
"""So many keys do not lie by chance where a partitioner or an earlier count puts them."""
UNLIKELY = 0.01
"""A coincidence of this probability is none."""
SHADOW = 0.7
"""Up to this part of the excess of another partitioner with the same hash, one fits only the other's keys."""
_RECORDS = MISFIT_COLUMNS.index("records")
NAMES = {
    "murmur2": "murmur2 (Java's default)",
    "crc32": "CRC32 (librdkafka's default)",
    "fnv1a": "FNV-1a (Sarama's default)",
    "fnv1a_masked": "FNV-1a without its sign bit (Sarama's reference partitioner)",
    "fnv1a_unsigned": "unsigned FNV-1a (franz-go's SaramaHasher)",
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

    @property
    def shares_keys(self) -> bool:
        """Return whether more than a few records have a key that is on several partitions."""
        return self.shared >= SHARED_RECORDS


def partitioner_mix(topic: SampledTopic, first: int = 0) -> PartitionerMix | None:
    """Estimate who placed the records; None where none has a key, or there is one partition.

    Only partitions from number `first` on are looked at: no earlier partition count placed records there.

    A record of one partitioner lies where another would put it too by chance, with q = 1 / partitions. If
    f of the records lie where the main partitioner puts them, f = a + (1 - a) q for its share a, so that
    1 - a = (1 - f) / (1 - q). What of 1 - a lies where no partitioner puts it gives the share of others in
    the same way, and the rest is divided among partitioners that fit more records than chance has it. That
    is judged by the median over partitions of their fit, since by chance one frequent key may fit, but only
    on its own partition.
    """
    keyed = float(topic.weighted(topic.keyed)[first:].sum())
    if topic.partitions < 2 or keyed <= 0:
        return None
    fits = {
        name: float(topic.weighted(topic.counts.fits[number])[first:].sum()) / keyed
        for number, name in enumerate(PARTITIONERS)
    }
    shared = topic.counts.shared_records / float(topic.keyed.sum())
    for name, fit in fits.items():
        if 1 - fit < WORTH_NAMING:
            return PartitionerMix(name, 1 - fit, {name: 1.0}, shared)
    none = float(topic.weighted(topic.counts.fits_none)[first:].sum()) / keyed
    other = min(1.0, none * _chance_of_none(topic))
    main, shares = _shares(fits, _beyond_chance(topic, first), other, 1 / topic.partitions)
    return PartitionerMix(main, 1 - fits[main], shares, shared)


def _shares(
    fits: dict[str, float], beyond: dict[str, float], other: float, chance: float
) -> tuple[str, dict[str, float]]:
    """Return the main partitioner, and the share of each.

    Args:
        fits: The share of records that lie where each partitioner puts them.
        beyond: For those that fit more than chance, by how much.
        other: The share of records that no known partitioner placed.
        chance: 1 / partitions: what a partitioner fits of the records of another.
    """
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


def _chance_of_none(topic: SampledTopic) -> float:
    """Return how many records of no known partitioner there are for one that none puts where it lies.

    Of many keys, a chance part lies where one of them puts it too; of a few, what was seen is all.
    """
    records = topic.counts.misfits[:, _RECORDS].astype(np.float64)
    if not len(records) or float(records.sum()) ** 2 / float((records**2).sum()) < FEWEST_KEYS:
        return 1.0
    return float(1 / (1 - 1 / topic.partitions) ** INDEPENDENT)


def _beyond_chance(topic: SampledTopic, first: int) -> dict[str, float]:
    """For each partitioner that fits more than chance has it, by how much: the median over partitions."""
    records = topic.keyed.sum(axis=1)
    filled = records >= min(100.0, float(np.median(records[first:])))
    filled &= (records > 0) & (np.arange(topic.partitions) >= first)
    chance = 1 / topic.partitions
    found = {}
    for number, name in enumerate(PARTITIONERS):
        rates: Floats = topic.counts.fits[number].sum(axis=1)[filled] / records[filled]
        excess = float(np.median(rates)) - chance
        keys = max(1.0, float(np.median(_effective_keys(topic)[filled])))
        if excess > BEYOND_CHANCE * np.sqrt(chance * (1 - chance) / keys / filled.sum()):
            found[name] = excess
    return {name: excess for name, excess in found.items() if not _is_shadow(name, found)}


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


MOSTLY = 0.9
"""From this part of the records of no known partitioner on, the partitions that have them are named."""
ENOUGH = 10.0
"""Misplaced records that are to be expected of later windows, for their absence to mean anything."""


@dataclass(frozen=True, slots=True)
class Newest:
    """Who places the records of the newest part of the log.

    Attributes:
        main: The partitioner that explains most of them.
        known: The share that another known partitioner placed, corrected for chance.
        other: The share that no known partitioner placed, likewise.
        certain: Whether what is not there would be there if it had gone on: the newest part is long enough.
        ended: For each partition where it can be seen, what was misplaced before the newest part ends there.
    """

    main: str
    known: float
    other: float
    certain: bool
    ended: tuple[Step, ...]

    @property
    def single(self) -> bool:
        """Return whether one partitioner explains them all."""
        return not self.known and not self.other


def _newest(topic: SampledTopic, first: int) -> Newest | None:
    """Look at the newest part of the log; None where no record has a key, or there is one partition."""
    wrong = (topic.keyed - topic.counts.fits)[:, first:]
    keyed = topic.keyed[first:]
    by_replicate, of_each = keyed.sum(axis=0), wrong.sum(axis=1)
    filled = np.flatnonzero(by_replicate)
    if not len(filled) or topic.partitions < 2:
        return None
    # After the last replicate that has misplaced records, all are newest.
    until = [
        int(np.flatnonzero(errors >= WORTH_NAMING * by_replicate.clip(1))[-1:].sum())
        if errors.sum() >= WORTH_NAMING * by_replicate.sum()
        else -1
        for errors in of_each
    ]
    number = min(range(len(until)), key=lambda index: (until[index], of_each[index, filled[-1]]))
    begin = min(until[number] + 1, int(filled[-1]))
    read = float(by_replicate[begin:].sum())
    misplaced = float(of_each[number, begin:].sum()) / read
    none = float(topic.counts.fits_none[first:, begin:].sum()) / read
    other = min(1.0, none * _chance_of_none(topic))
    foreign = min(1.0, misplaced / (1 - 1 / topic.partitions))
    # Of the records of no known partitioner some lie by chance where another one puts them.
    known = foreign - other if foreign - other >= 2 * LEAST_ASCRIBED * foreign else 0.0
    before = float(of_each[number, :begin].sum()) / max(1.0, float(by_replicate[:begin].sum()))
    return Newest(
        list(PARTITIONERS)[number],
        known if known >= WORTH_NAMING else 0.0,
        other if other >= WORTH_NAMING else 0.0,
        misplaced >= WORTH_NAMING or before * read >= ENOUGH,
        _steps(topic, first, topic.partitions, topic.keyed - topic.counts.fits[number]) or (),
    )


@dataclass(frozen=True, slots=True)
class Placement:
    """Who placed the keys of a topic.

    Attributes:
        mix: The partitioners that placed records on the present partition count; None where none did.
        newest: Those of the newest part of the log; None where there is none.
        repartition: The earlier partition counts that placed the others; None where there is none.
        unknown: The share of records with a key that no known partitioner placed, on this or an earlier
            partition count, corrected for chance.
        unknown_now: The same of the newest part of the log.
        strays: The partitions that have nearly all of these, where they are few; else empty.
    """

    mix: PartitionerMix | None
    newest: Newest | None
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
        # Records that nobody known placed do not say that another known partitioner is at work.
        return self.mix.main if set(self.mix.shares) - {"other"} == {self.mix.main} else None

    @property
    def ended(self) -> bool:
        """Return whether one partitioner alone is at work since records were placed otherwise."""
        return self.newest is not None and self.newest.single and self.newest.certain


def placement(topic: SampledTopic) -> Placement:
    """Find who placed the keys."""
    repartition = find_repartition(topic)
    first = repartition.increases[-1].earlier if repartition else 0
    if not topic.keyed[first:].any():
        # Nothing was written since the increase: earlier records say who is at work.
        first = 0
    mix, newest = partitioner_mix(topic, first), _newest(topic, first)
    if repartition is not None and first == 0 and repartition.explains > 1 - LEAST_ASCRIBED:
        # Where the earlier count's partitioner does not put them now is no work of another one.
        main = repartition.increases[-1].partitioners[0]
        shared = topic.counts.shared_records / max(1.0, float(topic.keyed.sum()))
        mix, newest = PartitionerMix(main, 0.0, {main: 1.0}, shared), Newest(main, 0.0, 0.0, False, ())
    keyed = float(topic.weighted(topic.keyed).sum())
    if mix is None or newest is None or keyed <= 0:
        return Placement(None, None, None, 0.0, 0.0, ())
    strange = topic.weighted(topic.counts.fits_none)
    unexplained = 1 - repartition.explains if repartition else 1.0
    unknown = min(1.0, float(strange.sum()) / keyed * _chance_of_none(topic)) * unexplained
    strays = _strays(topic, strange) if repartition is None and not mix.unknown else ()
    return Placement(
        mix,
        newest,
        repartition,
        unknown if unknown >= WORTH_NAMING else 0.0,
        newest.other if repartition is None or first else 0.0,
        strays if unknown >= WORTH_NAMING else (),
    )


def _strays(topic: SampledTopic, strange: Floats) -> tuple[int, ...]:
    """The few partitions with nearly all records of no known partitioner; empty where they are not few."""
    order = np.argsort(-strange, kind="stable")
    so_far = strange[order].cumsum()
    few = int(np.searchsorted(so_far, MOSTLY * so_far[-1])) + 1
    return tuple(sorted(order[:few].tolist())) if few <= max(1, topic.partitions // 4) else ()


def by_chance(keys: float, partitions: int, partitioners: int = 1) -> bool:
    """Return whether so few keys may by chance lie where some partitioners put them."""
    each = 1 - (1 - 1 / partitions) ** partitioners
    return float(INDEPENDENT * each ** max(0.0, keys)) > UNLIKELY


def mixed_cause(topic: SampledTopic, found: Placement) -> SkewCause | None:
    """The cause, if records were placed by more than one partitioner."""
    mix = found.mix
    if mix is None or mix.single:
        return None
    chance = percent(1 / topic.partitions)
    keys = topic.counts.shared_keys
    shared = f"{keys:,} sampled keys are on several partitions" if keys > 1 else (
        "one sampled key is on several partitions" if keys else "no sampled key is on several partitions"
    )  # fmt: skip
    if mix.unknown:
        if not mix.shares_keys:
            return None
        return SkewCause(
            "mixed_partitioners",
            f"No known partitioner explains where the records are: murmur2, CRC32 and FNV-1a each fit no "
            f"more of them than chance would ({chance}), and {shared}, which have {percent(mix.shared)} of "
            f"the records with a key: producers ignore the key or choose partitions themselves.",
        )
    unknown = f"producers that set {_partitions(found.strays)} themselves" if found.strays else (
        "an unknown partitioner"
    )  # fmt: skip
    shares = [f"{NAMES.get(name, unknown)} {percent(share)}" for name, share in mix.shares.items()]
    explains = None
    if found.strays and topic.skewed("records"):
        strange = topic.weighted(topic.counts.fits_none) * _chance_of_none(topic)
        explains = topic.explained(strange, "records")
    return SkewCause(
        "mixed_partitioners",
        f"{percent(mix.misplaced)} of the records with a key are not where "
        f"{NAMES[mix.main]} puts them; corrected for chance ({chance}), the records were placed by: "
        f"{listed(shares)}; {shared}{_until(topic, found)}.",
        explains,
    )


def _partitions(numbers: tuple[int, ...]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {listed([str(number) for number in numbers])}"


def _until(topic: SampledTopic, found: Placement) -> str:
    """Say in which part of the log the misplaced records lie, and whether that has ended."""
    newest = found.newest
    if newest is not None and found.ended:
        return (
            f"; this ended{_between(topic, newest.ended)}: all newer records are where {NAMES[newest.main]} "
            f"puts them"
        )
    if found.mix is None or newest is None:
        return ""
    number = list(PARTITIONERS).index(found.mix.main)
    misplaced = (topic.keyed - topic.counts.fits[number]).sum(axis=0)
    parts = np.flatnonzero(misplaced >= WORTH_NAMING * topic.keyed.sum(axis=0).clip(1))
    replicates = topic.layout.replicates
    if len(parts) == replicates:
        return "; misplaced records are in every part of the log"
    first, last = int(parts[0]) + 1, int(parts[-1]) + 1
    return f"; misplaced records are in parts {first} to {last} of {replicates} equal parts of the log"


def _between(topic: SampledTopic, steps: tuple[Step, ...]) -> str:
    """Say between which times and offsets records end."""
    if not steps:
        return ""
    low = [time for step in steps if (time := int(topic.counts.first_ms[step.partition, step.last])) < NEVER]
    high = [time for step in steps if (time := int(topic.counts.first_ms[step.partition, step.next])) < NEVER]
    text = ""
    if low and high and _in_order(topic):
        # Producers may not all have changed at the same time.
        begin, end = max(low), min(high)
        begin, end = (begin, end) if begin <= end else (end, max(high))
        text = f" between {utc(begin, within=end - begin)} and {utc(end, within=end - begin)}"
    return f"{text} ({_offsets(steps)})"


def mixed_advice(result: TopicResult, found: Placement | None) -> Iterator[str]:
    """Sentences on several partitioners: only those at work now are to be changed."""
    misplaced = percent(found.mix.misplaced if found and found.mix else misplaced_share(result))
    if found is not None and found.ended:
        yield (
            "No producer needs to change. Until retention has removed the older records, read these "
            f"completely before the newer ones wherever the order of a key matters: {misplaced} of the "
            "records with a key are not on the partition that their key has now."
        )
        return
    if found is not None and found.mix is not None and found.mix.unknown and not found.mix.shares_keys:
        yield (
            "The producers' own partitioner decides how full partitions are: to even them out, let it divide "
            "the largest groups of keys, for example by hashing more of the key, or choose a finer key. The "
            "order of keys that move breaks at that point."
        )
        return
    if found is None or found.mix is None or found.mix.unknown:
        yield (
            f"Find the producers of the {misplaced} of the records with a key that murmur2 does not explain: "
            "they set `partitioner.ignore.keys`, use a custom partitioner class, or set the partition."
        )
        return
    if not found.newest or not found.newest.certain:
        yield (
            "The newest records are too few to show whether several partitioners are still at work: read "
            "more records, or only new ones (`--since`), before any producer is changed."
        )
        return
    if found.unknown_now:
        share = percent(found.unknown)
        if found.strays:
            yield (
                f"Find the producer that sets {_partitions(found.strays)} itself for {share} of the records "
                "with a key, and let it leave the partition to its partitioner."
            )
        else:
            yield (
                f"Find the producers of the {share} of the records with a key that no known partitioner "
                "explains: they set `partitioner.ignore.keys`, use a custom partitioner class, or set the "
                "partition."
            )
    if not found.mixed_now:
        return
    foreign = next((name for name in found.mix.shares if name not in {"murmur2", "other"}), None)
    if foreign is None or by_chance(result.distinct_keys.value, len(result.partitions), len(PARTITIONERS)):
        return
    setting, clients = _SETTINGS[foreign]
    if "murmur2" in found.mix.shares:
        yield (
            f"{setting} {clients} to this topic: {misplaced} of the records with a key are on other "
            "partitions now. The order of their keys breaks once, at the switch."
        )
    else:
        yield (
            f"Configure the same partitioner in every producer that writes to this topic: {misplaced} of the "
            "records with a key are on other partitions now. The order of their keys breaks once, at the "
            "switch."
        )


_SETTINGS = {
    "crc32": (
        "Set `partitioner=murmur2_random`, which matches Java's default,",
        "in every librdkafka client that writes",
    ),
    "fnv1a": (
        "Configure a murmur2 partitioner, which matches Java's default,",
        "in the Sarama clients that write",
    ),
    "fnv1a_masked": (
        "Configure a murmur2 partitioner, which matches Java's default,",
        "in the Go clients that write",
    ),
    "fnv1a_unsigned": (
        "Configure kgo.KafkaHasher with murmur2, which matches Java's default,",
        "in the franz-go clients that write",
    ),
}


def misplaced_share(result: TopicResult) -> float:
    """The share of records that the partitioner which explains most does not explain."""
    return 1 - max((result.partitioners.get(name, 0.0) for name in PARTITIONERS), default=1.0)


def note(topic: SampledTopic, found: Placement) -> str:
    """Sentence on a topic whose keys one partitioner, but not Java's, places; empty for others."""
    mix = found.mix
    if mix is None or found.repartition is not None:
        return ""
    if mix.single and mix.main != "murmur2" and not by_chance(topic.counts.distinct, topic.partitions):
        return (
            f" All keys are where {NAMES[mix.main]} puts them: a Java producer with its default "
            f"partitioner would put {percent(1 - 1 / topic.partitions)} of the keys on other partitions."
        )
    if mix.single or not mix.unknown or mix.shares_keys:
        return ""
    stays = "each key stays" if not topic.counts.shared_keys else "nearly all keys stay"
    return (
        " No known partitioner (murmur2, CRC32, FNV-1a) explains where the keys are, yet "
        f"{stays} on one partition: producers choose partitions themselves."
    )


NEARLY_ALL = 0.9
"""An earlier count that explains this part of the misplaced keys is the only one there was."""
FAR_BEYOND_CHANCE = 5.0
"""By how many standard deviations of chance an earlier count must explain more, among all that are tried."""
METADATA_AGE_MS = 5 * 60_000
"""So long producers may use the earlier count after the increase: `metadata.max.age.ms` by default."""
LITTLE_TIME = 0.1
"""But no longer than this part of the time that the records span."""
SHOWN = 3
"""How many partitions' offsets a sentence gives."""


@dataclass(frozen=True, slots=True)
class Step:
    """A partition whose misplaced records end.

    Attributes:
        partition: The partition.
        start: The first offset of the last window that has misplaced records.
        end: The offset after the last of the next window, which has none.
        last: The replicate of the one.
        next: The replicate of the other.
    """

    partition: int
    start: int
    end: int
    last: int
    next: int


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    """A partition increase that the records show.

    Attributes:
        earlier: The partition count before.
        later: The count after.
        partitioners: What placed the keys before, most of them first.
        last_before_ms: The latest timestamp of what only the earlier count explains; None where times are
            not in order.
        first_after_ms: The earliest timestamp on the partitions that were added, likewise; None too where
            they have no record yet.
        known: The change as it was recorded; None where it was not.
    """

    earlier: int
    later: int
    partitioners: tuple[str, ...]
    last_before_ms: int | None
    first_after_ms: int | None
    known: PartitionChange | None = None


@dataclass(frozen=True, slots=True)
class Repartition:
    """The partition increases that the records show.

    Attributes:
        increases: In the order of time.
        misplaced: The share of records with a key that are not where the last count's partitioner puts them
            on the present count.
        explains: The part of what no partitioner explains on the present count that the earlier ones explain.
        steps: Partitions where the end of the misplaced records can be seen.
    """

    increases: tuple[PartitionIncrease, ...]
    misplaced: float
    explains: float
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _Earlier:
    """An earlier count that explains misfits (the rows `fit`); `last` is the latest timestamp of these."""

    partitioner: int
    count: int
    fit: Bools
    last: int
    in_time: bool
    steps: tuple[Step, ...]
    known: PartitionChange | None


def find_repartition(topic: SampledTopic) -> Repartition | None:
    """Look for earlier counts that explain what no partitioner explains on the present one.

    Each partitioner is tried on each smaller count. What the last count but one explains ends when the
    partitions above it begin; what is left then is explained by the count before it, and so on. Records of
    an unknown partitioner can be explained by an earlier count too where they have few keys, or lie on few
    partitions; but they do not end when other partitions begin.
    """
    keyed, none = float(topic.keyed.sum()), float(topic.counts.fits_none.sum())
    rows = topic.counts.misfits
    if not len(rows) or none < WORTH_NAMING * keyed:
        return None
    left = np.ones(len(rows), dtype=bool)
    found: list[_Earlier] = []
    while left.sum() >= max(1.0, LEAST_ASCRIBED * len(rows)):
        earlier = _best(topic, left)
        if earlier is None:
            break
        found.append(earlier)
        left &= ~earlier.fit
    if not found:
        return None
    found, left = _in_order_of_time(topic, found)
    counts = sorted({earlier.count for earlier in found})
    later = dict(zip(counts, [*counts[1:], topic.partitions], strict=True))
    records = rows[:, _RECORDS]
    newest = found[-1]
    misplaced = topic.keyed - topic.counts.fits[newest.partitioner]
    return Repartition(
        tuple(
            _increase(topic, [earlier for earlier in found if earlier.count == count], after)
            for count, after in later.items()
        ),
        float(topic.weighted(misplaced).sum() / topic.weighted(topic.keyed).sum()),
        1 - float(records[left].sum()) / float(records.sum()),
        newest.steps,
    )


def _in_order_of_time(topic: SampledTopic, found: list[_Earlier]) -> tuple[list[_Earlier], Bools]:
    """Give each row to the largest count that explains it, as later records may fit a smaller one by chance.

    Returns:
        What still explains enough, by count, and the rows that are left.
    """
    left = np.ones(len(topic.counts.misfits), dtype=bool)
    kept: list[_Earlier] = []
    for count in sorted({earlier.count for earlier in found}, reverse=True):
        at_count = [
            _try(topic, earlier.partitioner, count, left, earlier.known)
            for earlier in found
            if earlier.count == count and _fit(topic, earlier.partitioner, count)[left].any()
        ]
        at_count = [earlier for earlier in at_count if earlier.fit.sum() >= LEAST_ASCRIBED * len(left)]
        for earlier in at_count:
            left &= ~earlier.fit
        kept = at_count + kept
    return kept, left


def _best(topic: SampledTopic, left: Bools) -> _Earlier | None:
    """The partitioner and the earlier count that explain most of what is left; None where none does.

    Of equal ones the largest count: its new partitions are the ones that matter last.
    """
    rows = topic.counts.misfits[left]
    on = rows[:, MISFIT_COLUMNS.index("partition")]
    by_number = np.sort(on)
    known = {change.before: change for change in topic.partition_changes}
    explained = []
    for number, hashed in enumerate(reduce_misfits(rows)):
        for count in range(int(on.min()) + 1, topic.partitions):
            fit = int(np.count_nonzero(hashed % count == on))
            if fit >= LEAST_ASCRIBED * len(topic.counts.misfits):
                explained.append((fit, count in known, count, -number))
    # Between a recorded count and another, the recorded one, unless it explains less by far.
    explained.sort(
        key=lambda entry: (entry[0] * (1.1 if entry[1] else 1.0), entry[2], entry[3]), reverse=True
    )
    undated = None
    for fit, recorded, count, negative in explained:
        chance = int(np.searchsorted(by_number, count)) / count
        deviations = (fit - chance) / np.sqrt(chance + 1)
        beyond = deviations > FAR_BEYOND_CHANCE
        if deviations <= BEYOND_CHANCE and fit < NEARLY_ALL * len(rows):
            continue
        earlier = _try(topic, -negative, count, left, known.get(count) if recorded else None)
        # That they end when partitions begin is no chance either.
        if not (beyond or earlier.in_time or fit >= NEARLY_ALL * len(rows)):
            continue
        begun = bool(topic.counts.records[count:].any())
        # Where nothing was written since, only many keys say that it is no chance.
        if earlier.known or (earlier.in_time if begun else beyond):
            return earlier
        if begun and earlier.steps:
            undated = undated or earlier
    return undated


def _try(
    topic: SampledTopic, number: int, count: int, left: Bools, known: PartitionChange | None
) -> _Earlier:
    rows = topic.counts.misfits
    fit = left & _fit(topic, number, count)
    last = int(rows[fit, MISFIT_COLUMNS.index("last_ms")].max())
    first = int(topic.counts.first_ms[count:].min())
    in_time = first < NEVER and last - first < _slack(topic)
    begin = int(topic.counts.first_ms.min())
    steps: tuple[Step, ...] = ()
    # Timestamps that are in order, and say otherwise, are right.
    if in_time or not _in_order(topic) or last - first <= (last - begin) / 2:
        misplaced = topic.keyed - topic.counts.fits[number]
        steps = _steps(topic, 0, count, misplaced) or ()
    return _Earlier(number, count, fit, last, in_time, steps, known)


def _fit(topic: SampledTopic, number: int, count: int) -> Bools:
    rows = topic.counts.misfits
    fit: Bools = reduce_misfits(rows)[number] % count == rows[:, MISFIT_COLUMNS.index("partition")]
    return fit


def _increase(topic: SampledTopic, found: list[_Earlier], later: int) -> PartitionIncrease:
    """Date the end of a count, on which one partitioner or several placed keys."""
    count = found[0].count
    first = int(topic.counts.first_ms[count:later].min())
    in_time = all(earlier.in_time for earlier in found)
    return PartitionIncrease(
        count,
        later,
        tuple(list(PARTITIONERS)[earlier.partitioner] for earlier in found),
        max(earlier.last for earlier in found) if in_time or first == NEVER else None,
        first if in_time else None,
        found[0].known,
    )


def _slack(topic: SampledTopic) -> float:
    """Return how long records may still be placed by the earlier count after the increase (ms)."""
    read = topic.counts.records > 0
    if not read.any():
        return 0.0
    span = float(topic.counts.last_ms[read].max() - topic.counts.first_ms[read].min())
    return min(METADATA_AGE_MS, LITTLE_TIME * span)


def _in_order(topic: SampledTopic) -> bool:
    """Return whether timestamps ascend from one window of a partition to the next, but for a few."""
    last, first = topic.counts.last_ms[:, :-1], topic.counts.first_ms[:, 1:]
    both = (last >= 0) & (first < NEVER)
    return bool(both.any()) and bool(np.mean((last <= first)[both]) >= NEARLY_ALL)


def _steps(topic: SampledTopic, begin: int, end: int, misplaced: Floats) -> tuple[Step, ...] | None:
    """Find where misplaced records end, by offset; None where in most partitions they do not."""
    windows = {(window.partition, window.replicate): window for window in topic.plan.windows}
    steps: list[Step] = []
    ended = going_on = 0.0
    for partition in range(begin, min(end, topic.partitions)):
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
        following = last + 1 + int(np.flatnonzero(keyed[last + 1 :])[0])
        start, stop = windows[partition, last].start, windows[partition, following].end
        steps.append(Step(partition, start, stop, last, following))
    return tuple(steps) if ended > going_on else None


def repartition_cause(topic: SampledTopic, found: Placement) -> SkewCause | None:
    """The cause, if the partition count was increased and earlier records lie where it put them."""
    repartition = found.repartition
    if repartition is None:
        return None
    increases = repartition.increases
    counts = listed([str(increase.earlier) for increase in increases], "or")
    before = increases[-1].partitioners[0]
    all_of_these = "all" if repartition.explains > 1 - WORTH_NAMING else percent(repartition.explains)
    earlier = list(dict.fromkeys(name for increase in increases for name in increase.partitioners))
    who = f"{listed([_name(name) for name in earlier])} put" if len(earlier) > 1 else "it puts"
    evidence = (
        f"{percent(repartition.misplaced)} of the records with a key are not where {_name(before)} puts them "
        f"with {topic.partitions} partitions, and {all_of_these} of these are where {who} them with "
        f"{counts}: the partition count was increased{_when(increases)}"
    )
    if repartition.steps:
        evidence += f"; by offset, {_offsets(repartition.steps)}"
    if found.mix is not None and found.mix.main != before and found.mix.single:
        evidence += f"; newer records are where {NAMES[found.mix.main]} puts them"
    keys = topic.counts.shared_keys
    if keys:
        evidence += (
            f"; {keys:,} sampled key{'s are' if keys > 1 else ' is'} on several partitions, and the order "
            f"of a key's records breaks at {'these points' if increases[1:] else 'that point'}"
        )
    else:
        evidence += "; the next record of such a key goes to another partition, and its order breaks there"
    return SkewCause("repartitioned", evidence + ".", _explains(topic))


def _name(partitioner: str) -> str:
    return "murmur2" if partitioner == "murmur2" else NAMES[partitioner]


def _offsets(steps: tuple[Step, ...]) -> str:
    shown = [f"{step.partition} between {step.start:,} and {step.end:,}" for step in steps[:SHOWN]]
    if len(steps) > SHOWN:
        return f"in partition {', '.join(shown)}, and in {len(steps) - SHOWN} more"
    return f"in partition {listed(shown)}"


def _when(increases: tuple[PartitionIncrease, ...]) -> str:
    if len(increases) == 1 and increases[0].known is None:
        return _dated(increases[0])
    each = [f" from {increase.earlier} to {increase.later}{_dated(increase)}" for increase in increases]
    return ", and".join(each)


def _dated(found: PartitionIncrease) -> str:
    last, first = found.last_before_ms, found.first_after_ms
    if found.known is not None:
        since, until = utc(found.known.since_ms), utc(found.known.until_ms)
        at = f"at {since}" if since == until else f"between {since} and {until}"
        return f" {at} ({found.known.source})"
    if last is None:
        return " (the time is unknown: timestamps do not show it)"
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
