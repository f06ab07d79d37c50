"""The kind Topic."""

from __future__ import annotations

from functools import cache, partial
from operator import eq
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Change,
    Delete,
    Diagnostic,
    Facts,
    FieldChange,
    FieldValue,
    Observed,
    RiskAssessment,
    State,
    Update,
)
from kafkaform.core.plans import Binding
from kafkaform.core.values import replace
from kafkaform.resources.base import (
    AffectedGroups,
    ConfigField,
    ConfigSet,
    Field,
    FieldOutcome,
    Hazards,
    Irreversible,
    Kind,
    KindWords,
    Restoration,
)
from kafkaform.resources.replicas import copying, placement
from kafkaform.resources.replicas.facts import MIN_ISR, PLACEMENT, REPLICATION_FACTOR, ReplicaFacts
from kafkaform.resources.replicas.layout import format_assignment
from kafkaform.resources.topic import operations as topic_operations
from kafkaform.resources.topic import replication_factor, risk, spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.operations import Operation
    from kafkaform.resources.base import ManifestFormat, UpdateContext

_FIRST_FIELDS = ("partitions", REPLICATION_FACTOR, PLACEMENT)


class _Field(Field):
    @property
    def order(self) -> tuple[int, str]:
        """Its sort key: partitions, replication factor and placement first, then configs by name."""
        first = _FIRST_FIELDS.index(self.path) if self.path in _FIRST_FIELDS else len(_FIRST_FIELDS)
        return first, self.path

    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge(self.path, context)


class _Config(_Field, ConfigField):
    @property
    def ignored(self) -> bool:
        """True for the throttle keys, which belong to a running reassignment."""
        return self.path.removeprefix(CONFIG_PREFIX) in kafka_configs.REASSIGNMENT_KEYS

    def explain_deferral(self, context: UpdateContext) -> str | None:
        # min.insync.replicas must not rise above the replicas that exist or are going to be placed.
        if self.path != MIN_ISR or context.ref in context.facts.get(ReplicaFacts).placements:
            return None
        return replication_factor.explain_deferred_min_isr(context)


class _Count(_Field):
    def undeclarable(self, value: FieldValue) -> str | None:
        if isinstance(value, int):
            return None
        return f"it is {value} now, depending on the partition, but a manifest declares one number"


class _Partitions(_Count):
    def explain_irreversible(self, change: FieldChange, _declared: State | None) -> Irreversible:
        return Irreversible(
            f"Kafka cannot remove partitions ({change.before} → {change.after}); "
            "a new topic with fewer is the only way back"
        )


class _ReplicationFactor(_Count):
    def is_intermediate(self, change: FieldChange, value: FieldValue) -> bool:
        return replication_factor.is_on_the_way(change, value)

    def explain_deferral(self, context: UpdateContext) -> str | None:
        known = context.ref in context.facts.get(ReplicaFacts).placements
        return None if known else placement.explain_deferral(context)


class _Placement(_ReplicationFactor):
    def live(self, observed: Observed, facts: Facts | None = None) -> FieldValue:
        return placement.live(observed, facts)

    def remaining(self, change: FieldChange, observed: Observed) -> FieldChange | FieldOutcome:
        return placement.remaining(change, observed)

    def is_intermediate(self, change: FieldChange, value: FieldValue) -> bool:
        return placement.is_on_the_way(change, value)

    def describe(self, before: FieldValue, after: FieldValue) -> tuple[str, tuple[str, ...]] | None:
        if after is None:
            return None
        return (
            placement.describe_placement(str(after))
            if before is None
            else placement.describe_moves(str(before), str(after))
        )

    def undeclarable(self, _value: FieldValue) -> str:
        return "write the live replicas, which `kafkaform plan --verbose` shows, by hand, or leave them"

    def explain_irreversible(self, _change: FieldChange, declared: State | None) -> Irreversible:
        if PLACEMENT in (declared or {}):
            return Irreversible("write the earlier replicas into the manifest by hand")
        reason = "replicas are balanced again, not moved back to their previous brokers"
        return Irreversible(reason, is_derived=True)


_FIELDS = {"partitions": _Partitions, REPLICATION_FACTOR: _ReplicationFactor, PLACEMENT: _Placement}


@cache
def _load_keys() -> Mapping[str, ConfigKey]:
    return {**kafka_configs.topic_configs(), **kafka_configs.retired_configs("topics")}


class _Configs(ConfigSet):
    resource = "TOPIC"

    def keys(self) -> Mapping[str, ConfigKey]:
        return _load_keys()

    def find_defaults(self, broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        return kafka_configs.cluster_defaults(broker_configs)

    def is_vendor(self, name: str) -> bool:
        return kafka_configs.is_vendor(name)


class TopicKind(Kind):
    """Topics: partitions, replicas and their placement, and every dynamic topic config."""

    name = "Topic"
    words = KindWords("topics", "topic", "", "its data", "deleted", "cylinder")
    format: ManifestFormat = spec.TopicFormat()
    configs: ConfigSet = _Configs()
    hazards = Hazards(risk.HAZARDS, risk.INCLUDES)
    prunable = True
    has_replicas = True
    plan_wide_codes = frozenset({copying.TOGETHER})

    def field(self, path: str) -> Field:
        """Return the field of partitions, replicas, their placement, or a config."""
        return _FIELDS.get(path, _Config)(self, path)

    def note_plan_wide(self, changes: Sequence[Change], facts: Facts) -> Iterable[Diagnostic]:
        """Note the total of all copies of replicas."""
        return copying.note_total(changes, facts)

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """Assess the loss of all records."""
        return risk.judge_delete(observed, facts)

    def binding(self, change: Change, field: FieldChange | None) -> Binding | None:
        """Bind a consent to the id of a topic to delete, or to the effective value that a change replaces."""
        # A topic that is created again under the name has another id, and its deletion needs another consent.
        if isinstance(change, Delete) and change.uid is not None:
            return Binding(f"of {change.uid}", partial(eq, f"of {change.uid}"))
        if field is None or field.effective_before is None:
            return None
        return Binding(f"from {self._write_effective_value(field)}", partial(self._is_from, field))

    def _write_effective_value(self, field: FieldChange) -> str:
        """Return the effective value before a change with its unit, or raw if that would not be exact."""
        value = str(field.effective_before)
        key = _load_keys().get(field.path.removeprefix(CONFIG_PREFIX))
        if not field.path.startswith(CONFIG_PREFIX) or key is None:
            return value
        text = kafka_configs.human(key, value)
        # `unlimited (Long.MAX)` is for people: a manifest could not contain it as a value.
        return text if self.field(field.path).equal(text, value) else value

    def _is_from(self, field: FieldChange, text: str) -> bool:
        word, _, value = text.partition(" ")
        if word != "from":
            return False
        if field.path.startswith(CONFIG_PREFIX):
            return self.field(field.path).equal(value, field.effective_before)
        # For moves that stopped half-way, a consent to the value at their start is still valid.
        start = replace(field, before=value)
        return value == str(field.effective_before) or (
            value.isdecimal() and self.field(field.path).is_intermediate(start, field.effective_before)
        )

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """Return the operations on partitions, replicas and configs."""
        return topic_operations.operations(change)

    def applicable(self, state: State, observed: Observed, facts: Facts) -> State:
        """Add the planned placement of the replicas."""
        assignment = facts.get(ReplicaFacts).placements.get(observed.ref)
        return state if assignment is None else {**state, PLACEMENT: format_assignment(assignment)}

    def affected_groups(self, change: Change, _observed: Observed | None) -> AffectedGroups:
        """Return the readers if partitions are added, or the topic is deleted."""
        match change:
            case Update(fields=fields) if any(field.path == "partitions" for field in fields):
                return AffectedGroups.READERS
            case Delete():
                return AffectedGroups.READERS
            case _:
                return AffectedGroups.NONE

    def restore(self, ref: ResourceRef, state: State, record: str) -> Restoration:
        """Return it without its records."""
        restoration = super().restore(ref, state, record)
        return restoration._replace(lost="its records are lost: the topic comes back empty")
