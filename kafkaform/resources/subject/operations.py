"""The operations that carry out a change of a Subject."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import Change, Create, Delete, Recreate, Update
from kafkaform.core.operations import Deletion, FieldFormatter, Operation, Phase
from kafkaform.resources.subject.fields import COMPATIBILITY, PURGED, SCHEMA, STATE
from kafkaform.resources.subject.schema import RegisteredSchema, parse_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class AlterSubject(Operation):
    """Register a version of a subject, set its compatibility level, or both.

    Attributes:
        schema: The schema; None to register none.
        compatibility: The level; None to leave it.
        is_new: Whether the subject is created: it has no level before its first version.
    """

    schema: RegisteredSchema | None
    compatibility: str | None = None
    is_new: bool = False

    # Before topics are created: a producer that finds its topic must find its schema, too.
    phase = Phase.CREATE

    @property
    def weight(self) -> int:
        """One for each request."""
        return (self.schema is not None) + (self.compatibility is not None)

    def words(self, format_field: FieldFormatter) -> str:
        """Return what is registered, and the level."""
        parts = [] if self.schema is None else ["register a version"]
        if self.compatibility is not None:
            parts.append(format_field(COMPATIBILITY, self.compatibility))
        return ", ".join(parts)

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the fields that it sets."""
        given = ((SCHEMA, self.schema), (COMPATIBILITY, self.compatibility))
        return [path for path, value in given if value is not None]


class DeleteSubject(Deletion):
    """Delete a subject with all of its versions; the registry keeps them for a restoration (soft delete)."""

    phase = Phase.DELETE
    weight = 1


class PurgeSubject(Deletion):
    """Delete all versions that the registry keeps of a deleted subject."""

    phase = Phase.DELETE
    weight = 1

    def words(self, format_field: FieldFormatter) -> str:
        """Return the state that the subject gets."""
        return format_field(STATE, PURGED)


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operation of a change."""
    match change:
        case Create(state=state):
            after = dict(state)
        case Update(fields=fields):
            after = {field.path: field.after for field in fields}
        case Delete():
            return (DeleteSubject(change.ref),)
        case Recreate():
            return ()  # of topics only
        case _:
            assert_never(change)
    if STATE in after:
        return (PurgeSubject(change.ref),)
    level = after.get(COMPATIBILITY)
    schema = parse_value(after.get(SCHEMA))
    return (
        AlterSubject(
            change.ref, schema, None if level is None else str(level), is_new=isinstance(change, Create)
        ),
    )
