"""Counts of the records written to partitions, from offsets alone: no record is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_validation.arrivals import LogEnds, Spread, find_arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.groups import LogSpan
    from kafkaform.core.layout import TopicPartition
    from spark_validation.arrivals import FindOffsets, TopicArrivals


def read_arrivals(
    cluster: PartitionReader,
    topics: Mapping[str, int],
    now_ms: int,
    since_ms: int | None = None,
    *,
    recent: bool = False,
) -> list[TopicArrivals]:
    """Count the records that arrived in each partition, in the period that all logs of a topic cover.

    A few requests to each leader, however many topics there are.

    Args:
        cluster: The cluster.
        topics: The partition count of each topic.
        now_ms: The time, in milliseconds since 1970.
        since_ms: The start of the period, if all logs reach back to it.
        recent: Count the last hour and the last day, too.

    Returns:
        The topics, the uneven ones first, by ratio times rate; then by name.

    Raises:
        ClusterError: The leaders cannot be asked.
    """
    spans = cluster.log_spans([(name, number) for name, count in topics.items() for number in range(count)])
    arrivals = find_arrivals(log_ends(spans, topics), offset_finder(cluster), now_ms, since_ms, recent=recent)
    return sorted(
        arrivals.values(), key=lambda topic: (topic.spread is not Spread.UNEVEN, -topic.weight, topic.name)
    )


def offset_finder(cluster: PartitionReader) -> FindOffsets:
    """Return what finds offsets by times on a cluster, as `find_arrivals` takes it."""

    def find(times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, tuple[int, int]]:
        records = cluster.offsets_at(times)
        return {partition: (record.offset, record.time_ms) for partition, record in records.items()}

    return find


def log_ends(
    spans: Mapping[TopicPartition, LogSpan], topics: Mapping[str, int]
) -> dict[str, list[LogEnds | None]]:
    """Return the log of each partition by topic; None for a partition that was not read.

    Args:
        spans: What was read.
        topics: The partition count of each topic.
    """
    return {
        name: [
            None if (span := spans.get((name, number))) is None else LogEnds(span.start, span.end)
            for number in range(count)
        ]
        for name, count in topics.items()
    }
