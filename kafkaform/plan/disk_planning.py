"""The check that planned copies of replicas fit on the disks of the receiving brokers.

Brokers report their disks when the plan is made, and again when it is applied. Three amounts are added up
per broker: the copies of the plan, the reassignments that are running already, and the writes of producers
until the copies are done. The last is an estimate: producers keep the rate of the last minutes, and
retention deletes old records. Bytes that the plan frees do not count: in the worst order of batches they are
freed last.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from kafkaform.core.model import CONFIG_PREFIX, Diagnostic, Facts, Observed, ResourceRef, Severity
from kafkaform.core.values import Value, replace
from kafkaform.resources import topic_ref
from kafkaform.resources.replicas.copying import Copying
from kafkaform.resources.replicas.disk_space import NO_COPIES, Copies, DiskSpace, find_doubts, find_shortages
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.replicas.layout import Assignment, Layout, assignment_changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from kafkaform.resources.replicas.moves import MoveOptions

WINDOW_S = 600
"""The past seconds whose write rate is assumed to continue while replicas are copied."""
# The most seconds of growth that are estimated: Kafka accepts a throttle of 0, at which copies never end.
_MAX_COPY_S = 7 * 86_400
# The assumed bytes per second of copies without a throttle: the default of `--throttle`.
_USUAL_RATE = 50_000_000


class PlannedMove(Value):
    """The planned replicas of a topic.

    Attributes:
        before: The present replicas.
        after: The target replicas.
    """

    name: str
    before: Assignment
    after: Assignment

    @property
    def added(self) -> Mapping[TopicPartition, frozenset[int]]:
        """The brokers that receive a copy, by partition."""
        added = assignment_changes(self.before, self.after).added
        return {(self.name, number): frozenset(brokers) for number, brokers in added.items()}


def check_disk_space(
    facts: Facts,
    moves: Sequence[PlannedMove],
    cluster: ClusterReader,
    options: MoveOptions,
    retained: Collection[str] = (),
) -> Facts:
    """Add to the facts the topics whose copies do not, or may not, fit on a broker.

    Args:
        facts: The facts, including the sizes of the moved partitions.
        moves: The moves of the plan.
        options: The options of moves, such as the disk reserve.
        retained: Topics whose retention the plan changes: the present one does not bound their growth.
    """
    added = {key: brokers for move in moves for key, brokers in move.added.items()}
    known = facts.get(ReplicaFacts)
    # A size that is not known may be any, so it counts as something to copy.
    if not any(known.partition_sizes.get(key, 1) for key in added):
        return facts  # nothing is copied
    seconds = _estimate_duration(moves, facts)
    try:
        layout = known.layout or cluster.layout()
        log_dirs, unread = cluster.log_dirs()
        reading = _read_replicas(added, layout, cluster, known.partition_sizes, grows=seconds >= 1)
    except ClusterError as error:
        why = f"cannot determine whether brokers have enough disk space: {error.message}"
        doubts = {move.name: why for move in moves if move.added}
        return facts.add_part(replace(known, disk_doubts=doubts))
    space = DiskSpace.from_reading(log_dirs, unread, options.disk_reserve)
    growth, note = _read_growth(reading, cluster, seconds, retained) if seconds >= 1 else ({}, None)
    copies = {move.name: reading.copies(move.added, growth) for move in moves if move.added}
    shortages = find_shortages(copies, reading.others(growth), space)
    doubts = find_doubts({name: copies[name] for name in copies.keys() - shortages.keys()}, space)
    for name in {name for name, _ in added.keys() - reading.whole.keys()}:
        why = (
            "cannot determine whether brokers have enough disk space: the size of some partitions is unknown"
        )
        doubts[name] = "; ".join(filter(None, (doubts.get(name), why)))
    notes = (*facts.diagnostics, *([note] if note else []))
    known = replace(known, disk_shortages=shortages, disk_doubts=doubts)
    return replace(facts, diagnostics=notes).add_part(known)


class _Reading(Value):
    """The replicas that brokers hold or receive.

    Attributes:
        receiving: The brokers that receive copies of the plan.
        held: The partitions that each of them holds and keeps.
        running: The brokers that running reassignments outside the plan copy to, by partition.
        sizes: Bytes of replicas by topic, partition and broker.
        whole: Bytes of one complete replica by partition.
    """

    receiving: frozenset[int]
    held: Mapping[int, frozenset[TopicPartition]]
    running: Mapping[TopicPartition, frozenset[int]]
    sizes: Mapping[tuple[str, int, int], int]
    whole: Mapping[TopicPartition, int]

    def copies(
        self, added: Mapping[TopicPartition, frozenset[int]], growth: Mapping[TopicPartition, int]
    ) -> dict[int, Copies]:
        """Return the copies by receiving broker."""
        by_broker: dict[int, Copies] = defaultdict(Copies)
        for key, brokers in added.items():
            size = self.whole.get(key, 0)
            for broker in brokers:
                # An interrupted move may have copied a part already, which the broker no longer counts as
                # usable.
                missing = max(0, size - self.sizes.get((*key, broker), 0))
                by_broker[broker] += Copies(missing, growth.get(key, 0), missing)
        return dict(by_broker)

    def others(self, growth: Mapping[TopicPartition, int]) -> dict[int, Copies]:
        """Return the copies and writes that receiving brokers get from outside the plan."""
        by_broker = self.copies(self.running, growth)
        for broker in self.receiving:
            # Producers also write to the replicas that the broker already holds: no copy, but growth.
            written = sum(growth.get(key, 0) for key in self.held.get(broker, ()))
            by_broker[broker] = by_broker.get(broker, NO_COPIES) + Copies(0, written)
        return by_broker


def _read_replicas(
    added: Mapping[TopicPartition, frozenset[int]],
    layout: Layout,
    cluster: ClusterReader,
    known: Mapping[TopicPartition, int],
    *,
    grows: bool,
) -> _Reading:
    """Read the replicas; those that brokers hold already only if growth counts, as they may be many."""
    receiving = frozenset().union(*added.values())
    running = {
        key: brokers
        for key, move in (layout.reassigning or {}).items()
        if (brokers := (move.adding - added.get(key, frozenset())) & receiving)
    }
    held: dict[int, set[TopicPartition]] = defaultdict(set)
    for states in layout.topics.values() if grows else ():
        for state in states:
            key = state.topic, state.partition
            for broker in receiving & {*state.replicas} - added.get(key, frozenset()):
                if broker not in running.get(key, ()):
                    held[broker].add(key)
    partitions = {*added, *running}.union(*held.values())
    sizes = cluster.replica_sizes(partitions)
    whole = dict(known)
    for (name, number, _), size in sizes.items():
        # Replicas differ, such as by segments that only some brokers have deleted yet: the largest is the
        # safe estimate.
        if (name, number) not in known:
            whole[name, number] = max(size, whole.get((name, number), 0))
    return _Reading(
        receiving, {broker: frozenset(keys) for broker, keys in held.items()}, running, sizes, whole
    )


def _estimate_duration(moves: Iterable[PlannedMove], facts: Facts) -> float:
    """Estimate the seconds that all copies take: the busiest broker decides."""
    copying = Copying(facts.get(ReplicaFacts))
    for move in moves:
        copying.add(move.name, move.before, move.after)
    seconds = copying.seconds if copying.seconds is not None else copying.busiest / _USUAL_RATE
    return min(seconds, _MAX_COPY_S)


def _read_growth(
    reading: _Reading, cluster: ClusterReader, seconds: float, retained: Collection[str]
) -> tuple[dict[TopicPartition, int], Diagnostic | None]:
    """Return the bytes that partitions grow by in some seconds, and a note if that could not be read."""
    try:
        spans = cluster.log_spans(reading.whole.keys(), int((time.time() - WINDOW_S) * 1000))
        topics = {topic_ref(name) for name, _ in reading.whole if name not in retained}
        live: Mapping[ResourceRef, Observed] = cluster.observe(topics).resources
    except ClusterError as error:
        text = f"could not read how much is written during the copy; it is not counted: {error.message}"
        return {}, Diagnostic("KF416", Severity.INFO, text)
    growth = {}
    for key, span in spans.items():
        rate = _write_rate(reading.whole.get(key, 0), span)
        if rate:
            grown = _estimate_growth(reading.whole[key], rate, seconds, live.get(topic_ref(key[0])))
            if grown:
                growth[key] = grown
    return growth, None


def _write_rate(size: int, span: LogSpan) -> float:
    """Return the bytes per second of the last minutes: the new records times the mean record size."""
    if span.at is None or span.end <= span.start:
        return 0.0
    recent = span.end - max(span.at, span.start)
    return size * recent / (span.end - span.start) / WINDOW_S


def _estimate_growth(size: int, rate: float, seconds: float, topic: Observed | None) -> int:
    """Return the bytes that a partition gains, less those that retention deletes."""
    gained = rate * seconds
    # Only retention bounds the growth: what compaction will remove cannot be predicted.
    if topic is None or "delete" not in str(topic.effective.get(f"{CONFIG_PREFIX}cleanup.policy", "")):
        return int(gained)
    by_size, by_time, segment = (
        int(topic.effective.get(f"{CONFIG_PREFIX}{name}") or -1)
        for name in ("retention.bytes", "retention.ms", "segment.bytes")
    )
    # Whole segments are deleted, so a log exceeds its retention by up to one of them.
    if by_size >= 0:
        gained = min(gained, by_size + max(0, segment) - size)
    if by_time >= 0:
        gained = min(gained, rate * by_time / 1000 + max(0, segment) - size)
    return max(0, int(gained))
