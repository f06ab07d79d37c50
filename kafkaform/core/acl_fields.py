"""The fields of an Access: one for each ACL of a principal.

`allow Write on topic orders.v1`, `allow Read on topic prefix orders. from 10.0.0.1`, `deny All on cluster`:
texts and ACLs map one to one. Blanks, control characters, `%` and `:` are percent-encoded as in URLs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kafkaform.core.acls import ALL, CLUSTER_NAME, OPERATIONS, WILDCARD, Acl, ResourceType
from kafkaform.core.authorizer import includes
from kafkaform.core.printable import is_plain
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

GRANTED, DENIED = "granted", "denied"
"""The values of the fields of ACLs that allow, and that deny."""

_PLAIN = re.compile(r"[A-Za-z0-9._*-]+", re.ASCII)
_PATTERN = re.compile(
    r"(?P<permission>allow|deny) (?P<operation>\w+) on "
    r"(?:(?P<cluster>cluster)|(?P<type>[a-z-]+)(?P<prefix> prefix)? (?P<name>\S+))(?: from (?P<host>\S+))?",
    re.ASCII,
)


def write_path(acl: Acl) -> str:
    """Return the path of the field of an ACL; its principal is the resource."""
    permission = "allow" if acl.is_allowed else "deny"
    host = "" if acl.host == WILDCARD else f" from {_encode(acl.host)}"
    if acl.resource_type is ResourceType.CLUSTER and acl.name == CLUSTER_NAME and not acl.is_prefix:
        return f"{permission} {acl.operation} on cluster{host}"
    prefix = " prefix" if acl.is_prefix else ""
    return f"{permission} {acl.operation} on {acl.resource_type}{prefix} {_encode(acl.name)}{host}"


def parse_path(path: str, principal: str) -> Acl:
    """Parse the path of a field of a principal.

    Raises:
        ValueError: It is not the path of an ACL.
    """
    match = _PATTERN.fullmatch(path)
    types = {each.value: each for each in ResourceType}
    resource_type = (
        ResourceType.CLUSTER if match and match["cluster"] else types.get(match["type"] if match else "")
    )
    if match is None or resource_type is None or match["operation"] not in (ALL, *OPERATIONS[resource_type]):
        raise ValueError(f"{quoted(path)} is not an ACL")
    return Acl(
        resource_type,
        CLUSTER_NAME if match["cluster"] else unquote(match["name"], errors="surrogateescape"),
        match["prefix"] is not None,
        principal,
        WILDCARD if match["host"] is None else unquote(match["host"]),
        match["operation"],
        match["permission"] == "allow",
    )


def write_value(acl: Acl) -> str:
    """Return the value of the field of an ACL that exists."""
    return GRANTED if acl.is_allowed else DENIED


def covers(broad: Acl, narrow: Acl) -> bool:
    """Return whether an ACL of the same principal allows, or denies, all that another one does."""
    return (
        broad.is_allowed == narrow.is_allowed
        and broad.host in (WILDCARD, narrow.host)
        and includes(broad, narrow.operation)
        and covers_resources(broad, narrow)
    )


def covers_resources(broad: Acl, narrow: Acl) -> bool:
    """Return whether an ACL applies to all resources that another one applies to."""
    if broad.resource_type is not narrow.resource_type:
        return False
    if (broad.name, broad.is_prefix) == (WILDCARD, False):
        return True
    # A literal `*` is every resource, which no prefix covers; as a prefix, `*` is ordinary text.
    is_wildcard = (narrow.name, narrow.is_prefix) == (WILDCARD, False)
    if broad.is_prefix:
        return narrow.name.startswith(broad.name) and not is_wildcard
    return not narrow.is_prefix and narrow.name == broad.name


def is_covered(acl: Acl, acls: Iterable[Acl]) -> bool:
    """Return whether another one of some ACLs of the same principal covers an ACL."""
    return any(broad != acl and covers(broad, acl) for broad in acls)


def _encode(name: str) -> str:
    if _PLAIN.fullmatch(name):  # nearly all names, in a fifth of the time
        return name
    # Python keeps bytes of a command line that are not UTF-8 as surrogates: each is written as its byte.
    return "".join(
        char
        if is_plain(char) and not char.isspace() and char not in "%:"
        else "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogateescape"))
        for char in name
    )
