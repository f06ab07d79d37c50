"""Carrying reassignments out: batch by batch, throttled, each watched until it is in sync.

`Reassigner.run` has the steps. Whatever ends it early, what is under way is cancelled and throttles are taken
off; partitions that have arrived stay. Only after the lock of the cluster is lost is nothing more sent at
all: what runs then goes on by itself, and the next apply finds the throttles in the record.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.apply.moves.batch_run import GRACE_S, NEW_PLAN, BatchRun, has_arrived
from kafkaform.apply.moves.batches import MoveStatus, cut, moves_of, named, status_of
from kafkaform.apply.moves.context import MoveContext, Stopped
from kafkaform.apply.moves.throttles import ThrottleManager, described
from kafkaform.apply.moves.waiting import POLL_S, wait_in_sync, wait_until_clear
from kafkaform.core.apply_result import AGAIN
from kafkaform.core.disk_space import DISK_REMEDY, Copies, DiskSpace, find_shortages
from kafkaform.core.errors import ClusterError, LockLost, MovesUnfinished, PermissionDenied
from kafkaform.core.moves import MoveProgress
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.apply.moves.batches import Batch, PartitionMove
    from kafkaform.core.layout import Layout, Replicas, TopicPartition
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.operations import Reassign

_UNPLANNED = (MoveStatus.STRAY, MoveStatus.GONE)
_TO_BEGIN = (MoveStatus.READY, *_UNPLANNED)


@dataclass(frozen=True, slots=True)
class ReassignmentReport:
    """The results of reassignments.

    Attributes:
        outcomes: For each topic None where all of it is in place, or why not; those that were not begun, as
            somebody stopped it, are left out.
        interrupted: Whether somebody stopped it.
    """

    outcomes: Mapping[ResourceRef, ClusterError | None] = field(default_factory=dict)
    interrupted: bool = False


class Reassigner:
    """Moves replicas for one apply.

    Args:
        context: What every step goes by.
    """

    def __init__(self, context: MoveContext) -> None:
        self._context = context
        self._throttles = ThrottleManager(context)
        self._targets: dict[TopicPartition, Replicas] = {}
        self._moves: dict[TopicPartition, PartitionMove] = {}
        self._begun: set[ResourceRef] = set()
        self._done: set[TopicPartition] = set()
        self._bytes_done = self._bytes_total = 0
        self._failed: dict[ResourceRef, ClusterError] = {}
        self._lost: LockLost | None = None
        self._goes_on = False

    def run(self, work: Sequence[Reassign]) -> ReassignmentReport:
        """Move replicas; whatever ends it early, what is under way is brought to an end."""
        self._targets = {
            (operation.ref.name, partition): replicas
            for operation in work
            for partition, replicas in operation.after.items()
        }
        self._context.begin()
        interrupted = False
        ending: ClusterError | None = None
        try:
            self._run(work)
        except (Stopped, KeyboardInterrupt):
            interrupted = True
        except ClusterError as error:
            ending = error
        return self._report(work, self._lost or ending, interrupted=interrupted)

    def misplaced(self, work: Sequence[Reassign]) -> set[ResourceRef]:
        """The topics of reassignments that have replicas which are not where they are to be, or not in sync.

        Right after a cancellation, brokers can still name the replicas that were to be added, while the
        controller knows of no reassignment any more: the same as one that is over. But what was not filled is
        not in sync.

        Raises:
            ClusterError: The cluster does not tell.
        """
        if not work:
            return set()
        layout = self._context.cluster.layout({operation.ref.name for operation in work})
        return {move.ref for move in moves_of(work, layout, {}) if not has_arrived(move, layout)}

    def _run(self, work: Sequence[Reassign]) -> None:
        # 1. Clear throttles that dead applies have left. The record is read first: without it, what they set
        #    would be taken for somebody else's and kept, and what they started would never be cancelled.
        self._clear_leftovers(read=True)
        # 2. Wait until nobody else moves replicas and all of them are in sync. A second target may never be
        #    reached: Kafka 4.3.1 waits for a broker that it both adds and removes.
        layout = wait_until_clear(self._context, self._targets, self._done)
        # 3. Compare with the plan; leave topics alone that have changed since.
        self._moves = {move.key: move for move in moves_of(work, layout, self._sizes())}
        layout = self._without_strays(layout)
        # 4. Cut into batches; what a dead apply has started is the first one, as it runs already.
        batches = self._batches(layout)
        for number, batch in enumerate(batches, 1):
            self._context.check()
            moves = tuple(move for move in batch if move.ref not in self._failed)
            if moves:
                # 5. Wait again, look at the disks, throttle, start, wait until all is in sync, take the
                #    throttles off.
                self._carry_out(moves, number, len(batches))
        # 6. Let preferred replicas lead: a leader that keeps its replica keeps the lead, too.
        self._elect()
        # 7. Clear what dead applies had set for partitions that were still being moved at the beginning.
        self._clear_leftovers()

    def _carry_out(self, moves: Batch, number: int, batches: int) -> None:
        layout = wait_until_clear(self._context, self._targets, self._done)
        self._check_disks([move for move in moves if status_of(move, layout) is MoveStatus.READY])
        moves = tuple(move for move in moves if move.ref not in self._failed)
        if not moves:
            return
        run = BatchRun(
            self._context,
            moves,
            lambda unfinished, sizes, stalled: self._context.observer.moving(
                self._progress(number, batches, run, unfinished, sizes, stalled)
            ),
            self._throttles.recorded,
        )
        try:
            # First: Kafka holds back only replicas in a topic's lists, on brokers that have a rate (KIP-73).
            self._throttles.throttle(moves, layout)
            self._begun |= {move.ref for move in moves}
            run.carry_out()
        except LockLost as error:
            self._lost = error
            raise
        finally:
            if self._lost is None:
                self._clean_up(run)
            self._done |= run.done
            self._bytes_done += self._bytes(run.done)
            for move in moves:
                if move.key in run.failed:
                    self._failed.setdefault(move.ref, run.failed[move.key])
        if self._lost is not None:
            raise self._lost  # or the next batch would be waited for, in vain

    def _check_disks(self, moves: Sequence[PartitionMove]) -> None:
        """Give up the topics that no longer fit on the disks of a broker: what is free changes by the hour.

        Only what was really freed by earlier batches is free: brokers are asked again before each of them.
        """
        copies: dict[str, dict[int, Copies]] = defaultdict(lambda: defaultdict(Copies))
        refs = {move.ref.name: move.ref for move in moves}
        try:
            sizes = self._context.cluster.replica_sizes([move.key for move in moves if move.copied])
            for move in moves:
                size = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)
                for broker in move.adding if size else ():
                    copies[move.ref.name][broker] += Copies(size, largest=size)
            if not copies:
                return
            log_dirs, unread = self._context.cluster.log_dirs()
        except ClusterError as error:
            self._context.remind("disks", f"whether disks have the space is not known: {error.message}")
            return
        space = DiskSpace.from_reading(log_dirs, unread, self._context.options.disk_reserve)
        for name, why in find_shortages(copies, {}, space).items():
            self._failed.setdefault(refs[name], MovesUnfinished(why, hint=DISK_REMEDY))

    def _clean_up(self, run: BatchRun) -> None:
        """Cancel what is not over, and take throttles off; notes a lost lock, and tells what cannot be done.

        In this order: without a throttle, what is still running would copy at full speed.
        """
        self._goes_on = True  # until it is known that it does not: a second Ctrl-C gives the cancellation up
        try:
            run.cancel()
            self._goes_on = False
        except LockLost as error:
            self._lost = error
            return
        except ClusterError as error:
            self._context.tell(f"the running moves could not be cancelled, and may continue: {error.message}")
        try:
            self._throttles.clear()
        except LockLost as error:
            self._lost = error
        except ClusterError as error:
            self._context.tell(f"the throttles could not be removed: {error.message}")

    def recover(self) -> None:
        """Take off throttles that a dead apply has left, for an apply that moves nothing.

        Raises:
            ClusterError: The cluster cannot be reached.
        """
        if not self._context.throttle_journal.kept:
            return
        try:
            if not self._context.cluster.throttles(()):
                return  # the record, which may be long, need not be read
        except PermissionDenied:
            return  # an account that may not see throttles has set none
        try:
            self._clear_leftovers(read=True)
        except Stopped:
            return  # they stay in the record, for the next apply
        if self._throttles.has_leftovers:
            self._context.tell("throttles of an earlier apply stay on: what they are for is not over")

    def wait_in_sync(self, least: Mapping[ResourceRef, int]) -> ReassignmentReport:
        """Wait until all partitions of topics have so many replicas in sync, as acks=all writes need them.

        Returns:
            As of `run`; None where a topic has them.
        """
        self._context.begin()
        try:
            return ReassignmentReport(wait_in_sync(self._context, least))
        except (Stopped, KeyboardInterrupt):
            return ReassignmentReport(interrupted=True)
        except ClusterError as error:
            return ReassignmentReport(dict.fromkeys(least, error))

    def _clear_leftovers(self, *, read: bool = False) -> None:
        """Take off throttles that dead applies have left and nothing needs any more."""
        if read:
            self._throttles.read_leftovers()
        if self._throttles.has_leftovers:
            self._throttles.clear_leftovers(self._context.layout())

    def _without_strays(self, layout: Layout) -> Layout:
        """Leave topics alone as a whole if only one partition is not where it was when it was planned."""
        until = self._context.clock.now() + GRACE_S
        # Asked again: a broker may show what was there before the change that the plan has seen.
        while strays := [m for m in self._moves.values() if status_of(m, layout) in _UNPLANNED]:
            if self._context.clock.now() >= until:
                for move in strays:
                    why = MovesUnfinished(_unplanned(move, layout), hint=NEW_PLAN)
                    self._failed.setdefault(move.ref, why)
                break
            self._context.pause(POLL_S)
            layout = self._context.layout()
        return layout

    def _sizes(self) -> Mapping[tuple[str, int, int], int]:
        try:
            return self._context.cluster.replica_sizes(list(self._targets))
        except ClusterError as error:
            self._context.tell(f"how much is to be copied is not known: {error.message}")
            return {}

    def _batches(self, layout: Layout) -> list[Batch]:
        """Cut what is to be done into batches; what is running already is the first."""
        statuses = {key: status_of(move, layout) for key, move in self._moves.items()}
        self._done = {key for key, status in statuses.items() if status is MoveStatus.DONE}
        self._bytes_done, self._bytes_total = self._bytes(self._done), self._bytes(self._moves)
        running = [move for key, move in self._moves.items() if statuses[key] is MoveStatus.RUNNING]
        if running:
            partitions = counted(len(running), "partition")
            self._context.tell(f"continuing the moves that are already running: {partitions}")
        rest = [move for key, move in self._moves.items() if statuses[key] in _TO_BEGIN]
        return ([tuple(running)] if running else []) + cut(rest, self._context.options)

    def _progress(
        self,
        batch: int,
        batches: int,
        run: BatchRun,
        unfinished: Sequence[PartitionMove],
        sizes: Mapping[tuple[str, int, int], int],
        stalled: str,
    ) -> MoveProgress:
        copied = self._bytes_done + self._bytes(run.done)
        copied += sum(
            min(sizes.get((*move.key, broker), 0), move.size) for move in unfinished for broker in move.adding
        )
        done, total = len(self._done) + len(run.done), self._bytes_total
        throttle = self._context.options.throttle
        return MoveProgress(batch, batches, done, len(self._moves), copied, total, throttle, stalled)

    def _bytes(self, partitions: Iterable[TopicPartition]) -> int:
        """The bytes that are copied for some of the partitions that are moved."""
        return sum(self._moves[key].copied for key in partitions)

    def _elect(self) -> None:
        """Let preferred replicas lead what was moved, where they can."""
        layout = self._context.layout()
        partitions = []
        for topic, number in sorted(self._done):
            states = layout.topics.get(topic, ())
            if number < len(states):
                state, preferred = states[number], self._targets[topic, number][0]
                # One that has fallen out of sync by now would be refused (PREFERRED_LEADER_NOT_AVAILABLE).
                if state.leader != preferred and preferred in state.isr:
                    partitions.append((topic, number))
        if not partitions:
            return
        try:
            answers = self._context.cluster.elect_leaders(partitions, self._context.guard)
        except LockLost:
            raise
        except ClusterError as error:
            answers = dict.fromkeys(partitions, error)
        failed = {key: error for key, error in answers.items() if error is not None}
        if failed:
            names = listed([named(key) for key in sorted(failed)])
            why = failed[min(failed)].message
            self._context.tell(f"the preferred leader of {names} does not lead yet: {why}")

    def _report(
        self, work: Sequence[Reassign], ending: ClusterError | None, *, interrupted: bool
    ) -> ReassignmentReport:
        """The results, and a line on what is left behind.

        Args:
            work: What was to be moved.
            ending: What ended it early. A loss of the lock counts for more than what it was to end by, as a
                stop or a timeout: nothing was cancelled.
            interrupted: Whether somebody stopped it.
        """
        if still_set := self._throttles.find_left():
            left = described(still_set)
            kept = self._context.throttle_journal.kept
            remedy = "the next apply removes them" if kept else "remove them by hand (kafka-configs)"
            self._context.tell(f"still set: {left}; {remedy}")
        outcomes: dict[ResourceRef, ClusterError | None] = {}
        for operation in work:
            ref = operation.ref
            partitions = {(ref.name, number) for number in operation.after}
            done = len(partitions & self._done)
            failure = self._failed.get(ref, ending)
            if done == len(partitions):
                outcomes[ref] = None
            elif failure is None and not interrupted:
                outcomes[ref] = _half_way(None, done, len(partitions), goes_on=self._goes_on)
            elif ref in self._begun or ref in self._failed:
                outcomes[ref] = _half_way(failure, done, len(partitions), goes_on=self._goes_on)
            elif not interrupted:
                outcomes[ref] = ending
        if ending is not None and outcomes and not any(outcomes.values()):
            self._context.tell(f"all replicas are in place; what follows was given up: {ending.message}")
        return ReassignmentReport(outcomes, interrupted)


def _unplanned(move: PartitionMove, layout: Layout) -> str:
    if status_of(move, layout) is MoveStatus.GONE:
        return f"partition {move.partition} is not there any more"
    live = layout.topics[move.ref.name][move.partition].replicas
    on, saw = (":".join(map(str, replicas)) for replicas in (live, move.before))
    return f"partition {move.partition} is now on {on}; the plan saw {saw}"


def _half_way(why: ClusterError | None, done: int, partitions: int, *, goes_on: bool) -> ClusterError:
    """The error of a topic that was begun; `goes_on` where it could not be cancelled."""
    so_far = f"{done:,} of {counted(partitions, 'partition')} in place"
    error: ClusterError
    if isinstance(why, LockLost):
        error = LockLost(
            f"{why.message}; {so_far}; what is being moved goes on, and stays throttled until the next apply",
            hint=why.hint,
        )
    elif why is None:
        error = MovesUnfinished(f"stopped; {so_far}", hint=AGAIN)
    else:
        error = MovesUnfinished(f"{why.message}; {so_far}", hint=why.hint or AGAIN)
    error.in_part = done > 0 or goes_on or isinstance(why, LockLost)
    return error
