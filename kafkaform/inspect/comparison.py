"""How two clusters differ as they are, or two environments as they are declared: pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.groups import OFFSETS_PREFIX
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.resources import KINDS, kind_order
from kafkaform.resources.consumer_group import group_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.core.model import Desired, FieldValue, Observation, Observed, ResourceRef, State
    from kafkaform.resources.base import Kind

PROTOCOL = "protocol"
"""The path of a group's protocol, which is compared, and managed by its members alone."""


@dataclass(frozen=True, slots=True)
class Thing:
    """A resource on one side.

    Attributes:
        state: Its own values.
        effective: The values in force, as far as they are known.
    """

    state: State
    effective: State = field(default_factory=dict)

    def in_force(self, path: str) -> FieldValue:
        """The value in force of a field; None if it is not known."""
        return self.state[path] if path in self.state else self.effective.get(path)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared.

    Attributes:
        name: What it is called.
        things: What it has.
        unknown: Resources of which it cannot be told whether it has them, or what they are like: why.
        wanted: What manifests declare for it, tombstones left out; None where they were not read.
    """

    name: str
    things: Mapping[ResourceRef, Thing]
    unknown: Mapping[ResourceRef, str] = field(default_factory=dict)
    wanted: Mapping[ResourceRef, State] | None = None


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field whose own values differ.

    Attributes:
        path: The field.
        a: The own value on the first side; None if it has none there.
        b: The same on the second.
        effective_a: The value in force on the first side; None if it is not known.
        effective_b: The same on the second.
        same_effect: Whether the values in force are known, and the same.
        as_declared: Whether the manifests declare just this difference.
        remark: What manifests say otherwise; empty if nothing.
    """

    path: str
    a: FieldValue
    b: FieldValue
    effective_a: FieldValue = None
    effective_b: FieldValue = None
    same_effect: bool = False
    as_declared: bool = False
    remark: str = ""


@dataclass(frozen=True, slots=True)
class ResourceDifference:
    """A resource that differs.

    Attributes:
        ref: The resource.
        in_a: Whether the first side has it.
        in_b: Whether the second side has it.
        fields: The fields that differ, in the order of plans; empty unless both sides have it.
        as_declared: Whether the manifests declare just this difference.
        remark: What manifests say of a resource that only one side has; empty if nothing.
        state: The own values of a resource that only one side has.
    """

    ref: ResourceRef
    in_a: bool
    in_b: bool
    fields: tuple[FieldDifference, ...] = ()
    as_declared: bool = False
    remark: str = ""
    state: State = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InheritedDifference:
    """A config that resources inherit on both sides, with another value on each; `count` is how many do."""

    kind: str
    path: str
    a: FieldValue
    b: FieldValue
    count: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two sides differ.

    Attributes:
        a: The first side's name.
        b: The second side's.
        differences: By kind and name.
        inherited: What differs by the defaults of the brokers alone.
        same: How many resources both sides have with the same own values.
        unknown: Resources of which it could not be told, and why.
    """

    a: str
    b: str
    differences: tuple[ResourceDifference, ...] = ()
    inherited: tuple[InheritedDifference, ...] = ()
    same: int = 0
    unknown: Mapping[ResourceRef, str] = field(default_factory=dict)

    @property
    def unexpected(self) -> bool:
        """Whether anything differs that no manifest declares to differ."""
        return bool(self.inherited) or not all(one.as_declared for one in self.differences)


def live_things(observation: Observation, chosen: Collection[ResourceRef]) -> dict[ResourceRef, Thing]:
    """What a cluster has of the chosen resources; of groups their configs and protocol, not their offsets."""
    return {ref: _thing(one) for ref, one in observation.resources.items() if ref in chosen}


def _thing(observed: Observed) -> Thing:
    kind = KINDS[observed.ref.kind]
    state: dict[str, FieldValue] = {
        path: value for path, value in observed.state.items() if _is_compared(kind, path)
    }
    group = group_of(observed)
    if group is not None and (protocol := group.intended_protocol(observed.state)):
        state[PROTOCOL] = protocol
    return Thing(state, observed.effective)


def _is_compared(kind: Kind, path: str) -> bool:
    return not path.startswith(OFFSETS_PREFIX) and not kind.ignores(path)


def declared_states(desired: Iterable[Desired]) -> dict[ResourceRef, State]:
    """What manifests want there to be, by resource; what a manifest sets to null is unset, as if unsaid."""
    return {one.ref: _declared(one) for one in desired if one.state is not None}


def _declared(desired: Desired) -> State:
    state = {path: value for path, value in (desired.state or {}).items() if value is not None}
    protocol = desired.intent.spec.get(PROTOCOL)
    return {**state, PROTOCOL: protocol} if isinstance(protocol, str) else state


def compare_sides(a: Side, b: Side) -> Comparison:
    """Compare two sides, resource by resource and field by field."""
    unknown = {ref: f"{side.name}: {why}" for side in (b, a) for ref, why in side.unknown.items()}
    refs = sorted({*a.things, *b.things} - unknown.keys(), key=lambda ref: (kind_order(ref.kind), ref.name))
    differences = []
    inherited: Counter[tuple[str, str, FieldValue, FieldValue]] = Counter()
    same = 0
    for ref in refs:
        here, there = a.things.get(ref), b.things.get(ref)
        if here is None or there is None:
            differences.append(_only(ref, a, b))
            continue
        inherited.update(_inherited(ref.kind, here, there))
        fields = tuple(_fields(ref, here, there, (a, b)))
        if fields:
            expected = all(one.as_declared for one in fields)
            differences.append(ResourceDifference(ref, True, True, fields, expected))
        else:
            same += 1
    order = sorted(inherited.items(), key=lambda item: tuple(map(str, item[0])))
    return Comparison(
        a.name,
        b.name,
        tuple(differences),
        tuple(InheritedDifference(*what, count) for what, count in order),
        same,
        dict(sorted(unknown.items())),
    )


def _only(ref: ResourceRef, a: Side, b: Side) -> ResourceDifference:
    """A resource that only one side has."""
    there, missing = (a, b) if ref in a.things else (b, a)
    as_declared, remark = False, ""
    if there.wanted is not None and missing.wanted is not None:
        if ref in missing.wanted:
            remark = f"also declared for {missing.name}, but not there yet"
        elif ref in there.wanted:
            as_declared = True
        else:
            remark = "no manifest declares it"
    return ResourceDifference(ref, there is a, there is b, (), as_declared, remark, there.things[ref].state)


def _fields(ref: ResourceRef, a: Thing, b: Thing, sides: tuple[Side, Side]) -> Iterator[FieldDifference]:
    kind = KINDS[ref.kind]
    paths = {*a.state, *b.state}
    if not (PROTOCOL in a.state and PROTOCOL in b.state):
        paths.discard(PROTOCOL)  # not known of a group that no member has joined
    for path in sorted(paths, key=kind.field_order):
        one, other = a.state.get(path), b.state.get(path)
        if kind.equal(path, one, other):
            continue
        force_a, force_b = a.in_force(path), b.in_force(path)
        alike = force_a is not None and kind.equal(path, force_a, force_b)
        as_declared, remark = _declaration(ref, path, (one, other), sides)
        yield FieldDifference(path, one, other, force_a, force_b, alike, as_declared, remark)


def _declaration(
    ref: ResourceRef, path: str, live: Sequence[FieldValue], sides: Sequence[Side]
) -> tuple[bool, str]:
    """Whether the difference of a field is declared, and where the live value is not the declared one."""
    states = [side.wanted[ref] for side in sides if side.wanted is not None and ref in side.wanted]
    if len(states) < len(sides) or not any(path in state for state in states):
        return False, ""
    kind = KINDS[ref.kind]
    wanted = [state.get(path) for state in states]
    behind = [
        side.name
        for side, value, aim in zip(sides, live, wanted, strict=True)
        if not kind.equal(path, value, aim)
    ]
    if behind:
        return False, f"{' and '.join(behind)} not as declared"
    return True, ""


def _inherited(kind: str, a: Thing, b: Thing) -> Iterator[tuple[str, str, FieldValue, FieldValue]]:
    """The configs without an own value on either side whose values in force differ all the same."""
    if a.effective is b.effective:
        return
    for path, one in a.effective.items():
        other = b.effective.get(path)
        if one == other or one is None or other is None or path in a.state or path in b.state:
            continue
        if path.startswith(CONFIG_PREFIX) and not KINDS[kind].equal(path, one, other):
            yield kind, path, one, other
