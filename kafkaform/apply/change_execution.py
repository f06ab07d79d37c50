"""The execution of one planned change, and the interfaces to observers and to the record of applies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kafkaform.apply.moves.context import FINAL
from kafkaform.core.apply_result import RETRY_HINT, ApplyReport, ResourceResult, Result
from kafkaform.core.errors import ClusterError, MovesUnfinished
from kafkaform.core.model import Create, Delete, FieldChange, Observation, Recreate, Status
from kafkaform.core.operations import Operation, Phase
from kafkaform.core.values import replace
from kafkaform.plan.preconditions import REPLACED, Superseded, find_remaining, list_fields
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.core.plans import PlannedChange
    from kafkaform.resources.replicas.moves import MoveProgress
    from kafkaform.resources.replicas.operations import Reassign

NOT_CARRIED_OUT = (*FINAL, MovesUnfinished)
"""Errors that prove that an operation was not carried out; after any other, it may have been."""

_RECREATED = Superseded(
    "deleted, but it was created again since, with another id",
    "stop what creates it again (a producer, if brokers create topics automatically), then plan again",
)


@dataclass(slots=True)
class ChangeExecution:
    """The execution of one change, and its state so far.

    Attributes:
        remaining: The remaining change, set by `check`; None if nothing remains.
        operations: The operations of the remaining change, set by `check`.
        done: Operations that were carried out.
        in_doubt: Operations that were sent, and may have been carried out or not.
        partial: Operations that were refused, but not for all of their partitions.
        moves: Moves of replicas that were passed to the reassigner.
        deferred: Fields that still differ, and that no operation changes.
        invisible: Operations that brokers acknowledged, and that the last reading does not show.
        error: The first error; nothing more is sent after it.
        unverified: The reason why the last reading did not verify the change.
        live: The numbers of the changed resource that the record keeps, by name.
        result: The result; None until the execution ends.
    """

    planned: PlannedChange
    remaining: PlannedChange | None = None
    operations: tuple[Operation, ...] = ()
    done: list[Operation] = field(default_factory=list)
    in_doubt: list[Operation] = field(default_factory=list)
    partial: list[Operation] = field(default_factory=list)
    moves: list[Reassign] = field(default_factory=list)
    deferred: tuple[FieldChange, ...] = ()
    invisible: list[Operation] = field(default_factory=list)
    error: ClusterError | None = None
    unverified: str = ""
    live: Mapping[str, int] = field(default_factory=dict)
    result: Result | None = None
    message: str = ""
    hint: str | None = None

    @property
    def sent(self) -> bool:
        """Return whether an operation was sent that may have been carried out."""
        return bool(self.done or self.in_doubt)

    @property
    def is_carried_out(self) -> bool:
        """Return whether all of it was carried out, now or before."""
        sent_all = bool(self.operations) and len(self.done) == len(self.operations)
        return sent_all or self.result in {Result.APPLIED, Result.ALREADY}

    @property
    def open_moves(self) -> list[Reassign]:
        """The moves of replicas that may have begun and are not done."""
        return [operation for operation in self.moves if operation not in self.done]

    def finish(self, result: Result, message: str = "", hint: str | None = None) -> None:
        """End the execution with this result."""
        self.result, self.message, self.hint = result, message, hint

    def check(self, observation: Observation, *, done: bool) -> None:
        """Find the remaining change and its operations, before anything is sent.

        Args:
            observation: The reading of the cluster.
            done: Whether an earlier apply made the change: what no reading shows is then not sent again.
        """
        remaining = find_remaining(self.planned.change, observation, unseen_is_open=not done)
        if isinstance(remaining, Superseded):
            self.finish(Result.MOVED, remaining.reason, remaining.hint)
            return
        self.deferred = remaining.deferred
        if remaining.change is None:
            self.finish(Result.ALREADY)
        else:
            whole = remaining.change is self.planned.change
            self.remaining = self.planned if whole else replace(self.planned, change=remaining.change)
            planned = self.planned.operations if whole else None
            self.operations = (
                KINDS[self.planned.ref.kind].operations(remaining.change) if planned is None else planned
            )

    def skip(self) -> None:
        """End before anything is sent, as the change waits for consent or is refused."""
        refused = self.planned.status is Status.REFUSED
        self.finish(
            Result.REFUSED if refused else Result.NEEDS_CONSENT,
            self.planned.reason or "",
            self.planned.remedy if refused else None,
        )
        self.operations = ()
        if refused:
            self.deferred = ()  # a refused change is not one that is applied in part

    def record_response(self, operation: Operation, error: ClusterError | None) -> None:
        """Record the answer to an operation that was sent."""
        if error is None:
            self.done.append(operation)
        # After any other error, such as a lost connection, only a reading can show what the brokers did.
        if error is None or isinstance(error, NOT_CARRIED_OUT):
            self.in_doubt.remove(operation)
        if error is not None and error.is_partial:
            self.partial.append(operation)
        self.error = error

    def read_back(self, observation: Observation, *, in_place: bool) -> None:
        """End the execution if the reading shows the whole change, or all operations that were carried out.

        Args:
            observation: The reading of the cluster.
            in_place: Whether the replicas of `open_moves` are in place; right after a cancellation, the
                observation alone does not prove that (see `Reassigner.find_misplaced`).
        """
        # Of what no reading shows, only the acknowledgement of the brokers proves that it was done.
        unseen_is_open = len(self.done) < len(self.operations)
        remaining = find_remaining(self.planned.change, observation, unseen_is_open=unseen_is_open)
        if isinstance(remaining, Superseded):
            self._record_superseded(remaining)
            return
        if remaining.change is None and self._is_created_by_others:
            self._record_superseded(REPLACED)
            return
        if remaining.change is None and not in_place:
            self.unverified = "its replicas are still being moved, or moved back"
            if self.error is not None and not (self.in_doubt or self.partial):
                self.finish(Result.FAILED, self.error.message, self.error.hint)
            return
        self.deferred = remaining.deferred
        unfinished = []
        if remaining.change is not None:
            missing = list_fields(remaining.change)
            unfinished = [operation for operation in self.operations if operation.is_open(missing)]
            # The topic that is to be created again is gone: only its creation remains.
            if isinstance(self.planned.change, Recreate) and isinstance(remaining.change, Create):
                unfinished = [operation for operation in unfinished if operation.phase is Phase.REPLACE]
        # The request was not answered, and the reading shows its result: it was carried out.
        for operation in [o for o in self.in_doubt if o not in unfinished]:
            self.in_doubt.remove(operation)
            self.done.append(operation)
        # No reading shows that offsets in a topic are deleted.
        self.invisible = [o for o in self.done if o in unfinished and o.phase is not Phase.FORGET]
        if remaining.change is None:
            # Such as moves that continued after the lock was lost, and have ended since then.
            self.done += [operation for operation in self.partial if operation not in self.done]
            self.finish(Result.APPLIED if self.done else Result.ALREADY)
            observed = observation.resources.get(self.planned.ref)
            self.live = observed.live.recorded if observed is not None and observed.live is not None else {}
        # Readings lag behind writes: 12,000 new partitions showed after 11 to 36 s (measured on 4.3.1). So
        # this is no failure yet.
        elif self.in_doubt or self.invisible:
            self.unverified = "the cluster does not show the change yet"
        elif self.error is not None:
            self.finish(Result.FAILED, self.error.message, self.error.hint)
        else:
            self.finish(Result.FAILED, "stopped halfway", RETRY_HINT)

    def record_unreadable(self, error: ClusterError) -> None:
        """Record that the cluster could not be read; end the execution if nothing was sent."""
        self.unverified = error.message
        if self.error is not None and not self.sent:
            self.finish(Result.FAILED, self.error.message, self.error.hint)

    def abandon(self) -> None:
        """Record that the user stopped waiting for a reading: nothing shows what was acknowledged."""
        self.unverified = "abandoned while verifying it"
        self.in_doubt += self.done
        self.done, self.invisible = [], []

    def mark_unverified(self) -> None:
        """End the execution as failed, as it was not verified."""
        unverified = f"{'accepted, not visible' if self.invisible else 'not verified'}: {self.unverified}"
        # An acknowledgement proves nothing against later readings: whether these were carried out is unknown.
        for operation in self.invisible:
            self.done.remove(operation)
            self.in_doubt.append(operation)
        message = unverified if self.error is None else f"{self.error.message}; {unverified}"
        self.finish(Result.FAILED, message, RETRY_HINT)

    def build_result(self) -> ResourceResult:
        """Build the result to report."""
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
                if operation not in self.done and (operation in self.in_doubt or operation in self.partial)
            ),
            self.deferred,
            self.live,
        )

    @property
    def _is_created_by_others(self) -> bool:
        """Return whether a topic of the name that is live by now is none that this change created."""
        created = any(operation.step == "create" for operation in (*self.done, *self.in_doubt))
        return isinstance(self.planned.change, Recreate) and self.sent and not created

    def _record_superseded(self, superseded: Superseded) -> None:
        """End the execution, or wait if something was sent: the reading may be between two states."""
        # Brokers with auto.create.topics.enable create a topic again as soon as a producer requests its
        # metadata.
        if superseded is REPLACED and self.sent and isinstance(self.planned.change, Delete):
            self.done, self.in_doubt = list(self.operations), []
            self.finish(Result.FAILED, _RECREATED.reason, _RECREATED.hint)
        elif superseded is REPLACED and self._is_created_by_others:
            self.done = [operation for operation in self.operations if operation.phase is not Phase.REPLACE]
            self.in_doubt = []
            self.finish(Result.FAILED, _RECREATED.reason, _RECREATED.hint)
        elif self.sent:
            # Another value than both: others changed it after the brokers had acknowledged it.
            self.unverified, self.invisible = superseded.reason, []
        else:
            self.finish(Result.MOVED, superseded.reason, superseded.hint)


class Observer:
    """An observer of progress, which does nothing by itself."""

    def started(self, operations: int) -> None:
        """Note how many operations are to be carried out."""

    def finished(self, operation: Operation, error: ClusterError | None) -> None:
        """Note the outcome of one operation."""

    def moving(self, progress: MoveProgress) -> None:
        """Note the progress of moving replicas; called about once a second."""

    def show_line(self, line: str) -> None:
        """Show one line: the reason for a wait, or an anomaly."""

    def verifying(self, resources: int) -> None:
        """Note that the operations are over, and how many resources are still to be verified."""


class Journal(Protocol):
    """The record of applies; an apply that cannot write it changes nothing."""

    def intend(self, changes: Sequence[PlannedChange]) -> None:
        """Record the changes that are about to be carried out; nothing is sent if this raises."""

    def conclude(self, report: ApplyReport) -> None:
        """Record the results of the changes."""


class _NoJournal:
    def intend(self, changes: Sequence[PlannedChange]) -> None:
        pass

    def conclude(self, report: ApplyReport) -> None:
        pass


NO_JOURNAL: Journal = _NoJournal()
"""A journal that records nothing."""
