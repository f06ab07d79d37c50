from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import pytest

from kafkaform.report.skew_html import render_skew_html
from spark_validation.results import Report
from tests.support import skew_samples as samples
from tests.support.browser import browser, document, screenshot


@pytest.fixture(autouse=True)
def installed() -> None:
    """Skip, or fail, before anything is drawn."""
    browser()


PHONE = 360
LONG = "a-topic-with-a-very-long-name." * 8 + "end"
# A window is never narrower than 500 pixels, a frame is; and the frame's document keeps its own policy.
FRAME = """<!DOCTYPE html><title>frame</title><style>body {{ margin: 0 }} iframe {{ border: 0 }}</style>
<iframe width="{width}" height="{height}" srcdoc="{page}"></iframe>
<script>
addEventListener("load", () => {{
  const frame = document.querySelector("iframe"), inside = frame.contentDocument;
  for (const one of inside.querySelectorAll("details")) one.open = {opened};
  const box = one => one.getBoundingClientRect();
  const beyond = one => box(one).left < 0 || box(one).right > {width} + 0.5;
  const wide = [...inside.querySelectorAll("body *")].filter(one => !one.closest(".scroll, svg, .hidden"));
  const told = {{
    inner: frame.contentWindow.innerWidth,
    scroll: inside.documentElement.scrollWidth,
    wide: wide.filter(beyond).map(one => one.tagName + "." + one.className),
    cut: [...inside.querySelectorAll("svg.plot text")].filter(beyond).map(one => one.textContent),
    hidden: [...inside.querySelectorAll("svg.plot")].filter(one => box(one).width < 200).length,
  }};
  const answer = document.createElement("pre");
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
}});
</script>"""


def framed(folder: Path, html: str, width: int, height: int = 900, *, opened: bool = True) -> Path:
    """A page that shows another in a frame of that size, and tells what sticks out of it."""
    page = folder / "frame.html"
    text = FRAME.format(width=width, height=height, page=escape(html), opened=str(opened).lower())
    page.write_text(text, "utf-8")
    return page


def extreme() -> Report:
    """Long names, huge numbers, many partitions."""
    large = replace(samples.failing(samples.large("x" * 249, 1000)), advice=(LONG,) * 3)
    keys = (samples.key("k" * 3000, 0.3, range(1000), shown=True), samples.key("b", 1e-9))
    few = samples.few(LONG)
    groups = (samples.group(LONG, [[0], [1], []], [0.9, 0.1] + [0.0] * 10),)
    return samples.report(replace(large, hot_keys=keys), replace(few, groups=groups), samples.hostile())


def reports() -> dict[str, tuple[Report, list[Report]]]:
    history = [
        samples.report(samples.hot(), created_at=f"2026-10-{day:02}T00:00:00Z") for day in range(1, 20)
    ]
    return {
        "one topic with its past": (samples.report(samples.failing(samples.hot())), history),
        "every diagnosis": (samples.report(*samples.everything()), []),
        "the extremes": (extreme(), []),
        "no topic": (samples.report(), []),
    }


@pytest.mark.parametrize("scene", reports())
@pytest.mark.parametrize("width", [PHONE, 768, 1280])
def test_nothing_makes_the_page_scroll_sideways(tmp_path: Path, scene: str, width: int) -> None:
    page = framed(tmp_path, render_skew_html(*reports()[scene]), width)
    (answer,) = re.findall(r"<pre>(.*)</pre>", document(page, width=width))
    told = json.loads(unescape(answer))
    assert told == {"inner": width, "scroll": width, "wide": [], "cut": [], "hidden": 0}


def test_the_measure_sees_what_sticks_out(tmp_path: Path) -> None:
    html = '<!DOCTYPE html><body><p style="width: 500px">wide</p><svg class="plot" width="90"><text x="400">t'
    (answer,) = re.findall(r"<pre>(.*)</pre>", document(framed(tmp_path, html, PHONE), width=PHONE))
    told = json.loads(unescape(answer))
    assert told["scroll"] > PHONE
    assert told["wide"] == ["P."]
    assert told["cut"] == ["t"]
    assert told["hidden"] == 1


def test_the_page_is_light_or_dark_as_the_reader_likes(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_skew_html(*reports()["one topic with its past"]), "utf-8")
    shots = {
        scheme: screenshot(page, tmp_path / f"{scheme}.png", width=800, height=700, scheme=scheme)
        for scheme in ("light", "dark")
    }
    for shot in shots.values():
        assert (shot.width, shot.height) == (800, 700)
        # Had the policy refused the style, there would be black text on a white ground and little else.
        assert len(shot.colours()) > 20
    # The ground beside the card, and the card itself.
    for x in (2, 60):
        assert shots["light"].luminance(x, 695) > 0.85
        assert shots["dark"].luminance(x, 695) < 0.05
    assert shots["light"].luminance(2, 695) != shots["light"].luminance(60, 695)


def test_charts_are_drawn_on_a_phone(tmp_path: Path) -> None:
    page = framed(tmp_path, render_skew_html(samples.report(samples.hot())), PHONE, 3000, opened=False)
    shot = screenshot(page, tmp_path / "phone.png", width=500, height=3000)
    hot, bar = bytes.fromhex("c2410c"), bytes.fromhex("5b84b8")
    for colour in (hot, bar):
        rows = [row for row in shot.rows if any(row[x : x + 3] == colour for x in range(0, 3 * PHONE, 3))]
        assert len(rows) > 100
