"""Making a plan for a cluster: read, check the rules, compare, and let the brokers have their say."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.apply.batches import batches
from kafkaform.core.errors import ClusterError, KafkaformError, RequestRejected
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
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
    Update,
    risk_of,
)
from kafkaform.core.moves import MoveOptions
from kafkaform.core.operations import Phase, Reassign
from kafkaform.plan.placement_planning import with_copies, with_placements
from kafkaform.plan.planner import diff, readers_of
from kafkaform.plan.policy import PRUNED, Policy, is_own, matches
from kafkaform.plan.recommits import first_offsets, topic_of, with_recommits
from kafkaform.plan.rejudging import Grounds, left_of, rejudged
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group import group_of
from kafkaform.resources.topic.copying import TOGETHER, together
from kafkaform.rules import Scene, Stage
from kafkaform.rules.notes import idle_waivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader, GroupReader, ResourceReader
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.groups import Group
    from kafkaform.core.model import Intent
    from kafkaform.core.operations import Operation
    from kafkaform.resources.consent import Grant
    from spark_validation.results import SkewReport


@dataclass(frozen=True, slots=True)
class Request:
    """What a plan is asked to cover.

    Attributes:
        desired: The declared resources.
        subset: Whether these are only a part of what the repository declares: then nothing is said
            about resources that nobody declares, and nothing is pruned.
        prune: Whether undeclared topics inside `owns` are to be deleted.
        allow: Consents given on the command line.
        environment: Whose overrides the desired resources have; None if none was chosen.
        skew: What was measured of topics' records; None if nothing.
        inventory: The kinds of which resources that nobody declares are told.
        reading: Whether the brokers are asked for readings alone, and nobody is waited for: changes are then
            not validated, and no group is watched.
    """

    desired: Sequence[Desired]
    subset: bool = False
    prune: bool = False
    allow: tuple[Grant, ...] = ()
    environment: str | None = None
    skew: SkewReport | None = None
    inventory: tuple[str, ...] = ("Topic",)
    reading: bool = False


WATCH_S = 6.0
"""How long to watch the offsets of a group that looks empty: consumers commit every 5 s by default."""

_BEFORE = (Stage.MANIFESTS, Stage.LIVE)
"""The rules that say what stands against a resource before it is known what changes."""


def silent(_: str) -> None:
    """Tell nobody."""


def make_plan(
    request: Request,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    *,
    tell: Callable[[str], None] = silent,
) -> Plan:
    """Plan the way from the live cluster to the desired state.

    Args:
        request: What to cover.
        cluster: The cluster.
        settings: What the project says.
        target: What it says of this cluster; None if nothing.
        tell: Is told what a person would otherwise wait for without knowing.

    Raises:
        ClusterError: The cluster cannot be read.
        SkewReportError: The measurement is of another cluster.
        KafkaformError: It is not the cluster that the configuration expects.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    if request.skew is not None:
        facts = _with_skew(facts, request.skew)
    prunable = settings.owns if request.prune else ()
    desired = tuple(sorted(request.desired, key=lambda declared: declared.ref))  # findings have an order
    observation = cluster.observe(
        wanted(desired),
        lambda ref: ref.kind == PRUNED and matches(ref.name, prunable),
        kinds=request.inventory,
    )
    moves = target.moves if target is not None else MoveOptions()
    facts = with_placements(facts, desired, observation, cluster, moves.throttle, waits=not request.reading)
    scene = Scene(
        desired,
        facts,
        observation.inventory,
        settings.limits,
        request.environment,
        max(len(facts.brokers), (target.brokers if target else None) or 0),
        observation.resources,
        subset=request.subset,
        skew={ref.name: result for ref, result in facts.skew.items()},
        invisible=frozenset(observation.invisible),
    )
    policy = Policy(
        forbid=target.forbid if target else (),
        protected=settings.protected,
        ignore=("*",) if request.subset else settings.ignore,
        owns=settings.owns,
        prune=request.prune,
        allow=request.allow,
    )
    findings = list(rules.check(scene, settings.rules, _BEFORE, more=settings.policies))
    policy = _blocking(policy, findings)
    plan = diff(desired, observation, facts, policy)
    sized = with_sizes(facts, plan, observation, cluster)
    if sized is not facts:
        plan = diff(desired, observation, sized, policy)
    facts = with_recommits(sized, plan, observation, cluster, target.audit if target else None)
    if facts is not sized:
        plan = diff(desired, observation, facts, policy)
    judged = list(judge_changes(plan, scene, cluster, settings, tell, watch=not request.reading))
    if any(found.severity is Severity.ERROR for _, found in judged):
        plan = diff(desired, observation, facts, _blocking(policy, judged))
    findings += judged
    if request.skew is not None:
        from kafkaform.plan import skew_report as in_plans

        findings += in_plans.as_it_is(scene, settings)
        findings += in_plans.notes(plan, scene, request.skew)
    known = {**rules.entries(), **{policy.code: policy for policy in settings.policies}}
    findings += idle_waivers(scene, findings, settings.rules, (*_BEFORE, Stage.CHANGES), known)
    found = [replace(diagnostic, ref=ref) for ref, diagnostic in findings]
    plan = replace(
        plan,
        diagnostics=(*found, *plan.diagnostics),
        readers=readers_of(plan.changes, desired),
        subset=request.subset,
    )
    return plan if request.reading else validated(plan, cluster)


def judged_again(
    plan: Plan,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    facts: Facts,
    *,
    intents: Mapping[ResourceRef, Intent],
    allow: tuple[Grant, ...] = (),
) -> tuple[Plan, Grounds]:
    """Judge a saved plan by what is live now: risks, rules about changes, and what is allowed.

    Args:
        plan: The saved plan.
        cluster: The cluster.
        settings: What the project says.
        target: What it says of this cluster; None if nothing.
        facts: What is known of the cluster.
        intents: What manifests say of resources of the plan, as far as any are at hand.
        allow: Consents given now.

    Returns:
        The plan, and what it was judged by, to judge it once more right before it is carried out.

    Raises:
        ClusterError: The cluster cannot be read.
    """
    policy = Policy(forbid=target.forbid if target else (), protected=settings.protected, allow=allow)
    grounds = Grounds(facts, policy, intents)
    if all(change.status is Status.REFUSED for change in plan.changes):
        return plan, grounds
    observation = cluster.observe(_at_stake(plan), kinds=(PRUNED,))
    again = rejudged(plan, observation, grounds)
    left = left_of(again, observation)
    facts = with_sizes(facts, left, observation, cluster)
    facts = with_recommits(facts, left, observation, cluster, target.audit if target else None)
    facts = with_copies(facts, left, cluster, (target.moves if target else MoveOptions()).throttle)
    if facts is not grounds.facts:
        grounds = Grounds(facts, policy, intents)
        again = rejudged(plan, observation, grounds)
        left = left_of(again, observation)
    ignored = {ref for ref in observation.inventory if is_own(ref) or matches(ref.name, settings.ignore)}
    scene = Scene(
        (),
        facts,
        observation.inventory - ignored,
        settings.limits,
        live=observation.resources,
        subset=plan.subset,
        saved=True,
        invisible=frozenset(observation.invisible),
    )
    findings = list(judge_changes(left, scene, cluster, settings, silent, watch=False))
    blocking = _blocking(policy, findings)
    if blocking != policy:
        grounds = replace(grounds, policy=blocking)
        again = rejudged(plan, observation, grounds)
    kept = [found for found in plan.diagnostics if found.code != TOGETHER]
    notes = dict.fromkeys((*kept, *facts.diagnostics, *together(left.changes, facts)))
    return replace(again, diagnostics=tuple(notes)), grounds


def _at_stake(plan: Plan) -> frozenset[ResourceRef]:
    """The resources of a plan, and the topics in which it commits first offsets."""
    refs = {change.ref for change in plan.changes}
    topics = (path for change in plan.changes for path in first_offsets(change.change))
    return frozenset(refs.union(map(topic_of, topics)))


def _with_skew(facts: Facts, report: SkewReport) -> Facts:
    from kafkaform.plan import skew_report as in_plans
    from kafkaform.plan.skew_report import require_cluster

    require_cluster(report, facts.cluster_id)
    return replace(facts, skew=in_plans.measured(report))


def wanted(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """The resources to read: the declared ones, and the topics that declared groups read."""
    refs = set()
    for declared in desired:
        refs.add(declared.ref)
        refs.update(ResourceRef("Topic", name) for name in KINDS[declared.ref.kind].reads(declared.intent))
    return frozenset(refs)


def judge_changes(
    plan: Plan,
    scene: Scene,
    cluster: GroupReader,
    settings: Settings,
    tell: Callable[[str], None],
    *,
    watch: bool = True,
) -> Iterator[tuple[ResourceRef | None, Diagnostic]]:
    """What rules say of the changes of a plan, beside the groups that they may affect.

    Without `watch`, nobody waits to see whether the offsets of a group that looks empty still move.
    """
    groups, notes = _groups_concerned(plan, scene, cluster, tell, watch=watch)
    scene = replace(scene, changes=plan.changes, groups=groups)
    yield from rules.check(scene, settings.rules, (Stage.CHANGES, Stage.FORECAST))
    yield from ((None, note) for note in notes)


def _groups_concerned(
    plan: Plan, scene: Scene, cluster: GroupReader, tell: Callable[[str], None], *, watch: bool
) -> tuple[Mapping[str, Group], tuple[Diagnostic, ...]]:
    """The groups that the changes of a plan may affect: to read all of them for nothing would take long."""
    changing = [change.change for change in plan.changes if change.status is not Status.REFUSED]
    readers = any(change.ref.kind == "Topic" and _concerns_readers(change) for change in changing)
    doomed = [
        change.ref.name
        for change in changing
        if change.ref.kind == "ConsumerGroup" and risk_of(change) >= Risk.DESTRUCTIVE
    ]
    looks_empty = [
        name
        for name in doomed
        if (observed := scene.live.get(ResourceRef("ConsumerGroup", name))) is not None
        and (group := group_of(observed)) is not None
        and group.committed
    ]
    if not readers and not looks_empty:
        return {}, ()
    if looks_empty and watch:
        names = ", ".join(looks_empty[:3]) + ("…" if len(looks_empty) > 3 else "")
        tell(f"reading the offsets of {names} twice, {WATCH_S:.0f} s apart: a consumer may use assign()")
        time.sleep(WATCH_S)
    try:
        reading = cluster.groups(None if readers else looks_empty)
    except ClusterError as error:
        message = f"the groups that read the topics were not read: {error.message}"
        return {}, (Diagnostic("KF419", Severity.INFO, message),)
    told = f"not every group may be known: {reading.unread}"
    return reading.groups, (Diagnostic("KF421", Severity.INFO, told),) if reading.unread else ()


def _concerns_readers(change: Change) -> bool:
    match change:
        case Create():
            return False
        case Update(fields=fields):
            return any(field.path == "partitions" for field in fields)
        case Delete():
            return True


def _blocking(policy: Policy, findings: Iterable[tuple[ResourceRef | None, Diagnostic]]) -> Policy:
    """The policy, with what rules refuse."""
    blocked = dict(policy.blocked)
    brake = policy.brake
    for ref, found in findings:
        if found.severity is not Severity.ERROR:
            continue
        if ref is None:
            brake = found
        else:
            blocked[ref] = (*blocked.get(ref, ()), found)
    return replace(policy, blocked=blocked, brake=brake)


def with_sizes(facts: Facts, plan: Plan, observation: Observation, cluster: ResourceReader) -> Facts:
    """The facts with the sizes of what a risky change touches: asking for all would take far longer."""
    touched = [
        observation.resources[change.ref]
        for change in plan.changes
        if change.ref.kind == "Topic"
        and change.ref in observation.resources
        and risk_of(change.change) > Risk.SAFE
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


def validated(plan: Plan, cluster: ResourceReader) -> Plan:
    """Let the brokers check every change that is not refused yet; what they object to is refused.

    An account that may not alter may not have it checked either, and a check can go unanswered: the plan
    then says so, and stands.
    """
    asked = [
        operation
        for change in plan.changes
        if change.status is not Status.REFUSED
        for operation in KINDS[change.ref.kind].operations(change.change)
        if not isinstance(operation, Reassign)  # which brokers cannot check
    ]
    objections: dict[ResourceRef, RequestRejected] = {}
    unanswered: list[ClusterError] = []
    for batch in _requests(asked):
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


def _requests(asked: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """What is checked at a time: a resource whose configs are altered in two steps comes in two requests."""
    late = [o for o in asked if o.phase is Phase.CONFIGURE_IN_SYNC]
    yield from batches(o for o in asked if o.phase is not Phase.CONFIGURE_IN_SYNC)
    yield from batches(late)


def _refuse(change: PlannedChange, objection: RequestRejected | None) -> PlannedChange:
    if objection is None:
        return change
    reason = f"the brokers refuse it: {objection.message}"
    return replace(change, status=Status.REFUSED, reason=reason, remedy=objection.hint)
