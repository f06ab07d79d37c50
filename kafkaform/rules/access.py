"""Rules about declared access."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import islice, takewhile
from typing import TYPE_CHECKING, cast

from kafkaform.core.acl_fields import covers, covers_resources, parse_path, write_path
from kafkaform.core.acls import ALL, EVERYONE, OPERATIONS, USER_PREFIX, WILDCARD, Acl, ResourceType
from kafkaform.core.apply_result import RECORD_TOPIC
from kafkaform.core.authorizer import includes
from kafkaform.core.lock import NAME as LOCK
from kafkaform.core.model import Desired, Severity
from kafkaform.core.wording import listed, nearest, quoted
from kafkaform.resources import ACCESS, GROUP, TOPIC, topic_ref
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.resources.access.spec import find_declaring
from kafkaform.rules.catalogue import DeclaredResource, Finding, RuleContext, RuleOfEach, cache_result, rule
from kafkaform.rules.group_values import list_groups
from kafkaform.rules.topic_values import list_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence


# These show names and settings; records are neither read nor changed.
_HARMLESS = frozenset({"Describe", "DescribeConfigs"})
_CHANGING = frozenset({ALL, "Write", "Create", "Delete", "Alter", "AlterConfigs"})
_DELIMITERS = frozenset("._-:/#")


_DIGITS = re.compile("[0-9]+")


class DeclaredPrincipal(DeclaredResource):
    """A principal with declared ACLs."""

    def __init__(self, desired: Desired, context: RuleContext) -> None:
        super().__init__(desired, context)
        self.acls = [parse_path(path, self.name) for path in desired.state or ()]


@cache_result
def _list_principals(context: RuleContext) -> list[DeclaredPrincipal]:
    return [DeclaredPrincipal(desired, context) for desired in context.of_kind(ACCESS.name) if desired.state]


principal_rule = RuleOfEach(_list_principals)


@cache_result
def _list_acls_of_everyone(context: RuleContext) -> list[Acl]:
    return [acl for each in _list_principals(context) if each.name == EVERYONE for acl in each.acls]


@cache_result
def _map_group_topics(context: RuleContext) -> Mapping[str, tuple[str, ...]]:
    """Return the topics that each declared group reads."""
    return {group.name: GROUP.reads(group.desired.intent) for group in list_groups(context)}


@principal_rule("KF601", Severity.WARNING)
def access_of_everyone(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """Everyone may do more than look: an ACL of `User:*` allows it.

    It applies to every principal that can log in. Name the principals that need the right.
    """
    for acl in principal.acls if principal.name == EVERYONE else ():
        if acl.is_allowed and acl.operation not in _HARMLESS:
            message = f"everyone has {acl.describe_right()}"
            yield Finding(message, "name the principals that need it", path=write_path(acl))


@principal_rule("KF602", Severity.WARNING)
def prefix_without_delimiter(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """A prefix of names does not end with a delimiter, and includes names of others.

    The prefix `orders` also includes `orders-internal`. Reported where a declared or live topic or group
    shows it. End the prefix with the delimiter of your names.
    """
    for acl in principal.acls:
        if not acl.is_prefix or not acl.is_allowed or acl.name[-1] in _DELIMITERS:
            continue
        size, names = len(acl.name), _list_names_by_type(principal.context).get(acl.resource_type, [])
        included = _list_included(names, acl.name)
        following = {name[size : size + 1] for name in included} - {""}
        if len(following & _DELIMITERS) > 1 or following - _DELIMITERS:
            # Rather a name that does not go on with a dot: it shows what is included by mistake.
            example = min(included, key=lambda name: (name[size : size + 1] == ".", name))
            hint = f"end it with a delimiter: {quoted(acl.name + '.')}"
            yield Finding(f"the prefix {acl.name} includes {example}, too", hint, path=write_path(acl))


def _list_names(context: RuleContext, kind: str) -> list[str]:
    refs = {*(desired.ref for desired in context.of_kind(kind)), *context.inventory}
    return sorted(ref.name for ref in refs if ref.kind == kind)


@cache_result
def _list_names_by_type(context: RuleContext) -> dict[ResourceType, list[str]]:
    kinds = {ResourceType.TOPIC: TOPIC.name, ResourceType.GROUP: GROUP.name}
    return {resource_type: _list_names(context, kind) for resource_type, kind in kinds.items()}


@cache_result
def _sort_folded(context: RuleContext) -> dict[ResourceType, list[str]]:
    return {
        resource_type: sorted(names, key=_fold)
        for resource_type, names in _list_names_by_type(context).items()
    }


@principal_rule("KF603", Severity.WARNING)
def group_without_topic(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """A principal may use a declared group, and may not read a topic of it.

    A member needs Read on its group and on every topic that it subscribes to. `consumes: [{group: NAME}]`
    without `topics:` gives Read on all topics of the group's manifest.
    """
    context = principal.context
    if not context.is_complete(ACCESS.name):
        return  # other manifests may give it the right
    for acl in principal.acls:
        # A prefix stands for groups that no manifest declares, too, whose topics are not known.
        if acl.resource_type is not ResourceType.GROUP or acl.operation != "Read" or acl.is_prefix:
            continue
        # Each principal has those of everyone besides its own.
        granted = (*principal.acls, *_list_acls_of_everyone(context))
        for topic in _map_group_topics(context).get(acl.name, ()):
            needed = Acl(ResourceType.TOPIC, topic, False, acl.principal, acl.host, "Read", True)
            if not any(covers(each, needed) for each in granted):
                yield Finding(
                    f"it may use the group {acl.name}, but not read its topic {topic}",
                    f"add {topic} to its topics, or leave them out to include all of the group",
                    path=write_path(acl),
                )


@principal_rule("KF604", Severity.WARNING)
def access_to_missing_topic(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An ACL names a topic that no manifest declares and that does not exist.

    The name may be misspelt, or the topic is gone and a later one of that name would be open to the
    principal. Correct the name, remove the right, or declare the topic. Topics that the principal may
    create are not reported. In a plan, a new right on a misspelt name is an error.
    """
    context, own = principal.context, principal.acls
    if context.subset:
        return  # another manifest may declare it
    live = context.live.get(principal.desired.ref)
    is_offline = context.facts is None
    flaw = "is not declared" if is_offline else "does not exist, and no manifest declares it"
    existing, known = _list_existing_topics(context)
    missing = {
        acl.name: acl
        for acl in reversed(own)
        if acl.resource_type is ResourceType.TOPIC and not acl.is_prefix
        if acl.name not in known and topic_ref(acl.name) not in context.invisible
    }
    for name, acl in missing.items():
        if any(includes(each, "Create") and covers_resources(each, acl) for each in own if each.is_allowed):
            continue
        near = nearest(name, existing)
        if near is not None or not is_offline:
            hint = f"did you mean {near!r}?" if near else "remove the right, or declare the topic"
            path = write_path(acl)
            # Of a right that exists, the topic may have been deleted since.
            is_new = not is_offline and (live is None or path not in live.state)
            is_typo = is_new and near is not None and _DIGITS.sub("0", near) != _DIGITS.sub("0", name)
            is_error = is_typo and topic_ref(near or "") in context.declared
            yield Finding(f"topic {name} {flaw}", hint, Severity.ERROR if is_error else None, path=path)


@cache_result
def _list_existing_topics(context: RuleContext) -> tuple[set[str], set[str]]:
    """Return the topics that are declared or live, and all that KF604 does not report."""
    existing = {*_list_names(context, TOPIC.name), LOCK, RECORD_TOPIC}
    # KF210 reports those of declared groups.
    groups = _map_group_topics(context).values() if context.facts is None else ()
    return existing, {WILDCARD, *existing, *(topic for topics_read in groups for topic in topics_read)}


@principal_rule("KF605", Severity.INFO)
def redundant_access(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An ACL allows nothing that another one of the same principal does not allow.

    It has no effect. Remove it from the manifest; the apply removes the live ACL without consent.
    """
    for acl in principal.acls:
        broad = next((wide for wide in principal.acls if covers(wide, acl) and wide != acl), None)
        # Of two that include each other, both would be reported, and neither could stay.
        if broad is not None and not (covers(acl, broad) and covers_resources(acl, broad)):
            message = f"{acl.describe_right()} is included in {broad.describe_right()}"
            yield Finding(message, "remove it", path=write_path(acl))


@principal_rule("KF606", Severity.INFO)
def read_without_group(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """A principal may read a topic that none of its groups reads.

    Reported where manifests declare all groups of a principal. Remove the right, or add the topic to the
    group's manifest. If the application reads without a group, waive the rule.
    """
    if not principal.context.is_complete(ACCESS.name):
        return  # other manifests may declare more groups of the principal
    topics_of = _map_group_topics(principal.context)
    allowed = [acl for acl in principal.acls if acl.is_allowed]
    own_groups = {acl.name for acl in allowed if acl.resource_type is ResourceType.GROUP}
    if not own_groups or not own_groups <= topics_of.keys():
        return
    needed = {WILDCARD, *(topic for group in own_groups for topic in topics_of[group])}
    names = listed(sorted(own_groups))
    for acl in allowed:
        is_read = acl.resource_type is ResourceType.TOPIC and acl.operation == "Read"
        if is_read and not acl.is_prefix and acl.name not in needed:
            yield Finding(
                f"it may read topic {acl.name}, which none of its groups reads ({names})",
                "remove the right, or add the topic to the manifest of the group",
                path=write_path(acl),
            )


@principal_rule("KF607", Severity.WARNING)
def change_of_other_team(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An Access of one team lets a principal change a topic of another one.

    Teams are the labels of manifests. The owner of a topic should decide who writes to it: declare the
    right in an Access manifest of that team. Rights to read, and on `*`, are not reported.
    """
    names, team_of = _map_teams(principal.context)
    for acl in principal.acls:
        if acl.resource_type is not ResourceType.TOPIC or not acl.is_allowed:
            continue
        if acl.operation not in _CHANGING or (acl.name == WILDCARD and not acl.is_prefix):
            continue
        path = write_path(acl)
        teams = {manifest.intent.team for manifest in find_declaring(principal.desired, path)} - {""}
        included = _list_included(names, acl.name) if acl.is_prefix else [acl.name]
        foreign = [name for name in included if teams and team_of.get(name) not in {None, *teams}]
        if foreign:
            yield Finding(
                f"a manifest of team {listed(sorted(teams))} gives it {acl.describe_right()}, and topic "
                f"{foreign[0]} is of team {team_of[foreign[0]]}",
                "declare it in a manifest of that team, which then decides",
                path=path,
            )


@cache_result
def _map_teams(context: RuleContext) -> tuple[list[str], dict[str, str]]:
    """Return the declared topics that have a team, sorted, and the team of each."""
    team_of = {
        topic.name: topic.desired.intent.team for topic in list_topics(context) if topic.desired.intent.team
    }
    return sorted(team_of), team_of


@rule("KF608", Severity.WARNING)
def access_to_deleted_topic(context: RuleContext) -> Iterator[Finding]:
    """ACLs name a topic that its manifest deletes, and stay when it is gone.

    A later topic of that name would be open to the same principals. Remove the rights together with the
    topic.
    """
    deleted = {topic.ref.name: topic for topic in context.of_kind(TOPIC.name) if topic.state is None}

    def outlives(acl: Acl) -> bool:
        is_grant = acl.is_allowed and acl.resource_type is ResourceType.TOPIC
        return is_grant and not acl.is_prefix and acl.name in deleted

    for principal in _list_principals(context):
        for acl in filter(outlives, principal.acls):
            text = f"topic {acl.name} is deleted, and the ACL for {acl.operation} stays"
            yield Finding(text, "remove the right, too", path=write_path(acl), subject=principal.desired)
    declared = {desired.ref.name for desired in context.of_kind(ACCESS.name)}
    principals: dict[str, set[str]] = {}
    for acl in context.facts.get(AccessFacts).reading.acls if context.facts is not None and deleted else ():
        if outlives(acl) and acl.principal not in declared:
            principals.setdefault(acl.name, set()).add(acl.principal)
    for name, named in sorted(principals.items()):
        text = f"ACLs of {listed(sorted(named))} name this topic, and stay when it is deleted"
        yield Finding(text, "remove them, too", subject=deleted[name])


@principal_rule("KF609", Severity.WARNING)
def denied_access(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An ACL allows what another one denies, and so has no effect.

    Denials win, those of the principal and those of `User:*`. Remove one of the two.
    """
    own, everyone = principal.acls, _list_acls_of_everyone(principal.context)
    denials = [acl for acl in (*own, *everyone) if not acl.is_allowed]
    for acl in own if denials else ():
        denied = acl._replace(is_allowed=False)
        denial = next((wide for wide in denials if acl.is_allowed and covers(wide, denied)), None)
        if denial is not None:
            message = f"{acl.describe_right()} is allowed, and has no effect: {denial}"
            yield Finding(message, "remove one of the two", path=write_path(acl))


@principal_rule("KF610", Severity.WARNING)
def twin_of_prefix(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """A prefix leaves out names that differ from it only in `.` and `_`.

    The prefix `orders.` does not include `orders_v1`. Use only one of the two characters in names. It is
    information if the prefix includes others.
    """
    context = principal.context
    for acl in principal.acls:
        if not acl.is_prefix or not acl.is_allowed:
            continue
        names = _sort_folded(context).get(acl.resource_type, [])
        names = _list_included(names, _fold(acl.name), fold=_fold)
        twin = next((name for name in names if not name.startswith(acl.name)), None)
        if twin is not None:
            used = any(name.startswith(acl.name) for name in names)
            yield Finding(
                f"the prefix {acl.name} does not include {twin}, which differs in '.' and '_'",
                f"use the prefix of its name, if that is meant: {quoted(twin[: len(acl.name)])}",
                Severity.INFO if used or context.subset or context.unread else None,
                write_path(acl),
            )


@principal_rule("KF612", Severity.WARNING)
def needless_operation(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An ACL is for an operation that no request needs on a resource of its type.

    Brokers never ask for it, as for Write on a group. It may still include Describe or DescribeConfigs.
    Write the operation that is meant, or remove it.
    """
    for acl in principal.acls:
        known = OPERATIONS[acl.resource_type]
        if acl.operation not in (ALL, *known):
            included = [operation for operation in known if includes(acl, operation)]
            effect = f"it only includes {listed(included)}" if included else "it has no effect"
            message = f"no request needs {acl.describe_right()}: {effect}"
            yield Finding(message, f"use {', '.join(known)}", path=write_path(acl))


@principal_rule("KF613", Severity.WARNING)
def impossible_client(principal: DeclaredPrincipal) -> Iterator[Finding]:
    """An ACL is for a client that cannot exist: its host is not an address, or its principal is misspelt.

    Brokers compare both as text. Networks, lists and names of hosts match no client, and an IPv6 address is
    written in full, as in `0:0:0:0:0:0:0:1`. Users are `User:NAME`, with a capital and without blanks.
    """
    type_, _, name = principal.name.partition(":")
    user = f"{USER_PREFIX}{name.strip() or 'NAME'}"
    if type_.strip().lower() == "user" and principal.name != user:
        yield Finding(f"{quoted(principal.name)} is not the principal of a client", f"write {user}")
    for acl in principal.acls:
        address = None if acl.host == WILDCARD else _write_address(acl.host)
        if acl.host not in (WILDCARD, address):
            message = (
                f"{acl.describe_right()} has no effect: {quoted(acl.host)} is not the address of a client"
            )
            hint = f"write {address}" if address else "write the IP address of each client, or '*'"
            yield Finding(message, hint, path=write_path(acl))


def _write_address(host: str) -> str | None:
    """Return an IP address as Java writes it; None if the text is none."""
    from ipaddress import IPv6Address, ip_address  # takes 5 ms, and few ACLs have a host

    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        parts = (f"{int(part, 16):x}" for part in address.packed.hex(":", 2).split(":"))
        return ":".join(parts) + (f"%{address.scope_id}" if address.scope_id else "")
    return str(address)


def _fold(name: str) -> str:
    return name.replace(".", "_")


def _list_included(names: Sequence[str], prefix: str, fold: Callable[[str], str] = str) -> list[str]:
    """Return those of many sorted names that start with a prefix."""
    first = bisect_left(names, prefix, key=fold)
    return [*takewhile(lambda name: fold(name).startswith(prefix), islice(names, first, None))]


@rule("KF611", Severity.ERROR, waivable=False)
def access_beyond_limit(context: RuleContext) -> Iterator[Finding]:
    """A principal gets Read or Write on a topic whose manifest limits that to others.

    `access: {read: [team:analytics, User:audit]}` of a Topic lists the principals, and the teams of
    Access manifests, that may be given Read; `write` likewise. A right by a prefix or `*` counts, unless
    it is denied too. Name the topics that the principal needs, or let the owner extend the list.
    """
    for topic in context.of_kind(TOPIC.name):
        limits = cast("Mapping[str, list[str]]", topic.intent.spec.get("access", {}))
        for field, permitted in limits.items():
            location = topic.locate(f"access.{field}")
            for principal in _list_principals(context):
                desired = principal.desired
                if not {principal.name, f"team:{desired.intent.team}", EVERYONE}.isdisjoint(permitted):
                    continue
                for acl in _find_granting(principal.acls, topic.ref.name, field.capitalize()):
                    yield Finding(
                        f"{acl.describe_right()} is beyond spec.access.{field} of {topic.ref}, which allows "
                        f"{listed(permitted) or 'nobody'}",
                        "remove the right, or let the owner of the topic add "
                        f"{desired.ref.name} at {location}",
                        path=write_path(acl),
                        subject=desired,
                    )


def _find_granting(acls: Sequence[Acl], topic: str, operation: str) -> Iterator[Acl]:
    """Yield the ACLs of a principal that allow an operation on a topic and that no other one denies."""
    for acl in acls:
        needed = Acl(ResourceType.TOPIC, topic, False, acl.principal, acl.host, operation, True)
        denied = needed._replace(is_allowed=False)
        if covers(acl, needed) and not any(covers(each, denied) for each in acls):
            yield acl
