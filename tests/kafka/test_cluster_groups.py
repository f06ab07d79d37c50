"""Groups on a real Kafka with real members: what is read of them, and what is done to them."""

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafkaform.cluster.kafka import coordinators, log_spans, offset_writer
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.coordinators import commit as commit_to_coordinator
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.cluster.wire.messages import LIST_OFFSETS
from kafkaform.core.errors import PermissionDenied, RequestRejected
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.core.partitions import LogSpan
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.groups import Group
from tests.support.clusters.contract import carry_out
from tests.support.clusters.fixtures import TIMEOUT_S, MakeAccount, connect, eventually
from tests.support.clusters.group_clients import (
    ConnectWorker,
    ShareMember,
    StreamsMember,
    consumer,
    join_members,
    produce,
)
from tests.support.clusters.topics import make_topic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import group


def refusal(cluster: KafkaCluster, operation: Operation) -> RequestRejected:
    (outcome,) = cluster.execute([operation])
    assert isinstance(outcome, RequestRejected), outcome
    return outcome


def read(cluster: KafkaCluster, name: str) -> Group:
    return cluster.groups([name]).groups[name]


def test_group_using_assign_looks_empty(servers: str, real_cluster: KafkaCluster, prefix: str) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    produce(servers, name, {0: 3})
    client = consumer(servers, name)
    with closing(client):
        client.assign([TopicPartition(name, 0, 0)])
        message = client.poll(TIMEOUT_S)
        assert message is not None
        client.commit(message=message, asynchronous=False)
        reading = read(real_cluster, name)
    assert (reading.state, reading.protocol, reading.members, reading.active) == (
        "Empty",
        "classic",
        (),
        False,
    )
    assert (reading.committed, reading.lag) == ({(name, 0): 1}, 2)


@pytest.mark.parametrize(
    ("protocol", "properties"),
    [
        ("classic", {"session_timeout_ms": 6_000}),
        # The coordinator forgets a static member after its session timeout, of 45 s at the least.
        pytest.param("consumer", {}, marks=pytest.mark.nightly("45 s of waiting")),
    ],
)
def test_never_joined_is_true_until_first_member(
    servers: str, real_cluster: KafkaCluster, prefix: str, protocol: str, properties: dict[str, Any]
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", 3)
    carry_out(real_cluster, CommitInitialOffsets(group(name), {name: "earliest"}))
    assert read(real_cluster, name).never_joined
    static = {"group_instance_id": "static-1", **properties}
    with join_members(servers, name, name, protocol, **static):
        joined = read(real_cluster, name)
    assert not joined.never_joined
    assert [(m.instance_id, m.client_id) for m in joined.members] == [("static-1", "app-0")]
    left = eventually(lambda: read(real_cluster, name), lambda told: not told.members)
    assert (left.state, left.never_joined) == ("Empty", False)


@pytest.mark.parametrize(
    ("protocol", "member_type", "config"),
    [
        ("share", ShareMember, {"share.auto.offset.reset": "earliest"}),
        ("streams", StreamsMember, {"streams.initial.rebalance.delay.ms": "0"}),
    ],
)
def test_share_or_streams_group_is_read_and_deleted(
    servers: str,
    real_cluster: KafkaCluster,
    prefix: str,
    protocol: str,
    member_type: type[ShareMember | StreamsMember],
    config: dict[str, str],
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=2)
    produce(servers, name, {0: 5, 1: 1})
    carry_out(real_cluster, AlterConfigs(group(name), config))
    with closing(member_type(servers, name, name)) as member:
        member.join()

        def look() -> Group:
            member.beat()
            return read(real_cluster, name)

        joined = eventually(look, lambda told: any(m.assignment for m in told.members))
        assert (joined.protocol, joined.protocol_type, joined.coordinator) == (protocol, protocol, 1)
        assert (joined.unread, joined.active) == ("", True)
        assert [(m.id, m.instance_id, m.host) for m in joined.members] == [(member.id, None, "127.0.0.1")]
        assert joined.members[0].assignment == {(name, 0), (name, 1)}
        assert {(p.topic, p.partition, p.end) for p in joined.positions} == {(name, 0, 5), (name, 1, 1)}
        if protocol == "share":
            assert (joined.assignor, joined.state) == ("simple", "Stable")
        else:
            assert {p.committed for p in joined.positions} == {None}
        for operation in (ResetOffsets(group(name), {(name, 0): 0}), DeleteGroup(group(name))):
            assert refusal(real_cluster, operation).code == "NON_EMPTY_GROUP"
    left = eventually(lambda: read(real_cluster, name), lambda told: not told.members)
    assert (left.state, left.active) == ("Empty", False)
    carry_out(real_cluster, DeleteGroup(group(name), configs=(*config,)))
    eventually(lambda: real_cluster.observe([group(name)]).resources, lambda found: not found)


def test_connect_group_is_read(servers: str, real_cluster: KafkaCluster, prefix: str) -> None:
    """librdkafka refuses to describe the groups of Kafka Connect."""
    with closing(ConnectWorker(servers, f"{prefix}connect", prefix)) as worker:
        worker.join()
        reading = read(real_cluster, worker.group)
    assert (reading.protocol, reading.protocol_type, reading.unread) == ("classic", "connect", "")
    assert [member.id for member in reading.members] == [worker.id]
    assert reading.active


def test_initial_offsets_suit_streams_group_but_not_share_group(
    servers: str, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    produce(servers, name, {0: 5})
    groups = {kind: f"{prefix}{kind}" for kind in ("share", "streams")}
    for each in groups.values():
        carry_out(real_cluster, CommitInitialOffsets(group(each), {name: "latest"}))
    with closing(StreamsMember(servers, groups["streams"], name)) as member:
        member.join()
        reading = read(real_cluster, groups["streams"])
        assert (reading.protocol, reading.committed) == ("streams", {(name, 0): 5})
    share = ShareMember(servers, groups["share"], name)
    assert share.beat()[0] != 0
    assert read(real_cluster, groups["share"]).protocol == "classic"
    share.close()


@pytest.fixture
def unsettle(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, tuple[int, int]]], None]:
    """Have brokers answer some requests as they do about a topic that is very new.

    It takes, by group or `topic:partition`, the code that is answered, and how often.
    """

    def begin(refused: dict[str, tuple[int, int]]) -> None:
        send_to_nodes = Connection.send_to_nodes

        def send_and_record(connection: Connection, request_type: RequestType[Any], *arguments: Any) -> Any:
            answers: Any = send_to_nodes(connection, request_type, *arguments)
            if request_type is LIST_OFFSETS:
                for answer in itertools.chain.from_iterable(answers.values()):
                    for topic in answer["topics"]:
                        for partition in topic["partitions"]:
                            subject = f"{topic['name']}:{partition['index']}"
                            code, left = refused.get(subject, (0, 0))
                            if left:
                                refused[subject] = (code, left - 1)
                                partition["error_code"] = code
            return answers

        monkeypatch.setattr(Connection, "send_to_nodes", send_and_record)
        monkeypatch.setattr(log_spans, "LEADER_TIMEOUT_S", 0.3)

        def commit_and_fail(
            connection: Connection, name: str, offsets: dict[Any, int], timeout_s: float
        ) -> Any:
            code, left = refused.get(name, (0, 0))
            if not left:
                return commit_to_coordinator(connection, name, offsets, timeout_s)
            refused[name] = (code, left - 1)
            return dict.fromkeys(offsets, translate_code(code, ""))

        monkeypatch.setattr(coordinators, "commit", commit_and_fail)

    return begin


def test_unready_leaders_are_retried(
    real_cluster: KafkaCluster, prefix: str, unsettle: Callable[[dict[str, tuple[int, int]]], None]
) -> None:
    """And a coordinator. Each look at a log is two requests, for start and end: 9 refusals are five looks."""
    codes = [
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PART,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ]
    name = make_topic(real_cluster, f"{prefix}a", partitions=6)
    names = [f"{prefix}{which}" for which in ("first", "second", "third")]
    refused = {f"{name}:{number}": (code, 5 + number) for number, code in enumerate(codes)}
    unsettle({**refused, names[1]: (codes[0], 2), names[2]: (ErrorCode.NETWORK_EXCEPTION, 2)})
    starts = zip(names, ("earliest", "latest", "earliest"), strict=True)
    carry_out(real_cluster, *(CommitInitialOffsets(group(each), {name: start}) for each, start in starts))
    groups = real_cluster.groups(names).groups
    assert [len(message.committed) for message in groups.values()] == [6] * 3


def test_failing_partition_does_not_stop_other_groups(
    real_cluster: KafkaCluster,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    unsettle: Callable[[dict[str, tuple[int, int]]], None],
) -> None:
    monkeypatch.setattr(offset_writer, "SETTLE_TIMEOUT_S", 0.3)
    names = [make_topic(real_cluster, f"{prefix}{letter}", partitions=3) for letter in "ab"]
    unsettle(
        {
            f"{names[0]}:1": (ErrorCode.UNKNOWN_LEADER_EPOCH, 1_000),
            f"{names[1]}:2": (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, 1_000),
            f"{prefix}refused": (ErrorCode.UNKNOWN, 1_000),
        }
    )
    half, refused, whole = real_cluster.execute(
        [
            CommitInitialOffsets(group(f"{prefix}half"), dict.fromkeys(names, "earliest")),
            CommitInitialOffsets(group(f"{prefix}refused"), {names[0]: "earliest"}),
            CommitInitialOffsets(
                group(f"{prefix}whole"), {make_topic(real_cluster, f"{prefix}c", 3): "latest"}
            ),
        ]
    )
    assert isinstance(half, RequestRejected)
    assert half.is_partial
    assert f"{names[0]}:1: Broker: Leader epoch is newer" in half.message
    assert f"{names[1]}:2: " in half.message
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT" in half.message
    assert isinstance(refused, RequestRejected)
    assert refused.code == "UNKNOWN"
    assert not refused.is_partial
    assert whole is None
    groups = real_cluster.groups([f"{prefix}half", f"{prefix}refused", f"{prefix}whole"]).groups
    assert {name.removeprefix(prefix): len(message.committed) for name, message in groups.items()} == {
        "half": 4,
        "whole": 3,
    }


@pytest.mark.nightly("a broker is restarted")
def test_groups_are_read_during_coordinator_restart(kafka3: DevCluster, prefix: str) -> None:
    """Twelve groups on three coordinators, one of which stops and comes back while they are asked."""
    restarted: list[None] = []

    def restart() -> None:
        kafka3.stop_node(3)
        kafka3.start_node(3)
        restarted.append(None)

    with connect(kafka3.bootstrap_servers) as cluster:
        name = make_topic(cluster, f"{prefix}a", 2, 3)
        groups = [f"{prefix}{number}" for number in range(12)]
        carry_out(cluster, *(CommitInitialOffsets(group(each), {name: "earliest"}) for each in groups))
        # A new coordinator shows the commits of the last 0.5 s only once replicas have fetched from it.
        time.sleep(1)
        restarting = threading.Thread(target=restart)
        restarting.start()
        readings = 0
        while restarting.is_alive() or readings == 0:
            reading = cluster.groups(groups)
            assert not reading.denied
            assert {*reading.groups} == {*groups}
            assert {len(each.committed) for each in reading.groups.values()} == {2}, reading.groups
            carry_out(cluster, *(ResetOffsets(group(each), {(name, 0): 0}) for each in groups))
            readings += 1
        restarting.join()
        assert restarted


def test_partitions_without_right_are_named(kafka_acl: DevCluster, account: MakeAccount, prefix: str) -> None:
    """The request succeeds; single partitions of it do not."""
    names = [f"{prefix}{letter}" for letter in "ab"]
    with connect(kafka_acl.bootstrap_servers) as owner:
        for name in names:
            make_topic(owner, name, partitions=2)
        few = account(f"TOPIC:{names[0]}:READ", f"TOPIC:{names[1]}:DESCRIBE", f"GROUP:{prefix}*:READ").cluster
        (outcome,) = few.execute([CommitInitialOffsets(group(prefix), dict.fromkeys(names, "earliest"))])
        assert isinstance(outcome, PermissionDenied)
        assert f"{names[1]}:0, {names[1]}:1" in outcome.message
        assert names[0] not in outcome.message
        assert read(owner, prefix).committed == {(names[0], 0): 0, (names[0], 1): 0}


def test_fake_config_defaults_match_broker(kafka_acl: DevCluster) -> None:
    with connect(kafka_acl.bootstrap_servers) as cluster:
        assert cluster.facts().config_defaults == MemoryCluster().facts().config_defaults  # of every kind


def test_unauthorized_groups_are_invisible(kafka_acl: DevCluster, account: MakeAccount, prefix: str) -> None:
    names = [f"{prefix}{part}" for part in ("seen", "unread", "denied", "absent")]
    with connect(kafka_acl.bootstrap_servers) as owner:
        make_topic(owner, prefix, partitions=1)
        carry_out(owner, *(CommitInitialOffsets(group(name), {prefix: "earliest"}) for name in names[:3]))
    few = account(
        *(
            f"GROUP:{name}:{right}"
            for name in (names[0], names[3])
            for right in ("DESCRIBE", "DESCRIBE_CONFIGS")
        ),
        f"GROUP:{names[1]}:DESCRIBE",
        f"TOPIC:{prefix}:DESCRIBE",
    ).cluster
    reading = few.groups(names)
    assert reading.groups.keys() == set(names[:2])
    assert reading.denied.keys() == {names[2]}
    assert reading.groups[names[0]].lag == 0
    assert few.groups().groups.keys() == set(names[:2])

    seen = few.observe([group(name) for name in names])
    assert {ref.name for ref in seen.resources} == {names[0]}
    assert {ref.name for ref in seen.invisible} == {names[1], names[2]}
    assert all("not authorised" in why for why in seen.invisible.values())
    assert [note.code for note in seen.diagnostics] == ["KF421"]  # it may not list configs


def test_group_with_hidden_topic_is_read(kafka_acl: DevCluster, account: MakeAccount, prefix: str) -> None:
    with connect(kafka_acl.bootstrap_servers) as owner:
        for letter in "ab":
            make_topic(owner, f"{prefix}{letter}", partitions=1)
        carry_out(
            owner, CommitInitialOffsets(group(prefix), {f"{prefix}{letter}": "latest" for letter in "ab"})
        )
        few = account(f"GROUP:{prefix}:DESCRIBE", f"TOPIC:{prefix}a:DESCRIBE").cluster
        assert few.log_spans([(f"{prefix}{letter}", 0) for letter in "ab"]) == {
            (f"{prefix}a", 0): LogSpan(0, 0)
        }
        reading = read(few, prefix)
        assert {p.topic for p in reading.positions} >= {f"{prefix}a"}
        assert reading.lag == 0


def test_groups_are_read_from_their_coordinators(kafka3: DevCluster, prefix: str) -> None:
    with connect(kafka3.bootstrap_servers) as cluster, ExitStack() as stack:
        name = make_topic(cluster, f"{prefix}a", partitions=3)
        names = [f"{prefix}{number}" for number in range(12)]
        carry_out(cluster, *(CommitInitialOffsets(group(each), {name: "latest"}) for each in names))
        shares = [f"{prefix}share{number}" for number in range(6)]
        for each in shares:
            member = stack.enter_context(closing(ShareMember(kafka3.bootstrap_servers, each, name)))
            member.join()
        groups = cluster.groups().groups
        assert {*names, *shares} <= groups.keys()
        assert len({groups[each].coordinator for each in names}) > 1
        assert len({groups[each].coordinator for each in shares}) > 1
        assert all(len(groups[each].members) == 1 for each in shares)
        assert all(groups[each].lag == 0 for each in names)
        carry_out(cluster, *(DeleteGroup(group(each)) for each in names))
        assert not cluster.groups(names).groups
