"""Drift: what of the live cluster is not as declared, what the record of applies knows of it.

Adopting drift means to edit manifests until they declare what the cluster has.

It is the diff of a plan, told from the cluster's side, with the configs that no manifest declares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from kafkaform.core.model import (
    CONFIG_PREFIX,
    Create,
    Delete,
    FieldChange,
    Update,
)
from kafkaform.resources import KINDS, kind_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.audit.trail import Trail
    from kafkaform.config.manifests.editing import Edit
    from kafkaform.core.model import (
        Desired,
        Diagnostic,
        FieldValue,
        Location,
        Plan,
        PlannedChange,
        ResourceRef,
        Setting,
        State,
        UndeclaredConfig,
    )


READING_NOTES = frozenset({"KF411", "KF412", "KF413", "KF415", "KF420", "KF421"})
"""What a plan says of the cluster that it read; its other findings are about manifests, or about applying."""


class Form(StrEnum):
    """How a resource drifted; one that is `PRESENT` is so although its manifest says `state: absent`."""

    DIFFERS = "differs"
    MISSING = "missing"
    PRESENT = "present"


class DriftCause(StrEnum):
    """The side that changed since the last recorded apply, if that was carried out as a whole."""

    UNRECORDED = "unrecorded"
    CLUSTER = "cluster_changed"
    MANIFEST = "manifest_changed"
    BOTH = "both_changed"
    INTERRUPTED = "apply_interrupted"


class DriftVerdict(StrEnum):
    """What a run came to."""

    CLEAN = "clean"
    DRIFT = "drift"
    UNKNOWN = "unknown"


class Unmanaged(StrEnum):
    """What becomes of resources on the cluster that no manifest declares: by `ERROR`, they are drift."""

    IGNORE = "ignore"
    REPORT = "report"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Past:
    """What the record of applies knows of a live value.

    Attributes:
        cause: Which side changed.
        last: What the latest apply set it to; None if no apply on record set it, or the latest deleted it.
            One of which no result is known counts where it was to make what is live.
        source: The latest apply that set it to the live value, if that was an earlier one.
    """

    cause: DriftCause
    last: Setting | None = None
    source: Setting | None = None


@dataclass(frozen=True, slots=True)
class FieldDrift:
    """One field that is not as declared.

    Attributes:
        change: From the live value to the declared one.
        declared: Whether anything declares it; if not, it is a config that somebody set on the cluster.
        left_alone: Whether an apply leaves it as it is.
        place: Where the manifest sets it, or the nearest thing around it.
        keys: The keys that lead there in the manifest; None where it does not set it.
        past: What is recorded; None where no record was read.
    """

    change: FieldChange
    declared: bool
    left_alone: bool = False
    place: Location | None = None
    keys: tuple[str, ...] | None = None
    past: Past | None = None


@dataclass(frozen=True, slots=True)
class ResourceDrift:
    """A declared resource that is not as declared.

    Attributes:
        desired: The resource as its manifest wants it.
        form: How it drifted.
        fields: What differs; none where the whole resource does.
        planned: What an apply would make of it; None where it would leave it as it is.
        past: Of a whole resource: what is recorded; None where no record was read.
    """

    desired: Desired
    form: Form
    fields: tuple[FieldDrift, ...] = ()
    planned: PlannedChange | None = None
    past: Past | None = None

    @property
    def ref(self) -> ResourceRef:
        """The resource."""
        return self.desired.ref

    @property
    def size(self) -> int:
        """How many fields differ; 1 for a whole resource."""
        return max(1, len(self.fields))


@dataclass(frozen=True, slots=True)
class Drift:
    """What of a live cluster is not as declared.

    Attributes:
        plan: The plan that it was found by.
        resources: What drifted, by kind and name.
        unmanaged: Resources on the cluster that no manifest declares; None where nobody looked for them.
        unmanaged_counts: Whether such a resource counts as drift.
        notes: What was odd in the reading of the cluster.
        unrecorded: Why it is not known since when; None where it is, or nothing drifted.
    """

    plan: Plan
    resources: tuple[ResourceDrift, ...] = ()
    unmanaged: tuple[ResourceRef, ...] | None = None
    unmanaged_counts: bool = False
    notes: tuple[Diagnostic, ...] = ()
    unrecorded: str | None = None

    @property
    def unknown(self) -> tuple[ResourceRef, ...]:
        """Declared resources of which the account cannot tell whether they exist."""
        return self.plan.unknown

    @property
    def unchanged(self) -> int:
        """How many declared resources are as declared, undeclared configs counted."""
        return self.plan.unchanged - sum(resource.planned is None for resource in self.resources)

    @property
    def verdict(self) -> DriftVerdict:
        """Whether there is drift: what could not be seen may have drifted, whatever else did."""
        if self.unknown:
            return DriftVerdict.UNKNOWN
        if self.resources or (self.unmanaged_counts and self.unmanaged):
            return DriftVerdict.DRIFT
        return DriftVerdict.CLEAN


def has_drift(plan: Plan) -> bool:
    """Whether a declared resource is not as declared: only then the record of applies is of use."""
    return bool(plan.changes or plan.undeclared)


def find_drift(
    plan: Plan, desired: Iterable[Desired], trail: Trail | str, *, unmanaged: Unmanaged = Unmanaged.REPORT
) -> Drift:
    """Tell a plan as drift.

    Args:
        plan: The plan for what is declared.
        desired: The declared resources.
        trail: The record of applies, or why there is none.
        unmanaged: What becomes of resources that nobody declares; `IGNORE` where nobody looked for them.
    """
    declared = {one.ref: one for one in desired}
    changes = {change.ref: change for change in plan.changes}
    undeclared = {ref: tuple(found) for ref, found in groupby(plan.undeclared, key=lambda one: one.ref)}
    known = None if isinstance(trail, str) else trail
    order = sorted({*changes, *undeclared}, key=lambda ref: (kind_order(ref.kind), ref.name))
    resources = tuple(
        _resource(declared[ref], changes.get(ref), undeclared.get(ref, ()), known) for ref in order
    )
    return Drift(
        plan,
        resources,
        None if unmanaged is Unmanaged.IGNORE else plan.unmanaged,
        unmanaged is Unmanaged.ERROR,
        tuple(note for note in plan.diagnostics if note.code in READING_NOTES),
        trail if isinstance(trail, str) and resources else None,
    )


def _resource(
    desired: Desired,
    planned: PlannedChange | None,
    undeclared: Iterable[UndeclaredConfig],
    trail: Trail | None,
) -> ResourceDrift:
    match planned.change if planned is not None else None:
        case Create(state=state):
            past = _past_of_whole(desired.ref, state, trail, live=False)
            return ResourceDrift(desired, Form.MISSING, (), planned, past)
        case Delete(state=state):
            past = _past_of_whole(desired.ref, state, trail, live=True)
            return ResourceDrift(desired, Form.PRESENT, (), planned, past)
        case Update(fields=fields):
            changes: Mapping[str, FieldChange] = {f.path: f for f in fields if not _is_chosen(desired, f)}
        case None:
            changes = {}
    more = {one.path: FieldChange(one.path, one.value, None, one.value) for one in undeclared}
    order = sorted({*changes, *more}, key=KINDS[desired.ref.kind].field_order)
    drifted = tuple(
        _field(desired, changes.get(path) or more[path], trail, left_alone=path in more) for path in order
    )
    return ResourceDrift(desired, Form.DIFFERS, drifted, planned)


def _is_chosen(desired: Desired, change: FieldChange) -> bool:
    """Whether a plan chose the value to make another field's come true, and no manifest speaks of it."""
    path = change.path
    return not (
        path.startswith(CONFIG_PREFIX) or path in (desired.state or {}) or path in desired.intent.spec
    )


def _field(desired: Desired, change: FieldChange, trail: Trail | None, *, left_alone: bool) -> FieldDrift:
    past = None if trail is None else past_of(desired.ref, change, trail)
    path = change.path
    declared = desired.state is not None and path in desired.state
    return FieldDrift(change, declared, left_alone, desired.place(path), desired.keys(path), past)


def past_of(ref: ResourceRef, change: FieldChange, trail: Trail) -> Past:
    """What is recorded of a live value, and thereby which side changed since."""

    def equal(a: FieldValue, b: FieldValue) -> bool:
        return KINDS[ref.kind].equal(change.path, a, b)

    recorded = trail.settings(ref, change.path)
    if recorded and _stopped_half_way(ref, change, recorded[0]):
        return Past(DriftCause.INTERRUPTED, recorded[0])
    settings = [one for one in recorded if one.certain or equal(one.value, change.before)]
    if not settings:
        return Past(DriftCause.UNRECORDED)
    last = settings[0]
    if equal(last.value, change.before):
        return Past(DriftCause.MANIFEST, last)
    source = next((one for one in settings if one.certain and equal(one.value, change.before)), None)
    return Past(DriftCause.CLUSTER if equal(last.value, change.after) else DriftCause.BOTH, last, source)


def _stopped_half_way(ref: ResourceRef, change: FieldChange, latest: Setting) -> bool:
    """Tell whether the latest apply can have left the live value behind, as its result is not known."""
    recorded = FieldChange(change.path, latest.before, latest.value)
    return not latest.certain and KINDS[ref.kind].on_the_way(recorded, change.before)


def _past_of_whole(ref: ResourceRef, state: State, trail: Trail | None, *, live: bool) -> Past | None:
    """What is recorded of a resource that is there and should not be, or the other way round."""
    if trail is None:
        return None
    if not live and (deletion := trail.open_deletion(ref)) is not None:
        return Past(DriftCause.MANIFEST, deletion)
    recorded = [one for path in state for one in trail.settings(ref, path) if live or one.certain]
    if recorded:
        return Past(
            DriftCause.MANIFEST if live else DriftCause.CLUSTER, max(recorded, key=lambda one: one.at)
        )
    if trail.replaced_since(ref, ""):  # and what was set before the last deletion is not told
        return Past(DriftCause.CLUSTER if live else DriftCause.MANIFEST)
    return Past(DriftCause.UNRECORDED)


@dataclass(frozen=True, slots=True)
class Adoption:
    """What of a cluster's drift can become the manifests' word.

    Attributes:
        edits: What manifests are to say.
        refused: What they cannot say, or must not: the resource and why.
    """

    edits: tuple[Edit, ...] = ()
    refused: tuple[tuple[ResourceRef, str], ...] = ()


def adoption(drift: Drift) -> Adoption:
    """Sort drift into what manifests can take over, and what somebody has to decide."""
    from kafkaform.config.manifests.editing import Edit  # reports of drift ask only what stands against it

    edits: list[Edit] = []
    refused: list[tuple[ResourceRef, str]] = []
    for drifted in drift.resources:
        if drifted.form is not Form.DIFFERS:
            refused.append((drifted.ref, whole_obstacle(drifted)))
        for one in drifted.fields:
            why = obstacle(drifted.ref, one)
            if why is None:
                edits.append(Edit(drifted.ref, one.change.path, one.change.before))
            else:
                refused.append((drifted.ref, why))
    if drift.unmanaged_counts:
        refused += [
            (ref, "no manifest declares it; kafkaform import writes one") for ref in drift.unmanaged or ()
        ]
    refused += [(ref, "it is not visible to this account") for ref in drift.unknown]
    return Adoption(tuple(edits), tuple(refused))


def whole_obstacle(drifted: ResourceDrift) -> str:
    """Why nothing can be adopted of a resource that is missing, or that should not be there."""
    if drifted.form is Form.MISSING:
        return "there is nothing on the cluster to adopt"
    return "its manifest declares only state: absent"


def obstacle(ref: ResourceRef, drifted: FieldDrift) -> str | None:
    """Why no manifest can say what a field of a resource is on the cluster; None if one can."""
    path, live = drifted.change.path, drifted.change.before
    reason = KINDS[ref.kind].undeclarable(path, live)
    return None if reason is None else f"{path}: {reason}"
