"""Skew reports on a terminal and on GitHub: the wording of figures, what is said, and what fits."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kafkaform.core.values import replace
from kafkaform.report.page import Page
from kafkaform.report.skew import render_skew, render_skew_markdown
from kafkaform.report.skew_values import is_notable, moment, size
from spark_validation.figures import NOTHING, count, format_estimate, interval, percent, ratio
from spark_validation.results import Estimate, SkewReport, TopicResult
from tests.support.skew import samples


@pytest.mark.parametrize("render", [render_skew_markdown, partial(render_skew, width=None)])
def test_keys_are_printed_only_if_in_report(render: Callable[[SkewReport], str | Page]) -> None:
    def show(topic: TopicResult) -> str:
        made = render(samples.report(topic))
        return made if isinstance(made, str) else made.plain

    hidden = replace(samples.hot(), hot_keys=(samples.key("tenant-0", 0.3, [4]),))
    known = replace(hidden, hot_keys=(samples.key("tenant-0", 0.3, [4], shown=True),))
    empty = replace(hidden, hot_keys=(samples.key("", 0.2, [4]),))
    assert [("tenant-0" in show(item), "--show-keys" in show(item)) for item in (hidden, known, empty)] == [
        (False, True),
        (True, False),
        (False, False),
    ]
    assert "(empty key)" in show(empty)
    assert "e3b0c442" not in show(empty)


@pytest.mark.parametrize("width", [*range(80, 90), 100, 120])
def test_lines_fit_terminal_and_keep_percent_signs(width: int) -> None:
    topics = [*samples.everything(), samples.topic("one.v1", [1], population=5, read=5, keys=1)]
    for line in render_skew(samples.report(*topics), width=width).plain.split("\n"):
        assert cell_len(line) <= width, line
        assert not line.strip().startswith("%"), line


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


def test_times_are_in_utc() -> None:
    assert moment(1_700_000_000_000) == "2023-11-14 22:13 UTC"
    assert moment("2026-11-01T01:30:00+02:00") == "2026-10-31 23:30 UTC"
    assert moment("yesterday\x1b") == r"yesterday\x1b"
    assert moment(10**30) == "1" + "0" * 30


def test_key_is_notable_by_records_or_by_bytes() -> None:
    made = samples.hot()
    assert is_notable(made, replace(made.hot_keys[5], byte_share=made.hot_keys[0].share))
