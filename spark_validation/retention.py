"""Retention that moves under the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.windows import SamplePlan, Span

_NAMED = 5


def removed(plan: SamplePlan, now: Sequence[Span]) -> tuple[str, ...]:
    """What of a plan's windows is gone by now, in one sentence; nothing if all is there.

    Args:
        plan: What was to be read.
        now: The spans, read again after the job. Partitions that are not there are taken for gone.
    """
    starts = {span.partition: span.start for span in now}
    lost: dict[int, int] = {}
    for window in plan.windows:
        start = starts.get(window.partition, window.end)
        gone = min(window.end, start) - window.start
        if gone > 0:
            lost[window.partition] = lost.get(window.partition, 0) + gone
    if not lost:
        return ()
    named = ", ".join(str(partition) for partition in sorted(lost)[:_NAMED])
    more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
    note = (
        f"retention moved while the topic was read: of {plan.records:,} offsets that were asked for,"
        f" up to {sum(lost.values()):,} were removed meanwhile (partition{'s' if len(lost) > 1 else ''}"
        f" {named}{more}); the oldest records count too little"
    )
    return (note,)
