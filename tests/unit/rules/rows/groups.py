"""KF201 to KF216: consumer groups."""

from collections.abc import Mapping
from typing import Any

from kafkaform.config.settings import Settings
from kafkaform.core import kafka_configs
from kafkaform.core.model import Desired, Facts, Intent, Observed, ResourceRef
from kafkaform.core.values import replace
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources.groups import PROTOCOLS, Group, Member
from kafkaform.rules import RuleContext
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.rules import Row, group, inventory, is_quiet, scene, trips
from tests.support.plans.scenes import absent, create_topic, declare_topic, topic
from tests.support.plans.scenes import group_ref as ref

HOUR, DAY = 3_600_000, 86_400_000
ORDERS = declare_topic("orders", 12)
BOTH = [ORDERS, declare_topic("returns", 4)]
RANGE = {"group.remote.assignor": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
STRATEGY = "client.partition.assignment.strategy"


def live_group(protocol: str = "classic", members: int = 0, *, instances: bool = False, **more: Any) -> Group:
    joined = tuple(Member(str(n), instance_id=f"i{n}" if instances else None) for n in range(members))
    return Group("g", protocol, more.pop("state", "Stable" if members else "Empty"), members=joined, **more)


def index_live(live: Group | None) -> dict[ResourceRef, Observed]:
    return {ref(): Observed(ref(), None, {}, live=live)}


def members(expected: int | None = None, most: int | None = None, **spec: Any) -> Desired:
    numbers = {"expected": expected, "max": most}
    return group(members={name: number for name, number in numbers.items() if number is not None}, **spec)


def sharing(topics: list[Desired], expected: int, **spec: Any) -> RuleContext:
    return scene(*topics, members(expected, topics=[item.ref.name for item in topics], **spec))


def build_instances(expected: int, instance: str, most: int | None = None) -> RuleContext:
    return scene(members(expected, most, client={"group.instance.id": instance}))


SIX = members(6, 6)
LIVE_ORDERS = {topic("orders"): Observed(topic("orders"), "id", {"partitions": 3})}
SMALL_TOPICS = [declare_topic(f"t{number}", 3) for number in range(4)]

MEMBERS: list[Row] = [
    trips("KF201 14 expected", scene(ORDERS, members(14)), "g warning members.expected"),
    trips("KF201 13 at most", scene(ORDERS, members(12, 13)), "g warning members.max"),
    trips("KF201", scene(ORDERS, members(13, 20)), "g warning members.expected", "g warning members.max"),
    # Partitions of all topics count unless the assignor deals out each topic; Java clients have range.
    trips("KF201 two topics", sharing(BOTH, 14), "g warning members.expected"),
    trips("KF201", sharing(BOTH, 14, protocol="consumer", client=RANGE), "g warning members.expected"),
    trips("KF201 a live topic", scene(members(4), live=LIVE_ORDERS), "g warning members.expected"),
    *is_quiet(
        "KF201",
        scene(ORDERS, members(12, 12)),
        sharing(BOTH, 14, client=COOPERATIVE),
        sharing(BOTH, 14, protocol="consumer"),
        scene(ORDERS, members(99, topics=("orders", "unknown"))),
        scene(absent("orders"), members(99)),
        scene(members(3), live=LIVE_ORDERS),
    ),
    *(
        row
        for code in ("KF201", "KF202")
        for protocol in ("share", "streams")
        for row in is_quiet(code, *(scene(ORDERS, members(n, protocol=protocol)) for n in (5, 99)))
    ),
    trips("KF202 5 of 12", scene(ORDERS, members(5)), "g info members.expected"),
    trips("KF202 3 of 7", scene(declare_topic("orders", 7), members(3)), "g info members.expected"),
    # Range gives the rest of each topic to the same members.
    trips("KF202 four topics", sharing(SMALL_TOPICS, 2), "g info members.expected"),
    *is_quiet("KF202", sharing(SMALL_TOPICS, 2, client=COOPERATIVE)),
    *is_quiet("KF202", *(scene(ORDERS, members(n)) for n in (1, 2, 3, 4, 6, 12, 13))),
    trips("KF205 a fixed size", scene(SIX), "g info members.expected"),
    trips("KF205", scene(SIX, live=index_live(live_group(members=6))), "g info members.expected"),
    trips("KF205 one id", build_instances(6, "worker"), "g warning client.group.instance.id"),
    *is_quiet(
        "KF205",
        scene(SIX, live=index_live(live_group(members=6, instances=True))),
        scene(SIX, groups={"g": live_group(members=6, instances=True)}),
        build_instances(1, "worker"),
    ),
    *is_quiet("KF205", *(scene(members(*n)) for n in ((6,), (None, 6), (6, 7), (1, 1)))),
    *is_quiet("KF205", *(build_instances(6, text, 6) for text in ("worker-{pod}", "<pod>", "%i", "$POD"))),
    *is_quiet("KF205", *(scene(members(6, 6, protocol=protocol)) for protocol in ("share", "streams"))),
]


def slow(each: int, protocol: str = "classic", facts: Facts | None = None, **more: Any) -> RuleContext:
    """Build the context of a group that may take so many milliseconds for a record."""
    return scene(group(protocol=protocol, processing={"maxTimePerRecord": each}, **more), facts=facts)


LOCK = "share.record.lock.duration.ms"


def batch(records: int) -> dict[str, str]:
    return {"max.poll.records": str(records), "max.poll.interval.ms": "300000"}


def build_assigned(strategy: str, protocol: str = "classic") -> RuleContext:
    return scene(group(protocol=protocol, client={"partition.assignment.strategy": strategy}))


def beating(protocol: str, session: int | None, beat: int | None, default: int | None = None) -> RuleContext:
    section, prefix = ("client", "") if protocol == "classic" else ("config", f"{protocol}.")
    names = {f"{prefix}session.timeout.ms": session, f"{prefix}heartbeat.interval.ms": beat}
    spec: dict[str, Any] = {section: {n: str(v) for n, v in names.items() if v is not None}}
    defaults = {"ConsumerGroup": {f"{prefix}session.timeout.ms": str(default)}}
    facts = Facts("c", config_defaults=defaults) if default is not None else None
    return scene(group(protocol=protocol, **spec), facts=facts)


def fetch(partitions: int, expected: int, brokers: int | None = None, wait: int | None = None) -> RuleContext:
    client = {} if wait is None else {"fetch.max.wait.ms": str(wait)}
    return scene(declare_topic("orders", partitions), members(expected, client=client), brokers=brokers)


BEAT = "config.consumer.heartbeat.interval.ms"

TIMES: list[Row] = [
    trips("KF203 a batch", slow(200, client=batch(1500)), "g warning client.max.poll.records"),
    trips("KF203 the default batch", slow(600), "g warning processing.maxTimePerRecord"),
    trips("KF203 streams", slow(300, "streams"), "g warning processing.maxTimePerRecord"),
    trips("KF203 one record", slow(300_000), "g warning processing.maxTimePerRecord"),
    trips("KF203 one record, share", slow(HOUR, "share"), "g warning processing.maxTimePerRecord"),
    # A share group has until its locks end.
    trips("KF203 a lock", slow(60, "share"), "g warning processing.maxTimePerRecord"),
    *is_quiet("KF203", slow(200, client=batch(1499)), slow(599), slow(300)),
    *is_quiet(
        "KF203",
        slow(60, "share", config={LOCK: "30001"}),
        slow(60, "share", Facts("c", config_defaults={"ConsumerGroup": {LOCK: "60000"}})),
    ),
    *(
        trips(f"KF204 {strategy}", build_assigned(strategy), f"g info {STRATEGY}")
        for strategy in (
            *("range", "roundrobin", "range,roundrobin", "roundrobin,com.example.Own"),
            *("cooperative-sticky,range", "org.apache.kafka.clients.consumer.RoundRobinAssignor"),
        )
    ),
    trips("KF204 the default", scene(group()), "g info protocol"),
    *is_quiet("KF204", *map(build_assigned, ("cooperative-sticky", "com.example.Own"))),
    *is_quiet("KF204", *(build_assigned("range", protocol) for protocol in ("consumer", "share", "streams"))),
    *(
        trips(f"KF206 {protocol}", beating(protocol, 8999, 3000), f"g warning {path}session.timeout.ms")
        for protocol in PROTOCOLS
        for path in ("client." if protocol == "classic" else f"config.{protocol}.",)
    ),
    *is_quiet("KF206", *(beating(protocol, 9000, 3000) for protocol in PROTOCOLS)),
    # The default of the other setting counts.
    trips("KF206", beating("classic", None, 15_001), "g warning client.heartbeat.interval.ms"),
    trips("KF206", beating("consumer", None, 15_001), f"g warning {BEAT}"),
    trips("KF206", beating("consumer", None, 10_001, default=30_000), f"g warning {BEAT}"),
    *is_quiet(
        "KF206",
        beating("classic", None, 15_000),
        beating("consumer", None, 15_000),
        beating("consumer", None, 10_000, default=30_000),
        scene(group(protocol="consumer", client={"session.timeout.ms": "1"})),
        scene(group(config={"consumer.session.timeout.ms": "1"})),
    ),
    trips("KF207 6 brokers", fetch(600, 50, 6), "g info members.expected"),
    trips("KF207 2 brokers each", fetch(500, 250, 6), "g info members.expected"),
    trips("KF207 unknown brokers", fetch(500, 250), "g info members.expected"),
    trips("KF207", fetch(600, 50, 5), "g info members.expected"),
    trips("KF207 a shorter wait", fetch(600, 10, 6, 100), "g info client.fetch.max.wait.ms"),
    *is_quiet(
        "KF207", fetch(600, 50, 6, 1000), fetch(600, 49, 5), fetch(60, 1000, 3), fetch(600, 600, 6, 501)
    ),
]


def build_retention(retention: str, policy: str = "delete") -> Mapping[ResourceRef, Observed]:
    effective = {"config.retention.ms": retention, "config.cleanup.policy": policy}
    return {topic("orders"): Observed(topic("orders"), "id", {"partitions": 1}, effective)}


def delivering(delivery: str, protocol: str = "classic", **client: str) -> RuleContext:
    settings = {name.replace("_", "."): value for name, value in client.items()}
    return scene(group(protocol=protocol, guarantees={"delivery": delivery}, client=settings))


TWO_DAYS = declare_topic("orders", retention_ms=str(2 * DAY))
AN_HOUR = build_retention(str(HOUR))
TWO_HOURS_DOWN = group(downtime={"max": 2 * HOUR})
WEEK_DOWN = group(downtime={"max": 8 * DAY})
NINE_DAYS = Facts("c", config_defaults={"Topic": {"retention.ms": str(9 * DAY), "cleanup.policy": "delete"}})
OWN_COMMITS, AUTOMATIC = {"enable_auto_commit": "false"}, {"enable_auto_commit": "true"}
COMMITTED = {"isolation_level": "read_committed"}
DIRTY = {"isolation_level": "read_uncommitted", **OWN_COMMITS}
COMMIT = "client.enable.auto.commit"

GUARANTEES: list[Row] = [
    trips("KF208 downtime", scene(TWO_DAYS, group(downtime={"max": 2 * DAY + 1})), "g warning downtime.max"),
    trips("KF208 lag", scene(TWO_DAYS, group(lag={"maxTime": 3 * DAY})), "g warning lag.maxTime"),
    trips("KF208 Kafka's default", scene(ORDERS, WEEK_DOWN), "g warning downtime.max"),
    trips("KF208 a live topic", scene(TWO_HOURS_DOWN, live=AN_HOUR), "g warning downtime.max"),
    *is_quiet(
        "KF208",
        scene(TWO_DAYS, group(downtime={"max": 2 * DAY}, lag={"maxTime": 2 * DAY})),
        scene(ORDERS, WEEK_DOWN, facts=NINE_DAYS),
        scene(TWO_HOURS_DOWN, live=build_retention(str(2 * HOUR))),
        scene(TWO_HOURS_DOWN, live=build_retention("-1")),
        scene(TWO_HOURS_DOWN, live=build_retention(str(HOUR), "compact")),
        scene(declare_topic("orders", retention_ms="-1"), group(downtime={"max": 99 * DAY})),
        scene(declare_topic("orders", cleanup_policy="compact"), group(downtime={"max": 99 * DAY})),
    ),
    trips("KF209 automatic commits", delivering("at-least-once", **AUTOMATIC), f"g warning {COMMIT}"),
    trips("KF209 at least once", delivering("at-least-once"), "g warning guarantees.delivery"),
    trips("KF209 at most once", delivering("at-most-once"), "g info guarantees.delivery"),
    trips("KF209 exactly once", delivering("exactly-once"), *["g warning guarantees.delivery"] * 2),
    trips("KF209 exactly once, share", delivering("exactly-once", "share"), "g warning guarantees.delivery"),
    trips("KF209 uncommitted reads", delivering("exactly-once", **DIRTY), "g warning client.isolation.level"),
    trips("KF209", delivering("exactly-once", **AUTOMATIC, **COMMITTED), f"g warning {COMMIT}"),
    *is_quiet(
        "KF209",
        delivering("at-least-once", "share"),
        delivering("exactly-once", "streams"),
        delivering("at-most-once", **OWN_COMMITS),
        delivering("at-least-once", **OWN_COMMITS),
        delivering("exactly-once", **COMMITTED, **OWN_COMMITS),
    ),
]


def reading(*names: str, topics: tuple[Desired, ...] = (ORDERS,), **more: Any) -> RuleContext:
    return scene(*topics, group(names), **more)


def plan_start(name: str, *others: Desired) -> RuleContext:
    """Plan a new group with first offsets in a topic that does not exist."""
    spec = {"topics": [name], "protocol": "consumer"}
    desired = (Desired(ref(), {f"offsets.{name}": "earliest"}, Intent(spec=spec)), *others)
    memory = MemoryCluster()
    create_topic(memory, "orders")
    changes = build_plan(Request(desired), memory, Settings(), None).changes
    return RuleContext(desired, live=memory.observe([topic("orders")]).resources, changes=changes)


INVISIBLE = replace(plan_start("nowhere"), invisible=inventory("nowhere"))
ONLINE: dict[str, Any] = {"facts": Facts("c"), "inventory": inventory("oders")}
PART: dict[str, Any] = {"facts": Facts("c"), "inventory": inventory("orders"), "subset": True}

TOPICS: list[Row] = [
    trips("KF210 a misspelling", reading("orders", "oders"), "g warning topics"),
    trips("KF210 no topics", reading("orders", topics=()), "g warning topics"),
    trips("KF210 a live topic", reading("oders", **ONLINE), "g warning topics"),
    trips("KF210 no such topic", reading("ordres", **ONLINE), "g warning topics"),
    trips("KF210 a deletion", reading("orders", topics=(absent("orders"),)), "g warning topics"),
    trips("KF210 a part of the manifests", reading("orders", topics=(), subset=True), "g info topics"),
    trips("KF210", reading("x", topics=(), **PART), "g warning topics"),
    *is_quiet("KF210", reading("orders", topics=(), **PART)),
    trips("KF215 a misspelling", plan_start("order"), "g error topics"),
    trips("KF215 no such topic", plan_start("nowhere"), "g error topics"),
    trips("KF215 a deletion", plan_start("gone", absent("gone")), "g error topics"),
    trips("KF215 an invalid topic", plan_start("a b", declare_topic("a b")), "g error topics"),
    trips("KF215 an invisible topic", INVISIBLE, "g warning topics"),
]


def starting(initial: str, reset: str | None = None, protocol: str = "classic") -> RuleContext:
    client = {} if reset is None else {"auto.offset.reset": reset}
    return scene(group(protocol=protocol, offsets={"initial": initial}, client=client))


def build_conversion(live: Group | None, protocol: str) -> RuleContext:
    return scene(group(protocol=protocol), live=index_live(live))


def build_offered(declared: Desired, *protocols: str) -> RuleContext:
    return scene(declared, facts=Facts("id", group_protocols=frozenset({"classic", *protocols})))


def build_configured(protocol: str, name: str, value: str) -> RuleContext:
    return scene(group(protocol=protocol, config={name: value}))


def declare_session(protocol: str) -> Desired:
    return group(protocol=protocol, config=WITH_SESSION)


RESET = "client.auto.offset.reset"
CLASSIC = (
    *("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms", "auto.offset.reset"),
    "isolation.level",
)
CONVERTED = "g warning protocol"
WITH_SESSION = {"consumer.session.timeout.ms": "50000"}

SETTINGS: list[Row] = [
    *(
        trips(
            f"KF211 {name} of {protocol}, {value}",
            scene(group(protocol=protocol, client={name: value, "max.poll.records": "5"})),
            f"g error client.{name}",
        )
        for protocol, name, value in (
            ("consumer", "partition.assignment.strategy", "range"),
            ("consumer", "partition.assignment.strategy", "cooperative-sticky"),
            ("consumer", "session.timeout.ms", "45000"),
            ("consumer", "heartbeat.interval.ms", "3000"),
            ("classic", "group.remote.assignor", "uniform"),
            ("classic", "share.acknowledgement.mode", "explicit"),
            ("share", "auto.offset.reset", "latest"),
            ("share", "auto.offset.reset", "none"),
            ("share", "isolation.level", "read_committed"),
            ("share", "enable.auto.commit", "false"),
            ("share", "group.instance.id", "a"),
        )
    ),
    *is_quiet(
        "KF211",
        *(scene(group(client={name: "1"})) for name in CLASSIC),
        scene(group(protocol="consumer", client={"group.remote.assignor": "1"})),
    ),
    trips("KF212 earliest, latest", starting("earliest", "latest"), f"g warning {RESET}"),
    trips("KF212 earliest, none", starting("earliest", "none"), f"g warning {RESET}"),
    trips("KF212 latest, none", starting("latest", "none"), f"g warning {RESET}"),
    trips("KF212 latest, earliest", starting("latest", "earliest"), f"g info {RESET}"),
    trips("KF212 earliest, by_duration:P1D", starting("earliest", "by_duration:P1D"), f"g info {RESET}"),
    trips("KF212 6h ago", starting("6h ago"), "g warning offsets.initial"),
    trips("KF212", starting("earliest", "latest", "streams"), f"g warning {RESET}"),
    *is_quiet(
        "KF212",
        starting("earliest", protocol="streams"),
        starting("earliest", "earliest"),
        starting("latest", "latest"),
        starting("latest"),
        starting("6h ago", "earliest"),
        starting("6h ago", "by_duration:PT6H"),
        starting("2026-11-01T00:00:00Z", "earliest"),
    ),
    *(
        trips(f"KF213 {live} to {protocol}", build_conversion(live_group(live, 1), protocol), CONVERTED)
        for live, protocol in (
            *(("classic", protocol) for protocol in ("consumer", "streams", "share")),
            *(("consumer", protocol) for protocol in ("classic", "streams", "share")),
            *(("streams", "classic"), ("streams", "consumer"), ("share", "classic"), ("share", "consumer")),
        )
    ),
    trips("KF213 3 members", build_conversion(live_group("classic", 3), "consumer"), CONVERTED),
    # An empty group counts where it does not give way.
    *(
        trips("KF213", build_conversion(live_group(live), protocol), CONVERTED)
        for live, protocol in (
            *(("consumer", "streams"), ("streams", "consumer"), ("share", "classic"), ("share", "consumer")),
            ("classic", "share"),
        )
    ),
    *is_quiet(
        "KF213",
        scene(group(protocol="consumer")),
        build_conversion(None, "consumer"),
        build_conversion(live_group("classic"), "consumer"),
        build_conversion(live_group("classic", protocol_type="consumer"), "consumer"),
        build_conversion(live_group("classic", state="Dead"), "consumer"),
        build_conversion(live_group("consumer", 2), "consumer"),
        build_conversion(live_group("classic"), "streams"),
        build_conversion(live_group("consumer"), "classic"),
        build_conversion(live_group("streams"), "classic"),
    ),
    # Each protocol has its own configs.
    *is_quiet(
        "KF214",
        *(build_configured(name.partition(".")[0], name, "1") for name in kafka_configs.group_configs()),
        build_configured("classic", "confluent.own", "1"),
    ),
    *(
        trips(
            f"KF214 {name} of {protocol}", build_configured(protocol, name, value), f"g warning config.{name}"
        )
        for protocol, name, value in (
            ("classic", "consumer.session.timeout.ms", "50000"),
            ("share", "consumer.session.timeout.ms", "50000"),
            ("classic", "streams.num.standby.replicas", "1"),
            ("consumer", "share.auto.offset.reset", "latest"),
            ("classic", "share.auto.offset.reset", "latest"),
            ("consumer", "share.isolation.level", "read_committed"),
        )
    ),
    *(
        trips(f"KF216 {own}", build_offered(declare_session(own), *protocols), "g error protocol")
        for own, protocols in (("consumer", ()), ("share", ("consumer",)), ("streams", ("consumer", "share")))
    ),
    trips("KF216 configs", build_offered(group(config=WITH_SESSION)), "g error config"),
    *is_quiet(
        "KF216",
        build_offered(group()),
        *(
            context
            for protocol in ("consumer", "share", "streams")
            for own in (declare_session(protocol),)
            for context in (
                build_offered(own, protocol, "consumer"),
                scene(own),
                scene(own, facts=Facts("id")),  # what they offer is not known
            )
        ),
    ),
]

CODES = [f"KF2{number:02}" for number in range(1, 17)]
TOMBSTONE = replace(members(99, topics=["?"], client=RANGE), state=None)
BARE: list[Row] = [
    *(row for code in CODES if code != "KF204" for row in is_quiet(code, scene(Desired(ref(), {})))),
    *(
        row
        for code in CODES
        for row in is_quiet(code, scene(TOMBSTONE, live=index_live(live_group("share"))))
    ),
    *(
        row
        for code in CODES
        for protocol in PROTOCOLS
        if (code, protocol) != ("KF204", "classic")
        for row in is_quiet(code, scene(Desired(ref(), {}, Intent(spec={"protocol": protocol}))))
    ),
]
"""Groups that declare nothing but a protocol, and one that is to be deleted."""

ROWS = [*MEMBERS, *TIMES, *GUARANTEES, *TOPICS, *SETTINGS, *BARE]
