"""A cluster in memory that answers as real brokers do: for tests, of kafkaform and of whoever uses it.

It passes the contract tests that a real cluster passes. Beyond a real cluster, a test can make it lag,
hide, deny and fail, and can see in `executed` what was carried out.
"""

from __future__ import annotations

import re
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, assert_never

from kafkaform import kafka_configs
from kafkaform.cluster.protocol import none_besides, repeated
from kafkaform.config_values import ConfigType
from kafkaform.errors import ClusterError, PermissionDenied, RequestRejected
from kafkaform.model import (
    CONFIG_PREFIX,
    AddPartitions,
    AlterConfigs,
    Broker,
    CreateTopic,
    DeleteTopic,
    Facts,
    Observation,
    Observed,
    Operation,
    ResourceRef,
)

MAX_RECORDS = 10_000
"""How many records a controller writes for one request."""

_RACKS = (Broker(1, "rack-1"), Broker(2, "rack-2"), Broker(3, "rack-3"))
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_LEGAL_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_INTEGERS = frozenset({ConfigType.SHORT, ConfigType.INT, ConfigType.LONG})


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic: its id, how many replicas each partition has, and its own configs."""

    uid: str
    replicas: tuple[int, ...]
    configs: Mapping[str, str]


@dataclass(slots=True)
class _Failure:
    error: ClusterError
    ref: ResourceRef | None
    carried_out: bool


class MemoryCluster:
    """A cluster that lives as long as this object.

    Args:
        cluster_id: The id that the cluster gives itself.
        brokers: Its brokers; there are no more replicas of a partition than these.
        defaults: The brokers' defaults of topic configs where they differ from Kafka's own.

    Attributes:
        executed: Every operation that was carried out, in order.
    """

    def __init__(
        self,
        cluster_id: str = "memory",
        brokers: Sequence[Broker] = _RACKS,
        defaults: Mapping[str, str | None] | None = None,
    ) -> None:
        self.executed: list[Operation] = []
        self._cluster_id = cluster_id
        self._brokers = tuple(brokers)
        self._defaults = {**kafka_configs.cluster_defaults({}), **(defaults or {})}
        self._topics: dict[str, _Topic] = {}
        self._created = 0
        self._hidden: set[ResourceRef] = set()
        self._denied: Callable[[ResourceRef], bool] = none_besides
        self._failures: list[_Failure] = []
        self._lag = 0
        self._stale_topics: dict[str, _Topic] = {}
        self._stale_reads = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what every cluster does -------------------------------------------------------------------

    def facts(self) -> Facts:
        """See `Cluster.facts`."""
        return Facts(self._cluster_id, self._brokers, dict(self._defaults))

    def observe(
        self, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool] = none_besides
    ) -> Observation:
        """See `Cluster.observe`."""
        topics = self._topics
        if self._stale_reads:
            self._stale_reads -= 1
            topics = self._stale_topics
        inventory = frozenset(ResourceRef("Topic", name) for name in topics) - self._hidden
        resources = {
            ref: self._observed(ref, topics[ref.name])
            for ref in sorted(inventory)
            if ref in refs or also(ref)
        }
        return Observation(resources, inventory, {ref: _denial().message for ref in self._hidden & set(refs)})

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.validate`."""
        return self._answer(operations, carry_out=False)

    def execute(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        """See `Cluster.execute`."""
        if not self._stale_reads:
            self._stale_topics = dict(self._topics)
        self._stale_reads = self._lag
        return self._answer(operations, carry_out=True)

    def close(self) -> None:
        """See `Cluster.close`."""

    # --- what only a test can make happen ----------------------------------------------------------

    def lag(self, reads: int) -> None:
        """From now on, so many observations after a change still show what was before it."""
        self._lag = reads

    def hide(self, ref: ResourceRef) -> None:
        """Take all rights on a resource away from this account, which cannot tell any more if it exists."""
        self._hidden.add(ref)

    def deny(self, denied: Callable[[ResourceRef], bool] = lambda _: True) -> None:
        """Take the right to change resources away from this account: all of them, or those it says."""
        self._denied = denied

    def fail_next(
        self, error: ClusterError, ref: ResourceRef | None = None, *, carried_out: bool = False
    ) -> None:
        """Answer the next operation that is to be carried out, on this resource if one is given, with an error.

        Args:
            error: The answer.
            ref: The resource.
            carried_out: Whether it takes place all the same, as it may where the answer is what gets lost.
        """
        self._failures.append(_Failure(error, ref, carried_out))

    def reassign(self, ref: ResourceRef, replicas: Sequence[int]) -> None:
        """Give the partitions of a topic so many replicas each, as a reassignment by somebody else does."""
        self._topics[ref.name] = replace(self._topics[ref.name], replicas=tuple(replicas))

    # --- requests ----------------------------------------------------------------------------------

    def _answer(self, operations: Sequence[Operation], *, carry_out: bool) -> list[ClusterError | None]:
        outcomes: dict[int, ClusterError] = {}
        for sort in (CreateTopic, AlterConfigs, AddPartitions, *((DeleteTopic,) if carry_out else ())):
            request = [o for o in operations if isinstance(o, sort)]
            outcomes.update(self._request(request, carry_out=carry_out))
        return [outcomes.get(id(operation)) for operation in operations]

    def _request(self, request: Sequence[Operation], *, carry_out: bool) -> dict[int, ClusterError]:
        """One request: every operation in it is judged by what was there before it."""
        outcomes: dict[int, ClusterError] = {**repeated(request)}
        accepted: list[tuple[Operation, str, _Topic | None]] = []
        for operation in request:
            if id(operation) in outcomes:
                continue
            try:
                accepted.append((operation, *self._result(operation)))
            except ClusterError as error:
                outcomes[id(operation)] = error
        if sum(_records(self._topics.get(name), after) for _, name, after in accepted) > MAX_RECORDS:
            return {id(operation): _too_large(operation) for operation in request}
        if carry_out:
            for operation, name, after in accepted:
                failure = self._failure(operation)
                if failure is not None:
                    outcomes[id(operation)] = failure.error
                if failure is None or failure.carried_out:
                    self._put(name, after)
                    self.executed.append(operation)
        return outcomes

    def _failure(self, operation: Operation) -> _Failure | None:
        for failure in self._failures:
            if failure.ref in {None, operation.ref}:
                self._failures.remove(failure)
                return failure
        return None

    def _put(self, name: str, topic: _Topic | None) -> None:
        if topic is None:
            del self._topics[name]
        else:
            self._topics[name] = topic

    def _result(self, operation: Operation) -> tuple[str, _Topic | None]:
        """The name of the topic that an operation changes, and what becomes of it."""
        ref = operation.ref
        if ref in self._hidden or self._denied(ref):
            raise _denial()
        match operation:
            case CreateTopic():
                return ref.name, self._created_topic(operation)
            case AlterConfigs():
                _check_name(ref.name)
                topic = self._existing(ref)
                given = {name: _stored(name, value) for name, value in operation.set.items()}
                kept = {n: v for n, v in topic.configs.items() if n not in operation.unset}
                return ref.name, replace(topic, configs={**kept, **given})
            case AddPartitions(total=total):
                topic = self._existing(ref)
                present = len(topic.replicas)
                if total <= present:
                    raise _rejected("INVALID_PARTITIONS", f"{ref.name} has {present} partitions, {total} would be no more")
                return ref.name, replace(topic, replicas=topic.replicas + topic.replicas[:1] * (total - present))
            case DeleteTopic(uid=uid):
                for name, topic in self._topics.items():
                    if topic.uid == uid:
                        return name, None
                raise _rejected("UNKNOWN_TOPIC_ID", "this server does not host this topic id")
            case _:
                assert_never(operation)

    def _created_topic(self, operation: CreateTopic) -> _Topic:
        name, partitions, replicas = operation.ref.name, operation.partitions, operation.replication_factor
        _check_name(name)
        if name in self._topics:
            raise _rejected("TOPIC_ALREADY_EXISTS", f"topic {name!r} already exists")
        for other in self._topics:
            # Metrics cannot tell a dot from an underscore.
            if other.replace(".", "_") == name.replace(".", "_"):
                raise _rejected("TOPIC_EXCEPTION", f"topic {name!r} collides with existing topic: {other}")
        configs = {config: _stored(config, value) for config, value in operation.configs.items()}
        if replicas == 0 or replicas < -1:
            raise _rejected("INVALID_REPLICATION_FACTOR", f"replication factor {replicas} is not above 0")
        if partitions == 0 or partitions < -1:
            raise _rejected("INVALID_PARTITIONS", f"{partitions} partitions are not above 0")
        if replicas > len(self._brokers):
            raise _rejected(
                "INVALID_REPLICATION_FACTOR",
                f"replication factor {replicas} cannot be reached: {len(self._brokers)} brokers are registered",
            )
        self._created += 1
        # The brokers' own defaults of both counts are 1.
        return _Topic(_uid(self._created), (abs(replicas),) * abs(partitions), configs)

    def _existing(self, ref: ResourceRef) -> _Topic:
        if ref.name not in self._topics:
            raise _rejected("UNKNOWN_TOPIC_OR_PART", f"the topic {ref.name!r} does not exist")
        return self._topics[ref.name]

    def _observed(self, ref: ResourceRef, topic: _Topic) -> Observed:
        own = {CONFIG_PREFIX + name: value for name, value in topic.configs.items()}
        inherited = {CONFIG_PREFIX + name: value for name, value in self._defaults.items()}
        fewest, most = min(topic.replicas), max(topic.replicas)
        return Observed(
            ref,
            topic.uid,
            {
                "partitions": len(topic.replicas),
                "replicationFactor": fewest if fewest == most else f"{fewest}-{most}",
                **own,
            },
            {**inherited, **own},
            ref.name in _INTERNAL,
        )


def _check_name(name: str) -> None:
    if not _LEGAL_NAME.fullmatch(name):
        raise _rejected("TOPIC_EXCEPTION", f"topic name is invalid: {name!r}")


def _stored(name: str, text: str) -> str:
    """A config's value as brokers give it back: parsed, but in the order of its list."""
    key = kafka_configs.topic_configs().get(name)
    if key is None:
        raise _rejected("INVALID_CONFIG", f"unknown topic config name: {name}")
    try:
        value = kafka_configs.canonical(key, text)
        if key.type in _INTEGERS:
            int(text)  # brokers read no units
    except ValueError as error:
        raise _rejected("INVALID_CONFIG", f"invalid value {text} for configuration {name}: {error}") from error
    match key.type:
        case ConfigType.LIST:
            return ",".join(dict.fromkeys(element.strip() for element in text.split(",")))
        case ConfigType.DOUBLE:
            return str(float(value))
        case _:
            return value


def _records(before: _Topic | None, after: _Topic | None) -> int:
    """How many records a controller writes to get from one to the other."""
    if after is None:
        return 1
    if before is None:
        return 1 + len(after.replicas) + len(after.configs)
    changed = {name for name, _ in before.configs.items() ^ after.configs.items()}
    return len(after.replicas) - len(before.replicas) + len(changed)


def _too_large(operation: Operation) -> RequestRejected:
    if isinstance(operation, AddPartitions):
        # A real controller fails in its midst, and keeps the partitions up to the limit.
        return _rejected("UNKNOWN", "unknown broker error")
    return _rejected("POLICY_VIOLATION", "unable to perform excessively large batch operation")


def _rejected(code: str, text: str) -> RequestRejected:
    return RequestRejected(f"{text} ({code})", code=code)


def _denial() -> PermissionDenied:
    return PermissionDenied("this account is not authorised: Topic authorization failed.")


def _uid(number: int) -> str:
    """A topic id as Kafka writes it: 16 bytes in 22 characters."""
    return urlsafe_b64encode(uuid.UUID(int=number).bytes).decode().rstrip("=")
