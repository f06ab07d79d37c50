"""The policy of a project: permissions besides those in manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Desired, Diagnostic, Observed, ResourceRef, Severity
from kafkaform.core.values import Value, field, replace
from kafkaform.resources.name_globs import NO_GLOBS, NameGlobs, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.core.plans import PlannedChange
    from kafkaform.resources.consent import Grant


OWN_PREFIX = "__kafkaform_"
"""The prefix of kafkaform's own topics and groups."""


class Policy(Value):
    """The permissions of a project and a cluster, besides those in manifests.

    Attributes:
        forbid: Hazards (globs) that are refused on this cluster regardless of consent, such as
            `partition-increase`.
        protected: Names (globs) of resources that are never deleted.
        ignore: Globs of undeclared live resources that are not reported.
        owns: Globs of the resources that pruning may delete.
        prune: Whether undeclared resources inside `owns` are to be deleted.
        allow: Consents given on the command line.
        blocked: The errors of rules by resource: its changes are refused.
        brake: The error of a rule that refuses all changes that are not safe; None if there is none.
    """

    forbid: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    ignore: NameGlobs = NO_GLOBS
    owns: NameGlobs = NO_GLOBS
    prune: bool = False
    allow: tuple[Grant, ...] = ()
    blocked: Mapping[ResourceRef, tuple[Diagnostic, ...]] = field(default_factory=dict)
    brake: Diagnostic | None = None

    def allows(self, planned: PlannedChange, hazard: str) -> bool:
        """Return whether a consent of the command line covers that hazard of that change."""
        return any(grant.covers(planned.ref, hazard, planned.layer) for grant in self.allow)

    def refusing(self, findings: Iterable[Diagnostic]) -> Policy:
        """Return the policy that also refuses the resources of these findings, if they are errors."""
        blocked = dict(self.blocked)
        brake = self.brake
        for finding in findings:
            if finding.severity is not Severity.ERROR:
                continue
            if finding.ref is None:
                brake = finding
            else:
                blocked[finding.ref] = (*blocked.get(finding.ref, ()), finding)
        return replace(self, blocked=blocked, brake=brake)


def is_own(ref: ResourceRef) -> bool:
    """Return whether a resource is kafkaform's own, which manifests do not declare."""
    return ref.name.startswith(OWN_PREFIX)


def find_protection(
    desired: Desired, observed: Observed | None, policy: Policy
) -> tuple[str, str | None] | None:
    """Return the reason and remedy if a resource must not be deleted; None if it may."""
    # First, as no change of the configuration would allow it.
    if observed is not None and observed.internal:
        return "it is internal to Kafka", "remove the manifest"
    if matches(desired.ref.name, policy.protected):
        return "its name is protected in kafkaform.yaml", "first change `protected:` in a reviewed commit"
    if desired.intent.deletion_protection:
        return "spec.deletionProtection is true", "first remove it in a reviewed commit"
    return None
