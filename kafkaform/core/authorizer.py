"""The decisions of Kafka's authorizer, computed from ACLs.

The order of the rules is that of `StandardAuthorizerData` in Apache Kafka: super users may do everything; an
ACL that denies wins over those that allow; a resource without ACLs follows `allow.everyone.if.no.acl.found`.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from typing import TYPE_CHECKING

from kafkaform.core.acls import ALL, EVERYONE, WILDCARD, Acl, ResourceType
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# IMPLIES_DESCRIBE and IMPLIES_DESCRIBE_CONFIGS of StandardAuthorizerData.
IMPLYING: Mapping[str, frozenset[str]] = {
    "Describe": frozenset({"Describe", "Read", "Write", "Delete", "Alter"}),
    "DescribeConfigs": frozenset({"DescribeConfigs", "AlterConfigs"}),
}
"""The operations whose permission includes another one. A denial includes nothing else."""


class Basis(Enum):
    """The rule that decides a request."""

    SUPER_USER = "super user"
    DENYING_ACL = "ACL that denies"
    ALLOWING_ACL = "ACL that allows"
    NO_MATCHING_ACL = "no ACL allows it"
    NO_ACL_OF_RESOURCE = "the resource has no ACL"


class Decision(Value):
    """The decision on a request.

    Attributes:
        is_allowed: Whether it is allowed; None if that follows from a setting of the brokers that is unknown.
        basis: The rule that decides.
        acl: The ACL that decides; None for the other rules.
    """

    is_allowed: bool | None
    basis: Basis
    acl: Acl | None = None


class AccessRequest(Value):
    """A request to authorize.

    Attributes:
        principal: The principal, such as `User:alice`.
        operation: Kafka's name of the operation.
        name: The name of the resource.
    """

    principal: str
    operation: str
    resource_type: ResourceType
    name: str


class AuthorizerSettings(Value):
    """The settings of the authorizer of a cluster, as far as they are known.

    Attributes:
        super_users: The principals that may do everything (`super.users`); None if unknown.
        allow_everyone: Whether everyone may use a resource without ACLs (`allow.everyone.if.no.acl.found`);
            None if unknown.
        principal: The principal of this account; None if unknown, as Kafka has no request for it.
    """

    super_users: frozenset[str] | None = None
    allow_everyone: bool | None = None
    principal: str | None = None

    def complete(self, declared: AuthorizerSettings) -> AuthorizerSettings:
        """Return the settings with declared values in the place of unknown ones."""
        return AuthorizerSettings(
            declared.super_users if self.super_users is None else self.super_users,
            declared.allow_everyone if self.allow_everyone is None else self.allow_everyone,
            declared.principal or self.principal,
        )


class AccessReading(Value):
    """The access control of a cluster.

    Attributes:
        acls: All ACLs that this version of kafkaform knows.
        settings: The settings of the authorizer.
        unknown: The number of ACLs with a type of resource or an operation of a later Kafka.
    """

    acls: tuple[Acl, ...]
    settings: AuthorizerSettings
    unknown: int = 0


class AccessGrant(Value):
    """The permission of a principal for an operation on a resource.

    Attributes:
        principal: The principal; `User:*` is everyone.
        hosts: The addresses from which it is allowed; `*` is every address.
        except_hosts: The addresses from which it is denied all the same.
        acl: An ACL that allows it; None for a super user.
    """

    principal: str
    hosts: tuple[str, ...]
    except_hosts: tuple[str, ...] = ()
    acl: Acl | None = None


class Authorizer:
    """Decides requests as Kafka's authorizer does.

    Args:
        acls: All ACLs of the cluster.
        settings: The settings of the authorizer.
    """

    def __init__(self, acls: Iterable[Acl], settings: AuthorizerSettings) -> None:
        self.settings = settings
        # By pattern, so that a decision takes a few look-ups, and not a pass over all ACLs.
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = defaultdict(list)
        self._prefixed: dict[tuple[ResourceType, str], list[Acl]] = defaultdict(list)
        for acl in acls:
            (self._prefixed if acl.is_prefix else self._literal)[acl.resource_type, acl.name].append(acl)

    def find_acls(self, resource_type: ResourceType, name: str) -> list[Acl]:
        """Return the ACLs that apply to a resource: by its name, by a prefix of it, or by `*`."""
        literal, prefixed = self._literal, self._prefixed
        applying = [*literal.get((resource_type, name), ())]
        # Asked about `*` itself, these are the ACLs that the name has found already.
        if name != WILDCARD:
            applying += literal.get((resource_type, WILDCARD), ())
        # A look-up for each prefix of the name: a topic's has at most 249 characters, and a cluster may have
        # thousands of ACLs.
        for end in range(len(name) + 1):
            applying += prefixed.get((resource_type, name[:end]), ())
        return applying

    def decide(self, request: AccessRequest, host: str = "") -> Decision:
        """Return the decision on a request, as the authorizer makes it.

        Args:
            host: The address of the client; empty for one that no ACL names.
        """
        if self.settings.super_users and request.principal in self.settings.super_users:
            return Decision(True, Basis.SUPER_USER)
        acls = self.find_acls(request.resource_type, request.name)
        matching = [acl for acl in _select(acls, request) if acl.host in (host or WILDCARD, WILDCARD)]
        for acl in matching:
            if not acl.is_allowed:
                return Decision(False, Basis.DENYING_ACL, acl)
        if matching:
            return Decision(True, Basis.ALLOWING_ACL, matching[0])
        if acls:
            return Decision(False, Basis.NO_MATCHING_ACL)
        return Decision(self.settings.allow_everyone, Basis.NO_ACL_OF_RESOURCE)

    def decide_by_host(self, request: AccessRequest) -> dict[str, Decision]:
        """Decide a request for each address that an ACL names, where the decision differs from other ones."""
        general = self.decide(request)
        if general.basis is Basis.SUPER_USER:
            return {}
        acls = self.find_acls(request.resource_type, request.name)
        hosts = sorted({acl.host for acl in _select(acls, request)} - {WILDCARD, ""})
        decisions = {host: self.decide(request, host) for host in hosts}
        return {host: made for host, made in decisions.items() if made.is_allowed != general.is_allowed}

    def list_grants(self, operation: str, resource_type: ResourceType, name: str) -> list[AccessGrant]:
        """List the principals that may carry out an operation, by ACLs or as super users, sorted by name.

        A denial of everyone leaves super users only. Who is denied and not allowed is not in the list, nor is
        anyone if the resource has no ACL.
        """
        acls = [acl for acl in self.find_acls(resource_type, name) if includes(acl, operation) and acl.host]
        denied: dict[str, set[str]] = defaultdict(set)
        allowed: dict[str, dict[str, Acl]] = defaultdict(dict)
        for acl in acls:
            if acl.is_allowed:
                allowed[acl.principal].setdefault(acl.host, acl)
            else:
                denied[acl.principal].add(acl.host)
        # The authorizer asks for super users first, so that no denial concerns them.
        grants = [AccessGrant(principal, (WILDCARD,)) for principal in self.settings.super_users or ()]
        for principal, by_host in allowed.items():
            refused = denied[principal] | denied[EVERYONE]
            if WILDCARD in refused:
                continue
            hosts = (WILDCARD,) if WILDCARD in by_host else tuple(sorted(by_host.keys() - refused))
            if hosts and principal not in (self.settings.super_users or ()):
                exceptions = tuple(sorted(refused)) if hosts == (WILDCARD,) else ()
                grants.append(AccessGrant(principal, hosts, exceptions, by_host[hosts[0]]))
        return sorted(grants, key=lambda grant: grant.principal)

    def list_denied(self, operation: str, resource_type: ResourceType, name: str) -> list[Acl]:
        """List the ACLs that deny an operation on a resource."""
        acls = self.find_acls(resource_type, name)
        return [acl for acl in acls if not acl.is_allowed and includes(acl, operation) and acl.host]


def _select(acls: Iterable[Acl], request: AccessRequest) -> list[Acl]:
    """Return the ACLs of a resource that are about a request's principal and operation."""
    principals = (request.principal, EVERYONE)
    return [acl for acl in acls if acl.principal in principals and includes(acl, request.operation)]


def includes(acl: Acl, operation: str) -> bool:
    """Return whether an ACL is about an operation: by name, as `All`, or by a permission that includes it."""
    if acl.operation in (ALL, operation):
        return True
    return acl.is_allowed and acl.operation in IMPLYING.get(operation, ())


class AccessCheck(Value):
    """The answer to whether a principal may do something.

    Attributes:
        host: The address of the client; None for one that no ACL names.
        by_host: Without an address, the decisions for particular ones, where they differ.
        settings: The settings of the authorizer.
        unknown: The number of ACLs of a later Kafka that could not be considered.
    """

    request: AccessRequest
    host: str | None
    decision: Decision
    by_host: Mapping[str, Decision]
    settings: AuthorizerSettings
    unknown: int = 0


class GrantList(Value):
    """The principals that may do something.

    Attributes:
        name: The name of the resource.
        grants: The permissions by principal.
        denied: The ACLs that deny it.
        has_acls: Whether the resource has any ACL; without one, the settings decide.
        settings: The settings of the authorizer.
        unknown: The number of ACLs of a later Kafka that could not be considered.
    """

    operation: str
    resource_type: ResourceType
    name: str
    grants: tuple[AccessGrant, ...]
    denied: tuple[Acl, ...]
    has_acls: bool
    settings: AuthorizerSettings
    unknown: int = 0
