"""Analyses of simulated topics, without Spark; and one scene for each sentence that an analysis can give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from kafkaform.core.values import replace
from spark_validation.analysis import AnalysisContext, LogFacts, ReaderGroup, analyse
from spark_validation.arrivals import TopicArrivals
from spark_validation.hashing import Int64s
from spark_validation.policy import judge
from spark_validation.results import ArrivalPeriod, PartitionChange, SkewFinding, SkewLimits, TopicResult
from tests.support.skew.simulation import (
    NULL,
    START_MS,
    SimulatedTopic,
    aborted,
    bursts,
    compacted,
    counted_by_offsets,
    drawn,
    empty,
    few_keys,
    hash_keys,
    hot_key,
    lying,
    mixed_partitioners,
    named,
    null_keys,
    produced,
    repartitioned,
    uniform,
    zipf,
)

FULL = 10**9
"""More records than any simulated topic has: all of them are read."""


def analysed(
    topic: SimulatedTopic,
    records: int = FULL,
    seed: int = 0,
    limits: SkewLimits | None = None,
    name: str = "orders",
    **context: Any,
) -> TopicResult:
    """Analyse a sample of a topic, or all of it; `context` has further fields of an AnalysisContext."""
    count = topic.partitions
    counts, plan, layout = drawn(topic, records=records, seed=seed, candidates=(count, 2 * count, 4 * count))
    mode = "full" if plan.full else "sample"
    return analyse(
        name, counts, plan, layout, AnalysisContext(mode=mode, limits=limits or SkewLimits(), **context)
    )


KEYS = 1_000
MANY = 80_000
PART = np.arange(MANY) / MANY
"""The part of the log that was written before each record."""
IN_TURN = np.arange(MANY) % 2
"""Records of two partitions in turn."""


def _codes(hot: float = 0.0, keys: int = KEYS) -> Int64s:
    random = np.random.default_rng(0)
    codes = random.integers(1, keys, MANY)
    codes[random.random(MANY) < hot] = 0
    return codes


def _hashed(by: str, codes: Int64s, keys: Sequence[bytes] = named(KEYS)) -> Int64s:
    return hash_keys(by, tuple(keys))[codes]


def _by_two(first: str, then: str | None, which: Any) -> SimulatedTopic:
    """Keys placed by one partitioner, or by another where `which` is true: None for an unknown one."""
    codes = _codes()
    second = _hashed(then, codes) if then else codes
    return lying(np.where(which, second, _hashed(first, codes)) % 12, codes, named(KEYS), 12)


def _some(share: float) -> Any:
    return np.random.default_rng(99).random(MANY) < share


def _strays(partitions: Sequence[int], which: Any) -> SimulatedTopic:
    """Some records on given partitions, whatever their key."""
    codes = _codes()
    at = _hashed("murmur2", codes) % 12
    at[which] = np.array(partitions)[np.arange(MANY) % len(partitions)][which]
    return lying(at, codes, named(KEYS), 12)


def _increased(by: str, counts: dict[float, int]) -> SimulatedTopic:
    codes = _codes()
    count = np.select([until > PART for until in counts], [*counts.values()])
    return lying(_hashed(by, codes) % count, codes, named(KEYS), [*counts.values()][-1])


def _without_times(topic: SimulatedTopic) -> SimulatedTopic:
    return replace(topic, times=tuple(np.full(len(times), START_MS) for times in topic.times))


def _out_of_order(topic: SimulatedTopic) -> SimulatedTopic:
    random = np.random.default_rng(5)
    return replace(topic, times=tuple(START_MS + random.integers(0, MANY, len(at)) for at in topic.times))


def _heavy(heavy: Any, size: int) -> SimulatedTopic:
    return produced(_codes(), named(KEYS), 12, sizes=np.where(heavy, size, 200))


def _arrived(topic: SimulatedTopic, **fields: Any) -> TopicArrivals:
    counts = tuple(map(int, topic.records))
    return TopicArrivals("orders", None, counts, counts, since_made=True, until_ms=START_MS + MANY, **fields)


def _compacted_away() -> TopicResult:
    topic = compacted(hot_key(MANY, KEYS))
    log = LogFacts(
        _arrived(topic), compacted=True, keys_withheld="Compaction has reached the end of the log."
    )
    return analysed(topic, log=log)


def _with_periods() -> TopicResult:
    topic = zipf(MANY, KEYS)
    counts = tuple(map(int, topic.records))
    since, until = START_MS, START_MS + MANY
    arrivals = TopicArrivals(
        "orders", MANY, counts, counts, 1000.0, False, since, until,
        recent=(ArrivalPeriod("hour", until - 1, until, counts), ArrivalPeriod("made", None, until, counts)),
    )  # fmt: skip
    result = analysed(topic, 6_000, since_ms=since, log=LogFacts(arrivals, retention_bytes=-1))
    kept = [
        replace(partition, kept_from=5, kept_since_ms=START_MS - 3_600_000) for partition in result.partitions
    ]
    return replace(result, partitions=tuple(kept), keys_since_ms=START_MS)


def _period_unknown() -> TopicResult:
    """The last hour was asked for, and a day is known within bounds."""
    topic, limits = hot_key(MANY, KEYS), SkewLimits(max_partition_ratio=2.0)
    counts = tuple(map(int, topic.records))
    reason = "offset 2 of partition 5 has a later time than the 3,914 records after it"
    most = tuple(count + 100 for count in counts)
    recent = (
        ArrivalPeriod("hour", START_MS, START_MS + MANY, (), unknown=reason),
        ArrivalPeriod("day", START_MS, START_MS + MANY, counts, counts, most),
    )
    arrivals = _arrived(topic, unknown=reason, requested=True, recent=recent)
    result = analysed(topic, limits=limits, log=LogFacts(arrivals))
    return replace(result, policy=judge(result, limits))


def _bytes_unknown() -> TopicResult:
    """The partitions without a record of now had most of them."""
    topic, limits = few_keys(MANY, 5), SkewLimits(max_partition_ratio=2.0, by="bytes")
    counts = tuple(20_000 + int(count) for count in topic.records)
    arrivals = replace(_arrived(topic), counts=counts, ends=counts, kept_from=counts)
    result = analysed(topic, limits=limits, log=LogFacts(arrivals))
    return replace(result, policy=judge(result, limits))


def _judged() -> TopicResult:
    """A policy that is broken, with the finding of a rule and one limit within its interval."""
    limits = SkewLimits(max_partition_ratio=2.0, max_key_share=0.3, min_distinct_keys=2_000)
    result = analysed(hot_key(MANY, KEYS), 6_000, limits=limits)
    judged = judge(result, limits)
    finding = SkewFinding("KF501", "error", judged.reasons[0], "split the hottest key, or raise the limit")
    return replace(result, policy=judged, findings=(finding,))


def _one_part_fuller() -> SimulatedTopic:
    """Every key of partition 3 is three times as frequent as those of others: no single key stands out."""
    codes = _codes()
    others = _hashed("murmur2", codes) % 12 != 3
    return produced(codes[~others | (PART % 0.003 < 0.001)], named(KEYS), 12)


def _empty_key() -> SimulatedTopic:
    return produced(_codes(0.2), (b"", *named(KEYS - 1)), 12)


def _by_prefix() -> SimulatedTopic:
    """A partitioner of the producers' own: it hashes the tenant alone."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 41) ** 1.5
    codes = random.choice(40, MANY, p=shares / shares.sum()) + 40 * random.integers(0, KEYS // 40, MANY)
    keys = [f"tenant{number % 40}-{number}".encode() for number in range(KEYS)]
    return lying(_hashed("murmur2", codes, [key.split(b"-")[0] for key in keys]) % 12, codes, keys, 12)


def _nulls_on(partition: int | None) -> SimulatedTopic:
    """A third of the records without a key: all on one partition, or each on a random one."""
    codes = _codes()
    at, null = _hashed("murmur2", codes) % 12, _some(0.33)
    at[null] = np.random.default_rng(1).integers(0, 12, MANY)[null] if partition is None else partition
    codes[null] = NULL
    return lying(at, codes, named(KEYS), 12)


def _binary_keys() -> SimulatedTopic:
    return produced(_codes(0.3), tuple(number.to_bytes(8, "big") for number in range(KEYS)), 12)


def _hot_by_both() -> SimulatedTopic:
    """A key with 15 % of the records, and another one with 39 % of the bytes."""
    codes = np.where(_some(0.015), 7, _codes(0.15))
    return produced(codes, named(KEYS), 12, sizes=np.where(codes == 7, 8_000, 200))


def _unique_keys() -> SimulatedTopic:
    """Each key has one record, and those on partition 3 are large."""
    keys = named(MANY)
    large = hash_keys("murmur2", keys) % 12 == 3
    return produced(np.arange(MANY), keys, 12, sizes=np.where(large, 600, 200))


GROUPS = (ReaderGroup("checkout", "range", 8), ReaderGroup("audit", "roundrobin", 20))
RECORDED = PartitionChange(6, 12, START_MS + 30_000, START_MS + 30_000, "the audit record")
BETWEEN = replace(RECORDED, since_ms=START_MS + 20_000, until_ms=START_MS + 40_000)

SCENES: dict[str, Callable[[], TopicResult]] = {
    "balanced": lambda: analysed(uniform(MANY, KEYS), 6_000),
    "hot key": lambda: analysed(hot_key(MANY, KEYS), 6_000, groups=GROUPS),
    "hot keys": lambda: analysed(zipf(MANY, KEYS, s=1.3), limits=SkewLimits(max_key_share=0.005)),
    "hot by bytes": lambda: analysed(_heavy(_codes() == 7, 20_000)),
    "hot by records and by bytes": lambda: analysed(_hot_by_both()),
    "a hot binary key": lambda: analysed(_binary_keys()),
    "unique keys of uneven size": lambda: analysed(_unique_keys()),
    "few keys by bytes": lambda: analysed(lying(IN_TURN, IN_TURN, named(2), 2, sizes=700 - 400 * IN_TURN)),
    "many keys of uneven size": lambda: analysed(_one_part_fuller()),
    "an empty key": lambda: analysed(_empty_key()),
    "a key above its limit": lambda: analysed(
        hot_key(MANY, KEYS, share=0.01), limits=SkewLimits(max_key_share=0.006)
    ),
    "few keys": lambda: analysed(few_keys(MANY)),
    "one key": lambda: analysed(few_keys(MANY, 1)),
    "few keys of which more partitions help": lambda: analysed(few_keys(MANY, 40, 9)),
    "null keys": lambda: analysed(null_keys(MANY, KEYS), 6_000),
    "null keys alone": lambda: analysed(null_keys(MANY, KEYS, share=1.0)),
    "null keys spread evenly": lambda: analysed(_nulls_on(None)),
    "null keys on one partition": lambda: analysed(_nulls_on(4), 6_000),
    "mixed partitioners": lambda: analysed(mixed_partitioners(MANY, KEYS), 6_000),
    "mixed, without Java": lambda: analysed(_by_two("crc32", "fnv1a", _some(0.4))),
    "mixed, with kafkajs": lambda: analysed(_by_two("murmur2", "murmur2_kafkajs", _some(0.4))),
    "mixed until lately": lambda: analysed(_by_two("crc32", "murmur2", PART > 0.5)),
    "mixed since lately": lambda: analysed(_by_two("murmur2", "crc32", _some(0.4) & (PART > 0.5)), 6_000),
    "mixed, hot key": lambda: analysed(produced(_codes(0.5), named(KEYS), 12, crc32=_some(0.5))),
    "no known partitioner": lambda: analysed(
        lying(np.random.default_rng(0).integers(0, 12, MANY), _codes(), named(KEYS), 12)
    ),
    "an unknown partitioner for some": lambda: analysed(
        _by_two("murmur2", None, _some(0.4))
    ),
    "an own partitioner, uneven": lambda: analysed(_by_prefix()),
    "an own partitioner, many keys": lambda: analysed(
        lying(np.minimum(_codes() % 24, 11), _codes(), named(KEYS), 12)
    ),
    "strays on one partition": lambda: analysed(_strays([7], _some(0.3))),
    "strays on two partitions": lambda: analysed(_strays([3, 7], _some(0.3))),
    "strays that ended": lambda: analysed(_strays([0], _some(0.3) & (PART < 0.6))),
    "all by CRC32": lambda: analysed(mixed_partitioners(MANY, KEYS, share=1.0)),
    "repartitioned": lambda: analysed(repartitioned(MANY, KEYS), 6_000),
    "repartitioned twice": lambda: analysed(_increased("murmur2", {0.3: 3, 0.6: 6, 1.1: 12})),
    "repartitioned, CRC32": lambda: analysed(_increased("crc32", {0.5: 1, 1.1: 6})),
    "repartitioned, no times": lambda: analysed(_out_of_order(repartitioned(MANY, KEYS))),
    "repartitioned, recorded": lambda: analysed(
        _out_of_order(repartitioned(MANY, KEYS)), partition_changes=lambda: (RECORDED,)
    ),
    "repartitioned, recorded between": lambda: analysed(
        _out_of_order(repartitioned(MANY, KEYS)), partition_changes=lambda: (BETWEEN,)
    ),
    "repartitioned, nothing since": lambda: analysed(
        lying(_hashed("murmur2", _codes()) % 6, _codes(), named(KEYS), 12)
    ),
    "repartitioned, then another partitioner": lambda: analysed(
        lying(
            np.where(PART < 0.5, _hashed("crc32", _codes()) % 6, _hashed("murmur2", _codes()) % 12),
            _codes(), named(KEYS), 12,
        )
    ),
    "repartitioned, hot key": lambda: analysed(
        produced(_codes(0.25), named(KEYS), 12, counts=np.where(PART < 0.5, 6, 12))
    ),
    "bursty": lambda: analysed(bursts(120_000, KEYS, stretches=1, length=0.1)),
    "bursty to the end": lambda: analysed(
        produced(np.where((PART > 0.95) & _some(0.8), 0, _codes()), named(KEYS), 12)
    ),
    "bursty by bytes": lambda: analysed(
        _heavy((_hashed("murmur2", _codes()) % 12 == 3) & (PART > 0.4) & (PART < 0.5), 2_000)
    ),
    "bursty, three times": lambda: analysed(
        bursts(120_000, KEYS), log=LogFacts(count_between=counted_by_offsets(bursts(120_000, KEYS)))
    ),
    "bursty, no times": lambda: analysed(
        _without_times(produced(np.where((PART > 0.2) & (PART < 0.23), 0, _codes()), named(KEYS), 12))
    ),
    "few windows": lambda: analysed(uniform(MANY, KEYS, 40), 2_000),
    "one partition": lambda: analysed(hot_key(MANY, 100, 1)),
    "too little data": lambda: analysed(uniform(200, 50)),
    "empty": lambda: analysed(empty()),
    "empty sample": lambda: analysed(compacted(uniform(MANY, KEYS), kept=0.0)),
    "compacted": lambda: analysed(compacted(uniform(MANY, KEYS)), log=LogFacts(compacted=None)),
    "compacted, keys withheld": _compacted_away,
    "aborted transactions": lambda: analysed(
        aborted(MANY, KEYS), log=LogFacts(_arrived(aborted(MANY, KEYS), transactional=True), compacted=True)
    ),
    "added and emptied partitions": lambda: analysed(
        few_keys(MANY), 600,
        log=LogFacts(_arrived(few_keys(MANY), since_ms=START_MS, added_from=8, emptied=(1, 3))),
    ),
    "only some records kept": _with_periods,
    "policy broken": _judged,
    "a period not known": _period_unknown,
    "bytes not known": _bytes_unknown,
}  # fmt: skip
"""A topic for each diagnosis, advice and note."""


@cache
def scene(name: str) -> TopicResult:
    """Return the analysis of a scene, under its name."""
    return replace(SCENES[name](), name=name.replace(" ", "-").replace(",", ""))
