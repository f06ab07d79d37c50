"""The documents that programs and people read, whole: one scene through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.cli.main import run
from kafkaform.cli.session import Session
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.schema_files import load_schema
from tests.support.cli.memory_program import Connected

CONFIG = """\
apiVersion: kafkaform/v1
kind: Config
environments: [dev]
clusters:
  memory: {environment: dev, client: {bootstrap.servers: "broker:9092"}}
"""
MANIFESTS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: orders, labels: {team: shop}}
spec: {partitions: 3, replicationFactor: 1, retention: 7d, config: {max.message.bytes: 2MiB}}
---
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: users}
spec: {partitions: 2, replicationFactor: 1, config: {cleanup.policy: compact}}
---
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: billing}
spec: {topics: [orders], offsets: {initial: earliest}}
---
apiVersion: kafkaform/v1
kind: ClientQuota
metadata: {name: user=alice}
spec: {config: {producer_byte_rate: 1048576}}
"""


@pytest.fixture
def kafkaform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command in a folder with manifests, on a cluster in memory."""
    cluster = Connected()
    monkeypatch.setattr(Session, "cluster", lambda _: cluster)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kafkaform.yaml").write_text(CONFIG)
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics/all.yaml").write_text(MANIFESTS)

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(arguments)
        return code, capsys.readouterr().out

    call.cluster = cluster  # type: ignore[attr-defined]
    return call


SCHEMAS = ("plan", "drift")


def count_changes(text: str, schema: str = "plan") -> dict[str, Any]:
    """Return what a plan or a comparison counts, as far as there is any."""
    document = json.loads(text)
    if schema in SCHEMAS:
        Draft202012Validator(load_schema(schema)).validate(document)
    return {name: count for name, count in document["summary"].items() if count}


def test_documents_and_exit_codes(kafkaform: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    code, text = kafkaform("plan", "--format", "json", "--detailed-exitcode")
    assert (code, count_changes(text)) == (2, {"create": 4})
    assert kafkaform("plan", "--out", "plan.json")[0] == 0
    code, text = kafkaform("apply", "plan.json", "--auto-approve", "--format", "json")
    assert (code, count_changes(text, "apply")) == (0, {"applied": 4})
    assert kafkaform("plan", "--detailed-exitcode")[0] == 0
    kafkaform.cluster.execute([AlterConfigs(ResourceRef("Topic", "orders"), {"retention.ms": "1000"})])  # type: ignore[attr-defined]
    code, text = kafkaform("drift", "--format", "json")
    differing = {"drifted": 1, "differs": 1, "fields": 1, "unchanged": 3}
    assert (code, count_changes(text, "drift")) == (2, differing)
    (orders,) = json.loads(text)["resources"]
    assert orders["accept"]["lines"][0]["yaml"] == "retention: 1s"
    assert orders["fields"][0]["since"]["last"]["value"] == "604800000"
    manifests = tmp_path / "topics/all.yaml"
    manifests.write_text(MANIFESTS.replace("partitions: 2", "partitions: 4").replace("7d", "1ms"))
    code, text = kafkaform("plan", "--format", "json", "--detailed-exitcode")
    assert (code, count_changes(text)) == (1, {"update": 2, "needs_consent": 2, "unchanged": 2})
    hazards = [field["hazard"] for change in json.loads(text)["changes"] for field in change["fields"]]
    assert hazards == ["retention-cut", "partition-increase-compacted", None]
    code, text = kafkaform("apply", "--auto-approve", "--format", "json")
    assert (code, count_changes(text, "apply")) == (1, {"needs_consent": 2})
    code, text = kafkaform("history", "--format", "json")
    entries = [(change["name"], change["result"]) for change in json.loads(text)["changes"]]
    assert (code, len(entries), {result for _, result in entries}) == (0, 4, {"applied"})
    assert kafkaform("plan", "--target", "Topic/none")[0] == 64
    manifests.write_text(MANIFESTS.replace("partitions: 2", "partitions: two"))
    assert kafkaform("plan")[0] == 1
