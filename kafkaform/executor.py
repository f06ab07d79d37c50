"""Carrying a plan out: what was reviewed and nothing else, and proof that it is so.

Independent resources go on after one fails. Every field is checked against the live cluster first, so a
plan that was half applied can be finished, and one that no longer fits is not forced onto the cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event

from kafkaform.batches import batches
from kafkaform.cluster.protocol import Cluster
from kafkaform.errors import ClusterError, OutcomeUnknown
from kafkaform.kinds import KINDS
from kafkaform.model import (
    AddPartitions,
    AlterConfigs,
    Change,
    CreateTopic,
    DeleteTopic,
    Observation,
    Operation,
    Plan,
    PlannedChange,
    Status,
    Update,
)
from kafkaform.outcome import ApplyReport, ResourceResult, Result
from kafkaform.preconditions import remaining

VERIFY_TIMEOUT_S = 30.0
"""How long reads may lag behind writes before the result counts as not verified."""

STAGES: tuple[type[Operation], ...] = (CreateTopic, AlterConfigs, AddPartitions, DeleteTopic)
"""The order of work: what can be taken back comes before what cannot."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests need not wait."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Observer:
    """Is told of progress; does nothing by itself."""

    def started(self, operations: int) -> None:
        """So many operations are to be carried out."""

    def finished(self, operation: Operation, error: ClusterError | None) -> None:
        """One operation has its outcome."""

    def verifying(self, resources: int) -> None:
        """The operations are over; so many resources are still to be read back as planned."""


def apply(
    plan: Plan,
    cluster: Cluster,
    *,
    observer: Observer | None = None,
    stop: Event | None = None,
    clock: Clock | None = None,
) -> ApplyReport:
    """Carry out the planned changes of a plan, and read the cluster until it shows them.

    Args:
        plan: The plan, for this cluster.
        cluster: The cluster.
        observer: Is told of progress.
        stop: Once set, no further request is sent; the one under way is waited for.
        clock: For tests.

    Raises:
        ClusterError: The cluster cannot be read before anything was changed.
    """
    run = _Run(plan, cluster, observer or Observer(), stop or Event(), clock or Clock())
    run.check()
    run.execute()
    run.verify()
    return run.report()


@dataclass(slots=True)
class _Progress:
    """One change on its way."""

    planned: PlannedChange
    remaining: Change | None = None
    operations: list[Operation] = field(default_factory=list)
    done: list[Operation] = field(default_factory=list)
    errors: list[ClusterError] = field(default_factory=list)
    result: Result | None = None
    message: str = ""
    hint: str | None = None

    def settle(self, result: Result, message: str = "", hint: str | None = None) -> None:
        self.result, self.message, self.hint = result, message, hint


class _Run:
    """One apply; its state is what became of each change so far."""

    def __init__(self, plan: Plan, cluster: Cluster, observer: Observer, stop: Event, clock: Clock) -> None:
        self._cluster = cluster
        self._observer = observer
        self._stop = stop
        self._clock = clock
        self._interrupted = False
        self._work = {planned.ref: _Progress(planned) for planned in plan.changes}

    def check(self) -> None:
        """Compare each change with the live cluster: to do, done already, or no longer fitting."""
        for work in self._work.values():
            match work.planned.status:
                case Status.REFUSED:
                    work.settle(Result.REFUSED, work.planned.reason or "", work.planned.remedy)
                case Status.NEEDS_CONSENT:
                    work.settle(Result.NEEDS_CONSENT, work.planned.reason or "")
        due = self._open()
        if not due:
            return
        observation = self._cluster.observe([work.planned.ref for work in due])
        for work in due:
            left = remaining(work.planned.change, observation)
            if isinstance(left, str):
                hint = "make a new plan"
                work.settle(Result.MOVED, left, hint)
            elif left is None:
                work.settle(Result.ALREADY)
            else:
                work.remaining = left
                work.operations = list(KINDS[work.planned.ref.kind].operations(left))

    def execute(self) -> None:
        """Send the operations, stage by stage and batch by batch."""
        self._observer.started(sum(len(work.operations) for work in self._open()))
        for stage in STAGES:
            operations = [
                operation
                for work in self._open()
                if not work.errors
                for operation in work.operations
                if isinstance(operation, stage)
            ]
            for batch in batches(operations):
                if self._stop.is_set():
                    self._interrupted = True
                    return
                if not self._send(batch):
                    return

    def verify(self) -> None:
        """Read back what was carried out, until it shows or the time is up."""
        for work in self._open():
            if not work.done and not work.errors:
                work.settle(Result.NOT_TRIED, "stopped before its turn")
            elif not work.done and not any(isinstance(e, OutcomeUnknown) for e in work.errors):
                self._fail(work)
        deadline = self._clock.now() + VERIFY_TIMEOUT_S
        pause = 0.05
        while waiting := self._open():
            self._observer.verifying(len(waiting))
            self._read_back(waiting)
            if not self._open() or self._clock.now() >= deadline:
                break
            self._clock.sleep(pause)
            pause = min(pause * 2, 1.0)
        for work in self._open():
            self._fail(work)

    def report(self) -> ApplyReport:
        """What became of everything."""
        return ApplyReport(
            tuple(
                ResourceResult(
                    work.planned, work.result or Result.NOT_TRIED, work.message, work.hint, tuple(work.done)
                )
                for work in self._work.values()
            ),
            self._interrupted,
        )

    def _open(self) -> list[_Progress]:
        return [work for work in self._work.values() if work.result is None]

    def _send(self, batch: Sequence[Operation]) -> bool:
        """Send one batch; False if there is no use in sending another."""
        try:
            outcomes = self._cluster.execute(batch)
        except ClusterError as error:
            outcomes = [error] * len(batch)
        except KeyboardInterrupt:
            outcomes = [OutcomeUnknown("given up while waiting for the answer")] * len(batch)
            self._interrupted = True
        for operation, error in zip(batch, outcomes, strict=True):
            work = self._work[operation.ref]
            if error is None:
                work.done.append(operation)
            else:
                work.errors.append(error)
            self._observer.finished(operation, error)
        lost = all(isinstance(error, OutcomeUnknown) for error in outcomes)
        return not lost and not self._interrupted

    def _read_back(self, waiting: Iterable[_Progress]) -> None:
        try:
            observation = self._cluster.observe([work.planned.ref for work in waiting])
        except ClusterError as error:
            for work in waiting:
                work.message = f"not verified: {error.message}"
            return
        for work in waiting:
            left = remaining(work.planned.change, observation)
            if left is None:
                work.settle(Result.APPLIED)
            elif work.errors and not any(isinstance(e, OutcomeUnknown) for e in work.errors):
                if self._shows(work, observation):
                    self._fail(work)
            else:
                work.message = "not verified: the cluster does not show it yet"

    def _shows(self, work: _Progress, observation: Observation) -> bool:
        """Whether the reading already shows the part of a half-failed change that did go through."""
        left = remaining(work.planned.change, observation)
        if not isinstance(left, Update):
            return True
        still = KINDS[work.planned.ref.kind].operations(left)
        return not any(type(operation) is type(done) for operation in still for done in work.done)

    def _fail(self, work: _Progress) -> None:
        if work.errors:
            error = work.errors[0]
            work.settle(Result.FAILED, error.message, error.hint)
        else:
            work.settle(Result.FAILED, work.message or "not verified", "run kafkaform plan to see where it stands")
