"""Groups on a real Kafka with real members: what is read of them, and what is done to them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from kafkaform.cluster.kafka import coordinators, log_spans, offset_writer
from kafkaform.cluster.kafka.answers import GroupAnswers
from kafkaform.cluster.kafka.answers import settled as settled_answers
from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.kafka.coordinators import commit as commit_to_coordinator
from kafkaform.cluster.testing.memory import MemoryCluster
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.cluster.wire.messages import LIST_OFFSETS
from kafkaform.config.client_properties.transport import TransportSettings
from kafkaform.core import kafka_configs
from kafkaform.core.errors import KafkaformError, PermissionDenied, RequestRejected
from kafkaform.core.groups import Group, LogSpan
from kafkaform.core.lock import NAME
from kafkaform.core.model import ResourceRef
from kafkaform.core.offset_spec import AtTime
from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CommitInitialOffsets,
    CreateTopic,
    DeleteGroup,
    Operation,
    ResetOffsets,
)
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.consumer_group import group_of
from tests.support.group_clients import (
    ConnectWorker,
    ShareMember,
    StreamsMember,
    commit,
    consumer,
    produce,
    running,
)
from tests.support.kafka_fixtures import TIMEOUT_S, Account, admin_client, connect, eventually
from tests.support.lock_process import ALICE, hold

PROTOCOLS = ["classic", "consumer"]
HOUR_MS = 3_600_000


def group(name: str) -> ResourceRef:
    return ResourceRef("ConsumerGroup", name)


def topic(name: str) -> ResourceRef:
    return ResourceRef("Topic", name)


def make_topic(cluster: KafkaCluster, name: str, partitions: int = 3, **configs: str) -> str:
    operation = CreateTopic(topic(name), partitions, 1, {k.replace("_", "."): v for k, v in configs.items()})
    assert cluster.execute([operation]) == [None]
    eventually(lambda: cluster.partition_counts([name]), lambda counts: counts == {name: partitions})
    return name


def do(cluster: KafkaCluster, *operations: Operation) -> None:
    assert cluster.execute(operations) == [None] * len(operations)


def refusal(cluster: KafkaCluster, operation: Operation) -> RequestRejected:
    (outcome,) = cluster.execute([operation])
    assert isinstance(outcome, RequestRejected), outcome
    return outcome


def read(cluster: KafkaCluster, name: str) -> Group:
    return cluster.groups([name]).groups[name]


def settled(cluster: KafkaCluster, name: str, members: int) -> Group:
    """The group once it has so many members and their partitions are handed out."""

    def wanted(groups: dict[str, Group]) -> bool:
        told = groups.get(name)
        return told is not None and told.state == "Stable" and len(told.members) == members

    return eventually(lambda: dict(cluster.groups([name]).groups), wanted)[name]


def handed_out(cluster: KafkaCluster, name: str, members: int, partitions: int) -> Group:
    """The group once every partition has its member."""

    def wanted(told: Group) -> bool:
        return len(told.members) == members and sum(len(m.assignment) for m in told.members) == partitions

    settled(cluster, name, members)
    return eventually(lambda: read(cluster, name), wanted)


def cut_log(kafka: DevCluster, name: str, partition: int, *, below: int) -> None:
    admin = admin_client(kafka.bootstrap_servers)
    for future in admin.delete_records([TopicPartition(name, partition, below)]).values():
        future.result(TIMEOUT_S)


# --- members and lag -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_more_members_than_partitions_shows_the_idle_ones(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, protocol: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=2)
    options = {"client_id": "reader", "auto_offset_reset": "earliest"}
    with running(
        kafka.bootstrap_servers, name, [name], protocol, members=3, instance_ids=["static-1"], **options
    ):
        told = handed_out(real_cluster, name, members=3, partitions=2)
    assert (told.protocol, told.protocol_type, told.coordinator) == (protocol, "consumer", 1)
    assert told.assignor == {"classic": "range", "consumer": "uniform"}[protocol]
    assert len(told.idle_members) == 1
    assert {p for member in told.members for p in member.assignment} == {(name, 0), (name, 1)}
    assert sorted(member.instance_id or "" for member in told.members) == ["", "", "static-1"]
    assert {(m.client_id, m.host) for m in told.members} == {("reader", "127.0.0.1")}
    assert told.active
    assert told.unread == ""
    # What is assigned is shown, committed or not.
    assert [(p.partition, p.committed, p.end, p.lag) for p in told.positions] == [
        (0, None, 0, None),
        (1, None, 0, None),
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lag_is_right_to_the_record(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, protocol: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    produce(kafka.bootstrap_servers, name, {0: 7, 1: 11})
    client = consumer(kafka.bootstrap_servers, name, protocol, auto_offset_reset="earliest")
    with closing(client):
        client.subscribe([name])
        read_so_far: list[int] = []
        while len(read_so_far) < 5:
            message = client.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            read_so_far.append(int(message.partition() or 0))
            client.commit(message=message, asynchronous=False)
        produce(kafka.bootstrap_servers, name, {1: 4, 2: 2})
        told = read(real_cluster, name)
    ends = {0: 7, 1: 15, 2: 2}
    assert {p.partition: (p.start, p.end) for p in told.positions} == {n: (0, ends[n]) for n in ends}
    for position in told.positions:
        done = read_so_far.count(position.partition)
        assert position.committed == (done or None)
        assert position.lag == (ends[position.partition] - done if done else None)
    assert told.lag == sum(ends[n] for n in set(read_so_far)) - 5


def test_lag_does_not_go_below_zero_where_the_log_was_cut(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    commit(kafka.bootstrap_servers, name, {(name, 0): 50})  # brokers take it: the log is empty
    told = read(real_cluster, name)
    assert [(p.committed, p.end, p.lag) for p in told.positions] == [(50, 0, 0)]


def test_a_consumer_that_assigns_its_partitions_itself_looks_empty(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    produce(kafka.bootstrap_servers, name, {0: 3})
    client = consumer(kafka.bootstrap_servers, name)
    with closing(client):
        client.assign([TopicPartition(name, 0, 0)])
        message = client.poll(TIMEOUT_S)
        assert message is not None
        client.commit(message=message, asynchronous=False)
        told = read(real_cluster, name)
    assert (told.state, told.protocol, told.members, told.active) == ("Empty", "classic", (), False)
    assert (told.committed, told.lag) == ({(name, 0): 1}, 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_that_no_member_ever_joined_is_known(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, protocol: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    do(real_cluster, CommitInitialOffsets(group(name), {name: "earliest"}))
    assert read(real_cluster, name).never_joined
    with running(kafka.bootstrap_servers, name, [name], protocol):
        assert not settled(real_cluster, name, members=1).never_joined
    left = eventually(lambda: read(real_cluster, name), lambda told: not told.members)
    assert (left.state, left.never_joined) == ("Empty", False)


def test_a_group_that_does_not_exist_is_not_in_the_answer(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    reading = real_cluster.groups([f"{prefix}nobody", ""])
    assert (reading.groups, reading.denied) == ({}, {})
    name = make_topic(real_cluster, f"{prefix}a")
    commit(kafka.bootstrap_servers, name, {(name, 0): 0})
    assert name in real_cluster.groups().groups
    do(real_cluster, DeleteGroup(group(name)))
    assert real_cluster.groups([name]).groups == {}
    assert name not in real_cluster.groups().groups


# --- kinds of groups that no client of Python can describe -----------------------------------------


def test_a_share_group(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=2)
    produce(kafka.bootstrap_servers, name, {0: 5, 1: 1})
    do(real_cluster, AlterConfigs(group(name), {"share.auto.offset.reset": "earliest"}))
    with closing(ShareMember(kafka.bootstrap_servers, name, name)) as member:
        member.join()

        def look() -> Group:
            member.beat()
            return read(real_cluster, name)

        told = eventually(look, lambda told: any(m.assignment for m in told.members))
        assert (told.protocol, told.protocol_type, told.state) == ("share", "share", "Stable")
        assert (told.assignor, told.coordinator, told.unread) == ("simple", 1, "")
        assert [(m.id, m.instance_id, m.host) for m in told.members] == [(member.id, None, "127.0.0.1")]
        assert told.members[0].assignment == {(name, 0), (name, 1)}
        assert {(p.topic, p.partition, p.end) for p in told.positions} == {(name, 0, 5), (name, 1, 1)}
        assert told.active
        outcome = refusal(real_cluster, ResetOffsets(group(name), {(name, 0): 0}))
        assert outcome.code == "NON_EMPTY_GROUP"
        assert refusal(real_cluster, DeleteGroup(group(name))).code == "NON_EMPTY_GROUP"
    told = eventually(lambda: read(real_cluster, name), lambda told: not told.members)
    assert (told.state, told.active) == ("Empty", False)
    do(real_cluster, DeleteGroup(group(name), configs=("share.auto.offset.reset",)))
    eventually(lambda: real_cluster.observe([group(name)]).resources, lambda found: not found)


def test_a_streams_group(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=2)
    produce(kafka.bootstrap_servers, name, {0: 5})
    do(real_cluster, AlterConfigs(group(name), {"streams.initial.rebalance.delay.ms": "0"}))
    with closing(StreamsMember(kafka.bootstrap_servers, name, name)) as member:
        member.join()

        def look() -> Group:
            member.beat()
            return read(real_cluster, name)

        told = eventually(look, lambda told: any(m.assignment for m in told.members))
        assert (told.protocol, told.protocol_type, told.coordinator) == ("streams", "streams", 1)
        assert told.unread == ""
        assert [(m.id, m.instance_id, m.host) for m in told.members] == [(member.id, None, "127.0.0.1")]
        assert told.members[0].assignment == {(name, 0), (name, 1)}
        assert {(p.partition, p.committed, p.end) for p in told.positions} == {(0, None, 5), (1, None, 0)}
        assert refusal(real_cluster, DeleteGroup(group(name))).code == "NON_EMPTY_GROUP"
    eventually(lambda: read(real_cluster, name), lambda told: not told.members)
    do(real_cluster, DeleteGroup(group(name)))


def test_a_classic_group_whose_members_are_no_consumers(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    """librdkafka refuses to describe the groups of Kafka Connect."""
    with closing(ConnectWorker(kafka.bootstrap_servers, f"{prefix}connect", prefix)) as worker:
        worker.join()
        told = read(real_cluster, worker.group)
    assert (told.protocol, told.protocol_type, told.unread) == ("classic", "connect", "")
    assert [member.id for member in told.members] == [worker.id]
    assert told.active


def test_whether_a_group_of_each_kind_can_start_from_offsets_committed_beforehand(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    produce(kafka.bootstrap_servers, name, {0: 5})
    groups = {kind: f"{prefix}{kind}" for kind in ("share", "streams")}
    for each in groups.values():
        do(real_cluster, CommitInitialOffsets(group(each), {name: "latest"}))
    with closing(StreamsMember(kafka.bootstrap_servers, groups["streams"], name)) as member:
        member.join()
        told = read(real_cluster, groups["streams"])
        assert (told.protocol, told.committed) == ("streams", {(name, 0): 5})
    share = ShareMember(kafka.bootstrap_servers, groups["share"], name)
    assert share.beat()[0] != 0
    assert read(real_cluster, groups["share"]).protocol == "classic"
    share.close()


# --- first offsets ---------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_real_consumer_starts_exactly_where_the_first_offsets_are(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, protocol: str
) -> None:
    now_ms = time.time_ns() // 1_000_000
    old_ms = now_ms - 3 * HOUR_MS
    spec_of = {
        make_topic(real_cluster, f"{prefix}{number}", partitions=1): spec
        for number, spec in enumerate(["earliest", "latest", "2h ago", str(AtTime(now_ms)), "0s ago"])
    }
    for name in spec_of:
        produce(kafka.bootstrap_servers, name, {0: 4}, at_ms=old_ms)
        produce(kafka.bootstrap_servers, name, {0: 6}, at_ms=now_ms)
    do(real_cluster, CommitInitialOffsets(group(prefix), spec_of))
    told = read(real_cluster, prefix)
    wanted = dict(zip([(name, 0) for name in spec_of], [0, 10, 4, 4, 10], strict=True))
    assert told.committed == wanted
    assert (told.state, told.active) == ("Empty", False)

    with running(kafka.bootstrap_servers, prefix, list(spec_of), protocol) as (member,):
        settled(real_cluster, prefix, members=1)
        for name in spec_of:
            produce(kafka.bootstrap_servers, name, {0: 1})
        eventually(lambda: len(member.records), lambda count: count == 5 * 11 - sum(wanted.values()))
        assert member.firsts() == wanted
        assert read(real_cluster, prefix).protocol == protocol


def test_first_offsets_are_inside_the_log_and_no_offset_is_moved(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    produce(kafka.bootstrap_servers, name, {0: 9, 1: 9, 2: 9})
    cut_log(kafka, name, 0, below=4)
    commit(kafka.bootstrap_servers, prefix, {(name, 1): 7})
    do(real_cluster, CommitInitialOffsets(group(prefix), {name: "earliest"}))
    assert read(real_cluster, prefix).committed == {(name, 0): 4, (name, 1): 7, (name, 2): 0}
    # Once more: there is nothing left to do.
    do(real_cluster, CommitInitialOffsets(group(prefix), {name: "latest"}))
    assert read(real_cluster, prefix).committed == {(name, 0): 4, (name, 1): 7, (name, 2): 0}


def test_partitions_that_were_added_get_their_first_offset_later(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    commit(kafka.bootstrap_servers, prefix, {(name, 0): 0})
    do(real_cluster, AddPartitions(topic(name), 1, 2))
    eventually(lambda: real_cluster.partition_counts([name])[name], lambda count: count == 2)
    do(real_cluster, CommitInitialOffsets(group(prefix), {name: "latest"}))
    assert read(real_cluster, prefix).committed == {(name, 0): 0, (name, 1): 0}


def test_a_topic_that_was_just_created_is_waited_for(real_cluster: KafkaCluster, prefix: str) -> None:
    names = [f"{prefix}{number}" for number in range(20)]
    do(real_cluster, *(CreateTopic(topic(name), 2, 1, {}) for name in names))
    do(real_cluster, *(CommitInitialOffsets(group(name), {name: "earliest"}) for name in names))
    assert {len(told.committed) for told in real_cluster.groups(names).groups.values()} == {2}


def test_first_offsets_in_a_topic_that_does_not_exist_are_refused(
    real_cluster: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_writer, "SETTLE_TIMEOUT_S", 0.3)
    name = make_topic(real_cluster, f"{prefix}a")
    outcome = refusal(
        real_cluster, CommitInitialOffsets(group(prefix), {f"{prefix}typo": "earliest", name: "latest"})
    )
    assert outcome.code == "UNKNOWN_TOPIC_OR_PART"
    assert f"{prefix}typo" in outcome.message
    assert real_cluster.groups([prefix]).groups == {}
    assert real_cluster.partition_counts([f"{prefix}typo"]) == {}  # and nothing was created by asking


@pytest.fixture
def unsettle(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, tuple[int, int]]], None]:
    """Have brokers answer some requests as they do about a topic that is very new.

    It takes, by group or `topic:partition`, the code that is answered, and how often.
    """

    def begin(refused: dict[str, tuple[int, int]]) -> None:
        ask_nodes = Connection.ask_nodes

        def asked(connection: Connection, request_type: RequestType[Any], *arguments: Any) -> Any:
            answers: Any = ask_nodes(connection, request_type, *arguments)
            if request_type is LIST_OFFSETS:
                told = [answer for of_node in answers.values() for answer in of_node]
                for topic in itertools.chain.from_iterable(answer["topics"] for answer in told):
                    for partition in topic["partitions"]:
                        subject = f"{topic['name']}:{partition['index']}"
                        code, left = refused.get(subject, (0, 0))
                        if left:
                            refused[subject] = (code, left - 1)
                            partition["error_code"] = code
            return answers

        monkeypatch.setattr(Connection, "ask_nodes", asked)
        monkeypatch.setattr(log_spans, "LEADER_TIMEOUT_S", 0.3)

        def committed(connection: Connection, name: str, offsets: dict[Any, int], timeout_s: float) -> Any:
            code, left = refused.get(name, (0, 0))
            if not left:
                return commit_to_coordinator(connection, name, offsets, timeout_s)
            refused[name] = (code, left - 1)
            return dict.fromkeys(offsets, translate_code(code, ""))

        monkeypatch.setattr(coordinators, "commit", committed)

    return begin


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
)
def test_a_partition_whose_leader_is_not_ready_is_asked_again(
    real_cluster: KafkaCluster,
    prefix: str,
    code: int,
    unsettle: Callable[[dict[str, tuple[int, int]]], None],
) -> None:
    """Each look at a log is two requests, for its start and its end: 9 refusals take five looks."""
    name = make_topic(real_cluster, f"{prefix}a", partitions=4)
    unsettle({f"{name}:1": (code, 9), f"{name}:2": (code, 5), f"{prefix}second": (code, 2)})
    do(
        real_cluster,
        CommitInitialOffsets(group(f"{prefix}first"), {name: "earliest"}),
        CommitInitialOffsets(group(f"{prefix}second"), {name: "latest"}),
    )
    groups = real_cluster.groups([f"{prefix}first", f"{prefix}second"]).groups
    assert [len(told.committed) for told in groups.values()] == [4, 4]


def test_a_coordinator_that_cannot_be_reached_is_asked_again(
    real_cluster: KafkaCluster, prefix: str, unsettle: Callable[[dict[str, tuple[int, int]]], None]
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    unsettle({prefix: (KafkaError._TRANSPORT, 2)})
    do(real_cluster, CommitInitialOffsets(group(prefix), {name: "earliest"}))
    assert len(read(real_cluster, prefix).committed) == 3


def test_what_one_partition_and_one_group_fail_by_stops_no_other(
    real_cluster: KafkaCluster,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    unsettle: Callable[[dict[str, tuple[int, int]]], None],
) -> None:
    monkeypatch.setattr(offset_writer, "SETTLE_TIMEOUT_S", 0.3)
    names = [make_topic(real_cluster, f"{prefix}{letter}", partitions=3) for letter in "ab"]
    unsettle(
        {
            f"{names[0]}:1": (KafkaError.UNKNOWN_LEADER_EPOCH, 1_000),
            f"{names[1]}:2": (KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT, 1_000),
            f"{prefix}refused": (KafkaError._FAIL, 1_000),
        }
    )
    half, refused, whole = real_cluster.execute(
        [
            CommitInitialOffsets(group(f"{prefix}half"), dict.fromkeys(names, "earliest")),
            CommitInitialOffsets(group(f"{prefix}refused"), {names[0]: "earliest"}),
            CommitInitialOffsets(group(f"{prefix}whole"), {make_topic(real_cluster, f"{prefix}c"): "latest"}),
        ]
    )
    assert isinstance(half, RequestRejected)
    assert half.in_part
    assert f"{names[0]}:1: Broker: Leader epoch is newer" in half.message
    assert f"{names[1]}:2: " in half.message
    assert "UNSUPPORTED_FOR_MESSAGE_FORMAT" in half.message
    assert isinstance(refused, RequestRejected)
    assert refused.code == "_FAIL"
    assert not refused.in_part
    assert whole is None
    groups = real_cluster.groups([f"{prefix}half", f"{prefix}refused", f"{prefix}whole"]).groups
    assert {name.removeprefix(prefix): len(told.committed) for name, told in groups.items()} == {
        "half": 4,
        "whole": 3,
    }


def test_a_reset_of_a_partition_that_cannot_be_read_says_why(
    real_cluster: KafkaCluster,
    prefix: str,
    unsettle: Callable[[dict[str, tuple[int, int]]], None],
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    unsettle({f"{name}:1": (KafkaError.UNKNOWN_LEADER_EPOCH, 1_000)})
    outcome = refusal(real_cluster, ResetOffsets(group(prefix), {(name, 0): 0, (name, 1): 0}))
    assert outcome.code == "UNKNOWN_LEADER_EPOCH"
    assert f"{name}:1: Broker: Leader epoch is newer" in outcome.message
    assert real_cluster.groups([prefix]).groups == {}


def test_groups_are_read_and_reset_while_their_coordinator_restarts(kafka3: DevCluster, prefix: str) -> None:
    """Twelve groups on three coordinators, one of which stops and comes back while they are asked."""
    restarted: list[None] = []

    def restart() -> None:
        kafka3.stop_node(3)
        kafka3.start_node(3)
        restarted.append(None)

    with connect(kafka3.bootstrap_servers) as cluster:
        name = f"{prefix}a"
        assert cluster.execute([CreateTopic(topic(name), 2, 3, {})]) == [None]
        groups = [f"{prefix}{number}" for number in range(12)]
        do(cluster, *(CommitInitialOffsets(group(each), {name: "earliest"}) for each in groups))
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
            do(cluster, *(ResetOffsets(group(each), {(name, 0): 0}) for each in groups))
            readings += 1
        restarting.join()
        assert restarted


# --- resets ----------------------------------------------------------------------------------------


def test_a_reset_moves_exactly_what_it_says(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    produce(kafka.bootstrap_servers, name, {0: 9, 1: 9, 2: 9})
    commit(kafka.bootstrap_servers, prefix, {(name, 0): 5, (name, 1): 5, (name, 2): 5})
    do(real_cluster, ResetOffsets(group(prefix), {(name, 0): 0, (name, 1): 9}))
    assert read(real_cluster, prefix).committed == {(name, 0): 0, (name, 1): 9, (name, 2): 5}
    with running(kafka.bootstrap_servers, prefix, [name]) as (member,):
        eventually(lambda: len(member.records), lambda count: count == 9 + 0 + 4)
        assert member.firsts() == {(name, 0): 0, (name, 2): 5}


def test_a_reset_outside_of_the_log_moves_nothing(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    produce(kafka.bootstrap_servers, name, {0: 9, 1: 9})
    cut_log(kafka, name, 0, below=4)
    commit(kafka.bootstrap_servers, prefix, {(name, 0): 5, (name, 1): 5})
    wanted = {(name, 0): 3, (name, 1): 8, (name, 2): 1, (f"{prefix}gone", 0): 0}
    outcome = refusal(real_cluster, ResetOffsets(group(prefix), wanted))
    assert outcome.code == "OFFSET_OUT_OF_RANGE"
    assert f"3 is outside of {name}:0, which has 4 to 9" in outcome.message
    assert f"1 is outside of {name}:2, which has 0 to 0" in outcome.message
    assert f"{prefix}gone:0 is not known" in outcome.message
    assert f"{name}:1" not in outcome.message
    assert read(real_cluster, prefix).committed == {(name, 0): 5, (name, 1): 5}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_is_done_to_a_group_that_has_members(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str, protocol: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    produce(kafka.bootstrap_servers, name, {0: 9})
    with running(kafka.bootstrap_servers, prefix, [name], protocol, auto_offset_reset="earliest"):
        settled(real_cluster, prefix, members=1)
        operations: list[Operation] = [
            CommitInitialOffsets(group(prefix), {name: "earliest"}),
            ResetOffsets(group(prefix), {(name, 0): 0}),
            DeleteGroup(group(prefix), configs=("consumer.session.timeout.ms",)),
        ]
        assert real_cluster.validate(operations) == [None] * 3
        do(real_cluster, AlterConfigs(group(prefix), {"consumer.session.timeout.ms": "50000"}))
        for operation in operations:
            outcome = refusal(real_cluster, operation)
            assert (outcome.code, outcome.hint) == (
                "NON_EMPTY_GROUP",
                "stop the members of the group first",
            )
        observed = eventually(
            lambda: real_cluster.observe([group(prefix)]).resources[group(prefix)].state, bool
        )
        assert observed == {"config.consumer.session.timeout.ms": "50000"}


def test_partitions_that_may_not_be_committed_to_are_named(
    kafka_acl: DevCluster, account: Callable[..., Account], prefix: str
) -> None:
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


# --- configs, and groups as resources --------------------------------------------------------------


def test_a_topic_and_a_group_of_one_name_keep_their_answers_apart(
    real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    bad = AlterConfigs(group(name), {"consumer.session.timeout.ms": "1"})
    good = AlterConfigs(topic(name), {"retention.ms": "3600000"})
    for answers in (real_cluster.validate([bad, good]), real_cluster.execute([good, bad])[::-1]):
        assert isinstance(answers[0], RequestRejected)
        assert answers[0].code == "INVALID_CONFIG"
        assert answers[1] is None
    assert real_cluster.observe([group(name)]).resources == {}

    do(real_cluster, AlterConfigs(group(name), {"consumer.session.timeout.ms": "50000"}))
    refs = [group(name), topic(name)]
    seen = eventually(lambda: real_cluster.observe(refs).resources, lambda found: len(found) == 2)
    assert seen[group(name)].state == {"config.consumer.session.timeout.ms": "50000"}
    assert seen[topic(name)].state["config.retention.ms"] == "3600000"


def test_a_group_that_has_only_configs_is_in_the_inventory(real_cluster: KafkaCluster, prefix: str) -> None:
    ref = group(f"{prefix}a")
    do(real_cluster, AlterConfigs(ref, {"consumer.session.timeout.ms": "50000"}))
    seen = eventually(lambda: real_cluster.observe([], kinds=["ConsumerGroup"]), lambda o: ref in o.inventory)
    assert (seen.resources, seen.invisible, seen.diagnostics) == ({}, {}, ())
    found = real_cluster.observe([], lambda other: other == ref, kinds=["ConsumerGroup"]).resources[ref]
    assert (found.uid, found.live, found.state) == (
        None,
        None,
        {"config.consumer.session.timeout.ms": "50000"},
    )
    assert found.effective["config.consumer.session.timeout.ms"] == "50000"
    assert found.effective["config.consumer.heartbeat.interval.ms"] == "500"
    assert real_cluster.groups([ref.name]).groups == {}

    do(real_cluster, DeleteGroup(ref, configs=("consumer.session.timeout.ms",)))
    eventually(
        lambda: real_cluster.observe([ref], kinds=["ConsumerGroup"]),
        lambda o: ref not in o.inventory and not o.resources,
    )


def test_deleting_a_group_takes_its_offsets_and_its_configs(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    commit(kafka.bootstrap_servers, name, {(name, 0): 0})
    do(real_cluster, AlterConfigs(group(name), {"consumer.session.timeout.ms": "50000"}))
    seen = eventually(
        lambda: real_cluster.observe([group(name)]).resources[group(name)], lambda o: len(o.state) == 3
    )
    assert seen.state == {
        "config.consumer.session.timeout.ms": "50000",
        f"offsets.{name}": "committed",
        f"offsets.{name}:0": 0,
    }
    known = group_of(seen)
    assert known is not None
    assert known.state == "Empty"
    deletion = DeleteGroup(group(name), configs=("consumer.session.timeout.ms",))
    do(real_cluster, deletion)
    eventually(lambda: real_cluster.observe([group(name)]).resources, lambda found: not found)
    do(real_cluster, deletion)  # it is gone already: fine


def test_group_defaults_are_those_of_the_brokers(
    real_cluster: KafkaCluster, account: Callable[..., Account]
) -> None:
    defaults = real_cluster.facts().config_defaults["ConsumerGroup"]
    assert defaults.keys() == kafka_configs.group_configs().keys()
    assert defaults["consumer.session.timeout.ms"] == "45000"
    assert defaults["share.auto.offset.reset"] == "latest"
    assert "ConsumerGroup" not in account().cluster.facts().config_defaults


def test_the_defaults_in_memory_are_those_of_a_stock_broker(kafka_acl: DevCluster) -> None:
    with connect(kafka_acl.bootstrap_servers) as cluster:
        assert cluster.facts().config_defaults == MemoryCluster().facts().config_defaults  # of every kind


# --- what this account, or this client, cannot see -------------------------------------------------


def test_groups_that_this_account_may_not_describe(
    kafka_acl: DevCluster, account: Callable[..., Account], prefix: str
) -> None:
    names = [f"{prefix}{part}" for part in ("seen", "unread", "denied", "absent")]
    with connect(kafka_acl.bootstrap_servers) as owner:
        make_topic(owner, prefix, partitions=1)
        do(owner, *(CommitInitialOffsets(group(name), {prefix: "earliest"}) for name in names[:3]))
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


def test_groups_are_read_where_their_topics_are_hidden(
    kafka_acl: DevCluster, account: Callable[..., Account], prefix: str
) -> None:
    with connect(kafka_acl.bootstrap_servers) as owner:
        for letter in "ab":
            make_topic(owner, f"{prefix}{letter}", partitions=1)
        do(owner, CommitInitialOffsets(group(prefix), {f"{prefix}{letter}": "latest" for letter in "ab"}))
        few = account(f"GROUP:{prefix}:DESCRIBE", f"TOPIC:{prefix}a:DESCRIBE").cluster
        assert few.log_spans([(f"{prefix}{letter}", 0) for letter in "ab"]) == {
            (f"{prefix}a", 0): LogSpan(0, 0)
        }
        told = read(few, prefix)
        assert {p.topic for p in told.positions} >= {f"{prefix}a"}
        assert told.lag == 0


def test_consumer_groups_are_read_where_only_librdkafka_can_log_in(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}a", partitions=1)
    produce(kafka.bootstrap_servers, name, {0: 3})
    do(real_cluster, CommitInitialOffsets(group(prefix), {name: "earliest"}))

    def refuse() -> TransportSettings:
        raise KafkaformError("this login is not possible")

    cluster = KafkaCluster({"bootstrap.servers": kafka.bootstrap_servers}, refuse)
    with cluster, closing(ShareMember(kafka.bootstrap_servers, name, name)) as member:
        member.join()
        # librdkafka does not tell whether a member ever joined.
        assert read(cluster, prefix) == replace(read(real_cluster, prefix), never_joined=False)
        assert name in real_cluster.groups().groups
        assert name not in cluster.groups().groups
        seen = cluster.observe([group(prefix)])
        (whole,) = real_cluster.observe([group(prefix)]).resources.values()
        whole_group = group_of(whole)
        assert whole_group is not None
        known = replace(whole, live=replace(whole_group, never_joined=False))
        assert seen.resources == {group(prefix): known}
        assert [note.code for note in seen.diagnostics] == ["KF421", "KF421"]
        assert "share and streams groups" in seen.diagnostics[0].message


def test_offsets_are_committed_and_groups_deleted_where_only_librdkafka_can_log_in(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    def refuse() -> TransportSettings:
        raise KafkaformError("this login is not possible")

    name = make_topic(real_cluster, f"{prefix}a", partitions=2)
    produce(kafka.bootstrap_servers, name, {0: 3, 1: 3})
    with KafkaCluster({"bootstrap.servers": kafka.bootstrap_servers}, refuse) as cluster:
        do(cluster, CommitInitialOffsets(group(prefix), {name: "earliest"}))
        do(cluster, ResetOffsets(group(prefix), {(name, 1): 2}))
        assert read(real_cluster, prefix).committed == {(name, 0): 0, (name, 1): 2}
        with running(kafka.bootstrap_servers, prefix, [name]):
            everything = {frozenset({(name, 0), (name, 1)})}
            for one in (cluster, real_cluster):
                eventually(
                    partial(read, one, prefix),
                    lambda seen: {member.assignment for member in seen.members} == everything,
                )
            assert refusal(cluster, ResetOffsets(group(prefix), {(name, 1): 1})).code == "NON_EMPTY_GROUP"
            assert refusal(cluster, DeleteGroup(group(prefix))).code == "NON_EMPTY_GROUP"
        do(cluster, DeleteGroup(group(prefix)))
        assert prefix not in real_cluster.groups().groups


@contextmanager
def open_transaction(servers: str, transactional_id: str, name: str) -> Iterator[None]:
    """A transaction with one record in partition 0, aborted at the end."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": transactional_id})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, "x", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    yield
    producer.abort_transaction(TIMEOUT_S)


def test_log_spans_are_the_same_where_only_librdkafka_can_log_in(
    kafka: DevCluster, real_cluster: KafkaCluster, prefix: str
) -> None:
    def refuse() -> TransportSettings:
        raise KafkaformError("this login is not possible")

    name, now_ms = make_topic(real_cluster, f"{prefix}a", partitions=2), time.time_ns() // 1_000_000
    produce(kafka.bootstrap_servers, name, {0: 3, 1: 2}, at_ms=now_ms - HOUR_MS)
    produce(kafka.bootstrap_servers, name, {0: 2}, at_ms=now_ms)
    asked = [(name, 0), (name, 1), (name, 7), (f"{prefix}nobody", 0)]
    with (
        KafkaCluster({"bootstrap.servers": kafka.bootstrap_servers}, refuse) as cluster,
        open_transaction(kafka.bootstrap_servers, prefix, name),
    ):
        for at_ms in (None, now_ms - HOUR_MS // 2):
            for committed in (False, True):
                spans = cluster.log_spans(asked, at_ms, committed=committed)
                assert spans == real_cluster.log_spans(asked, at_ms, committed=committed)
                assert spans[name, 0].end == (5 if committed else 6)


# --- logs ------------------------------------------------------------------------------------------


def test_log_spans(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    name = make_topic(real_cluster, f"{prefix}a")
    now_ms = time.time_ns() // 1_000_000
    produce(kafka.bootstrap_servers, name, {0: 4, 1: 2}, at_ms=now_ms - HOUR_MS)
    produce(kafka.bootstrap_servers, name, {0: 6}, at_ms=now_ms)
    cut_log(kafka, name, 0, below=2)
    asked = [(name, number) for number in range(4)] + [(f"{prefix}nobody", 0)]
    assert real_cluster.log_spans(asked) == {
        (name, 0): LogSpan(2, 10),
        (name, 1): LogSpan(0, 2),
        (name, 2): LogSpan(0, 0),
    }
    assert real_cluster.log_spans(asked, now_ms - HOUR_MS // 2) == {
        (name, 0): LogSpan(2, 10, 4),
        (name, 1): LogSpan(0, 2, 2),
        (name, 2): LogSpan(0, 0, 0),
    }
    assert real_cluster.log_spans([]) == {}
    assert real_cluster.partition_counts([name, f"{prefix}nobody"]) == {name: 3}  # and none was created
    assert real_cluster.partition_counts([]) == {}


def test_a_coordinator_that_is_not_ready_is_asked_again() -> None:
    """A group that is in no answer the second time does not exist: the first answer does not stand."""
    moving = translate_code(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "")
    script = [
        GroupAnswers[int]({"a": 1}, {"b": moving, "c": moving, "d": PermissionDenied("no")}),
        GroupAnswers[int]({"b": 2}),
    ]
    asked = []

    def ask(names: Collection[str]) -> GroupAnswers[int]:
        asked.append(list(names))
        return script.pop(0)

    told = settled_answers(["a", "b", "c", "d"], ask)
    assert asked == [["a", "b", "c", "d"], ["b", "c"]]
    assert (told.found, list(told.failed)) == ({"a": 1, "b": 2}, ["d"])


# --- several brokers -------------------------------------------------------------------------------


def test_each_group_is_asked_for_at_its_coordinator(kafka3: DevCluster, prefix: str) -> None:
    with connect(kafka3.bootstrap_servers) as cluster, ExitStack() as stack:
        name = make_topic(cluster, f"{prefix}a", partitions=3)
        names = [f"{prefix}{number}" for number in range(12)]
        do(cluster, *(CommitInitialOffsets(group(each), {name: "latest"}) for each in names))
        shares = [f"{prefix}share{number}" for number in range(6)]
        for each in shares:
            member = stack.enter_context(closing(ShareMember(kafka3.bootstrap_servers, each, name)))
            member.join()
        told = cluster.groups().groups
        assert {*names, *shares} <= told.keys()
        assert len({told[each].coordinator for each in names}) > 1
        assert len({told[each].coordinator for each in shares}) > 1
        assert all(len(told[each].members) == 1 for each in shares)
        assert all(told[each].lag == 0 for each in names)
        do(cluster, *(DeleteGroup(group(each)) for each in names))
        assert not cluster.groups(names).groups


@pytest.mark.nightly("three brokers, of which one is restarted; test_lock_membership.py has what they answer")
def test_a_coordinator_that_moves_does_not_lose_the_lock(kafka3: DevCluster) -> None:
    with connect(kafka3.bootstrap_servers) as real, hold(real, ALICE, TIMEOUT_S) as guard:
        guard()
        admin = admin_client(kafka3.bootstrap_servers)
        described = admin.describe_consumer_groups([NAME])[NAME].result(TIMEOUT_S)
        replicas = admin.list_topics(timeout=TIMEOUT_S).topics[NAME].partitions[0].replicas
        assert len(replicas) == 3
        kafka3.stop_node(described.coordinator.id)
        try:
            for _ in range(5):
                guard()
        finally:
            kafka3.start_node(described.coordinator.id)
        guard()


def test_what_a_stopped_broker_led_has_no_lag_rather_than_none_of_it(
    kafka3: DevCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_spans, "LEADER_TIMEOUT_S", 1.0)
    with connect(kafka3.bootstrap_servers) as cluster:
        name = make_topic(cluster, f"{prefix}a", partitions=3)
        do(cluster, CommitInitialOffsets(group(prefix), {name: "earliest"}))
        assert read(cluster, prefix).lag == 0
        kafka3.stop_node(3)
        try:
            told = eventually(
                lambda: read(cluster, prefix), lambda told: any(p.end is None for p in told.positions)
            )
            assert [p.lag for p in told.positions].count(None) == 1
            assert name in told.unread
            assert len(cluster.log_spans([(name, number) for number in range(3)])) == 2
        finally:
            kafka3.start_node(3)
        eventually(lambda: read(cluster, prefix), lambda told: [p.lag for p in told.positions] == [0, 0, 0])
