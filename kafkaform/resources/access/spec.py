"""An Access's spec: the rights of principals as an application states them, and the ACLs that they mean.

All manifests of a principal are one resource, `Access/User:checkout`. Its state has a field for each ACL that
at least one of them declares. A Topic manifest with `closeWrites` declares one of `User:*`; those that others
gave `User:*` stay, unless an Access manifest names it.

spec["principals"], ["hosts"]   list[str]
spec["produces"], ...           as in the manifest
spec["acls"]                    as in the manifest, with operations as Kafka writes them
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from kafkaform.core.acl_fields import is_implied, parse_path, write_path, write_value
from kafkaform.core.acls import (
    ALL_OPERATIONS,
    EVERYONE,
    USER_PREFIX,
    WILDCARD,
    Acl,
    ResourceType,
    parse_operation,
    parse_principal,
)
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.errors import Problem
from kafkaform.core.model import Desired, Intent, Observed, ResourceRef, Undeclared
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import counted, listed
from kafkaform.resources.access.shorthand import Keys, list_rights
from kafkaform.resources.base import Layer, ListItem, ManifestEdit, ReadTopics, ReportProblem, Written
from kafkaform.resources.succession import CLOSE_WRITES, closing_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import FieldValue, Location, State

NAME = "Access"
_LITERAL, _PREFIX = "literal", "prefix"
POLICY_FIELDS: Mapping[str, ConfigKey] = {
    name: ConfigKey(name, ConfigType.STRING, valid_values=values)
    for name, values in {
        "acl.resource": tuple(ResourceType),
        "acl.name": (),
        "acl.pattern": (_LITERAL, _PREFIX),
        "acl.operation": ALL_OPERATIONS,
        "acl.host": (),
        "acl.permission": ("allow", "deny"),
    }.items()
}
"""The fields of each ACL that policies can use."""


_EVERYWHERE = (WILDCARD,)


def normalise(layer: Mapping[str, object], report: ReportProblem) -> Layer:
    """Normalise an Access spec that matches the schema, as described for the module."""
    normal: Layer = {name: value for name, value in layer.items() if name != "overrides"}
    for index, principal in enumerate(cast("list[str]", layer.get("principals", []))):
        try:
            parse_principal(principal)
        except ValueError as error:
            report(("principals", index), str(error), None)
    if "acls" in layer:
        entries = cast("list[dict[str, Any]]", layer["acls"])
        normal["acls"] = [_normalise_acl(entry, index, report) for index, entry in enumerate(entries)]
    return normal


def _normalise_acl(entry: dict[str, Any], index: int, report: ReportProblem) -> dict[str, Any]:
    resource_type = ResourceType(entry["resource"])
    named = [key for key in ("name", "prefix") if key in entry]
    if resource_type is ResourceType.CLUSTER and named:
        report(("acls", index, named[0]), "the cluster has no name", "remove it", key=True)
    elif resource_type is not ResourceType.CLUSTER and len(named) != 1:
        message = "has a name and a prefix" if named else "needs a name or a prefix"
        hint = "write `name: NAME`, `name: '*'` or `prefix: PREFIX`"
        report(("acls", index), message, f"keep one: {hint}" if named else hint)
        return {**entry, "operations": []}  # an ACL of nothing
    operations = []
    for number, operation in enumerate(entry["operations"]):
        try:
            operations.append(parse_operation(operation, resource_type))
        except ValueError as error:
            report(("acls", index, "operations", number), str(error), None)
    return {**entry, "operations": operations}


def resolve(layer: Layer, _report: ReportProblem) -> tuple[State | None, Intent]:
    """Split a merged, normalised Access spec; its state is that of no principal yet: see `combine`."""
    # All ACLs of a declared principal are owned: an undeclared one is removed.
    protected = bool(layer.get("deletionProtection", False))
    intent = Intent(deletion_protection=protected, undeclared=Undeclared.RESET, spec=layer)
    return (None if layer.get("state") == "absent" else {}), intent


class AclLocations(Value):
    """The places of the fields of a principal: an implementation of `Locations`.

    Attributes:
        acls: The manifests that declare each ACL, by path, each with the keys of the right in the spec; of a
            principal without rights, those of its tombstones.
    """

    manifests: Sequence[Desired]
    acls: Mapping[str, Sequence[tuple[Desired, Keys]]]

    @property
    def first(self) -> Desired:
        """The first manifest, for everything that is no ACL."""
        return self.manifests[0]

    def __call__(self, path: str) -> Location:
        """Return the location of a field: of an ACL, in the first manifest that declares it."""
        if path in self.acls:
            manifest, keys = self.acls[path][0]
            location = manifest.nearest(("spec", *keys))
        else:
            location = self.first.locate(path)
        assert location is not None  # noqa: S101 - a manifest has a location
        return location

    def keys(self, path: str) -> tuple[str, ...] | None:
        """Return None: a right may stand for several ACLs, so that no key leads to one of them."""
        return None if path not in self.acls and not path.startswith("metadata.") else self.first.keys(path)

    def find_layer(self, _path: str) -> str:
        """Return that the manifests set each right themselves."""
        return ""

    def nearest(self, keys: Sequence[str | int]) -> Location:
        """Return the location of the value below these keys of the first manifest."""
        location = self.first.nearest(keys)
        assert location is not None  # noqa: S101 - a manifest has a location
        return location

    def locate_edit(self, path: str, acl: Acl | None, value: FieldValue) -> ManifestEdit | str | None:
        """Return the edit of a manifest for an ACL, or for `state` without one, as `Kind.locate_edit` does.

        Manifests of several principals are left alone: the edit would be for all of them.
        """
        own = [
            each
            for each in _select_effective(self.manifests)
            if each.ref.kind == NAME and len(_list_principals(each)) == 1
        ]
        if acl is None:
            alone = len(self.manifests) == 1 and own
            return ManifestEdit(own[0], path, value) if alone else "several principals or manifests share it"
        declaring = self.acls.get(path, ())
        if value is not None:
            if declaring:
                return None
            if not own:
                item = json.dumps(_write_item(acl, {}), ensure_ascii=False)
                return f"declare it by hand, in spec.acls: {item}"
            return ManifestEdit(own[0], "acls", ListItem(_write_item(acl, own[0].intent.spec), added=True))
        match declaring:
            case [(manifest, ("acls", int(number)))] if manifest in own:
                item = cast("dict[str, Any]", manifest.intent.spec)["acls"][number]
                hosts = item.get("hosts", manifest.intent.spec.get("hosts", [WILDCARD]))
                if len(item["operations"]) == len(hosts) == 1:
                    return ManifestEdit(manifest, "acls", ListItem(item, added=False))
        return "the manifest declares it as a part of a right: remove that by hand"


def describe_for_policies(acl: Acl) -> dict[str, str]:
    """Return the values of `POLICY_FIELDS` of an ACL."""
    return {
        "acl.resource": acl.resource_type,
        "acl.name": acl.name,
        "acl.pattern": _PREFIX if acl.is_prefix else _LITERAL,
        "acl.operation": acl.operation,
        "acl.host": acl.host,
        "acl.permission": "allow" if acl.is_allowed else "deny",
    }


def find_declaring(desired: Desired, path: str) -> list[Desired]:
    """Return the manifests of a principal that declare an ACL; itself if no manifests were combined."""
    if not isinstance(desired.locations, AclLocations):
        return [desired]
    return [manifest for manifest, _ in desired.locations.acls.get(path, ())]


def _select_effective(manifests: Sequence[Desired]) -> Sequence[Desired]:
    """Return the manifests without tombstones, which have no effect beside others."""
    return [manifest for manifest in manifests if manifest.state is not None] or manifests


def _list_principals(manifest: Desired) -> list[str]:
    if manifest.ref.kind != NAME:
        return [EVERYONE] if closing_path(manifest) is not None else []
    return cast("list[str]", manifest.intent.spec.get("principals", []))


def _write_item(acl: Acl, spec: Mapping[str, Any]) -> dict[str, object]:
    """Return the item of `spec.acls` that declares an ACL, beside the hosts of a spec."""
    # An item without hosts has those of the spec.
    has_hosts_of_spec = spec.get("hosts", [WILDCARD]) == [acl.host] == [WILDCARD]
    return _write_entry(acl, [acl.operation], () if has_hosts_of_spec else (acl.host,))


def combine(manifests: Sequence[Desired], topics_of: ReadTopics) -> tuple[list[Desired], list[Problem]]:
    """Combine manifests into one resource for each of their principals.

    Args:
        manifests: The manifests of all kinds.
        topics_of: Returns the topics that a declared group reads.
    """
    problems: list[Problem] = []
    by_principal: dict[str, list[Desired]] = {}
    for manifest in manifests:
        for principal in _list_principals(manifest):
            by_principal.setdefault(principal, []).append(manifest)
    resources = []
    for principal, declaring in by_principal.items():
        state: dict[str, FieldValue] = {}
        locations: dict[str, tuple[tuple[Desired, Keys], ...]] = {}
        # One tombstone must not remove what other manifests still declare.
        absent = all(manifest.state is None for manifest in declaring)
        # Groups that a tombstone names may be gone: it declares nothing that needs them.
        flaws = [] if absent else problems
        for manifest in _select_effective(declaring):
            for acl, keys in _expand(manifest, principal, topics_of, flaws):
                path = write_path(acl)
                locations[path] = (*locations.get(path, ()), (manifest, keys))
                state[path] = write_value(acl)
        resources.append(_combine_intents(principal, declaring, None if absent else state, locations))
    # A manifest is expanded once for each of its principals, each time with the same problems.
    return resources, list(dict.fromkeys(problems))


def _combine_intents(
    principal: str,
    manifests: Sequence[Desired],
    state: State | None,
    locations: Mapping[str, Sequence[tuple[Desired, Keys]]],
) -> Desired:
    own = [manifest for manifest in manifests if manifest.ref.kind == NAME]
    first = [*own, *manifests][0]
    # Reversed, so that of equal names the first manifest has the last word.
    intents = [_select_consents(manifest) for manifest in reversed(manifests)]
    intent = replace(
        first.intent,
        keyed=None,
        labels={name: value for each in intents for name, value in each.labels.items()},
        allow={head: reason for each in intents for head, reason in each.allow.items()},
        waivers={code: reason for each in intents for code, reason in each.waivers.items()},
        deletion_protection=any(each.intent.deletion_protection for each in own),
        undeclared=Undeclared.RESET if own else Undeclared.KEEP,
        spec=first.intent.spec if own else {},
    )
    ref = ResourceRef(NAME, principal)
    location = first.location if own else first.locate(CLOSE_WRITES)
    return Desired(ref, state, intent, location, AclLocations(manifests, locations))


def _select_consents(manifest: Desired) -> Intent:
    """Return the intent of a manifest; of a topic, with the consents to its own ACL only."""
    if manifest.ref.kind == NAME:
        return manifest.intent
    scope = f"of {closing_path(manifest)}"
    allow = {head: why for head, why in manifest.intent.allow.items() if head.partition(" ")[2] == scope}
    return replace(manifest.intent, allow=allow)


def _expand(
    manifest: Desired, principal: str, topics_of: ReadTopics, problems: list[Problem]
) -> Iterator[tuple[Acl, Keys]]:
    """Yield the ACLs that a manifest gives a principal, each with the keys of the right in the spec."""
    if manifest.ref.kind != NAME:
        path = closing_path(manifest)
        if path is not None and manifest.intent.spec[CLOSE_WRITES]:
            yield parse_path(path, principal), (CLOSE_WRITES,)
        return
    spec = cast("dict[str, Any]", manifest.intent.spec)

    def report(keys: Keys, message: str, hint: str | None, /, *, key: bool = False) -> None:  # noqa: ARG001
        problems.append(Problem(message, manifest.nearest(("spec", *keys)), hint))

    for right, keys in list_rights(spec, topics_of, report):
        for acl in right.list_acls(principal, spec.get("hosts", _EVERYWHERE)):
            yield acl, keys


def find_obstacle(acl: Acl) -> str | None:
    """Return why no manifest can declare an ACL; None if one can."""
    if acl.is_prefix and acl.resource_type is ResourceType.CLUSTER:
        return "it is for names that start with that of the cluster: declare `resource: cluster`"
    return None if acl.host else "its host is empty, so that it applies to no client"


def write(observed: Observed, _config: Mapping[str, object], _under: Mapping[str, object]) -> Written:
    """Return the spec that declares the ACLs of a live principal."""
    principal = observed.ref.name
    acls = [parse_path(path, principal) for path in observed.state]
    left_out = tuple(f"{write_path(acl)}: {why}" for acl in acls if (why := find_obstacle(acl)))
    # Of a user the name alone, as people write it; other principals keep their type.
    user = principal.removeprefix(USER_PREFIX)
    name = principal if ":" in user or principal == EVERYONE else user
    return Written(write_spec(principal, acls), left_out, name=name)


def write_spec(principal: str, acls: Iterable[Acl]) -> dict[str, object]:
    """Return the spec that declares ACLs of a principal: shorthand where it means the same, else `acls`.

    An operation that another one on the same resources includes is left out, such as Describe beside Read.
    """
    hosts_of = _find_hosts(acls)
    first = next(iter(hosts_of.values()), _EVERYWHERE)
    common = first if all(hosts == first for hosts in hosts_of.values()) else _EVERYWHERE

    def select(resource_type: ResourceType, operation: str) -> dict[Acl, object]:
        right = (resource_type, operation, True)
        return {
            acl: {"prefix": acl.name} if acl.is_prefix else acl.name
            for acl, hosts in hosts_of.items()
            if (acl.resource_type, acl.operation, acl.is_allowed) == right and hosts == common
        }

    produces = select(ResourceType.TOPIC, "Write")
    transactional = select(ResourceType.TRANSACTIONAL_ID, "Write")
    groups, topics = select(ResourceType.GROUP, "Read"), select(ResourceType.TOPIC, "Read")
    if (
        len(groups) != 1 or not topics
    ):  # with several groups, ACLs do not show which of them reads which topics
        groups, topics = {}, {}
    operations: dict[tuple[Acl, tuple[str, ...]], list[str]] = {}
    for acl, hosts in hosts_of.items():
        if not any(acl in written for written in (produces, transactional, groups, topics)):
            operations.setdefault((acl._replace(operation=""), hosts), []).append(acl.operation)
    spec = {
        "principals": [principal],
        "hosts": [] if common == _EVERYWHERE else [*common],
        "produces": [*produces.values()],
        "consumes": [{"group": group, "topics": [*topics.values()]} for group in groups.values()],
        "transactional": [*transactional.values()],
        "acls": [
            _write_entry(acl, names, () if hosts == common else hosts)
            for (acl, hosts), names in operations.items()
        ],
    }
    return {name: value for name, value in spec.items() if value}


_VERBS = {
    (ResourceType.TOPIC, "Read"): "reads",
    (ResourceType.TOPIC, "Write"): "writes",
    (ResourceType.GROUP, "Read"): "group",
    (ResourceType.TRANSACTIONAL_ID, "Write"): "transactional id",
}
"""The rights that applications have, in words; others are counted."""


def describe_rights(observed: Observed, most_names: int | None = None) -> str:
    """Describe what a principal may do: `reads orders.*, writes orders.created, group billing`.

    Args:
        most_names: The names of each right that are listed before the others are counted; None for all.
    """
    names: dict[str, list[str]] = {}
    further = denials = 0
    for acl in _find_hosts(parse_path(path, observed.ref.name) for path in observed.state):
        verb = _VERBS.get((acl.resource_type, acl.operation))
        if not acl.is_allowed:
            denials += 1
        elif verb is None:
            further += 1
        else:
            names.setdefault(verb, []).append(f"{acl.name}*" if acl.is_prefix else acl.name)
    clauses = [
        f"{verb} {listed(names[verb], most_names or len(names[verb]))}"
        for verb in _VERBS.values()
        if verb in names
    ]
    clauses += [counted(further, "other right")] if further else []
    clauses += [counted(denials, "denial")] if denials else []
    return ("; " if any(len(each) > 1 for each in names.values()) else ", ").join(clauses)


def _find_hosts(acls: Iterable[Acl]) -> dict[Acl, tuple[str, ...]]:
    """Return the hosts of the ACLs that differ in nothing else, without what another one includes."""
    by_resource: dict[tuple[object, ...], list[Acl]] = {}
    for acl in sorted((acl for acl in acls if find_obstacle(acl) is None), key=write_path):
        by_resource.setdefault((acl.resource_type, acl.name, acl.is_prefix), []).append(acl)
    hosts_of: dict[Acl, tuple[str, ...]] = {}
    for members in by_resource.values():
        for acl in members:
            if not is_implied(acl, members):
                right = acl._replace(host="")
                hosts_of[right] = (*hosts_of.get(right, ()), acl.host)
    return hosts_of


def _write_entry(acl: Acl, operations: Sequence[str], hosts: Sequence[str]) -> dict[str, object]:
    entry: dict[str, object] = {"resource": acl.resource_type.value}
    if acl.resource_type is not ResourceType.CLUSTER:
        entry["prefix" if acl.is_prefix else "name"] = acl.name
    entry["operations"] = [*operations]
    entry |= {"hosts": [*hosts]} if hosts else {}
    return entry | ({} if acl.is_allowed else {"permission": "deny"})
