"""Making a plan for a cluster: read, check the rules, compare, and let the brokers have their say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.batches import batches
from kafkaform.errors import ClusterError, KafkaformError, RequestRejected
from kafkaform.kinds import KINDS
from kafkaform.model import (
    Desired,
    Diagnostic,
    Facts,
    Observation,
    Plan,
    PlannedChange,
    ResourceRef,
    Risk,
    Severity,
    Status,
    risk_of,
)
from kafkaform.planner import PRUNED, Policy, diff, matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.protocol import Cluster
    from kafkaform.consent import Grant
    from kafkaform.settings import ClusterSettings, Settings


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is asked to cover.

    Attributes:
        desired: The declared resources.
        subset: Whether these are only a part of what the repository declares: then nothing is said
            about resources that nobody declares, and nothing is pruned.
        prune: Whether undeclared topics inside `owns` are to be deleted.
        allow: Consents given on the command line.
    """

    desired: Sequence[Desired]
    subset: bool = False
    prune: bool = False
    allow: tuple[Grant, ...] = ()


def make_plan(request: Request, cluster: Cluster, settings: Settings, target: ClusterSettings | None) -> Plan:
    """Plan the way from the live cluster to the desired state.

    Raises:
        ClusterError: The cluster cannot be read.
        KafkaformError: It is not the cluster that the configuration expects.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    prunable = settings.owns if request.prune else ()
    observation = cluster.observe(
        [desired.ref for desired in request.desired],
        lambda ref: ref.kind == PRUNED and matches(ref.name, prunable),
        kinds=["Topic"],
    )
    desired = sorted(request.desired, key=lambda declared: declared.ref)  # so that findings have an order
    scene = rules.Scene(tuple(desired), facts, observation.inventory)
    findings = list(rules.check(scene, settings.rules))
    policy = Policy(
        forbid=target.forbid if target else (),
        protected=settings.protected,
        ignore=("*",) if request.subset else settings.ignore,
        owns=settings.owns,
        prune=request.prune,
        allow=request.allow,
        blocked={ref: found for ref, found in findings if ref and found.severity is Severity.ERROR},
    )
    plan = diff(desired, observation, facts, policy)
    facts = _with_sizes(facts, plan, observation, cluster)
    plan = diff(desired, observation, facts, policy)
    plan = replace(plan, diagnostics=(*(found for _, found in findings), *plan.diagnostics))
    return validated(plan, cluster)


def _with_sizes(facts: Facts, plan: Plan, observation: Observation, cluster: Cluster) -> Facts:
    """The facts with the sizes of what a risky change touches: asking for all would take far longer."""
    touched = [
        observation.resources[change.ref]
        for change in plan.changes
        if change.ref in observation.resources and risk_of(change.change) > Risk.SAFE
    ]
    if not touched:
        return facts
    try:
        sizes = cluster.sizes(touched)
        untold = [resource for resource in touched if resource.ref not in sizes]
        why = f"the brokers tell this account no size of {len(untold)} of them" if untold else None
    except ClusterError as error:
        sizes, why = {}, error.message
    if why is None:
        return replace(facts, sizes=sizes)
    note = Diagnostic("KF416", Severity.INFO, f"the sizes of topics were not read: {why}")
    return replace(facts, sizes=sizes, diagnostics=(*facts.diagnostics, note))


def check_identity(facts: Facts, target: ClusterSettings | None) -> None:
    """Refuse a cluster that has another id than the configuration says."""
    if target is not None and target.cluster_id is not None and target.cluster_id != facts.cluster_id:
        raise KafkaformError(
            f"cluster {target.name} has the id {facts.cluster_id}, not {target.cluster_id} as configured",
            hint="these client properties lead to another cluster: correct them, or clusterId",
        )


def validated(plan: Plan, cluster: Cluster) -> Plan:
    """Let the brokers check every change that is not refused yet; what they object to is refused.

    An account that may not alter may not have it checked either, and a check can go unanswered: the plan
    then says so, and stands.
    """
    asked = [
        operation
        for change in plan.changes
        if change.status is not Status.REFUSED
        for operation in KINDS[change.ref.kind].operations(change.change)
    ]
    objections: dict[ResourceRef, RequestRejected] = {}
    unanswered: list[ClusterError] = []
    for batch in batches(asked):
        for operation, objection in zip(batch, cluster.validate(batch), strict=True):
            if isinstance(objection, RequestRejected):
                objections.setdefault(operation.ref, objection)
            elif objection is not None:
                unanswered.append(objection)
    changes = tuple(_refuse(change, objections.get(change.ref)) for change in plan.changes)
    notes = plan.diagnostics
    if unanswered:
        count = f"{len(unanswered)} of {len(asked)} operations"
        message = f"the brokers did not validate {count}: {unanswered[0].message}"
        notes = (*notes, Diagnostic("KF414", Severity.INFO, message))
    return replace(plan, changes=changes, broker_validated=not unanswered, diagnostics=notes)


def _refuse(change: PlannedChange, objection: RequestRejected | None) -> PlannedChange:
    if objection is None:
        return change
    reason = f"the brokers refuse it: {objection.message}"
    return replace(change, status=Status.REFUSED, reason=reason, remedy=objection.hint)
