"""Readers and effects of each kind in memory: one table of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.model import CONFIG_PREFIX, Observed
from kafkaform.core.operations import AlterConfigs
from kafkaform.resources.access import AccessKind, observe_access
from kafkaform.resources.access.operations import AlterAccess, GrantAccess, RevokeAccess
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
from tests.support.memory_cluster.coordinator import NO_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.model import ResourceRef, State
    from kafkaform.core.operations import Operation
    from kafkaform.core.secrets import Reference
    from tests.support.memory_cluster.contents import Contents

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class World:
    """The contents that readers and effects may look at.

    Attributes:
        contents: What the cluster holds.
        brokers: The ids of its brokers.
        defaults: By kind, the brokers' defaults of configs.
        now_ms: Tells the time, in milliseconds since 1970.
        number: Counts the topics that were made.
        sees: Whether this account sees a topic.
        declared: The values that resources should have.
    """

    contents: Contents
    brokers: Sequence[int]
    defaults: Mapping[str, Mapping[str, str | None]]
    now_ms: Callable[[], int]
    number: Callable[[], int]
    sees: Callable[[str], bool]
    declared: Mapping[ResourceRef, State] = field(default_factory=dict)


# --- reading ---------------------------------------------------------------------------------------


class MemoryReader(Protocol):
    """Shows the resources of one kind."""

    def names(self, contents: Contents) -> Collection[str]:
        """The names of those that there are."""

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        """Return the resource of a reference."""


class _TopicReader:
    """Shows topics, with where their replicas are."""

    def names(self, contents: Contents) -> Collection[str]:
        """Return the names of the topics."""
        return contents.topics.keys()

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        topic = world.contents.topics[ref.name]
        own, inherited = _prefix_configs(topic.configs), _prefix_configs(world.defaults[ref.kind])
        moves = world.contents.moves.items()
        targets = {p: move.reassignment.target for p, move in moves if p[0] == ref.name}
        replicas = tuple(targets.get((ref.name, n), shown) for n, shown in enumerate(topic.replicas))
        fewest, most = min(map(len, replicas)), max(map(len, replicas))
        counts = {
            "partitions": len(replicas),
            "replicationFactor": fewest if fewest == most else f"{fewest}-{most}",
        }
        return Observed(
            ref,
            topic.uid,
            {**counts, **own},
            {**inherited, **own},
            ref.name in _INTERNAL,
            LiveReplicas(replicas, frozenset(number for _, number in targets)),
        )


class _GroupReader:
    """Shows groups, those that have nothing but configs too."""

    def names(self, contents: Contents) -> Collection[str]:
        """Return the names of the groups."""
        return contents.groups.keys()

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        record = world.contents.groups[ref.name]
        group = coordinator.describe_group(ref.name, record) if record.known else None
        effective = _prefix_configs({**world.defaults[ref.kind], **record.configs})
        return Observed(ref, None, observed_state(group, record.configs), effective, live=group)


class _QuotaReader:
    """Shows quotas, with the limits of defaults that hold where they have none."""

    def names(self, contents: Contents) -> Collection[str]:
        """Return the names of the quotas."""
        return [entity.name for entity in contents.quotas]

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        """Return a quota with its limits."""
        return observe_quota(parse_entity(ref.name), world.contents.quotas)


class _AccessReader:
    """Shows the ACLs of each principal."""

    def names(self, contents: Contents) -> Collection[str]:
        """Return the principals with ACLs."""
        return {acl.principal for acl in contents.acls}

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        """Return a principal with its ACLs."""
        reading = AccessReading(tuple(world.contents.acls), AuthorizerSettings())
        return observe_access(reading)[ref]


class _UserReader:
    """Shows users, with their declared passwords compared."""

    def names(self, contents: Contents) -> Collection[str]:
        """Return the names of the users."""
        return contents.users.keys()

    def observe(self, ref: ResourceRef, world: World) -> Observed:
        """Return a user with its credentials."""
        stored = world.contents.users[ref.name]
        live = {mechanism: credential.iterations for mechanism, credential in stored.items()}

        def log_in(mechanism: str, password: Reference) -> bool | None:
            return users.log_in(stored[mechanism], mechanism, password)

        return observe_user(ref.name, live, world.declared.get(ref, {}), log_in)


READERS: dict[str, MemoryReader] = {
    TopicKind.name: _TopicReader(),
    ConsumerGroupKind.name: _GroupReader(),
    ClientQuotaKind.name: _QuotaReader(),
    UserKind.name: _UserReader(),
    AccessKind.name: _AccessReader(),
}
"""Who shows the resources of each kind."""


def _prefix_configs(configs: Mapping[str, str | None]) -> dict[str, str | None]:
    return {CONFIG_PREFIX + name: value for name, value in configs.items()}


# --- operations ------------------------------------------------------------------------------------


class Accepted(NamedTuple):
    """The effect of an accepted operation on its resource.

    Attributes:
        put: Puts it into the contents.
        records: How many records a controller writes for it.
        problem: What of it is refused, if not all is done.
    """

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


def _create(operation: CreateTopic, world: World) -> Accepted:
    return _accept_topic_operation(operation, world, world.number())


def _change(operation: AlterConfigs | AddPartitions | DeleteTopic, world: World) -> Accepted:
    return _accept_topic_operation(operation, world)


def _accept_topic_operation(operation: controller.TopicOperation, world: World, number: int = 0) -> Accepted:
    topics = world.contents.topics
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
    return Accepted(lambda contents: contents.put_quota(entity, after), operation.weight)


def _alter_access(operation: AlterAccess, _: World) -> Accepted:
    def alter(contents: Contents) -> None:
        contents.acls |= {*operation.created}
        contents.acls -= {*operation.deleted}

    return Accepted(alter, operation.weight)


def _alter_credentials(operation: AlterCredentials, world: World) -> Accepted:
    name = operation.ref.name
    after, problem = users.result(world.contents.users.get(name, {}), operation)
    return Accepted(lambda contents: contents.put_user(name, after), operation.weight, problem)


_CONFIGURED: dict[str, Callable[[AlterConfigs, World], Accepted]] = {
    TopicKind.name: _change,
    ConsumerGroupKind.name: _accept_group_operation,
}
"""What becomes of the configs of each kind."""


def _alter(operation: AlterConfigs, world: World) -> Accepted:
    return _CONFIGURED[operation.ref.kind](operation, world)


EFFECTS: dict[type[Operation], Effect] = {
    CreateTopic: Effect(_create, checked=True),
    AlterConfigs: Effect(_alter, checked=True),
    AddPartitions: Effect(_change, checked=True),
    AlterConfigsInSync: Effect(_alter, checked=True),
    CommitInitialOffsets: Effect(_accept_group_operation, alone=True),
    ResetOffsets: Effect(_accept_group_operation, alone=True),
    DeleteGroup: Effect(_accept_group_operation, alone=True),
    DeleteOffsets: Effect(_delete_offsets, alone=True),
    DeleteTopic: Effect(_change),
    AlterQuota: Effect(_alter_quota, checked=True),
    GrantAccess: Effect(_alter_access, checked=True),
    RevokeAccess: Effect(_alter_access, checked=True),
    SetCredentials: Effect(_alter_credentials, checked=True),
    RemoveCredentials: Effect(_alter_credentials, checked=True),
}
"""The effect of each operation that a request carries out, in the order in which they are sent."""
