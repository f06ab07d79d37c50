"""Which operations carry a change of a Topic out."""

from __future__ import annotations

from typing import assert_never, cast

from kafkaform.model import CONFIG_PREFIX, Change, Create, Delete, Update
from kafkaform.operations import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Operation


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
            return (CreateTopic(ref, partitions, replicas, configs),)
        case Update():
            return _update(change)
        case Delete(ref, uid):
            return (DeleteTopic(ref, uid),)
        case _:
            assert_never(change)


def _update(change: Update) -> tuple[Operation, ...]:
    steps: list[Operation] = []
    due = [field for field in change.fields if field.deferred is None]
    configs = {f.path.removeprefix(CONFIG_PREFIX): f.after for f in due if f.path.startswith(CONFIG_PREFIX)}
    if configs:
        given = {name: str(value) for name, value in configs.items() if value is not None}
        unset = tuple(name for name, value in configs.items() if value is None)
        steps.append(AlterConfigs(change.ref, given, unset))
    steps.extend(
        AddPartitions(change.ref, cast("int", field.before), cast("int", field.after))
        for field in due
        if field.path == "partitions"
    )
    return tuple(steps)
