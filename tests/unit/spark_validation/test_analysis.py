"""A topic's whole analysis: its samples, notes and groups, and its sentences in golden files."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from spark_validation import wording
from spark_validation.analysis import (
    ASSIGNORS,
    ENOUGH,
    PASSES,
    AnalysisContext,
    LogFacts,
    ReaderGroup,
    analyse,
    assign,
    plan_next_sample,
    sample_notes,
)
from spark_validation.arrivals import TopicArrivals
from spark_validation.key_counts import candidate_counts
from spark_validation.results import SkewLimits, TopicResult, to_json
from spark_validation.windows import SamplePlan, plan_windows
from tests.support.skew.analysis import SCENES, scene
from tests.support.skew.samples import report
from tests.support.skew.simulation import (
    SimulatedTopic,
    add_sizes,
    compact_log,
    count_sample,
    spans,
    uniform,
    zipf,
)

ZIPF = add_sizes(zipf(40_000, s=1.5))


def analyse_sample(topic: SimulatedTopic, records: int = 4_000) -> tuple[TopicResult, SamplePlan]:
    plan = plan_windows(spans(topic), records=records, seed=1)
    return analysed_by(topic, plan), plan


def analysed_by(topic: SimulatedTopic, plan: SamplePlan) -> TopicResult:
    counts, layout = count_sample(topic, plan, candidate_counts(topic.partitions, ()))
    return analyse("orders", counts, plan, layout, AnalysisContext(mode="sample", limits=SkewLimits()))


def test_larger_sample_reaches_requested_precision() -> None:
    topic = add_sizes(uniform(120_000, hot=0.3))
    first, plan = analyse_sample(topic, 3_000)
    precision = 0.008
    larger = plan_next_sample(first, plan, records=3_000, precision=precision)
    assert larger is not None
    assert plan.records < larger.records < 120_000
    second = analysed_by(topic, larger)
    assert second.sample.achieved is not None
    assert second.sample.achieved < 1.2 * precision
    assert plan_next_sample(second, larger, records=3_000, precision=1.2 * precision) is None


def test_sample_is_not_larger_than_topic() -> None:
    first, plan = analyse_sample(ZIPF)
    everything = plan_next_sample(first, plan, records=4_000, precision=1e-9)
    assert everything is not None
    assert everything.full
    assert plan_next_sample(first, plan, records=4_000, precision=0.5) is None
    assert plan_next_sample(first, plan, records=4_000, precision=None) is None
    whole = analysed_by(ZIPF, everything)
    assert plan_next_sample(whole, everything, records=10**9, precision=1e-9) is None
    with pytest.raises(ValueError, match="a precision must be above 0"):
        plan_next_sample(first, plan, records=4_000, precision=0.0)


@pytest.mark.parametrize("kept", [0.5, 0.13, 0.02])
def test_reading_continues_until_requested_records_are_read(kept: float) -> None:
    """Of offsets most may be empty; a few samples suffice, and no more is read than that takes."""
    topic = compact_log(uniform(200_000), kept=kept)
    wanted = min(3_000, int(topic.records.sum()))
    plan = plan_windows(spans(topic), records=3_000, seed=1)
    for _ in range(PASSES - 1):
        larger = plan_next_sample(analysed_by(topic, plan), plan, records=3_000, precision=None)
        if larger is None:
            break
        plan = larger
    result = analysed_by(topic, plan)
    assert plan_next_sample(result, plan, records=3_000, precision=None) is None
    assert ENOUGH * wanted <= result.sample.records <= 1.5 * wanted
    assert result.sample.offsets == plan.records > result.sample.records


SHARES = [0.4, 0.3, 0.1, 0.1, 0.1]


@pytest.mark.parametrize(
    ("assignor", "given_"),
    [
        ("range", [(0, 1), (2, 3), (4,)]),
        ("uniform", [(0, 1), (2, 3), (4,)]),
        ("roundrobin", [(0, 3), (1, 4), (2,)]),
        ("sticky", [(0, 3), (1, 4), (2,)]),
        ("cooperative-sticky", [(0, 3), (1, 4), (2,)]),
    ],
)
def test_partitions_are_assigned_as_by_assignor(assignor: str, given_: list[tuple[int, ...]]) -> None:
    found = assign(ReaderGroup("checkout", assignor, 3), SHARES)
    assert (found.name, found.assignor) == ("checkout", assignor)
    assert [member.partitions for member in found.members] == given_


@pytest.mark.parametrize(
    ("assignor", "members", "reason"),
    [
        ("com.acme.Own", 2, r"assignor 'com\.acme\.Own' is not known"),
        ("range", 0, "needs at least one member"),
    ],
)
def test_unknown_assignor_or_empty_group_is_refused(assignor: str, members: int, reason: str) -> None:
    with pytest.raises(ValueError, match=f"group g: .*{reason}"):
        assign(ReaderGroup("g", assignor, members), SHARES)


@given(st.sampled_from(sorted(ASSIGNORS)), st.integers(1, 200), st.integers(1, 200))
def test_partitions_are_assigned_once_and_evenly(assignor: str, partitions: int, members: int) -> None:
    found = assign(ReaderGroup("g", assignor, members), [1 / partitions] * partitions)
    dealt = [partition for member in found.members for partition in member.partitions]
    counts = [len(member.partitions) for member in found.members]
    assert sorted(dealt) == list(range(partitions))
    assert len(counts) == members
    assert max(counts) - min(counts) <= 1


def list_notes(topic: SimulatedTopic, records: int = 6_000, log: LogFacts | None = None) -> list[str]:
    plan = plan_windows(spans(topic), records=records, seed=1)
    counts, _ = count_sample(topic, plan)
    return [*sample_notes(counts, plan, log)]


def test_transaction_markers_are_noted_if_offsets_are_counted() -> None:
    topic = uniform(60_000)
    arrivals = TopicArrivals("t", None, (5_000,) * 12, (5_000,) * 12, since_made=True, transactional=True)
    assert list_notes(topic, log=LogFacts(arrivals)) == [], "records are counted"
    assert list_notes(topic, log=LogFacts(arrivals, compacted=True)) == [wording.MARKERS_COUNT]
    unread = LogFacts(replace(arrivals, transactional=None), compacted=None)
    assert list_notes(topic, log=unread) == [wording.CONFIGS_UNKNOWN]


def test_scene_sentences_match_golden(golden: SnapshotAssertion) -> None:
    lines = []
    for name in SCENES:
        result = scene(name)
        lines.append(f"## {name}\n")
        for cause in result.causes:
            part = "" if cause.explains is None else f" ({cause.explains:.3f})"
            lines.append(f"- {cause.name}{part}: {cause.evidence}")
        lines += [f"- advice: {sentence}" for sentence in result.advice]
        lines += [f"- note: {note}" for note in result.sample.notes]
        if result.what_if_withheld:
            lines.append(f"- no prediction: {result.what_if_withheld}")
        if result.policy:
            lines += [f"- {result.policy.status}: {reason}" for reason in result.policy.reasons]
        lines.append("")
        to_json(report(result))  # refuses what is not finite
        for found in (result.distinct_keys, result.null_key_share, *(p.share for p in result.partitions)):
            assert 0 <= found.low <= found.value <= found.high
    text = "\n".join(lines)
    assert text == golden(name="sentences.md")
    assert "customer-" not in text, "it shows a key"
