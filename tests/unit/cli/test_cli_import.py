"""`kafkaform import` of the files of another tool, without a cluster, and of a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.resources.topic.operations import CreateTopic
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project, manifest, run_in_process
from tests.support.foreign.examples import EXAMPLES
from tests.support.plans.scenes import topic

STATE = """\
topics:
  orders: {partitions: 3, replication: 1}
  payments: {partitions: 3, replication: 1}
"""


def test_imported_files_become_valid_manifests(tmp_path: Path) -> None:
    (tmp_path / "state.yaml").write_text(STATE, "utf-8")
    chosen = ("--match", "ord*", "--label", "team=checkout")
    run_in_process("import", "state.yaml", *chosen, cwd=tmp_path).needs(0)
    assert [path.name for path in (tmp_path / "topics").iterdir()] == ["orders.yaml"]
    assert "team: checkout" in (tmp_path / "topics" / "orders.yaml").read_text("utf-8")
    run_in_process("validate", cwd=tmp_path).needs(0)
    # What a manifest declares already is left alone, as it is with a cluster.
    assert "1 topic already declared" in run_in_process("import", "state.yaml", cwd=tmp_path).needs(0).out
    run_in_process("import", "state.yaml", "--match", "order", cwd=tmp_path).needs(1)


def test_import_reads_files_from_stdin(tmp_path: Path) -> None:
    state = EXAMPLES["terraform"].read_text("utf-8")
    dry_run = ("import", "--from", "terraform", "-", "--dry-run")
    done = run_in_process(*dry_run, cwd=tmp_path, given=state).needs(1)
    assert "Would write" in done.out
    assert "hunter2" not in done.both
    assert not (tmp_path / "topics").exists()


def test_import_of_several_clusters_needs_source_cluster(tmp_path: Path) -> None:
    topic = "meta: {name: orders, cluster: NAME}\nspec: {partitions: 1, replicationFactor: 1}\n"
    (tmp_path / "t.yaml").write_text(
        f"{topic.replace('NAME', 'dev')}---\n{topic.replace('NAME', 'prod')}", "utf-8"
    )
    assert "dev, prod" in run_in_process("import", "t.yaml", cwd=tmp_path).needs(64).both
    done = run_in_process("import", "t.yaml", "--source-cluster", "prod", cwd=tmp_path).needs(0)
    assert "cluster: prod" in (tmp_path / "topics" / "orders.yaml").read_text("utf-8")
    assert "note: 1 resource of the cluster dev: skipped" in done.both
    run_in_process("import", "--source-cluster", "prod", cwd=tmp_path).needs(64)


def test_import_of_files_accepts_several_configured_clusters(tmp_path: Path) -> None:
    (tmp_path / "state.yaml").write_text(STATE, "utf-8")
    clusters = "".join(f"  {name}: {{client: {{bootstrap.servers: 'h:1'}}}}\n" for name in ("a", "b"))
    head = "apiVersion: kafkaform/v1\nkind: Config\n"
    (tmp_path / "kafkaform.yaml").write_text(f"{head}clusters:\n{clusters}", "utf-8")
    run_in_process("import", "--from", "auto", "state.yaml", cwd=tmp_path).needs(0)
    run_in_process("import", "state.yaml", "--clusters", "*", cwd=tmp_path).needs(64)


@pytest.mark.parametrize("by", ["topic", "prefix"])
def test_schemas_are_files_beside_the_manifests(tmp_path: Path, by: str) -> None:
    shutil.copytree(EXAMPLES["jikkou"].parent / "schemas", tmp_path / "schemas")
    shutil.copy(EXAMPLES["jikkou"], tmp_path)
    line = ("import", "jikkou.yaml", "--kind", "subject", "--by", by)
    assert "topics/schemas/shop.money.json\n" in run_in_process(*line, "--dry-run", cwd=tmp_path).needs(1).out
    run_in_process(*line, cwd=tmp_path).needs(1)
    run_in_process("validate", cwd=tmp_path).needs(0)
    schema = tmp_path / "topics" / "schemas" / "shop.orders-value.avsc"
    before = schema.read_text("utf-8")
    schema.write_text('"string"', "utf-8")
    run_in_process(*line, "--overwrite", cwd=tmp_path).needs(1)
    assert schema.read_text("utf-8") == before


# --- of a cluster ----------------------------------------------------------------------------------


def create_topics(connected: Connected, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
    operations = [CreateTopic(topic(name), count, 1, configs) for name, (count, configs) in topics.items()]
    assert connected.execute(operations) == [None] * len(operations)


def read_manifests(project: Project) -> dict[str, Any]:
    files = sorted((project.folder / "topics").rglob("*.yaml"))
    loaded = [yaml.safe_load(file.read_text("utf-8")) for file in files]
    return {document["metadata"]["name"]: document for document in loaded}


def test_shared_values_become_defaults(project: Project, connected: Connected, prefix: str) -> None:
    topics = {
        f"{prefix}{n}": (1 + n, {"retention.ms": "604800000", "segment.ms": "3600000"}) for n in range(3)
    }
    topics[f"{prefix}own"] = (1, {"retention.ms": "1000"})
    create_topics(connected, topics)
    config = project.config()
    mine = ("--match", f"{prefix}*", "--kind", "topic")
    printed = project.run("import", *mine, "--defaults").needs(0)
    assert printed.said == ""
    assert yaml.safe_load(printed.out) == {
        "defaults": {"Topic": {"replicationFactor": 1, "retention": "7d", "config": {"segment.ms": "1h"}}}
    }
    assert not (project.folder / "topics").exists()
    config.write_text(config.read_text() + printed.out)
    project.run("import", *mine).needs(0)
    assert {name.removeprefix(prefix): value["spec"] for name, value in read_manifests(project).items()} == {
        "0": {"partitions": 1},
        "1": {"partitions": 2},
        "2": {"partitions": 3},
        "own": {"partitions": 1, "retention": "1s", "config": {"segment.ms": None}},
    }
    project.run("plan", "--no-strict", "--detailed-exitcode").needs(0)
    again = project.run("import", *mine, "--defaults").needs(0)
    assert again.out == ""
    assert again.err


SPEC = {"partitions": 1, "replicationFactor": 1}
STOPPED: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "a file that is there": ("live/{}b.yaml", "mine", ("--out", "live"), "live/{}b.yaml already exists"),
    "another manifest in the file": (
        "topics/{}a.yaml",
        manifest("{}a", SPEC) + "---\n" + manifest("{}z", SPEC),
        ("--overwrite",),
        "topics/{}a.yaml also declares Topic/{}z, which would be lost",
    ),
    "a wrong manifest": (
        "topics/wrong.yaml", "kind: Topic\nmetadata: {nam: x}\n", (), "topics/wrong.yaml:2:12",
    ),
}  # fmt: skip
"""Files that stop an import: name, text, options, and what of the message matters."""


@pytest.mark.parametrize("case", STOPPED)
def test_import_is_stopped_before_it_writes(
    project: Project, connected: Connected, prefix: str, case: str
) -> None:
    create_topics(connected, {f"{prefix}{name}": (1, {}) for name in "abc"})
    name, text, options, reason = (
        part.replace("{}", prefix) if isinstance(part, str) else part for part in STOPPED[case]
    )
    file = project.write(str(name), str(text))
    call = project.run("import", "--match", f"{prefix}*", *options).needs(1)
    assert str(reason) in call.err
    assert [*file.parent.iterdir()] == [file]
    assert file.read_text() == text
