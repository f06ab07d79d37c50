"""Small clusters, plans for them, and a clock that nobody waits for."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from kafkaform.cluster.protocol import NOTHING_DECLARED, Cluster, none_besides
from kafkaform.config.settings import ClusterSettings, Settings
from kafkaform.core.errors import ClusterError
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import (
    DataSize,
    Desired,
    Facts,
    FieldValue,
    Intent,
    Observation,
    Observed,
    ResourceRef,
    State,
    Status,
    Undeclared,
)
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Replicas, TopicPartition
from kafkaform.core.plans import Plan
from kafkaform.core.progress import Clock
from kafkaform.core.values import replace
from kafkaform.plan.conclusion import conclude_saved
from kafkaform.plan.difference import SavedPlan, diff_saved
from kafkaform.plan.gate import gate
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import PlanningResult, Request, build_plan, judge_saved_plan
from kafkaform.plan.policy import Policy
from kafkaform.plan.risk_assessment import judge
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.clusters.fixtures import eventually

DAY = "86400000"
WEEK = "604800000"
QUIET = dict.fromkeys(("KF104", "KF105", "KF108", "KF111", "KF112"), "off")
"""Rules that the small topics of tests trip, and that those tests are not about."""


def read_log_lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    """The lines of this logger and those below it: threads of earlier tests (librdkafka) may still log."""
    return [record.getMessage() for record in caplog.records if f"{record.name}.".startswith(f"{logger}.")]


def topic(name: str) -> ResourceRef:
    return ResourceRef("Topic", name)


def group_ref(name: str = "g") -> ResourceRef:
    return ResourceRef("ConsumerGroup", name)


group = group_ref


def declare_topic(
    name: str,
    partitions: int = 3,
    replicas: int = 1,
    *,
    allow: Mapping[str, str] | None = None,
    protected: bool = False,
    undeclared: Undeclared = Undeclared.REPORT,
    **configs: str | None,
) -> Desired:
    """A topic as a manifest wants it; configs by Kafka's name with underscores for dots."""
    state: dict[str, FieldValue] = {"partitions": partitions, "replicationFactor": replicas}
    state |= {f"config.{key.replace('_', '.')}": value for key, value in configs.items()}
    intent = Intent(keyed=False, allow=allow or {}, deletion_protection=protected, undeclared=undeclared)
    return Desired(topic(name), state, intent)


def declare_placement(desired: Desired, strategy: str, static: str | None = None) -> Desired:
    """Return a topic whose manifest says how its replicas are placed."""
    state = dict(desired.state or {}) | ({"placement": static} if static else {})
    spec = {"placement": {"strategy": strategy, "replicas": static}}
    return replace(desired, state=state, intent=replace(desired.intent, spec=spec))


def declare_reader(*topics: str, start: str | None = "earliest", **configs: str) -> Desired:
    """Return the consumer group g as a manifest wants it; configs with underscores for dots."""
    state: dict[str, FieldValue] = {
        f"config.{name.replace('_', '.')}": value for name, value in configs.items()
    }
    if start is not None:
        state |= {f"offsets.{name}": start for name in topics}
    return Desired(group_ref(), state, Intent(spec={"topics": list(topics), "protocol": "consumer"}))


def absent(name: str, *, uid: str | None = None, protected: bool = False) -> Desired:
    """A tombstone, with consent to the deletion of the topic of that id; `plan_for` consents to all."""
    allow = {f"delete of {uid}": "TICKET-1"} if uid is not None else {}
    return Desired(topic(name), None, Intent(allow=allow, deletion_protection=protected))


def create_topic(
    cluster: Cluster, name: str, partitions: int = 3, replicas: int = 1, **configs: str
) -> str | None:
    """Create a topic by hand; returns its id."""
    given, ref = {key.replace("_", "."): value for key, value in configs.items()}, topic(name)
    assert cluster.execute([CreateTopic(ref, partitions, replicas, given)]) == [None]
    return eventually(lambda: cluster.observe([ref]).resources, lambda seen: ref in seen)[ref].uid


def state_of(cluster: Cluster, name: str) -> dict[str, FieldValue] | None:
    """A topic's own values without `config.`, or None if there is no such topic."""
    observed = cluster.observe([topic(name)]).resources.get(topic(name))
    return None if observed is None else {p.removeprefix("config."): v for p, v in observed.state.items()}


def plan_for(
    cluster: Cluster,
    *desired: Desired,
    allow: str | None = None,
    prune: str | None = None,
    target: ClusterSettings | None = None,
) -> Plan:
    """The plan of a repository with these manifests."""
    grants = tuple(map(Grant.parse, (allow or "").split()))
    grants += tuple(Grant(str(item.ref), "delete") for item in desired if item.state is None)
    settings = Settings(owns=NameGlobs((prune,) if prune else ()), rules=QUIET)
    return build_plan(Request(desired, prune=prune is not None, allow=grants), cluster, settings, target)


def save_plan(plan: Plan) -> Plan:
    """Return a plan as it is read back from its file."""
    header = PlanHeader("0.1.0", None, None, None, "2025-06-01T12:00:00Z")
    return plan_from_json(plan_to_json(plan, header), "plan.json")[0]


def list_statuses(plan: Plan) -> dict[str, Status]:
    """Return the status of each change, by the name of its resource."""
    return {change.ref.name: change.status for change in plan.changes}


def judge_saved(
    plan: Plan,
    cluster: Cluster,
    *,
    settings: Settings | None = None,
    target: ClusterSettings | None = None,
    intents: Mapping[ResourceRef, Intent] | None = None,
    allow: tuple[Grant, ...] = (),
) -> PlanningResult:
    """A saved plan as it is judged when it is applied."""
    saved = SavedPlan(plan, intents or {})
    return judge_saved_plan(saved, cluster, settings or Settings(), target, allow=allow)


def judge_by(plan: Plan, observation: Observation, facts: Facts, policy: Policy) -> Plan:
    """A saved plan as it is judged by a reading, without rules."""
    proposals = judge(diff_saved(SavedPlan(plan, {}), observation, facts), facts)
    return conclude_saved(plan, gate(proposals, facts, policy), facts)


class FakeClock:
    """Time passes only where somebody sleeps."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.naps: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.time += seconds

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.time, sleep=self.sleep)


@dataclass
class Watched:
    """A cluster that remembers what it was asked, and lets a test step in.

    Attributes:
        requests: The operations of every `execute`.
        checks: The operations of every `validate`.
        readings: The resources of every `observe` and `observe_fields`.
        weighed: The resources of every `sizes`.
        before: Called with the operations before they are carried out.
        after: Called with the operations after they were carried out.
        reading: Called before a reading.
    """

    cluster: Cluster
    requests: list[Sequence[Operation]] = field(default_factory=list)
    checks: list[Sequence[Operation]] = field(default_factory=list)
    readings: list[Collection[ResourceRef]] = field(default_factory=list)
    weighed: list[Collection[Observed]] = field(default_factory=list)
    reassigned: list[Mapping[TopicPartition, Replicas | None]] = field(default_factory=list)
    before: Callable[[Sequence[Operation]], object] | None = None
    after: Callable[[Sequence[Operation]], object] | None = None
    reading: Callable[[], object] | None = None

    facts: ClassVar[Any]
    groups: ClassVar[Any]
    log_spans: ClassVar[Any]
    open_transactions: ClassVar[Any]
    offsets_at: ClassVar[Any]
    epoch_ends: ClassVar[Any]
    topic_ids: ClassVar[Any]
    transactional: ClassVar[Any]
    producers: ClassVar[Any]
    partition_counts: ClassVar[Any]
    health: ClassVar[Any]
    partition_sizes: ClassVar[Any]
    layout: ClassVar[Any]
    replica_sizes: ClassVar[Any]
    log_dirs: ClassVar[Any]
    elect_leaders: ClassVar[Any]
    throttle_configs: ClassVar[Any]
    throttles: ClassVar[Any]
    set_throttles: ClassVar[Any]
    clear_throttles: ClassVar[Any]
    append_audit: ClassVar[Any]
    read_audit: ClassVar[Any]
    lock: ClassVar[Any]
    """These, and whatever else, the cluster itself answers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cluster, name)

    def observe(
        self,
        refs: Collection[ResourceRef],
        also: Callable[[ResourceRef], bool] = none_besides,
        *,
        kinds: Collection[str] = (),
        declared: Mapping[ResourceRef, State] = NOTHING_DECLARED,
    ) -> Observation:
        self.readings.append(refs)
        if self.reading is not None:
            self.reading()
        return self.cluster.observe(refs, also, kinds=kinds, declared=declared)

    def observe_fields(self, fields: Mapping[ResourceRef, State]) -> Observation:
        self.readings.append(fields)
        if self.reading is not None:
            self.reading()
        return self.cluster.observe_fields(fields)

    def sizes(self, resources: Collection[Observed]) -> Mapping[ResourceRef, DataSize]:
        self.weighed.append(resources)
        return self.cluster.sizes(resources)

    def validate(self, operations: Sequence[Operation]) -> list[ClusterError | None]:
        self.checks.append(operations)
        return self.cluster.validate(operations)

    def reassign(
        self, targets: Mapping[TopicPartition, Replicas | None], guard: Guard = unguarded
    ) -> Mapping[TopicPartition, ClusterError | None]:
        self.reassigned.append(targets)
        return self.cluster.reassign(targets, guard)

    def execute(self, operations: Sequence[Operation], guard: Guard = unguarded) -> list[ClusterError | None]:
        self.requests.append(operations)
        if self.before is not None:
            self.before(operations)
        outcomes = self.cluster.execute(operations, guard)
        if self.after is not None:
            self.after(operations)
        return outcomes


VARIED: list[dict[str, str]] = [
    {},
    {"retention.ms": "-1", "retention.bytes": "123"},
    {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0.25"},
    {"compression.type": "zstd", "unclean.leader.election.enable": "true"},
    {"leader.replication.throttled.replicas": "0:1,1:1", "follower.replication.throttled.replicas": "*"},
    {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "1"},
    {"cleanup.policy": ""},
    {
        # One of every type, and every config that a broker without tiered storage takes.
        "cleanup.policy": "compact",
        "compression.gzip.level": "9",
        "compression.lz4.level": "17",
        "compression.type": "snappy",
        "compression.zstd.level": "-131072",
        "delete.retention.ms": "0",
        "file.delete.delay.ms": "1",
        "flush.messages": "1",
        "flush.ms": str(2**63 - 1),
        "follower.replication.throttled.replicas": "",
        "index.interval.bytes": "0",
        "leader.replication.throttled.replicas": "*",
        "local.retention.bytes": "-2",
        "local.retention.ms": "-2",
        "max.compaction.lag.ms": str(2**63 - 1),
        "max.message.bytes": str(2**31 - 1),
        "message.timestamp.after.max.ms": "0",
        "message.timestamp.before.max.ms": "0",
        "message.timestamp.type": "CreateTime",
        "min.cleanable.dirty.ratio": "1.0E-3",
        "min.compaction.lag.ms": "0",
        "min.insync.replicas": "1",
        # A broker that stops does not start again with an empty preallocated log: its zeros are no record.
        "preallocate": "FALSE",
        "retention.bytes": "0",
        "retention.ms": "0",
        "segment.bytes": "1048576",
        "segment.index.bytes": "4",
        "segment.jitter.ms": "0",
        "segment.ms": "1",
        "unclean.leader.election.enable": "False",
    },
]
"""Configs of topics that differ in what they set, for reading them in several ways."""
