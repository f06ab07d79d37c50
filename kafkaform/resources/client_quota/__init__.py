"""The kind ClientQuota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Observed, ResourceRef
from kafkaform.core.plans import Binding
from kafkaform.core.rights import CLUSTER, Right
from kafkaform.resources.base import ConfigField, ConfigSet, Field, Hazards, Kind, KindWords, ManifestFormat
from kafkaform.resources.client_quota import operations as quota_operations
from kafkaform.resources.client_quota import risk, spec
from kafkaform.resources.client_quota.entity import parse_entity, write_entity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.errors import Problem
    from kafkaform.core.model import (
        Change,
        Desired,
        Facts,
        FieldChange,
        FieldValue,
        Intent,
        RiskAssessment,
        State,
    )
    from kafkaform.core.operations import Operation
    from kafkaform.resources.base import Layer, ReportProblem, UpdateContext
    from kafkaform.resources.client_quota.entity import QuotaEntity


class _Limit(ConfigField):
    """A limit of an entity."""

    @property
    def order(self) -> tuple[int, str]:
        """Its sort key: limits are in the order of Kafka's documentation."""
        names = list(spec.KEYS)
        name = self.path.removeprefix(CONFIG_PREFIX)
        return (names.index(name) if name in names else len(names), self.path)

    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        if a is None or b is None:
            return a == b
        return spec.are_equal(self.path.removeprefix(CONFIG_PREFIX), str(a), str(b))

    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge(self.path, context)


class _Limits(ConfigSet):
    def keys(self) -> Mapping[str, ConfigKey]:
        return spec.KEYS


class _Format(ManifestFormat):
    schema = "clientquota"
    sentinel_spec: Layer = {}  # noqa: RUF012 - read-only

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        return spec.normalise(layer, report)

    def resolve(self, layer: Layer, _report: ReportProblem) -> tuple[State | None, Intent]:
        return spec.resolve(layer)

    def find_problems(self, desired: Desired) -> Iterable[Problem]:
        return spec.find_problems(desired)

    def write(
        self,
        observed: Observed,
        _config: dict[str, object],
        _under: Mapping[str, object],
        _left_out: list[str],
    ) -> dict[str, object]:
        return {"entity": write_entity(parse_entity(observed.ref.name))}


class ClientQuotaKind(Kind):
    """Quotas of users, client ids and addresses, and their defaults (KIP-546)."""

    name = "ClientQuota"
    words = KindWords("client quotas", "quota", "quotas", "its limits", "deleted", "box")
    format: ManifestFormat = _Format()
    configs: ConfigSet = _Limits()
    hazards = Hazards(risk.HAZARDS)
    # Listing quotas takes a right on the whole cluster, so brokers are asked only if a manifest declares one.
    listed = False
    # Pruning would lift limits that protect the cluster, and a quota that no manifest declares does no harm.
    prunable = False

    def field(self, path: str) -> Field:
        """Return the limit with this path."""
        return _Limit(self, path)

    def reading_rights(self, _name: str) -> tuple[Right, ...]:
        """Return the right on the cluster, as ACLs do not cover single quotas."""
        return (Right("DescribeConfigs", CLUSTER),)

    def judge_create(self, ref: ResourceRef, state: State, facts: Facts) -> RiskAssessment:
        """Assess the first limits of an entity."""
        return risk.judge_create(ref, state, facts)

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """Assess the removal of all limits of an entity."""
        return risk.judge_delete(observed, facts)

    def binding(self, _change: Change, field: FieldChange | None) -> Binding | None:
        """Bind a consent to the effective limit that a change replaces."""
        # Without a limit before, any later cut would look the same.
        if field is None or field.effective_before is None:
            return None
        value = str(field.effective_before)
        limit = self.field(field.path)
        text = kafka_configs.human(spec.KEYS.get(field.path.removeprefix(CONFIG_PREFIX)), value)
        return Binding(
            f"from {text}",
            lambda given: given.startswith("from ") and limit.equal(given.removeprefix("from "), value),
        )

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """Alter all limits of an entity at once."""
        return quota_operations.operations(change)


def quota_ref(entity: QuotaEntity) -> ResourceRef:
    """Return the reference to the quota of an entity."""
    return ResourceRef(ClientQuotaKind.name, entity.name)


def observe_quota(entity: QuotaEntity, quotas: Mapping[QuotaEntity, Mapping[str, str]]) -> Observed:
    """Return a live quota, with the limits of defaults that apply where it has none.

    Args:
        entity: The entity of the quota.
        quotas: The limits of every entity of the cluster.
    """
    state = {CONFIG_PREFIX + name: value for name, value in quotas[entity].items()}
    fallbacks = {
        risk.FALLBACK_PREFIX + name: value
        # The first in the order of precedence wins, so it is written last.
        for fallback in reversed(entity.fallbacks())
        for name, value in quotas.get(fallback, {}).items()
    }
    return Observed(quota_ref(entity), None, state, {**fallbacks, **state})
