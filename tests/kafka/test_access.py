"""`can` on a broker with an authorizer, and their decisions beside those of the broker."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from kafkaform.core.acls import OPERATIONS, Acl
from kafkaform.core.acls import ResourceType as KafkaformType
from kafkaform.core.authorizer import AccessRequest, Authorizer, AuthorizerSettings
from kafkaform.core.errors import NotOffered, PermissionDenied
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.access.operations import GrantAccess, RevokeAccess
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import TIMEOUT_S, MakeAccount, admin_client, connect, eventually

HOST = "127.0.0.1"
TOPIC_OPERATIONS = OPERATIONS[KafkaformType.TOPIC]
OURS = {operation: operation.name.title().replace("_", "") for operation in AclOperation}


@contextmanager
def grant(servers: str, acls: Sequence[Acl]) -> Iterator[None]:
    """Create ACLs that are gone afterwards."""
    given: dict[str, list[Acl]] = {}
    for acl in acls:
        given.setdefault(acl.principal, []).append(acl)
    refs = {ResourceRef("Access", principal): tuple(some) for principal, some in given.items()}
    with connect(servers) as cluster:
        assert not any(cluster.execute([GrantAccess(ref, some) for ref, some in refs.items()]))
        eventually(lambda: {*cluster.access().acls}, {*acls}.issubset)
        try:
            yield
        finally:
            assert not any(cluster.execute([RevokeAccess(ref, deleted=some) for ref, some in refs.items()]))


def topic_acl(name: str, principal: str, operation: str, *, prefixed: bool = False, **given: Any) -> Acl:
    is_allowed = given.get("allowed", True)
    return Acl(KafkaformType.TOPIC, name, prefixed, principal, given.get("host", "*"), operation, is_allowed)


def draw_acls(
    draw: random.Random, prefix: str, topics: Sequence[str], principals: Sequence[str]
) -> list[Acl]:
    """Draw ACLs of all sorts around some topics: literal, prefixed, wildcard; allowed and denied; by host."""
    acls = []
    for _ in range(draw.randint(3, 14)):
        prefixed = draw.random() < 0.4
        if prefixed:
            name = draw.choice([prefix, f"{prefix}orders", f"{prefix}orders.", *topics])
        else:
            name = draw.choice([*topics, "*", f"{prefix}orders"])
        principal = draw.choice([*principals, *principals, "User:*"])
        operation, allowed = draw.choice(["All", *TOPIC_OPERATIONS]), draw.choice([True] * 4 + [False])
        host = draw.choice(["*", "*", HOST, "10.0.0.1"])
        acls.append(topic_acl(name, principal, operation, prefixed=prefixed, allowed=allowed, host=host))
    return [*dict.fromkeys(acls)]


def read_authorized(client: Any, topics: Sequence[str]) -> dict[str, frozenset[str] | None]:
    """Ask the broker what the account of a client may do with topics; None where it may not see one."""
    futures = client.describe_topics(
        TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=TIMEOUT_S
    )
    authorized: dict[str, frozenset[str] | None] = {}
    for name, future in futures.items():
        try:
            operations = future.result(TIMEOUT_S).authorized_operations
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_AUTHORIZATION_FAILED":
                raise
            authorized[name] = None
        else:
            authorized[name] = frozenset(OURS[operation] for operation in operations)
    return authorized


def test_rights_match_broker_decisions(kafka_acl: DevCluster, account: MakeAccount, prefix: str) -> None:
    """Compare a client's rights on a topic with the broker's answer, after each of many sets of ACLs."""
    draw = random.Random(1)  # not from the prefix, which is another one each time
    admin = admin_client(kafka_acl.bootstrap_servers)
    topics = [
        f"{prefix}{name}" for name in ("orders", "orders.v1", "orders.v2", "orders-internal", "payments")
    ]
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        future.result(TIMEOUT_S)
    accounts = [account() for _ in range(4)]
    clients = {each.principal: AdminClient({**each.client}) for each in accounts}
    seen = 0
    for _ in range(25):
        acls = draw_acls(draw, prefix, topics, list(clients))
        with grant(kafka_acl.bootstrap_servers, acls):
            authorizer = Authorizer(acls, AuthorizerSettings(frozenset(), False))
            for principal, client in clients.items():
                expected: dict[str, frozenset[str] | None] = {}
                for name in topics:
                    allowed = {
                        operation
                        for operation in TOPIC_OPERATIONS
                        if authorizer.decide(
                            AccessRequest(principal, operation, KafkaformType.TOPIC, name), HOST
                        ).is_allowed
                    }
                    expected[name] = frozenset(allowed) if "Describe" in allowed else None
                authorized = eventually(
                    lambda client=client: read_authorized(client, topics),  # type: ignore[misc]
                    lambda read, expected=expected: read == expected,  # type: ignore[misc]
                    10.0,
                )
                seen += sum(1 if read is None else len(TOPIC_OPERATIONS) for read in authorized.values())
    assert seen >= 1_000, "too few decisions were compared"


@pytest.fixture
def granted(kafka_acl: DevCluster, tmp_path: Path, prefix: str) -> Iterator[Project]:
    """A project beside these rights."""
    acls = [
        topic_acl(f"{prefix}orders.", "User:reader", "Read", prefixed=True),
        topic_acl(f"{prefix}orders.v1", "User:reader", "Read", host="10.9.9.9", allowed=False),
        topic_acl(f"{prefix}orders.v1", "User:writer", "Write", host="10.0.0.1"),
        topic_acl(f"{prefix}orders.v1", "User:*", "Describe"),
    ]
    with grant(kafka_acl.bootstrap_servers, acls):
        yield Project(tmp_path, kafka_acl.bootstrap_servers, prefix)


def test_can_exits_by_answer_and_names_acl(granted: Project, prefix: str) -> None:
    topic = f"{prefix}orders.v1"

    def can(*arguments: str, code: int) -> Any:
        return granted.run("can", *arguments, "--format", "json").needs(code).json

    read = can("User:reader", "read", topic, code=0)
    assert (read["basis"], read["acl"]["pattern"]) == ("allowing_acl", "prefixed")
    assert [(each["host"], each["allowed"]) for each in read["hosts"]] == [("10.9.9.9", False)]
    assert can("User:reader", "read", topic, "--host", "10.9.9.9", code=2)["basis"] == "denying_acl"
    write = can("User:writer", "write", f"Topic/{topic}", code=2)
    assert [(each["host"], each["allowed"]) for each in write["hosts"]] == [("10.0.0.1", True)]
    assert can("User:anybody", "describe", topic, code=0)["acl"]["principal"] == "User:*"
    assert can("User:writer", "read", f"ConsumerGroup/{prefix}none", code=1)["allowed"] is None
    text = granted.run("can", "User:writer", "write", topic).needs(2).out
    assert "kafka-acls --bootstrap-server '<servers>' --add --allow-principal User:writer" in text
    cluster = {"client": {"bootstrap.servers": granted.servers}}
    declared = {"superUsers": ["User:admin"], "allowEveryoneIfNoAclFound": False}
    granted.config(clusters={"acl": {**cluster, "authorizer": declared}})
    assert can("User:admin", "delete", topic, code=0)["basis"] == "super_user"
    none = can("User:writer", "read", f"ConsumerGroup/{prefix}none", code=2)
    assert (none["basis"], none["super_users_known"]) == ("no_acl_of_resource", True)


def test_who_can_lists_principals_and_hosts(granted: Project, prefix: str) -> None:
    command = ("can", "anyone", "--format", "json")
    listed, describe = (
        granted.run(*command, operation, f"{prefix}orders.v1").needs(0).json
        for operation in ("read", "describe")
    )
    (grant,) = [each for each in listed["grants"] if each["principal"] != "User:*"]
    assert (grant["principal"], grant["hosts"], grant["except_hosts"]) == ("User:reader", ["*"], ["10.9.9.9"])
    assert [denied["host"] for denied in listed["denied"]] == ["10.9.9.9"]
    assert describe["everyone"] is True
    assert {each["principal"] for each in describe["grants"]} == {"User:*", "User:reader", "User:writer"}


def test_access_needs_an_authorizer_and_the_right(servers: str, account: MakeAccount) -> None:
    with connect(servers) as cluster, pytest.raises(NotOffered):
        cluster.access()
    with pytest.raises(PermissionDenied) as denied:
        account().cluster.access()
    assert str(denied.value.right) == "Describe on the cluster"
    reader = account("CLUSTER:kafka-cluster:DESCRIBE", "CLUSTER:kafka-cluster:DESCRIBE_CONFIGS")
    reading = reader.cluster.access()
    assert reading.settings == AuthorizerSettings(None, None, reader.principal)
    assert reading.acls
