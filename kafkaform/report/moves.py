"""How far moves of replicas have come.

A rebalance is shown by how replicas lie on brokers before it and after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kafkaform.core.units import format_size, rounded_size
from kafkaform.core.wording import aged, counted
from kafkaform.report.page import Cell, Column, table

if TYPE_CHECKING:
    from rich.text import Text

    from kafkaform.core.moves import MoveProgress
    from kafkaform.plan.placement import Moves
    from kafkaform.plan.rebalancing import Rebalance


IDLE_S = 10.0
"""The time without a copied byte after which no time that is left is given: replicas are read each second."""


@dataclass(slots=True)
class Pace:
    """How fast bytes are copied, as far as was seen.

    Attributes:
        began_s: When the first reading was made, on a clock that only goes forward.
        began_at: The bytes that were copied by then.
        now_s: When the last one was made.
        moved_s: When the bytes last grew.
        moved_to: The bytes that were copied by then.
    """

    began_s: float | None = None
    began_at: int = 0
    now_s: float = 0.0
    moved_s: float = 0.0
    moved_to: int = 0

    def seen(self, progress: MoveProgress, now_s: float) -> None:
        """Take in a reading."""
        if self.began_s is None:
            self.began_s, self.began_at, self.moved_s = now_s, progress.bytes_done, now_s
        if progress.bytes_done > self.moved_to:
            self.moved_s, self.moved_to = now_s, progress.bytes_done
        self.now_s = now_s

    @property
    def idle_s(self) -> float:
        """The seconds in which nothing was copied; 0 while something is."""
        idle = self.now_s - self.moved_s
        return idle if idle >= IDLE_S else 0.0

    def left_s(self, progress: MoveProgress) -> float | None:
        """The seconds that are left if it goes on like that; None if that cannot be told."""
        copied = progress.bytes_done - self.began_at
        if self.began_s is None or copied <= 0 or self.idle_s:
            return None
        return (progress.bytes_total - progress.bytes_done) * (self.now_s - self.began_s) / copied


def amount(progress: MoveProgress, *, brief: bool = False) -> str:
    """How much is done: `12.0 MiB of 80.0 MiB, 3 of 12 partitions, batch 1 of 2`; in brief only the first."""
    parts = []
    if progress.bytes_total:
        done = rounded_size(progress.bytes_done) if progress.bytes_done else "nothing"
        parts.append(f"{done} of {rounded_size(progress.bytes_total)}")
    parts.append(f"{progress.partitions_done:,} of {counted(progress.partitions, 'partition')}")
    if progress.batches > 1:
        parts.append(f"batch {progress.batch:,} of {progress.batches:,}")
    return parts[0] if brief else ", ".join(parts)


def told(progress: MoveProgress, left_s: float | None, idle_s: float = 0.0) -> str:
    """The same as a line of a log, with the throttle, the time that is left, and why nothing moves."""
    parts = [amount(progress)]
    if progress.throttle is not None and progress.bytes_total:
        parts.append(f"at most {format_size(progress.throttle)}/s per broker")
    if progress.stalled:
        parts.append(f"no progress for a while: {progress.stalled}")
    elif idle_s and progress.bytes_total:
        parts.append(describe_idleness(idle_s))
    elif left_s is not None and left_s >= 1 and progress.partitions_done < progress.partitions:
        parts.append(f"about {aged(timedelta(seconds=left_s))} left")
    return ", ".join(parts)


def describe_idleness(idle_s: float) -> str:
    """Return since when nothing was copied: `no progress for 20 seconds`; empty for 0."""
    return f"no progress for {aged(timedelta(seconds=idle_s))}" if idle_s else ""


_COLUMNS = (
    Column("BROKER", right=True),
    Column("RACK", least=6),
    Column("REPLICAS", right=True),
    Column("PREFERRED LEADERS", right=True),
)


def render_balance(made: Rebalance, width: int | None = None) -> Text:
    """A row for each broker, and what the way from one to the other costs.

    Args:
        made: The rebalance.
        width: The characters of a line of the terminal; None where no terminal reads it.
    """
    rows = [
        (
            Cell(str(broker.id)),
            Cell(broker.rack or "-"),
            Cell(_change(made.before.replicas[broker.id], made.after.replicas[broker.id])),
            Cell(_change(made.before.leaders[broker.id], made.after.leaders[broker.id])),
        )
        for broker in sorted(made.brokers, key=lambda broker: broker.id)
    ]
    text = table(_COLUMNS, rows, width)
    text.append(f"\n{_cost(made.moves)}")
    if made.before.narrow != made.after.narrow:
        narrow = f"{made.before.narrow:,} → {made.after.narrow:,}"
        text.append(f"; partitions on fewer racks than possible: {narrow}")
    return text


def _change(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"


def _cost(moves: Moves) -> str:
    copied = f"{counted(moves.replicas, 'replica')} to copy"
    size = f", {rounded_size(moves.size)}" if moves.replicas else ""
    leaders = (
        f", {counted(moves.leaders, 'partition')} with a different preferred leader" if moves.leaders else ""
    )
    return f"{copied}{size}{leaders}"
