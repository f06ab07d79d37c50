"""Who is told of an apply: whoever waits for it, and the record of what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.model import PlannedChange
    from kafkaform.core.move_progress import MoveProgress
    from kafkaform.core.operations import Operation


class Observer:
    """Is told of progress; does nothing by itself."""

    def started(self, operations: int) -> None:
        """So many operations are to be carried out."""

    def finished(self, operation: Operation, error: ClusterError | None) -> None:
        """One operation has its outcome."""

    def moving(self, progress: MoveProgress) -> None:
        """Replicas are being moved, and have come so far; told about once a second."""

    def told(self, line: str) -> None:
        """One line for a person who waits: what is waited for, and what is odd."""

    def verifying(self, resources: int) -> None:
        """The operations are over; so many resources are still to be read back as planned."""


class Journal(Protocol):
    """The record of what applies do; an apply that cannot write it does nothing."""

    def intend(self, changes: Sequence[PlannedChange]) -> None:
        """Note what is about to be carried out; nothing is sent if this raises."""

    def conclude(self, report: ApplyReport) -> None:
        """Note what became of it."""


class _NoJournal:
    def intend(self, changes: Sequence[PlannedChange]) -> None:
        pass

    def conclude(self, report: ApplyReport) -> None:
        pass


NO_JOURNAL: Journal = _NoJournal()
"""Keeps no record."""
