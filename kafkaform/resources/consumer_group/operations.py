"""The operations that carry out a change of a ConsumerGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, cast

from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Create,
    Delete,
    FieldValue,
    Recreate,
    ResourceRef,
    Update,
)
from kafkaform.core.operations import AlterConfigs, Deletion, FieldFormatter, Operation, Phase
from kafkaform.core.printable import printable
from kafkaform.core.wording import counted
from kafkaform.resources.consumer_group.fields import OFFSETS_PREFIX, partition_of, partition_path, topic_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_TOPIC = "Topic"
"""The name of the kind, whose package is not imported here."""


class CommitInitialOffsets(Operation):
    """Commit a first offset for a group without members, in every partition in which it has none.

    Attributes:
        topics: The initial offset in each topic, as `kafkaform.core.offset_spec` writes it.
    """

    topics: Mapping[str, str]

    phase = Phase.SETTLE
    # Otherwise it would omit partitions that have just been created: for seconds, brokers do not show them.
    follows_others = True

    @property
    def needs(self) -> Collection[ResourceRef]:
        """The topics: if one was not recreated, its old records are not read again."""
        return [ResourceRef(_TOPIC, name) for name in self.topics]

    @property
    def weight(self) -> int:
        """One for each topic, at least."""
        return 1 + len(self.topics)

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the initial offset in each topic."""
        return ", ".join(f"{printable(name)} from {start}" for name, start in sorted(self.topics.items()))

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the field of each topic."""
        return map(topic_path, self.topics)


class ResetOffsets(Operation):
    """Change the committed offsets of a group without members.

    Attributes:
        offsets: The new offset by topic and partition; one outside of the log is refused.
    """

    offsets: Mapping[tuple[str, int], int]

    phase = Phase.REVOKE

    @property
    def weight(self) -> int:
        """One for each offset."""
        return 1 + len(self.offsets)

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the number of offsets."""
        return counted(len(self.offsets), "offset")

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        """Return the field of each partition."""
        return map(partition_path, self.offsets)


class DeleteGroup(Deletion):
    """Delete a group without members, if it exists; then remove its configs, which Kafka keeps.

    Attributes:
        configs: The configs to remove.
    """

    configs: tuple[str, ...] = ()

    phase = Phase.REVOKE

    @property
    def weight(self) -> int:
        """One for each config."""
        return 1 + len(self.configs)


def operations(change: Change) -> tuple[Operation, ...]:
    """Return the operations of a change, in order: configs, which can be undone, come first."""
    match change:
        case Create(ref, state):
            return _update(ref, {path: value for path, value in state.items() if value is not None})
        case Update(ref, fields=fields):
            return _update(ref, {field.path: field.after for field in fields if field.deferred is None})
        case Delete(ref, state=state):
            # Even if only configs are visible, the coordinator may still have an empty group.
            return (DeleteGroup(ref, configs=tuple(sorted(_select_configs(state)))),)
        case Recreate():
            return ()  # of topics only
        case _:
            assert_never(change)


def _update(ref: ResourceRef, fields: Mapping[str, FieldValue]) -> tuple[Operation, ...]:
    steps: list[Operation] = []
    configs = _select_configs(fields)
    if configs:
        given = {name: str(value) for name, value in configs.items() if value is not None}
        unset = tuple(name for name, value in configs.items() if value is None)
        steps.append(AlterConfigs(ref, given, unset))
    topics: dict[str, str] = {}
    offsets: dict[tuple[str, int], int] = {}
    for path, value in fields.items():
        if not path.startswith(OFFSETS_PREFIX):
            continue
        partition = partition_of(path)
        if partition is None:
            topics[path.removeprefix(OFFSETS_PREFIX)] = str(value)
        else:
            offsets[partition] = cast("int", value)
    if topics:
        steps.append(CommitInitialOffsets(ref, topics))
    if offsets:
        steps.append(ResetOffsets(ref, offsets))
    return tuple(steps)


def _select_configs(fields: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    return {
        p.removeprefix(CONFIG_PREFIX): value for p, value in fields.items() if p.startswith(CONFIG_PREFIX)
    }
