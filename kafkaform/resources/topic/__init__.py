"""The kind Topic."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import eq
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.layout import format_assignment
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Create,
    Delete,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    RiskAssessment,
    State,
    Update,
)
from kafkaform.resources.base import Binding, FieldOutcome, Kind, NoWayBack, compared
from kafkaform.resources.topic import live, placement, risk, spec
from kafkaform.resources.topic import operations as topic_operations
from kafkaform.resources.topic.live import NAME, REPLICATION_FACTOR, topic_facts
from kafkaform.resources.topic.operations import PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.operations import Operation
    from kafkaform.resources.base import Layer, ReportProblem, Shape, Shorthand, UpdateContext

_FIRST_FIELDS = ("partitions", REPLICATION_FACTOR, PLACEMENT)


def topic_ref(name: str) -> ResourceRef:
    """The topic with this name."""
    return ResourceRef(TopicKind.name, name)


def is_topic(ref: ResourceRef) -> bool:
    """Tell whether a resource is a topic."""
    return ref.kind == TopicKind.name


class TopicKind(Kind):
    """Topics: partitions, their replicas and where these are, and every dynamic topic config."""

    name = NAME
    schema = "topic"
    collection = "topics"
    noun = "topic"
    folder = ""
    contents = "its data"
    endings = "deleted"
    shape: Shape = "cylinder"
    nowhere: Layer = {"partitions": 0, "replicationFactor": 0}  # noqa: RUF012 - read-only
    config_resource = "TOPIC"
    hazards = risk.HAZARDS
    includes: Mapping[str, str] = risk.INCLUDES
    prunable = True
    placed = True
    counts = frozenset(spec.COUNTS)
    shorthands: Mapping[str, Shorthand] = spec.SHORTHANDS
    verbatim = frozenset({spec.RETENTION})

    def configs(self) -> Mapping[str, ConfigKey]:
        """The topic configs."""
        return kafka_configs.topic_configs()

    def inherited(self, broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """See `kafka_configs.cluster_defaults`."""
        return kafka_configs.cluster_defaults(broker_configs)

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        """See `Kind.normalise`."""
        return spec.normalise(layer, report)

    def written(
        self,
        observed: Observed,
        config: dict[str, object],
        _under: Mapping[str, object],
        left_out: list[str],
    ) -> dict[str, object]:
        """See `Kind.written`."""
        return spec.written(observed, config, left_out)

    def resolve(self, layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
        """See `Kind.resolve`."""
        return spec.resolve(layer, report)

    def field_order(self, path: str) -> tuple[int, str]:
        """Partitions, replication factor and placement first, then configs by name."""
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

    def live(self, path: str, observed: Observed, facts: Facts | None = None) -> FieldValue:
        """Its own value; the placement is where its replicas are."""
        return placement.live(observed, facts) if path == PLACEMENT else observed.state.get(path)

    def remaining(self, field: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
        """Replicas move partition by partition, all else changes at once."""
        if field.path == PLACEMENT:
            return placement.remaining(field, observed)
        fate = compared(self, field, observed)
        value = self.live(field.path, observed)
        return (
            replace(field, before=value)
            if fate is FieldOutcome.MOVED and self.on_the_way(field, value)
            else fate
        )

    def on_the_way(self, field: FieldChange, value: FieldValue) -> bool:
        """While replicas are moved, partitions differ."""
        match field.path:
            case topic_operations.PLACEMENT:
                return placement.is_on_the_way(field, value)
            case live.REPLICATION_FACTOR:
                return live.is_on_the_way(field, value)
            case _:
                return False

    def judge(self, path: str, context: UpdateContext) -> RiskAssessment:
        """See `kafkaform.resources.topic.risk`."""
        return risk.judge(path, context)

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """See `kafkaform.resources.topic.risk`."""
        return risk.judge_delete(observed, facts)

    def binding(self, change: Change, field: FieldChange | None) -> Binding | None:
        """The id of a topic that is deleted, or the value in force that a change takes away."""
        if isinstance(change, Delete) and change.uid is not None:
            return Binding(f"of {change.uid}", partial(eq, f"of {change.uid}"))
        if field is None or field.effective_before is None:
            return None
        return Binding(f"from {self._written(field)}", partial(self._is_from, field))

    def _written(self, field: FieldChange) -> str:
        """The value in force before a change as people write it, or raw where that would mean another one."""
        value = str(field.effective_before)
        key = kafka_configs.topic_configs().get(field.path.removeprefix(CONFIG_PREFIX))
        if not field.path.startswith(CONFIG_PREFIX) or key is None:
            return value
        text = kafka_configs.human(key, value)
        return text if self.equal(field.path, text, value) else value

    def _is_from(self, field: FieldChange, text: str) -> bool:
        word, _, value = text.partition(" ")
        if word != "from":
            return False
        if field.path.startswith(CONFIG_PREFIX):
            return self.equal(field.path, value, field.effective_before)
        # Of moves that stopped half-way, the consent to what they began with holds.
        start = replace(field, before=value)
        return value == str(field.effective_before) or (
            value.isdecimal() and self.on_the_way(start, field.effective_before)
        )

    def deferred(self, path: str, context: UpdateContext) -> str | None:
        """Replicas are not moved before it is known where to, nor is a min ISR raised that needs them."""
        if context.ref in topic_facts(context.facts).placements:
            return None
        if path in {REPLICATION_FACTOR, PLACEMENT}:
            return placement.deferred(context)
        return live.deferred_min_isr(context) if path == live.MIN_ISR else None

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """See `kafkaform.resources.topic.operations`."""
        return topic_operations.operations(change)

    def applicable(self, state: State, observed: Observed, facts: Facts) -> State:
        """All of it, and where its replicas are to be."""
        assignment = topic_facts(facts).placements.get(observed.ref)
        return state if assignment is None else {**state, PLACEMENT: format_assignment(assignment)}

    def concerns_readers(self, change: Change) -> bool:
        """More partitions, and a deletion."""
        match change:
            case Create():
                return False
            case Update(fields=fields):
                return any(field.path == "partitions" for field in fields)
            case Delete():
                return True

    def is_vendor_config(self, name: str) -> bool:
        """See `kafka_configs.is_vendor`."""
        return kafka_configs.is_vendor(name)

    def described(
        self, path: str, before: FieldValue, after: FieldValue
    ) -> tuple[str, tuple[str, ...]] | None:
        """Where replicas go."""
        if path != PLACEMENT or after is None:
            return None
        return placement.placed(str(after)) if before is None else placement.moved(str(before), str(after))

    def undeclarable(self, path: str, value: FieldValue) -> str | None:
        """Where replicas are, and counts in which partitions differ."""
        if path == PLACEMENT:
            return "write the live replicas, which kafkaform plan --verbose shows, by hand, or leave them"
        if path in self.counts and not isinstance(value, int):
            return f"it is {value} by now, from one partition to the next, and a manifest says one number"
        return None

    def no_way_back(self, _ref: ResourceRef, field: FieldChange, declared: State | None) -> NoWayBack | None:
        """Partitions stay, and replicas follow from other fields unless a manifest lists them."""
        if field.path == "partitions":
            return NoWayBack(
                f"Kafka cannot remove partitions ({field.before} → {field.after}); "
                "a new topic with fewer is the only way back"
            )
        if field.path != PLACEMENT:
            return None
        if PLACEMENT in (declared or {}):
            return NoWayBack("write the earlier replicas into the manifest by hand")
        reason = "replicas are balanced again, not moved back to their previous brokers"
        return NoWayBack(reason, is_needless=True)

    def not_restored(self, _state: State, _record: str) -> str | None:
        """Its records."""
        return "its records are lost: the topic comes back empty"
