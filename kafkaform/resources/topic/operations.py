"""Which operations carry a change of a Topic out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never, cast

from kafkaform.core.layout import parse_assignment
from kafkaform.core.model import CONFIG_PREFIX, Change, Create, Delete, Update
from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CreateTopic,
    DeleteTopic,
    Operation,
    Reassign,
)
from kafkaform.resources.topic.live import MIN_ISR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Assignment
    from kafkaform.core.model import FieldChange, FieldValue

PLACEMENT = "placement"
"""The field that says where replicas are, as `kafkaform.core.layout` writes it."""


def operations(change: Change) -> tuple[Operation, ...]:
    """What the cluster is asked to do, in order: what can be taken back comes first."""
    match change:
        case Create(ref, state):
            configs = {
                path.removeprefix(CONFIG_PREFIX): str(value)
                for path, value in state.items()
                if path.startswith(CONFIG_PREFIX) and value is not None
            }
            partitions, replicas = cast("int", state["partitions"]), cast("int", state["replicationFactor"])
            placement = state.get(PLACEMENT)
            assignment = parse_assignment(str(placement)) if placement is not None else ()
            return (CreateTopic(ref, partitions, replicas, configs, assignment),)
        case Update():
            return _update(change)
        case Delete(ref, uid):
            return (DeleteTopic(ref, uid),)
        case _:
            assert_never(change)


def _update(change: Update) -> tuple[Operation, ...]:
    """Partitions and configs first, then replicas; what needs more replicas in sync waits for them."""
    due = {field.path: field for field in change.fields if field.deferred is None}
    partitions, placement = due.get("partitions"), due.get(PLACEMENT)
    configs = {p.removeprefix(CONFIG_PREFIX): f.after for p, f in due.items() if p.startswith(CONFIG_PREFIX)}
    raised = _raised(due.get(MIN_ISR))
    min_isr = MIN_ISR.removeprefix(CONFIG_PREFIX)
    late = {min_isr: configs.pop(min_isr)} if raised else {}
    steps: list[Operation] = []
    if configs:
        steps.append(_alter(change, configs))
    before, after = _assignments(placement)
    if partitions is not None:
        present, total = cast("int", partitions.before), cast("int", partitions.after)
        steps.append(AddPartitions(change.ref, present, total, begun(before, after)))
    before = (*before, *begun(before, after))
    moved = [number for number, replicas in enumerate(before) if after[number] != replicas]
    if moved:
        sides = ({number: side[number] for number in moved} for side in (before, after))
        steps.append(Reassign(change.ref, *sides))
    if late:
        steps.append(replace(_alter(change, late), least_in_sync=raised))
    return tuple(steps)


def begun(before: Assignment, after: Assignment) -> Assignment:
    """Where partitions that are added have their replicas before any is moved.

    Kafka takes no other number of replicas for them than those have that are there (seen on 4.3.1:
    INVALID_REPLICA_ASSIGNMENT; where these differ, no partition is added). So where the replication factor
    changes too, they are moved like the others.
    """
    if not before:
        return ()
    count = len(before[0])
    first = []
    for replicas in after[len(before) :]:
        others = [broker for broker in before[0] if broker not in replicas]
        first.append((*replicas, *others)[:count])
    return tuple(first)


def _alter(change: Update, configs: Mapping[str, FieldValue]) -> AlterConfigs:
    given = {name: str(value) for name, value in configs.items() if value is not None}
    return AlterConfigs(change.ref, given, tuple(name for name, value in configs.items() if value is None))


def _raised(min_isr: FieldChange | None) -> int:
    """What min.insync.replicas is raised to; 0 if it is not."""
    if min_isr is None:
        return 0
    # A default that this account may not read is taken for the worst: 1 before, and nothing is known after.
    before, after = (int(v or 1) for v in (min_isr.effective_before, min_isr.effective_after))
    return after if after > before else 0


def _assignments(placement: FieldChange | None) -> tuple[Assignment, Assignment]:
    """Where replicas are and are to be."""
    if placement is None:
        return (), ()
    return parse_assignment(str(placement.before)), parse_assignment(str(placement.after))
