"""Reading and altering the SCRAM credentials of a real cluster (KIP-554).

Brokers do not return passwords: declared ones are compared by logging in.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.cluster.kafka.responses import note_unknown, report_unlisted
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_response
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.messages import ALTER_SCRAM, DESCRIBE_SCRAM
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    LoginRefused,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.model import Diagnostic, Observation, ResourceRef, Severity, State
from kafkaform.core.secrets import Reference, UnreadableSecret, read_secret
from kafkaform.core.values import Value
from kafkaform.resources.user import UserKind, observe_user
from kafkaform.resources.user.credential import parse_credential, salt_password
from kafkaform.resources.user.risk import OwnLogin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.message_schema import RequestType
    from kafkaform.core.lock import Guard
    from kafkaform.resources.user.operations import AlterCredentials

_log = logging.getLogger(__name__)

_TIMEOUT_S = 60.0
"""How long a broker may take to describe all users."""
_MECHANISMS: Mapping[int, str] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The codes of ScramMechanism in org.apache.kafka.clients.admin."""
_CODES = {mechanism: code for code, mechanism in _MECHANISMS.items()}


class UserReader:
    """Reads the credentials of users, all with one request; compares declared passwords by logging in."""

    def observe(
        self, connection: Connection, refs: Mapping[ResourceRef, State], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """Read users; none if the brokers do not offer it."""
        try:
            users, unknown = _read_users(connection)
        except NotOffered:
            return Observation({})  # an apply of declared users fails with the same error
        except PermissionDenied as error:
            return report_unlisted("users", refs, error)
        inventory = {ResourceRef(UserKind.name, name): live for name, live in users.items()}
        logins = _Logins(connection)
        resources = {
            ref: observe_user(ref.name, live, refs.get(ref, {}), logins.make_login(ref))
            for ref, live in inventory.items()
            if ref in refs or also(ref)
        }
        return Observation(
            resources,
            frozenset(inventory),
            diagnostics=(*logins.describe_undecided(), *note_unknown(unknown, "SCRAM credential")),
            parts=(_find_own_login(connection),),
        )

    def observe_fields(self, connection: Connection, fields: Mapping[ResourceRef, State]) -> Observation:
        """Read whole users: one response has them all."""
        return self.observe(connection, fields, none_besides)


def _read_users(connection: Connection) -> tuple[dict[str, dict[str, int]], int]:
    """Read the iterations of all users, by user and mechanism, and the number of unknown mechanisms."""
    # With ZooKeeper, the controller alone answers. Null would describe all users, too, but a broker never
    # answers that to an account without the right (seen on 4.3.1).
    response = connection.send_to_controller(DESCRIBE_SCRAM, {"users": ()}, _TIMEOUT_S)
    if response["error_code"]:
        raise name_right(translate_response(response), DESCRIBE_SCRAM.name)
    users = {
        result["user"]: {
            _MECHANISMS[each["mechanism"]]: each["iterations"]
            for each in result["credentials"]
            if each["mechanism"] in _MECHANISMS
        }
        for result in response["results"]
    }
    return users, sum(
        len(result["credentials"]) - len(users[result["user"]]) for result in response["results"]
    )


class _Logins:
    """The logins of one reading: one for each declared credential that is live."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._undecided: dict[str, dict[ResourceRef, None]] = {}
        self._unavailable: dict[str, str] = {}

    def make_login(self, ref: ResourceRef) -> Callable[[str, Reference], bool | None]:
        """Return the function that logs in as one user."""

        def log_in(mechanism: str, password: Reference) -> bool | None:
            try:
                secret = read_secret(password)
                if mechanism not in self._unavailable:
                    self._connection.log_in_as(ref.name, mechanism, secret)
                    return True
                why = self._unavailable[mechanism]
            except LoginRefused:
                _log.debug("the %s login of %s was refused", mechanism, ref)
                return False
            except UnreadableSecret as error:
                why = str(error)
            except ClusterError as error:
                # It is about the listener, not about this user: others are not tried.
                why = self._unavailable[mechanism] = error.message
            self._undecided.setdefault(why, {})[ref] = None
            return None

        return log_in

    def describe_undecided(self) -> Iterator[Diagnostic]:
        """Describe the passwords that could not be compared, each with the reason and what would help."""
        for why, refs in self._undecided.items():
            hint = (
                "give kafkaform bootstrap.servers of a SASL listener with the mechanism"
                if why in self._unavailable.values()
                else "kafkaform reads the password from there, to log in with it"
            )
            for ref in refs:
                text = f"cannot compare the password of {ref}: {why}"
                yield Diagnostic("KF432", Severity.WARNING, text, suggestion=hint, ref=ref)


def _find_own_login(connection: Connection) -> OwnLogin:
    user, mechanism = (connection.properties.get(f"sasl.{name}") for name in ("username", "mechanism"))
    return OwnLogin(str(user), str(mechanism)) if user and mechanism in _CODES else OwnLogin()


class CredentialWriter(Value):
    """Sets and removes credentials, which brokers cannot validate.

    Attributes:
        send: Sends a request to the controller until it is answered; see `kafkaform.cluster.kafka.writer`.
    """

    send: Callable[[Connection, RequestType[Any], Mapping[str, Any], Guard], tuple[Any, bool]]

    def write(
        self,
        connection: Connection,
        operations: Sequence[AlterCredentials],
        validate_only: bool,
        guard: Guard,
    ) -> dict[object, ClusterError | None]:
        """Send alterations of different users; returns outcomes by subject.

        A dry run sends nothing, and returns an error that says so.
        """
        outcomes: dict[object, ClusterError | None] = {}
        entries: dict[ResourceRef, list[_Entry]] = {}
        for operation in operations:
            try:
                entries[operation.ref] = _make_entries(operation)
            except UnreadableSecret as unreadable:
                text = str(unreadable)
                outcomes[operation.ref] = (
                    # It may be there where the plan is applied.
                    ClusterError(text, hint="set it where the apply runs")
                    if validate_only
                    else RequestRejected(
                        text, code="NO_PASSWORD", hint="nothing was sent: set it where the apply runs"
                    )
                )
        if validate_only:
            is_offered = connection.offers(ALTER_SCRAM)
            text = "Kafka has no dry run for SCRAM credentials"
            dry = ClusterError(text) if is_offered else NotOffered(ALTER_SCRAM.name)
            return {**outcomes, **dict.fromkeys(entries, dry)}
        # A controller with KRaft refuses two credentials of one user in a request (seen on 4.3.1), so each
        # request has one of each user.
        is_sent = False
        while entries:
            try:
                errors = self._send_first(connection, entries, guard)
            except LockLost as lost:
                if not is_sent:
                    raise
                # LockLost would mean that nothing was sent.
                errors = dict.fromkeys(entries, ClusterError(lost.message))
            for error in filter(None, errors.values()):
                error.is_partial = is_sent
            is_sent = True
            outcomes |= errors
            entries = {ref: unsent for ref, (_, *unsent) in entries.items() if unsent and not errors[ref]}
        return outcomes

    def _send_first(
        self, connection: Connection, entries: Mapping[ResourceRef, Sequence[_Entry]], guard: Guard
    ) -> dict[object, ClusterError | None]:
        """Send the first entry of each user; returns the outcomes."""
        request = {
            part: [each for (where, each), *_ in entries.values() if where == part]
            for part in ("deletions", "upsertions")
        }
        guard()
        try:
            response, sent_again = self.send(connection, ALTER_SCRAM, request, guard)
        except ClusterError as error:
            return dict.fromkeys(entries, error)
        results = {result["user"]: result for result in response["results"]}
        return {ref: _find_error(results.get(ref.name), sent_again=sent_again) for ref in entries}


def _find_error(result: Mapping[str, Any] | None, *, sent_again: bool) -> ClusterError | None:
    """Return the error of the result for one user; None if it was carried out."""
    if result is None:
        return OutcomeUnknown("the controller's response does not include this user")
    code = result["error_code"]
    # Removed by the request whose response was lost.
    if not code or (sent_again and code == ErrorCode.RESOURCE_NOT_FOUND):
        return None
    return name_right(translate_response(result), ALTER_SCRAM.name)


_Entry: TypeAlias = "tuple[str, Mapping[str, Any]]"
"""The part of a request that an entry belongs to, and the entry."""


def _make_entries(operation: AlterCredentials) -> list[_Entry]:
    """Return the entries of requests for one user; raises UnreadableSecret without a password."""
    entries: list[_Entry] = []
    for mechanism, value in operation.mechanisms().items():
        entry = {"name": operation.ref.name, "mechanism": _CODES.get(mechanism, 0)}
        if value is None:
            entries.append(("deletions", entry))
            continue
        credential = parse_credential(value)
        if credential is None or not isinstance(credential.password, Reference):
            raise UnreadableSecret(f"the plan has no reference to the password for {mechanism}")
        password = read_secret(credential.password)
        salt, salted = salt_password(mechanism, credential.iterations, password)
        stored = {"iterations": credential.iterations, "salt": salt, "salted_password": salted}
        entries.append(("upsertions", {**entry, **stored}))
    return entries
