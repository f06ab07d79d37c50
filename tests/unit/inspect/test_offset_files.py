"""CSV of offsets, as Kafka's own tool writes and reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.core.errors import InvalidInput
from kafkaform.inspect.resets import read_offsets, write_offsets

names = st.text("abcXYZ019._-", min_size=1, max_size=20)
offsets = st.dictionaries(st.tuples(names, st.integers(0, 10_000)), st.integers(0, 2**63 - 1), min_size=1)


@given(offsets)
def test_offset_file_is_read_back(wanted: dict[tuple[str, int], int]) -> None:
    assert read_offsets(write_offsets(wanted), "f.csv", "g") == wanted


def test_offset_file_uses_kafka_format_and_locates_errors() -> None:
    assert write_offsets({("b", 0): 7, ("a", 10): 1, ("a", 2): 0}) == "a,2,0\na,10,1\nb,0,7\n"
    assert read_offsets("g,a,0,5\nh,a,0,9\n\n", "f.csv", "g") == {("a", 0): 5}
    assert read_offsets('"a", 0 ,5\r\n', "f.csv", "g") == {("a", 0): 5}
    assert problems("topic,partition,offset\na,0,5\na,0,6\na,-1,5\na,1\n") == [
        "f.csv:1:1: is not an offset",
        "f.csv:3:1: another offset for a:0",
        "f.csv:4:1: is not an offset",
        "f.csv:5:1: is not an offset",
    ]
    assert read_offsets("a,0,5\na,0,5\n", "f.csv", "g") == {("a", 0): 5}


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read_offsets(text, "f.csv", "g")
    return [f"{problem.location}: {problem.message}" for problem in caught.value.problems]


@pytest.mark.parametrize("text", ["", "\n\n", "h,a,0,5\n"])
def test_file_without_offset_of_group_is_refused(text: str) -> None:
    assert problems(text) == ["f.csv:1:1: no offset of group g"]
