"""The managed fields of a live group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaform.resources.consumer_group.fields import COMMITTED, observed_state, partition_of, partition_path
from kafkaform.resources.groups import Group, Position

TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True)


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_partition_path_is_parsed_back(topic: str, number: int) -> None:
    assert partition_of(partition_path((topic, number))) == (topic, number)
    assert partition_of(f"config.{topic}:{number}") is None


def test_state_has_own_configs_and_committed_offsets() -> None:
    positions = (Position("orders.v1", 0, 4), Position("orders.v1", 1, 0), Position("unread", 0, None))
    group = Group("g", "classic", "Empty", positions=positions)
    assert observed_state(group, {"consumer.session.timeout.ms": "50000", "share.secret": None}) == {
        "config.consumer.session.timeout.ms": "50000",
        "config.share.secret": None,
        "offsets.orders.v1": COMMITTED,
        "offsets.orders.v1:0": 4,
        "offsets.orders.v1:1": 0,
    }
    assert observed_state(None, {"share.isolation.level": "read_committed"}) == {
        "config.share.isolation.level": "read_committed"
    }
    assert observed_state(None, {}) == {}
