"""Readers and effects of each kind in memory: one table of both."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import CONFIG_PREFIX, Observed, ResourceRef, State
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.secrets import Reference
from kafkaform.resources.access import AccessKind, observe_access
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RemoveDenials, RevokeAccess
from kafkaform.resources.client_quota import ClientQuotaKind, observe_quota
from kafkaform.resources.client_quota.entity import parse_entity
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.replicas.facts import LiveReplicas
from kafkaform.resources.replicas.operations import AlterConfigsInSync
from kafkaform.resources.topic import TopicKind
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteOffsets, DeleteTopic
from kafkaform.resources.user import UserKind, observe_user
from kafkaform.resources.user.operations import AlterCredentials, RemoveCredentials, SetCredentials
from tests.support.memory_cluster import controller, coordinator, quotas, users
from tests.support.memory_cluster.contents import Contents, put
from tests.support.memory_cluster.coordinator import NO_GROUP

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class World:
    """The contents that readers and effects may look at, and what this account sees and declares."""

    contents: Contents
    brokers: Sequence[int]
    defaults: Mapping[str, Mapping[str, str | None]]
    now_ms: Callable[[], int]
    number: Callable[[], int]
    sees: Callable[[str], bool]
    declared: Mapping[ResourceRef, State] = field(default_factory=dict)


class MemoryReader(NamedTuple):
    """Shows the resources of one kind: the names of those that there are, and each of them."""

    names: Callable[[Contents], Collection[str]]
    observe: Callable[[ResourceRef, World], Observed]


def _observe_topic(ref: ResourceRef, world: World) -> Observed:
    topic = world.contents.topics[ref.name]
    own, inherited = _prefix_configs(topic.configs), _prefix_configs(world.defaults[ref.kind])
    moves = world.contents.moves.items()
    targets = {p: move.reassignment.target for p, move in moves if p[0] == ref.name}
    replicas = tuple(targets.get((ref.name, n), shown) for n, shown in enumerate(topic.replicas))
    fewest, most = min(map(len, replicas)), max(map(len, replicas))
    factor = fewest if fewest == most else f"{fewest}-{most}"
    return Observed(
        ref,
        topic.uid,
        {"partitions": len(replicas), "replicationFactor": factor, **own},
        {**inherited, **own},
        ref.name in _INTERNAL,
        LiveReplicas(replicas, frozenset(number for _, number in targets)),
    )


def _observe_group(ref: ResourceRef, world: World) -> Observed:
    record = world.contents.groups[ref.name]
    group = coordinator.describe_group(ref.name, record) if record.known else None
    effective = _prefix_configs({**world.defaults[ref.kind], **record.configs})
    return Observed(ref, None, observed_state(group, record.configs), effective, live=group)


def _observe_user(ref: ResourceRef, world: World) -> Observed:
    stored = world.contents.users[ref.name]
    live = {mechanism: credential.iterations for mechanism, credential in stored.items()}

    def log_in(mechanism: str, password: Reference) -> bool | None:
        return users.log_in(stored[mechanism], mechanism, password)

    return observe_user(ref.name, live, world.declared.get(ref, {}), log_in)


READERS = {
    TopicKind.name: MemoryReader(lambda contents: contents.topics, _observe_topic),
    ConsumerGroupKind.name: MemoryReader(lambda contents: contents.groups, _observe_group),
    ClientQuotaKind.name: MemoryReader(
        lambda contents: [entity.name for entity in contents.quotas],
        lambda ref, world: observe_quota(parse_entity(ref.name), world.contents.quotas),
    ),
    UserKind.name: MemoryReader(lambda contents: contents.users, _observe_user),
    AccessKind.name: MemoryReader(
        lambda contents: {acl.principal for acl in contents.acls},
        lambda ref, world: observe_access(AccessReading(tuple(world.contents.acls), AuthorizerSettings()))[
            ref
        ],
    ),
}


def _prefix_configs(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    return {CONFIG_PREFIX + name: value for name, value in configs.items()}


class Accepted(NamedTuple):
    """An accepted operation: what puts it into the contents, and what of it is refused."""

    put: Callable[[Contents], None]
    records: int
    problem: ClusterError | None = None


class Effect(NamedTuple):
    """The effect of one type of operation.

    Attributes:
        step: Finds out what becomes of the resource, or raises why brokers refuse the operation.
        checked: Whether brokers can check it without carrying it out.
        alone: Whether each takes a request of its own, to the coordinator of the group.
    """

    step: Callable[[Any, World], Accepted]
    checked: bool = False
    alone: bool = False


def _accept_topic_operation(operation: controller.TopicOperation, world: World) -> Accepted:
    topics, number = world.contents.topics, world.number() if isinstance(operation, CreateTopic) else 0
    name, after = controller.result(topics, operation, brokers=world.brokers, number=number)
    records = controller.records(topics.get(name), after)
    return Accepted(lambda contents: contents.put_topic(name, after), records)


def _accept_group_operation(operation: coordinator.GroupOperation, world: World) -> Accepted:
    contents, name = world.contents, operation.ref.name
    before = contents.groups.get(name, NO_GROUP)
    logs = {
        topic: [contents.log(partition) for partition in contents.partitions(topic)]
        for topic in coordinator.topics_of(operation)
        if topic in contents.topics and world.sees(topic)
    }
    after, problem = coordinator.result(before, operation, logs=logs, now_ms=world.now_ms())
    records = coordinator.records(before, after)
    return Accepted(lambda contents: contents.put_group(name, after), records, problem)


def _delete_offsets(operation: DeleteOffsets, world: World) -> Accepted:
    groups, topic = world.contents.groups, operation.ref.name
    after = {
        name: coordinator.forget_topic(name, group, topic) for name, group in groups.items() if group.known
    }
    return Accepted(lambda contents: contents.groups.update(after), 0)


def _alter_quota(operation: AlterQuota, world: World) -> Accepted:
    entity, after = quotas.result(world.contents.quotas, operation)
    return Accepted(lambda contents: put(contents.quotas, entity, after), operation.weight)


def _alter_access(operation: AlterAccess, _: World) -> Accepted:
    def alter(contents: Contents) -> None:
        contents.acls |= {*operation.created}
        contents.acls -= {*operation.deleted}

    return Accepted(alter, operation.weight)


def _alter_credentials(operation: AlterCredentials, world: World) -> Accepted:
    name = operation.ref.name
    after, problem = users.result(world.contents.users.get(name, {}), operation)
    return Accepted(lambda contents: put(contents.users, name, after), operation.weight, problem)


def _alter_configs(operation: AlterConfigs, world: World) -> Accepted:
    is_topic = operation.ref.kind == TopicKind.name
    return (_accept_topic_operation if is_topic else _accept_group_operation)(operation, world)


EFFECTS: dict[type[Operation], Effect] = {
    CreateTopic: Effect(_accept_topic_operation, checked=True),
    AlterConfigs: Effect(_alter_configs, checked=True),
    AddPartitions: Effect(_accept_topic_operation, checked=True),
    AlterConfigsInSync: Effect(_alter_configs, checked=True),
    CommitInitialOffsets: Effect(_accept_group_operation, alone=True),
    ResetOffsets: Effect(_accept_group_operation, alone=True),
    DeleteGroup: Effect(_accept_group_operation, alone=True),
    DeleteOffsets: Effect(_delete_offsets, alone=True),
    DeleteTopic: Effect(_accept_topic_operation),
    AlterQuota: Effect(_alter_quota, checked=True),
    GrantAccess: Effect(_alter_access, checked=True),
    RevokeAccess: Effect(_alter_access, checked=True),
    RemoveDenials: Effect(_alter_access, checked=True),
    SetCredentials: Effect(_alter_credentials, checked=True),
    RemoveCredentials: Effect(_alter_credentials, checked=True),
}
"""The effect of each operation that a request carries out, in the order in which they are sent."""
