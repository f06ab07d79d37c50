"""Counts of the records written to partitions, from offsets alone: no record is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from spark_validation.arrivals import LogEnds, Spread, find_arrivals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from spark_validation.arrivals import TopicArrivals


def read_arrivals(
    cluster: PartitionReader, topics: Mapping[str, int], now_ms: int, since_ms: int | None = None
) -> list[TopicArrivals]:
    """Count the records that arrived in each partition, in the period that all logs of a topic cover.

    Each leader gets a few requests, however many topics there are.

    Args:
        cluster: The cluster.
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
    arrivals = find_arrivals(log_ends(spans, topics), cluster.offsets_at, now_ms, since_ms)
    return sorted(
        arrivals.values(), key=lambda topic: (topic.spread is not Spread.UNEVEN, -topic.weight, topic.name)
    )


def log_ends(
    spans: Mapping[TopicPartition, LogSpan], topics: Mapping[str, int]
) -> dict[str, list[LogEnds | None]]:
    """Return the log of each partition by topic; None for a partition that was not read.

    Args:
        spans: The log ends that were read.
        topics: The partition count of each topic.
    """
    return {
        name: [
            None if (span := spans.get((name, number))) is None else LogEnds(span.start, span.end)
            for number in range(count)
        ]
        for name, count in topics.items()
    }


def mark_transactional(
    cluster: PartitionReader, arrivals: Sequence[TopicArrivals], names: Collection[str]
) -> list[TopicArrivals]:
    """Mark the topics that transactions write to: transaction markers have offsets and count as arrivals.

    Args:
        cluster: The cluster.
        arrivals: The topics.
        names: The topics to check, in one request to each leader.
    """
    partitions = [(t.name, number) for t in arrivals if t.name in names for number in range(len(t.ends))]
    try:
        flags = cluster.transactional(partitions) if partitions else {}
    except ClusterError:
        return list(arrivals)  # unknown, as for topics that the account may not read
    marked = []
    for topic in arrivals:
        known = [flags[key] for number in range(len(topic.ends)) if (key := (topic.name, number)) in flags]
        # One partition with markers is enough to know; only all of them without any prove the opposite.
        transactional = True if any(known) else False if len(known) == len(topic.ends) else None
        marked.append(replace(topic, transactional=transactional))
    return marked
