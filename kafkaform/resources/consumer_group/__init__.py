"""The kind ConsumerGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    Change,
    Create,
    Delete,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    State,
    Update,
    risk_of,
)
from kafkaform.core.wording import counted
from kafkaform.resources.base import (
    AffectedGroups,
    ConfigField,
    ConfigSet,
    Field,
    Hazards,
    Irreversible,
    Kind,
    KindWords,
    ManifestFormat,
    Restoration,
    own_configs,
)
from kafkaform.resources.consumer_group import operations as group_operations
from kafkaform.resources.consumer_group import risk, spec
from kafkaform.resources.consumer_group.client import client_keys
from kafkaform.resources.consumer_group.fields import COMMITTED, OFFSETS_PREFIX, partition_of
from kafkaform.resources.groups import Group, Position, get_group, protocol_of_configs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.operations import Operation
    from kafkaform.resources.base import Layer, ReportProblem, UpdateContext


class _Field(Field):
    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge(self.path, context)


class _Config(_Field, ConfigField):
    """A dynamic config of a group."""


class _Offset(_Field):
    ending = "expired or removed"

    @property
    def order(self) -> tuple[int, str]:
        """Its sort key: after configs, by topic and by number of the partition."""
        partition = partition_of(self.path)
        if partition is None:
            return 1, self.path
        topic, number = partition
        # Padded, so that partition 10 comes after partition 9.
        return 1, f"{OFFSETS_PREFIX}{topic}:{number:010}"

    def equal(self, a: FieldValue, b: FieldValue) -> bool:
        """Compare two values; any committed offset fulfils an initial one."""
        if a == b or a is None or b is None:
            return a == b
        # A manifest declares where a new group starts. Once the group has an offset, its members move it.
        return partition_of(self.path) is None and COMMITTED in {a, b}

    def undeclarable(self, _value: FieldValue) -> str:
        return "manifests do not contain committed offsets"

    def explain_irreversible(self, change: FieldChange, _declared: State | None) -> Irreversible:
        partition = partition_of(self.path)
        if partition is None or not isinstance(change.before, int):
            return Irreversible("committed offsets cannot be restored by a manifest or by `kafkaform reset`")
        return Irreversible("no manifest holds it", offset=(*partition, change.before))


class _Configs(ConfigSet):
    resource = "GROUP"

    def keys(self) -> Mapping[str, ConfigKey]:
        return kafka_configs.group_configs()

    def find_defaults(self, broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        # Brokers prefix the name of each group config with `group.`.
        defaults = {}
        for name, key in kafka_configs.group_configs().items():
            value = broker_configs.get(f"group.{name}", key.default)
            defaults[name] = None if value is None else kafka_configs.normalise_observed(key, value)
        return defaults


class _Format(ManifestFormat):
    schema = "consumergroup"
    sentinel_spec: Layer = {"topics": []}  # noqa: RUF012 - read-only
    verbatim = frozenset({"client", "offsets"})

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        return spec.normalise(layer, report)

    def resolve(self, layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
        return spec.resolve(layer, report)

    def write(
        self, observed: Observed, _config: dict[str, object], under: Mapping[str, object], left_out: list[str]
    ) -> dict[str, object]:
        return spec.write_spec(get_group(observed), observed.state, under, left_out)

    def is_idle(self, observed: Observed) -> bool:
        group = get_group(observed)
        return group is None or not group.topics

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        return {f"client.{name}": key for name, key in client_keys().items()}


class ConsumerGroupKind(Kind):
    """Groups of every protocol: dynamic group configs, and initial offsets."""

    name = risk.NAME
    words = KindWords("consumer groups", "group", "groups", "its offsets", "expired or deleted", "box")
    format: ManifestFormat = _Format()
    configs: ConfigSet = _Configs()
    hazards = Hazards(risk.HAZARDS)
    has_members = True
    # A group that no manifest declares may belong to others, and it costs a cluster next to nothing.
    prunable = False

    def field(self, path: str) -> Field:
        """Return the field of an offset or a config."""
        return (_Offset if path.startswith(OFFSETS_PREFIX) else _Config)(self, path)

    def judge_create(self, ref: ResourceRef, state: State, facts: Facts) -> RiskAssessment:
        """Assess the risk of committing first offsets."""
        return risk.judge_create(ref, state, facts)

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """Assess the loss of offsets and configs."""
        group = get_group(observed)
        is_share = group is not None and group.protocol == "share"
        return risk.judge_delete(observed.ref, observed.state, facts, is_share=is_share)

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """Return the operations on configs and offsets."""
        return group_operations.operations(change)

    def reads(self, intent: Intent) -> tuple[str, ...]:
        """Return the topics that the manifest lists."""
        return tuple(cast("list[str]", intent.spec.get("topics", [])))

    def applicable(self, state: State, observed: Observed, _facts: Facts) -> State:
        """Leave out the offsets of a group that has members, as these commit their own."""
        group = get_group(observed)
        if group is None or not group.active:
            return state
        return {path: value for path, value in state.items() if not path.startswith(OFFSETS_PREFIX)}

    def obstacle(self, change: Change, observed: Observed) -> tuple[str, str | None] | None:
        """Refuse changes of the offsets of a group with members, and of a share group, which has none."""
        group = get_group(observed)
        if group is None:
            return None
        match change:
            case Delete():
                # Brokers answer NON_EMPTY_GROUP; refused here, the plan already shows it.
                if group.active:
                    return (
                        f"{_describe_use(group)}, and Kafka does not delete a group in use",
                        "stop its members first",
                    )
                return None
            case Update(fields=fields):
                paths = [field.path for field in fields]
            case Create(state=state):
                paths = list(state)
        return _obstacle_to_offsets([path for path in paths if path.startswith(OFFSETS_PREFIX)], group)

    def affected_groups(self, change: Change, observed: Observed | None) -> AffectedGroups:
        """Return the group if it loses offsets: who uses assign() commits without being a member."""
        group = get_group(observed) if observed is not None else None
        # Watching takes seconds, so only groups that have offsets to lose are watched.
        loses_offsets = group is not None and group.committed and risk_of(change) >= Risk.DESTRUCTIVE
        return AffectedGroups.ITSELF if loses_offsets else AffectedGroups.NONE

    def comparable_state(self, observed: Observed) -> State:
        """Return its configs and its protocol; offsets depend on the records of one cluster."""
        group = get_group(observed)
        protocol = group.intended_protocol(observed.state) if group is not None else ""
        return {**own_configs(observed.state), **({"protocol": protocol} if protocol else {})}

    def first_offsets(self, change: Change) -> Mapping[str, str]:
        """Return the fields of whole topics; those of partitions belong to a reset."""
        match change:
            case Create(state=state):
                paths = [*state]
            case Update(fields=fields):
                paths = [field.path for field in fields]
            case Delete():
                return {}
        return {
            path: path.removeprefix(OFFSETS_PREFIX)
            for path in paths
            if path.startswith(OFFSETS_PREFIX) and partition_of(path) is None
        }

    def restore(self, ref: ResourceRef, state: State, record: str) -> Restoration:
        """Return the group without offsets; it reads the topics in which it had some."""
        partitions = [partition for path in state if (partition := partition_of(path)) is not None]
        # The offsets themselves are not restored; a position only shows that the group read the topic.
        positions = tuple(Position(*partition, 0) for partition in partitions)
        group = Group(ref.name, protocol_of_configs(state), "", positions=positions)
        own = {path: value for path, value in state.items() if not path.startswith(OFFSETS_PREFIX)}
        lost = (
            f"a manifest does not restore its {counted(len(partitions), 'committed offset')}; "
            f"they are in the record, for `kafkaform reset`: {record}"
        )
        observed = Observed(ref, None, own, own_configs(own), live=group)
        return Restoration(observed, lost if partitions else None)


def _obstacle_to_offsets(paths: list[str], group: Group) -> tuple[str, str | None] | None:
    if not paths:
        return None
    # KIP-932: the coordinator tracks each record of a share group, and has no offset that a client could
    # commit.
    if group.protocol == "share":
        return (
            "it is a share group, which has no offsets to commit",
            "declare `protocol: share`, and config share.auto.offset.reset instead of offsets.initial",
        )
    if not group.active:
        return None
    if any(partition_of(path) is not None for path in paths):
        return (
            f"{_describe_use(group)}, and Kafka does not change the offsets of a group in use",
            "stop its members first",
        )
    return (
        f"now {_describe_use(group)}: members start at their own auto.offset.reset",
        "make a new plan, which does not change them",
    )


def _describe_use(group: Group) -> str:
    return f"it has {counted(len(group.members), 'member')}" if group.members else f"it is {group.state}"
