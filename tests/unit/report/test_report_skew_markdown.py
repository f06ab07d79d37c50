"""A skew report as a comment on GitHub: what a reviewer sees, what fits, and what foreign text cannot do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.printable import is_plain
from kafkaform.core.values import replace
from kafkaform.report.markdown import LIMIT
from kafkaform.report.skew_markdown import LEAST, partition_chart, render_skew_markdown
from spark_validation.results import PartitionResult, SkewCause, SkewFinding, SkewVerdict, TopicResult
from tests.support.plans.strategies import examples, hostile_text
from tests.support.skew import samples
from tests.unit.report.test_report_markdown import REFERENCES, Parsed, parse, shown_in_code

HEADINGS = {"Findings", "Topics"}
OUR_HTML = re.compile(r"</?details>|<summary><code>[^<>]*</code>: [^<>]*</summary>")
TEXT = r'"[^"\n]*"'
NUMBER = r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
CHART = re.compile(
    rf"""xychart-beta
    title {TEXT}
    x-axis {TEXT} \[(?P<labels>{TEXT}(?:, {TEXT})*)\]
    y-axis {TEXT} 0 --> (?P<top>{NUMBER})
    bar \[(?P<bars>{NUMBER}(?:, {NUMBER})*)\]
    line \[(?P<line>{NUMBER}(?:, {NUMBER})*)\]
"""
)
"""The part of the grammar of Mermaid's `xychart-beta` that is used: numbers have no sign and no exponent."""


def markdown(*topics: TopicResult) -> str:
    return render_skew_markdown(samples.report(*topics))


def table(text: str, header: str) -> list[list[str]]:
    """The cells of the rows of the table whose first column has this header."""
    lines = text.split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


# --- what a reviewer sees --------------------------------------------------------------------------


def test_an_empty_key_is_named_in_words() -> None:
    text = markdown(replace(samples.hot(), hot_keys=(samples.key("", 0.2, [4]),)))
    assert table(text, "Key (SHA-256)")[0][0] == "`(empty key)`"
    assert "e3b0c442" not in text


def test_keys_are_shown_only_if_the_report_has_them() -> None:
    assert "tenant-0" not in markdown(samples.hot())
    made = replace(samples.hot(), hot_keys=(samples.key("tenant-0", 0.3, [4], shown=True),))
    assert table(markdown(made), "Key (SHA-256)")[0][1] == "`tenant-0`"


def test_of_many_partitions_the_table_has_the_fullest_and_the_emptiest() -> None:
    rows = table(markdown(samples.large()), "Partition")
    assert len(rows) == 13
    assert rows[0][0] == "77"
    assert rows[8][0] == "… 108 more"
    shown = sum(int(row[3].replace(",", "")) for row in rows)
    assert shown == pytest.approx(30_000_000, abs=100)


def test_of_many_keys_groups_and_notes_the_rest_is_counted() -> None:
    made = samples.hot()
    made = replace(
        made,
        groups=made.groups * 15,
        sample=replace(made.sample, notes=tuple(f"note {number}" for number in range(13))),
    )
    text = markdown(made)
    assert "\n… 9 more keys\n" in text
    assert "\n- … 1 more\n" in text
    assert "\n- … 3 more\n" in text


# --- the chart -------------------------------------------------------------------------------------


def charted(topic: TopicResult) -> re.Match[str]:
    (chart,) = parse(markdown(topic)).fences
    match = CHART.fullmatch(chart)
    assert match is not None, chart
    return match


def values(text: str) -> list[float]:
    return [float(number) for number in text.split(", ")]


@pytest.mark.parametrize("topic", [one for one in samples.everything() if one.diagnosis != "empty"])
def test_the_chart_is_in_the_grammar_and_has_the_shares(topic: TopicResult) -> None:
    chart = charted(topic)
    labels = [int(label.strip('"')) for label in chart["labels"].split(", ")]
    bars, line = values(chart["bars"]), values(chart["line"])
    assert len(labels) == len(bars) == len(line) == min(24, len(topic.partitions))
    assert len(set(labels)) == len(labels)
    assert bars == pytest.approx([100 * topic.partitions[one].share.value for one in labels], abs=0.001)
    assert line == pytest.approx([100 / len(topic.partitions)] * len(line), abs=0.001)
    assert max(bars) <= float(chart["top"]) <= 100


def test_of_many_partitions_the_fullest_are_drawn_and_that_is_said() -> None:
    chart = charted(samples.large())
    bars = values(chart["bars"])
    assert bars == sorted(bars, reverse=True)
    assert "the 24 fullest of 120" in chart.group()


def test_a_tiny_share_is_no_exponent() -> None:
    chart = charted(samples.topic("t", [1, 1e9], population=10**12))
    assert values(chart["bars"]) == [0.0, 100.0]


def test_one_partition_has_no_chart() -> None:
    one = samples.topic("one.v1", [1], population=5, read=5, keys=1)
    assert partition_chart(one) == []
    assert "mermaid" not in markdown(one)


def test_partitions_without_a_record_have_no_chart() -> None:
    nothing: tuple[PartitionResult, ...] = samples.empty().partitions
    assert partition_chart(replace(samples.balanced(), partitions=nothing)) == []


# --- what fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding", ["", "x" * 230, "`|" * 115])
def test_200_topics_fit_and_nothing_is_left_out_unsaid(padding: str) -> None:
    topics = [samples.failing(samples.large(f"t{number}.{padding}")) for number in range(200)]
    text = markdown(*topics)
    assert len(text) <= LIMIT
    rows = table(text, "Topic")
    noted = re.search(r"^… ([0-9,]+) more topics? left out", text, re.MULTILINE)
    assert len(rows) + (int(noted[1]) if noted else 0) == 200
    folded = re.search(r"^… details of ([0-9,]+) more topics left out", text, re.MULTILINE)
    assert folded is not None
    assert text.count("<details>") + int(folded[1]) == 200
    assert text.count("<details>") >= 1


def test_200_topics_with_usual_names_are_all_in_the_table() -> None:
    text = markdown(*(samples.failing(samples.large(f"team.orders.{number}.v1")) for number in range(200)))
    assert len(table(text, "Topic")) == 200


@given(st.integers(LEAST, 20_000), st.integers(0, 12), hostile_text())
def test_no_report_is_longer_than_its_limit(limit: int, count: int, name: str) -> None:
    report = samples.report(*(samples.failing(samples.hot(f"{name}{number}")) for number in range(count)))
    report = replace(report, cluster_id=name * 40, cluster_name=name * 40)
    assert len(render_skew_markdown(report, limit=limit)) <= limit


def test_a_limit_that_notes_alone_would_break_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 6,000"):
        render_skew_markdown(samples.report(), limit=5_999)


# --- what foreign text cannot do -------------------------------------------------------------------


def assert_harmless(text: str, *names: str) -> Parsed:
    assert all(char == "\n" or is_plain(char) for char in text)
    found = parse(text)
    assert set(found.headings[1:]) <= HEADINGS
    assert found.headings[0].startswith("kafkaform skew: ")
    assert not found.foreign
    assert not found.types & {"link_open", "image", "em_open", "s_open", "html_inline", "hr", "code_block"}
    assert not found.types & {"blockquote_open", "ordered_list_open", "lheading_open", "hardbreak"}
    for line in "".join(found.html).splitlines():
        assert OUR_HTML.sub("", line).strip() == "", line
    for plain in found.texts:
        assert not REFERENCES.search(plain), plain
    for fence in found.fences:
        assert CHART.fullmatch(fence), fence
    for name in names:
        assert shown_in_code(name) in found.spans
    return found


def hostile_topic(name: str, prose: str) -> TopicResult:
    made = samples.hot(name)
    return replace(
        made,
        diagnosis=prose,
        causes=(SkewCause(name, prose, 0.5), SkewCause("hot_keys", name)),
        advice=(prose, name),
        sample=replace(made.sample, seed=1234567, notes=(prose,)),
        groups=(replace(made.groups[0], name=name, assignor=prose),),
        hot_keys=(replace(samples.key("k", 0.3, [4]), key=name, key_hash="deadbeefcafe"),),
        findings=(SkewFinding("KF501", "error", prose, name),),
        policy=SkewVerdict("fail", (prose,)),
        partitioners={name: 0.4},
    )


@examples(2)
@given(hostile_text(min_size=1), hostile_text())
def test_hostile_text_changes_nothing_of_the_structure(name: str, prose: str) -> None:
    report = replace(
        samples.report(hostile_topic(name, prose), samples.balanced()),
        cluster_name=name,
        cluster_id=prose,
        created_at=prose,
    )
    found = assert_harmless(render_skew_markdown(report), name)
    assert len(found.fences) == 2
    assert [len(row) for row in found.rows[:3]] == [8, 8, 8]
    alone = samples.report(replace(hostile_topic(name, prose), policy=None))
    assert_harmless(render_skew_markdown(alone), name)


def test_names_and_keys_made_to_break_out_do_not() -> None:
    text = markdown(samples.hostile(), samples.failing(samples.hot()))
    assert_harmless(text)
    assert "%%{" not in "".join(parse(text).fences)


def test_nothing_is_shown_as_nan() -> None:
    text = markdown(*samples.everything(), samples.topic("t", [1, 1e9], population=10**12, read=3))
    assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)
