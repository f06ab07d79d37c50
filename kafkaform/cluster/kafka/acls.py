"""Reading and changing the ACLs of a real cluster, and reading the settings of its authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.facts import BROKER_TIMEOUT_S, find_own_principal
from kafkaform.cluster.kafka.responses import note_unknown, report_unlisted
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_code, translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import BROKER_CONFIGS, DescribedAcls, describe_acls
from kafkaform.cluster.wire.messages import CREATE_ACLS, DELETE_ACLS
from kafkaform.core.acls import ALL, Acl, ResourceType
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.model import FieldValue, Observation, Observed, ResourceRef
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import listed
from kafkaform.resources.access import observe_access
from kafkaform.resources.access.risk import AccessFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.lock import Guard
    from kafkaform.resources.access.operations import AlterAccess

_TIMEOUT_S = 60.0
"""How long a broker may take to describe all ACLs: 80,000 of them are a response of some 5 MB."""

_ANY = 1
"""The code of ANY for types of resources, patterns, permissions and operations in filters."""
# The codes of ResourceType in org.apache.kafka.common.resource; 7 is of KIP-373.
_RESOURCE_TYPES: Mapping[int, ResourceType] = {
    2: ResourceType.TOPIC,
    3: ResourceType.GROUP,
    4: ResourceType.CLUSTER,
    5: ResourceType.TRANSACTIONAL_ID,
    6: ResourceType.DELEGATION_TOKEN,
    7: ResourceType.USER,
}
# Codes of PatternType; MATCH, which is 2, is for filters alone (KIP-290).
_LITERAL, _PREFIXED = 3, 4
_DENY, _ALLOW = 2, 3
_OPERATIONS: Mapping[int, str] = {
    2: ALL,
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}
"""The codes of AclOperation; 15 since Kafka 4.0 (KIP-939)."""

_TYPE_CODES = {resource_type: code for code, resource_type in _RESOURCE_TYPES.items()}
_OPERATION_CODES = {operation: code for code, operation in _OPERATIONS.items()}
_EVERYTHING = {
    "resource_type": _ANY,
    "resource_name": None,
    "pattern_type": _ANY,
    "principal": None,
    "host": None,
    "operation": _ANY,
    "permission_type": _ANY,
}
"""The filter that every ACL matches."""

_SUPER_USERS = "super.users"
_ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"


class AccessReader(Value):
    """Reads the ACLs of principals, all with one request.

    Attributes:
        read: Reads access control; by default `read_access`, when it is called.
    """

    read: Callable[[Connection], AccessReading] | None = None

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """Read the principals that have ACLs; none if the cluster has no authorizer."""
        try:
            reading = (self.read or read_access)(connection)
        except NotOffered as error:
            # Where nothing is checked, no ACL closes anything; an apply of one fails with the same error.
            unchecked = AccessReading((), AuthorizerSettings(frozenset(), allow_everyone=False))
            return replace(report_unlisted("ACLs", (), error), parts=(AccessFacts(unchecked),))
        except PermissionDenied as error:
            return report_unlisted("ACLs", refs, error)
        principals = observe_access(reading)
        return Observation(
            {ref: principal for ref, principal in principals.items() if ref in refs or also(ref)},
            frozenset(principals),
            diagnostics=note_unknown(reading.unknown, "ACL"),
            parts=(AccessFacts(reading),),
        )

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        """Read ACLs from every live broker, as each decides by its own copy of the metadata.

        The value of an ACL that only some brokers have names these.
        """
        responses = connection.send_to_each(_DESCRIBE_ACLS, _EVERYTHING, _TIMEOUT_S)
        states: dict[int, dict[ResourceRef, Observed]] = {}
        for broker, response in responses.items():
            if isinstance(response, ClusterError):
                raise response
            states[broker] = observe_access(AccessReading(_read_response(response)[0], AuthorizerSettings()))
        return Observation(
            {
                ref: merged
                for ref in fields
                if (merged := _merge({broker: state.get(ref) for broker, state in states.items()}))
                is not None
            }
        )


def _merge(observed: Mapping[int, Observed | None]) -> Observed | None:
    """Return a principal as all brokers have it; None if none of them has it."""
    present = {broker: principal for broker, principal in observed.items() if principal is not None}
    if not present:
        return None
    brokers: dict[str, list[str]] = {}
    values: dict[str, FieldValue] = {}
    for broker, principal in sorted(present.items()):
        for path, value in principal.state.items():
            brokers.setdefault(path, []).append(str(broker))
            values[path] = value
    state = {
        path: value
        if len(brokers[path]) == len(observed)
        else f"{value} on broker {listed(brokers[path])} only"
        for path, value in values.items()
    }
    return replace(principal, state=state)


def read_access(connection: Connection) -> AccessReading:
    """Read access control, as `Cluster.access` does, with one request for all ACLs."""
    (response,) = connection.send(_DESCRIBE_ACLS, [_EVERYTHING], timeout_s=_TIMEOUT_S)
    acls, unknown = _read_response(response)
    return AccessReading(acls, _read_settings(connection), unknown)


def _read_response(response: DescribedAcls[Acl | None]) -> tuple[tuple[Acl, ...], int]:
    """Return the ACLs of a response, and the number of those of a later Kafka; raises its error."""
    if response.error_code == ErrorCode.SECURITY_DISABLED:
        raise _make_disabled_error()
    if response.error_code:
        raise name_right(translate_code(response.error_code, response.error_message), _DESCRIBE_ACLS.name)
    known = tuple(acl for acl in response.acls if acl is not None)
    return known, len(response.acls) - len(known)


def _make_disabled_error() -> NotOffered:
    return NotOffered("ACLs", "(authorizer.class.name is not set on its brokers): everyone may do everything")


def _make_acl(
    type_code: int, name: str, pattern: int, principal: str, host: str, operation_code: int, permission: int
) -> Acl | None:
    """Return the ACL of a response; None for one with a code of a later Kafka."""
    resource_type = _RESOURCE_TYPES.get(type_code)
    operation = _OPERATIONS.get(operation_code)
    if resource_type is None or operation is None:
        return None
    if pattern not in (_LITERAL, _PREFIXED) or permission not in (_DENY, _ALLOW):
        return None
    return Acl(resource_type, name, pattern == _PREFIXED, principal, host, operation, permission == _ALLOW)


_DESCRIBE_ACLS = describe_acls(_make_acl)


def _write_acl(acl: Acl) -> Mapping[str, Any]:
    return {
        "resource_type": _TYPE_CODES[acl.resource_type],
        "resource_name": acl.name,
        "pattern_type": _PREFIXED if acl.is_prefix else _LITERAL,
        "principal": acl.principal,
        "host": acl.host,
        "operation": _OPERATION_CODES[acl.operation],
        "permission_type": _ALLOW if acl.is_allowed else _DENY,
    }


class AccessWriter(Value):
    """Creates ACLs with one request, then deletes others with a second one. Brokers cannot validate either.

    Attributes:
        send: Sends a request to the controller until it is answered; see `kafkaform.cluster.kafka.writer`.
    """

    send: Callable[[Connection, RequestType[Any], Mapping[str, Any], Guard], tuple[Any, bool]]

    def write(
        self, connection: Connection, operations: Sequence[AlterAccess], validate_only: bool, guard: Guard
    ) -> dict[object, ClusterError | None]:
        """Send alterations of different principals; returns outcomes by subject.

        A dry run changes nothing, and returns an error that says so, or that the cluster has no ACLs.
        """
        outcomes: dict[object, ClusterError | None] = {operation.subject: None for operation in operations}
        if validate_only:
            return dict.fromkeys(outcomes, _find_objection(connection))
        # Creations first: if the second request is not sent, an ACL too many is left, and none is missing.
        is_sent = False
        for request_type, name, parts in (
            (CREATE_ACLS, "creations", "results"),
            (DELETE_ACLS, "filters", "filters"),
        ):
            acls = [
                (operation, acl)
                for operation in operations
                if outcomes[operation.subject] is None  # what has failed in part goes no further
                for acl in (operation.created if request_type is CREATE_ACLS else operation.deleted)
            ]
            if not acls:
                continue
            request = {name: [_write_acl(acl) for _, acl in acls]}
            try:
                guard()
                response, _ = self.send(connection, request_type, request, guard)
            except LockLost as error:
                if not is_sent:
                    raise
                outcomes.update((operation.subject, error) for operation, _ in acls)
                continue
            except ClusterError as error:
                outcomes.update((operation.subject, error) for operation, _ in acls)
                continue
            is_sent = True
            # Parts do not repeat the ACL: they belong to those of the request by their order alone.
            if len(response[parts]) != len(acls):
                text = f"the answer to {request_type.name} has {len(response[parts])} parts of {len(acls)}"
                outcomes.update((operation.subject, OutcomeUnknown(text)) for operation, _ in acls)
                continue
            for (operation, acl), part in zip(acls, response[parts], strict=True):
                outcomes[operation.subject] = outcomes[operation.subject] or _find_error(
                    request_type, acl, part
                )
        return outcomes


def _find_objection(connection: Connection) -> ClusterError:
    """Return the error for a dry run: that of a small reading, or that Kafka has none for ACLs."""
    of_cluster = {**_EVERYTHING, "resource_type": _TYPE_CODES[ResourceType.CLUSTER]}
    try:
        (response,) = connection.send(_DESCRIBE_ACLS, [of_cluster], timeout_s=_TIMEOUT_S)
        _read_response(response)
    except ClusterError as error:
        return error
    return ClusterError("Kafka has no dry run for ACLs")


def _find_error(request_type: RequestType[Any], acl: Acl, part: Mapping[str, Any]) -> ClusterError | None:
    """Return the error of one part of a response; None if it was carried out.

    A deletion must have deleted the ACL that it names, or nothing if that is gone.
    """
    failed = [each for each in (part, *part.get("matches", ())) if each["error_code"]]
    if failed:
        if failed[0]["error_code"] == ErrorCode.SECURITY_DISABLED:
            return _make_disabled_error()
        return name_right(translate_response(failed[0]), request_type.name)
    # A filter with the values of one ACL can match no other one.
    values = _write_acl(acl).items()
    if not all(values <= each.items() for each in part.get("matches", ())):
        return RequestRejected(f"the broker deleted another ACL than {acl}", code="UNEXPECTED_MATCH")
    return None


def _read_settings(connection: Connection) -> AuthorizerSettings:
    """Read the settings of the authorizer.

    DescribeConfigs lists them without their values: brokers hide a config of unknown type, which may be a
    secret of a plug-in. A setting that no broker lists is not set: Kafka's default holds.
    """
    own = find_own_principal(connection)
    requests = {node: [{str(node): None}] for node in connection.cluster.brokers}
    listed: set[str] = set()
    for responses in connection.send_to_nodes(BROKER_CONFIGS, requests, BROKER_TIMEOUT_S).values():
        if isinstance(responses, ClusterError) or responses[0][0].error_code:
            return AuthorizerSettings(principal=own)  # a broker that does not answer may have them
        listed |= responses[0][0].configs.effective.keys()
    return AuthorizerSettings(
        None if _SUPER_USERS in listed else frozenset(), None if _ALLOW_EVERYONE in listed else False, own
    )
