"""The target replicas of declared topics: the requests of a plan to the placement engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from kafkaform.core.model import Desired, Diagnostic, Facts, Observation, Observed, ResourceRef, Severity
from kafkaform.core.rights import WATCHING
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import listed, setting
from kafkaform.resources import is_topic
from kafkaform.resources.replicas import placement
from kafkaform.resources.replicas.facts import (
    MIN_ISR,
    PLACEMENT,
    REPLICATION_FACTOR,
    ReplicaFacts,
    get_replicas,
)
from kafkaform.resources.replicas.layout import Assignment, Layout, Strategy, parse_assignment
from kafkaform.resources.replicas.placement import strategy_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.cluster.protocol import ReplicaReader
    from kafkaform.core.partitions import Replicas

_BLIND = f"cannot list running reassignments: this account lacks {WATCHING}"


class _Candidate(Value):
    """A live topic whose replicas may have to be placed.

    Attributes:
        partitions: The target count of partitions; never below the present one.
        replicas: The target count of replicas per partition.
        static: The target replicas of a static placement.
    """

    observed: Observed
    partitions: int
    replicas: int
    strategy: Strategy
    static: Assignment

    @property
    def ref(self) -> ResourceRef:
        """The reference of the topic."""
        return self.observed.ref

    @property
    def live(self) -> Assignment:
        """Its present replicas; of a running reassignment, the target."""
        return get_replicas(self.observed).replicas

    @property
    def grows(self) -> bool:
        """Return whether partitions are added."""
        return self.partitions > len(self.live)

    @property
    def differs(self) -> bool:
        """Return whether present replicas are certain to move."""
        misplaced = self.strategy is Strategy.STATIC and self.live != self.static[: len(self.live)]
        return misplaced or any(len(replicas) != self.replicas for replicas in self.live)

    @property
    def open(self) -> bool:
        """Return whether replicas may have to be placed."""
        return self.grows or self.differs or self.strategy is Strategy.RACK_AWARE

    def fits(self, partition: int, target: Replicas) -> bool:
        """Return whether a running reassignment has a target that the plan accepts."""
        if self.strategy is Strategy.STATIC:
            return target == self.static[partition]
        return len(target) == self.replicas


def add_placements(
    facts: Facts,
    desired: Iterable[Desired],
    observation: Observation,
    cluster: ReplicaReader,
    *,
    waits: bool = True,
) -> Facts:
    """Add target replicas to the facts; the layout is read only if some are to be placed.

    Args:
        facts: The facts read so far.
        desired: The declared resources.
        observation: The live resources.
        waits: Whether a plan waits for running reassignments.
    """
    candidates = []
    raises = False
    for declared in desired:
        observed = observation.resources.get(declared.ref)
        if observed is None or declared.state is None or not is_topic(declared.ref):
            continue
        candidate = _find_candidate(declared, observed)
        if candidate is not None and (candidate.open or (waits and get_replicas(observed).moving)):
            candidates.append(candidate)
        raises = raises or _raises_min_isr(declared, observed)
    if not candidates and not raises:
        return facts
    try:
        layout = cluster.layout()
    except ClusterError as error:
        # A plan without placements is still useful: changes of replicas are shown as deferred.
        text = f"could not read the replica placement: {error.message}"
        note = Diagnostic("KF423", Severity.INFO, text, suggestion=error.hint)
        return replace(facts, diagnostics=(*facts.diagnostics, note))
    facts = facts.add_part(replace(facts.get(ReplicaFacts), layout=layout))
    return _place_candidates(facts, candidates, layout)


def _find_candidate(declared: Desired, observed: Observed) -> _Candidate | None:
    state = declared.state or {}
    partitions, replicas = state.get("partitions"), state.get(REPLICATION_FACTOR)
    live = get_replicas(observed).replicas
    if not live or not isinstance(partitions, int) or not isinstance(replicas, int):
        return None
    # Kafka cannot remove partitions, so the whole change is refused, and no replica is to be placed.
    if partitions < len(live):
        return None
    static = state.get(PLACEMENT)
    return _Candidate(
        observed,
        partitions,
        replicas,
        strategy_of(declared.intent),
        parse_assignment(static) if isinstance(static, str) else (),
    )


def _raises_min_isr(declared: Desired, observed: Observed) -> bool:
    """Return whether min.insync.replicas is raised: the layout shows whether enough replicas are in sync."""
    wanted = (declared.state or {}).get(MIN_ISR)
    now = observed.state.get(MIN_ISR, observed.effective.get(MIN_ISR))
    # 1 is Kafka's own default, for an account that may not read the cluster's.
    return wanted is not None and int(wanted) > int(now or 1)


def _place_candidates(facts: Facts, candidates: Sequence[_Candidate], layout: Layout) -> Facts:
    from kafkaform.plan.placement import PlacementRequest, place  # few plans need them

    placeable, unplaceable, notes = _sort_candidates(candidates, layout)
    requests = [
        PlacementRequest(c.ref.name, c.partitions, c.replicas, c.strategy, c.static) for c in placeable
    ]
    placed = place(requests, _build_expected_layout(layout, placeable))
    placements = {}
    for candidate in placeable:
        name = candidate.ref.name
        if (refusal := placed.refused.get(name)) is None:
            placements[candidate.ref] = placed.assignments[name]
        elif candidate.differs:
            unplaceable[candidate.ref] = refusal
        elif candidate.grows:
            # A controller also chooses brokers that are down, which hold their replica once they are back.
            notes.append(_note(f"the controller will place the new partitions of {name}: {refusal}"))
        else:
            notes.append(_note(f"the racks of {name} were not checked: {refusal}"))
    foreign = _describe_foreign(layout, placeable, placements)
    if foreign:
        notes.append(foreign)
    known = replace(facts.get(ReplicaFacts), placements=placements, unplaceable=unplaceable)
    return replace(facts, diagnostics=(*facts.diagnostics, *notes)).add_part(known)


def _sort_candidates(
    candidates: Sequence[_Candidate], layout: Layout
) -> tuple[list[_Candidate], dict[ResourceRef, str], list[Diagnostic]]:
    """Return the topics to place, the reasons why others must not be touched, and notes."""
    placeable: list[_Candidate] = []
    unplaceable: dict[ResourceRef, str] = {}
    blind: list[str] = []
    for candidate in candidates:
        name = candidate.ref.name
        # The topics and the layout were read by two requests.
        known = name in layout.topics and layout.assignment(name) == candidate.live
        if not known:
            if candidate.grows or candidate.differs:
                unplaceable[candidate.ref] = "its replicas were moved while the plan was made: plan again"
        elif layout.reassigning is None and candidate.differs:
            unplaceable[candidate.ref] = _BLIND
        elif candidate.grows and len(counts := sorted({len(replicas) for replicas in candidate.live})) > 1:
            # A controller requires as many replicas for new partitions as some other partition has, and does
            # not report which.
            unplaceable[candidate.ref] = (
                f"its partitions have {counts[0]} to {counts[-1]} replicas: no partition is added before all "
                f"have as many (declare {setting('partitions', len(candidate.live))} first)"
            )
        elif layout.reassigning is None and not candidate.grows:
            blind.append(name)
        # A running reassignment of the topic, to be waited for, may change its replicas.
        elif candidate.open or placement.present(candidate.observed, layout) != candidate.live:
            placeable.append(candidate)
    notes = [_note(f"the racks of {listed(blind)} were not checked: {_BLIND}")] if blind else []
    return placeable, unplaceable, notes


def _build_expected_layout(layout: Layout, candidates: Iterable[_Candidate]) -> Layout:
    """Build the layout in which replicas that are moving to an accepted target count as placed."""
    by_name = {candidate.ref.name: candidate for candidate in candidates}
    running = dict(layout.reassigning or {})
    accepted: dict[str, dict[int, Replicas]] = {}
    for (topic, number), reassignment in list(running.items()):
        candidate = by_name.get(topic)
        if candidate is not None and candidate.fits(number, reassignment.target):
            accepted.setdefault(topic, {})[number] = reassignment.target
            del running[topic, number]
    topics = dict(layout.topics)
    for topic, targets in accepted.items():
        topics[topic] = tuple(
            replace(state, replicas=targets[state.partition]) if state.partition in targets else state
            for state in topics[topic]
        )
    return replace(layout, topics=topics, reassigning=running)


def _describe_foreign(
    layout: Layout, candidates: Iterable[_Candidate], placements: Mapping[ResourceRef, Assignment]
) -> Diagnostic | None:
    """Describe the running reassignments with other targets, if the plan moves replicas."""
    by_name = {candidate.ref.name: candidate for candidate in candidates if candidate.ref in placements}
    moves = any(
        placements[candidate.ref][: len(candidate.live)] != candidate.live for candidate in by_name.values()
    )
    foreign = [
        partition
        for partition, running in (layout.reassigning or {}).items()
        if (candidate := by_name.get(partition[0])) is None
        or not candidate.fits(partition[1], running.target)
    ]
    if not moves or not foreign:
        return None
    running = layout.reassigning or {}
    moves_text = listed([f"{topic}-{number} {running[topic, number]}" for topic, number in sorted(foreign)])
    return Diagnostic(
        "KF427",
        Severity.WARNING,
        f"a reassignment that this plan does not ask for is running: {moves_text}",
        None,
        "an apply moves no replica until it has finished: it fails, or waits (moves.whenBusy)",
    )


def _note(text: str) -> Diagnostic:
    return Diagnostic("KF423", Severity.INFO, text)
