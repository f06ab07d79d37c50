"""Reading and altering users, where brokers answer as those of the tests do not."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka.users import CredentialWriter, UserReader
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.message_schema import RequestType
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
