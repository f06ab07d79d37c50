"""Having a real cluster carry out operations, or only validate them."""

from __future__ import annotations

import binascii
import time
from base64 import urlsafe_b64decode
from struct import error as StructError  # noqa: N812 - it is called plain "error"
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkaform.cluster.kafka import coordinators
from kafkaform.cluster.kafka.acls import AccessWriter
from kafkaform.cluster.kafka.client_quotas import QuotaWriter
from kafkaform.cluster.kafka.offset_writer import commit_initial_offsets, delete_offsets, reset_offsets
from kafkaform.cluster.kafka.responses import GroupResponses, is_missing, retry_until_ready
from kafkaform.cluster.kafka.topic_sources import EXISTING_CODES, describe_topics, parse_description
from kafkaform.cluster.kafka.users import CredentialWriter
from kafkaform.cluster.protocol import SETTLE_TIMEOUT_S, refuse_moves, reject_duplicates
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import one_line, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.group_messages import OFFSET_DELETE
from kafkaform.cluster.wire.large_responses import METADATA
from kafkaform.cluster.wire.messages import (
    ALTER_CONFIGS,
    ALTER_REASSIGNMENTS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DELETE_TOPICS_BY_NAME,
    AlterConfigOperation,
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
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.operations import AlterConfigs, Operation, Phase
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import listed
from kafkaform.resources import KINDS
from kafkaform.resources.access.operations import GrantAccess, RemoveDenials, RevokeAccess
from kafkaform.resources.base import Configured
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets, DeleteGroup, ResetOffsets
from kafkaform.resources.replicas.operations import AlterConfigsInSync, Reassign
from kafkaform.resources.topic.operations import AddPartitions, CreateTopic, DeleteOffsets, DeleteTopic
from kafkaform.resources.user.operations import RemoveCredentials, SetCredentials

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType

RESEND_S = 30.0
"""How long a request whose response was lost is sent again, as when the broker died.

A controller that was killed is replaced after 2 to 4 s in KRaft (measured on 4.3.1), and after
`zookeeper.session.timeout.ms` (18 s) with ZooKeeper.
"""
PAUSE_S = 0.2
WRITE_TIMEOUT_S = 60.0
"""How long one change may take; a controller under load is slow, not dead."""
_UUID_BYTES = 16
RESOURCE_TYPES = {"TOPIC": 2, "GROUP": 32}
"""The numbers of the resource types that have configs (ConfigResource.Type)."""

Outcome: TypeAlias = ClusterError | None


def validate(connection: Connection, operations: Sequence[Operation]) -> list[Outcome]:
    """Have brokers validate operations, as `Cluster.validate` does."""
    outcomes: dict[int, Outcome] = {}
    for operation_type, writer in WRITERS.items():
        if not isinstance(writer, UnvalidatedWriter) and (
            request := _select_sendable(operations, operation_type, outcomes)
        ):
            responses = writer.write(connection, request, True, unguarded)
            outcomes.update({id(operation): responses[operation.subject] for operation in request})
    # Brokers have no validation of these: only whether they offer the request is known before.
    for operation_type, request_type in _ONLY_OFFERED.items():
        unchecked = [o for o in operations if isinstance(o, operation_type)]
        outcomes.update(_refuse_if_not_offered(connection, unchecked, request_type))
    return [_name_missing_right(operation, outcomes.get(id(operation))) for operation in operations]


_ONLY_OFFERED: Mapping[type[Operation], RequestType[Any]] = {
    Reassign: ALTER_REASSIGNMENTS,
    DeleteOffsets: OFFSET_DELETE,
}
"""The operations of which nothing but the request's presence is known before they are carried out."""


def _refuse_if_not_offered(
    connection: Connection, operations: Sequence[Operation], request_type: RequestType[Any]
) -> Mapping[int, Outcome]:
    """Return NotOffered for operations if brokers lack their request."""
    try:
        if not operations or connection.offers(request_type):
            return {}
    except KafkaformError:
        return {}  # the apply will report it
    return {id(operation): NotOffered(request_type.name) for operation in operations}


def submit(connection: Connection, operations: Sequence[Operation], guard: Guard) -> list[Outcome]:
    """Carry out operations, as `Cluster.execute` does, one request at a time.

    So at most one request is past its guard when the lock is lost.
    """
    refuse_moves(operations)
    outcomes: dict[int, Outcome] = {}
    unsent: Outcome = None
    for operation_type, writer in WRITERS.items():
        if request := _select_sendable(operations, operation_type, outcomes):
            try:
                responses = writer.write(connection, request, False, guard)
            except LockLost as lost:
                # Nor may any later request be sent: all of them have this outcome.
                unsent = lost
                break
            outcomes.update({id(operation): responses[operation.subject] for operation in request})
    return [_name_missing_right(operation, outcomes.get(id(operation), unsent)) for operation in operations]


_REQUESTS: Mapping[type[Operation], str] = {
    CreateTopic: "CreateTopics",
    AlterConfigs: "IncrementalAlterConfigs",
    AlterConfigsInSync: "IncrementalAlterConfigs",
    AddPartitions: "CreatePartitions",
    DeleteGroup: "DeleteGroups",
    DeleteTopic: "DeleteTopics",
}
"""The operations whose request needs a right on their resource."""


def _name_missing_right(operation: Operation, outcome: Outcome) -> Outcome:
    """Return the same outcome; if an account was refused, one that names the missing right."""
    if outcome is None or type(operation) not in _REQUESTS:
        return outcome
    return name_right(outcome, _REQUESTS[type(operation)], operation.ref.name)


def _select_sendable(
    operations: Sequence[Operation], operation_type: type[Operation], outcomes: dict[int, Outcome]
) -> list[Operation]:
    """Return the operations of a type to send; adds an outcome for those that brokers would refuse."""
    request = [o for o in operations if type(o) is operation_type]
    outcomes.update(reject_duplicates(request))
    return [o for o in request if id(o) not in outcomes]


class Writer(Protocol):
    """Carries out operations of one type."""

    def write(
        self, connection: Connection, operations: Sequence[Any], validate_only: bool, guard: Guard
    ) -> Mapping[Any, Outcome]:
        """Send operations, or only have them validated.

        Args:
            operations: Operations of the type, with distinct subjects; at least one.
            validate_only: Only have brokers validate them.
            guard: Called before each request.

        Returns:
            The outcomes of the operations, by subject.

        Raises:
            LockLost: Nothing was sent.
        """


class ValidatedWriter(Value):
    """Carries out operations of one type with one request, which brokers can validate.

    Attributes:
        entry: Makes the entry of the request for one operation.
        parts: The field of request and response that has the entries.
        done: The codes that show, when a request is sent again, that the first one was carried out.
    """

    request_type: RequestType[Any]
    entry: Callable[[Any], Mapping[str, Any]]
    parts: str
    done: frozenset[int]

    def write(
        self, connection: Connection, operations: Sequence[Any], validate_only: bool, guard: Guard
    ) -> Mapping[Any, Outcome]:
        """Send one request, or one for each operation if an operation cannot be encoded."""
        guard()
        entries = {operation.subject: self.entry(operation) for operation in operations}
        request = {
            self.parts: [*entries.values()],
            "timeout_ms": int(WRITE_TIMEOUT_S * 1000),
            "validate_only": validate_only,
        }
        try:
            response, sent_again = self._send(connection, request, validate_only, guard)
        except ClusterError as error:
            return dict.fromkeys(entries, error)
        except StructError as error:
            # A value that does not fit its field, such as a count over 32 bits, must not fail the other
            # operations.
            if len(operations) > 1:
                return self._write_each(connection, operations, validate_only, guard)
            text = f"{operations[0].ref}: {one_line(str(error))} (_INVALID_ARG)"
            return dict.fromkeys(entries, RequestRejected(text, code="_INVALID_ARG"))
        answered = {_get_part_key(part): part for part in response[self.parts]}
        done = self.done if sent_again else frozenset()
        return {
            subject: _read_part(answered.get(_get_part_key(entry)), entry["name"], done)
            for subject, entry in entries.items()
        }

    def _send(
        self, connection: Connection, request: Mapping[str, Any], validate_only: bool, guard: Guard
    ) -> tuple[Any, bool]:
        if not validate_only:
            return _send(connection, self.request_type, request, guard)
        # A validation changes nothing: it may be sent again when its response is lost.
        once = replace(self.request_type, changes=False)
        return connection.send_to_controller(once, request, WRITE_TIMEOUT_S), False

    def _write_each(
        self, connection: Connection, operations: Sequence[Any], validate_only: bool, guard: Guard
    ) -> Mapping[Any, Outcome]:
        outcomes: dict[object, Outcome] = {}
        for operation in operations:
            try:
                outcomes.update(self.write(connection, [operation], validate_only, guard))
            except LockLost as lost:
                outcomes[operation.subject] = lost
        return outcomes


class CreationWriter(ValidatedWriter):
    """Creates topics, also those whose names are in use until their deletion ends."""

    def write(
        self, connection: Connection, operations: Sequence[Any], validate_only: bool, guard: Guard
    ) -> Mapping[Any, Outcome]:
        """Send the request, again while the name of a deleted topic is in use."""
        outcomes = dict(ValidatedWriter.write(self, connection, operations, validate_only, guard))
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        # With ZooKeeper, a controller refuses a name for a while after no broker shows the topic any more
        # (measured on 2.8). A topic that is shown was created by others.
        while time.monotonic() < deadline:
            refused = [
                o for o in operations if o.phase is Phase.REPLACE and _is_existing(outcomes[o.subject])
            ]
            missing = describe_topics(connection, [o.ref.name for o in refused]).missing if refused else ()
            retried = [o for o in refused if o.ref.name in missing]
            if not retried:
                break
            time.sleep(PAUSE_S)
            try:
                outcomes |= ValidatedWriter.write(self, connection, retried, validate_only, guard)
            except LockLost:
                break  # the others of this request were sent
        return outcomes


def _is_existing(outcome: Outcome) -> bool:
    return isinstance(outcome, RequestRejected) and outcome.code == ErrorCode.TOPIC_ALREADY_EXISTS.name


class UnvalidatedWriter(Value):
    """Carries out operations of one type that brokers cannot validate.

    Attributes:
        carry_out: Sends operations, and returns their outcomes by subject.
    """

    carry_out: Callable[[Connection, Sequence[Any], Guard], Mapping[Any, Outcome]]

    def write(
        self, connection: Connection, operations: Sequence[Any], validate_only: bool, guard: Guard
    ) -> Mapping[Any, Outcome]:
        """Send operations; raises TypeError if they are only to be validated."""
        if validate_only:
            raise TypeError(f"brokers cannot validate {type(operations[0]).__name__} without carrying it out")
        return self.carry_out(connection, operations, guard)


def _send(
    connection: Connection, request_type: RequestType[Any], request: Mapping[str, Any], guard: Guard
) -> tuple[Any, bool]:
    """Send a request until it is answered; also returns whether it was sent more than once.

    The broker may die, or forward the request to a controller that has died. An operation that was carried
    out all the same is refused the second time, by a code of its own.
    """
    deadline = time.monotonic() + RESEND_S
    sent_again = False
    while True:
        try:
            return connection.send_to_controller(request_type, request, WRITE_TIMEOUT_S), sent_again
        except (OutcomeUnknown, Unreachable) as error:
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE_S)
            try:
                guard()
            except LockLost:
                raise error from None  # it was sent, and another apply may be running by now
            sent_again = True


def _get_part_key(part: Mapping[str, Any]) -> tuple[int | None, str]:
    return part.get("type"), part["name"]


def _read_part(part: Mapping[str, Any] | None, name: str, done: frozenset[int]) -> Outcome:
    if part is None:
        return OutcomeUnknown(f"the controller's response does not include {name}")
    return translate_response(part) if part["error_code"] and part["error_code"] not in done else None


def _make_creation_entry(operation: CreateTopic) -> Mapping[str, Any]:
    placed = operation.assignment
    return {
        "name": operation.ref.name,
        # Brokers refuse a request with assignments and numbers: both are -1 then.
        "partitions": -1 if placed else operation.partitions,
        "replication_factor": -1 if placed else operation.replication_factor,
        "assignments": [{"index": number, "replicas": replicas} for number, replicas in enumerate(placed)],
        "configs": [{"name": name, "value": value} for name, value in operation.configs.items()],
    }


def _make_alteration_entry(operation: AlterConfigs) -> Mapping[str, Any]:
    changes: list[tuple[str, AlterConfigOperation, str | None]] = [
        (name, AlterConfigOperation.SET, value) for name, value in operation.set.items()
    ]
    changes += [(name, AlterConfigOperation.DELETE, None) for name in operation.unset]
    kind = KINDS[operation.ref.kind]
    assert isinstance(kind, Configured)  # noqa: S101 - it has the configs
    return {
        "type": RESOURCE_TYPES[kind.config_resource],
        "name": operation.ref.name,
        "configs": [{"name": name, "operation": what, "value": value} for name, what, value in changes],
    }


def _make_addition_entry(operation: AddPartitions) -> Mapping[str, Any]:
    assignments = [{"replicas": replicas} for replicas in operation.assignment]
    # Null lets the controller place the partitions; an empty list is refused, as it has too few places.
    return {"name": operation.ref.name, "count": operation.total, "assignments": assignments or None}


def _delete(connection: Connection, deletions: Sequence[DeleteTopic], guard: Guard) -> Mapping[Any, Outcome]:
    """Delete topics by id (KIP-516), which spares a recreated topic, or by name if brokers cannot."""
    ids = {o.subject: topic_id for o in deletions if (topic_id := _decode_topic_id(o.uid)) is not None}
    outcomes: dict[object, Outcome] = {
        o.subject: RequestRejected("not a topic id", code="UNKNOWN_TOPIC_ID")
        for o in deletions
        if o.uid is not None and o.subject not in ids
    }
    # Some services show ids, but delete by name only.
    by_name = [o for o in deletions if o.uid is None]
    if ids and not connection.offers(DELETE_TOPICS):
        by_name += [o for o in deletions if o.subject in ids]
        ids = {}
    names = _find_names(connection, by_name, outcomes)
    by_id = [{"name": None, "topic_id": topic_id} for topic_id in ids.values()]
    for request_type, field, deleted, topics, missing in (
        (DELETE_TOPICS_BY_NAME, "name", names, [*names.values()], ErrorCode.UNKNOWN_TOPIC_OR_PART),
        (DELETE_TOPICS, "topic_id", ids, by_id, ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        if not deleted:
            continue
        try:
            guard()
            request = {"topics": topics, "timeout_ms": int(WRITE_TIMEOUT_S * 1000)}
            response, sent_again = _send(connection, request_type, request, guard)
        except ClusterError as error:
            outcomes.update(dict.fromkeys(deleted, error))
            continue
        parts = {topic[field]: topic for topic in response["topics"]}
        done = frozenset({missing}) if sent_again else frozenset()
        outcomes.update(
            {key: _read_part(parts.get(part), "this topic", done) for key, part in deleted.items()}
        )
    replaced = [o for o in deletions if o.phase is Phase.REMOVE and outcomes[o.subject] is None]
    if replaced:
        outcomes.update(_wait_until_gone(connection, replaced))
    return outcomes


def _find_names(
    connection: Connection, deletions: Sequence[DeleteTopic], outcomes: dict[object, Outcome]
) -> dict[object, str]:
    """Return the names of the topics to delete by name; one that has another id by now is another topic."""
    if not deletions:
        return {}
    descriptions = describe_topics(connection, [o.ref.name for o in deletions]).found
    ids = {name: description.uid for name, description in descriptions.items()}
    # Of a plan without an id, this is another topic, or its brokers were upgraded since (KIP-516).
    refused = RequestRejected("its topic id is not the one of the plan", code="UNKNOWN_TOPIC_ID")
    outcomes.update(dict.fromkeys((o.subject for o in deletions if ids.get(o.ref.name) != o.uid), refused))
    return {o.subject: o.ref.name for o in deletions if o.subject not in outcomes}


def _wait_until_gone(connection: Connection, deletions: Sequence[DeleteTopic]) -> dict[object, Outcome]:
    """Wait until no broker shows deleted topics: with ZooKeeper, their names are in use until then.

    A coordinator deletes the offsets in a topic when its broker learns that the topic is gone. Offsets that
    are committed in the next topic of the name earlier would be deleted, too.
    """
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    names = [o.ref.name for o in deletions]
    while True:
        showing: dict[object, list[int]] = {}
        for broker, metadata in connection.send_to_each(METADATA, names, WRITE_TIMEOUT_S).items():
            shown = (
                {o.subject for o in deletions}  # it is not known what this broker shows
                if isinstance(metadata, ClusterError)
                else {
                    parse_description(topic).uid
                    for topic in metadata.topics
                    if topic.error_code in EXISTING_CODES
                }
            )
            for operation in deletions:
                if operation.subject in shown:
                    showing.setdefault(operation.subject, []).append(broker)
        if not showing or time.monotonic() > deadline:
            break
        time.sleep(PAUSE_S)
    hint = "run the same apply again: it creates the topic once it is gone"
    return {
        subject: OutcomeUnknown(
            f"deleted, but not gone on every broker ({listed([f'broker {b}' for b in brokers])})", hint=hint
        )
        for subject, brokers in showing.items()
    }


def _decode_topic_id(text: str | None) -> bytes | None:
    """Decode a topic id from 22 characters of URL-safe base64 without padding; None if invalid or zero."""
    try:
        value = urlsafe_b64decode((text or "") + "==")
    except binascii.Error:
        return None
    return value if len(value) == _UUID_BYTES and any(value) else None


def _delete_groups(
    connection: Connection, deletions: Sequence[DeleteGroup], guard: Guard
) -> Mapping[Any, Outcome]:
    """Delete groups, and then the configs of those that were deleted."""
    # Configs after the group: if its deletion fails, the group keeps them.
    outcomes = delete_groups(connection, deletions, guard)
    configured = [o for o in deletions if o.configs and outcomes[o.subject] is None]
    if configured:
        unset = [AlterConfigs(o.ref, {}, o.configs) for o in configured]
        responses = submit(connection, unset, guard)
        outcomes.update(
            {
                o.subject: _explain_kept_configs(response)
                for o, response in zip(configured, responses, strict=True)
            }
        )
    return outcomes


def _explain_kept_configs(response: Outcome) -> Outcome:
    """Return the outcome of a deletion whose group is deleted: LockLost would mean that nothing was sent."""
    if not isinstance(response, LockLost):
        return response
    return ClusterError(
        f"the group was deleted, but its configs were not: {response.message}", hint=response.hint
    )


WRITERS: dict[type[Operation], Writer] = {
    CreateTopic: CreationWriter(
        CREATE_TOPICS, _make_creation_entry, "topics", frozenset({ErrorCode.TOPIC_ALREADY_EXISTS})
    ),
    # No codes: setting or deleting a config twice is no error.
    AlterConfigs: ValidatedWriter(ALTER_CONFIGS, _make_alteration_entry, "resources", frozenset()),
    AddPartitions: ValidatedWriter(
        # A count that a topic has already is refused as INVALID_PARTITIONS.
        CREATE_PARTITIONS,
        _make_addition_entry,
        "topics",
        frozenset({ErrorCode.INVALID_PARTITIONS}),
    ),
    AlterConfigsInSync: ValidatedWriter(ALTER_CONFIGS, _make_alteration_entry, "resources", frozenset()),
    CommitInitialOffsets: UnvalidatedWriter(commit_initial_offsets),
    ResetOffsets: UnvalidatedWriter(reset_offsets),
    DeleteGroup: UnvalidatedWriter(_delete_groups),
    DeleteOffsets: UnvalidatedWriter(delete_offsets),
    DeleteTopic: UnvalidatedWriter(_delete),
    AlterQuota: QuotaWriter(_send),
    GrantAccess: AccessWriter(_send),
    RevokeAccess: AccessWriter(_send),
    RemoveDenials: AccessWriter(_send),
    SetCredentials: CredentialWriter(_send),
    RemoveCredentials: CredentialWriter(_send),
}
"""The writer of each operation, in the order in which requests are sent.

`Reassign` takes more than one request: see `kafkaform.cluster.kafka.reassignments`.
"""


DELETE_TIMEOUT_S = 30.0
"""How long the deletion of groups may take."""


def delete_groups(
    connection: Connection, operations: Sequence[DeleteGroup], guard: Guard
) -> dict[object, Outcome]:
    """Delete groups with their offsets, not their configs, one per request; returns outcomes by subject.

    A group that does not exist counts as deleted.
    """

    def send(names: Collection[str]) -> GroupResponses[None]:
        responses: GroupResponses[None] = GroupResponses()
        for name in names:
            try:
                guard()
            except LockLost as lost:
                responses.failed[name] = lost
                continue
            responses.update(coordinators.delete(connection, name, DELETE_TIMEOUT_S))
        return responses

    failed = retry_until_ready([o.ref.name for o in operations], send).failed
    outcomes: dict[object, Outcome] = {}
    for operation in operations:
        error = failed.get(operation.ref.name)
        outcomes[operation.subject] = None if error is None or is_missing(error) else error
    return outcomes
