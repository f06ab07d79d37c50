"""Carrying a plan out: what was reviewed and nothing else, and proof that it is so.

Independent resources go on after one fails. Every field is checked against the live cluster first, so a
plan that was half applied can be finished, and one that no longer fits is not forced onto the cluster.
`_Run.run` names the steps.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from kafkaform.apply.change_execution import NO_JOURNAL, ChangeExecution, Observer
from kafkaform.apply.moves.context import MoveContext
from kafkaform.apply.moves.reassignment import Reassigner
from kafkaform.apply.moves.throttle_journal import NO_THROTTLE_JOURNAL
from kafkaform.apply.preconditions import concerned
from kafkaform.cluster.protocol import SETTLE_TIMEOUT_S
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
from kafkaform.core.lock import unguarded
from kafkaform.core.model import Status
from kafkaform.core.moves import MoveOptions
from kafkaform.core.operations import AlterConfigs, Operation, Phase, Reassign, batches
from kafkaform.core.progress import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.apply.change_execution import Journal
    from kafkaform.apply.moves.reassignment import ReassignmentReport
    from kafkaform.apply.moves.throttle_journal import ThrottleJournal
    from kafkaform.cluster.protocol import ClusterWriter, ResourceWriter
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import Observation, Plan

VERIFY_TIMEOUT_S = SETTLE_TIMEOUT_S
"""How long readings may show nothing new before what is left counts as not verified."""
LEAST_PAUSE_S = 0.02
"""How long to wait at least between two readings."""
LONGEST_PAUSE_S = 1.0
"""How long to wait at most."""

Judge: TypeAlias = "Callable[[Plan, Observation], Plan]"
"""Judges a plan by a reading of its resources with all of their configs, and says what may be done of it."""

_AS_USUAL = MoveOptions()


def apply(
    plan: Plan,
    cluster: ClusterWriter,
    *,
    observer: Observer | None = None,
    stop: Event | None = None,
    clock: Clock | None = None,
    guard: Guard = unguarded,
    journal: Journal = NO_JOURNAL,
    moves: MoveOptions = _AS_USUAL,
    throttle_journal: ThrottleJournal = NO_THROTTLE_JOURNAL,
    judge: Judge | None = None,
) -> ApplyReport:
    """Carry out the planned changes of a plan, and read the cluster until it shows them.

    A KeyboardInterrupt gives up what is being waited for, be it a request or the reading back, and still
    leads to a report.

    Args:
        plan: The plan, for this cluster.
        cluster: The cluster.
        observer: Is told of progress.
        stop: Once set, no further request is sent; the one under way is waited for, and verified.
        clock: For tests.
        guard: Called before every request; once it raises `LockLost`, nothing more is sent.
        journal: Is told of the changes that are to be carried out, before the first of them, if there are
            any. The report is for the caller to hand on, who may have more to say about it.
        moves: How replicas are moved.
        throttle_journal: Remembers throttles, so that what a dead apply has left is found and taken off.
        judge: Judges the plan once more by the reading that is made before anything is sent: time has passed
            since it was made, and somebody was perhaps asked. None: it stands as it is.

    Raises:
        ClusterError: The cluster cannot be read before anything was changed.
        KafkaformError: The journal cannot be written; nothing was changed.
    """
    observer = observer or Observer()
    context = MoveContext(
        cluster, moves, throttle_journal, observer, guard, stop or Event(), clock or Clock()
    )
    return _Run(plan, cluster, context, observer).run(journal, judge)


class _Run:
    """One apply; its state is what became of each change so far."""

    def __init__(self, plan: Plan, cluster: ResourceWriter, context: MoveContext, observer: Observer) -> None:
        self._cluster = cluster
        self._guard = context.guard
        self._observer = observer
        self._stop = context.stop
        self._clock = context.clock
        self._reassigner = Reassigner(context)
        self._interrupted = False
        self._lost: ClusterError | None = None
        self._plan = plan
        self._changes = {planned.ref: ChangeExecution(planned) for planned in plan.changes}

    def run(self, journal: Journal, judge: Judge | None) -> ApplyReport:
        """Apply the plan, step by step."""
        # 1. Check what is left to do of each change, and whether that may be done now.
        self._check(judge)
        # 2. Record the intent: what is not on record is not done.
        self._record_intent(journal)
        self._observer.started(sum(len(change.operations) for change in self._open()))
        try:
            # 3. Send the operations, phase by phase and batch by batch.
            self._send_all()
            # 4. Take off throttles that an apply which died has left.
            self._recover_throttles()
        except KeyboardInterrupt:
            self._give_up_waiting()
        # 5. Read back what was sent, until all of it shows.
        self._verify()
        # 6. Say what became of every change.
        return self._conclude()

    def _check(self, judge: Judge | None) -> None:
        """Compare each change with the live cluster: to do, done already, no longer fitting, or too risky."""
        for change in self._changes.values():
            if change.planned.status is Status.REFUSED:
                change.hold_back()
        to_check = self._open()
        if not to_check:
            return
        if judge is None:
            observation = self._observe(to_check)
        else:
            # With all configs: a judgement looks at more than the fields that change.
            observation = self._cluster.observe([change.planned.ref for change in to_check])
            for planned in judge(self._plan, observation).changes:
                self._changes[planned.ref].planned = planned
        for change in to_check:
            # What is done already needs no consent any more: a plan that was applied is a no-op.
            change.check(observation)
            if change.result is None and change.planned.status is not Status.PLANNED:
                change.hold_back()

    def _record_intent(self, journal: Journal) -> None:
        intended = [change.left for change in self._open() if change.operations and change.left is not None]
        if intended and not self._stop.is_set():
            journal.intend(intended)

    def _give_up_waiting(self) -> None:
        """Note that a person gave up waiting for answers."""
        self._interrupted = True
        for change in self._open():
            if change.unsure:
                change.error = OutcomeUnknown("abandoned while waiting for the answer")

    def _verify(self) -> None:
        """Read back what was sent, until all of it shows, or nothing new does for VERIFY_TIMEOUT_S."""
        for change in self._open():
            if not change.sent and (change.error is None or isinstance(change.error, LockLost)):
                change.settle(Result.NOT_TRIED, *self._why_not_tried())
        try:
            self._read_back(self._open)
        except KeyboardInterrupt:
            self._interrupted = True
            for change in self._open():
                change.unverified = "abandoned while verifying it"
        for change in self._open():
            change.give_up()

    def _conclude(self) -> ApplyReport:
        results = tuple(change.concluded() for change in self._changes.values())
        return ApplyReport(results, self._interrupted, self._plan.unknown, self._plan.open_errors)

    def _open(self) -> list[ChangeExecution]:
        return [change for change in self._changes.values() if change.result is None]

    def _send_all(self) -> None:
        for phase, batch in self._batches():
            if self._stop.is_set():
                self._interrupted = True
            if self._interrupted:
                return
            if phase is Phase.COMMIT_OFFSETS:
                self._read_back(self._sent_whole)  # or a partition that was just made would be left out
            if phase is Phase.MOVE_REPLICAS:
                self._move([operation for operation in batch if isinstance(operation, Reassign)])
            elif phase is Phase.CONFIGURE_IN_SYNC:
                self._send_once_in_sync([o for o in batch if isinstance(o, AlterConfigs)])
            else:
                self._send(batch)
            if self._lost is not None:
                return

    def _batches(self) -> Iterator[tuple[Phase, Sequence[Operation]]]:
        """The requests still to be sent; what comes after an error of the same resource is left out."""
        work: dict[Phase, list[tuple[ChangeExecution, Operation]]] = {phase: [] for phase in Phase}
        for change in self._open():
            for operation in change.operations:
                work[operation.phase].append((change, operation))
        for phase in Phase:
            unsent = [o for change, o in work[phase] if change.result is None and change.error is None]
            if phase is Phase.MOVE_REPLICAS:
                yield from [(phase, unsent)] if unsent else []  # the reassigner has batches of its own
            else:
                yield from ((phase, batch) for batch in batches(unsent))

    def _sent_whole(self) -> list[ChangeExecution]:
        """What is open and has nothing left to be sent."""
        return [
            change
            for change in self._open()
            if change.operations and len(change.done) == len(change.operations)
        ]

    def _recover_throttles(self) -> None:
        """Take off throttles that a dead apply has left; an apply that moves something has done it."""
        moves = any(isinstance(o, Reassign) for change in self._changes.values() for o in change.operations)
        if moves or self._lost is not None or self._interrupted:
            return
        try:
            self._reassigner.recover()
        except ClusterError as error:
            self._observer.told(f"cannot determine whether an earlier apply left throttles: {error.message}")

    def _move(self, work: Sequence[Reassign]) -> None:
        for operation in work:
            self._changes[operation.ref].unsure.append(operation)
            self._changes[operation.ref].moves.append(operation)
        self._note(work, self._reassigner.run(work))

    def _send_once_in_sync(self, batch: Sequence[AlterConfigs]) -> None:
        """Send what stops producers unless enough replicas are in sync, once they are."""
        report = self._reassigner.wait_in_sync(
            {operation.ref: operation.least_in_sync for operation in batch}
        )
        in_sync = {ref for ref, outcome in report.outcomes.items() if outcome is None}
        ready = [operation for operation in batch if operation.ref in in_sync]
        late = [operation for operation in batch if operation.ref not in in_sync]
        for operation in late:
            self._changes[operation.ref].unsure.append(operation)
        self._note(late, report)
        if ready:  # nobody is, after an interruption
            self._send(ready)

    def _note(self, work: Sequence[Operation], report: ReassignmentReport) -> None:
        """Note what the reassigner says became of operations; those that it has not begun were not sent."""
        for operation in work:
            change = self._changes[operation.ref]
            if operation.ref in report.outcomes:
                outcome = report.outcomes[operation.ref]
                change.answered(operation, outcome)
                self._observer.finished(operation, outcome)
            else:
                change.unsure.remove(operation)
        self._interrupted = self._interrupted or report.interrupted
        self._lost = _end(list(report.outcomes.values())) if report.outcomes else self._lost

    def _send(self, batch: Sequence[Operation]) -> None:
        # Noted before anything is sent: an interrupt can come at any point from here on.
        for operation in batch:
            self._changes[operation.ref].unsure.append(operation)
        try:
            outcomes = self._cluster.execute(batch, self._guard)
        except ClusterError as error:
            outcomes = [error] * len(batch)
        for operation, outcome in zip(batch, outcomes, strict=True):
            self._changes[operation.ref].answered(operation, outcome)
            self._observer.finished(operation, outcome)
        self._lost = _end(outcomes)

    def _why_not_tried(self) -> tuple[str, str | None]:
        if self._lost is not None:
            return f"abandoned before it was applied: {self._lost.message}", self._lost.hint
        return "stopped before it was applied", None

    def _observe(self, changes: Sequence[ChangeExecution]) -> Observation:
        """Read what these changes concern, and nothing else."""
        return self._cluster.observe_fields(
            {change.planned.ref: concerned(change.planned.change) for change in changes}
        )

    def _read_back(self, which: Callable[[], list[ChangeExecution]]) -> None:
        begun = self._clock.now()
        deadline = begun + VERIFY_TIMEOUT_S
        while waiting := which():
            self._observer.verifying(len(waiting))
            try:
                observation = self._observe(waiting)
                misplaced = self._reassigner.misplaced([o for change in waiting for o in change.open_moves])
            except ClusterError as error:
                for change in waiting:
                    change.unreadable(error)
            else:
                for change in waiting:
                    moved = change.planned.ref not in misplaced
                    change.read_back(observation, in_place=moved)
                    if change.result is None and not moved and self._interrupted:
                        change.give_up()  # nobody waits any more
            left = len(which())
            if left < len(waiting):
                deadline = self._clock.now() + VERIFY_TIMEOUT_S
            elif self._clock.now() >= deadline:
                return
            if left:
                # A fifth of what was waited so far: so much later than it could be, at most, it ends.
                waited = self._clock.now() - begun
                self._clock.sleep(min(max(waited / 5, LEAST_PAUSE_S), LONGEST_PAUSE_S))


_ANSWERS = (RequestRejected, NotOffered, PermissionDenied, MovesUnfinished)


def _end(outcomes: Sequence[ClusterError | None]) -> ClusterError | None:
    """Why nothing more is to be sent after these answers, if so."""
    for outcome in outcomes:
        if isinstance(outcome, LockLost):
            return outcome
    # Whoever refuses is there; but if nothing comes back at all, there is no use in sending more.
    answered = any(o is None or isinstance(o, _ANSWERS) for o in outcomes)
    return None if answered else outcomes[0]
