"""Tests of the wording of figures in a skew report."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.values import replace
from kafkaform.report.skew_values import (
    cause,
    describe_spread,
    is_notable,
    notable_keys,
    severity,
    size,
    summary,
    verdict,
)
from spark_validation.figures import NOTHING, count, format_estimate, interval, percent, ratio
from spark_validation.results import Estimate
from tests.support.skew import samples


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.3, "30 %"),
        (1 / 12, "8.33 %"),
        (0.00833, "0.833 %"),
        (0.0001234, "0.0123 %"),
        (1e-9, "< 0.0001 %"),
        (0.99999, "> 99.9 %"),
    ],
)
def test_share_has_three_digits(value: float, shown: str) -> None:
    assert percent(value) == shown


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_partial_share_is_not_printed_as_none_or_all(value: float) -> None:
    shown = percent(value)
    assert 0 < float(shown.removesuffix(" %").lstrip("<> ")) < 100
    assert re.fullmatch(r"[<>]? ?[0-9]+(\.[0-9]*[1-9])? %", shown)


@given(st.floats(0.001, 1), st.sampled_from([0.05, 0.3, 0.333]))
def test_figure_near_limit_differs_from_limit(value: float, limit: float) -> None:
    for form in (percent, ratio):
        assert (form(value, limit) == form(limit)) == (abs(value - limit) < 1e-12)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1, "1"),
        (3.896, "3.9"),
        (12.44, "12.4"),
        (1204.4, "1,204"),
        (0.05, "0.05"),
        (1e-5, "< 0.001"),
    ],
)
def test_ratio_has_significant_digits(value: float, shown: str) -> None:
    assert ratio(value) == shown


@pytest.mark.parametrize("words", [percent, ratio, count, size])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinity_are_printed_as_unknown(words: object, value: float) -> None:
    assert callable(words)
    assert words(value) == NOTHING


def test_interval_has_unit_once_and_only_if_it_is_wide() -> None:
    assert interval(Estimate(0.0833, 0.0812, 0.0857), percent) == "8.12 to 8.57 %"
    assert format_estimate(Estimate(3.9, 3.71, 4.09), ratio) == "3.9 (3.71 to 4.09)"
    assert format_estimate(Estimate(200_000, 196_000, 206_000), count) == "200,000 (196,000 to 206,000)"
    assert interval(Estimate(1e-7, 1e-9, 0.001), percent) == "< 0.0001 % to 0.1 %"
    assert interval(Estimate(0.5, 0.49999, 0.50001), percent) == "50 %"
    assert format_estimate(Estimate(10, 9.9, 10.1), count) == "10"
    assert interval(Estimate.exact(0.5), percent) == ""
    assert format_estimate(Estimate.exact(0.5), percent) == "50 %"


def test_unknown_diagnosis_is_printed_by_name() -> None:
    assert cause("slow_disks\x1b") == r"slow disks\x1b"
    made = samples.build_balanced()
    assert describe_spread(replace(made, diagnosis="slow_disks")) == describe_spread(made)


def test_only_notable_keys_are_listed() -> None:
    made = samples.hot()
    assert len(notable_keys(made, 10)) == 5
    assert len(notable_keys(samples.build_balanced(), 10)) == 2
    assert len(notable_keys(replace(made, hot_keys=made.hot_keys[9:]), 10)) == 3
    equal = replace(made, hot_keys=tuple(samples.key(f"k{number}", 0.02) for number in range(14)))
    assert notable_keys(equal, 10) == equal.hot_keys[:10]
    heavy = replace(made.hot_keys[5], byte_share=made.hot_keys[0].share)
    assert is_notable(made, heavy)


def test_topics_are_summarized_and_sorted_by_severity() -> None:
    topics = samples.everything()
    assert summary((samples.hot(), samples.large(), samples.empty())) == "3 topics: hot keys (2), empty (1)"
    assert summary((samples.hot(),)) == "1 topic: hot keys"
    assert summary(()) == "0 topics"
    assert [verdict(topic) for topic in sorted(topics, key=severity)] == [
        "fail",
        "warn",
        *["none"] * 7,
        "pass",
    ]
    assert next(topic.name for topic in sorted(topics[:3], key=severity)) == "events.v1"
