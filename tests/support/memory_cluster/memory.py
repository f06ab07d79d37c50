"""A cluster in memory that answers as real brokers do: for tests, of kafkaform and of whoever uses it.

It passes the contract tests that a real cluster passes. Beyond what a real one can be made to do, a test
can make it lag, hide, deny and fail (see `FaultInjection`), and sees in `executed` what was carried out.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Self

from kafkaform.cluster.audit_layout import AUDIT_TOPIC, make_audit_topic_creation
from kafkaform.cluster.protocol import NOTHING_DECLARED, none_besides, refuse_moves, reject_duplicates
from kafkaform.cluster.schema_registry import SchemaRegistry
from kafkaform.cluster.services import Services
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import ClusterError, LockLost
from kafkaform.core.health import Health
from kafkaform.core.lock import Guard, Holder, unguarded
from kafkaform.core.model import (
    CONFIG_PREFIX,
    DataSize,
    Facts,
    FieldValue,
    Observation,
    Observed,
    ResourceRef,
    State,
    merge_observations,
)
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker, LogSpan, TimedOffset, TopicPartition
from kafkaform.core.progress import Progress
from kafkaform.core.transactions import ProducerReading, TransactionReading
from kafkaform.core.values import replace
from kafkaform.resources import KINDS, group_ref, is_topic
from kafkaform.resources.access import AccessKind
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.resources.base import Configured
from kafkaform.resources.groups import GroupReading
from kafkaform.resources.subject import SubjectKind
from kafkaform.resources.topic import TopicKind
from kafkaform.resources.topic.operations import CreateTopic
from kafkaform.resources.user import UserKind
from kafkaform.resources.user.risk import OwnLogin
from tests.support.memory_cluster import controller, coordinator
from tests.support.memory_cluster.contents import Contents, health_of
from tests.support.memory_cluster.faults import denial
from tests.support.memory_cluster.registry import EFFECTS, READERS, Accepted, Effect, World
from tests.support.memory_cluster.replicas import MovingReplicas
from tests.support.schema_registry import MemoryRegistry

_OFFSET_RETENTION_MS = 7 * 24 * 3_600_000  # offsets.retention.minutes of a stock broker
_BROKERS = (Broker(1, "rack-1"), Broker(2, "rack-2"), Broker(3, "rack-3"))


class MemoryCluster(MovingReplicas):
    """A cluster that lives as long as this object.

    Args:
        cluster_id: The id that the cluster gives itself.
        brokers: Its brokers.
        defaults: The brokers' defaults of topic configs where they differ from Kafka's own.
        now_ms: Tells the time, in milliseconds since 1970.

    Attributes:
        executed: Every operation that was carried out, in order.
    """

    def __init__(
        self,
        cluster_id: str = "memory",
        brokers: Sequence[Broker] = _BROKERS,
        defaults: Mapping[str, str | None] | None = None,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        super().__init__(brokers)
        self.executed: list[Operation] = []
        self.offset_retention_ms = _OFFSET_RETENTION_MS
        self.authorizer_settings = AuthorizerSettings(frozenset({"User:root"}), False, "User:root")
        self.own_login = OwnLogin()
        self.registry = MemoryRegistry()
        self._services = Services(
            {SubjectKind.name: lambda: SchemaRegistry(self.registry.handle, "http://memory")}
        )
        self._audit: list[str] = []
        self._cluster_id = cluster_id
        self._defaults = {kind.name: dict(kind.find_defaults({})) for kind in KINDS.having(Configured)}
        self._defaults[TopicKind.name].update(defaults or {})
        self._now_ms = now_ms
        self._made = 1  # Kafka keeps the first two ids for itself

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing, as nothing is open."""

    # --- reading -----------------------------------------------------------------------------------

    def facts(self) -> Facts:
        defaults = {kind: dict(of_kind) for kind, of_kind in self._defaults.items()}
        return Facts(self._cluster_id, self._alive, defaults, offset_retention_ms=self.offset_retention_ms)

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
        declared: Mapping[ResourceRef, State] = NOTHING_DECLARED,
    ) -> Observation:
        world = replace(self._world(self._read_contents()), declared=declared)
        wanted = {ref: declared.get(ref, {}) for ref in refs}
        served = self._services.observe(wanted, also, kinds)
        asked = {*kinds, *(ref.kind for ref in refs)} - {*self._services.kinds}
        there = {ResourceRef(kind, name) for kind in asked for name in READERS[kind].names(world.contents)}
        inventory = frozenset(there - self._hidden)
        resources = {
            ref: READERS[ref.kind].observe(ref, world)
            for ref in sorted(inventory)
            if ref in refs or also(ref)
        }
        invisible = {ref: denial(ref).message for ref in self._hidden & self._services.exclude(wanted).keys()}
        parts = {AccessKind.name: AccessFacts(self.access()), UserKind.name: self.own_login}
        known = tuple(part for kind, part in parts.items() if kind in asked)
        return merge_observations([Observation(resources, inventory, invisible, parts=known), served])

    def observe_fields(self, fields: Mapping[ResourceRef, State]) -> Observation:
        seen = self.observe(fields, declared=fields)
        resources = {ref: _narrow_observed(value, fields[ref]) for ref, value in seen.resources.items()}
        return replace(seen, resources=resources)

    def find_value(self, ref: ResourceRef, kept: FieldValue) -> FieldValue:
        return self._services.find_value(ref, kept)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        return {
            resource.ref: self._data_size(resource.ref) for resource in resources if is_topic(resource.ref)
        }

    def _data_size(self, ref: ResourceRef) -> DataSize:
        stopped = {*self._contents.stopped}
        states = self._contents.states(ref.name) if ref.name in self._contents.topics else ()
        lost = [state for state in states if stopped.issuperset(state.replicas)]
        if not lost:
            return DataSize(self._sizes.get(ref, 0), len(states))
        silent = {broker for state in lost for broker in state.replicas}
        known = sum(self._size((ref.name, state.partition)) for state in states if state not in lost)
        return DataSize(known, len(states), len(lost), tuple(sorted(silent)))

    def partition_sizes(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {
            p: self._size(p) for p in partitions if self._sees(p[0]) and p in self._contents.partitions(p[0])
        }

    def groups(self, names: Collection[str] | None = None) -> GroupReading:
        hidden = {ref.name: denial(ref).message for ref in self._hidden if ref == group_ref(ref.name)}
        contents = self._contents
        found = {
            name: group
            for name, group in sorted(contents.groups.items())
            if group.known and name not in hidden and (names is None or name in names)
        }
        described = {name: coordinator.describe_group(name, group) for name, group in found.items()}
        spans = contents.spans(
            {(p.topic, p.partition) for item in described.values() for p in item.positions}
        )
        return GroupReading(
            {name: coordinator.describe_group(name, group, spans) for name, group in found.items()},
            {name: why for name, why in hidden.items() if names is not None and name in names},
        )

    def log_spans(
        self, partitions: Collection[TopicPartition], at_ms: int | None = None, *, committed: bool = False
    ) -> Mapping[TopicPartition, LogSpan]:
        seen = [p for p in partitions if self._sees(p[0])]
        return self._contents.spans(seen, at_ms, committed=committed)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, TimedOffset]:
        logs = {p: self._contents.log(p) for p in times if self._sees(p[0])}
        records = {p: log.record_at(times[p]) for p, log in logs.items() if log is not None}
        return {p: record for p, record in records.items() if record is not None}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return {partition: span.end for partition, span in self.log_spans(epochs).items()}

    def open_transactions(self, partitions: Collection[TopicPartition]) -> TransactionReading:
        contents = self._contents
        logs = {p: contents.log(p) for p in sorted(partitions) if self._sees(p[0])}
        return TransactionReading(
            tuple(
                replace(log.transaction, end=log.end)
                for log in logs.values()
                if log is not None and log.transaction is not None and log.transaction.start < log.end
            )
        )

    def transactional(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, bool]:
        logs = {p: self._contents.log(p) for p in partitions if self._sees(p[0])}
        return {p: log.transactional for p, log in logs.items() if log is not None}

    def producers(self, partitions: Collection[TopicPartition]) -> ProducerReading:
        logs = [self._contents.log(p) for p in sorted(partitions) if self._sees(p[0])]
        return ProducerReading(tuple(each for log in logs if log is not None for each in log.producers))

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        counts = {name: len(self._contents.partitions(name)) for name in topics if self._sees(name)}
        return {name: count for name, count in counts.items() if count}

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        known = self._contents.topics
        return {name: known[name].uid for name in topics if name in known and self._sees(name)}

    def access(self) -> AccessReading:
        return AccessReading(tuple(sorted(self._contents.acls, key=str)), self.authorizer_settings)

    def health(self) -> Health:
        contents = self._contents
        topics = {name: topic for name, topic in sorted(contents.topics.items()) if self._sees(name)}
        least_in_sync = self._defaults[TopicKind.name]["min.insync.replicas"]
        least = {
            name: int(topic.configs.get("min.insync.replicas") or least_in_sync or 1)
            for name, topic in topics.items()
        }
        partitions = tuple(state for name in topics for state in contents.states(name))
        moving = {p: tuple(sorted(move.reassignment.adding)) for p, move in contents.moves.items()}
        return health_of(self._cluster_id, partitions, self._alive, least, moving)

    def _world(self, contents: Contents) -> World:
        brokers = [broker.id for broker in self._brokers]
        return World(contents, brokers, self._defaults, self._now_ms, self._number, self._sees)

    def _number(self) -> int:
        self._made += 1
        return self._made

    # --- requests ----------------------------------------------------------------------------------

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        checked = {sort: effect for sort, effect in EFFECTS.items() if effect.checked}
        return self._services.validate(
            operations, lambda own: self._answer(own, checked, unguarded, carry_out=False)
        )

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        refuse_moves(operations)
        self._lag_behind(self._contents.copy())
        return self._services.execute(
            operations, guard, lambda own: self._answer(own, EFFECTS, guard, carry_out=True)
        )

    def lock(self, holder: Holder, *, timeout_s: float, tell: Progress) -> AbstractContextManager[Guard]:
        return self._lock.hold(holder, timeout_s=timeout_s, tell=tell)

    def append_audit(self, lines: Sequence[str]) -> None:
        self._see_audit()
        if self._denied(AUDIT_TOPIC):
            raise denial(AUDIT_TOPIC)
        topics, brokers = self._contents.topics, [broker.id for broker in self._brokers]
        if AUDIT_TOPIC.name not in topics:
            wanted = make_audit_topic_creation(len(brokers))
            assert isinstance(wanted, CreateTopic)
            made = controller.result(topics, wanted, brokers=brokers, number=self._number())
            self._contents.put_topic(*made)
        self._audit.extend(lines)

    def read_audit(self) -> Sequence[str]:
        self._see_audit()
        return tuple(self._audit) if AUDIT_TOPIC.name in self._contents.topics else ()

    def _see_audit(self) -> None:
        if AUDIT_TOPIC in self._hidden:
            raise denial(AUDIT_TOPIC)

    def _answer(
        self,
        operations: Sequence[Operation],
        effects: Mapping[type[Operation], Effect],
        guard: Guard,
        *,
        carry_out: bool,
    ) -> list[ClusterError | None]:
        outcomes: dict[int, ClusterError | None] = {}
        try:
            for sort, effect in effects.items():
                every = [o for o in operations if type(o) is sort]
                outcomes.update(reject_duplicates(every))
                fit = [o for o in every if id(o) not in outcomes]
                for request in [[o] for o in fit] if effect.alone else [fit] if fit else []:
                    guard()
                    outcomes.update(self._request(request, effect, carry_out=carry_out))
        except LockLost as lost:
            return [outcomes.get(id(operation), lost) for operation in operations]
        return [outcomes.get(id(operation)) for operation in operations]

    def _request(
        self, request: Sequence[Operation], effect: Effect, *, carry_out: bool
    ) -> dict[int, ClusterError | None]:
        """One request: every operation in it is judged by what was there before it."""
        outcomes: dict[int, ClusterError | None] = dict.fromkeys(map(id, request))
        accepted: list[tuple[Operation, Accepted]] = []
        world = self._world(self._contents)
        for operation in request:
            try:
                if operation.ref in self._hidden or self._denied(operation.ref):
                    raise denial(operation.ref)
                accepted.append((operation, effect.step(operation, world)))
            except ClusterError as error:
                outcomes[id(operation)] = error
        if sum(step.records for _, step in accepted) > controller.MAX_RECORDS:
            return {id(operation): controller.too_large(operation) for operation in request}
        if carry_out:
            for operation, step in accepted:
                failure = self._failure(operation.ref)
                answer = failure.error if failure is not None else step.problem
                if answer is not None:
                    outcomes[id(operation)] = answer
                if failure is None or failure.carried_out:
                    step.put(self._contents)
                    self.executed.append(operation)
        return outcomes


def _narrow_observed(observed: Observed, fields: Collection[str]) -> Observed:
    """A resource without the configs that are not among the fields."""
    state, effective = (
        {
            path: value
            for path, value in values.items()
            if path in fields or not path.startswith(CONFIG_PREFIX)
        }
        for values in (observed.state, observed.effective)
    )
    return replace(observed, state=state, effective=effective)
