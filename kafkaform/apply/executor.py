"""The executor, which applies a plan and verifies the result: step 5 of an apply.

After a failure, independent resources are still applied. Every field is checked against the live cluster
first, so a plan that was half applied can be finished, and one that no longer fits is not applied.
The steps around it, from the options to the report, are in `kafkaform.cli.apply`.
"""

from __future__ import annotations

from operator import itemgetter
from threading import Event
from typing import TYPE_CHECKING

from kafkaform.apply.change_execution import NO_JOURNAL, ChangeExecution, Journal, Observer
from kafkaform.apply.moves.context import MoveContext
from kafkaform.apply.moves.reassignment import Reassigner, ReassignmentReport
from kafkaform.apply.moves.throttle_journal import NO_THROTTLE_JOURNAL, ThrottleJournal
from kafkaform.cluster.protocol import SETTLE_TIMEOUT_S, ClusterWriter, ResourceWriter
from kafkaform.core.apply_result import ApplyReport, Result
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    MovesUnfinished,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import Change, Delete, Observation, Recreate, ResourceRef, Status
from kafkaform.core.operations import Operation, Phase, batches
from kafkaform.core.progress import Clock
from kafkaform.core.values import Value, field
from kafkaform.plan.preconditions import hide_offsets, list_fields
from kafkaform.resources import kind_order
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.replicas.operations import AlterConfigsInSync, Reassign

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from kafkaform.core.plans import Plan

VERIFY_TIMEOUT_S = SETTLE_TIMEOUT_S
"""The seconds that readings may show no progress before the remaining changes count as not verified."""
MIN_PAUSE_S = 0.02
"""The least seconds between two readings."""
MAX_PAUSE_S = 1.0
"""The most seconds between two readings."""

_DEFINITE_ERRORS = (RequestRejected, NotOffered, PermissionDenied, MovesUnfinished)


class ApplyOptions(Value):
    """The options of an apply.

    Attributes:
        observer: Receives progress.
        stop: Once set, no further request is sent; the pending one is waited for, and verified.
        clock: The clock, replaced in tests.
        guard: Called before every request; once it raises `LockLost`, nothing more is sent.
        journal: Records the changes before the first of them is carried out. The caller records the report,
            as it may add to it.
        moves: The options of moves.
        throttle_journal: Records throttles, so that those of an apply that died are found and removed.
        done: The resources whose changes an earlier apply of the same plan made, and the cluster still has.
    """

    observer: Observer = field(default_factory=Observer)
    stop: Event = field(default_factory=Event)
    clock: Clock = field(default_factory=Clock)
    guard: Guard = unguarded
    journal: Journal = NO_JOURNAL
    moves: MoveOptions = field(default_factory=MoveOptions)
    throttle_journal: ThrottleJournal = NO_THROTTLE_JOURNAL
    done: Collection[ResourceRef] = ()


def apply(
    plan: Plan, cluster: ClusterWriter, options: ApplyOptions, observation: Observation | None = None
) -> ApplyReport:
    """Carry out the planned changes of a plan, and read the cluster until it shows them.

    A KeyboardInterrupt ends the current wait, for a request or for the verification, and still returns a
    report.

    Args:
        plan: The plan, for this cluster.
        observation: The reading that the plan was assessed by, if it is current; None: the cluster is read.

    Raises:
        ClusterError: The cluster cannot be read; nothing was changed.
        KafkaformError: The journal cannot be written; nothing was changed.
    """
    return _Run(plan, cluster, options).run(observation)


class _Run:
    """One apply, with the execution of each change."""

    def __init__(self, plan: Plan, cluster: ClusterWriter, options: ApplyOptions) -> None:
        self._cluster: ResourceWriter = cluster
        self._guard = options.guard
        self._observer = options.observer
        self._stop = options.stop
        self._clock = options.clock
        self._journal = options.journal
        self._done = options.done
        self._reassigner = Reassigner(
            MoveContext(
                cluster,
                options.moves,
                options.throttle_journal,
                options.observer,
                options.guard,
                options.stop,
                options.clock,
            )
        )
        self._interrupted = False
        self._lost: ClusterError | None = None
        self._plan = plan
        self._changes = {planned.ref: ChangeExecution(planned) for planned in plan.changes}

    def run(self, observation: Observation | None) -> ApplyReport:
        """Apply the plan, step by step."""
        # 5.1. Find the remainder of each change.
        self._check(observation)
        # 5.2. Record the intent: a change that is not on record is not carried out.
        self._record_intent()
        self._observer.started(sum(len(change.operations) for change in self._list_open()))
        try:
            # 5.3. Send the operations, phase by phase and batch by batch.
            self._send_all()
            # 5.4. Remove throttles that an apply which died has left.
            self._recover_throttles()
        except KeyboardInterrupt:
            self._stop_waiting()
        # 5.5. Verify: read back what was sent, until all of it shows.
        self._verify()
        # 5.6. Report the result of every change.
        results = tuple(change.build_result() for change in self._changes.values())
        return ApplyReport(results, self._interrupted, self._plan.unknown, self._plan.open_errors)

    def _check(self, observation: Observation | None) -> None:
        """Compare each change with the live cluster; settle those that are done or no longer fit."""
        # Before the reading, as a plan whose changes are all refused needs none.
        for change in self._changes.values():
            if change.planned.status is Status.REFUSED:
                change.skip()
        to_check = self._list_open()
        if not to_check:
            return
        observation = hide_offsets(observation or self._observe(to_check), self._list_planned())
        for change in to_check:
            # A change that is done needs no consent: a plan that was applied is a no-op.
            change.check(observation, done=change.planned.ref in self._done)
            if change.result is None and change.planned.status is not Status.PLANNED:
                change.skip()

    def _record_intent(self) -> None:
        intended = [change.remaining for change in self._list_open() if change.remaining is not None]
        # After a stop nothing will be sent, and an intent without a result would leave the change in doubt.
        if intended and not self._stop.is_set():
            self._journal.intend(intended)

    def _stop_waiting(self) -> None:
        """Record that the user stopped waiting for answers."""
        self._interrupted = True
        for change in self._list_open():
            if change.in_doubt:
                change.error = OutcomeUnknown("abandoned while waiting for the answer")

    def _verify(self) -> None:
        """Read back what was sent until all of it shows, or there is no progress for VERIFY_TIMEOUT_S."""
        for change in self._list_open():
            # Nothing of it was sent, so there is nothing to read back.
            if not change.sent and (change.error is None or isinstance(change.error, LockLost)):
                change.finish(Result.NOT_TRIED, *self._why_not_tried())
        try:
            self._read_back(self._list_open)
        except KeyboardInterrupt:
            self._interrupted = True
            for change in self._list_open():
                change.abandon()
        for change in self._list_open():
            change.mark_unverified()

    def _list_planned(self) -> list[Change]:
        return [planned.change for planned in self._plan.changes if planned.status is Status.PLANNED]

    def _list_open(self) -> list[ChangeExecution]:
        return [change for change in self._changes.values() if change.result is None]

    def _send_all(self) -> None:
        for operation_type, batch in self._list_batches():
            if self._stop.is_set():
                self._interrupted = True
            if self._interrupted:
                return
            # Reads lag behind writes, so what earlier requests did has to show first.
            if operation_type.follows_others:
                self._read_back(self._list_sent)
            if operation_type is Reassign:
                self._move([operation for operation in batch if isinstance(operation, Reassign)])
            elif operation_type is AlterConfigsInSync:
                self._send_once_in_sync([o for o in batch if isinstance(o, AlterConfigsInSync)])
            else:
                self._send(batch)
            if self._lost is not None:
                return

    def _list_batches(self) -> Iterator[tuple[type[Operation], Sequence[Operation]]]:
        """Yield the requests still to be sent, of one type each, by phase and then by kind.

        Operations after an error of the same resource are left out.
        """
        work: dict[tuple[Phase, type[Operation]], list[tuple[ChangeExecution, Operation]]] = {}
        for change in sorted(self._list_open(), key=lambda change: kind_order(change.planned.ref.kind)):
            for operation in change.operations:
                work.setdefault((operation.phase, type(operation)), []).append((change, operation))
        # Errors are looked up when a phase begins, not when the list is made: one stops the later operations
        # of its resource, and of no other.
        for phase, operation_type in sorted(work, key=itemgetter(0)):
            for change, operation in work[phase, operation_type]:
                change.error = change.error or self._find_failed_need(operation)
            unsent = [o for change, o in work[phase, operation_type] if change.error is None]
            if operation_type is Reassign:
                # The reassigner has batches of its own: by bytes and brokers, not by the controller's
                # records.
                yield from [(operation_type, unsent)] if unsent else []
            else:
                yield from ((operation_type, batch) for batch in batches(unsent))

    def _find_failed_need(self, operation: Operation) -> ClusterError | None:
        """Return the error of an operation that needs a topic which was not replaced, or not deleted."""
        for ref in operation.needs:
            needed = self._changes.get(ref)
            if needed is None or needed.is_carried_out:
                continue
            if isinstance(needed.planned.change, Recreate):
                return ClusterError(f"waits for {ref}, which was not recreated")
            if isinstance(needed.planned.change, Delete) and operation.phase is Phase.RELEASE:
                return ClusterError(f"waits for {ref}, which was not deleted")
        return None

    def _list_sent(self) -> list[ChangeExecution]:
        """List the open changes whose operations were all sent."""
        return [change for change in self._list_open() if change.is_carried_out]

    def _recover_throttles(self) -> None:
        """Remove throttles that a killed apply has left; an apply that moves replicas has done it already."""
        moves = any(isinstance(o, Reassign) for change in self._changes.values() for o in change.operations)
        if moves or self._lost is not None or self._interrupted:
            return
        try:
            self._reassigner.recover()
        except ClusterError as error:
            # The apply itself has succeeded; the throttles stay in the record for the next one.
            self._observer.show_line(
                f"cannot determine whether an earlier apply left throttles: {error.message}"
            )

    def _move(self, work: Sequence[Reassign]) -> None:
        for operation in work:
            self._changes[operation.ref].in_doubt.append(operation)
            self._changes[operation.ref].moves.append(operation)
        self._note(work, self._reassigner.run(work))

    def _send_once_in_sync(self, batch: Sequence[AlterConfigsInSync]) -> None:
        """Send configs that need replicas in sync, or else stop producers, once they are in sync."""
        report = self._reassigner.wait_in_sync(
            {operation.ref: operation.least_in_sync for operation in batch}
        )
        in_sync = {ref for ref, outcome in report.outcomes.items() if outcome is None}
        ready = [operation for operation in batch if operation.ref in in_sync]
        late = [operation for operation in batch if operation.ref not in in_sync]
        for operation in late:
            self._changes[operation.ref].in_doubt.append(operation)
        self._note(late, report)
        if ready:  # empty after an interruption
            self._send(ready)

    def _note(self, work: Sequence[Operation], report: ReassignmentReport) -> None:
        """Record the outcomes of the reassigner; operations that it has not begun were not sent."""
        for operation in work:
            change = self._changes[operation.ref]
            if operation.ref in report.outcomes:
                outcome = report.outcomes[operation.ref]
                change.record_response(operation, outcome)
                self._observer.finished(operation, outcome)
            else:
                change.in_doubt.remove(operation)
        self._interrupted = report.interrupted
        self._lost = _find_end(list(report.outcomes.values())) if report.outcomes else self._lost

    def _send(self, batch: Sequence[Operation]) -> None:
        # Recorded before anything is sent: an interrupt can come at any point from here on.
        for operation in batch:
            self._changes[operation.ref].in_doubt.append(operation)
        try:
            outcomes = self._cluster.execute(batch, self._guard)
        except ClusterError as error:
            # The request failed as a whole, so the error is that of each of its operations.
            outcomes = [error] * len(batch)
        for operation, outcome in zip(batch, outcomes, strict=True):
            self._changes[operation.ref].record_response(operation, outcome)
            self._observer.finished(operation, outcome)
        self._lost = _find_end(outcomes)

    def _why_not_tried(self) -> tuple[str, str | None]:
        if self._lost is not None:
            return f"abandoned before it was applied: {self._lost.message}", self._lost.hint
        return "stopped before it was applied", None

    def _observe(self, changes: Sequence[ChangeExecution]) -> Observation:
        """Read only the fields of these changes."""
        return self._cluster.observe_fields(
            {change.planned.ref: list_fields(change.planned.change) for change in changes}
        )

    def _read_back(self, which: Callable[[], list[ChangeExecution]]) -> None:
        begun = self._clock.now()
        deadline = begun + VERIFY_TIMEOUT_S
        while waiting := which():
            self._observer.verifying(len(waiting))
            try:
                observation = hide_offsets(self._observe(waiting), self._list_planned())
                misplaced = self._reassigner.find_misplaced(
                    [o for change in waiting for o in change.open_moves]
                )
            except ClusterError as error:
                for change in waiting:
                    change.record_unreadable(error)
            else:
                for change in waiting:
                    moved = change.planned.ref not in misplaced
                    change.read_back(observation, in_place=moved)
                    if change.result is None and not moved and self._interrupted:
                        change.mark_unverified()  # the user has stopped waiting
            # The time limit is for a standstill: a cluster that shows one topic after the other may take as
            # long as it needs.
            remaining = len(which())
            if remaining < len(waiting):
                deadline = self._clock.now() + VERIFY_TIMEOUT_S
            elif self._clock.now() >= deadline:
                return
            if remaining:
                # A fifth of the time so far: the verification ends at most that much later than possible.
                waited = self._clock.now() - begun
                self._clock.sleep(min(max(waited / 5, MIN_PAUSE_S), MAX_PAUSE_S))


def _find_end(outcomes: Sequence[ClusterError | None]) -> ClusterError | None:
    """Return the error after which nothing more is to be sent; None if there is none."""
    for outcome in outcomes:
        if isinstance(outcome, LockLost):
            return outcome
    # A refusal shows that the cluster is reachable; without any answer, sending more is useless.
    answered = any(o is None or isinstance(o, _DEFINITE_ERRORS) for o in outcomes)
    return None if answered else outcomes[0]
