"""Reports as an analysis makes them, for tests of what shows them: the figures of a topic agree."""

import math
from collections.abc import Sequence
from hashlib import sha256

from kafkaform.core.values import replace
from spark_validation.arrivals import EVEN_RATIO, Spread
from spark_validation.results import (
    Estimate,
    GroupResult,
    HotKeyResult,
    Imbalance,
    MemberShare,
    PartitionResult,
    SampleResult,
    SkewCause,
    SkewFinding,
    SkewReport,
    SkewVerdict,
    TopicResult,
    WhatIf,
)

CREATED = "2026-11-01T06:30:00Z"
RECORD_BYTES = 214
FEW_KEYS = 1000
"""A sample sees all of so few keys."""
HOSTILE_NAME = 'orders\x1b[31m|`x`\n## @team #1 </details> --> [a](https://evil.example) %%{init}%% "] \u202e'
"""More than Kafka allows in a name: a report may come from a file."""
HOSTILE_KEY = (
    "</script><img src=x onerror=alert(1)> | `k` @team #12 \x1b]0;t\x07 \u200b--> https://evil.example"
)


def report(*topics: TopicResult, created_at: str = CREATED) -> SkewReport:
    """A report of these topics on the cluster prod."""
    return SkewReport("0.1.0", "Zk3cB9xkQ1mW0o7y5V2a1g", "prod", created_at, topics)


def estimate(value: float, half_width: float) -> Estimate:
    """An estimate whose interval is this wide on either side, as far as there is room above 0."""
    return Estimate(value, max(0.0, value - half_width), value + half_width)


def key(
    name: str,
    share: float,
    partitions: Sequence[int] = (0,),
    *,
    shown: bool = False,
    peak: float = 1.1,
    half_width: float = 0.004,
) -> HotKeyResult:
    """A frequent key of a sample of 10 replicates."""
    return HotKeyResult(
        key_hash=sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12],
        key_length=len(name.encode("utf-8", "surrogatepass")),
        key=name if shown else None,
        share=estimate(share, min(half_width, share / 4)),
        byte_share=estimate(share, min(half_width, share / 4)),
        partitions=tuple(partitions),
        slices_seen=10 if peak < 2 else 2,
        peak=peak,
    )


def topic(
    name: str,
    weights: Sequence[float],
    diagnosis: str = "balanced",
    *,
    population: int = 30_000_000,
    read: int = 1_000_000,
    seed: int = 7,
    keys: int = 200_000,
    null_share: float = 0.0,
    causes: Sequence[SkewCause] = (),
    advice: Sequence[str] = (),
    hot_keys: Sequence[HotKeyResult] = (),
    what_if: Sequence[WhatIf] = (),
    groups: Sequence[GroupResult] = (),
    partitioners: dict[str, float] | None = None,
) -> TopicResult:
    """A topic whose partitions hold records in proportion to these weights, all read if `read` says so."""
    full = read >= population
    relative = 0.0 if full else 0.02
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    is_known = full or keys < FEW_KEYS
    sampled_keys = keys if is_known else keys // 2
    # Half of the keys are on two partitions, if any is.
    on_partitions = sampled_keys * (3 if any(len(item.partitions) > 1 for item in hot_keys) else 2) // 2
    ends = [round(on_partitions * math.fsum(shares[:number])) for number in range(len(shares) + 1)]
    partitions = []
    for number, share in enumerate(shares):
        records, sampled = round(population * share), round(min(read, population) * share)
        partitions.append(
            PartitionResult(
                partition=number,
                log_records=records,
                log_bytes=records * RECORD_BYTES * 2 // 3,
                start_offset=1000,
                end_offset=1000 + records,
                sampled_records=sampled,
                records=estimate(records, records * relative),
                share=estimate(share, share * relative),
                bytes=estimate(records * RECORD_BYTES, records * RECORD_BYTES * relative),
                byte_share=estimate(share, share * relative),
                null_records=round(sampled * null_share),
                distinct_keys=ends[number + 1] - ends[number],
            )
        )
    return TopicResult(
        name=name,
        diagnosis=diagnosis,
        causes=tuple(causes) or (SkewCause(diagnosis, "The fullest partition is near the mean."),),
        advice=tuple(advice),
        sample=SampleResult(
            mode="full" if full else "sample",
            records=min(read, population),
            offsets=min(read, population),
            population=population,
            windows=len(weights) if full else 10 * len(weights),
            slices=1 if full else 10,
            since_ms=None,
            seed=seed,
            precision=None,
            achieved=None if full else max(shares) * relative,
        ),
        partitions=tuple(partitions),
        by_records=imbalance(shares, relative),
        by_bytes=imbalance(shares, relative),
        distinct_keys=Estimate.exact(keys) if is_known else Estimate(keys, keys * 0.98, keys * 1.03),
        sampled_distinct_keys=sampled_keys,
        null_key_share=estimate(null_share, null_share * relative),
        partitioners=partitioners or {"murmur2": 1.0, "crc32": 1 / len(weights), "fnv1a": 0.08, "other": 0.0},
        hot_keys=tuple(hot_keys),
        what_if=tuple(what_if),
        groups=tuple(groups),
        spread=Spread.UNEVEN if max(shares) * len(shares) > EVEN_RATIO else Spread.EVEN,
    )


def imbalance(shares: Sequence[float], relative: float = 0.0) -> Imbalance:
    """The spread of these shares, by its definitions."""
    size = len(shares)
    mean = 1 / size
    cv = math.sqrt(math.fsum((share - mean) ** 2 for share in shares) / size) / mean
    ordered = sorted(shares)
    gini = math.fsum((2 * rank - size - 1) * entry for rank, entry in enumerate(ordered, 1)) / size
    chaos = (
        -math.fsum(share * math.log(share) for share in shares if share) / math.log(size) if size > 1 else 1.0
    )
    figures = (max(shares) / mean, cv, gini, chaos, 1 / max(shares))
    made = Imbalance(*(estimate(value, value * relative) for value in figures))
    return replace(made, entropy=replace(made.entropy, high=min(1.0, made.entropy.high)))


def what_if(*counts: int, ratio: float = 1.1, half_width: float = 0.03) -> tuple[WhatIf, ...]:
    """Predictions for these partition counts."""
    return tuple(
        WhatIf(
            number,
            estimate(ratio + 0.01 * place, half_width),
            estimate(ratio + 0.01 * place, half_width),
            0.5 if place else 0.0,
            estimate(0.5 if place else 0.0, 0.01 if place else 0.0),
        )
        for place, number in enumerate(counts)
    )


def group(
    name: str, members: Sequence[Sequence[int]], shares: Sequence[float], assignor: str = "range"
) -> GroupResult:
    """A group whose members get these partitions of a topic with these shares."""
    held = [MemberShare(tuple(member), math.fsum(shares[number] for number in member)) for member in members]
    return GroupResult(name, assignor, tuple(held), max(item.share for item in held) * len(held))


def build_balanced(name: str = "orders.v1") -> TopicResult:
    """12 partitions, nearly equal, many keys."""
    weights = [100 + (number * 7) % 5 for number in range(12)]
    return topic(
        name,
        weights,
        hot_keys=[key("customer-1", 0.0004, [3]), key("customer-2", 0.0003, [7])],
        what_if=what_if(12, 24, 48, ratio=1.02),
    )


def hot(name: str = "payments.v1") -> TopicResult:
    """One key with 30 % of the records, so one partition with more than that."""
    weights = [7.0] * 12
    weights[4] += 36.0
    shares = [weight / sum(weights) for weight in weights]
    return topic(
        name,
        weights,
        "hot_keys",
        causes=[SkewCause("hot_keys", "1 key has 30.0 % of the records, all on partition 4.", 0.97)],
        advice=[
            "Split the hottest key into 4 salts to bring the fullest partition to 1.9 times the mean.",
            "More partitions will not help: the hottest key alone is 3.6 times the mean of 12 partitions.",
        ],
        hot_keys=[
            key("tenant-0", 0.3, [4]),
            *(key(f"tenant-{number}", 0.02 / number, [number % 12]) for number in range(1, 14)),
        ],
        what_if=what_if(12, 24, 48, ratio=4.3, half_width=0.2),
        groups=(group("checkout-aggregator", [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]], shares),),
    )


def few(name: str = "regions.v1") -> TopicResult:
    """10 keys on 12 partitions, some of which stay empty."""
    weights = [10, 0, 20, 10, 0, 0, 10, 10, 0, 20, 10, 10]
    return topic(
        name,
        weights,
        "few_keys",
        keys=10,
        causes=[SkewCause("few_keys", "10 distinct keys on 12 partitions: 4 partitions have none.", 1.0)],
        advice=["Add a second field to the key, or use at most 6 partitions."],
        hot_keys=[
            key(f"region-{value}", 0.1, [place])
            for value, place in enumerate((0, 2, 2, 3, 6, 7, 9, 9, 10, 11))
        ],
        what_if=what_if(6, 12, 24, ratio=1.8),
    )


def null_keys(name: str = "clicks.v1") -> TopicResult:
    """A third of the records has no key."""
    return topic(
        name,
        [90 + number for number in range(12)],
        "null_keys",
        null_share=0.334,
        causes=[SkewCause("null_keys", "33.4 % of the records have no key and lie on all partitions.")],
        advice=["Give every record a key, or declare the topic with keyed: false."],
    )


def build_mixed(name: str = "shipments.v1") -> TopicResult:
    """Half of the records is placed by CRC32."""
    return topic(
        name,
        [100] * 12,
        "mixed_partitioners",
        causes=[
            SkewCause("mixed_partitioners", "54.2 % lie where murmur2 puts them, 54.1 % where crc32 does.")
        ],
        advice=["Set partitioner=murmur2_random in the librdkafka producers."],
        hot_keys=[key("box-1", 0.001, [3, 9]), key("box-2", 0.001, [1, 2])],
        partitioners={"murmur2": 0.542, "crc32": 0.541, "fnv1a": 0.08, "other": 0.0},
    )


def build_repartitioned(name: str = "invoices.v1") -> TopicResult:
    """From 6 to 12 partitions half-way."""
    return topic(
        name,
        [150] * 6 + [50] * 6,
        "repartitioned",
        causes=[
            SkewCause("repartitioned", "Keys of 6 partitions lie on 12 since 2026-10-12 08:00 UTC.", 0.99)
        ],
        advice=["Write to a new topic with 12 partitions, and read the old one to its end first."],
        hot_keys=[key("invoice-1", 0.002, [1, 7])],
    )


def bursty(name: str = "imports.v1") -> TopicResult:
    """One key fills single windows."""
    return topic(
        name,
        [100] * 11 + [160],
        "bursty",
        causes=[SkewCause("bursty", "1 key is hot in 2 of 10 slices only, up to 4.8 times its share.", 0.8)],
        advice=["Spread the import over more keys, or over more time."],
        hot_keys=[key("batch-17", 0.05, [11], peak=4.8, half_width=0.04)],
    )


def empty(name: str = "audit.v1", partitions: int = 3) -> TopicResult:
    """No record in any partition."""
    nothing = Estimate.exact(0.0)
    made = topic(name, [1] * partitions, "empty", population=0, read=0, keys=0)
    blank = tuple(
        replace(partition, share=nothing, byte_share=nothing, log_bytes=0) for partition in made.partitions
    )
    none = Imbalance(nothing, nothing, nothing, nothing, nothing)
    causes = (SkewCause("empty", "No partition has a record."),)
    return replace(made, partitions=blank, by_records=none, by_bytes=none, causes=causes, partitioners={})


def large(name: str = "events.v1", partitions: int = 120) -> TopicResult:
    """Many partitions, of which a few are hot."""
    weights = [100 + (number * 37) % 23 for number in range(partitions)]
    weights[77 % partitions] = 900
    shares = [weight / sum(weights) for weight in weights]
    everyone = [[number] for number in range(partitions)] + [[], []]
    return topic(
        name,
        weights,
        "hot_keys",
        causes=[SkewCause("hot_keys", "1 key has 5.2 % of the records, all on partition 77.", 0.9)],
        hot_keys=[key("device-9", 0.052, [77])],
        groups=(group("fleet", everyone, shares, "uniform"),),
    )


def build_compacted(name: str = "profiles.v1") -> TopicResult:
    """Read in full; a quarter of the offsets has no record any more, and nobody told the bytes on disk."""
    made = topic(name, [10, 11, 12, 9], population=4_000_000, read=4_000_000)
    partitions = tuple(
        replace(partition, log_records=partition.log_records * 4 // 3, log_bytes=None)
        for partition in made.partitions
    )
    notes = ("compaction took 25.0 % of the offsets away",)
    offsets = sum(partition.log_records for partition in partitions)
    sample = replace(made.sample, offsets=offsets, population=offsets, notes=notes)
    return replace(made, partitions=partitions, sample=sample)


def failing(made: TopicResult) -> TopicResult:
    """The topic with a policy that it surely breaks."""
    reason = "the fullest partition has 4.30 times the mean (at least 4.21); maxPartitionRatio is 2.0"
    finding = SkewFinding(
        "KF501", "error", f"{made.name}: {reason}", "split the hottest key, or raise the limit"
    )
    return replace(made, policy=SkewVerdict("fail", (finding.message,)), findings=(*made.findings, finding))


def add_unknown_policy(made: TopicResult) -> TopicResult:
    """The topic with a policy of which nobody can tell yet."""
    reason = "the hottest key has 5.0 % of the records (1.0 to 9.0 %); maxKeyShare is 5 %"
    finding = SkewFinding("KF502", "warning", f"{made.name}: {reason}", "read more records: --precision 0.01")
    return replace(made, policy=SkewVerdict("warn", (finding.message,)), findings=(*made.findings, finding))


def passing(made: TopicResult) -> TopicResult:
    """The topic with a policy that it keeps."""
    return replace(made, policy=SkewVerdict("pass"))


def hostile() -> TopicResult:
    """Everything foreign tries to break out: names, keys, evidence, advice, notes, findings."""
    made = hot(HOSTILE_NAME)
    return replace(
        made,
        causes=(SkewCause("hot_keys", HOSTILE_KEY, 0.5), SkewCause(HOSTILE_NAME, HOSTILE_NAME)),
        advice=(HOSTILE_KEY,),
        sample=replace(made.sample, notes=(HOSTILE_KEY,)),
        hot_keys=(key(HOSTILE_KEY, 0.3, [4], shown=True), key("plain", 0.01, [1], shown=True)),
        groups=(replace(made.groups[0], name=HOSTILE_NAME, assignor=HOSTILE_KEY),),
        findings=(SkewFinding("KF501", "error", HOSTILE_NAME, HOSTILE_KEY),),
        policy=SkewVerdict("fail", (HOSTILE_KEY,)),
        what_if=(),
        what_if_withheld=HOSTILE_KEY,
        partitioners={HOSTILE_NAME: 1.0},
    )


def everything() -> tuple[TopicResult, ...]:
    """One topic of each diagnosis, and of each verdict."""
    return (
        empty(),
        null_keys(),
        large(),
        add_unknown_policy(bursty()),
        build_repartitioned(),
        passing(build_balanced()),
        failing(hot()),
        build_compacted(),
        few(),
        build_mixed(),
    )
