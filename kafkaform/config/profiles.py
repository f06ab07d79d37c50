"""Profiles and defaults: the layers of kafkaform.yaml that lie under the specs of manifests."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.loader import Underlay, check_environment, suggest_names
from kafkaform.core.errors import Problem
from kafkaform.core.model import CONFIG_PREFIX, Location
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import Value, field, replace
from kafkaform.core.wording import quoted
from kafkaform.resources import KINDS, consent
from kafkaform.resources.base import Layer, config_keys, list_shorthands
from kafkaform.rules.policies import build_limit_rule
from kafkaform.rules.policy_fields import Constraint, field_hint, field_key, read_constraint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from kafkaform.config.manifests.yaml12 import Document
    from kafkaform.rules import Rule

Scopes: TypeAlias = "tuple[Collection[str], Collection[str]]"
"""Environments, and clusters."""

DEFAULTS = "defaults"
"""The layer under all others."""
_NO_KINDS = frozenset({"extends", "limits"})


class SpecLayer(Value):
    """The settings of the defaults, or of a profile, for the manifests of a kind.

    Attributes:
        base: The settings, in normal form.
        overrides: Those that replace them, by environment or cluster.
        locations: Their places.
    """

    base: Layer
    overrides: Mapping[str, Layer]
    locations: FieldLocations

    def lay_over(self, under: Underlay, scopes: tuple[str, ...]) -> Underlay:
        """Return these settings on top of others, for an environment and a cluster."""
        overrides = [self.overrides[scope] for scope in scopes if scope in self.overrides]
        locations = replace(self.locations, scopes=scopes, under=under.locations)
        return Underlay((*under.layers, self.base, *overrides), locations)


class Profile(Value):
    """A named layer between the defaults and the manifests that name it.

    Attributes:
        layers: Its settings by kind.
        extends: The profile that lies under it; None without one.
        limits: The bounds of fields by kind.
        location: The place of its name, or of that of the profile that it extends.
    """

    name: str
    location: Location
    layers: Mapping[str, SpecLayer]
    extends: str | None = None
    limits: Mapping[str, tuple[Constraint, ...]] = field(default_factory=dict)


def read_layers(
    document: Document,
    section: tuple[str, ...],
    specs: Mapping[str, Mapping[str, Any]],
    known: Scopes | None,
    problems: list[Problem],
) -> dict[str, SpecLayer]:
    """Parse the settings of each kind in a section of the configuration file.

    Args:
        section: The keys of the section.
        specs: The settings by kind, without what the schema has refused.
        known: The environments and the clusters that overrides may name; None for any.
    """
    layers: dict[str, SpecLayer] = {}
    name = DEFAULTS if section == (DEFAULTS,) else consent.PROFILE + section[-1]
    for kind_name, spec in specs.items():
        kind, path = KINDS[kind_name], (*section, kind_name)
        base = kind.normalise(
            {key: value for key, value in spec.items() if key != "overrides"},
            document.create_reporter(path, problems),
        )
        overrides: dict[str, Layer] = {}
        for scope, layer in spec.get("overrides", {}).items():
            steps = (*path, "overrides", scope)
            if known is not None:
                problems.extend(
                    check_environment(document, steps, scope, known[0], key=True, clusters=known[1])
                )
            overrides[scope] = kind.normalise(layer, document.create_reporter(steps, problems))
        locations = FieldLocations(document, list_shorthands(kind), base=path, layer=name)
        layers[kind_name] = SpecLayer(base, overrides, locations)
    return layers


def read_profiles(
    document: Document,
    profiles: Mapping[str, Mapping[str, Any]],
    known: Scopes | None,
    problems: list[Problem],
) -> dict[str, Profile]:
    """Parse the profiles of a document that matches the schema; report problems.

    Args:
        profiles: The section, without what the schema has refused.
        known: The environments and the clusters that overrides may name; None for any.
    """
    parsed: dict[str, Profile] = {}
    for name, given in profiles.items():
        path = ("profiles", name)
        specs = {kind: spec for kind, spec in given.items() if kind not in _NO_KINDS}
        layers = read_layers(document, path, specs, known, problems)
        limits = _read_limits(document, (*path, "limits"), given.get("limits", {}), problems)
        location = document.locate((*path, "extends"), key="extends" not in given)
        parsed[name] = Profile(name, location, layers, given.get("extends"), limits)
    return parsed


def find_duplicates(profiles: Mapping[str, Profile], further: Mapping[str, Profile]) -> Iterator[Problem]:
    """Yield a problem for each profile that two files have."""
    for name in profiles.keys() & further.keys():
        at, hint = further[name].location, f"the other is at {profiles[name].location}; rename one of the two"
        yield Problem(f"there are two profiles {quoted(name)}", at, hint)


def check_profiles(profiles: Mapping[str, Profile], problems: list[Problem]) -> dict[str, Profile]:
    """Report profiles that extend a missing one or themselves; return the others."""
    sound = {}
    for name, profile in profiles.items():
        chain = [name]
        while (above := profiles[chain[-1]].extends) is not None and above in profiles and above not in chain:
            chain.append(above)
        if above is None:
            sound[name] = profile
            continue
        location = profile.location
        if above in profiles:
            # Reported at each profile of the cycle, and not at those that only lead to one.
            if above == name:
                cycle = " → ".join([*chain, above])
                text = f"the profile {quoted(name)} extends itself: {cycle}"
                problems.append(Problem(text, location, "remove one of the `extends`"))
        elif above == profile.extends:
            hint = suggest_names(above, profiles, "profiles")
            problems.append(Problem(f"there is no profile {quoted(above)}", location, hint))
    return sound


def list_chain(profiles: Mapping[str, Profile], name: str) -> Iterator[Profile]:
    """Yield a profile and those that it extends."""
    above: str | None = name
    while above is not None:
        yield (profile := profiles[above])
        above = profile.extends


def build_underlays(
    profiles: Mapping[str, Profile], defaults: Mapping[str, Underlay], scopes: tuple[str, ...]
) -> Mapping[str, Mapping[str, Underlay]]:
    """Return what lies under the specs that name each profile, by kind, in an environment and a cluster."""
    built: dict[str, dict[str, Underlay]] = {}
    for name in profiles:
        kinds: dict[str, Underlay] = {}
        for profile in reversed([*list_chain(profiles, name)]):
            for kind, layer in profile.layers.items():
                kinds[kind] = layer.lay_over(kinds.get(kind) or defaults.get(kind, Underlay()), scopes)
        built[name] = kinds
    return built


def build_limit_rules(profiles: Mapping[str, Profile]) -> Iterator[Rule]:
    """Yield a rule for each profile with limits, which its resources and those of extensions must keep."""
    for name, profile in profiles.items():
        members = frozenset(
            member for member in profiles if any(above.name == name for above in list_chain(profiles, member))
        )
        if profile.limits:
            yield build_limit_rule(name, members, profile.limits)


def _read_limits(
    document: Document,
    path: tuple[str, ...],
    limits: Mapping[str, Mapping[str, Any]],
    problems: list[Problem],
) -> Mapping[str, tuple[Constraint, ...]]:
    """Parse the limits of a profile; each is of every kind that has the field."""
    read: dict[str, tuple[Constraint, ...]] = {}
    report = document.create_reporter(path, problems)
    for written, bounds in limits.items():
        kinds = {kind: field for kind in KINDS if (field := _find_field(kind, written)) is not None}
        if not kinds:
            hint = field_hint("Topic", written)
            report((written,), f"no resource with a profile has a field {quoted(written)}", hint, key=True)
        for number, (kind, name) in enumerate(kinds.items()):

            def tell(bound: str, message: str, written: str = written, first: bool = not number) -> None:
                if first:
                    report((written, bound), message, None)

            key = field_key(kind, name)
            assert key is not None  # noqa: S101 - `_find_field` has found it
            texts = {bound: _to_text(value) for bound, value in bounds.items()}
            read[kind] = (*read.get(kind, ()), read_constraint(name, key, texts, tell))
    return read


def _to_text(value: object) -> Any:
    if isinstance(value, list):
        return [_to_text(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


@cache
def has_profiles(kind: str) -> bool:
    """Return whether manifests of a kind can name a profile."""
    return "profile" in load_schema(KINDS[kind].schema)["$defs"]["spec"]["properties"]


def _find_field(kind: str, name: str) -> str | None:
    """Return the path of a field of a kind for policies; configs may have Kafka's own names alone."""
    path = CONFIG_PREFIX + name if name in config_keys(KINDS[kind]) else name
    return path if has_profiles(kind) and field_key(kind, path) is not None else None
