"""What the counts show about the log."""

from __future__ import annotations

from spark_validation.analysis import sample_notes
from spark_validation.windows import plan_windows
from tests.support.skew_simulation import (
    SimulatedTopic,
    compacted,
    empty,
    few_keys,
    produced,
    sampled,
    spans,
    uniform,
)


def noted(topic: SimulatedTopic, records: int = 6_000) -> list[str]:
    plan = plan_windows(spans(topic), records=records, seed=1)
    tally, _ = sampled(topic, plan)
    return [*sample_notes(tally, plan)]


def test_nothing_is_said_of_a_plain_topic() -> None:
    assert noted(uniform(60_000)) == []


def test_partitions_without_records_are_named() -> None:
    topic = few_keys(60_000)
    without = [str(number) for number in range(12) if not topic.records[number]]
    assert noted(topic) == [f"Partitions {', '.join(without[:-1])} and {without[-1]} have no records."]
    assert noted(produced([0, 1, 2, 5], [b"%d" % n for n in range(6)], 2)) == []
    assert noted(produced([0] * 9, [b"a"], 2)) in (
        ["Partition 0 has no records."],
        ["Partition 1 has no records."],
    )


def test_many_partitions_without_records_are_counted() -> None:
    assert noted(produced([0] * 9, [b"a"], 30)) == ["29 partitions have no records."]


def test_an_empty_topic_needs_no_list_of_its_partitions() -> None:
    assert noted(empty()) == []


def test_offsets_without_a_record_are_told_in_per_cent() -> None:
    (note,) = noted(compacted(uniform(60_000), kept=0.75), 60_000)
    assert note.startswith("2")
    assert "% of the 60,000 offsets read have no record" in note


def test_a_single_missing_offset_is_not_rounded_to_nothing() -> None:
    (note,) = noted(compacted(uniform(60_000), kept=0.9999), 60_000)
    assert note.startswith("Less than 0.1 % of the 60,000 offsets read")


def test_a_log_without_any_record_left_is_told() -> None:
    (note,) = noted(compacted(uniform(60_000), kept=0.0), 60_000)
    assert note.startswith("All of the 60,000 offsets read have no record")


def test_few_windows_are_told() -> None:
    (note,) = noted(uniform(60_000, partitions=40))
    assert note.startswith("Only 4 windows were read of each partition")
