"""Tests of counts since a time, in logs whose times mislead a search, against the records written since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np
import pytest

from spark_validation.arrivals import Spread, TopicArrivals, find_arrivals
from spark_validation.time_search import FEW_RECORDS, KNOWN, LogEnds, TimeSearch, TopicPartition

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_000 * DAY
PARTITIONS, RECORDS = 6, 2_000


@dataclass
class Log:
    """A partition's log: by offset, when each record was written, and its timestamp.

    It can be read from an offset on, but for those that compaction removed, and markers of transactions.
    """

    written: list[int]
    times: list[int]
    start: int = 0
    removed: set[int] = field(default_factory=set)
    markers: set[int] = field(default_factory=set)
    bytes: int | None = None

    def first(self, since_ms: int) -> tuple[int, int] | None:
        """Return the offset that a broker finds."""
        kept = (n for n in range(self.start, len(self.times)) if n not in self.removed)
        return next(((n, self.times[n]) for n in kept if self.times[n] >= since_ms), None)

    def read(self, offset: int) -> list[tuple[int, int]]:
        """Return the records that a consumer gets."""
        hidden = self.removed | self.markers
        kept = (n for n in range(max(offset, self.start), len(self.times)) if n not in hidden)
        return [(n, self.times[n]) for n, _ in zip(kept, range(16), strict=False)]

    def count(self, since_ms: int) -> int:
        """Return the records written, markers included."""
        return sum(1 for at in self.written if at >= since_ms)


def steady(count: int = RECORDS, length: int = DAY, until: int = NOW) -> Log:
    times = [until - length + length * n // count for n in range(count)]
    return Log(times, times[:])


def topic(change: Callable[[list[Log]], None] = lambda _: None, hot: int = 0) -> list[Log]:
    """A topic whose partition 0 has so many records more; `change` makes what is special about it."""
    logs = [steady(RECORDS + (hot if number == 0 else 0)) for number in range(PARTITIONS)]
    change(logs)
    return logs


def _clock_ahead(logs: list[Log]) -> None:
    logs[3].times[2] = NOW - HOUR // 2


def _clocks_ahead(logs: list[Log]) -> None:
    for log in logs[1:4]:
        for step, n in enumerate((2, 700, 900)):
            log.times[n] = NOW - HOUR // 2 + step * HOUR // 8


def _future(logs: list[Log]) -> None:
    for log in logs:
        log.times[5::100] = [NOW + DAY] * len(log.times[5::100])


def _days_ahead(logs: list[Log]) -> None:
    """Records in the future that are followed by later ones, as those of a steady stream are."""
    for log in logs[:2]:
        log.times[5::100] = [time + DAY for time in log.times[5::100]]


def _trim(logs: list[Log]) -> None:
    """The hot partition keeps as many records as the others."""
    logs[0].start = len(logs[0].times) - 1_000


def _set_back_clocks(logs: list[Log]) -> None:
    _trim(logs)
    for n in (0, 1, 2):
        logs[0].times[logs[0].start + n] -= 10 * HOUR


def _lagging(logs: list[Log]) -> None:
    random = np.random.default_rng(1)
    for log in logs:
        lags = random.exponential(HOUR, len(log.times)).astype(int).tolist()
        log.times = [time - lag for time, lag in zip(log.times, lags, strict=True)]


def _alone(logs: list[Log]) -> None:
    """One key is alone on partition 0, of which compaction leaves the last record."""
    logs[0].removed = set(range(len(logs[0].times) - 1))


def _clean(logs: list[Log]) -> None:
    """Compaction leaves one record of twenty everywhere."""
    for log in logs:
        log.removed = {n for n in range(len(log.times)) if n % 20}


def _replay(logs: list[Log]) -> None:
    """Each tenth offset is a marker of the minute in which all was written."""
    for log in logs:
        log.markers = set(range(9, len(log.times), 10))
        for n in log.markers:
            log.times[n] = NOW - 60_000 + 50_000 * n // len(log.times)
    _trim(logs)


def _pause_partition(logs: list[Log]) -> None:
    """Partition 3 got its records 20 hours ago, and some just now."""
    logs[3].written = [NOW - 20 * HOUR + n for n in range(RECORDS)] + [NOW - 60_000 + n for n in range(50)]
    logs[3].times = logs[3].written[:]


def _all_paused(logs: list[Log]) -> None:
    """Nobody writes at the beginning of the last hour."""
    for log in logs:
        log.written = [at - HOUR if NOW - 2 * HOUR < at < NOW - HOUR // 2 else at for at in log.written]
        log.written.sort()
        log.times = log.written[:]


def _empty_by_hand(logs: list[Log]) -> None:
    logs[0].start, logs[0].bytes = len(logs[0].times), 100_000


def _empty_by_time(logs: list[Log]) -> None:
    logs[0] = steady(RECORDS, HOUR, NOW - 8 * DAY)
    logs[0].start, logs[0].bytes = RECORDS, 0


def _single(logs: list[Log]) -> None:
    logs[3] = Log([NOW - 2 * DAY], [NOW - HOUR // 2])


def _hourly(logs: list[Log]) -> None:
    for log in logs:
        log.times = [time - time % (2 * HOUR) for time in log.times]


def _batches(logs: list[Log]) -> None:
    for log in logs:
        log.times = [time - time % (HOUR // 4) for time in log.times]
        log.written = log.times


def _no_times(logs: list[Log]) -> None:
    _trim(logs)
    for log in logs:
        log.times = [-1] * len(log.times)


KNOWN_BOTH, READ, NEVER = "known", "known if records are read", "withheld"
SCENES: Mapping[str, tuple[Callable[[], list[Log]], str]] = {
    "in order": (topic, KNOWN_BOTH),
    "a clock ahead": (lambda: topic(_clock_ahead), READ),
    "clocks ahead": (lambda: topic(_clocks_ahead, 3_000), READ),
    "in the future": (lambda: topic(_future), READ),
    "a clock a day ahead": (lambda: topic(_days_ahead, 3_000), READ),
    "trimmed": (lambda: topic(_trim, 3_000), KNOWN_BOTH),
    "clock behind": (lambda: topic(_set_back_clocks, 3_000), KNOWN_BOTH),
    "lagging": (lambda: topic(_lagging), NEVER),
    "alone": (lambda: topic(_alone, 3_000), NEVER),
    "clean": (lambda: topic(_clean, 3_000), NEVER),
    "replayed": (lambda: topic(_replay, 3_000), READ),
    # By offsets alone, it looks like the batch of a clock that is ahead.
    "paused": (lambda: topic(_pause_partition), READ),
    "all paused": (lambda: topic(_all_paused), KNOWN_BOTH),
    "emptied by hand": (lambda: topic(_empty_by_hand, 3_000), NEVER),
    "emptied by time": (lambda: topic(_empty_by_time), KNOWN_BOTH),
    "one record": (lambda: topic(_single), KNOWN_BOTH),
    "two hours": (lambda: topic(_hourly), NEVER),
    "no times": (lambda: topic(_no_times, 3_000), NEVER),
    "batches of the broker": (lambda: topic(_batches), KNOWN_BOTH),
}
"""The topics, and whether what was written in the last hour is known."""


@cache
def build_logs(name: str) -> Mapping[TopicPartition, Log]:
    return {("t", number): log for number, log in enumerate(SCENES[name][0]())}


def find(
    logs: Mapping[TopicPartition, Log], times: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[int, int]]:
    found = {place: logs[place].first(time) for place, time in times.items()}
    return {place: record for place, record in found.items() if record is not None}


def arrivals(name: str, since_ms: int | None = None, *, read: bool = False) -> TopicArrivals:
    logs = build_logs(name)

    def look(places: Mapping[TopicPartition, int]) -> dict[TopicPartition, Sequence[tuple[int, int]]]:
        return {place: logs[place].read(offset) for place, offset in places.items()}

    ends = [LogEnds(log.start, len(log.times), log.bytes) for log in logs.values()]
    ordered = ["t"] if name == "batches of the broker" else []
    found = find_arrivals(
        {"t": ends},
        partial(find, logs),
        NOW,
        since_ms,
        recent=True,
        read_records=look if read else None,
        ordered=ordered,
    )
    # As the cluster knows of transactions, where records are not read.
    transactional = any(log.markers for log in logs.values()) and not read
    return found["t"].mark_transactional() if transactional else found["t"]


@pytest.mark.parametrize("read", [False, True], ids=["offsets", "records"])
@pytest.mark.parametrize("name", SCENES)
def test_counts_match_producer_or_are_withheld(name: str, read: bool) -> None:
    known = SCENES[name][1] == KNOWN_BOTH or (SCENES[name][1] == READ and read)
    requested = arrivals(name, NOW - HOUR, read=read)
    assert (requested.unknown is None) is known
    assert (requested.spread is not Spread.UNKNOWN) is known
    for found in (requested, arrivals(name, read=read)):
        for period in found.periods:
            if period.unknown is not None:
                assert not period.counts
                continue
            truth = [log.count(period.since_ms or 0) for log in build_logs(name).values()]
            mean = sum(truth) / len(truth)
            if period.since_ms is None:
                assert list(period.counts) == truth
            assert (
                max(abs(a - b) for a, b in zip(period.counts, truth, strict=True))
                <= KNOWN * mean + FEW_RECORDS
            )
            ratio = period.estimated_ratio
            assert ratio is not None
            assert ratio.low * 0.97 <= max(truth) / mean <= ratio.high * 1.03


@pytest.mark.parametrize("name", ["a clock ahead", "alone", "clean"])
def test_burst_is_not_counted_where_a_search_is_misled(name: str) -> None:
    for scene, known in ((name, False), ("in order", True)):
        logs = build_logs(scene)
        search = TimeSearch(
            {place: LogEnds(0, len(log.times)) for place, log in logs.items()},
            {place: log.times[0] for place, log in logs.items()},
            NOW,
            partial(find, logs),
        )
        counts = search.count_between(NOW - HOUR, NOW - HOUR // 4)
        truth = tuple(log.count(NOW - HOUR) - log.count(NOW - HOUR // 4) for log in logs.values())
        assert counts == (truth if known else None)


def _ahead(logs: list[Log], numbers: range) -> None:
    for number in numbers:
        logs[number].times[2] = NOW - HOUR // 2


def _some_ahead(logs: list[Log]) -> None:
    _all_paused(logs)
    _ahead(logs, range(60, 64))


@pytest.mark.parametrize(
    ("change", "probed"),
    [
        (_all_paused, 64),
        (_some_ahead, 68),
        (partial(_ahead, numbers=range(128)), 128),
        (partial(_ahead, numbers=range(100)), 128),
    ],
    ids=["paused", "some misled", "all misled", "most misled"],
)
def test_few_of_many_paused_partitions_are_probed(change: Callable[[list[Log]], None], probed: int) -> None:
    logs = {("t", number): steady(200) for number in range(128)}
    change([*logs.values()])
    seen: set[TopicPartition] = set()

    def look(places: Mapping[TopicPartition, int]) -> dict[TopicPartition, Sequence[tuple[int, int]]]:
        seen.update(places)
        return {place: logs[place].read(offset) for place, offset in places.items()}

    ends = [LogEnds(0, len(log.times)) for log in logs.values()]
    found = find_arrivals({"t": ends}, partial(find, logs), NOW, NOW - HOUR, read_records=look)["t"]
    assert found.unknown is None
    truth = [log.count(NOW - HOUR) for log in logs.values()]
    assert max(abs(a - b) for a, b in zip(found.counts, truth, strict=True)) <= FEW_RECORDS
    assert len(seen) <= probed
