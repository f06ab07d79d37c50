"""Logs in memory: how far they reach and when their records were written, without the records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from kafkaform.core.groups import LogSpan


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one partition.

    Attributes:
        start: The first offset that can be read.
        end: The offset after the last record.
        batches: The first offset of each batch and the time of all its records, in milliseconds since 1970.
        undecided: The first offset of the transaction that is open; None if none is.
    """

    start: int = 0
    end: int = 0
    batches: tuple[tuple[int, int], ...] = ()
    undecided: int | None = None

    def written(self, records: int, timestamp_ms: int) -> Log:
        """The log with so many more records, all of one time."""
        if records < 1:
            raise ValueError(f"a batch of {records} records")
        return replace(self, end=self.end + records, batches=(*self.batches, (self.end, timestamp_ms)))

    def expired(self, start: int) -> Log:
        """The log without what is before an offset."""
        if not self.start <= start <= self.end:
            raise ValueError(f"offset {start} is not within the log ({self.start} to {self.end})")
        return replace(self, start=start)

    def opened(self) -> Log:
        """The log where what is written from now on belongs to an open transaction."""
        return replace(self, undecided=self.end)

    def decided(self, timestamp_ms: int) -> Log:
        """The log once that transaction is at its end, of which a marker tells."""
        return replace(self.written(1, timestamp_ms), undecided=None)

    def span(self, at_ms: int | None = None, *, committed: bool = False) -> LogSpan:
        """How far it reaches, and from where on its records are not older than a time.

        Times need not rise along a log: Kafka too looks for the first record in the order of offsets.
        """
        end = self.undecided if committed and self.undecided is not None else self.end
        if at_ms is None:
            return LogSpan(self.start, end)
        firsts = (*(first for first, _ in self.batches), self.end)
        found = (
            max(first, self.start)
            for (first, after), (_, timestamp) in zip(pairwise(firsts), self.batches, strict=True)
            if after > self.start and timestamp >= at_ms
        )
        return LogSpan(self.start, end, min(end, next(found, end)))
