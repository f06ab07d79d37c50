"""The figures of a skew report as words, as bars of text, and over time, the same in every format."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkaform.core.printable import clipped
from kafkaform.core.units import coarse_duration, rounded_size
from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from spark_validation.arrivals import COMMON, EVEN_RATIO, MADE, MUCH_MORE, Spread
from spark_validation.figures import NOTHING, format_estimate, percent, ratio
from spark_validation.metrics import DISTINCT_KEYS, HOTTEST_KEY_SHARE, MAX_MEAN_RATIO, metric_rows
from spark_validation.results import UnexplainedFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spark_validation.metrics import MetricRow
    from spark_validation.results import (
        Estimate,
        GroupResult,
        HotKeyResult,
        PartitionResult,
        SampleResult,
        SkewCause,
        SkewReport,
        TopicResult,
    )


PASS, WARN, FAIL, UNKNOWN, NONE = "pass", "warn", "fail", "unknown", "none"
VERDICTS = {
    FAIL: "breaks its policy",
    UNKNOWN: "cannot be checked by its policy",
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
    "effective_parallelism": "Useful consumers",
}
"""The fields of an imbalance and their names."""

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
"""The diagnoses in words."""
_WORST = (FAIL, UNKNOWN, WARN, NONE, PASS)
_FEW_NUMBERS = 6
# The least that is shown is 0.0001 percentage points, as for shares.
_LEAST_HALF_WIDTH = 1e-6
_MUCH_MORE = 1.25
# If a larger share of the records than this was placed by no known partitioner, producers choose partitions
# themselves.
_MOST = 0.5
_FEW_KEYS = 3
_DIFFERS = 0.05
_NOTABLE = 0.05
_BURSTY = 2.0


# --- single figures --------------------------------------------------------------------------------


def size(value: float | None) -> str:
    """Format a size in bytes: `1.3 GiB`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return rounded_size(round(value)) if value >= 1024 else f"{round(value)} B"


def numbers(values: Sequence[int], few: int = _FEW_NUMBERS) -> str:
    """Format partition numbers in their order: `0, 4, 11 and 9 more`."""
    if not values:
        return NOTHING
    further = len(values) - few
    return ", ".join(map(str, values[:few])) + (f" and {further:,} more" if further > 0 else "")


def moment(value: int | str) -> str:
    """Format a time in UTC, from milliseconds since 1970 or from ISO 8601: `2026-11-01 00:00 UTC`."""
    try:
        if isinstance(value, int):
            when = datetime.fromtimestamp(value / 1000, UTC)
        else:
            when = datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        # A report may come from a file; an invalid time is shown as it is.
        return clipped(str(value), 40)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def brief(text: str, limit: int = 60) -> str:
    """Clip untrusted text, such as a key, and make it printable."""
    return clipped(text, limit) if text else '""'


# --- sentences -------------------------------------------------------------------------------------


def cause(name: str) -> str:
    """Return a diagnosis or a cause in words: `hot keys`."""
    return CAUSES.get(name) or clipped(name.replace("_", " "), 60)


def verdict(topic: TopicResult) -> str:
    """Return `pass`, `warn`, `fail`, or `none` without a policy."""
    status = topic.policy.status if topic.policy else NONE
    return status if status in VERDICTS else NONE


def severity(topic: TopicResult) -> tuple[int, float, str]:
    """Return a sort key that puts the most skewed topic first: by verdict, ratio and name."""
    # Topics without a policy come before those that meet theirs: nobody has said which skew of them is fine.
    return _WORST.index(verdict(topic)), -topic.by_records.max_mean_ratio.value, topic.name


def is_empty(topic: TopicResult) -> bool:
    """Return whether the topic has no records."""
    return topic.diagnosis == "empty" or not topic.partitions


def notable_keys(topic: TopicResult, most: int) -> tuple[HotKeyResult, ...]:
    """Return the keys to show: the notable ones, and at least the first few."""
    notable = sum(is_notable(topic, key) for key in topic.hot_keys)
    return topic.hot_keys[: min(most, max(notable, _FEW_KEYS))]


def is_notable(topic: TopicResult, key: HotKeyResult) -> bool:
    """Return whether a key alone fills a twentieth of a mean partition."""
    # As a part of a partition, not of all records: with 100 partitions, a key with 1 % fills one.
    return max(key.share.value, key.byte_share.value) * len(topic.partitions) >= _NOTABLE


def is_bursty(topic: TopicResult, key: HotKeyResult) -> bool:
    """Return whether a key has a peak worth showing; peaks of keys that are not notable are chance."""
    return key.peak > _BURSTY and is_notable(topic, key)


def headline(topic: TopicResult) -> str:
    """Return a sentence on the spread and one on the diagnosis, without untrusted text."""
    if is_empty(topic):
        return "There are no records to measure."
    if topic.diagnosis == "too_little_data":
        return "There are too few records to say how they spread over partitions."
    if topic.spread == Spread.UNKNOWN:
        return "How the records of this period are spread over partitions is not known."
    spread = "unevenly" if _is_uneven(topic) else "evenly"
    partitions = counted(len(topic.partitions), "partition")
    # Up to the ratio that chance makes, an uneven spread is as even as these keys can be.
    lowest = max(by.max_mean_ratio.low for by in (topic.by_records, topic.by_bytes))
    if spread == "evenly" and lowest > EVEN_RATIO:
        spread = "as evenly as chance spreads such keys"
    load = f"Records are spread {spread}: the fullest of {partitions} has {_format_times_mean(topic)}."
    finding = _describe_diagnosis(topic)
    return f"{load} {finding}." if finding else load


def _is_uneven(topic: TopicResult) -> bool:
    if topic.spread is None:  # a report of a version without this field
        return max(by.max_mean_ratio.value for by in (topic.by_records, topic.by_bytes)) > EVEN_RATIO
    return topic.spread == Spread.UNEVEN


def _describe_diagnosis(topic: TopicResult) -> str:
    """Return the diagnosis as a sentence without a full stop; empty if there is none."""
    match topic.diagnosis:
        case "balanced":
            return ""
        case "hot_keys" if isinstance(topic.causes[0].facts, UnexplainedFacts):
            return "The skew is not caused by a few keys"
        case "hot_keys" | "bursty" if topic.hot_keys:
            return _describe_hottest(topic)
        case "hot_keys":
            return "Keys are of uneven size"
        case "bursty":
            return "Records of some keys come in bursts"
        case "few_keys":
            keys = counted(round(topic.distinct_keys.value), "distinct key")
            return f"{keys} cannot fill {counted(len(topic.partitions), 'partition')} evenly"
        case "null_keys":
            return f"{percent(topic.null_key_share.value)} of the records have no key"
        case "mixed_partitioners":
            return _describe_partitioners(topic)
        case "repartitioned":
            return "Keys are on several partitions since some were added, so order per key is broken"
        case "unknown":
            return "The keys that cause it are not known"
        case _:
            return ""


def _describe_hottest(topic: TopicResult) -> str:
    """Return the share of the hottest key; for bursts, of the key with the highest peak."""
    key, subject = topic.hot_keys[0], "The hottest key"
    # For bursts, the key with the highest peak: the hottest overall may be steady.
    bursty = [hot_key for hot_key in topic.hot_keys if is_bursty(topic, hot_key)]
    if topic.diagnosis == "bursty" and bursty:
        steepest = max(bursty, key=lambda hot_key: hot_key.peak)
        key, subject = steepest, subject if steepest is key else "A key"
    # An empty key has no name to look for.
    subject = subject if key.key_length else "The empty key"
    times = f", in bursts of up to {ratio(key.peak)} times that" if topic.diagnosis == "bursty" else ""
    # The hottest key by records may be small: if bytes are the problem, the key with the most bytes is.
    if topic.diagnosis == "hot_keys" and _is_by_bytes(topic):
        key = max(topic.hot_keys, key=lambda hot_key: hot_key.byte_share.value)
        subject = "The hottest key" if key.key_length else "The empty key"
        return f"{subject} has {percent(key.byte_share.value)} of the bytes"
    return f"{subject} has {percent(key.share.value)} of the records{times}"


def _is_by_bytes(topic: TopicResult) -> bool:
    """Return whether bytes are far more uneven than records, as `diagnosis.hot_keys` does."""
    by_records, by_bytes = (by.max_mean_ratio.value - 1 for by in (topic.by_records, topic.by_bytes))
    return by_bytes > MUCH_MORE * by_records


def key_name(key: HotKeyResult) -> str:
    """Return the name of a key: the start of its hash, unless it is empty."""
    return key.key_hash if key.key_length else "(empty key)"


def hidden_keys_note(topic: TopicResult) -> str:
    """Return how to see the keys that are shown by their hashes alone; or nothing."""
    if not any(key.key is None and key.key_length for key in topic.hot_keys):
        return ""
    return "Keys are shown as SHA-256; --show-keys adds their text (maybe personal)."


def explained_part(skew_cause: SkewCause) -> str:
    """Return the sentence on the part of the skew that a cause explains, after its evidence; or nothing."""
    return "" if skew_cause.explains is None else f" It explains {percent(skew_cause.explains)} of the skew."


def describe_group(group: GroupResult, assignor: str) -> str:
    """Return the sentence on the members of a group, with the assignor as the format writes it."""
    members = group.members
    parts = [f"{counted(len(members), 'member')} with the assignor {assignor}"]
    if members:
        busiest = percent(max(member.share for member in members))
        parts.append(f"the busiest gets {busiest}, {ratio(group.max_mean_ratio)} times the mean")
    idle = sum(not member.partitions for member in members)
    if idle:
        parts.append(f"{idle:,} would be idle")
    return f"{'; '.join(parts)}."


def what_if_note(topic: TopicResult) -> str:
    """Return why there are no predictions, or what to compare them with; empty if neither applies."""
    if topic.what_if_withheld is not None:
        return f"No prediction of other partition counts. {topic.what_if_withheld}"
    present = len(topic.partitions)
    predicted = [case.max_mean_ratio.value for case in topic.what_if if case.partitions == present]
    measured = topic.by_records.max_mean_ratio.value
    # If prediction and log nearly agree, there is nothing to explain.
    if not predicted or abs(predicted[0] - measured) < _DIFFERS:
        return ""
    return (
        f"In the log, the fullest of {counted(present, 'partition')} has {ratio(measured)} times the mean; "
        "if all records were where their producers put them now, it would have "
        f"{ratio(predicted[0])}. Compare other counts with the latter."
    )


def _describe_partitioners(topic: TopicResult) -> str:
    if topic.keys_stay is None:
        return "Producers choose partitions in different ways, which breaks order per key"
    if not topic.keys_stay:
        return "The same keys are on different partitions, so order per key is broken"
    if topic.partitioners.get("other", 0.0) > _MOST:
        return "Producers choose partitions themselves, and each key stays on one"
    return "Producers choose partitions in different ways, and each key stays on one"


def all_notes(topic: TopicResult) -> tuple[str, ...]:
    """Return the notes on the period, on withheld figures, and on the sample."""
    notes = []
    if topic.arrivals_unknown is not None:
        counted_since = "The figures cover only records that are still in the log"
        if topic.arrivals:
            counted_since = "Partitions are counted since the topic was made"
            counted_since += "" if topic.keys_withheld else "; records still in the log stand for all of them"
        notes.append(f"No period can be chosen: {topic.arrivals_unknown}. {counted_since}.")
    if topic.bytes_unknown is not None:
        notes.append(f"The bytes of partitions are not known: {topic.bytes_unknown}.")
    if topic.keys_withheld is not None:
        notes.append(topic.keys_withheld)
    elif topic.keys_since_ms is not None:
        notes.append(
            "Older records have been removed: shares of keys cover records since "
            f"{moment(topic.keys_since_ms)}."
        )
    if topic.shortest_ms is not None and len(topic.partitions) > 1:
        length = coarse_duration(topic.shortest_ms)
        notes.append(f"Whether keys were hot for less than about {length} is not known.")
    return (*notes, *topic.sample.notes)


def describe_sample(sample: SampleResult) -> str:
    """Describe the sample: `1,000,000 of 30,000,000 records in 120 windows, seed 7`."""
    read = counted(sample.records, "record")
    match sample.mode:
        case "full":
            parts = [f"all records: {sample.records:,}"]
        case "file":
            parts = [f"{read} from files"]
        case _:
            # Offsets, because the number of records of a log is unknown until all are read.
            parts = [
                f"{read} from {sample.offsets:,} of {counted(sample.population, 'offset')}"
                if sample.records != sample.offsets
                else f"{sample.records:,} of {counted(sample.population, 'record')}"
            ]
            parts[0] += f" in {counted(sample.windows, 'window')}"
            parts.append(f"seed {sample.seed}")
    if sample.achieved:
        wanted = f" (requested {_format_points(sample.precision)})" if sample.precision else ""
        parts.append(f"shares to within {_format_points(sample.achieved)} percentage points{wanted}")
    return ", ".join(parts)


_PERIODS = {"hour": "last hour", "day": "last day", MADE: "since made"}


def format_period(topic: TopicResult, created_at: str) -> str:
    """Format the period of the report, and the ratio in other periods; empty if neither is known.

    `since 2026-11-01 00:00 UTC (3h20m): 1,204 records; max/mean in the last hour 1.20, since made 1.31`.

    Args:
        topic: The topic.
        created_at: The time of the report, in ISO 8601.
    """
    since_ms, periods = topic.sample.since_ms, topic.arrivals or ()
    if since_ms is None and not periods and topic.now is None:
        return ""
    since = "since the topic was made" if periods else ""
    if since_ms is not None:
        since = f"since {moment(since_ms)}{_format_length(since_ms, created_at)}"
    common = [period for period in periods if period.name == COMMON]
    text = f"{since}: {counted(common[0].total, 'record')}" if common else since
    ratios = [
        f"{_PERIODS[period.name]} {format_estimate(period.estimated_ratio, ratio)}"
        for period in periods
        if period.name in _PERIODS and period.estimated_ratio is not None
    ]
    if topic.now is not None:
        since_now = moment(topic.now.since_ms)
        ratios.append(f"newest part since {since_now} {format_estimate(topic.now.record_ratio, ratio)}")
    if ratios:
        text = "; ".join(filter(None, (text, f"max/mean in the {', '.join(ratios)}")))
    for reason in dict.fromkeys(period.unknown for period in periods if period.unknown is not None):
        names = [_PERIODS.get(period.name, period.name) for period in periods if period.unknown == reason]
        text += f"; {' and '.join(names)} not known: {reason}"
    return text


def _format_length(since_ms: int, until: str) -> str:
    try:
        length_ms = int(datetime.fromisoformat(until).timestamp() * 1000) - since_ms
    # A report may come from a file, with any time.
    except (ValueError, OverflowError):
        return ""
    return f" ({coarse_duration(length_ms)})" if length_ms > 0 else ""


def format_now(topic: TopicResult, partition: PartitionResult) -> str:
    """Format the share of a partition in the newest part of the log."""
    return NOTHING if topic.now is None else percent(topic.now.shares[partition.partition].value)


def format_retention(partition: PartitionResult, created_at: str) -> str:
    """Format how long the records of a partition have been kept: `3h 20m`."""
    since_ms = partition.kept_since_ms
    return NOTHING if since_ms is None else _format_length(since_ms, created_at).strip(" ()") or NOTHING


def summary(topics: Sequence[TopicResult]) -> str:
    """Count topics by verdict or by diagnosis: `2 topics: 1 breaks its policy, 1 without a policy`."""
    states = [verdict(topic) for topic in topics]
    words = {
        FAIL: ("breaks its policy", "break their policy"),
        UNKNOWN: ("cannot be checked by its policy", "cannot be checked by their policy"),
        WARN: ("may break its policy", "may break their policy"),
        NONE: ("without a policy", "without a policy"),
        PASS: ("meets its policy", "meet their policy"),
    }
    counts = [
        f"{number:,} {words[state][number != 1]}" for state in _WORST if (number := states.count(state))
    ]
    # Without any policy, the diagnoses say more than a count of missing policies.
    if set(states) == {NONE}:
        causes = Counter(CAUSES.get(topic.diagnosis, "other") for topic in topics)
        counts = [f"{name} ({number:,})" if len(topics) > 1 else name for name, number in causes.items()]
    return f"{counted(len(topics), 'topic')}{': ' if counts else ''}{', '.join(counts)}"


def _format_points(half_width: float) -> str:
    """Format half the width of a share's interval in percentage points, to two digits."""
    return f"{100 * half_width:.2g}" if half_width >= _LEAST_HALF_WIDTH else "0.0001"


def _format_times_mean(topic: TopicResult) -> str:
    records, by_bytes = (imbalance.max_mean_ratio.value for imbalance in (topic.by_records, topic.by_bytes))
    if by_bytes > records * _MUCH_MORE:
        return f"{ratio(records)} times the mean by records, {ratio(by_bytes)} by bytes"
    return f"{ratio(records)} times the mean"


# --- bars and excerpts -------------------------------------------------------------------------------

_T = TypeVar("_T")

MARK = "│"
"""The mark of the mean in a bar."""
_FULL, _HALF, _TRACE = "█", "▌", "▏"


class Scale(Value):
    """The scale of bars, on which the longest bar is as wide as the room.

    Attributes:
        top: The largest share.
        mean: The mean share, marked in every bar.
        room: The characters of the longest bar, at least 1.
    """

    top: float
    mean: float
    room: int

    def bar(self, share: float) -> str:
        """Draw a bar to half a character, with the mark of the mean; a share above 0 is always visible."""
        halves = round(2 * self.room * share / self.top) if self.top > 0 else 0
        drawn = _FULL * (halves // 2) + _HALF * (halves % 2)
        # A partition with few records must not look like an empty one.
        if share > 0 and not drawn:
            drawn = _TRACE
        if self.top <= 0:
            return drawn
        # The mean of an even topic is at the end of the longest bar, and must stay within its room.
        place = min(self.room - 1, int(self.room * self.mean / self.top))
        padded = drawn.ljust(self.room)
        return (padded[:place] + MARK + padded[place + 1 :]).rstrip()


class Excerpt(Value, Generic[_T]):
    """The items to list, in order, and those between the two parts that are only summed."""

    first: tuple[_T, ...]
    left_out: tuple[_T, ...] = ()
    last: tuple[_T, ...] = ()


def select_excerpt(
    items: Iterable[_T], size: Callable[[_T], float], *, most: int | None, last: int
) -> Excerpt[_T]:
    """Return all items if there are at most `most`, else the largest and the `last` smallest."""
    given = tuple(items)
    if most is None or len(given) <= most:
        return Excerpt(given)
    ordered = tuple(sorted(given, key=size, reverse=True))
    first = most // 2 - last
    return Excerpt(ordered[:first], ordered[first : len(ordered) - last], ordered[len(ordered) - last :])


# --- earlier reports ---------------------------------------------------------------------------------

TREND_METRICS = (MAX_MEAN_RATIO, HOTTEST_KEY_SHARE, DISTINCT_KEYS)
"""The metrics that a trend shows."""


class Moment(Value):
    """The metrics of a topic in one report.

    Attributes:
        time: The time of the report.
        metrics: The metrics in TREND_METRICS.
    """

    time: datetime
    metrics: Mapping[str, Estimate]


class Trend(Value):
    """A topic over time, oldest first, the current report last; `left_out` moments did not fit."""

    moments: tuple[Moment, ...]
    left_out: int = 0


def build_trends(report: SkewReport, history: Iterable[MetricRow], most: int) -> dict[str, Trend]:
    """Return the trend, of at most `most` moments, of every topic that has earlier rows.

    Rows of another cluster and rows that are not older than the report are ignored, and so are reports in
    which the topic had no records, and therefore no figures.
    """
    present = metric_rows(report)
    now = max((row.sampled_at for row in present), default=None)
    # The history may contain this report already, or later ones.
    earlier = (row for row in history if now is not None and row.sampled_at < now)
    metrics_by_topic: dict[str, dict[datetime, dict[str, Estimate]]] = {
        topic.name: {} for topic in report.topics
    }
    for row in (*earlier, *present):
        # Topics of other clusters may have the same name.
        relevant = row.topic in metrics_by_topic and row.cluster_id == report.cluster_id
        if relevant and row.partition is None and row.metric in TREND_METRICS:
            metrics_by_topic[row.topic].setdefault(row.sampled_at, {})[row.metric] = row.estimate
    moments = {
        name: [
            Moment(time, by_time[time])
            for time in sorted(by_time)
            if len(by_time[time]) == len(TREND_METRICS)
        ]
        for name, by_time in metrics_by_topic.items()
    }
    return {
        name: _thin_out(topic_moments, most)
        for name, topic_moments in moments.items()
        if len(topic_moments) > 1 and topic_moments[-1].time == now
    }


def _thin_out(moments: Sequence[Moment], most: int) -> Trend:
    """Keep the most skewed of neighbouring moments if not all fit, and always the last one."""
    # The last moment is always kept, so the others share `most - 1` places.
    size = -(-(len(moments) - 1) // (most - 1))
    past = moments[:-1]
    kept = [
        # A mean of several reports would hide a short skew, which is what a trend is searched for.
        max(past[start : start + size], key=lambda moment: moment.metrics[MAX_MEAN_RATIO].value)
        for start in range(0, len(past), size)
    ]
    return Trend((*kept, moments[-1]), len(past) - len(kept))
