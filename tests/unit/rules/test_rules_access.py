"""Rules about declared access."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.acls import Acl, ResourceType
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.model import Diagnostic, Facts, ResourceRef
from kafkaform.resources.access.risk import AccessFacts
from kafkaform.rules import RuleContext, Stage, check

TEAM = {"team": "shop"}


def diagnose(
    folder: Path,
    *manifests: tuple[str, str, dict[str, Any]],
    live: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    facts: Facts | None = None,
    is_offline: bool = False,
) -> list[Diagnostic]:
    """The findings of the rules of access; labels are teams by name, without which all are of team shop."""
    documents = [
        {
            "apiVersion": "kafkaform/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": TEAM if labels is None else {"team": labels.get(name, "")}},
            "spec": spec,
        }
        for name, kind, spec in manifests
    ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    inventory = frozenset(ResourceRef("Topic", name) for name in live)
    given = None if is_offline else facts or Facts("x")
    context = RuleContext(tuple(load([folder], Context())), given, inventory)
    findings = check(context, {}, (Stage.MANIFESTS,) if is_offline else (Stage.MANIFESTS, Stage.LIVE))
    return [each for each in findings if each.code.startswith("KF6")]


def find(folder: Path, *manifests: tuple[str, str, dict[str, Any]], **scene: Any) -> set[tuple[str, str]]:
    return {(each.code, str(each.ref)) for each in diagnose(folder, *manifests, **scene)}


def access(principal: str = "User:a", name: str = "access", **spec: Any) -> tuple[str, str, dict[str, Any]]:
    return (name, "Access", {"principals": [principal], **spec})


def consume(group: object, *topics: object, principal: str = "User:a") -> tuple[str, str, dict[str, Any]]:
    return access(principal, consumes=[{"group": group, "topics": [*topics]}])


ORDERS = {"resource": "topic", "name": "orders"}
READ = {"resource": "topic", "operations": ["Read"]}
READ_ALL = {**READ, "name": "*"}
GROUP, USER = {"resource": "group", "name": "g"}, {"resource": "user", "name": "u"}
DENIED = {"resource": "topic", "prefix": "g", "operations": ["All"], "permission": "deny"}
BILLING = ("billing", "ConsumerGroup", {"topics": ["orders"]})


@pytest.mark.parametrize(
    ("declared", "live", "expected"),
    [
        ([access("User:*", acls=[{**ORDERS, "operations": ["Describe"]}])], ("orders",), set()),
        ([access(produces=[{"prefix": "orders"}])], ("orders.v1", "orders-internal"), {"KF602"}),
        ([access(produces=[{"prefix": "orders"}])], ("orders", "orders.v1"), set()),
        ([access(produces=["misspelt"])], ("orders",), {"KF604"}),
        ([access(connect={"groupId": "sinks"})], ("orders",), set()),
        ([access(produces=["*", {"prefix": "x."}])], ("orders",), {"KF605"}),
        ([access(produces=["orders"], acls=[{**READ, "name": "orders"}])], ("orders",), set()),
        ([BILLING, consume("billing", "orders", "x")], ("orders", "x"), {"KF606"}),
        ([BILLING, access(consumes=[{"group": "billing"}], acls=[READ_ALL])], ("orders",), {"KF605"}),
        ([BILLING, consume({"prefix": "bill."}, "x")], ("x",), set()),
        ([access(produces=["gone"]), access("User:*", "all", acls=[DENIED])], ("gone",), {"KF609"}),
        ([access(acls=[{**DENIED, "operations": ["Read"]}], produces=["gone"])], ("gone",), set()),
        ([access(produces=[{"prefix": "orders_"}])], ("orders_v1", "invoices.v1"), set()),
        ([access(acls=[{**USER, "operations": ["Read", "All"]}])], (), {"KF605", "KF612"}),
        ([access(acls=[{**GROUP, "operations": ["Delete", "All"]}])], (), {"KF605"}),
        ([access(acls=[{**DENIED, "hosts": ["10.0.0.1", "fe80:0:0:0:0:0:0:1%2"]}])], (), set()),
        ([access(acls=[{**DENIED, "hosts": ["kafka.example.com", "fe80::1"]}])], (), {"KF613"}),
    ],
)
def test_access_rules_have_expected_findings(
    tmp_path: Path, declared: list[Any], live: tuple[str, ...], expected: set[str]
) -> None:
    found = find(tmp_path, *declared, live=live)
    assert {code for code, _ in found} == expected
    assert all(ref.startswith("Access/User:") for _, ref in found)


@pytest.mark.parametrize(
    ("spec", "is_found"),
    [
        ({"produces": ["ordres.v1"]}, True),
        ({"consumes": [{"group": "billing", "topics": ["orders.v1", "ordres.v1"]}]}, True),
        ({"acls": [{**READ, "name": "ordres.v1", "operations": ["Read", "Write"]}]}, True),
        ({"produces": ["of-another-repository"]}, False),
        ({"produces": [{"prefix": "ordres.v1"}, "*"]}, False),
        ({"acls": [{**READ, "name": "ordres.v1", "operations": ["Read", "Create"]}]}, False),
        ({"consumes": [{"group": "misspelt"}]}, False),  # KF210 reports it at the group
    ],
)
def test_misspelt_topic_is_found_offline(tmp_path: Path, spec: dict[str, Any], is_found: bool) -> None:
    declared = [
        access(**spec),
        ("orders.v1", "Topic", {"partitions": 1, "replicationFactor": 1}),
        ("billing", "ConsumerGroup", {"topics": ["orders.v1"]}),
        ("misspelt", "ConsumerGroup", {"topics": ["orders.v11"]}),
    ]
    found = [each for each in diagnose(tmp_path, *declared, is_offline=True) if each.code == "KF604"]
    assert [each.suggestion for each in found] == ["did you mean 'orders.v1'?"] * is_found


def test_acls_of_undeclared_principals_on_absent_topic_are_reported(tmp_path: Path) -> None:
    acls = [Acl(ResourceType.TOPIC, "gone", False, f"User:{name}", "*", "Read", True) for name in "ab"]
    facts = Facts("x").add_part(AccessFacts(AccessReading(tuple(acls), AuthorizerSettings())))
    absent = ("gone", "Topic", {"state": "absent"})
    assert find(tmp_path, absent, facts=facts) == {("KF608", "Topic/gone")}
    assert find(tmp_path, absent, access(), access("User:b", "b"), facts=facts) == set()
