"""Reading and altering quotas, where brokers answer as those of the tests do not."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from kafkaform.cluster.kafka.client_quotas import QuotaReader, QuotaWriter, read_quotas
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.wire.message_schema import RequestType
from kafkaform.cluster.wire.messages import DESCRIBE_QUOTAS
from kafkaform.core.errors import ClusterError, LockLost, NotOffered, OutcomeUnknown, PermissionDenied
from kafkaform.core.lock import Guard, unguarded
from kafkaform.core.model import Observation, ResourceRef
from kafkaform.resources.client_quota.operations import AlterQuota

ALICE = ResourceRef("ClientQuota", "user=alice")
CLUSTER_AUTHORIZATION_FAILED = 31


class Brokers:
    """A connection to brokers that answer this, or fail so."""

    def __init__(self, answer: Mapping[str, Any] | ClusterError) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    def send(self, request_type: RequestType[Any], requests: Sequence[Any]) -> list[Any]:
        assert request_type is DESCRIBE_QUOTAS
        return [self.send_to_controller(request_type, request, 0) for request in requests]

    def send_to_controller(self, _: RequestType[Any], request: Any, __: float) -> Any:
        self.requests.append(request)
        if isinstance(self.answer, ClusterError):
            raise self.answer
        return self.answer

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)


def build_describe_response(
    *entries: tuple[Mapping[str, str | None], Mapping[str, float]], error: int = 0
) -> dict[str, Any]:
    return {
        "error_code": error,
        "error_message": None,
        "entries": [
            {
                "entity": [{"type": type_, "name": name} for type_, name in entity.items()],
                "values": [{"key": key, "value": value} for key, value in values.items()],
            }
            for entity, values in entries
        ],
    }


def observe_quotas(answer: Mapping[str, Any] | ClusterError, *refs: ResourceRef) -> Observation:
    return QuotaReader().observe(Brokers(answer).connection, refs, lambda _: False)


def test_quotas_are_read_in_one_request() -> None:
    limits = {"producer_byte_rate": 1.5e6}
    brokers = Brokers(build_describe_response(({"user": "alice"}, limits), ({"user": None}, {})))
    read = QuotaReader().observe(brokers.connection, [ALICE], lambda _: True)
    assert brokers.requests == [{"components": (), "strict": False}]
    assert read.inventory == {ALICE, ResourceRef("ClientQuota", "user=<default>")}
    assert read.resources[ALICE].state == {"config.producer_byte_rate": "1500000"}
    both = build_describe_response(({"client-id": "app", "user": None}, {}))
    quotas, _ = read_quotas(Brokers(both).connection)
    assert [entity.name for entity in quotas] == ["user=<default>,client-id=app"]
    unknown = observe_quotas(build_describe_response(({"zone": "a"}, {})))
    assert (unknown.inventory, [note.code for note in unknown.diagnostics]) == (frozenset(), ["KF433"])


def test_hidden_quotas_are_reported() -> None:
    read = observe_quotas(NotOffered("DescribeClientQuotas"), ALICE)
    assert (read.resources, read.inventory, read.invisible, read.diagnostics) == ({}, frozenset(), {}, ())
    refused = NotOffered("AlterClientQuotas")
    assert write_quotas(Brokers(refused), AlterQuota(ALICE, {"producer_byte_rate": "1"})) == [refused]
    # Without the right a declared quota is not visible and others are a note.
    denied = build_describe_response(error=CLUSTER_AUTHORIZATION_FAILED)
    read = observe_quotas(denied, ALICE)
    assert "lacks DescribeConfigs on the cluster" in read.invisible[ALICE]
    assert read.diagnostics == ()
    (note,) = observe_quotas(denied).diagnostics
    assert note.code == "KF430"
    assert str(note.suggestion).endswith("--operation DescribeConfigs --cluster`")
    with pytest.raises(ClusterError):
        observe_quotas(build_describe_response(error=-1), ALICE)


def write_quotas(
    brokers: Brokers, *operations: AlterQuota, guard: Guard = unguarded, dry: bool = False
) -> list[ClusterError | None]:
    def send(
        connection: Connection, request_type: RequestType[Any], request: Mapping[str, Any], _: Guard
    ) -> tuple[Any, bool]:
        return connection.send_to_controller(request_type, request, 0), False

    answers = QuotaWriter(send).write(brokers.connection, operations, dry, guard)
    return [answers[operation.subject] for operation in operations]


def build_alter_response(*parts: tuple[str, int]) -> dict[str, Any]:
    return {
        "entries": [
            {"error_code": code, "error_message": None, "entity": [{"type": "user", "name": name}]}
            for name, code in parts
        ]
    }


@pytest.mark.parametrize("dry", [True, False])
def test_alteration_lists_set_and_removed_limits(dry: bool) -> None:
    brokers = Brokers(build_alter_response(("alice", 0)))
    operation = AlterQuota(ALICE, {"producer_byte_rate": "1048576"}, ("request_percentage",))
    assert write_quotas(brokers, operation, dry=dry) == [None]
    entity = [{"type": "user", "name": "alice"}]
    limit = {"key": "producer_byte_rate", "value": 1048576.0, "remove": False}
    entry = {"entity": entity, "ops": [limit, {"key": "request_percentage", "remove": True}]}
    assert brokers.requests == [{"entries": [entry], "validate_only": dry}]


def test_quota_outcomes_belong_to_their_entities() -> None:
    bob, carol = (ResourceRef("ClientQuota", f"user={name}") for name in ("bob", "carol"))
    limits = {"producer_byte_rate": "1"}
    operations = [AlterQuota(ref, limits) for ref in (ALICE, bob, carol)]
    denied, done, silent = write_quotas(
        Brokers(build_alter_response(("bob", 0), ("alice", CLUSTER_AUTHORIZATION_FAILED), ("mallory", 0))),
        *operations,
    )
    assert isinstance(denied, PermissionDenied)
    assert "lacks AlterConfigs on the cluster" in denied.message
    assert done is None
    assert isinstance(silent, OutcomeUnknown)


def test_lost_lock_or_unknown_entity_sends_no_request() -> None:
    def lose_lock() -> None:
        raise LockLost("gone")

    brokers = Brokers(build_alter_response())
    with pytest.raises(LockLost):
        write_quotas(brokers, AlterQuota(ALICE, {"producer_byte_rate": "1"}), guard=lose_lock)
    nobody = AlterQuota(ResourceRef("ClientQuota", "nobody"), {"producer_byte_rate": "1"})
    fast = AlterQuota(ALICE, {"producer_byte_rate": "fast"})
    outcomes = write_quotas(brokers, nobody, fast, guard=lose_lock)
    assert all(getattr(outcome, "code", None) == "INVALID_REQUEST" for outcome in outcomes)
    assert brokers.requests == []
