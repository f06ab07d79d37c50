"""Asking a real cluster to carry operations out, or only to check them."""

from __future__ import annotations

import binascii
import time
from base64 import urlsafe_b64decode
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from functools import partial
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from kafkaform.cluster.kafka import admin_groups, coordinators
from kafkaform.cluster.kafka.answers import GroupAnswers, is_missing, settled
from kafkaform.cluster.kafka.topics import topic_source
from kafkaform.cluster.protocol import refuse_moves, repeated
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import one_line, refusal, translate
from kafkaform.cluster.wire.messages import (
    ALTER_CONFIGS,
    ALTER_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
)
from kafkaform.core.errors import (
    ClusterError,
    KafkaformError,
    LockLost,
    NotOffered,
    OutcomeUnknown,
    RequestRejected,
    Unreachable,
)
from kafkaform.core.lock import unguarded
from kafkaform.core.operations import (
    AddPartitions,
    AlterConfigs,
    CommitInitialOffsets,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    Operation,
    Reassign,
    ResetOffsets,
)
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterator,
        Mapping,
        Sequence,
    )

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.lock import Guard
    from kafkaform.core.model import ResourceRef


RESEND_S = 30.0
"""The time in which a request whose answer was lost is sent again, as when the broker that was asked died.

A controller that was killed is replaced within seconds: by an election of the others in KRaft (2 to 4 s,
measured on 4.3.1), after `zookeeper.session.timeout.ms` (18 s) with ZooKeeper.
"""
PAUSE_S = 0.2
WRITE_TIMEOUT_S = 60.0
"""How long one request that changes something may take; a controller under load is slow, not dead."""
GRACE_S = 5.0
"""How much longer than the request itself its answer may take to reach us."""
_UUID_BYTES = 16
RESOURCE_TYPES = {"TOPIC": 2, "GROUP": 32}
"""The numbers of the types of resources that have configs (ConfigResource.Type)."""

Outcome: TypeAlias = ClusterError | None


def validate(connection: Connection, operations: Sequence[Operation]) -> list[Outcome]:
    """Let brokers check operations, with all requests under way at a time; see `Cluster.validate`."""
    outcomes: dict[int, Outcome] = {}
    under_way: list[_Sent] = []
    for sort, writer in WRITERS.items():
        if isinstance(writer, Checked):
            request = _fit(operations, sort, outcomes)
            under_way += _send_request(
                writer.name, request, partial(_ask, connection, writer, True, unguarded), unguarded
            )
    for sent in under_way:
        outcomes.update(sent.outcomes())
    outcomes.update(_not_movable(connection, [o for o in operations if isinstance(o, Reassign)]))
    return [_name_missing_right(operation, outcomes.get(id(operation))) for operation in operations]


def _not_movable(connection: Connection, moves: Sequence[Reassign]) -> Mapping[int, Outcome]:
    """Find reassignments that a cluster does not offer: brokers cannot check anything else of them."""
    try:
        if not moves or connection.offers(ALTER_REASSIGNMENTS):
            return {}
    except KafkaformError:
        return {}  # only the apply can tell
    return {id(operation): NotOffered(ALTER_REASSIGNMENTS.name) for operation in moves}


def submit(connection: Connection, operations: Sequence[Operation], guard: Guard) -> list[Outcome]:
    """Send operations, and wait for the answer to each request before the next; see `Cluster.execute`.

    With one request at a time, one at most is past its check when the lock is lost.
    """
    refuse_moves(operations)
    outcomes: dict[int, Outcome] = {}
    try:
        for sort, writer in WRITERS.items():
            request = _fit(operations, sort, outcomes)
            if isinstance(writer, Checked):
                for sent in _send_request(
                    writer.name, request, partial(_ask, connection, writer, False, guard), guard
                ):
                    outcomes.update(sent.outcomes())
            else:
                outcomes.update(writer.carry_out(connection, request, guard))
    except LockLost as lost:
        return [_name_missing_right(o, outcomes.get(id(o), lost)) for o in operations]
    return [_name_missing_right(operation, outcomes.get(id(operation))) for operation in operations]


_REQUESTS: Mapping[type[Operation], str] = {
    CreateTopic: "CreateTopics",
    AlterConfigs: "IncrementalAlterConfigs",
    AddPartitions: "CreatePartitions",
    DeleteGroup: "DeleteGroups",
    DeleteTopic: "DeleteTopics",
}
"""The requests that need a right on the resource of the operation."""


def _name_missing_right(operation: Operation, outcome: Outcome) -> Outcome:
    """An outcome that names the right that is missing, if it is one of rights."""
    if outcome is None or type(operation) not in _REQUESTS:
        return outcome
    return name_right(outcome, _REQUESTS[type(operation)], operation.ref.name)


def _fit(
    operations: Sequence[Operation], sort: type[Operation], outcomes: dict[int, Outcome]
) -> list[Operation]:
    """The operations of a sort that can be asked for at all; the others get their outcome here."""
    request = [o for o in operations if isinstance(o, sort)]
    outcomes.update(repeated(request))
    return [o for o in request if id(o) not in outcomes]


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request under way.

    Attributes:
        name: Kafka's name of the request.
        request: What was asked for.
        answers: What will come of it, by resource; an outcome where it is known already.
    """

    name: str
    request: Sequence[Operation]
    answers: Mapping[ResourceRef, Future[Any] | Outcome]

    def outcomes(self) -> dict[int, Outcome]:
        """Wait for the answers; returns them by the `id` of the operation."""
        return {id(o): self._named(_outcome(self.answers[o.ref])) for o in self.request}

    def _named(self, outcome: Outcome) -> Outcome:
        """An outcome with the name of the request, which librdkafka says in other words or not at all."""
        return NotOffered(self.name) if isinstance(outcome, NotOffered) else outcome


def _send_request(
    name: str,
    request: Sequence[Operation],
    ask: Callable[[Sequence[Any]], Mapping[ResourceRef, Future[Any] | Outcome]],
    guard: Guard,
) -> Iterator[_Sent]:
    """Send one request, or each operation alone where one of them cannot be sent at all."""
    if not request:
        return
    guard()
    try:
        yield _Sent(name, request, ask(request))
    except ValueError as error:
        if len(request) == 1:
            text = f"{request[0].ref}: {one_line(str(error))} (_INVALID_ARG)"
            rejected = RequestRejected(text, code="_INVALID_ARG")
            yield _Sent(name, request, {request[0].ref: rejected})
        else:
            for operation in request:
                yield from _send_request(name, [operation], ask, guard)


def _ask(
    connection: Connection, writer: Checked, dry: bool, guard: Guard, operations: Sequence[Any]
) -> Mapping[ResourceRef, Future[Any] | Outcome]:
    """Send one request on our own connections, or by librdkafka where it alone can log in.

    Raises:
        ValueError: An operation cannot be written as a request.
    """
    try:
        connection.offered()
    except ClusterError as error:
        return dict.fromkeys((o.ref for o in operations), error)
    except KafkaformError:  # there are logins that librdkafka alone can do
        return writer.ask_librdkafka(connection, dry, operations)
    entries = {o.ref: writer.entry(o) for o in operations}
    request = {
        writer.parts: [*entries.values()],
        "timeout_ms": int(WRITE_TIMEOUT_S * 1000),
        "validate_only": dry,
    }
    try:
        if dry:
            once = replace(writer.request_type, changes=False)
            answer, sent_again = connection.ask_controller(once, request, WRITE_TIMEOUT_S), False
        else:
            answer, sent_again = _send(connection, writer.request_type, request, guard)
    except StructError as error:
        raise ValueError(str(error)) from error
    except ClusterError as error:
        return dict.fromkeys(entries, error)
    answered = {_key(part): part for part in answer[writer.parts]}
    return {
        ref: _read_part(answered.get(_key(entry)), entry["name"], writer.done if sent_again else frozenset())
        for ref, entry in entries.items()
    }


def _send(
    connection: Connection, request_type: RequestType[Any], request: Mapping[str, Any], guard: Guard
) -> tuple[Any, bool]:
    """Send a request until it is answered; also returns whether it was sent more than once.

    Whoever was asked may die, or pass the request on to a controller that has died. What was carried out
    then is refused the second time by a code that says so.
    """
    deadline = time.monotonic() + RESEND_S
    sent_again = False
    while True:
        try:
            return connection.ask_controller(request_type, request, WRITE_TIMEOUT_S), sent_again
        except (OutcomeUnknown, Unreachable) as error:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
            try:
                guard()
            except LockLost:
                raise error from None  # it was sent, and somebody else may be at work by now
            sent_again = True


def _key(part: Mapping[str, Any]) -> tuple[int | None, str]:
    return part.get("type"), part["name"]


def _read_part(part: Mapping[str, Any] | None, name: str, done: frozenset[int]) -> Outcome:
    if part is None:
        return OutcomeUnknown(f"the controller's response does not include {name}")
    return refusal(part) if part["error_code"] and part["error_code"] not in done else None


def _creation_entry(operation: CreateTopic) -> Mapping[str, Any]:
    placed = operation.assignment
    return {
        "name": operation.ref.name,
        "partitions": -1 if placed else operation.partitions,
        "replication_factor": -1 if placed else operation.replication_factor,
        "assignments": [{"index": number, "replicas": replicas} for number, replicas in enumerate(placed)],
        "configs": [{"name": name, "value": value} for name, value in operation.configs.items()],
    }


def _alteration_entry(operation: AlterConfigs) -> Mapping[str, Any]:
    changes = [(name, AlterConfigOpType.SET, value) for name, value in operation.set.items()]
    changes += [(name, AlterConfigOpType.DELETE, "") for name in operation.unset]
    return {
        "type": RESOURCE_TYPES[KINDS[operation.ref.kind].config_resource],
        "name": operation.ref.name,
        "configs": [
            {"name": name, "operation": kind.value, "value": value if kind is AlterConfigOpType.SET else None}
            for name, kind, value in changes
        ],
    }


def _addition_entry(operation: AddPartitions) -> Mapping[str, Any]:
    assignments = [{"replicas": replicas} for replicas in operation.assignment]
    return {"name": operation.ref.name, "count": operation.total, "assignments": assignments or None}


def _create(
    connection: Connection, dry: bool, creates: Sequence[CreateTopic]
) -> Mapping[ResourceRef, Future[Any]]:
    topics = [_new_topic(operation) for operation in creates]
    answers = connection.reached.create_topics(topics, request_timeout=WRITE_TIMEOUT_S, validate_only=dry)
    return {o.ref: answers[o.ref.name] for o in creates}


def _new_topic(operation: CreateTopic) -> NewTopic:
    name, configs = operation.ref.name, dict(operation.configs)
    if not operation.assignment:
        return NewTopic(name, operation.partitions, operation.replication_factor, config=configs)
    placed = [list(replicas) for replicas in operation.assignment]
    return NewTopic(name, len(placed), replica_assignment=placed, config=configs)


def _alter(
    connection: Connection, dry: bool, alters: Sequence[AlterConfigs]
) -> Mapping[ResourceRef, Future[Any]]:
    asked = {o.ref: _alteration(o) for o in alters}
    answers = connection.reached.incremental_alter_configs(
        list(asked.values()), request_timeout=WRITE_TIMEOUT_S, validate_only=dry
    )
    return {ref: answers[resource] for ref, resource in asked.items()}


def _alteration(operation: AlterConfigs) -> ConfigResource:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in operation.set.items()
    ]
    entries += [
        ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in operation.unset
    ]
    return ConfigResource(
        KINDS[operation.ref.kind].config_resource, operation.ref.name, incremental_configs=entries
    )


def _add_partitions(
    connection: Connection,
    dry: bool,
    additions: Sequence[AddPartitions],
) -> Mapping[ResourceRef, Future[Any]]:
    wanted = [_new_partitions(operation) for operation in additions]
    answers = connection.reached.create_partitions(wanted, request_timeout=WRITE_TIMEOUT_S, validate_only=dry)
    return {o.ref: answers[o.ref.name] for o in additions}


def _new_partitions(operation: AddPartitions) -> NewPartitions:
    if not operation.assignment:
        return NewPartitions(operation.ref.name, operation.total)
    placed = [list(replicas) for replicas in operation.assignment]
    return NewPartitions(operation.ref.name, operation.total, replica_assignment=placed)


def _outcome(answer: Future[Any] | Outcome) -> Outcome:
    if answer is None or isinstance(answer, ClusterError):
        return answer
    try:
        answer.result(WRITE_TIMEOUT_S + GRACE_S)
    except KafkaException as error:
        return translate(error)
    except FutureTimeoutError:
        return OutcomeUnknown(f"no answer within {WRITE_TIMEOUT_S:.0f} s")
    return None


def _delete(connection: Connection, deletions: Sequence[DeleteTopic], guard: Guard) -> Mapping[int, Outcome]:
    """Delete topics by id (KIP-516), so that a topic made again under the name survives; others by name."""
    ids = {id(o): topic_id for o in deletions if (topic_id := _topic_id(o.uid)) is not None}
    nameless = RequestRejected("this is no topic id", code="UNKNOWN_TOPIC_ID")
    outcomes: dict[int, Outcome] = {
        id(o): nameless for o in deletions if o.uid is not None and id(o) not in ids
    }
    outcomes.update(_delete_by_name(connection, [o for o in deletions if o.uid is None], guard))
    if not ids:
        return outcomes
    guard()
    request = {
        "topics": [{"name": None, "topic_id": topic_id} for topic_id in ids.values()],
        "timeout_ms": int(WRITE_TIMEOUT_S * 1000),
    }
    try:
        answer, sent_again = _send(connection, DELETE_TOPICS, request, guard)
    except KafkaformError as error:
        failure = error if isinstance(error, ClusterError) else ClusterError(error.message, hint=error.hint)
        return {**outcomes, **dict.fromkeys(ids, failure)}
    gone = frozenset({KafkaError.UNKNOWN_TOPIC_ID}) if sent_again else frozenset()
    answers = {topic["topic_id"]: _read_part(topic, "", gone) for topic in answer["topics"]}
    silent = OutcomeUnknown("the controller's response does not include this topic")
    return {**outcomes, **{key: answers.get(topic_id, silent) for key, topic_id in ids.items()}}


def _delete_by_name(
    connection: Connection, deletions: Sequence[DeleteTopic], guard: Guard
) -> Mapping[int, Outcome]:
    """Delete topics that have no id; one that has an id by now is another topic, or was never without."""
    if not deletions:
        return {}
    descriptions = topic_source(connection).descriptions([o.ref.name for o in deletions]).found
    known = {o.ref.name for o in deletions if o.ref.name in descriptions and descriptions[o.ref.name].uid}
    refused = RequestRejected("it has a topic id, by which it was not planned", code="UNKNOWN_TOPIC_ID")
    outcomes: dict[int, Outcome] = {id(o): refused for o in deletions if o.ref.name in known}
    asked = [o for o in deletions if o.ref.name not in known]
    if asked:
        guard()
        names = [operation.ref.name for operation in asked]
        answers = connection.reached.delete_topics(names, request_timeout=WRITE_TIMEOUT_S)
        outcomes.update({id(o): _outcome(answers[o.ref.name]) for o in asked})
    return outcomes


def _topic_id(text: str | None) -> bytes | None:
    """The bytes of a topic id as Kafka writes it: 22 characters of URL-safe base64 without padding.

    None where that is none, or zero.
    """
    try:
        value = urlsafe_b64decode((text or "") + "==")
    except binascii.Error:
        return None
    return value if len(value) == _UUID_BYTES and any(value) else None


def _delete_groups(
    connection: Connection, deletions: Sequence[DeleteGroup], guard: Guard
) -> Mapping[int, Outcome]:
    """Delete groups, and then the configs of those that are gone."""
    outcomes = delete_groups(connection, deletions, guard)
    configured = [o for o in deletions if o.configs and outcomes[id(o)] is None]
    if configured:
        unset = [AlterConfigs(o.ref, {}, o.configs) for o in configured]
        answers = submit(connection, unset, guard)
        outcomes.update({id(o): _half(answer) for o, answer in zip(configured, answers, strict=True)})
    return outcomes


def _half(answer: Outcome) -> Outcome:
    """The outcome of a deletion whose group is gone: not that nothing of it was sent."""
    if not isinstance(answer, LockLost):
        return answer
    return ClusterError(
        f"the group was deleted, but its configs were not: {answer.message}", hint=answer.hint
    )


def _commit_initial_offsets(
    connection: Connection, commits: Sequence[CommitInitialOffsets], guard: Guard
) -> Mapping[int, Outcome]:
    from kafkaform.cluster.kafka.offset_writer import commit_initial_offsets

    return commit_initial_offsets(connection, commits, guard)


def _reset_offsets(
    connection: Connection, resets: Sequence[ResetOffsets], guard: Guard
) -> Mapping[int, Outcome]:
    from kafkaform.cluster.kafka.offset_writer import reset_offsets

    return reset_offsets(connection, resets, guard)


class Checked(NamedTuple):
    """Carries out operations of one type with one request, which brokers can check beforehand.

    Attributes:
        request_type: The request.
        entry: Writes what it asks for one operation.
        parts: The field of request and answer that has these.
        done: The codes of an answer by which a request that is sent again was carried out the first time.
        ask_librdkafka: Sends it by librdkafka, given whether it is only to be checked.
    """

    request_type: RequestType[Any]
    entry: Callable[[Any], Mapping[str, Any]]
    parts: str
    done: frozenset[int]
    ask_librdkafka: Callable[[Connection, bool, Sequence[Any]], Mapping[ResourceRef, Future[Any]]]

    @property
    def name(self) -> str:
        """Kafka's name of the request."""
        return self.request_type.name


class Unchecked(NamedTuple):
    """Carries out operations of one type that brokers cannot check without doing so.

    Attributes:
        carry_out: Sends them, and returns the outcome of each by its `id`.
    """

    carry_out: Callable[[Connection, Sequence[Any], Guard], Mapping[int, Outcome]]


WRITERS: dict[type[Operation], Checked | Unchecked] = {
    CreateTopic: Checked(
        CREATE_TOPICS, _creation_entry, "topics", frozenset({KafkaError.TOPIC_ALREADY_EXISTS}), _create
    ),
    AlterConfigs: Checked(ALTER_CONFIGS, _alteration_entry, "resources", frozenset(), _alter),
    AddPartitions: Checked(
        CREATE_PARTITIONS,
        _addition_entry,
        "topics",
        frozenset({KafkaError.INVALID_PARTITIONS}),
        _add_partitions,
    ),
    CommitInitialOffsets: Unchecked(_commit_initial_offsets),
    ResetOffsets: Unchecked(_reset_offsets),
    DeleteGroup: Unchecked(_delete_groups),
    DeleteTopic: Unchecked(_delete),
}
"""What carries out each operation, in the order in which the requests are sent.

A `Reassign` is not over with a request: see `kafkaform.cluster.kafka.reassignments`.
"""


DELETE_TIMEOUT_S = 30.0
"""How long the deletion of groups may take."""


def delete_groups(
    connection: Connection, operations: Sequence[DeleteGroup], guard: Guard
) -> dict[int, ClusterError | None]:
    """Delete groups with their offsets, not their configs; returns each operation's outcome by its `id`.

    A group that is gone already is fine. Each takes a request of its own.
    """

    def ask(names: Collection[str]) -> GroupAnswers[None]:
        answers: GroupAnswers[None] = GroupAnswers()
        for name in names:
            try:
                guard()
            except LockLost as lost:
                answers.failed[name] = lost
                continue
            answers.update(delete(connection, name, DELETE_TIMEOUT_S))
        return answers

    delete = coordinators.delete if coordinators.are_reachable(connection) else admin_groups.delete
    failed = settled([o.ref.name for o in operations], ask).failed
    outcomes: dict[int, ClusterError | None] = {}
    for operation in operations:
        error = failed.get(operation.ref.name)
        outcomes[id(operation)] = None if error is None or is_missing(error) else error
    return outcomes
