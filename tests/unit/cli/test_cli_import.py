"""`kafkaform import` of the files of another tool, which needs no cluster and no configuration."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.cli.project import run_in_process
from tests.support.foreign.examples import EXAMPLES

STATE = """\
topics:
  orders: {partitions: 3, replication: 1}
  payments: {partitions: 3, replication: 1}
"""


def test_files_become_manifests_that_are_valid(tmp_path: Path) -> None:
    (tmp_path / "state.yaml").write_text(STATE, "utf-8")
    chosen = ("--match", "ord*", "--label", "team=checkout")
    run_in_process("import", "state.yaml", *chosen, cwd=tmp_path).needs(0)
    assert [path.name for path in (tmp_path / "topics").iterdir()] == ["orders.yaml"]
    assert "team: checkout" in (tmp_path / "topics" / "orders.yaml").read_text("utf-8")
    run_in_process("validate", cwd=tmp_path).needs(0)
    # What a manifest declares already is left alone, as it is with a cluster.
    assert "1 topic already declared" in run_in_process("import", "state.yaml", cwd=tmp_path).needs(0).out
    run_in_process("import", "state.yaml", "--match", "order", cwd=tmp_path).needs(1)


def test_standard_input_is_one_of_the_files(tmp_path: Path) -> None:
    state = EXAMPLES["terraform"].read_text("utf-8")
    dry_run = ("import", "--from", "terraform", "-", "--dry-run")
    done = run_in_process(*dry_run, cwd=tmp_path, given=state).needs(1)
    assert "Would write" in done.out
    assert "hunter2" not in done.both
    assert not (tmp_path / "topics").exists()


def test_resources_of_one_of_several_clusters_are_written(tmp_path: Path) -> None:
    topic = "meta: {name: orders, cluster: NAME}\nspec: {partitions: 1, replicationFactor: 1}\n"
    (tmp_path / "t.yaml").write_text(
        f"{topic.replace('NAME', 'dev')}---\n{topic.replace('NAME', 'prod')}", "utf-8"
    )
    assert "dev, prod" in run_in_process("import", "t.yaml", cwd=tmp_path).needs(64).both
    done = run_in_process("import", "t.yaml", "--source-cluster", "prod", cwd=tmp_path).needs(0)
    assert "cluster: prod" in (tmp_path / "topics" / "orders.yaml").read_text("utf-8")
    assert "note: 1 resource of the cluster dev: skipped" in done.both
    run_in_process("import", "--source-cluster", "prod", cwd=tmp_path).needs(64)


def test_several_clusters_are_no_error(tmp_path: Path) -> None:
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
