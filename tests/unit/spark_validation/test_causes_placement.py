"""Partitioners on present and earlier counts, what ended, strays, and who must change."""

import itertools
import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from spark_validation.hashing import PARTITIONERS, Int64s
from spark_validation.key_counts import Bools, Floats
from spark_validation.results import MixedFacts, PartitionIncrease, RepartitionFacts
from tests.support.skew.analysis import FULL, analyse_topic, facts_of, name_causes
from tests.support.skew.simulation import (
    EACH_PARTITIONER,
    START_MS,
    SimulatedTopic,
    build_topic,
    grow_topic,
    hash_keys,
    name_keys,
    place_records,
    spread_over,
)

RECORDS = 120_000
KEYS = 6_000
SAMPLE = 24_000
READ = pytest.mark.parametrize(
    "records",
    [pytest.param(FULL, id="full", marks=pytest.mark.nightly("the same of all records")), SAMPLE],
    ids={SAMPLE: "sample"}.get,
)
CHANGES_PRODUCERS = re.compile(r"Set `partitioner|Configure |move all of them|Find the producer")


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.nightly("another topic and sample of each"))])
def seed(request: pytest.FixtureRequest) -> int:
    """Of the topic and of the sample."""
    return int(request.param)


def uniform_codes(seed: int) -> Int64s:
    return np.random.default_rng(seed).integers(0, KEYS, RECORDS)


def hash_codes(by: str, codes: npt.ArrayLike) -> Int64s:
    return hash_keys(by, name_keys(KEYS))[np.asarray(codes, dtype=np.int64)]


PART = np.arange(RECORDS) / RECORDS
"""How much of the log was written before each record."""


INCREASES: list[dict[float, int]] = [
    {0.9: 6, 1.0: 12},
    {0.3: 4, 1.0: 6},
    {0.5: 12, 1.0: 13},
    {0.4: 1, 1.0: 6},
    {0.33: 1, 0.67: 3, 1.0: 12},
    {0.33: 10, 0.67: 11, 1.0: 12},
    {0.25: 2, 0.5: 4, 0.75: 8, 1.0: 16},
]
FIVE_INCREASES: list[dict[float, int]] = [
    # The records of 4 partitions are a tenth, and most of what they fit is the others' by chance.
    {0.2: 2, 0.4: 3, 0.5: 4, 0.6: 6, 0.8: 8, 1.1: 12},
    # Most rows of misfits are on the lowest two partitions, and not of 5.
    {0.35: 1, 0.5: 2, 0.6: 5, 0.75: 7, 0.9: 10, 1.1: 16},
    # A third of the keys on 6 partitions are where 9 would put them.
    {0.1: 3, 0.25: 6, 0.45: 12, 0.7: 24, 0.85: 36, 1.1: 48},
]


def name_counts(counts: dict[float, int]) -> str:
    return "-".join(map(str, counts.values()))


def find_increases(by: str, counts: dict[float, int], records: int, seed: int) -> Sequence[PartitionIncrease]:
    """Assert that the increases of a topic are found, and nothing else."""
    topic = grow_topic(by, uniform_codes(seed), name_keys(KEYS), counts)
    result = analyse_topic(topic, records, seed)
    assert name_causes(result) == ("repartitioned",), result.causes
    increases = facts_of(result.causes[0], RepartitionFacts).increases
    assert [(item.earlier, item.later) for item in increases] == [*itertools.pairwise(counts.values())]
    assert not [sentence for sentence in result.advice if CHANGES_PRODUCERS.search(sentence)], result.advice
    assert result.what_if_withheld is None
    return increases


@READ
@pytest.mark.parametrize("by", EACH_PARTITIONER)
@pytest.mark.parametrize("counts", INCREASES, ids=name_counts)
def test_partition_increases_are_found_for_every_partitioner(
    by: str, counts: dict[float, int], records: int, seed: int
) -> None:
    for increase, until in zip(find_increases(by, counts, records, seed), counts, strict=False):
        assert_between(increase, until)


@READ
@pytest.mark.parametrize("by", ["murmur2", "crc32", "fnv1a"])
@pytest.mark.parametrize("counts", FIVE_INCREASES, ids=name_counts)
def test_five_increases_are_found(by: str, counts: dict[float, int], records: int, seed: int) -> None:
    assert len(find_increases(by, counts, records, seed)) == 5


def assert_between(increase: PartitionIncrease, at: float) -> None:
    """Assert that the times of an increase enclose it, and not much else; `at` is a part of the log."""
    low, high = increase.last_before_ms, increase.first_after_ms
    assert low is not None
    assert high is not None
    assert min(low, high) <= START_MS + RECORDS * at <= max(low, high) + 1
    assert abs(high - low) < RECORDS / 6


@READ
@pytest.mark.parametrize(
    ("first", "then"), [("crc32", "murmur2"), ("murmur2", "crc32"), ("fnv1a", "murmur2"), ("crc32", "fnv1a")]
)
@pytest.mark.parametrize("at", [0.1, 0.5, 0.85])
def test_former_partitioner_has_ended(first: str, then: str, at: float, records: int, seed: int) -> None:
    codes = uniform_codes(seed)
    placed = np.where(at > PART, hash_codes(first, codes), hash_codes(then, codes)) % 12
    result = analyse_topic(place_records(placed, codes, name_keys(KEYS), 12), records, seed)
    assert result.causes[0].name == "mixed_partitioners"
    facts = facts_of(result.causes[0], MixedFacts)
    assert facts.now == then
    assert (facts.ended_after_ms or 0) <= START_MS + at * RECORDS <= (facts.ended_before_ms or 0)
    assert not re.search(r"\([^)]*\(", result.causes[0].evidence), result.causes[0].evidence
    assert "No producer needs to change" in result.advice[0]
    assert not [item for item in result.advice if CHANGES_PRODUCERS.search(item)], result.advice


@READ
@pytest.mark.parametrize(("first", "then"), [("murmur2", "crc32"), ("crc32", "fnv1a"), ("murmur2", "fnv1a")])
@pytest.mark.parametrize("since", [0.0, 0.5, 0.8])
def test_two_current_partitioners_are_advised_to_agree(
    first: str, then: str, since: float, records: int, seed: int
) -> None:
    codes = uniform_codes(seed)
    second = (since <= PART) & (np.random.default_rng(seed + 99).random(RECORDS) < 0.4)
    at = np.where(second, hash_codes(then, codes), hash_codes(first, codes)) % 12
    result = analyse_topic(place_records(at, codes, name_keys(KEYS), 12), records, seed)
    assert result.causes[0].name == "mixed_partitioners"
    facts = facts_of(result.causes[0], MixedFacts)
    assert facts.now is None
    assert facts.last_part == facts.parts > 0
    assert CHANGES_PRODUCERS.search(result.advice[0]), result.advice
    assert ("partitioner=murmur2_random" in result.advice[0]) == ({first, then} == {"murmur2", "crc32"})


@READ
@pytest.mark.parametrize("by", ["fnv1a", "fnv1a_masked", "fnv1a_unsigned"])
@pytest.mark.parametrize("partitions", [5, 12, 16])
def test_each_fnv1a_variant_is_single_partitioner(by: str, partitions: int, records: int, seed: int) -> None:
    """The three agree on half of the keys, and two of them on all keys where the count is a power of two."""
    codes = uniform_codes(seed)
    topic = place_records(hash_codes(by, codes) % partitions, codes, name_keys(KEYS), partitions)
    result = analyse_topic(topic, records, seed)
    assert name_causes(result) == ("balanced",), result.causes
    assert result.partitioners[by] == 1.0
    assert result.causes[0].placement is not None
    assert result.partitioners[result.causes[0].placement.partitioner or "other"] == 1.0
    assert result.what_if
    assert not [item for item in result.advice if CHANGES_PRODUCERS.search(item)], result.advice


@READ
@pytest.mark.parametrize("by", ["murmur2", "crc32"])
@pytest.mark.parametrize("share", [0.3, 0.05])
@pytest.mark.parametrize("partition", [0, 7])
def test_records_sent_to_fixed_partition_are_reported(
    by: str, share: float, partition: int, records: int, seed: int
) -> None:
    codes = uniform_codes(seed)
    stray = np.random.default_rng(seed + 99).random(RECORDS) < share
    at = np.where(stray, partition, hash_codes(by, codes) % 12)
    result = analyse_topic(place_records(at, codes, name_keys(KEYS), 12), records, seed)
    assert facts_of(result.causes[0], MixedFacts).stray_partitions == (partition,)
    match = re.search(rf"sets partition {partition} itself for ([\d.]+) % of the records", result.advice[0])
    assert match is not None, result.advice
    assert float(match.group(1)) == pytest.approx(100 * share, rel=0.15)
    assert "repartitioned" not in name_causes(result)


@READ
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_few_keys_do_not_identify_partitioner(keys: int, records: int, seed: int) -> None:
    for by in PARTITIONERS:
        codes = np.random.default_rng(seed).integers(0, keys, RECORDS) + seed * keys
        result = analyse_topic(
            place_records(hash_codes(by, codes) % 3, codes, name_keys(KEYS), 3), records, seed
        )
        assert not {"mixed_partitioners", "repartitioned"} & {*name_causes(result)}, result.causes
        assert result.causes[0].placement is None
        assert not [item for item in result.advice if CHANGES_PRODUCERS.search(item)], result.advice


OWN: dict[str, Callable[[Int64s, int], Int64s]] = {
    "the lower half more": lambda codes, _: np.minimum(codes % 12, codes // 12 % 12),
    "at random": lambda codes, seed: np.random.default_rng(seed).integers(0, 12, len(codes)),
    "only the first six": lambda codes, seed: np.random.default_rng(seed).integers(0, 12, KEYS)[codes] % 6,
    "one of its own after another": lambda codes, _: np.where(PART < 0.5, codes % 12, codes // 3 % 12),
}


@READ
@pytest.mark.parametrize("name", OWN)
def test_custom_partitioner_is_neither_increase_nor_known(name: str, records: int, seed: int) -> None:
    codes = uniform_codes(seed)
    result = analyse_topic(place_records(OWN[name](codes, seed), codes, name_keys(KEYS), 12), records, seed)
    assert "repartitioned" not in name_causes(result), result.causes
    assert not [item for item in result.advice if "partitioner=" in item], result.advice
    if isinstance(result.causes[0].facts, MixedFacts):
        assert [*facts_of(result.causes[0], MixedFacts).partitioner_shares] == ["other"]
    else:
        assert result.causes[0].placement is not None


Hours = Callable[[Floats], Bools]


def place_at_times(on: Hours, hours: int, share: float, seed: int) -> SimulatedTopic:
    """48,000 records over some hours, of which CRC32 places a share at some hours, and murmur2 the others."""
    random = np.random.default_rng(seed)
    codes, at = random.integers(0, 5_000, 48_000), np.arange(48_000) / 48_000 * hours
    crc32 = on(at) & (random.random(len(codes)) < share)
    return spread_over(build_topic(codes, name_keys(5_000), 12, crc32=crc32, seed=seed), hours)


def nightly(at: Floats) -> Bools:
    return np.asarray((at % 24 >= 2) & (at % 24 < 4))


PARTITIONERS_OVER_TIME: dict[str, tuple[Hours, int, float, str]] = {
    "every night of a week": (nightly, 168, 1.0, "comes back"),
    "half of the records, every night of a week": (nightly, 168, 0.5, "comes back"),
    "three nights": (nightly, 72, 1.0, "comes back"),
    "every night until three days ago": (lambda at: nightly(at) & (at < 96), 168, 1.0, "ended"),
    "until half of a week": (lambda at: at < 84, 168, 0.5, "ended"),
    "a few until half of a week": (lambda at: at < 84, 168, 0.03, "ended"),
    "one day": (lambda at: (at > 48) & (at < 72), 168, 1.0, "ended"),
    "all the time": (lambda at: at >= 0, 168, 0.3, "is at work"),
    "since half of a week": (lambda at: at > 84, 168, 0.5, "is at work"),
}
"""The hours at which CRC32 places a share of the records, all hours, that share, and what is true of it."""


@pytest.mark.parametrize(("records", "seed"), [(FULL, 0), (8_000, 1)])
@pytest.mark.parametrize("name", PARTITIONERS_OVER_TIME)
def test_returning_partitioner_has_not_ended(name: str, records: int, seed: int) -> None:
    on, hours, share, truth = PARTITIONERS_OVER_TIME[name]
    result = analyse_topic(place_at_times(on, hours, share, seed), records, seed)
    (cause,) = result.causes
    assert cause.name == "mixed_partitioners"
    assert (cause.times is not None) is (truth == "comes back")
    ended = "No producer needs to change" in " ".join(result.advice)
    assert ended is (truth == "ended")
    assert ("murmur2_random" in " ".join(result.advice)) is not ended
