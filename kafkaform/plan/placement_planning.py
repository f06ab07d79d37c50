"""Where the replicas of declared topics are to be: what a plan asks the placement engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from kafkaform.core.layout import Strategy, parse_assignment
from kafkaform.core.model import Diagnostic, Severity
from kafkaform.core.rights import WATCHING
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.topic import placement
from kafkaform.resources.topic.live import MIN_ISR, REPLICATION_FACTOR, topic_facts, topic_live
from kafkaform.resources.topic.operations import PLACEMENT
from kafkaform.resources.topic.placement import strategy_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.cluster.protocol import ReplicaReader
    from kafkaform.core.layout import Assignment, Layout, Replicas
    from kafkaform.core.model import Desired, Facts, Observation, Observed, ResourceRef

_BLIND = f"running reassignments cannot be seen: this account lacks {WATCHING}"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A live topic whose replicas may have to be placed.

    Attributes:
        observed: The topic.
        partitions: How many it is to have; never fewer than it has.
        replicas: How many replicas each is to have.
        strategy: How they are placed.
        static: Where they are to be, with a static placement.
    """

    observed: Observed
    partitions: int
    replicas: int
    strategy: Strategy
    static: Assignment

    @property
    def ref(self) -> ResourceRef:
        """The topic."""
        return self.observed.ref

    @property
    def live(self) -> Assignment:
        """Where its replicas are, or are on their way to."""
        return topic_live(self.observed).replicas

    @property
    def grows(self) -> bool:
        """Whether partitions are added."""
        return self.partitions > len(self.live)

    @property
    def differs(self) -> bool:
        """Whether present replicas are certain to move."""
        misplaced = self.strategy is Strategy.STATIC and self.live != self.static[: len(self.live)]
        return misplaced or any(len(replicas) != self.replicas for replicas in self.live)

    @property
    def open(self) -> bool:
        """Whether replicas may have to be placed that are not."""
        return self.grows or self.differs or self.strategy is Strategy.RACK_AWARE

    def fits(self, partition: int, target: Replicas) -> bool:
        """Whether a running reassignment leads to where the plan would lead to."""
        if self.strategy is Strategy.STATIC:
            return target == self.static[partition]
        return len(target) == self.replicas


def with_placements(
    facts: Facts,
    desired: Iterable[Desired],
    observation: Observation,
    cluster: ReplicaReader,
    *,
    waits: bool = True,
) -> Facts:
    """The facts with where replicas are to be; the layout is read only if some are to be placed.

    Args:
        facts: What is known so far.
        desired: The declared resources.
        observation: What there is of them.
        cluster: The cluster.
        waits: Whether a plan is to wait for what is on its way already.
    """
    candidates = []
    raises = False
    for declared in desired:
        observed = observation.resources.get(declared.ref)
        if observed is None or declared.state is None or not KINDS[declared.ref.kind].placed:
            continue
        candidate = _candidate(declared, observed)
        if candidate is not None and (candidate.open or (waits and topic_live(observed).moving)):
            candidates.append(candidate)
        raises = raises or _raises_min_isr(declared, observed)
    if not candidates and not raises:
        return facts
    try:
        layout = cluster.layout()
    except ClusterError as error:
        text = f"where replicas are was not read: {error.message}"
        note = Diagnostic("KF423", Severity.INFO, text, suggestion=error.hint)
        return replace(facts, diagnostics=(*facts.diagnostics, note))
    return _placed(replace(topic_facts(facts), layout=layout).beside(facts), candidates, layout)


def _candidate(declared: Desired, observed: Observed) -> _Candidate | None:
    state = declared.state or {}
    partitions, replicas = state.get("partitions"), state.get(REPLICATION_FACTOR)
    live = topic_live(observed).replicas
    if not live or not isinstance(partitions, int) or not isinstance(replicas, int):
        return None
    if partitions < len(live):
        return None  # which is refused as a whole
    static = state.get(PLACEMENT)
    return _Candidate(
        observed,
        partitions,
        replicas,
        strategy_of(declared.intent),
        parse_assignment(static) if isinstance(static, str) else (),
    )


def _raises_min_isr(declared: Desired, observed: Observed) -> bool:
    """Whether more replicas have to be in sync than now: the layout tells whether so many are."""
    wanted = (declared.state or {}).get(MIN_ISR)
    now = observed.state.get(MIN_ISR, observed.effective.get(MIN_ISR))
    return wanted is not None and int(wanted) > int(now or 1)


def _placed(facts: Facts, candidates: Sequence[_Candidate], layout: Layout) -> Facts:
    from kafkaform.plan.placement import PlacementRequest, place  # which few plans need

    asked, unplaceable, notes = _sorted_out(candidates, layout)
    wants = [PlacementRequest(c.ref.name, c.partitions, c.replicas, c.strategy, c.static) for c in asked]
    found = place(wants, _expected(layout, asked))
    placements = {}
    for candidate in asked:
        name = candidate.ref.name
        if (refusal := found.refused.get(name)) is None:
            placements[candidate.ref] = found.assignments[name]
        elif candidate.differs:
            unplaceable[candidate.ref] = refusal
        elif candidate.grows:
            # A controller may also give them to brokers that are down, and come back.
            notes.append(_note(f"the controller is to place the new partitions of {name}: {refusal}"))
        else:
            notes.append(_note(f"the racks of {name} were not looked at: {refusal}"))
    foreign = _foreign(layout, asked, placements)
    if foreign:
        notes.append(foreign)
    known = replace(topic_facts(facts), placements=placements, unplaceable=unplaceable)
    return known.beside(replace(facts, diagnostics=(*facts.diagnostics, *notes)))


def _sorted_out(
    candidates: Sequence[_Candidate], layout: Layout
) -> tuple[list[_Candidate], dict[ResourceRef, str], list[Diagnostic]]:
    """Which topics have their replicas placed; which must not be touched, and why; and what else to tell."""
    asked: list[_Candidate] = []
    unplaceable: dict[ResourceRef, str] = {}
    blind: list[str] = []
    for candidate in candidates:
        name = candidate.ref.name
        known = name in layout.topics and layout.assignment(name) == candidate.live
        if not known:
            if candidate.grows or candidate.differs:
                unplaceable[candidate.ref] = "its replicas were moved while the plan was made: plan again"
        elif layout.reassigning is None and candidate.differs:
            unplaceable[candidate.ref] = _BLIND
        elif candidate.grows and len(counts := sorted({len(replicas) for replicas in candidate.live})) > 1:
            # A controller wants new partitions to have as many as some other one has, and does not say which.
            unplaceable[candidate.ref] = (
                f"its partitions have {counts[0]} to {counts[-1]} replicas: no partition is added before all "
                f"have as many (declare partitions: {len(candidate.live)} first)"
            )
        elif layout.reassigning is None and not candidate.grows:
            blind.append(name)
        elif candidate.open or _is_under_way(candidate, layout):
            asked.append(candidate)
    notes = [_note(f"the racks of {listed(blind)} were not looked at: {_BLIND}")] if blind else []
    return asked, unplaceable, notes


def _is_under_way(candidate: _Candidate, layout: Layout) -> bool:
    """Whether a running reassignment brings the topic to its replication factor: then it is waited for."""
    return placement.present(candidate.observed, layout) != candidate.live


def _expected(layout: Layout, asked: Iterable[_Candidate]) -> Layout:
    """The layout in which what already moves to where it is wanted counts as being there."""
    by_name = {candidate.ref.name: candidate for candidate in asked}
    running = dict(layout.reassigning or {})
    there: dict[str, dict[int, Replicas]] = {}
    for (topic, number), reassignment in list(running.items()):
        candidate = by_name.get(topic)
        if candidate is not None and candidate.fits(number, reassignment.target):
            there.setdefault(topic, {})[number] = reassignment.target
            del running[topic, number]
    topics = dict(layout.topics)
    for topic, targets in there.items():
        topics[topic] = tuple(
            replace(state, replicas=targets[state.partition]) if state.partition in targets else state
            for state in topics[topic]
        )
    return replace(layout, topics=topics, reassigning=running)


def _foreign(
    layout: Layout, asked: Iterable[_Candidate], placements: Mapping[ResourceRef, Assignment]
) -> Diagnostic | None:
    """What is said of reassignments that lead elsewhere, if the plan moves replicas."""
    by_name = {candidate.ref.name: candidate for candidate in asked if candidate.ref in placements}
    moves = any(
        placements[candidate.ref][: len(candidate.live)] != candidate.live for candidate in by_name.values()
    )
    others = [
        partition
        for partition, running in (layout.reassigning or {}).items()
        if (candidate := by_name.get(partition[0])) is None
        or not candidate.fits(partition[1], running.target)
    ]
    if not moves or not others:
        return None
    running = layout.reassigning or {}
    moves_text = listed([f"{topic}-{number} {running[topic, number]}" for topic, number in sorted(others)])
    return Diagnostic(
        "KF427",
        Severity.WARNING,
        f"a reassignment that this plan does not ask for is running: {moves_text}",
        None,
        "an apply moves no replica before it is over: it ends with an error, or waits (--when-busy wait)",
    )


def _note(text: str) -> Diagnostic:
    return Diagnostic("KF423", Severity.INFO, text)
