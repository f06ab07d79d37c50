"""Windows over the offsets of a topic."""

import itertools
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

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
def test_larger_sample_grows_every_partition_within_bounds(
    plan: SamplePlan, part: float, share: float
) -> None:
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
