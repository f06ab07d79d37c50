"""The tables of a skew report in a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafkaform.core.printable import printable
from kafkaform.report.page import Cell, Column, table
from kafkaform.report.skew_values import (
    MARK,
    NOTHING,
    Scale,
    brief,
    count,
    estimated,
    format_retention,
    interval,
    is_bursty,
    is_exact,
    key_name,
    numbers,
    ratio,
    selected,
    share,
    size,
)
from spark_validation.results import Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from spark_validation.results import GroupResult, HotKeyResult, MemberShare, PartitionResult, TopicResult

_FIGURES = {
    "max_mean_ratio": "fullest partition / mean",
    "cv": "coefficient of variation",
    "gini": "Gini coefficient",
    "entropy": "entropy / its maximum",
    "effective_parallelism": "useful consumers",
}
MOST = 32
"""So many partitions or members are shown one by one; of more, half as many, the fullest and the emptiest."""
_EMPTIEST = 4
_LONGEST_BAR = 40
_SHORTEST_BAR = 8
_WIDE = 100
_GAP = 2
_RARE = 0.01


def partition_table(topic: TopicResult, width: int | None, created_at: str, *, verbose: bool) -> Text:
    """A row and a bar for each partition, by number; of more than 32 the fullest first, most summed up."""
    partitions = topic.partitions
    mean = 1 / len(partitions)
    places = 2 if mean < 0.01 else 1
    shows = _Columns(topic, width, places, created_at)
    chosen = selected(partitions, lambda one: one.share.value, most=None if verbose else MOST, last=_EMPTIEST)
    rows = [shows.row(one) for one in chosen.first]
    if chosen.left_out:
        rows.append(shows.rest(chosen.left_out))
        rows += [shows.row(one) for one in chosen.last]
    top = max(one.share.value for one in partitions)
    scale = Scale(top, mean, _room(shows.columns, rows, width))
    fullest = max(partitions, key=lambda one: one.share.value) if topic.diagnosis != "balanced" else None
    bars = [_bar(scale, one, one is fullest) for one in chosen.first]
    if chosen.left_out:
        bars.append(Cell(_between([one.share.value for one in chosen.left_out], places), "dim"))
        bars += [_bar(scale, one, one is fullest) for one in chosen.last]
    columns = [*shows.columns, Column(f"{MARK} mean {share(mean, places)}", least=_SHORTEST_BAR)]
    return table(columns, [[*row, bar] for row, bar in zip(rows, bars, strict=True)], width)


def figure_table(topic: TopicResult, width: int | None) -> Text:
    """The figures of the imbalance, by records and by bytes."""
    columns = (Column("IMBALANCE", least=12), Column("BY RECORDS", least=10), Column("BY BYTES", least=10))
    rows = []
    for field, name in _FIGURES.items():
        of = f" of {len(topic.partitions):,}" if field == "effective_parallelism" else ""
        by = (getattr(topic.by_records, field), getattr(topic.by_bytes, field))
        rows.append((name + of, *(estimated(one, ratio) for one in by)))
    return table(columns, rows, width)


def key_table(topic: TopicResult, keys: Sequence[HotKeyResult], width: int | None) -> Text:
    """Hot keys; columns for intervals, texts and peaks are there only where there is something in them.

    In 80 columns there is no room for intervals beside texts or peaks.
    """
    with_text = any(key.key is not None for key in keys)
    with_peak = any(is_bursty(topic, key) for key in keys)
    room = width is None or width >= _WIDE or not (with_text or with_peak)
    with_interval = room and not all(is_exact(key.share) for key in keys)
    columns = [Column("KEY SHA-256"), Column("LENGTH", right=True)]
    columns += [Column("KEY", least=8)] if with_text else []
    columns += [Column("SHARE", right=True)]
    columns += [Column("95 % INTERVAL")] if with_interval else []
    columns += [Column("OF BYTES", right=True), Column("PARTITIONS", least=10)]
    columns += [Column("PEAK", right=True)] if with_peak else []
    places = 2 if keys[0].share.value >= _RARE else 4

    def percent(value: float) -> str:
        return share(value, places)

    rows = []
    for key in keys:
        row = [key_name(key), f"{key.key_length:,} B"]
        row += [NOTHING if key.key is None else brief(key.key)] if with_text else []
        row += [percent(key.share.value)]
        row += [interval(key.share, percent) or "exact"] if with_interval else []
        row += [percent(key.byte_share.value), numbers(key.partitions)]
        row += [f"{ratio(key.peak)} x" if is_bursty(topic, key) else NOTHING] if with_peak else []
        rows.append(row)
    return table(columns, rows, width)


def prediction_table(topic: TopicResult, width: int | None) -> Text:
    """What other partition counts would do."""
    columns = (
        Column("PARTITIONS", right=True),
        Column("FULLEST / MEAN", least=7),
        Column("BY BYTES", least=7),
        Column("KEYS MOVE", right=True),
        Column("RECORDS MOVE", right=True),
    )
    rows = [
        (
            f"{one.partitions:,}{' (now)' if one.partitions == len(topic.partitions) else ''}",
            estimated(one.max_mean_ratio, ratio),
            ratio(one.byte_max_mean_ratio.value),
            share(one.keys_moved, 1),
            share(one.records_moved.value, 1),
        )
        for one in topic.what_if
    ]
    return table(columns, rows, width)


def member_table(group: GroupResult, width: int | None, *, verbose: bool) -> Text:
    """What each member of a group would get, with bars."""
    columns = [
        Column("MEMBER", right=True),
        Column("SHARE", right=True),
        Column("PARTITIONS", least=10),
    ]
    shares = [member.share for member in group.members]
    mean = math.fsum(shares) / len(shares)
    numbered = list(enumerate(group.members, 1))
    chosen = selected(numbered, lambda one: one[1].share, most=None if verbose else MOST, last=_EMPTIEST)
    rows = [_member(*one) for one in chosen.first]
    bars: list[float | None] = [one[1].share for one in chosen.first]
    if chosen.left_out:
        left = [one[1].share for one in chosen.left_out]
        rows.append((f"… {len(left):,} more", share(math.fsum(left), 1), _between(left, 1)))
        rows += [_member(*one) for one in chosen.last]
        bars += [None, *(one[1].share for one in chosen.last)]
    scale = Scale(max(shares), mean, _room(columns, rows, width))
    columns.append(Column(f"{MARK} mean {share(mean, 1)}", least=_SHORTEST_BAR))
    drawn = ["" if value is None else scale.bar(value) for value in bars]
    return table(columns, [[*row, bar] for row, bar in zip(rows, drawn, strict=True)], width)


class _Columns:
    """Which figures of partitions are worth a column: only what is known, and differs from the others."""

    def __init__(self, topic: TopicResult, width: int | None, places: int, created_at: str) -> None:
        partitions = topic.partitions
        self._places = places
        self._created_at = created_at
        self._kept = any(partition.kept_from for partition in partitions)
        self._interval = (width is None or width >= _WIDE) and not all(
            is_exact(one.share) for one in partitions
        )
        self._offsets = any(one.log_records != round(one.records.value) for one in partitions)
        self._disk = any(one.log_bytes is not None for one in partitions)
        self.columns = [Column("PARTITION", right=True), Column("SHARE", right=True)]
        self.columns += [Column("95 % INTERVAL")] if self._interval else []
        self.columns += [Column("RECORDS", right=True)]
        self.columns += [Column("OFFSETS", right=True)] if self._offsets else []
        self.columns += [Column("BYTES", right=True)]
        self.columns += [Column("KEPT FOR", right=True)] if self._kept else []
        self.columns += [Column("ON DISK", right=True)] if self._disk else []

    def row(self, one: PartitionResult) -> list[str]:
        """The cells of a partition."""
        cells = [str(one.partition), self._share(one.share.value)]
        cells += [interval(one.share, self._share)] if self._interval else []
        cells += [count(one.records.value)]
        cells += [count(one.log_records)] if self._offsets else []
        cells += [size(one.bytes.value)]
        cells += [format_retention(one, self._created_at)] if self._kept else []
        return cells + ([size(one.log_bytes)] if self._disk else [])

    def rest(self, left_out: Sequence[PartitionResult]) -> list[str]:
        """The cells of all that are left out, added up."""
        cells = [f"… {len(left_out):,} more", self._share(math.fsum(one.share.value for one in left_out))]
        cells += [""] if self._interval else []
        cells += [count(math.fsum(one.records.value for one in left_out))]
        cells += [count(sum(one.log_records for one in left_out))] if self._offsets else []
        cells += [size(math.fsum(one.bytes.value for one in left_out))]
        cells += [""] if self._kept else []
        known = [one.log_bytes for one in left_out if one.log_bytes is not None]
        return cells + ([size(sum(known) if known else None)] if self._disk else [])

    def _share(self, value: float) -> str:
        return share(value, self._places)


def _member(number: int, member: MemberShare) -> tuple[str, str, str]:
    return str(number), share(member.share, 1), numbers(member.partitions)


def _bar(scale: Scale, one: PartitionResult, fullest: bool) -> Cell:
    return Cell(scale.bar(one.share.value), "yellow" if fullest else "")


def _between(values: Sequence[float], places: int) -> str:
    low, high = min(values), max(values)
    ends = interval(Estimate(high, low, high), lambda value: share(value, places))
    return f"{ends or share(low, places)} each"


def _room(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> int:
    """What the other columns leave for bars."""
    if width is None:
        return _LONGEST_BAR
    used = sum(
        max(len(column.header), *(len(printable(row[place])) for row in rows)) + _GAP
        for place, column in enumerate(columns)
    )
    return max(_SHORTEST_BAR, min(_LONGEST_BAR, width - used))
