"""KF101 to KF117: names, partitions, replicas, retention and configs of topics."""

from dataclasses import replace as replace_context
from typing import Any

from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.loader import VERBATIM
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core import kafka_configs
from kafkaform.core.model import Desired, Facts, Location, ResourceRef, Undeclared
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.topic_partitions import EVEN_COUNTS
from tests.support.plans.rules import (
    Row,
    build_observed,
    declare_configs,
    facts,
    group,
    inventory,
    is_quiet,
    living,
    scene,
    trips,
    waive_rules,
)
from tests.support.plans.scenes import DAY, WEEK, absent, declare_topic

DAY_MS = int(DAY)
LONG_MAX = str(2**63 - 1)
THREE_DAYS = ProjectLimits(recovery_window_ms=3 * DAY_MS)
PATTERN = ProjectLimits(topic_name=r"[a-z]+(\.[a-z]+)*\.v[0-9]+")
EMPTY_FACTS = Facts("c", config_defaults={"Topic": {}})
DELETED = (declare_topic("a.b"), absent("a_b"))
DOTTED, UNDERSCORED = (waive_rules(declare_topic(name), "KF102") for name in ("a.b", "a_b"))


def build_names(*names: str, live: tuple[str, ...] = (), **more: Any) -> RuleContext:
    return scene(*map(declare_topic, names), inventory=inventory(*live), **more)


NAMES: list[Row] = [
    trips("KF101 a space", build_names("a b"), "a b error metadata.name"),
    *(
        trips("KF101", build_names(name), f"{name} error metadata.name".lstrip())
        for name in ("", ".", "a/b", "a\n", "x" * 250)
    ),
    trips("KF101 5,000 letters", build_names("x" * 5000), f"{'x' * 5000} error metadata.name"),
    trips("KF101", scene(waive_rules(declare_topic("a b"), "KF101")), "a b error metadata.name"),
    *is_quiet("KF101", *map(build_names, ("a", "...", "orders.v1", "A_b-9", "x" * 249))),
    trips(
        "KF102 both declared",
        build_names("a.b", "a_b", "a-b"),
        "a.b error metadata.name",
        "a_b error metadata.name",
    ),
    trips("KF102 one exists", build_names("a.b.c", live=("a_b.c", "other")), "a.b.c error metadata.name"),
    trips("KF102 one is deleted", scene(*DELETED, inventory=inventory("a_b")), "a.b error metadata.name"),
    trips(
        "KF102 both exist",
        build_names("a.b", live=("a.b", "a_b"), facts=Facts("c")),
        "a.b warning metadata.name",
    ),
    *(
        trips(
            "KF102",
            scene(DOTTED, UNDERSCORED, facts=known, inventory=inventory(*live)),
            f"a.b {severity} metadata.name",
            f"a_b {severity} metadata.name",
        )
        # Waived if both exist; offline, it is not known that they do not.
        for known, live, severity in (
            (Facts("c"), (), "error"),
            (Facts("c"), ("a.b",), "error"),
            (Facts("c"), ("a.b", "a_b"), "info"),
            (None, (), "info"),
        )
    ),
    *is_quiet(
        "KF102",
        scene(declare_topic("a.b"), inventory=frozenset({ResourceRef("ConsumerGroup", "a_b")})),
        build_names("a.b", live=("a.b",)),
        scene(*DELETED),
    ),
    trips("KF103 Orders", build_names("Orders", limits=PATTERN), "Orders warning metadata.name"),
    *(
        trips("KF103", build_names(name, limits=PATTERN), f"{name} warning metadata.name")
        for name in ("orders.v1-old", "x-orders.v1", "orders.v1\n")
    ),
    *is_quiet(
        "KF103",
        build_names("orders.v1", "a.b.v12", limits=PATTERN),
        scene(absent("Orders"), limits=PATTERN),
        build_names("Orders"),
    ),
]


def build_partitions(
    count: int, brokers: int | None = None, live: int | None = None, facts: Facts | None = None
) -> RuleContext:
    resources = living(build_observed("a", live)) if live is not None else {}
    return scene(declare_topic("a", count), brokers=brokers, live=resources, facts=facts)


def build_limited(*desired: Desired, partitions: int = 100, subset: bool = False) -> RuleContext:
    return scene(*desired, limits=ProjectLimits(partitions=partitions), subset=subset)


DEFAULTED = replace(
    declare_topic("a", 6),
    locations=FieldLocations(
        read_documents(b"spec: {partitions: 6}", "a.yaml", lambda _: None, verbatim=VERBATIM)[0], {}
    ),
)
DEFAULTS = {("Topic", "partitions"): Location("kafkaform.yaml", 4, 5)}
TOPICS = tuple(declare_topic(f"a{number}") for number in range(3001))
FOUR = (declare_topic("c", 20), declare_topic("b", 60), declare_topic("a", 20), declare_topic("d", 1))
LARGE = (declare_topic("a", 1500), declare_topic("b"))
SIXTY = (declare_topic("a", 60), declare_topic("b", 60))
MANY = (declare_topic("a", 60_000), declare_topic("b", 40_000))

PARTITIONS: list[Row] = [
    trips("KF104 10", build_partitions(10), "a info partitions"),
    # Offline, the topic may exist, and a decrease is not possible.
    trips("KF104 25", build_partitions(25), "a info partitions"),
    *is_quiet("KF104", *map(build_partitions, EVEN_COUNTS)),
    *is_quiet("KF104", *map(build_partitions, (1, 4, 128, 361))),
    trips("KF105 11 on 3 brokers", build_partitions(11, brokers=3), "a info partitions"),
    *(
        trips(f"KF105 {live} live", build_partitions(10, 3, live, facts=Facts("c")), "a info partitions")
        for live in (None, 9, 10)
    ),
    trips("KF105", build_partitions(4, brokers=3), "a info partitions"),
    trips("KF105", build_partitions(29, brokers=3), "a info partitions"),
    # Fewer than brokers, and ten leaders or more on each broker.
    *is_quiet("KF105", *(build_partitions(count, brokers=3) for count in (2, 3, 12, 31))),
    *is_quiet("KF105", *(build_partitions(7, brokers=brokers) for brokers in (1, 0, None))),
    trips("KF106 the project's limit", build_limited(*FOUR), "warning"),
    trips("KF106 the default", scene(*MANY, declare_topic("c", 1)), "warning"),
    trips("KF106 one topic", build_limited(*LARGE, partitions=1499), "a warning partitions"),
    trips("KF106", build_limited(*LARGE, partitions=1499, subset=True), "a warning partitions"),
    *is_quiet("KF106", *(build_limited(*SIXTY, partitions=n, subset=True) for n in (100, 60))),
    trips(
        "KF107 one group",
        scene(declare_topic("a", 1), group(["a"], members={"expected": 2, "max": 6})),
        "a warning partitions",
    ),
    trips(
        "KF107 two groups of three",
        scene(
            declare_topic("a", 1),
            group(["b", "a", "a"], members={"expected": 2}),
            group(["a"], name="h", members={"expected": 4}),
            group(["a"], name="i", members={"expected": 1}),
        ),
        "a warning partitions",
        "a warning partitions",
    ),
    *is_quiet(
        "KF107",
        scene(declare_topic("a", 2), group(["a"], members={"expected": 6})),
        scene(absent("a"), group(["a"], members={"expected": 6})),
        *(
            scene(declare_topic("a", 1), reader)
            for reader in (
                group(["a"], members={"expected": 1, "max": 1}),
                group(["a"]),
                group(["other"], members={"expected": 6}),
                group(["a"], "share", members={"expected": 6}),
                replace(group(["a"], members={"expected": 6}), state=None),
                replace(group(["a"]), intent=replace(group(["a"]).intent, spec={})),
            )
        ),
    ),
    trips("KF114 3,001", scene(*TOPICS), "warning"),
    *is_quiet(
        "KF114",
        scene(*TOPICS[1:]),
        scene(*TOPICS, limits=ProjectLimits(topics=3001)),
        scene(*TOPICS, subset=True),
        scene(*TOPICS[1:], absent("gone"), group()),
    ),
    trips("KF116 20,000", scene(declare_topic("a", 20_000, 3)), "a warning partitions"),
    trips("KF116 on 3 brokers", scene(declare_topic("a", 20_000, 3), brokers=3), "a warning partitions"),
    *is_quiet("KF116", scene(declare_topic("a", 1_000, 3))),
    trips("KF117 partitions", scene(DEFAULTED, defaults=DEFAULTS), "info kafkaform.yaml"),
]


def build_replicas(
    replicas: int, brokers: int | None = None, environment: str | None = None, live: int | str | None = None
) -> RuleContext:
    resources = living(build_observed("a", 3, live)) if live is not None else {}
    return scene(declare_topic("a", 3, replicas), brokers=brokers, environment=environment, live=resources)


def build_min_isr(value: str | None, live: str | None = None, **defaults: str) -> RuleContext:
    """Build the context of a topic of 3 replicas, by its own min.insync.replicas and the one it has."""
    desired = (
        declare_topic("a", 3, 3) if value is None else declare_topic("a", 3, 3, min_insync_replicas=value)
    )
    resources = living(build_observed("a", min_insync_replicas=live)) if live is not None else {}
    return scene(desired, facts=facts(**defaults) if defaults else None, live=resources)


def build_undeclared(undeclared: Undeclared) -> RuleContext:
    return scene(
        declare_topic("a", 3, 3, undeclared=undeclared),
        facts=facts(min_insync_replicas="2"),
        live=living(build_observed("a", inherited="2", min_insync_replicas="4")),
    )


FOUR_IN_SYNC = living(build_observed("a", min_insync_replicas="4"))
MIN_ISR = "config.min.insync.replicas"
UNCLEAN = "config.unclean.leader.election.enable"
DIRTY = declare_topic("a", 3, 3, unclean_leader_election_enable="true")
ONE_DIRTY = declare_topic("a", 3, 1, unclean_leader_election_enable="true")
THREE = declare_topic("a", 3, 3)
DIRTY_BY_DEFAULT = facts(unclean_leader_election_enable="true")

REPLICAS: list[Row] = [
    *(
        trips(f"KF108 one, of {n} brokers", build_replicas(1, n, "prod"), "a warning replicationFactor")
        for n in (None, 1, 3)
    ),
    *is_quiet(
        "KF108", *(build_replicas(1, 3, name) for name in ("dev", "development", "local", "test", "Dev"))
    ),
    # Without an environment, a second broker shows that it is not development.
    *(trips("KF108", build_replicas(1, brokers), "a warning replicationFactor") for brokers in (2, 3)),
    *is_quiet("KF108", *(build_replicas(1, brokers) for brokers in (None, 0, 1))),
    *(trips(f"KF108 {n}", build_replicas(n), "a info replicationFactor") for n in (2, 4)),
    *is_quiet("KF108", *(build_replicas(n, m, "prod") for n, m in ((3, 3), (3, None), (5, 9), (2, 2)))),
    trips("KF108 4 of 3", build_replicas(4, 3, "prod"), "a error replicationFactor"),
    trips("KF108 3 of 1", build_replicas(3, 1), "a error replicationFactor"),
    # A broker that is down does not make a live topic impossible.
    *is_quiet("KF108", build_replicas(3, 2, live=3)),
    trips("KF108", build_replicas(3, 2, live="2-3"), "a error replicationFactor"),
    *is_quiet("KF108", scene(absent("a"), environment="prod", brokers=3)),
    *(trips(f"KF109 {n} of 3", build_min_isr(n), f"a warning {MIN_ISR}") for n in ("1", "3")),
    trips("KF109 4 of 3", build_min_isr("4"), f"a error {MIN_ISR}"),
    trips("KF109 3 of 3 brokers", replace_context(build_min_isr("3"), brokers=3), f"a warning {MIN_ISR}"),
    trips("KF109 the default", build_min_isr(None, min_insync_replicas="1"), f"a warning {MIN_ISR}"),
    trips("KF109 the live value", build_min_isr(None, live="4"), f"a warning {MIN_ISR}"),
    *is_quiet("KF109", scene(declare_topic("a", 3, 5, min_insync_replicas="4")), build_min_isr("2")),
    # An own value that is removed leaves a default that is not known.
    *is_quiet(
        "KF109",
        scene(declare_topic("a", 3, 3, min_insync_replicas=None), live=FOUR_IN_SYNC),
        scene(absent("a"), facts=facts(min_insync_replicas="2")),
        build_undeclared(Undeclared.RESET),
    ),
    trips("KF109", build_undeclared(Undeclared.KEEP), f"a warning {MIN_ISR}"),
    trips("KF113 declared", scene(DIRTY), f"a warning {UNCLEAN}"),
    trips("KF113 the cluster's default", scene(THREE, facts=DIRTY_BY_DEFAULT), f"a warning {UNCLEAN}"),
    trips("KF113", scene(ONE_DIRTY), f"a warning {UNCLEAN}"),
    trips("KF113", scene(waive_rules(DIRTY, "KF113")), f"a info {UNCLEAN}"),
    *is_quiet(
        "KF113",
        scene(declare_topic("a", 3, 3, unclean_leader_election_enable="false"), facts=DIRTY_BY_DEFAULT),
        scene(THREE, facts=facts(unclean_leader_election_enable="false")),
        scene(THREE),
        scene(declare_topic("a", 3, 1), facts=DIRTY_BY_DEFAULT),
    ),
]


def build_kept(facts: Facts | None = None, live: str | None = None, **configs: str | None) -> RuleContext:
    """Build the context of a topic in a project that wants to go back three days."""
    resources = living(build_observed("a", retention_ms=live)) if live is not None else {}
    return scene(declare_topic("a", **configs), facts=facts, limits=THREE_DAYS, live=resources)  # type: ignore[arg-type]


def build_segments(facts: Facts | None = None, **configs: str | None) -> RuleContext:
    return scene(declare_topic("a", **configs), facts=facts)  # type: ignore[arg-type]


def build_compacted(policy: str = "compact", keyed: bool | None = True, **configs: str) -> RuleContext:
    own = {name.replace("_", "."): value for name, value in configs.items()}
    return scene(declare_configs({"cleanup.policy": policy, **own}, keyed=keyed))


ONE_DAY, ODD_WINDOW = declare_topic("a", retention_ms=DAY), ProjectLimits(recovery_window_ms=90_061_001)
MONTH, BOTH = str(30 * DAY_MS), "compact,delete"
AGE, SIZE, SEGMENT = "config.retention.ms", "config.retention.bytes", "config.segment.ms"

LONG, WEEK_LONG = f"a warning {SEGMENT}", facts(segment_ms=WEEK)

RETENTION: list[Row] = [
    trips("KF110 declared", build_kept(retention_ms=DAY), f"a warning {AGE}"),
    trips("KF110 the cluster's default", build_kept(facts(retention_ms=DAY)), f"a warning {AGE}"),
    trips("KF110 live", build_kept(facts(retention_ms=WEEK), DAY), f"a warning {AGE}"),
    trips("KF110 an odd window", scene(ONE_DAY, limits=ODD_WINDOW), f"a warning {AGE}"),
    *(trips("KF110", build_kept(retention_ms=ms), f"a warning {AGE}") for ms in ("0", str(3 * DAY_MS - 1))),
    trips("KF110", build_kept(retention_ms=DAY, cleanup_policy=BOTH), f"a warning {AGE}"),
    *is_quiet("KF110", *(build_kept(retention_ms=ms) for ms in (str(3 * DAY_MS), "-1"))),
    *is_quiet("KF110", *(build_kept(retention_ms=DAY, cleanup_policy=policy) for policy in ("compact", ""))),
    *is_quiet(
        "KF110",
        scene(ONE_DAY),
        scene(declare_topic("a"), limits=ProjectLimits(recovery_window_ms=8 * DAY_MS)),
        build_kept(facts(retention_ms=WEEK)),
        scene(absent("a"), facts=facts(retention_ms=DAY), limits=THREE_DAYS),
    ),
    trips("KF111 the default segment", build_segments(retention_ms=DAY), f"a warning {AGE}"),
    trips("KF111 an odd time", build_segments(retention_ms="90061001"), f"a warning {AGE}"),
    trips("KF111 a long segment", build_segments(retention_ms=WEEK, segment_ms=MONTH), LONG),
    trips("KF111 endless segments", build_segments(retention_ms=DAY, segment_ms=LONG_MAX), LONG),
    trips("KF111 the cluster's", build_segments(WEEK_LONG, retention_ms=DAY), f"a warning {AGE}"),
    trips("KF111 the cluster's retention", build_segments(facts(retention_ms=DAY), segment_ms=WEEK), LONG),
    *(
        trips(f"KF111 {size} bytes", build_segments(retention_bytes=str(size)), f"a warning {SIZE}")
        for size in (2**20, 10**9 - 1)
    ),
    trips(
        "KF111",
        build_segments(retention_ms=DAY, retention_bytes=str(2**29)),
        f"a warning {AGE}",
        f"a warning {SIZE}",
    ),
    trips("KF111", build_segments(retention_ms=DAY, segment_ms=str(DAY_MS + 1)), LONG),
    trips("KF111", build_segments(retention_ms=str(int(WEEK) - 1)), f"a warning {AGE}"),
    trips("KF111", build_segments(retention_ms=DAY, cleanup_policy=BOTH), f"a warning {AGE}"),
    *is_quiet("KF111", *(build_segments(retention_ms=DAY, segment_ms=ms) for ms in (DAY, "3600000"))),
    *is_quiet(
        "KF111",
        build_segments(retention_bytes=str(2**30)),
        build_segments(retention_bytes="-1", segment_bytes=str(2**20)),
        build_segments(retention_ms="-1", segment_ms=WEEK),
        build_segments(retention_ms=WEEK, segment_ms=None),
        build_segments(retention_ms="299999", segment_ms=None),  # KF115 reports it
        build_segments(segment_ms=MONTH),
        build_segments(facts(retention_ms=DAY, segment_ms=WEEK)),
        scene(ONE_DAY, facts=WEEK_LONG, live=living(build_observed("a", segment_ms="3600000"))),
    ),
    *is_quiet("KF111", *(build_segments(retention_ms=DAY, cleanup_policy=n) for n in ("compact", ""))),
    trips(
        "KF112 retention",
        build_compacted(retention_ms=WEEK, retention_bytes=str(2**30)),
        f"a warning {AGE}",
        f"a warning {SIZE}",
    ),
    trips("KF112 without keys", build_compacted(keyed=False), "a warning keyed"),
    trips("KF112", build_segments(facts(cleanup_policy="compact")), "a warning keyed"),
    *is_quiet(
        "KF112",
        build_compacted(),
        build_compacted(retention_ms="-1", retention_bytes="-1"),
        scene(
            declare_configs({"cleanup.policy": "compact", "retention.ms": None}, keyed=True),
            facts=facts(retention_ms=WEEK),
        ),
        build_segments(),
    ),
    *is_quiet("KF112", *(build_compacted(policy, keyed=None) for policy in ("compact", BOTH))),
    *is_quiet("KF112", *(build_compacted(n, keyed=None, retention_ms=WEEK) for n in ("delete", BOTH, ""))),
]


def build_config(name: str, value: str = "1", facts: Facts | None = None) -> RuleContext:
    return scene(declare_configs({name: value}), facts=facts)


CONFIGS: list[Row] = [
    *(
        trips(f"KF115 {name}", build_config(name), f"a warning config.{name}")
        for name in sorted(kafka_configs.retired_configs("topics"))
    ),
    # A value that only earlier versions accept is for the brokers to judge.
    *(
        trips(f"KF115 {name} {value}", build_config(name, value), f"a warning config.{name}")
        for name, value in (("segment.bytes", "14"), ("segment.index.bytes", "0"), ("flush.messages", "0"))
    ),
    *is_quiet(
        "KF115", *(build_config(*n, EMPTY_FACTS) for n in (("segment.bytes", "14"), ("flush.messages", "0")))
    ),
    *is_quiet("KF115", build_config("segment.bytes", "1048576"), build_config("segment.index.bytes", "4")),
    *(
        trips(f"KF115 {name}", build_config(name, "true"), f"a info config.{name}")
        for name in ("confluent.tier.enable", "redpanda.remote.read", "write.caching")
    ),
    *is_quiet(
        "KF115",
        *(build_config(n, "true", EMPTY_FACTS) for n in ("confluent.tier.enable", "redpanda.remote.read")),
    ),
    trips("KF115 7 ms", build_config("retention.ms", "7"), f"a warning {AGE}"),
    *(trips("KF115", build_config("retention.ms", ms), f"a warning {AGE}") for ms in ("0", "299999")),
    *is_quiet("KF115", *(build_config("retention.ms", ms) for ms in ("300000", "-1", DAY))),
    *is_quiet(
        "KF115",
        build_segments(message_format_version=None),
        build_segments(flush_ms="1000", flush_messages="1"),
        scene(declare_configs(kafka_configs.cluster_defaults({})), absent("b")),
    ),
]

ROWS = [*NAMES, *PARTITIONS, *REPLICAS, *RETENTION, *CONFIGS]
