"""Reading the quorum of controllers (KIP-595, KIP-836), as its leader tells of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster.api import Api, Question
from kafkaform.cluster.controlled import retried
from kafkaform.cluster.message_schema import INT16, INT32, INT64, STRING, array, struct, whole
from kafkaform.cluster.translation import translate_code
from kafkaform.cluster.wire import string
from kafkaform.core.errors import ClusterError, OutcomeUnknown, RequestRejected
from kafkaform.core.health import Quorum, Voter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.message_schema import Reader

METADATA_LOG = "__cluster_metadata"


def _question(version: int, **times: Reader) -> Question[Any]:
    replica = struct(id=INT32, end=INT64, **times)
    partition = struct(
        index=INT32,
        error_code=INT16,
        leader=INT32,
        leader_epoch=INT32,
        high_watermark=INT64,
        voters=array(replica),
        observers=array(replica),
    )
    topics = array(struct(name=STRING, partitions=array(partition)))
    api = Api(55, version, flexible=True, name="DescribeQuorum")
    return Question(api, whole(struct(error_code=INT16, topics=topics)))


_QUESTIONS = (_question(1, fetched_ms=INT64, caught_up_ms=INT64), _question(0))
"""DescribeQuorumRequest.json and its response, the best version first: up to Kafka 3.2 it has no times."""


def read_quorum(connection: Connection, controller: int | None, timeout_s: float) -> Quorum:
    """Read who leads, and how far the other voters are.

    Args:
        connection: The cluster.
        controller: Who answers for the controllers, as metadata says: where ZooKeeper elects it.
        timeout_s: How long a broker may take.

    Raises:
        KafkaformError: The quorum is not told.
    """
    question = next((one for one in _QUESTIONS if connection.speaks(one.api)), None)
    if question is None:
        return Quorum(controller)
    try:
        told = retried(lambda: _told(connection, question, timeout_s))
    except (RequestRejected, OutcomeUnknown):
        return Quorum(None)  # a broker passes the request on: nobody leads where it went
    leading = next((voter for voter in told["voters"] if voter["id"] == told["leader"]), None)
    if leading is None:
        return Quorum(None, tuple(Voter(voter["id"], None) for voter in told["voters"]))
    return Quorum(leading["id"], tuple(_voter(voter, leading) for voter in told["voters"]))


def _told(connection: Connection, question: Question[Any], timeout_s: float) -> Mapping[str, Any]:
    one, first_partition, no_tags = b"\x02", bytes(4), b"\x00"
    topic = string(METADATA_LOG) + one + first_partition + no_tags + no_tags
    (told,) = connection.ask(question, [one + topic + no_tags], timeout_s=timeout_s)
    partitions = [partition for topic in told["topics"] for partition in topic["partitions"]]
    for part in (told, *partitions):
        if part["error_code"]:
            raise translate_code(part["error_code"], "")
    if len(partitions) != 1:
        raise ClusterError(f"the answer to {question.api} tells of {len(partitions)} partitions, not of one")
    return dict(partitions[0])


def _voter(voter: Mapping[str, int], leading: Mapping[str, int]) -> Voter:
    if voter is leading:
        return Voter(voter["id"], 0)
    fetched = voter.get("fetched_ms", -1)
    return Voter(
        voter["id"],
        max(0, leading["end"] - voter["end"]) if voter["end"] >= 0 else None,
        # Both times are the leader's own, so that no clock but its counts.
        max(0, leading["fetched_ms"] - fetched) if fetched >= 0 else None,
    )
