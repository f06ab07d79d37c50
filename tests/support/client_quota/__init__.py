"""A third kind, for tests: the quotas of a user or client, named such as `user=alice,client-id=etl`.

Everything that kafkaform needs to manage it is here: the kind with its operation, its schema beside this
file, a line in the table of kinds, and how a cluster in memory shows it and carries it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from unittest.mock import patch

from kafkaform.cluster.testing import registry
from kafkaform.cluster.testing.contents import Contents
from kafkaform.cluster.testing.controller import rejected
from kafkaform.cluster.testing.registry import Accepted, Effect, World
from kafkaform.core import kafka_configs, schema_files
from kafkaform.core.config_values import ConfigKey, ConfigType
from kafkaform.core.model import (
    CONFIG_PREFIX,
    SAFE,
    Change,
    Create,
    Delete,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Live,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    State,
    Undeclared,
    Update,
)
from kafkaform.core.operations import Operation, Phase, Shown
from kafkaform.resources import KINDS
from kafkaform.resources.base import (
    BAD,
    Binding,
    Kind,
    Layer,
    ReportProblem,
    Shape,
    UpdateContext,
    canonical_value,
)

SCHEMA = Path(__file__).with_name("clientquota.schema.json")
KEYS = {
    name: ConfigKey(name, ConfigType.LONG, ranges=((1, None),))
    for name in ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
}


@dataclass(frozen=True, slots=True)
class AlterQuotas(Operation):
    """Set and take away quotas of one entity."""

    set: Mapping[str, str]
    unset: tuple[str, ...] = ()

    phase = Phase.CONFIGURE

    @property
    def weight(self) -> int:
        return len(self.set) + len(self.unset)

    def words(self, shown: Shown) -> str:
        values = [*self.set.items(), *dict.fromkeys(self.unset).items()]
        return ", ".join(shown(CONFIG_PREFIX + name, value) for name, value in values)

    def paths(self, _changed: Collection[str]) -> Iterable[str]:
        return [CONFIG_PREFIX + name for name in (*self.set, *self.unset)]


@dataclass(frozen=True, slots=True)
class QuotaLive(Live):
    """The entity of quotas: its types and names."""

    entity: tuple[tuple[str, str], ...]


class ClientQuotaKind(Kind):
    """Quotas of users and clients."""

    name = "ClientQuota"
    schema = "clientquota"
    collection = "client quotas"
    noun = "quota"
    folder = "quotas"
    contents = "its limits"
    endings = "deleted"
    shape: Shape = "box"
    nowhere: Layer = {"config": {"producer_byte_rate": "1"}}  # noqa: RUF012 - read-only
    hazards = frozenset({"quota-cut", "delete"})

    def configs(self) -> Mapping[str, ConfigKey]:
        return KEYS

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        normal: Layer = {name: value for name, value in layer.items() if name not in {"config", "overrides"}}
        config = {}
        for name, given in cast("Mapping[str, object]", layer.get("config", {})).items():
            if name not in KEYS:
                report(("config", name), f"unknown quota {name}", f"quotas: {', '.join(KEYS)}", key=True)
                continue
            value = canonical_value(KEYS[name], name, given, ("config", name), report)
            if value is not BAD:
                config[name] = value
        return normal | ({"config": config} if config else {})

    def written(
        self, _o: Observed, _config: dict[str, object], _under: Mapping[str, object], _left_out: list[str]
    ) -> dict[str, object]:
        return {}

    def resolve(self, layer: Layer, _report: ReportProblem) -> tuple[State | None, Intent]:
        intent = Intent(
            deletion_protection=bool(layer.get("deletionProtection", False)),
            undeclared=Undeclared(cast("str", layer.get("undeclared", "report"))),
            spec=layer,
        )
        if layer.get("state") == "absent":
            return None, intent
        config = cast("Mapping[str, str | None]", layer.get("config", {}))
        return {CONFIG_PREFIX + name: config[name] for name in sorted(config)}, intent

    def field_order(self, path: str) -> tuple[int, str]:
        return (0, path)

    def equal(self, path: str, a: FieldValue, b: FieldValue) -> bool:
        if a is None or b is None:
            return a == b
        return kafka_configs.equal(KEYS[path.removeprefix(CONFIG_PREFIX)], str(a), str(b))

    def judge(self, path: str, context: UpdateContext) -> RiskAssessment:
        before, after = context.before.get(path), context.after.get(path)
        if after is None or (before is not None and int(before) <= int(after)):
            return SAFE
        reason = f"clients above {after} are throttled"
        return RiskAssessment(Risk.DESTRUCTIVE, "quota-cut", reason, "look at their rates first")

    def judge_delete(self, observed: Observed, _facts: Facts) -> RiskAssessment:
        return RiskAssessment(Risk.DESTRUCTIVE, "delete", f"nothing limits {observed.ref.name} any more")

    def binding(self, _change: Change, field: FieldChange | None) -> Binding | None:
        if field is None:
            return None
        text = f"from {field.effective_before}"
        return Binding(text, lambda other: other == text)

    def operations(self, change: Change) -> tuple[Operation, ...]:
        match change:
            case Create(state=state):
                fields: Mapping[str, FieldValue] = state
            case Update(fields=changed):
                fields = {field.path: field.after for field in changed}
            case Delete(state=state):
                fields = dict.fromkeys(state)
        given = {path.removeprefix(CONFIG_PREFIX): value for path, value in fields.items()}
        return (
            AlterQuotas(
                change.ref,
                {name: str(value) for name, value in given.items() if value is not None},
                tuple(name for name, value in given.items() if value is None),
            ),
        )


# --- on a cluster in memory --------------------------------------------------------------------------


class _QuotaReader:
    def names(self, contents: Contents) -> Collection[str]:
        return [ref.name for ref in contents.others if ref.kind == ClientQuotaKind.name]

    def observed(self, ref: ResourceRef, world: World) -> Observed:
        state = {CONFIG_PREFIX + name: value for name, value in _quotas(world.contents, ref).items()}
        entity = tuple(part.partition("=")[::2] for part in ref.name.split(","))
        return Observed(ref, None, state, state, live=QuotaLive(entity))


def _quotas(contents: Contents, ref: ResourceRef) -> dict[str, str]:
    return cast("dict[str, str]", contents.others.get(ref, {}))


def _alter(operation: AlterQuotas, world: World) -> Accepted:
    ref = operation.ref
    if "=" not in ref.name:
        raise rejected("INVALID_REQUEST", f"{ref.name} names no type of entity")
    after = {**_quotas(world.contents, ref), **operation.set}
    for name in operation.unset:
        after.pop(name, None)

    def put(contents: Contents) -> None:
        contents.others[ref] = after
        if not after:
            del contents.others[ref]

    return Accepted(put, records=operation.weight)


@contextmanager
def registered() -> Iterator[None]:
    """Manage client quotas, too."""
    folders = (*schema_files.FOLDERS, SCHEMA.parent)
    with (
        patch.dict(KINDS, {ClientQuotaKind.name: ClientQuotaKind()}),
        patch.dict(registry.READERS, {ClientQuotaKind.name: _QuotaReader()}),
        patch.dict(registry.EFFECTS, {AlterQuotas: Effect(_alter, checked=True)}),
        patch.object(schema_files, "FOLDERS", folders),
    ):
        yield
