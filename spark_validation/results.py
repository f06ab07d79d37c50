"""The report of an analysis: estimates of topics with their intervals, and what follows from them.

A report is written as JSON and read back; the format is schemas/skew.schema.json.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import (
    dataclass,
    field,
    fields,
    is_dataclass,
)
from typing import Any, TypeVar

from spark_validation.arrivals import ArrivalPeriod  # noqa: TC001 - reports are read by these types

OMITTED = {"omitted": True}
"""Metadata of a field that a report leaves out where it is None: reports from before it had none."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value for the whole topic with its 95 % confidence interval, which is a point where it is exact."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A value that was counted, not estimated."""
        return cls(value, value, value)


@dataclass(frozen=True, slots=True)
class SkewLimits:
    """The skew policy of a manifest, as advice needs it; None where nothing is declared.

    Attributes:
        max_partition_ratio: The hottest partition over the mean.
        max_key_share: The share of one key, 0 to 1.
        min_distinct_keys: Distinct keys of the topic.
        by: `records` or `bytes`: what ratio and share are of.
    """

    max_partition_ratio: float | None = None
    max_key_share: float | None = None
    min_distinct_keys: int | None = None
    by: str = "records"


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition.

    Attributes:
        partition: Its number.
        log_records: Offsets that were written in the period that the analysis is about; known without
            reading.
        log_bytes: Bytes on disk of the whole partition, one replica, as compressed; None if nobody told.
        start_offset: The first of these offsets.
        end_offset: The offset after the last.
        sampled_records: Records that were read.
        records: Records that were written in the period.
        share: Their share of the topic, 0 to 1.
        bytes: Bytes of keys and values, uncompressed.
        byte_share: Their share of the topic.
        null_records: Records without a key, of those that were read.
        distinct_keys: Distinct keys among those that were read.
        kept_from: The first offset that the log keeps; absent if nobody told.
        kept_since_ms: The time of the record there, in milliseconds since 1970; absent if nobody told.
    """

    partition: int
    log_records: int
    log_bytes: int | None
    start_offset: int
    end_offset: int
    sampled_records: int
    records: Estimate
    share: Estimate
    bytes: Estimate
    byte_share: Estimate
    null_records: int
    distinct_keys: int
    kept_from: int | None = field(default=None, metadata=OMITTED)
    kept_since_ms: int | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The imbalance of partitions.

    Attributes:
        max_mean_ratio: The fullest partition over the mean of all.
        cv: Coefficient of variation: standard deviation over mean.
        gini: 0 when all are equal, 1 - 1/n when one has everything.
        entropy: Shannon's, over its maximum ln n: 1 when all are equal.
        effective_parallelism: 1 over the largest share: how many consumers can usefully work.
    """

    max_mean_ratio: Estimate
    cv: Estimate
    gini: Estimate
    entropy: Estimate
    effective_parallelism: Estimate


@dataclass(frozen=True, slots=True)
class HotKeyResult:
    """A frequent key.

    Attributes:
        key_hash: The first 12 hexadecimal digits of the key's SHA-256.
        key_length: Bytes of the key.
        key: The key as text (backslash escapes for what is not UTF-8); None unless it is to be shown.
        share: Of the topic's records, null keys included.
        byte_share: Of the topic's bytes.
        partitions: Where its sampled records lie, most first.
        slices_seen: In how many replicates it occurs.
        peak: Its largest share at a time over `share.value`; in one replicate where times do not show it.
    """

    key_hash: str
    key_length: int
    key: str | None
    share: Estimate
    byte_share: Estimate
    partitions: tuple[int, ...]
    slices_seen: int
    peak: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The sampled keys on another number of partitions.

    Attributes:
        partitions: How many.
        max_mean_ratio: The fullest partition over the mean, by records.
        byte_max_mean_ratio: The same by bytes.
        keys_moved: Share of the keys that change their partition, 0 to 1.
        records_moved: Share of the records whose key does.
    """

    partitions: int
    max_mean_ratio: Estimate
    byte_max_mean_ratio: Estimate
    keys_moved: float
    records_moved: Estimate


@dataclass(frozen=True, slots=True)
class MemberShare:
    """The share of one member of a group.

    Attributes:
        partitions: Its partitions of the topic.
        share: Its share of the topic's records, 0 to 1.
    """

    partitions: tuple[int, ...]
    share: float


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The shares of a declared group's members under its assignor.

    Attributes:
        name: The group.
        assignor: Its short name, such as `range` or `cooperative-sticky`.
        members: Every member, idle ones too.
        max_mean_ratio: The busiest member over the mean of all.
    """

    name: str
    assignor: str
    members: tuple[MemberShare, ...]
    max_mean_ratio: float


@dataclass(frozen=True, slots=True)
class SkewCause:
    """A cause of how the keys lie on the partitions.

    Attributes:
        name: hot_keys, few_keys, null_keys, mixed_partitioners, repartitioned, bursty or unknown; alone also
            balanced, too_little_data or empty.
        evidence: The figures it follows from, in one sentence.
        explains: The part of the skew that it explains, 0 to 1; None where that makes no sense.
    """

    name: str
    evidence: str
    explains: float | None = None


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The sample that was read.

    Attributes:
        mode: `sample`, `full`, or `file`.
        records: Records that were read.
        offsets: Offsets that were asked for.
        population: Offsets that the analysis is about.
        windows: Windows that were read.
        slices: The number of replicates: small samples of the whole topic, which show how sure estimates are.
        since_ms: Only records from then on, in milliseconds since 1970; None for all.
        seed: Of the windows' places.
        precision: The wanted half width of the interval of a share; None if none was asked for.
        achieved: The half width that the widest interval of a partition's or key's share has.
        notes: What was met while reading: compaction, transactions, retention that moved, empty partitions.
    """

    mode: str
    records: int
    offsets: int
    population: int
    windows: int
    slices: int
    since_ms: int | None
    seed: int
    precision: float | None
    achieved: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkewFinding:
    """A finding of a rule of the catalogue (KF5xx); severity is `error`, `warning` or `info`."""

    code: str
    severity: str
    message: str
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class SkewVerdict:
    """A topic against its declared policy.

    Attributes:
        status: `pass`, `warn` (an interval straddles a limit), or `fail` (a limit is surely broken).
        reasons: A sentence for each limit that is not surely kept.
    """

    status: str
    reasons: tuple[str, ...] = ()


ENOUGH_REPEATS = 100
"""So many records of keys that were seen before show it if 5 % of the records are placed otherwise."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """One topic.

    Attributes:
        name: The topic.
        diagnosis: The first cause's name; `balanced` where there is none, `too_little_data`, or `empty` where
            there is no record.
        causes: Every cause, the most telling first.
        advice: What to do, in sentences computed from the data.
        sample: What was read.
        partitions: By number.
        by_records: The imbalance of records.
        by_bytes: The imbalance of bytes.
        distinct_keys: Of the topic.
        sampled_distinct_keys: In the sample.
        null_key_share: Records without a key, 0 to 1.
        partitioners: For murmur2, crc32, fnv1a and `other`, the share of sampled records with a key that lie
            where it puts them; one may lie where several do.
        hot_keys: The most frequent, most records first.
        what_if: By partition count; none where no prediction holds.
        what_if_withheld: Why no prediction holds; absent where some are given, or none was computed.
        groups: Declared groups that read the topic.
        findings: What rules say; only where manifests were at hand.
        policy: The verdict; None where no policy is declared, or no manifests were at hand.
        spread: How evenly the records or bytes that were written lie on partitions: even, uneven, or too
            little data; absent in reports from before it was told.
        arrivals: The offsets that were written to each partition, by period, that of the analysis first;
            absent where none is known.
        arrivals_unknown: Why no period is known that all logs cover; absent where one is, or none was looked
            for.
        keys_withheld: Why nothing is told of the shares of keys; absent where it is.
        keys_since_ms: The time of the first record whose key was counted, in milliseconds since 1970, where
            compaction has removed older ones; absent elsewhere.
        retention_bytes: The topic's retention.bytes; absent where it has no limit, or nobody told.
    """

    name: str
    diagnosis: str
    causes: tuple[SkewCause, ...]
    advice: tuple[str, ...]
    sample: SampleResult
    partitions: tuple[PartitionResult, ...]
    by_records: Imbalance
    by_bytes: Imbalance
    distinct_keys: Estimate
    sampled_distinct_keys: int
    null_key_share: Estimate
    partitioners: dict[str, float] = field(default_factory=dict)
    hot_keys: tuple[HotKeyResult, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    findings: tuple[SkewFinding, ...] = ()
    policy: SkewVerdict | None = None
    what_if_withheld: str | None = field(default=None, metadata=OMITTED)
    spread: str | None = field(default=None, metadata=OMITTED)
    arrivals: tuple[ArrivalPeriod, ...] | None = field(default=None, metadata=OMITTED)
    arrivals_unknown: str | None = field(default=None, metadata=OMITTED)
    keys_withheld: str | None = field(default=None, metadata=OMITTED)
    keys_since_ms: int | None = field(default=None, metadata=OMITTED)
    retention_bytes: int | None = field(default=None, metadata=OMITTED)

    @property
    def keys_stay(self) -> bool | None:
        """Return whether each sampled key lies on one partition alone; None if too few recur to tell."""
        if sum(partition.distinct_keys for partition in self.partitions) > self.sampled_distinct_keys:
            return False
        keyed = sum(partition.sampled_records - partition.null_records for partition in self.partitions)
        return True if keyed - self.sampled_distinct_keys >= ENOUGH_REPEATS else None


@dataclass(frozen=True, slots=True)
class SkewReport:
    """The analysis of topics of one cluster.

    Attributes:
        tool_version: Of kafkaform.
        cluster_id: The cluster's own id; None where the records came from files.
        cluster_name: Its name in kafkaform.yaml; None if it has none.
        created_at: When it was made, such as 2026-11-01T00:00:00Z.
        topics: By name.
    """

    tool_version: str
    cluster_id: str | None
    cluster_name: str | None
    created_at: str
    topics: tuple[TopicResult, ...]


FORMAT_VERSION = 1

T = TypeVar("T")


def to_json(report: SkewReport) -> str:
    """The report as JSON, which ends with a newline."""
    return json.dumps({"format_version": FORMAT_VERSION, **_plain(report)}, indent=1, allow_nan=False) + "\n"


def from_document(document: dict[str, Any]) -> SkewReport:
    """The report of a JSON document that the schema accepts."""
    plain = {name: value for name, value in document.items() if name != "format_version"}
    return typing.cast("SkewReport", _built(SkewReport, plain))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        given = [(field, getattr(value, field.name)) for field in fields(value)]
        return {field.name: _plain(own) for field, own in given if own is not None or not field.metadata}
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _built(kind: Any, value: Any) -> Any:
    """A value of a type as the dataclasses of `results` annotate it."""
    origin = typing.get_origin(kind)
    if value is None:
        return None
    if origin is types.UnionType:
        return _built(next(part for part in typing.get_args(kind) if part is not types.NoneType), value)
    if origin is tuple:
        return tuple(_built(typing.get_args(kind)[0], item) for item in value)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind, globals())
        return typing.cast("type", kind)(**{name: _built(hints[name], item) for name, item in value.items()})
    return float(value) if kind is float else value
