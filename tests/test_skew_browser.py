from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkaform.report.skew_html import render_skew_html
from tests import skew_samples as samples
from tests.browser import NAMES, browser, document, screenshot

if TYPE_CHECKING:
    from pathlib import Path

    from spark_validation.results import Report

pytestmark = pytest.mark.skipif(browser() is None, reason=f"no browser is installed: none of {', '.join(NAMES)}")

PHONE = 360
LONG = "a-topic-with-a-very-long-name." * 8 + "end"
# Runs after the layout, and tells what a reader would have to scroll sideways for.
MEASURE = """<script>
addEventListener("load", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const wide = [...document.querySelectorAll("body *")].filter(one =>
    !one.closest(".scroll") && !one.closest("svg") && !one.closest(".hidden")
    && one.getBoundingClientRect().right > innerWidth + 0.5);
  const cut = [...document.querySelectorAll("svg.plot text")].filter(one => {
    const box = one.getBoundingClientRect();
    return box.left < 0 || box.right > innerWidth + 0.5;
  });
  document.documentElement.dataset.inner = innerWidth;
  document.documentElement.dataset.scroll = document.documentElement.scrollWidth;
  document.documentElement.dataset.wide = wide.map(one => one.tagName + "." + one.className).join(" ");
  document.documentElement.dataset.cut = cut.map(one => one.textContent).join("|");
  document.documentElement.dataset.card =
    getComputedStyle(document.querySelector("section")).backgroundColor;
});
</script></head>"""


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
    page = tmp_path / "page.html"
    html = render_skew_html(*reports()[scene])
    # This copy alone may run a script: the page's own policy lets none run.
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    section = "" if "<section" in html else "<section></section>"
    page.write_text(html.replace("</head>", MEASURE).replace("</main>", f"{section}</main>"), "utf-8")
    told = dict(re.findall(r' data-(\w+)="([^"]*)"', document(page, width=width)[:3000].split(">")[1]))
    if not told:
        told = dict(re.findall(r' data-(\w+)="([^"]*)"', document(page, width=width)))
    assert int(told["inner"]) == width
    assert told["wide"] == ""
    assert told["cut"] == ""
    assert int(told["scroll"]) <= width
