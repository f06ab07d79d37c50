"""Rebalancing: plans that move replicas and leaders between brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, UsageError
from kafkaform.core.model import Desired, Diagnostic, Facts, Intent, Severity, Status, Undeclared
from kafkaform.core.rights import WATCHING, explain_missing_rights
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import listed
from kafkaform.plan.disk_planning import PlannedMove, check_disk_space
from kafkaform.plan.measuring import measure_copies
from kafkaform.plan.placement import Balance, Moves, balance, moves, rebalance
from kafkaform.plan.planning import check_identity, plan_from
from kafkaform.plan.policy import Policy
from kafkaform.resources import KINDS, topic_ref
from kafkaform.resources.name_globs import ALL, matches
from kafkaform.resources.replicas.facts import PLACEMENT, ReplicaFacts
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.replicas.operations import Reassign

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader, PartitionReader, ResourceReader
    from kafkaform.config.settings import ClusterSettings
    from kafkaform.core.partitions import Broker, TopicPartition
    from kafkaform.core.plans import Plan
    from kafkaform.resources.consent import Grant
    from kafkaform.resources.replicas.layout import Assignment, Layout


class RebalanceRequest(Value):
    """The scope and the options of a rebalance.

    Attributes:
        globs: The names (globs) of topics; empty: all, including those of Kafka itself.
        remove: Brokers to empty.
        add: Brokers to fill to their share; empty: any that hold less.
        static: Topics that stay, as a manifest places their replicas.
        allow: Consents given on the command line.
    """

    globs: tuple[str, ...] = ()
    remove: frozenset[int] = frozenset()
    add: frozenset[int] = frozenset()
    static: frozenset[str] = frozenset()
    allow: tuple[Grant, ...] = ()


class Rebalance(Value):
    """A planned rebalance.

    Attributes:
        plan: The changes; none if no move is an improvement.
        not_emptied: Brokers to empty that still hold some of the requested topics afterwards.
        before: The present balance.
        after: The balance afterwards.
        moves: The cost of the moves.
    """

    plan: Plan
    brokers: tuple[Broker, ...]
    not_emptied: tuple[int, ...]
    before: Balance
    after: Balance
    moves: Moves


def static_topics(declared: Iterable[Desired]) -> frozenset[str]:
    """Return the topics whose replicas a manifest places one by one."""
    return frozenset(
        topic.ref.name for topic in declared if topic.state is not None and PLACEMENT in topic.state
    )


def make_rebalance(
    request: RebalanceRequest, cluster: ClusterReader, target: ClusterSettings | None
) -> Rebalance:
    """Plan the moves that spread replicas and leaders evenly, or empty brokers.

    Args:
        request: The scope and the options.
        target: The cluster's settings: its id, what it forbids, and its throttle.

    Raises:
        NotOffered: The cluster moves no replicas.
        ClusterError: The cluster cannot be read, or this account may not see running reassignments.
        UsageError: There is no such broker, or no such topic.
    """
    facts = cluster.facts()
    check_identity(facts, target)
    layout = cluster.layout()
    # Without the list, replicas of a running reassignment look as if they were there to stay.
    if layout.reassigning is None:
        text, hint = explain_missing_rights(WATCHING)
        raise ClusterError(f"cannot list running reassignments: {text}", hint=hint)
    _check_brokers(request, layout)
    names = [name for name in layout.topics if not request.globs or matches(name, request.globs)]
    # A glob that matches nothing would otherwise end with "nothing to move".
    if request.globs and not names:
        raise UsageError(f"--topics {listed(request.globs)} matches no topic of the cluster")
    movable = [name for name in names if name not in request.static]
    sizes = _read_sizes(cluster, [(name, n) for name in movable for n in range(len(layout.topics[name]))])
    placed = rebalance(movable, layout, remove=request.remove, add=request.add, sizes=sizes)
    before = {name: layout.assignment(name) for name in layout.topics}
    plan = _build_plan(
        request,
        cluster,
        target,
        placed.assignments,
        layout,
        facts.add_part(replace(facts.get(ReplicaFacts), layout=layout)),
    )
    # Asked last, once it is known that something has to move.
    _require_moves(plan, cluster)
    refused = {change.ref.name for change in plan.select_by_status(Status.REFUSED)}
    moving = {name: places for name, places in placed.assignments.items() if name not in refused}
    after = {**before, **moving}
    still_holding = {
        broker: held
        for broker in sorted(request.remove)
        if (
            held := [name for name, places in after.items() if any(broker in replicas for replicas in places)]
        )
    }
    notes = [*_describe_left(placed.refused, still_holding), *_describe_static(request, names)]
    return Rebalance(
        replace(plan, diagnostics=(*notes, *plan.diagnostics), subset=True),
        layout.brokers,
        tuple(broker for broker, held in still_holding.items() if not set(names).isdisjoint(held)),
        balance(before, layout.brokers),
        balance(after, layout.brokers),
        moves(before, after, sizes),
    )


def _require_moves(plan: Plan, cluster: ResourceReader) -> None:
    """Raise NotOffered if replicas have to be moved and the cluster has no request for that."""
    operations = (o for change in plan.changes for o in KINDS[change.ref.kind].operations(change.change))
    for objection in cluster.validate([o for o in operations if isinstance(o, Reassign)]):
        if isinstance(objection, NotOffered):
            raise objection


def _read_sizes(
    cluster: PartitionReader, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Read the sizes of partitions; empty if the cluster does not offer them."""
    try:
        # Sizes only break ties between equally useful moves, so a rebalance works without them.
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


def _build_plan(
    request: RebalanceRequest,
    cluster: ClusterReader,
    target: ClusterSettings | None,
    assignments: Mapping[str, Assignment],
    layout: Layout,
    facts: Facts,
) -> Plan:
    places = {topic_ref(name): assignment for name, assignment in assignments.items()}
    options = target.moves if target is not None else MoveOptions()
    facts = facts.add_part(replace(facts.get(ReplicaFacts), placements=places))
    moves = [
        PlannedMove(name, layout.assignment(name), assignment) for name, assignment in assignments.items()
    ]
    facts = check_disk_space(measure_copies(facts, moves, cluster, options), moves, cluster, options)
    # These topics have no fields but the placement, so that nothing else is planned.
    wanted = [Desired(ref, {}, Intent(undeclared=Undeclared.KEEP)) for ref in places]
    policy = Policy(forbid=target.forbid if target else (), ignore=ALL, allow=request.allow)
    return plan_from(wanted, cluster.observe(places.keys()), facts, policy)


def _describe_left(
    refused: Mapping[str, str], still_holding: Mapping[int, Sequence[str]]
) -> Iterator[Diagnostic]:
    """Describe the topics that must stay, and the brokers that are therefore not empty."""
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
            suggestion="do not shut it down before `kafkaform rebalance` has moved these too",
        )


def _describe_static(request: RebalanceRequest, names: Iterable[str]) -> Iterator[Diagnostic]:
    kept = sorted(request.static.intersection(names))
    if kept:
        yield Diagnostic(
            "KF428",
            Severity.INFO,
            f"{listed(kept)}: the manifest places every replica (strategy: static), so none is moved",
            suggestion="change the placement there",
        )
