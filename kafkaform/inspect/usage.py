"""Use of topics in a period, by the offsets of their logs and of groups: no record is read."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError
from kafkaform.core.model import Observed, to_integer
from kafkaform.core.units import format_duration
from kafkaform.core.values import Value, field, replace
from kafkaform.resources.replicas.facts import list_partitions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.partitions import LogSpan, TopicPartition
    from kafkaform.resources.groups import Group, GroupReading

_CLOCKS_DIFFER_MS = 300_000
"""How far the clock of a producer may be ahead."""
_NEVER_WRITTEN = "never written, and Kafka does not keep when a topic was created"


class UseVerdict(StrEnum):
    """A verdict on the use of a topic; NONE only if the offsets prove it."""

    YES = "yes"
    NONE = "none"
    UNKNOWN = "unknown"


class TopicUsage(Value):
    """The use of a topic in a period.

    Attributes:
        records: Whether records were written, by their times.
        readers: Whether a group read it.
        reasons: Why one of the two is unknown, or why groups count as none.
    """

    records: UseVerdict
    readers: UseVerdict
    reasons: tuple[str, ...] = ()

    @property
    def in_use(self) -> bool:
        """True if it was written or read, and neither is proven to be missing."""
        return UseVerdict.YES in (self.records, self.readers) and UseVerdict.NONE not in (
            self.records,
            self.readers,
        )


class UsageReading(Value):
    """The reading of a cluster by which the use of topics in a period is judged.

    Attributes:
        period_ms: The length of the period.
        offset_retention_ms: How long the offsets of a group without members are kept; None if unknown.
        is_restricted: Whether the account may not see all groups: Kafka leaves them out without an error.
        spans: The logs, each with the first record of the period.
        future: The partitions whose first record of the period has a time in the future.
        failure: Why the logs could not be read; empty if they were.
    """

    period_ms: int
    offset_retention_ms: int | None
    is_restricted: bool
    groups: GroupReading
    spans: Mapping[TopicPartition, LogSpan] = field(default_factory=dict)
    future: Collection[TopicPartition] = ()
    failure: str = ""

    def judge(self, topic: Observed) -> TopicUsage:
        """Judge the use of one topic."""
        records, why_records = self._judge_records(topic, list_partitions(topic))
        readers, why_readers = self._judge_readers(topic.ref.name)
        return TopicUsage(records, readers, tuple(filter(None, (why_records, why_readers))))

    def _judge_records(self, topic: Observed, partitions: list[TopicPartition]) -> tuple[UseVerdict, str]:
        spans = {partition: self.spans[partition] for partition in partitions if partition in self.spans}
        written = {partition for partition, span in spans.items() if span.at != span.end}
        if written.difference(self.future):
            return UseVerdict.YES, ""
        kept_ms = to_integer(topic.effective.get("config.delete.retention.ms"))
        why = ""
        if len(spans) < len(partitions):
            why = self.failure or "no answer about some partitions"
        elif written:
            why = "a record has a time in the future"
        elif not any(span.end for span in spans.values()):
            why = _NEVER_WRITTEN
        elif any(span.end and span.start == span.end for span in spans.values()):
            # Retention, or a deletion of records: newer ones may have been there, too.
            why = "the records of a partition were all removed"
        # A deleted key leaves a record without a value, which compaction removes after a while.
        elif "compact" in str(topic.effective.get("config.cleanup.policy")) and not (
            kept_ms is not None and kept_ms >= self.period_ms
        ):
            kept = "" if kept_ms is None else f" after {format_duration(kept_ms)}"
            why = f"compaction removes deletions of keys{kept}"
        return (UseVerdict.UNKNOWN, f"records unknown: {why}") if why else (UseVerdict.NONE, "")

    def _judge_readers(self, topic: str) -> tuple[UseVerdict, str]:
        groups = self.groups.groups.values()
        uses = {self._judge_group(group, topic) for group in groups if topic in group.topics}
        if UseVerdict.YES in uses:
            return UseVerdict.YES, ""
        if self.groups.unread or self.groups.denied or self.is_restricted:
            return UseVerdict.UNKNOWN, "readers unknown: not all groups are visible"
        if any(group.unread for group in groups):
            return UseVerdict.UNKNOWN, "readers unknown: the offsets of some groups could not be read"
        # Until a rebalance has ended, a new group has neither partitions nor offsets.
        if any(group.active and group.state != "Stable" and not group.topics for group in groups):
            return UseVerdict.UNKNOWN, "readers unknown: a group is rebalancing"
        if UseVerdict.UNKNOWN in uses:
            return (
                UseVerdict.UNKNOWN,
                "readers unknown: its groups have no members, and nothing was left to read",
            )
        return UseVerdict.NONE, "its groups have no members, and are behind" if uses else ""

    def _judge_group(self, group: Group, topic: str) -> UseVerdict:
        # Offsets without members expire: if there are any, there were members since. Those of a share group
        # do not expire.
        kept_ms = self.offset_retention_ms
        if group.active or (group.protocol != "share" and kept_ms is not None and kept_ms <= self.period_ms):
            return UseVerdict.YES
        committed = {partition: at for partition, at in group.committed.items() if partition[0] == topic}
        spans = {partition: self.spans[partition] for partition in committed if partition in self.spans}
        if any(committed[partition] > (span.at or 0) for partition, span in spans.items()):
            return UseVerdict.YES
        is_behind = any(committed[partition] < span.end for partition, span in spans.items())
        return UseVerdict.NONE if is_behind and len(spans) == len(committed) else UseVerdict.UNKNOWN


def read_usage(
    cluster: ClusterReader, topics: Collection[Observed], groups: GroupReading, period_ms: int, now_ms: int
) -> UsageReading:
    """Read the use of topics in a period, with a few requests to each leader.

    Args:
        groups: The reading of all groups.
        period_ms: The length of the period.
        now_ms: Its end, in milliseconds since 1970.
    """
    facts = cluster.facts()
    unread = UsageReading(period_ms, facts.offset_retention_ms, facts.restricted, groups)
    partitions = [partition for topic in topics for partition in list_partitions(topic)]
    try:
        spans = cluster.log_spans(partitions, now_ms - period_ms)
        written = [partition for partition, span in spans.items() if span.at != span.end]
        later = cluster.offsets_at(dict.fromkeys(written, now_ms + _CLOCKS_DIFFER_MS))
    except ClusterError as error:
        return replace(unread, failure=error.message)
    future = {partition for partition, record in later.items() if record.offset == spans[partition].at}
    return replace(unread, spans=spans, future=future)
