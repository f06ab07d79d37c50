"""Making a plan for a cluster: read, check the rules, compare, and let the brokers have their say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kafkaform import rules
from kafkaform.batches import batches
from kafkaform.cluster.protocol import Cluster
from kafkaform.consent import Grant
from kafkaform.errors import ClusterError, KafkaformError, PermissionDenied
from kafkaform.kinds import KINDS
from kafkaform.model import (
    Desired,
    Diagnostic,
    Facts,
    Operation,
    Plan,
    PlannedChange,
    ResourceRef,
    Severity,
    Status,
)
from kafkaform.planner import Policy, diff, matches
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


def make_plan(
    request: Request, cluster: Cluster, settings: Settings, target: ClusterSettings | None
) -> Plan:
    """Plan the way from the live cluster to the desired state.

    Raises:
        ClusterError: The cluster cannot be read.
        KafkaformError: It is not the cluster that the configuration expects.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    prunable = settings.owns if request.prune else ()
    observation = cluster.observe(
        [desired.ref for desired in request.desired], lambda ref: matches(ref.name, prunable)
    )
    scene = rules.Scene(tuple(request.desired), facts, observation.inventory)
    findings = list(rules.check(scene, settings.rules))
    policy = Policy(
        forbid=target.forbid if target else (),
        protected=settings.protected,
        ignore=("*",) if request.subset else settings.ignore,
        owns=settings.owns,
        prune=request.prune,
        allow=request.allow,
        blocked={ref: found for ref, found in findings if found.severity is Severity.ERROR},
    )
    plan = diff(request.desired, observation, facts, policy)
    plan = replace(plan, diagnostics=(*(found for _, found in findings), *plan.diagnostics))
    return validated(plan, cluster)


def check_identity(facts: Facts, target: ClusterSettings | None) -> None:
    """Refuse a cluster that has another id than the configuration says."""
    if target is not None and target.cluster_id is not None and target.cluster_id != facts.cluster_id:
        raise KafkaformError(
            f"cluster {target.name} has the id {facts.cluster_id}, not {target.cluster_id} as configured",
            hint="these client properties lead to another cluster: correct them, or clusterId",
        )


def validated(plan: Plan, cluster: Cluster) -> Plan:
    """Let the brokers check every change that is not refused yet; what they object to is refused.

    An account that may not alter may not have it checked either: the plan then says so.
    """
    asked = [
        (change.ref, operation)
        for change in plan.changes
        if change.status is not Status.REFUSED
        for operation in KINDS[change.ref.kind].operations(change.change)
    ]
    objections: dict[ResourceRef, ClusterError] = {}
    denied: list[PermissionDenied] = []
    for ref, objection in _ask(asked, cluster):
        if isinstance(objection, PermissionDenied):
            denied.append(objection)
        elif objection is not None:
            objections.setdefault(ref, objection)
    changes = tuple(_refuse(change, objections.get(change.ref)) for change in plan.changes)
    notes = plan.diagnostics
    if denied:
        message = f"{len(denied)} operations were not validated by the brokers: {denied[0].message}"
        notes = (*notes, Diagnostic("KF414", Severity.INFO, message))
    return replace(plan, changes=changes, broker_validated=not denied, diagnostics=notes)


def _ask(
    asked: Sequence[tuple[ResourceRef, Operation]], cluster: Cluster
) -> Iterable[tuple[ResourceRef, ClusterError | None]]:
    refs = iter([ref for ref, _ in asked])
    for batch in batches(operation for _, operation in asked):
        for objection in cluster.validate(batch):
            yield next(refs), objection


def _refuse(change: PlannedChange, objection: ClusterError | None) -> PlannedChange:
    if objection is None:
        return change
    reason = f"the brokers refuse it: {objection.message}"
    return replace(change, status=Status.REFUSED, reason=reason, remedy=objection.hint)
