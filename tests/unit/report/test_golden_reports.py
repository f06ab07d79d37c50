"""The documents that programs and people read, whole: one scene through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform.cli.main import run
from kafkaform.cli.session import Session
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.schema_files import load_schema
from tests.support.cli.memory_program import Connected
from tests.support.golden import hide_unstable

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


@pytest.fixture
def check(golden: SnapshotAssertion) -> Callable[..., None]:
    """Compare a document with its golden file, and with its schema."""

    def compare(name: str, text: str, schema: str | None = None) -> None:
        if schema is not None:
            Draft202012Validator(load_schema(schema)).validate(json.loads(text))
        assert hide_unstable(text) == golden(name=f"{name}.json")

    return compare


def test_documents_and_exit_codes(
    kafkaform: Callable[..., tuple[int, str]], check: Callable[..., None], tmp_path: Path
) -> None:
    code, text = kafkaform("plan", "--format", "json", "--detailed-exitcode")
    check("plan", text, "plan")
    assert code == 2
    assert kafkaform("plan", "--out", "plan.json")[0] == 0
    code, text = kafkaform("apply", "plan.json", "--auto-approve", "--format", "json")
    check("apply", text)
    assert code == 0
    assert kafkaform("plan", "--detailed-exitcode")[0] == 0
    kafkaform.cluster.execute([AlterConfigs(ResourceRef("Topic", "orders"), {"retention.ms": "1000"})])  # type: ignore[attr-defined]
    code, text = kafkaform("drift", "--format", "json")
    check("drift", text, "drift")
    assert code == 2
    manifests = tmp_path / "topics/all.yaml"
    manifests.write_text(MANIFESTS.replace("partitions: 2", "partitions: 4").replace("7d", "1ms"))
    code, text = kafkaform("plan", "--format", "json", "--detailed-exitcode")
    check("plan_that_needs_consent", text, "plan")
    assert code == 1
    code, text = kafkaform("apply", "--auto-approve", "--format", "json")
    check("apply_without_consent", text)
    assert code == 1
    code, text = kafkaform("history", "--format", "json")
    check("history", text)
    assert code == 0
    assert kafkaform("plan", "--target", "Topic/none")[0] == 64
    manifests.write_text(MANIFESTS.replace("partitions: 2", "partitions: two"))
    assert kafkaform("plan")[0] == 1
