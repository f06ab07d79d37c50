"""The execution of one batch: start it, wait until it is in sync, or cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.batches import MoveStatus, PartitionMove, format_partition, has_arrived, status_of
from kafkaform.apply.moves.context import FINAL, PATIENCE_S, MoveContext
from kafkaform.apply.moves.obstacles import StallDetector, describe_down_brokers
from kafkaform.core.errors import ClusterError, LockLost, MovesUnfinished, RequestRejected
from kafkaform.core.wording import listed
from kafkaform.plan.preconditions import NEW_PLAN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from kafkaform.core.partitions import Replicas, TopicPartition
    from kafkaform.resources.replicas.layout import Layout


# A broker shows a change once it has read its record from the controller's log.
GRACE_S = 15.0
"""The seconds that a reading may lag behind the controller."""
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 1.0
READING_SHARE = 10
"""The least pause between readings, as a multiple of their duration: large clusters are read less often."""
RAREST_S = 10.0


class BatchRun:
    """The execution of one batch.

    Args:
        context: The context of every step.
        ours: Partitions that earlier applies were moving, from the record.

    Attributes:
        done: The partitions at their target.
        failed: The error by partition that will not reach its target.
    """

    def __init__(
        self, context: MoveContext, moves: Sequence[PartitionMove], ours: Collection[TopicPartition] = ()
    ) -> None:
        self._context = context
        self._moves = moves
        self._topics = {move.ref.name for move in moves}
        self._clock = context.clock
        self._ours = {*ours}
        self._started: set[TopicPartition] = set()
        self._as_expected: dict[TopicPartition, float] = {}
        self._unanswered: float | None = None
        self._sizes: dict[tuple[str, int, int], int] = {}
        self.done: set[TopicPartition] = set()
        self.failed: dict[TopicPartition, ClusterError] = {}

    def carry_out(self) -> Iterator[tuple[Sequence[PartitionMove], Mapping[tuple[str, int, int], int], str]]:
        """Start the moves that are not running, and wait until each is done or has failed.

        Yields:
            The unfinished moves, the bytes of replicas, and the reason of a stall (or "").

        Raises:
            ClusterError: It cannot continue; some moves may be running.
            Stopped: A stop was requested; some moves may be running.
        """
        watch = StallDetector(self._clock.now())
        pause = FIRST_PAUSE_S
        while True:
            began = self._clock.now()
            layout = self._context.layout(self._topics)
            took = self._clock.now() - began
            ready = self._update(layout)
            # Before new moves are started: a stop that was requested during the reading leaves fewer to
            # cancel.
            self._context.check()
            # In each round: requests without an answer are repeated, unless the layout shows that they run.
            self._start(ready)
            unfinished = self._list_unfinished()
            if down := describe_down_brokers(unfinished, layout):
                self._context.remind("down", f"waiting: {down}")
            began = self._clock.now()
            self._measure(unfinished)
            took += self._clock.now() - began  # without the start of moves, which happens once
            throttle = self._context.options.throttle
            watch.look(self._clock.now(), unfinished, layout, self._sizes, throttle)
            yield unfinished, self._sizes, watch.reason
            if not unfinished:
                return
            # Often at first, as small batches take less than a second; seldom if a reading takes long.
            self._context.pause(max(pause, min(took * READING_SHARE, RAREST_S)))
            pause = min(pause * 2, MAX_PAUSE_S)

    def cancel(self) -> None:
        """Cancel moves that applies have started: replicas that are not in sync are removed again.

        A reassignment to the same target that was not started by an apply continues.

        Raises:
            ClusterError: Some moves may continue.
        """
        if not self._list_unfinished():
            return
        # Read again: some of the moves may have ended since the last reading, and are not cancelled.
        layout = self._context.retry_after_stop(self._read)
        self._update(layout)
        running = [move for move in self._list_unfinished() if status_of(move, layout) is MoveStatus.RUNNING]
        ours = [move for move in running if move.key in self._ours]
        if len(ours) < len(running):
            foreign = listed([format_partition(move.key) for move in running if move.key not in self._ours])
            # Whoever started it may be waiting for it, and its target is the same.
            self._context.tell(f"not cancelled, as no apply started it: the reassignment of {foreign}")
        if not ours:
            return
        self._context.retry_after_stop(lambda: self._send_request({move.key: None for move in ours}))
        # A cancelled partition has its old replicas in the order of the target. Another reassignment
        # restores the old order and copies nothing.
        reordered = {move.key: move.before for move in ours if _loses_order(move)}
        if reordered:
            self._context.retry_after_stop(lambda: self._send_request(reordered))
        layout = self._context.retry_after_stop(self._read)
        # A broker may still show the target of a cancelled move; only a move that is in sync is done.
        self.done |= {move.key for move in self._list_unfinished() if has_arrived(move, layout)}

    def _read(self) -> Layout:
        return self._context.cluster.layout(self._topics)

    def _list_unfinished(self) -> list[PartitionMove]:
        return [move for move in self._moves if move.key not in self.done and move.key not in self.failed]

    def _update(self, layout: Layout) -> list[PartitionMove]:
        """Update the state from a reading; return the moves to start."""
        ready = []
        for move in self._list_unfinished():
            match status_of(move, layout):
                case MoveStatus.DONE:
                    self.done.add(move.key)
                case MoveStatus.RUNNING:
                    self._started.add(move.key)
                    self._as_expected[move.key] = self._clock.now()
                case MoveStatus.READY if move.key not in self._started:
                    ready.append(move)
                case MoveStatus.READY:
                    self._note_unexpected(move, "another client cancelled its reassignment")
                case MoveStatus.STRAY:
                    live = ":".join(map(str, layout.topics[move.ref.name][move.partition].replicas))
                    self._note_unexpected(move, f"another client moved it: it is on {live} now")
                case MoveStatus.ELSEWHERE:
                    running = (layout.reassigning or {})[move.key]
                    self._fail(move, f"another client is moving it {running}")
                case MoveStatus.GONE:
                    self._note_unexpected(move, "it no longer exists")
        return ready

    def _note_unexpected(self, move: PartitionMove, why: str) -> None:
        """Fail a partition that stays in an unexpected state for GRACE_S.

        Replicas and running reassignments come from two requests, between which a reassignment may end, and
        brokers show a change later than the controller makes it.
        """
        if self._clock.now() - self._as_expected.setdefault(move.key, self._clock.now()) >= GRACE_S:
            self._fail(move, why)

    def _fail(self, move: PartitionMove, why: str) -> None:
        self.failed[move.key] = MovesUnfinished(f"partition {move.partition}: {why}", hint=NEW_PLAN)

    def _start(self, ready: Sequence[PartitionMove]) -> None:
        if not ready:
            return
        targets = {move.key: move.after for move in ready}
        self._ours |= targets.keys()  # also those without an answer
        responses: Mapping[TopicPartition, ClusterError | None]
        try:
            responses = self._context.cluster.reassign(targets, self._context.guard)
        except LockLost:
            raise
        except ClusterError as error:
            responses = dict.fromkeys(targets, error)
        unknown = None
        for move in ready:
            response = responses[move.key]
            if isinstance(response, LockLost):
                raise response
            if response is None:
                self._started.add(move.key)
                self._as_expected[move.key] = self._clock.now()
            elif isinstance(response, FINAL):
                message = f"partition {move.partition}: {response.message}"
                self.failed[move.key] = MovesUnfinished(message, hint=response.hint)
            else:
                unknown = response  # the next reading shows whether it was started
        self._wait_for_responses(unknown)

    def _wait_for_responses(self, unknown: ClusterError | None) -> None:
        """Tolerate a cluster that does not answer, for PATIENCE_S."""
        if unknown is None:
            self._unanswered = None
            return
        self._unanswered = self._clock.now() if self._unanswered is None else self._unanswered
        if self._clock.now() - self._unanswered >= PATIENCE_S:
            raise unknown
        self._context.remind("cluster", f"the cluster does not answer, trying again: {unknown.message}")

    def _measure(self, unfinished: Sequence[PartitionMove]) -> None:
        """Read the bytes copied so far; brokers without an answer keep their last sizes."""
        keys = [move.key for move in unfinished if move.adding]
        if not keys:
            return
        # Only for the progress bar and the detection of stalls: a move does not fail for want of sizes.
        try:
            self._sizes |= self._context.cluster.replica_sizes(keys)
        except ClusterError as error:
            self._context.remind("sizes", f"cannot read how much is copied: {error.message}")

    def _send_request(self, targets: Mapping[TopicPartition, Replicas | None]) -> None:
        for response in self._context.cluster.reassign(targets, self._context.guard).values():
            # It may have ended since the reading, or by an earlier request whose answer was lost.
            over = isinstance(response, RequestRejected) and response.code == "NO_REASSIGNMENT_IN_PROGRESS"
            if response is not None and not over:
                raise response


def _loses_order(move: PartitionMove) -> bool:
    """Return whether cancelling a move leaves the old replicas in another order.

    Kafka keeps the order of the target, with replicas to be removed last: cancelling 1:2 -> 2:3 gives 2:1,
    with a different preferred leader.
    """
    kept = [broker for broker in move.after if broker in move.before]
    reverted = (*kept, *(broker for broker in move.before if broker not in move.after))
    return reverted != move.before and move.holding == {*move.before}
