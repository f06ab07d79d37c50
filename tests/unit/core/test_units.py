"""Durations and sizes: read in every unit, written in the one that people use."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core import units
from spark_validation.durations import parse_duration
from tests.support.builds import builds

LONGS = st.integers(0, 2**63 - 1)
ROUND = builds(
    int.__mul__, st.integers(0, 10_000), st.sampled_from([1, 1000, 60_000, 3_600_000, 10**9, 2**20, 2**30])
)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("060", 60),
        ("1w", 604_800_000),
        ("1h 30m", 5_400_000),
        ("2.3h", 8_280_000),
        ("0.001s", 1),
        (" 7 d ", 604_800_000),
        ("1d1h1m1s1ms", 90_061_001),
        ("9223372036854775806ms", 9_223_372_036_854_775_806),
    ],
)
def test_durations_are_read_in_every_unit(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


INVALID = ("", "d", "7 dys", "7D", "-1", "-7d", "1e3", "1_000", "1h junk 3m", "30m1h", "1h1h", "1.d", ".5d")
NO_DURATION = "is not a duration; write .* 7d, 36h, 90m, 1h30m$"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, NO_DURATION) for text in (*INVALID, "1,5h", "٣d", "1y", "9" * 20)),
        *((text, "is not a whole number of milliseconds") for text in ("0.5ms", "1.0001s", "1h0.1ms")),
    ],
)
def test_invalid_duration_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^'{re.escape(text)}' {reason}"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1B", 1),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("1MB", 10**6),
        ("512MiB", 512 * 2**20),
        ("50 GiB", 50 * 2**30),
        ("1TB", 10**12),
        ("1.5GiB", 3 * 2**29),
        ("0.1kB", 100),
        ("9007199254740993B", 2**53 + 1),
    ],
)
def test_sizes_are_read_in_every_unit(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "is not a size; write a number of bytes or e.g. 50GiB") for text in ("", "-1", "1,5GB")),
        ("50G", "is ambiguous; write GB (powers of 1000) or GiB (powers of 1024)"),
        ("1k", "is ambiguous; write kB (powers of 1000) or KiB (powers of 1024)"),
        ("50Gi", "has no known unit; write GiB"),
        *((text, "has no known unit; write GB") for text in ("50gb", "50Gb")),
        ("5 dogs", "has no known unit; write B, kB, MB, GB, TB, KiB, MiB, GiB or TiB"),
        *((text, "is not a whole number of bytes") for text in ("0.3B", "1.0001KiB")),
    ],
)
def test_invalid_size_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' {re.escape(reason)}"):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("milliseconds", "exact", "rounded"),
    [
        (0, "0", "0"),
        (1, "1ms", "1ms"),
        (1500, "1500ms", "1500ms"),
        (34_567, "34.567s", "34.567s"),
        (45_000, "45s", "45s"),
        (1_234_567, "20m 34.567s", "about 20m 34s"),
        (60_001, "1m 0.001s", "about 1m"),
        (86_401_000, "1d 1s", "about 1d"),
        (129_600_000, "36h", "36h"),
        (176_400_000, "2d 1h", "2d 1h"),
        (604_799_999, "6d 23h 59m 59.999s", "about 6d 23h 59m"),
        (10_810_800_000, "125d 3h", "about 125d"),
        (28_800_000_000, "333d 8h", "333d 8h"),
    ],
)
def test_durations_are_formatted_in_common_units(milliseconds: int, exact: str, rounded: str) -> None:
    assert (units.format_duration(milliseconds), units.rounded_duration(milliseconds)) == (exact, rounded)


@given(LONGS | ROUND)
def test_rounded_duration_is_exact_or_within_a_percent(number: int) -> None:
    text = units.rounded_duration(number)
    read = parse_duration(text.removeprefix("about "))
    assert (read == number) is not text.startswith("about ")
    assert 0 <= number - read <= number / 100


@pytest.mark.parametrize(
    ("size", "exact", "readable"),
    [
        (0, "0", "0"),
        (4096, "4 KiB", "4 KiB"),
        (9_999, "9999", "9999"),
        (10_000, "10000", "9.8 KiB (10000)"),
        (1_048_588, "1048588", "1.0 MiB (1048588)"),
        (10_485_760, "10 MiB", "10 MiB"),
        (2 * 10**9, "2 GB", "2 GB"),
        (2_073_741_824, "2073741824", "1.9 GiB (2073741824)"),
        (1_048_577 * 1024, "1048577 KiB", "1.0 GiB (1073742848)"),
        (9_999 * 2**20, "9999 MiB", "9999 MiB"),
        (10_000 * 2**20, "10000 MiB", "9.8 GiB (10485760000)"),
        (2**40, "1 TiB", "1 TiB"),
    ],
)
def test_size_is_formatted_in_exact_unit_or_rounded(size: int, exact: str, readable: str) -> None:
    assert (units.format_size(size), units.readable_size(size)) == (exact, readable)


@given(LONGS | ROUND)
def test_formatted_text_is_read_back(number: int) -> None:
    assert parse_duration(units.format_duration(number)) == number
    assert units.parse_size(units.format_size(number)) == number


def test_rounded_size_has_one_decimal() -> None:
    sizes = (0, 1023, 1024, 1536, 2**40, 1000 * 2**50, 2**60)
    texts = ["no data", "1023.0 B", "1.0 KiB", "1.5 KiB", "1.0 TiB", "1000.0 PiB", "1.0 EiB"]
    assert [units.rounded_size(size) for size in sizes] == texts


def test_age_has_a_limit() -> None:
    assert units.parse_age("100000d") == 100_000 * 86_400_000
    with pytest.raises(ValueError, match="is too long; leave it out"):
        units.parse_age(str(100_000 * 86_400_000 + 1))


def test_table_durations_are_coarsely_rounded() -> None:
    durations = (0, 400, 1_600, 3_599_400, 3_640_000, 86_360_000, 88_300_000)
    texts = ["1s", "1s", "2s", "59m 59s", "61m", "23h 59m", "25h"]
    assert [units.coarse_duration(milliseconds) for milliseconds in durations] == texts


@pytest.mark.parametrize(("hours", "rounded"), [(42, 42), (47, 47), (48, 48), (71, 48), (400, 384)])
def test_ages_are_rounded_down(hours: int, rounded: int) -> None:
    assert units.rounded_down(hours * 3_600_000 + 1_800_000) == rounded * 3_600_000
    assert units.rounded_down(hours * 3_600_000 - 1) < hours * 3_600_000
    assert units.rounded_down(1) == 1
