"""Skew reports on a terminal and on GitHub: what is said, what fits, and what foreign text cannot do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from kafkaform.core.values import replace
from kafkaform.report.page import Page
from kafkaform.report.skew import render_skew, render_skew_markdown
from spark_validation.results import SkewFinding, SkewReport, TopicResult
from tests.support.skew import samples


def render_topics(*topics: TopicResult, width: int = 80) -> Page:
    return render_skew(samples.report(*topics), width=width)


# --- what is said ----------------------------------------------------------------------------------


def test_advice_of_single_topic_is_not_repeated_as_hint() -> None:
    hint = "split the hottest key"
    topic = replace(
        samples.hot(),
        advice=("Split the hottest key.",),
        findings=(SkewFinding("KF501", "error", "uneven", hint),),
    )
    assert f"hint: {hint}" not in render_topics(topic).plain
    assert f"hint: {hint}" in render_topics(topic, replace(topic, name="other")).plain


def test_colour_follows_the_verdict() -> None:
    for made, style in (
        (samples.failing(samples.hot()), "bold red"),
        (samples.add_unknown_policy(samples.hot()), "bold yellow"),
        (samples.passing(samples.hot()), "bold green"),
        (samples.hot(), "bold"),
    ):
        text = render_topics(made).text
        place = text.plain.index("hot keys")
        assert [str(span.style) for span in text.spans if span.start == place] == [style]


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


# --- widths, room and hostile text -----------------------------------------------------------------
