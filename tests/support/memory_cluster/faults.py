"""Faults of a cluster in memory that only a test causes, and its lock."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from kafkaform.cluster.protocol import none_besides
from kafkaform.core.errors import ClusterError, PermissionDenied
from kafkaform.core.health import LogDir
from kafkaform.core.lock import Guard, Holder, acquire_lock, lock_lost_error
from kafkaform.core.model import ResourceRef
from kafkaform.core.partitions import Broker, TopicPartition
from kafkaform.core.progress import Progress
from kafkaform.core.transactions import OpenTransaction, ProducerState
from kafkaform.core.values import replace
from kafkaform.resources import KINDS
from kafkaform.resources.groups import Member
from tests.support.memory_cluster import controller, coordinator
from tests.support.memory_cluster.contents import Contents
from tests.support.memory_cluster.coordinator import NO_GROUP, Log


class MemoryLock:
    """A lock that is its holder; each hold is an object of its own."""

    def __init__(self) -> None:
        self._holder: Holder | None = None

    @contextmanager
    def hold(self, holder: Holder, *, timeout_s: float, tell: Progress) -> Iterator[Guard]:
        mine = acquire_lock(partial(self._try, holder), self._occupant, timeout_s=timeout_s, tell=tell)
        try:
            yield partial(self._prove, mine)
        finally:
            if self._holder is mine:
                self._holder = None

    def _try(self, holder: Holder) -> Holder | None:
        if self._holder is not None:
            return None
        self._holder = replace(holder, since=datetime.now(UTC))
        return self._holder

    def _occupant(self) -> Holder:
        return self._holder or Holder("another process (no details yet)")

    def _prove(self, mine: Holder) -> None:
        if self._holder is not mine:
            raise lock_lost_error("its session ended, or it was taken away")


def denial(ref: ResourceRef) -> PermissionDenied:
    """Return the error of an account that lacks a right on a resource."""
    noun = KINDS[ref.kind].words.noun.capitalize() if ref.kind in KINDS else ref.kind
    return PermissionDenied(f"this account is not authorised: {noun} authorization failed.")


@dataclass(slots=True)
class Failure:
    """An error that an operation is to be answered with.

    Attributes:
        error: The answer; None: it is acknowledged.
        ref: The only resource that it is for; None for any.
        carried_out: Whether the operation takes place all the same.
    """

    error: ClusterError | None
    ref: ResourceRef | None
    carried_out: bool


class FaultInjection:
    """The contents of a cluster, and what a test can do to them behind everybody's back."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self._brokers = tuple(brokers)
        self._contents = Contents()
        self._hidden: set[ResourceRef] = set()
        self._denied: Callable[[ResourceRef], bool] = none_besides
        self._failures: list[Failure] = []
        self._sizes: dict[ResourceRef, int] = {}
        self._volumes: dict[int, Sequence[LogDir]] = {}
        self._lag = 0
        self._stale = self._contents
        self._stale_reads = 0
        self._lock = MemoryLock()

    # --- answers -----------------------------------------------------------------------------------

    def lag(self, reads: int) -> None:
        """From now on, so many observations after a change still show what was before it."""
        self._lag = reads

    def hide(self, ref: ResourceRef) -> None:
        """Take all rights on a resource away from this account, which cannot tell any more if it exists."""
        self._hidden.add(ref)

    def deny(self, denied: Callable[[ResourceRef], bool] = lambda _: True) -> None:
        """Take the right to change resources away from this account: all of them, or those it says."""
        self._denied = denied

    def fail_next(
        self, error: ClusterError, ref: ResourceRef | None = None, *, carried_out: bool = False
    ) -> None:
        """Answer the next operation that is to be carried out (on this resource, if given) with an error.

        It may be carried out all the same, as where the answer is what gets lost.
        """
        self._failures.append(Failure(error, ref, carried_out))

    def pretend(self, ref: ResourceRef) -> None:
        """Acknowledge the next operation on a resource, and do not carry it out."""
        self._failures.append(Failure(None, ref, carried_out=False))

    # --- topics and brokers ------------------------------------------------------------------------

    def fill(self, ref: ResourceRef, size: int) -> None:
        """Let a topic hold so many bytes."""
        self._sizes[ref] = size

    def set_log_dirs(self, broker: int, *log_dirs: LogDir) -> None:
        """Let a broker report these log directories; none: it is as one before Kafka 3.3."""
        self._volumes[broker] = log_dirs

    def replicate(self, ref: ResourceRef, replicas: Sequence[int]) -> None:
        """Give the partitions of a topic so many replicas each, which are in sync at once."""
        brokers = [broker.id for broker in self._brokers]
        topic = self._contents.topics[ref.name]
        moved = controller.place_replicas(replicas, brokers, brokers.index(topic.replicas[0][0]))
        self._contents.topics[ref.name] = replace(topic, replicas=moved)

    def write(
        self,
        topic: str,
        partition: int = 0,
        records: int = 1,
        timestamp_ms: int = 0,
        producer: int | None = None,
    ) -> None:
        """Write records to a partition, all of one time (milliseconds since 1970).

        Those of an idempotent producer have its id; an open transaction has its own producer.
        """
        place = topic, partition
        log = self._log(place).append(records, timestamp_ms)
        if producer is not None:
            log = log.update_producer(ProducerState(place, producer, 0, timestamp_ms), records)
        elif log.transaction is not None:
            state = ProducerState(place, 1, 0, timestamp_ms, -1, log.transaction.transactional_id, 1)
            log = log.update_producer(state, records)
        self._contents.logs[place] = log

    @contextmanager
    def transaction(
        self,
        topic: str,
        partition: int = 0,
        timestamp_ms: int = 0,
        *,
        transactional_id: str = "tx",
        age_ms: int = 0,
    ) -> Iterator[None]:
        """Leave the records that follow undecided until the end, by a marker of this time."""
        place = topic, partition
        opened = OpenTransaction(
            place, 0, 0, age_ms, 60_000, (1, 0), transactional_id=transactional_id, coordinated=True
        )
        self._contents.logs[place] = self._log(place).open_transaction(opened)
        yield
        self._contents.logs[topic, partition] = self._log((topic, partition)).end_transaction(timestamp_ms)

    def expire(self, topic: str, partition: int, start: int) -> None:
        """Drop the records of a partition before an offset, as retention does."""
        self._contents.logs[topic, partition] = self._log((topic, partition)).expire(start)

    def stop_broker(self, broker: int) -> None:
        """Let a broker go down: it leads nothing any more, and falls out of sync."""
        self._contents.stopped.append(broker)
        self._contents.led = {p: leader for p, leader in self._contents.led.items() if leader != broker}

    def start_broker(self, broker: int) -> None:
        """Bring a broker back: it has caught up at once, but for new replicas that are being filled."""
        self._contents.stopped.remove(broker)
        self._settle()

    def pace(self, steps: int) -> None:
        """From now on, a new replica is full after so many steps: readings of the layout, or `advance`."""
        self._contents.steps = steps
        self._settle()

    def advance(self, steps: int = 1) -> None:
        """Let the reassignments that are running go on; brokers that are down get nothing."""
        contents = self._contents
        alive = {broker.id for broker in self._brokers} - {*contents.stopped}
        for partition, move in contents.moves.items():
            if contents.state(partition).leader is not None:
                contents.moves[partition] = move.filled_by(steps, alive)
        self._settle()

    def _settle(self) -> None:
        """End the reassignments that are over."""
        contents = self._contents
        for partition, move in [*contents.moves.items()]:
            state = contents.state(partition)
            if move.done(state.isr):
                del contents.moves[partition]
                removing = move.reassignment.removing
                contents.put_replicas(partition, tuple(b for b in state.replicas if b not in removing))

    # --- groups ------------------------------------------------------------------------------------

    def join(
        self,
        group: str,
        topics: Sequence[str] = (),
        members: int | Sequence[Member] = 1,
        *,
        protocol: str = "classic",
        state: str = "Stable",
        assignor: str | None = None,
    ) -> None:
        """Let a group have these members, or a number of them with the partitions of topics dealt to them."""
        if isinstance(members, int):
            partitions = [p for topic in topics for p in self._contents.partitions(topic)]
            members = coordinator.dealt(partitions, members)
        before = self._contents.groups.get(group, NO_GROUP)
        after = coordinator.join_members(before, protocol, members, state=state, assignor=assignor)
        self._contents.groups[group] = after

    def leave(self, group: str) -> None:
        """Let all members of a group go; it stays with its offsets."""
        self._contents.groups[group] = coordinator.empty_group(self._contents.groups[group])

    def keep_offsets(self) -> None:
        """Let groups keep their offsets in deleted topics, as if their coordinators were down then."""
        self._contents.coordinated = False

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as a member does, which may be any; the group comes to be if need be."""
        before = self._contents.groups.get(group, NO_GROUP)
        after = replace(before, known=True, offsets={**before.offsets, **offsets})
        self._contents.groups[group] = after

    # --- what the cluster itself makes of them -----------------------------------------------------

    def _read_contents(self) -> Contents:
        """Return the contents of the next reading: those before the last change, while it lags behind."""
        if not self._stale_reads:
            return self._contents
        self._stale_reads -= 1
        return self._stale

    def _lag_behind(self, before: Contents) -> None:
        """Let readings lag behind a change, if they are to."""
        if not self._stale_reads:
            self._stale = before
        self._stale_reads = self._lag

    def _failure(self, ref: ResourceRef) -> Failure | None:
        """The error that an operation on a resource is to be answered with; each is given once."""
        for failure in self._failures:
            if failure.ref in {None, ref}:
                self._failures.remove(failure)
                return failure
        return None

    def _log(self, partition: TopicPartition) -> Log:
        topic, _ = partition
        if partition not in self._contents.partitions(topic):
            raise KeyError(partition)
        return self._contents.logs.get(partition, Log())
