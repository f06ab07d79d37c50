"""Partition shares as a Mermaid chart, which GitHub draws.

Nothing foreign is in it: no name of a topic or a key could break out of its grammar, or bring a directive in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafkaform.report.skew_values import share

if TYPE_CHECKING:
    from spark_validation.results import PartitionResult, TopicResult

MOST = 24
"""So many labels stand side by side at the width of GitHub's comments: Mermaid leaves out none of them, and
on an axis of numbers, of which it does, its bars overlap."""
_TWO = 2


def partition_chart(topic: TopicResult) -> list[str]:
    """The lines of a chart with a bar for each partition and a line for the mean; none if it showed nothing.

    The grammar is that of `xychart-beta`: numbers without an exponent, texts in quotes.
    """
    partitions = topic.partitions
    top = max((one.share.value for one in partitions), default=0.0)
    if len(partitions) < _TWO or not 0 < top <= 1:
        return []
    mean = 1 / len(partitions)
    drawn = _drawn(partitions)
    some = "" if len(drawn) == len(partitions) else f", the {len(drawn)} fullest of {len(partitions):,}"
    labels = ", ".join(f'"{one.partition}"' for one in drawn)
    bars = ", ".join(_percent(one.share.value) for one in drawn)
    line = ", ".join([_percent(mean)] * len(drawn))
    return [
        "xychart-beta",
        f'    title "Records by partition{some} (line: mean, {share(mean)})"',
        f'    x-axis "partition" [{labels}]',
        f'    y-axis "percent of the records" 0 --> {_percent(_ceiling(top))}',
        f"    bar [{bars}]",
        f"    line [{line}]",
    ]


def _drawn(partitions: tuple[PartitionResult, ...]) -> tuple[PartitionResult, ...]:
    if len(partitions) <= MOST:
        return partitions
    return tuple(sorted(partitions, key=lambda one: (-one.share.value, one.partition))[:MOST])


def _percent(value: float) -> str:
    """A share in percent as the grammar takes it."""
    return f"{100 * value:.3f}".rstrip("0").rstrip(".")


def _ceiling(top: float) -> float:
    """The next round share above the longest bar."""
    step: float = 10.0 ** math.floor(math.log10(top)) / _TWO
    return min(1.0, math.ceil(top / step) * step)
