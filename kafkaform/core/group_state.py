"""The managed fields of a live group, the same however it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.groups import Group, TopicPartition

OFFSETS_PREFIX = "offsets."
"""What the paths of offsets start with: `offsets.TOPIC` is where a group starts in a topic,
`offsets.TOPIC:PARTITION` its committed offset in a partition."""
COMMITTED = "committed"
"""The live value of `offsets.TOPIC` where the group has an offset: it is never moved by a declaration."""


def topic_path(topic: str) -> str:
    """The field that says where a group starts in a topic."""
    return OFFSETS_PREFIX + topic


def partition_path(partition: TopicPartition) -> str:
    """The field that holds a committed offset; no topic has a colon in its name."""
    return f"{OFFSETS_PREFIX}{partition[0]}:{partition[1]}"


def partition_of(path: str) -> TopicPartition | None:
    """The partition whose committed offset a field holds; None for any other field."""
    topic, colon, number = path.removeprefix(OFFSETS_PREFIX).rpartition(":")
    return (topic, int(number)) if colon and path.startswith(OFFSETS_PREFIX) else None


def observed_state(group: Group | None, configs: Mapping[str, str | None]) -> dict[str, FieldValue]:
    """The fields of a group: its own configs, and its committed offsets.

    Args:
        group: What its coordinator knows; None where it has nothing but configs.
        configs: Its own configs.
    """
    state: dict[str, FieldValue] = {CONFIG_PREFIX + name: value for name, value in configs.items()}
    for partition, offset in (group.committed if group is not None else {}).items():
        state[topic_path(partition[0])] = COMMITTED
        state[partition_path(partition)] = offset
    return state
