"""How many replicas the partitions of a Topic have; where they differ, it is read as such as 1-3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.core.model import FieldChange, FieldValue
    from kafkaform.resources.base import UpdateContext

REPLICATION_FACTOR = "replicationFactor"
MIN_ISR = "config.min.insync.replicas"


def is_on_the_way(field: FieldChange, value: FieldValue) -> bool:
    """Whether partitions differ within what the change goes from and to."""
    if not isinstance(value, str) or field.before is None or field.after is None:
        return False
    fewest, most = bounds(value)
    ends = (*bounds(field.before), *bounds(field.after))
    return min(ends) <= fewest and most <= max(ends)


def deferred_min_isr(context: UpdateContext) -> str | None:
    """Why min.insync.replicas waits for replicas that nobody is going to add; None if it does not."""
    present, wanted = context.before.get(REPLICATION_FACTOR), context.after.get(MIN_ISR)
    if wanted is None or present is None or context.after.get(REPLICATION_FACTOR) == present:
        return None
    fewest, _ = bounds(present)
    if int(wanted) > fewest:
        return f"waits for the replication factor: a partition has {fewest} of them now"
    return None


def bounds(value: FieldValue) -> tuple[int, int]:
    """The fewest and the most replicas that a partition has."""
    fewest, _, most = str(value).partition("-")
    return int(fewest), int(most or fewest)
