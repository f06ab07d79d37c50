"""Tests of the reads of tasks: ranges of windows, cut into parts of about the same size."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_validation import measure
from spark_validation.kafka_source import (
    Range,
    divide_into_rounds,
    divide_into_tasks,
    make_fetch_options,
    pack_tasks,
    unpack_task,
)
from spark_validation.windows import SamplePlan, Span, plan_windows


def plan_sample(lengths: Sequence[int], records: int, log_bytes: int | None = None) -> SamplePlan:
    spans = [Span(number, 10, 10 + length, log_bytes) for number, length in enumerate(lengths)]
    return plan_windows(spans, records=records, seed=1)


def offsets_of(ranges: Sequence[Range]) -> Counter[tuple[int, int, int, int]]:
    """Offsets by topic, partition and replicate."""
    return Counter(
        (found.topic, found.partition, replicate, offset)
        for found in ranges
        for replicate, start, end in zip(found.replicates, found.edges, found.edges[1:], strict=False)
        for offset in range(start, end)
    )


@given(
    st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(100, 2_000),
    st.integers(1, 5),
)
def test_every_planned_offset_is_in_single_task(topics: list[list[int]], records: int, slots: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_validation.kafka_source._MIN_TASK_RECORDS", 60)
        patch.setattr("spark_validation.kafka_source._RANGE_COST", 5)
        plans = [plan_sample(lengths, records) for lengths in topics]
        found = divide_into_tasks(plans, slots)
    read = offsets_of([item for task in found for item in task])
    wanted = Counter(
        (number, window.partition, window.replicate, offset)
        for number, plan in enumerate(plans)
        for window in plan.windows
        for offset in range(window.start, window.end)
    )
    assert read == wanted
    assert [unpack_task(data) for data in pack_tasks(found)] == found
    assert all(found)


def test_long_ranges_are_divided_into_equal_tasks() -> None:
    found = divide_into_tasks([plan_sample([40_000_000, 1_000, 0, 1_000], 10**9)], 4)
    assert len(found) == 16  # rounds of four
    costs = [sum(item.cost for item in task) for task in found]
    assert max(costs) < 1.1 * min(costs)
    assert max(costs) < 3_000_000


def test_windows_of_partition_are_read_sequentially() -> None:
    short = [Range(0, part, (start, start + 5), (0,)) for part in (0, 1) for start in (0, 50)]
    long = Range(0, 2, (0, 100_000), (0,))
    assert list(divide_into_rounds([*short, long])) == [[long], [short[0], short[2]], [short[1], short[3]]]


def test_fetch_size_follows_window_size() -> None:
    """1,000 partitions, four windows of 250 records of 1 kB each."""
    plan = plan_windows([Span(n, 0, 10**6, 10**9) for n in range(1_000)], records=10**6, seed=1)
    for task in divide_into_tasks([plan], 4):
        requested = make_fetch_options(task)
        assert 250_000 <= requested["max.partition.fetch.bytes"] < 400_000
        assert requested["queued.min.messages"] == 1
        assert [len(found) for found in divide_into_rounds(task)] == [250] * 4


def test_small_topics_share_reducer_and_large_topics_have_many() -> None:
    reducers = measure.divide([10] * 50 + [5_000_000] + [10] * 50, 4)
    small = {number for of in (*reducers.of[:50], *reducers.of[51:]) for number in of}
    assert reducers.count == 7
    assert len(reducers.of[50]) == 7
    assert len(small) == 2
    assert measure.divide([20_000], 8).count == 1
    assert measure.divide([0, 0], 8).of == (range(1), range(1))
