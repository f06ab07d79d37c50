"""Places in a log as people write them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.offset_spec import (
    AbsoluteTime,
    AtOffset,
    CurrentOffset,
    Earliest,
    Latest,
    OffsetSpec,
    RelativeTime,
    ShiftBy,
    parse_initial,
    parse_offset,
    time_of,
)
from tests.support.builds import builds

MAX_OFFSET = 2**63 - 1
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

INITIAL = st.one_of(
    st.just(Earliest()),
    st.just(Latest()),
    builds(AbsoluteTime, st.integers(0, LAST_MS)),
    builds(RelativeTime, st.integers(0, 10**15)),
)
OTHER = st.one_of(
    st.just(CurrentOffset()),
    builds(AtOffset, st.integers(0, MAX_OFFSET)),
    builds(ShiftBy, st.integers(-MAX_OFFSET, MAX_OFFSET)),
)
ANY = INITIAL | OTHER


@given(ANY)
def test_written_offset_is_read_back(spec: OffsetSpec) -> None:
    assert parse_offset(str(spec)) == spec


@given(INITIAL)
def test_initial_offset_is_read_back(spec: OffsetSpec) -> None:
    assert parse_initial(str(spec)) == spec


@given(OTHER)
def test_offsets_that_are_not_initial_are_refused(spec: OffsetSpec) -> None:
    with pytest.raises(ValueError, match="not a valid initial offset"):
        parse_initial(str(spec))


@given(ANY, st.sampled_from(["", " ", "\n", "\t "]), st.sampled_from(["", "  ", "\n"]))
def test_surrounding_blanks_are_ignored(spec: OffsetSpec, before: str, after: str) -> None:
    assert parse_offset(f"{before}{spec}{after}") == spec


WORDS = ("earliest", "latest", "current", "ago", "shift-by", "2026", "01", "ms", "+02")
PIECES = [*"TZW:-+.,=96hd \n\x00é٣", *WORDS]
NEARLY = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
BY_HAND = ["7d ago", "1h30m ago", "2026-01-02T03:04:05+02:00", "20260102T030405Z", "2026-W05-1T10:00Z"]
WRITTEN = ANY.map(str) | st.sampled_from(BY_HAND)
SLIPS = st.sampled_from(PIECES) | st.sampled_from("0123456789")


@st.composite
def edit_offset(draw: st.DrawFn) -> str:
    """Draw a place in a log, with a slip: something is put in, left out, or replaced."""
    text = draw(WRITTEN)
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.just("") | SLIPS) + text[at + draw(st.integers(0, 1)) :]


TEXTS = st.integers(0, 3).flatmap(lambda one: [st.text(), NEARLY, edit_offset(), edit_offset()][one])
"""About a quarter of them are read."""


@given(TEXTS)
def test_offset_text_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_offset, parse_initial):
        spec = parse_or_none(parse, text)
        assert spec is None or parse(str(spec)) == spec


def parse_or_none(parse: Callable[[str], OffsetSpec], text: str) -> OffsetSpec | None:
    try:
        return parse(text)
    except ValueError as error:
        message = str(error)
    assert len(message.splitlines()) == 1
    assert len(message) < 400
    return None


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30)),  # noqa: DTZ001 - the zone comes with the test
    st.integers(-14 * 60, 14 * 60),
)
def test_equal_moments_in_other_zones_are_equal(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=UTC)
    elsewhere = moment.astimezone(timezone(timedelta(minutes=minutes)))
    assert parse_offset(elsewhere.isoformat()) == AbsoluteTime((moment - EPOCH) // timedelta(milliseconds=1))


@given(ANY, st.integers(0, 10**13))
def test_only_time_specs_have_time(spec: OffsetSpec, now_ms: int) -> None:
    match spec:
        case AbsoluteTime(at):
            assert time_of(spec, now_ms) == at
        case RelativeTime(age):
            assert time_of(spec, now_ms) == max(0, now_ms - age)
        case _:
            assert time_of(spec, now_ms) is None


@pytest.mark.parametrize(
    ("text", "spec", "written"),
    [
        ("earliest", Earliest(), "earliest"),
        ("latest", Latest(), "latest"),
        ("current", CurrentOffset(), "current"),
        ("0", AtOffset(0), "0"),
        ("007", AtOffset(7), "7"),
        ("9223372036854775807", AtOffset(MAX_OFFSET), "9223372036854775807"),
        ("shift-by -10", ShiftBy(-10), "shift-by -10"),
        ("shift-by 10", ShiftBy(10), "shift-by +10"),
        ("shift-by +10", ShiftBy(10), "shift-by +10"),
        ("shift-by=-10", ShiftBy(-10), "shift-by -10"),
        ("shift-by:5", ShiftBy(5), "shift-by +5"),
        ("6h ago", RelativeTime(21_600_000), "6h ago"),
        ("6h-ago", RelativeTime(21_600_000), "6h ago"),
        ("1h 30m  ago", RelativeTime(5_400_000), "90m ago"),
        ("1.5h-ago", RelativeTime(5_400_000), "90m ago"),
        ("250 ago", RelativeTime(250), "250ms ago"),
        ("0 ago", RelativeTime(0), "0 ago"),
        ("2026-11-01T00:00:00Z", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T02:00:00+02:00", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T02:00:00+0200", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-10-31 17:00:00-07:00", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T00:00Z", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T00:00:00.250Z", AbsoluteTime(1_793_491_200_250), "2026-11-01T00:00:00.250Z"),
        ("1970-01-01T00:00:00Z", AbsoluteTime(0), "1970-01-01T00:00:00Z"),
        ("2026-11-01T02:00:00+02", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999Z", AbsoluteTime(LAST_MS), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_offset_spellings_are_parsed(text: str, spec: OffsetSpec, written: str) -> None:
    assert parse_offset(text) == spec
    assert str(spec) == written


@pytest.mark.parametrize(
    "text",
    [
        *("2026-11-01T00:00:00", "2026-11-01", "2026-11-01 00:00", "20261101T000000", "2026-11-01T00"),
        "2026-W44-7",
    ],
)
def test_time_without_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_offset(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Earliest", "beginning", "ago", " ago", "6 ago ago", "6x ago", "-6h ago", "-1", "+1", "1.5"),
        *("1_000", "٣", "shift-by", "shift-by ten", "shift-by 1.5", "shift-by --1", "9223372036854775808"),
        *("99999999999999999999", "shift-by 9223372036854775808", "99999999999999999999d ago"),
        *(
            "2026-13-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-11-01T25:00:00Z",
            "2026-11-01T00:00:00+25:00",
        ),
        "9999999999999999999w ago",
    ],
)
def test_invalid_offset_is_refused(text: str) -> None:
    for parse in (parse_offset, parse_initial):
        with pytest.raises(ValueError) as refusal:  # noqa: PT011 - each has its own words
            parse(text)
        assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"]
)
def test_time_outside_of_kafkas_range_is_refused(text: str) -> None:
    """A negative one would mean the start or the end of the log to a broker."""
    with pytest.raises(ValueError, match="between the years 1970 and 9999"):
        parse_offset(text)


@pytest.mark.parametrize(
    "text", ["9223372036854775808", "shift-by -9223372036854775808", "999999999999999w ago"]
)
def test_number_beyond_kafka_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than Kafka can count"):
        parse_offset(text)


def test_offset_hint_lists_valid_forms() -> None:
    with pytest.raises(ValueError, match="write earliest, latest, current, an offset, shift-by -10, a time"):
        parse_offset("nonsense")
    with pytest.raises(ValueError, match="write earliest, latest, a time such as 2026") as refusal:
        parse_initial("nonsense")
    assert "shift-by" not in str(refusal.value)
