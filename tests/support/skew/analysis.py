"""Analyses of simulated topics, without Spark; and one scene for each sentence that an analysis can give."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from kafkaform.core.values import replace
from spark_validation.analysis import AnalysisContext, LogFacts, ReaderGroup, analyse
from spark_validation.arrivals import TopicArrivals
from spark_validation.hashing import Int64s
from spark_validation.policy import judge
from spark_validation.results import (
    ArrivalPeriod,
    CauseFacts,
    PartitionChange,
    SkewCause,
    SkewFinding,
    SkewLimits,
    TopicResult,
)
from tests.support.skew.simulation import (
    NULL,
    START_MS,
    SimulatedTopic,
    abort_transactions,
    build_topic,
    bursts,
    compact_log,
    counted_by_offsets,
    draw_sample,
    grow_topic,
    hash_keys,
    name_keys,
    place_records,
    uniform,
    zipf,
)

FULL = 10**9
"""More records than any simulated topic has: all of them are read."""


def analyse_topic(
    topic: SimulatedTopic,
    records: int = FULL,
    seed: int = 0,
    limits: SkewLimits | None = None,
    name: str = "orders",
    **context: Any,
) -> TopicResult:
    """Analyse a sample of a topic, or all of it; `context` has further fields of an AnalysisContext."""
    count = topic.partitions
    counts, plan, layout = draw_sample(
        topic, records=records, seed=seed, candidates=(count, 2 * count, 4 * count)
    )
    mode = "full" if plan.full else "sample"
    return analyse(
        name, counts, plan, layout, AnalysisContext(mode=mode, limits=limits or SkewLimits(), **context)
    )


def name_causes(result: TopicResult) -> tuple[str, ...]:
    return tuple(cause.name for cause in result.causes)


Facts = TypeVar("Facts", bound=CauseFacts)


def facts_of(cause: SkewCause, kind: type[Facts]) -> Facts:
    assert isinstance(cause.facts, kind), cause
    return cause.facts


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


def _hash_codes(by: str, codes: Int64s, keys: Sequence[bytes] = name_keys(KEYS)) -> Int64s:
    return hash_keys(by, tuple(keys))[codes]


def _place_by_two(first: str, then: str | None, which: Any) -> SimulatedTopic:
    """Keys placed by one partitioner, or by another where `which` is true: None for an unknown one."""
    codes = _codes()
    second = _hash_codes(then, codes) if then else codes
    return place_records(np.where(which, second, _hash_codes(first, codes)) % 12, codes, name_keys(KEYS), 12)


def _some(share: float) -> Any:
    return np.random.default_rng(99).random(MANY) < share


def _strays(partitions: Sequence[int], which: Any) -> SimulatedTopic:
    """Some records on given partitions, whatever their key."""
    codes = _codes()
    at = _hash_codes("murmur2", codes) % 12
    at[which] = np.array(partitions)[np.arange(MANY) % len(partitions)][which]
    return place_records(at, codes, name_keys(KEYS), 12)


def _strip_times(topic: SimulatedTopic) -> SimulatedTopic:
    return replace(topic, times=tuple(np.full(len(times), START_MS) for times in topic.times))


def _out_of_order(topic: SimulatedTopic) -> SimulatedTopic:
    random = np.random.default_rng(5)
    return replace(topic, times=tuple(START_MS + random.integers(0, MANY, len(at)) for at in topic.times))


def _heavy(heavy: Any, size: int) -> SimulatedTopic:
    return build_topic(_codes(), name_keys(KEYS), 12, sizes=np.where(heavy, size, 200))


def _build_arrivals(topic: SimulatedTopic, **fields: Any) -> TopicArrivals:
    counts = tuple(map(int, topic.records))
    return TopicArrivals("orders", None, counts, counts, since_made=True, until_ms=START_MS + MANY, **fields)


def _compacted_away() -> TopicResult:
    topic = compact_log(uniform(MANY, KEYS, hot=0.3))
    log = LogFacts(
        _build_arrivals(topic), compacted=True, keys_withheld="Compaction has reached the end of the log."
    )
    return analyse_topic(topic, log=log)


def _build_with_periods() -> TopicResult:
    topic = zipf(MANY, KEYS)
    counts = tuple(map(int, topic.records))
    since, until = START_MS, START_MS + MANY
    arrivals = TopicArrivals(
        "orders", MANY, counts, counts, 1000.0, False, since, until,
        recent=(ArrivalPeriod("hour", until - 1, until, counts), ArrivalPeriod("made", None, until, counts)),
    )  # fmt: skip
    result = analyse_topic(topic, 6_000, since_ms=since, log=LogFacts(arrivals, retention_bytes=-1))
    kept = [
        replace(partition, kept_from=5, kept_since_ms=START_MS - 3_600_000) for partition in result.partitions
    ]
    return replace(result, partitions=tuple(kept), keys_since_ms=START_MS)


def _period_unknown() -> TopicResult:
    """The last hour was asked for, and a day is known within bounds."""
    topic, limits = uniform(MANY, KEYS, hot=0.3), SkewLimits(max_partition_ratio=2.0)
    counts = tuple(map(int, topic.records))
    reason = "offset 2 of partition 5 has a later time than the 3,914 records after it"
    most = tuple(count + 100 for count in counts)
    recent = (
        ArrivalPeriod("hour", START_MS, START_MS + MANY, (), unknown=reason),
        ArrivalPeriod("day", START_MS, START_MS + MANY, counts, counts, most),
    )
    arrivals = _build_arrivals(topic, unknown=reason, requested=True, recent=recent)
    result = analyse_topic(topic, limits=limits, log=LogFacts(arrivals))
    return replace(result, policy=judge(result, limits))


def _bytes_unknown() -> TopicResult:
    """The partitions without a record of now had most of them."""
    topic, limits = uniform(MANY, 5), SkewLimits(max_partition_ratio=2.0, by="bytes")
    counts = tuple(20_000 + int(count) for count in topic.records)
    arrivals = replace(_build_arrivals(topic), counts=counts, ends=counts, kept_from=counts)
    result = analyse_topic(topic, limits=limits, log=LogFacts(arrivals))
    return replace(result, policy=judge(result, limits))


def _build_judged() -> TopicResult:
    """A policy that is broken, with the finding of a rule and one limit within its interval."""
    limits = SkewLimits(max_partition_ratio=2.0, max_key_share=0.3, min_distinct_keys=2_000)
    result = analyse_topic(uniform(MANY, KEYS, hot=0.3), 6_000, limits=limits)
    judged = judge(result, limits)
    finding = SkewFinding("KF501", "error", judged.reasons[0], "split the hottest key, or raise the limit")
    return replace(result, policy=judged, findings=(finding,))


def _one_part_fuller() -> SimulatedTopic:
    """Every key of partition 3 is three times as frequent as those of others: no single key stands out."""
    codes = _codes()
    remaining = _hash_codes("murmur2", codes) % 12 != 3
    return build_topic(codes[~remaining | (PART % 0.003 < 0.001)], name_keys(KEYS), 12)


def _empty_key() -> SimulatedTopic:
    return build_topic(_codes(0.2), (b"", *name_keys(KEYS - 1)), 12)


def place_by_prefix(partitions: int = 12) -> SimulatedTopic:
    """A partitioner of the producers' own: it hashes the tenant alone."""
    random = np.random.default_rng(0)
    shares = 1 / np.arange(1, 41) ** 1.5
    codes = random.choice(40, MANY, p=shares / shares.sum()) + 40 * random.integers(0, KEYS // 40, MANY)
    keys = [f"tenant{number % 40}-{number}".encode() for number in range(KEYS)]
    at = _hash_codes("murmur2", codes, [key.split(b"-")[0] for key in keys]) % partitions
    return place_records(at, codes, keys, partitions)


def _nulls_on(partition: int | None) -> SimulatedTopic:
    """A third of the records without a key: all on one partition, or each on a random one."""
    codes = _codes()
    at, null = _hash_codes("murmur2", codes) % 12, _some(0.33)
    at[null] = np.random.default_rng(1).integers(0, 12, MANY)[null] if partition is None else partition
    codes[null] = NULL
    return place_records(at, codes, name_keys(KEYS), 12)


def _binary_keys() -> SimulatedTopic:
    return build_topic(_codes(0.3), tuple(number.to_bytes(8, "big") for number in range(KEYS)), 12)


def _hot_by_both() -> SimulatedTopic:
    """A key with 15 % of the records, and another one with 39 % of the bytes."""
    codes = np.where(_some(0.015), 7, _codes(0.15))
    return build_topic(codes, name_keys(KEYS), 12, sizes=np.where(codes == 7, 8_000, 200))


def _unique_keys() -> SimulatedTopic:
    """Each key has one record, and those on partition 3 are large."""
    keys = name_keys(MANY)
    large = hash_keys("murmur2", keys) % 12 == 3
    return build_topic(np.arange(MANY), keys, 12, sizes=np.where(large, 600, 200))


GROUPS = (ReaderGroup("checkout", "range", 8), ReaderGroup("audit", "roundrobin", 20))
RECORDED = PartitionChange(6, 12, START_MS + 30_000, START_MS + 30_000, "the audit record")
BETWEEN = replace(RECORDED, since_ms=START_MS + 20_000, until_ms=START_MS + 40_000)

SCENES: dict[str, Callable[[], TopicResult]] = {
    "balanced": lambda: analyse_topic(uniform(MANY, KEYS), 6_000),
    "hot key": lambda: analyse_topic(uniform(MANY, KEYS, hot=0.3), 6_000, groups=GROUPS),
    "hot keys": lambda: analyse_topic(zipf(MANY, KEYS, s=1.3), limits=SkewLimits(max_key_share=0.005)),
    "hot by bytes": lambda: analyse_topic(_heavy(_codes() == 7, 20_000)),
    "hot by records and by bytes": lambda: analyse_topic(_hot_by_both()),
    "a hot binary key": lambda: analyse_topic(_binary_keys()),
    "unique keys of uneven size": lambda: analyse_topic(_unique_keys()),
    "few keys by bytes": lambda: analyse_topic(
        place_records(IN_TURN, IN_TURN, name_keys(2), 2, sizes=700 - 400 * IN_TURN)
    ),
    "many keys of uneven size": lambda: analyse_topic(_one_part_fuller()),
    "an empty key": lambda: analyse_topic(_empty_key()),
    "a key above its limit": lambda: analyse_topic(
        uniform(MANY, KEYS, hot=0.01), limits=SkewLimits(max_key_share=0.006)
    ),
    "few keys": lambda: analyse_topic(uniform(MANY, 10)),
    "one key": lambda: analyse_topic(uniform(MANY, 1)),
    "few keys of which more partitions help": lambda: analyse_topic(uniform(MANY, 40, 9)),
    "null keys": lambda: analyse_topic(uniform(MANY, KEYS, null=0.4), 6_000),
    "null keys alone": lambda: analyse_topic(uniform(MANY, KEYS, null=1.0)),
    "null keys spread evenly": lambda: analyse_topic(_nulls_on(None)),
    "null keys on one partition": lambda: analyse_topic(_nulls_on(4), 6_000),
    "mixed partitioners": lambda: analyse_topic(uniform(MANY, KEYS, crc32=0.4), 6_000),
    "mixed, without Java": lambda: analyse_topic(_place_by_two("crc32", "fnv1a", _some(0.4))),
    "mixed, with kafkajs": lambda: analyse_topic(_place_by_two("murmur2", "murmur2_kafkajs", _some(0.4))),
    "mixed until lately": lambda: analyse_topic(_place_by_two("crc32", "murmur2", PART > 0.5)),
    "mixed since lately": lambda: analyse_topic(
        _place_by_two("murmur2", "crc32", _some(0.4) & (PART > 0.5)), 6_000
    ),
    "mixed, hot key": lambda: analyse_topic(build_topic(_codes(0.5), name_keys(KEYS), 12, crc32=_some(0.5))),
    "no known partitioner": lambda: analyse_topic(
        place_records(np.random.default_rng(0).integers(0, 12, MANY), _codes(), name_keys(KEYS), 12)
    ),
    "an unknown partitioner for some": lambda: analyse_topic(
        _place_by_two("murmur2", None, _some(0.4))
    ),
    "an own partitioner, uneven": lambda: analyse_topic(place_by_prefix()),
    "an own partitioner, many keys": lambda: analyse_topic(
        place_records(np.minimum(_codes() % 24, 11), _codes(), name_keys(KEYS), 12)
    ),
    "strays on one partition": lambda: analyse_topic(_strays([7], _some(0.3))),
    "strays on two partitions": lambda: analyse_topic(_strays([3, 7], _some(0.3))),
    "strays that ended": lambda: analyse_topic(_strays([0], _some(0.3) & (PART < 0.6))),
    "all by CRC32": lambda: analyse_topic(uniform(MANY, KEYS, crc32=1.0)),
    "repartitioned": lambda: analyse_topic(uniform(MANY, KEYS, before=6), 6_000),
    "repartitioned twice": lambda: analyse_topic(
        grow_topic("murmur2", _codes(), name_keys(KEYS), {0.3: 3, 0.6: 6, 1.1: 12})
    ),
    "repartitioned, CRC32": lambda: analyse_topic(
        grow_topic("crc32", _codes(), name_keys(KEYS), {0.5: 1, 1.1: 6})
    ),
    "repartitioned, no times": lambda: analyse_topic(_out_of_order(uniform(MANY, KEYS, before=6))),
    "repartitioned, recorded": lambda: analyse_topic(
        _out_of_order(uniform(MANY, KEYS, before=6)), partition_changes=lambda: (RECORDED,)
    ),
    "repartitioned, recorded between": lambda: analyse_topic(
        _out_of_order(uniform(MANY, KEYS, before=6)), partition_changes=lambda: (BETWEEN,)
    ),
    "repartitioned, nothing since": lambda: analyse_topic(
        place_records(_hash_codes("murmur2", _codes()) % 6, _codes(), name_keys(KEYS), 12)
    ),
    "repartitioned, then another partitioner": lambda: analyse_topic(
        place_records(
            np.where(PART < 0.5, _hash_codes("crc32", _codes()) % 6, _hash_codes("murmur2", _codes()) % 12),
            _codes(), name_keys(KEYS), 12,
        )
    ),
    "repartitioned, hot key": lambda: analyse_topic(
        build_topic(_codes(0.25), name_keys(KEYS), 12, counts=np.where(PART < 0.5, 6, 12))
    ),
    "bursty": lambda: analyse_topic(bursts(120_000, KEYS, stretches=1, length=0.1)),
    "bursty to the end": lambda: analyse_topic(
        build_topic(np.where((PART > 0.95) & _some(0.8), 0, _codes()), name_keys(KEYS), 12)
    ),
    "bursty by bytes": lambda: analyse_topic(
        _heavy((_hash_codes("murmur2", _codes()) % 12 == 3) & (PART > 0.4) & (PART < 0.5), 2_000)
    ),
    "bursty, three times": lambda: analyse_topic(
        bursts(120_000, KEYS), log=LogFacts(count_between=counted_by_offsets(bursts(120_000, KEYS)))
    ),
    "bursty, no times": lambda: analyse_topic(
        _strip_times(build_topic(np.where((PART > 0.2) & (PART < 0.23), 0, _codes()), name_keys(KEYS), 12))
    ),
    "few windows": lambda: analyse_topic(uniform(MANY, KEYS, 40), 2_000),
    "one partition": lambda: analyse_topic(uniform(MANY, 100, 1, hot=0.3)),
    "one record": lambda: analyse_topic(build_topic([0], [b"k"], 6)),
    "no bytes": lambda: analyse_topic(build_topic(np.zeros(500, np.int64), [b""], 3, sizes=0)),
    "too little data": lambda: analyse_topic(uniform(200, 50)),
    "empty": lambda: analyse_topic(build_topic([], [b"never"], 3)),
    "empty sample": lambda: analyse_topic(compact_log(uniform(MANY, KEYS), kept=0.0)),
    "compacted": lambda: analyse_topic(compact_log(uniform(MANY, KEYS)), log=LogFacts(compacted=None)),
    "compacted, keys withheld": _compacted_away,
    "aborted transactions": lambda: analyse_topic(
        abort_transactions(MANY, KEYS),
        log=LogFacts(_build_arrivals(abort_transactions(MANY, KEYS), transactional=True), compacted=True),
    ),
    "added and emptied partitions": lambda: analyse_topic(
        uniform(MANY, 10), 600,
        log=LogFacts(_build_arrivals(uniform(MANY, 10), since_ms=START_MS, added_from=8, emptied=(1, 3))),
    ),
    "only some records kept": _build_with_periods,
    "policy broken": _build_judged,
    "a period not known": _period_unknown,
    "bytes not known": _bytes_unknown,
}  # fmt: skip
"""A topic for each diagnosis, advice and note."""


@cache
def scene(name: str) -> TopicResult:
    """Return the analysis of a scene, under its name."""
    return replace(SCENES[name](), name=name.replace(" ", "-").replace(",", ""))
