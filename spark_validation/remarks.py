"""What the counts of a sample show about the log itself, in sentences for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_validation.windows import FEWEST_PER_PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_validation.tally import Tally
    from spark_validation.windows import SamplePlan

_NAMED = 8
"""How many partitions are named one by one."""


def remarks(tally: Tally, plan: SamplePlan) -> Iterator[str]:
    """Partitions without records, offsets without a record, and too few windows."""
    without = [span.partition for span in plan.spans if not span.records]
    if without and len(without) < len(plan.spans):
        yield f"{_listed(without)} {'has' if len(without) == 1 else 'have'} no records."
    read, found = plan.records, int(tally.records.sum())
    if found < read:
        part = 100.0 * (1.0 - found / read)
        of = "all" if found == 0 else "less than 0.1 %" if part < 0.1 else f"{part:.1f} %"
        yield (
            f"{of[0].upper()}{of[1:]} of the {read:,} offsets read have no record: compacted away, deleted, "
            "aborted, or the mark of a transaction's end."
        )
    if found and not all(plan.census) and plan.slices <= FEWEST_PER_PARTITION:
        yield (
            f"Only {plan.slices} windows were read of each partition: intervals are wide, and a key that is "
            "hot for a short time only may be missed."
        )


def _listed(partitions: Sequence[int]) -> str:
    if len(partitions) == 1:
        return f"Partition {partitions[0]}"
    if len(partitions) > _NAMED:
        return f"{len(partitions)} partitions"
    *most, last = map(str, partitions)
    return f"Partitions {', '.join(most)} and {last}"
