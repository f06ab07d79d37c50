"""The reports of one scene each, as a terminal of 80 columns, a pipe, GitHub and programs get them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.entries import AuditRecord, AuditResult
from kafkaform.audit.trail import Trail
from kafkaform.cli.output import RENDERERS, render
from kafkaform.config.manifests.edit_files import EditedFile
from kafkaform.config.manifests.editing import Edit, EditResult
from kafkaform.core.errors import OutcomeUnknown, RequestRejected, Unreachable
from kafkaform.core.health import Health, Quorum
from kafkaform.core.model import (
    Create,
    DataSize,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.plans import (
    AffectedConsumer,
    ChangeOrigin,
    Consent,
    Plan,
    PlannedChange,
    UndeclaredConfig,
)
from kafkaform.core.printable import MAX_LINE_LENGTH
from kafkaform.core.transactions import ProducerState
from kafkaform.core.values import Value, asdict, replace
from kafkaform.inspect.comparison import ComparedResource, Side, compare_sides
from kafkaform.inspect.drift import Adoption, Drift
from kafkaform.inspect.health_check import HealthReport, UncheckedRule
from kafkaform.inspect.importing import Import, ImportedFile
from kafkaform.inspect.resource_status import GroupStatus, ResourceStatus, StatusReport, TopicStatus
from kafkaform.plan.gate import resolve_consents
from kafkaform.plan.placement.rebalancing import Balance, Moves
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.rebalancing import Rebalance
from kafkaform.report.fleet import ClusterReport, FailedCluster
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.resources.succession import GroupProgress, GroupStage, Predecessor, Succession, TopicWriter
from kafkaform.resources.topic.operations import AddPartitions
from spark_validation.arrivals import TopicArrivals
from tests.support.golden import format_json
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story
from tests.support.plans.drift import ELSEWHERE, drift_in
from tests.support.plans.moves import fail, override
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    FakeClock,
    Watched,
    absent,
    create_topic,
    declare_topic,
    plan_for,
    topic,
)

HEADER = PlanHeader(
    "0.1.0",
    "1a2b3c4d5e6f7890",
    "prod",
    "live",
    "2026-11-03T12:00:00Z",
    configuration="ops/kafkaform.yaml",
    servers="kafka-1:9092,kafka-2:9092",
)
RETENTION = "config.retention.ms"


@dataclass
class Scene:
    """The content of a report, options of its renderers, and the formats that are compared."""

    report: str
    content: object
    options: Mapping[str, Any] = field(default_factory=dict)
    formats: tuple[str, ...] = ("text", "markdown", "json")

    def show(self, output_format: str, **more: Any) -> str:
        """Render it as the command line does."""
        rendered = render(self.report, output_format, self.content, **{**self.options, **more})
        return (rendered if isinstance(rendered, str) else rendered.plain).rstrip("\n") + "\n"

    def show_golden(self, output_format: str) -> str:
        """Render it as its golden file has it."""
        text = self.show(output_format, **({"width": 80} if output_format == "text" else {}))
        return format_json(text) if output_format == "json" else text


CUT = RiskAssessment(
    Risk.DESTRUCTIVE,
    "retention-cut",
    "records older than 1d are deleted permanently (the topic holds 4.0 GiB)",
    "copy the topic first",
    figure="4.0 GiB",
)
FEWER = RiskAssessment(
    Risk.IMPOSSIBLE,
    "partition-decrease",
    "Kafka cannot remove partitions",
    "create a new topic and move to it",
)
LOST = RiskAssessment(Risk.DESTRUCTIVE, "delete", "all records are lost (the topic holds no data)")


def build_planned(
    change: Create | Update | Delete, status: Status = Status.PLANNED, line: int = 7, **more: Any
) -> PlannedChange:
    return PlannedChange(change, status, Location(f"topics/{change.ref.name}.yaml", line), **more)


def create(name: str, **configs: FieldValue) -> Create:
    fields = {f"config.{key.replace('_', '.')}": value for key, value in configs.items()}
    return Create(topic(name), {"partitions": 12, "replicationFactor": 3, **fields})


def update(name: str, *fields: FieldChange) -> Update:
    return Update(topic(name), "id", fields)


def retention(before: FieldValue, after: FieldValue, assessment: RiskAssessment = CUT) -> FieldChange:
    return FieldChange(RETENTION, before, after, before, after, assessment)


LONGER = retention(DAY, WEEK, RiskAssessment())
SHORTER = retention(WEEK, DAY)
WARNING = Diagnostic(
    "KF105",
    Severity.WARNING,
    "min.insync.replicas is 1: one broker that fails may lose acknowledged records",
    Location("topics/orders.yaml", 9, 5),
    "set `min.insync.replicas: 2`",
    ref=topic("orders"),
)


def plan_findings() -> tuple[Diagnostic, ...]:
    place = Location("topics/other.yaml", 3, 5)
    return (
        WARNING,
        Diagnostic(
            "KF109",
            Severity.ERROR,
            "replicationFactor is 4, the cluster has 3 brokers",
            place,
            ref=topic("x"),
        ),
        *(
            Diagnostic(
                "KF111", Severity.WARNING, f"t{n} never rolls", place, "set segment.ms", ref=topic(f"t{n}")
            )
            for n in range(12)
        ),
        *(
            Diagnostic("KF104", Severity.WARNING, f"broker {n} has no rack", suggestion="set `broker.rack`")
            for n in range(6)
        ),
        Diagnostic("KF110", Severity.WARNING, "is large", place, None, "TICKET-7", ref=topic("orders")),
        Diagnostic("KF411", Severity.INFO, "cannot read the configs of broker 3"),
        Diagnostic("KF414", Severity.INFO, "no broker validates moves of replicas"),
    )


def everything_planned() -> Plan:
    """One change of each status and risk, and each list beside them."""
    later = FieldChange("replicationFactor", 2, 3, 2, 3, deferred="moving replicas takes an apply of its own")
    refused = FieldChange("partitions", 12, 6, 12, 6, FEWER)
    plan = Plan(
        "Y2x",
        (
            build_planned(create("orders", retention_ms=WEEK, cleanup_policy="compact"), team="shop"),
            build_planned(update("grown", FieldChange("partitions", 3, 6, 3, 6), later), line=9),
            build_planned(update("cut", SHORTER), Status.NEEDS_CONSENT),
            build_planned(Delete(topic("gone"), "id", {"partitions": 6}, LOST)),
            build_planned(
                update("fewer", refused, LONGER), Status.REFUSED, reason=FEWER.reason, remedy=FEWER.remedy
            ),
            build_planned(update("foreign", LONGER), origin=ChangeOrigin.DRIFT),
            build_planned(
                update("both", LONGER, FieldChange("partitions", 3, 6, 3, 6)),
                origin=ChangeOrigin.MIXED,
                earlier=(RETENTION,),
            ),
            build_planned(create("mine"), origin=ChangeOrigin.BRANCH),
        ),
        unchanged=39,
        unmanaged=tuple(topic(f"m{n:03}") for n in range(12)),
        undeclared=tuple(UndeclaredConfig(topic(f"u{n:03}"), "config.segment.ms", DAY) for n in range(30)),
        unknown=(topic("hidden"), topic("hidden.too")),
        consents=(Consent("Topic/gone", "delete", "TICKET-1"),),
        diagnostics=plan_findings(),
        readers=(AffectedConsumer(ResourceRef("ConsumerGroup", "billing"), ("orders",), "finance"),),
    )
    return resolve_consents(plan)


def plan_scenes() -> dict[str, Scene]:
    names = [f"orders-{n:02}" for n in range(20)]
    equal = [build_planned(update(name, SHORTER), Status.NEEDS_CONSENT) for name in names]
    similar = [
        build_planned(update(f"s{n}", FieldChange("partitions", n, 2 * n, n, 2 * n))) for n in range(1, 9)
    ]
    few = [build_planned(create(name, retention_ms=WEEK)) for name in "abc"]
    place = Location("kafkaform.yaml", 15)
    events = [
        replace(change, location=place, layer="profile/events")
        for change in (
            *(build_planned(update(name, SHORTER), Status.NEEDS_CONSENT) for name in ("clicks", "views")),
            *(
                build_planned(update(f"p{n}", retention(f"{n}", WEEK, RiskAssessment())))
                for n in range(1000, 1003)
            ),
        )
    ]
    many = [build_planned(create(f"c{n:04}")) for n in range(900)]
    many += [build_planned(update(f"u{n:04}", LONGER)) for n in range(300)]
    many += [build_planned(Delete(topic(f"d{n}"), "id", {"partitions": n}, LOST)) for n in range(1, 60)]
    plans = {
        "none": Plan("Y2x", unchanged=40, broker_validated=True),
        "safe": Plan("Y2x", (build_planned(create("orders", retention_ms=WEEK)),), broker_validated=True),
        "all": everything_planned(),
        "equal": resolve_consents(Plan("Y2x", (*equal, *similar, *few, *events))),
        "many": resolve_consents(Plan("Y2x", tuple(many))),
    }
    scenes = {f"plan_{name}": Scene("plan", plan, {"header": HEADER}) for name, plan in plans.items()}
    return {
        **scenes,
        "plan_equal": replace(scenes["plan_equal"], formats=("text", "markdown")),
        "plan_many": Scene("plan", plans["many"], {"header": HEADER, "limit": 8_000}, ("markdown",)),
    }


def drift_scene() -> Drift:
    memory = MemoryCluster()
    place = Location("topics/orders.yaml", 9)
    create_topic(memory, "cut", retention_ms=WEEK)
    create_topic(memory, "extra", segment_ms=DAY)
    create_topic(memory, "longer", retention_ms=DAY, segment_ms=DAY)
    gone = create_topic(memory, "gone")
    create_topic(memory, "mine")
    create_topic(memory, "shrunk", 6)
    story = Story()
    story.add("update", "cut", {RETENTION: (None, DAY)})
    story.add("update", "longer", {RETENTION: (None, WEEK)})
    desired = [
        declare_topic("cut", retention_ms=DAY),
        declare_topic("extra"),
        absent("gone", uid=gone),
        declare_topic("longer", retention_ms=WEEK),
        declare_topic("missing"),
        declare_topic("shrunk"),
    ]
    drift = drift_in(memory, *(replace(d, location=place) for d in desired), trail=Trail(story.entries))
    return replace(
        drift, plan=replace(drift.plan, unknown=(topic("hidden"),), diagnostics=plan_findings()[:2])
    )


def drift_scenes() -> dict[str, Scene]:
    memory = MemoryCluster()
    create_topic(memory, "a")
    drifts = {"none": drift_in(memory, declare_topic("a")), "all": drift_scene()}
    options = {"header": HEADER, "context": ELSEWHERE}
    return {f"drift_{name}": Scene("drift", drift, options) for name, drift in drifts.items()}


def health_scenes() -> dict[str, Scene]:
    partitions = (
        PartitionState("a", 0, 1, (1, 2), (1, 2)),
        PartitionState("a", 1, 1, (1, 2), (1,)),
        PartitionState("b", 0, None, (2,), (2,)),
    )
    health = Health(
        1, (Broker(1),), partitions, {"a": 2}, Quorum(11), reassigning={("a", 0): (3,)}, cluster_id="id-1"
    )
    lag = Diagnostic("KF307", Severity.WARNING, "g lags", Location("g.yaml", 7, 3), "start a member")
    sick = HealthReport(
        health,
        (
            Diagnostic(
                "KF303", Severity.ERROR, "1 partition has no leader: b-0", suggestion="start broker 2"
            ),
            *(
                replace(lag, message=f"g{n} lags", ref=ResourceRef("ConsumerGroup", f"g{n}"))
                for n in range(9)
            ),
            replace(lag, severity=Severity.INFO, waived="on holiday"),
        ),
        (
            UncheckedRule("KF301", "the controller quorum: CLUSTER_AUTHORIZATION_FAILED", matters=True),
            UncheckedRule(
                "KF312",
                "the arrivals of records: too few were written in the last hour to say anything",
                matters=False,
            ),
        ),
        {"g": Group("g", "classic", "Empty", positions=(Position("a", 0, 5, 0, 12),))},
    )
    well = HealthReport(replace(health, partitions=partitions[:1]))
    return {
        name: Scene("doctor", report, {"name": "prod"})
        for name, report in (("doctor_well", well), ("doctor_sick", sick))
    }


def side(name: str, wanted: Mapping[str, Mapping[str, FieldValue]], **live: ComparedResource) -> Side:
    return Side(
        name,
        {topic(each): resource for each, resource in live.items()},
        {topic("hidden"): "no right to see it"} if name == "prod" else {},
        {topic(each): state for each, state in wanted.items()},
    )


def comparison_scenes() -> dict[str, Scene]:
    def state(partitions: int, **configs: FieldValue) -> dict[str, FieldValue]:
        return {"partitions": partitions} | {f"config.{k.replace('_', '.')}": v for k, v in configs.items()}

    small = ComparedResource(state(3, retention_ms=DAY), {"config.segment.ms": WEEK})
    large = ComparedResource(state(12), {RETENTION: WEEK, "config.segment.ms": DAY})
    different = compare_sides(
        side("dev", {"t": state(3, retention_ms=DAY)}, t=small, u=small, same=small),
        side("prod", {"t": state(12), "u": state(3)}, t=large, same=small),
    )
    same = compare_sides(Side("dev", {topic("t"): small}), Side("prod", {topic("t"): small}))
    return {"compare": Scene("compare", different), "compare_same": Scene("compare", same)}


def status_scenes() -> dict[str, Scene]:
    state: dict[str, FieldValue] = {"partitions": 12, "replicationFactor": 3}
    effective = {"config.cleanup.policy": "delete", RETENTION: WEEK}
    long = "checkout.orders.of.a.shop.with.a.very.long.name.v1"
    topics = (
        TopicStatus("orders.v1", Observed(topic("orders.v1"), "id", state, effective), True, "checkout",
                    DataSize(1395864371, 6), ("billing", "shop", "x", "y", "z"),
                    arrivals=TopicArrivals("orders.v1", 3_600_000, (900, 100), (9_000, 1_000), 0.5)),
        TopicStatus(long, Observed(topic(long), "id", state, effective), False, "", DataSize(5, 6, 2)),
        TopicStatus("planned", None, True),
    )  # fmt: skip
    members = (
        Member("id-1", "app-1", "/10.0.0.1", None, frozenset({("orders.v1", 0), ("orders.v1", 2)})),
        Member("id-2", "app-2", "/10.0.0.2", "pod-2", frozenset({("orders.v1", 1)})),
        Member("id-3", "app-3", "/10.0.0.3"),
    )
    positions = (
        Position("orders.v1", 0, 100, 0, 1100),
        Position("orders.v1", 1, 5, 0, 5),
        Position("orders.v1", 2, None, 0, 70),
    )
    shop = Group(
        "shop", "consumer", "Stable", assignor="uniform", coordinator=2, members=members, positions=positions
    )
    groups = (
        GroupStatus("shop", shop, declared=True, team="checkout", expected=4),
        GroupStatus("gone", None, declared=True, expected=2),
        GroupStatus("hidden", None, denied="not authorized"),
    )
    quota = ResourceRef("ClientQuota", "user=alice")
    remaining: tuple[ResourceStatus, ...] = (
        ResourceStatus(quota, Observed(quota, None, {"config.producer_byte_rate": "1048576"}), True, "shop"),
    )
    remaining += (ResourceStatus(ResourceRef("ClientQuota", "user=ada"), None, True),)
    empty = GroupStatus("g", Group("g", "classic", "Empty"))
    lagging = StatusReport(groups=(groups[0], empty)).only_lagging()
    report = StatusReport(topics, groups, ("sizes of broker 3",), ("a note",), hidden=3, others=remaining)
    return {
        "status": Scene("status", report, {"globs": ("shop",)}),
        "status_none": Scene("status", StatusReport(without_lag=2)),
        "status_empty": Scene("status", StatusReport(hidden=2)),
        "status_lagging": Scene("status", lagging, formats=("text",)),
        "status_group": Scene("status", StatusReport(groups=(empty,)), {"globs": ("g",)}),
    }


def arrivals_scenes() -> dict[str, Scene]:
    hour = 3_600_000
    topics = [
        TopicArrivals("hot", hour, (900, 100, 0), (9_000, 1_000, 70), 0.5, emptied=(2,), transactional=True),
        TopicArrivals("even", None, (500, 500), (500, 500), None, since_made=True),
        TopicArrivals("down", None, (), (5, None), unknown="partition 1 has no leader"),
    ]
    return {"arrivals": Scene("arrivals", topics, {"earlier": {"hot": 1.04}})}


def balance_scenes() -> dict[str, Scene]:
    rebalance = Rebalance(
        Plan("Y2x"),
        (Broker(1, "r1"), Broker(2), Broker(13, "r2")),
        (),
        Balance({1: 1200, 2: 900, 13: 0}, {1: 500, 2: 400, 13: 0}, 7),
        Balance({1: 700, 2: 700, 13: 700}, {1: 300, 2: 300, 13: 300}),
        Moves(700, 5 * 1024**3, 300),
    )
    return {"balance": Scene("balance", rebalance)}


def apply_scenes() -> dict[str, Scene]:
    """An apply in which each sort of thing happens once or twice."""
    memory = MemoryCluster()
    for name in ("changed", "cut", "doomed", "fewer", "half", "moved", "late"):
        create_topic(memory, name, retention_ms=WEEK)
    desired = [
        declare_topic("changed", 6, 3, retention_ms="1209600000"),
        declare_topic("cut", retention_ms=DAY, cleanup_policy="compact"),
        absent("doomed"),
        declare_topic("failed"),
        declare_topic("fewer", 1),
        declare_topic("half", 6, retention_ms=None, segment_ms=DAY, allow={"retention-cut": "meant"}),
        declare_topic("moved", 6, retention_ms=WEEK),
        declare_topic("late", 6, retention_ms=WEEK),
        declare_topic("new", 12),
        declare_topic("same"),
    ]
    blind = override(memory, layout=fail(Unreachable("no answer")))  # no replicas are moved then
    plan = plan_for(blind, *(replace(d, location=Location("topics/x.yaml", 7)) for d in desired))
    create_topic(memory, "same")
    memory.execute([AddPartitions(topic("moved"), 3, 4)])
    refusal = RequestRejected(
        "not enough brokers (POLICY_VIOLATION)", code="POLICY_VIOLATION", hint="ask the owners"
    )
    memory.fail_next(refusal, topic("failed"))
    memory.fail_next(OutcomeUnknown("no answer in time"), topic("half"), carried_out=True)
    stop = Event()

    def after(_: object) -> None:
        if len(watched.requests) == 2:
            stop.set()

    watched = Watched(memory, after=after)
    return {"apply": Scene("apply", apply(plan, watched, ApplyOptions(stop=stop, clock=FakeClock().clock)))}


def history_scenes() -> dict[str, Scene]:
    story = Story()
    story.add("create", "new", {"partitions": (None, 3), RETENTION: (None, WEEK)})
    story.add("update", "orders", {RETENTION: (WEEK, DAY), "config.segment.ms": (None, "3600000")})
    story.add("delete", "old", {"partitions": (1, None)})
    story.add(
        "update", "half", {RETENTION: (WEEK, DAY), "partitions": (1, 2)}, result="failed", done=["partitions"]
    )
    for name in ("a", "b", "c"):
        story.add("update", name, {f"config.k{n}": (None, "1") for n in range(4)})
    story.add("update", "open", {RETENTION: (WEEK, DAY)}, result=None)
    first = story.entries[0]
    url = "https://ci.example/42"
    entries = [
        replace(entry, id=f"run0.{n}", run="run0", at=first.at, url=url, environment="prod")
        for n, entry in enumerate(story.entries, 1)
    ]
    entries[1] = replace(entries[1], consents=(("retention-cut", "legal hold ended"),))
    entries[3] = replace(
        entries[3], outcome=AuditResult("failed", first.at, "too many open files", frozenset({"partitions"}))
    )
    options = {"earlier": 1_204, "log": AuditRecord(tuple(entries), ("line 3 is damaged",))}
    return {
        "history": Scene("history", entries, {**options, "verbose": False}),
        "history_verbose": Scene("history", entries, {**options, "verbose": True}, ("text",)),
        "history_none": Scene("history", [], {"earlier": 0, "log": AuditRecord((), ())}),
    }


def succession_scenes() -> dict[str, Scene]:
    at_ms = 1_762_171_200_000
    producers = (
        ProducerState(("orders", 0), 1007, 0, at_ms, 41),
        ProducerState(("orders", 1), 2000, 3, at_ms - 60_000, 7, "billing-tx", 2),
    )
    obstacle = "orders received records in the last 5m, in partitions 0 and 1, from producer 1007, epoch 0"
    groups = (
        GroupProgress("billing", GroupStage.READING, 4_500, 12.5, "reads the 4,500 records left"),
        GroupProgress("shop", GroupStage.MOVED),
        GroupProgress("hidden", GroupStage.STOPPED, 3, None, "start its members on orders"),
    )
    writers = (
        TopicWriter("User:alice", "Write on topic orders", Location("access/alice.yaml", 9, 5)),
        TopicWriter("User:etl", "All on topics that start with ord"),
    )
    log = Predecessor("orders", "orders.v2", obstacle=obstacle, recent=obstacle, producers=producers)
    kept = Predecessor("clicks", "clicks.v2", recent="it has records of the last 7d")
    successions = [
        Succession("orders.v2", "orders", log, groups, "broker 3 did not answer", writers=writers),
        Succession("clicks.v2", "clicks", kept, unread_writers="not authorized", closed=True),
        Succession("gone.v2", "gone", None),
    ]
    return {"succession": Scene("succession", successions), "succession_none": Scene("succession", [])}


def edit_scenes() -> dict[str, Scene]:
    before = "spec:\n  partitions: 3\n  retention: 7d\n"
    files = (EditedFile(Path("topics/orders.yaml"), before, before.replace("7d", "1d")),)
    edit = Edit(topic("orders"), RETENTION, DAY)
    refused = ((Edit(topic("other"), "partitions", 6), "the manifest takes it from a default"),)
    wanted = Adoption((edit, refused[0][0]), ((topic("gone"), "it does not exist"),))
    quota = ResourceRef("ClientQuota", "user=alice")
    imported = Import(
        (
            ImportedFile(Path("live/topics.yaml"), "", tuple(topic(f"t{n}") for n in range(8))),
            ImportedFile(Path("live/quotas.yaml"), "", (quota,)),
        ),
        ignored=(topic("__kafkaform_lock"), ResourceRef("ConsumerGroup", "__kafkaform_lock")),
        ignored_by_default=True,
        support=(Path("schemas/manifest.schema.json"), Path(".gitignore")),
        internal=(topic("__consumer_offsets"),),
        declared={topic("orders"): Location("topics/orders.yaml", 1)},
        idle=(ResourceRef("ConsumerGroup", "idle"),),
        unread={topic("secret"): "no right to see its configs"},
    )
    return {
        "edits": Scene("edits", files),
        "adoption": Scene("adoption", wanted, {"editing": EditResult(files, refused), "written": True}),
        "adoption_none": Scene("adoption", Adoption(), {"editing": EditResult((), ()), "written": False}),
        "import": Scene("import", imported, {"folder": Path("live"), "dry_run": True}),
    }


def fleet_scenes() -> dict[str, Scene]:
    def member(
        cluster: str, report: str, content: object, output_format: str, **options: Any
    ) -> ClusterReport:
        return ClusterReport(
            cluster, "live", content, partial(render, report, output_format, content, **options)
        )

    failed = FailedCluster("down", "test", "no answer from kafka:9092", "start it", ("a.yaml:1: bad",))
    plans, healths, status = plan_scenes(), health_scenes(), status_scenes()
    scenes = {}
    for output_format in RENDERERS["fleet"]:
        scenes[f"fleet_plan.{output_format}"] = [
            *(
                member(n, "plan", plans[f"plan_{n}"].content, output_format, header=HEADER)
                for n in ("safe", "none")
            ),
            failed,
        ]
    scenes["fleet_doctor.text"] = [
        *(member(n, "doctor", healths[f"doctor_{n}"].content, "text", name=n) for n in ("well", "sick")),
        failed,
    ]
    scenes["fleet_status.text"] = [member("prod", "status", status["status_lagging"].content, "text"), failed]
    return {
        name: Scene("fleet", members, {"command": name.split(".")[0].removeprefix("fleet_")})
        for name, members in scenes.items()
    }


ENDINGS = {"json": "json", "markdown": "md"}
WIDER_TABLES = ("arrivals", "status")
"""Reports with columns and names that do not fit into 80 characters; others are only wrapped otherwise."""


def list_words(text: str) -> list[str]:
    """Return the words of a report, sorted, without the marks that layouts put between them."""
    return sorted(filter(None, (word.strip(":·") for word in text.split())))


EACH_REPORT = (
    *(plan_scenes, drift_scenes, health_scenes, comparison_scenes, status_scenes, arrivals_scenes),
    *(balance_scenes, history_scenes, edit_scenes, apply_scenes, succession_scenes),
)


@pytest.mark.parametrize("scenes", EACH_REPORT)
def test_reports_match_golden(golden: SnapshotAssertion, scenes: Callable[[], Mapping[str, Scene]]) -> None:
    for name, scene in scenes().items():
        for output_format, ending in ENDINGS.items():
            if output_format in RENDERERS[scene.report] and output_format in scene.formats:
                assert scene.show_golden(output_format) == golden(name=f"{name}.{ending}")
        if "text" in scene.formats:
            text, wide = (scene.show("text", width=width) for width in (80, None))
            assert text == golden(name=f"{name}.txt")
            if name in WIDER_TABLES:
                assert wide == golden(name=f"{name}.wide.txt")
            else:
                assert list_words(wide) == list_words(text)
                assert wide.count("\n") <= text.count("\n")


def test_fleet_reports_match_golden(golden: SnapshotAssertion) -> None:
    for name, scene in fleet_scenes().items():
        stem, output_format = name.split(".")
        ending = ENDINGS.get(output_format, "txt")
        assert scene.show_golden(output_format) == golden(name=f"{stem}.{ending}")


def lengthen(content: Any, names: Mapping[str, str]) -> Any:
    """Return a content in which names are longer, wherever it holds them."""
    if isinstance(content, str) and not isinstance(content, Enum):
        for name, longer in names.items():
            content = content.replace(name, longer)
        return content
    if isinstance(content, Value):
        return replace(content, **{name: lengthen(part, names) for name, part in asdict(content).items()})
    if is_dataclass(content) and not isinstance(content, type):
        changed = {f.name: lengthen(getattr(content, f.name), names) for f in fields(content) if f.init}
        return replace(content, **changed)
    if isinstance(content, tuple) and hasattr(content, "_fields"):
        return type(content)(*(lengthen(part, names) for part in content))
    if isinstance(content, (tuple, list, frozenset, set)):
        return type(content)(lengthen(part, names) for part in content)
    if isinstance(content, Mapping):
        return {lengthen(key, names): lengthen(value, names) for key, value in content.items()}
    return content


@pytest.mark.parametrize("tail", ["x" * 9_000, " x" * 4_500], ids=["one word", "many words"])
@pytest.mark.parametrize(
    "scenes", [*(scenes for scenes in EACH_REPORT if scenes is not balance_scenes), fleet_scenes]
)
def test_long_foreign_text_is_truncated(scenes: Callable[[], Mapping[str, Scene]], tail: str) -> None:
    """A name, host, value or reason of 9,000 characters takes no page, in any report for people."""
    names = {
        name: name + tail for name in ("orders", "changed", "billing", "alice", "hot", "hidden", "holiday")
    }
    lengthened = [replace(scene, content=lengthen(scene.content, names)) for scene in scenes().values()]
    assert any(tail[:90] in repr(scene.content) for scene in lengthened)
    for scene in lengthened:
        for output_format in {"text", "markdown"} & {*RENDERERS[scene.report]} & {*scene.formats}:
            for width in (80, None):
                shown = " ".join(scene.show(output_format, width=width).split())
                assert max(map(len, re.findall(r"(?: ?x)+", shown)), default=0) <= MAX_LINE_LENGTH
