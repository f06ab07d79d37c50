import json
import re
from html import escape, unescape
from typing import Any

import pytest

from kafkaform.core.values import replace
from kafkaform.report.skew import render_skew_html
from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import SkewReport
from tests.support.browser import browser, luminance, open_page
from tests.support.skew import samples

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
