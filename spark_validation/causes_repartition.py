"""Partition increases that the records show: keys that lie where an earlier partition count puts them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.key_counts import MISFIT_COLUMNS, NEVER, Bools, Floats, reduce_misfits
from spark_validation.results import PartitionChange, PartitionIncrease, RepartitionFacts, SkewCause, Step

if TYPE_CHECKING:
    from spark_validation.sampled_topic import SampledTopic

WORTH_NAMING = 0.001
"""The share from which records that one partitioner does not explain are reported. A partitioner explains all
of its own records exactly, so that this excludes a few strays, not chance."""
MIN_ASCRIBED_SHARE = 0.05
"""The share of the misplaced records from which a partitioner is one of those at work."""
UNLIKELY = 0.01
"""The probability below which a coincidence is ruled out."""
BEYOND_CHANCE = NormalDist().inv_cdf(1 - UNLIKELY / len(PARTITIONERS))
"""The standard deviations above chance from which a second partitioner is reported, so that none of all is
found by chance (Bonferroni): 2.98 for seven."""
ENOUGH = 10.0
"""The fewest misplaced records expected of later windows for their absence to be evidence."""
NEARLY_ALL = 0.9
"""An earlier count that explains this part of the misplaced keys is the only one there was."""
FAR_BEYOND_CHANCE = 5.0
"""The standard deviations above chance that an earlier count must explain, among all that are tried."""
METADATA_AGE_MS = 5 * 60_000
"""The longest that producers use the earlier count after the increase: `metadata.max.age.ms` by default."""
LITTLE_TIME = 0.1
"""The part of the time that the records span which METADATA_AGE_MS may not exceed."""
MISFIT_RECORDS = MISFIT_COLUMNS.index("records")


@dataclass(frozen=True, slots=True)
class Repartition:
    """The partition increases that the records show.

    Attributes:
        increases: In the order of time.
        misplaced: The share of records with a key that are not where the last count's partitioner puts them
            on the present count.
        explains: The part of the records unexplained on the present count that the earlier ones explain.
        steps: Partitions where the end of the misplaced records can be seen.
    """

    increases: tuple[PartitionIncrease, ...]
    misplaced: float
    explains: float
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class _EarlierCount:
    """An earlier count that explains misfits (the rows `fit`); `last` is the latest timestamp of these."""

    partitioner: int
    count: int
    fit: Bools
    last: int
    in_time: bool
    steps: tuple[Step, ...]
    known: PartitionChange | None


def find_repartition(topic: SampledTopic) -> Repartition | None:
    """Find earlier counts that explain records that no partitioner explains on the present one.

    Each partitioner is tried on each smaller count. Records that the last count but one explains end when the
    partitions above it begin; those left are explained by the count before it, and so on. Records of
    an unknown partitioner can be explained by an earlier count too where they have few keys, or lie on few
    partitions; but they do not end when other partitions begin.
    """
    keyed, none = float(topic.keyed.sum()), float(topic.counts.fits_none.sum())
    rows = topic.counts.misfits
    if not len(rows) or none < WORTH_NAMING * keyed:
        return None
    unexplained = np.ones(len(rows), dtype=bool)
    candidates: list[_EarlierCount] = []
    # Each round explains at least MIN_ASCRIBED_SHARE of the rows, or it is the last.
    while unexplained.sum() >= max(1.0, MIN_ASCRIBED_SHARE * len(rows)):
        earlier = _find_best(topic, unexplained)
        if earlier is None:
            break
        candidates.append(earlier)
        unexplained &= ~earlier.fit
    if not candidates:
        return None
    # The search took the best fit first; in the end each record belongs to the largest count that fits.
    candidates, unexplained = _assign_rows(topic, candidates)
    counts = sorted({earlier.count for earlier in candidates})
    later = dict(zip(counts, [*counts[1:], topic.partitions], strict=True))
    records = rows[:, MISFIT_RECORDS]
    newest = candidates[-1]
    misplaced = topic.keyed - topic.counts.fits[newest.partitioner]
    return Repartition(
        tuple(
            _make_increase(topic, [earlier for earlier in candidates if earlier.count == count], after)
            for count, after in later.items()
        ),
        float(topic.weigh(misplaced).sum() / topic.weigh(topic.keyed).sum()),
        1 - float(records[unexplained].sum()) / float(records.sum()),
        newest.steps,
    )


def _assign_rows(topic: SampledTopic, candidates: list[_EarlierCount]) -> tuple[list[_EarlierCount], Bools]:
    """Give each row to the largest count that explains it, as later records may fit a smaller one by chance.

    A count that explains next to nothing on the partitions above the next smaller one did not exist: of keys
    on 6 partitions, a third are where 9 would put them, but none is on the other three.

    Returns:
        The counts that still explain enough, ascending, and the rows that are left.
    """
    kept, unexplained = _divide_rows(topic, candidates)
    on = topic.counts.misfits[:, MISFIT_COLUMNS.index("partition")]
    for earlier in kept:
        smaller = max((rival.count for rival in kept if rival.count < earlier.count), default=0)
        if np.mean(on[earlier.fit] >= smaller) <= (1 - NEARLY_ALL) * (1 - smaller / earlier.count):
            return _assign_rows(topic, [rival for rival in candidates if rival.count != earlier.count])
    return kept, unexplained


def _divide_rows(topic: SampledTopic, candidates: list[_EarlierCount]) -> tuple[list[_EarlierCount], Bools]:
    """Give rows to counts as `_assign_rows` does, as if all counts had existed."""
    unexplained = np.ones(len(topic.counts.misfits), dtype=bool)
    kept: list[_EarlierCount] = []
    for count in sorted({earlier.count for earlier in candidates}, reverse=True):
        at_count = [
            _test_count(topic, earlier.partitioner, count, unexplained, earlier.known)
            for earlier in candidates
            if earlier.count == count and _fit_rows(topic, earlier.partitioner, count)[unexplained].any()
        ]
        at_count = [
            earlier for earlier in at_count if earlier.fit.sum() >= MIN_ASCRIBED_SHARE * len(unexplained)
        ]
        for earlier in at_count:
            unexplained &= ~earlier.fit
        # Ascending, though the largest count takes its rows first.
        kept = at_count + kept
    return kept, unexplained


def _find_best(topic: SampledTopic, unexplained: Bools) -> _EarlierCount | None:
    """Find the partitioner and earlier count that explain most of the rows left; None where none does.

    Of equal ones it is the largest count: the increase from it came last.
    """
    rows = topic.counts.misfits[unexplained]
    on = rows[:, MISFIT_COLUMNS.index("partition")]
    hashes = reduce_misfits(rows)
    known = {change.before: change for change in topic.partition_changes}
    explained = []
    now = int(topic.counts.fits.sum(axis=(1, 2)).argmax())
    for number, hashed in enumerate(hashes):
        # No count up to the lowest partition with such records can have put any of them there.
        for count in range(int(on.min()) + 1, topic.partitions):
            # On one partition all partitioners agree.
            if count == 1 and number != now:
                continue
            fit = int(np.count_nonzero(hashed % count == on))
            if fit >= MIN_ASCRIBED_SHARE * len(topic.counts.misfits):
                explained.append((fit, count in known, count, -number))
    # Between a recorded count and another, the recorded one, unless it explains less by far.
    explained.sort(
        key=lambda entry: (entry[0] * (1.1 if entry[1] else 1.0), entry[2], entry[3]), reverse=True
    )
    undated = None
    for fit, recorded, count, negative in explained:
        deviations = _deviations(on, hashes[-negative] % count == on, count)
        beyond = deviations > FAR_BEYOND_CHANCE
        if deviations <= BEYOND_CHANCE and fit < NEARLY_ALL * len(rows):
            continue
        earlier = _test_count(topic, -negative, count, unexplained, known.get(count) if recorded else None)
        # Records that end when partitions begin are no coincidence either.
        if not (beyond or earlier.in_time or fit >= NEARLY_ALL * len(rows)):
            continue
        begun = bool(topic.counts.records[count:].any())
        # Where nothing was written since, only many keys rule out chance.
        if earlier.known or (earlier.in_time if begun else beyond):
            return earlier
        if begun and earlier.steps:
            undated = undated or earlier
    return undated


def _deviations(on: Int64s, fit: Bools, count: int) -> float:
    """Return by how many standard deviations more rows fit a count than by chance.

    That is the maximum over partitions, of the rows on each one and those above it: rows of smaller counts
    lie below and would hide those of this one.

    Args:
        on: The partition of each row.
        fit: Whether the count explains the row.
    """
    chance = np.bincount(on[on < count], minlength=count)[::-1].cumsum() / count
    fits = np.bincount(on[fit], minlength=count)[::-1].cumsum()
    # The variance of a Poisson count is its mean; with 1 added, one or two rows alone prove no count.
    return float(((fits - chance) / np.sqrt(chance + 1)).max())


def _test_count(
    topic: SampledTopic, number: int, count: int, unexplained: Bools, known: PartitionChange | None
) -> _EarlierCount:
    rows = topic.counts.misfits
    fit = unexplained & _fit_rows(topic, number, count)
    last = int(rows[fit, MISFIT_COLUMNS.index("last_ms")].max())
    first = int(topic.counts.first_ms[count:].min())
    in_time = first < NEVER and last - first < _overlap_ms(topic)
    begin = int(topic.counts.first_ms.min())
    steps: tuple[Step, ...] = ()
    # Timestamps that are in order and contradict the count are right.
    if in_time or not in_order(topic) or last - first <= (last - begin) / 2:
        misplaced = topic.keyed - topic.counts.fits[number]
        steps = find_steps(topic, 0, count, misplaced) or ()
    return _EarlierCount(number, count, fit, last, in_time, steps, known)


def _fit_rows(topic: SampledTopic, number: int, count: int) -> Bools:
    rows = topic.counts.misfits
    fit: Bools = reduce_misfits(rows)[number] % count == rows[:, MISFIT_COLUMNS.index("partition")]
    return fit


def _make_increase(topic: SampledTopic, candidates: list[_EarlierCount], later: int) -> PartitionIncrease:
    """Return the increase that ended a count on which one partitioner or several placed keys."""
    count = candidates[0].count
    first = int(topic.counts.first_ms[count:later].min())
    in_time = all(earlier.in_time for earlier in candidates)
    return PartitionIncrease(
        count,
        later,
        tuple(list(PARTITIONERS)[earlier.partitioner] for earlier in candidates),
        max(earlier.last for earlier in candidates) if in_time or first == NEVER else None,
        first if in_time else None,
        candidates[0].known,
    )


def _overlap_ms(topic: SampledTopic) -> float:
    """Return how long records may still be placed by the earlier count after the increase (ms)."""
    read = topic.counts.records > 0
    if not read.any():
        return 0.0
    span = float(topic.counts.last_ms[read].max() - topic.counts.first_ms[read].min())
    # In a short log, five minutes of overlap would be all of it, and every count would end in time.
    return min(METADATA_AGE_MS, LITTLE_TIME * span)


def in_order(topic: SampledTopic) -> bool:
    """Return whether timestamps ascend from one window of a partition to the next, but for a few."""
    last, first = topic.counts.last_ms[:, :-1], topic.counts.first_ms[:, 1:]
    both = (last >= 0) & (first < NEVER)
    return bool(both.any()) and bool(np.mean((last <= first)[both]) >= NEARLY_ALL)


def find_steps(topic: SampledTopic, begin: int, end: int, misplaced: Floats) -> tuple[Step, ...] | None:
    """Find where misplaced records end, by offset; None where they go on in most partitions."""
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
        # At the rate seen so far, the later windows would have fewer than ENOUGH: their absence is no
        # evidence.
        if float(wrong.sum()) / keyed_until * keyed_since < ENOUGH:
            going_on += float(wrong.sum())
            continue
        ended += float(wrong.sum())
        following = last + 1 + int(np.flatnonzero(keyed[last + 1 :])[0])
        start, stop = windows[partition, last].start, windows[partition, following].end
        steps.append(Step(partition, start, stop, last, following))
    return tuple(steps) if ended > going_on else None


def repartition_cause(topic: SampledTopic, repartition: Repartition, newer: str | None) -> SkewCause:
    """Return the cause that an increase is.

    Args:
        repartition: The increases that its records show.
        newer: The partitioner of newer records; None unless one alone placed these.
    """
    facts = RepartitionFacts(
        topic.partitions,
        repartition.misplaced,
        repartition.explains,
        repartition.increases,
        repartition.steps,
        newer if newer != repartition.increases[-1].partitioners[0] else None,
        topic.counts.shared_keys,
    )
    return SkewCause("repartitioned", explains=_explained_part(topic), facts=facts)


def _explained_part(topic: SampledTopic) -> float | None:
    """Return the part of the excess that goes when every key lies where the present count puts it."""
    ratio = topic.ratio("records").value
    cases = topic.result.what_if
    placed = next((case for case in cases if case.partitions == topic.partitions), None)
    if placed is None or not topic.skewed("records"):
        return None
    return float(np.clip((ratio - placed.max_mean_ratio.value) / (ratio - 1), 0.0, 1.0))
