"""The execution of reassignments: in batches, throttled, each watched until it is in sync.

`Reassigner._run` names the steps. If it ends early, running moves are cancelled and throttles are removed;
partitions that have arrived stay. Only after the lock of the cluster is lost nothing more is sent: running
moves continue by themselves, and the next apply finds the throttles in the record.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.apply.moves.batch_run import GRACE_S, BatchRun
from kafkaform.apply.moves.batches import (
    MoveStatus,
    cut_batches,
    find_foreign,
    format_partition,
    has_arrived,
    list_moves,
    status_of,
)
from kafkaform.apply.moves.context import MoveContext, Stopped
from kafkaform.apply.moves.obstacles import describe_problems, find_in_sync_shortage, find_unhealthy
from kafkaform.apply.moves.throttles import ThrottleManager, describe_throttles
from kafkaform.core.apply_result import RETRY_HINT
from kafkaform.core.errors import ClusterError, LockLost, MovesUnfinished, PermissionDenied
from kafkaform.core.rights import WATCHING, explain_missing_rights
from kafkaform.core.values import Value, field
from kafkaform.core.wording import counted, listed
from kafkaform.plan.preconditions import NEW_PLAN
from kafkaform.resources.replicas.disk_space import DISK_REMEDY, Copies, DiskSpace, find_shortages
from kafkaform.resources.replicas.moves import MoveProgress, WhenBusy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.apply.moves.batches import Batch, PartitionMove
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.partitions import Replicas, TopicPartition
    from kafkaform.resources.replicas.layout import Layout
    from kafkaform.resources.replicas.operations import Reassign

HEALTH_WAIT_S = 300.0
"""The seconds to wait for replicas to be in sync again, which an apply can do nothing about."""
POLL_S = 1.0
_UNPLANNED = (MoveStatus.STRAY, MoveStatus.GONE)
_TO_BEGIN = (MoveStatus.READY, *_UNPLANNED)


class ReassignmentReport(Value):
    """The results of reassignments.

    Attributes:
        outcomes: For each topic None if all of it is in place, or the error; topics that were not begun
            before an interruption are left out.
        interrupted: Whether the user stopped it.
    """

    outcomes: Mapping[ResourceRef, ClusterError | None] = field(default_factory=dict)
    interrupted: bool = False


class Reassigner:
    """The mover of replicas for one apply.

    Args:
        context: The context of every step.
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
        """Move replicas; if it ends early, cancel running moves and remove throttles."""
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
        # Not raised again: the report names what is in place and what is not, whatever ended the run.
        except (Stopped, KeyboardInterrupt):
            interrupted = True
        except ClusterError as error:
            ending = error
        return self._report(work, self._lost or ending, interrupted=interrupted)

    def find_misplaced(self, work: Sequence[Reassign]) -> set[ResourceRef]:
        """Return the topics of reassignments with replicas that are not at their target or not in sync.

        Right after a cancellation, brokers may still show the target replicas while the controller lists no
        reassignment, as if it were complete. But replicas that were not copied are not in sync.

        Raises:
            ClusterError: The cluster cannot be read.
        """
        if not work:
            return set()
        layout = self._context.cluster.layout({operation.ref.name for operation in work})
        return {move.ref for move in list_moves(work, layout, {}) if not has_arrived(move, layout)}

    def _run(self, work: Sequence[Reassign]) -> None:
        # 1. Clear throttles that killed applies have left. The record is read first: without it, they
        #    would count as foreign and be kept, and their moves would never be cancelled.
        self._clear_leftovers(read=True)
        # 2. Wait until no other process moves replicas and all of them are in sync. A second target may
        #    never be reached: Kafka 4.3.1 waits for a broker that it both adds and removes.
        layout = self._wait_until_clear()
        # 3. Compare with the plan; skip topics that have changed since.
        self._moves = {move.key: move for move in list_moves(work, layout, self._read_sizes())}
        layout = self._fail_strays(layout)
        # 4. Cut into batches; the first one continues the moves that are running already.
        batches = self._cut_batches(layout)
        for number, batch in enumerate(batches, 1):
            self._context.check()
            moves = tuple(move for move in batch if move.ref not in self._failed)
            if moves:
                # 5. Wait again, check the disks, throttle, start, wait until all is in sync, remove the
                #    throttles.
                self._carry_out(moves, number, len(batches))
        # 6. Elect preferred leaders: a leader that keeps its replica would otherwise keep the lead.
        self._elect()
        # 7. Clear throttles of killed applies for partitions that were still being moved at the beginning.
        self._clear_leftovers()

    def _wait_until_clear(self) -> Layout:
        """Wait until no other process moves replicas and all required ones are in sync; return the layout.

        Raises:
            MovesUnfinished: The wait took too long.
            ClusterError: The cluster cannot be read.
            Stopped: See `MoveContext.check`.
        """
        context = self._context
        since: float | None = None
        while True:
            # The whole cluster, not only the topics of this apply: a move loads brokers of others, too.
            layout = context.layout()
            subject, obstacle = "busy", self._describe_foreign(layout)
            if obstacle is None:
                partitions = find_unhealthy(layout, self._targets, self._done)
                if not partitions:
                    return layout
                # Unlike a move, which ends, a replica may stay out of sync until its broker is repaired.
                since = context.clock.now() if since is None else since
                subject = "health"
                obstacle = f"the cluster is not healthy: {describe_problems(layout, partitions)}"
                if context.clock.now() - since >= HEALTH_WAIT_S:
                    raise MovesUnfinished(obstacle, hint=f"fix that (`kafkaform doctor`), then {RETRY_HINT}")
            context.remind(subject, f"waiting: {obstacle}")
            context.pause(POLL_S)

    def _describe_foreign(self, layout: Layout) -> str | None:
        """Describe the reassignments of others to wait for; None if there are none."""
        if layout.reassigning is None:
            raise PermissionDenied(
                "no replica is moved, as this account cannot list running reassignments: it lacks "
                f"{WATCHING}",
                hint=explain_missing_rights(WATCHING)[1],
            )
        partitions = find_foreign(layout, self._targets)
        if not partitions:
            return None
        moves = listed([f"{format_partition(key)} {layout.reassigning[key]}" for key in partitions])
        running = f"a reassignment that this apply did not start is running: {moves}"
        if self._context.options.when_busy is WhenBusy.REFUSE:
            raise MovesUnfinished(
                running,
                hint="wait until it has finished, or let apply wait (`moves: {whenBusy: wait}` of a cluster)",
            )
        return running

    def _carry_out(self, moves: Batch, number: int, batches: int) -> None:
        layout = self._wait_until_clear()
        self._check_disks([move for move in moves if status_of(move, layout) is MoveStatus.READY])
        moves = tuple(move for move in moves if move.ref not in self._failed)
        if not moves:
            return
        run = BatchRun(self._context, moves, self._throttles.recorded)
        try:
            # First: Kafka throttles only replicas in a topic's lists, on brokers that have a rate (KIP-73).
            self._throttles.throttle(moves, layout)
            self._begun |= {move.ref for move in moves}
            for unfinished, sizes, stalled in run.carry_out():
                progress = self._build_progress(number, batches, run, unfinished, sizes, stalled)
                self._context.observer.moving(progress)
        except LockLost as error:
            self._lost = error
        finally:
            # Without the lock, another apply may be at work already: cancelling could undo its moves.
            if self._lost is None:
                self._clean_up(run)
            self._done |= run.done
            self._bytes_done += self._sum_bytes(run.done)
            for move in moves:
                if move.key in run.failed:
                    self._failed.setdefault(move.ref, run.failed[move.key])
        if self._lost is not None:
            raise self._lost  # or the next batch would wait in vain

    def _check_disks(self, moves: Sequence[PartitionMove]) -> None:
        """Fail the topics that no longer fit on the disks of a broker.

        Disks are read before each batch: free space changes by the hour, and earlier batches free some.
        """
        copies: dict[str, dict[int, Copies]] = defaultdict(lambda: defaultdict(Copies))
        refs = {move.ref.name: move.ref for move in moves}
        try:
            sizes = self._context.cluster.replica_sizes([move.key for move in moves if move.copied])
            for move in moves:
                size = max((sizes.get((*move.key, broker), 0) for broker in move.holding), default=0)
                for broker in move.adding if size else ():
                    copies[move.ref.name][broker] += Copies(size, largest=size)
            # A batch that copies nothing needs no reading of disks.
            if not copies:
                return
            log_dirs, unread = self._context.cluster.log_dirs()
        except ClusterError as error:
            self._context.remind("disks", f"cannot check the free space on disks: {error.message}")
            return
        space = DiskSpace.from_reading(log_dirs, unread, self._context.options.disk_reserve)
        for name, why in find_shortages(copies, {}, space).items():
            self._failed.setdefault(refs[name], MovesUnfinished(why, hint=DISK_REMEDY))

    def _clean_up(self, run: BatchRun) -> None:
        """Cancel running moves, then remove throttles; record a lost lock, and report failures.

        In this order: without a throttle, moves that are still running would copy at full speed.
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
        """Remove throttles that a killed apply has left, for an apply that moves nothing.

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
            self._context.tell("the throttles of an earlier apply stay set: its moves are still running")

    def wait_in_sync(self, least: Mapping[ResourceRef, int]) -> ReassignmentReport:
        """Wait until all partitions of topics have as many replicas in sync as acks=all writes need.

        Returns:
            As `run`; None if a topic has them.
        """
        context, topics = self._context, {ref.name for ref in least}
        context.begin()
        until = context.clock.now() + HEALTH_WAIT_S
        try:
            while True:
                layout = context.layout(topics)
                lacking = {
                    ref: why
                    for ref, count in least.items()
                    if (why := find_in_sync_shortage(layout, ref.name, count)) is not None
                }
                if not lacking or context.clock.now() >= until:
                    break
                first = min(lacking)
                context.remind("in sync", f"waiting for replicas of {first.name}: {lacking[first]}")
                context.pause(POLL_S)
        except (Stopped, KeyboardInterrupt):
            return ReassignmentReport(interrupted=True)
        except ClusterError as error:
            return ReassignmentReport(dict.fromkeys(least, error))
        hint = "bring its replicas into sync (`kafkaform doctor`), then run the same apply again"
        errors = {ref: MovesUnfinished(why, hint=hint) for ref, why in lacking.items()}
        return ReassignmentReport({ref: errors.get(ref) for ref in least})

    def _clear_leftovers(self, *, read: bool = False) -> None:
        """Remove throttles of killed applies that are no longer needed."""
        if read:
            self._throttles.read_leftovers()
        if self._throttles.has_leftovers:
            self._throttles.clear_leftovers(self._context.layout())

    def _fail_strays(self, layout: Layout) -> Layout:
        """Fail topics with a partition that is no longer as planned; return the layout."""
        until = self._context.clock.now() + GRACE_S
        # Read again: a broker may still show an older state than the plan was made from.
        while strays := [m for m in self._moves.values() if status_of(m, layout) in _UNPLANNED]:
            if self._context.clock.now() >= until:
                for move in strays:
                    why = MovesUnfinished(_describe_stray(move, layout), hint=NEW_PLAN)
                    self._failed.setdefault(move.ref, why)
                break
            self._context.pause(POLL_S)
            layout = self._context.layout()
        return layout

    def _read_sizes(self) -> Mapping[tuple[str, int, int], int]:
        try:
            return self._context.cluster.replica_sizes(list(self._targets))
        except ClusterError as error:
            self._context.tell(f"cannot read how much is to be copied: {error.message}")
            return {}

    def _cut_batches(self, layout: Layout) -> list[Batch]:
        """Cut moves into batches; the first one contains those that are running already."""
        statuses = {key: status_of(move, layout) for key, move in self._moves.items()}
        self._done = {key for key, status in statuses.items() if status is MoveStatus.DONE}
        self._bytes_done, self._bytes_total = self._sum_bytes(self._done), self._sum_bytes(self._moves)
        running = [move for key, move in self._moves.items() if statuses[key] is MoveStatus.RUNNING]
        if running:
            partitions = counted(len(running), "partition")
            self._context.tell(f"continuing the moves that are already running: {partitions}")
        waiting = [move for key, move in self._moves.items() if statuses[key] in _TO_BEGIN]
        return ([tuple(running)] if running else []) + cut_batches(waiting, self._context.options)

    def _build_progress(
        self,
        batch: int,
        batches: int,
        run: BatchRun,
        unfinished: Sequence[PartitionMove],
        sizes: Mapping[tuple[str, int, int], int],
        stalled: str,
    ) -> MoveProgress:
        copied = self._bytes_done + self._sum_bytes(run.done)
        copied += sum(
            min(sizes.get((*move.key, broker), 0), move.size) for move in unfinished for broker in move.adding
        )
        done, total = len(self._done) + len(run.done), self._bytes_total
        throttle = self._context.options.throttle
        return MoveProgress(batch, batches, done, len(self._moves), copied, total, throttle, stalled)

    def _sum_bytes(self, partitions: Iterable[TopicPartition]) -> int:
        """Return the bytes to copy for partitions."""
        return sum(self._moves[key].copied for key in partitions)

    def _elect(self) -> None:
        """Elect the preferred leaders of moved partitions, if they are in sync."""
        layout = self._context.layout()
        partitions = []
        for topic, number in sorted(self._done):
            states = layout.topics.get(topic, ())
            if number < len(states):
                state, preferred = states[number], self._targets[topic, number][0]
                # A replica that is out of sync by now would be refused (PREFERRED_LEADER_NOT_AVAILABLE).
                if state.leader != preferred and preferred in state.isr:
                    partitions.append((topic, number))
        if not partitions:
            return
        responses = self._context.cluster.elect_leaders(partitions, self._context.guard)
        failed = {key: error for key, error in responses.items() if error is not None}
        if failed:
            names = listed([format_partition(key) for key in sorted(failed)])
            why = failed[min(failed)].message
            self._context.tell(f"the preferred replica does not lead yet in {names}: {why}")

    def _report(
        self, work: Sequence[Reassign], ending: ClusterError | None, *, interrupted: bool
    ) -> ReassignmentReport:
        """Build the report, and name throttles that are still set.

        Args:
            ending: The error that ended it early; a lost lock takes precedence over a stop or a timeout, as
                nothing was cancelled.
            interrupted: Whether the user stopped it.
        """
        # Read back, not remembered: a request whose answer was lost may have removed them.
        if still_set := self._throttles.find_left():
            remaining = describe_throttles(still_set)
            kept = self._context.throttle_journal.kept
            remedy = "the next apply removes them" if kept else "remove them by hand (kafka-configs)"
            self._context.tell(f"still set: {remaining}; {remedy}")
        outcomes: dict[ResourceRef, ClusterError | None] = {}
        for operation in work:
            ref = operation.ref
            partitions = {(ref.name, number) for number in operation.after}
            done = len(partitions & self._done)
            failure = self._failed.get(ref, ending)
            if done == len(partitions):
                outcomes[ref] = None
            elif failure is None and not interrupted:
                outcomes[ref] = _build_partial_error(None, done, len(partitions), goes_on=self._goes_on)
            elif ref in self._begun or ref in self._failed:
                outcomes[ref] = _build_partial_error(failure, done, len(partitions), goes_on=self._goes_on)
            elif not interrupted:
                outcomes[ref] = ending
        if ending is not None and outcomes and not any(outcomes.values()):
            self._context.tell(
                f"all replicas are in place, but the steps after that were abandoned: {ending.message}"
            )
        return ReassignmentReport(outcomes, interrupted)


def _describe_stray(move: PartitionMove, layout: Layout) -> str:
    if status_of(move, layout) is MoveStatus.GONE:
        return f"partition {move.partition} no longer exists"
    live = layout.topics[move.ref.name][move.partition].replicas
    on, saw = (":".join(map(str, replicas)) for replicas in (live, move.before))
    return f"partition {move.partition} is now on {on}; the plan saw {saw}"


def _build_partial_error(
    why: ClusterError | None, done: int, partitions: int, *, goes_on: bool
) -> ClusterError:
    """Build the error of a topic that was begun; `goes_on` if it could not be cancelled."""
    so_far = f"{done:,} of {counted(partitions, 'partition')} in place"
    error: ClusterError
    if isinstance(why, LockLost):
        error = LockLost(
            f"{why.message}; {so_far}; running moves continue, throttled until the next apply", hint=why.hint
        )
    elif why is None:
        error = MovesUnfinished(f"stopped; {so_far}", hint=RETRY_HINT)
    else:
        error = MovesUnfinished(f"{why.message}; {so_far}", hint=why.hint or RETRY_HINT)
    error.is_partial = done > 0 or goes_on or isinstance(why, LockLost)
    return error
