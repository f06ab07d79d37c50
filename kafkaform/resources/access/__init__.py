"""The kind Access."""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import TYPE_CHECKING

from kafkaform.core.acl_fields import is_covered, is_implied, parse_path, write_path, write_value
from kafkaform.core.model import Create, Delete, Diagnostic, ManifestScope, Observed, ResourceRef, Severity
from kafkaform.core.plans import Binding
from kafkaform.resources.access import operations as access_operations
from kafkaform.resources.access import reach, risk, spec
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.resources.base import (
    Field,
    Hazards,
    Itemized,
    KindScope,
    KindWords,
    PlanWide,
    PolicyChecked,
    PolicyPart,
    UsageFacts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.core.authorizer import AccessReading
    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.model import Change, Desired, Facts, FieldChange, FieldValue, RiskAssessment, State
    from kafkaform.resources.base import ManifestEdit, UpdateContext


class _AclField(Field):
    """One ACL of a principal."""

    ending = "deleted"

    def bind(self, _change: FieldChange) -> Binding:
        scope = f"of {self.path}"
        return Binding(scope, partial(eq, scope))

    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge_field(self.path, context.ref.name, context.after.get(self.path), context.facts)

    def default(self, _facts: Facts) -> FieldValue:
        return None

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        if after is None:
            return "removed", ()
        return (str(after), ()) if before is None else None

    def undeclarable(self, _value: FieldValue) -> str | None:
        return spec.find_obstacle(parse_path(self.path, ""))


class AccessKind(Itemized, PlanWide, PolicyChecked):
    """The ACLs of a principal."""

    name = spec.NAME
    words = KindWords("principals with ACLs", "access", "access", "its rights", "deleted", "box")
    schema = "access"
    hazards = Hazards(risk.HAZARDS)
    # Principals that no manifest names are of others: they are read only if a manifest declares one. Reading
    # takes a right on the whole cluster: single ACLs have none.
    scope = KindScope(
        listed=False,
        prunable=True,
        names_principals=True,
        reading_rights=("Describe",),
        is_cluster_right=True,
    )
    plan_wide_codes = frozenset({reach.CODE})

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    combine = staticmethod(spec.combine)
    write = staticmethod(spec.write)
    operations = staticmethod(access_operations.operations)

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """Return the fields of an ACL."""
        return spec.POLICY_FIELDS

    def list_policy_parts(self, desired: Desired) -> Iterable[PolicyPart]:
        """Yield each ACL, with the values that policies compare."""
        for path in desired.state or ():
            yield PolicyPart(path, spec.describe_for_policies(parse_path(path, desired.ref.name)))

    def field(self, path: str) -> Field:
        """Return the field of an ACL."""
        return _AclField(self, path)

    def foresee(self, changes: Iterable[Change], facts: Facts) -> Facts:
        """Add all ACLs that the changes create and delete."""
        return risk.foresee([change for change in changes if change.ref.kind == self.name], facts)

    def note_plan_wide(self, changes: Sequence[Change], facts: Facts) -> Iterable[Diagnostic]:
        """Note what each principal may do before and after the changes."""
        changing = {change.ref for change in changes}
        made = self.foresee(changes, facts) if any(ref.kind == self.name for ref in changing) else facts
        differing: dict[str, list[reach.ReachChange]] = {}
        for difference in reach.compare(made.get(AccessFacts), made.get(UsageFacts)):
            differing.setdefault(difference.principal, []).append(difference)
        for principal, differences in differing.items():
            ref = ResourceRef(self.name, principal)
            text = reach.describe(principal, differences)
            yield Diagnostic(reach.CODE, Severity.INFO, text, ref=ref if ref in changing else None)

    def judge(self, change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the first ACLs of a principal, or the removal of all."""
        state = change.state if observed is None else observed.state
        return risk.judge_all(change.ref.name, state, facts, is_created=observed is None)

    def locate_edit(self, desired: Desired, path: str, value: FieldValue) -> ManifestEdit | str | None:
        """Return the edit of `spec.acls` in one of the manifests of a principal."""
        locations = desired.locations
        assert isinstance(locations, spec.AclLocations)  # noqa: S101 - manifests were combined
        acl = None if path == "state" else parse_path(path, desired.ref.name)
        return locations.locate_edit(path, acl, value)

    def reconcile(self, state: State, observed: Observed, facts: Facts) -> State:
        """Return the declared ACLs that are missing, and the removal of live ones that no manifest declares.

        None as the value of one is its removal.

        A live `Describe` beside a declared `Read` stays: Kafka includes it. A declared one that a live ACL
        includes is not missing. In a plan of some manifests only, nothing is removed: another manifest may
        declare it.
        """
        missing = [path for path, value in state.items() if observed.state.get(path) != value]
        undeclared = [path for path in observed.state if path not in state]
        if not missing and not undeclared:  # most of thousands of principals
            return {}
        principal = observed.ref.name
        live = [parse_path(path, principal) for path in state if path in observed.state]
        wanted = {
            path: state[path]
            for path in missing
            if state[path] is None or not is_covered(parse_path(path, principal), live)
        }
        if facts.get(ManifestScope).is_part:
            return wanted
        declared = {parse_path(path, principal) for path in state}
        removed = [path for path in undeclared if not is_implied(parse_path(path, principal), declared)]
        return {**wanted, **dict.fromkeys(removed)}


def observe_access(reading: AccessReading) -> dict[ResourceRef, Observed]:
    """Return the principals that have ACLs, each with them."""
    states: dict[str, dict[str, FieldValue]] = {}
    for acl in reading.acls:
        states.setdefault(acl.principal, {})[write_path(acl)] = write_value(acl)
    return {
        (ref := ResourceRef(AccessKind.name, principal)): Observed(ref, None, state)
        for principal, state in states.items()
    }
