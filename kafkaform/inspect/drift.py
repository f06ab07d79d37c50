"""Drift: the differences between a live cluster and its manifests, with their history.

Drift is the diff of a plan from the cluster's side, plus the configs that no manifest declares. Adopting
drift edits the manifests until they declare the live values.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, Create, Delete, FieldChange, Recreate, Update
from kafkaform.core.values import Value
from kafkaform.resources import KINDS, kind_order
from kafkaform.resources.base import field_order, locate_edit
from kafkaform.resources.values import list_differing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.audit.trail import Trail
    from kafkaform.config.manifests.editing import Edit
    from kafkaform.core.model import Desired, Diagnostic, FieldValue, Location, ResourceRef, Setting, State
    from kafkaform.core.plans import Plan, PlannedChange, UndeclaredConfig


READING_NOTES = frozenset({"KF218", "KF411", "KF412", "KF413", "KF415", "KF420", "KF421", "KF430", "KF432"})
"""The findings of a plan about its reading of the cluster, and about groups that wait for the end of a topic;
the others are about manifests or applying."""


class Form(StrEnum):
    """The form of a drift; a `PRESENT` resource exists although its manifest has `state: absent`."""

    DIFFERS = "differs"
    MISSING = "missing"
    PRESENT = "present"


class DriftCause(StrEnum):
    """The side that changed since the last recorded apply, or why that cannot be decided."""

    UNRECORDED = "unrecorded"
    CLUSTER = "cluster_changed"
    MANIFEST = "manifest_changed"
    BOTH = "both_changed"
    INTERRUPTED = "apply_interrupted"
    NOT_VISIBLE = "apply_not_visible"
    UNDECIDED = "undecided"


class DriftVerdict(StrEnum):
    """The outcome of a drift check."""

    CLEAN = "clean"
    DRIFT = "drift"
    UNKNOWN = "unknown"


class Unmanaged(StrEnum):
    """The treatment of live resources that no manifest declares; with `ERROR`, they count as drift."""

    IGNORE = "ignore"
    REPORT = "report"
    ERROR = "error"


class FieldHistory(Value):
    """The recorded history of a live value.

    Attributes:
        cause: The side that changed.
        last: The setting by the latest apply; None if no recorded apply set it, or the latest deleted it. An
            apply without a known result counts if it was to set the live value.
        source: The latest apply that set the live value, if that was an earlier one.
    """

    cause: DriftCause
    last: Setting | None = None
    source: Setting | None = None


class FieldDrift(Value):
    """One field that is not as declared.

    Attributes:
        change: The change from the live value to the declared one.
        declared: Whether a manifest or default declares it; if not, it was set on the cluster.
        left_alone: Whether an apply does not change it.
        location: The place in the manifest that sets it, or the nearest one around it.
        keys: The path of keys in the manifest; None where the manifest does not set it.
        history: The recorded history; None where no record was read.
    """

    change: FieldChange
    declared: bool
    left_alone: bool = False
    location: Location | None = None
    keys: tuple[str, ...] | None = None
    history: FieldHistory | None = None


class ResourceDrift(Value):
    """A declared resource that is not as declared.

    Attributes:
        desired: The resource as declared.
        form: The form of the drift.
        fields: The fields that differ; none where the whole resource does.
        planned: The change that an apply would make; None for no change.
        history: The recorded history of a whole resource; None where no record was read.
    """

    desired: Desired
    form: Form
    fields: tuple[FieldDrift, ...] = ()
    planned: PlannedChange | None = None
    history: FieldHistory | None = None

    @property
    def ref(self) -> ResourceRef:
        """The reference of the resource."""
        return self.desired.ref

    @property
    def size(self) -> int:
        """The number of fields that differ; 1 for a whole resource."""
        return max(1, len(self.fields))


class Drift(Value):
    """The drift of a live cluster.

    Attributes:
        plan: The plan from which the drift was derived.
        resources: The resources that drifted, by kind and name.
        unmanaged: Live resources that no manifest declares; None where they were not read.
        unmanaged_counts: Whether such a resource counts as drift.
        notes: Findings about the reading of the cluster.
        unrecorded: Why the start of the drift is not known; None where it is, or nothing drifted.
    """

    plan: Plan
    resources: tuple[ResourceDrift, ...] = ()
    unmanaged: tuple[ResourceRef, ...] | None = None
    unmanaged_counts: bool = False
    notes: tuple[Diagnostic, ...] = ()
    unrecorded: str | None = None

    @property
    def unknown(self) -> tuple[ResourceRef, ...]:
        """The declared resources that the account may not see."""
        return self.plan.unknown

    @property
    def unchanged(self) -> int:
        """The number of resources that are as declared and have no undeclared configs."""
        # A plan leaves undeclared configs as they are, and counts their resources as unchanged.
        return self.plan.unchanged - sum(resource.planned is None for resource in self.resources)

    @property
    def verdict(self) -> DriftVerdict:
        """The outcome: UNKNOWN if a resource is not visible, as it may have drifted too."""
        # Before DRIFT: an incomplete check must not be taken for one that only found a little.
        if self.unknown:
            return DriftVerdict.UNKNOWN
        if self.resources or (self.unmanaged_counts and self.unmanaged):
            return DriftVerdict.DRIFT
        return DriftVerdict.CLEAN


def has_drift(plan: Plan) -> bool:
    """Return whether a declared resource drifted: the record of applies is not read otherwise."""
    return bool(plan.changes or plan.undeclared)


def find_drift(
    plan: Plan, desired: Iterable[Desired], trail: Trail | str, *, unmanaged: Unmanaged = Unmanaged.REPORT
) -> Drift:
    """Derive the drift from a plan.

    Args:
        plan: The plan for the declared resources.
        desired: The declared resources.
        trail: The record of applies, or why there is none.
        unmanaged: The treatment of undeclared resources; `IGNORE` where they were not read.
    """
    declared = {resource.ref: resource for resource in desired}
    changes = {change.ref: change for change in plan.changes}
    undeclared = {
        ref: tuple(configs) for ref, configs in groupby(plan.undeclared, key=lambda config: config.ref)
    }
    # Without a record, drift is still drift: only its cause is unknown.
    known = None if isinstance(trail, str) else trail
    order = sorted({*changes, *undeclared}, key=lambda ref: (kind_order(ref.kind), ref.name))
    resources = tuple(
        _find_resource_drift(declared[ref], changes.get(ref), undeclared.get(ref, ()), known) for ref in order
    )
    return Drift(
        plan,
        resources,
        None if unmanaged is Unmanaged.IGNORE else plan.unmanaged,
        unmanaged is Unmanaged.ERROR,
        tuple(note for note in plan.diagnostics if note.code in READING_NOTES),
        trail if isinstance(trail, str) and resources else None,
    )


def _find_resource_drift(
    desired: Desired,
    planned: PlannedChange | None,
    undeclared: Iterable[UndeclaredConfig],
    trail: Trail | None,
) -> ResourceDrift:
    match planned.change if planned is not None else None:
        case Create(state=state):
            history = _find_resource_history(desired.ref, state, trail, live=False)
            return ResourceDrift(desired, Form.MISSING, (), planned, history)
        case Delete(state=state):
            history = _find_resource_history(desired.ref, state, trail, live=True)
            return ResourceDrift(desired, Form.PRESENT, (), planned, history)
        case Update(fields=fields):
            # Fields that a plan only adds to reach another one, such as places for more replicas, are no
            # drift.
            changes: Mapping[str, FieldChange] = {f.path: f for f in fields if not _is_chosen(desired, f)}
        case Recreate() as recreation:
            changes = {field.path: field for field in list_differing(recreation)}
        case None:
            changes = {}
    # From the live value to itself: an apply leaves an undeclared config alone.
    extra = {config.path: FieldChange(config.path, config.value, None, config.value) for config in undeclared}
    order = sorted({*changes, *extra}, key=field_order(KINDS[desired.ref.kind]))
    drifted = tuple(
        _find_field_drift(desired, changes.get(path) or extra[path], trail, left_alone=path in extra)
        for path in order
    )
    return ResourceDrift(desired, Form.DIFFERS, drifted, planned)


def _is_chosen(desired: Desired, change: FieldChange) -> bool:
    """Return whether the plan added a field that no manifest declares, to reach the value of another one."""
    path = change.path
    if change.after is None:  # a removal: the plan chooses values, such as replicas
        return False
    return not (
        path.startswith(CONFIG_PREFIX) or path in (desired.state or {}) or path in desired.intent.spec
    )


def _find_field_drift(
    desired: Desired, change: FieldChange, trail: Trail | None, *, left_alone: bool
) -> FieldDrift:
    history = None if trail is None else find_history(desired.ref, change, trail)
    path = change.path
    declared = desired.state is not None and path in desired.state
    return FieldDrift(change, declared, left_alone, desired.locate(path), desired.keys(path), history)


def find_history(ref: ResourceRef, change: FieldChange, trail: Trail) -> FieldHistory:
    """Return the recorded history of a live value, and the side that changed since."""

    def equal(a: FieldValue, b: FieldValue) -> bool:
        return KINDS[ref.kind].field(change.path).equal(a, b)

    recorded = trail.settings(ref, change.path)
    # The brokers acknowledged it, or did not answer, and no reading showed it, as none does now: nothing
    # shows that another one changed the field.
    if recorded and _is_not_visible(recorded[0]) and equal(recorded[0].before, change.before):
        return FieldHistory(DriftCause.NOT_VISIBLE, recorded[0])
    if recorded and _stopped_half_way(ref, change, recorded[0]):
        return FieldHistory(DriftCause.INTERRUPTED, recorded[0])
    # An apply without a known result counts only if its value is the live one: then it was carried out.
    settings = [setting for setting in recorded if setting.certain or equal(setting.value, change.before)]
    if not settings:
        return FieldHistory(DriftCause.UNRECORDED)
    last = settings[0]
    if equal(last.value, change.before):
        # The live value is what the last apply set, so that the manifest has changed since.
        return FieldHistory(DriftCause.MANIFEST, last)
    # Somebody may have set back the value of an earlier apply.
    source = next((s for s in settings if s.certain and equal(s.value, change.before)), None)
    field = KINDS[ref.kind].field(change.path)
    if field.visible(change.before) == field.visible(change.after):
        # Such as a refused login: the password of the cluster was changed, or the declared one.
        return FieldHistory(DriftCause.UNDECIDED, last, source)
    cause = DriftCause.CLUSTER if equal(last.value, change.after) else DriftCause.BOTH
    return FieldHistory(cause, last, source)


def _stopped_half_way(ref: ResourceRef, change: FieldChange, latest: Setting) -> bool:
    """Return whether the live value may come from the latest apply, whose result is not known."""
    recorded = FieldChange(change.path, latest.before, latest.value)
    # A move that was interrupted leaves values between the two.
    compared = KINDS[ref.kind].field(recorded.path)
    return not latest.certain and compared.is_intermediate(recorded, change.before)


def _is_not_visible(setting: Setting) -> bool:
    """Return whether an apply sent a change that it could not verify; one that died may have sent nothing."""
    return not setting.certain and not setting.unended


def _find_resource_history(
    ref: ResourceRef, state: State, trail: Trail | None, *, live: bool
) -> FieldHistory | None:
    """Return the recorded history of a resource that exists and should not, or the other way round."""
    if trail is None:
        return None
    # The latest apply was to create it and it is missing, or to delete it and it is there.
    latest = trail.find_open(ref, "delete" if live else "create")
    if latest is not None and _is_not_visible(latest):
        return FieldHistory(DriftCause.NOT_VISIBLE, latest)
    # An apply has deleted it, and the manifest declares it again.
    if not live and (deletion := trail.find_open(ref, "delete")) is not None:
        return FieldHistory(DriftCause.MANIFEST, deletion)
    recorded = [s for path in state for s in trail.settings(ref, path) if live or s.certain]
    if recorded:
        # Fields may have been set by different applies; the latest one is reported.
        latest = max(recorded, key=lambda setting: setting.at)
        return FieldHistory(DriftCause.MANIFEST if live else DriftCause.CLUSTER, latest)
    if trail.replaced_since(ref, ""):  # settings before the last deletion do not count
        return FieldHistory(DriftCause.CLUSTER if live else DriftCause.MANIFEST)
    return FieldHistory(DriftCause.UNRECORDED)


class Adoption(Value):
    """The drift that manifests can take over.

    Attributes:
        edits: The edits of manifests.
        refused: The resources with drift that manifests cannot take over, and why.
    """

    edits: tuple[Edit, ...] = ()
    refused: tuple[tuple[ResourceRef, str], ...] = ()


def plan_adoption(drift: Drift) -> Adoption:
    """Split drift into edits of manifests and what manifests cannot take over."""
    # Not at the top: it loads the YAML editor, which drift reports do not need.
    from kafkaform.config.manifests.editing import Edit

    edits: list[Edit] = []
    refused: list[tuple[ResourceRef, str]] = []
    for drifted in drift.resources:
        # Manifests declare resources that exist: a missing one can be adopted only by removing its manifest.
        if drifted.form is not Form.DIFFERS:
            refused.append((drifted.ref, explain_whole_obstacle(drifted)))
        for field_drift in drifted.fields:
            reason = find_obstacle(drifted.desired, field_drift)
            if reason is None:
                edits.append(Edit(drifted.ref, field_drift.change.path, field_drift.change.before))
            else:
                refused.append((drifted.ref, reason))
    # They are drift only with `--unmanaged error`; adopting takes a new file, which `import` writes.
    if drift.unmanaged_counts:
        refused += [
            (ref, "no manifest declares it; `kafkaform import` writes one") for ref in drift.unmanaged or ()
        ]
    refused += [(ref, "it is not visible to this account") for ref in drift.unknown]
    return Adoption(tuple(edits), tuple(refused))


def explain_whole_obstacle(drifted: ResourceDrift) -> str:
    """Return why a resource that is missing, or should not exist, cannot be adopted."""
    if drifted.form is Form.MISSING:
        return "there is nothing on the cluster to adopt"
    return "its manifest declares only state: absent"


def find_obstacle(desired: Desired, drifted: FieldDrift) -> str | None:
    """Return why no manifest can declare the live value of a field; None if one can."""
    path, live = drifted.change.path, drifted.change.before
    kind = KINDS[desired.ref.kind]
    reason = kind.field(path).undeclarable(live) or locate_edit(kind, desired, path, live)
    return f"{path}: {reason}" if isinstance(reason, str) else None
