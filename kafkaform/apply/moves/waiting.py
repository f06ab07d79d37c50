"""Waiting for other reassignments to end, and for replicas to be in sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.batches import find_foreign, format_partition
from kafkaform.core.apply_result import RETRY_HINT
from kafkaform.core.errors import ClusterError, MovesUnfinished, PermissionDenied
from kafkaform.core.rights import WATCHING, explain_missing_rights
from kafkaform.core.wording import listed
from kafkaform.resources.replicas.moves import WhenBusy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.apply.moves.context import MoveContext
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.partitions import Replicas, TopicPartition
    from kafkaform.resources.replicas.layout import Layout

HEALTH_WAIT_S = 300.0
"""The seconds to wait for replicas to be in sync again, which an apply can do nothing about."""
POLL_S = 1.0


def find_unhealthy(
    layout: Layout, targets: Mapping[TopicPartition, Replicas], done: Collection[TopicPartition] = ()
) -> list[TopicPartition]:
    """Find partitions without a leader, or with replicas that are out of sync, in order.

    Replicas that a running reassignment adds do not count, nor those that are about to be removed: a dead
    broker could not be drained otherwise.

    Args:
        layout: The layout.
        targets: The target replicas by partition.
        done: The partitions at their target.
    """
    partitions = []
    running = layout.reassigning or {}
    for states in layout.topics.values():
        for state in states:
            # This runs for each partition of the cluster before each batch: sets are built for few of them.
            if state.leader is not None and len(state.isr) == len(state.replicas):
                continue
            key = state.topic, state.partition
            missing = {*state.replicas} - {*state.isr}
            if key in running:
                missing -= running[key].adding
            # A replica that this apply drops may be out of sync for good.
            if key in targets and key not in done:
                missing &= {*targets[key]}
            if state.leader is None or missing:
                partitions.append(key)
    return sorted(partitions)


def describe_problems(layout: Layout, partitions: list[TopicPartition]) -> str:
    """Describe the problems of unhealthy partitions in a few words."""
    offline = [key for key in partitions if layout.topics[key[0]][key[1]].leader is None]
    behind = [key for key in partitions if key not in set(offline)]
    parts = []
    if offline:
        parts.append(f"{listed([*map(format_partition, offline)])} without a leader")
    if behind:
        states = [layout.topics[topic][number] for topic, number in behind]
        brokers = {broker for state in states for broker in {*state.replicas} - {*state.isr}}
        ids = ", ".join(map(str, sorted(brokers)))
        parts.append(f"{listed([*map(format_partition, behind)])} not in sync on broker {ids}")
    return "; ".join(parts)


def find_in_sync_shortage(layout: Layout, topic: str, least: int) -> str | None:
    """Return why acks=all writes would stop with this min.insync.replicas; None if they would not."""
    if topic not in layout.topics:
        return "the topic does not exist"
    for state in layout.topics[topic]:
        running = (layout.reassigning or {}).get((topic, state.partition))
        # The ISR contains replicas that a reassignment removes: they are gone once it ends.
        lasting = {*state.isr} - (running.removing if running is not None else frozenset())
        if len(lasting) < least:
            replicas = "replica" if len(lasting) == 1 else "replicas"
            return (
                f"partition {state.partition} has {len(lasting)} {replicas} in sync: "
                "acks=all writes would stop"
            )
    return None


def wait_until_clear(
    context: MoveContext, targets: Mapping[TopicPartition, Replicas], done: Collection[TopicPartition]
) -> Layout:
    """Wait until no other process moves replicas and all required ones are in sync; return the layout.

    Args:
        context: The context of every step.
        targets: The target replicas by partition; reassignments to them are not foreign.
        done: The partitions at their target.

    Raises:
        MovesUnfinished: The wait took too long.
        ClusterError: The cluster cannot be read.
        Stopped: See `MoveContext.check`.
    """
    since: float | None = None
    while True:
        # The whole cluster, not the topics of this apply alone: a move loads brokers that hold other topics,
        # too.
        layout = context.layout()
        subject, obstacle = "busy", _describe_foreign(context, layout, targets)
        if obstacle is None:
            partitions = find_unhealthy(layout, targets, done)
            if not partitions:
                return layout
            # Unlike a move, which ends, a replica may stay out of sync until its broker is repaired.
            since = context.clock.now() if since is None else since
            subject, obstacle = (
                "health",
                f"the cluster is not healthy: {describe_problems(layout, partitions)}",
            )
            if context.clock.now() - since >= HEALTH_WAIT_S:
                raise MovesUnfinished(obstacle, hint=f"fix that (`kafkaform doctor`), then {RETRY_HINT}")
        context.remind(subject, f"waiting: {obstacle}")
        context.pause(POLL_S)


def wait_in_sync(
    context: MoveContext, least: Mapping[ResourceRef, int]
) -> dict[ResourceRef, ClusterError | None]:
    """Wait until all partitions of topics have as many replicas in sync as acks=all writes need.

    Returns:
        For each topic None if it has them, or the error.

    Raises:
        ClusterError: The cluster cannot be read, or the deadline has passed.
        Stopped: See `MoveContext.check`.
    """
    until = context.clock.now() + HEALTH_WAIT_S
    topics = {ref.name for ref in least}
    while True:
        layout = context.layout(topics)
        lacking = {
            ref: why
            for ref, count in least.items()
            if (why := find_in_sync_shortage(layout, ref.name, count)) is not None
        }
        if not lacking or context.clock.now() >= until:
            break
        first = min(lacking)
        context.remind("in sync", f"waiting for replicas of {first.name}: {lacking[first]}")
        context.pause(POLL_S)
    hint = "bring its replicas into sync (`kafkaform doctor`), then run the same apply again"
    return {ref: MovesUnfinished(lacking[ref], hint=hint) if ref in lacking else None for ref in least}


def _describe_foreign(
    context: MoveContext, layout: Layout, targets: Mapping[TopicPartition, Replicas]
) -> str | None:
    """Describe the reassignments of others to wait for; None if there are none."""
    if layout.reassigning is None:
        raise PermissionDenied(
            f"no replica is moved, as this account cannot list running reassignments: it lacks {WATCHING}",
            hint=explain_missing_rights(WATCHING)[1],
        )
    partitions = find_foreign(layout, targets)
    if not partitions:
        return None
    moves = listed([f"{format_partition(key)} {(layout.reassigning or {})[key]}" for key in partitions])
    running = f"a reassignment that this apply did not start is running: {moves}"
    if context.options.when_busy is WhenBusy.REFUSE:
        raise MovesUnfinished(
            running,
            hint="wait until it has finished, or let apply wait: `moves: {whenBusy: wait}` in kafkaform.yaml",
        )
    return running
