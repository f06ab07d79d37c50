"""The live replication factor of topics, and the raise of min.insync.replicas that depends on it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkaform.resources.replicas.facts import MIN_ISR, REPLICATION_FACTOR

if TYPE_CHECKING:
    from kafkaform.core.model import FieldChange, FieldValue
    from kafkaform.resources.base import UpdateContext


def is_on_the_way(field: FieldChange, value: FieldValue) -> bool:
    """Return whether all replication factors of partitions are between before and after."""
    # A plan is read from a file, which may contain anything.
    if not isinstance(value, str) or not all(map(_is_count, (value, field.before, field.after))):
        return False
    fewest, most = parse_range(value)
    ends = (*parse_range(field.before), *parse_range(field.after))
    return min(ends) <= fewest and most <= max(ends)


def explain_deferred_min_isr(context: UpdateContext) -> str | None:
    """Return why min.insync.replicas cannot be raised, as no replicas are going to be added; or None."""
    present, wanted = context.before.get(REPLICATION_FACTOR), context.after.get(MIN_ISR)
    if wanted is None or present is None or context.after.get(REPLICATION_FACTOR) == present:
        return None
    fewest, _ = parse_range(present)
    # Brokers accept such a value, and require no more replicas than exist (measured on 4.3.1), but older
    # ones then refuse every write with acks=all.
    if int(wanted) > fewest:
        return f"waits for the replication factor: a partition has only {fewest} now"
    return None


def _is_count(value: FieldValue) -> bool:
    return re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9})?", str(value)) is not None


def parse_range(value: FieldValue) -> tuple[int, int]:
    """Return the fewest and the most replicas that a partition has."""
    # `1-3` while partitions differ, as after a move that stopped half-way.
    fewest, _, most = str(value).partition("-")
    return int(fewest), int(most or fewest)
