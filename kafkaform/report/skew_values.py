"""The figures of a skew report as words, as bars of text, and over time, the same in every format."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.core.printable import clipped
from kafkaform.core.units import coarse_duration, rounded_size
from kafkaform.core.wording import counted
from spark_validation.arrivals import COMMON, EVEN_RATIO, MADE, Spread
from spark_validation.figures import NOTHING, format_estimate, percent, ratio
from spark_validation.wording import DIAGNOSES, name_diagnosis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_validation.results import (
        GroupResult,
        HotKeyResult,
        PartitionResult,
        SampleResult,
        SkewCause,
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

_WORST = (FAIL, UNKNOWN, WARN, NONE, PASS)
_MAX_NUMBERS = 6
# The least that is shown is 0.0001 percentage points, as for shares.
_MIN_HALF_WIDTH = 1e-6
_MUCH_MORE = 1.25
_MAX_KEYS = 3
_DIFFERS = 0.05
_NOTABLE = 0.05
_BURSTY = 2.0


# --- single figures --------------------------------------------------------------------------------


def size(value: float | None) -> str:
    """Format a size in bytes: `1.3 GiB`."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return rounded_size(round(value)) if value >= 1024 else f"{round(value)} B"


def numbers(values: Sequence[int], few: int = _MAX_NUMBERS) -> str:
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
    return clipped(name_diagnosis(name), 60)


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
    return topic.hot_keys[: min(most, max(notable, _MAX_KEYS))]


def is_notable(topic: TopicResult, key: HotKeyResult) -> bool:
    """Return whether a key alone fills a twentieth of a mean partition."""
    # As a part of a partition, not of all records: with 100 partitions, a key with 1 % fills one.
    return max(key.share.value, key.byte_share.value) * len(topic.partitions) >= _NOTABLE


def is_bursty(topic: TopicResult, key: HotKeyResult) -> bool:
    """Return whether a key has a peak worth showing; peaks of keys that are not notable are chance."""
    return key.peak > _BURSTY and is_notable(topic, key)


def describe_spread(topic: TopicResult) -> str:
    """Return the sentence on how evenly records are spread, without untrusted text."""
    if is_empty(topic):
        return "There are no records to measure."
    if topic.diagnosis == "too_little_data":
        return "There are too few records to say how they spread over partitions."
    if topic.spread == Spread.UNKNOWN:
        return "How the records of this period are spread over partitions is not known."
    imbalances = (topic.by_records, topic.by_bytes)
    if topic.spread == Spread.UNEVEN:
        spread = "unevenly"
    # Up to the ratio that chance makes, an uneven spread is as even as these keys can be.
    elif max(by.max_mean_ratio.low for by in imbalances) > EVEN_RATIO:
        spread = "as evenly as chance spreads such keys"
    else:
        spread = "evenly"
    records, by_bytes = (by.max_mean_ratio.value for by in imbalances)
    ratios = f"{ratio(records)} times the mean"
    if by_bytes > records * _MUCH_MORE:
        ratios += f" by records, {ratio(by_bytes)} by bytes"
    partitions = counted(len(topic.partitions), "partition")
    return f"Records are spread {spread}: the fullest of {partitions} has {ratios}."


def key_name(key: HotKeyResult) -> str:
    """Return the name of a key: the start of its hash, unless it is empty."""
    return key.key_hash if key.key_length else "(empty key)"


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
        causes = Counter(DIAGNOSES.get(topic.diagnosis, "other") for topic in topics)
        counts = [f"{name} ({number:,})" if len(topics) > 1 else name for name, number in causes.items()]
    return f"{counted(len(topics), 'topic')}{': ' if counts else ''}{', '.join(counts)}"


def _format_points(half_width: float) -> str:
    """Format half the width of a share's interval in percentage points, to two digits."""
    return f"{100 * half_width:.2g}" if half_width >= _MIN_HALF_WIDTH else "0.0001"
