"""Making a plan for a cluster, in one pass: each stage is a function from a value to a value.

Read -> place -> diff -> measure -> judge -> rules and gates -> validate. A saved plan that is applied goes
through the same stages with what is left of its changes in the place of the diff's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, PermissionDenied, RequestRejected
from kafkaform.core.layout import Strategy
from kafkaform.core.model import (
    Desired,
    Diagnostic,
    Facts,
    Observation,
    Plan,
    PlannedChange,
    ResourceRef,
    Severity,
    Status,
    Update,
)
from kafkaform.core.moves import MoveOptions
from kafkaform.core.operations import AddPartitions, Phase, Reassign, batches
from kafkaform.core.wording import counted, listed
from kafkaform.plan.measuring import groups_concerned, measure
from kafkaform.plan.placement_planning import with_placements
from kafkaform.plan.planner import (
    GatedChanges,
    Proposal,
    conclude,
    diff,
    gate,
    judge,
    readers_of,
    with_pruned,
)
from kafkaform.plan.policy import Policy, is_own, matches
from kafkaform.plan.rejudging import Grounds, judge_left, left_of, open_changes, with_verdicts
from kafkaform.resources import KINDS
from kafkaform.resources.topic import topic_ref
from kafkaform.resources.topic.copying import TOGETHER, together
from kafkaform.resources.topic.live import topic_facts
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.topic.placement import strategy_of
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.notes import idle_waivers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader, GroupReader, ResourceReader
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.model import Intent
    from kafkaform.core.operations import Operation
    from kafkaform.core.rights import Right
    from kafkaform.resources.consent import Grant
    from spark_validation.results import SkewReport


PRUNABLE = tuple(kind.name for kind in KINDS.values() if kind.prunable)
"""The kinds of which it is told what nobody declares: a group that nobody declares is no news."""


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
    inventory: tuple[str, ...] = PRUNABLE
    reading: bool = False


_BEFORE = (Stage.MANIFESTS, Stage.LIVE)
"""The rules that say what stands against a resource before it is known what changes."""


def silent(_: str) -> None:
    """Tell nobody."""


def build_plan(
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
    # 1. Read the cluster.
    desired = tuple(sorted(request.desired, key=lambda declared: declared.ref))  # findings have an order
    policy = _policy(request, settings, target)
    facts, observation = _read(request, desired, cluster, settings, target)
    # 2. Place replicas.
    facts = with_placements(facts, desired, observation, cluster, waits=not request.reading)
    # 3. Find what differs, once.
    difference = diff(with_pruned(desired, observation, policy), observation, facts)
    # 4. Measure what the changes touch: with that, the facts are complete.
    facts = measure(facts, difference.proposals, observation, cluster, target, move_options(settings, target))
    # 5. Judge how risky the changes are.
    proposals = judge(difference.proposals, observation, facts)
    # 6. Run rules, and gate the changes by what they and the policy refuse, and by consent.
    context = _scene(request, desired, facts, observation, settings, target)
    findings = list(rules.check(context, settings.rules, _BEFORE, more=settings.policies))
    policy = policy.refusing(findings)
    watch = not request.reading
    reviewed = review(
        proposals, observation, facts, context, policy, cluster, settings, tell=tell, watch=watch
    )
    plan = conclude(difference, reviewed.gated, facts, policy)
    findings += reviewed.findings
    findings += _skew_findings(plan, context, settings, request.skew)
    findings += _idle_waivers(context, findings, settings)
    plan = replace(
        plan,
        diagnostics=(*findings, *plan.diagnostics),
        readers=readers_of(plan.changes, desired),
        subset=request.subset,
    )
    # 7. Let the brokers validate what is left.
    fixed = {d.ref for d in desired if KINDS[d.ref.kind].placed and strategy_of(d.intent) is Strategy.STATIC}
    return plan if request.reading else validated(plan, cluster, fixed)


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
    """Take a saved plan through the stages again: what is left of its changes is in the place of a diff.

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
    if all(change.status is Status.REFUSED for change in plan.changes):
        return plan, Grounds(facts, policy, intents)
    observation = cluster.observe(_at_stake(plan), kinds=PRUNABLE)
    left = left_of(plan, observation, intents)
    facts = measure(facts, left, observation, cluster, target, move_options(settings, target))
    proposals = judge_left(left, observation, facts)
    ignored = {ref for ref in observation.inventory if is_own(ref) or matches(ref.name, settings.ignore)}
    context = RuleContext(
        (),
        facts,
        observation.inventory - ignored,
        settings.limits,
        live=observation.resources,
        subset=plan.subset,
        saved=True,
        invisible=frozenset(observation.invisible),
    )
    reviewed = review(proposals, observation, facts, context, policy, cluster, settings, watch=False)
    kept = [found for found in plan.diagnostics if found.code != TOGETHER]
    notes = dict.fromkeys((*kept, *facts.diagnostics, *together(reviewed.open, facts)))
    again = replace(with_verdicts(plan, reviewed.gated), diagnostics=tuple(notes))
    return again, Grounds(facts, reviewed.policy, intents, observation)


def _at_stake(plan: Plan) -> frozenset[ResourceRef]:
    """The resources of a plan, and the topics in which it commits first offsets."""
    refs = frozenset(change.ref for change in plan.changes)
    return refs.union(
        *(KINDS[change.ref.kind].first_offsets(change.change).values() for change in plan.changes)
    )


# --- read --------------------------------------------------------------------------------------------


def _read(
    request: Request,
    desired: Sequence[Desired],
    cluster: ResourceReader,
    settings: Settings,
    target: ClusterSettings | None,
) -> tuple[Facts, Observation]:
    """What is known of the cluster, and a reading of what is declared, and of what may be pruned."""
    facts = cluster.facts()
    check_identity(facts, target)
    if request.skew is not None:
        from kafkaform.plan.skew_report import measured, require_cluster

        require_cluster(request.skew, facts.cluster_id)
        facts = replace(topic_facts(facts), skew=measured(request.skew)).beside(facts)
    prunable = settings.owns if request.prune else ()
    observation = cluster.observe(
        wanted(desired),
        lambda ref: KINDS[ref.kind].prunable and matches(ref.name, prunable),
        kinds=request.inventory,
    )
    return facts, observation


def check_identity(facts: Facts, target: ClusterSettings | None) -> None:
    """Refuse a cluster that has another id than the configuration says."""
    if target is not None and target.cluster_id is not None and target.cluster_id != facts.cluster_id:
        raise KafkaformError(
            f"cluster {target.name} has the id {facts.cluster_id}, but {target.cluster_id} is configured",
            hint="these client properties connect to another cluster: correct them, or correct clusterId",
        )


def move_options(settings: Settings, target: ClusterSettings | None) -> MoveOptions:
    """Return how an apply moves replicas; a cluster that nobody configured has the project's limits."""
    return target.moves if target is not None else MoveOptions(disk_reserve=settings.limits.disk_reserve)


def wanted(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """The resources to read: the declared ones, and the topics that declared groups read."""
    refs = set()
    for declared in desired:
        refs.add(declared.ref)
        refs.update(topic_ref(name) for name in KINDS[declared.ref.kind].reads(declared.intent))
    return frozenset(refs)


def _scene(
    request: Request,
    desired: tuple[Desired, ...],
    facts: Facts,
    observation: Observation,
    settings: Settings,
    target: ClusterSettings | None,
) -> RuleContext:
    """What rules look at."""
    return RuleContext(
        desired,
        facts,
        observation.inventory,
        settings.limits,
        request.environment,
        max(len(facts.brokers), (target.brokers if target else None) or 0),
        observation.resources,
        subset=request.subset,
        skew={ref.name: result for ref, result in topic_facts(facts).skew.items()},
        invisible=frozenset(observation.invisible),
    )


def _policy(request: Request, settings: Settings, target: ClusterSettings | None) -> Policy:
    return Policy(
        forbid=target.forbid if target else (),
        protected=settings.protected,
        ignore=("*",) if request.subset else settings.ignore,
        owns=settings.owns,
        prune=request.prune,
        allow=request.allow,
    )


# --- rules and gates ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Review:
    """What rules said of changes.

    Attributes:
        gated: What may be done of the changes.
        open: The changes as an apply would carry them out.
        findings: What rules said.
        policy: What was allowed then: what rules are errors of is refused.
    """

    gated: GatedChanges
    open: tuple[PlannedChange, ...]
    findings: list[Diagnostic]
    policy: Policy


def review(
    proposals: Sequence[Proposal],
    observation: Observation,
    facts: Facts,
    context: RuleContext,
    policy: Policy,
    cluster: GroupReader,
    settings: Settings,
    *,
    tell: Callable[[str], None] = silent,
    watch: bool = True,
) -> Review:
    """Run the rules about changes, and say what may be done of these.

    Args:
        proposals: The changes, judged.
        observation: The reading of the cluster that they were made with.
        facts: What they were judged by.
        context: What rules look at besides.
        policy: What is allowed.
        cluster: The cluster, of which the groups are read that changes may affect.
        settings: What the project says.
        tell: Is told what a person would otherwise wait for without knowing.
        watch: Whether to wait and see if the offsets of a group that looks empty still move.
    """
    # Rules leave alone what is refused anyway.
    gated = gate(proposals, observation, facts, policy)
    changes = open_changes(proposals, gated)
    groups, notes = groups_concerned(changes, context.live, cluster, tell, watch=watch)
    context = replace(context, changes=changes, groups=groups)
    findings = [*rules.check(context, settings.rules, (Stage.CHANGES, Stage.FORECAST))]
    stricter = policy.refusing(findings)
    if stricter != policy:
        gated = gate(proposals, observation, facts, stricter)
        changes = open_changes(proposals, gated)
    return Review(gated, changes, [*findings, *notes], stricter)


def _skew_findings(
    plan: Plan, context: RuleContext, settings: Settings, report: SkewReport | None
) -> list[Diagnostic]:
    """What is said of a measurement, if there is one."""
    if report is None:
        return []
    from kafkaform.plan.skew_report import as_it_is, notes

    return [*as_it_is(context, settings), *notes(plan, context, report)]


def _idle_waivers(context: RuleContext, findings: list[Diagnostic], settings: Settings) -> list[Diagnostic]:
    known = {**rules.entries(), **{policy.code: policy for policy in settings.policies}}
    return [*idle_waivers(context, findings, settings.rules, (*_BEFORE, Stage.CHANGES), known)]


# --- validate ----------------------------------------------------------------------------------------


def validated(plan: Plan, cluster: ResourceReader, fixed: Collection[ResourceRef] = ()) -> Plan:
    """Let the brokers check every change that is not refused yet; what they object to is refused.

    An account that may not alter may not have it checked either, and a check can go unanswered: the plan
    then says so, and stands. Where brokers take new partitions, but not the places for them (Redpanda), they
    choose these themselves, unless a manifest says where all replicas are.

    Args:
        plan: The plan.
        cluster: The cluster.
        fixed: The resources whose manifests say where all replicas are.
    """
    asked = [
        operation
        for change in plan.changes
        if change.status is not Status.REFUSED
        for operation in KINDS[change.ref.kind].operations(change.change)
    ]
    # Brokers cannot check a move: all that is known beforehand is that a cluster offers none.
    moves = [operation for operation in asked if isinstance(operation, Reassign)]
    asked = [operation for operation in asked if not isinstance(operation, Reassign)]
    objections: dict[ResourceRef, list[tuple[Operation, RequestRejected | NotOffered]]] = {}
    unanswered: list[ClusterError] = []
    for batch in (*_requests(asked), *([moves] if moves else [])):
        for operation, objection in zip(batch, cluster.validate(batch), strict=True):
            if isinstance(objection, RequestRejected | NotOffered):
                objections.setdefault(operation.ref, []).append((operation, objection))
            elif objection is not None:
                unanswered.append(objection)
    changes = []
    notes = plan.diagnostics
    for change in plan.changes:
        if change.ref not in objections:
            changes.append(change)
            continue
        refused = [operation for operation, _ in objections[change.ref]]
        _, objection = objections[change.ref][0]
        if change.ref not in fixed and (unplaced := _without_places(change, refused, cluster)) is not None:
            text = (
                f"the brokers place the new partitions of {change.ref.name} themselves: {objection.message}"
            )
            notes = (*notes, Diagnostic("KF441", Severity.INFO, text, ref=change.ref))
            changes.append(unplaced)
        else:
            changes.append(_refused(change, objection))
    if unanswered:
        notes = (*notes, *_describe_unvalidated(unanswered, len(asked)))
    return replace(plan, changes=tuple(changes), broker_validated=not unanswered, diagnostics=notes)


def _describe_unvalidated(unanswered: Sequence[ClusterError], asked: int) -> Iterator[Diagnostic]:
    """Describe why operations were not validated, a note for each reason: every missing right is one."""
    reasons: dict[str, list[ClusterError]] = {}
    for error in unanswered:
        right = _missing_right(error)
        sort = f"{right.operation} {right.resource}" if right is not None else error.message
        reasons.setdefault(sort, []).append(error)
    for errors in reasons.values():
        count = f"{len(errors):,} of {counted(asked, 'operation')}"
        message = f"the brokers did not validate {count}: {errors[0].message}"
        if names := [
            error.right.name for error in errors[1:] if isinstance(error, PermissionDenied) and error.right
        ]:
            message += f", and on {listed(names)}"
        yield Diagnostic("KF414", Severity.INFO, message, suggestion=errors[0].hint)


def _missing_right(error: ClusterError) -> Right | None:
    return error.right if isinstance(error, PermissionDenied) else None


def _requests(asked: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """What is checked at a time: a resource whose configs are altered in two steps comes in two requests."""
    late = [o for o in asked if o.phase is Phase.CONFIGURE_IN_SYNC]
    yield from batches(o for o in asked if o.phase is not Phase.CONFIGURE_IN_SYNC)
    yield from batches(late)


def _without_places(
    change: PlannedChange, refused: Collection[Operation], cluster: ResourceReader
) -> PlannedChange | None:
    """The change without places for new partitions, if the brokers refuse these and nothing else of it."""
    update = change.change
    if not isinstance(update, Update) or not all(
        isinstance(o, AddPartitions) and o.assignment for o in refused
    ):
        return None
    unplaced = replace(update, fields=tuple(field for field in update.fields if field.path != PLACEMENT))
    kind = KINDS[change.ref.kind]
    if any(isinstance(operation, Reassign) for operation in kind.operations(update)):
        return None
    added = [o for o in kind.operations(unplaced) if isinstance(o, AddPartitions)]
    if any(objection is not None for objection in cluster.validate(added)):
        return None
    return replace(change, change=unplaced)


def _refused(change: PlannedChange, objection: RequestRejected | NotOffered) -> PlannedChange:
    by_brokers = isinstance(objection, RequestRejected)
    reason = f"refused by the brokers: {objection.message}" if by_brokers else objection.message
    return replace(change, status=Status.REFUSED, reason=reason, remedy=objection.hint)
