"""Reading the health of a real cluster, in a few requests for any number of partitions.

The leader of the controllers describes their quorum (KIP-595, KIP-836).
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.reassignments import read_running
from kafkaform.cluster.kafka.replicas import Placement, read_placement
from kafkaform.cluster.kafka.responses import TopicResponses
from kafkaform.cluster.kafka.sizes import read_log_dirs
from kafkaform.cluster.kafka.topic_sources import CHUNK
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import METADATA, TOPIC_CONFIGS, Configs
from kafkaform.cluster.wire.messages import QUORUM
from kafkaform.core.errors import ClusterError, KafkaformError, NotOffered, OutcomeUnknown, RequestRejected
from kafkaform.core.health import Health, LogDir, Part, Quorum, Voter
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import Offered

_RELEASES = (
    ("2.8", 60, 0), ("3.0", 2, 7), ("3.1", 1, 13), ("3.2", 35, 3), ("3.3", 35, 4), ("3.5", 2, 8),
    ("3.6", 24, 4), ("3.7", 0, 10), ("3.8", 16, 5), ("3.9", 1, 17), ("4.0", 3, 13), ("4.1", 66, 2),
    ("4.2", 2, 11), ("4.3", 35, 5),
)  # fmt: skip
"""For each minor version a request that came with it, by API key and version; 3.4 has none of its own."""
METADATA_LOG = "__cluster_metadata"
_LEADERLESS = frozenset(
    {
        ErrorCode.NOT_LEADER_FOR_PARTITION.name,
        ErrorCode.LEADER_NOT_AVAILABLE.name,
        ErrorCode.BROKER_NOT_AVAILABLE.name,
        ErrorCode.NOT_CONTROLLER.name,
    }
)
"""The codes that mean that no controller leads; others say nothing about the controllers."""


def read_quorum(connection: Connection, controller: int | None, timeout_s: float) -> Quorum:
    """Read the leader of the quorum, and the lag of the other voters.

    Args:
        controller: The controller by metadata, for clusters with ZooKeeper.
        timeout_s: How long a broker may take.

    Raises:
        KafkaformError: The quorum cannot be read.
    """
    if not connection.offers(QUORUM):
        return Quorum(controller)
    try:
        response = _request_quorum(connection, timeout_s)
    except OutcomeUnknown:
        return Quorum(None)  # the broker forwarded the request, and no controller leads
    except RequestRejected as error:
        if error.code not in _LEADERLESS:
            raise
        return Quorum(None)
    leading = next((voter for voter in response["voters"] if voter["id"] == response["leader"]), None)
    # Lag is counted from the leader's end of the log: without a leader, it is unknown.
    if leading is None:
        return Quorum(None, tuple(Voter(voter["id"], None) for voter in response["voters"]))
    return Quorum(leading["id"], tuple(_make_voter(voter, leading) for voter in response["voters"]))


def _request_quorum(connection: Connection, timeout_s: float) -> Mapping[str, Any]:
    topic = {"name": METADATA_LOG, "partitions": [{"index": 0}]}
    (response,) = connection.send(QUORUM, [{"topics": [topic]}], timeout_s=timeout_s)
    partitions = [partition for topic in response["topics"] for partition in topic["partitions"]]
    for part in (response, *partitions):
        if part["error_code"]:
            raise name_right(translate_code(part["error_code"], ""), QUORUM.name)
    if len(partitions) != 1:
        raise ClusterError(
            f"the answer to {QUORUM.name} contains {len(partitions)} partitions instead of one"
        )
    return dict(partitions[0])


def _make_voter(voter: Mapping[str, int], leading: Mapping[str, int]) -> Voter:
    if voter is leading:
        return Voter(voter["id"], 0)
    fetched = voter["fetched_ms"]
    return Voter(
        voter["id"],
        max(0, leading["end"] - voter["end"]) if voter["end"] >= 0 else None,
        # Both times are by the leader's clock.
        max(0, leading["fetched_ms"] - fetched) if fetched >= 0 else None,
    )


TIMEOUT_S = 5.0
"""The time for one request: controllers without a leader do not answer at all."""

_MIN_ISR = "min.insync.replicas"


def read_health(connection: Connection) -> Health:
    """Read the health of brokers, controllers and partitions."""
    placement = read_placement(connection)
    configs = _read_min_isr(connection, placement.topics)
    unread = _explain_unread(placement, configs)
    quorum = _read_quorum(connection, placement.controller, unread)
    lacking: set[Part] = set()
    reassigning = _read_reassigning(connection, unread, lacking)
    log_dirs = _read_log_dirs(connection, unread, lacking)
    # An account without rights sees an empty cluster, which must not be reported as healthy.
    if not placement.partitions and quorum is None:
        unread[Part.PARTITIONS] = "no topic is visible to this account"
    # Some services do not have the config, such as Redpanda.
    min_isr = {name: topic.effective.get(_MIN_ISR) for name, topic in configs.found.items()}
    if invalid := [name for name, value in min_isr.items() if value is not None and not value.isdecimal()]:
        raise ClusterError(f"the brokers returned a {_MIN_ISR} of topic {invalid[0]} that is not a number")
    return Health(
        placement.controller,
        placement.brokers,
        placement.partitions,
        {name: int(value) for name, value in min_isr.items() if value is not None},
        quorum,
        reassigning,
        unread,
        placement.cluster_id,
        log_dirs,
        frozenset(lacking),
        release=find_release(connection.read_api_versions()),
    )


def find_release(offered: Offered) -> str:
    """Return the newest minor version all of whose requests are offered; empty if not even the first are."""
    # Brokers do not return their version. Services offer requests of several ones: the oldest that is
    # complete counts.
    complete = takewhile(lambda each: offered.get(each[1], (0, -1))[1] >= each[2], _RELEASES)
    return ([""] + [release for release, _, _ in complete])[-1]


def _explain_unread(placement: Placement, configs: TopicResponses[Configs]) -> dict[Part, str]:
    unread = {}
    # One example is enough: a cluster may have thousands of hidden topics.
    for name, error in [*configs.denied.items()][:1]:
        unread[Part.MIN_ISR] = (
            f"unknown for {counted(len(configs.denied), 'topic')}, such as {name}: {error.message}"
        )
    failed = {name: code for name, code in placement.failed.items() if code not in MISSING}
    for name, code in [*failed.items()][:1]:
        reason = name_right(translate_code(code, ""), METADATA.name, name).message
        unread[Part.PARTITIONS] = f"unknown for {counted(len(failed), 'topic')}, such as {name}: {reason}"
    return unread


def _read_min_isr(connection: Connection, topics: Sequence[str]) -> TopicResponses[Configs]:
    """Read the min.insync.replicas in force of each topic, its own or inherited from the brokers."""
    requests = [
        {name: [_MIN_ISR] for name in topics[start : start + CHUNK]} for start in range(0, len(topics), CHUNK)
    ]
    responses: TopicResponses[Configs] = TopicResponses()
    for response in connection.send(TOPIC_CONFIGS, requests):
        for topic in response:
            if topic.error_code == 0:
                responses.found[topic.name] = topic.configs
            elif topic.error_code not in MISSING:  # a missing topic was just created or deleted
                error = translate_code(topic.error_code, topic.message)
                responses.deny(topic.name, name_right(error, TOPIC_CONFIGS.name, topic.name))
    return responses


def _read_quorum(connection: Connection, controller: int | None, unread: dict[Part, str]) -> Quorum | None:
    try:
        return read_quorum(connection, controller, TIMEOUT_S)
    except KafkaformError as error:
        unread[Part.QUORUM] = error.message
        return None


def _read_log_dirs(connection: Connection, unread: dict[Part, str], lacking: set[Part]) -> tuple[LogDir, ...]:
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


def _read_reassigning(
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
