"""Asking a real cluster to carry operations out, or only to check them."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from kafkaform.cluster.connection import Connection
from kafkaform.cluster.translation import translate
from kafkaform.errors import ClusterError, KafkaformError, OutcomeUnknown
from kafkaform.model import AddPartitions, AlterConfigs, CreateTopic, DeleteTopic, Operation

WRITE_TIMEOUT_S = 60.0
"""How long one request that changes something may take; a controller under load is slow, not dead."""
GRACE_S = 5.0
"""How much longer than the request itself its answer may take to reach us."""

Outcome: TypeAlias = ClusterError | None


def submit(connection: Connection, operations: Sequence[Operation], *, validate_only: bool) -> list[Outcome]:
    """Send operations, one request for each sort, and wait for every answer.

    Returns:
        The outcomes, in the order of the operations; see `Cluster.execute`.
    """
    creates = [o for o in operations if isinstance(o, CreateTopic)]
    alters = [o for o in operations if isinstance(o, AlterConfigs)]
    additions = [o for o in operations if isinstance(o, AddPartitions)]
    deletions = [o for o in operations if isinstance(o, DeleteTopic)]
    futures = {
        **_create(connection, creates, validate_only),
        **_alter(connection, alters, validate_only),
        **_add_partitions(connection, additions, validate_only),
    }
    outcomes: dict[int, Outcome] = {key: _outcome(future) for key, future in futures.items()}
    if not validate_only:
        outcomes.update(_delete(connection, deletions))
    return [outcomes.get(id(operation)) for operation in operations]


def _create(connection: Connection, creates: Sequence[CreateTopic], dry: bool) -> dict[int, Future[Any]]:  # noqa: FBT001
    if not creates:
        return {}
    topics = [
        NewTopic(o.ref.name, o.partitions, o.replication_factor, config=dict(o.configs)) for o in creates
    ]
    answers = connection.reached.create_topics(topics, request_timeout=WRITE_TIMEOUT_S, validate_only=dry)
    return {id(o): answers[o.ref.name] for o in creates}


def _alter(connection: Connection, alters: Sequence[AlterConfigs], dry: bool) -> dict[int, Future[Any]]:  # noqa: FBT001
    if not alters:
        return {}
    answers = connection.reached.incremental_alter_configs(
        [_alteration(o) for o in alters], request_timeout=WRITE_TIMEOUT_S, validate_only=dry
    )
    by_name = {resource.name: future for resource, future in answers.items()}
    return {id(o): by_name[o.ref.name] for o in alters}


def _alteration(operation: AlterConfigs) -> ConfigResource:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in operation.set.items()
    ]
    entries += [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in operation.unset
    ]
    return ConfigResource(ConfigResource.Type.TOPIC, operation.ref.name, incremental_configs=entries)


def _add_partitions(
    connection: Connection,
    additions: Sequence[AddPartitions],
    dry: bool,  # noqa: FBT001
) -> dict[int, Future[Any]]:
    if not additions:
        return {}
    wanted = [NewPartitions(o.ref.name, o.total) for o in additions]
    answers = connection.reached.create_partitions(wanted, request_timeout=WRITE_TIMEOUT_S, validate_only=dry)
    return {id(o): answers[o.ref.name] for o in additions}


def _outcome(future: Future[Any]) -> Outcome:
    try:
        future.result(WRITE_TIMEOUT_S + GRACE_S)
    except KafkaException as error:
        return translate(error)
    except FutureTimeoutError:
        return OutcomeUnknown(f"no answer within {WRITE_TIMEOUT_S:.0f} s")
    return None


def _delete(connection: Connection, deletions: Sequence[DeleteTopic]) -> Mapping[int, Outcome]:
    """Delete topics by id (KIP-516), so that a topic made again under the name survives."""
    if not deletions:
        return {}
    ids = {id(o): _uuid(o.uid) for o in deletions if o.uid is not None}
    try:
        refusals = connection.delete_topics(list(ids.values()), timeout_s=WRITE_TIMEOUT_S)
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
        return dict.fromkeys(ids, failure)
    return {key: refusals.get(topic_id) for key, topic_id in ids.items()}


def _uuid(text: str) -> uuid.UUID:
    """Kafka writes a topic id as 22 characters of URL-safe base64 without padding (or `+/`, as librdkafka)."""
    return uuid.UUID(bytes=urlsafe_b64decode(text.replace("+", "-").replace("/", "_") + "=="))
