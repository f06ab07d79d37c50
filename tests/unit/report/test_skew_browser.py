from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape, unescape
from statistics import median
from typing import Any

import pytest

from kafkaform.core.values import replace
from kafkaform.report.skew import render_skew_html
from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import SkewReport
from tests.support.browser import Picture, browser, draw_page
from tests.support.skew import samples

PHONE = 360
WIDTHS = (PHONE, 768, 1280)
LONG = "a-topic-with-a-very-long-name." * 8 + "end"
STICKING_OUT = (
    '<!DOCTYPE html><body><p style="width: 500px">wide</p><svg class="plot" width="90"><text x="400">t'
)
UNSEEN = (0, 10_000)
"""Where frames are that are measured, and not looked at."""
# A window is never narrower than 500 pixels, a frame is; and the frame's document keeps its own policy.
PAGE = """<!DOCTYPE html><title>frames</title>
<style>body {{ margin: 0 }} iframe {{ border: 0; position: absolute }}</style>
{frames}
<script>
addEventListener("load", () => {{
  const told = [...document.querySelectorAll("iframe")].map(frame => {{
    const inside = frame.contentDocument, width = frame.clientWidth;
    for (const one of inside.querySelectorAll("details")) one.open = frame.className === "opened";
    const box = one => one.getBoundingClientRect();
    const beyond = one => box(one).left < 0 || box(one).right > width + 0.5;
    const wide = [...inside.querySelectorAll("body *")].filter(one => !one.closest(".scroll, svg, .hidden"));
    return {{
      inner: frame.contentWindow.innerWidth,
      scroll: inside.documentElement.scrollWidth,
      wide: wide.filter(beyond).map(one => one.tagName + "." + one.className),
      cut: [...inside.querySelectorAll("svg.plot text")].filter(beyond).map(one => one.textContent),
      hidden: [...inside.querySelectorAll("svg.plot")].filter(one => box(one).width < 200).length,
    }};
  }});
  const answer = document.createElement("pre");
  answer.textContent = JSON.stringify(told);
  document.body.append(answer);
}});
</script>"""


@dataclass(frozen=True)
class Frame:
    """A page in a frame of that size, whose reader likes it light or dark, with all its details open or none.

    Attributes:
        place: From the left and the top.
    """

    html: str
    width: int
    height: int = 900
    scheme: str = "light"
    opened: bool = True
    place: tuple[int, int] = UNSEEN

    def __str__(self) -> str:
        left, top = self.place
        return (
            f'<iframe class="{"opened" if self.opened else ""}" width="{self.width}" height="{self.height}" '
            f'style="left: {left}px; top: {top}px; color-scheme: {self.scheme}" srcdoc="{escape(self.html)}">'
            "</iframe>"
        )


@dataclass(frozen=True)
class Seen:
    """The measurements of all frames in a browser, which is started once: that takes longer than the rest."""

    measurements: dict[str, dict[str, Any]]
    shots: dict[str, Picture]


def extreme() -> SkewReport:
    """Long names, huge numbers, many partitions."""
    large = replace(samples.failing(samples.large("x" * 249, 1000)), advice=(LONG,) * 3)
    keys = (samples.key("k" * 3000, 0.3, range(1000), shown=True), samples.key("b", 1e-9))
    few = samples.few(LONG)
    groups = (samples.group(LONG, [[0], [1], []], [0.9, 0.1] + [0.0] * 10),)
    return samples.report(replace(large, hot_keys=keys), replace(few, groups=groups), samples.hostile())


def reports() -> dict[str, tuple[SkewReport, list[MetricRow]]]:
    history = [
        row
        for day in range(1, 20)
        for row in metric_rows(samples.report(samples.hot(), created_at=f"2026-10-{day:02}T00:00:00Z"))
    ]
    return {
        "one topic with its past": (samples.report(samples.failing(samples.hot())), history),
        "every diagnosis": (samples.report(*samples.everything()), []),
        "the extremes": (extreme(), []),
        "no topic": (samples.report(), []),
    }


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    browser()  # skip, or fail, before anything is drawn
    folder = tmp_path_factory.mktemp("browser")
    pages = {scene: render_skew_html(*report) for scene, report in reports().items()}
    past, phone = pages["one topic with its past"], render_skew_html(samples.report(samples.hot()))
    frames = {
        **{f"{scene} at {width}": Frame(pages[scene], width) for scene in pages for width in WIDTHS},
        "what sticks out": Frame(STICKING_OUT, PHONE),
        "light": Frame(past, 800, 700, "light", opened=False, place=(0, 0)),
        "dark": Frame(past, 800, 700, "dark", opened=False, place=(0, 700)),
        "phone": Frame(phone, PHONE, 3000, opened=False, place=(800, 0)),
    }
    page = folder / "frames.html"
    page.write_text(PAGE.format(frames="\n".join(map(str, frames.values()))), "utf-8")
    html, whole = draw_page(page, folder / "frames.png", width=800 + PHONE, height=3000)
    (answer,) = re.findall(r"<pre>(.*)</pre>", html)
    shots = {
        name: whole.part(*frame.place, frame.width, frame.height)
        for name, frame in frames.items()
        if frame.place != UNSEEN
    }
    return Seen(dict(zip(frames, json.loads(unescape(answer)), strict=True)), shots)


@pytest.mark.parametrize("scene", reports())
@pytest.mark.parametrize("width", WIDTHS)
def test_page_does_not_scroll_sideways(seen: Seen, scene: str, width: int) -> None:
    measured = seen.measurements[f"{scene} at {width}"]
    assert measured == {"inner": width, "scroll": width, "wide": [], "cut": [], "hidden": 0}


def test_overflow_is_measured(seen: Seen) -> None:
    measured = seen.measurements["what sticks out"]
    assert measured["scroll"] > PHONE
    assert measured["wide"] == ["P."]
    assert measured["cut"] == ["t"]
    assert measured["hidden"] == 1


def test_page_follows_light_or_dark_preference(seen: Seen) -> None:
    light, dark = seen.shots["light"], seen.shots["dark"]
    for shot in (light, dark):
        assert (shot.width, shot.height) == (800, 700)
        # Had the policy refused the style, there would be black text on a white ground and little else.
        assert len(shot.colours()) > 20
    # The ground beside the card, and the card itself: most of a column, wherever there is text in it.
    for x in (2, 60):
        assert _ground(light, x) > 0.85
        assert _ground(dark, x) < 0.05
    assert _ground(light, 2) != _ground(light, 60)


def _ground(shot: Picture, x: int) -> float:
    return median(shot.luminance(x, y) for y in range(500, 700))


def test_charts_are_drawn_on_a_phone(seen: Seen) -> None:
    for colour in (0xC2410C, 0x5B84B8):  # hot, and the other bars
        assert seen.shots["phone"].rows_with(colour) > 100
