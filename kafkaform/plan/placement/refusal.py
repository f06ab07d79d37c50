"""Why a topic has no place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.layout import Strategy

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.core.layout import Assignment, Layout
    from kafkaform.plan.placement.racks import Racks
    from kafkaform.plan.placement.request import Want

UNSEEN = (
    "this account cannot see whether replicas are being moved: it needs the right to describe the cluster"
)


def refusal(want: Want, layout: Layout, racks: Racks) -> str | None:
    """Why a topic cannot be placed as wanted; None if it can."""
    present = layout.assignment(want.topic) if want.topic in layout.topics else ()
    if want.partitions < len(present):
        return f"it has {len(present)} partitions, and Kafka takes none away"
    live = frozenset(broker.id for broker in layout.brokers)
    if want.strategy is Strategy.STATIC:
        bad = _bad_list(want, present, live)
    else:
        bad = _too_few_brokers(want, present, live)
    if bad is None and _moves(want, present, racks):
        return unsettled(want.topic, layout)
    return bad


def unsettled(topic: str, layout: Layout) -> str | None:
    """Why the present replicas of a topic may not be changed now; None if they may."""
    if layout.reassigning is None:
        return UNSEEN
    running = [number for number in range(len(layout.topics[topic])) if (topic, number) in layout.reassigning]
    if running:
        which = f"partition {running[0]} is" if len(running) == 1 else f"{len(running)} partitions are"
        return f"{which} being reassigned already: wait until that is over, or cancel it"
    return None


def _moves(want: Want, present: Assignment, racks: Racks) -> bool:
    """Whether replicas change that are there."""
    if want.strategy is Strategy.STATIC:
        return want.static[: len(present)] != present
    if any(len(replicas) != want.replication_factor for replicas in present):
        return True
    return want.strategy is Strategy.RACK_AWARE and any(map(racks.missing, present))


def _too_few_brokers(want: Want, present: Assignment, live: frozenset[int]) -> str | None:
    """Whether some partition finds fewer brokers than it needs; what is down is no place for a new one."""
    if want.replication_factor < 1:
        return f"replicationFactor is {want.replication_factor}, and a partition has at least one replica"
    new: Assignment = ((),) if want.partitions > len(present) else ()
    for replicas in (*present, *new):
        if want.replication_factor - len(replicas) > len(live.difference(replicas)):
            brokers = "1 broker is" if len(live) == 1 else f"{len(live)} brokers are"
            return f"replicationFactor is {want.replication_factor}, and {brokers} live"
    return None


def _bad_list(want: Want, present: Assignment, live: Collection[int]) -> str | None:
    """What is wrong with a list of replicas."""
    if len(want.static) != want.partitions:
        return (
            f"placement lists the replicas of {len(want.static)} partitions, and there are {want.partitions}"
        )
    for number, replicas in enumerate(want.static):
        if len(set(replicas)) < len(replicas):
            return f"placement lists a broker twice for partition {number}"
        if len(replicas) != want.replication_factor:
            return (
                f"placement lists {len(replicas)} brokers for partition {number},"
                f" and replicationFactor is {want.replication_factor}"
            )
        held = present[number] if number < len(present) else ()
        for broker in replicas:
            if broker not in live and broker not in held:
                return f"placement lists broker {broker} for partition {number}, which is not live"
    return None
