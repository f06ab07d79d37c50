"""What every cluster promises: the same tests on the one in memory and on a real Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core import kafka_configs
from kafkaform.core.errors import ClusterError, RequestRejected
from kafkaform.core.model import Observed
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.partitions import Broker
from kafkaform.core.values import replace
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.clusters.fixtures import admin_client, eventually
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import topic


@pytest.fixture(params=["memory", "kafka"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Either cluster; the one in memory lags, as the real one may at any time."""
    if request.param == "kafka":
        return cast("KafkaCluster", request.getfixturevalue("real_cluster"))
    memory = MemoryCluster()
    memory.lag(2)
    return memory


def create(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> CreateTopic:
    return CreateTopic(topic(name), partitions, replicas, dotted(configs))


def alter(name: str, *unset: str, **configs: str) -> AlterConfigs:
    return AlterConfigs(topic(name), dotted(configs), unset)


def dotted(configs: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in configs.items()}


def codes(outcomes: Sequence[ClusterError | None]) -> list[str | None]:
    """Kafka's name of each refusal."""
    assert all(outcome is None or isinstance(outcome, RequestRejected) for outcome in outcomes), outcomes
    return [outcome.code if isinstance(outcome, RequestRejected) else None for outcome in outcomes]


def carried_out(cluster: Cluster, *operations: Operation) -> None:
    assert cluster.execute(operations) == [None] * len(operations)


def created(cluster: Cluster, *operations: CreateTopic) -> list[Observed]:
    """Create topics, and wait until they can be seen."""
    carried_out(cluster, *operations)
    refs = [operation.ref for operation in operations]
    observation = eventually(lambda: cluster.observe(refs), lambda o: o.resources.keys() == set(refs))
    return [observation.resources[ref] for ref in refs]


def settled(cluster: Cluster, name: str, **state: object) -> Observed:
    """A topic, once its state is this one."""
    wanted = {f"config.{n}" if "." in n else n: value for n, value in state.items()}
    observation = eventually(
        lambda: cluster.observe([topic(name)]),
        lambda o: topic(name) in o.resources and o.resources[topic(name)].state == wanted,
    )
    return observation.resources[topic(name)]


def gone(cluster: Cluster, name: str) -> None:
    """Wait until a topic is not there any more."""
    eventually(lambda: cluster.observe([topic(name)]), lambda o: topic(name) not in o.inventory)


def unchanged(cluster: Cluster, name: str, state: Mapping[str, object]) -> None:
    """A topic is as it was, also after a change of another topic can be seen."""
    created(cluster, create(f"{name}.sentinel"))
    assert cluster.observe([topic(name)]).resources[topic(name)].state == state


# --- reading ---------------------------------------------------------------------------------------


def test_observing_a_missing_topic_creates_nothing(cluster: Cluster, prefix: str) -> None:
    """A broker with auto.create.topics.enable makes a topic of whatever name is asked for carelessly."""
    missing = topic(f"{prefix}missing")
    observation = cluster.observe([missing])
    assert missing not in observation.resources
    assert missing not in observation.invisible
    created(cluster, create(f"{prefix}sentinel"))
    assert missing not in cluster.observe([missing]).inventory


def test_the_inventory_has_all_topics(cluster: Cluster, prefix: str) -> None:
    a, b, c = (topic(prefix + name) for name in "abc")
    created(cluster, create(a.name), create(b.name), create(c.name))
    observation = cluster.observe([a])
    assert observation.resources.keys() == {a}
    assert {a, b, c} <= observation.inventory
    observation = cluster.observe([a], also=lambda ref: ref == c)
    assert observation.resources.keys() == {a, c}
    assert {
        ref for ref in cluster.observe([], kinds=["Topic"]).resources if ref.name.startswith(prefix)
    } == set()


def test_fields_of_resources_are_read_alone(cluster: Cluster, prefix: str) -> None:
    a, b, c, missing = (topic(prefix + name) for name in ("a", "b", "c", "missing"))
    made = created(
        cluster,
        *(
            create(ref.name, partitions, retention_ms="1000", segment_ms="2000")
            for ref, partitions in ((a, 2), (b, 3), (c, 1))
        ),
    )
    wanted = {
        a: {"config.retention.ms": None, "config.cleanup.policy": None},
        b: {"partitions": None},
        missing: {"partitions": None},
    }
    seen = cluster.observe_fields(wanted)
    assert seen.resources.keys() == {a, b}
    assert {a, b} <= seen.inventory
    assert (missing in seen.inventory, seen.invisible) == (False, {})
    assert seen.resources[a].state == {"partitions": 2, "replicationFactor": 1, "config.retention.ms": "1000"}
    assert seen.resources[b].state == {"partitions": 3, "replicationFactor": 1}
    for one in made[:2]:
        narrow = seen.resources[one.ref]
        assert (narrow.uid, narrow.live) == (one.uid, one.live)
        assert narrow.effective.items() <= one.effective.items()
    carried_out(cluster, AddPartitions(b, 3, 5), alter(a.name, "retention.ms"), DeleteTopic(c, made[2].uid))
    eventually(
        lambda: cluster.observe_fields({a: {"config.retention.ms": None}, b: {"partitions": None}, c: {}}),
        lambda o: (
            o.resources.keys() == {a, b}
            and "config.retention.ms" not in o.resources[a].state
            and o.resources[b].state["partitions"] == 5
        ),
    )
    created(cluster, create(f"{prefix}sentinel"))
    assert missing not in cluster.observe([missing]).inventory  # being asked for makes no topic


def test_own_values_are_the_state_and_all_values_are_effective(cluster: Cluster, prefix: str) -> None:
    (observed,) = created(cluster, create(f"{prefix}a", 3, 1, retention_ms="86400000"))
    assert observed.ref == topic(f"{prefix}a")
    assert observed.state == {"partitions": 3, "replicationFactor": 1, "config.retention.ms": "86400000"}
    assert not observed.internal
    defaults = cluster.facts().config_defaults["Topic"]
    expected = {f"config.{name}": value for name, value in defaults.items()} | {
        "config.retention.ms": "86400000"
    }
    assert observed.effective.keys() == expected.keys()
    for path, value in expected.items():
        key = kafka_configs.topic_configs()[path.removeprefix("config.")]
        assert kafka_configs.equal(key, str(observed.effective[path]), str(value)), path


def test_an_own_value_equal_to_the_default_is_own(cluster: Cluster, prefix: str) -> None:
    (observed,) = created(cluster, create(f"{prefix}a", retention_ms="604800000"))
    assert observed.state["config.retention.ms"] == "604800000"


@pytest.mark.parametrize(
    ("config", "given", "shown"),
    [
        ("retention.ms", " 0060000 ", "60000"),
        # Not preallocate: a broker that was stopped takes zeros for a corrupt record, and stays down.
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("min.cleanable.dirty.ratio", "1", "1.0"),
        ("cleanup.policy", "delete, compact", "delete,compact"),
        ("cleanup.policy", "compact,delete", "compact,delete"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("cleanup.policy", "", ""),
        ("compression.type", " zstd", "zstd"),
        ("leader.replication.throttled.replicas", "*", "*"),
        ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
        ("internal.segment.bytes", "1000000", "1000000"),
    ],
)
def test_values_are_shown_as_brokers_read_them(
    cluster: Cluster, prefix: str, config: str, given: str, shown: str
) -> None:
    (observed,) = created(cluster, CreateTopic(topic(f"{prefix}a"), 1, 1, {config: given}))
    assert observed.state[f"config.{config}"] == shown
    assert observed.effective[f"config.{config}"] == shown


def test_minus_one_is_the_default_of_the_brokers(cluster: Cluster, prefix: str) -> None:
    (observed,) = created(cluster, create(f"{prefix}a", -1, -1))
    assert observed.state == {"partitions": 1, "replicationFactor": 1}


# --- identity --------------------------------------------------------------------------------------


def test_a_topic_that_is_made_again_has_another_id(cluster: Cluster, prefix: str) -> None:
    (first,) = created(cluster, create(f"{prefix}a"))
    carried_out(cluster, DeleteTopic(first.ref, first.uid))
    gone(cluster, f"{prefix}a")
    (second,) = created(cluster, create(f"{prefix}a"))
    assert first.uid
    assert second.uid
    assert first.uid != second.uid
    assert codes(cluster.execute([DeleteTopic(first.ref, first.uid)])) == ["UNKNOWN_TOPIC_ID"]
    unchanged(cluster, f"{prefix}a", second.state)
    assert cluster.observe([second.ref]).resources[second.ref].uid == second.uid


ANOTHER_ID = "c2Nob24gd2VnIGdlbmF1IQ"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.mark.parametrize("uid", [None, "", "x", ZERO_ID, ANOTHER_ID])
def test_nothing_is_deleted_without_its_id(cluster: Cluster, prefix: str, uid: str | None) -> None:
    (observed,) = created(cluster, create(f"{prefix}a"))
    assert codes(cluster.execute([DeleteTopic(observed.ref, uid)])) == ["UNKNOWN_TOPIC_ID"]
    unchanged(cluster, f"{prefix}a", observed.state)


# --- validation ------------------------------------------------------------------------------------


def test_validation_objects_as_execution_does_and_changes_nothing(cluster: Cluster, prefix: str) -> None:
    a, b, c = created(
        cluster, create(f"{prefix}a", 3), create(f"{prefix}b", retention_ms="1000"), create(f"{prefix}c")
    )
    operations: list[Operation] = [
        create(f"{prefix}new", 3),
        create(f"{prefix}a"),
        alter(f"{prefix}a", retention_ms="2000"),
        alter(f"{prefix}b", "retention.ms"),
        alter(f"{prefix}c", nonsense="1"),
        AddPartitions(a.ref, 3, 4),
        AddPartitions(c.ref, 3, 1),
        DeleteTopic(b.ref, b.uid),
        DeleteTopic(c.ref, ANOTHER_ID),
    ]
    objections = codes(cluster.validate(operations))
    assert objections == [
        None,
        "TOPIC_ALREADY_EXISTS",
        None,
        None,
        "INVALID_CONFIG",
        None,
        "INVALID_PARTITIONS",
        None,
        None,
    ]
    for each in (a, b, c):
        unchanged(cluster, each.ref.name, each.state)
    assert topic(f"{prefix}new") not in cluster.observe([], kinds=["Topic"]).inventory
    assert codes(cluster.execute(operations)) == [*objections[:8], "UNKNOWN_TOPIC_ID"]


REFUSALS: list[tuple[str, Operation, str]] = [
    ("exists", create("a"), "TOPIC_ALREADY_EXISTS"),
    ("exists, before all else", create("a", 0, 99, nonsense="1"), "TOPIC_ALREADY_EXISTS"),
    ("dots are underscores", create("x_y"), "TOPIC_EXCEPTION"),
    ("underscores are dots", create("x.z"), "TOPIC_EXCEPTION"),
    ("a space", create("a b"), "TOPIC_EXCEPTION"),
    ("an umlaut", create("ä"), "TOPIC_EXCEPTION"),
    ("too long", create("x" * 249), "TOPIC_EXCEPTION"),
    ("no replica", create("new", 1, 0), "INVALID_REPLICATION_FACTOR"),
    ("too many replicas", create("new", 1, 9), "INVALID_REPLICATION_FACTOR"),
    ("no partition", create("new", 0), "INVALID_PARTITIONS"),
    ("no partition and too many replicas", create("new", 0, 9), "INVALID_PARTITIONS"),
    ("no partition and no replica", create("new", 0, 0), "INVALID_REPLICATION_FACTOR"),
    ("more partitions than a request may ask for", create("new", 10_001), "POLICY_VIOLATION"),
    ("unknown config", create("new", 0, 9, nonsense="1"), "INVALID_CONFIG"),
    ("people's units", create("new", retention_ms="7d"), "INVALID_CONFIG"),
    ("no number", create("new", retention_ms=""), "INVALID_CONFIG"),
    ("not one of the choices", create("new", cleanup_policy="destroy"), "INVALID_CONFIG"),
    ("an empty element", create("new", cleanup_policy="delete,,compact"), "INVALID_CONFIG"),
    ("another case", create("new", cleanup_policy="Delete"), "INVALID_CONFIG"),
    ("retired", create("new", message_downconversion_enable="true"), "INVALID_CONFIG"),
    ("out of range", alter("a", segment_ms="0"), "INVALID_CONFIG"),
    ("a fraction", alter("a", segment_ms="5.0"), "INVALID_CONFIG"),
    ("underscores in a number", alter("a", segment_ms="1_000"), "INVALID_CONFIG"),
    ("one good and one bad", alter("a", flush_ms="9", segment_ms="-1"), "INVALID_CONFIG"),
    ("alter what is not there", alter("none", retention_ms="1000"), "UNKNOWN_TOPIC_OR_PART"),
    ("alter what cannot be", alter("a b", retention_ms="1000"), "TOPIC_EXCEPTION"),
    ("fewer partitions", AddPartitions(topic("a"), 1, 2), "INVALID_PARTITIONS"),
    ("as many partitions", AddPartitions(topic("a"), 2, 3), "INVALID_PARTITIONS"),
    ("extend what is not there", AddPartitions(topic("none"), 1, 2), "UNKNOWN_TOPIC_OR_PART"),
    ("extend what cannot be", AddPartitions(topic("a b"), 1, 2), "UNKNOWN_TOPIC_OR_PART"),
]


@pytest.mark.parametrize(("operation", "code"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(cluster: Cluster, prefix: str, operation: Operation, code: str) -> None:
    present = created(cluster, create(f"{prefix}a", 3), create(f"{prefix}x.y"), create(f"{prefix}x_z"))
    operation = named(operation, prefix)
    assert codes(cluster.validate([operation])) == [code]
    assert codes(cluster.execute([operation])) == [code]
    for observed in present:
        unchanged(cluster, observed.ref.name, observed.state)
    if isinstance(operation, CreateTopic) and code != "TOPIC_ALREADY_EXISTS":
        assert operation.ref not in cluster.observe([], kinds=["Topic"]).inventory


def named(operation: Operation, prefix: str) -> Operation:
    return replace(operation, ref=topic(prefix + operation.ref.name))


# --- many operations at once -----------------------------------------------------------------------


def test_each_operation_has_its_own_outcome_in_order(cluster: Cluster, prefix: str) -> None:
    created(cluster, create(f"{prefix}old", 3))
    operations: list[Operation] = [
        AddPartitions(topic(f"{prefix}none"), 1, 2),
        create(f"{prefix}a"),
        alter(f"{prefix}old", segment_ms="none"),
        create(f"{prefix}old"),
        AddPartitions(topic(f"{prefix}old"), 3, 4),
        create(f"{prefix}b", 1, 9),
        create(f"{prefix}c"),
    ]
    outcomes = cluster.execute(operations)
    assert codes(outcomes) == [
        "UNKNOWN_TOPIC_OR_PART",
        None,
        "INVALID_CONFIG",
        "TOPIC_ALREADY_EXISTS",
        None,
        "INVALID_REPLICATION_FACTOR",
        None,
    ]
    settled(cluster, f"{prefix}old", partitions=4, replicationFactor=1)
    inventory = eventually(
        lambda: cluster.observe([], kinds=["Topic"]).inventory,
        lambda i: {topic(f"{prefix}a"), topic(f"{prefix}c")} <= i,
    )
    assert topic(f"{prefix}b") not in inventory
    for outcome in outcomes:
        assert outcome is None or "\n" not in outcome.message


def test_no_operations(cluster: Cluster) -> None:
    assert cluster.validate([]) == []
    assert cluster.execute([]) == []


def test_names_that_collide_only_with_each_other_pass_together(cluster: Cluster, prefix: str) -> None:
    """Nobody but a rule over manifests can prevent this."""
    pair = [create(f"{prefix}p.q"), create(f"{prefix}p_q")]
    assert cluster.validate(pair) == [None, None]
    assert cluster.execute(pair) == [None, None]


@pytest.mark.parametrize("sort", ["create", "alter", "add", "delete"])
def test_a_topic_that_comes_twice_in_one_request_is_refused(cluster: Cluster, prefix: str, sort: str) -> None:
    twice, once = created(cluster, create(f"{prefix}twice"), create(f"{prefix}once"))
    requests: dict[str, list[Operation]] = {
        "create": [create(f"{prefix}x", 1), create(f"{prefix}x", 2), create(f"{prefix}y")],
        "alter": [
            alter(f"{prefix}twice", retention_ms="1"),
            alter(f"{prefix}twice", retention_bytes="1"),
            alter(f"{prefix}once", retention_ms="1"),
        ],
        "add": [
            AddPartitions(twice.ref, 1, 2),
            AddPartitions(twice.ref, 1, 3),
            AddPartitions(once.ref, 1, 2),
        ],
        "delete": [
            DeleteTopic(twice.ref, twice.uid),
            DeleteTopic(twice.ref, twice.uid),
            DeleteTopic(once.ref, once.uid),
        ],
    }
    request = requests[sort]
    if sort != "delete":
        assert codes(cluster.validate(request)) == ["INVALID_REQUEST", "INVALID_REQUEST", None]
    assert codes(cluster.execute(request)) == ["INVALID_REQUEST", "INVALID_REQUEST", None]
    unchanged(cluster, f"{prefix}twice", twice.state)
    assert topic(f"{prefix}x") not in cluster.observe([], kinds=["Topic"]).inventory


def test_more_records_than_a_controller_writes_at_once_are_refused(cluster: Cluster, prefix: str) -> None:
    request = [create(f"{prefix}{number}", 10) for number in range(1_000)]
    for outcomes in (cluster.validate(request), cluster.execute(request)):
        assert set(codes(outcomes)) == {"POLICY_VIOLATION"}
    created(cluster, create(f"{prefix}sentinel"))
    inventory = cluster.observe([], kinds=["Topic"]).inventory
    assert {ref.name for ref in inventory if ref.name.startswith(prefix)} == {f"{prefix}sentinel"}


def test_more_partitions_than_a_controller_adds_at_once_are_refused(cluster: Cluster, prefix: str) -> None:
    (observed,) = created(cluster, create(f"{prefix}a"))
    assert codes(cluster.validate([AddPartitions(observed.ref, 1, 10_002)])) == ["UNKNOWN"]
    unchanged(cluster, f"{prefix}a", observed.state)


# --- changes ---------------------------------------------------------------------------------------


def test_configs_are_set_and_unset_and_others_stay(cluster: Cluster, prefix: str) -> None:
    created(cluster, create(f"{prefix}a", retention_ms="1000", segment_ms="2000", flush_ms="3000"))
    carried_out(cluster, alter(f"{prefix}a", "retention.ms", "nonsense", "preallocate", segment_ms="9"))
    observed = settled(
        cluster,
        f"{prefix}a",
        **{"partitions": 1, "replicationFactor": 1, "segment.ms": "9", "flush.ms": "3000"},
    )
    assert observed.effective["config.retention.ms"] == "604800000"


def test_a_min_isr_beyond_the_replicas_passes(cluster: Cluster, prefix: str) -> None:
    """Every write with acks=all then fails: a rule has to see it, the brokers do not."""
    operation = create(f"{prefix}a", min_insync_replicas="3")
    assert cluster.validate([operation]) == [None]
    (observed,) = created(cluster, operation)
    assert observed.state["config.min.insync.replicas"] == "3"


def test_partitions_are_added(cluster: Cluster, prefix: str) -> None:
    (observed,) = created(cluster, create(f"{prefix}a", 2))
    carried_out(cluster, AddPartitions(observed.ref, 2, 5))
    assert settled(cluster, f"{prefix}a", partitions=5, replicationFactor=1).uid == observed.uid


def test_what_was_present_when_planned_does_not_matter(cluster: Cluster, prefix: str) -> None:
    """Brokers know only the total: it is the executor who checks that nothing moved."""
    (observed,) = created(cluster, create(f"{prefix}a", 4))
    carried_out(cluster, AddPartitions(observed.ref, 2, 5))
    settled(cluster, f"{prefix}a", partitions=5, replicationFactor=1)


def test_an_internal_topic_says_so(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    offsets = topic("__consumer_offsets")
    if isinstance(cluster, MemoryCluster):
        carried_out(cluster, create(offsets.name))
    else:
        admin = admin_client(request.getfixturevalue("kafka").bootstrap_servers)
        asked = ConsumerGroupTopicPartitions("a-group-that-nobody-made")
        admin.list_consumer_group_offsets([asked])  # makes the broker create it; the answer does not matter
    observation = eventually(lambda: cluster.observe([offsets]), lambda o: offsets in o.resources)
    assert observation.resources[offsets].internal


# --- the cluster itself ----------------------------------------------------------------------------


def test_facts(cluster: Cluster) -> None:
    facts = cluster.facts()
    assert facts.cluster_id
    assert facts.brokers[0] == Broker(1, "rack-1")
    assert facts.diagnostics == ()
    assert facts.config_defaults["Topic"].keys() == {
        name for name, key in kafka_configs.topic_configs().items() if not key.internal
    }


def test_both_show_the_same_of_a_new_topic(real_cluster: KafkaCluster, prefix: str) -> None:
    new = create(f"{prefix}a", 2, 1, min_cleanable_dirty_ratio="0.1", cleanup_policy="compact")
    (real,) = created(real_cluster, new)
    (in_memory,) = created(MemoryCluster(), new)
    assert in_memory.state == real.state
    assert in_memory.effective == real.effective
    assert len(in_memory.uid or "") == len(real.uid or "")
