"""KF401 to KF409: the changes of a plan."""

from collections.abc import Mapping
from typing import Any

from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    Facts,
    FieldChange,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    Status,
    Update,
)
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.plans import PlannedChange
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.replicas.layout import Layout, Reassignment
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.plans.risk import judge_topic_change
from tests.support.plans.rules import Row, inventory, is_quiet, scene, trips
from tests.support.plans.scenes import declare_topic, group_ref, topic

RISKY = RiskAssessment(Risk.DISRUPTIVE, "partition-increase", "50 % of keys move", "declare keyed: false")
CUT = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "retention.ms is cut")


def build_update(
    name: str, path: str = "partitions", assessment: RiskAssessment = RISKY, status: Status = Status.PLANNED
) -> PlannedChange:
    field = FieldChange(path, 6, 12, 6, 12, assessment)
    return PlannedChange(Update(topic(name), "id", (field,)), status)


def build_delete(ref: ResourceRef, status: Status = Status.PLANNED) -> PlannedChange:
    return PlannedChange(Delete(ref, "id", {}, RiskAssessment(Risk.DESTRUCTIVE, "delete", "gone")), status)


def changing(*changes: PlannedChange) -> RuleContext:
    return scene(declare_topic("a"), changes=changes)


RETENTION = "config.retention.ms"
UNJUDGED = (changing(build_delete(topic("a"))), changing(build_update("a", assessment=RiskAssessment())))
INCREASED = judge_topic_change({"partitions": 6, "cleanup.policy": "delete"}, {"partitions": 12})
COMPACTED = judge_topic_change({"partitions": 6, "cleanup.policy": "compact"}, {"partitions": 12})
SHORTENED = judge_topic_change(
    {"retention.ms": "86400000", "cleanup.policy": "delete"}, {"retention.ms": "3600000"}
)

JUDGEMENTS: list[Row] = [
    trips("KF401 an increase", changing(build_update("a", assessment=INCREASED)), "a info partitions"),
    trips("KF402 an increase", changing(build_update("a", assessment=COMPACTED)), "a info partitions"),
    trips("KF403 a cut", changing(build_update("a", RETENTION, SHORTENED)), f"a info {RETENTION}"),
    *(row for code in ("KF401", "KF402", "KF403") for row in is_quiet(code, *UNJUDGED)),
]


def live(ref: ResourceRef, own: Group | None = None, **state: FieldValue) -> Observed:
    return Observed(ref, "id", observed_state(own, {}) if own else state, live=own)


def build_risky(
    present: int, risky: int, changes: tuple[PlannedChange, ...] = (), **limits: object
) -> RuleContext:
    names = [f"t{number:02}" for number in range(present)]
    context = RuleContext(
        tuple(map(declare_topic, names)),
        live={topic(name): live(topic(name), partitions=6) for name in names},
        changes=(*(build_update(name, RETENTION, CUT) for name in names[:risky]), *changes),
    )
    return replace(context, **limits)


HARMLESS = (
    *(PlannedChange(Create(topic(f"new{n}"), {}, RISKY), Status.PLANNED) for n in range(20)),
    *(build_update(f"t0{n}", assessment=RiskAssessment()) for n in range(5)),
    *(build_update(f"t0{n}", status=Status.REFUSED) for n in range(5, 10)),
    *(build_delete(group_ref(f"g{n}")) for n in range(20)),
)
FOUR_DELETIONS = tuple(build_delete(topic(f"old{n}")) for n in range(4))

RADIUS: list[Row] = [
    trips("KF404 4 of 10", build_risky(10, 4), "error"),
    trips("KF404 all", build_risky(10, 10), "error"),
    # Of a saved plan, all live topics count.
    trips("KF404", build_risky(10, 4, saved=True, inventory=inventory(*"abcdef")), "error"),
    *is_quiet("KF404", build_risky(10, 4, saved=True, inventory=inventory(*"abcdefghij"))),
    trips("KF404 a lower limit", build_risky(10, 2, limits=ProjectLimits(blast_radius=0.1)), "error"),
    trips("KF404", build_risky(10, 0, tuple(map(build_update, ("t00", "t01", "t02", "t03")))), "error"),
    trips("KF404 deletions", build_risky(8, 0, FOUR_DELETIONS), "error"),
    *is_quiet(
        "KF404",
        build_risky(10, 4, limits=ProjectLimits(blast_radius=0.4)),
        build_risky(10, 9, subset=True),
        build_risky(10, 0, HARMLESS),
    ),
    *is_quiet("KF404", *(build_risky(*counts) for counts in ((10, 3), (9, 9), (100, 30)))),
]


def group(name: str, *positions: Position, members: int = 0, protocol: str = "classic") -> Group:
    joined = tuple(Member(f"m{number}") for number in range(members))
    return Group(name, protocol, "Stable" if members else "Empty", members=joined, positions=positions)


def build_increased(*groups: Group) -> RuleContext:
    return build_reading_groups(build_update("a"), *groups)


def build_reading_groups(change: PlannedChange, *groups: Group) -> RuleContext:
    return scene(declare_topic("a"), changes=(change,), groups={item.name: item for item in groups})


def running(*names: str) -> list[Group]:
    return [build_group(name, 0, members=number) for number, name in enumerate(names, 1)]


def build_group(name: str, *partitions: int, of: str = "a", committed: int | None = 5, **more: Any) -> Group:
    return group(name, *(Position(of, number, committed) for number in partitions), **more)


def reader(client: Mapping[str, str] | None = None) -> Desired:
    return Desired(group_ref("g"), {}, Intent(spec={"topics": ["a"], "client": client or {}}))


def build_gaps(own: Group | None, desired: Desired | None = None, partitions: int | None = 3) -> RuleContext:
    """Build the context of a group that reads a topic of three partitions."""
    desired = desired or reader()
    refs = {desired.ref: live(desired.ref, own)}
    if partitions is not None:
        refs[topic("a")] = live(topic("a"), partitions=partitions)
    return RuleContext((desired,), live=refs)


def build_changed_group(before: Group | None, *after: Group) -> RuleContext:
    ref = group_ref("g")
    groups = {group.name: group for group in after}
    return scene(live={ref: live(ref, before)}, groups=groups, changes=(build_delete(ref),))


STOPPED = (build_group("g1", 0), build_group("g2", 0, members=1), build_group("g3", 0, committed=None))
EIGHT = running(*(f"g{number}" for number in range(8)))
ODD = running("g, then (h)", "i")
DELETED, SHORTER = build_delete(topic("a")), build_update("a", RETENTION, CUT)
FROM_EARLIEST = reader({"auto.offset.reset": "earliest"})
UNREAD = (Position("b", 0, 5), Position("a", 0, None))

GROUPS: list[Row] = [
    trips("KF405 running", build_increased(*running("g1", "g2")), "a warning partitions"),
    trips("KF405 one stopped", build_increased(*STOPPED), "a warning partitions", "a warning partitions"),
    trips("KF405 eight", build_increased(*EIGHT), "a warning partitions"),
    trips("KF405 odd names", build_increased(*ODD), "a warning partitions"),
    trips("KF405 a deletion", build_reading_groups(DELETED, build_group("g", 0)), "a warning"),
    trips("KF405 a deletion, running", build_reading_groups(DELETED, *ODD), "a warning"),
    *is_quiet(
        "KF405",
        build_reading_groups(SHORTER, *running("g")),
        build_increased(build_group("without-commits", 0, committed=None)),
        build_increased(build_group("elsewhere", 0, of="b", members=1)),
        build_increased(build_group("shared", 0, members=1, protocol="share")),
    ),
    trips("KF406 running", build_gaps(running("g")[0]), "g warning topics"),
    trips("KF406 earliest", build_gaps(build_group("g", 0), FROM_EARLIEST), "g warning topics"),
    trips("KF406 one left", build_gaps(build_group("g", 0, 1)), "g warning topics"),
    *is_quiet(
        "KF406",
        build_gaps(build_group("g", 0), replace(reader(), state=None)),
        build_gaps(build_group("g", 0, 1, 2)),
        build_gaps(build_group("g", 0, of="b")),
        build_gaps(group("g", *UNREAD, members=1)),
        build_gaps(build_group("g", 0, committed=None, members=1)),
        build_gaps(build_group("g", 0, protocol="share")),
        build_gaps(None),
        build_gaps(build_group("g", 0), partitions=None),
    ),
    trips(
        "KF407 1,002 records",
        build_changed_group(
            group("g", Position("a", 0, 5), Position("a", 1, 7)),
            group("g", Position("a", 0, 5), Position("a", 1, 1_009)),
        ),
        "g warning",
    ),
    *is_quiet(
        "KF407",
        build_changed_group(build_group("g", 0), build_group("g", 0)),
        build_changed_group(build_group("g", 0, members=1), build_group("g", 0, committed=6, members=1)),
        build_changed_group(None, build_group("g", 0)),
        build_changed_group(build_group("g", 0)),
    ),
]

MIN_ISR = "config.min.insync.replicas"


def change_field(path: str, before: FieldValue, after: FieldValue) -> FieldChange:
    return FieldChange(path, before, after, before, after)


def build_acknowledged(
    desired: Desired,
    *fields: FieldChange,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    running: Reassignment | None = None,
    status: Status = Status.PLANNED,
) -> RuleContext:
    states = (PartitionState("a", 0, 1, replicas, isr),)
    brokers = tuple(Broker(number) for number in (1, 2, 3))
    layout = Layout(brokers, {"a": states}, None if running is None else {("a", 0): running})
    facts = Facts("c", config_defaults={"Topic": {}}).add_part(ReplicaFacts(layout=layout))
    changes = (PlannedChange(Update(topic("a"), "id", fields), status),)
    return scene(desired, facts=facts, changes=changes)


TWO_OF_THREE = declare_topic("a", 1, 3, min_insync_replicas="2")
BOTH = declare_topic("a", 1, 2, min_insync_replicas="2")
LOWER = change_field("replicationFactor", 3, 2)
RAISE = change_field(MIN_ISR, "1", "2")
TWO_OF_ONE = declare_topic("a", 1, 1, min_insync_replicas="2")
CUT_TO_1 = change_field("replicationFactor", 3, 1)
FOUR, RAISE_TO_4 = declare_topic("a", 1, 3, min_insync_replicas="4"), change_field(MIN_ISR, "1", "4")
WITHOUT_3 = change_field("placement", "1:2:3", "1:2")
ADDED = (change_field("replicationFactor", 1, 3), change_field("placement", "1", "1:2:3"), RAISE)
JOINED = Reassignment((1, 2, 3), frozenset({2, 3}), frozenset())
ONE_IN_SYNC = build_acknowledged(TWO_OF_THREE, RAISE, isr=(1,))
FROM_UNKNOWN = change_field(MIN_ISR, None, "2")

WRITES: list[Row] = [
    trips("KF409 fewer replicas", build_acknowledged(TWO_OF_ONE, CUT_TO_1), "a error replicationFactor"),
    trips("KF409 a raised minimum", build_acknowledged(FOUR, RAISE_TO_4, isr=(1,)), f"a error {MIN_ISR}"),
    trips("KF409 one in sync", ONE_IN_SYNC, f"a error {MIN_ISR}"),
    trips("KF409", build_acknowledged(BOTH, LOWER, WITHOUT_3, isr=(1, 3)), "a error replicationFactor"),
    trips("KF409", build_acknowledged(TWO_OF_THREE, FROM_UNKNOWN, isr=(1,)), f"a error {MIN_ISR}"),
    *is_quiet(
        "KF409",
        build_acknowledged(TWO_OF_THREE, RAISE, isr=(1, 3)),
        # Replicas that the plan adds count.
        build_acknowledged(TWO_OF_THREE, *ADDED, isr=(1,), replicas=(1,)),
        build_acknowledged(TWO_OF_THREE, *ADDED, isr=(1,), replicas=(1, 2, 3), running=JOINED),
        build_acknowledged(BOTH, LOWER, WITHOUT_3, isr=(1, 2)),
        # Nothing becomes worse by these.
        build_acknowledged(TWO_OF_THREE, change_field("placement", "1:2:3", "1:3:2"), isr=(1,)),
        build_acknowledged(TWO_OF_THREE, RAISE, isr=(1,), status=Status.REFUSED),
        build_acknowledged(TWO_OF_THREE, change_field("config.retention.ms", "1", "2"), isr=(1,)),
        build_acknowledged(TWO_OF_THREE, replace(RAISE, deferred="later"), isr=(1,)),
        build_acknowledged(TWO_OF_THREE, change_field(MIN_ISR, "3", "2"), isr=(1,)),
        build_acknowledged(TWO_OF_ONE, change_field("placement", "1", "2"), isr=(1,), replicas=(1,)),
        # What is not known is not compared.
        replace(ONE_IN_SYNC, desired=()),
        build_acknowledged(declare_topic("a", 1, 1), CUT_TO_1, isr=(1,)),
        replace(ONE_IN_SYNC, facts=None),
        replace(ONE_IN_SYNC, facts=Facts("c").add_part(ReplicaFacts(layout=Layout((), {})))),
        build_acknowledged(declare_topic("a", 1, 1, min_insync_replicas="x"), CUT_TO_1, isr=(1,)),
        build_acknowledged(replace(TWO_OF_ONE, state={MIN_ISR: "2"}), RAISE, isr=(1,)),
    ),
]

ROWS = [*JUDGEMENTS, *RADIUS, *GROUPS, *WRITES]
