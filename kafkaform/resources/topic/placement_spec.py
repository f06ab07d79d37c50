"""What a Topic's spec says of where replicas are to be: `placement`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core.layout import Strategy, format_assignment, parse_assignment
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.model import Intent, State
    from kafkaform.resources.base import Layer, Report

_REPLICAS = ("placement", "replicas")


def strategy_of(intent: Intent) -> Strategy:
    """The strategy that holds for a topic; balanced where its manifest says nothing."""
    placement = cast("Mapping[str, str]", intent.spec.get("placement", {}))
    return Strategy(placement.get("strategy", Strategy.BALANCED))


def normal_placement(given: Mapping[str, object], report: Report) -> Layer:
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
        hint = "take replicas out, or write strategy: static"
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


def checked_placement(placement: Mapping[str, str | None], state: State, report: Report) -> str | None:
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
