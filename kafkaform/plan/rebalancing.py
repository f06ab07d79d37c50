"""Rebalancing: moving replicas and leaders between brokers, as a plan that can be reviewed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, UsageError
from kafkaform.core.model import Desired, Diagnostic, Intent, Plan, Severity, Status, Undeclared
from kafkaform.core.moves import MoveOptions
from kafkaform.core.operations import Reassign
from kafkaform.core.rights import WATCHING, lacking
from kafkaform.core.wording import listed
from kafkaform.plan.disk_planning import PlannedMove, check_disk_space
from kafkaform.plan.measuring import measure_copies
from kafkaform.plan.placement import Balance, Moves, balance, moves, rebalance
from kafkaform.plan.planner import plan_from
from kafkaform.plan.planning import check_identity
from kafkaform.plan.policy import Policy, matches
from kafkaform.resources import KINDS
from kafkaform.resources.topic import topic_ref
from kafkaform.resources.topic.live import topic_facts
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader, PartitionReader, ResourceReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.layout import Assignment, Broker, Layout, TopicPartition
    from kafkaform.core.model import Facts
    from kafkaform.resources.consent import Grant


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """What a rebalance is asked to do.

    Attributes:
        globs: Only topics of such a name; empty: all, those of Kafka itself too.
        remove: Brokers that are to hold nothing any more.
        add: Brokers that are to get their share; empty: whichever hold less.
        static: Topics that stay where a manifest puts them.
        allow: Consents given on the command line.
    """

    globs: tuple[str, ...] = ()
    remove: frozenset[int] = frozenset()
    add: frozenset[int] = frozenset()
    static: frozenset[str] = frozenset()
    allow: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A planned rebalance.

    Attributes:
        plan: The changes; none where nothing would be better.
        brokers: The live brokers.
        not_emptied: Brokers that were to be emptied, and still hold some of the topics asked for.
        before: How replicas and leaders lie on the brokers.
        after: How they will.
        moves: What it takes.
    """

    plan: Plan
    brokers: tuple[Broker, ...]
    not_emptied: tuple[int, ...]
    before: Balance
    after: Balance
    moves: Moves


def static_topics(declared: Iterable[Desired]) -> frozenset[str]:
    """The topics whose replicas a manifest places one by one."""
    return frozenset(
        topic.ref.name for topic in declared if topic.state is not None and PLACEMENT in topic.state
    )


def make_rebalance(
    request: RebalanceRequest, cluster: ClusterReader, target: ClusterSettings | None
) -> Rebalance:
    """Plan the moves that spread replicas and leaders evenly, or that empty brokers.

    Args:
        request: What is asked for.
        cluster: The cluster.
        target: The cluster's settings: its id, what it forbids, and its throttle.

    Raises:
        NotOffered: The cluster moves no replicas.
        ClusterError: The cluster cannot be read, or this account may not see running reassignments.
        UsageError: There is no such broker, or no such topic.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    layout = cluster.layout()
    if layout.reassigning is None:
        text, hint = lacking(WATCHING)
        raise ClusterError(f"running reassignments cannot be seen: {text}", hint=hint)
    _check_brokers(request, layout)
    names = [name for name in layout.topics if not request.globs or matches(name, request.globs)]
    if request.globs and not names:
        raise UsageError(f"--topics {listed(request.globs)} matches no topic of the cluster")
    movable = [name for name in names if name not in request.static]
    sizes = _sizes(cluster, [p for name in movable for p in _partitions(name, layout)])
    placed = rebalance(movable, layout, remove=request.remove, add=request.add, sizes=sizes)
    before = {name: layout.assignment(name) for name in layout.topics}
    plan = _plan(
        request,
        cluster,
        target,
        placed.assignments,
        layout,
        replace(topic_facts(facts), layout=layout).beside(facts),
    )
    _require_moves(plan, cluster)
    refused = {change.ref.name for change in plan.with_status(Status.REFUSED)}
    moving = {name: places for name, places in placed.assignments.items() if name not in refused}
    after = {**before, **moving}
    still_holding = {
        broker: held
        for broker in sorted(request.remove)
        if (
            held := [name for name, places in after.items() if any(broker in replicas for replicas in places)]
        )
    }
    notes = [*_left(placed.refused, still_holding), *_static(request, names)]
    return Rebalance(
        replace(plan, diagnostics=(*notes, *plan.diagnostics), subset=True),
        layout.brokers,
        tuple(broker for broker, held in still_holding.items() if not set(names).isdisjoint(held)),
        balance(before, layout.brokers),
        balance(after, layout.brokers),
        moves(before, after, sizes),
    )


def _require_moves(plan: Plan, cluster: ResourceReader) -> None:
    """Raise NotOffered where replicas have to be moved, and the cluster has no such request."""
    operations = (o for change in plan.changes for o in KINDS[change.ref.kind].operations(change.change))
    for objection in cluster.validate([o for o in operations if isinstance(o, Reassign)]):
        if isinstance(objection, NotOffered):
            raise objection


def _sizes(cluster: PartitionReader, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
    """The sizes of partitions; none where the cluster does not tell any."""
    try:
        return cluster.partition_sizes(partitions)
    except NotOffered:
        return {}


def _check_brokers(request: RebalanceRequest, layout: Layout) -> None:
    live = {broker.id for broker in layout.brokers}
    known = f"brokers: {', '.join(map(str, sorted(live)))}"
    holding = {b for name in layout.topics for replicas in layout.assignment(name) for b in replicas}
    for broker in sorted(request.remove - live - holding):
        raise UsageError(f"--remove-broker {broker}: there is no such broker", hint=known)
    for broker in sorted(request.add - live):
        raise UsageError(f"--add-broker {broker}: no such broker is running", hint=known)
    for broker in sorted(request.add & request.remove):
        raise UsageError(f"broker {broker} cannot be added and removed")
    if request.remove >= live:
        raise KafkaformError("no broker would remain", hint=known)


def _partitions(topic: str, layout: Layout) -> Iterator[TopicPartition]:
    return ((topic, number) for number in range(len(layout.topics[topic])))


def _plan(
    request: RebalanceRequest,
    cluster: ClusterReader,
    target: ClusterSettings | None,
    assignments: Mapping[str, Assignment],
    layout: Layout,
    facts: Facts,
) -> Plan:
    places = {topic_ref(name): assignment for name, assignment in assignments.items()}
    options = target.moves if target is not None else MoveOptions()
    facts = replace(topic_facts(facts), placements=places).beside(facts)
    moves = [
        PlannedMove(name, layout.assignment(name), assignment) for name, assignment in assignments.items()
    ]
    facts = check_disk_space(measure_copies(facts, moves, cluster, options), moves, cluster, options)
    # Nothing is said of these topics but where they lie: nothing else of them is planned.
    wanted = [Desired(ref, {}, Intent(undeclared=Undeclared.KEEP)) for ref in places]
    policy = Policy(forbid=target.forbid if target else (), ignore=("*",), allow=request.allow)
    return plan_from(wanted, cluster.observe(places.keys()), facts, policy)


def _left(refused: Mapping[str, str], still_holding: Mapping[int, Sequence[str]]) -> Iterator[Diagnostic]:
    """What is said of topics that must stay, and of brokers that are not empty then."""
    by_reason: dict[str, list[str]] = {}
    for name, why in sorted(refused.items()):
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        verb = "stays where it is" if len(names) == 1 else "stay where they are"
        yield Diagnostic("KF428", Severity.WARNING, f"{listed(names)} {verb}: {why}")
    for broker, holding in still_holding.items():
        yield Diagnostic(
            "KF428",
            Severity.WARNING,
            f"broker {broker} is not empty afterwards: it holds replicas of {listed(holding)}",
            suggestion="do not shut it down before kafkaform rebalance has moved these too",
        )


def _static(request: RebalanceRequest, names: Iterable[str]) -> Iterator[Diagnostic]:
    kept = sorted(request.static.intersection(names))
    if kept:
        yield Diagnostic(
            "KF428",
            Severity.INFO,
            f"{listed(kept)}: the manifest places every replica (strategy: static), so none is moved",
            suggestion="change the placement there",
        )
