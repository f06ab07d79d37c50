"""The kind Topic."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
    Change,
    Create,
    Delete,
    Facts,
    FieldChange,
    FieldValue,
    Observed,
    Recreate,
    ResourceRef,
    RiskAssessment,
    State,
    Update,
    to_integer,
)
from kafkaform.core.plans import Binding
from kafkaform.core.values import replace
from kafkaform.resources.base import (
    ConfigField,
    Configured,
    Field,
    FieldOutcome,
    Hazards,
    Irreversible,
    KindScope,
    KindWords,
    PlanWide,
    Restorable,
    Restoration,
    UpdateContext,
    restore_state,
)
from kafkaform.resources.replicas import copying, placement
from kafkaform.resources.replicas.facts import MIN_ISR, PLACEMENT, REPLICATION_FACTOR, ReplicaFacts
from kafkaform.resources.replicas.layout import format_assignment
from kafkaform.resources.topic import operations as topic_operations
from kafkaform.resources.topic import replication_factor, risk, spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey

_FIRST_FIELDS = ("partitions", REPLICATION_FACTOR, PLACEMENT)


class _Field(Field):
    @property
    def order(self) -> tuple[int, str]:
        """Its sort key: partitions, replication factor and placement first, then configs by name."""
        first = _FIRST_FIELDS.index(self.path) if self.path in _FIRST_FIELDS else len(_FIRST_FIELDS)
        return first, self.path

    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge(self.path, context)

    def bind(self, change: FieldChange) -> Binding | None:
        """Bind a consent to the effective value that a change replaces."""
        if change.effective_before is None:
            return None
        return Binding(f"from {self._write_effective_value(change)}", partial(self._is_from, change))

    def _write_effective_value(self, change: FieldChange) -> str:
        """Return the effective value before a change with its unit, or raw if that would not be exact."""
        value = str(change.effective_before)
        key = _load_keys().get(self.path.removeprefix(CONFIG_PREFIX))
        if not self.path.startswith(CONFIG_PREFIX) or key is None:
            return value
        text = kafka_configs.human(key, value)
        # `unlimited (Long.MAX)` is for people: a manifest could not contain it as a value.
        return text if self.equal(text, value) else value

    def _is_from(self, change: FieldChange, text: str) -> bool:
        word, _, value = text.partition(" ")
        if word != "from":
            return False
        if self.path.startswith(CONFIG_PREFIX):
            return self.equal(value, change.effective_before)
        # For moves that stopped half-way, a consent to the value at their start is still valid.
        start = replace(change, before=value)
        return value == str(change.effective_before) or (
            value.isdecimal() and self.is_intermediate(start, change.effective_before)
        )


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
    def explain_irreversible(self, change: FieldChange, _declared: State | None) -> Irreversible | None:
        before, after = to_integer(change.before), to_integer(change.after)
        if before is not None and after is not None and before > after:
            return None  # of a recreation: partitions can be added again
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


class TopicKind(Configured, PlanWide, Restorable):
    """Topics: partitions, replicas and their placement, and every dynamic topic config."""

    name = "Topic"
    words = KindWords("topics", "topic", "", "its data", "deleted", "cylinder")
    schema = "topic"
    hazards = Hazards(risk.HAZARDS, risk.INCLUDES)
    scope = KindScope(prunable=True)
    config_resource = "TOPIC"
    shorthands = spec.SHORTHANDS
    plan_wide_codes = frozenset({copying.TOGETHER})

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    write = staticmethod(spec.write)
    operations = staticmethod(topic_operations.operations)
    find_defaults = staticmethod(kafka_configs.cluster_defaults)
    is_vendor = staticmethod(kafka_configs.is_vendor)
    note_plan_wide = staticmethod(copying.note_total)

    def field(self, path: str) -> Field:
        """Return the field of partitions, replicas, their placement, or a config."""
        return _FIELDS.get(path, _Config)(self, path)

    def config_keys(self) -> Mapping[str, ConfigKey]:
        """Return Kafka's topic configs, with those of earlier versions."""
        return _load_keys()

    def reconcile(self, state: State, observed: Observed, facts: Facts) -> State:
        """Add the planned placement of the replicas."""
        assignment = facts.get(ReplicaFacts).placements.get(observed.ref)
        return state if assignment is None else {**state, PLACEMENT: format_assignment(assignment)}

    def judge(self, _change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the loss of all records; creating a topic is safe."""
        return SAFE if observed is None else risk.judge_delete(observed, facts)

    def judge_recreate(self, change: Recreate, facts: Facts) -> RiskAssessment:
        """Assess the loss of all records and of the offsets of the topic's readers."""
        return risk.judge_recreate(change, facts)

    def restore(self, ref: ResourceRef, state: State, _record: str) -> Restoration:
        """Return it without its records."""
        return restore_state(ref, state)._replace(lost="its records are lost: the topic comes back empty")

    def affects_readers(self, change: Change) -> bool:
        """Return whether a change affects the groups that read the topic: a deletion, or new partitions.

        The groups that read a topic which is recreated are part of its assessment.
        """
        match change:
            case Update(fields=fields):
                return any(field.path == "partitions" for field in fields)
            case Create() | Recreate():
                return False
            case Delete():
                return True
