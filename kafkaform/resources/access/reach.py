"""The numbers of topics and groups with which principals may do something, before and after a plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.acls import EVERYONE, ResourceType
from kafkaform.core.authorizer import AccessRequest, Authorizer
from kafkaform.core.values import Value
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.resources.access.risk import AccessFacts
    from kafkaform.resources.base import UsageFacts

CODE = "KF431"
"""The code of the note about a principal."""

_VERBS: Mapping[ResourceType, Mapping[str, str]] = {
    ResourceType.TOPIC: {
        "Read": "read",
        "Write": "write to",
        "Delete": "delete",
        "Alter": "alter",
        "AlterConfigs": "configure",
    },
    ResourceType.GROUP: {"Read": "use", "Delete": "delete"},
}
"""The operations that are compared: what these include, such as Describe, would only repeat them."""


class ReachChange(Value):
    """The number of resources with which a principal may do something, before and after a plan.

    Attributes:
        principal: The principal; `User:*` is one that no ACL names.
        resource_type: The type of the resources.
        operations: Kafka's names of what it may do with equally many.
        before: The number of resources before.
        after: The number of resources after.
        is_certain: Whether the setting is known by which everyone may use a resource without ACLs; otherwise
            the numbers are for one that lets everyone.
    """

    principal: str
    resource_type: ResourceType
    operations: Sequence[str]
    before: int
    after: int
    is_certain: bool = True


def describe(principal: str, changes: Iterable[ReachChange]) -> str:
    """Describe what changes for a principal in a line: `User:ui could read 4 topics, afterwards 312`."""
    # Capitalised, as it comes first where notes are sorted: the others follow from their own changes.
    who = "Anyone else" if principal == EVERYONE else principal
    given = ""
    parts = []
    for change in changes:
        verbs = ", ".join(_VERBS[change.resource_type][operation] for operation in change.operations)
        before = counted(change.before, change.resource_type)
        parts.append(f"{verbs} {before}, afterwards {change.after:,}")
        given = "" if change.is_certain else " (if allow.everyone.if.no.acl.found is true)"
    return f"{who} could {'; '.join(parts)}{given}"


def compare(access: AccessFacts, usage: UsageFacts) -> Iterator[ReachChange]:
    """Yield what differs for principals whose ACLs a plan changes, and for one that no ACL names."""
    changed = access.created | access.deleted
    principals = {acl.principal for acl in changed} - (access.settings.super_users or frozenset())
    names = {ResourceType.TOPIC: usage.topics, ResourceType.GROUP: usage.groups}
    is_certain = access.settings.allow_everyone is not None
    for resource_type in [each for each in names if any(acl.resource_type is each for acl in changed)]:
        before, after = (
            _count(authorizer, resource_type, names[resource_type], principals)
            for authorizer in (access.before, access.after)
        )
        for principal in sorted(principals | {EVERYONE}):
            together: dict[tuple[int, int], list[str]] = {}
            for operation in _VERBS[resource_type]:
                counts = before[principal, operation], after[principal, operation]
                if counts[0] != counts[1]:
                    together.setdefault(counts, []).append(operation)
            for counts, operations in together.items():
                yield ReachChange(principal, resource_type, operations, *counts, is_certain)


def _count(
    authorizer: Authorizer, resource_type: ResourceType, names: Sequence[str], principals: Collection[str]
) -> Counter[tuple[str, str]]:
    """Count the resources with which principals, and one that no ACL names, may do each operation."""
    counts: Counter[tuple[str, str]] = Counter()
    for name in names:
        named = {acl.principal for acl in authorizer.find_acls(resource_type, name)}.intersection(principals)
        for operation in _VERBS[resource_type]:
            requests = {
                principal: AccessRequest(principal, operation, resource_type, name)
                for principal in {EVERYONE, *named}
            }
            may = {
                principal: authorizer.decide(request).is_allowed is not False
                for principal, request in requests.items()
            }
            # What everyone may do is counted once, and for the others how they differ.
            for principal in named - {EVERYONE}:
                counts[principal, operation] += may[principal] - may[EVERYONE]
            counts[EVERYONE, operation] += may[EVERYONE]
    for principal in {*principals} - {EVERYONE}:
        for operation in _VERBS[resource_type]:
            counts[principal, operation] += counts[EVERYONE, operation]
    return counts
