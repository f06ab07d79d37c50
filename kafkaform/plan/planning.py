"""The planner: each stage of making a plan is a function from a value to a value.

`make_plan` names the stages in order; each has a module of its own. A saved plan that is applied enters by
`judge_saved_plan`: its remaining changes pass the stages that judge the changes of a diff.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform import rules
from kafkaform.core.authorizer import AuthorizerSettings
from kafkaform.core.errors import KafkaformError
from kafkaform.core.model import Desired, Diagnostic, Facts, ManifestScope, Observation, ResourceRef
from kafkaform.core.values import Value, replace
from kafkaform.plan.conclusion import conclude, conclude_saved, find_affected_consumers
from kafkaform.plan.costing import compute_costs
from kafkaform.plan.difference import Diff, SavedPlan, add_tombstones, diff, diff_saved
from kafkaform.plan.gate import gate, review_changes
from kafkaform.plan.measuring import measure
from kafkaform.plan.placement_planning import add_placements
from kafkaform.plan.policy import Policy, is_own
from kafkaform.plan.risk_assessment import foresee, judge
from kafkaform.plan.successions import add_successions, list_predecessors, list_successors, open_predecessors
from kafkaform.plan.validation import read_hidden, validate_plan
from kafkaform.resources import KINDS, is_topic, list_topics_read, topic_ref
from kafkaform.resources.name_globs import ALL, NO_GLOBS
from kafkaform.resources.replicas.layout import Strategy
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.replicas.placement import strategy_of
from kafkaform.resources.skew import SkewFacts
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.waivers import find_idle_waivers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkaform.cluster.protocol import ClusterReader, ResourceReader
    from kafkaform.config.settings import ClusterSettings, Settings
    from kafkaform.core.plans import Plan
    from kafkaform.resources.consent import Grant
    from spark_validation.results import SkewReport


REPORTED = tuple(kind.name for kind in KINDS.values() if kind.scope.prunable and kind.scope.listed)
"""The kinds whose undeclared resources are reported; undeclared groups are normal."""

BEFORE_CHANGES = (Stage.MANIFESTS, Stage.LIVE)
"""The stages of rules that check resources before the changes are known."""


class Request(Value):
    """The scope and the options of a plan.

    Attributes:
        desired: The declared resources.
        subset: Whether these are only a part of what the repository declares: then undeclared resources are
            neither reported nor pruned.
        prune: Whether undeclared resources inside `owns` are to be deleted.
        allow: Consents given on the command line.
        environment: The environment whose overrides were merged; None if none was chosen.
        skew: The measured skew of topics; None if not measured.
        inventory: The kinds whose undeclared resources are reported.
        dropped: Resources that were declared earlier and are to be read, too.
        reading: Whether brokers are only read from, without waiting: changes are then not validated, and no
            group is watched.
        partial: Whether only a part of the manifests was read, so that others may declare more of a resource.
    """

    desired: Sequence[Desired]
    subset: bool = False
    prune: bool = False
    allow: tuple[Grant, ...] = ()
    environment: str | None = None
    skew: SkewReport | None = None
    inventory: tuple[str, ...] = REPORTED
    dropped: frozenset[ResourceRef] = frozenset()
    reading: bool = False
    partial: bool = False


class PlanningResult(Value):
    """A plan, and the reading that it was made with.

    Attributes:
        observation: The live resources that it covers, with all of their configs.
        read_at: The time of the reading, by `time.monotonic`.
        context: The context in which rules were checked.
    """

    plan: Plan
    observation: Observation
    read_at: float
    context: RuleContext


def silent(_: str) -> None:
    """Discard the line of progress."""


def build_plan(
    request: Request,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    *,
    tell: Callable[[str], None] = silent,
) -> Plan:
    """Make a plan as `make_plan` does, without the reading of the cluster."""
    return make_plan(request, cluster, settings, target, tell=tell).plan


def make_plan(
    request: Request,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    *,
    tell: Callable[[str], None] = silent,
) -> PlanningResult:
    """Plan the changes from the live to the desired state.

    Args:
        request: The scope and the options.
        settings: The settings of the project.
        target: The settings of this cluster; None if there are none.
        tell: Receives a line of progress before a long wait.

    Raises:
        ClusterError: The cluster cannot be read.
        SkewReportError: The skew report is of another cluster.
        KafkaformError: The cluster does not have the id of the configuration.
    """
    # 1. Read the cluster.
    # The time before the first request, so that no value of the reading is older than this.
    read_at = time.monotonic()
    facts = cluster.facts()
    check_identity(facts, target)
    if request.skew is not None:
        from kafkaform.plan.skew_report import index_measured_topics, require_cluster

        require_cluster(request.skew, facts.cluster_id)
        facts = facts.add_part(SkewFacts(index_measured_topics(request.skew)))
    observation = _observe(request, cluster, settings)
    facts = _add_known(facts, observation, target).add_part(ManifestScope(request.partial))
    plan, hidden, context = _plan_reading(request, cluster, settings, target, facts, observation, tell)
    # What the brokers are still creating is neither created nor refused: it is read again.
    if hidden:
        states = {declared.ref: declared.state for declared in request.desired if declared.state is not None}
        observation = read_hidden(hidden, observation, cluster, states, tell)
        plan, _, context = _plan_reading(request, cluster, settings, target, facts, observation, tell)
    return PlanningResult(plan, observation, read_at, context)


def _plan_reading(
    request: Request,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    facts: Facts,
    observation: Observation,
    tell: Callable[[str], None],
) -> tuple[Plan, frozenset[ResourceRef], RuleContext]:
    """Plan from a reading of the cluster; also returns what the plan creates although it exists.

    The context is that in which rules were checked.
    """
    # Sorted, so that findings have the same order whatever the order of the files.
    desired = tuple(sorted(request.desired, key=lambda declared: declared.ref))
    policy = Policy(
        forbid=target.forbid if target else (),
        protected=settings.protected,
        # A part of the manifests does not show which resources are declared nowhere.
        ignore=ALL if request.subset else settings.ignore,
        owns=settings.owns,
        prune=request.prune,
        allow=request.allow,
    )
    # 2. Place replicas, and read the topics that others succeed.
    facts = add_placements(facts, desired, observation, cluster, waits=not request.reading)
    facts = add_successions(facts, desired, observation, cluster, time.time_ns() // 1_000_000)
    # 3. Find the differences.
    wants = open_predecessors(add_tombstones(desired, observation, policy), observation)
    difference = diff(wants, observation, facts, unseen=not request.reading)
    # 4. Measure the data, copies and groups that the changes affect, and what they do together: the facts are
    # then complete.
    proposals, dropped = difference.proposals, request.dropped
    options = move_options(settings, target)
    facts = measure(facts, proposals, observation, cluster, target, options, dropped)
    facts = foresee(proposals, desired, observation, facts)
    # 5. Assess the risk of the changes.
    proposals = judge(proposals, facts)
    # 6. Run the rules about resources.
    context = replace(
        _build_rule_context(desired, facts, observation, settings, target),
        environment=request.environment,
        subset=request.subset,
    )
    findings = [*rules.check(context, settings.rules, BEFORE_CHANGES, more=settings.policies)]
    # 7. Gate the changes by these findings, the policy, consents, and the rules about changes.
    watch = None if request.reading else tell
    review = review_changes(proposals, context, policy.refusing(findings), cluster, settings, watch, dropped)
    # 8. Build the plan, with the operations of its changes.
    plan = conclude(difference, review.gated, facts, policy)
    context = review.context
    if target is not None and target.costs is not None:
        cost = compute_costs(plan.changes, facts, observation.resources, target.costs)
        plan = replace(plan, cost=cost)
    plan = _add_findings(plan, request, context, settings, [*findings, *review.findings])
    if request.reading:
        return plan, frozenset(), context
    # 9. Have the brokers check the operations.
    return *validate_plan(plan, cluster, _find_static(desired)), context


def judge_saved_plan(
    saved: SavedPlan,
    cluster: ClusterReader,
    settings: Settings,
    target: ClusterSettings | None,
    *,
    allow: tuple[Grant, ...] = (),
    facts: Facts | None = None,
) -> PlanningResult:
    """Judge what remains of a saved plan by the live cluster, in the stages of `make_plan`.

    The plan contains its placements, and the brokers have checked its operations.

    Args:
        settings: The settings of the project.
        target: The settings of this cluster; None if there are none.
        allow: Consents given on the command line.
        facts: The facts of the cluster, if they were read just before; None: they are read.
    """
    read_at = time.monotonic()
    facts = facts or cluster.facts()
    check_identity(facts, target)
    # A plan with nothing to apply needs no request.
    observation = Observation({})
    successors = list_successors(saved)
    if refs := saved.refs:
        refs |= list_predecessors(successors)
        observation = cluster.observe(refs, kinds=REPORTED, declared=saved.targets)
    facts = _add_known(facts, observation, target)
    facts = add_successions(facts, successors, observation, cluster, time.time_ns() // 1_000_000)
    proposals = diff_saved(saved, observation, facts)
    options = move_options(settings, target)
    facts = measure(facts, proposals, observation, cluster, target, options)
    facts = foresee(proposals, (), observation, facts)
    proposals = judge(proposals, facts)
    context = _build_rule_context((), facts, observation, settings, target)
    # KF404 counts live topics: with manifests those that are declared, and without them all but ignored ones.
    ignored = {ref for ref in context.inventory if is_own(ref) or settings.ignore.match(ref)}
    context = replace(context, inventory=context.inventory - ignored, subset=saved.plan.subset, saved=True)
    findings = rules.check(context, settings.rules, BEFORE_CHANGES, more=settings.policies)
    policy = Policy(forbid=target.forbid if target else (), protected=settings.protected, allow=allow)
    review = review_changes(proposals, context, policy.refusing(findings), cluster, settings, None)
    plan = conclude_saved(saved.plan, review.gated, facts)
    return PlanningResult(plan, observation, read_at, review.context)


def plan_from(
    desired: Iterable[Desired], observation: Observation, facts: Facts, policy: Policy | None = None
) -> Plan:
    """Plan from a reading of the cluster, without further requests.

    Args:
        desired: The declared resources, in any order, each once.
        observation: A reading of the cluster that covers all of them.
        facts: The facts of the cluster.
        policy: The policy; None: the default one.
    """
    policy = policy or Policy()
    wanted = add_tombstones(desired, observation, policy)
    return plan_of(diff(wanted, observation, facts, unseen=True), observation, facts, policy)


def plan_of(difference: Diff, observation: Observation, facts: Facts, policy: Policy) -> Plan:
    """Assess, gate and conclude a diff, for `plan_from` and for changes that no manifest declares."""
    facts = foresee(difference.proposals, difference.compared, observation, facts)
    proposals = judge(difference.proposals, facts)
    return conclude(difference, gate(proposals, facts, policy), facts, policy)


def _add_known(facts: Facts, observation: Observation, target: ClusterSettings | None) -> Facts:
    """Add to the facts what the configuration and the reading of resources contain."""
    if target is not None:
        facts = facts.add_part(facts.get(AuthorizerSettings).complete(target.authorizer))
    for part in observation.parts:
        facts = facts.add_part(part)
    return facts


def _observe(request: Request, cluster: ResourceReader, settings: Settings) -> Observation:
    """Read the declared and prunable resources."""
    owned = settings.owns if request.prune else NO_GLOBS
    pruned = [name for name, kind in KINDS.items() if kind.scope.prunable and owned.select(name)]
    return cluster.observe(
        list_resources_to_read(request.desired) | request.dropped,
        lambda ref: ref.kind in pruned and owned.match(ref),
        kinds=tuple(dict.fromkeys((*request.inventory, *pruned))),
        declared={each.ref: each.state for each in request.desired if each.state is not None},
    )


def check_identity(facts: Facts, target: ClusterSettings | None) -> None:
    """Raise an error if the cluster does not have the configured id."""
    if target is not None and target.cluster_id is not None and target.cluster_id != facts.cluster_id:
        raise KafkaformError(
            f"cluster {target.name} has the id {facts.cluster_id}, but {target.cluster_id} is configured",
            hint="these client properties connect to another cluster: correct them, or correct clusterId",
        )


def move_options(settings: Settings, target: ClusterSettings | None) -> MoveOptions:
    """Return the options of moves; a cluster that is not configured has the project's limits."""
    return target.moves if target is not None else MoveOptions(disk_reserve=settings.limits.disk_reserve)


def list_resources_to_read(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """Return the resources to read: the declared ones, and the topics that they read or succeed."""
    desired = [*desired]
    refs = {*list_predecessors(desired)}
    for declared in desired:
        refs.add(declared.ref)
        refs.update(topic_ref(name) for name in list_topics_read(declared))
    return frozenset(refs)


def _build_rule_context(
    desired: tuple[Desired, ...],
    facts: Facts,
    observation: Observation,
    settings: Settings,
    target: ClusterSettings | None,
) -> RuleContext:
    """Build the context in which rules are checked."""
    return RuleContext(
        desired,
        facts,
        observation.inventory,
        settings.limits,
        # Brokers may be down: the declared number counts if it is higher.
        brokers=max(len(facts.brokers), (target.brokers if target else None) or 0),
        live=observation.resources,
        skew={ref.name: result for ref, result in facts.get(SkewFacts).results.items()},
        invisible=frozenset(observation.invisible),
    )


def _find_static(desired: Iterable[Desired]) -> frozenset[ResourceRef]:
    """Return the resources whose manifests place every replica."""
    return frozenset(
        declared.ref
        for declared in desired
        if is_topic(declared.ref) and strategy_of(declared.intent) is Strategy.STATIC
    )


def _add_findings(
    plan: Plan, request: Request, context: RuleContext, settings: Settings, findings: list[Diagnostic]
) -> Plan:
    """Add to a plan the findings of rules, and the groups that read changing topics."""
    if request.skew is not None:
        from kafkaform.plan.skew_report import check_present_skew, find_notes

        findings = [
            *findings,
            *check_present_skew(context, settings),
            *find_notes(plan, context, request.skew),
        ]
    known = {**rules.list_entries(), **{policy.code: policy for policy in settings.policies}}
    stages = (*BEFORE_CHANGES, Stage.CHANGES)
    findings = [*findings, *find_idle_waivers(context, findings, settings.rules, stages, known)]
    return replace(
        plan,
        diagnostics=(*findings, *plan.diagnostics),
        readers=find_affected_consumers(plan.changes, context.desired),
        subset=request.subset,
    )
