"""The price of the changes of a plan: of their replicas, and of data that they certainly copy or remove."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, Facts, Observed, Recreate, ResourceRef, Status, Update
from kafkaform.core.plans import CostChange, PlannedChange
from kafkaform.core.wording import counted
from kafkaform.resources import is_topic
from kafkaform.resources.replicas.facts import count_replicas

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.config.settings import Costs

_BY_AGE = frozenset({"config.retention.ms", "config.cleanup.policy"})
"""The configs whose effect depends on the age of records, which sizes do not show."""
_BY_SIZE = "config.retention.bytes"


def compute_costs(
    changes: Iterable[PlannedChange], facts: Facts, live: Mapping[ResourceRef, Observed], costs: Costs
) -> CostChange:
    """Return the price of the changes of topics for a month, without refused ones.

    Args:
        changes: The changes of the plan.
        facts: The facts, with the sizes of the changing topics.
    """
    replicas = size = created = by_age = unknown = 0
    added: int | None
    grown: int | None
    for planned in changes:
        change = planned.change
        if not is_topic(change.ref) or planned.status is Status.REFUSED:
            continue
        if isinstance(change, Create):
            created += 1
            added, grown = count_replicas(change.state), 0
        else:
            data = facts.sizes.get(change.ref)
            known = data is not None and not data.unread
            added, grown = _count_added(change, live[change.ref], data.bytes if data and known else None)
            if isinstance(change, Update):
                by_age += not _BY_AGE.isdisjoint(field.path for field in change.fields)
        unknown += added is None or grown is None
        replicas, size = replicas + (added or 0), size + (grown or 0)
    uncounted = (
        (created, f"the data of {counted(created, 'new topic')}"),
        (by_age, f"the effect of {counted(by_age, 'change')} of retention by age"),
        (unknown, f"{counted(unknown, 'topic')} of unknown size"),
    )
    notes = tuple(words for number, words in uncounted if number)
    return CostChange(costs.currency, f"{costs.compute(replicas, size):.2f}", replicas, size, notes)


def _count_added(
    change: Update | Delete | Recreate, topic: Observed, data: int | None
) -> tuple[int | None, int | None]:
    """Return the replicas and bytes that a change adds; None where they are not known.

    Args:
        data: Its bytes, counting one replica of each partition; None if unknown.
    """
    before = count_replicas(topic.state, topic)
    fields = change.fields if isinstance(change, Update) else ()
    values = {field.path: field.after for field in fields if field.deferred is None}
    limits = [field.effective_after for field in fields if field.path == _BY_SIZE]
    after: int | None = 0
    if isinstance(change, Update):
        is_resized = not {"partitions", "replicationFactor"}.isdisjoint(values)
        after = count_replicas({**topic.state, **values}) if is_resized else before
    elif isinstance(change, Recreate):
        after = count_replicas(change.state)
    if before is None or after is None:
        return None, None
    if before == after and not limits and not isinstance(change, Recreate):
        return 0, 0
    if data is None:
        return after - before, None
    partitions = int(str(topic.state["partitions"]))
    later = int(str(values.get("partitions", partitions)))
    if isinstance(change, Recreate):  # of which no record is kept
        later, limits = 1, [0]
    kept = min([data, *(int(str(limit)) * partitions for limit in limits if str(limit).isdecimal())])
    # New partitions have no records yet: each record has as many copies as its partition has replicas.
    return after - before, kept * after // later - data * before // partitions
