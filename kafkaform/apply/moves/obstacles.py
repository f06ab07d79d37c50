"""The obstacles of moves: replicas that are out of sync, brokers that are down, copies that stall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.batches import PartitionMove, format_partition
from kafkaform.core.units import format_rate
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.core.partitions import PartitionState, Replicas, TopicPartition
    from kafkaform.resources.replicas.layout import Layout

STALL_S = 60.0
"""The seconds without progress after which a stall is reported."""


def find_unhealthy(
    layout: Layout, targets: Mapping[TopicPartition, Replicas], done: Collection[TopicPartition] = ()
) -> list[TopicPartition]:
    """Find partitions without a leader, or with replicas that are out of sync, in order.

    Replicas that a running reassignment adds do not count, nor those that are about to be removed: a dead
    broker could not be drained otherwise.

    Args:
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


class StallDetector:
    """The detector of a stall of one batch.

    Progress is more partitions done, more replicas in sync, or fewer bytes left to copy. Copied bytes alone
    are not, as producers may write as many meanwhile.

    Args:
        now: The time in seconds.

    Attributes:
        reason: The reason of the stall; empty if there is none.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._best: tuple[int, int, int] | None = None
        self._copied_then = 0
        self.reason = ""

    def look(
        self,
        now: float,
        unfinished: Sequence[PartitionMove],
        layout: Layout,
        sizes: Mapping[tuple[str, int, int], int],
        throttle: int | None,
    ) -> None:
        """Compare a reading with the last ones, and set the reason if there was no progress for STALL_S.

        Args:
            now: The time in seconds.
            unfinished: The moves that are not done.
            sizes: Bytes of replicas by topic, partition and broker.
            throttle: Bytes per second of a broker; None: no limit.
        """
        seen = [(move, state) for move in unfinished if (state := _get_state(move, layout)) is not None]
        in_sync = sum(len(move.adding & {*state.isr}) for move, state in seen)
        # Compared in this order: a partition that is done outweighs bytes, which may rise again while
        # producers write.
        reading = (len(unfinished), -in_sync, sum_remaining(unfinished, sizes))
        if self._best is None or reading < self._best:
            self._best, self._since, self.reason = reading, now, ""
            self._copied_then = sum_copied(unfinished, sizes)
        elif now - self._since >= STALL_S:
            grown = sum_copied(unfinished, sizes) - self._copied_then
            self.reason = explain_stall(
                [move for move, _ in seen], layout, grown if sizes else None, throttle
            )


def sum_copied(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """Return the bytes on the brokers that partitions are copied to."""
    return sum(sizes.get((*move.key, broker), 0) for move in moves for broker in move.adding)


def sum_remaining(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """Return the bytes left to copy, as far as sizes are known."""
    total = 0
    for move in moves:
        # The present replicas may be of different sizes, as each broker deletes segments at its own time.
        whole = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)
        total += sum(max(0, whole - sizes.get((*move.key, broker), 0)) for broker in move.adding)
    return total


def explain_stall(
    unfinished: Sequence[PartitionMove], layout: Layout, grown: int | None, throttle: int | None
) -> str:
    """Return the reason of a stall; empty if it is not known.

    Args:
        unfinished: The moves that are not done.
        grown: The bytes copied since the last progress; None if sizes are not known.
        throttle: Bytes per second of a broker; None: no limit.
    """
    if down := describe_down_brokers(unfinished, layout):
        return down
    offline = [
        format_partition(m.key)
        for m in unfinished
        if (s := _get_state(m, layout)) is not None and s.leader is None
    ]
    if offline:
        return f"{listed(offline)} without a leader to copy from: start the brokers that hold it"
    if grown is None:
        return ""  # without sizes, a long copy looks the same
    if grown > 0 and throttle is not None:
        limit = format_rate(throttle)
        return f"producers write as fast as the throttle of {limit} lets replicas copy: raise --throttle"
    names = listed([format_partition(move.key) for move in unfinished])
    return f"{names}: all brokers are up; check the logs of the brokers that it is copied to"


def describe_down_brokers(unfinished: Sequence[PartitionMove], layout: Layout) -> str:
    """Describe the target brokers that are down; empty if there are none."""
    alive = {broker.id for broker in layout.brokers}
    down = sorted({broker for move in unfinished for broker in move.after} - alive)
    if not down:
        return ""
    word = "broker" if len(down) == 1 else "brokers"
    waiting = [format_partition(move.key) for move in unfinished if not alive.issuperset(move.after)]
    ids, it = ", ".join(map(str, down)), "it" if len(down) == 1 else "them"
    return f"{word} {ids} down, the target of {listed(waiting)}: start {it} again"


def _get_state(move: PartitionMove, layout: Layout) -> PartitionState | None:
    states = layout.topics.get(move.ref.name, ())
    return states[move.partition] if move.partition < len(states) else None
