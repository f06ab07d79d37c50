"""Reading the health of a real cluster, in a few requests however many partitions there are.

Controllers tell of their quorum (KIP-595, KIP-836) through its leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka.answers import Answers
from kafkaform.cluster.kafka.reassignments import read_running
from kafkaform.cluster.kafka.replicas import admin_placement, wire_placement
from kafkaform.cluster.kafka.sizes import read_log_dirs
from kafkaform.cluster.kafka.topic_sources import CHUNK, WireReader
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, one_line, translate_code
from kafkaform.cluster.wire.large_answers import METADATA, TOPIC_CONFIGS
from kafkaform.cluster.wire.messages import QUORUM
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    NotOffered,
    OutcomeUnknown,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.health import (
    Health,
    LogDir,
    Part,
    Quorum,
    Voter,
)
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.kafka.answers import Configs
    from kafkaform.cluster.kafka.replicas import Placement
    from kafkaform.cluster.transport.connection import Connection


METADATA_LOG = "__cluster_metadata"
_LEADERLESS = frozenset(
    KafkaError(code).name()
    for code in (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
    )
)
"""What is answered where no controller leads; any other refusal says nothing about the controllers."""


def read_quorum(connection: Connection, controller: int | None, timeout_s: float) -> Quorum:
    """Read who leads, and how far the other voters are.

    Args:
        connection: The cluster.
        controller: Who answers for the controllers, as metadata says: where ZooKeeper elects it.
        timeout_s: How long a broker may take.

    Raises:
        KafkaformError: The quorum cannot be read.
    """
    if not connection.offers(QUORUM):
        return Quorum(controller)
    try:
        answer = _answer(connection, timeout_s)
    except OutcomeUnknown:
        return Quorum(None)  # a broker passes the request on: nobody leads where it went
    except RequestRejected as error:
        if error.code not in _LEADERLESS:
            raise
        return Quorum(None)
    leading = next((voter for voter in answer["voters"] if voter["id"] == answer["leader"]), None)
    if leading is None:
        return Quorum(None, tuple(Voter(voter["id"], None) for voter in answer["voters"]))
    return Quorum(leading["id"], tuple(_voter(voter, leading) for voter in answer["voters"]))


def _answer(connection: Connection, timeout_s: float) -> Mapping[str, Any]:
    topic = {"name": METADATA_LOG, "partitions": [{"index": 0}]}
    (answer,) = connection.ask(QUORUM, [{"topics": [topic]}], timeout_s=timeout_s)
    partitions = [partition for topic in answer["topics"] for partition in topic["partitions"]]
    for part in (answer, *partitions):
        if part["error_code"]:
            raise name_right(translate_code(part["error_code"], ""), QUORUM.name)
    if len(partitions) != 1:
        raise ClusterError(
            f"the answer to {QUORUM.name} contains {len(partitions)} partitions instead of one"
        )
    return dict(partitions[0])


def _voter(voter: Mapping[str, int], leading: Mapping[str, int]) -> Voter:
    if voter is leading:
        return Voter(voter["id"], 0)
    fetched = voter["fetched_ms"]
    return Voter(
        voter["id"],
        max(0, leading["end"] - voter["end"]) if voter["end"] >= 0 else None,
        # Both times are the leader's own, so that no clock but its counts.
        max(0, leading["fetched_ms"] - fetched) if fetched >= 0 else None,
    )


TIMEOUT_S = 5.0
"""The time that one request may take: controllers without a leader do not answer at all."""
_SIGN_OF_LIFE_S = 1.0

_MIN_ISR = "min.insync.replicas"


def read_health(connection: Connection) -> Health:
    """See `Cluster.health`."""
    try:
        source = topic_source(connection)
    except Unreachable:
        # librdkafka has the controller describe the cluster: without one, nobody seems to be there.
        found = _without_controller(connection)
        if found is None:
            raise
        return found
    if isinstance(source, WireReader):
        placement = wire_placement(connection)
        configs = _min_insync_replicas(connection, placement.topics)
    else:
        placement = admin_placement(connection, TIMEOUT_S)
        configs = source.configs(placement.topics)
    unread = _untold(placement, configs)
    quorum = _quorum(connection, placement.controller, unread)
    lacking: set[Part] = set()
    reassigning = _reassigning(connection, unread, lacking)
    log_dirs = _log_dirs(connection, unread, lacking)
    if not placement.partitions and quorum is None:
        unread[Part.PARTITIONS] = "no topic is visible to this account"
    least = {name: found.effective.get(_MIN_ISR) for name, found in configs.found.items()}
    if wrong := [name for name, value in least.items() if value is not None and not value.isdecimal()]:
        raise ClusterError(f"the brokers returned a {_MIN_ISR} of topic {wrong[0]} that is not a number")
    return Health(
        placement.controller,
        placement.brokers,
        placement.partitions,
        {name: int(value) for name, value in least.items() if value is not None},
        quorum,
        reassigning,
        unread,
        placement.cluster_id,
        log_dirs,
        frozenset(lacking),
    )


def _without_controller(connection: Connection) -> Health | None:
    """Read what a broker still answers while no controller does; None if no broker answers either."""
    try:
        placement = admin_placement(connection, timeout_s=_SIGN_OF_LIFE_S)
    except ClusterError:
        return None
    why = "no active controller answers"
    return Health(
        None,
        placement.brokers,
        placement.partitions,
        quorum=Quorum(None),
        reassigning=None,
        unread={Part.MIN_ISR: why, Part.REASSIGNMENTS: why},
        cluster_id=placement.cluster_id,
    )


def _untold(placement: Placement, configs: Answers[Configs]) -> dict[Part, str]:
    unread = {}
    for name, error in [*configs.denied.items()][:1]:
        unread[Part.MIN_ISR] = (
            f"unknown for {counted(len(configs.denied), 'topic')}, such as {name}: {error.message}"
        )
    failed = {name: code for name, code in placement.failed.items() if code not in MISSING}
    for name, code in [*failed.items()][:1]:
        reason = name_right(translate_code(code, ""), METADATA.name, name).message
        unread[Part.PARTITIONS] = f"unknown for {counted(len(failed), 'topic')}, such as {name}: {reason}"
    return unread


def _min_insync_replicas(connection: Connection, topics: Sequence[str]) -> Answers[Configs]:
    """The value in force for each topic, own or inherited from the brokers, and no other config."""
    requests = [
        {name: [_MIN_ISR] for name in topics[start : start + CHUNK]} for start in range(0, len(topics), CHUNK)
    ]
    answers: Answers[Configs] = Answers()
    for answer in connection.ask(TOPIC_CONFIGS, requests):
        for topic in answer:
            if topic.error_code == 0:
                answers.found[topic.name] = topic.configs
            elif topic.error_code not in MISSING:  # one that is missing has just been made, or deleted
                error = translate_code(topic.error_code, one_line(topic.message))
                answers.deny(topic.name, name_right(error, TOPIC_CONFIGS.name, topic.name))
    return answers


def _quorum(connection: Connection, controller: int | None, unread: dict[Part, str]) -> Quorum | None:
    try:
        return read_quorum(connection, controller, TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.QUORUM] = error.message
        return None


def _log_dirs(connection: Connection, unread: dict[Part, str], lacking: set[Part]) -> tuple[LogDir, ...]:
    try:
        log_dirs, failed = read_log_dirs(connection, TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.LOG_DIRS] = error.message
        if isinstance(error, NotOffered):
            lacking.add(Part.LOG_DIRS)
        return ()
    for broker in sorted(failed)[:1]:
        unread[Part.LOG_DIRS] = f"broker {broker}: {failed[broker].message}"
    return log_dirs


def _reassigning(
    connection: Connection, unread: dict[Part, str], lacking: set[Part]
) -> Mapping[tuple[str, int], tuple[int, ...]] | None:
    try:
        running = read_running(connection, timeout_s=TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.REASSIGNMENTS] = error.message
        if isinstance(error, NotOffered):
            lacking.add(Part.REASSIGNMENTS)
        return None
    return {partition: tuple(sorted(reassignment.adding)) for partition, reassignment in running.items()}
