"""The operations that carry out a change of a User.

Credentials are set before rights are granted, and removed after rights are revoked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.model import Change, Create, Delete, FieldValue, Recreate, Update
from kafkaform.core.operations import FieldFormatter, Operation, Phase
from kafkaform.resources.user.credential import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


class AlterCredentials(Operation):
    """Set or remove credentials of one user; those of other mechanisms stay as they are.

    Attributes:
        values: The value of each credential by its path; None if it is removed.
    """

    values: Mapping[str, FieldValue]

    @property
    def weight(self) -> int:
        """One for each credential."""
        return len(self.values)

    def words(self, format_field: FieldFormatter) -> str:
        """Return each credential with its value."""
        return ", ".join(format_field(path, value) for path, value in sorted(self.values.items()))

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the paths of the credentials."""
        return self.values.keys()

    def mechanisms(self) -> Mapping[str, FieldValue]:
        """Return the values by mechanism."""
        return {path.removeprefix(PREFIX): value for path, value in self.values.items()}


class SetCredentials(AlterCredentials):
    """Set credentials, before their user gets rights."""

    phase = Phase.PREPARE


class RemoveCredentials(AlterCredentials):
    """Remove credentials, after their user has lost its rights."""

    phase = Phase.DELETE


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operations of a change."""
    match change:
        case Create(state=state):
            after = dict(state)
        case Update(fields=fields):
            after = {field.path: field.after for field in fields}
        case Delete(state=state):
            after = dict.fromkeys(state)
        case Recreate():
            return ()  # of topics only
        case _:
            assert_never(change)
    declared = {path: value for path, value in after.items() if value is not None}
    removed = {path: value for path, value in after.items() if value is None}
    return tuple(
        operation(change.ref, values)
        for operation, values in ((SetCredentials, declared), (RemoveCredentials, removed))
        if values
    )
