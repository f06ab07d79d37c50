"""Skew reports on a terminal and on GitHub: what is said, what fits, and what foreign text cannot do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kafkaform.core.printable import is_plain
from kafkaform.core.values import replace
from kafkaform.report.bars import MARK
from kafkaform.report.markdown import LIMIT, MIN_LIMIT
from kafkaform.report.page import Page
from kafkaform.report.skew import render_skew, render_skew_markdown
from spark_validation.results import Estimate, SkewCause, SkewFinding, SkewReport, SkewVerdict, TopicResult
from tests.support.markdown import REFERENCES, parse_markdown, show_in_code
from tests.support.plans.strategies import examples, hostile_text
from tests.support.skew import samples


def render_topics(*topics: TopicResult, width: int | None = 80, verbose: bool = False) -> Page:
    return render_skew(samples.report(*topics), width=width, verbose=verbose)


def lines(*topics: TopicResult, width: int | None = 80, verbose: bool = False) -> list[str]:
    return render_topics(*topics, width=width, verbose=verbose).plain.split("\n")


def markdown(*topics: TopicResult) -> str:
    return render_skew_markdown(samples.report(*topics))


def body(shown: list[str], header: str) -> list[list[str]]:
    """The words of the lines between a table's header and the next empty line."""
    start = next(number for number, line in enumerate(shown) if line.strip().startswith(header))
    rows = []
    for line in shown[start + 1 :]:
        if not line.strip():
            break
        rows.append(line.split())
    return rows


def table(text: str, header: str) -> list[list[str]]:
    """The cells of the rows of the Markdown table whose first column has this header."""
    shown = text.split("\n")
    start = next(number for number, line in enumerate(shown) if line.startswith(f"| {header} |"))
    rows = []
    for line in shown[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


# --- what is said ----------------------------------------------------------------------------------


def test_advice_of_single_topic_is_not_repeated_as_hint() -> None:
    hint = "split the hottest key"
    topic = replace(
        samples.hot(),
        advice=("Split the hottest key.",),
        findings=(SkewFinding("KF501", "error", "uneven", hint),),
    )
    assert f"hint: {hint}" not in render_topics(topic).plain
    assert f"hint: {hint}" in render_topics(topic, replace(topic, name="other")).plain


def test_policy_reason_is_printed_once() -> None:
    judged = replace(samples.hot(), policy=SkewVerdict("warn", ("nobody can tell", "nor that")))
    assert "  Policy: nobody can tell." in lines(judged)
    found = replace(judged, findings=(SkewFinding("KF501", "warning", "nobody can tell"),))
    shown = "\n".join(lines(found))
    assert (shown.count("nobody can tell"), shown.count("nor that")) == (1, 1)


def test_colour_follows_the_verdict() -> None:
    for made, style in (
        (samples.failing(samples.hot()), "bold red"),
        (samples.add_unknown_policy(samples.hot()), "bold yellow"),
        (samples.passing(samples.hot()), "bold green"),
        (samples.hot(), "bold"),
    ):
        text = render_topics(made).text
        place = text.plain.index("hot keys")
        assert [str(span.style) for span in text.spans if span.start == place] == [style]


@pytest.mark.parametrize("render", [render_skew_markdown, partial(render_skew, width=None)])
def test_keys_are_printed_only_if_in_report(render: Callable[[SkewReport], str | Page]) -> None:
    def show(topic: TopicResult) -> str:
        made = render(samples.report(topic))
        return made if isinstance(made, str) else made.plain

    hidden = replace(samples.hot(), hot_keys=(samples.key("tenant-0", 0.3, [4]),))
    known = replace(hidden, hot_keys=(samples.key("tenant-0", 0.3, [4], shown=True),))
    empty = replace(hidden, hot_keys=(samples.key("", 0.2, [4]),))
    assert [("tenant-0" in show(item), "--show-keys" in show(item)) for item in (hidden, known, empty)] == [
        (False, True),
        (True, False),
        (False, False),
    ]
    assert "(empty key)" in show(empty)
    assert "e3b0c442" not in show(empty)


# --- tables ----------------------------------------------------------------------------------------


def test_columns_depend_on_known_figures() -> None:
    assert body(lines(samples.build_compacted()), "PARTITION")[0][:5] == [
        "0",
        "23.8",
        "%",
        "952,381",
        "1,269,841",
    ]
    assert "OFFSETS" not in "\n".join(lines(samples.hot()))
    assert "ON DISK" not in "\n".join(lines(samples.build_compacted()))
    assert "PEAK" not in "\n".join(lines(samples.hot()))


@pytest.mark.parametrize(("made", "shown"), [(samples.hot(), True), (samples.build_compacted(), False)])
def test_estimates_have_intervals(made: TopicResult, shown: bool) -> None:
    header = next(line for line in lines(made, width=120) if "PARTITION " in line)
    assert ("INTERVAL" in header) == shown
    assert "│" in header
    assert ("| 95 % interval |" in markdown(made)) == shown


def test_exact_share_is_marked_exact_beside_estimates() -> None:
    made = samples.hot()
    sure = replace(made.hot_keys[0], share=Estimate.exact(0.3))
    assert "exact" in body(lines(replace(made, hot_keys=(sure, *made.hot_keys[1:]))), "KEY SHA-256")[0]


def test_fullest_and_emptiest_of_many_partitions_are_listed() -> None:
    made = samples.large()
    rows = body(lines(made), "PARTITION")
    assert len(rows) == 17
    assert rows[0][:2] == ["77", "6.39"]
    assert rows[12][:5] == ["…", "104", "more", "81.3", "%"]
    assert rows[12][-5:] == ["0.71", "to", "0.851", "%", "each"]
    assert [row[0] for row in rows[13:]] == ["46", "69", "92", "115"]
    shares = [float(row[1]) for row in rows if row[0] != "…"]
    assert shares == sorted(shares, reverse=True)
    cells = table(markdown(made), "Partition")
    assert [row[0] for row in cells[12:]] == ["… 104 more", "46", "69", "92", "115"]
    records = sum(int(row[3].replace(",", "")) for row in cells)
    assert records == pytest.approx(sum(partition.records.value for partition in made.partitions), abs=100)


def test_verbose_shows_every_partition_member_and_key() -> None:
    shown = lines(samples.large(), verbose=True)
    assert [row[0] for row in body(shown, "PARTITION")] == [str(number) for number in range(120)]
    assert len(body(shown, "MEMBER")) == 122
    assert body(shown, "MEMBER")[-1] == ["122", "0", "%", "-", MARK]
    made = replace(samples.hot(), hot_keys=tuple(samples.key(f"k{item}", 0.02) for item in range(14)))
    for verbose, number in ((False, 10), (True, 14)):
        rows = body(lines(made, verbose=verbose), "KEY SHA-256")
        assert len([row for row in rows if "B" in row]) == number
    assert any(line.startswith("  … 4 more keys ") for line in lines(made))


def test_keys_with_peaks_fit_80_columns() -> None:
    keys = [
        samples.key(f"customer-{4711 + number}", 0.006, range(9), shown=True, peak=48.1) for number in (1, 2)
    ]
    for shown in (keys, [replace(key, key=None) for key in keys]):
        made = lines(replace(samples.bursty(), hot_keys=tuple(shown)))
        assert "PEAK" in "".join(made)
        assert [line for line in made if len(line) > 80] == []


# --- widths, room and hostile text -----------------------------------------------------------------


@pytest.mark.parametrize("width", [*range(80, 90), 100, 120])
def test_lines_fit_terminal_and_keep_percent_signs(width: int) -> None:
    topics = [*samples.everything(), samples.topic("one.v1", [1], population=5, read=5, keys=1)]
    for line in lines(*topics, width=width):
        assert cell_len(line) <= width, line
        assert not line.strip().startswith("%"), line


def test_nan_and_infinity_are_not_printed() -> None:
    topics = (*samples.everything(), samples.topic("t", [1, 1e9], population=10**12, read=3))
    for text in (render_topics(*topics, verbose=True).plain, markdown(*topics)):
        assert not re.search(r"\b(nan|inf)\b", text, re.IGNORECASE)


@pytest.mark.parametrize("padding", ["", "`|" * 115])
def test_many_topics_are_bounded_and_counted(padding: str) -> None:
    large = samples.large()
    text = markdown(*(samples.failing(replace(large, name=f"t{n}.{padding}")) for n in range(200)))
    assert len(text) <= LIMIT
    noted = re.search(r"^… ([0-9,]+) more topics? left out", text, re.MULTILINE)
    assert len(table(text, "Name")) + (int(noted[1]) if noted else 0) == 200
    folded = re.search(r"^… details of ([0-9,]+) more topics left out", text, re.MULTILINE)
    assert folded is not None
    assert text.count("<details>") + int(folded[1]) == 200
    assert text.count("<details>") >= 1
    assert padding or len(table(text, "Name")) == 200


@given(st.integers(MIN_LIMIT, 20_000), st.integers(0, 12), hostile_text())
def test_report_is_within_limit(limit: int, count: int, name: str) -> None:
    report = samples.report(*(samples.failing(samples.hot(f"{name}{number}")) for number in range(count)))
    report = replace(report, cluster_id=name * 40, cluster_name=name * 40)
    assert len(render_skew_markdown(report, limit=limit)) <= limit


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
        policy=SkewVerdict("fail", (prose, name)),
        partitioners={name: 0.4},
        what_if_withheld=prose,
    )


@examples(2)
@given(hostile_text(min_size=1), hostile_text(), st.sampled_from([None, 10, 30, 80]))
def test_hostile_text_is_escaped(name: str, prose: str, width: int | None) -> None:
    made = samples.report(hostile_topic(name, prose), samples.build_balanced())
    made = replace(made, cluster_name=name, cluster_id=prose, created_at=prose)
    shown = render_skew(made, width=width, verbose=True).plain
    text = render_skew_markdown(made)
    assert all(char == "\n" or is_plain(char) for char in shown + text)
    # `test_report_document.py` shows the same of any document, with its outline.
    found = parse_markdown(text)
    assert found.headings == ["kafkaform skew", "Findings"]
    assert len(found.html) == 2 * 2
    assert show_in_code(name) in found.spans
    assert not [plain for plain in found.texts if REFERENCES.search(plain)]
