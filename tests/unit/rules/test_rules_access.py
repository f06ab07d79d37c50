"""Rules about declared access."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.model import Facts, ResourceRef
from kafkaform.rules import RuleContext, Stage, check

TOPICS = [("orders", "Topic", {"partitions": 1, "replicationFactor": 1})]


def find(
    folder: Path, *manifests: tuple[str, str, dict[str, Any]], live: tuple[str, ...] = ()
) -> set[tuple[str, str]]:
    """The rules of access that find something, each with the resource."""
    documents = [
        {"apiVersion": "kafkaform/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        for name, kind, spec in manifests
    ]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    inventory = frozenset(ResourceRef("Topic", name) for name in live)
    context = RuleContext(tuple(load([folder], Context())), Facts("x"), inventory)
    findings = check(context, {}, (Stage.MANIFESTS, Stage.LIVE))
    return {(each.code, str(each.ref)) for each in findings if each.code.startswith("KF6")}


def access(principal: str = "User:a", **spec: Any) -> tuple[str, str, dict[str, Any]]:
    return ("access", "Access", {"principals": [principal], **spec})


READ = {"resource": "topic", "operations": ["Read"]}


@pytest.mark.parametrize(
    ("declared", "live", "expected"),
    [
        ([access("User:*", produces=["orders"])], ("orders",), {"KF601"}),
        (
            [access("User:*", acls=[{**READ, "name": "orders", "operations": ["Describe"]}])],
            ("orders",),
            set(),
        ),
        ([access(produces=[{"prefix": "orders"}])], ("orders.v1", "orders-internal"), {"KF602"}),
        ([access(produces=[{"prefix": "orders"}])], ("orders2",), {"KF602"}),
        ([access(produces=[{"prefix": "orders"}])], ("orders", "orders.v1"), set()),
        ([access(produces=[{"prefix": "orders."}])], ("orders.v1", "orders-internal"), set()),
        ([access(produces=["misspelt"])], ("orders",), {"KF604"}),
        ([access(produces=["*", {"prefix": "x."}])], ("orders",), {"KF605"}),
        ([access(produces=["orders"], acls=[{**READ, "name": "orders"}])], ("orders",), set()),
    ],
)
def test_each_rule_finds_what_it_is_about(
    tmp_path: Path, declared: list[Any], live: tuple[str, ...], expected: set[str]
) -> None:
    found = find(tmp_path, *declared, live=live)
    assert {code for code, _ in found} == expected
    assert {ref for _, ref in found} <= {f"Access/{each[2]['principals'][0]}" for each in declared}


def test_a_member_needs_its_topics_beside_its_group(tmp_path: Path) -> None:
    group = ("billing", "ConsumerGroup", {"topics": ["orders", "refunds"]})
    live = ("orders", "refunds")
    half = access(consumes=[{"group": "billing", "topics": ["orders"]}])
    assert ("KF603", "Access/User:a") in find(tmp_path, group, half, live=live)
    assert not find(tmp_path, group, access(consumes=[{"group": "billing"}]), live=live)
    broad = access(consumes=[{"group": "billing", "topics": [{"prefix": "orders"}, "refunds"]}])
    assert not find(tmp_path, group, broad, live=live)
