"""The paths of the fields of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, FieldValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.partitions import TopicPartition
    from kafkaform.resources.groups import Group

OFFSETS_PREFIX = "offsets."
"""The prefix of the paths of offsets.

`offsets.TOPIC` is the initial offset of a group in a topic, `offsets.TOPIC:PARTITION` its committed offset in
a partition. Names of topics contain no colon.
"""
COMMITTED = "committed"
"""The live value of `offsets.TOPIC` if the group has an offset, which a declaration never changes."""


def topic_path(topic: str) -> str:
    """Return the field of the initial offset in a topic."""
    return OFFSETS_PREFIX + topic


def partition_path(partition: TopicPartition) -> str:
    """Return the field of a committed offset."""
    return f"{OFFSETS_PREFIX}{partition[0]}:{partition[1]}"


def partition_of(path: str) -> TopicPartition | None:
    """Return the partition of the field of a committed offset; None for any other field."""
    topic, colon, number = path.removeprefix(OFFSETS_PREFIX).rpartition(":")
    return (topic, int(number)) if colon and path.startswith(OFFSETS_PREFIX) else None


def observed_state(group: Group | None, configs: Mapping[str, str | None]) -> dict[str, FieldValue]:
    """Return the fields of a group: its own configs, and its committed offsets.

    Args:
        group: The group; None if it only has configs.
    """
    state: dict[str, FieldValue] = {CONFIG_PREFIX + name: value for name, value in configs.items()}
    for partition, offset in (group.committed if group is not None else {}).items():
        # For each offset both fields: manifests declare the one, resets change the other.
        state[topic_path(partition[0])] = COMMITTED
        state[partition_path(partition)] = offset
    return state
