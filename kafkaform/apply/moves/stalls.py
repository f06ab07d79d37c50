"""Noticing that a batch does not move any more, and finding out why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.partition_move import named
from kafkaform.core.units import format_size
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.apply.moves.partition_move import PartitionMove
    from kafkaform.core.layout import Layout, PartitionState, Replicas

STALL_S = 60.0
"""How long nothing may come nearer to its end before that is said."""


class StallWatch:
    """Watches one batch.

    Nearer means: more partitions done, more replicas in sync, or fewer bytes still to be copied. Bytes that
    are copied do not count by themselves, as producers may write as many meanwhile.

    Args:
        now: The time in seconds.

    Attributes:
        reason: Why nothing moves; empty as long as something does.
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
        """Take a reading in, and note the reason if nothing has moved for STALL_S.

        Args:
            now: The time in seconds.
            unfinished: What is not where it is to be.
            layout: The cluster.
            sizes: The bytes of replicas.
            throttle: The bytes per second of a broker; None: no limit.
        """
        seen = [move for move in unfinished if _state(move, layout) is not None]
        in_sync = sum(len(move.adding & {*_in_sync(move, layout)}) for move in seen)
        reading = (len(unfinished), -in_sync, remaining(unfinished, sizes))
        if self._best is None or reading < self._best:
            self._best, self._since, self.reason = reading, now, ""
            self._copied_then = copied(unfinished, sizes)
        elif now - self._since >= STALL_S:
            grown = copied(unfinished, sizes) - self._copied_then
            self.reason = reason(seen, layout, grown if sizes else None, throttle)


def copied(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """The bytes that are on the brokers that partitions are copied to."""
    return sum(sizes.get((*move.key, broker), 0) for move in moves for broker in move.adding)


def remaining(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """The bytes that are still to be copied, as far as sizes are known."""
    total = 0
    for move in moves:
        whole = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)
        total += sum(max(0, whole - sizes.get((*move.key, broker), 0)) for broker in move.adding)
    return total


def reason(
    unfinished: Sequence[PartitionMove], layout: Layout, grown: int | None, throttle: int | None
) -> str:
    """Why moves are stalled, as far as it can be told.

    Args:
        unfinished: What is not where it is to be.
        layout: The cluster.
        grown: The bytes that were copied all the same; None where nobody tells.
        throttle: The bytes per second of a broker; None: no limit.
    """
    if down := brokers_down(unfinished, layout):
        return down
    offline = [named(m.key) for m in unfinished if (s := _state(m, layout)) is not None and s.leader is None]
    if offline:
        return f"{listed(offline)} without a leader to copy from: start the brokers that hold it"
    if grown is None:
        return ""  # without sizes, a long copy looks the same
    if grown > 0 and throttle is not None:
        rate = f"{format_size(throttle)}/s"
        return f"records are written as fast as the throttle of {rate} lets them be copied: raise --throttle"
    names = listed([named(move.key) for move in unfinished])
    return f"{names}: all brokers are up; the logs of those that it is copied to may tell why"


def brokers_down(unfinished: Sequence[PartitionMove], layout: Layout) -> str:
    """Which brokers that partitions are to be on are down; empty if none is."""
    alive = {broker.id for broker in layout.brokers}
    down = sorted({broker for move in unfinished for broker in move.after} - alive)
    if not down:
        return ""
    word = "broker" if len(down) == 1 else "brokers"
    waiting = [named(move.key) for move in unfinished if not alive.issuperset(move.after)]
    ids, be = ", ".join(map(str, down)), "is" if len(waiting) == 1 else "are"
    return f"{word} {ids} down, which {listed(waiting)} {be} to be on: start it again"


def _state(move: PartitionMove, layout: Layout) -> PartitionState | None:
    states = layout.topics.get(move.ref.name, ())
    return states[move.partition] if move.partition < len(states) else None


def _in_sync(move: PartitionMove, layout: Layout) -> Replicas:
    state = _state(move, layout)
    return () if state is None else state.isr
