"""The progress of moves of replicas, and the table of a rebalance.

A rebalance is shown as the replicas of each broker before and after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kafkaform.core.units import format_rate, rounded_size
from kafkaform.core.wording import counted, format_age
from kafkaform.report.document import Column, Paragraph, ReportDocument, Table
from kafkaform.report.page import Page, render_page

if TYPE_CHECKING:
    from kafkaform.plan.rebalancing import Rebalance
    from kafkaform.resources.replicas.moves import MoveProgress

IDLE_S = 10.0
"""The seconds without a copied byte after which no remaining time is shown; replicas are read each second."""


@dataclass(slots=True)
class Pace:
    """The pace at which bytes are copied, from readings of the progress.

    Attributes:
        began_s: The time of the first reading, on a monotonic clock.
        began_at: The bytes copied at that time.
        now_s: The time of the last reading.
        moved_s: The time at which the bytes last increased.
        moved_to: The bytes copied at that time.
    """

    began_s: float | None = None
    began_at: int = 0
    now_s: float = 0.0
    moved_s: float = 0.0
    moved_to: int = 0

    def add_reading(self, progress: MoveProgress, now_s: float) -> None:
        """Add a reading of the progress."""
        # What was copied before the first reading, such as by an earlier apply, says nothing of this pace.
        if self.began_s is None:
            self.began_s, self.began_at, self.moved_s = now_s, progress.bytes_done, now_s
        if progress.bytes_done > self.moved_to:
            self.moved_s, self.moved_to = now_s, progress.bytes_done
        self.now_s = now_s

    @property
    def idle_s(self) -> float:
        """The seconds since a byte was copied; 0 while copying."""
        idle = self.now_s - self.moved_s
        return idle if idle >= IDLE_S else 0.0

    def left_s(self, progress: MoveProgress) -> float | None:
        """Estimate the remaining seconds at this pace; None if unknown."""
        copied = progress.bytes_done - self.began_at
        # While nothing is copied, the mean pace of before would promise an end that does not come.
        if self.began_s is None or copied <= 0 or self.idle_s:
            return None
        return (progress.bytes_total - progress.bytes_done) * (self.now_s - self.began_s) / copied


def format_amount(progress: MoveProgress, *, brief: bool = False) -> str:
    """Format what is done: `12.0 MiB of 80.0 MiB, 3 of 12 partitions`; if `brief`, the first part."""
    parts = []
    if progress.bytes_total:
        done = rounded_size(progress.bytes_done) if progress.bytes_done else "nothing"
        parts.append(f"{done} of {rounded_size(progress.bytes_total)}")
    parts.append(f"{progress.partitions_done:,} of {counted(progress.partitions, 'partition')}")
    if progress.batches > 1:
        parts.append(f"batch {progress.batch:,} of {progress.batches:,}")
    return parts[0] if brief else ", ".join(parts)


def format_progress(progress: MoveProgress, left_s: float | None, idle_s: float = 0.0) -> str:
    """Format progress as a log line, with the throttle, the remaining time, and why nothing moves."""
    parts = [format_amount(progress)]
    # A throttle explains a slow pace; without bytes to copy it does not matter.
    if progress.throttle is not None and progress.bytes_total:
        parts.append(f"at most {format_rate(progress.throttle)} per broker")
    if progress.stalled:
        parts.append(f"no progress for a while: {progress.stalled}")
    elif idle_s and progress.bytes_total:
        parts.append(describe_idleness(idle_s))
    elif left_s is not None and left_s >= 1 and progress.partitions_done < progress.partitions:
        parts.append(f"about {format_age(timedelta(seconds=left_s))} left")
    return ", ".join(parts)


def describe_idleness(idle_s: float) -> str:
    """Return how long nothing was copied: `no progress for 20 seconds`; empty for 0."""
    return f"no progress for {format_age(timedelta(seconds=idle_s))}" if idle_s else ""


_COLUMNS = (
    Column("Broker", right=True),
    Column("Rack", least=6),
    Column("Replicas", right=True),
    Column("Preferred leaders", right=True),
)


def render_balance(rebalance: Rebalance, width: int | None = None) -> Page:
    """Render a row for each broker, and the cost of the rebalance.

    Args:
        width: The width of the terminal in columns; None if the output is no terminal.
    """
    rows = [
        (
            str(broker.id),
            broker.rack or "-",
            _format_change(rebalance.before.replicas[broker.id], rebalance.after.replicas[broker.id]),
            _format_change(rebalance.before.leaders[broker.id], rebalance.after.leaders[broker.id]),
        )
        for broker in sorted(rebalance.brokers, key=lambda broker: broker.id)
    ]
    moves = rebalance.moves
    cost = f"{counted(moves.replicas, 'replica')} to copy"
    if moves.replicas:
        cost += f", {rounded_size(moves.size)}"
    if moves.leaders:
        cost += f", {counted(moves.leaders, 'partition')} with a different preferred leader"
    # A rebalance may also put replicas on more racks, which the counts of brokers do not show.
    if rebalance.before.narrow != rebalance.after.narrow:
        narrow = _format_change(rebalance.before.narrow, rebalance.after.narrow)
        cost += f"; partitions on fewer racks than possible: {narrow}"
    return render_page(ReportDocument("", [Table(_COLUMNS, rows), Paragraph(cost)], indent=0), width=width)


def _format_change(before: int, after: int) -> str:
    return f"{before:,} → {after:,}" if before != after else f"{before:,}"
