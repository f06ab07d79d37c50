"""Tests of the spread of arrivals: the period that is chosen, evenness, and the ranking of topics."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.core.errors import PermissionDenied
from kafkaform.core.model import Observation
from kafkaform.core.partitions import LogSpan, TimedOffset
from kafkaform.core.values import replace
from kafkaform.inspect.arrivals import log_ends, read_arrivals
from kafkaform.inspect.skew_folder import keep_rows, read_earlier_ratios
from kafkaform.report.arrivals import arrivals_to_json, render_arrivals
from kafkaform.rules import RULES, RuleContext
from spark_validation.arrivals import Spread, TopicArrivals, find_arrivals
from spark_validation.metrics import arrival_rows

HOUR = 3_600_000
NOW = 1_000 * 24 * HOUR
Partition = tuple[str, int]


@dataclass
class Log:
    """A log: the time of every record, and the first offset that is kept."""

    times: list[int]
    start: int = 0


class Logs:
    """A cluster of nothing but logs."""

    def __init__(self, logs: Mapping[Partition, Log]) -> None:
        self._logs = logs
        self.requests = 0

    def log_spans(
        self, partitions: Collection[Partition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[Partition, LogSpan]:
        assert not committed
        assert at_ms is None
        self.requests += 1
        logs = {partition: self._logs[partition] for partition in partitions if partition in self._logs}
        return {value: LogSpan(log.start, len(log.times)) for value, log in logs.items()}

    def offsets_at(self, times: Mapping[Partition, int]) -> Mapping[Partition, TimedOffset]:
        self.requests += 1
        found = {}
        for partition, at_ms in times.items():
            log = self._logs[partition]
            young = (n for n in range(log.start, len(log.times)) if log.times[n] >= at_ms)
            if (offset := next(young, None)) is not None:
                found[partition] = TimedOffset(offset, log.times[offset])
        return found

    def observe(self, *_: object, **__: object) -> Observation:
        return Observation({}, frozenset())  # the account may not read configs

    def partition_sizes(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:  # noqa: ARG002
        raise PermissionDenied("this account may not DESCRIBE the cluster")

    def transactional(self, partitions: Collection[Partition]) -> Mapping[Partition, bool]:  # noqa: ARG002
        return {}


def every(milliseconds: int, since: int) -> list[int]:
    """Times of records, one every so often, up to now."""
    return list(range(NOW - since, NOW, milliseconds))


def arrivals(logs: Mapping[int, Log], since_ms: int | None = None) -> TopicArrivals:
    cluster = Logs({("t", number): log for number, log in logs.items()})
    (found,) = read_arrivals(cluster, {"t": max(logs) + 1}, NOW, since_ms)  # type: ignore[arg-type]
    return found


def test_period_is_shortened_by_retention_only() -> None:
    times = every(60_000, 40 * HOUR)
    found = arrivals({number: Log(times, 1_200 * (number % 2)) for number in range(4)})
    assert (found.spread, found.ratio) == (Spread.EVEN, 1.0)
    assert found.period_ms == 20 * HOUR - 1
    found = arrivals({0: Log(every(1_000, HOUR)), 1: Log(every(2_000, HOUR))})
    assert (found.since_made, found.period_ms, found.counts) == (True, None, (3_600, 1_800))
    assert found.per_second == pytest.approx(1.5), "since the first record"
    times = every(1_000, HOUR)
    found = arrivals({0: Log(times), 1: Log(times, len(times) - 30)})
    assert (found.spread, found.counts, found.period_ms) == (Spread.LITTLE, (29, 29), 29_999)
    assert found.ratio_since_made == 1.0, "offsets tell it all the same"
    # Time-based retention empties the log of a partition that nobody writes to any more.
    times, old = every(60_000, 10 * HOUR), every(60_000, 100 * HOUR)
    found = arrivals({0: Log(times, 0), 1: Log(times, 60), 2: Log(old, len(old))})
    assert found.counts == (539, 539, 0)
    assert found.period_ms == 9 * HOUR - 1
    assert found.emptied == (2,)
    # Time-based retention has removed what was in it, and a record has just come.
    times = every(60_000, 100 * HOUR)
    rare = [*every(50 * HOUR, 100 * HOUR), NOW - 1_000]
    found = arrivals({0: Log(times, 600), 1: Log(times, 630), 2: Log(rare, 2)})
    assert found.period_ms == 5_370 * 60_000 - 1
    assert found.counts == (5_369, 5_369, 1)
    assert found.emptied == (2,)
    found = arrivals({0: Log(rare, 1), 1: Log(rare, 2)})
    assert (found.spread, found.since_made) == (Spread.LITTLE, False), "unless all are"


def test_emptied_hot_partition_makes_topic_uneven_or_unknown() -> None:
    """Nothing tells whether it was emptied by hand an hour ago, or by time long ago."""
    even = {number: Log(every(60_000, 100 * HOUR)) for number in range(8)}
    hot = every(10_000, 100 * HOUR)
    found = arrivals({**even, 3: Log(even[3].times, 3_000), 8: Log(hot, len(hot))})
    assert (found.spread, found.fullest, found.since_made) == (Spread.UNEVEN, 8, True)
    assert "partition 8 keeps next to none of the 36,000 records" in (found.unknown or "")
    assert found.counts == (*(6_000,) * 8, 36_000)
    found = arrivals({**even, 8: Log(hot, len(hot))})
    assert (found.spread, found.unknown, found.is_trimmed) == (Spread.UNEVEN, None, True), (
        "no log sets a limit"
    )
    few = {**even, 3: Log(even[3].times, 3_000), 8: Log(hot[:5_000], 5_000)}
    assert (arrivals(few).unknown, arrivals(few).counts[8]) == (None, 0), "even whatever became of it"


def test_future_timestamps_fall_back_to_period_since_creation() -> None:
    """Brokers find the first record that is not older in the order of offsets: one with such a time."""
    times = every(60_000, 100 * HOUR)
    late = [*times[:3_000], NOW + 9 * HOUR, *times[3_000:]]
    hot = every(10_000, 100 * HOUR)
    logs = {0: Log(times), 1: Log(late), 2: Log(hot, len(hot) - 6_000)}
    found = arrivals(logs)
    assert "3,001 records" in (found.unknown or "")
    assert (found.spread, found.since_made, found.is_trimmed) == (Spread.UNEVEN, True, True)
    assert found.counts == (6_000, 6_001, 36_000) == found.ends
    assert found.ratio == found.ratio_since_made
    assert (found.starts, found.since_ms, found.per_second) == ((0, 0, 0), None, None)
    assert arrivals(logs, NOW - HOUR).counts == found.counts, "a period that is asked for is not known either"
    found = arrivals({0: Log(times, 10), 1: Log(late, 3_000)})
    assert (found.counts, found.since_made) == ((6_000, 6_001), True)
    assert found.unknown == "the first record of partition 1 has a time in the future"
    found = arrivals({0: Log(times), 1: Log(late)})
    assert (found.spread, found.unknown, found.is_trimmed) == (Spread.EVEN, None, False), (
        "nothing was removed"
    )


def test_period_begins_when_partitions_were_added() -> None:
    # A time in the future after the start of the period does no harm.
    times = every(60_000, 100 * HOUR)
    late = [*times[:5_000], NOW + 9 * HOUR, *times[5_000:]]
    found = arrivals({0: Log(times, 10), 1: Log(late, 4_000)})
    assert (found.unknown, found.counts) == (None, (1_999, 2_000))
    cluster = Logs({("t", 0): Log(times, 10), ("t", 1): Log(late, 4_000)})
    ends = log_ends(cluster.log_spans([("t", 0), ("t", 1)]), {"t": 2})
    periods = find_arrivals(ends, cluster.offsets_at, NOW, recent=True)["t"].periods
    assert [(period.name, bool(period.counts), period.unknown) for period in periods] == [
        ("common", True, None),
        ("hour", False, periods[1].unknown),
        ("day", True, None),
        ("made", True, None),
    ], "it hides the last hour's start"
    assert "1,001 records" in (periods[1].unknown or "")
    before, after = every(10_000, 100 * HOUR), every(20_000, 20 * HOUR)
    logs = {0: Log(before), 1: Log(before), 2: Log(after), 3: Log(after)}
    found = arrivals(logs)
    assert (found.added_from, found.period_ms) == (2, 20 * HOUR)
    assert found.counts == (7_200, 7_200, 3_600, 3_600)
    assert found.ratio_since_made == pytest.approx(36_000 * 4 / 79_200)
    often, seldom = every(10_000, 100 * HOUR), every(5 * HOUR * 1_000 // 1_000, 90 * HOUR)
    found = arrivals({0: Log(often), 1: Log(often), 2: Log(seldom[:1])})
    assert (found.added_from, found.since_made) == (None, True)


def test_late_first_key_does_not_shorten_period() -> None:
    """One partition may have been added or not; two that begin together were."""
    before, late = every(10_000, 100 * HOUR), every(20_000, 20 * HOUR)
    found = arrivals({0: Log(before), 1: Log(before), 2: Log(late)})
    assert (found.added_from, found.since_made, found.counts) == (None, True, (36_000, 36_000, 3_600))
    assert found.alternative is not None
    assert (found.alternative.added_from, found.alternative.counts) == (2, (7_200, 7_200, 3_600))
    later = every(20_000, 40 * HOUR)
    found = arrivals({0: Log(before), 1: Log(before), 2: Log(later), 3: Log(late)})
    assert (found.added_from, found.since_made) == (None, True), "they do not begin together"


def test_given_period_is_counted_and_missing_leader_is_unknown() -> None:
    cluster = Logs({("t", 0): Log(every(1_000, HOUR))})
    (found,) = read_arrivals(cluster, {"t": 2}, NOW)  # type: ignore[arg-type]
    assert (found.spread, found.ends, found.ratio_since_made) == (Spread.UNKNOWN, (3_600, None), None)
    times = every(60_000, 100 * HOUR)
    found = arrivals({0: Log(times), 1: Log(times)}, NOW - 5 * HOUR)
    assert (found.period_ms, found.counts) == (5 * HOUR, (300, 300))


@pytest.mark.parametrize(
    ("counts", "spread"),
    [
        ((149, 150), Spread.LITTLE),
        ((3, 0, 0), Spread.LITTLE),
        ((0, 0), Spread.LITTLE),
        ((150, 150), Spread.EVEN),
        ((1_240, 1_000, 760), Spread.EVEN),
        ((1_260, 1_000, 740), Spread.UNEVEN),
        ((*(3,) * 100, 9), Spread.EVEN),
        ((*(3,) * 100, 12), Spread.EVEN),
        ((*(3,) * 100, 20), Spread.UNEVEN),
    ],
)
def test_spread_follows_counts(counts: tuple[int, ...], spread: Spread) -> None:
    assert TopicArrivals("t", HOUR, counts, counts).spread is spread


def test_uneven_topics_are_sorted_by_ratio_times_rate() -> None:
    slow, fast = every(40_000, 50 * HOUR), every(4_000, 50 * HOUR)
    logs = {
        ("a.even", 0): Log(fast),
        ("a.even", 1): Log(fast),
        ("b.slow", 0): Log(slow),
        ("b.slow", 1): Log([]),
        ("c.fast", 0): Log(fast),
        ("c.fast", 1): Log(slow),
    }
    cluster = Logs(logs)
    found = read_arrivals(cluster, dict.fromkeys(("a.even", "b.slow", "c.fast"), 2), NOW)  # type: ignore[arg-type]
    assert [topic.name for topic in found] == ["c.fast", "b.slow", "a.even"]
    assert cluster.requests <= 4, "whatever the number of topics"


def test_report_in_every_format_matches_golden(golden: SnapshotAssertion) -> None:
    hot = TopicArrivals(
        "hot", HOUR, (900, 100, 0), (9_000, 1_000, 70), 0.5, emptied=(2,), transactional=True, until_ms=NOW
    )
    found = [
        hot,
        TopicArrivals("ahead", None, (900, 100), (900, 100), since_made=True, unknown="of a reason"),
        TopicArrivals("even", None, (500, 500), (500, 500), None, since_made=True),
        TopicArrivals("down", None, (), (5, None), unknown="partition 1 has no leader"),
    ]
    earlier = {"hot": 1.04}
    texts = [
        render_arrivals(found, earlier=earlier, width=80).plain,
        render_arrivals([hot], width=72).plain,
        render_arrivals(found, verbose=True).plain,
        arrivals_to_json(found, earlier=earlier),
    ]
    assert "\n".join(texts) == golden(name="report.txt")
    assert max(len(line) for text in texts[:2] for line in text.split("\n")) <= 80


def test_kept_rows_give_earlier_ratio(tmp_path: Path) -> None:
    first, second = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
    a = TopicArrivals("a", HOUR, (300, 100), (300, 100))
    b = TopicArrivals("b", HOUR, (200, 200), (200, 200))
    keep_rows(tmp_path, arrival_rows("c", [a, b], first), first)
    keep_rows(tmp_path, arrival_rows("c", [replace(a, counts=(400, 0))], second), second)
    keep_rows(tmp_path, arrival_rows("other", [replace(a, counts=(1, 1))], second), second)
    assert read_earlier_ratios(tmp_path, "c", ["a", "b", "z"]) == ({"a": 2.0, "b": 1.0}, ())
    (tmp_path / "arrivals-20261103T000000Z.jsonl").write_text("{}")
    ratios, (damaged,) = read_earlier_ratios(tmp_path, "c", ["a"])
    assert ratios == {"a": 2.0}
    assert damaged.endswith("arrivals-20261103T000000Z.jsonl: not a file of metrics (KeyError)")
    (tmp_path / "arrivals-20261103T000000Z.jsonl").write_text("[" * 100_000)
    assert read_earlier_ratios(tmp_path, "c", ["a"])[0] == ratios
    assert read_earlier_ratios(tmp_path / "new", "c", ["a"]) == ({}, ())
    lines = (tmp_path / "arrivals-20261101T000000Z.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {
        "cluster_id": "c", "topic": "a", "partition": None, "metric": "arrivals.common.max_mean_ratio",
        "value": 1.5, "low": 1.5, "high": 1.5, "sampled_at": "2026-11-01T00:00:00.000000Z",
        "day": "2026-11-01",
    }  # fmt: skip


def test_doctor_names_worst_topics_and_counts_remaining() -> None:
    hot = [TopicArrivals(f"t{n}", HOUR, (2_500, 250, 250), (0, 0, 0), 9.0 - n) for n in range(7)]
    mild = TopicArrivals("mild", HOUR, (1_300, 1_000, 700), (0, 0, 0), 99.0)
    found = list(RULES["KF312"].check(RuleContext((), arrivals=(mild, *hot))))
    assert [finding.message for finding in found] == [
        *(f"partition 0 of t{n} gets 2.5 times the mean of its 3 partitions" for n in range(5)),
        "records arrive unevenly in 2 more topics",
    ]
    assert "`kafkaform skew t0`" in (found[0].suggestion or "")
    assert list(RULES["KF312"].check(RuleContext((), arrivals=(mild,)))) == []
