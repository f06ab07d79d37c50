"""The lock of a real cluster: to be the one member of a group that its coordinator lets in.

Which protocol that takes is the coordinator's decision: the consumer protocol (lock_membership.py) or, where
it is not accepted, the classic one (lock_classic.py).
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError

from kafkaform.cluster.kafka import admin_groups
from kafkaform.cluster.kafka.lock_classic import ClassicMembership, Coordinator
from kafkaform.cluster.kafka.lock_membership import INSTANCE_ID, ConsumerMembership
from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.cluster.kafka.writer import submit
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    NotOffered,
    PermissionDenied,
    RequestRejected,
)
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
from kafkaform.core.rights import Right, grant
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaform.cluster.kafka.lock_membership import Membership
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
    # A commit, which is the proof, needs a topic; and who holds the lock by KIP-848, a partition of it.
    _make_topic(connection)
    try:
        coordinator = Coordinator(connection.separate(_CLIENT))
    except KafkaformError:
        # There are logins that librdkafka alone can do: then it is the consumer protocol, which it speaks.
        coordinator = None

    attempts: list[Membership] = []

    def attempt() -> Membership | None:
        # Shown to who waits by two requests, of the group's members and of its offsets: the mark is in both.
        mark = uuid.uuid4().hex[:12]
        membership: Membership
        if coordinator is None or coordinator.has_consumer_protocol():
            membership = ConsumerMembership(connection, f"{_CLIENT}{mark}")
        else:
            own = connection.separate(f"{_CLIENT}{mark}")
            membership = ClassicMembership(own, lambda: _occupant(coordinator).since is not None)
        attempts[:] = [membership]
        mine = replace(holder, since=datetime.now(UTC))
        return membership if membership.join(introduction(mine, mark)) else None

    def consumers() -> Sequence[Mapping[str, Any]]:
        group = admin_groups.describe(connection, [NAME]).found.get(NAME)
        members = group.members if group is not None else ()
        return [
            {"client_id": member.client_id, "client_host": member.host}
            for member in members
            if member.instance_id == INSTANCE_ID
        ]

    def occupant() -> Holder:
        return _occupant(coordinator, coordinator.consumers if coordinator is not None else consumers)

    try:
        try:
            membership = acquired(attempt, occupant, timeout_s=timeout_s, tell=tell)
        except NotOffered as error:
            error.hint = f"the lock needs it; {WITHOUT}"
            raise
        except PermissionDenied as error:
            error.hint = f"{_remedy()}, {WITHOUT}"
            raise
        finally:
            if coordinator is not None:
                coordinator.close()
        yield membership.prove
    finally:
        # Ctrl-C can come between any two steps: whoever is a member by then must not stay one.
        for each in attempts:
            each.leave()


def _make_topic(connection: Connection) -> None:
    answers = describe_topics(connection, [NAME])
    if NAME in answers.found:
        return
    refusal: ClusterError | None = answers.denied.get(NAME)
    if refusal is None:
        replicas = min(REPLICAS, len(connection.cluster.nodes))
        (refusal,) = submit(connection, [CreateTopic(topic_ref(NAME), 1, replicas, {})], unguarded)
    if isinstance(refusal, PermissionDenied):
        raise PermissionDenied(
            f"the topic of the lock, {NAME}, does not exist, or is not visible: {refusal.message}",
            hint=f"have it created (1 partition); {_remedy()}, {WITHOUT}",
            right=refusal.right,
        )
    if refusal is not None and not (isinstance(refusal, RequestRejected) and refusal.code == _EXISTS):
        raise refusal


def _remedy() -> str:
    """Return what to do where an account may not use the lock."""
    rights = (Right("Read", "topic", NAME), Right("Read", "group", NAME))
    return f"grant Read on the topic and on the group {NAME}: {grant(*rights)}"


def _occupant(
    coordinator: Coordinator | None, others: Callable[[], Sequence[Mapping[str, Any]]] = tuple
) -> Holder:
    """Find out which member holds the lock, as far as that is known.

    Args:
        coordinator: Of the group; None if our own connections cannot reach it.
        others: Returns the members where there are none by the classic protocol.
    """
    members = (coordinator.members() if coordinator is not None else ()) or others()
    if not members:
        return Holder("somebody who has not said more yet")
    # The introduction is the metadata of the offset that the holder commits with each proof.
    text = coordinator.introduction() if coordinator is not None else ""
    for member in members:
        holder = introduced(text, member["client_id"].removeprefix(_CLIENT))
        if holder is not None:
            return holder
    first = members[0]
    return Holder(f"client {first['client_id']} at {first['client_host'].removeprefix('/')}")
