from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from spark_validation.analysis import LogFacts
from spark_validation.arrivals import EVEN_RATIO
from spark_validation.hashing import Int64s
from spark_validation.results import BurstFacts, HotKeysFacts, NullKeysFacts
from tests.support.skew.analysis import FULL, analyse_topic, facts_of, name_causes
from tests.support.skew.simulation import (
    DAY_MS,
    NULL,
    START_MS,
    SimulatedTopic,
    abort_transactions,
    add_sizes,
    build_topic,
    bursts,
    clean_log,
    compact_log,
    counted_by_offsets,
    hash_keys,
    hot_over_time,
    misdate_records,
    name_keys,
    place_records,
    spread_over,
    uniform,
    zipf,
)

MANY = 120_000
SAMPLE = MANY // 10
KEYS = 10_000
DRAWS = (
    (MANY, 0),
    *(
        pytest.param(1_000_000, seed, marks=pytest.mark.nightly("larger topics, and more of them"))
        for seed in (0, 1, 2)
    ),
)
"""The records of a topic, and the seed of it and of its samples."""

SEEDS = pytest.mark.parametrize(
    "seeds",
    [range(1), pytest.param(range(1, 10), marks=pytest.mark.nightly("more topics and samples of each"))],
    ids=["one", "more"],
)
"""What chance must not make of a topic is drawn once by day."""


def murmur2_of(codes: npt.ArrayLike) -> Int64s:
    return hash_keys("murmur2", name_keys(KEYS))[np.asarray(codes, dtype=np.int64)]


KNOWN: dict[str, tuple[Callable[[int, int], SimulatedTopic], str]] = {
    "uniform": (lambda n, seed: uniform(n, KEYS, seed=seed), "balanced"),
    "one key of 30 %": (lambda n, seed: uniform(n, KEYS, hot=0.3, seed=seed), "hot_keys"),
    "10 keys on 12 partitions": (lambda n, seed: uniform(n, 10, seed=seed), "few_keys"),
    "no keys": (lambda n, seed: uniform(n, KEYS, null=1.0, seed=seed), "null_keys"),
    "half null keys": (lambda n, seed: uniform(n, KEYS, null=0.5, seed=seed), "null_keys"),
    "mixed 50:50": (lambda n, seed: uniform(n, KEYS, crc32=0.5, seed=seed), "mixed_partitioners"),
    "mixed 90:10": (lambda n, seed: uniform(n, KEYS, crc32=0.1, seed=seed), "mixed_partitioners"),
    "mixed 10:90": (lambda n, seed: uniform(n, KEYS, crc32=0.9, seed=seed), "mixed_partitioners"),
    "short bursts": (lambda n, seed: bursts(n, KEYS, seed=seed), "bursty"),
    "one burst": (lambda n, seed: bursts(n, KEYS, stretches=1, length=0.1, seed=seed), "bursty"),
    "all by CRC32": (lambda n, seed: uniform(n, KEYS, crc32=1.0, seed=seed), "balanced"),
    "one key of 1 %": (lambda n, seed: uniform(n, KEYS, hot=0.01, seed=seed), "balanced"),
    "2,000 keys": (lambda n, seed: uniform(n, 2_000, seed=seed), "balanced"),
    "30 keys": (lambda n, seed: uniform(n, 30, seed=seed), "few_keys"),
    "few null keys": (lambda n, seed: uniform(n, KEYS, null=0.005, seed=seed), "balanced"),
    "strays by CRC32": (lambda n, seed: uniform(n, KEYS, crc32=0.0005, seed=seed), "balanced"),
    "only new records": (lambda n, seed: uniform(n, KEYS, before=6, at=0.0, seed=seed), "balanced"),
    "only old records": (lambda n, seed: uniform(n, KEYS, before=6, at=1.0, seed=seed), "repartitioned"),
    "a faint burst": (
        lambda n, seed: bursts(n, KEYS, stretches=1, length=0.05, within=0.02, seed=seed), "balanced"),
    "uneven sizes": (lambda n, seed: add_sizes(uniform(n, KEYS, seed=seed), sigma=1.5), "balanced"),
    "one partition": (lambda n, seed: uniform(n, 100, 1, hot=0.3, seed=seed), "balanced"),
    "a key since half-way": (
        lambda n, seed: hot_over_time(lambda at: np.where(at < 12, 0.0, 0.3), 24, n, seed=seed), "hot_keys"),
    "compacted": (lambda n, seed: compact_log(uniform(n, KEYS, seed=seed)), "balanced"),
    "compacted, one key of 30 %": (
        lambda n, seed: compact_log(uniform(n, KEYS, hot=0.3, seed=seed)), "hot_keys"),
    "compacted, one burst": (
        lambda n, seed: compact_log(bursts(n, KEYS, stretches=1, length=0.1, seed=seed)), "bursty"),
}  # fmt: skip


@pytest.mark.parametrize(("many", "seed"), DRAWS)
@pytest.mark.parametrize("name", KNOWN)
def test_known_topic_is_diagnosed_from_full_and_sampled_records(name: str, many: int, seed: int) -> None:
    make, diagnosis = KNOWN[name]
    topic = make(many, seed)
    for records in (many // 10,) if seed else (FULL, many // 10):
        result = analyse_topic(topic, records, seed)
        assert result.causes[0].name == diagnosis, (records, result.causes)


@pytest.mark.parametrize(("many", "seed"), DRAWS)
@pytest.mark.parametrize("s", [0.8, 1.1, 1.5])
@pytest.mark.parametrize("partitions", [3, 12])
def test_zipf_topic_is_diagnosed_by_true_ratio(s: float, partitions: int, many: int, seed: int) -> None:
    topic = zipf(many, KEYS, partitions, s=s, seed=seed)
    codes = topic.all_codes
    # Counted record by record: the ratio with all keys, and without the ten most frequent.
    remaining = np.bincount(murmur2_of(codes[codes >= 10]) % partitions, minlength=partitions)
    ratio, without = topic.ratio(), float(remaining.max() / remaining.mean())
    assert abs(ratio - EVEN_RATIO) > 0.01
    expected = "balanced" if ratio < EVEN_RATIO else "hot_keys"
    if expected == "hot_keys":
        assert (ratio - without) / (ratio - 1) > 0.5
    for records in (FULL, many // 10):
        result = analyse_topic(topic, records, seed)
        assert name_causes(result) == (expected,), (ratio, result.causes)


DAY = 48_000
"""The records of the logs of a day."""


def draw_chance_skew(kind: str, partitions: int, seed: int) -> SimulatedTopic:
    """Many keys, alike or of uneven size, none of which is frequent."""
    random = np.random.default_rng(seed)
    keys, records = {"repeated": (30 * partitions, 4 * DAY)}.get(kind, (DAY, DAY))
    codes, sizes = np.arange(records), np.full(records, 200)
    if kind == "repeated":
        codes = random.integers(0, keys, records)
    elif kind == "alike":
        codes, sizes = codes[: 30 * partitions], random.integers(198, 203, 30 * partitions)
    else:
        sizes = random.lognormal(5, float(kind), records).astype(np.int64) + 1
    return spread_over(build_topic(codes, name_keys(keys), partitions, sizes=sizes))


@pytest.mark.parametrize(
    ("partitions", "seeds"),
    [
        (12, range(1)),
        (100, range(1)),
        pytest.param(100, range(1, 20), marks=pytest.mark.nightly("more topics")),
        pytest.param(1_000, range(10), marks=pytest.mark.nightly("larger topics, and more of them")),
    ],
)
@pytest.mark.parametrize("kind", ["1", "1.5", "2", "alike", "repeated"])
def test_random_imbalance_of_many_keys_is_even(kind: str, partitions: int, seeds: range) -> None:
    """Unique keys with log-normal sizes (by sigma), as many with like sizes, and 30 a partition at random."""
    for seed in seeds:
        topic = draw_chance_skew(kind, partitions, seed)
        # Of a thousand partitions so many records are all.
        for records in (FULL, 8_000)[: 2 if partitions < 1_000 else 1]:
            result = analyse_topic(topic, records, seed)
            assert name_causes(result) == ("balanced",), (seed, records, result.causes)
            assert result.spread == "even"
            assert result.advice == ()
            by = max(result.by_records.max_mean_ratio.value, result.by_bytes.max_mean_ratio.value)
            assert ("by chance" in result.causes[0].evidence) is (by > EVEN_RATIO)


@pytest.mark.parametrize("share", [0.01, 0.03])
@pytest.mark.parametrize("records", [FULL, 8_000])
def test_frequent_key_among_uneven_sizes_is_hot(share: float, records: int) -> None:
    """On 100 partitions it alone has as much as the mean partition, or three times as much."""
    random = np.random.default_rng(0)
    codes = np.where(random.random(DAY) < share, 0, np.arange(DAY))
    topic = spread_over(
        build_topic(codes, name_keys(DAY), 100, sizes=random.lognormal(5, 1, DAY).astype(int) + 1)
    )
    cause = analyse_topic(topic, records).causes[0]
    assert [key.share for key in facts_of(cause, HotKeysFacts).keys] == [pytest.approx(share, rel=0.3)]


def nulls_on(kind: str, share: float, seed: int) -> SimulatedTopic:
    """A share of the records has no key; where it is 1, all."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, 8_000, DAY)
    at, null = murmur2_of(codes) % 12, random.random(DAY) < share
    batch = np.arange(DAY) * 24 // DAY if kind == "a batch an hour" else np.cumsum(null) // 20
    sticky = random.integers(0, 12, DAY)[batch]
    where = {
        "one": np.zeros(DAY, dtype=np.int64),
        "three in turn": np.arange(DAY) % 3,
        "half on one": np.where(random.random(DAY) < 0.5, 0, sticky),
        "since half-way": np.zeros(DAY, dtype=np.int64),
    }.get(kind, sticky)
    null &= (kind != "since half-way") | (np.arange(DAY) > DAY / 2)
    codes[null], at[null] = NULL, where[null]
    return spread_over(place_records(at, codes, name_keys(KEYS), 12))


@SEEDS
@pytest.mark.parametrize("share", [0.03, 1.0])
@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        ("one", (0,)),
        ("three in turn", (0, 1, 2)),
        ("half on one", (0,)),
        ("since half-way", (0,)),
        ("batches", ()),
        ("a batch an hour", ()),
    ],
)
def test_partitions_that_producers_choose_for_null_keys_are_named(
    kind: str, chosen: tuple[int, ...], share: float, seeds: range
) -> None:
    for seed in seeds:
        topic = nulls_on(kind, share, seed)
        for records in (FULL, 8_000):
            result = analyse_topic(topic, records, seed)
            cause = next(cause for cause in result.causes if cause.name == "null_keys")
            facts = facts_of(cause, NullKeysFacts)
            assert facts.chosen_partitions == chosen, (seed, records, facts)
            assert (facts.spread == "by choice") is bool(chosen)
            advised = "keyed: false" in " ".join(result.advice)
            # A few null keys need no advice where a sample finds the topic even.
            assert advised is not bool(chosen) or (share < 0.1 and not advised and not chosen)


def draw_windowed(users: int, minutes: int, exponent: float, seed: int) -> SimulatedTopic:
    """Keys of windows as Kafka Streams writes them: a user, and the start of the window in 8 bytes."""
    random = np.random.default_rng(seed)
    weights = np.arange(1, users + 1) ** -exponent
    user = random.choice(users, DAY, p=weights / weights.sum())
    window = np.arange(DAY) * (DAY_MS // DAY) // (minutes * 60_000)
    pairs, codes = np.unique(window * users + user, return_inverse=True)
    keys = [
        b"user-%d" % (pair % users) + (START_MS + pair // users * minutes * 60_000).to_bytes(8, "big")
        for pair in pairs.tolist()
    ]
    return spread_over(build_topic(codes, keys, 12))


def share_between(topic: SimulatedTopic, start_ms: float, end_ms: float) -> npt.NDArray[np.float64]:
    """Return the share of each partition in the records of some time."""
    counts = np.array([np.count_nonzero((at >= start_ms) & (at < end_ms)) for at in topic.times])
    return np.asarray(counts / counts.sum(), dtype=np.float64)


@SEEDS
@pytest.mark.parametrize(
    ("users", "minutes", "exponent"),
    [
        (1_000, 60, 1.2),
        pytest.param(300, 30, 1.0, marks=pytest.mark.nightly("more windows")),
        pytest.param(1_000, 60, 1.0, marks=pytest.mark.nightly("more windows")),
        pytest.param(1_000, 5, 1.0, marks=pytest.mark.nightly("more windows")),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_keys_of_time_windows_are_not_bursts(
    users: int, minutes: int, exponent: float, known: bool, seeds: range
) -> None:
    """Each is hot while its window lasts; so is another one at any other time."""
    for seed in seeds:
        topic = draw_windowed(users, minutes, exponent, seed)
        log = LogFacts(count_between=counted_by_offsets(topic) if known else None)
        for records, draw in ((FULL, 0), (8_000, 0), (8_000, 1)):
            result = analyse_topic(topic, records, draw, log=log)
            if records == FULL and name_causes(result) == ("bursty",):
                # By chance, the largest keys of two windows in a row may lie on one partition: that is one.
                burst = facts_of(result.causes[0], BurstFacts)
                shares = share_between(topic, burst.start_ms, burst.end_ms)
                assert shares[burst.partition or 0] >= 0.95 * burst.burst_share
            else:
                assert name_causes(result) == ("balanced",), (seed, records, draw)


def move_record(hours: int, seed: int) -> SimulatedTopic:
    """One of many records has another time than those beside it."""
    random = np.random.default_rng(seed)
    topic = spread_over(build_topic(random.permutation(6_000), name_keys(6_000), 100))
    at = [times.copy() for times in topic.times]
    partition = int(random.integers(0, 100))
    at[partition][int(random.integers(0, len(at[partition])))] += hours * 3_600_000
    return replace(topic, times=tuple(at))


def misdate(share: float, by: float, partitions: int = 12) -> Callable[[int], SimulatedTopic]:
    """A share of the records has an event time of long before, or of the future."""
    return lambda seed: misdate_records(
        uniform(MANY, partitions=partitions, seed=seed), share=share, by=by, seed=seed
    )


NO_BURSTS: dict[str, tuple[Callable[[int], SimulatedTopic], int]] = {
    "a record of before": (lambda seed: move_record(-5, seed), 8_000),
    "a record of later": (lambda seed: move_record(9, seed), 8_000),
    # A partition has no record for a while; its windows, and those of others, have few.
    "aborted transactions": (lambda _: abort_transactions(MANY), SAMPLE),
    "short aborted transactions": (lambda _: abort_transactions(MANY, transaction=20), SAMPLE),
    "compacted": (lambda _: clean_log(uniform(MANY)), SAMPLE),
    # One window of ten has such a record, and seems to have begun when the one before it ended; or all have.
    **{f"{by} on {n}": (misdate(0.003, by, n), 2_000) for n in (2, 3, 5) for by in (-0.03, 0.03)},
    **{f"{by} in every window": (misdate(0.01, by), SAMPLE) for by in (0.1, 8.0)},
}
"""Topics whose times or offsets look like a burst, and the records of a sample that may show one."""


@SEEDS
@pytest.mark.parametrize("name", NO_BURSTS)
def test_misleading_times_and_offsets_are_not_burst(name: str, seeds: range) -> None:
    make, sample = NO_BURSTS[name]
    for seed in seeds:
        topic = make(seed)
        for records in (FULL, sample):
            assert "bursty" not in name_causes(analyse_topic(topic, records, seed)), (seed, records)


@pytest.mark.parametrize(("share", "by"), [(0.003, -0.03), (0.03, -0.1), (0.03, 0.1)])
def test_burst_is_found_among_misdated_records(share: float, by: float) -> None:
    topic = misdate_records(bursts(MANY, KEYS, stretches=1, length=0.1), share=share, by=by)
    for records in (FULL, SAMPLE):
        assert name_causes(analyse_topic(topic, records))[0] == "bursty"


def test_burst_among_many_partitions_is_found_with_fewer_points(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = bursts(MANY, KEYS, 48, stretches=1, length=0.1)

    def find(points: int) -> BurstFacts:
        monkeypatch.setattr("spark_validation.causes_burst.MAX_TIMELINE_POINTS", points)
        return facts_of(analyse_topic(topic, 24_000, partition_changes=tuple).causes[0], BurstFacts)

    every, fewer = find(100_000), find(150)
    assert fewer.partition == every.partition
    near = (every.end_ms - every.start_ms) / 5
    assert fewer.start_ms == pytest.approx(every.start_ms, abs=near)
    assert fewer.end_ms == pytest.approx(every.end_ms, abs=near)


@pytest.mark.parametrize("known", [True, False])
def test_burst_needs_offsets_by_time(known: bool) -> None:
    topic = bursts(MANY, KEYS, stretches=1, length=0.1)
    count = counted_by_offsets(topic) if known else lambda *_: None
    result = analyse_topic(topic, log=LogFacts(count_between=count))
    assert ("bursty" in name_causes(result)) is known
