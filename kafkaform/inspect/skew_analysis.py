"""The analysis of topics of a cluster by Spark: logs are read while Spark starts, then their records."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.inspect.arrivals import mark_transactional
from kafkaform.inspect.skew_input import (
    find_limits,
    find_reader_groups,
    find_recorded_increases,
    is_glob,
    list_topics_with_policy,
    read_logs,
    read_new_records,
)
from spark_validation.arrivals import Spread
from spark_validation.time_search import LogEnds, TimeSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import PartitionReader
    from kafkaform.core.model import Desired
    from kafkaform.core.partitions import TopicPartition
    from kafkaform.inspect.skew_input import TopicLogs, TopicSelection
    from spark_validation.errors import SkewError
    from spark_validation.job import TopicRequest
    from spark_validation.kafka_client import OffsetReader
    from spark_validation.options import JobSettings
    from spark_validation.results import SkewReport, TopicResult
    from spark_validation.windows import Span

T = TypeVar("T")


# Without slots: cached_property stores its values in the instance's dictionary.
@dataclass(frozen=True)
class ClusterAnalysis:
    """The analysis of topics of a cluster.

    Attributes:
        chosen: The topics to analyse.
        requested: The names and globs of topics that were requested; empty for those that have a policy.
        desired: The declared resources.
        kafka: The properties of the clients that read records.
        job: The settings of the analysis.
        since_ms: Only records since then, in milliseconds since 1970; None for all.
        watch_ms: The milliseconds to watch for new records; None for the records of the log.
        read_all: Whether topics that a glob selects are read even if their records arrive evenly.
        read_history: Reads the audit record and the earlier reports on topics.
        tell: Receives a line about what is not read, or waited for.
    """

    cluster: PartitionReader
    cluster_id: str
    chosen: TopicSelection
    requested: Sequence[str]
    desired: Sequence[Desired]
    kafka: Mapping[str, str]
    job: JobSettings
    since_ms: int | None
    watch_ms: int | None
    read_all: bool
    read_history: Callable[[Collection[str]], tuple[Sequence[AuditEntry], Sequence[SkewReport]]]
    tell: Callable[[str], None]

    def run(self, start: Callable[[Callable[..., Any]], T]) -> tuple[T | None, Mapping[str, KafkaformError]]:
        """Read logs, meanwhile start Spark, and analyse the records.

        Args:
            start: Starts Spark, and calls a function of the session and the progress in it.

        Returns:
            What `start` returns, or None if there is nothing to analyse; and the topics that cannot be
            analysed, and why.
        """
        # Reading records costs far more than reading offsets: even topics are left out by their offsets.
        leaves_out = any(map(is_glob, self.requested)) and not self.read_all
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(self._read, leaves_out=leaves_out)
            # Spark takes seconds to start, and leaders answer meanwhile. Their answers are awaited first only
            # if there may be nothing to analyse.
            waits = leaves_out or self.watch_ms is not None or not self.chosen.topics
            outcome = None
            if not waits or pending.result().logs:
                outcome = start(lambda spark, progress: self._analyse(pending.result(), spark, progress))
            return outcome, {**self.chosen.failed, **pending.result().failed}

    def _read(self, *, leaves_out: bool) -> TopicLogs:
        """Read the ends of logs; with `watch_ms`, those of the records written during the wait."""
        now_ms, cluster = time.time_ns() // 1_000_000, self.cluster
        ordered, read_records = self.chosen.ordered, self._read_records
        reading = read_logs(
            cluster, self.chosen.topics, now_ms, self.since_ms, ordered=ordered, read_records=read_records
        )
        marked = mark_transactional(cluster, [*reading.arrivals.values()], reading.arrivals)
        reading = replace(reading, arrivals={topic.name: topic for topic in marked})
        if self.watch_ms is not None and reading.logs:
            end = datetime.fromtimestamp((now_ms + self.watch_ms) / 1000, UTC)
            self.tell(f"watching {_name_topics([*reading.logs])} until {end:%H:%M:%S} UTC")
            time.sleep(self.watch_ms / 1000)
            # The ends before and after the wait enclose the records that were written meanwhile.
            reading = read_new_records(cluster, reading, time.time_ns() // 1_000_000)
        if leaves_out:
            reading = self._leave_out_even(reading)
        for note in reading.notes:
            self.tell(f"not read: {note}")
        return reading

    def _leave_out_even(self, reading: TopicLogs) -> TopicLogs:
        """Leave out topics that only a glob selects, without a policy, whose records arrive evenly."""
        required = {*list_topics_with_policy(self.desired), *self.requested}
        even = [
            name
            for name, arrivals in reading.arrivals.items()
            if name not in required and arrivals.spread in {Spread.EVEN, Spread.LITTLE}
        ]
        if even:
            self.tell(
                f"left out: {counted(len(even), 'topic')} without a policy whose records arrive evenly, or "
                "are too few (--all reads them, too)"
            )
        return replace(reading, logs={name: logs for name, logs in reading.logs.items() if name not in even})

    def _analyse(
        self, reading: TopicLogs, spark: Any, progress: Callable[[str], AbstractContextManager[Any]]
    ) -> Mapping[str, TopicResult | SkewError]:
        from spark_validation.job import run_topics

        # Read on demand: most topics have no record outside the partition that its key now maps to.
        history = cache(partial(self.read_history, reading.logs))
        requests = [self._build_request(name, reading, history) for name in reading.logs]
        with progress(_name_topics([*reading.logs])) as tell:
            return run_topics(
                spark,
                requests,
                self.kafka,
                self.job,
                on_progress=tell,
                spans_now=partial(read_spans, self.cluster, reading),
            )

    def _build_request(
        self,
        name: str,
        reading: TopicLogs,
        history: Callable[[], tuple[Sequence[AuditEntry], Sequence[SkewReport]]],
    ) -> TopicRequest:
        from spark_validation.analysis import LogFacts
        from spark_validation.job import TopicRequest
        from spark_validation.windows import Span

        query = partial(self._query_leaders, name)
        spans = [
            Span(log.partition, log.start, log.end, log.log_bytes, log.kept_from, log.kept_since_ms)
            for log in reading.logs[name]
        ]
        return TopicRequest(
            name,
            spans,
            find_limits(self.desired, name),
            find_reader_groups(self.desired, name),
            lambda: find_recorded_increases(*history(), self.cluster_id, name),
            LogFacts(
                reading.arrivals[name],
                None if name in self.chosen.unread else name in self.chosen.compacted,
                self.chosen.retention_bytes.get(name),
                count_between=partial(query, partial(self._count_between, reading, name)),
                offsets_at=partial(query, partial(self._read_offsets_at, reading, name)),
            ),
            reading.arrivals[name].since_ms,
        )

    @cached_property
    def _client(self) -> OffsetReader:
        from spark_validation.kafka_client import OffsetReader

        return OffsetReader(self.kafka)

    def _read_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Sequence[tuple[int, int]]]:
        """Read the first records from given offsets on."""
        with skew_errors():
            return self._client.read_records(offsets)

    def _count_between(
        self, reading: TopicLogs, topic: str, since_ms: int, until_ms: int
    ) -> tuple[int, ...] | None:
        """Count the offsets written to each partition between two times (ms since 1970).

        All logs must reach back to the first time. Returns None if a search by time may be misled.
        """
        logs, arrivals = reading.logs[topic], reading.arrivals[topic]
        ends = {(topic, log.partition): LogEnds(log.kept_from, log.end) for log in logs}
        kept_since = zip(ends, arrivals.kept_since_ms, strict=True)
        firsts = {partition: first for partition, first in kept_since if first is not None}
        search = TimeSearch(ends, firsts, arrivals.until_ms, self.cluster.offsets_at, self._read_records)
        return search.count_between(since_ms, until_ms)

    def _read_offsets_at(self, reading: TopicLogs, topic: str, time_ms: int) -> tuple[int, ...]:
        """Return the first offset of each partition that is not older than a time (ms since 1970)."""
        ends = {(topic, log.partition): log.end for log in reading.logs[topic]}
        offsets = self.cluster.offsets_at(dict.fromkeys(ends, time_ms))
        return tuple(min(offsets[key][0], end) if key in offsets else end for key, end in ends.items())

    def _query_leaders(
        self, topic: str, run: Callable[..., Sequence[int] | None], *times_ms: int
    ) -> Sequence[int] | None:
        """Ask for offsets by time; tell a line and return None if leaders do not answer."""
        try:
            return run(*times_ms)
        except ClusterError as error:
            self.tell(f"not read: the offsets of {topic} by time: {error.message}")
            return None


def convert_error(error: SkewError) -> KafkaformError:
    """Convert an error of `spark_validation` into a KafkaformError."""
    return KafkaformError(error.message, hint=error.hint)


@contextmanager
def skew_errors() -> Iterator[None]:
    """Convert errors of `spark_validation` into KafkaformErrors."""
    from spark_validation.errors import SkewError

    try:
        yield
    except SkewError as error:
        raise convert_error(error) from error


def _name_topics(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else counted(len(topics), "topic")


def read_spans(
    cluster: PartitionReader, before: TopicLogs, topics: Sequence[str]
) -> dict[str, Sequence[Span] | SkewError]:
    """Read the current ends of the logs of topics; partitions that cannot be read are left out.

    A topic that was deleted and made again since the first reading gets an error.
    """
    from spark_validation.errors import find_changed_topics
    from spark_validation.windows import Span

    partitions = [(topic, log.partition) for topic in topics for log in before.logs[topic]]
    spans: dict[str, list[Span]] = {topic: [] for topic in topics}
    for (topic, number), span in sorted(cluster.log_spans(partitions).items()):
        spans[topic].append(Span(number, span.start, span.end))
    return {**spans, **find_changed_topics(before.ids, cluster.topic_ids(topics))}
