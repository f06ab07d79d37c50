"""Where the replicas of a Topic are and are to be, partition by partition, and what its spec says of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from kafkaform.core.disk_space import DISK_REMEDY
from kafkaform.core.layout import (
    Strategy,
    assignment_changes,
    describe_running,
    format_assignment,
    parse_assignment,
)
from kafkaform.core.model import SAFE, Risk, RiskAssessment
from kafkaform.core.wording import counted
from kafkaform.resources.base import FieldOutcome
from kafkaform.resources.topic.copying import copied
from kafkaform.resources.topic.live import topic_facts, topic_live
from kafkaform.resources.topic.operations import begun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.layout import Assignment, Layout
    from kafkaform.core.model import (
        Facts,
        FieldChange,
        FieldValue,
        Intent,
        Observed,
        State,
    )
    from kafkaform.resources.base import Layer, ReportProblem, UpdateContext


def live(observed: Observed, facts: Facts | None = None) -> str | None:
    """Where replicas are, as `present` tells it; None where that was not read."""
    if not topic_live(observed).replicas:
        return None
    return format_assignment(present(observed, topic_facts(facts).layout if facts is not None else None))


def present(observed: Observed, layout: Layout | None) -> Assignment:
    """Where replicas are once nothing is reassigned any more.

    A running reassignment that changes how many replicas a partition has is one that an apply waits for: if
    the layout of the cluster is known, the partition counts as if that had not begun.
    """
    found = topic_live(observed)
    if not found.moving or layout is None or not layout.reassigning:
        return found.replicas
    assignment = list(found.replicas)
    name = observed.ref.name
    for partition in layout.topics.get(name, ())[: len(assignment)]:
        running = layout.reassigning.get((name, partition.partition))
        if running is not None:
            old = tuple(broker for broker in partition.replicas if broker not in running.adding)
            if len(old) != len(running.target):
                assignment[partition.partition] = old
    return tuple(assignment)


def remaining(field: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
    """What is left of a change of the placement; see `Kind.remaining`.

    A partition that is where it is to be, but still being moved there, is left.
    """
    sides, found = _sides(field), topic_live(observed)
    if sides is None or not _fits(found.replicas, *sides):
        return FieldOutcome.MOVED
    start, after = sides
    here = tuple(
        start[number] if replicas == after[number] and number in found.moving else replicas
        for number, replicas in enumerate(found.replicas)
    )
    if here == after:
        return FieldOutcome.DONE
    before = format_assignment(here)
    return field if before == field.before else replace(field, before=before)


def is_on_the_way(field: FieldChange, value: FieldValue) -> bool:
    """Whether every partition is either where it was or where it is to be."""
    sides = _sides(field)
    return sides is not None and value is not None and _fits(parse_assignment(str(value)), *sides)


def _sides(field: FieldChange) -> tuple[Assignment, Assignment] | None:
    """Where the moves of all partitions begin and end; None where the change does not say."""
    if field.before is None or field.after is None:
        return None
    before, after = parse_assignment(str(field.before)), parse_assignment(str(field.after))
    return (*before, *begun(before, after)), after


def _fits(here: Assignment, start: Assignment, after: Assignment) -> bool:
    """Whether each partition is at either end; those to be added may be there or not."""
    if not here or len(here) > len(after):
        return False
    return all(replicas in (start[n], after[n]) for n, replicas in enumerate(here))


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """How risky it is to move replicas: how many, how much, and how long it takes."""
    old, new = context.before.get(path), context.after.get(path)
    if old is None or new is None:
        return SAFE
    before, after = parse_assignment(str(old)), parse_assignment(str(new))
    changes = assignment_changes(before, after)
    if not changes.added and not changes.dropped:
        if not changes.reordered:
            return SAFE
        told = counted(len(changes.reordered), "partition")
        return RiskAssessment(reason=f"a different preferred leader in {told}; nothing is copied")
    known, name = topic_facts(context.facts), context.ref.name
    if (shortage := known.disk_shortages.get(name)) is not None:
        return RiskAssessment(Risk.IMPOSSIBLE, "disk-space", shortage, DISK_REMEDY)
    parts = []
    if changes.added:
        parts.append(str(copied(name, before, after, context.facts)))
    if changes.dropped:
        noun = "" if parts else " replica" if changes.gone == 1 else " replicas"
        parts.append(f"{changes.gone:,}{noun} dropped")
    reason = ", ".join(parts)
    doubt = known.disk_doubts.get(name)
    reason_with_doubt = reason if doubt is None else f"{reason}; {doubt}"
    return RiskAssessment(Risk.DISRUPTIVE, "replica-move", reason_with_doubt, figure=reason)


def deferred(context: UpdateContext) -> str:
    """Return why it was not planned where the replicas of a topic are to be."""
    ref, facts = context.ref, topic_facts(context.facts)
    before, after = (state.get("partitions") for state in (context.before, context.after))
    if isinstance(before, int) and isinstance(after, int) and after < before:
        return "where its replicas are to be is planned once no partitions are to be removed"
    running = facts.layout.running(ref.name) if facts.layout is not None else {}
    if running:
        return f"a reassignment is running: {describe_running(running)}; the live value is that of its target"
    why = facts.unplaceable.get(ref)
    return f"where its replicas are to be was not planned{f': {why}' if why else _UNREAD}"


_UNREAD = ", as the layout of the cluster is not known"
_REPLICAS = ("placement", "replicas")


def strategy_of(intent: Intent) -> Strategy:
    """The strategy that holds for a topic; balanced where its manifest says nothing."""
    placement = cast("Mapping[str, str]", intent.spec.get("placement", {}))
    return Strategy(placement.get("strategy", Strategy.BALANCED))


def normal_placement(given: Mapping[str, object], report: ReportProblem) -> Layer:
    """The normal form: always both keys, so that a later layer replaces the whole of it."""
    strategy, lists = given.get("strategy"), given.get("replicas")
    normal: Layer = {"strategy": strategy, "replicas": None}
    if strategy is None:
        return normal  # which its schema says
    if lists is None:
        if strategy == Strategy.STATIC:
            hint = "list the brokers of each partition: replicas: [[1, 2], [2, 3]]"
            report(("placement",), "static placement has no replicas", hint)
        return normal
    if strategy != Strategy.STATIC:
        hint = "remove replicas, or write strategy: static"
        report(_REPLICAS, f"only static placement lists replicas, and this is {strategy}", hint, key=True)
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
    """The static placement, once it fits the counts beside it; None if there is none, or it does not fit."""
    text = placement.get("replicas")
    if text is None:
        return None
    assignment, sound = parse_assignment(text), True
    partitions, factor = state.get("partitions"), state.get("replicationFactor")
    if isinstance(partitions, int) and len(assignment) != partitions:
        sound = False
        message = f"replicas lists {counted(len(assignment), 'partition')}, and partitions is {partitions}"
        report(_REPLICAS, message, "list the brokers of every partition")
    other = [n for n, replicas in enumerate(assignment) if len(replicas) != factor]
    if isinstance(factor, int) and other:
        sound = False
        more = f" (and {counted(len(other) - 1, 'more partition')} do not fit)" if other[1:] else ""
        message = (
            f"partition {other[0]} has {counted(len(assignment[other[0]]), 'replica')}, "
            f"and replicationFactor is {factor}{more}"
        )
        report((*_REPLICAS, other[0]), message, "list as many brokers for each partition")
    return text if sound else None


def placed(text: str) -> tuple[str, tuple[str, ...]]:
    """Where the replicas of a new topic are, as a whole and partition by partition."""
    assignment = parse_assignment(text)
    brokers = sorted({broker for replicas in assignment for broker in replicas})
    alike: dict[str, list[int]] = {}
    for number, replicas in enumerate(assignment):
        alike.setdefault(format_assignment((replicas,)), []).append(number)
    on = f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"
    each = tuple(f"{_partitions(numbers)}: {there}" for there, numbers in alike.items())
    return f"{counted(len(assignment), 'partition')} on {on}", each


def moved(before: str, after: str) -> tuple[str, tuple[str, ...]]:
    """What happens to replicas, as a whole and partition by partition."""
    old, new = parse_assignment(before), parse_assignment(after)
    alike: dict[tuple[Assignment, Assignment], list[int]] = {}
    for number in range(len(new)):
        there, now = old[number : number + 1], new[number : number + 1]
        if now != there:
            alike.setdefault((there, now), []).append(number)
    each = tuple(
        f"{_partitions(numbers)}: {format_assignment(there) or 'new'} → {format_assignment(now)}"
        for (there, now), numbers in alike.items()
    )
    return str(assignment_changes(old, new)), each


def _partitions(numbers: Sequence[int]) -> str:
    return f"partition{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
