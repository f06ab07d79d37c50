"""One planned change on its way to the cluster: what was sent, what is known of it, how it ends.

It also knows who is told of it: whoever waits, and the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from kafkaform.apply.preconditions import REPLACED, Moved, remaining
from kafkaform.core.apply_result import AGAIN, ResourceResult, Result
from kafkaform.core.errors import (
    AuthenticationFailed,
    LockLost,
    MovesUnfinished,
    NotOffered,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.model import Delete, Status
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.errors import ClusterError
    from kafkaform.core.model import FieldChange, Observation, PlannedChange
    from kafkaform.core.moves import MoveProgress
    from kafkaform.core.operations import Operation, Reassign


NOT_CARRIED_OUT = (
    RequestRejected,
    NotOffered,
    PermissionDenied,
    AuthenticationFailed,
    LockLost,
    MovesUnfinished,
)
"""After any other error, such as no answer, an operation may have been carried out all the same."""

_MADEAGAIN = Moved(
    "deleted, but somebody has created it again since, with another id",
    "stop what creates it again (a producer, if brokers create topics automatically), then plan again",
)


@dataclass(slots=True)
class ChangeExecution:
    """The execution of one change, and what is known of it so far.

    Attributes:
        planned: The change.
        left: What is left of it to do, found out by `check`; None if nothing is.
        operations: All that it takes, found out by `check`.
        done: Those that were carried out.
        unsure: Those that were sent, and may have been carried out or not.
        in_part: Those that were refused, but not for all of their partitions.
        moves: Moves of replicas that were handed to the reassigner.
        deferred: Fields that differ still, and that no operation is for.
        error: What came instead of an answer, or the answer; nothing more is sent after one.
        unverified: What speaks against its being on the cluster, as last read.
        result: How it ended; None until then.
    """

    planned: PlannedChange
    left: PlannedChange | None = None
    operations: tuple[Operation, ...] = ()
    done: list[Operation] = field(default_factory=list)
    unsure: list[Operation] = field(default_factory=list)
    in_part: list[Operation] = field(default_factory=list)
    moves: list[Reassign] = field(default_factory=list)
    deferred: tuple[FieldChange, ...] = ()
    error: ClusterError | None = None
    unverified: str = ""
    result: Result | None = None
    message: str = ""
    hint: str | None = None

    @property
    def sent(self) -> bool:
        """Whether anything was sent that may be on the cluster."""
        return bool(self.done or self.unsure)

    @property
    def open_moves(self) -> list[Reassign]:
        """Moves of replicas that may have begun and did not end as they were to."""
        return [operation for operation in self.moves if operation not in self.done]

    def settle(self, result: Result, message: str = "", hint: str | None = None) -> None:
        """End here."""
        self.result, self.message, self.hint = result, message, hint

    def check(self, observation: Observation) -> None:
        """Find out, before anything is sent, what there is to do."""
        left = remaining(self.planned.change, observation)
        if isinstance(left, Moved):
            self.settle(Result.MOVED, left.reason, left.hint)
            return
        self.deferred = left.deferred
        if left.change is None:
            self.settle(Result.ALREADY)
        else:
            whole = left.change is self.planned.change
            self.left = self.planned if whole else replace(self.planned, change=left.change)
            self.operations = KINDS[self.planned.ref.kind].operations(left.change)

    def hold_back(self) -> None:
        """End before anything is sent, as the change waits for consent or is refused."""
        refused = self.planned.status is Status.REFUSED
        self.settle(
            Result.REFUSED if refused else Result.NEEDS_CONSENT,
            self.planned.reason or "",
            self.planned.remedy if refused else None,
        )
        self.operations = ()

    def answered(self, operation: Operation, error: ClusterError | None) -> None:
        """Note the answer to an operation that was sent."""
        if error is None:
            self.done.append(operation)
        if error is None or isinstance(error, NOT_CARRIED_OUT):
            self.unsure.remove(operation)
        if error is not None and error.in_part:
            self.in_part.append(operation)
        self.error = error

    def read_back(self, observation: Observation, *, in_place: bool = True) -> None:
        """End if the reading shows all that is wanted, or else all that was carried out.

        Args:
            observation: What the cluster shows.
            in_place: Whether the replicas of `open_moves` are in place; a reading that shows them there
                right after a cancellation is not enough (see `Reassigner.misplaced`).
        """
        left = remaining(self.planned.change, observation)
        if isinstance(left, Moved):
            self._moved(left)
            return
        if left.change is None and not in_place:
            self.unverified = "its replicas are still being moved, or moved back"
            if self.error is not None and not (self.unsure or self.in_part):
                self.settle(Result.FAILED, self.error.message, self.error.hint)
            return
        self.deferred = left.deferred
        still = KINDS[self.planned.ref.kind].operations(left.change) if left.change else ()
        open_phases = {operation.phase for operation in still}
        for operation in [o for o in self.unsure if o.phase not in open_phases]:
            self.unsure.remove(operation)
            self.done.append(operation)
        if left.change is None:
            # Such as moves that went on when the lock was lost, and have come to their end since.
            self.done += [operation for operation in self.in_part if operation not in self.done]
            self.settle(Result.APPLIED if self.done else Result.ALREADY)
        elif self.unsure or any(operation.phase in open_phases for operation in self.done):
            self.unverified = "the cluster does not show it"
        elif self.error is not None:
            self.settle(Result.FAILED, self.error.message, self.error.hint)
        else:
            self.settle(Result.FAILED, "stopped half-way", AGAIN)

    def unreadable(self, error: ClusterError) -> None:
        """The cluster could not be read: end if there is nothing to wait for."""
        self.unverified = error.message
        if self.error is not None and not self.sent:
            self.settle(Result.FAILED, self.error.message, self.error.hint)

    def give_up(self) -> None:
        """End without proof."""
        unverified = f"not verified: {self.unverified}"
        message = unverified if self.error is None else f"{self.error.message}; {unverified}"
        self.settle(Result.FAILED, message, AGAIN)

    def concluded(self) -> ResourceResult:
        """What to report."""
        return ResourceResult(
            self.planned,
            self.result or Result.NOT_TRIED,
            self.message,
            self.hint,
            tuple(operation for operation in self.operations if operation in self.done),
            tuple(operation for operation in self.operations if operation not in self.done),
            tuple(
                operation
                for operation in self.operations
                if operation not in self.done and (operation in self.unsure or operation in self.in_part)
            ),
            self.deferred,
        )

    def _moved(self, moved: Moved) -> None:
        """Somebody else changed it since the check, or the reading is in between."""
        if isinstance(self.planned.change, Delete) and moved is REPLACED and self.sent:
            self.done, self.unsure = list(self.operations), []
            self.settle(Result.FAILED, _MADEAGAIN.reason, _MADEAGAIN.hint)
        elif self.sent:
            self.unverified = moved.reason
        else:
            self.settle(Result.MOVED, moved.reason, moved.hint)


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
