"""One view of the three kinds of change, for every format: an action, and fields with before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Create, Delete, FieldChange, Update
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from kafkaform.core.model import Change, PlannedChange


def action_of(change: Change) -> str:
    """What a change does, in the word used by every format."""
    match change:
        case Create():
            return "create"
        case Update():
            return "update"
        case Delete():
            return "delete"


def fields_of(change: Change) -> tuple[FieldChange, ...]:
    """The fields of a change; a create's have no before and a delete's no after, in natural order.

    Those carry no judgement of their own: the risk of a create or a delete is the change's.
    """
    match change:
        case Create(state=state):
            order = KINDS[change.ref.kind].field_order
            return tuple(FieldChange(path, None, state[path]) for path in sorted(state, key=order))
        case Update(fields=fields):
            return fields
        case Delete(state=state):
            order = KINDS[change.ref.kind].field_order
            return tuple(FieldChange(path, state[path], None) for path in sorted(state, key=order))


def is_deferred(planned: PlannedChange) -> bool:
    """Whether any field of the change is shown but not carried out yet."""
    return any(f.deferred is not None for f in fields_of(planned.change))
