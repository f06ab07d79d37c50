"""The resources that declarations name besides their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.acl_fields import parse_path
from kafkaform.core.acls import WILDCARD, ResourceType
from kafkaform.core.model import ResourceRef
from kafkaform.resources import ACCESS, KINDS, placed_ref, reader_ref
from kafkaform.resources.client_quota import ClientQuotaKind
from kafkaform.resources.client_quota.entity import USER, parse_entity
from kafkaform.resources.user import UserKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.core.model import Desired

_PRINCIPAL = "User:"


def list_references(desired: Desired) -> Iterator[ResourceRef]:
    """Yield the resources that a declaration names: topics of a group, resources of ACLs, users.

    Prefixes and wildcards of ACLs name no single resource. A tombstone names nothing.
    """
    ref = desired.ref
    if desired.state is None:
        return
    yield from map(placed_ref, KINDS[ref.kind].reads(desired.intent))
    if ref.kind == ACCESS.name:
        yield _user_ref(ref.name.removeprefix(_PRINCIPAL))
        for path in desired.state:
            acl = parse_path(path, ref.name)
            if acl.is_prefix or acl.name == WILDCARD:
                continue
            match acl.resource_type:
                case ResourceType.TOPIC:
                    yield placed_ref(acl.name)
                case ResourceType.GROUP:
                    yield reader_ref(acl.name)
                case ResourceType.USER:
                    yield _user_ref(acl.name.removeprefix(_PRINCIPAL))
                case ResourceType.CLUSTER | ResourceType.TRANSACTIONAL_ID | ResourceType.DELEGATION_TOKEN:
                    pass  # of no kind
    elif ref.kind == ClientQuotaKind.name:
        user = dict(parse_entity(ref.name).parts).get(USER)
        if user is not None:
            yield _user_ref(user)


def _user_ref(name: str) -> ResourceRef:
    return ResourceRef(UserKind.name, name)
