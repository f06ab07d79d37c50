"""Places in a log as people write them."""

from collections.abc import Callable

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


@given(OTHER)
def test_offsets_that_are_not_initial_are_refused(spec: OffsetSpec) -> None:
    with pytest.raises(ValueError, match="not a valid initial offset"):
        parse_initial(str(spec))


WORDS = ("earliest", "latest", "current", "ago", "shift-by", "2026", "01", "ms", "+02")
PIECES = [*"TZW:-+.,=96hd \n\x00é٣", *WORDS]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


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


@pytest.mark.parametrize(
    ("text", "spec", "written"),
    [
        (" earliest\n", Earliest(), "earliest"),
        ("current", CurrentOffset(), "current"),
        ("0", AtOffset(0), "0"),
        ("007", AtOffset(7), "7"),
        ("9223372036854775807", AtOffset(MAX_OFFSET), "9223372036854775807"),
        ("shift-by -10", ShiftBy(-10), "shift-by -10"),
        ("shift-by=-10", ShiftBy(-10), "shift-by -10"),
        ("shift-by:5", ShiftBy(5), "shift-by +5"),
        ("6h ago", RelativeTime(21_600_000), "6h ago"),
        ("1h 30m  ago", RelativeTime(5_400_000), "90m ago"),
        ("0 ago", RelativeTime(0), "0 ago"),
        ("2026-11-01T00:00:00Z", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T02:00:00+02:00", AbsoluteTime(1_793_491_200_000), "2026-11-01T00:00:00Z"),
        ("2026-11-01T00:00:00.250Z", AbsoluteTime(1_793_491_200_250), "2026-11-01T00:00:00.250Z"),
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
        *("", "Earliest", "beginning", "ago", " ago", "6 ago ago", "6x ago", "-6h ago", "-1", "+1", "1.5"),
        *("1_000", "٣", "shift-by", "shift-by ten", "shift-by 1.5", "shift-by --1", "9223372036854775808"),
        *("99999999999999999999", "shift-by 9223372036854775808", "99999999999999999999d ago"),
        *("2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-01T25:00:00Z"),
        *("2026-11-01T00:00:00+25:00", "9999999999999999999w ago"),
    ],
)
def test_invalid_offset_is_refused(text: str) -> None:
    for parse in (parse_offset, parse_initial):
        with pytest.raises(ValueError) as refusal:  # noqa: PT011 - each has its own words
            parse(text)
        assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *(
            (text, "no time zone")
            for text in ("2026-11-01T00:00:00", "2026-11-01", "20261101T000000", "2026-W44-7")
        ),
        # A negative time would mean the start or the end of the log to a broker.
        *(
            (f"{text}:00", "between the years 1970 and 9999")
            for text in ("1969-12-31T23:59:59-00", "9999-12-31T23:59:59-01", "0001-01-01T00:00:00+01")
        ),
        *(
            (text, "more than Kafka can count")
            for text in ("9223372036854775808", "shift-by -9223372036854775808", "999999999999999w ago")
        ),
        ("nonsense", "write earliest, latest, current, an offset, shift-by -10, a time"),
    ],
)
def test_refused_offset_has_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_offset(text)


def test_age_beyond_1970_is_limited() -> None:
    assert time_of(RelativeTime(5), 3) == 0
