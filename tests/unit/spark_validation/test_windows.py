"""Windows over the offsets of a topic, and the reads of tasks: ranges of windows in parts of like size."""

import itertools
from collections import Counter, defaultdict
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
from spark_validation.windows import (
    MAX_GROWTH,
    MAX_PER_PARTITION_LATER,
    SMALLEST,
    SamplePlan,
    Span,
    Window,
    larger_plan,
    plan_windows,
)


@st.composite
def all_spans(draw: st.DrawFn) -> list[Span]:
    lengths = draw(
        st.lists(st.integers(0, 400) | st.integers(0, 10**6) | st.just(0), min_size=1, max_size=150)
    )
    starts = draw(
        st.lists(st.integers(0, 10**12), min_size=len(lengths), max_size=len(lengths)) | st.just([])
    )
    begin = starts or [0] * len(lengths)
    return [Span(number, begin[number], begin[number] + length) for number, length in enumerate(lengths)]


first_plans = st.builds(
    lambda spans, records, seed: plan_windows(spans, records=records, seed=seed),
    all_spans(),
    st.integers(0, 10**6),
    st.integers(0, 2**32),
)
found = st.sampled_from([0.0, 0.01, 0.3, 1.0])
"""The part of the offsets that have a record."""


def larger(plan: SamplePlan, part: float, share: float) -> SamplePlan:
    return larger_plan(plan, [int(offsets * part) for offsets in plan.offsets_read], share=share)


plans = first_plans | st.builds(larger, first_plans, found, st.floats(0.0, 1.0))


def group_by_partition(plan: SamplePlan) -> dict[int, list[Window]]:
    found = defaultdict(list)
    for window in plan.windows:
        found[window.partition].append(window)
    return found


@given(plans)
def test_windows_read_or_sample_each_partition_in_order(plan: SamplePlan) -> None:
    found = group_by_partition(plan)
    for span in plan.spans:
        windows = found[span.partition]
        assert bool(windows) == bool(span.records)
        assert all(span.start <= window.start < window.end <= span.end for window in windows)
        gaps = [second.start - first.end for first, second in itertools.pairwise(windows)]
        assert all(gap >= 0 for gap in gaps)
        replicates = [window.replicate for window in windows]
        assert replicates == sorted({*replicates} & {*range(plan.replicates)})
        if plan.read_whole[span.partition]:
            assert not windows or (windows[0].start, windows[-1].end) == (span.start, span.end)
            assert not any(gaps)
            continue
        assert len(windows) == plan.replicates
        (length,) = {window.end - window.start for window in windows}
        assert length >= SMALLEST
        for window in windows:
            assert span.start + span.records * window.replicate // plan.replicates <= window.start
            assert window.end <= span.start + span.records * (window.replicate + 1) // plan.replicates


@given(plans)
def test_weights_restore_population(plan: SamplePlan) -> None:
    for span, read, weight, read_whole in zip(
        plan.spans, plan.offsets_read, plan.weights, plan.read_whole, strict=True
    ):
        assert abs(read * weight - span.records) <= 1e-6 * max(1, span.records)
        assert (read == 0) == (span.records == 0)
        assert read_whole == (read == span.records)
    assert plan.full == all(plan.read_whole)
    assert plan.records == sum(plan.offsets_read)


@given(all_spans(), st.integers(0, 10**6), st.integers(0, 2**32))
def test_planned_records_are_near_requested(spans: list[Span], records: int, seed: int) -> None:
    plan = plan_windows(spans, records=records, seed=seed)
    total = sum(span.records for span in spans)
    least = sum(min(span.records, SMALLEST * plan.replicates) for span in spans)
    assert plan.records >= min(total, records) - (plan.replicates + 1) * len(spans)
    # A tenth more where what would be skipped is read; half a record of each partition from rounding.
    assert plan.records <= (max(records, 0) + least + len(spans)) / 0.9


def test_window_starts_cover_whole_slice() -> None:
    """Also at its very beginning and end: records at the edges are as likely to be seen."""
    span = Span(0, 1_000, 1_000 + 16_000)
    firsts = set()
    for seed in range(2_000):
        plan = plan_windows([span], records=14_240, seed=seed)
        assert plan.replicates == 16
        firsts |= {(window.replicate, window.start) for window in plan.windows}
    for number in range(16):
        edge = 1_000 + number * 1_000
        starts = {start for which, start in firsts if which == number}
        assert starts == set(range(edge, edge + 1_000 - 890 + 1))


@given(first_plans, found, st.floats(0.0, 1.0))
def test_larger_sample_grows_partitions_within_bounds(plan: SamplePlan, part: float, share: float) -> None:
    larger_part = larger(plan, part, share)
    assert larger_part.spans == plan.spans
    assert plan.replicates <= larger_part.replicates <= min(2 * plan.replicates, MAX_PER_PARTITION_LATER)
    for span, before, after in zip(plan.spans, plan.offsets_read, larger_part.offsets_read, strict=True):
        # The windows are of equal length, so that a few offsets less than wanted are read.
        assert after >= min(
            span.records, min(before * MAX_GROWTH, span.records * share) - larger_part.replicates
        )
        assert after > before - larger_part.replicates
        assert after <= max(MAX_GROWTH * before / 0.9, before) + 1


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
