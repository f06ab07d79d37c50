"""Reading and altering the client quotas of a real cluster (KIP-546).

All quotas are read at once: the defaults that apply to an entity are quotas of other entities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster.kafka.responses import note_unknown, report_unlisted
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_response
from kafkaform.cluster.wire.messages import ALTER_QUOTAS, DESCRIBE_QUOTAS
from kafkaform.core.errors import ClusterError, NotOffered, OutcomeUnknown, PermissionDenied, RequestRejected
from kafkaform.core.model import Observation, ResourceRef
from kafkaform.core.values import Value
from kafkaform.resources.client_quota import observe_quota, quota_ref
from kafkaform.resources.client_quota.entity import TYPES, QuotaEntity, parse_entity
from kafkaform.resources.client_quota.spec import value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.lock import Guard
    from kafkaform.resources.client_quota.operations import AlterQuota

TIMEOUT_S = 60.0
"""How long brokers may take to validate an alteration."""


class QuotaReader:
    """Reads quotas, all with one request."""

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """Read quotas; none if the brokers do not offer them."""
        try:
            quotas, unknown = read_quotas(connection)
        except NotOffered:
            return Observation({})  # an apply of declared quotas fails with the same error
        except PermissionDenied as error:
            return report_unlisted("client quotas", refs, error)
        by_ref = {quota_ref(entity): entity for entity in quotas}
        return Observation(
            {
                ref: observe_quota(entity, quotas)
                for ref, entity in by_ref.items()
                if ref in refs or also(ref)
            },
            frozenset(by_ref),
            diagnostics=note_unknown(unknown, "client quota"),
        )

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        """Read whole quotas: one response has them all."""
        return self.observe(connection, fields.keys(), none_besides)


def read_quotas(connection: Connection) -> tuple[dict[QuotaEntity, dict[str, str]], int]:
    """Read the limits of every entity of a cluster, and the number of those that no manifest can name.

    Raises:
        NotOffered: The brokers do not offer the request.
        PermissionDenied: This account may not read them; names the right.
    """
    # Without components, the filter matches every entity; `strict` would exclude those with more components.
    (response,) = connection.send(DESCRIBE_QUOTAS, [{"components": (), "strict": False}])
    if response["error_code"]:
        raise name_right(translate_response(response), DESCRIBE_QUOTAS.name)
    quotas = {}
    for entry in response["entries"]:
        entity = _read_entity(entry["entity"])
        if entity is not None:
            quotas[entity] = {
                value["key"]: value_text(value["key"], value["value"]) for value in entry["values"]
            }
    return quotas, len(response["entries"]) - len(quotas)


class QuotaWriter(Value):
    """Sets and removes limits with one request, or has brokers validate it.

    Attributes:
        send: Sends a request to the controller until it is answered; see `kafkaform.cluster.kafka.writer`.
    """

    send: Callable[[Connection, RequestType[Any], Mapping[str, Any], Guard], tuple[Any, bool]]

    def write(
        self, connection: Connection, operations: Sequence[AlterQuota], validate_only: bool, guard: Guard
    ) -> dict[object, ClusterError | None]:
        """Send alterations of different entities, or have them validated; returns outcomes by subject."""
        outcomes: dict[object, ClusterError | None] = {}
        entries: dict[QuotaEntity, tuple[object, Mapping[str, Any]]] = {}
        for operation in operations:
            try:
                entity = parse_entity(operation.ref.name)
                entries[entity] = operation.subject, _make_entry(entity, operation)
            except ValueError as error:
                outcomes[operation.subject] = RequestRejected(str(error), code="INVALID_REQUEST")
        if not entries:
            return outcomes
        guard()
        subjects = [subject for subject, _ in entries.values()]
        request = {"entries": [entry for _, entry in entries.values()], "validate_only": validate_only}
        try:
            if validate_only:
                response = connection.send_to_controller(ALTER_QUOTAS, request, TIMEOUT_S)
            else:
                response, _ = self.send(connection, ALTER_QUOTAS, request, guard)
        except ClusterError as error:
            return outcomes | dict.fromkeys(subjects, error)
        # Until the response says otherwise: an entity that it omits may have been altered.
        unknown = OutcomeUnknown("the controller's response does not include this quota")
        outcomes |= dict.fromkeys(subjects, unknown)
        for part in response["entries"]:
            answered = _read_entity(part["entity"])
            # Answers name entities, and need not keep the order of the request.
            if answered in entries:
                failed = part["error_code"] != 0
                subject, _ = entries[answered]
                outcomes[subject] = (
                    name_right(translate_response(part), ALTER_QUOTAS.name) if failed else None
                )
        return outcomes


def _read_entity(components: Sequence[Mapping[str, Any]]) -> QuotaEntity | None:
    """Parse an entity; None for one that no manifest can name, such as one of a type of a later Kafka."""
    names = {component["type"]: component["name"] for component in components}
    if not names.keys() <= set(TYPES) or "" in names.values():
        return None
    return QuotaEntity(tuple((type_, names[type_]) for type_ in TYPES if type_ in names))


def _make_entry(entity: QuotaEntity, operation: AlterQuota) -> Mapping[str, Any]:
    """Return the request entry for one entity; raises ValueError if a value is not a number."""
    return {
        "entity": [{"type": type_, "name": name} for type_, name in entity.parts],
        "ops": [
            *({"key": name, "value": float(value), "remove": False} for name, value in operation.set.items()),
            *({"key": name, "remove": True} for name in operation.unset),
        ],
    }
