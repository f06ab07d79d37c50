"""How figures of a skew report are worded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.report.skew_values import (
    NOTHING,
    cause,
    count,
    estimated,
    headline,
    interval,
    is_bursty,
    is_notable,
    moment,
    notable_keys,
    numbers,
    ratio,
    sampled,
    severity,
    share,
    size,
    summary,
    verdict,
)
from spark_validation.results import Estimate
from tests.support import skew_samples as samples


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.3, "30.0 %"),
        (1 / 12, "8.33 %"),
        (0.00833, "0.833 %"),
        (0.0001234, "0.0123 %"),
        (1e-9, "< 0.0001 %"),
        (0.99999, "> 99.9 %"),
    ],
)
def test_a_share_has_three_digits(value: float, shown: str) -> None:
    assert share(value) == shown


@given(st.floats(0, 1, exclude_min=True, exclude_max=True), st.none() | st.integers(0, 4))
def test_a_share_between_is_never_shown_as_none_or_all(value: float, decimals: int | None) -> None:
    shown = share(value, decimals)
    number = float(shown.removesuffix(" %").lstrip("<> "))
    assert 0 < number < 100 or shown in ("< 1 %", "> 99 %")
    assert re.fullmatch(r"[<>]? ?[0-9]+(\.[0-9]+)? %", shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.00"),
        (1, "1.00"),
        (3.896, "3.90"),
        (12.44, "12.4"),
        (1204.4, "1,204"),
        (0.05, "0.050"),
        (1e-5, "< 0.001"),
    ],
)
def test_a_ratio_has_as_many_digits_as_matter(value: float, shown: str) -> None:
    assert ratio(value) == shown


@pytest.mark.parametrize("words", [share, ratio, count, size])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_shown_as_unknown(words: object, value: float) -> None:
    assert callable(words)
    assert words(value) == NOTHING


def test_bytes() -> None:
    assert [size(None), size(0), size(512), size(1_395_864_371)] == ["-", "0 B", "512 B", "1.3 GiB"]


def test_an_interval_says_its_unit_once() -> None:
    assert interval(Estimate(0.0833, 0.0812, 0.0857), share) == "8.12 to 8.57 %"
    assert estimated(Estimate(3.9, 3.71, 4.09), ratio) == "3.90 (3.71 to 4.09)"
    assert estimated(Estimate(200_000, 196_000, 206_000), count) == "200,000 (196,000 to 206,000)"
    assert interval(Estimate(1e-7, 1e-9, 0.001), share) == "< 0.0001 % to 0.100 %"


def test_what_was_counted_has_no_interval() -> None:
    assert interval(Estimate.exact(0.5), share) == ""
    assert estimated(Estimate.exact(0.5), share) == "50.0 %"


def test_an_interval_too_narrow_to_see_is_one_number() -> None:
    assert estimated(Estimate(10, 9.9, 10.1), count) == "10"
    assert interval(Estimate(0.5, 0.49999, 0.50001), share) == "50.0 %"


def test_partition_numbers_keep_their_order() -> None:
    assert numbers(()) == "-"
    assert numbers((4, 1, 9)) == "4, 1, 9"
    assert numbers(range(8)) == "0, 1, 2, 3, 4, 5 and 2 more"


def test_times_are_in_utc() -> None:
    assert moment(1_700_000_000_000) == "2023-11-14 22:13 UTC"
    assert moment("2026-11-01T01:30:00+02:00") == "2026-10-31 23:30 UTC"
    assert moment("yesterday\x1b") == r"yesterday\x1b"
    assert moment(10**30) == "1" + "0" * 30


def test_each_diagnosis_has_its_sentence() -> None:
    seen = {one.diagnosis: headline(one) for one in samples.everything()}
    assert seen == {
        "empty": "There are no records to measure.",
        "null_keys": "Records are spread evenly: the fullest of 12 partitions has 1.06 times the mean. "
        "33.4 % of the records have no key.",
        "hot_keys": "Records are spread unevenly: the fullest of 12 partitions has 4.30 times the mean. "
        "The hottest key has 30.0 % of the records.",
        "bursty": "Records are spread unevenly: the fullest of 12 partitions has 1.52 times the mean. "
        "The hottest key has 5.00 % of the records, in bursts of up to 4.80 times that.",
        "repartitioned": "Records are spread unevenly: the fullest of 12 partitions has 1.50 times the mean. "
        "Keys are on several partitions since some were added, so order per key is broken.",
        "balanced": "Records are spread evenly: the fullest of 4 partitions has 1.14 times the mean.",
        "few_keys": "Records are spread unevenly: the fullest of 12 partitions has 2.40 times the mean. "
        "10 distinct keys cannot fill 12 partitions evenly.",
        "mixed_partitioners": "Records are spread evenly: the fullest of 12 partitions has 1.00 times the "
        "mean. The same keys are on different partitions, so order per key is broken.",
    }


def test_keys_that_stay_on_one_partition_each_are_not_said_to_be_on_several() -> None:
    apart = replace(samples.mixed(), partitions=samples.balanced().partitions, hot_keys=())
    own = replace(apart, partitioners={"murmur2": 0.08, "crc32": 0.08, "fnv1a": 0.08, "other": 0.77})
    assert headline(apart).endswith(
        " Producers choose partitions in different ways, and each key stays on one."
    )
    assert headline(own).endswith(" Producers choose partitions themselves, and each key stays on one.")
    once = tuple(replace(one, sampled_records=one.distinct_keys, null_records=0) for one in apart.partitions)
    assert headline(replace(apart, partitions=once)).endswith(
        " Producers choose partitions in different ways, which breaks order per key."
    )


def test_a_skew_by_bytes_is_in_the_headline() -> None:
    heavy = replace(samples.balanced(), by_bytes=samples.imbalance([5 / 8, 1 / 8, 1 / 8, 1 / 8]))
    assert headline(heavy).endswith("has 1.02 times the mean by records, 2.50 by bytes.")


def test_a_diagnosis_of_a_later_version_is_shown_by_its_name() -> None:
    assert cause("slow_disks\x1b") == r"slow disks\x1b"
    assert headline(replace(samples.balanced(), diagnosis="slow_disks")) == headline(samples.balanced())


def test_hot_keys_without_a_key_are_not_an_error() -> None:
    for name in ("hot_keys", "bursty"):
        said = headline(replace(samples.balanced(), diagnosis=name, hot_keys=()))
        assert re.search(
            r"times the mean\. (Keys are of uneven size|Records of some keys come in bursts)\.$", said
        )


def test_what_was_read() -> None:
    sample = samples.hot().sample
    assert sampled(sample) == (
        "1,000,000 of 30,000,000 records in 120 windows, seed 7, shares to within 0.72 percentage points"
    )
    compacted = replace(sample, records=800_000, precision=0.01)
    assert sampled(compacted) == (
        "800,000 records from 1,000,000 of 30,000,000 offsets in 120 windows, seed 7, "
        "shares to within 0.72 percentage points (requested 1)"
    )
    assert sampled(samples.compacted().sample) == "all records: 4,000,000"
    assert sampled(replace(sample, mode="file", records=1, achieved=None)) == "1 record from files"


def test_keys_too_small_to_matter_are_not_shown_beyond_a_few() -> None:
    made = samples.hot()
    assert len(notable_keys(made, 10)) == 5
    assert len(notable_keys(samples.balanced(), 10)) == 2
    assert len(notable_keys(replace(made, hot_keys=made.hot_keys[9:]), 10)) == 3
    equal = replace(made, hot_keys=tuple(samples.key(f"k{number}", 0.02) for number in range(14)))
    assert notable_keys(equal, 10) == equal.hot_keys[:10]
    heavy = replace(made.hot_keys[5], byte_share=made.hot_keys[0].share)
    assert is_notable(made, heavy)


def test_a_peak_of_a_rare_key_is_chance() -> None:
    made = samples.bursty()
    assert is_bursty(made, made.hot_keys[0])
    assert not is_bursty(made, samples.key("rare", 0.0001, peak=4.0))
    assert not is_bursty(made, samples.key("steady", 0.1))


def test_verdicts_are_summed_up_the_worst_first() -> None:
    topics = samples.everything()
    assert summary(topics) == (
        "10 topics: 1 breaks its policy, 1 may break its policy, 7 without a policy, 1 meets its policy"
    )
    assert summary((samples.hot(), samples.large(), samples.empty())) == "3 topics: hot keys (2), empty (1)"
    assert summary((samples.hot(),)) == "1 topic: hot keys"
    assert summary(()) == "0 topics"
    assert [verdict(one) for one in sorted(topics, key=severity)] == ["fail", "warn", *["none"] * 7, "pass"]
    assert next(one.name for one in sorted(topics[:3], key=severity)) == "events.v1"
