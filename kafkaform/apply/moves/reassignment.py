"""Carrying reassignments out: batch by batch, throttled, each watched until it is in sync.

Whatever ends it early, what is under way is taken back and throttles are taken off; partitions that have
arrived stay. Only after the lock of the cluster is lost is nothing more sent at all: what runs then goes on
by itself, and the next apply finds the throttles in the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.apply.moves.batch_run import GRACE_S, NEW_PLAN, BatchRun
from kafkaform.apply.moves.batches import Whereabouts, cut, moves_of, named, whereabouts
from kafkaform.apply.moves.context import Conduct, Stopped
from kafkaform.apply.moves.throttles import ThrottleKeeper, described
from kafkaform.apply.moves.waiting import POLL_S, clear_layout, wait_in_sync
from kafkaform.core.apply_result import AGAIN
from kafkaform.core.errors import ClusterError, LockLost, MovesUnfinished, PermissionDenied
from kafkaform.core.moves import MoveProgress
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.apply.moves.batches import Batch, PartitionMove
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Layout, Replicas
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.operations import Reassign

_UNPLANNED = (Whereabouts.STRAY, Whereabouts.GONE)
_TO_BEGIN = (Whereabouts.READY, *_UNPLANNED)


@dataclass(frozen=True, slots=True)
class MoveReport:
    """What became of reassignments.

    Attributes:
        outcomes: For each topic None where all of it is in place, or why not; those that were not begun, as
            somebody stopped it, are left out.
        interrupted: Whether somebody stopped it.
    """

    outcomes: Mapping[ResourceRef, ClusterError | None] = field(default_factory=dict)
    interrupted: bool = False


class Mover:
    """Moves replicas for one apply.

    Args:
        conduct: What every step goes by.
    """

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._keeper = ThrottleKeeper(conduct)
        self._targets: dict[TopicPartition, Replicas] = {}
        self._moves: dict[TopicPartition, PartitionMove] = {}
        self._begun: set[ResourceRef] = set()
        self._done: set[TopicPartition] = set()
        self._failed: dict[ResourceRef, ClusterError] = {}
        self._lost: LockLost | None = None
        self._goes_on = False

    def recover(self) -> None:
        """Take off what a dead apply has left, for an apply that moves nothing.

        Raises:
            ClusterError: The cluster cannot be reached.
        """
        if not self._conduct.ledger.kept:
            return
        try:
            if not self._conduct.cluster.throttles(()):
                return  # the record, which may be long, need not be read
        except PermissionDenied:
            return  # an account that may not see throttles has set none
        try:
            self._sweep(recall=True)
        except Stopped:
            return  # they stay in the record, for the next apply
        if self._keeper.recalls:
            self._conduct.tell("throttles of an earlier apply stay on: what they are for is not over")

    def run(self, work: Sequence[Reassign]) -> MoveReport:
        """Move replicas; whatever comes in between, what is under way is brought to an end."""
        self._targets = {(one.ref.name, number): to for one in work for number, to in one.after.items()}
        self._conduct.begin()
        interrupted = False
        ending: ClusterError | None = None
        try:
            self._run(work)
        except (Stopped, KeyboardInterrupt):
            interrupted = True
        except ClusterError as error:
            ending = error
        if self._keeper.ours:
            self._tell_of_left_throttles()
        # What a loss of the lock left running counts for more than what was to end it.
        ending = self._lost or ending
        outcomes = self._outcomes(work, ending, interrupted=interrupted)
        if ending is not None and not any(outcomes.values()):
            self._conduct.tell(
                f"all replicas are in place; what comes after that was given up: {ending.message}"
            )
        return MoveReport(outcomes, interrupted)

    def wait_in_sync(self, least: Mapping[ResourceRef, int]) -> MoveReport:
        """Wait until all partitions of topics have so many replicas in sync, as acks=all writes need them.

        Returns:
            As of `run`; None where a topic has them.
        """
        self._conduct.begin()
        try:
            return MoveReport(wait_in_sync(self._conduct, least))
        except (Stopped, KeyboardInterrupt):
            return MoveReport(interrupted=True)
        except ClusterError as error:
            return MoveReport(dict.fromkeys(least, error))

    def _run(self, work: Sequence[Reassign]) -> None:
        self._sweep(recall=True)
        layout = clear_layout(self._conduct, self._targets, self._done)
        self._moves = {move.key: move for move in moves_of(work, layout, self._sizes())}
        layout = self._without_strays(layout)
        batches = self._batches(layout)
        for number, batch in enumerate(batches, 1):
            self._conduct.check()
            left = tuple(move for move in batch if move.ref not in self._failed)
            if left:
                self._carry_out(left, number, len(batches))
        self._elect()
        self._sweep()

    def _sweep(self, *, recall: bool = False) -> None:
        """Take off what dead applies have left and nothing needs any more."""
        if recall:
            self._keeper.recall()
        if self._keeper.recalls:
            self._keeper.sweep(self._conduct.layout())

    def _without_strays(self, layout: Layout) -> Layout:
        """Leave topics alone as a whole if only one partition is not where it was when it was planned."""
        until = self._conduct.clock.now() + GRACE_S
        while strays := [m for m in self._moves.values() if whereabouts(m, layout) in _UNPLANNED]:
            if self._conduct.clock.now() >= until:
                for move in strays:
                    why = MovesUnfinished(_unplanned(move, layout), hint=NEW_PLAN)
                    self._failed.setdefault(move.ref, why)
                break
            self._conduct.pause(POLL_S)
            layout = self._conduct.layout()
        return layout

    def _sizes(self) -> Mapping[tuple[str, int, int], int]:
        try:
            return self._conduct.cluster.replica_sizes(list(self._targets))
        except ClusterError as error:
            self._conduct.tell(f"how much is to be copied is not known: {error.message}")
            return {}

    def _batches(self, layout: Layout) -> list[Batch]:
        """What is to be done, and what is running already as the first batch."""
        places = {key: whereabouts(move, layout) for key, move in self._moves.items()}
        self._done = {key for key, place in places.items() if place is Whereabouts.DONE}
        running = [move for key, move in self._moves.items() if places[key] is Whereabouts.RUNNING]
        if running:
            partitions = counted(len(running), "partition")
            self._conduct.tell(f"going on with what is running already: {partitions}")
        rest = [m for key, m in self._moves.items() if places[key] in _TO_BEGIN]
        return ([tuple(running)] if running else []) + cut(rest, self._conduct.options)

    def _carry_out(self, moves: Batch, number: int, batches: int) -> None:
        layout = clear_layout(self._conduct, self._targets, self._done)
        run = BatchRun(
            self._conduct,
            moves,
            lambda unfinished, sizes, stalled: self._conduct.observer.moving(
                self._progress(number, batches, run, unfinished, sizes, stalled)
            ),
            self._keeper.recorded,
        )
        try:
            self._keeper.throttle(moves, layout)
            self._begun |= {move.ref for move in moves}
            run.carry_out()
        except LockLost as error:
            self._lost = error
            raise
        finally:
            if self._lost is None:
                self._wind_up(run)
            self._done |= run.done
            for move in moves:
                if move.key in run.failed:
                    self._failed.setdefault(move.ref, run.failed[move.key])
        if self._lost is not None:
            raise self._lost  # or the next batch would be waited for, in vain

    def _wind_up(self, run: BatchRun) -> None:
        """Take back what is not over, and the throttles; note a lost lock, and what cannot be done."""
        try:
            run.take_back()
        except LockLost as error:
            self._lost = error
            return
        except ClusterError as error:
            self._goes_on = True
            self._conduct.tell(f"what is being moved could not be taken back, and may go on: {error.message}")
        try:
            self._keeper.clear()
        except ClusterError as error:
            self._lost = error if isinstance(error, LockLost) else None
            self._conduct.tell(f"the throttles could not be taken off: {error.message}")

    def _tell_of_left_throttles(self) -> None:
        what = described(self._keeper.ours)
        kept = self._conduct.ledger.kept
        end = "the next apply takes them off" if kept else "take them off by hand (kafka-configs)"
        self._conduct.tell(f"still set: {what}; {end}")

    def _progress(
        self,
        batch: int,
        batches: int,
        run: BatchRun,
        unfinished: Sequence[PartitionMove],
        sizes: Mapping[tuple[str, int, int], int],
        stalled: str,
    ) -> MoveProgress:
        done = self._done | run.done
        copied = sum(self._moves[key].copied for key in done)
        copied += sum(
            min(sizes.get((*move.key, broker), 0), move.size) for move in unfinished for broker in move.adding
        )
        total = sum(move.copied for move in self._moves.values())
        throttle = self._conduct.options.throttle
        return MoveProgress(batch, batches, len(done), len(self._moves), copied, total, throttle, stalled)

    def _elect(self) -> None:
        """Let preferred replicas lead what was moved, where they can."""
        layout = self._conduct.layout()
        due = []
        for key in sorted(self._done):
            states = layout.topics.get(key[0], ())
            if key[1] < len(states):
                state, first = states[key[1]], self._targets[key][0]
                if state.leader != first and first in state.isr:
                    due.append(key)
        if not due:
            return
        try:
            answers = self._conduct.cluster.elect_leaders(due, self._conduct.guard)
        except LockLost:
            raise
        except ClusterError as error:
            answers = dict.fromkeys(due, error)
        failed = {key: error for key, error in answers.items() if error is not None}
        if failed:
            names = listed([named(key) for key in sorted(failed)])
            why = failed[min(failed)].message
            self._conduct.tell(f"the preferred leader of {names} does not lead yet: {why}")

    def _outcomes(
        self, work: Sequence[Reassign], ending: ClusterError | None, *, interrupted: bool
    ) -> dict[ResourceRef, ClusterError | None]:
        outcomes: dict[ResourceRef, ClusterError | None] = {}
        for one in work:
            keys = {(one.ref.name, number) for number in one.after}
            done = len(keys & self._done)
            failure = self._failed.get(one.ref, ending)
            if done == len(keys):
                outcomes[one.ref] = None
            elif failure is None and not interrupted:
                outcomes[one.ref] = _half_way(None, done, len(keys), goes_on=self._goes_on)
            elif one.ref in self._begun or one.ref in self._failed:
                outcomes[one.ref] = _half_way(failure, done, len(keys), goes_on=self._goes_on)
            elif not interrupted:
                outcomes[one.ref] = ending
        return outcomes


def _unplanned(move: PartitionMove, layout: Layout) -> str:
    if whereabouts(move, layout) is Whereabouts.GONE:
        return f"partition {move.partition} is not there any more"
    live = layout.topics[move.ref.name][move.partition].replicas
    on, saw = (":".join(map(str, replicas)) for replicas in (live, move.before))
    return f"partition {move.partition} is on {on} by now; the plan saw {saw}"


def _half_way(why: ClusterError | None, done: int, partitions: int, *, goes_on: bool) -> ClusterError:
    """What to say of a topic that was begun; `goes_on` where it could not be taken back."""
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
