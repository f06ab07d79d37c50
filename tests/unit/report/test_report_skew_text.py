"""What a terminal shows of a skew report."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from kafkaform.core.printable import is_plain
from kafkaform.core.values import replace
from kafkaform.report.skew_html import render_skew_html
from kafkaform.report.skew_markdown import render_skew_markdown
from kafkaform.report.skew_text import render_skew
from kafkaform.report.skew_values import MARK, Scale, select_excerpt
from spark_validation.results import Estimate, SkewCause, SkewFinding, SkewReport, SkewVerdict, TopicResult
from tests.support.plans.strategies import hostile_text
from tests.support.skew import samples

BAR = re.compile(r"[█▌▏│ ]+$")


def rendered(*topics: TopicResult, width: int | None = 80, verbose: bool = False) -> Text:
    return render_skew(samples.report(*topics), width=width, verbose=verbose)


def lines(*topics: TopicResult, width: int | None = 80, verbose: bool = False) -> list[str]:
    return rendered(*topics, width=width, verbose=verbose).plain.split("\n")


def body(shown: list[str], header: str) -> list[list[str]]:
    """The words of the lines between a table's header and the next empty line."""
    start = next(number for number, line in enumerate(shown) if line.strip().startswith(header))
    rows = []
    for line in shown[start + 1 :]:
        if not line.strip():
            break
        rows.append(line.split())
    return rows


# --- what is said ----------------------------------------------------------------------------------


def test_advice_is_last_because_one_acts_on_it() -> None:
    made = samples.failing(samples.hot())
    shown = lines(made, width=None)
    assert shown[-len(made.advice) :] == [f"  Advice: {one}" for one in made.advice]


def test_an_empty_key_is_named_in_words() -> None:
    made = replace(samples.hot(), hot_keys=(samples.key("", 0.2, [4]),))
    shown = "\n".join(lines(made, width=None))
    assert "(empty key)" in shown
    assert "e3b0c442" not in shown


def test_a_reason_that_no_finding_states_is_said() -> None:
    judged = replace(samples.hot(), policy=SkewVerdict("warn", ("nobody can tell",)))
    assert "  Policy: nobody can tell." in lines(judged)
    found = replace(judged, findings=(SkewFinding("KF501", "warning", "t: nobody can tell yet"),))
    assert not any("Policy:" in line for line in lines(found))


def test_colour_follows_the_verdict() -> None:
    for made, style in (
        (samples.failing(samples.hot()), "bold red"),
        (samples.warned(samples.hot()), "bold yellow"),
        (samples.passing(samples.hot()), "bold green"),
        (samples.hot(), "bold"),
    ):
        text = rendered(made)
        place = text.plain.index("hot keys")
        assert [str(span.style) for span in text.spans if span.start == place] == [style]


# --- tables ----------------------------------------------------------------------------------------


def test_offsets_are_shown_where_they_are_not_records() -> None:
    rows = body(lines(samples.compacted()), "PARTITION")
    assert rows[0][:5] == ["0", "23.8", "%", "952,381", "1,269,841"]
    assert "OFFSETS" not in "\n".join(lines(samples.hot()))
    assert "ON DISK" not in "\n".join(lines(samples.compacted()))


def test_intervals_of_shares_need_a_wide_terminal_and_an_estimate() -> None:
    def header(made: TopicResult, width: int) -> str:
        return next(line for line in lines(made, width=width) if "PARTITION " in line)

    assert "INTERVAL" in header(samples.hot(), 120)
    assert "INTERVAL" not in header(samples.hot(), 80)
    assert "INTERVAL" not in header(samples.compacted(), 120)


def test_of_many_partitions_the_fullest_and_the_emptiest_are_shown() -> None:
    rows = body(lines(samples.large()), "PARTITION")
    assert len(rows) == 17
    assert rows[0][:2] == ["77", "6.39"]
    assert rows[12][:5] == ["…", "104", "more", "81.3", "%"]
    assert rows[12][-5:] == ["0.71", "to", "0.851", "%", "each"]
    assert [row[0] for row in rows[13:]] == ["46", "69", "92", "115"]
    shares = [float(row[1]) for row in rows if row[0] != "…"]
    assert shares == sorted(shares, reverse=True)


def test_verbose_shows_every_partition_by_number() -> None:
    shown = lines(samples.large(), verbose=True)
    assert [row[0] for row in body(shown, "PARTITION")] == [str(number) for number in range(120)]
    assert len(body(shown, "MEMBER")) == 122


def test_what_is_summed_up_is_said_in_records_too() -> None:
    made = samples.large()
    rows = body(lines(made), "PARTITION")
    total = sum(int(row[5 if row[0] == "…" else 3].replace(",", "")) for row in rows)
    assert total == pytest.approx(sum(one.records.value for one in made.partitions), abs=20)


def test_at_most_ten_hot_keys_are_listed() -> None:
    made = replace(samples.hot(), hot_keys=tuple(samples.key(f"k{one}", 0.02) for one in range(14)))
    shown = lines(made)
    assert len([row for row in body(shown, "KEY SHA-256") if "B" in row]) == 10
    assert any(line.startswith("  … 4 more keys ") for line in shown)
    assert len([row for row in body(lines(made, verbose=True), "KEY SHA-256") if "B" in row]) == 14


@pytest.mark.parametrize("render", [render_skew_markdown, render_skew_html, partial(render_skew, width=None)])
def test_a_report_with_hidden_keys_names_the_option_that_shows_them(
    render: Callable[[SkewReport], object],
) -> None:
    hidden = samples.hot()
    shown = replace(hidden, hot_keys=tuple(replace(key, key="k") for key in hidden.hot_keys))
    empty = replace(hidden, hot_keys=(replace(hidden.hot_keys[0], key_length=0),))
    for topic, expected in ((hidden, True), (shown, False), (empty, False)):
        assert ("--show-keys" in str(render(samples.report(topic)))) is expected


def test_an_exact_share_is_said_to_be_exact_beside_estimates() -> None:
    made = samples.hot()
    sure = replace(made.hot_keys[0], share=Estimate.exact(0.3))
    assert "exact" in body(lines(replace(made, hot_keys=(sure, *made.hot_keys[1:]))), "KEY SHA-256")[0]


def test_a_key_is_shown_only_if_the_report_has_it() -> None:
    hidden = samples.hot()
    assert " KEY " not in next(line for line in lines(hidden) if "KEY SHA-256" in line).replace("KEY SHA", "")
    shown = replace(hidden, hot_keys=(samples.key("tenant-0", 0.3, [4], shown=True), hidden.hot_keys[1]))
    rows = body(lines(shown), "KEY SHA-256")
    assert rows[0][3] == "tenant-0"
    assert rows[1][3] == "-"


def test_a_group_shows_what_each_member_gets() -> None:
    shown = lines(samples.large(), width=None)
    rows = body(shown, "MEMBER")
    assert rows[0][:4] == ["78", "6.39", "%", "77"]
    assert rows[-1] == ["122", "0", "%", "-", MARK]


# --- widths and hostile text -----------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    topics = [*samples.everything(), samples.topic("one.v1", [1], population=5, read=5, keys=1)]
    for line in lines(*topics, width=width):
        assert cell_len(line) <= width, line


def test_a_percent_sign_stays_with_its_number() -> None:
    for width in range(80, 121):
        for line in lines(*samples.everything(), width=width):
            assert not line.strip().startswith("%"), line


def test_without_a_terminal_prose_is_in_whole_lines() -> None:
    long = replace(samples.hot(), causes=(SkewCause("hot_keys", "word " * 100),))
    assert any(line.count("word") == 100 for line in lines(long, width=None))
    assert not any(line.count("word") == 100 for line in lines(long, width=80))


@pytest.mark.parametrize("width", [None, 10, 80])
def test_hostile_text_is_harmless(width: int | None) -> None:
    shown = rendered(samples.hostile(), width=width, verbose=True).plain
    assert all(char == "\n" or is_plain(char) for char in shown)


@given(hostile_text(), hostile_text(), st.sampled_from([None, 30, 80]))
def test_no_text_gets_through_unescaped(name: str, prose: str, width: int | None) -> None:
    made = samples.hot(name)
    made = replace(
        made,
        diagnosis=name,
        causes=(SkewCause(name, prose),),
        advice=(prose,),
        sample=replace(made.sample, notes=(prose,)),
        groups=(replace(made.groups[0], name=name, assignor=prose),),
        hot_keys=(samples.key(prose, 0.5, shown=True),),
        findings=(SkewFinding("KF501", "error", prose, name),),
        partitioners={name: 0.5},
    )
    report = replace(samples.report(made), cluster_name=name, cluster_id=prose, created_at=prose)
    shown = render_skew(report, width=width, verbose=True).plain
    assert all(char == "\n" or is_plain(char) for char in shown)


def test_one_partition_has_one_full_bar() -> None:
    shown = lines(samples.topic("one.v1", [1], population=5, read=5, keys=1))
    row = next(line for line in shown if line.strip().startswith("0 "))
    assert row.split()[:3] == ["0", "100", "%"]
    assert row.endswith(MARK)


def test_nothing_is_shown_as_nan() -> None:
    for made in (*samples.everything(), samples.topic("t", [1, 1e9], population=10**12, read=3)):
        assert "nan" not in rendered(made, verbose=True).plain.lower().split()
        assert "inf" not in rendered(made, verbose=True).plain.lower().split()


# --- bars ------------------------------------------------------------------------------------------


@given(st.floats(0, 1), st.floats(0.001, 1), st.integers(1, 60))
def test_a_bar_fits_its_room_and_shows_every_share(share: float, top: float, room: int) -> None:
    value = min(share, top)
    bar = Scale(top, top / 2, room).bar(value)
    assert len(bar) <= room
    assert BAR.fullmatch(bar)
    assert MARK in bar


def test_bars_grow_with_their_shares() -> None:
    scale = Scale(1.0, 0.5, 10)
    assert [scale.bar(value) for value in (0, 0.01, 0.05, 0.1, 0.5, 1.0)] == [
        "     │",
        "▏    │",
        "▌    │",
        "█    │",
        "█████│",
        "█████│████",
    ]
    assert Scale(0.0, 0.0, 10).bar(0.0) == ""


@given(st.lists(st.floats(0, 1), max_size=60), st.integers(8, 40))
def test_a_selection_has_everything_once(values: list[float], most: int) -> None:
    chosen = select_excerpt(values, lambda one: one, most=most, last=3)
    assert sorted([*chosen.first, *chosen.left_out, *chosen.last]) == sorted(values)
    if len(values) > most:
        assert len(chosen.first) + len(chosen.last) == most // 2
        assert min(chosen.first) >= max(chosen.left_out) >= min(chosen.left_out) >= max(chosen.last)


def test_keys_with_their_texts_and_peaks_fit_80_columns() -> None:
    keys = [
        samples.key(f"customer-{4711 + number}", 0.006, range(9), shown=True, peak=48.1) for number in (1, 2)
    ]
    for shown in (keys, [replace(one, key=None) for one in keys]):
        made = replace(samples.bursty(), hot_keys=tuple(shown))
        lines = render_skew(samples.report(made), width=80).plain.splitlines()
        assert "PEAK" in "".join(lines)
        assert [line for line in lines if len(line) > 80] == []
