"""The lock of a real cluster: to be the one static member of a group (KIP-848).

A group of the consumer protocol refuses a second member of the same `group.instance.id`
(UNRELEASED_INSTANCE_ID) for as long as the session of the first one lasts: tried, a real mutex. Other forms
of membership let a newcomer take the place of a holder: the range assignor, and static ids of the classic
protocol.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError

from kafkaform.cluster.kafka.answers import gathered
from kafkaform.cluster.kafka.lock_membership import INSTANCE_ID, Membership
from kafkaform.cluster.kafka.topic_sources import AdminReader
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.core.errors import ClusterError, PermissionDenied, RequestRejected
from kafkaform.core.lock import (
    NAME,
    WITHOUT,
    Holder,
    acquired,
    introduced,
    introduction,
    unguarded,
)
from kafkaform.core.operations import CreateTopic
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.lock import Guard
    from kafkaform.core.progress import Progress


REPLICAS = 3
"""The number of replicas of the topic, where there are as many brokers."""

_CLIENT = "kafkaform-lock-"
_EXISTS = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS).name()


@contextmanager
def lock(connection: Connection, holder: Holder, *, timeout_s: float, tell: Progress) -> Iterator[Guard]:
    """See `Cluster.lock`."""
    # A member holds the lock once it is assigned a partition, so there must be one to be assigned.
    _make_topic(connection)

    def attempt() -> Membership | None:
        # Shown to who waits by two requests, of the group's members and of its offsets: the mark is in both.
        mark = uuid.uuid4().hex[:12]
        membership = Membership(connection, f"{_CLIENT}{mark}")
        mine = replace(holder, since=datetime.now(UTC))
        return membership if membership.join(introduction(mine, mark)) else None

    membership = acquired(attempt, lambda: _occupant(connection), timeout_s=timeout_s, tell=tell)
    try:
        yield membership.prove
    finally:
        membership.leave()


def _make_topic(connection: Connection) -> None:
    answers = AdminReader(connection).descriptions([NAME])
    if NAME in answers.found:
        return
    refusal: ClusterError | None = answers.denied.get(NAME)
    if refusal is None:
        replicas = min(REPLICAS, len(connection.cluster.nodes))
        (refusal,) = submit(connection, [CreateTopic(topic_ref(NAME), 1, replicas, {})], unguarded)
    if isinstance(refusal, PermissionDenied):
        raise PermissionDenied(
            f"the topic of the lock, {NAME}, does not exist, or is not visible: {refusal.message}",
            hint="have it created (1 partition), and grant Read on it and on the group of that name, "
            + WITHOUT,
        )
    if refusal is not None and not (isinstance(refusal, RequestRejected) and refusal.code == _EXISTS):
        raise refusal


def _occupant(connection: Connection) -> Holder:
    """Find out who holds the lock, as far as that is known."""
    described = gathered(
        connection.reached.describe_consumer_groups([NAME], request_timeout=READ_TIMEOUT_S),
        lambda group: group,
    )
    members = described.found[NAME].members if NAME in described.found else ()
    member = next((m for m in members if m.group_instance_id == INSTANCE_ID), None)
    if member is None:
        return Holder("somebody who has not said more yet")
    # The introduction is the metadata of the offset that the holder commits with each proof.
    introductions = gathered(
        connection.reached.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(NAME)], request_timeout=READ_TIMEOUT_S
        ),
        lambda group: [p.metadata for p in group.topic_partitions if p.metadata],
    )
    for text in introductions.found.get(NAME, ()):
        holder = introduced(text, member.client_id.removeprefix(_CLIENT))
        if holder is not None:
            return holder
    return Holder(f"client {member.client_id} at {member.host.removeprefix('/')}")
