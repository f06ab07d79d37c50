import hashlib
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from spark_validation import figures
from spark_validation.advice import REACHABLE_RATIO, advise
from spark_validation.analysis import LogFacts
from spark_validation.results import BurstFacts, Estimate, HotKeysFacts, SkewLimits, TopicResult, WhatIf
from spark_validation.salts import MAX_SALTS, TopicLoads
from tests.support.skew.analysis import FULL, analyse_topic, scene
from tests.support.skew.simulation import (
    EACH_PARTITIONER,
    START_MS,
    SimulatedTopic,
    build_topic,
    counted_by_offsets,
    grow_topic,
    hash_keys,
    hot_over_time,
    name_keys,
    place_records,
    select_since,
    uniform,
    zipf,
)

MANY = 120_000
KEYS = 10_000
NO_KEYS = TopicLoads(np.ones((2, 12)), {})


def find_advice(result: TopicResult, about: str) -> str:
    found = [sentence for sentence in result.advice if about in sentence]
    assert len(found) == 1, result.advice
    return found[0]


def ratio_of(keys: list[bytes], shares: list[float], partitions: int, by: str = "murmur2") -> float:
    """The ratio when a partitioner places keys of given shares."""
    at = hash_keys(by, tuple(keys)) % partitions
    return float(np.bincount(at, weights=shares, minlength=partitions).max() * partitions / sum(shares))


def read_salted_keys(sentence: str, keys: dict[str, bytes]) -> dict[bytes, list[bytes]]:
    """The keys of a sentence and what they are to be split into; `keys` are by the start of their hash."""
    found = re.findall(r"key ([0-9a-f]{12}) into (\d+)(?: salts)? \(([^)]*)\)", sentence)
    split = {}
    for digest, count, suffixes in found:
        runs = re.findall(r"#(\d+)(?: to #(\d+))?", suffixes)
        numbers = [number for low, high in runs for number in range(int(low), int(high or low) + 1)]
        split[keys[digest]] = [keys[digest] + b"#%d" % number for number in numbers]
        assert len({*split[keys[digest]]}) == int(count)
    return split


def carried_out(
    topic: SimulatedTopic,
    split: dict[bytes, list[bytes]],
    partitions: int,
    by: str = "murmur2",
    measure: str = "records",
) -> float:
    """The ratio when the same records are produced again, those of the split keys with a suffix in turn."""
    sizes = topic.all_sizes if measure == "bytes" else None
    records = np.bincount(topic.all_codes, sizes, minlength=len(topic.keys))
    keys: list[bytes] = []
    shares: list[float] = []
    for key, count in zip(topic.keys, records.tolist(), strict=True):
        into = split.get(key, [key])
        keys += into
        shares += [count / len(into)] * len(into)
    return ratio_of(keys, shares, partitions, by)


def spread_in_turn(topic: SimulatedTopic, key: bytes, partitions: list[int]) -> SimulatedTopic:
    """The same records, those of one key put on some partitions in turn, by a partitioner of one's own."""
    codes = topic.all_codes
    at = hash_keys("murmur2", topic.keys)[codes] % topic.partitions
    own = np.flatnonzero(codes == topic.keys.index(key))
    at[own] = np.array(partitions)[np.arange(len(own)) % len(partitions)]
    return place_records(at, codes, topic.keys, topic.partitions, sizes=topic.all_sizes)


def read_promise(sentence: str) -> float:
    return float(re.findall(r"then has ([0-9.]+) times the mean", sentence)[0])


def digests(topic: SimulatedTopic) -> dict[str, bytes]:
    return {hashlib.sha256(key).hexdigest()[:12]: key for key in topic.keys}


@pytest.mark.parametrize(
    ("make", "limits"),
    [
        (lambda: uniform(MANY, KEYS, 12, hot=0.3), SkewLimits()),
        (lambda: uniform(MANY, KEYS, 12, hot=0.3), SkewLimits(max_partition_ratio=2.0)),
        (lambda: uniform(MANY, KEYS, 24, hot=0.15), SkewLimits(1.6, max_key_share=0.02)),
        (lambda: uniform(MANY, KEYS, 6, hot=0.5), SkewLimits(max_partition_ratio=1.8)),
        (lambda: zipf(MANY, KEYS, s=1.0), SkewLimits()),
        (lambda: zipf(MANY, KEYS, s=1.3), SkewLimits(max_partition_ratio=2.5)),
        (lambda: uniform(MANY, KEYS, before=6, hot=0.25), SkewLimits()),
    ],
)
def test_advised_salts_give_promised_ratio(make: Callable[[], SimulatedTopic], limits: SkewLimits) -> None:
    topic = make()
    sentence = find_advice(analyse_topic(topic, limits=limits), "split key")
    split = read_salted_keys(sentence, digests(topic))
    promised = read_promise(sentence)
    assert carried_out(topic, split, topic.partitions) == pytest.approx(promised, abs=0.01)
    assert promised <= (limits.max_partition_ratio or REACHABLE_RATIO)
    assert sum(map(len, split.values())) <= MAX_SALTS
    for key, into in split.items():
        assert topic.share(topic.keys.index(key)) / len(into) <= (limits.max_key_share or 1.0)


def hot_by_records_and_bytes(share: float, byte_share: float) -> SimulatedTopic:
    """One key has a share of the records, and another one of the bytes."""
    random = np.random.default_rng(0)
    codes = random.integers(2, KEYS, 48_000)
    at_random = random.random(len(codes))
    codes[at_random < share] = 0
    codes[at_random > 0.985] = 1
    remaining = 200 * np.count_nonzero(codes != 1)
    size = byte_share / (1 - byte_share) * remaining / np.count_nonzero(codes == 1)
    return build_topic(codes, name_keys(KEYS), 12, sizes=np.where(codes == 1, round(size), 200))


@pytest.mark.parametrize(("share", "byte_share"), [(0.15, 0.39), (0.3, 0.2), (0.1, 0.6)])
@pytest.mark.parametrize("records", [FULL, 8_000])
def test_keys_hot_by_records_and_bytes_are_both_split(share: float, byte_share: float, records: int) -> None:
    topic = hot_by_records_and_bytes(share, byte_share)
    result = analyse_topic(topic, records)
    named_keys = {key.key_hash for cause in result.causes if isinstance(cause.facts, HotKeysFacts)
                  for key in cause.facts.keys}  # fmt: skip
    assert {name for name, key in digests(topic).items() if key in topic.keys[:2]} <= named_keys
    sentence = find_advice(result, "split key")
    assert "by records and bytes" in sentence
    split = read_salted_keys(sentence, digests(topic))
    assert {*split} == {*topic.keys[:2]}
    promised = [float(ratio) for ratio in re.findall(r"([0-9.]+) times the mean", sentence)]
    promised += re.findall(r"and ([0-9.]+) by bytes", sentence)
    for measure, ratio in zip(("records", "bytes"), map(float, [promised[0], promised[-1]]), strict=True):
        came_out = carried_out(topic, split, 12, measure=measure)
        # Of a sixth of the records, the promise is as exact as the shares are.
        assert came_out == pytest.approx(ratio, abs=0.01 if records == FULL else 0.15), measure
        assert came_out < 1.6


@pytest.mark.parametrize(
    "encode",
    [
        lambda number: number.to_bytes(8, "big"),
        lambda number: b"\0\0\0\0\x07" + bytes([2 * len(str(number))]) + str(number).encode(),
        lambda number: b'{"id":%d}' % number,
        lambda number: hashlib.sha256(b"%d" % number).digest()[:8],
    ],
    ids=["long", "Avro", "JSON", "any 8 bytes"],
)
@pytest.mark.parametrize("records", [FULL, 8_000])
def test_key_without_suffix_is_on_advised_partitions(encode: Callable[[int], bytes], records: int) -> None:
    keys = tuple(map(encode, range(KEYS)))
    codes = np.random.default_rng(0).integers(0, KEYS, 48_000)
    codes[np.random.default_rng(1).random(len(codes)) < 0.3] = 0
    topic = build_topic(codes, keys, 12)
    result = analyse_topic(topic, records=records)
    assert "#" not in " ".join(result.advice)
    sentence = find_advice(result, "over partitions")
    partitions = [*map(int, re.findall(r"\d+", sentence.split("over partitions ")[1].split(":")[0]))]
    promised = read_promise(sentence)
    came_out = spread_in_turn(topic, keys[0], partitions)
    assert topic.ratio() > 4
    assert came_out.ratio() == pytest.approx(promised, abs=0.01 if records == FULL else 0.1)


def place_hot_keys(by: str, counts: dict[float, int], hot: list[int], seed: int = 0) -> SimulatedTopic:
    """A partitioner places keys, of which some have 12 % each; partition counts by the part of the log."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, KEYS, 200_000)
    for number, code in enumerate(hot):
        codes[(random.random(len(codes)) < 0.12 / (1 - 0.12 * number))] = code
    return grow_topic(by, codes, name_keys(KEYS), counts)


def placed_alike(by: str, partitions: int) -> list[int]:
    """Three keys that murmur2 puts where another partitioner does: they do not say who placed them."""
    alike = hash_keys(by, name_keys(KEYS)) % partitions == hash_keys("murmur2", name_keys(KEYS)) % partitions
    return [int(code) for code in np.flatnonzero(alike)[:3]]


@pytest.mark.parametrize("by", EACH_PARTITIONER[1:])
@pytest.mark.parametrize(
    "counts", [{1.0: 12}, {0.97: 6, 1.0: 13}, {0.97: 9, 1.0: 40}, {0.3: 3, 0.6: 6, 1.0: 12}], ids=str
)
def test_salts_are_chosen_by_effective_partitioner(by: str, counts: dict[float, int]) -> None:
    partitions = [*counts.values()][-1]
    hot = placed_alike(by, partitions)
    topic = place_hot_keys(by, counts, hot)
    result = analyse_topic(topic)
    assert result.what_if_withheld is None
    sentence = find_advice(result, "split ")
    split = read_salted_keys(sentence, digests(topic))
    promised = read_promise(sentence)
    assert carried_out(topic, split, partitions, by) == pytest.approx(promised, abs=0.01)
    assert promised <= 1.5 < carried_out(topic, {}, partitions, by)
    for case in result.what_if:
        assert case.max_mean_ratio.value == pytest.approx(
            carried_out(topic, {}, case.partitions, by), rel=1e-6
        )


def test_unexplained_producers_are_named_in_advice() -> None:
    shares = {"murmur2": 0.5, "crc32": 0.085, "fnv1a": 0.084, "other": 0.42}
    ignoring = replace(scene("mixed partitioners"), partitioners=shares)
    assert "partitioner.ignore.keys" in advise(ignoring, SkewLimits(), NO_KEYS)[0]


def test_partition_count_lowering_ratio_is_advised_with_moved_keys() -> None:
    result = analyse_topic(uniform(MANY, 40, 9))
    now = result.by_records.max_mean_ratio.value
    better = WhatIf(18, Estimate(1.2, 1.1, 1.3), Estimate.exact(1.2), 0.5, Estimate.exact(0.52))
    worse = replace(better, partitions=36, max_mean_ratio=Estimate(1.6, 1.5, 1.7))
    limits = SkewLimits()
    (sentence,) = (
        item
        for item in advise(replace(result, what_if=(better, worse)), limits, NO_KEYS)
        if "counts tried" in item
    )
    assert f": 1.2 (1.1 to 1.3) instead of {figures.ratio(now)}; 50 % of the keys " in sentence
    assert sentence.startswith("Of the counts tried, 18 partitions")
    unsure = replace(better, max_mean_ratio=Estimate(1.2, 1.1, now + 0.1))
    fewer = replace(better, partitions=6)
    for what_if in ((unsure,), (fewer,), (replace(better, max_mean_ratio=Estimate.exact(now - 0.05)),)):
        assert not [
            item for item in advise(replace(result, what_if=what_if), limits, NO_KEYS) if "counts" in item
        ]


@pytest.mark.parametrize(("part", "times"), [(0.05, 20.0), (0.01, 100.0)])
def test_key_hot_at_end_of_log_has_current_peak(part: float, times: float) -> None:
    random = np.random.default_rng(1)
    codes = random.integers(1, KEYS, MANY)
    codes[round(MANY * (1 - part)) :] = 0
    topic = build_topic(codes, name_keys(KEYS), 12)
    (digest,) = (name for name, key in digests(topic).items() if key == b"customer-0")

    def peak(result: TopicResult) -> float:
        return next(key.peak for key in result.hot_keys if key.key_hash == digest)

    result = analyse_topic(topic)
    assert result.diagnosis == "bursty"
    assert peak(result) == pytest.approx(times, rel=0.02)
    facts = result.causes[0].facts
    assert isinstance(facts, BurstFacts)
    assert (facts.key_hash, facts.key_peak, facts.ongoing) == (digest, peak(result), True)
    assert find_advice(result, f"Check what writes key {digest} now")
    # Of a tenth of the records the peak is seen less sharply, but never as more than it is.
    assert 0.2 * times < peak(analyse_topic(topic, records=MANY // 10)) <= 1.1 * times


HOUR = 3_600_000
HISTORIES = {
    "began 12 of 24 hours ago": (lambda at: np.where(at < 12, 0.0, 0.3), 24, 12, None),
    "began 2 of 24 hours ago": (lambda at: np.where(at < 22, 0.0, 0.5), 24, 22, None),
    "three times as much since 12 hours": (lambda at: np.where(at < 12, 0.1, 0.3), 24, 12, None),
    "ended 24 of 48 hours ago": (lambda at: np.where(at < 24, 0.3, 0.0), 48, None, 24),
    "ended 19 of 24 hours ago": (lambda at: np.where(at < 5, 0.4, 0.0), 24, None, 5),
    "was there for four hours": (lambda at: np.where((at < 10) | (at >= 14), 0.0, 0.5), 24, 10, 14),
}
"""The share of a key by the hour, all hours, and the hours at which it began and ended to be hot."""


@pytest.mark.parametrize(("records", "seed"), [(FULL, 0), (8_000, 1), (8_000, 2)])
@pytest.mark.parametrize("name", HISTORIES)
def test_advice_is_about_current_records(name: str, records: int, seed: int) -> None:
    share, hours, began, ended = HISTORIES[name]
    topic = hot_over_time(share, hours, seed=seed)
    log = LogFacts(count_between=counted_by_offsets(topic))
    result = analyse_topic(topic, records, seed, log=log)
    cause = next(cause for cause in result.causes if cause.name == "hot_keys")
    for hour, found in ((began, cause.since_ms), (ended, cause.until_ms)):
        assert (hour is None) == (found is None)
        assert hour is None or found == pytest.approx(START_MS + hour * HOUR, abs=HOUR * hours / 15)
    splits = [sentence for sentence in result.advice if "split key" in sentence]
    if ended is not None:
        assert not splits
        assert "More partitions" not in " ".join(result.advice)
        return
    (sentence,) = splits
    promised = read_promise(sentence)
    again = select_since(topic, START_MS + int(began or 0) * HOUR)
    assert carried_out(again, read_salted_keys(sentence, digests(topic)), 12) == pytest.approx(
        promised, rel=0.07
    )
