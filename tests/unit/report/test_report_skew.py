"""Skew reports on a terminal, on GitHub and as a page: their figures, what fits, and what a page needs."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from difflib import unified_diff
from functools import partial
from html import escape, unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.report.html import LIMIT
from kafkaform.report.page import Page
from kafkaform.report.skew import render_skew, render_skew_html, render_skew_markdown
from kafkaform.report.skew_values import is_notable, moment, size
from spark_validation.figures import NOTHING, count, format_estimate, interval, percent, ratio
from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import Estimate, SkewReport, SkewVerdict, TopicResult, to_json
from tests.support.browser import browser, contrast, luminance, open_page
from tests.support.golden import format_value, hide_unstable, shorten_lists
from tests.support.html import ATTRIBUTES, TAGS, Element, parse_html
from tests.support.skew import samples
from tests.support.skew.analysis import scene
from tests.support.skew.samples import add_unknown_policy, failing, report

CREATED = "2023-11-14T23:30:00Z"
SCENES = {
    "balanced": ("balanced",),
    "hot_key": ("hot key",),
    "hot_by_bytes": ("hot by bytes",),
    "few_keys": ("few keys",),
    "null_keys": ("null keys on one partition",),
    "mixed_partitioners": ("mixed partitioners",),
    "repartitioned": ("repartitioned",),
    "bursty": ("bursty",),
    "too_little_data": ("too little data",),
    "empty": ("empty",),
    "keys_withheld": ("compacted, keys withheld",),
    "trimmed": ("only some records kept",),
    "policy": ("policy broken",),
    "unknown": ("a period not known", "bytes not known"),
    "own_partitioner": ("an own partitioner, many keys",),
}
"""The analyses of each report."""


def build(name: str) -> SkewReport:
    return report(*(scene(part) for part in SCENES[name]), created_at=CREATED)


def build_variants() -> list[tuple[TopicResult, TopicResult]]:
    """Return topics that no analysis above has, each with the one that it differs from."""
    hot, even = samples.hot(), samples.build_balanced()
    heavy = samples.imbalance([5 / 8, 1 / 8, 1 / 8, 1 / 8])
    changes: dict[str, tuple[TopicResult, dict[str, Any]]] = {
        "predictions differ": (hot, {"what_if": samples.what_if(12, 24, ratio=1.02)}),
        "no members": (hot, {"groups": (replace(hot.groups[0], members=(), max_mean_ratio=0.0),)}),
        "a reason alone": (hot, {"policy": SkewVerdict("warn", ("nobody can tell",))}),
        "files": (hot, {"sample": replace(hot.sample, mode="file", records=1, achieved=None)}),
        "sparse": (hot, {"sample": replace(hot.sample, records=800_000, precision=0.01)}),
        "heavy": (even, {"by_bytes": heavy, "causes": ()}),
    }
    return [(base, replace(base, name=name, **extra)) for name, (base, extra) in changes.items()]


def round_numbers(text: str) -> str:
    """Round to six digits: sums of floats differ in their last ones between processors."""
    return re.sub(r"\d+\.\d{6,}(e-?\d+)?", lambda match: f"{float(match[0]):.6g}", text)


@pytest.mark.parametrize("name", SCENES)
def test_skew_reports_match_golden(name: str, golden: SnapshotAssertion) -> None:
    made = build(name)
    assert render_skew(made, width=80).plain + "\n" == golden(name=f"{name}.txt")
    if name == "hot_key":  # the documents are the same in all formats
        assert render_skew_markdown(made) == golden(name=f"{name}.md")
    document = json.loads(round_numbers(to_json(made)))
    Draft202012Validator(load_schema("skew")).validate(document)
    kept = shorten_lists(document) if name == "trimmed" else [topic["causes"] for topic in document["topics"]]
    assert hide_unstable(format_value(kept) + "\n") == golden(name=f"{name}.json")


def test_overview_has_the_worst_topics_first(golden: SnapshotAssertion) -> None:
    """Return the lines above the topics, each of which is shown as in a report of its own."""
    hot, empty, own, balanced = map(scene, ("hot key", "empty", "an own partitioner, many keys", "balanced"))
    made = report(failing(hot), empty, own, add_unknown_policy(balanced), created_at=CREATED)
    text, markdown = render_skew(made, width=80).plain, render_skew_markdown(made)
    assert text.partition("\n\nhot-key: ")[0] + "\n" == golden(name="overview.txt")
    assert markdown.partition("\n\n<details>")[0] + "\n" == golden(name="overview.md")
    alone = render_skew(report(made.topics[1]), width=80).plain
    assert alone.partition("\n\n")[2] in text


def test_skew_variants_match_golden(golden: SnapshotAssertion) -> None:
    """The lines by which each of these topics differs from a usual one of its diagnosis."""
    differences = []
    for base, variant in build_variants():
        before, after = (render_skew(report(topic), width=None).plain for topic in (base, variant))
        lines = unified_diff(before.split("\n"), after.split("\n"), n=0, lineterm="")
        changed = [line for line in list(lines)[2:] if not line.startswith("@@")]
        differences += [f"## {variant.name}", *changed, ""]
    assert "\n".join(differences) == golden(name="variants.txt")


def test_report_from_files_without_topics_matches_golden(golden: SnapshotAssertion) -> None:
    made = replace(report(), cluster_id=None, cluster_name=None)
    assert render_skew(made, width=80).plain + "\n" == golden(name="no_topics.txt")
    assert render_skew_markdown(made) == golden(name="no_topics.md")
    assert "0 topics." in render_skew_html(made)


def test_page_with_earlier_rows_matches_golden(golden: SnapshotAssertion) -> None:
    made = build("hot_key")
    past = replace(made, created_at="2023-11-01T23:30:00Z")
    page = render_skew_html(made, metric_rows(past))
    page = re.sub(r"(?s)<style>.*?</style>", "<style></style>", page)
    page = re.sub(r"sha256-[\w+/=]*", "sha256-HASH", page)
    assert page == golden(name="hot_key.html")


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
    ("form", "figures"),
    [
        (percent, {0.0: "0 %", 1.0: "100 %", 0.3: "30 %", 1 / 12: "8.33 %", 0.00833: "0.833 %"}),
        (percent, {0.0001234: "0.0123 %", 1e-9: "< 0.0001 %", 0.99999: "> 99.9 %"}),
        (ratio, {0: "0", 3.896: "3.9", 12.44: "12.4", 1204.4: "1,204", 0.05: "0.05", 1e-5: "< 0.001"}),
    ],
)
def test_figures_have_significant_digits(form: Callable[[float], str], figures: dict[float, str]) -> None:
    assert {value: form(value) for value in figures} == figures


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_partial_share_is_not_printed_as_none_or_all(value: float) -> None:
    shown = percent(value)
    assert 0 < float(shown.removesuffix(" %").lstrip("<> ")) < 100
    assert re.fullmatch(r"[<>]? ?[0-9]+(\.[0-9]*[1-9])? %", shown)


@given(st.floats(0.001, 1), st.sampled_from([0.05, 0.3, 0.333]))
def test_figure_near_limit_differs_from_limit(value: float, limit: float) -> None:
    for form in (percent, ratio):
        assert (form(value, limit) == form(limit)) == (abs(value - limit) < 1e-12)


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


SHOWN: dict[str, tuple[SkewReport, list[MetricRow]]] = {
    "one": (samples.report(samples.failing(samples.hot())), []),
    "one with its past": (samples.report(samples.hot()), rows(past(0.1, 0.2))),
    "all": (samples.report(*samples.everything()), []),
    "hostile": (samples.report(samples.hostile()), []),
    "empty": (samples.report(samples.empty()), []),
    "none": (samples.report(), []),
}


@pytest.fixture(params=SHOWN)
def html(request: pytest.FixtureRequest) -> str:
    return render_skew_html(*SHOWN[request.param])


def sections(page: Element) -> dict[str, Element]:
    """Each part that has a title, by it."""
    return {item.all("h2")[0].text: item for item in page.all("section") if item.all("h2")}


def render_topic(topic: TopicResult, *history: SkewReport) -> Element:
    return sections(parse_html(render_skew_html(samples.report(topic), rows(history))))[topic.name]


def chart(section: Element, title: str) -> Element:
    (found,) = [item for item in section.all("figure") if item.all("b")[0].text.startswith(title)]
    return found


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


PHONE = 360
WIDTHS = (PHONE, 768, 1280)
LONG = "a-topic-with-a-very-long-name." * 8 + "end"
STICKING_OUT = (
    '<!DOCTYPE html><body><p style="width: 500px">wide</p><svg class="plot" width="90"><text x="400">t'
)
# A window is never narrower than 500 pixels, a frame is; and the frame's document keeps its own policy.
PAGE = """<!DOCTYPE html><title>frames</title>
<style>iframe {{ border: 0 }}</style>
{frames}
<script>
addEventListener("load", () => {{
  const told = [...document.querySelectorAll("iframe")].map(frame => {{
    const inside = frame.contentDocument, width = frame.clientWidth;
    for (const one of inside.querySelectorAll("details")) one.open = frame.className === "opened";
    const box = one => one.getBoundingClientRect(), style = one => frame.contentWindow.getComputedStyle(one);
    const beyond = one => box(one).left < 0 || box(one).right > width + 0.5;
    const wide = [...inside.querySelectorAll("body *")].filter(one => !one.closest(".scroll, svg, .hidden"));
    return {{
      inner: frame.contentWindow.innerWidth,
      scroll: inside.documentElement.scrollWidth,
      wide: wide.filter(beyond).map(one => one.tagName + "." + one.className),
      cut: [...inside.querySelectorAll("svg.plot text")].filter(beyond).map(one => one.textContent),
      hidden: [...inside.querySelectorAll("svg.plot")].filter(one => box(one).width < 200).length,
      grounds: [...inside.querySelectorAll("body, section")].map(one => style(one).backgroundColor),
      bars: [...inside.querySelectorAll("svg.plot rect")].map(one => [style(one).fill, box(one).height]),
    }};
  }});
  const answer = document.createElement("pre");
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
}});
</script>"""


def write_frame(html: str, width: int, scheme: str = "light", *, opened: bool = True) -> str:
    """A page in a frame, whose reader likes it light or dark, with all its details open or none."""
    return (
        f'<iframe class="{"opened" if opened else ""}" width="{width}" height="900" '
        f'style="color-scheme: {scheme}" srcdoc="{escape(html)}"></iframe>'
    )


def extreme() -> SkewReport:
    """Long names, huge numbers, many partitions."""
    large = replace(samples.failing(samples.large("x" * 249, 1000)), advice=(LONG,) * 3)
    keys = (samples.key("k" * 3000, 0.3, range(1000), shown=True), samples.key("b", 1e-9))
    few = samples.few(LONG)
    groups = (samples.group(LONG, [[0], [1], []], [0.9, 0.1] + [0.0] * 10),)
    return samples.report(replace(large, hot_keys=keys), replace(few, groups=groups), samples.hostile())


def reports() -> dict[str, tuple[SkewReport, list[MetricRow]]]:
    history = rows(
        samples.report(samples.hot(), created_at=f"2026-10-{day:02}T00:00:00Z") for day in range(1, 20)
    )
    return {
        "one topic with its past": (samples.report(samples.failing(samples.hot())), history),
        "every diagnosis": (samples.report(*samples.everything()), []),
        "the extremes": (extreme(), []),
        "no topic": (samples.report(), []),
    }


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return the browser's measurements of each frame; it is started once, as that takes longest."""
    browser()  # skip, or fail, before anything is rendered
    pages = {scene: render_skew_html(*report) for scene, report in reports().items()}
    past, phone = pages["one topic with its past"], render_skew_html(samples.report(samples.hot()))
    frames = {
        **{f"{scene} at {width}": write_frame(pages[scene], width) for scene in pages for width in WIDTHS},
        "what sticks out": write_frame(STICKING_OUT, PHONE),
        "light": write_frame(past, 800),
        "dark": write_frame(past, 800, "dark"),
        "phone": write_frame(phone, PHONE, opened=False),
    }
    page = tmp_path_factory.mktemp("browser") / "frames.html"
    page.write_text(PAGE.format(frames="\n".join(frames.values())), "utf-8")
    (answer,) = re.findall(r"<pre>(.*)</pre>", open_page(page, width=1400, height=1000))
    return dict(zip(frames, json.loads(unescape(answer)), strict=True))


@pytest.mark.parametrize("scene", reports())
@pytest.mark.parametrize("width", WIDTHS)
def test_page_does_not_scroll_sideways(measured: dict[str, Any], scene: str, width: int) -> None:
    measurements = measured[f"{scene} at {width}"]
    expected = {"inner": width, "scroll": width, "wide": [], "cut": [], "hidden": 0}
    assert {name: measurements[name] for name in expected} == expected


def test_overflow_is_measured(measured: dict[str, Any]) -> None:
    measurements = measured["what sticks out"]
    assert measurements["scroll"] > PHONE
    assert (measurements["wide"], measurements["cut"], measurements["hidden"]) == (["P."], ["t"], 1)


def test_page_follows_light_or_dark_preference(measured: dict[str, Any]) -> None:
    """Had the policy refused the style, the grounds would have no colour."""
    for scheme, (least, most) in {"light": (0.85, 1), "dark": (0, 0.05)}.items():
        page, *cards = {*measured[scheme]["grounds"]}
        assert cards
        for ground in (page, *cards):
            assert least <= luminance(*map(int, re.findall(r"\d+", ground))) <= most


def test_charts_are_drawn_on_a_phone(measured: dict[str, Any]) -> None:
    for colour in ("rgb(194, 65, 12)", "rgb(91, 132, 184)"):  # hot, and the other bars
        assert sum(height for fill, height in measured["phone"]["bars"] if fill == colour) > 100
