"""How far moves of replicas have come, in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kafkaform.core.units import format_size, rounded_size
from kafkaform.core.wording import aged, counted

if TYPE_CHECKING:
    from kafkaform.core.move_progress import MoveProgress


@dataclass(slots=True)
class Pace:
    """How fast bytes are copied, as far as was seen.

    Attributes:
        began_s: When the first reading was made, on a clock that only goes forward.
        began_at: The bytes that were copied by then.
        now_s: When the last one was made.
    """

    began_s: float | None = None
    began_at: int = 0
    now_s: float = 0.0

    def seen(self, progress: MoveProgress, now_s: float) -> None:
        """Take in a reading."""
        if self.began_s is None:
            self.began_s, self.began_at = now_s, progress.bytes_done
        self.now_s = now_s

    def left_s(self, progress: MoveProgress) -> float | None:
        """The seconds that are left if it goes on like that; None if that cannot be told."""
        copied = progress.bytes_done - self.began_at
        if self.began_s is None or copied <= 0:
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


def told(progress: MoveProgress, left_s: float | None) -> str:
    """The same as a line of a log, with the throttle, the time that is left, and why nothing moves."""
    parts = [amount(progress)]
    if progress.throttle is not None and progress.bytes_total:
        parts.append(f"at most {format_size(progress.throttle)}/s per broker")
    if progress.stalled:
        parts.append(f"nothing has moved for a while: {progress.stalled}")
    elif left_s is not None and left_s >= 1 and progress.partitions_done < progress.partitions:
        parts.append(f"about {aged(timedelta(seconds=left_s))} left")
    return ", ".join(parts)
