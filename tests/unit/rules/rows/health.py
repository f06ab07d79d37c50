"""KF301 to KF315: the health of a cluster, and of what is declared."""

from collections.abc import Mapping
from typing import Any

from kafkaform.core.health import Health, LogDir, Quorum, ThrottleConfigs, Voter
from kafkaform.core.model import Desired, FieldValue, Intent, Observed, ResourceRef
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.transactions import GRACE_MS, OpenTransaction
from kafkaform.core.values import replace
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from spark_validation.arrivals import TopicArrivals
from tests.support.plans.rules import Row, is_quiet, scene, trips, waive_rules
from tests.support.plans.scenes import absent, declare_topic, topic

QUORUM = Quorum(11, (Voter(11, 0), Voter(12, 3, 300), Voter(13, 0, 500)))


def cluster(*partitions: PartitionState, brokers: int = 3, **changes: Any) -> Health:
    sound = Health(1, tuple(Broker(number) for number in range(1, brokers + 1)), partitions, quorum=QUORUM)
    return replace(sound, **changes)


def part(index: int, leader: int | None, *isr: int, name: str = "a", replicas: str = "123") -> PartitionState:
    """Build a partition of topic a on brokers 1, 2 and 3."""
    return PartitionState(name, index, leader, tuple(map(int, replicas)), isr or tuple(map(int, replicas)))


SOUND = cluster(part(0, 1), part(1, 2, replicas="231"), part(2, 3, replicas="312"))


def sick(*partitions: PartitionState, **changes: Any) -> RuleContext:
    return scene(health=cluster(*partitions, **changes))


def sound(**changes: Any) -> RuleContext:
    return scene(health=replace(SOUND, **changes))


def build_quorum(voter: Voter) -> RuleContext:
    return sick(quorum=Quorum(11, (*QUORUM.voters[:2], voter)))


FIVE = (Voter(1, 0), *(Voter(number, 0, 5) for number in range(2, 5)), Voter(5, None))
MOVING = cluster(part(0, 1, 1, 2), reassigning={("a", 0): (3,)})
SEVEN = (*(part(n, 1, 1, 2) for n in range(6)), part(0, 2, 2, 3, name="b"))
LEADERLESS = (part(0, None, 3), part(1, None, 3))
UNDER_MIN = cluster(part(0, 1, 1), part(1, 1, 1, 2), min_insync_replicas={"a": 2})

AVAILABILITY: list[Row] = [
    trips("KF301 no leader", sick(quorum=Quorum(None)), "error"),
    trips("KF301", sick(quorum=None, controller=None), "error"),
    trips("KF301 one of five", sick(quorum=Quorum(1, FIVE)), "error"),
    *(
        trips(f"KF301 {name}", build_quorum(voter), "error")
        for name, voter in (
            ("10s", Voter(13, 0, 10_000)),
            ("2m 5s", Voter(13, 0, 125_400)),
            ("10,000 records", Voter(13, 10_000, 5)),
            ("never", Voter(13, None, None)),
        )
    ),
    *is_quiet("KF301", *map(build_quorum, (Voter(13, 0, 9_999), Voter(13, 9_999, 5), Voter(13, 0, None)))),
    *is_quiet("KF301", sick(quorum=None)),
    trips("KF302 2 of 3", scene(health=cluster(part(0, 1), brokers=2), brokers=3), "error"),
    *is_quiet("KF302", *(scene(health=cluster(part(0, 1), brokers=2), brokers=n) for n in (2, None))),
    trips("KF303 a stopped broker", sick(*SEVEN, brokers=2), "error"),
    trips("KF303 a live broker", sick(part(0, 1, 1, 2)), "error"),
    trips("KF303", scene(health=replace(MOVING, reassigning={("a", 0): (4,)})), "error"),
    trips("KF303", scene(health=replace(MOVING, reassigning=None)), "error"),
    *is_quiet("KF303", scene(health=MOVING), sick(*LEADERLESS, brokers=2)),
    trips("KF304 a stopped broker", sick(*LEADERLESS, part(2, 1, 1, 2, 3), brokers=2), "error"),
    trips("KF304 a live broker", sick(part(0, None, 3)), "error"),
    trips("KF304 none in sync", sick(replace(part(0, None), isr=())), "error"),
    trips("KF305 1 of 2", scene(health=UNDER_MIN), "error"),
    *is_quiet(
        "KF305",
        scene(health=replace(UNDER_MIN, min_insync_replicas={"a": 1})),
        scene(health=replace(UNDER_MIN, min_insync_replicas={})),
        sick(part(0, 1, replicas="1"), min_insync_replicas={"a": 2}),
    ),
]

RETENTION = "config.retention.ms"
EFFECTIVE = {RETENTION: "604800000", "config.min.insync.replicas": "2"}


def build_comparison(
    *desired: Desired, name: str = "a", effective: Mapping[str, FieldValue] = EFFECTIVE, **own: str
) -> RuleContext:
    """Build the context of a live topic with 3 partitions of 3 replicas, and its own configs."""
    configs: dict[str, FieldValue] = {f"config.{key.replace('_', '.')}": value for key, value in own.items()}
    state: dict[str, FieldValue] = {"partitions": 3, "replicationFactor": 3, **configs}
    observed = Observed(topic(name), "id", state, {**effective, **configs})
    return RuleContext(desired, live={topic(name): observed})


def group(
    members: int, partitions: int, lag: int = 0, *, state: str = "Stable", protocol: str = "classic"
) -> Group:
    """Build a live group whose first members have a partition each."""
    shares = [frozenset({("a", n)} if n < partitions else ()) for n in range(members)]
    joined = tuple(
        Member(f"id-{n}", f"client-{n}", instance_id=f"pod-{n}" if n % 2 else None, assignment=share)
        for n, share in enumerate(shares)
    )
    positions = tuple(Position("a", n, 100, 0, 100 + (0 if n else lag)) for n in range(max(partitions, 1)))
    return Group("g", protocol, state, members=joined, positions=positions)


def build_group(live: Group | None, expected: int | None = None, lag: int | None = None) -> RuleContext:
    spec: dict[str, object] = {"members": {"expected": expected}} if expected is not None else {}
    spec |= {"lag": {"maxRecords": lag}} if lag is not None else {}
    wanted = Desired(ResourceRef("ConsumerGroup", "g"), {}, Intent(spec=spec))
    return RuleContext((wanted,), groups={"g": live} if live else {})


def commit(*offsets: tuple[int | None, int | None, int | None]) -> Group:
    """Build a group without members: its committed offset, and the ends of the log, of each partition."""
    return replace(EMPTY, positions=tuple(Position("a", n, *of) for n, of in enumerate(offsets)))


def build_undeclared(live: Group) -> RuleContext:
    return scene(groups={"g": live})


EMPTY = group(0, 0, state="Empty")
FRESH = replace(EMPTY, never_joined=True)
BUSY, BOTH = group(2, 1), frozenset({("a", 0), ("a", 1)})
LAGS = replace(group(2, 2), positions=(Position("a", 0, 100, 0, 100), Position("a", 1, 100, 0, 101)))
SIX_FOR_A_DAY, UNMADE = declare_topic("a", 6, 3, retention_ms="86400000"), (declare_topic("a"), absent("b"))
UNSET = declare_topic("a", 3, 3, retention_ms=None)

DECLARED: list[Row] = [
    trips("KF306 two fields", build_comparison(SIX_FOR_A_DAY), "a warning partitions"),
    trips("KF306 an unset field", build_comparison(UNSET, retention_ms="1000"), f"a warning {RETENTION}"),
    trips("KF306 no such topic", build_comparison(*UNMADE, name="other"), "a warning metadata.name"),
    trips("KF306", build_comparison(waive_rules(declare_topic("a", 6, 3), "KF306")), "a info partitions"),
    *is_quiet(
        "KF306",
        build_comparison(declare_topic("a", 3, 3, retention_ms="0604800000", min_insync_replicas="2")),
        build_comparison(UNSET),
        build_comparison(declare_topic("a", 3, 3, cleanup_policy="compact")),
    ),
    trips("KF307 lag", build_group(group(1, 2, lag=51), lag=50), "g warning lag.maxRecords"),
    trips("KF307 a lag of one", build_group(LAGS, lag=0), "g warning lag.maxRecords"),
    trips("KF307 empty", build_group(EMPTY, expected=2), "g warning members.expected"),
    trips("KF307 no such group", build_group(None, expected=1), "g warning members.expected"),
    trips("KF307 never joined", build_group(FRESH, expected=2), "g info members.expected"),
    trips("KF307 idle members", build_group(group(4, 2)), "g warning members.expected"),
    trips("KF307", build_undeclared(group(4, 2)), "g info"),
    *is_quiet(
        "KF307",
        build_group(group(1, 2, lag=50), lag=50),
        build_group(None, lag=50),
        build_undeclared(group(1, 2, lag=9**9)),
        build_group(EMPTY, expected=0),
        build_undeclared(EMPTY),
        build_group(group(1, 1), expected=6),
        build_group(group(4, 0, state="PreparingRebalance")),
        build_group(group(4, 2, protocol="share")),
        # A member without partitions, beside enough partitions, reads other topics.
        build_group(replace(BUSY, members=(replace(BUSY.members[0], assignment=BOTH), BUSY.members[1]))),
    ),
    trips("KF315 removed before it was read", build_group(commit((2, 7, 9), (7, 7, 9))), "g warning topics"),
    trips("KF315 beyond the end", build_group(commit((10, 7, 9), (12, 7, 9))), "g warning topics"),
    trips("KF315 both", build_group(commit((6, 7, 9), (10, 7, 9))), "g warning topics", "g warning topics"),
    trips("KF315", build_undeclared(commit((6, 7, 9))), "g info"),
    *is_quiet(
        "KF315",
        build_group(commit((7, 7, 9), (9, 7, 9), (None, 7, 9), (6, None, None))),
        build_group(replace(commit((6, 7, 9)), protocol="share")),
    ),
]


def leaders(*counts: int, **more: Any) -> RuleContext:
    placed = [broker for broker, number in enumerate(counts, 1) for _ in range(number)]
    parts = [part(n, broker, replicas=str(broker)) for n, broker in enumerate(placed)]
    return scene(health=cluster(*parts, brokers=len(counts)), **more)


def uneven(topics: int) -> RuleContext:
    arrivals = (TopicArrivals(f"t-{n}", 1, (900, 90, 10), (0, 0, 0), 1.0) for n in range(topics))
    return scene(arrivals=tuple(arrivals))


LEADER, FOLLOWER = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = {"leader.replication.throttled.rate": "300"}
THROTTLES = (
    ThrottleConfigs("topics", "a", {LEADER: "*", FOLLOWER: ""}),
    ThrottleConfigs("topics", "b", {LEADER: "", FOLLOWER: ""}),
    *[ThrottleConfigs("topics", f"c-{number:02}", {FOLLOWER: ""}) for number in range(51)],
    *[ThrottleConfigs("brokers", name, RATES) for name in ("1", "2", "")],
)
FULL, ROOMY = LogDir(2, "/data/b", 1000 << 30, 99 << 30), LogDir(2, "/data/a", 1000 << 30, 100 << 30)

WORK: list[Row] = [
    trips("KF308 14 of 30", leaders(14, 8, 8), "info"),
    trips("KF308", leaders(30, 0, 0), "info"),
    trips("KF308 not preferred", sick(part(0, 2), part(1, 3), part(2, 1)), "info"),
    *is_quiet(
        "KF308",
        leaders(13, 9, 8),
        leaders(14, 8, 8, limits=ProjectLimits(leader_imbalance=40)),
        leaders(3, 0, 0),
        leaders(),
        sick(part(0, 2, replicas="423")),
        sick(part(0, None, 1)),
    ),
    trips("KF309 two topics", sound(reassigning={("b", 0): (4, 5), ("a", 1): (4,), ("a", 0): ()}), "info"),
    trips("KF309 one partition", sound(reassigning={("a", 0): ()}), "info"),
    *is_quiet("KF309", sound(), sound(reassigning=None)),
    trips("KF310 nearly full", sound(log_dirs=(ROOMY, FULL)), "warning"),
    trips("KF310 offline", sound(log_dirs=(LogDir(3, "/data", None),)), "warning"),
    *is_quiet("KF310", sound(), sound(log_dirs=(LogDir(1, "/data", 0, 0),))),
    trips("KF313 all kinds", sound(throttles=THROTTLES), "warning", "info", "info", "info", "info"),
    *is_quiet("KF313", *(sound(throttles=THROTTLES, reassigning=n) for n in ({("b", 0): (4,)}, None))),
    trips("KF312", uneven(1), "info"),
    trips("KF312 6 topics", uneven(6), *("info",) * 6),
]

HANGING = OpenTransaction(("a", 0), 5, 9, 3 * 60_000, 60_000, (4, 1), "tx", coordinated=True)
LOST = replace(HANGING, coordinated=False, transactional_id=None, age_ms=20 * 60_000)
SEVERAL = [replace(HANGING, partition=("a", number), start=number) for number in range(100)]


def open_for(age_ms: int) -> RuleContext:
    return sound(transactions=(replace(HANGING, age_ms=age_ms),))


TRANSACTIONS: list[Row] = [
    trips("KF311 hanging", sound(transactions=(HANGING,)), "error"),
    trips("KF311 100 partitions", sound(transactions=(*SEVERAL, replace(HANGING, age_ms=0))), "error"),
    trips("KF311 no coordinator", sound(transactions=(LOST,)), "error"),
    trips("KF311 unread", sound(transactions=(replace(LOST, producer=None, unknown="denied"),)), "error"),
    trips("KF311", sound(transactions=(HANGING, replace(HANGING, producer=(5, 0)))), "error", "error"),
    trips("KF311", open_for(60_000 + GRACE_MS), "error"),
    *is_quiet("KF311", *map(open_for, (0, 60_000, 60_000 + GRACE_MS - 1))),
]

ROWS: list[Row] = [
    *AVAILABILITY,
    *DECLARED,
    *WORK,
    *TRANSACTIONS,
    *(
        row
        for number in range(1, 14)
        for row in is_quiet(
            f"KF3{number:02}",
            scene(brokers=3, health=SOUND),
            scene(brokers=3, health=Health(1, SOUND.brokers)),
            scene(brokers=3),
        )
    ),
]
