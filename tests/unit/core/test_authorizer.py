"""Decisions on access, from ACLs and settings; tests/kafka/test_access.py compares them with a broker's."""

import pytest

from kafkaform.core.acls import OPERATIONS, Acl, ResourceType, parse_operation, parse_principal
from kafkaform.core.authorizer import AccessRequest, Authorizer, AuthorizerSettings, Basis
from kafkaform.resources.acl_resources import parse_resource

TOPIC = ResourceType.TOPIC
CLOSED = AuthorizerSettings(frozenset(), False)


def acl(text: str) -> Acl:
    """An ACL such as `-User:a Read orders. prefixed 10.0.0.1`; `-` denies."""
    principal, operation, name, *extra = text.removeprefix("-").split()
    hosts = [word for word in extra if word != "prefixed"]
    return Acl(
        TOPIC, name, "prefixed" in extra, principal, hosts[0] if hosts else "*", operation, text[0] != "-"
    )


def decide(acls: str, request: str, settings: AuthorizerSettings = CLOSED) -> tuple[bool | None, Basis]:
    principal, operation, name, *host = request.split()
    authorizer = Authorizer([acl(text) for text in acls.split("; ") if text], settings)
    decision = authorizer.decide(AccessRequest(principal, operation, TOPIC, name), *host)
    return decision.is_allowed, decision.basis


@pytest.mark.parametrize(
    ("acls", "request_", "allowed"),
    [
        ("User:a Read x", "User:a Read x", True),
        ("User:a Read x", "User:a Describe x", True),
        ("User:a AlterConfigs x", "User:a DescribeConfigs x", True),
        ("User:a AlterConfigs x", "User:a Describe x", False),
        ("User:a Read x", "User:a Write x", False),
        ("User:a All x", "User:a Write x", True),
        ("User:* Read x", "User:a Read x", True),
        ("User:a Read *", "User:a Read x", True),
        ("User:a Read o prefixed", "User:a Read orders", True),
        ("User:a Read o", "User:a Read orders", False),
        ("User:a Read * prefixed", "User:a Read orders", False),
        ("User:a Read x; -User:a Describe x", "User:a Describe x", False),
        ("User:a Read x; -User:a Describe x", "User:a Read x", True),
        ("User:a Read x; -User:* All *", "User:a Read x", False),
        ("User:a Read x 10.0.0.1", "User:a Read x", False),
        ("User:a Read x 10.0.0.1", "User:a Read x 10.0.0.1", True),
        ("User:a Read x; -User:a Read x 10.0.0.1", "User:a Read x 10.0.0.1", False),
    ],
)
def test_decisions_follow_authorizer_rules(acls: str, request_: str, allowed: bool) -> None:
    assert decide(acls, request_)[0] is allowed


def test_resource_without_acls_follows_allow_everyone_setting() -> None:
    for allow_everyone in (True, False, None):
        settings = AuthorizerSettings(frozenset(), allow_everyone)
        assert decide("", "User:a Read x", settings) == (allow_everyone, Basis.NO_ACL_OF_RESOURCE)
        # The first ACL closes a resource to everybody else.
        assert decide("User:b Read x", "User:a Read x", settings) == (False, Basis.NO_MATCHING_ACL)


def test_super_user_is_always_allowed() -> None:
    settings = AuthorizerSettings(frozenset({"User:root"}), False)
    assert decide("-User:* All *", "User:root Delete x", settings) == (True, Basis.SUPER_USER)


def test_grants_list_hosts_and_exceptions() -> None:
    texts = "User:a Read x; -User:a Read x 10.0.0.1; User:b Read x 10.0.0.2; -User:c All x; User:c Read x"
    authorizer = Authorizer(map(acl, texts.split("; ")), AuthorizerSettings(frozenset({"User:root"}), False))
    grants = authorizer.list_grants("Read", TOPIC, "x")
    assert {grant.principal: (grant.hosts, grant.except_hosts) for grant in grants} == {
        "User:a": (("*",), ("10.0.0.1",)),
        "User:b": (("10.0.0.2",), ()),
        "User:root": (("*",), ()),
    }
    by_host = authorizer.decide_by_host(AccessRequest("User:b", "Read", TOPIC, "x"))
    assert {host: decision.is_allowed for host, decision in by_host.items()} == {"10.0.0.2": True}


def test_declared_authorizer_settings_complete_hidden_settings() -> None:
    declared = AuthorizerSettings(frozenset({"User:root"}), True)
    assert AuthorizerSettings(None, None).complete(declared) == declared
    assert AuthorizerSettings(frozenset(), False).complete(declared) == AuthorizerSettings(frozenset(), False)


@pytest.mark.parametrize("text", ["ConsumerGroup/", "Topc/x", "/x", "cluster/x"])
def test_resources_without_a_type_or_name_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no name|is not a type"):
        parse_resource(text)


def test_resource_operation_and_principal_names_are_parsed() -> None:
    assert parse_resource("a") == (TOPIC, "a")
    assert parse_resource("Topic/Cluster") == (TOPIC, "Cluster")
    assert parse_resource("Cluster")[0] is ResourceType.CLUSTER
    assert parse_operation("describe-configs", TOPIC) == "DescribeConfigs"
    assert parse_principal("User:CN=a,OU=b") == "User:CN=a,OU=b"
    for operation, allowed in (("Produce", ()), ("ClusterAction", (OPERATIONS[TOPIC],))):
        with pytest.raises(ValueError, match="is not an operation"):
            parse_operation(operation, TOPIC, *allowed)
    with pytest.raises(ValueError, match="is not a principal"):
        parse_principal("alice")
