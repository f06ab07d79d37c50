"""KF501 to KF510: topics whose records were measured."""

from typing import Any

from kafkaform.core.model import Desired
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from spark_validation.results import ArrivalPeriod, Estimate, NewestPart, TopicResult
from tests.support.plans.rules import Row, is_quiet, trips
from tests.support.plans.scenes import absent, declare_topic
from tests.support.skew.scenes import FINE, SURE, UNSURE, build_result, declare_policy, empty, hot, what_if
from tests.support.skew.scenes import scene as of_records
from tests.unit.rules.rows.changes import build_update

RATIO, KEY, DISTINCT = "skew.maxPartitionRatio", "skew.maxKeyShare", "skew.minDistinctKeys"
NOW, HOUR, DAY = 1_790_000_000_000, 3_600_000, 86_400_000


TWICE, TWICE_BYTES = declare_policy(maxPartitionRatio=2.0), declare_policy(maxPartitionRatio=2.0, by="bytes")
KEYED = declare_policy(keyed=True)


def build_ratio(ratio: Estimate, **result: Any) -> RuleContext:
    return of_records(TWICE, build_result(ratio=ratio, **result))


def build_now(**limits: Any) -> RuleContext:
    return of_records(declare_policy(of="now", **limits), build_result())


def build_hot_keys(*keys: Any, by: str = "records") -> RuleContext:
    return of_records(declare_policy(maxKeyShare=0.05, by=by), build_result(hot_keys=keys))


def build_distinct(distinct: Estimate) -> RuleContext:
    return of_records(declare_policy(minDistinctKeys=1000), build_result(distinct=distinct))


def few(distinct: Estimate, topic: Desired | None = None, **result: Any) -> RuleContext:
    return of_records(topic, build_result(partitions=12, distinct=distinct, **result))


BIG, MAYBE, SMALL = Estimate(0.314, 0.29, 0.338), Estimate(0.05, 0.04, 0.06), Estimate(0.01, 0.008, 0.012)
HALF_SURE, OTHER = Estimate(0.2, 0.04, 0.5), Estimate(0.1, 0.09, 0.11)
FORTY = build_result(
    diagnosis="few_keys", evidence="40 keys on 12 partitions.", distinct=Estimate.exact(40.0)
)
TEN = Estimate.exact(10.0)
THREE = (hot("a", Estimate.exact(0.1)), hot("b", BIG, key="alice@example.org"), hot("c", MAYBE))
IN_BYTES = build_result(ratio=FINE, byte_ratio=SURE)
OFF_BY_TEN = build_result(ratio=SURE, diagnosis="hot_keys", advice=["Split the hot key.", "Another."])

LIMITS: list[Row] = [
    trips("KF501 with advice", of_records(TWICE, OFF_BY_TEN), f"a error {RATIO}"),
    trips("KF501 surely", build_ratio(SURE), f"a error {RATIO}"),
    trips("KF501 perhaps", build_ratio(UNSURE), f"a warning {RATIO}"),
    trips("KF501 just above", build_ratio(Estimate(2.0012, 2.0004, 2.002)), f"a error {RATIO}"),
    trips("KF501 bytes", of_records(TWICE_BYTES, IN_BYTES), f"a error {RATIO}"),
    # The near end is the limit itself.
    trips("KF501", build_ratio(Estimate(2.5, 2.0, 2.9)), f"a warning {RATIO}"),
    # What the policy is about may have no newest part.
    trips("KF501 no newest part", build_now(maxPartitionRatio=2.0), f"a warning {RATIO}"),
    trips("KF501 no newest part, a key", build_now(maxKeyShare=0.1), f"a warning {RATIO}"),
    *is_quiet("KF501", *map(build_ratio, (FINE, Estimate(1.5, 1.4, 2.0), Estimate.exact(2.0)))),
    *is_quiet("KF501", build_ratio(FINE, byte_ratio=SURE)),
    trips("KF502 surely", build_hot_keys(hot("a", BIG)), f"a error {KEY}"),
    trips("KF502 perhaps", build_hot_keys(hot("a", MAYBE)), f"a warning {KEY}"),
    trips("KF502 the largest of three", build_hot_keys(*THREE), f"a error {KEY}"),
    trips("KF502 the surest of two", build_hot_keys(hot("a", HALF_SURE), hot("b", OTHER)), f"a error {KEY}"),
    trips("KF502 the empty key", build_hot_keys(replace(hot("a", BIG), key_length=0)), f"a error {KEY}"),
    trips("KF502 just above", build_hot_keys(hot("a", Estimate.exact(0.0500001))), f"a error {KEY}"),
    trips("KF502 bytes", build_hot_keys(hot("a", SMALL, BIG), by="bytes"), f"a error {KEY}"),
    *is_quiet("KF502", build_hot_keys(hot("a", SMALL)), build_hot_keys(hot("a", SMALL, BIG))),
    trips("KF503 surely", build_distinct(Estimate(900.0, 800.0, 999.0)), f"a error {DISTINCT}"),
    trips("KF503 perhaps", build_distinct(Estimate(1000.0, 900.0, 1100.0)), f"a warning {DISTINCT}"),
    trips("KF503", build_distinct(Estimate.exact(999.0)), f"a error {DISTINCT}"),
    *is_quiet("KF503", build_distinct(Estimate.exact(1000.0))),
    # Without a limit, fewer keys than partitions are a warning.
    trips("KF503 undeclared", few(TEN), "a warning"),
    trips("KF503", few(TEN, declare_policy()), "a warning partitions"),
    trips("KF503 the diagnosis", of_records(declare_topic("a"), FORTY), "a warning partitions"),
    *is_quiet(
        "KF503",
        *(
            few(Estimate(10.0, 9.0, 12.0), topic)
            for topic in (None, declare_policy(), declare_policy(maxKeyShare=1.0))
        ),
        of_records(declare_policy(minDistinctKeys=40), FORTY),
        few(TEN, declare_topic("a"), null_share=0.9),
        few(Estimate.exact(0.0), declare_topic("a"), null_share=0.9),
    ),
]


def apart(diagnosis: str) -> TopicResult:
    topic = build_result(diagnosis=diagnosis, evidence="12 % of the keys lie on two partitions.")
    return replace(topic, sampled_distinct_keys=1600)


CRC = replace(build_result(), partitioners={"murmur2": 0.08, "crc32": 1.0, "fnv1a": 0.08, "other": 0.0})
COMPACTED = declare_policy(keyed=False, configs={"config.cleanup.policy": "compact,delete"})


def build_nulls(share: float, keyed: bool | None = True) -> RuleContext:
    return of_records(declare_policy(keyed=keyed), build_result(null_share=share))


KEYS: list[Row] = [
    *(
        row
        for diagnosis in ("mixed_partitioners", "repartitioned")
        for row in (
            trips("KF504", of_records(None, apart(diagnosis)), "a warning"),
            trips(f"KF504 {diagnosis}", of_records(KEYED, apart(diagnosis)), "a warning keyed"),
            *is_quiet("KF504", of_records(declare_topic("a"), apart(diagnosis))),
        )
    ),
    trips("KF504", of_records(COMPACTED, build_result(diagnosis="repartitioned")), "a warning keyed"),
    *is_quiet(
        "KF504",
        of_records(declare_topic("a"), build_result(diagnosis="mixed_partitioners")),
        of_records(declare_policy(keyed=False), build_result(diagnosis="repartitioned")),
        of_records(KEYED, CRC),
    ),
    trips("KF505 2 %", build_nulls(0.02), "a warning keyed"),
    trips("KF505 one record", build_nulls(0.0000003), "a warning keyed"),
    *is_quiet("KF505", *(build_nulls(0.02, keyed) for keyed in (None, False)), build_nulls(0.0)),
]


def build_increase(*what_ifs: Any, of: str = "period") -> RuleContext:
    """Build the context of an increase of a measured topic from 6 to 12 partitions."""
    result = build_result(partitions=6, ratio=FINE, what_ifs=what_ifs)
    if of == "now":
        shares = (Estimate.exact(1 / 6),) * 6
        result = replace(result, now=NewestPart(0, 1, shares, shares, FINE, FINE))
    context = of_records(declare_policy(partitions=12, maxPartitionRatio=2.0, of=of), result)
    return replace(context, changes=(build_update("a"),))


def kept_unevenly(retention_bytes: int | None, records: int = 20) -> RuleContext:
    """Build the context of a topic whose partition 0 keeps an hour, and so many records; the others a day."""
    result = build_result("a", partitions=4)
    times = (NOW - HOUR, *(NOW - DAY,) * 3)
    partitions = tuple(
        replace(value, kept_from=100, end_offset=100 + records, kept_since_ms=time)
        for value, time in zip(result.partitions, times, strict=True)
    )
    arrivals = (ArrivalPeriod("common", NOW - HOUR, NOW, (900, 100, 100, 100)),)
    result = replace(result, partitions=partitions, arrivals=arrivals, retention_bytes=retention_bytes)
    return of_records(declare_topic("a"), result)


PREDICTIONS: list[Row] = [
    trips("KF506 surely", build_increase(what_if(12, SURE)), "a error partitions"),
    trips("KF506 perhaps", build_increase(what_if(12, UNSURE)), "a warning partitions"),
    trips("KF506 a better count", build_increase(what_if(12, SURE), what_if(8, FINE)), "a error partitions"),
    trips("KF506 now", build_increase(what_if(12, SURE), of="now"), "a warning partitions"),
    *(
        trips(f"KF510 limit {limit}", kept_unevenly(limit), "a warning config.retention.bytes")
        for limit in (10 * 2**20, -1, None)
    ),
    *is_quiet("KF510", kept_unevenly(-1, records=19)),  # seldom written to
]

STRICT = declare_policy(keyed=True, maxPartitionRatio=1.01, maxKeyShare=0.001, minDistinctKeys=10**9)
WORST = replace(
    build_result(ratio=SURE, hot_keys=[hot("a", BIG)], null_share=0.1, diagnosis="mixed_partitioners"),
    sampled_distinct_keys=1600,
)
UNDECLARED = ("KF501", "KF502", "KF503", "KF505")
ROWS: list[Row] = [
    *(row for code in UNDECLARED for row in is_quiet(code, of_records(None, WORST))),
    *LIMITS,
    *KEYS,
    *PREDICTIONS,
    *is_quiet("KF5", of_records(STRICT, empty()), of_records(STRICT), of_records(absent("a"), WORST)),
]
