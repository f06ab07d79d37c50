"""The operations that carry out a change of an Access.

Grants are sent before revocations, so that an apply that is stopped between the two locks nobody out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from kafkaform.core.acl_fields import parse_path, write_path, write_value
from kafkaform.core.model import Change, Create, Delete, Recreate, Update
from kafkaform.core.operations import Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kafkaform.core.acls import Acl
    from kafkaform.core.model import State
    from kafkaform.core.operations import FieldFormatter


class AlterAccess(Operation):
    """Create and delete ACLs of one principal; others stay as they are.

    Attributes:
        created: The ACLs to create.
        deleted: The ACLs to delete.
    """

    created: tuple[Acl, ...] = ()
    deleted: tuple[Acl, ...] = ()

    @property
    def weight(self) -> int:
        """One for each ACL."""
        return len(self.created) + len(self.deleted)

    def words(self, _format_field: FieldFormatter) -> str:
        """Return each ACL, and whether it is granted, denied or removed."""
        created = [f"{write_path(acl)} {write_value(acl)}" for acl in self.created]
        return ", ".join([*created, *(f"{write_path(acl)} removed" for acl in self.deleted)])

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the paths of the ACLs."""
        return [write_path(acl) for acl in (*self.created, *self.deleted)]


class GrantAccess(AlterAccess):
    """Allow more: create ACLs that allow, and delete ACLs that deny."""

    phase = Phase.SETTLE


class RevokeAccess(AlterAccess):
    """Allow less: delete ACLs that allow, and create ACLs that deny."""

    phase = Phase.REVOKE


def list_values(change: Change) -> State:
    """Return the fields of a change with their values afterwards."""
    match change:
        case Create(state=state):
            return state
        case Update(fields=fields):
            return {field.path: field.after for field in fields}
        case Delete(state=state):
            return dict.fromkeys(state)
        case Recreate():
            return {}  # of topics only
        case _:
            assert_never(change)


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operations of a change: what it grants, then what it revokes."""
    acls = [
        (parse_path(path, change.ref.name), value is not None) for path, value in list_values(change).items()
    ]
    granted, revoked = (
        operation(
            change.ref,
            tuple(acl for acl, is_created in acls if is_created and acl.is_allowed is grants),
            tuple(acl for acl, is_created in acls if not is_created and acl.is_allowed is not grants),
        )
        for operation, grants in ((GrantAccess, True), (RevokeAccess, False))
    )
    return tuple(operation for operation in (granted, revoked) if operation.weight)
