"""Counts of the records written to partitions, from offsets alone: no record is read."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from kafkaform.cluster.protocol import PartitionReader, ResourceReader
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import CONFIG_PREFIX, Observed
from kafkaform.core.values import replace
from kafkaform.resources import TOPIC, topic_ref
from spark_validation.arrivals import FEW_KEPT, Spread, TopicArrivals, find_arrivals
from spark_validation.time_search import LogEnds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.core.partitions import LogSpan, TopicPartition

NO_SIZES: Mapping[TopicPartition, int] = MappingProxyType({})


class ArrivalReader(ResourceReader, PartitionReader, Protocol):
    """Reads offsets, and the configs of topics whose times are in doubt."""


def read_arrivals(
    cluster: ArrivalReader, topics: Mapping[str, int], now_ms: int, since_ms: int | None = None
) -> list[TopicArrivals]:
    """Count the records that arrived in each partition, in the period that all logs of a topic cover.

    Each leader gets a few requests, however many topics there are.

    Args:
        topics: The partition count of each topic.
        now_ms: The present, in milliseconds since 1970.
        since_ms: The start of the period, if all logs reach back to it.

    Returns:
        The topics, the uneven ones first, by ratio times rate; then by name.

    Raises:
        ClusterError: The leaders do not answer.
    """
    # The ends first: records that are written while the times are looked up then count in no partition.
    spans = cluster.log_spans([(name, number) for name, count in topics.items() for number in range(count)])
    logs = log_ends(spans, topics, _read_sizes_of_emptied(cluster, spans))
    arrivals = find_arrivals(logs, cluster.offsets_at, now_ms, since_ms)
    # Few topics are in doubt, and the configs of all would take longer than their offsets.
    doubtful = [name for name, topic in arrivals.items() if topic.is_doubtful]
    if ordered := _find_ordered(cluster, doubtful):
        again = {name: logs[name] for name in ordered}
        arrivals |= find_arrivals(again, cluster.offsets_at, now_ms, since_ms, ordered=ordered)
    waiting = [name for name, topic in arrivals.items() if topic.waits]
    marked = mark_transactional(cluster, [*arrivals.values()], waiting)
    return sorted(marked, key=lambda topic: (topic.spread is not Spread.UNEVEN, -topic.weight, topic.name))


def _read_sizes_of_emptied(
    cluster: PartitionReader, spans: Mapping[TopicPartition, LogSpan]
) -> Mapping[TopicPartition, int]:
    """Read the bytes of the partitions of topics of which one keeps next to no record, and had some."""
    emptied = {name for (name, _), span in spans.items() if span.start and span.end - span.start < FEW_KEPT}
    try:
        partitions = [partition for partition in spans if partition[0] in emptied]
        return cluster.partition_sizes(partitions) if partitions else {}
    except ClusterError:
        return {}  # unknown, as for accounts that may not describe the cluster


def _find_ordered(cluster: ResourceReader, names: Sequence[str]) -> frozenset[str]:
    """Return the topics whose records have the broker's times, in order and without gaps of compaction."""
    if not names:
        return frozenset()
    observation = cluster.observe([topic_ref(name) for name in names], kinds=[TOPIC.name])
    return frozenset(ref.name for ref, topic in observation.resources.items() if is_ordered(topic))


def is_ordered(topic: Observed) -> bool:
    """Return whether the records of a topic have the broker's times, in order and without gaps."""
    broker_time = get_config(topic, "message.timestamp.type") == "LogAppendTime"
    return broker_time and "compact" not in get_config(topic, "cleanup.policy")


def get_config(topic: Observed, name: str) -> str:
    """Return the value in force of a config; empty if it has none."""
    return str(topic.effective.get(f"{CONFIG_PREFIX}{name}") or "")


def log_ends(
    spans: Mapping[TopicPartition, LogSpan],
    topics: Mapping[str, int],
    sizes: Mapping[TopicPartition, int] = NO_SIZES,
) -> dict[str, list[LogEnds | None]]:
    """Return the log of each partition by topic; None for a partition that was not read.

    Args:
        spans: The log ends that were read.
        topics: The partition count of each topic.
        sizes: The bytes of partitions, as far as they are known.
    """
    return {
        name: [
            None
            if (span := spans.get((name, number))) is None
            else LogEnds(span.start, span.end, sizes.get((name, number)))
            for number in range(count)
        ]
        for name, count in topics.items()
    }


def mark_transactional(
    cluster: PartitionReader, arrivals: Sequence[TopicArrivals], names: Collection[str]
) -> list[TopicArrivals]:
    """Mark the topics that transactions write to: transaction markers have offsets and count as arrivals.

    Args:
        names: The topics to check, in one request to each leader.
    """
    partitions = [
        (topic.name, number)
        for topic in arrivals
        if topic.name in names and topic.transactional is None
        for number in range(len(topic.ends))
    ]
    try:
        flags = cluster.transactional(partitions) if partitions else {}
    except ClusterError:
        return list(arrivals)  # unknown, as for topics that the account may not read
    marked = []
    for topic in arrivals:
        known = [flags[key] for number in range(len(topic.ends)) if (key := (topic.name, number)) in flags]
        # One partition with markers is enough to know; only all of them without any prove the opposite.
        if any(known):
            marked.append(topic.mark_transactional())
        else:
            marked.append(replace(topic, transactional=False) if len(known) == len(topic.ends) else topic)
    return marked
