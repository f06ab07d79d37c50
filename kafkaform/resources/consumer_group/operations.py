"""Which operations carry a change of a ConsumerGroup out."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, cast

from kafkaform.core.groups import OFFSETS_PREFIX, partition_of
from kafkaform.core.model import CONFIG_PREFIX, Change, Create, Delete, FieldValue, ResourceRef, Update
from kafkaform.core.operations import AlterConfigs, CommitInitialOffsets, DeleteGroup, Operation, ResetOffsets

if TYPE_CHECKING:
    from collections.abc import Mapping


def operations(change: Change) -> tuple[Operation, ...]:
    """What the cluster is asked to do, in order: configs, which can be taken back, come first."""
    match change:
        case Create(ref, state):
            return _reach(ref, {path: value for path, value in state.items() if value is not None})
        case Update(ref, fields=fields):
            return _reach(ref, {field.path: field.after for field in fields if field.deferred is None})
        case Delete(ref, state=state):
            # A group of which only configs are seen may still be known to its coordinator, as an empty one.
            return (DeleteGroup(ref, configs=tuple(sorted(_configs(state)))),)
        case _:
            assert_never(change)


def _reach(ref: ResourceRef, fields: Mapping[str, FieldValue]) -> tuple[Operation, ...]:
    steps: list[Operation] = []
    configs = _configs(fields)
    if configs:
        given = {name: str(value) for name, value in configs.items() if value is not None}
        unset = tuple(name for name, value in configs.items() if value is None)
        steps.append(AlterConfigs(ref, given, unset))
    topics: dict[str, str] = {}
    offsets: dict[tuple[str, int], int] = {}
    for path, value in fields.items():
        if not path.startswith(OFFSETS_PREFIX):
            continue
        partition = partition_of(path)
        if partition is None:
            topics[path.removeprefix(OFFSETS_PREFIX)] = str(value)
        else:
            offsets[partition] = cast("int", value)
    if topics:
        steps.append(CommitInitialOffsets(ref, topics))
    if offsets:
        steps.append(ResetOffsets(ref, offsets))
    return tuple(steps)


def _configs(fields: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    return {
        p.removeprefix(CONFIG_PREFIX): value for p, value in fields.items() if p.startswith(CONFIG_PREFIX)
    }
