"""The managed fields of a live group."""

from hypothesis import given
from hypothesis import strategies as st

from kafkaform.resources.consumer_group.fields import partition_of, partition_path

TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_partition_path_is_parsed_back(topic: str, number: int) -> None:
    assert partition_of(partition_path((topic, number))) == (topic, number)
    assert partition_of(f"config.{topic}:{number}") is None
