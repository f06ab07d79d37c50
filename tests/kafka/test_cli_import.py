"""`kafkaform import` on a real Kafka: what other tools made becomes manifests whose plan is empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import NewTopic, ResourceType

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import Project, manifest, run_in_process
from tests.support.clusters.fixtures import TIMEOUT_S, admin_client, eventually, remove_topics
from tests.support.clusters.group_clients import commit
from tests.support.clusters.topics import alter_configs
from tests.support.plans.scenes import VARIED


@pytest.fixture
def project3(kafka3: DevCluster, prefix: str, tmp_path: Path) -> Project:
    return Project(tmp_path, kafka3.bootstrap_servers, prefix)


def create(project: Project, topics: Sequence[NewTopic]) -> None:
    """Topics, made as Kafka's own tools make them; they are there when this returns."""
    admin = admin_client(project.servers)
    for future in admin.create_topics(list(topics), request_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
    names = {topic.topic for topic in topics}
    eventually(lambda: {*admin.list_topics(timeout=TIMEOUT_S).topics}, lambda found: names <= found)


def new(name: str, partitions: int = 1, replicas: int = 1, **configs: str) -> NewTopic:
    return NewTopic(
        name, partitions, replicas, config={key.replace("_", "."): value for key, value in configs.items()}
    )


def set_group_configs(servers: str, name: str, configs: Mapping[str, str | None]) -> None:
    """Set configs of a group; None takes one away."""
    alter_configs(admin_client(servers), ResourceType.GROUP, [name], configs)


@pytest.fixture
def group_configs(kafka: DevCluster) -> Iterator[Callable[..., None]]:
    """Sets configs of groups, and takes them away afterwards: they outlive their groups."""
    made: dict[str, list[str]] = {}

    def set_them(name: str, configs: Mapping[str, str]) -> None:
        made[name] = list(configs)
        set_group_configs(kafka.bootstrap_servers, name, configs)

    yield set_them
    for name, keys in made.items():
        set_group_configs(kafka.bootstrap_servers, name, dict.fromkeys(keys))


def empty_plan(project: Project, *arguments: object) -> Any:
    """The plan of what was imported, which shows nothing: no change, no config without a manifest."""
    plan = project.run("plan", *arguments, "--format", "json", "--detailed-exitcode").needs(0).json
    assert (plan["changes"], plan["undeclared"], plan["unknown"]) == ([], [], [])
    return plan


def manifests(project: Project, folder: str = "topics") -> dict[str, Any]:
    """Every imported manifest by the name of its resource."""
    found = {}
    for file in sorted((project.folder / folder).rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text("utf-8")):
            found[document["metadata"]["name"]] = document
    return found


# --- defaults, labels, and what a broker would refuse today ------------------------------------------


def test_shared_values_become_defaults(project: Project, prefix: str) -> None:
    topics = [new(f"{prefix}{n}", 1 + n, retention_ms="604800000", segment_ms="3600000") for n in range(3)]
    create(project, [*topics, new(f"{prefix}own", retention_ms="1000")])
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
    assert {name.removeprefix(prefix): value["spec"] for name, value in manifests(project).items()} == {
        "0": {"partitions": 1},
        "1": {"partitions": 2},
        "2": {"partitions": 3},
        "own": {"partitions": 1, "retention": "1s", "config": {"segment.ms": None}},
    }
    empty_plan(project, "--no-strict")
    again = project.run("import", *mine, "--defaults").needs(0)
    assert again.out == ""
    assert again.err


def test_labels_are_written(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a"), new(f"{prefix}b")])
    project.run("import", "--match", f"{prefix}a", "--label", "team=checkout", "--label", "tier=1").needs(0)
    project.run("import", "--match", f"{prefix}b").needs(0)
    found = {name.removeprefix(prefix): value["metadata"] for name, value in manifests(project).items()}
    assert found["a"]["labels"] == {"team": "checkout", "tier": "1"}
    assert "labels" not in found["b"]


def test_names_that_collide_are_waived(project: Project, prefix: str) -> None:
    """A broker creates both where one request asks for both; no later one can."""
    create(project, [new(f"{prefix}a.b"), new(f"{prefix}a_b")])
    project.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    waivers = [[*item["metadata"]["annotations"]] for item in manifests(project).values()]
    assert waivers == [["kafkaform/waive.KF102"]] * 2
    run_in_process("validate", cwd=project.folder).needs(0)
    empty_plan(project, "topics")


# --- 200 varied topics -----------------------------------------------------------------------------


def test_plan_of_200_imported_topics_is_empty(project3: Project, prefix: str) -> None:
    topics = [
        NewTopic(f"{prefix}{number:03}", 1 + number % 3, 1 + number % 2, config=VARIED[number % len(VARIED)])
        for number in range(200)
    ]
    create(project3, topics)
    call = project3.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    assert call.said == ""
    assert call.out.startswith("Written: 200 topics in 200 files ")
    assert empty_plan(project3, "topics")["summary"]["unchanged"] == 200
    found = manifests(project3)
    assert {found[topic.topic]["spec"]["replicationFactor"] for topic in topics} == {1, 2}


# --- what is written -------------------------------------------------------------------------------


def test_manifest_has_durations_and_sizes(project: Project, prefix: str) -> None:
    create(
        project,
        [new(f"{prefix}orders", 3, retention_ms="604800000", cleanup_policy="delete", segment_ms="1")],
    )
    project.run("import", "--match", f"{prefix}*").needs(0)
    assert (project.folder / f"topics/{prefix}orders.yaml").read_text() == (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
        f"  name: {prefix}orders\n"
        "spec:\n  partitions: 3\n  replicationFactor: 1\n  retention: 7d\n"
        "  config:\n    cleanup.policy: delete\n    segment.ms: 1ms\n"
    )
    empty_plan(project)


def test_one_file_for_each_prefix(project: Project, prefix: str) -> None:
    mine = prefix.rstrip(".")
    names = [f"{mine}-{name}" for name in ("a.v1", "a.v2", "b.v1")]
    create(project, [new(name) for name in names])
    try:
        project.run("import", "--match", f"{mine}-*", "--by", "prefix", "--out", "live").needs(0)
        files = {
            file.name: file.read_text().count("kind: Topic") for file in (project.folder / "live").iterdir()
        }
        assert files == {f"{mine}-a.yaml": 2, f"{mine}-b.yaml": 1}
        empty_plan(project, "live")
    finally:
        remove_topics(project.servers, mine)


def test_group_with_topics_protocol_and_configs(
    project: Project, prefix: str, group_configs: Callable[..., None]
) -> None:
    create(project, [new(f"{prefix}orders"), new(f"{prefix}carts")])
    name = f"{prefix}shop/eu 1"
    commit(project.servers, name, {(f"{prefix}orders", 0): 0, (f"{prefix}carts", 0): 0})
    group_configs(name, {"consumer.session.timeout.ms": "50000"})
    call = eventually(
        lambda: project.run("import", "--match", f"{prefix}*", "--overwrite"),
        lambda _: "50s" in (project.folder / "topics/groups").joinpath(only_group(project)).read_text(),
    )
    assert call.out.startswith("Written: 2 topics and 1 group ")
    assert manifests(project, "topics/groups")[name]["spec"] == {
        "topics": [f"{prefix}carts", f"{prefix}orders"],
        "protocol": "consumer",
        "config": {"consumer.session.timeout.ms": "50s"},
    }
    assert "KF214" not in run_in_process("validate", "topics", cwd=project.folder).needs(0).both
    empty_plan(project)


def only_group(project: Project) -> str:
    (file,) = (project.folder / "topics/groups").iterdir()
    return file.name


def test_file_names_are_unique_and_bounded(project: Project, prefix: str) -> None:
    longest = f"{prefix}{'x' * (249 - len(prefix))}"
    names = [f"{prefix}Orders", f"{prefix}orders", longest]
    create(project, [new(name) for name in names])
    commit(project.servers, names[0], {(names[0], 0): 0})
    project.run("import", "--match", f"{prefix}*").needs(0)
    files = sorted(file.name for file in (project.folder / "topics").glob("*.yaml"))
    assert len({name.casefold() for name in files}) == 3
    assert f"{longest}.yaml" in files
    assert empty_plan(project)["summary"]["unchanged"] == 4


# --- what is left out ------------------------------------------------------------------------------


def test_left_out_resources_are_counted(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in ("new", "known", "app-changelog")])
    project.config()
    project.topic("known")
    call = project.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    written, known, ignored, *next_steps = call.out.splitlines()
    assert written.startswith("Written: 1 topic ")
    assert [line.partition(": ")[2] for line in next_steps] == ["`kafkaform plan`"]
    assert (project.folder / "schemas/manifest.schema.json").exists()
    assert (known.split()[:3], "topics/known.yaml" in known) == (["Left", "out:", "1"], True)
    assert (ignored.split()[:3], f"{prefix}app-changelog" in ignored) == (["Left", "out:", "1"], True)
    assert empty_plan(project)["summary"]["unchanged"] == 2
    project.run("import", "--match", f"{prefix}app-changelog", "--out", "asked").needs(0)
    assert [*manifests(project, "asked")] == [f"{prefix}app-changelog"]
    project.config(ignore=[])
    commit(project.servers, f"{prefix}g", {(f"{prefix}known", 0): 0})  # brokers have the topic from then on
    call = project.run("import", "--match", "__consumer_offsets", "--dry-run").needs(0)
    assert call.out.startswith("Nothing to write.\nLeft out: 1 topic ")
    assert "__consumer_offsets" in call.out


def test_group_that_reads_nothing_is_left_out(
    project: Project, prefix: str, group_configs: Callable[..., None]
) -> None:
    group_configs(f"{prefix}idle", {"consumer.session.timeout.ms": "50000"})
    call = eventually(
        lambda: project.run("import", "--match", f"{prefix}*"), lambda call: "idle" in call.out
    ).needs(0)
    assert f"({prefix}idle)" in call.out


def test_glob_that_matches_nothing_is_an_error(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}payments")])
    call = project.run("import", "--match", f"{prefix}payment").needs(1)
    assert f"'{prefix}payment'; nothing was written" in call.err
    assert f"hint: did you mean {prefix}payments?" in call.err
    assert not (project.folder / "topics").exists()


# --- files that are there --------------------------------------------------------------------------


def test_overwriting_brings_files_up_to_date(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "ab"])
    project.run("import", "--match", f"{prefix}*").needs(0)
    project.set_config("a", "retention.ms", "3600000")
    call = project.run("import", "--match", f"{prefix}*").needs(0)
    assert "Nothing to write.\nLeft out: 2" in call.out
    call = project.run("import", "--match", f"{prefix}*", "--overwrite").needs(0)
    assert "Written: 2 topics in 2 files" in call.out
    assert manifests(project)[f"{prefix}a"]["spec"]["retention"] == "1h"
    empty_plan(project)


def test_dry_run_lists_files_and_writes_none(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "ab"])
    project.write("topics/.gitkeep", "")
    call = project.run("import", "--match", f"{prefix}*", "--dry-run").needs(0)
    assert call.out == (
        f"topics/{prefix}a.yaml  {prefix}a\ntopics/{prefix}b.yaml  {prefix}b\n"
        "Would write: 2 topics in 2 files below topics.\n"
    )
    assert [file.name for file in (project.folder / "topics").iterdir()] == [".gitkeep"]


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
def test_import_is_stopped_before_it_writes(project: Project, prefix: str, case: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "abc"])
    name, text, options, reason = (
        part.replace("{}", prefix) if isinstance(part, str) else part for part in STOPPED[case]
    )
    file = project.write(str(name), str(text))
    call = project.run("import", "--match", f"{prefix}*", *options).needs(1)
    assert str(reason) in call.err
    assert [*file.parent.iterdir()] == [file]
    assert file.read_text() == text


def test_written_schemas_are_linked(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a")])
    commit(project.servers, f"{prefix}g", {(f"{prefix}a", 0): 0})
    project.write("schemas/manifest.schema.json", "{}")
    project.run("import", "--match", f"{prefix}*").needs(0)
    first = {
        file.stem: file.read_text().split("\n")[0] for file in (project.folder / "topics").rglob("*.yaml")
    }
    assert first == {
        f"{prefix}a": "# yaml-language-server: $schema=../schemas/manifest.schema.json",
        f"{prefix}g": "# yaml-language-server: $schema=../../schemas/manifest.schema.json",
    }
    empty_plan(project)


def test_folder_outside_of_manifests_is_noted(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a")])
    project.config()
    call = project.run("import", "--match", f"{prefix}*", "--out", "some where").needs(0)
    assert "Next: `kafkaform plan 'some where'`\n" in call.out
    assert "some where is not listed in `manifests:`" in call.err
