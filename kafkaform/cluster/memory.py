"""A cluster in memory that answers as real brokers do: for tests, of kafkaform and of whoever uses it.

It passes the contract tests that a real cluster passes. Beyond what a real one can be made to do, a test
can make it lag, hide, deny and fail, and sees in `executed` what was carried out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from kafkaform import kafka_configs
from kafkaform.cluster import controller
from kafkaform.cluster.protocol import none_besides, repeated
from kafkaform.errors import ClusterError, PermissionDenied
from kafkaform.model import (
    CONFIG_PREFIX,
    Broker,
    Facts,
    Observation,
    Observed,
    ResourceRef,
)
from kafkaform.operations import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.controller import Topic
    from kafkaform.groups import GroupReading, LogSpan, TopicPartition
    from kafkaform.health import Health

_BROKERS = (Broker(1, "rack-1"), Broker(2, "rack-2"), Broker(3, "rack-3"))
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


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
        brokers: Sequence[Broker] = _BROKERS,
        defaults: Mapping[str, str | None] | None = None,
    ) -> None:
        self.executed: list[Operation] = []
        self._cluster_id = cluster_id
        self._brokers = tuple(brokers)
        self._defaults = {**kafka_configs.cluster_defaults({}), **(defaults or {})}
        self._topics: dict[str, Topic] = {}
        self._ids = 1  # Kafka keeps the first two for itself
        self._hidden: set[ResourceRef] = set()
        self._denied: Callable[[ResourceRef], bool] = none_besides
        self._failures: list[_Failure] = []
        self._sizes: dict[ResourceRef, int] = {}
        self._lag = 0
        self._stale_topics: dict[str, Topic] = {}
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
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),  # noqa: ARG002
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

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, int]:
        """See `Cluster.sizes`."""
        return {topic.ref: self._sizes.get(topic.ref, 0) for topic in resources}

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        """See `Cluster.groups`."""
        raise NotImplementedError(names)

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None
    ) -> Mapping[TopicPartition, LogSpan]:
        """See `Cluster.log_spans`."""
        raise NotImplementedError(partitions, at_ms)

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `Cluster.partition_counts`."""
        raise NotImplementedError(topics)

    def health(self) -> Health:
        """See `Cluster.health`."""
        raise NotImplementedError

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
        """Answer the next operation that is to be carried out (on this resource, if given) with an error.

        Args:
            error: The answer.
            ref: The resource.
            carried_out: Whether it takes place all the same, as it may where the answer is what gets lost.
        """
        self._failures.append(_Failure(error, ref, carried_out))

    def fill(self, ref: ResourceRef, size: int) -> None:
        """Let a topic hold so many bytes."""
        self._sizes[ref] = size

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
        accepted: list[tuple[Operation, str, Topic | None]] = []
        for operation in request:
            if id(operation) in outcomes:
                continue
            try:
                accepted.append((operation, *self._result(operation)))
            except ClusterError as error:
                outcomes[id(operation)] = error
        if sum(controller.records(self._topics.get(n), t) for _, n, t in accepted) > controller.MAX_RECORDS:
            return {id(operation): controller.too_large(operation) for operation in request}
        if carry_out:
            for operation, name, topic in accepted:
                failure = self._failure(operation.ref)
                if failure is not None:
                    outcomes[id(operation)] = failure.error
                if failure is None or failure.carried_out:
                    self._put(name, topic)
                    self.executed.append(operation)
        return outcomes

    def _result(self, operation: Operation) -> tuple[str, Topic | None]:
        if operation.ref in self._hidden or self._denied(operation.ref):
            raise _denial()
        self._ids += isinstance(operation, CreateTopic)
        uid = controller.topic_id(self._ids)
        return controller.result(self._topics, operation, brokers=len(self._brokers), uid=uid)

    def _failure(self, ref: ResourceRef) -> _Failure | None:
        for failure in self._failures:
            if failure.ref in {None, ref}:
                self._failures.remove(failure)
                return failure
        return None

    def _put(self, name: str, topic: Topic | None) -> None:
        if topic is None:
            del self._topics[name]
        else:
            self._topics[name] = topic

    def _observed(self, ref: ResourceRef, topic: Topic) -> Observed:
        own = {CONFIG_PREFIX + name: value for name, value in topic.configs.items()}
        inherited = {CONFIG_PREFIX + name: value for name, value in self._defaults.items()}
        fewest, most = min(topic.replicas), max(topic.replicas)
        counts = {
            "partitions": len(topic.replicas),
            "replicationFactor": fewest if fewest == most else f"{fewest}-{most}",
        }
        return Observed(ref, topic.uid, {**counts, **own}, {**inherited, **own}, ref.name in _INTERNAL)


def _denial() -> PermissionDenied:
    return PermissionDenied("this account is not authorised: Topic authorization failed.")
