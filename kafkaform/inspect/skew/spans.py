"""How far the logs of topics reach, and how large they are: read before any record is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.cluster.protocol import Cluster
    from kafkaform.core.groups import LogSpan


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of one partition.

    Attributes:
        partition: Its number.
        start: The first offset that an analysis is about.
        end: The offset after the last one.
        log_bytes: The bytes of the whole partition, one replica; None if nobody told.
    """

    partition: int
    start: int
    end: int
    log_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LogReading:
    """One reading of the logs of topics.

    Attributes:
        logs: The partitions of each topic, by number, without a gap.
        failed: Why the log of a topic is not known.
        notes: What else could not be read, a line each.
    """

    logs: Mapping[str, tuple[PartitionLog, ...]] = field(default_factory=dict)
    failed: Mapping[str, KafkaformError] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_logs(cluster: Cluster, topics: Mapping[str, int], since_ms: int | None = None) -> LogReading:
    """Read how far logs reach, in a few requests however many partitions there are.

    They end before the first open transaction: a reader of committed records would wait there.

    Args:
        cluster: Who is asked.
        topics: The partition count of each topic.
        since_ms: Only from the first record on that is not older, in milliseconds since 1970.

    Raises:
        ClusterError: The cluster cannot be read at all.
    """
    asked = [(name, number) for name, count in topics.items() for number in range(count)]
    spans = cluster.log_spans(asked, since_ms, committed=True)
    sizes: Mapping[tuple[str, int], int] = {}
    notes: list[str] = []
    try:
        sizes = cluster.partition_sizes(asked)
    except ClusterError as error:
        notes.append(f"the bytes of partitions: {error.message}")
    else:
        untold = sorted({name for name, number in asked if (name, number) not in sizes})
        if untold:
            notes.append(f"the bytes of all partitions of {listed(untold)}: the brokers do not tell them")
    logs, failed = {}, {}
    for name, count in topics.items():
        missing = [number for number in range(count) if (name, number) not in spans]
        if missing:
            failed[name] = KafkaformError(
                f"topic {name}: nobody tells the offsets of {counted(len(missing), 'partition')} of {count}"
                f" ({listed(list(map(str, missing)))})",
                hint="the partition has no leader, or the topic was just deleted; kafkaform doctor says more",
            )
            continue
        logs[name] = tuple(
            _log(number, spans[name, number], sizes.get((name, number))) for number in range(count)
        )
    return LogReading(logs, failed, tuple(notes))


def _log(number: int, span: LogSpan, size: int | None) -> PartitionLog:
    start = span.start if span.at is None else max(span.start, span.at)
    return PartitionLog(number, start, max(start, span.end), size)
