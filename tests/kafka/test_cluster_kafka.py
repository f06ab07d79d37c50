"""Tests that need a real Kafka: networks, logins, rights, reassignments, and brokers that differ."""

from collections.abc import Iterator, Sequence
from threading import current_thread, main_thread
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from kafkaform.cluster.kafka import facts
from kafkaform.cluster.kafka.acls import read_access
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.responses import TopicResponses
from kafkaform.cluster.kafka.topic_sources import TopicRequests
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import Configs
from kafkaform.core.authorizer import AccessReading
from kafkaform.core.errors import PermissionDenied
from kafkaform.core.health import Health, Part, ThrottleConfigs
from kafkaform.core.model import DataSize, Desired, ResourceRef
from kafkaform.core.partitions import LogSpan, PartitionState, TimedOffset
from kafkaform.core.rights import Right
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.planning import plan_from
from kafkaform.resources.replicas.moves import Rates, ThrottledReplicas, Throttles
from kafkaform.resources.topic.operations import CreateTopic, DeleteTopic
from tests.support.clusters.fixtures import MakeAccount, admin_client, bring_back, connect, eventually
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


def test_impossible_topic_name_is_absent(real_cluster: KafkaCluster, prefix: str) -> None:
    make_topic(real_cluster, f"{prefix}a", 1, 1)
    impossible = [topic("a b"), topic(".."), topic("x" * 250), topic("ä")]
    observation = real_cluster.observe([*impossible, topic(f"{prefix}a")])
    assert observation.resources.keys() == {topic(f"{prefix}a")}
    assert not observation.invisible


def test_missing_topic_without_rights_is_unknown(account: MakeAccount, prefix: str) -> None:
    missing = topic(f"{prefix}missing")
    assert account().cluster.observe([missing]).invisible.keys() == {missing}
    reader = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:DESCRIBE_CONFIGS").cluster
    observation = reader.observe([missing])
    assert not observation.invisible
    assert not observation.resources


def test_partial_observation_with_few_rights_matches_full(account: MakeAccount, prefix: str) -> None:
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


def test_defaults_without_broker_rights_are_unknown(account: MakeAccount) -> None:
    found = account("CLUSTER:kafka-cluster:DESCRIBE").cluster.facts()
    assert found.config_defaults == {}
    assert [diagnostic.code for diagnostic in found.diagnostics] == ["KF412"]
    assert found.cluster_id


def test_missing_rights_to_move_are_named(acl: KafkaCluster, account: MakeAccount, prefix: str) -> None:
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


def test_rights_to_move_replicas_are_enough(acl: KafkaCluster, account: MakeAccount, prefix: str) -> None:
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


def test_cluster_wide_config_is_default(servers: str, real_cluster: KafkaCluster, prefix: str) -> None:
    """It is a dynamic config of all brokers, which no broker's file shows."""
    make_topic(real_cluster, f"{prefix}a", 1, 1)
    alter_all_brokers(servers, "message.max.bytes", "2000000")
    try:
        changed = eventually(
            real_cluster.facts, lambda f: f.config_default("Topic", "max.message.bytes") == "2000000"
        )
        observed = real_cluster.observe([topic(f"{prefix}a")]).resources[topic(f"{prefix}a")]
    finally:
        alter_all_brokers(servers, "message.max.bytes", None)
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


def select_partitions(health: Health, prefix: str) -> list[PartitionState]:
    return [partition for partition in health.partitions if partition.topic.startswith(prefix)]


def test_throttle_rates_of_all_brokers_are_read(servers: str) -> None:
    rate = "leader.replication.throttled.rate"
    with connect(servers) as cluster:
        assert cluster.throttle_configs([]) == ()
        alter_all_brokers(servers, rate, "1000000")
        try:
            found = eventually(lambda: cluster.throttle_configs([]), bool)
        finally:
            alter_all_brokers(servers, rate, None)
        assert found == (ThrottleConfigs("brokers", "", {rate: "1000000"}),)
        eventually(lambda: cluster.throttle_configs([]), lambda left: not left)


def test_health_lists_unauthorized_parts_as_unread(account: MakeAccount, prefix: str) -> None:
    owner = account(f"TOPIC:{prefix}*:ALL").cluster
    make_topic(owner, f"{prefix}a", 1, 1)
    make_topic(owner, f"{prefix}b", 1, 1)

    nothing = account().cluster.health()
    assert nothing.partitions == ()
    assert nothing.unread.keys() == {Part.QUORUM, Part.REASSIGNMENTS, Part.PARTITIONS, Part.LOG_DIRS}
    assert all("not authorised" in why for part, why in nothing.unread.items() if part is not Part.PARTITIONS)

    few = account(f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}a:DESCRIBE_CONFIGS").cluster
    health = eventually(few.health, lambda read: len(select_partitions(read, prefix)) == 2)
    assert health.min_insync_replicas == {f"{prefix}a": 1}
    assert health.unread[Part.MIN_ISR].startswith(f"unknown for 1 topic, such as {prefix}b")
    assert Part.PARTITIONS not in health.unread

    all_of_it = account(
        f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}*:DESCRIBE_CONFIGS", "CLUSTER:kafka-cluster:DESCRIBE"
    ).cluster
    complete = eventually(all_of_it.health, lambda read: len(select_partitions(read, prefix)) == 2)
    assert dict(complete.unread) == {}
    assert complete.quorum is not None


def test_expected_topics_are_read_once(
    servers: str, real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [ResourceRef("Topic", f"{prefix}{number:03}") for number in range(30)]
    creates = [CreateTopic(ref, 1, 1, {"retention.ms": str(n)}) for n, ref in enumerate(refs)]
    assert real_cluster.execute(creates) == [None] * len(refs)
    absent, group = ResourceRef("Topic", f"{prefix}absent"), ResourceRef("ConsumerGroup", f"{prefix}group")
    read = eventually(lambda: real_cluster.observe(refs), lambda seen: seen.resources.keys() == set(refs))
    asked: list[tuple[bool, list[str]]] = []
    plainly = TopicRequests.configs

    def watch(source: TopicRequests, names: Sequence[str]) -> TopicResponses[Configs]:
        asked.append((current_thread() is main_thread(), list(names)))
        return plainly(source, names)

    monkeypatch.setattr(TopicRequests, "configs", watch)
    monkeypatch.setattr("kafkaform.cluster.kafka.prefetch.BATCH", 10)
    with connect(servers) as cluster:
        expect = cluster.prefetch()
        for ref in (*refs[:25], absent, group):
            expect(ref)
        seen = cluster.observe([*refs, absent])
        assert seen.resources == read.resources
        assert {name for main, names in asked if not main for name in names} == {r.name for r in refs[:25]}
        later = [name for main, names in asked if main for name in names]
        assert sorted(later) == sorted(ref.name for ref in (*refs[25:], absent))
        asked.clear()
        assert cluster.observe(refs).resources == read.resources
        assert sorted(name for _, names in asked for name in names) == [ref.name for ref in refs]


def test_acls_are_prefetched_once(kafka_acl: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, second = ResourceRef("Access", "User:nobody"), ResourceRef("Topic", "none")
    early: list[str] = []

    def watch(connection: Connection) -> AccessReading:
        early.append(current_thread().name)
        return read_access(connection)

    monkeypatch.setattr("kafkaform.cluster.kafka.prefetch.read_access", watch)
    with connect(kafka_acl.bootstrap_servers) as cluster:
        expect = cluster.prefetch()
        for expected in (second, ref, ref):
            expect(expected)
        read = cluster.observe([ref])
        assert early == ["kafkaform-prefetch-access"]
        assert read.inventory == cluster.observe([ref]).inventory
        assert len(early) == 1
