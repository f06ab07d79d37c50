"""Planned copies of replicas that do not fit on the disks of the brokers that they go to.

What counts is what brokers report when the plan is made, and again when it is applied. All that goes to a
broker counts together: what the plan copies, reassignments that are running already, and what producers write
until the copies are done. The last is an estimate: the writes of the last minutes go on, and retention
deletes what it keeps no longer. Bytes that the plan frees do not count, as in the worst order of batches they
are freed last.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkaform.core.disk_space import NO_COPIES, Copies, DiskSpace, find_doubts, find_shortages
from kafkaform.core.errors import ClusterError
from kafkaform.core.layout import assignment_changes
from kafkaform.core.model import CONFIG_PREFIX, Diagnostic, Severity
from kafkaform.resources.topic import topic_ref
from kafkaform.resources.topic.copying import Copying
from kafkaform.resources.topic.live import topic_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.groups import LogSpan
    from kafkaform.core.layout import Assignment, Layout, TopicPartition
    from kafkaform.core.model import Facts, Observed, ResourceRef
    from kafkaform.core.moves import MoveOptions

WINDOW_S = 600
"""The seconds of which the writes are taken for those that go on while replicas are copied."""
_LONGEST_S = 7 * 86_400
"""The most seconds for which growth is foreseen; at a rate of 0, which Kafka takes, copies are never done."""
_USUAL_RATE = 50_000_000
"""The bytes per second that copies are taken to have where nothing throttles them."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """The planned replicas of a topic.

    Attributes:
        name: The topic.
        before: Where its replicas are.
        after: Where they are to be.
    """

    name: str
    before: Assignment
    after: Assignment

    @property
    def added(self) -> Mapping[TopicPartition, frozenset[int]]:
        """The brokers that each partition is copied to."""
        added = assignment_changes(self.before, self.after).added
        return {(self.name, number): frozenset(brokers) for number, brokers in added.items()}


def check_disk_space(
    facts: Facts,
    moves: Sequence[PlannedMove],
    cluster: ClusterReader,
    options: MoveOptions,
    retained: Collection[str] = (),
) -> Facts:
    """Return the facts with the topics whose copies do not fit on a broker, or may not.

    Args:
        facts: What is known, the sizes of the partitions that are moved included.
        moves: The moves of the plan.
        cluster: The cluster.
        options: How an apply moves replicas.
        retained: Topics whose retention the plan changes: what it is now does not bound their growth.
    """
    added = {key: brokers for move in moves for key, brokers in move.added.items()}
    known = topic_facts(facts)
    if not any(known.partition_sizes.get(key, 1) for key in added):
        return facts  # which copies nothing
    seconds = _duration(moves, facts)
    try:
        layout = known.layout or cluster.layout()
        log_dirs, unread = cluster.log_dirs()
        reading = _read(added, layout, cluster, known.partition_sizes, grows=seconds >= 1)
    except ClusterError as error:
        why = f"whether the brokers have the disk space is not known: {error.message}"
        doubts = {move.name: why for move in moves if move.added}
        return replace(known, disk_doubts=doubts).beside(facts)
    space = DiskSpace.from_reading(log_dirs, unread, options.disk_reserve)
    growth, note = _growth(reading, cluster, seconds, retained) if seconds >= 1 else ({}, None)
    copies = {move.name: reading.copies(move.added, growth) for move in moves if move.added}
    shortages = find_shortages(copies, reading.others(growth), space)
    doubts = find_doubts({name: copies[name] for name in copies.keys() - shortages.keys()}, space)
    for name in {name for name, _ in added.keys() - reading.whole.keys()}:
        why = "whether the brokers have the disk space is not known, as the size of some partitions is not"
        doubts[name] = "; ".join(filter(None, (doubts.get(name), why)))
    notes = (*facts.diagnostics, *([note] if note else []))
    return replace(known, disk_shortages=shortages, disk_doubts=doubts).beside(
        replace(facts, diagnostics=notes)
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The replicas on brokers, and those on their way to them.

    Attributes:
        receiving: The brokers that the plan copies to.
        held: The partitions that each of them holds and keeps, or gets by a reassignment that is running.
        running: The brokers that running reassignments fill, by partition; not those of the plan.
        sizes: The bytes of replicas by topic, partition and broker.
        whole: The bytes of partitions.
    """

    receiving: frozenset[int]
    held: Mapping[int, frozenset[TopicPartition]]
    running: Mapping[TopicPartition, frozenset[int]]
    sizes: Mapping[tuple[str, int, int], int]
    whole: Mapping[TopicPartition, int]

    def copies(
        self, added: Mapping[TopicPartition, frozenset[int]], growth: Mapping[TopicPartition, int]
    ) -> dict[int, Copies]:
        """Return what partitions take on the brokers that they are added to."""
        by_broker: dict[int, Copies] = defaultdict(Copies)
        for key, brokers in added.items():
            size = self.whole.get(key, 0)
            for broker in brokers:
                # An interrupted move has left something there, which is no longer counted as usable.
                left = max(0, size - self.sizes.get((*key, broker), 0))
                by_broker[broker] += Copies(left, growth.get(key, 0), left)
        return dict(by_broker)

    def others(self, growth: Mapping[TopicPartition, int]) -> dict[int, Copies]:
        """Return what comes to the receiving brokers without the plan."""
        by_broker = self.copies(self.running, growth)
        for broker in self.receiving:
            written = sum(growth.get(key, 0) for key in self.held.get(broker, ()))
            by_broker[broker] = by_broker.get(broker, NO_COPIES) + Copies(0, written)
        return by_broker


def _read(
    added: Mapping[TopicPartition, frozenset[int]],
    layout: Layout,
    cluster: ClusterReader,
    known: Mapping[TopicPartition, int],
    *,
    grows: bool,
) -> _Reading:
    """Read what is on brokers; what they hold already only where its growth matters, as that may be much."""
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
        if (name, number) not in known:
            whole[name, number] = max(size, whole.get((name, number), 0))
    return _Reading(
        receiving, {broker: frozenset(keys) for broker, keys in held.items()}, running, sizes, whole
    )


def _duration(moves: Iterable[PlannedMove], facts: Facts) -> float:
    """The seconds that all copies take: as long as the busiest broker needs."""
    copying = Copying(topic_facts(facts))
    for move in moves:
        copying.add(move.name, move.before, move.after)
    seconds = copying.seconds if copying.seconds is not None else copying.busiest / _USUAL_RATE
    return min(seconds, _LONGEST_S)


def _growth(
    reading: _Reading, cluster: ClusterReader, seconds: float, retained: Collection[str]
) -> tuple[dict[TopicPartition, int], Diagnostic | None]:
    """Return the bytes by which partitions grow in a time, and a note where that could not be found out."""
    try:
        spans = cluster.log_spans(reading.whole.keys(), int((time.time() - WINDOW_S) * 1000))
        topics = {topic_ref(name) for name, _ in reading.whole if name not in retained}
        live: Mapping[ResourceRef, Observed] = cluster.observe(topics).resources
    except ClusterError as error:
        text = (
            f"how much is written while replicas are copied was not read, and is not counted: {error.message}"
        )
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
    """The bytes per second of the last minutes: the records since then, at the mean size of all records."""
    if span.at is None or span.end <= span.start:
        return 0.0
    recent = span.end - max(span.at, span.start)
    return size * recent / (span.end - span.start) / WINDOW_S


def _estimate_growth(size: int, rate: float, seconds: float, topic: Observed | None) -> int:
    """The bytes that a partition gains; one whose retention deletes as much as is written gains nothing."""
    gained = rate * seconds
    if topic is None or "delete" not in str(topic.effective.get(f"{CONFIG_PREFIX}cleanup.policy", "")):
        return int(gained)
    by_size, by_time, segment = (
        int(topic.effective.get(f"{CONFIG_PREFIX}{name}") or -1)
        for name in ("retention.bytes", "retention.ms", "segment.bytes")
    )
    # Whole segments are deleted, so a log is one longer than its retention says.
    if by_size >= 0:
        gained = min(gained, by_size + max(0, segment) - size)
    if by_time >= 0:
        gained = min(gained, rate * by_time / 1000 + max(0, segment) - size)
    return max(0, int(gained))
