"""Changes of ACLs whose requests fail in part; tests/kafka/test_access.py has them on a broker."""

from typing import Any

import pytest

from kafkaform.cluster.kafka.acls import AccessReader, AccessWriter
from kafkaform.cluster.wire.large_responses import DescribedAcls
from kafkaform.cluster.wire.messages import CREATE_ACLS
from kafkaform.core.acl_fields import parse_path
from kafkaform.core.acls import Acl
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import ClusterError, LockLost, OutcomeUnknown, RequestRejected
from kafkaform.core.model import ResourceRef
from kafkaform.resources.access.operations import RevokeAccess

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
