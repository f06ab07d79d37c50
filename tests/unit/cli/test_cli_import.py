"""`kafkaform new`, `import` and `get`: manifests like a team's, of other tools' files, and of a cluster."""

import shutil
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.core.acl_fields import write_path, write_value
from kafkaform.core.model import Create, ResourceRef
from kafkaform.core.operations import AlterConfigs, Operation
from kafkaform.resources import KINDS
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.consumer_group.operations import CommitInitialOffsets
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import ROOT, Project, manifest, run_in_process
from tests.support.foreign.examples import EXAMPLES, QUOTAS, TOPICS, list_acls
from tests.support.plans.scenes import group, topic

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
    assert (
        "Nothing to write.\nLeft out: 2" in run_in_process("import", "state.yaml", cwd=tmp_path).needs(0).out
    )
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


def test_import_of_files_accepts_several_configured_clusters(project: Project) -> None:
    project.write("state.yaml", STATE)
    project.config(clusters={name: {"client": {"bootstrap.servers": "h:1"}} for name in ("a", "b")})
    project.run("import", "--from", "auto", "state.yaml").needs(0)
    project.run("import", "state.yaml", "--clusters", "*").needs(64)


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
    "a file that is there": ("live/x.b.yaml", "mine", ("--out", "live"), "live/x.b.yaml already exists"),
    "another manifest in the file": (
        "topics/x.a.yaml",
        manifest("x.a", SPEC) + "---\n" + manifest("x.z", SPEC),
        ("--overwrite",),
        "topics/x.a.yaml also declares Topic/x.z, which would be lost",
    ),
    "a wrong manifest": (
        "topics/wrong.yaml", "kind: Topic\nmetadata: {nam: x}\n", (), "topics/wrong.yaml:2:12",
    ),
}  # fmt: skip
"""Files that stop an import: name, text, options, and what of the message matters."""


@pytest.mark.parametrize("case", STOPPED)
def test_import_stops_before_it_writes(
    project: Project, connected: Connected, prefix: str, case: str
) -> None:
    create_topics(connected, {f"{prefix}{name}": (1, {}) for name in "abc"})
    name, text, options, reason = STOPPED[case]
    file = project.write(name, text)
    call = project.run("import", "--match", f"{prefix}*", *options).needs(1)
    assert reason in call.err
    assert [*file.parent.iterdir()] == [file]
    assert file.read_text() == text


def list_operations(tool: str) -> list[Operation]:
    """Return the operations that create what a tool creates."""
    operations: list[Operation] = [
        CreateTopic(topic(name), partitions, 1, configs)
        for name, (partitions, configs) in TOPICS[tool].items()
    ]
    operations += [
        AlterQuota(ResourceRef("ClientQuota", quota), limits)
        for quota, limits in QUOTAS.get(tool, {}).items()
    ]
    for principal, acls in groupby(list_acls(tool), lambda acl: acl.principal):
        state = {write_path(acl): write_value(acl) for acl in acls}
        operations += KINDS["Access"].operations(Create(ResourceRef("Access", principal), state))
    return operations


@pytest.mark.parametrize("tool", TOPICS)
def test_plan_after_import_of_other_tool_is_empty(project: Project, tool: str, connected: Connected) -> None:
    authorizer = {"superUsers": ["User:root"], "allowEveryoneIfNoAclFound": False}
    client = {"bootstrap.servers": project.servers}
    project.config(clusters={"acl": {"client": client, "authorizer": authorizer, "lock": False}})
    operations = list_operations(tool)
    assert connected.execute(operations) == [None] * len(operations)
    project.run("import", "--from", tool, EXAMPLES[tool], "--out", "ours").needs(1)
    shutil.rmtree(project.folder / "ours" / "schemas", ignore_errors=True)  # of a registry, not of Kafka
    for path in (project.folder / "ours").glob("*.yaml"):
        # Confluent Cloud has three replicas of each partition, and this cluster one broker.
        path.write_text(path.read_text("utf-8").replace("replicationFactor: 3", "replicationFactor: 1"))
    plan = project.run("plan", "ours", "--format", "json", "--detailed-exitcode").needs(0).json
    assert plan["summary"]["unchanged"] == len({operation.ref for operation in operations})


def test_sources_in_folder_of_manifests_need_another_folder(project: Project) -> None:
    project.config()
    source = project.write("topics/a.yaml", "topics: {a: {partitions: 1, replication: 1}}\n")
    error, hint = project.run("import", source).read_error(64)
    assert error.startswith("topics has the files to import")
    assert "--out DIR" in hint
    project.run("import", source, "--out", "ours").needs(0)
    assert (project.folder / "ours" / "a.yaml").exists()


@pytest.fixture
def cluster(connected: Connected) -> Connected:
    """Topics `a`, `b-changelog` and `payments`, and groups `accountants` and `h`."""
    create_topics(connected, dict.fromkeys(("a", "b-changelog", "payments"), (2, {})))
    groups = [CommitInitialOffsets(group(name), {"a": "earliest"}) for name in ("accountants", "h")]
    assert connected.execute(groups) == [None] * 2
    return connected


@pytest.mark.usefixtures("cluster")
def test_get_prints_manifest_and_overwrites_file(project: Project) -> None:
    manifest = (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
        "  name: a\nspec:\n  partitions: 2\n  replicationFactor: 1\n"
    )
    for given in (["topics", "a"], ["Topic/a"], ["topic/a"], ["Topic", "a"]):
        assert project.run("get", *given).needs(0).out == manifest
    project.run("get", "topic", "a", "-o", "topics/a.yaml").needs(1)
    project.write("topics/a.yaml", "")
    assert project.run("get", "topic", "a", "-o", "topics/a.yaml").needs(0).out == ""
    assert (project.folder / "topics/a.yaml").read_text("utf-8") == manifest
    project.run("plan", "topics", "--no-strict", "--detailed-exitcode").needs(0)


def test_group_with_configs_only_reports_omitted_topics(project: Project, cluster: Connected) -> None:
    assert cluster.execute([AlterConfigs(group("c"), {"consumer.session.timeout.ms": "50000"})]) == [None]
    call = project.run("get", "group", "c").needs(0)
    spec = {"protocol": "consumer", "config": {"consumer.session.timeout.ms": "50s"}}
    assert yaml.safe_load(call.out)["spec"] == spec
    assert call.said.startswith("left out: topics: ")


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(("kind", "near"), [("topic", "payments"), ("group", "accountants")])
def test_missing_resource_suggests_the_nearest_name(project: Project, kind: str, near: str) -> None:
    call = project.run("get", kind, near[:-1]).needs(1)
    assert call.said.startswith(f"Error: {kind} '{near[:-1]}' ")
    assert f"did you mean {near}?" in call.said
    assert call.out == ""


@pytest.mark.usefixtures("cluster")
def test_names_are_lines_or_json(project: Project) -> None:
    assert project.run("get", "topics").needs(0).out.split() == ["a", "payments"]
    every = ["a", "b-changelog", "payments"]
    assert project.run("get", "topics", "--all").needs(0).out.split() == every
    assert project.run("get", "topics", "--all", "--format", "json").needs(0).json == every
    assert project.run("get", "groups").needs(0).out.split() == ["accountants", "h"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The manifests of this repository, of seven teams."""
    for name in ("topics", "schemas"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "kafkaform.yaml", tmp_path)
    return tmp_path


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "topic orders.refunds.v1": ("checkout/orders.refunds.v1.yaml", {"partitions": 6, "keyed": True}),
    "topic orders.x --team payments": ("payments/orders.x.yaml", {"keyed": True}),
    "topic orders.refunds.v1 --out topics/new/a.yaml": ("new/a.yaml", {"keyed": True}),
    "group checkout-refunds --reads a --reads b": ("checkout/checkout-refunds.yaml", {"topics": ["a", "b"]}),
    "access User:refunds --team checkout --reads a --writes b": (
        "checkout/refunds.yaml",
        {
            "principals": ["User:refunds"],
            "produces": ["b"],
            "consumes": [{"group": "refunds", "topics": ["a"]}],
        },
    ),
}
"""The path below topics/ and a part of the spec, by the arguments."""


@pytest.mark.parametrize("arguments", CASES)
def test_new_manifest_follows_team_conventions(folder: Path, arguments: str) -> None:
    below, spec = CASES[arguments]
    path = f"topics/{below}"
    call = run_in_process("new", *arguments.split(), cwd=folder).needs(0)
    made = yaml.safe_load((folder / path).read_text("utf-8"))
    assert made["metadata"]["labels"]["team"] == ("payments" if "payments" in arguments else "checkout")
    assert made["spec"].items() >= spec.items()
    assert "replicationFactor" not in made["spec"]  # of the defaults
    schema = (folder / path).read_text().split("$schema=")[1].splitlines()[0]
    assert (folder / path).parent.joinpath(schema).exists()
    assert f"Written: {path}" in call.out
    assert " --target " in call.out.splitlines()[-1]
    run_in_process("validate", cwd=folder).needs(0)
    # Differing labels are left to the author.
    assert path != "topics/checkout/orders.refunds.v1.yaml" or (
        "No label tier: the others have critical, important" in call.out
    )


def test_successor_has_all_values_of_its_predecessor(folder: Path) -> None:
    old = folder / "topics" / "checkout" / "old.yaml"
    old.write_text(
        """apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: old
  labels: {team: checkout, version: 1.10, tier: critical}
  annotations: {kafkaform/allow: "delete of abc: gone", kafkaform/waive.KF111: "short by intent"}
spec:
  partitions: 12
  keyed: true
  recreate: 3dBzWnVfRkWvGk1yQn2c8A
  retention: {time: 7d, bytes: "1GiB"}
  config: {min.cleanable.dirty.ratio: 0.50, cleanup.policy: "delete"}
  overrides:
    dev: {partitions: 3, recreate: 3dBzWnVfRkWvGk1yQn2c8A}
"""
    )
    run_in_process("new", "topic", "new", "--succeeds", "old", cwd=folder).needs(0)
    files = (old, old.with_name("new.yaml"))
    before, after = (yaml.load(file.read_text(), yaml.BaseLoader) for file in files)
    del before["metadata"]["annotations"]["kafkaform/allow"]
    del before["spec"]["recreate"], before["spec"]["overrides"]["dev"]["recreate"]
    before["metadata"]["name"] = "new"
    before["spec"]["succeeds"] = "old"
    assert after == before
    run_in_process("validate", cwd=folder).needs(0)


REFUSED = {
    "topic a --succeeds b": "kafkaform import --match b",
    "topic orders.v1": "Topic/orders.v1 is declared in topics/checkout/orders.yaml:4:1",
    "topic carts --team checkout": "topics/checkout/carts.yaml exists",
    "topic a --team x --out kafkaform.yaml": "kafkaform.yaml exists",
}
WRONG = {
    "topic zzz": "--team analytics | catalogue",
    "topics a+b --team x": "is not a legal topic name",
    "quota a": "'quota' is not a kind",
    "topc a": "did you mean 'topic'?",
    "group checkout-x": "give --reads TOPIC",
    "access checkout-x": "--writes TOPIC",
    "topic orders.x --reads a": "not for topics",
    "group checkout-x --reads a --writes b": "not for groups",
    "group a --reads a --succeeds orders.v1": "--succeeds is for topics",
}


def test_refused_new_writes_nothing(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for arguments, why in {**REFUSED, **WRONG}.items():
        call = run_in_process("new", *arguments.split(), cwd=folder)
        assert why in call.needs(1 if arguments in REFUSED else 64).err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_first_manifests_have_default_values(tmp_path: Path) -> None:
    for arguments in ("topic a", "access a --reads a", "group a --reads a"):
        run_in_process("new", *arguments.split(), cwd=tmp_path).needs(0)
    files = tmp_path.rglob("*.yaml")
    made = {str(file.relative_to(tmp_path / "topics")): yaml.safe_load(file.read_text()) for file in files}
    assert made.keys() == {"a.yaml", "access/a.yaml", "groups/a.yaml"}
    assert made["a.yaml"]["spec"] == {"partitions": 6, "replicationFactor": 3, "keyed": True}
    assert all("labels" not in each["metadata"] for each in made.values())
    run_in_process("validate", cwd=tmp_path).needs(0)
