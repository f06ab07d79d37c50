"""Columns: how much each partition of a topic, or each member of a group, has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.report.skew_axes import axis, percent_tick, thinned
from kafkaform.report.skew_marks import Bar, Chart, Label, anchor, whiskers
from kafkaform.report.skew_values import ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_validation.results import Estimate

MOST_COLUMNS = 60
_MOST_LABELS = 12
_GAP = 0.24


@dataclass(frozen=True, slots=True)
class Column:
    """What one column stands for: an item, or neighbours of which the fullest has this share.

    Attributes:
        name: Such as `7` or `0-16`.
        short: For the axis.
        share: Of the item, or of the fullest neighbour.
        mean: The neighbours' mean share; equal to `share.value` for a single item.
    """

    name: str
    short: str
    share: Estimate
    mean: float


def columns(items: Sequence[tuple[int, Estimate]], most: int = MOST_COLUMNS) -> list[Column]:
    """At most `most` columns for numbered shares, in their order."""
    size = -(-len(items) // most)
    found = []
    for start in range(0, len(items), max(1, size)):
        part = items[start : start + size]
        fullest = max((share for _, share in part), key=lambda share: share.value)
        first, last = part[0][0], part[-1][0]
        name = str(first) if first == last else f"{first}-{last}"
        found.append(Column(name, str(first), fullest, sum(share.value for _, share in part) / len(part)))
    return found


def column_chart(
    items: Sequence[tuple[int, Estimate]],
    *,
    title: str,
    item: str,
    words: Callable[[float], str],
    text: str,
    most: int = MOST_COLUMNS,
) -> Chart:
    """Shares of numbered things as columns, with the mean as a dashed line.

    Args:
        items: Number and share, by number; at least one.
        title: What is shown.
        item: What a column is, such as `partition`.
        words: How a share is written.
        text: The chart in words.
        most: More items than that are drawn as groups of neighbours.
    """
    found = columns(items, most)
    mean = sum(share.value for _, share in items) / len(items)
    # The label above the fullest column needs room, too.
    scale = axis(0.0, max(column.share.high for column in found) * 1.08)
    slot = 100.0 / len(found)
    width = slot * (1 - _GAP)
    top = max(found, key=lambda column: column.share.value)
    bars: list[Bar] = []
    ends: list[tuple[float, float, float]] = []
    grouped = len(found) < len(items)
    for index, column in enumerate(found):
        x = slot * (index + _GAP / 2)
        tip = f"{item} {column.name}: {words(column.share.value)}"
        if grouped:
            tip = f"{item}s {column.name}: fullest {words(column.share.value)}, mean {words(column.mean)}"
        kind = ("hot" if column is top else "bar") + (" peak" if grouped else "")
        bars.append(_bar(x, width, scale.place(column.share.value), kind, tip))
        if grouped:
            bars.append(_bar(x, width, scale.place(column.mean), "hot mean" if column is top else "bar mean"))
        if column.share.high > column.share.low:
            ends.append((x + width / 2, scale.place(column.share.high), scale.place(column.share.low)))
    place = slot * (found.index(top) + 0.5)
    label = Label(
        place,
        100 - 100 * scale.place(top.share.high),
        f"{ratio(top.share.value / mean)} times the mean" if mean else "",
        anchor(place, 20.0),
    )
    return Chart(
        title,
        text,
        item,
        y_ticks=tuple(Label(0, 100 - 100 * scale.place(tick), percent_tick(tick)) for tick in scale.ticks),
        x_ticks=tuple(
            Label(slot * (index + 0.5), 100, found[index].short)
            for index in thinned(len(found), _MOST_LABELS)
        ),
        bars=tuple(bars),
        curves=whiskers(ends),
        levels=(100 - 100 * scale.place(mean),),
        labels=(label,) if mean and len(found) > 1 else (),
        note=_grouping(len(items), len(found), item) if grouped else "",
    )


def _bar(x: float, width: float, part: float, kind: str, tip: str = "") -> Bar:
    return Bar(x, 100 - 100 * part, width, 100 * part, kind, tip)


def _grouping(items: int, found: int, item: str) -> str:
    size = -(-items // found)
    group = f"up to {size} neighbouring {item}s"
    return f"A column stands for {group}: pale is the fullest of them, dark their mean."
