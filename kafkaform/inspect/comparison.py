"""Comparison of two live clusters, or of the manifests of two environments: pure functions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Desired, FieldValue, Observation, Observed, ResourceRef, State
from kafkaform.core.values import Value, field
from kafkaform.resources import GROUP, KINDS, is_group, kind_order
from kafkaform.resources.base import field_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

PROTOCOL = "protocol"
"""The path of a group's protocol: compared, although only the group's members set it."""


class ComparedResource(Value):
    """A resource on one side.

    Attributes:
        effective: The values in force, as far as they are known.
    """

    state: State
    effective: State = field(default_factory=dict)

    def get_effective(self, path: str) -> FieldValue:
        """Return the value in force of a field; None if it is not known."""
        return self.state[path] if path in self.state else self.effective.get(path)


class Side(Value):
    """One side of a comparison: a cluster or an environment.

    Attributes:
        name: The name of the cluster or environment.
        unknown: The resources that could not be read, and why.
        wanted: The states that manifests declare for it, without tombstones; None where they were not read.
    """

    name: str
    resources: Mapping[ResourceRef, ComparedResource]
    unknown: Mapping[ResourceRef, str] = field(default_factory=dict)
    wanted: Mapping[ResourceRef, State] | None = None


class FieldDifference(Value):
    """A field whose own values differ.

    Attributes:
        a: The own value on the first side; None if the field has none.
        b: The same on the second.
        effective_a: The value in force on the first side; None if it is not known.
        effective_b: The same on the second.
        same_effect: Whether the values in force are known, and the same.
        as_declared: Whether the manifests declare just this difference.
        note: A note on what the manifests declare instead; may be empty.
    """

    path: str
    a: FieldValue
    b: FieldValue
    effective_a: FieldValue = None
    effective_b: FieldValue = None
    same_effect: bool = False
    as_declared: bool = False
    note: str = ""


class ResourceDifference(Value):
    """A resource that differs.

    Attributes:
        in_a: Whether the first side has it.
        in_b: Whether the second side has it.
        fields: The fields that differ, in the order of plans; empty unless both sides have it.
        as_declared: Whether the manifests declare just this difference.
        note: A note on the manifests of a resource that only one side has; may be empty.
        state: The own values of a resource that only one side has.
    """

    ref: ResourceRef
    in_a: bool
    in_b: bool
    fields: tuple[FieldDifference, ...] = ()
    as_declared: bool = False
    note: str = ""
    state: State = field(default_factory=dict)


class InheritedDifference(Value):
    """A config that `count` resources inherit on both sides, with different values."""

    kind: str
    path: str
    a: FieldValue
    b: FieldValue
    count: int


class Comparison(Value):
    """The differences between two sides.

    Attributes:
        a: The first side's name.
        b: The second side's.
        differences: The resources that differ, by kind and name.
        inherited: The configs that differ only by the defaults of the brokers.
        same: The number of resources that have the same own values on both sides.
        unknown: The resources that could not be read, and why.
    """

    a: str
    b: str
    differences: tuple[ResourceDifference, ...] = ()
    inherited: tuple[InheritedDifference, ...] = ()
    same: int = 0
    unknown: Mapping[ResourceRef, str] = field(default_factory=dict)

    @property
    def unexpected(self) -> bool:
        """True if there is a difference that the manifests do not declare."""
        return bool(self.inherited) or not all(difference.as_declared for difference in self.differences)


def select_live_resources(
    observation: Observation, chosen: Collection[ResourceRef]
) -> dict[ResourceRef, ComparedResource]:
    """Return the chosen resources of a cluster; of groups, their configs and protocol without offsets."""
    return {
        ref: ComparedResource(_select_compared(observed), observed.effective)
        for ref, observed in observation.resources.items()
        if ref in chosen
    }


def _select_compared(observed: Observed) -> State:
    kind = KINDS[observed.ref.kind]
    state = {
        path: value
        for path, value in observed.state.items()
        if (field := kind.field(path)).compared and not field.ignored
    }
    if is_group(observed.ref) and (protocol := GROUP.find_protocol(observed)):
        return {**state, PROTOCOL: protocol}
    return state


def declared_states(desired: Iterable[Desired]) -> dict[ResourceRef, State]:
    """Return the declared state of each resource that is to exist, without fields that are set to null."""
    return {declared.ref: _get_state(declared) for declared in desired if declared.state is not None}


def _get_state(desired: Desired) -> State:
    state = {path: value for path, value in (desired.state or {}).items() if value is not None}
    protocol = desired.intent.spec.get(PROTOCOL)
    return {**state, PROTOCOL: protocol} if isinstance(protocol, str) else state


def compare_sides(a: Side, b: Side) -> Comparison:
    """Compare two sides, resource by resource and field by field."""
    unknown = {ref: f"{side.name}: {why}" for side in (b, a) for ref, why in side.unknown.items()}
    # A resource that one side could not read is neither there nor missing: it is listed separately.
    refs = sorted(
        {*a.resources, *b.resources} - unknown.keys(), key=lambda ref: (kind_order(ref.kind), ref.name)
    )
    differences = []
    inherited: Counter[tuple[str, str, FieldValue, FieldValue]] = Counter()
    same = 0
    for ref in refs:
        here, there = a.resources.get(ref), b.resources.get(ref)
        if here is None or there is None:
            # Its fields are not compared with nothing: the whole resource is the difference.
            differences.append(_describe_missing(ref, a, b))
            continue
        # Counted over all resources: a default of the brokers that differs would otherwise fill the report.
        inherited.update(_list_inherited(ref.kind, here, there))
        fields = tuple(_compare_fields(ref, here, there, (a, b)))
        if fields:
            expected = all(difference.as_declared for difference in fields)
            differences.append(ResourceDifference(ref, True, True, fields, expected))
        else:
            same += 1
    order = sorted(inherited.items(), key=lambda item: tuple(map(str, item[0])))
    return Comparison(
        a.name,
        b.name,
        tuple(differences),
        tuple(InheritedDifference(*config, count) for config, count in order),
        same,
        dict(sorted(unknown.items())),
    )


def _describe_missing(ref: ResourceRef, a: Side, b: Side) -> ResourceDifference:
    """Return the difference of a resource that only one side has."""
    owner, missing = (a, b) if ref in a.resources else (b, a)
    as_declared, note = False, ""
    # Without the manifests of both sides, nothing shows whether the difference is intended.
    if owner.wanted is not None and missing.wanted is not None:
        if ref in missing.wanted:
            note = f"also declared for {missing.name}, but does not exist there yet"
        elif ref in owner.wanted:
            as_declared = True
        else:
            note = "no manifest declares it"
    return ResourceDifference(ref, owner is a, owner is b, (), as_declared, note, owner.resources[ref].state)


def _compare_fields(
    ref: ResourceRef, a: ComparedResource, b: ComparedResource, sides: tuple[Side, Side]
) -> Iterator[FieldDifference]:
    kind = KINDS[ref.kind]
    paths = {*a.state, *b.state}
    # Unknown of a group that no member has joined: that is no difference.
    if not (PROTOCOL in a.state and PROTOCOL in b.state):
        paths.discard(PROTOCOL)
    for path in sorted(paths, key=field_order(kind)):
        value_a, value_b = a.state.get(path), b.state.get(path)
        if kind.field(path).equal(value_a, value_b):
            continue
        effective_a, effective_b = a.get_effective(path), b.get_effective(path)
        # One side may set what the other inherits: then only the form differs.
        same_effect = effective_a is not None and kind.field(path).equal(effective_a, effective_b)
        as_declared, note = _compare_with_manifests(ref, path, (value_a, value_b), sides)
        yield FieldDifference(
            path, value_a, value_b, effective_a, effective_b, same_effect, as_declared, note
        )


def _compare_with_manifests(
    ref: ResourceRef, path: str, live: Sequence[FieldValue], sides: Sequence[Side]
) -> tuple[bool, str]:
    """Return whether manifests declare a difference, and a note on sides that are not as declared."""
    states = [side.wanted[ref] for side in sides if side.wanted is not None and ref in side.wanted]
    # Both must declare the resource, and one of them the field: else nobody has decided on the difference.
    if len(states) < len(sides) or not any(path in state for state in states):
        return False, ""
    kind = KINDS[ref.kind]
    wanted = [state.get(path) for state in states]
    behind = [
        side.name
        for side, value, declared in zip(sides, live, wanted, strict=True)
        if not kind.field(path).equal(value, declared)
    ]
    if behind:
        return False, f"{' and '.join(behind)} not as declared"
    return True, ""


def _list_inherited(
    kind: str, a: ComparedResource, b: ComparedResource
) -> Iterator[tuple[str, str, FieldValue, FieldValue]]:
    """List the configs whose values in force differ although neither side has an own value."""
    # Readings share one mapping between resources with the same configs: most pairs are skipped here.
    if a.effective is b.effective:
        return
    for path, value_a in a.effective.items():
        value_b = b.effective.get(path)
        if value_a == value_b or value_a is None or value_b is None or path in a.state or path in b.state:
            continue
        if path.startswith(CONFIG_PREFIX) and not KINDS[kind].field(path).equal(value_a, value_b):
            yield kind, path, value_a, value_b
