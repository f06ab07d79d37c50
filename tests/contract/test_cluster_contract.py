"""Contract tests of every cluster, run on the one in memory and on a real Kafka."""

from collections.abc import Mapping

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import Cluster
from kafkaform.core import kafka_configs
from kafkaform.core.model import State
from kafkaform.core.operations import Operation
from kafkaform.core.partitions import Broker
from kafkaform.core.values import replace
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteTopic
from tests.support.clusters.contract import (
    alter,
    carry_out,
    create_topics,
    list_codes,
    new_topic,
    wait_for_resource,
    wait_until_gone,
)
from tests.support.clusters.fixtures import admin_client, eventually
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import topic


def assert_unchanged(cluster: Cluster, name: str, state: Mapping[str, object]) -> None:
    """A topic is as it was, also after a change of another topic can be seen."""
    create_topics(cluster, new_topic(f"{name}.sentinel"))
    assert cluster.observe([topic(name)]).resources[topic(name)].state == state


def test_observing_a_missing_topic_creates_nothing(cluster: Cluster, prefix: str) -> None:
    """A broker with auto.create.topics.enable makes a topic of whatever name is asked for carelessly."""
    missing = topic(f"{prefix}missing")
    observation = cluster.observe([missing])
    assert missing not in observation.resources
    assert missing not in observation.invisible
    create_topics(cluster, new_topic(f"{prefix}sentinel"))
    assert missing not in cluster.observe([missing]).inventory


def test_inventory_has_all_topics(cluster: Cluster, prefix: str) -> None:
    a, b, c = (topic(prefix + name) for name in "abc")
    create_topics(cluster, new_topic(a.name), new_topic(b.name), new_topic(c.name))
    observation = cluster.observe([a])
    assert observation.resources.keys() == {a}
    assert {a, b, c} <= observation.inventory
    observation = cluster.observe([a], also=lambda ref: ref == c)
    assert observation.resources.keys() == {a, c}
    assert {
        ref for ref in cluster.observe([], kinds=["Topic"]).resources if ref.name.startswith(prefix)
    } == set()


def test_observe_fields_reads_requested_resources_only(cluster: Cluster, prefix: str) -> None:
    a, b, c, missing = (topic(prefix + name) for name in ("a", "b", "c", "missing"))
    made = create_topics(
        cluster,
        *(
            new_topic(ref.name, partitions, retention_ms="1000", segment_ms="2000")
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
    for item in made[:2]:
        narrow = seen.resources[item.ref]
        assert (narrow.uid, narrow.live) == (item.uid, item.live)
        assert narrow.effective.items() <= item.effective.items()
    carry_out(cluster, AddPartitions(b, 3, 5), alter(a, "retention.ms"), DeleteTopic(c, made[2].uid))
    eventually(
        lambda: cluster.observe_fields({a: {"config.retention.ms": None}, b: {"partitions": None}, c: {}}),
        lambda o: (
            o.resources.keys() == {a, b}
            and "config.retention.ms" not in o.resources[a].state
            and o.resources[b].state["partitions"] == 5
        ),
    )
    create_topics(cluster, new_topic(f"{prefix}sentinel"))
    assert missing not in cluster.observe([missing]).inventory  # being asked for makes no topic


def test_observed_state_has_own_values_and_effective_has_all(cluster: Cluster, prefix: str) -> None:
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a", 3, 1, retention_ms="86400000"))
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


BROKER_FORMS = [
    ("retention.ms", " 0060000 ", "60000"),
    ("retention.ms", "604800000", "604800000"),  # the default
    # Not preallocate: a broker that was stopped takes zeros for a corrupt record, and stays down.
    ("unclean.leader.election.enable", "TRUE", "true"),
    ("min.cleanable.dirty.ratio", "0.50", "0.5"),
    ("min.cleanable.dirty.ratio", "1", "1.0"),
    ("cleanup.policy", "delete, compact", "delete,compact"),
    ("cleanup.policy", "delete,delete", "delete"),
    ("cleanup.policy", "", ""),
    ("compression.type", " zstd", "zstd"),
    ("leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"),
    ("internal.segment.bytes", "1000000", "1000000"),
]
"""A config, its value as it is given, and as brokers show it."""


def test_topic_configs_are_observed_in_broker_form(cluster: Cluster, prefix: str) -> None:
    creates = (
        CreateTopic(topic(f"{prefix}{number}"), 1, 1, {config: given})
        for number, (config, given, _) in enumerate(BROKER_FORMS)
    )
    for observed, (config, given, shown) in zip(create_topics(cluster, *creates), BROKER_FORMS, strict=True):
        assert observed.state[f"config.{config}"] == shown, given
        assert observed.effective[f"config.{config}"] == shown, given


def test_minus_one_creates_with_broker_defaults(cluster: Cluster, prefix: str) -> None:
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a", -1, -1))
    assert observed.state == {"partitions": 1, "replicationFactor": 1}


def test_recreated_topic_has_new_id(cluster: Cluster, prefix: str) -> None:
    (first,) = create_topics(cluster, new_topic(f"{prefix}a"))
    carry_out(cluster, DeleteTopic(first.ref, first.uid))
    wait_until_gone(cluster, topic(f"{prefix}a"))
    (second,) = create_topics(cluster, new_topic(f"{prefix}a"))
    assert first.uid
    assert second.uid
    assert first.uid != second.uid
    assert list_codes(cluster.execute([DeleteTopic(first.ref, first.uid)])) == ["UNKNOWN_TOPIC_ID"]
    assert_unchanged(cluster, f"{prefix}a", second.state)
    assert cluster.observe([second.ref]).resources[second.ref].uid == second.uid


ANOTHER_ID = "c2Nob24gd2VnIGdlbmF1IQ"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def test_topic_deletion_without_valid_id_is_refused(cluster: Cluster, prefix: str) -> None:
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a"))
    for uid in (None, "", "x", ZERO_ID, ANOTHER_ID):
        assert list_codes(cluster.execute([DeleteTopic(observed.ref, uid)])) == ["UNKNOWN_TOPIC_ID"], uid
    assert_unchanged(cluster, f"{prefix}a", observed.state)


def test_topic_validation_matches_execution_and_changes_nothing(cluster: Cluster, prefix: str) -> None:
    a, b, c = create_topics(
        cluster,
        new_topic(f"{prefix}a", 3),
        new_topic(f"{prefix}b", retention_ms="1000"),
        new_topic(f"{prefix}c"),
    )
    operations: list[Operation] = [
        new_topic(f"{prefix}new", 3),
        new_topic(f"{prefix}a"),
        alter(a.ref, retention_ms="2000"),
        alter(b.ref, "retention.ms"),
        alter(c.ref, nonsense="1"),
        AddPartitions(a.ref, 3, 4),
        AddPartitions(c.ref, 3, 1),
        AddPartitions(topic(f"{prefix}none"), 1, 2),
        new_topic(f"{prefix}wide", 1, 9),
        DeleteTopic(b.ref, b.uid),
        DeleteTopic(c.ref, ANOTHER_ID),
    ]
    objections = list_codes(cluster.validate(operations))
    refused = {
        1: "TOPIC_ALREADY_EXISTS",
        4: "INVALID_CONFIG",
        6: "INVALID_PARTITIONS",
        7: "UNKNOWN_TOPIC_OR_PART",
    }
    refused[8] = "INVALID_REPLICATION_FACTOR"
    assert objections == [refused.get(number) for number in range(11)]
    for each in (a, b, c):
        assert_unchanged(cluster, each.ref.name, each.state)
    assert topic(f"{prefix}new") not in cluster.observe([], kinds=["Topic"]).inventory
    outcomes = cluster.execute(operations)
    assert list_codes(outcomes) == [*objections[:10], "UNKNOWN_TOPIC_ID"]
    assert all(outcome is None or "\n" not in outcome.message for outcome in outcomes)
    changed: State = {"partitions": 4, "replicationFactor": 1, "config.retention.ms": "2000"}
    wait_for_resource(cluster, a.ref, changed)
    wait_until_gone(cluster, b.ref)


REFUSALS: list[tuple[str, Operation, str]] = [
    ("exists", new_topic("a"), "TOPIC_ALREADY_EXISTS"),
    ("exists, before all else", new_topic("a", 0, 99, nonsense="1"), "TOPIC_ALREADY_EXISTS"),
    ("a space", new_topic("a b"), "TOPIC_EXCEPTION"),
    ("too long", new_topic("x" * 249), "TOPIC_EXCEPTION"),
    ("no replica", new_topic("new", 1, 0), "INVALID_REPLICATION_FACTOR"),
    ("too many replicas", new_topic("new", 1, 9), "INVALID_REPLICATION_FACTOR"),
    ("no partition", new_topic("new", 0), "INVALID_PARTITIONS"),
    ("no partition and too many replicas", new_topic("new", 0, 9), "INVALID_PARTITIONS"),
    ("no partition and no replica", new_topic("new", 0, 0), "INVALID_REPLICATION_FACTOR"),
    ("more partitions than a request may ask for", new_topic("new", 10_001), "POLICY_VIOLATION"),
    ("unknown config", new_topic("new", 0, 9, nonsense="1"), "INVALID_CONFIG"),
    ("people's units", new_topic("new", retention_ms="7d"), "INVALID_CONFIG"),
    ("not one of the choices", new_topic("new", cleanup_policy="destroy"), "INVALID_CONFIG"),
    ("an empty element", new_topic("new", cleanup_policy="delete,,compact"), "INVALID_CONFIG"),
    ("retired", new_topic("new", message_downconversion_enable="true"), "INVALID_CONFIG"),
    ("out of range", alter(topic("a"), segment_ms="0"), "INVALID_CONFIG"),
    ("underscores in a number", alter(topic("a"), segment_ms="1_000"), "INVALID_CONFIG"),
    ("alter what is not there", alter(topic("none"), retention_ms="1000"), "UNKNOWN_TOPIC_OR_PART"),
    ("alter what cannot be", alter(topic("a b"), retention_ms="1000"), "TOPIC_EXCEPTION"),
    ("as many partitions", AddPartitions(topic("a"), 2, 3), "INVALID_PARTITIONS"),
    ("extend what is not there", AddPartitions(topic("none"), 1, 2), "UNKNOWN_TOPIC_OR_PART"),
    ("extend what cannot be", AddPartitions(topic("a b"), 1, 2), "UNKNOWN_TOPIC_OR_PART"),
]


def test_invalid_topic_operations_are_refused(cluster: Cluster, prefix: str) -> None:
    present = create_topics(cluster, new_topic(f"{prefix}a", 3))
    for _, operation, code in REFUSALS:
        of_test = replace(operation, ref=topic(prefix + operation.ref.name))
        for outcomes in (cluster.validate([of_test]), cluster.execute([of_test])):
            assert list_codes(outcomes) == [code], operation
    for observed in present:
        assert_unchanged(cluster, observed.ref.name, observed.state)
    inventory = cluster.observe([], kinds=["Topic"]).inventory
    sentinels = {topic(f"{observed.ref.name}.sentinel") for observed in present}
    there = {ref for ref in inventory if ref.name.startswith(prefix)}
    assert there == sentinels | {observed.ref for observed in present}


def test_duplicate_topic_in_request_is_refused(cluster: Cluster, prefix: str) -> None:
    twice, once = create_topics(cluster, new_topic(f"{prefix}twice"), new_topic(f"{prefix}once"))
    topics = (twice, twice, once)
    requests: list[list[Operation]] = [
        [new_topic(f"{prefix}x", 1), new_topic(f"{prefix}x", 2), new_topic(f"{prefix}y")],
        [alter(item.ref, retention_ms="1") for item in topics],
        [AddPartitions(item.ref, 1, total) for item, total in zip(topics, (2, 3, 2), strict=True)],
    ]
    outcomes = [cluster.validate(request) for request in requests]
    requests.append([DeleteTopic(item.ref, item.uid) for item in topics])
    outcomes += [cluster.execute(request) for request in requests]
    assert [list_codes(each) for each in outcomes] == [["INVALID_REQUEST", "INVALID_REQUEST", None]] * 7
    assert_unchanged(cluster, f"{prefix}twice", twice.state)
    assert topic(f"{prefix}x") not in cluster.observe([], kinds=["Topic"]).inventory


def test_addition_of_too_many_partitions_is_refused(cluster: Cluster, prefix: str) -> None:
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a"))
    assert list_codes(cluster.validate([AddPartitions(observed.ref, 1, 10_002)])) == ["UNKNOWN"]
    assert_unchanged(cluster, f"{prefix}a", observed.state)


def test_topic_config_change_keeps_other_configs(cluster: Cluster, prefix: str) -> None:
    ref = topic(f"{prefix}a")
    create_topics(cluster, new_topic(ref.name, retention_ms="1000", segment_ms="2000", flush_ms="3000"))
    carry_out(cluster, alter(ref, "retention.ms", "nonsense", "preallocate", segment_ms="9"))
    own = {"config.segment.ms": "9", "config.flush.ms": "3000"}
    observed = wait_for_resource(cluster, ref, {"partitions": 1, "replicationFactor": 1, **own})
    assert observed.effective["config.retention.ms"] == "604800000"


@pytest.mark.parametrize("present", [4, 2])
def test_partitions_are_added(cluster: Cluster, prefix: str, present: int) -> None:
    """Brokers know only the total: it is the executor who checks that nothing moved since the plan."""
    (observed,) = create_topics(cluster, new_topic(f"{prefix}a", 4))
    carry_out(cluster, AddPartitions(observed.ref, present, 5))
    grown = wait_for_resource(cluster, observed.ref, {"partitions": 5, "replicationFactor": 1})
    assert grown.uid == observed.uid


def test_internal_topic_is_marked(cluster: Cluster, request: pytest.FixtureRequest) -> None:
    offsets = topic("__consumer_offsets")
    if isinstance(cluster, MemoryCluster):
        carry_out(cluster, new_topic(offsets.name))
    else:
        admin = admin_client(request.getfixturevalue("kafka").bootstrap_servers)
        asked = ConsumerGroupTopicPartitions("a-group-that-nobody-made")
        admin.list_consumer_group_offsets([asked])  # makes the broker create it; the answer does not matter
    observation = eventually(lambda: cluster.observe([offsets]), lambda o: offsets in o.resources)
    assert observation.resources[offsets].internal


def test_facts_have_cluster_id_brokers_and_defaults(cluster: Cluster) -> None:
    facts = cluster.facts()
    assert facts.cluster_id
    assert facts.brokers[0] == Broker(1, "rack-1")
    assert facts.diagnostics == ()
    assert facts.config_defaults["Topic"].keys() == {
        name for name, key in kafka_configs.topic_configs().items() if not key.internal
    }


def test_fake_and_kafka_observe_new_topic_alike(real_cluster: KafkaCluster, prefix: str) -> None:
    new = new_topic(f"{prefix}a", 2, 1, min_cleanable_dirty_ratio="0.1", cleanup_policy="compact")
    (real,) = create_topics(real_cluster, new)
    (in_memory,) = create_topics(MemoryCluster(), new)
    assert in_memory.state == real.state
    assert in_memory.effective == real.effective
    assert len(in_memory.uid or "") == len(real.uid or "")
