"""What of a cluster's replicas stands against moving any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.partition_move import named
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Layout, Replicas


def ailing(layout: Layout, targets: Mapping[TopicPartition, Replicas]) -> list[TopicPartition]:
    """Partitions without a leader, or with replicas that are out of sync, in order.

    What a running reassignment fills is out of sync by nature. A replica that is about to be taken away may
    be so too: a broker that is dead could not be drained otherwise.

    Args:
        layout: The cluster.
        targets: The replicas that partitions are about to get.
    """
    found = []
    running = layout.reassigning or {}
    for states in layout.topics.values():
        for state in states:
            key = state.topic, state.partition
            missing = {*state.replicas} - {*state.isr}
            if key in running:
                missing -= running[key].adding
            if key in targets:
                missing &= {*targets[key]}
            if state.leader is None or missing:
                found.append(key)
    return sorted(found)


def told(layout: Layout, partitions: list[TopicPartition]) -> str:
    """In a few words what is wrong with ailing partitions."""
    offline = [key for key in partitions if layout.topics[key[0]][key[1]].leader is None]
    behind = [key for key in partitions if key not in set(offline)]
    parts = []
    if offline:
        parts.append(f"{listed([*map(named, offline)])} without a leader")
    if behind:
        away = {b for topic, number in behind for b in _out_of_sync(layout, topic, number)}
        where = ", ".join(map(str, sorted(away)))
        parts.append(f"{listed([*map(named, behind)])} not in sync on broker {where}")
    return "; ".join(parts)


def too_few_in_sync(layout: Layout, topic: str, least: int) -> str | None:
    """Why acks=all writes would stop if a topic asked for so many replicas in sync; None: they would not."""
    if topic not in layout.topics:
        return "the topic is not there"
    for state in layout.topics[topic]:
        running = (layout.reassigning or {}).get((topic, state.partition))
        lasting = {*state.isr} - (running.removing if running is not None else frozenset())
        if len(lasting) < least:
            replicas = "replica" if len(lasting) == 1 else "replicas"
            return (
                f"partition {state.partition} has {len(lasting)} {replicas} in sync: "
                "acks=all writes would stop"
            )
    return None


def _out_of_sync(layout: Layout, topic: str, partition: int) -> set[int]:
    state = layout.topics[topic][partition]
    return {*state.replicas} - {*state.isr}
