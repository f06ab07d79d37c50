"""The operations that carry out a change of an Access.

Grants are sent before revocations, so that an apply that is stopped between the two locks nobody out. Denials
are removed last: a topic that is closed until it is deleted does not open before.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, assert_never

from kafkaform.core.acl_fields import parse_path, write_path, write_value
from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.model import Change, Create, Delete, Recreate, ResourceRef, State, Update
from kafkaform.core.operations import FieldFormatter, Operation, Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_TOPIC = "Topic"


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
    """Allow more: create ACLs that allow."""

    phase = Phase.SETTLE


class RevokeAccess(AlterAccess):
    """Allow less: delete ACLs that allow, and create ACLs that deny."""

    phase = Phase.REVOKE


class RemoveDenials(AlterAccess):
    """Deny less: delete ACLs that deny."""

    phase = Phase.RELEASE

    @property
    def needs(self) -> Collection[ResourceRef]:
        """The topics: one that is to be deleted stays closed until then."""
        topics = (acl for acl in self.deleted if acl.resource_type is ResourceType.TOPIC)
        return [ResourceRef(_TOPIC, acl.name) for acl in topics if not acl.is_prefix]


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
    """Return the operations of a change: what it grants, what it revokes, then removed denials."""
    acls: dict[tuple[bool, bool], list[Acl]] = defaultdict(list)
    for path, value in list_values(change).items():
        acl = parse_path(path, change.ref.name)
        acls[value is not None, acl.is_allowed].append(acl)
    operations = (
        GrantAccess(change.ref, created=tuple(acls[True, True])),
        RevokeAccess(change.ref, created=tuple(acls[True, False]), deleted=tuple(acls[False, True])),
        RemoveDenials(change.ref, deleted=tuple(acls[False, False])),
    )
    return tuple(operation for operation in operations if operation.weight)
