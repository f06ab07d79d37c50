"""Answers on access as text and JSON: whether a principal may do something, and who may."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafkaform.core.acls import EVERYONE, WILDCARD, Acl, ResourceType, describe_resource
from kafkaform.core.authorizer import AccessCheck, AccessGrant, AuthorizerSettings, Basis, Decision, GrantList
from kafkaform.core.printable import clipped
from kafkaform.core.rights import Right, grant
from kafkaform.core.wording import counted
from kafkaform.report.document import Column, Role, TextSpan
from kafkaform.report.page import PROSE, Page

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT_VERSION = 1
_VERDICTS = {True: ("yes", "bold green"), False: ("no", "bold red"), None: ("unknown", "bold yellow")}
_SUPER_USERS_HIDDEN = (
    "brokers do not show super.users: declare it as clusters.NAME.authorizer.superUsers in kafkaform.yaml"
)
_DEFAULT_HIDDEN = (
    "brokers do not show allow.everyone.if.no.acl.found: declare it as "
    "clusters.NAME.authorizer.allowEveryoneIfNoAclFound in kafkaform.yaml"
)


def render_access(check: AccessCheck, *, width: int | None = None) -> Page:
    """Render whether a principal may do something, the reason, and the command that would allow it.

    Args:
        width: The columns at which prose wraps; None for no wrapping.
    """
    request, decision = check.request, check.decision
    page = Page(width)
    verdict, style = _VERDICTS[decision.is_allowed]
    principal = clipped(request.principal, 280)
    resource = clipped(describe_resource(request.resource_type, request.name), 280)
    host = f" from {clipped(check.host, 80)}" if check.host else ""
    page.line((verdict, style), f": {principal}, {request.operation} on {resource}{host}")
    page.note("", _explain(decision), indent=2)
    for address, made in check.by_host.items():
        page.note(
            "", f"from {clipped(address, 80)}: {_VERDICTS[made.is_allowed][0]}: {_explain(made)}", indent=2
        )
    # Against a deny, another grant does not help: brokers let it win over every allow.
    if decision.basis is Basis.NO_MATCHING_ACL:
        name = "" if request.resource_type is ResourceType.CLUSTER else request.name
        right = Right(request.operation, request.resource_type, name)
        page.verbatim("grant it: ", grant(right, principal=request.principal), indent=2)
    # A yes holds whatever the unknown settings are: nothing in them takes a right away.
    if decision.is_allowed is not True:
        no_acls = decision.basis is Basis.NO_ACL_OF_RESOURCE
        for note in _list_notes(check.settings, check.unknown, no_acls=no_acls):
            page.note("note: ", note, indent=2)
    return page


def _explain(decision: Decision) -> str:
    match decision.basis:
        case Basis.SUPER_USER:
            return "it is a super user"
        case Basis.ALLOWING_ACL | Basis.DENYING_ACL:
            return clipped(f"ACL: {decision.acl}", PROSE)
        case Basis.NO_MATCHING_ACL:
            return "no ACL allows it"
        case Basis.NO_ACL_OF_RESOURCE if decision.is_allowed is None:
            return "the resource has no ACL: allow.everyone.if.no.acl.found decides"
        case Basis.NO_ACL_OF_RESOURCE:
            value = "true" if decision.is_allowed else "false"
            return f"the resource has no ACL, and allow.everyone.if.no.acl.found is {value}"


def _list_notes(settings: AuthorizerSettings, unknown: int, *, no_acls: bool) -> Iterator[str]:
    if settings.super_users is None:
        yield f"super users may do everything; {_SUPER_USERS_HIDDEN}"
    if no_acls and settings.allow_everyone is None:
        yield _DEFAULT_HIDDEN
    if unknown:
        yield f"{counted(unknown, 'ACL')} of a later Kafka not considered"


def access_to_json(check: AccessCheck) -> str:
    """Return the answer as JSON; `allowed` is null if it follows from a setting that is unknown."""
    request = check.request
    content = {
        "format_version": FORMAT_VERSION,
        "principal": request.principal,
        "operation": request.operation,
        "resource": _resource_to_json(request.resource_type, request.name),
        "host": check.host,
        **_decision_to_json(check.decision),
        "hosts": [{"host": host, **_decision_to_json(made)} for host, made in check.by_host.items()],
        "super_users_known": check.settings.super_users is not None,
        "unknown_acls": check.unknown,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _resource_to_json(resource_type: ResourceType, name: str) -> dict[str, str]:
    return {"type": resource_type.value, "name": name}


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    acl = None if decision.acl is None else _acl_to_json(decision.acl)
    return {"allowed": decision.is_allowed, "basis": decision.basis.name.lower(), "acl": acl}


def _acl_to_json(acl: Acl) -> dict[str, Any]:
    return {
        "resource": _resource_to_json(acl.resource_type, acl.name),
        "pattern": "prefixed" if acl.is_prefix else "literal",
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission": "allow" if acl.is_allowed else "deny",
    }


def render_grants(grants: GrantList, *, width: int | None = None) -> Page:
    """Render a table of the principals that may do something, and a summary.

    Args:
        width: The width of the terminal in columns; None if the output is no terminal.
    """
    page = Page(width)
    rows = [
        (
            TextSpan(grant_.principal, Role.NAME),
            _describe_hosts(grant_),
            "super user" if grant_.acl is None else grant_.acl.describe_right(),
        )
        for grant_ in grants.grants
    ]
    if rows:
        columns = (Column("PRINCIPAL", least=16), Column("HOST", least=8), Column("BY", least=16))
        page.table(columns, rows)
        page.line()
    page.line((_summarise(grants), "bold"))
    for acl in grants.denied:
        page.note("", clipped(f"ACL: {acl}", PROSE), "yellow", indent=2)
    for note in _list_notes(grants.settings, grants.unknown, no_acls=not grants.has_acls):
        page.note("note: ", note, indent=2)
    return page


def _describe_hosts(grant_: AccessGrant) -> str:
    if grant_.hosts != (WILDCARD,):
        return ", ".join(grant_.hosts)
    return f"any but {', '.join(grant_.except_hosts)}" if grant_.except_hosts else "any"


def _summarise(grants: GrantList) -> str:
    resource = clipped(describe_resource(grants.resource_type, grants.name), 280)
    right = f"{grants.operation} on {resource}"
    if not grants.has_acls:
        everyone = {
            True: "everyone may",
            False: "only super users may",
            None: "everyone or only super users may",
        }
        return f"{right}: the resource has no ACL; {everyone[grants.settings.allow_everyone]}"
    count = counted(len(grants.grants), "principal")
    is_for_everyone = any(grant_.principal == EVERYONE for grant_ in grants.grants)
    return f"{right}: {count}{', one of them everyone' if is_for_everyone else ''}"


def grants_to_json(grants: GrantList) -> str:
    """Return the permissions as JSON; `everyone` is null if it follows from a setting that is unknown."""
    everyone: bool | None = any(grant_.principal == EVERYONE for grant_ in grants.grants)
    content = {
        "format_version": FORMAT_VERSION,
        "operation": grants.operation,
        "resource": _resource_to_json(grants.resource_type, grants.name),
        "everyone": everyone if grants.has_acls else grants.settings.allow_everyone,
        "grants": [
            {
                "principal": grant_.principal,
                "hosts": list(grant_.hosts),
                "except_hosts": list(grant_.except_hosts),
                "acl": None if grant_.acl is None else _acl_to_json(grant_.acl),
            }
            for grant_ in grants.grants
        ],
        "denied": [_acl_to_json(acl) for acl in grants.denied],
        "super_users_known": grants.settings.super_users is not None,
        "unknown_acls": grants.unknown,
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
