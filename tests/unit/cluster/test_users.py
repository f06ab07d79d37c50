"""Reading and altering users and ACLs, where brokers answer as those of the tests do not."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka.acls import AccessReader, AccessWriter
from kafkaform.cluster.kafka.users import CredentialWriter, UserReader
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.large_responses import DescribedAcls
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.cluster.wire.messages import CREATE_ACLS
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.acls import Acl
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import (
    ClusterError,
    LockLost,
    LoginRefused,
    NotOffered,
    OutcomeUnknown,
    PermissionDenied,
    RequestRejected,
)
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import Observation, ResourceRef
from kafkaform.core.secrets import Secret
from kafkaform.resources.access.operations import RevokeAccess
from kafkaform.resources.user.operations import AlterCredentials, RemoveCredentials, SetCredentials

ALICE, BOB = ResourceRef("User", "alice"), ResourceRef("User", "bob")
PATH = "scram.SCRAM-SHA-512"
DECLARED = "iterations=4096,password=${env:PW}"


class Brokers:
    """A connection to brokers that answer this, or fail so."""

    def __init__(self, answer: Any = None, login: ClusterError | None = None) -> None:
        self.answer, self.login = answer, login
        self.logins: list[tuple[str, str]] = []
        self.requests: list[Any] = []
        self.is_offered = True
        self.properties = {"sasl.username": "root", "sasl.mechanism": "SCRAM-SHA-256"}

    def send_to_controller(self, _: RequestType[Any], request: Any, __: float) -> Any:
        self.requests.append(request)
        if isinstance(self.answer, ClusterError):
            raise self.answer
        return self.answer

    def offers(self, _: RequestType[Any]) -> bool:
        return self.is_offered

    def log_in_as(self, user: str, mechanism: str, password: Secret) -> None:
        assert password.reveal() == "s3cr3t"
        self.logins.append((user, mechanism))
        if self.login is not None:
            raise self.login

    def send(
        self, _: Connection, request_type: RequestType[Any], request: Any, __: Guard
    ) -> tuple[Any, bool]:
        return self.send_to_controller(request_type, request, 0), True

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)

    def observe(self, *refs: ResourceRef) -> Observation:
        declared = {ref: {PATH: DECLARED} for ref in refs}
        return UserReader().observe(self.connection, declared, lambda _: False)

    def write(self, *operations: AlterCredentials, validate_only: bool = False) -> list[ClusterError | None]:
        writer = CredentialWriter(self.send)
        outcomes = writer.write(self.connection, operations, validate_only, unguarded)
        return [outcomes[operation.subject] for operation in operations]


def build_describe_response(*users: str, error: int = 0, mechanism: int = 2) -> Mapping[str, Any]:
    credentials = [{"mechanism": mechanism, "iterations": 4096}]
    results = [{"user": user, "error_code": 0, "credentials": credentials} for user in users]
    return {"error_code": error, "error_message": None, "results": results}


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "s3cr3t")


@pytest.mark.parametrize(
    ("login", "password"),
    [(None, "${env:PW}"), (LoginRefused("no"), "changed"), (ClusterError("no SASL"), "unknown")],
)
def test_declared_password_is_verified_once(login: ClusterError | None, password: str) -> None:
    brokers = Brokers(build_describe_response("alice", "bob"), login)
    read = brokers.observe(ALICE)
    assert brokers.logins == [("alice", "SCRAM-SHA-512")]
    assert read.resources[ALICE].state == {PATH: f"iterations=4096,password={password}"}
    assert read.inventory == {ALICE, BOB}
    assert BOB not in read.resources
    notes = [("KF432", ALICE)] if password == "unknown" else []
    assert [(note.code, note.ref) for note in read.diagnostics] == notes


def test_missing_mechanism_is_noted_for_each_user(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(build_describe_response("alice", "bob"), ClusterError("the broker supports only PLAIN"))
    notes = brokers.observe(ALICE, BOB).diagnostics
    assert len(brokers.logins) == 1
    assert [note.ref for note in notes] == [ALICE, BOB]
    assert all("the broker supports only PLAIN" in note.message for note in notes)
    assert {note.suggestion for note in notes} == {
        "give kafkaform bootstrap.servers of a SASL listener with the mechanism"
    }
    monkeypatch.delenv("PW")
    brokers = Brokers(build_describe_response("alice"))
    assert "variable PW is not set" in brokers.observe(ALICE).diagnostics[0].message
    assert brokers.logins == []


def test_unauthorized_users_are_invisible() -> None:
    denied = Brokers(build_describe_response(error=31)).observe(ALICE)
    assert denied.invisible.keys() == {ALICE}
    assert Brokers(build_describe_response(error=31)).observe().diagnostics[0].code == "KF430"
    assert Brokers(NotOffered("DescribeUserScramCredentials")).observe(ALICE) == Observation({})
    # A mechanism of a later Kafka is left out.
    read = Brokers(build_describe_response("alice", mechanism=3)).observe(ALICE)
    assert (read.resources[ALICE].state, [note.code for note in read.diagnostics]) == ({}, ["KF433"])


def test_set_credentials_sends_only_salted_password() -> None:
    brokers = Brokers({"results": [{"user": "alice", "error_code": 0}]})
    assert brokers.write(SetCredentials(ALICE, {PATH: DECLARED})) == [None]
    assert brokers.write(SetCredentials(ALICE, {PATH: DECLARED})) == [None]
    first, second = (request["upsertions"][0] for request in brokers.requests)
    assert first.keys() == {"name", "mechanism", "iterations", "salt", "salted_password"}
    assert len(first["salted_password"]) == 64
    assert first["salt"] != second["salt"]
    assert "s3cr3t" not in repr(brokers.requests)


def test_credential_outcomes_follow_response(monkeypatch: pytest.MonkeyPatch) -> None:
    def result(user: str, code: int) -> dict[str, Any]:
        return {"user": user, "error_code": code, "error_message": None}

    gone = Brokers({"results": [result("alice", 91)]}).write(RemoveCredentials(ALICE, {PATH: None}))
    assert gone == [None], "the request was sent twice: the first one removed it"
    operations = SetCredentials(ALICE, {PATH: DECLARED}), SetCredentials(BOB, {PATH: DECLARED})
    denied, missing = Brokers({"results": [result("alice", 31)]}).write(*operations)
    assert isinstance(denied, PermissionDenied)
    assert str(denied.right) == "Alter on the cluster"
    assert isinstance(missing, OutcomeUnknown)
    assert [type(error) for error in Brokers(OutcomeUnknown("?")).write(*operations)] == [OutcomeUnknown] * 2
    malformed = SetCredentials(BOB, {PATH: "iterations=4096,password=changed"})
    (refused,) = Brokers().write(malformed)
    assert isinstance(refused, RequestRejected)
    monkeypatch.setenv("PW", "")
    brokers = Brokers()
    (empty,) = brokers.write(operations[0])
    assert empty is not None
    assert empty.message == "${env:PW} is empty"
    assert brokers.requests == []


def test_request_has_single_credential_per_user() -> None:
    """A controller with KRaft refuses two, although they are of different mechanisms."""
    both = {PATH: DECLARED, "scram.SCRAM-SHA-256": DECLARED}
    brokers = Brokers({"results": [{"user": "alice", "error_code": 0}, {"user": "bob", "error_code": 0}]})
    assert brokers.write(SetCredentials(ALICE, both), SetCredentials(BOB, {PATH: DECLARED})) == [None, None]
    sent = [[(each["name"], each["mechanism"]) for each in r["upsertions"]] for r in brokers.requests]
    assert sent == [[("alice", 2), ("bob", 2)], [("alice", 1)]]

    def lose_lock() -> None:
        if brokers.requests:
            raise LockLost("another apply has the lock")

    writer, operations = CredentialWriter(brokers.send), [SetCredentials(ALICE, both)]
    with pytest.raises(LockLost):
        writer.write(brokers.connection, operations, False, lose_lock)
    brokers.requests.clear()
    (error,) = writer.write(brokers.connection, operations, False, lose_lock).values()
    assert type(error) is ClusterError, "LockLost would mean that nothing was sent"
    assert error.is_partial


def test_user_dry_run_sends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers()
    operation = SetCredentials(ALICE, {PATH: DECLARED})
    assert "no dry run for SCRAM" in str(brokers.write(operation, validate_only=True)[0])
    brokers.is_offered = False
    assert "AlterUserScramCredentials" in str(brokers.write(operation, validate_only=True)[0])
    monkeypatch.delenv("PW")
    (unset,) = brokers.write(operation, validate_only=True)
    assert not isinstance(unset, RequestRejected), "it may be set where the plan is applied"
    assert "variable PW is not set" in str(unset)
    assert brokers.requests == []


DONE = {"error_code": 0, "error_message": None}


def revocation(name: str) -> RevokeAccess:
    ref = ResourceRef("Access", f"User:{name}")
    denied, allowed = (
        parse_path(path, ref.name) for path in ("deny Read on topic x", "allow Read on topic x")
    )
    return RevokeAccess(ref, (denied,), (allowed,))


class Controller:
    """Answers requests as told, and keeps them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers]
        self.sent: list[tuple[str, int]] = []

    def __call__(self, _connection: Any, request_type: Any, request: Any, _guard: Any) -> tuple[Any, bool]:
        (acls,) = request.values()
        self.sent.append((request_type.name, len(acls)))
        answer = self.answers.pop(0)
        if isinstance(answer, ClusterError):
            raise answer
        return {"results" if request_type is CREATE_ACLS else "filters": answer}, False


def write(
    controller: Controller, *names: str, lost_at: int | None = None
) -> dict[object, ClusterError | None]:
    calls: list[None] = []

    def guard() -> None:
        calls.append(None)
        if len(calls) == lost_at:
            raise LockLost("bob has it")

    operations = [revocation(name) for name in names]
    connection: Any = None
    return AccessWriter(controller).write(connection, operations, False, guard)


def test_refused_acl_creation_sends_no_deletion() -> None:
    refused = {"error_code": 42, "error_message": "no"}
    controller = Controller([refused, DONE], [{**DONE, "matches": []}])
    outcomes = write(controller, "a", "b")
    assert [type(outcome) for outcome in outcomes.values()] == [RequestRejected, type(None)]
    assert controller.sent == [("CreateAcls", 2), ("DeleteAcls", 1)]


def test_incomplete_acl_response_is_unknown_outcome() -> None:
    controller = Controller([DONE])
    assert {type(outcome) for outcome in write(controller, "a", "b").values()} == {OutcomeUnknown}
    assert controller.sent == [("CreateAcls", 2)]


def test_lost_lock_stops_acl_requests() -> None:
    with pytest.raises(LockLost):
        write(Controller(), "a", lost_at=1)
    controller = Controller([DONE])
    assert [type(outcome) for outcome in write(controller, "a", lost_at=2).values()] == [LockLost]
    assert controller.sent == [("CreateAcls", 1)]


def test_deletion_of_unexpected_acl_is_error() -> None:
    second = {"resource_type": 2, "resource_name": "y", "pattern_type": 3, "principal": "User:a"}
    second |= {"host": "*", "operation": 3, "permission_type": 3}
    controller = Controller([DONE], [{**DONE, "matches": [{**DONE, **second}]}])
    (outcome,) = write(controller, "a").values()
    assert isinstance(outcome, RequestRejected)


def test_acls_of_unknown_type_are_counted() -> None:
    reading = AccessReading((), AuthorizerSettings(), unknown=2)
    connection: Any = None
    read = AccessReader(lambda _: reading).observe(connection, [], lambda _: True)
    assert [note.code for note in read.diagnostics] == ["KF433"]


def test_acl_missing_on_broker_is_in_state() -> None:
    """Each broker decides by its own copy of the metadata, so that an apply waits for all of them."""
    ref = ResourceRef("Access", "User:a")
    everywhere, new = (parse_path(f"allow Read on topic {name}", ref.name) for name in ("old", "new"))

    class Brokers:
        def send_to_each(self, *_: object) -> dict[int, DescribedAcls[Acl]]:
            return {3: DescribedAcls(0, "", [everywhere]), 1: DescribedAcls(0, "", [everywhere, new])}

    connection: Any = Brokers()
    (principal,) = AccessReader().observe_fields(connection, {ref: []}).resources.values()
    assert principal.state == {
        "allow Read on topic old": "granted",
        "allow Read on topic new": "granted on broker 1 only",
    }
