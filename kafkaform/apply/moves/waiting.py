"""Waiting until nothing stands against the next step: moves of other people, or replicas out of sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.batches import foreign, named
from kafkaform.core.apply_result import AGAIN
from kafkaform.core.errors import ClusterError, MovesUnfinished, PermissionDenied
from kafkaform.core.moves import WhenBusy
from kafkaform.core.rights import WATCHING, lacking
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.apply.moves.context import MoveContext
    from kafkaform.core.layout import Layout, Replicas, TopicPartition
    from kafkaform.core.model import ResourceRef


def unhealthy(
    layout: Layout, targets: Mapping[TopicPartition, Replicas], done: Collection[TopicPartition] = ()
) -> list[TopicPartition]:
    """Partitions without a leader, or with replicas that are out of sync, in order.

    What a running reassignment fills is out of sync by nature. A replica that is about to be taken away may
    be so too: a broker that is dead could not be drained otherwise.

    Args:
        layout: The cluster.
        targets: The replicas that partitions are about to get.
        done: Those of them that have them.
    """
    found = []
    running = layout.reassigning or {}
    for states in layout.topics.values():
        for state in states:
            # This runs for each partition of the cluster before each batch: sets are made of few of them.
            if state.leader is not None and len(state.isr) == len(state.replicas):
                continue
            key = state.topic, state.partition
            missing = {*state.replicas} - {*state.isr}
            if key in running:
                missing -= running[key].adding
            if key in targets and key not in done:
                missing &= {*targets[key]}
            if state.leader is None or missing:
                found.append(key)
    return sorted(found)


def problems(layout: Layout, partitions: list[TopicPartition]) -> str:
    """Say in a few words what is wrong with unhealthy partitions."""
    offline = [key for key in partitions if layout.topics[key[0]][key[1]].leader is None]
    behind = [key for key in partitions if key not in set(offline)]
    parts = []
    if offline:
        parts.append(f"{listed([*map(named, offline)])} without a leader")
    if behind:
        brokers = {broker for topic, number in behind for broker in _out_of_sync(layout, topic, number)}
        ids = ", ".join(map(str, sorted(brokers)))
        parts.append(f"{listed([*map(named, behind)])} not in sync on broker {ids}")
    return "; ".join(parts)


def too_few_in_sync(layout: Layout, topic: str, least: int) -> str | None:
    """Return why acks=all writes would stop if a topic asked for so many replicas in sync, or None."""
    if topic not in layout.topics:
        return "the topic is not there"
    for state in layout.topics[topic]:
        running = (layout.reassigning or {}).get((topic, state.partition))
        # Metadata counts replicas that a reassignment removes: they are in sync until it ends, and gone then.
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


HEALTH_WAIT_S = 300.0
"""The time to wait for replicas that somebody else must bring back into sync."""
POLL_S = 1.0


def wait_until_clear(
    context: MoveContext, targets: Mapping[TopicPartition, Replicas], done: Collection[TopicPartition]
) -> Layout:
    """The layout once nobody else moves replicas, and all that should be are in sync.

    Args:
        context: What every step goes by.
        targets: The replicas that partitions are to have; what leads there is not somebody else's.
        done: Those of them that have them.

    Raises:
        MovesUnfinished: Something stands against it, for too long.
        ClusterError: The cluster cannot be read.
        Stopped: See `MoveContext.check`.
    """
    since: float | None = None
    while True:
        layout = context.layout()
        subject, obstacle = "busy", _others(context, layout, targets)
        if obstacle is None:
            partitions = unhealthy(layout, targets, done)
            if not partitions:
                return layout
            # Unlike a move, which comes to an end, a replica may stay out of sync until somebody looks at it.
            since = context.clock.now() if since is None else since
            subject, obstacle = "health", f"the cluster is not healthy: {problems(layout, partitions)}"
            if context.clock.now() - since >= HEALTH_WAIT_S:
                raise MovesUnfinished(obstacle, hint=f"fix that (kafkaform doctor), then {AGAIN}")
        context.remind(subject, f"waiting: {obstacle}")
        context.pause(POLL_S)


def wait_in_sync(
    context: MoveContext, least: Mapping[ResourceRef, int]
) -> dict[ResourceRef, ClusterError | None]:
    """Wait until all partitions of topics have so many replicas in sync, as acks=all writes need them.

    Returns:
        For each topic None once it has them, or why it does not get them.

    Raises:
        ClusterError: The cluster cannot be read, or the time is over.
        Stopped: See `MoveContext.check`.
    """
    until = context.clock.now() + HEALTH_WAIT_S
    topics = {ref.name for ref in least}
    while True:
        layout = context.layout(topics)
        lacking = {
            ref: why
            for ref, count in least.items()
            if (why := too_few_in_sync(layout, ref.name, count)) is not None
        }
        if not lacking or context.clock.now() >= until:
            break
        first = min(lacking)
        context.remind("in sync", f"waiting for replicas of {first.name}: {lacking[first]}")
        context.pause(POLL_S)
    hint = "bring its replicas into sync (kafkaform doctor), then run the same apply again"
    return {ref: MovesUnfinished(lacking[ref], hint=hint) if ref in lacking else None for ref in least}


def _others(context: MoveContext, layout: Layout, targets: Mapping[TopicPartition, Replicas]) -> str | None:
    """Say what somebody else is moving, if that is to be waited for."""
    if layout.reassigning is None:
        raise PermissionDenied(
            f"running reassignments cannot be seen, and replicas are not moved blindly: it lacks {WATCHING}",
            hint=lacking(WATCHING)[1],
        )
    others = foreign(layout, targets)
    if not others:
        return None
    moves = listed([f"{named(key)} {(layout.reassigning or {})[key]}" for key in others])
    running = f"a reassignment that is not of this apply is running: {moves}"
    if context.options.when_busy is WhenBusy.REFUSE:
        raise MovesUnfinished(running, hint="wait until it is over, or let apply wait: --when-busy wait")
    return running
