"""All that a skew report says of one topic, as Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.report.markdown_escape import code, code_block, prose
from kafkaform.report.skew_bars import selected
from kafkaform.report.skew_mermaid import partition_chart
from kafkaform.report.skew_values import (
    NOTHING,
    SPREAD_FIGURES,
    brief,
    cause,
    count,
    estimated,
    headline,
    is_bursty,
    notable_keys,
    numbers,
    ratio,
    sampled,
    share,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_validation.results import Cause, GroupResult, HotKeyResult, PartitionResult, TopicResult

MOST_ROWS = 24
_LAST_ROWS = 4
_MOST_KEYS = 10
_MOST_ITEMS = 12


def details(topic: TopicResult) -> str:
    """The parts of a topic that has records, with an empty line between them."""
    parts = [headline(topic), f"Read: {_sentence(sampled(topic.sample))}"]
    points = [
        *(f"Policy: {_sentence(one)}" for one in (topic.policy.reasons if topic.policy else ())),
        *(f"Cause: {_cause(one)}" for one in topic.causes),
        *(f"Advice: {_sentence(one)}" for one in topic.advice),
    ]
    parts += _list(points)
    parts += _list([f"Note: {_sentence(one)}" for one in topic.sample.notes])
    chart = partition_chart(topic)
    if chart:
        parts.append(code_block("mermaid", chart))
    parts.append(_partitions(topic))
    parts.append(_figures(topic))
    if topic.hot_keys:
        parts.append(_keys(topic))
    if topic.what_if:
        parts.append(_predictions(topic))
    parts += _list([f"Group {_group(one)}" for one in topic.groups])
    return "\n\n".join(parts)


def _list(items: Sequence[str]) -> list[str]:
    """A list, bounded; none without items."""
    shown = [f"- {item}" for item in items[:_MOST_ITEMS]]
    if len(items) > _MOST_ITEMS:
        shown.append(f"- … {len(items) - _MOST_ITEMS:,} more")
    return ["\n".join(shown)] if items else []


def _cause(one: Cause) -> str:
    part = "" if one.explains is None else f" It explains {share(one.explains, 0)} of the skew."
    return f"{prose(cause(one.name))}. {_sentence(one.evidence)}{part}"


def _partitions(topic: TopicResult) -> str:
    chosen = selected(topic.partitions, lambda one: one.share.value, most=MOST_ROWS, last=_LAST_ROWS)
    places = 2 if len(topic.partitions) > 100 else 1
    rows = [_partition(one, places) for one in chosen.first]
    if chosen.left_out:
        rows.append(_rest(chosen.left_out, places))
        rows += [_partition(one, places) for one in chosen.last]
    return _table(("Partition", "Share", "Records", "Offsets", "Bytes", "On disk", "Read"), rows)


def _partition(one: PartitionResult, places: int) -> tuple[str, ...]:
    return (
        str(one.partition),
        estimated(one.share, lambda value: share(value, places)),
        count(one.records.value),
        count(one.log_records),
        size(one.bytes.value),
        size(one.log_bytes),
        count(one.sampled_records),
    )


def _rest(left_out: Sequence[PartitionResult], places: int) -> tuple[str, ...]:
    known = [one.log_bytes for one in left_out if one.log_bytes is not None]
    return (
        f"… {len(left_out):,} more",
        share(math.fsum(one.share.value for one in left_out), places),
        count(math.fsum(one.records.value for one in left_out)),
        count(sum(one.log_records for one in left_out)),
        size(math.fsum(one.bytes.value for one in left_out)),
        size(sum(known) if known else None),
        count(sum(one.sampled_records for one in left_out)),
    )


def _figures(topic: TopicResult) -> str:
    rows = [
        (name, *(estimated(getattr(by, field), ratio) for by in (topic.by_records, topic.by_bytes)))
        for field, name in SPREAD_FIGURES.items()
    ]
    table = _table(("Spread", "By records", "By bytes"), rows)
    keys = f"{estimated(topic.distinct_keys, count)}, {topic.sampled_distinct_keys:,} of them read"
    keyless = f"{estimated(topic.null_key_share, share)} of the records"
    return f"{table}\n\nDistinct keys: {keys}. Without a key: {keyless}."


def _keys(topic: TopicResult) -> str:
    with_text = any(key.key is not None for key in topic.hot_keys)
    shown = notable_keys(topic, _MOST_KEYS)
    header = [
        "Key (SHA-256)",
        *(["Key"] if with_text else []),
        "Bytes",
        "Share",
        "Of bytes",
        "Partitions",
        "Peak",
    ]
    table = _table(header, [_key(topic, key, with_text=with_text) for key in shown])
    more = len(topic.hot_keys) - len(shown)
    return f"{table}\n\n… {counted(more, 'more key')}" if more else table


def _key(topic: TopicResult, key: HotKeyResult, *, with_text: bool) -> list[str]:
    text = NOTHING if key.key is None else code(brief(key.key), 120, cell=True)
    peak = f"{ratio(key.peak)} times, in {key.slices_seen:,} of {topic.sample.slices:,} slices"
    return [
        code(key.key_hash, 64, cell=True),
        *([text] if with_text else []),
        f"{key.key_length:,}",
        estimated(key.share, share),
        share(key.byte_share.value),
        numbers(key.partitions),
        peak if is_bursty(topic, key) else NOTHING,
    ]


def _predictions(topic: TopicResult) -> str:
    rows = [
        (
            f"{one.partitions:,}{' (now)' if one.partitions == len(topic.partitions) else ''}",
            estimated(one.max_mean_ratio, ratio),
            estimated(one.byte_max_mean_ratio, ratio),
            share(one.keys_moved),
            estimated(one.records_moved, share),
        )
        for one in topic.what_if
    ]
    return _table(("What if: partitions", "Fullest / mean", "By bytes", "Keys moved", "Records moved"), rows)


def _group(group: GroupResult) -> str:
    members = group.members
    parts = [f"{counted(len(members), 'member')} with {code(group.assignor, 80)}"]
    if members:
        busiest = max(member.share for member in members)
        parts.append(f"the busiest gets {share(busiest)}, {ratio(group.max_mean_ratio)} times the mean")
    idle = sum(not member.partitions for member in members)
    if idle:
        parts.append(f"{idle:,} would be idle")
    return f"{code(group.name)}: {'; '.join(parts)}."


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _sentence(text: str) -> str:
    return f"{prose(text.rstrip().rstrip('.'))}."
