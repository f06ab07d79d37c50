"""The fields of an Access: one for each ACL of a principal.

`allow Write on topic orders.v1`, `allow Read on topic prefix orders. from 10.0.0.1`, `deny All on cluster`:
texts and ACLs map one to one. Blanks, control characters, `%`, `:` and `"` are percent-encoded as in URLs; an
empty host is `""`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from kafkaform.core.acls import ALL_OPERATIONS, CLUSTER_NAME, WILDCARD, Acl, ResourceType
from kafkaform.core.authorizer import IMPLYING, includes
from kafkaform.core.printable import is_plain
from kafkaform.core.wording import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

GRANTED, DENIED = "granted", "denied"
"""The values of the fields of ACLs that allow, and that deny."""

_RIGHTS = {
    (resource_type.value, operation): (resource_type, operation)
    for resource_type in ResourceType
    for operation in ALL_OPERATIONS
}
"""The types of resources with their operations, by their words in a path."""
_EMPTY = '""'
_UNRESERVED = re.compile(r"[A-Za-z0-9._*-]+", re.ASCII)
_PATTERN = re.compile(
    r"(allow|deny) (\w+) on (?:cluster|([a-z-]+)( prefix)? (\S+))(?: from (\S+))?", re.ASCII
)


def write_path(acl: Acl) -> str:
    """Return the path of the field of an ACL; its principal is the resource."""
    # Joined, as to format a member of an enumeration takes three times as long: there may be 80,000 of them.
    words = ["allow" if acl.is_allowed else "deny", acl.operation, "on", acl.resource_type]
    if acl.is_prefix:
        words.append("prefix")
    if acl.is_prefix or acl.name != CLUSTER_NAME or acl.resource_type is not ResourceType.CLUSTER:
        words.append(_encode(acl.name))
    if acl.host != WILDCARD:
        words += "from", _encode(acl.host)
    return " ".join(words)


@lru_cache(1 << 17)  # the diff and each rule parse all paths anew, which may be 80,000
def parse_path(path: str, principal: str) -> Acl:
    """Parse the path of a field of a principal.

    Raises:
        ValueError: It is not the path of an ACL.
    """
    match = _PATTERN.fullmatch(path)
    right = _RIGHTS.get((match[3] or "cluster", match[2])) if match else None
    if match is None or right is None:
        raise ValueError(f"{quoted(path)} is not an ACL")
    permission, _, _, prefix, name, host = match.groups()
    resource_type, operation = right
    return Acl(
        resource_type,
        CLUSTER_NAME if name is None else _decode(name),
        prefix is not None,
        principal,
        WILDCARD if host is None else _decode(host),
        operation,
        permission == "allow",
    )


def write_value(acl: Acl) -> str:
    """Return the value of the field of an ACL that exists."""
    return GRANTED if acl.is_allowed else DENIED


def covers(broad: Acl, narrow: Acl) -> bool:
    """Return whether an ACL of the same principal allows, or denies, all that another one does."""
    # Decides for most pairs of a principal's ACLs, all of which a rule compares.
    if broad.name != narrow.name and not broad.is_prefix and broad.name != WILDCARD:
        return False
    return (
        covers_resources(broad, narrow)
        and broad.is_allowed == narrow.is_allowed
        and broad.host in (WILDCARD, narrow.host)
        and includes(broad, narrow.operation)
    )


def covers_resources(broad: Acl, narrow: Acl) -> bool:
    """Return whether an ACL applies to all resources that another one applies to."""
    if broad.resource_type is not narrow.resource_type:
        return False
    # There is one cluster, whether by its name or by a prefix.
    if (broad.name, broad.is_prefix) == (WILDCARD, False) or broad.resource_type is ResourceType.CLUSTER:
        return True
    # A literal `*` is every resource, which no prefix covers; as a prefix, `*` is ordinary text.
    is_wildcard = (narrow.name, narrow.is_prefix) == (WILDCARD, False)
    if broad.is_prefix:
        return narrow.name.startswith(broad.name) and not is_wildcard
    return not narrow.is_prefix and narrow.name == broad.name


def is_implied(acl: Acl, acls: Collection[Acl]) -> bool:
    """Return whether a permission beside an ACL, on the same resources, includes it: Describe beside Read."""
    return acl.is_allowed and any(
        acl._replace(operation=operation) in acls
        for operation in IMPLYING.get(acl.operation, ())
        if operation != acl.operation
    )


def is_covered(acl: Acl, acls: Iterable[Acl]) -> bool:
    """Return whether another one of some ACLs of the same principal covers an ACL."""
    return any(covers(broad, acl) and broad != acl for broad in acls)


@lru_cache(1 << 14)
def _encode(name: str) -> str:
    if _UNRESERVED.fullmatch(name):  # nearly all names, in a fifth of the time
        return name
    if not name:
        return _EMPTY
    # Python keeps bytes of a command line that are not UTF-8 as surrogates: each is written as its byte.
    return "".join(
        char
        if is_plain(char) and not char.isspace() and char not in '%:"'
        else "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogateescape"))
        for char in name
    )


@lru_cache(1 << 14)
def _decode(text: str) -> str:
    return "" if text == _EMPTY else unquote(text, errors="surrogateescape")
