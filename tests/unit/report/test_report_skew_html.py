"""Skew reports as an HTML page: what it shows, what it needs, and what foreign text cannot do."""

import base64
import hashlib
import re
from collections.abc import Iterable

import pytest

from kafkaform.core.values import replace
from kafkaform.report.html import LIMIT
from kafkaform.report.skew import render_skew_html
from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import Estimate, SkewReport, TopicResult
from tests.support.browser import contrast
from tests.support.html import ATTRIBUTES, TAGS, Element, parse_html
from tests.support.skew import samples


def past(*shares: float) -> list[SkewReport]:
    """Earlier reports of payments.v1, a day apart, with these shares of the hottest key."""
    made = []
    for day, share in enumerate(shares, 1):
        topic = samples.hot()
        topic = replace(topic, hot_keys=(replace(topic.hot_keys[0], share=Estimate.exact(share)),))
        made.append(samples.report(topic, created_at=f"2026-10-{day:02}T00:00:00Z"))
    return made


def rows(history: Iterable[SkewReport]) -> list[MetricRow]:
    return [row for report in history for row in metric_rows(report)]


SCENES: dict[str, tuple[SkewReport, list[MetricRow]]] = {
    "one": (samples.report(samples.failing(samples.hot())), []),
    "one with its past": (samples.report(samples.hot()), rows(past(0.1, 0.2))),
    "all": (samples.report(*samples.everything()), []),
    "hostile": (samples.report(samples.hostile()), []),
    "empty": (samples.report(samples.empty()), []),
    "none": (samples.report(), []),
}


@pytest.fixture(params=SCENES)
def html(request: pytest.FixtureRequest) -> str:
    return render_skew_html(*SCENES[request.param])


def sections(page: Element) -> dict[str, Element]:
    """Each part that has a title, by it."""
    return {item.all("h2")[0].text: item for item in page.all("section") if item.all("h2")}


def render_topic(topic: TopicResult, *history: SkewReport) -> Element:
    return sections(parse_html(render_skew_html(samples.report(topic), rows(history))))[topic.name]


def chart(section: Element, title: str) -> Element:
    (found,) = [item for item in section.all("figure") if item.all("b")[0].text.startswith(title)]
    return found


# --- the page ----------------------------------------------------------------------------------------


def test_page_has_only_known_elements_and_attributes(html: str) -> None:
    page = parse_html(html)
    assert html.startswith("<!DOCTYPE html>\n")
    every = page.all(*TAGS, "script", "img", "link", "iframe", "object", "form")
    assert {item.tag for item in every} <= TAGS
    assert {name for item in every for name in item.attributes} <= ATTRIBUTES
    assert len(re.findall(r"<[a-z]", html)) == len(every)


def test_page_has_no_external_references(html: str) -> None:
    page = parse_html(html)
    for item in page.all("a"):
        assert item.attributes["href"].startswith("#")
    (style,) = page.all("style")
    assert not re.search(r"url\(|@import|https?:|//", style.text)
    for item in page.all(*TAGS):
        for name, value in item.attributes.items():
            # What a picture shows in words is text and may hold anything.
            assert name == "aria-label" or not re.search(r"\w:|//|url\(", value.replace(samples.CREATED, ""))


def test_content_policy_allows_own_style_only(html: str) -> None:
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [item for item in parse_html(html).all("meta") if "http-equiv" in item.attributes]
    assert policy.attributes == {
        "http-equiv": "Content-Security-Policy",
        "content": f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    }
    assert html.index("Content-Security-Policy") < html.index("<style>")


def test_headings_are_ordered_and_links_resolve(html: str) -> None:
    page = parse_html(html)
    assert [item.attributes["lang"] for item in page.all("html")] == ["en"]
    assert [item.tag for item in page.all("h1", "h2")][:1] == ["h1"]
    assert len(page.all("h1")) == 1
    ids = [item.attributes["id"] for item in page.all(*TAGS) if "id" in item.attributes]
    assert len(set(ids)) == len(ids)
    assert {item.attributes["href"][1:] for item in page.all("a")} <= {*ids}


def test_pictures_have_labels_or_are_hidden(html: str) -> None:
    page = parse_html(html)
    pictures = [item for figure in page.all("figure", "td") for item in figure.all("svg")]
    outer = [picture for picture in pictures if "viewbox" not in picture.attributes]
    for entry in outer:
        # The share of a bar is in its row.
        assert entry.attributes.get("aria-label") or entry.attributes["aria-hidden"] == "true"
    for table in page.all("table"):
        assert all(item.attributes["scope"] in {"col", "row"} for item in table.all("th"))
        (head,) = table.all("thead")
        for row in table.all("tbody")[0].all("tr"):
            assert len(row.all("th", "td")) == len(head.all("th"))


# --- the trend ---------------------------------------------------------------------------------------


def test_earlier_measurements_are_drawn_oldest_first() -> None:
    section = render_topic(samples.hot(), *reversed(past(0.1, 0.2, 0.15)))
    figure = chart(section, "Hottest key's")
    dots = figure.all("circle")
    assert [dot.text for dot in dots] == [
        "2026-10-01 00:00 UTC: 10 %", "2026-10-02 00:00 UTC: 20 %", "2026-10-03 00:00 UTC: 15 %",
        "2026-11-01 06:30 UTC: 30 %",
    ]  # fmt: skip
    places = [float(dot.attributes["cx"].rstrip("%")) for dot in dots]
    # A month lies between the third and the last, and a day between the others.
    assert places == pytest.approx([0, 100 / 31.27, 200 / 31.27, 100], abs=0.1)
    heights = [100 - float(dot.attributes["cy"].rstrip("%")) for dot in dots]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 2, 1.5, 3], rel=0.01)


def test_long_history_keeps_worst_of_each_period() -> None:
    history = []
    for day in range(300):
        topic = samples.build_balanced("payments.v1") if day != 137 else samples.few("payments.v1")
        stamp = f"2025-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00Z"
        history.append(samples.report(topic, created_at=stamp))
    section = render_topic(samples.build_balanced("payments.v1"), *history)
    figure = chart(section, "Fullest / mean")
    (line,) = [item for item in figure.all("path") if item.attributes["class"] == "line"]
    numbers = [float(item) for item in re.findall(r"[\d.]+", line.attributes["d"])]
    assert 40 <= len(numbers) / 2 <= 60
    # 2.4 of the axis' 3, once; nearly 1 everywhere else.
    assert sum(1 for y in numbers[1::2] if y < 300) == 1
    assert "of 301, only the most skewed of each period" in section.text


# --- what is foreign ---------------------------------------------------------------------------------


# --- how much ----------------------------------------------------------------------------------------


def test_many_partitions_are_drawn_in_groups_with_note() -> None:
    html = render_skew_html(samples.report(samples.large(partitions=1000)))
    assert len(html.encode()) < 200_000
    (section,) = parse_html(html).all("section")
    figure = chart(section, "By records")
    assert " up to 17 neighbouring partitions" in figure.text
    bars = figure.all("rect")
    assert len(bars) == 2 * 59
    (hot,) = [bar for bar in bars if bar.attributes["class"] == "hot peak"]
    assert hot.text.startswith("partitions 68-84: fullest ")
    assert "101 rows by partition" in section.text


@pytest.mark.nightly("pages of 1,500 topics")
def test_topics_beyond_limit_are_omitted_and_counted() -> None:
    topics = [replace(samples.failing(samples.hot()), name=f"topic-{number:04}") for number in range(1500)]
    html = render_skew_html(samples.report(*topics))
    assert len(html) < LIMIT
    page = parse_html(html)
    found = len(sections(page)) - 1
    assert 10 < found < 200
    assert len(page.all("table")[0].all("tr")) == 1501
    assert f"… details of {1500 - found:,} more topics left out" in page.text


# --- colours -----------------------------------------------------------------------------------------


def palettes() -> dict[str, dict[str, tuple[int, int, int]]]:
    """The colours of both schemes and of paper, by name."""
    (style,) = parse_html(render_skew_html(samples.report())).all("style")
    found = [
        {
            name: (int(code[:2], 16), int(code[2:4], 16), int(code[4:], 16))
            for name, code in re.findall(r"--([\w-]+): #([0-9a-f]{6})", block)
        }
        for block in re.findall(r":root \{(.*?)\}", style.text)
    ]
    return dict(zip(("light", "dark", "paper"), found, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark", "paper"])
def test_contrasts_meet_wcag_aa(scheme: str) -> None:
    colours = palettes()[scheme]
    for ground in ("card", "bg"):
        for text in ("ink", "dim", "link"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for verdict in ("pass", "warn", "fail", "none"):
        assert contrast(colours[verdict], colours[f"{verdict}-bg"]) >= 4.5, verdict
    for mark in ("bar", "hot", "ink", "dim"):
        assert contrast(colours[mark], colours["card"]) >= 3.0, mark
