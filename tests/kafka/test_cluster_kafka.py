"""Tests that need a real Kafka: networks, logins, rights, reassignments, and brokers that differ."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from kafkaform.cluster.kafka import facts
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.model import DataSize, Desired
from kafkaform.core.partitions import LogSpan, TimedOffset
from kafkaform.core.rights import Right
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.planning import plan_from
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from kafkaform.resources.topic.operations import CreateTopic, DeleteTopic
from tests.support.clusters.fixtures import Account, admin_client, bring_back, connect, eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import alter_all_brokers, alter_configs, make_topic
from tests.support.plans.scenes import topic


@pytest.fixture
def acl(kafka_acl: DevCluster) -> Iterator[KafkaCluster]:
    """The cluster with ACLs, as a super user."""
    with connect(kafka_acl.bootstrap_servers) as cluster:
        yield cluster


@pytest.fixture
def three(kafka3: DevCluster) -> Iterator[KafkaCluster]:
    with connect(kafka3.bootstrap_servers) as cluster:
        yield cluster


# --- getting through -------------------------------------------------------------------------------


def test_impossible_topic_name_is_absent(real_cluster: KafkaCluster, prefix: str) -> None:
    make_topic(real_cluster, f"{prefix}a", 1, 1)
    impossible = [topic("a b"), topic(".."), topic("x" * 250), topic("ä")]
    observation = real_cluster.observe([*impossible, topic(f"{prefix}a")])
    assert observation.resources.keys() == {topic(f"{prefix}a")}
    assert not observation.invisible


# --- rights ----------------------------------------------------------------------------------------


def test_missing_topic_without_rights_is_unknown(account: Callable[..., Account], prefix: str) -> None:
    missing = topic(f"{prefix}missing")
    assert account().cluster.observe([missing]).invisible.keys() == {missing}
    reader = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:DESCRIBE_CONFIGS").cluster
    observation = reader.observe([missing])
    assert not observation.invisible
    assert not observation.resources


def test_partial_observation_with_few_rights_matches_full(
    account: Callable[..., Account], prefix: str
) -> None:
    owner = account(f"TOPIC:{prefix}*:ALL")
    refs = [topic(f"{prefix}.{name}") for name in ("seen", "unseen", "undescribed", "unread")]
    creates = [CreateTopic(ref, 1, 1, {"retention.ms": "1000"}) for ref in refs]
    assert owner.cluster.execute(creates) == [None] * 4
    few = account(
        f"TOPIC:{refs[0].name}:DESCRIBE",
        f"TOPIC:{refs[0].name}:DESCRIBE_CONFIGS",
        f"TOPIC:{refs[2].name}:DESCRIBE_CONFIGS",
        f"TOPIC:{refs[3].name}:DESCRIBE",
    ).cluster
    whole = eventually(lambda: few.observe(refs), lambda o: o.resources.keys() == {refs[0]})
    assert whole.invisible.keys() == set(refs[1:])
    desired = [Desired(ref, {"partitions": 1, "replicationFactor": 1}) for ref in refs[1:]]
    plan = plan_from(desired, whole, few.facts())
    assert (plan.changes, {*plan.unknown}) == ((), {*refs[1:]}), "what is invisible is not absent"
    observed = few.observe_fields({key: {"config.retention.ms": None} for key in refs})
    assert (observed.resources.keys(), observed.invisible.keys()) == (
        whole.resources.keys(),
        whole.invisible.keys(),
    )
    assert observed.resources[refs[0]].state == whole.resources[refs[0]].state
    # Who asks for no config needs no right to read any.
    observed = few.observe_fields({key: {"partitions": None} for key in refs})
    assert (set(observed.resources), set(observed.invisible)) == ({refs[0], refs[3]}, {refs[1], refs[2]})


def test_defaults_without_broker_rights_are_unknown(account: Callable[..., Account]) -> None:
    found = account("CLUSTER:kafka-cluster:DESCRIBE").cluster.facts()
    assert found.config_defaults == {}
    assert [diagnostic.code for diagnostic in found.diagnostics] == ["KF412"]
    assert found.cluster_id


def test_missing_rights_to_move_replicas_are_named(
    acl: KafkaCluster, account: Callable[..., Account], prefix: str
) -> None:
    a = topic(f"{prefix}a")
    make_topic(acl, a.name, 1, 1)
    partition = (a.name, 0)
    nobody = account("TOPIC:*:DESCRIBE").cluster
    half = account("TOPIC:*:DESCRIBE", "CLUSTER:kafka-cluster:DESCRIBE_CONFIGS").cluster
    assert nobody.layout().reassigning is None
    assert nobody.replica_sizes([partition]) == {}
    outcomes = [nobody.reassign({partition: (1,)})[partition], nobody.elect_leaders([partition])[partition]]
    throttles = Throttles({1: Rates(10**9)})
    replicas = Throttles({}, {a.name: ThrottledReplicas(frozenset({"0:1"}))})
    teller = account("TOPIC:*:DESCRIBE", "TOPIC:*:DESCRIBE_CONFIGS", "CLUSTER:kafka-cluster:DESCRIBE_CONFIGS")
    for send in (
        lambda: nobody.throttles([]),
        lambda: half.throttles([a.name]),
        lambda: nobody.set_throttles(throttles),
        lambda: teller.cluster.set_throttles(replicas),
        lambda: teller.cluster.clear_throttles(replicas),
    ):
        with pytest.raises(PermissionDenied) as denied:
            send()
        outcomes.append(denied.value)
    assert [getattr(outcome, "right", None) for outcome in outcomes] == [
        Right("Alter", "cluster"),
        Right("Alter", "cluster"),
        Right("DescribeConfigs", "cluster"),
        Right("DescribeConfigs", "topic", a.name),
        Right("AlterConfigs", "cluster"),
        Right("AlterConfigs", "topic", a.name),
        Right("AlterConfigs", "topic", a.name),
    ]
    assert all("`kafka-acls " in str(outcome.hint) for outcome in outcomes if outcome is not None)


def test_rights_to_move_replicas_are_enough(
    acl: KafkaCluster, account: Callable[..., Account], prefix: str
) -> None:
    a = topic(f"{prefix}a")
    make_topic(acl, a.name, 1, 1)
    rights = ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER", "ALTER_CONFIGS")
    on_topics = [f"TOPIC:*:{right}" for right in ("DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")]
    mover = account(*on_topics, *[f"CLUSTER:kafka-cluster:{right}" for right in rights]).cluster
    partition = (a.name, 0)
    assert mover.layout().reassigning == {}
    assert mover.replica_sizes([partition]).keys() == {(*partition, 1)}
    throttles = Throttles({1: Rates(10**9)}, {a.name: ThrottledReplicas(frozenset({"0:1"}))})
    mover.set_throttles(throttles)
    assert mover.throttles([a.name]) == throttles
    assert mover.reassign({partition: (1,)}) == {partition: None}
    assert mover.elect_leaders([partition]) == {partition: None}
    mover.clear_throttles(throttles)
    assert not eventually(lambda: mover.throttles([a.name]), lambda found: not found)


# --- replicas --------------------------------------------------------------------------------------


def test_differing_broker_defaults_are_reported(kafka3: DevCluster, three: KafkaCluster) -> None:
    admin = admin_client(kafka3.bootstrap_servers)
    before = three.facts()
    assert before.diagnostics == ()
    assert before.config_defaults["Topic"]
    alter_configs(admin, ResourceType.BROKER, "2", {"log.retention.ms": "1000"})
    try:
        differing = eventually(three.facts, lambda found: found.diagnostics != ())
    finally:
        alter_configs(admin, ResourceType.BROKER, "2", {"log.retention.ms": None})
    (diagnostic,) = differing.diagnostics
    assert diagnostic.code == "KF411"
    assert "retention.ms (broker 1: 604800000, broker 2: 1000, broker 3: 604800000)" in diagnostic.message
    assert differing.config_defaults == before.config_defaults
    eventually(three.facts, lambda found: found == before)


def test_cluster_wide_config_is_default(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    """It is a dynamic config of all brokers, which no broker's file shows."""
    make_topic(real_cluster, f"{prefix}a", 1, 1)
    alter_all_brokers(kafka.bootstrap_servers, "message.max.bytes", "2000000")
    try:
        changed = eventually(
            real_cluster.facts, lambda f: f.config_default("Topic", "max.message.bytes") == "2000000"
        )
        observed = real_cluster.observe([topic(f"{prefix}a")]).resources[topic(f"{prefix}a")]
    finally:
        alter_all_brokers(kafka.bootstrap_servers, "message.max.bytes", None)
    assert changed.diagnostics == ()
    assert observed.effective["config.max.message.bytes"] == "2000000"
    assert "config.max.message.bytes" not in observed.state
    eventually(real_cluster.facts, lambda f: f.config_default("Topic", "max.message.bytes") != "2000000")


def test_stopped_broker_does_not_change_replication_factor(
    kafka3: DevCluster, three: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "BROKER_TIMEOUT_S", 2.0)
    a = topic(f"{prefix}a")
    make_topic(three, a.name, 3, 3)
    (before,) = three.observe([a]).resources.values()
    all_three = three.facts()
    desired = Desired(a, {"partitions": 3, "replicationFactor": 3})
    kafka3.stop_node(3)
    try:
        eventually(lambda: {*three.layout([a.name]).topics[a.name][0].isr}, lambda in_sync: in_sync == {1, 2})
        observation = three.observe([a])
        assert observation.resources == {a: before}
        assert plan_from([desired], observation, all_three).changes == ()
        # Whoever has not noticed yet that it is down goes by what the others say.
        without = three.facts()
        assert without.config_defaults == all_three.config_defaults
        assert [diagnostic.code for diagnostic in without.diagnostics] == ["KF415"]
        with connect(kafka3.bootstrap_servers) as newcomer:
            assert [broker.id for broker in newcomer.facts().brokers] == [1, 2]
            assert newcomer.observe([a]).resources == {a: before}
    finally:
        bring_back(kafka3, 3)


def test_offsets_are_requested_from_new_leaders(kafka3: DevCluster, three: KafkaCluster, prefix: str) -> None:
    """Those of before have moved, each to another broker, since the ends of the logs were read."""
    a = topic(f"{prefix}a")
    places = [(a.name, number) for number in range(3)]
    make_topic(three, a.name, 3, 1, ((1,), (2,), (3,)))
    empty = dict.fromkeys(places, LogSpan(0, 0))
    eventually(lambda: three.log_spans(places), lambda spans: spans == empty)
    with connect(kafka3.bootstrap_servers) as somebody:
        uid = somebody.observe([a]).resources[a].uid
        assert somebody.execute([DeleteTopic(a, uid)]) == [None]
        eventually(lambda: somebody.partition_counts([a.name]), lambda found: not found)
        make_topic(somebody, a.name, 3, 1, ((2,), (3,), (1,)))
    for number in range(3):
        produce(kafka3.bootstrap_servers, a.name, {number: 1}, at_ms=1_000 + number)
    expected = {place: TimedOffset(0, 1_000 + place[1]) for place in places}
    for _ in range(2):  # of those that are known by then, too
        assert three.offsets_at(dict.fromkeys(places, 0)) == expected


def test_topic_not_opened_yet_has_size_0(
    real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For about a second after its creation, log directories lack some of its partitions."""
    ref = topic(f"{prefix}.new")
    assert real_cluster.execute([CreateTopic(ref, 2, 1, {})]) == [None]
    (observed,) = eventually(lambda: real_cluster.observe([ref]).resources.values(), bool)
    send_to_each = Connection.send_to_each

    def count_requests(connection: Connection, *arguments: Any) -> Any:
        answers: Any = send_to_each(connection, *arguments)
        for answer in answers.values():
            for folder in answer["results"]:
                folder["topics"] = []
        return answers

    monkeypatch.setattr(Connection, "send_to_each", count_requests)
    assert real_cluster.sizes([observed]) == {ref: DataSize(0, 2)}
