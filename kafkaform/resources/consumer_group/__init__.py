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
    Recreate,
    ResourceRef,
    Risk,
    RiskAssessment,
    State,
    Update,
    risk_of,
)
from kafkaform.core.values import replace
from kafkaform.core.wording import counted
from kafkaform.resources.base import (
    ConfigField,
    Configured,
    Field,
    Hazards,
    Irreversible,
    KindScope,
    KindWords,
    PolicyChecked,
    Restorable,
    Restoration,
    UpdateContext,
    own_configs,
)
from kafkaform.resources.consumer_group import operations as group_operations
from kafkaform.resources.consumer_group import risk, spec
from kafkaform.resources.consumer_group.client import client_keys
from kafkaform.resources.consumer_group.fields import COMMITTED, OFFSETS_PREFIX, partition_of, topic_path
from kafkaform.resources.groups import Group, Position, get_group, protocol_of_configs
from kafkaform.resources.succession import SuccessionFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.core.config_values import ConfigKey


class _Field(Field):
    def judge(self, context: UpdateContext) -> RiskAssessment:
        return risk.judge(self.path, context)


class _Config(_Field, ConfigField):
    """A dynamic config of a group."""


class _Offset(_Field):
    ending = "expired or removed"
    compared = False  # offsets depend on the records of one cluster

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


class ConsumerGroupKind(Configured, Restorable, PolicyChecked):
    """Groups of every protocol: dynamic group configs, and initial offsets."""

    name = risk.NAME
    words = KindWords("consumer groups", "group", "groups", "its offsets", "expired or deleted", "box")
    schema = "consumergroup"
    hazards = Hazards(risk.HAZARDS)
    # A group that no manifest declares may belong to others, and it costs a cluster next to nothing.
    scope = KindScope()
    config_resource = "GROUP"

    normalise = staticmethod(spec.normalise)
    resolve = staticmethod(spec.resolve)
    write = staticmethod(spec.write)
    operations = staticmethod(group_operations.operations)
    config_keys = staticmethod(kafka_configs.group_configs)

    def find_defaults(self, broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return the defaults of brokers, which prefix the name of each group config with `group.`."""
        defaults = {}
        for name, key in kafka_configs.group_configs().items():
            value = broker_configs.get(f"group.{name}", key.default)
            defaults[name] = None if value is None else kafka_configs.normalise_observed(key, value)
        return defaults

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """Return the client properties."""
        return {f"client.{name}": key for name, key in client_keys().items()}

    def field(self, path: str) -> Field:
        """Return the field of an offset or a config."""
        return (_Offset if path.startswith(OFFSETS_PREFIX) else _Config)(self, path)

    def judge(self, change: Create | Delete, observed: Observed | None, facts: Facts) -> RiskAssessment:
        """Assess the first offsets that are committed, or the loss of offsets and configs."""
        if observed is None:
            return risk.judge_create(change.ref, change.state, facts)
        group = get_group(observed)
        is_share = group is not None and group.protocol == "share"
        return risk.judge_delete(observed.ref, observed.state, facts, is_share=is_share)

    def reads(self, intent: Intent) -> tuple[str, ...]:
        """Return the topics that the manifest lists."""
        return tuple(cast("list[str]", intent.spec.get("topics", [])))

    def reconcile(self, state: State, observed: Observed, facts: Facts) -> State:
        """Leave out the offsets of a group that has members, as these commit their own.

        Those in a topic that succeeds another one wait until the group has read the other one.
        """
        group = get_group(observed)
        if group is None:
            return state
        waits = {topic_path(name) for name in facts.get(SuccessionFacts).find_waits(group)}
        return {
            path: value
            for path, value in state.items()
            if not path.startswith(OFFSETS_PREFIX) or not (group.active or path in waits)
        }

    def find_obstacle(self, change: Change, observed: Observed) -> tuple[str, str] | None:
        """Return why a live group prevents a change, and what to do; None if it does not, or is no group.

        Changes of the offsets of a group with members are refused, and of a share group, which has none. It
        is called when a plan is made, and again right before it is applied.
        """
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
            case Create(state=state) | Recreate(state=state):
                paths = list(state)
        return _obstacle_to_offsets([path for path in paths if path.startswith(OFFSETS_PREFIX)], group)

    def hide_offsets(self, observed: Observed, topics: Collection[str]) -> Observed:
        """Return a live group as it is without its offsets in some topics."""
        names = {
            path: (partition_of(path) or (path.removeprefix(OFFSETS_PREFIX),))[0] for path in observed.state
        }
        kept = {path: value for path, value in observed.state.items() if names[path] not in topics}
        return replace(observed, state=kept)

    def loses_offsets(self, change: Change, observed: Observed | None) -> bool:
        """Return whether a group that may be in use loses offsets: who uses assign() is not a member."""
        group = get_group(observed) if observed is not None else None
        # Watching takes seconds, so only groups that have offsets to lose are watched.
        return group is not None and bool(group.committed) and risk_of(change) >= Risk.DESTRUCTIVE

    def is_idle(self, observed: Observed) -> bool:
        """Return whether a live group reads nothing yet that its manifest has to declare."""
        group = get_group(observed)
        return group is None or not group.topics

    def find_protocol(self, observed: Observed) -> str | None:
        """Return the protocol that a live group is to have; None if unknown."""
        group = get_group(observed)
        return group.intended_protocol(observed.state) if group is not None else None

    def first_offsets(self, change: Change) -> Mapping[str, str]:
        """Return a group's fields of whole topics; those of partitions belong to a reset."""
        match change:
            case Create(state=state) | Recreate(state=state):
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


def _obstacle_to_offsets(paths: list[str], group: Group) -> tuple[str, str] | None:
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
