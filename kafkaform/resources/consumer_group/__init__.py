"""The kind ConsumerGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafkaform.core import kafka_configs
from kafkaform.core.groups import (
    COMMITTED,
    OFFSETS_PREFIX,
    Group,
    Position,
    partition_of,
    protocol_of_configs,
)
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
    Risk,
    RiskAssessment,
    State,
    Update,
    risk_of,
)
from kafkaform.core.wording import counted
from kafkaform.resources.base import Kind, NoWayBack, own_configs
from kafkaform.resources.consumer_group import operations as group_operations
from kafkaform.resources.consumer_group import risk, spec
from kafkaform.resources.consumer_group.client import client_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.config_values import ConfigKey
    from kafkaform.core.operations import Operation
    from kafkaform.resources.base import (
        Layer,
        ReportProblem,
        Shape,
        UpdateContext,
    )


def group_ref(name: str) -> ResourceRef:
    """The group with this name."""
    return ResourceRef(ConsumerGroupKind.name, name)


def is_group(ref: ResourceRef) -> bool:
    """Tell whether a resource is a group."""
    return ref.kind == ConsumerGroupKind.name


def group_of(observed: Observed) -> Group | None:
    """What the coordinator knows of a group; None for one that has nothing but configs."""
    return observed.live if isinstance(observed.live, Group) else None


class ConsumerGroupKind(Kind):
    """Groups of every protocol: dynamic group configs, and where a group starts."""

    name = risk.NAME
    schema = "consumergroup"
    collection = "consumer groups"
    noun = "group"
    folder = "groups"
    contents = "its offsets"
    endings = "expired or deleted"
    shape: Shape = "box"
    nowhere: Layer = {"topics": []}  # noqa: RUF012 - read-only
    config_resource = "GROUP"
    hazards = risk.HAZARDS
    prunable = False  # it is somebody's, and costs next to nothing
    verbatim = frozenset({"client", "offsets"})

    def configs(self) -> Mapping[str, ConfigKey]:
        """The group configs."""
        return kafka_configs.group_configs()

    def inherited(self, broker_configs: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Brokers have each group config under its name with `group.` before it."""
        defaults = {}
        for name, key in kafka_configs.group_configs().items():
            value = broker_configs.get(f"group.{name}", key.default)
            defaults[name] = None if value is None else kafka_configs.observed(key, value)
        return defaults

    def normalise(self, layer: Mapping[str, object], report: ReportProblem) -> Layer:
        """See `Kind.normalise`."""
        return spec.normalise(layer, report)

    def written(
        self,
        observed: Observed,
        _config: dict[str, object],
        under: Mapping[str, object],
        left_out: list[str],
    ) -> dict[str, object]:
        """See `Kind.written`."""
        return spec.written(group_of(observed), observed.state, under, left_out)

    def idle(self, observed: Observed) -> bool:
        """A group without an offset or a member in any topic."""
        group = group_of(observed)
        return group is None or not group.topics

    def resolve(self, layer: Layer, report: ReportProblem) -> tuple[State | None, Intent]:
        """See `Kind.resolve`."""
        return spec.resolve(layer, report)

    def field_order(self, path: str) -> tuple[int, str]:
        """Configs by name first, then offsets by topic, and within it by the number of the partition."""
        partition = partition_of(path)
        if partition is not None:
            topic, number = partition
            path = f"{OFFSETS_PREFIX}{topic}:{number:010}"
        return (path.startswith(OFFSETS_PREFIX), path)

    def equal(self, path: str, a: FieldValue, b: FieldValue) -> bool:
        """Configs compare by Kafka's type; a committed offset is where any start was meant to lead."""
        if a == b:
            return True
        if a is None or b is None:
            return False
        if path.startswith(CONFIG_PREFIX):
            key = kafka_configs.group_configs().get(path.removeprefix(CONFIG_PREFIX))
            return kafka_configs.equal(key, str(a), str(b))
        return partition_of(path) is None and COMMITTED in {a, b}

    def judge(self, path: str, context: UpdateContext) -> RiskAssessment:
        """See `kafkaform.resources.consumer_group.risk`."""
        return risk.judge(path, context)

    def judge_create(self, ref: ResourceRef, state: State, facts: Facts) -> RiskAssessment:
        """See `kafkaform.resources.consumer_group.risk`."""
        return risk.judge_create(ref, state, facts)

    def judge_delete(self, observed: Observed, facts: Facts) -> RiskAssessment:
        """See `kafkaform.resources.consumer_group.risk`."""
        group = group_of(observed)
        is_share = group is not None and group.protocol == "share"
        return risk.judge_delete(observed.ref, observed.state, facts, is_share=is_share)

    def operations(self, change: Change) -> tuple[Operation, ...]:
        """See `kafkaform.resources.consumer_group.operations`."""
        return group_operations.operations(change)

    def reads(self, intent: Intent) -> tuple[str, ...]:
        """The topics that the manifest lists."""
        return tuple(cast("list[str]", intent.spec.get("topics", [])))

    def applicable(self, state: State, observed: Observed, _facts: Facts) -> State:
        """All but the offsets of a group that has members: theirs is the word on where they stand."""
        group = group_of(observed)
        if group is None or not group.active:
            return state
        return {path: value for path, value in state.items() if not path.startswith(OFFSETS_PREFIX)}

    def obstacle(self, change: Change, observed: Observed) -> tuple[str, str | None] | None:
        """Members, whose offsets nobody else may touch; and share groups, which have none to commit."""
        group = group_of(observed)
        if group is None:
            return None
        match change:
            case Delete():
                if group.active:
                    return (
                        f"{_in_use(group)}, and Kafka does not delete a group in use",
                        "stop its members first",
                    )
                return None
            case Update(fields=fields):
                paths = [field.path for field in fields]
            case Create(state=state):
                paths = list(state)
        return _obstacle_to_offsets([path for path in paths if path.startswith(OFFSETS_PREFIX)], group)

    def concerns_readers(self, _change: Change) -> bool:
        """No: nobody reads a group."""
        return False

    def is_watched(self, change: Change, observed: Observed) -> bool:
        """A group that is to lose offsets: a consumer that uses assign() commits, and is no member."""
        group = group_of(observed)
        return group is not None and bool(group.committed) and risk_of(change) >= Risk.DESTRUCTIVE

    def first_offsets(self, change: Change) -> Mapping[str, ResourceRef]:
        """The offsets that are of a topic, and not of a partition, as those of a reset are."""
        match change:
            case Create(state=state):
                paths = [*state]
            case Update(fields=fields):
                paths = [field.path for field in fields]
            case Delete():
                return {}
        return {
            path: ResourceRef("Topic", path.removeprefix(OFFSETS_PREFIX))
            for path in paths
            if path.startswith(OFFSETS_PREFIX) and partition_of(path) is None
        }

    def policy_fields(self) -> Mapping[str, ConfigKey]:
        """The properties that a manifest may set for the members, spelt as its normal form has them."""
        return {f"client.{name}": key for name, key in client_keys().items()}

    def undeclarable(self, path: str, _value: FieldValue) -> str | None:
        """Offsets."""
        if path.startswith(OFFSETS_PREFIX):
            return "manifests do not contain committed offsets"
        return None

    def no_way_back(self, _ref: ResourceRef, field: FieldChange, _declared: State | None) -> NoWayBack | None:
        """Offsets, which `kafkaform reset` sets."""
        if not field.path.startswith(OFFSETS_PREFIX):
            return None
        partition = partition_of(field.path)
        if partition is None or not isinstance(field.before, int):
            return NoWayBack("committed offsets cannot be restored by a manifest or by kafkaform reset")
        return NoWayBack("no manifest holds it", offset=(*partition, field.before))

    def restored(self, ref: ResourceRef, state: State) -> Observed:
        """Without its offsets; the topics that it had some in are those that it reads."""
        partitions = [partition for path in state if (partition := partition_of(path)) is not None]
        positions = tuple(Position(*partition, 0) for partition in partitions)
        group = Group(ref.name, protocol_of_configs(state), "", positions=positions)
        own = {path: value for path, value in state.items() if not path.startswith(OFFSETS_PREFIX)}
        return Observed(ref, None, own, own_configs(own), live=group)

    def not_restored(self, state: State, record: str) -> str | None:
        """Its offsets."""
        offsets = sum(partition_of(path) is not None for path in state)
        if not offsets:
            return None
        return (
            f"a manifest does not bring back its {counted(offsets, 'committed offset')}: "
            f"they are in {record}, for kafkaform reset"
        )


def _obstacle_to_offsets(paths: list[str], group: Group) -> tuple[str, str | None] | None:
    if not paths:
        return None
    if group.protocol == "share":
        return (
            "it is a share group, which has no offsets to commit",
            "declare protocol: share, and config share.auto.offset.reset instead of offsets.initial",
        )
    if not group.active:
        return None
    if any(partition_of(path) is not None for path in paths):
        return (
            f"{_in_use(group)}, and Kafka does not change the offsets of a group in use",
            "stop its members first",
        )
    return (
        f"{_in_use(group)} by now: members start by their own auto.offset.reset",
        "make a new plan, which leaves them alone",
    )


def _in_use(group: Group) -> str:
    return f"it has {counted(len(group.members), 'member')}" if group.members else f"it is {group.state}"
