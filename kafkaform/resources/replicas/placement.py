"""The placement of the replicas of a Topic: the live one, its changes, and the `placement` of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core.model import SAFE, Risk, RiskAssessment
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.resources.base import FieldOutcome, Layer, ReportProblem, UpdateContext
from kafkaform.resources.replicas.copying import sum_copies
from kafkaform.resources.replicas.disk_space import DISK_REMEDY
from kafkaform.resources.replicas.facts import ReplicaFacts, get_replicas
from kafkaform.resources.replicas.layout import (
    Strategy,
    assignment_changes,
    describe_running,
    format_assignment,
    parse_assignment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.model import Facts, FieldChange, FieldValue, Intent, Observed, State
    from kafkaform.resources.replicas.layout import Assignment, Layout

_REPLICAS = ("placement", "replicas")


def live(observed: Observed, facts: Facts | None = None) -> str | None:
    """Return the live assignment, as `present` does, as text; None if it was not read."""
    if not get_replicas(observed).replicas:
        return None
    return format_assignment(present(observed, facts.get(ReplicaFacts).layout if facts is not None else None))


def present(observed: Observed, layout: Layout | None) -> Assignment:
    """Return the assignment once running reassignments have ended.

    An apply waits for a reassignment that changes the number of replicas of a partition: if the layout of
    the cluster is known, such a partition has the replicas that it had before.
    """
    live_replicas = get_replicas(observed)
    if not live_replicas.moving or layout is None or not layout.reassigning:
        return live_replicas.replicas
    assignment = list(live_replicas.replicas)
    name = observed.ref.name
    for partition in layout.topics.get(name, ())[: len(assignment)]:
        running = layout.reassigning.get((name, partition.partition))
        if running is not None:
            old = tuple(broker for broker in partition.replicas if broker not in running.adding)
            # A reassignment that keeps the number of replicas is not waited for, and its target is what a
            # plan compares with.
            if len(old) != len(running.target):
                assignment[partition.partition] = old
    return tuple(assignment)


def remaining(field: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
    """Return the part of a change of the placement that is left to do, as `Field.remaining` does.

    A partition whose move to its new place is still running counts as left.
    """
    sides, live_replicas = _sides(field), get_replicas(observed)
    if sides is None or not _fits(live_replicas.replicas, *sides):
        return FieldOutcome.MOVED
    start, after = sides
    present = tuple(
        # A topic's live replicas are the targets of running moves, so one that has not arrived would look
        # done.
        start[number] if replicas == after[number] and number in live_replicas.moving else replicas
        for number, replicas in enumerate(live_replicas.replicas)
    )
    if present == after:
        return FieldOutcome.DONE
    before = format_assignment(present)
    return field if before == field.before else replace(field, before=before)


def is_on_the_way(field: FieldChange, value: FieldValue) -> bool:
    """Return whether every partition has its replicas from before or after the change."""
    sides = _sides(field)
    return sides is not None and value is not None and _fits(parse_assignment(str(value)), *sides)


def _sides(field: FieldChange) -> tuple[Assignment, Assignment] | None:
    """Return the start and the end of the moves of all partitions; None for a create or a delete."""
    if field.before is None or field.after is None:
        return None
    before, after = parse_assignment(str(field.before)), parse_assignment(str(field.after))
    return (*before, *initial_replicas(before, after)), after


def _fits(live: Assignment, start: Assignment, after: Assignment) -> bool:
    """Return whether each partition is at the start or the end; those to be added may be missing."""
    if not live or len(live) > len(after):
        return False
    return all(replicas in (start[n], after[n]) for n, replicas in enumerate(live))


def initial_replicas(before: Assignment, after: Assignment) -> Assignment:
    """Return the initial replicas of partitions that are added, before any is moved.

    Kafka requires as many replicas for them as the existing partitions have (seen on 4.3.1:
    INVALID_REPLICA_ASSIGNMENT; if these differ, no partition can be added). So if the replication factor
    changes too, they are moved like the others.
    """
    if not before:
        return ()
    count = len(before[0])
    first = []
    for replicas in after[len(before) :]:
        # Preferably on its final brokers, so that as little as possible is moved afterwards.
        spare = [broker for broker in before[0] if broker not in replicas]
        first.append((*replicas, *spare)[:count])
    return tuple(first)


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the risk of moving replicas, with their number, size and duration."""
    old, new = context.before.get(path), context.after.get(path)
    if old is None or new is None:
        return SAFE
    before, after = parse_assignment(str(old)), parse_assignment(str(new))
    changes = assignment_changes(before, after)
    if not changes.added and not changes.dropped:
        if not changes.reordered:
            return SAFE
        count = counted(len(changes.reordered), "partition")
        return RiskAssessment(reason=f"a different preferred leader in {count}; nothing is copied")
    known, name = context.facts.get(ReplicaFacts), context.ref.name
    if (shortage := known.disk_shortages.get(name)) is not None:
        # No consent allows it: a broker takes a log directory offline when its disk is full.
        return RiskAssessment(Risk.IMPOSSIBLE, "disk-space", shortage, DISK_REMEDY)
    parts = []
    if changes.added:
        parts.append(str(sum_copies(name, before, after, context.facts)))
    if changes.dropped:
        noun = "" if parts else " replica" if changes.gone == 1 else " replicas"
        parts.append(f"{changes.gone:,}{noun} dropped")
    reason = ", ".join(parts)
    doubt = known.disk_doubts.get(name)
    reason_with_doubt = reason if doubt is None else f"{reason}; {doubt}"
    # Without the doubt, which is of a broker and not of this topic alone.
    return RiskAssessment(Risk.DISRUPTIVE, "replica-move", reason_with_doubt, figure=reason)


def explain_deferral(context: UpdateContext) -> str:
    """Return the reason why the replicas of a topic were not placed."""
    ref, facts = context.ref, context.facts.get(ReplicaFacts)
    before, after = (state.get("partitions") for state in (context.before, context.after))
    if isinstance(before, int) and isinstance(after, int) and after < before:
        return "its replicas are placed once no partitions are to be removed"
    running = facts.layout.running(ref.name) if facts.layout is not None else {}
    if running:
        return f"a reassignment is running: {describe_running(running)}; the live value is that of its target"
    why = facts.unplaceable.get(ref)
    return f"its replicas were not placed{f': {why}' if why else _UNREAD}"


_UNREAD = ", as the layout of the cluster could not be read"


def strategy_of(intent: Intent) -> Strategy:
    """Return the placement strategy of a topic; BALANCED if its manifest has none."""
    placement = cast("Mapping[str, str]", intent.spec.get("placement", {}))
    return Strategy(placement.get("strategy", Strategy.BALANCED))


def normal_placement(given: Mapping[str, object], report: ReportProblem) -> Layer:
    """Return the normal form, always with both keys, so that a later layer replaces all of it."""
    strategy, lists = given.get("strategy"), given.get("replicas")
    # Layers are merged key by key: without the second key, the lists of a lower layer would stay.
    normal: Layer = {"strategy": strategy, "replicas": None}
    if lists is None:
        if strategy == Strategy.STATIC:
            hint = "list the brokers of each partition: replicas: [[1, 2], [2, 3]]"
            report(("placement",), "static placement needs replicas", hint)
        return normal
    if strategy != Strategy.STATIC:
        hint = "remove replicas, or write `strategy: static`"
        report(_REPLICAS, f"only static placement lists replicas, but this is {strategy}", hint, key=True)
        return normal
    # Whole numbers may be written as 3.0.
    assignment = tuple(tuple(map(int, each)) for each in cast("Sequence[Sequence[float]]", lists))
    sound = True
    for partition, replicas in enumerate(assignment):
        twice = sorted({broker for broker in replicas if replicas.count(broker) > 1})
        if twice:
            sound = False
            message = f"partition {partition} names broker {twice[0]} twice"
            report((*_REPLICAS, partition), message, "a broker holds one replica of a partition at most")
    if sound and all(assignment):
        normal["replicas"] = format_assignment(assignment)
    return normal


def checked_placement(placement: Mapping[str, str | None], state: State, report: ReportProblem) -> str | None:
    """Return the static placement if it matches the counts; None otherwise, or if there is none."""
    text = placement.get("replicas")
    if text is None:
        return None
    assignment, sound = parse_assignment(text), True
    partitions, factor = state.get("partitions"), state.get("replicationFactor")
    if isinstance(partitions, int) and len(assignment) != partitions:
        sound = False
        message = f"replicas lists {counted(len(assignment), 'partition')}, but partitions is {partitions}"
        report(_REPLICAS, message, "list the brokers of every partition")
    wrong = [n for n, replicas in enumerate(assignment) if len(replicas) != factor]
    if isinstance(factor, int) and wrong:
        sound = False
        omitted = f" (the first of {len(wrong)} such partitions)" if wrong[1:] else ""
        message = (
            f"partition {wrong[0]} has {counted(len(assignment[wrong[0]]), 'replica')}, "
            f"but replicationFactor is {factor}{omitted}"
        )
        report((*_REPLICAS, wrong[0]), message, "list as many brokers for each partition")
    return text if sound else None


def describe_placement(text: str) -> tuple[str, tuple[str, ...]]:
    """Describe the replicas of a new topic, as a whole and partition by partition."""
    assignment = parse_assignment(text)
    brokers = sorted({broker for replicas in assignment for broker in replicas})
    alike: dict[str, list[int]] = {}
    for number, replicas in enumerate(assignment):
        alike.setdefault(format_assignment((replicas,)), []).append(number)
    names = f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"
    each = tuple(f"{_partitions(numbers)}: {replicas}" for replicas, numbers in alike.items())
    return f"{counted(len(assignment), 'partition')} on {names}", each


def describe_moves(before: str, after: str) -> tuple[str, tuple[str, ...]]:
    """Describe the moves of replicas, as a whole and partition by partition."""
    old, new = parse_assignment(before), parse_assignment(after)
    alike: dict[tuple[Assignment, Assignment], list[int]] = {}
    for number in range(len(new)):
        source, target = old[number : number + 1], new[number : number + 1]
        if target != source:
            alike.setdefault((source, target), []).append(number)
    each = tuple(
        f"{_partitions(numbers)}: {format_assignment(source) or 'new'} → {format_assignment(target)}"
        for (source, target), numbers in alike.items()
    )
    return str(assignment_changes(old, new)), each


def _partitions(numbers: Sequence[int]) -> str:
    return f"partition{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
