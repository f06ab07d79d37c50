"""The charts of a document as inline SVG: columns, or a curve with the band of its intervals.

Coordinates are percentages of the plotting area with y downwards, so that a chart fills any width and its
text keeps its size: a phone shows the same labels as a wide screen. Paths, whose coordinates are numbers, are
in a square of 1000 that the page stretches over the chart.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from kafkaform.core.printable import printable
from kafkaform.core.values import Value, field

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.report.document import Chart, Point

# The steps between round numbers; 2.5 gives quarters, as 25 % or 0.25.
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MAX_LABELS = 12
_GAP = 0.24
"""The part of a column's slot that stays empty."""
_INTERVAL = "95 % interval"


class _Drawing(Value):
    """The content of a chart.

    Attributes:
        ticks: The values of the vertical axis, from 0 on.
        labels: The labels below the chart, and their places.
        shapes: The elements, in the order in which they are drawn.
        legend: The CSS classes of kinds of lines, and their meaning.
        note: An explanation below the chart.
    """

    ticks: Sequence[float]
    labels: Sequence[tuple[float, str]]
    shapes: list[str] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    note: str = ""

    def down(self, value: float) -> float:
        """Return the place of a value from the top, in percent."""
        return 100 - 100 * min(1.0, max(0.0, value / self.ticks[-1]))


def draw_chart(chart: Chart) -> str:
    """Return a chart as an HTML figure."""
    drawing = _draw_columns(chart) if chart.item else _draw_curve(chart)
    if chart.level is not None:
        y = f"{_format(drawing.down(chart.level[0]))}%"
        drawing.shapes.append(f'<line class="level" x2="100%" y1="{y}" y2="{y}"/>')
        drawing.legend.append(("level", chart.level[1]))
    legend = "".join(f'<span><i class="{kind}"></i>{_text(text)}</span>' for kind, text in drawing.legend)
    grid = "".join(f"M0 {_format(10 * drawing.down(tick))}h1000" for tick in drawing.ticks)
    scale = "".join(
        f'<text y="{_format(drawing.down(tick))}%">{_text(chart.tick(tick))}</text>' for tick in drawing.ticks
    )
    below = "".join(
        f'<text class="{_anchor(x, 3.0)}" x="{_format(x)}%" y="100%">{_text(name)}</text>'
        for x, name in drawing.labels
    )
    notes = (("axis", chart.axis or chart.item), ("note", drawing.note), ("note", chart.note))
    return "\n".join(
        [
            f"<figure>\n<figcaption><b>{_text(chart.title)}</b>{legend}</figcaption>",
            f'<svg class="plot" role="img" aria-label="{_text(chart.text)}">',
            _stretch(f'<path class="grid" d="{grid}"/>'),
            f'<g class="end" transform="translate(-6 4)">{scale}</g>',
            f'<g transform="translate(0 18)">{below}</g>',
            *drawing.shapes,
            "</svg>",
            *(f'<p class="{kind}">{_text(text)}</p>' for kind, text in notes if text),
            "</figure>\n",
        ]
    )


def _draw_columns(chart: Chart) -> _Drawing:
    points = chart.points
    # Rounded up, so that there are never more than `most` columns.
    size = -(-len(points) // chart.most)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    # A mean would hide the one full partition that the chart is made to show.
    fullest = [max(group, key=lambda point: point.value) for group in groups]
    mean = math.fsum(point.value for point in points) / len(points)
    slot = 100 / len(groups)
    steps = (base * 10**power for power in range(12) for base in (1, 2, 5))
    step = next(step for step in steps if len(groups) <= step * _MAX_LABELS)
    drawing = _Drawing(
        # With room for the label above the fullest column.
        _choose_ticks(max(point.high for point in fullest) * 1.08, 4),
        [(slot * (i + 0.5), groups[i][0].name) for i in range(0, len(groups), step)],
        note=_explain_grouping(size, chart.item) if size > 1 else "",
    )
    top = max(range(len(groups)), key=lambda i: fullest[i].value)
    for i, (group, point) in enumerate(zip(groups, fullest, strict=True)):
        x, kind = slot * (i + _GAP / 2), "hot" if i == top else "bar"
        if len(group) == 1:
            tip = f"{chart.item} {point.name}: {chart.form(point.value)}"
            drawing.shapes.append(_draw_bar(drawing, x, slot, point.value, kind, tip))
            continue
        usual = math.fsum(point.value for point in group) / len(group)
        tip = f"{chart.item}s {group[0].name}-{group[-1].name}: fullest {chart.form(point.value)}, mean "
        drawing.shapes.append(
            _draw_bar(drawing, x, slot, point.value, f"{kind} peak", tip + chart.form(usual))
        )
        # Over the fullest, which is never lower.
        drawing.shapes.append(_draw_bar(drawing, x, slot, usual, f"{kind} mean"))
    _add_whiskers(drawing, [(slot * (i + 0.5), point) for i, point in enumerate(fullest)])
    if chart.level is not None and mean and len(groups) > 1:
        position, largest = slot * (top + 0.5), fullest[top]
        # Above the whisker, which would cross it.
        text = f"{largest.value / mean:.3g} times the mean"
        drawing.shapes.append(_draw_label(position, drawing.down(largest.high), text, 20.0))
    return drawing


def _draw_bar(drawing: _Drawing, x: float, slot: float, value: float, kind: str, tip: str = "") -> str:
    y = drawing.down(value)
    width = slot * (1 - _GAP)
    title = f"<title>{_text(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="{_format(x)}%" y="{_format(y)}%" width="{_format(width)}%" '
        f'height="{_format(100 - y)}%">{title}</rect>'
    )


def _explain_grouping(size: int, item: str) -> str:
    group = f"up to {size} neighbouring {item}s"
    return f"Each column shows {group}: the pale bar is the fullest of them, the dark bar their mean."


def _draw_curve(chart: Chart) -> _Drawing:
    points, measured = chart.points, [chart.measured] if chart.measured else []
    top = max(chart.least, *(point.high for point in (*points, *measured)))
    positions = [*(point.at for point in points), *(at for at, _ in chart.ticks)]
    low, high = min(positions), max(positions)

    def across(at: float) -> float:
        return 100 * (at - low) / (high - low) if high > low else 50.0

    labels = [(across(at), name) for at, name in chart.ticks]
    drawing = _Drawing(_choose_ticks(top, 4 if chart.is_cumulative else 3), labels)
    if chart.mark is not None:
        x, name = across(chart.mark[0]), chart.mark[1]
        position = f"{_format(x)}%"
        drawing.shapes.append(f'<line class="mark" x1="{position}" x2="{position}" y1="0" y2="100%"/>')
        drawing.shapes.append(_draw_label(x, 0, name, 8.0))
    middle = [(across(point.at), drawing.down(point.value)) for point in points]
    if chart.is_cumulative:
        paths = (("gap", f"{_join(middle)}L0 1000Z"), ("even", "M0 1000L1000 0"), ("line", _join(middle)))
        drawing.shapes.append(_stretch("".join(f'<path class="{kind}" d="{path}"/>' for kind, path in paths)))
        drawing.legend.append(("even", "even"))
        return drawing
    if len(points) > 1:
        upper = [(across(point.at), drawing.down(point.high)) for point in points]
        lower = [(across(point.at), drawing.down(point.low)) for point in reversed(points)]
        band = f'<path class="band" d="{_join([*upper, *lower])}Z"/><path class="line" d="{_join(middle)}"/>'
        drawing.shapes.append(_stretch(band))
        drawing.legend.append(("band", _INTERVAL))
    # A single point has no band.
    single = points if len(points) == 1 else ()
    _add_whiskers(drawing, [(across(point.at), point) for point in (*single, *measured)])
    # Many dots would cover the curve; the last one is the present state.
    for point in points if len(points) <= chart.most else points[-1:]:
        drawing.shapes.append(_draw_dot(drawing, chart, across(point.at), point, "dot", 3))
    for point in measured:
        drawing.shapes.append(_draw_dot(drawing, chart, across(point.at), point, "measured", 6))
        drawing.legend.append(("measured", "measured"))
    return drawing


def _draw_dot(drawing: _Drawing, chart: Chart, x: float, point: Point, kind: str, radius: int) -> str:
    position = f'cx="{_format(x)}%" cy="{_format(drawing.down(point.value))}%" r="{radius}"'
    tip = _text(f"{point.name}: {chart.form(point.value)}")
    return f'<circle class="{kind}" {position}><title>{tip}</title></circle>'


def _add_whiskers(drawing: _Drawing, positions: Iterable[tuple[float, Point]]) -> None:
    """Draw the intervals of estimates; one path for all of them takes less room than an element each."""
    path = "".join(
        f"M{10 * x:.0f} {10 * drawing.down(point.high):.0f}V{10 * drawing.down(point.low):.0f}"
        for x, point in positions
        if point.high > point.low
    )
    if path:
        drawing.shapes.append(_stretch(f'<path class="whisker" d="{path}"/>'))
        if not any(text == _INTERVAL for _, text in drawing.legend):
            drawing.legend.append(("whisker", _INTERVAL))


def _draw_label(x: float, y: float, text: str, edge: float) -> str:
    position = f'x="{_format(x)}%" y="{_format(y)}%" dy="-.5em"'
    return f'<text class="in {_anchor(x, edge)}" {position}>{_text(text)}</text>'


def _anchor(position: float, edge: float) -> str:
    """Return the text anchor that keeps a label within `edge` percent of an end inside the chart."""
    return "start" if position < edge else "end" if position > 100 - edge else "middle"


def _choose_ticks(high: float, intervals: int) -> list[float]:
    """Return about `intervals` round steps from 0 to at least a value."""
    # All values may be 0, and a length of 0 has no scale.
    raw = (high if high > 0 else 1.0) / intervals
    power: float = 10.0 ** math.floor(math.log10(raw))
    # The tolerances keep an error of the last binary digit from adding a step: 0.3 / 0.1 is
    # 2.9999999999999996.
    step = power * next(factor for factor in _STEPS if raw <= factor * power * (1 + 1e-9))
    last = math.ceil(raw * intervals / step - 1e-9)
    # Twelve digits: as a product of floats, a tick would be 0.30000000000000004, and its label as long.
    return [float(f"{index * step:.12g}") for index in range(last + 1)]


def _stretch(paths: str) -> str:
    return f'<svg viewBox="0 0 1000 1000" preserveAspectRatio="none">{paths}</svg>'


def _join(positions: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{10 * x:.0f} {10 * y:.0f}" for x, y in positions)


def _format(number: float) -> str:
    # A tenth of a percent is a pixel of a chart that is 1,000 pixels wide; more digits only make the page
    # larger.
    return f"{number:.1f}".removesuffix(".0")


def _text(text: str) -> str:
    return escape(printable(text))
