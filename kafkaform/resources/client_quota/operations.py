"""The operation that carries out a change of a ClientQuota."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import CONFIG_PREFIX, Change, Create, Delete, FieldValue, Recreate, Update
from kafkaform.core.operations import AlterConfigs, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping


class AlterQuota(AlterConfigs):
    """Set and unset limits of one entity; others stay as they are.

    An entity without limits ceases to exist.
    """


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operation of a change; a deletion removes all limits."""
    match change:
        case Create(state=state):
            fields: Mapping[str, FieldValue] = {
                path: value for path, value in state.items() if value is not None
            }
        case Update(fields=changed):
            fields = {field.path: field.after for field in changed}
        case Delete(state=state):
            fields = dict.fromkeys(state)
        case Recreate():
            return ()  # of topics only
        case _:
            assert_never(change)
    limits = {path.removeprefix(CONFIG_PREFIX): value for path, value in fields.items()}
    given = {name: str(value) for name, value in limits.items() if value is not None}
    # One request for all limits of an entity: AlterClientQuotas carries them out together, or none of them.
    return (AlterQuota(change.ref, given, tuple(name for name, value in limits.items() if value is None)),)
