"""The kind Topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform import kafka_configs
from kafkaform.kinds.topic import operations as topic_operations
from kafkaform.kinds.topic import risk, spec
from kafkaform.model import (
    CONFIG_PREFIX,
    SAFE,
    Change,
    Facts,
    FieldValue,
    Intent,
    Judgement,
    Observed,
    ResourceRef,
    Risk,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.kinds.base import Layer, Report, UpdateContext
    from kafkaform.operations import Operation

_FIRST_FIELDS = ("partitions", "replicationFactor")


class TopicKind:
    """Topics: partitions, replication factor, and every dynamic topic config."""

    name = "Topic"
    schema = "topic"
    collection = "topics"
    hazards = risk.HAZARDS

    def normalise(self, layer: Mapping[str, object], report: Report) -> Layer:
        """See `Kind.normalise`."""
        return spec.normalise(layer, report)

    def resolve(self, layer: Layer, report: Report) -> tuple[State | None, Intent]:
        """See `Kind.resolve`."""
        return spec.resolve(layer, report)

    def field_order(self, path: str) -> tuple[int, str]:
        """Partitions and replication factor first, then configs by name."""
        return (_FIRST_FIELDS.index(path) if path in _FIRST_FIELDS else len(_FIRST_FIELDS), path)

    def ignores(self, path: str) -> bool:
        """The throttle keys belong to whoever runs the reassignment."""
        return path.removeprefix(CONFIG_PREFIX) in kafka_configs.REASSIGNMENT_KEYS

    def equal(self, path: str, a: FieldValue, b: FieldValue) -> bool:
        """Configs compare by Kafka's type; the order of cleanup.policy does not matter."""
        if a == b:
            return True
        if a is None or b is None or not path.startswith(CONFIG_PREFIX):
            return False
        key = kafka_configs.topic_configs().get(path.removeprefix(CONFIG_PREFIX))
        return kafka_configs.equal(key, str(a), str(b))

    def default(self, path: str, facts: Facts) -> FieldValue:
        """The cluster's default of a config, where this account may read it."""
        if facts.defaults is None:
            return None
        return facts.defaults.get(path.removeprefix(CONFIG_PREFIX))

    def judge(self, path: str, context: UpdateContext) -> Judgement:
        """See `kafkaform.kinds.topic.risk`."""
        return risk.judge(path, context)

    def judge_create(self, _ref: ResourceRef, _state: State, _facts: Facts) -> Judgement:
        """Safe: there is nothing yet that could be lost."""
        return SAFE

    def judge_delete(self, ref: ResourceRef, state: State, facts: Facts) -> Judgement:
        """Deleting a topic destroys all of its records."""
        judgement = Judgement(
            Risk.DESTRUCTIVE,
            "delete",
            f"all records in the {state.get('partitions')} partitions of {ref.name} are destroyed",
            "stop its producers and consumers first, and copy what is still needed",
        )
        return risk.sized(judgement, ref, facts)

    def deferred(self, path: str, context: UpdateContext) -> str | None:
        """Replica moves are shown, not carried out; nor is a min ISR above the present replicas."""
        if path == "replicationFactor":
            return "replica reassignment is not carried out by this version; use kafka-reassign-partitions"
        if path != "config.min.insync.replicas":
            return None
        present, wanted = context.before.get("replicationFactor"), context.after.get(path)
        if wanted is None or present is None or context.after.get("replicationFactor") == present:
            return None
        fewest = int(str(present).split("-")[0])  # partitions that differ are read as such as 1-3
        if int(wanted) > fewest:
            return f"waits for the replication factor: a partition has {fewest} of them now"
        return None

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """See `kafkaform.kinds.topic.operations`."""
        return topic_operations.operations(change)

    def reads(self, _intent: Intent) -> tuple[str, ...]:
        """None."""
        return ()

    def applicable(self, state: State, _observed: Observed) -> State:
        """All of it."""
        return state

    def obstacle(self, _change: Change, _observed: Observed) -> tuple[str, str | None] | None:
        """Nothing that a topic is or does stands against a change that its risk allows."""
        return None
