"""Rules about the retention of topics."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Severity
from kafkaform.core.units import format_duration, format_size, rounded_down, rounded_duration
from kafkaform.core.wording import setting
from kafkaform.rules.catalogue import Finding
from kafkaform.rules.topic_values import (
    KEPT,
    RETENTION_CHECK_MS,
    ConfigValue,
    DeclaredTopic,
    human,
    topic_rule,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIME, _SIZE = "retention.ms", "retention.bytes"
_POLICY = CONFIG_PREFIX + "cleanup.policy"
# With 4 segments in the retention, data stays at most a quarter longer than declared.
_SEGMENTS_KEPT = 4
_MIB = 2**20
_NEVER_MS = 2**63 - 1
"""Kafka's value for "never" in configs in milliseconds."""


@topic_rule("KF110", Severity.WARNING, CONFIG_PREFIX + _TIME)
def recovery_window(topic: DeclaredTopic) -> Iterator[Finding]:
    """The retention is shorter than the project's recovery window.

    A consumer that is down for longer loses records. Raise the retention, or waive the rule if they are
    worthless. The window is `limits.recoveryWindow` in kafkaform.yaml.
    """
    window = topic.context.limits.recovery_window_ms
    value = topic.find_effective(_TIME) if window is not None else None
    if window is None or value is None or value.number is None or not 0 <= value.number < window:
        return
    if "delete" in topic.policies:
        yield Finding(
            f"{_TIME} is {value.shown}, shorter than the recovery window of {human(_TIME, window)}",
            f"write {topic.rewrite(_TIME, format_duration(window))} or more",
        )


@topic_rule("KF111", Severity.WARNING)
def retention_within_segment(topic: DeclaredTopic) -> Iterator[Finding]:
    """The retention is less than a segment, so data stays far longer than declared.

    Kafka deletes whole segments, so the oldest record stays for retention.ms and segment.ms together: 8
    days with `retention: 1d` and the default segment.ms of 7d; bytes likewise. Set segment.ms or
    segment.bytes well below the retention.
    """
    for name, segment_name in ((_TIME, "segment.ms"), (_SIZE, "segment.bytes")):
        if topic.find_declared(name) is None and topic.find_declared(segment_name) is None:
            continue
        retention, segment = topic.find_effective(name), topic.find_effective(segment_name, kafka=True)
        if retention is not None and segment is not None and "delete" in topic.policies:
            yield from _report_late_deletion(retention, segment)


@topic_rule("KF112", Severity.WARNING)
def compaction(topic: DeclaredTopic) -> Iterator[Finding]:
    """A compacted topic declares settings that do not fit compaction.

    With `compact` alone, retention.ms and retention.bytes have no effect. Remove them, set them to null
    if they come from a default, or use `compact,delete`. A compacted topic cannot have `keyed: false`.
    """
    present = topic.policies
    if "compact" not in present:
        return
    for name in (_TIME, _SIZE) if "delete" not in present else ():
        value = topic.find_declared(name)
        # "Unlimited" is the effect of compaction anyway.
        if value is not None and value.text != "-1":
            yield Finding(
                f"{name} is {value.shown}, but has no effect: cleanup.policy is compact alone",
                f"remove {name}, or write {setting(_POLICY, 'compact,delete')}",
                path=CONFIG_PREFIX + name,
            )
    if topic.desired.intent.keyed is False:
        yield Finding(
            f"cleanup.policy is {','.join(sorted(present))}, but keyed is false: "
            "compaction keeps the last record of each key, and brokers refuse records without one",
            f"write `keyed: true`, or {setting(_POLICY, 'delete')}",
            path="keyed",
        )


@lru_cache(maxsize=KEPT)
def _report_late_deletion(retention: ConfigValue, segment: ConfigValue) -> tuple[Finding, ...]:
    """Return a finding if records stay much longer than the retention."""
    name, least, whole = retention.name, retention.number, segment.number
    if least is None or whole is None or not 0 <= least < whole:
        return ()
    # So short a retention is most likely a number without its unit, which KF115 reports.
    if name == _TIME and least < RETENTION_CHECK_MS:
        return ()
    if name == _SIZE:
        effect = f"a partition keeps up to {human(name, least + whole)}"
    elif least + whole >= _NEVER_MS:
        effect = "records stay until a segment is full"
    else:
        effect = f"records stay for up to {rounded_duration(least + whole)}"
    text = f"{name} is {retention.shown}, {segment.name} is {segment.shown}: {effect}"
    path = CONFIG_PREFIX + (segment.name if segment.declared else name)
    return (Finding(text, _smaller_segments(retention, segment, least), path=path),)


def _smaller_segments(retention: ConfigValue, segment: ConfigValue, least: int) -> str:
    smallest = kafka_configs.topic_configs()[segment.name].minimum
    if smallest is not None and least <= smallest:
        return f"raise {retention.name} well above {human(segment.name, int(smallest))}, the smallest segment"
    quarter = least // _SEGMENTS_KEPT
    if retention.name == _TIME:
        # In a unit that people write: `42h`, not `42h 30m`.
        value = format_duration(rounded_down(quarter))
    else:
        value = format_size(max(quarter - quarter % _MIB, int(smallest or 1)))
    return f"write {setting(CONFIG_PREFIX + segment.name, value)} or less"
