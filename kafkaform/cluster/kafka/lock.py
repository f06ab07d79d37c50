"""The lock of a real cluster: membership in a group that has one member at a time."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.lock_coordinator import Coordinator
from kafkaform.cluster.kafka.lock_membership import Membership
from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.cluster.kafka.writer import submit
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.core.errors import ClusterError, NotOffered, PermissionDenied, RequestRejected
from kafkaform.core.lock import (
    NAME,
    NO_LOCK_HINT,
    Guard,
    Holder,
    acquire_lock,
    format_holder,
    parse_holder,
    unguarded,
)
from kafkaform.core.model import Create
from kafkaform.core.rights import Right, grant
from kafkaform.core.values import replace
from kafkaform.core.wording import code
from kafkaform.resources import KINDS, topic_ref
from kafkaform.resources.replicas.facts import REPLICATION_FACTOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.progress import Progress

REPLICAS = 3
"""The number of replicas of the topic, if there are as many brokers."""

_CLIENT = "kafkaform-lock-"
_EXISTS = ErrorCode.TOPIC_ALREADY_EXISTS.name


@contextmanager
def lock(connection: Connection, holder: Holder, *, timeout_s: float, tell: Progress) -> Iterator[Guard]:
    """Hold the cluster's lock, as `Cluster.lock` does."""
    # The proof is an offset commit, which needs a topic.
    _make_topic(connection)
    coordinator = Coordinator(connection.separate(_CLIENT))
    memberships: list[Membership] = []

    def try_join() -> Membership | None:
        # A waiting process needs two requests, for the members and for the offsets: the mark links them.
        mark = uuid.uuid4().hex[:12]
        brokers = connection.separate(f"{_CLIENT}{mark}")
        membership = Membership(brokers, lambda: _read_holder(coordinator).since is not None)
        # Registered before it joins: the outer `finally` must find it even if `join` is interrupted.
        memberships[:] = [membership]
        # Each attempt has its own time: the holder's time is when it got the lock, not when it began to wait.
        own_holder = replace(holder, since=datetime.now(UTC))
        return membership if membership.join(format_holder(own_holder, mark)) else None

    try:
        try:
            membership = acquire_lock(
                try_join, lambda: _read_holder(coordinator), timeout_s=timeout_s, tell=tell
            )
        except NotOffered as error:
            error.hint = f"the lock needs it; {NO_LOCK_HINT}"
            raise
        except PermissionDenied as error:
            error.hint = f"{_make_grant_hint()}, {NO_LOCK_HINT}"
            raise
        finally:
            coordinator.close()
        yield membership.prove
    finally:
        # Ctrl-C can come between any two steps: a member must not stay in the group.
        for membership in memberships:
            membership.leave()


def _make_topic(connection: Connection) -> None:
    responses = describe_topics(connection, [NAME])
    if NAME in responses.found:
        return
    refusal: ClusterError | None = responses.denied.get(NAME)
    if refusal is None:
        # A commit needs the topic to exist, but never writes to it: replicas only keep the topic from being
        # lost.
        replicas = min(REPLICAS, len(connection.cluster.brokers))
        ref = topic_ref(NAME)
        creation = Create(ref, {"partitions": 1, REPLICATION_FACTOR: replicas})
        (refusal,) = submit(connection, KINDS[ref.kind].operations(creation), unguarded)
    if isinstance(refusal, PermissionDenied):
        raise PermissionDenied(
            f"the topic of the lock, {NAME}, does not exist, or is not visible: {refusal.message}",
            hint=f"have it created (1 partition); {_make_grant_hint()}, {NO_LOCK_HINT}",
            right=refusal.right,
        )
    if refusal is not None and not (isinstance(refusal, RequestRejected) and refusal.code == _EXISTS):
        raise refusal


def _make_grant_hint() -> str:
    """Return the hint for an account that may not use the lock."""
    rights = (Right("Read", "topic", NAME), Right("Read", "group", NAME))
    return f"grant Read on the topic and on the group {NAME}: {code(grant(*rights))}"


def _read_holder(coordinator: Coordinator) -> Holder:
    """Return the current holder of the lock, as far as it is known."""
    members = coordinator.read_members()
    if not members:
        return Holder("another process (no details yet)")
    # The introduction is the metadata of the offset that the holder commits with each proof.
    text = coordinator.read_introduction()
    for member in members:
        holder = parse_holder(text, member["client_id"].removeprefix(_CLIENT))
        if holder is not None:
            return holder
    # The introduction is that of an earlier holder: the present one has not committed its own yet.
    first = members[0]
    return Holder(f"client {first['client_id']} at {first['client_host'].removeprefix('/')}")
