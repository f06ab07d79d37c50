"""How figures of a skew report are worded and drawn as bars of text, the same in every format."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkaform.core.printable import clipped
from kafkaform.core.units import coarse_duration, rounded_size
from kafkaform.core.wording import counted
from spark_validation.arrivals import COMMON, EVEN_RATIO, MADE, MUCH_MORE, Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spark_validation.results import (
        Estimate,
        HotKeyResult,
        PartitionResult,
        SampleResult,
        TopicResult,
    )


NOTHING = "-"
"""Stands for a figure that nobody knows."""

PASS, WARN, FAIL, NONE = "pass", "warn", "fail", "none"
VERDICTS = {
    FAIL: "breaks its policy",
    WARN: "may break its policy",
    PASS: "meets its policy",
    NONE: "no policy",
}
"""The verdict of a topic in words, the worst first."""

IMBALANCE_FIGURES = {
    "max_mean_ratio": "Fullest partition over the mean",
    "cv": "Coefficient of variation",
    "gini": "Gini coefficient",
    "entropy": "Entropy over its maximum",
    "effective_parallelism": "Consumers that can usefully work",
}
"""The fields of an imbalance and what each is called."""

CAUSES = {
    "balanced": "balanced",
    "hot_keys": "hot keys",
    "few_keys": "too few keys",
    "null_keys": "null keys",
    "mixed_partitioners": "mixed partitioners",
    "repartitioned": "repartitioned",
    "bursty": "bursty",
    "unknown": "cause not known",
    "too_little_data": "too little data",
    "empty": "empty",
}
"""What is found in a topic, in words."""
_WORST = (FAIL, WARN, NONE, PASS)
_FEW_NUMBERS = 6
_LEAST_HALF_WIDTH = 1e-6
_MUCH_MORE = 1.25
_MOST = 0.5
"""Where no known partitioner explains more records than this, producers have one of their own."""
_FEW_KEYS = 3
_DIFFERS = 0.05
_NOTABLE = 0.05
_BURSTY = 2.0


# --- single figures --------------------------------------------------------------------------------


def count(value: float | None) -> str:
    """A whole number, `1,234,567`."""
    return NOTHING if value is None or not math.isfinite(value) else f"{round(value):,}"


def share(value: float, decimals: int | None = None) -> str:
    """A part of 1 in percent, `8.33 %`, to three digits unless told the decimals; never a false 0 or 100."""
    if not math.isfinite(value):
        return NOTHING
    percent = 100 * value
    if percent in (0, 100):
        return f"{percent:.0f} %"
    places = _places(percent) if decimals is None else decimals
    least = 10.0**-places
    if percent < least / 2:
        return f"< {least:.{places}f} %"
    if 100 - least / 2 <= percent < 100:
        return f"> {100 - least:.{places}f} %"
    return f"{percent:.{places}f} %"


def ratio(value: float) -> str:
    """A number without a unit, `3.90`, `12.4`, `1,204`."""
    if not math.isfinite(value):
        return NOTHING
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 0.1 or size == 0:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.0005 else "< 0.001"


def size(value: float | None) -> str:
    """Bytes, `1.3 GiB`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return rounded_size(round(value)) if value >= 1024 else f"{round(value)} B"


def interval(estimate: Estimate, words: Callable[[float], str]) -> str:
    """The two ends of an interval, `8.12 to 8.57 %`; nothing for what was counted and not estimated."""
    if is_exact(estimate):
        return ""
    low, high = words(estimate.low), words(estimate.high)
    if low == high:
        return low
    unit = " %"
    # The unit is said once, but a sign in front of a number needs its own.
    if low.endswith(unit) and high.endswith(unit) and low[0].isdigit() and high[0].isdigit():
        low = low.removesuffix(unit)
    return f"{low} to {high}"


def estimated(estimate: Estimate, words: Callable[[float], str]) -> str:
    """A value and its interval, `8.33 % (8.12 to 8.57 %)`; only the value where that says it all."""
    value, ends = words(estimate.value), interval(estimate, words)
    return f"{value} ({ends})" if ends not in ("", value) else value


def is_exact(estimate: Estimate) -> bool:
    """Whether it was counted, not estimated."""
    return estimate.low == estimate.high == estimate.value


def numbers(values: Sequence[int], few: int = _FEW_NUMBERS) -> str:
    """Partition numbers in their order, `0, 4, 11 and 9 more`."""
    if not values:
        return NOTHING
    more = len(values) - few
    return ", ".join(map(str, values[:few])) + (f" and {more:,} more" if more > 0 else "")


def moment(value: int | str) -> str:
    """A time in UTC, from milliseconds since 1970 or from ISO 8601: `2026-11-01 00:00 UTC`."""
    try:
        if isinstance(value, int):
            when = datetime.fromtimestamp(value / 1000, UTC)
        else:
            when = datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        # A report may come from a file: what is no time is shown as it is.
        return clipped(str(value), 40)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def brief(text: str, limit: int = 60) -> str:
    """Foreign text, such as a key, printable and in little room."""
    return clipped(text, limit) if text else '""'


def _places(percent: float) -> int:
    """The decimals that make three digits, four at most."""
    for places, least in enumerate((100, 10, 1, 0.1)):
        if percent >= least:
            return places
    return 4


# --- sentences -------------------------------------------------------------------------------------


def cause(name: str) -> str:
    """A diagnosis or a cause in words: `hot keys`."""
    return CAUSES.get(name) or clipped(name.replace("_", " "), 60)


def verdict(topic: TopicResult) -> str:
    """`pass`, `warn`, `fail`, or `none` where no policy was judged."""
    status = topic.policy.status if topic.policy else NONE
    return status if status in VERDICTS else NONE


def severity(topic: TopicResult) -> tuple[int, float, str]:
    """A key to sort by, which puts the most skewed topic first: by verdict, by ratio, then by name."""
    return _WORST.index(verdict(topic)), -topic.by_records.max_mean_ratio.value, topic.name


def is_empty(topic: TopicResult) -> bool:
    """Whether there is no record to say anything about."""
    return topic.diagnosis == "empty" or not topic.partitions


def notable_keys(topic: TopicResult, most: int) -> tuple[HotKeyResult, ...]:
    """The keys to show: those that are notable, and the first few in any case."""
    seen = sum(is_notable(topic, key) for key in topic.hot_keys)
    return topic.hot_keys[: min(most, max(seen, _FEW_KEYS))]


def is_notable(topic: TopicResult, key: HotKeyResult) -> bool:
    """Whether a key alone fills a twentieth of a mean partition."""
    return max(key.share.value, key.byte_share.value) * len(topic.partitions) >= _NOTABLE


def is_bursty(topic: TopicResult, key: HotKeyResult) -> bool:
    """Whether a key has a peak worth showing; those of keys that are not notable are chance."""
    return key.peak > _BURSTY and is_notable(topic, key)


def headline(topic: TopicResult) -> str:
    """Word the spread and the diagnosis, in a sentence each that has no foreign text in it."""
    if is_empty(topic):
        return "There are no records to measure."
    if topic.diagnosis == "too_little_data":
        return "There are too few records to say how they spread over partitions."
    spread = "unevenly" if _is_uneven(topic) else "evenly"
    partitions = counted(len(topic.partitions), "partition")
    load = f"Records are spread {spread}: the fullest of {partitions} has {_times_mean(topic)}."
    finding = _finding(topic)
    return f"{load} {finding}." if finding else load


def _is_uneven(topic: TopicResult) -> bool:
    if topic.spread is None:  # a report from before it was told
        return max(by.max_mean_ratio.value for by in (topic.by_records, topic.by_bytes)) > EVEN_RATIO
    return topic.spread == Spread.UNEVEN


def _finding(topic: TopicResult) -> str:
    """Word the diagnosis, without a full stop; nothing where there is none."""
    match topic.diagnosis:
        case "balanced":
            return ""
        case "hot_keys" | "bursty" if topic.hot_keys:
            return _of_hottest(topic)
        case "hot_keys":
            return "Keys are of uneven size"
        case "bursty":
            return "Records of some keys come in bursts"
        case "few_keys":
            keys = counted(round(topic.distinct_keys.value), "distinct key")
            return f"{keys} cannot fill {counted(len(topic.partitions), 'partition')} evenly"
        case "null_keys":
            return f"{share(topic.null_key_share.value)} of the records have no key"
        case "mixed_partitioners":
            return _mixed(topic)
        case "repartitioned":
            return "Keys are on several partitions since some were added, so order per key is broken"
        case "unknown":
            return "Which keys cause it is not known"
        case _:
            return ""


def _of_hottest(topic: TopicResult) -> str:
    """The share of the hottest key; in a burst, that of the key with the steepest one."""
    key, subject = topic.hot_keys[0], "The hottest key"
    bursty = [own for own in topic.hot_keys if is_bursty(topic, own)]
    if topic.diagnosis == "bursty" and bursty:
        steepest = max(bursty, key=lambda own: own.peak)
        key, subject = steepest, subject if steepest is key else "A key"
    subject = subject if key.key_length else "The empty key"
    times = f", in bursts of up to {ratio(key.peak)} times that" if topic.diagnosis == "bursty" else ""
    if topic.diagnosis == "hot_keys" and _is_by_bytes(topic):
        key = max(topic.hot_keys, key=lambda own: own.byte_share.value)
        subject = "The hottest key" if key.key_length else "The empty key"
        return f"{subject} has {share(key.byte_share.value)} of the bytes"
    return f"{subject} has {share(key.share.value)} of the records{times}"


def _is_by_bytes(topic: TopicResult) -> bool:
    """Return whether bytes are the more uneven by far, as `diagnosis.hot_keys` takes it."""
    by_records, by_bytes = (by.max_mean_ratio.value - 1 for by in (topic.by_records, topic.by_bytes))
    return by_bytes > MUCH_MORE * by_records


def key_name(key: HotKeyResult) -> str:
    """What names a key: the start of its hash, unless it is empty."""
    return key.key_hash if key.key_length else "(empty key)"


def what_if_note(topic: TopicResult) -> str:
    """Why other partition counts are not predicted, or what to compare the predictions with; else nothing."""
    if topic.what_if_withheld is not None:
        return f"No prediction of other partition counts. {topic.what_if_withheld}"
    present = len(topic.partitions)
    predicted = [case.max_mean_ratio.value for case in topic.what_if if case.partitions == present]
    measured = topic.by_records.max_mean_ratio.value
    if not predicted or abs(predicted[0] - measured) < _DIFFERS:
        return ""
    return (
        f"In the log, the fullest of {counted(present, 'partition')} has {ratio(measured)} times the mean; "
        "if all records were where their producers put them now, it would have "
        f"{ratio(predicted[0])}. Compare other counts with the latter."
    )


def _mixed(topic: TopicResult) -> str:
    if topic.keys_stay is None:
        return "Producers choose partitions in different ways, which breaks order per key"
    if not topic.keys_stay:
        return "The same keys are on different partitions, so order per key is broken"
    if topic.partitioners.get("other", 0.0) > _MOST:
        return "Producers choose partitions themselves, and each key stays on one"
    return "Producers choose partitions in different ways, and each key stays on one"


def all_notes(topic: TopicResult) -> tuple[str, ...]:
    """Return the notes on what was met while reading, and on what is not told for it."""
    notes = []
    if topic.arrivals_unknown is not None:
        notes.append(
            f"What was written is not known: {topic.arrivals_unknown}. The figures are of what is kept."
        )
    if topic.keys_withheld is not None:
        notes.append(topic.keys_withheld)
    elif topic.keys_since_ms is not None:
        notes.append(
            f"Compaction has removed older records: shares of keys are of those since "
            f"{moment(topic.keys_since_ms)}."
        )
    return (*notes, *topic.sample.notes)


def sampled(sample: SampleResult) -> str:
    """What was read: `1,000,000 of 30,000,000 records in 120 windows, seed 7`."""
    read = counted(sample.records, "record")
    match sample.mode:
        case "full":
            parts = [f"all records: {sample.records:,}"]
        case "file":
            parts = [f"{read} from files"]
        case _:
            # Offsets, because nobody knows how many records a log has before all are read.
            parts = [
                f"{read} from {sample.offsets:,} of {counted(sample.population, 'offset')}"
                if sample.records != sample.offsets
                else f"{sample.records:,} of {counted(sample.population, 'record')}"
            ]
            parts[0] += f" in {counted(sample.windows, 'window')}"
            parts.append(f"seed {sample.seed}")
    if sample.achieved:
        wanted = f" (requested {_points(sample.precision)})" if sample.precision else ""
        parts.append(f"shares to within {_points(sample.achieved)} percentage points{wanted}")
    return ", ".join(parts)


_PERIODS = {"hour": "last hour", "day": "last day", MADE: "since made"}


def format_period(topic: TopicResult, created_at: str) -> str:
    """The period that the report is about, and the ratio in others; nothing if neither is known.

    `since 2026-11-01 00:00 UTC (3h20m): 1,204 records; max/mean in the last hour 1.20, since made 1.31`.

    Args:
        topic: The topic.
        created_at: The time of the report, in ISO 8601.
    """
    since_ms, periods = topic.sample.since_ms, topic.arrivals or ()
    if since_ms is None and not periods:
        return ""
    since = "since the topic was made"
    if since_ms is not None:
        since = f"since {moment(since_ms)}{_length(since_ms, created_at)}"
    common = [period for period in periods if period.name == COMMON]
    text = f"{since}: {counted(common[0].total, 'record')}" if common else since
    ratios = [
        f"{_PERIODS[period.name]} {ratio(period.ratio)}"
        for period in periods
        if period.name in _PERIODS and period.ratio is not None
    ]
    return f"{text}; max/mean in the {', '.join(ratios)}" if ratios else text


def _length(since_ms: int, until: str) -> str:
    try:
        length_ms = int(datetime.fromisoformat(until).timestamp() * 1000) - since_ms
    except (ValueError, OverflowError):
        return ""
    return f" ({coarse_duration(length_ms)})" if length_ms > 0 else ""


def format_retention(partition: PartitionResult, created_at: str) -> str:
    """Format the time for which the records of a partition are kept: `3h 20m`."""
    since_ms = partition.kept_since_ms
    return NOTHING if since_ms is None else _length(since_ms, created_at).strip(" ()") or NOTHING


def summary(topics: Sequence[TopicResult]) -> str:
    """All topics by verdict, or by diagnosis: `2 topics: 1 breaks its policy, 1 without a policy`."""
    states = [verdict(topic) for topic in topics]
    words = {
        FAIL: ("breaks its policy", "break their policy"),
        WARN: ("may break its policy", "may break their policy"),
        NONE: ("without a policy", "without a policy"),
        PASS: ("meets its policy", "meet their policy"),
    }
    found = [f"{number:,} {words[state][number != 1]}" for state in _WORST if (number := states.count(state))]
    if set(states) == {NONE}:
        causes = Counter(CAUSES.get(one.diagnosis, "other") for one in topics)
        found = [f"{name} ({number:,})" if len(topics) > 1 else name for name, number in causes.items()]
    return f"{counted(len(topics), 'topic')}{': ' if found else ''}{', '.join(found)}"


def _points(half_width: float) -> str:
    """Half the width of the interval of a share, in points of percent, to two digits."""
    return f"{100 * half_width:.2g}" if half_width >= _LEAST_HALF_WIDTH else "0.0001"


def _times_mean(topic: TopicResult) -> str:
    records, by_bytes = (one.max_mean_ratio.value for one in (topic.by_records, topic.by_bytes))
    if by_bytes > records * _MUCH_MORE:
        return f"{ratio(records)} times the mean by records, {ratio(by_bytes)} by bytes"
    return f"{ratio(records)} times the mean"


_T = TypeVar("_T")

MARK = "│"
"""Where the mean lies in a bar."""
_FULL, _HALF, _TRACE = "█", "▌", "▏"


@dataclass(frozen=True, slots=True)
class Scale:
    """What bars are drawn on: the longest one is as wide as the room.

    Attributes:
        top: The largest share.
        mean: The mean share, marked in every bar.
        room: Characters of the longest bar, at least 1.
    """

    top: float
    mean: float
    room: int

    def bar(self, share: float) -> str:
        """A bar to half a character, cut by the mark of the mean; a share above 0 is never invisible."""
        halves = round(2 * self.room * share / self.top) if self.top > 0 else 0
        drawn = _FULL * (halves // 2) + _HALF * (halves % 2)
        if share > 0 and not drawn:
            drawn = _TRACE
        if self.top <= 0:
            return drawn
        place = min(self.room - 1, int(self.room * self.mean / self.top))
        padded = drawn.ljust(self.room)
        return (padded[:place] + MARK + padded[place + 1 :]).rstrip()


@dataclass(frozen=True, slots=True)
class Excerpt(Generic[_T]):
    """What is shown of many things, in order, and what is only summed up between the two parts."""

    first: tuple[_T, ...]
    left_out: tuple[_T, ...] = ()
    last: tuple[_T, ...] = ()


def selected(
    things: Iterable[_T], size: Callable[[_T], float], *, most: int | None, last: int
) -> Excerpt[_T]:
    """All things as they come if there are at most `most`; else the largest ones and the `last` smallest."""
    given = tuple(things)
    if most is None or len(given) <= most:
        return Excerpt(given)
    ordered = tuple(sorted(given, key=size, reverse=True))
    first = most // 2 - last
    return Excerpt(ordered[:first], ordered[first : len(ordered) - last], ordered[len(ordered) - last :])
