"""The report of an analysis: estimates of topics with their intervals, and what follows from them.

A report is written as JSON and read back; the format is schemas/skew.schema.json.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

PARTITIONER_NAMES = {
    "murmur2": "murmur2 (Java's default)",
    "crc32": "CRC32 (librdkafka's default)",
    "fnv1a": "FNV-1a (Sarama's default, kafka-go's Hash)",
    "fnv1a_masked": "FNV-1a without its sign bit (Sarama's and kafka-go's reference hash)",
    "fnv1a_unsigned": "unsigned FNV-1a (franz-go's SaramaHasher)",
    "murmur2_kafkajs": "kafkajs's LegacyPartitioner (its default before version 2)",
    "xxhash32": "xxHash32 (kafka-rust's default)",
}
"""The names by which users of clients know the partitioners of hashing.PARTITIONERS."""

OMITTED = {"omitted": True}
"""Metadata of a field that a report omits where it is None, as reports made before it existed do."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value for the whole topic with its 95 % confidence interval, which is a point where it is exact."""

    value: float
    low: float
    high: float

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """Return a value that was counted, not estimated."""
        return cls(value, value, value)


@dataclass(frozen=True, slots=True)
class SkewLimits:
    """The skew policy of a manifest, as advice needs it; None where nothing is declared.

    Attributes:
        max_partition_ratio: The hottest partition over the mean.
        max_key_share: The share of one key, 0 to 1.
        min_distinct_keys: Distinct keys of the topic.
        by: `records` or `bytes`: what ratio and share are of.
        of: `period` or `now`: whether they are of the whole period or of the newest part of the log.
    """

    max_partition_ratio: float | None = None
    max_key_share: float | None = None
    min_distinct_keys: int | None = None
    by: str = "records"
    of: str = "period"


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """One partition.

    Attributes:
        partition: Its number.
        log_records: Offsets that were written in the period that the analysis is about; known without
            reading.
        log_bytes: Bytes on disk of the whole partition, one replica, as compressed; None if unknown.
        start_offset: The first of these offsets.
        end_offset: The offset after the last.
        sampled_records: Records that were read.
        records: Records that were written in the period.
        share: Their share of the topic, 0 to 1.
        bytes: Bytes of keys and values, uncompressed.
        byte_share: Their share of the topic.
        null_records: Records without a key, of those that were read.
        distinct_keys: Distinct keys among those that were read.
        kept_from: The first offset that the log keeps; absent if unknown.
        kept_since_ms: The time of the record there, in milliseconds since 1970; absent if unknown.
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
        peak: Its largest share at a time over `share.value`, as far as these are seen (the topic's
            `shortest_ms`); in one replicate where times do not show it.
        now: Its share of the records of the newest part of the log; absent if that is not known.
        byte_now: The same of the bytes.
    """

    key_hash: str
    key_length: int
    key: str | None
    share: Estimate
    byte_share: Estimate
    partitions: tuple[int, ...]
    slices_seen: int
    peak: float
    now: Estimate | None = field(default=None, metadata=OMITTED)
    byte_now: Estimate | None = field(default=None, metadata=OMITTED)


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
class EmptyFacts:
    """A topic without records.

    Attributes:
        offsets_read: The offsets that were read, of which none has a record.
    """

    offsets_read: int


@dataclass(frozen=True, slots=True)
class LittleDataFacts:
    """Too few records to judge.

    Attributes:
        written: The records that were written in the period.
        fewest: The fewest that are judged.
    """

    written: int
    fewest: int


@dataclass(frozen=True, slots=True)
class BalancedFacts:
    """An even spread.

    Attributes:
        partition_count: The topic's partitions.
        record_ratio: The fullest partition over the mean, by records.
        byte_ratio: The same by bytes.
        largest_key: The share of the most frequent key in the records; 0 if none is known.
        null_key_share: Records without a key.
        by_chance: Where a ratio is above 1.25, the one that such keys exceed by chance in one of 100 cases.
    """

    partition_count: int
    record_ratio: Estimate
    byte_ratio: Estimate
    largest_key: float
    null_key_share: Estimate
    by_chance: float | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class UnexplainedFacts:
    """A skew that no few keys cause.

    Attributes:
        reason: `keys_withheld`, `own_partitioner` (producers choose partitions themselves), `no_keys`, or
            `many_keys`.
        by: `records` or `bytes`.
        fullest: The fullest partition.
        ratio: The fullest partition over the mean.
        record_ratio: The same by records.
        examined_keys: The number of most frequent keys whose shares are known.
        largest_key: The share of the largest of them.
        largest_keys: Their share together.
        key_ratio: The keys on the fullest partition over the mean.
    """

    reason: str
    by: str
    fullest: int
    ratio: Estimate
    record_ratio: Estimate
    examined_keys: int
    largest_key: float
    largest_keys: float
    key_ratio: float = field(default=1.0, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class KeyShare:
    """A key that causes skew; its interval is that of the hot key with the same hash.

    Attributes:
        key_hash: The first 12 hexadecimal digits of the key's SHA-256.
        key_length: Bytes of the key.
        share: Its share of the records or bytes, 0 to 1.
    """

    key_hash: str
    key_length: int
    share: float


@dataclass(frozen=True, slots=True)
class HotKeysFacts:
    """The fewest keys that explain the skew.

    Attributes:
        by: `records` or `bytes`.
        keys: Largest first.
        fullest: The fullest partition.
        ratio: The fullest partition over the mean.
        ratio_without: The same without these keys.
        record_ratio: The fullest partition over the mean, by records.
    """

    by: str
    keys: tuple[KeyShare, ...]
    fullest: int
    ratio: Estimate
    ratio_without: float
    record_ratio: Estimate


@dataclass(frozen=True, slots=True)
class FewKeysFacts:
    """Keys too few to fill the partitions evenly.

    Attributes:
        distinct_keys: Of the topic.
        partition_count: The topic's partitions.
        keyless_partitions: Partitions without a key.
        ratio_by_chance: The fullest partition over the mean that so many equal keys are expected to make.
        ratio: The measured one.
        by: `records` or `bytes`: what it is of.
    """

    distinct_keys: Estimate
    partition_count: int
    keyless_partitions: int
    ratio_by_chance: float
    ratio: Estimate
    by: str = field(default="records", metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class NullKeysFacts:
    """Records without a key.

    Attributes:
        null_key_share: Of the topic's records.
        spread: `evenly`, `unevenly`, `in batches`, or `by choice` of the partition by producers.
        null_ratio: The fullest partition over the mean, of these records.
        dispersion: The variance of their share between windows over that by chance; None if unknown.
        chosen_partitions: The partitions that producers choose.
    """

    null_key_share: Estimate
    spread: str
    null_ratio: float
    dispersion: float | None
    chosen_partitions: tuple[int, ...] = field(default=(), metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class BurstFacts:
    """The strongest burst.

    Attributes:
        by: `records` or `bytes`.
        burst_share: The partition's, or else the key's, share of the topic during the burst.
        usual_share: The same share over all the time compared.
        partition: Its partition; None where only a key bursts.
        partition_count: The topic's partitions.
        start_ms: When it began, in milliseconds since 1970; 0 where timestamps could not be used.
        end_ms: When it ended; 0 likewise.
        key_hash: The start of the hash of the key that causes it; None where no frequent key does.
        key_length: Bytes of this key.
        key_peak: The key's largest share at a time over its overall share; None if unknown.
        part: The part of the log where the key bursts, from 1, where timestamps could not be used; else 0.
        parts: The number of equal parts of the log; 0 likewise.
        parts_with_key: In how many of them the key occurs.
        other_partitions: Other partitions that burst at some time.
        ongoing: Whether it lasts to the end of the log.
    """

    by: str
    burst_share: float
    usual_share: float
    partition: int | None
    partition_count: int
    start_ms: float = 0.0
    end_ms: float = 0.0
    key_hash: str | None = None
    key_length: int = 0
    key_peak: float | None = None
    part: int = 0
    parts: int = 0
    parts_with_key: int = 0
    other_partitions: int = 0
    ongoing: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """The end of a partition's misplaced records.

    Attributes:
        partition: The partition.
        start: The first offset of the last window that has misplaced records.
        end: The offset after the last of the next window, which has none.
        last: The replicate of the former.
        next: The replicate of the latter.
    """

    partition: int
    start: int
    end: int
    last: int
    next: int


@dataclass(frozen=True, slots=True)
class MixedFacts:
    """Several partitioners, or an unknown one.

    Attributes:
        main: The partitioner that explains most.
        misplaced: The share of the records with a key that it does not explain.
        partitioner_shares: For each partitioner at work, and `other`, its share, corrected for chance.
        chance: The share that a partitioner fits by chance: 1 over the partition count.
        shared_keys: Sampled keys on several partitions.
        shared_records: The share of the sampled records with a key that have one of these.
        stray_partitions: The partitions that have nearly all records of no known partitioner, if few.
        now: The partitioner that alone is at work since the misplaced records ended; None if they did not.
        ended_after_ms: A time before that end, in milliseconds since 1970; None if unknown.
        ended_before_ms: A time after it; None likewise.
        steps: The partitions where the end can be seen.
        first_part: The first of the equal parts of the log with misplaced records, from 1; 0 if they ended.
        last_part: The last one.
        parts: The number of equal parts.
    """

    main: str
    misplaced: float
    partitioner_shares: dict[str, float]
    chance: float
    shared_keys: int
    shared_records: float
    stray_partitions: tuple[int, ...]
    now: str | None = None
    ended_after_ms: int | None = None
    ended_before_ms: int | None = None
    steps: tuple[Step, ...] = ()
    first_part: int = 0
    last_part: int = 0
    parts: int = 0


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """A change of a topic's partition count that was recorded.

    Attributes:
        before: The partition count before.
        after: The count after.
        since_ms: When it took place at the earliest, in milliseconds since 1970.
        until_ms: When at the latest.
        source: What recorded it, such as `the audit record`.
    """

    before: int
    after: int
    since_ms: int
    until_ms: int
    source: str


@dataclass(frozen=True, slots=True)
class PartitionIncrease:
    """A partition increase that the records show.

    Attributes:
        earlier: The partition count before.
        later: The count after.
        partitioners: The partitioners that placed the keys before, most keys first.
        last_before_ms: The latest timestamp of records that only the earlier count explains; None where times
            are not in order.
        first_after_ms: The earliest timestamp on the partitions that were added, likewise; None also where
            they have no record yet.
        known: The change as it was recorded; None where it was not.
    """

    earlier: int
    later: int
    partitioners: tuple[str, ...]
    last_before_ms: int | None
    first_after_ms: int | None
    known: PartitionChange | None = None


@dataclass(frozen=True, slots=True)
class RepartitionFacts:
    """Keys placed on fewer partitions than there are now.

    Attributes:
        partition_count: The topic's partitions.
        misplaced: The share of the records with a key that are not where the last count's partitioner puts
            them on the present count.
        explained: The share of the records unexplained on the present count that earlier counts explain.
        increases: In the order of time.
        steps: The partitions where the end of the misplaced records can be seen.
        newer: The partitioner of newer records, where it is another one; else null.
        shared_keys: Sampled keys on several partitions.
    """

    partition_count: int
    misplaced: float
    explained: float
    increases: tuple[PartitionIncrease, ...]
    steps: tuple[Step, ...]
    newer: str | None
    shared_keys: int


@dataclass(frozen=True, slots=True)
class OwnPlacement:
    """A placement of keys that Java's default partitioner does not share.

    Attributes:
        partitioner: The one partitioner that places all keys; None if it is not a known one.
        java_misplaced: The share of the keys that Java's default would put elsewhere; None likewise.
        shared_keys: Sampled keys on several partitions.
    """

    partitioner: str | None
    java_misplaced: float | None
    shared_keys: int


CauseFacts: TypeAlias = (
    EmptyFacts
    | LittleDataFacts
    | BalancedFacts
    | UnexplainedFacts
    | HotKeysFacts
    | FewKeysFacts
    | NullKeysFacts
    | BurstFacts
    | MixedFacts
    | RepartitionFacts
)


@dataclass(frozen=True, slots=True)
class SkewCause:
    """A cause of how the keys lie on the partitions.

    Attributes:
        name: hot_keys, few_keys, null_keys, mixed_partitioners, repartitioned, bursty or unknown; alone also
            balanced, too_little_data or empty.
        evidence: The facts as a sentence (`wording.describe_cause`).
        explains: The part of the skew that it explains, 0 to 1; None where that makes no sense.
        facts: The figures that it follows from; absent in reports made before they existed.
        placement: The placement of the keys, with the main cause, where Java's default partitioner would put
            them elsewhere; else absent.
        since_ms: When it began, in milliseconds since 1970; absent where it was there from the first record
            on, comes back, or times do not show it.
        until_ms: When it ended; absent where it did not.
        times: How often it was there; absent where it was there once.
        share_now: The share of its keys, or of records without a key, in what is written now: since it last
            changed, or, of a cause that comes back, while it is there. Absent where that is the overall one.
    """

    name: str
    evidence: str = ""
    explains: float | None = None
    facts: CauseFacts | None = field(default=None, metadata=OMITTED)
    placement: OwnPlacement | None = field(default=None, metadata=OMITTED)
    since_ms: int | None = field(default=None, metadata=OMITTED)
    until_ms: int | None = field(default=None, metadata=OMITTED)
    times: int | None = field(default=None, metadata=OMITTED)
    share_now: float | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The sample that was read.

    Attributes:
        mode: `sample`, `full`, or `file`.
        records: Records that were read.
        offsets: Offsets that were asked for.
        population: Offsets that the analysis is about.
        windows: Windows that were read.
        slices: The number of replicates: small samples of the whole topic, which show how precise estimates
            are.
        since_ms: Only records from then on, in milliseconds since 1970; None for all.
        seed: The seed of the windows' places.
        precision: The wanted half width of the interval of a share; None if none was asked for.
        achieved: The half width that the widest interval of a partition's or key's share has.
        notes: Notes on the reading: compaction, transactions, retention that moved, empty partitions.
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
        status: `pass`, `warn` (an interval straddles a limit), `fail` (a limit is surely broken), or
            `unknown` (a limit cannot be checked, and no other is surely broken).
        reasons: A sentence for each limit that is not surely kept.
    """

    status: str
    reasons: tuple[str, ...] = ()


def ratio_of(counts: Sequence[int]) -> float | None:
    """Return the fullest partition over the mean; None if nothing arrived."""
    total = sum(counts)
    return max(counts) * len(counts) / total if total else None


def bound_ratio(
    counts: Sequence[int], least: Sequence[int] | None, most: Sequence[int] | None
) -> Estimate | None:
    """Return the fullest partition over the mean, and how small and how large it may be.

    Args:
        counts: The records of each partition.
        least: The fewest that each may have got; None if the counts are exact.
    """
    value, size = ratio_of(counts), len(counts)
    if value is None or least is None or most is None:
        return None if value is None else Estimate.exact(value)
    bounds = [*zip(least, most, strict=True)]
    # One partition as full as it may be, or as empty, and all others the other way.
    high = max(many * size / (sum(least) - few + many) for few, many in bounds if many)
    low = max((few * size / (sum(most) - many + few) for few, many in bounds if few), default=1.0)
    return Estimate(value, max(1.0, min(low, value)), max(high, value))


@dataclass(frozen=True, slots=True)
class ArrivalPeriod:
    """The records that arrived in each partition of a topic in one period.

    Attributes:
        name: common (the period that the logs of all partitions cover, or the part of it since `--since`),
            hour, day, or made (since the topic was made).
        since_ms: Its start, in milliseconds since 1970; None since the topic was made.
        until_ms: Its end, in milliseconds since 1970.
        counts: Offsets that were written, by partition; empty if that is not known.
        least: The fewest records that each partition may have got; absent where the counts are exact.
        most: The most, likewise.
        unknown: Why the counts are not known; absent where they are.
    """

    name: str
    since_ms: int | None
    until_ms: int
    counts: tuple[int, ...]
    least: tuple[int, ...] | None = field(default=None, metadata=OMITTED)
    most: tuple[int, ...] | None = field(default=None, metadata=OMITTED)
    unknown: str | None = field(default=None, metadata=OMITTED)

    @property
    def total(self) -> int:
        """The records of all partitions."""
        return sum(self.counts)

    @property
    def ratio(self) -> float | None:
        """The fullest partition over the mean; None if nothing arrived, or it is not known."""
        return ratio_of(self.counts)

    @property
    def estimated_ratio(self) -> Estimate | None:
        """The ratio with its bounds."""
        return bound_ratio(self.counts, self.least, self.most)


@dataclass(frozen=True, slots=True)
class NewestPart:
    """The newest part of the log: the last hour or the last tenth of the records.

    That is the shorter one that has enough records.

    Attributes:
        since_ms: Its start, in milliseconds since 1970.
        until_ms: Its end.
        shares: The share of each partition in its records.
        byte_shares: The same of the bytes.
        record_ratio: The fullest partition over the mean, by records.
        byte_ratio: The same by bytes.
    """

    since_ms: int
    until_ms: int
    shares: tuple[Estimate, ...]
    byte_shares: tuple[Estimate, ...]
    record_ratio: Estimate
    byte_ratio: Estimate


ENOUGH_REPEATS = 100
"""The fewest records of keys seen before that show it if 5 % of the records are placed otherwise."""


@dataclass(frozen=True, slots=True)
class TopicResult:
    """One topic.

    Attributes:
        name: The topic.
        diagnosis: The first cause's name; `balanced` where there is none, `too_little_data`, or `empty` where
            there is no record.
        causes: Every cause, the main one first.
        advice: What to do, in sentences computed from the data.
        sample: The sample that was read.
        partitions: By number.
        by_records: The imbalance of records.
        by_bytes: The imbalance of bytes.
        distinct_keys: Of the topic.
        sampled_distinct_keys: In the sample.
        null_key_share: Records without a key, 0 to 1.
        partitioners: For each of PARTITIONER_NAMES and `other`, the share of sampled records with a key that
            lie where it puts them; one may lie where several do.
        hot_keys: Those with the largest share of records or of bytes, most records first.
        what_if: By partition count; none where no prediction holds.
        what_if_withheld: Why no prediction holds; absent where some are given, or none was computed.
        groups: Declared groups that read the topic.
        findings: The findings of rules; only where manifests were available.
        policy: The verdict; None where no policy is declared, or no manifests were available.
        spread: How evenly the records or bytes that were written lie on partitions: even, uneven, too little
            data, or not known (if a period was asked for that is not); absent in reports made before it
            existed.
        arrivals: The offsets that were written to each partition, by period, that of the analysis first;
            absent where none is known.
        arrivals_unknown: Why no period is known that all logs cover, and partitions are counted since the
            topic was made; absent where one is, or none was looked for. With it, no limit of the ratio is
            checked.
        bytes_unknown: Why the bytes of partitions are those of records elsewhere; absent where they are their
            own. With it, no limit of the ratio by bytes is checked.
        keys_withheld: Why the shares of keys are not reported; absent where they are.
        keys_since_ms: The time of the first record whose key was counted, in milliseconds since 1970, where
            older ones have been removed; absent elsewhere.
        retention_bytes: The topic's retention.bytes, -1 without a limit; absent if unknown.
        now: The newest part of the log; absent where it has too few records, or where times do not show it.
        shortest_ms: The least length of bursts and of peaks of keys that are seen, in milliseconds: whether
            there are shorter ones is not known. Absent where times do not show any.
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
    bytes_unknown: str | None = field(default=None, metadata=OMITTED)
    keys_withheld: str | None = field(default=None, metadata=OMITTED)
    keys_since_ms: int | None = field(default=None, metadata=OMITTED)
    retention_bytes: int | None = field(default=None, metadata=OMITTED)
    now: NewestPart | None = field(default=None, metadata=OMITTED)
    shortest_ms: int | None = field(default=None, metadata=OMITTED)

    @property
    def keys_stay(self) -> bool | None:
        """Return whether each sampled key lies on one partition alone; None if too few recur to show it."""
        # A key on two partitions is counted on both.
        if sum(partition.distinct_keys for partition in self.partitions) > self.sampled_distinct_keys:
            return False
        keyed = sum(partition.sampled_records - partition.null_records for partition in self.partitions)
        return True if keyed - self.sampled_distinct_keys >= ENOUGH_REPEATS else None


@dataclass(frozen=True, slots=True)
class SkewReport:
    """The analysis of topics of one cluster.

    Attributes:
        tool_version: The version of kafkaform.
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
    """Return the report as JSON, which ends with a newline."""
    return (
        # JSON has no NaN: Python would write it, and other readers refuse the report.
        json.dumps({"format_version": FORMAT_VERSION, **_to_plain(report)}, indent=1, allow_nan=False) + "\n"
    )


def from_document(document: dict[str, Any]) -> SkewReport:
    """Return the report of a JSON document that the schema accepts."""
    plain = {name: value for name, value in document.items() if name != "format_version"}
    return typing.cast("SkewReport", _build(SkewReport, plain))


def _to_plain(value: Any) -> Any:
    if is_dataclass(value):
        given = [(field, getattr(value, field.name)) for field in fields(value)]
        return {field.name: _to_plain(own) for field, own in given if own is not None or not field.metadata}
    if isinstance(value, dict):
        return {name: _to_plain(item) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_plain(item) for item in value]
    return value


def _build(kind: Any, value: Any) -> Any:
    """Build a value of a type as the dataclasses here annotate it."""
    origin = typing.get_origin(kind)
    if value is None:
        return None
    if origin is types.UnionType:
        return _build(_choose_type(typing.get_args(kind), value), value)
    if origin is tuple:
        return tuple(_build(typing.get_args(kind)[0], item) for item in value)
    if is_dataclass(kind):
        # Annotations of this module are text, as of `from __future__ import annotations`.
        hints = typing.get_type_hints(kind, globals())
        return typing.cast("type", kind)(**{name: _build(hints[name], item) for name, item in value.items()})
    # Other writers of JSON may write 1.0 as 1, which Python reads as an int.
    return float(value) if kind is float else value


def _choose_type(kinds: tuple[Any, ...], value: Any) -> Any:
    """Return the type of a union that a value has: of several dataclasses, the one with these fields."""
    given = [kind for kind in kinds if kind is not types.NoneType]
    if len(given) == 1:
        return given[0]
    return next(kind for kind in given if _has_fields(kind, value.keys()))


def _has_fields(kind: Any, names: Set[str]) -> bool:
    """Return whether these are the fields of a dataclass, but for those that older reports do not have."""
    required = {field.name for field in fields(kind) if not field.metadata}
    return required <= names <= {field.name for field in fields(kind)}
