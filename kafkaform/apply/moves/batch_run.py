"""One batch on its way: started, watched until all of it is in sync, or cancelled.

A batch that does not move any more is noticed, and the reason looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.batches import MoveStatus, named, status_of
from kafkaform.apply.moves.context import PATIENCE_S
from kafkaform.core.errors import (
    AuthenticationFailed,
    ClusterError,
    LockLost,
    MovesUnfinished,
    NotOffered,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.units import format_size
from kafkaform.core.wording import listed

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )

    from kafkaform.apply.moves.batches import PartitionMove
    from kafkaform.apply.moves.context import MoveContext
    from kafkaform.core.layout import Layout, PartitionState, Replicas, TopicPartition


GRACE_S = 15.0
"""The time that a reading may lag behind what the controller has done: a broker shows a change once the
record of it in the controller's log has reached the broker."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 1.0
READING_SHARE = 10
"""Between two readings, at least so many times as long as one takes: large clusters are read less often."""
RAREST_S = 10.0

NEW_PLAN = "make a new plan, and review it"
_REFUSED = (RequestRejected, NotOffered, PermissionDenied, AuthenticationFailed)


class BatchRun:
    """One batch.

    Args:
        context: What every step goes by.
        moves: The batch.
        report: Is told of what is unfinished, of the bytes of replicas, and why nothing moves (or nothing).
        ours: Partitions that an earlier apply was moving, as the record says.

    Attributes:
        done: The partitions that are where they are to be.
        failed: Those that will not get there, and why.
    """

    def __init__(
        self,
        context: MoveContext,
        moves: Sequence[PartitionMove],
        report: Callable[[Sequence[PartitionMove], Mapping[tuple[str, int, int], int], str], None],
        ours: Collection[TopicPartition] = (),
    ) -> None:
        self._context = context
        self._moves = moves
        self._topics = {move.ref.name for move in moves}
        self._report = report
        self._clock = context.clock
        self._ours = {*ours}
        self._started: set[TopicPartition] = set()
        self._as_expected: dict[TopicPartition, float] = {}
        self._unanswered: float | None = None
        self._sizes: dict[tuple[str, int, int], int] = {}
        self.done: set[TopicPartition] = set()
        self.failed: dict[TopicPartition, ClusterError] = {}

    def carry_out(self) -> None:
        """Start what is not running, and wait until nothing is left that could get there.

        Raises:
            ClusterError: It cannot go on; some of it may be running.
            Stopped: The same, as somebody wants it.
        """
        watch = StallDetector(self._clock.now())
        pause = FIRST_PAUSE_S
        while True:
            began = self._clock.now()
            layout = self._context.layout(self._topics)
            took = self._clock.now() - began
            ready = self._look(layout)
            self._context.check()
            # In each round: what got no answer is asked for again, unless the layout shows that it runs.
            self._start(ready)
            unfinished = self._unfinished()
            if down := brokers_down(unfinished, layout):
                self._context.remind("down", f"waiting: {down}")
            began = self._clock.now()
            self._measure(unfinished)
            took += self._clock.now() - began  # without the start of moves, which happens once
            throttle = self._context.options.throttle
            watch.look(self._clock.now(), unfinished, layout, self._sizes, throttle)
            self._report(unfinished, self._sizes, watch.reason)
            if not unfinished:
                return
            # Often at first, as small batches arrive within a second; seldom where a reading takes long.
            self._context.pause(max(pause, min(took * READING_SHARE, RAREST_S)))
            pause = min(pause * 2, LONGEST_PAUSE_S)

    def cancel(self) -> None:
        """Cancel what applies have started: replicas that are not in sync are dropped again.

        What somebody else moves to the very same place goes on.

        Raises:
            ClusterError: Some of it may go on.
        """
        if not self._unfinished():
            return
        layout = self._context.retry_after_stop(self._read)
        self._look(layout)
        running = [move for move in self._unfinished() if status_of(move, layout) is MoveStatus.RUNNING]
        ours = [move for move in running if move.key in self._ours]
        if len(ours) < len(running):
            others = listed([named(move.key) for move in running if move.key not in self._ours])
            self._context.tell(f"not started by an apply, so it goes on: the reassignment of {others}")
        if not ours:
            return
        self._context.retry_after_stop(lambda: self._ask({move.key: None for move in ours}))
        # A cancelled partition has the replicas of before, in the order of the target: asked for once more,
        # they get their old order, which copies nothing.
        reordered = {move.key: move.before for move in ours if _loses_order(move)}
        if reordered:
            self._context.retry_after_stop(lambda: self._ask(reordered))
        layout = self._context.retry_after_stop(self._read)
        # A broker may still show the target of what was cancelled: what has arrived is in sync, too.
        self.done |= {move.key for move in self._unfinished() if has_arrived(move, layout)}

    def _read(self) -> Layout:
        return self._context.cluster.layout(self._topics)

    def _unfinished(self) -> list[PartitionMove]:
        return [move for move in self._moves if move.key not in self.done and move.key not in self.failed]

    def _look(self, layout: Layout) -> list[PartitionMove]:
        """Take a reading in; returns what is to be started."""
        ready = []
        for move in self._unfinished():
            match status_of(move, layout):
                case MoveStatus.DONE:
                    self.done.add(move.key)
                case MoveStatus.RUNNING:
                    self._started.add(move.key)
                    self._as_expected[move.key] = self._clock.now()
                case MoveStatus.READY if move.key not in self._started:
                    ready.append(move)
                case MoveStatus.READY:
                    self._unexpected(move, "somebody cancelled its reassignment")
                case MoveStatus.STRAY:
                    live = ":".join(map(str, layout.topics[move.ref.name][move.partition].replicas))
                    self._unexpected(move, f"somebody moved it: it is on {live} now")
                case MoveStatus.ELSEWHERE:
                    running = (layout.reassigning or {})[move.key]
                    self._fail(move, f"somebody else is moving it {running}")
                case MoveStatus.GONE:
                    self._unexpected(move, "it no longer exists")
        return ready

    def _unexpected(self, move: PartitionMove, why: str) -> None:
        """Give up a partition that stays other than it should be.

        Not at once: the replicas and the running reassignments come from two requests, between which one may
        have ended, and brokers show a change later than the controller has made it.
        """
        if self._clock.now() - self._as_expected.setdefault(move.key, self._clock.now()) >= GRACE_S:
            self._fail(move, why)

    def _fail(self, move: PartitionMove, why: str) -> None:
        self.failed[move.key] = MovesUnfinished(f"partition {move.partition}: {why}", hint=NEW_PLAN)

    def _start(self, ready: Sequence[PartitionMove]) -> None:
        if not ready:
            return
        targets = {move.key: move.after for move in ready}
        self._ours |= targets.keys()  # also those of which no answer comes
        answers: Mapping[TopicPartition, ClusterError | None]
        try:
            answers = self._context.cluster.reassign(targets, self._context.guard)
        except LockLost:
            raise
        except ClusterError as error:
            answers = dict.fromkeys(targets, error)
        unknown = None
        for move in ready:
            answer = answers[move.key]
            if isinstance(answer, LockLost):
                raise answer
            if answer is None:
                self._started.add(move.key)
                self._as_expected[move.key] = self._clock.now()
            elif isinstance(answer, _REFUSED):
                message = f"partition {move.partition}: {answer.message}"
                self.failed[move.key] = MovesUnfinished(message, hint=answer.hint)
            else:
                unknown = answer  # the next reading tells whether it was started
        self._wait_for_answers(unknown)

    def _wait_for_answers(self, unknown: ClusterError | None) -> None:
        """Bear with a cluster that does not answer, for PATIENCE_S."""
        if unknown is None:
            self._unanswered = None
            return
        self._unanswered = self._clock.now() if self._unanswered is None else self._unanswered
        if self._clock.now() - self._unanswered >= PATIENCE_S:
            raise unknown
        self._context.remind("cluster", f"the cluster does not answer, trying again: {unknown.message}")

    def _measure(self, unfinished: Sequence[PartitionMove]) -> None:
        """Read how much is copied; brokers that do not tell are as they were before."""
        keys = [move.key for move in unfinished if move.adding]
        if not keys:
            return
        try:
            self._sizes |= self._context.cluster.replica_sizes(keys)
        except ClusterError as error:
            self._context.remind("sizes", f"how much is copied is not known: {error.message}")

    def _ask(self, targets: Mapping[TopicPartition, Replicas | None]) -> None:
        for answer in self._context.cluster.reassign(targets, self._context.guard).values():
            # It may have ended since the reading, or with a request before this one whose answer was lost.
            over = isinstance(answer, RequestRejected) and answer.code == "NO_REASSIGNMENT_IN_PROGRESS"
            if answer is not None and not over:
                raise answer


def has_arrived(move: PartitionMove, layout: Layout) -> bool:
    """Return whether a partition is where it is to be, and in sync there."""
    if status_of(move, layout) is not MoveStatus.DONE:
        return False
    return {*move.after} <= {*layout.topics[move.ref.name][move.partition].isr}


def _loses_order(move: PartitionMove) -> bool:
    """Return whether a partition has its old replicas in another order once its move is cancelled.

    Kafka leaves them in the order of the target, those that were to be removed last: 1:2 on its way to 2:3
    ends as 2:1, with a different preferred leader.
    """
    kept = [broker for broker in move.after if broker in move.before]
    reverted = (*kept, *(broker for broker in move.before if broker not in move.after))
    return reverted != move.before and move.holding == {*move.before}


STALL_S = 60.0
"""The time in which nothing comes nearer to its end, after which that is said."""


class StallDetector:
    """Watches one batch.

    Nearer means: more partitions done, more replicas in sync, or fewer bytes still to be copied. Bytes that
    are copied do not count by themselves, as producers may write as many meanwhile.

    Args:
        now: The time in seconds.

    Attributes:
        reason: Why nothing moves; empty as long as something does.
    """

    def __init__(self, now: float) -> None:
        self._since = now
        self._best: tuple[int, int, int] | None = None
        self._copied_then = 0
        self.reason = ""

    def look(
        self,
        now: float,
        unfinished: Sequence[PartitionMove],
        layout: Layout,
        sizes: Mapping[tuple[str, int, int], int],
        throttle: int | None,
    ) -> None:
        """Take a reading in, and note the reason if nothing has moved for STALL_S.

        Args:
            now: The time in seconds.
            unfinished: What is not where it is to be.
            layout: The cluster.
            sizes: The bytes of replicas.
            throttle: The bytes per second of a broker; None: no limit.
        """
        seen = [move for move in unfinished if _state(move, layout) is not None]
        in_sync = sum(len(move.adding & {*_in_sync(move, layout)}) for move in seen)
        reading = (len(unfinished), -in_sync, remaining(unfinished, sizes))
        if self._best is None or reading < self._best:
            self._best, self._since, self.reason = reading, now, ""
            self._copied_then = copied(unfinished, sizes)
        elif now - self._since >= STALL_S:
            grown = copied(unfinished, sizes) - self._copied_then
            self.reason = reason(seen, layout, grown if sizes else None, throttle)


def copied(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """The bytes that are on the brokers that partitions are copied to."""
    return sum(sizes.get((*move.key, broker), 0) for move in moves for broker in move.adding)


def remaining(moves: Sequence[PartitionMove], sizes: Mapping[tuple[str, int, int], int]) -> int:
    """The bytes that are still to be copied, as far as sizes are known."""
    total = 0
    for move in moves:
        whole = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)
        total += sum(max(0, whole - sizes.get((*move.key, broker), 0)) for broker in move.adding)
    return total


def reason(
    unfinished: Sequence[PartitionMove], layout: Layout, grown: int | None, throttle: int | None
) -> str:
    """Return why moves are stalled, as far as it can be told.

    Args:
        unfinished: What is not where it is to be.
        layout: The cluster.
        grown: The bytes that were copied all the same; None where nobody tells.
        throttle: The bytes per second of a broker; None: no limit.
    """
    if down := brokers_down(unfinished, layout):
        return down
    offline = [named(m.key) for m in unfinished if (s := _state(m, layout)) is not None and s.leader is None]
    if offline:
        return f"{listed(offline)} without a leader to copy from: start the brokers that hold it"
    if grown is None:
        return ""  # without sizes, a long copy looks the same
    if grown > 0 and throttle is not None:
        rate = f"{format_size(throttle)}/s"
        return f"records are written as fast as the throttle of {rate} lets them be copied: raise --throttle"
    names = listed([named(move.key) for move in unfinished])
    return f"{names}: all brokers are up; the logs of those that it is copied to may tell why"


def brokers_down(unfinished: Sequence[PartitionMove], layout: Layout) -> str:
    """Name the brokers that are down and that partitions are to be on; empty if there are none."""
    alive = {broker.id for broker in layout.brokers}
    down = sorted({broker for move in unfinished for broker in move.after} - alive)
    if not down:
        return ""
    word = "broker" if len(down) == 1 else "brokers"
    waiting = [named(move.key) for move in unfinished if not alive.issuperset(move.after)]
    ids, be = ", ".join(map(str, down)), "is" if len(waiting) == 1 else "are"
    return f"{word} {ids} down, which {listed(waiting)} {be} to be on: start it again"


def _state(move: PartitionMove, layout: Layout) -> PartitionState | None:
    states = layout.topics.get(move.ref.name, ())
    return states[move.partition] if move.partition < len(states) else None


def _in_sync(move: PartitionMove, layout: Layout) -> Replicas:
    state = _state(move, layout)
    return () if state is None else state.isr
