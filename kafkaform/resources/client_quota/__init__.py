"""The kind ClientQuota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import CONFIG_PREFIX, Create, Delete, Observed, ResourceRef
from kafkaform.core.plans import Binding
from kafkaform.resources.base import (
    ConfigField,
    Configured,
    Field,
    Hazards,
    KindScope,
    KindWords,
    UpdateContext,
    WholeChecked,
)
from kafkaform.resources.client_quota import operations as quota_operations
from kafkaform.resources.client_quota import risk, spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.model import Facts, FieldChange, FieldValue, RiskAssessment
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

    def bind(self, change: FieldChange) -> Binding | None:
        """Bind a consent to the effective limit that a change replaces."""
        # Without a limit before, any later cut would look the same.
        if change.effective_before is None:
            return None
        value = str(change.effective_before)
        text = kafka_configs.human(spec.KEYS.get(self.path.removeprefix(CONFIG_PREFIX)), value)
        return Binding(
            f"from {text}",
            lambda given: given.startswith("from ") and self.equal(given.removeprefix("from "), value),
        )


class ClientQuotaKind(Configured, WholeChecked):
    """Quotas of users, client ids and addresses, and their defaults (KIP-546)."""

    name = "ClientQuota"
    words = KindWords("client quotas", "quota", "quotas", "its limits", "deleted", "box")
    schema = "clientquota"
    hazards = Hazards(risk.HAZARDS)
    # ACLs do not cover single quotas, and listing takes a right on the cluster: brokers are asked only if a
    # manifest declares one. Pruning would lift limits that protect the cluster.
    scope = KindScope(listed=False, reading_rights=("DescribeConfigs",), is_cluster_right=True)

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    find_problems = staticmethod(spec.find_problems)
    write = staticmethod(spec.write)
    operations = staticmethod(quota_operations.operations)

    def field(self, path: str) -> Field:
        """Return the limit with this path."""
        return _Limit(self, path)

    def config_keys(self) -> Mapping[str, ConfigKey]:
        """Return the limits that entities can have."""
        return spec.KEYS

    def judge(self, change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the first limits of an entity, or the removal of all."""
        if observed is None:
            return risk.judge_create(change.ref, change.state, facts)
        return risk.judge_delete(observed, facts)


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
