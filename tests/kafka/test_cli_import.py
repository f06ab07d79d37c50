"""`kafkaform import` on a real Kafka: what other tools made becomes manifests whose plan is empty."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kafkaform.core.config_values import ConfigKey
from kafkaform.core.kafka_configs import REASSIGNMENT_KEYS, ConfigType, topic_configs
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Project, called, manifest
from tests.support.kafka_fixtures import TIMEOUT_S, Account, admin_client, eventually, remove_topics

# What a cluster must be made for: tiered storage, or brokers and partitions that are there.
NEEDS_MORE = frozenset(
    {"remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable", "cleanup.policy"}
)


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


def commit(project: Project, group: str, *topics: str) -> None:
    """Offsets of a group, which thereby exists."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0) for topic in topics])
    admin = admin_client(project.servers)

    def errors() -> list[object]:
        (future,) = admin.alter_consumer_group_offsets([wanted]).values()
        return [part.error for part in future.result(TIMEOUT_S).topic_partitions if part.error is not None]

    eventually(errors, lambda found: not found)


def set_group_configs(servers: str, name: str, configs: Mapping[str, str | None]) -> None:
    """Set configs of a group; None takes one away."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, name, incremental_configs=entries)
    admin = admin_client(servers)  # without a name it would be gone before its answer
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


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


def test_values_that_most_topics_share_become_defaults(project: Project, prefix: str) -> None:
    topics = [new(f"{prefix}{n}", 1 + n, retention_ms="604800000", segment_ms="3600000") for n in range(3)]
    create(project, [*topics, new(f"{prefix}own", retention_ms="1000")])
    config = project.config()
    mine = ("--match", f"{prefix}*", "--kind", "topic")
    printed = project.run("import", *mine, "--defaults").needs(0)
    assert printed.said == ""
    assert yaml.safe_load(printed.out) == {
        "defaults": {
            "Topic": {"replicationFactor": 1, "retention": "7d", "config": {"segment.ms": "1h"}},
        }
    }
    assert not (project.folder / "topics").exists()
    config.write_text(config.read_text() + printed.out)
    project.run("import", *mine).needs(0)
    assert {name.removeprefix(prefix): one["spec"] for name, one in manifests(project).items()} == {
        "0": {"partitions": 1},
        "1": {"partitions": 2},
        "2": {"partitions": 3},
        "own": {"partitions": 1, "retention": "1s", "config": {"segment.ms": None}},
    }
    empty_plan(project, "--no-strict")
    again = project.run("import", *mine, "--defaults").needs(0)
    assert again.out == ""
    assert "no value is shared by more than half of the topics, besides the existing defaults" in again.err


def test_labels_are_written(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a"), new(f"{prefix}b")])
    project.run("import", "--match", f"{prefix}a", "--label", "team=checkout", "--label", "tier=1").needs(0)
    project.run("import", "--match", f"{prefix}b").needs(0)
    found = {name.removeprefix(prefix): one["metadata"] for name, one in manifests(project).items()}
    assert found["a"]["labels"] == {"team": "checkout", "tier": "1"}
    assert "labels" not in found["b"]
    for wrong in ("team", "team=", "=x"):
        call = project.run("import", "--label", wrong).needs(64)
        assert call.err.startswith(f"Error: --label {wrong}: not NAME=VALUE")


def test_names_that_collide_are_waived(project: Project, prefix: str) -> None:
    """A broker creates both where one request asks for both; no later one can."""
    create(project, [new(f"{prefix}a.b"), new(f"{prefix}a_b")])
    project.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    waivers = [one["metadata"]["annotations"] for one in manifests(project).values()]
    assert waivers == [{"kafkaform/waive.KF102": "both topics existed when they were imported"}] * 2
    called("validate", cwd=project.folder).needs(0)
    empty_plan(project, "topics")


# --- 200 varied topics -----------------------------------------------------------------------------


def spellings(key: ConfigKey, draw: random.Random) -> str:
    """A value of a config, spelt as somebody happened to."""
    if key.type is ConfigType.BOOLEAN:
        return draw.choice(["true", "false", "TRUE", "False"])
    if key.type is ConfigType.DOUBLE:
        return draw.choice(["0.5", "0.50", ".25", "1", "1e-3", "0.10000000000000001"])
    if key.valid_values:
        return draw.choice(key.valid_values)
    if key.default is not None and draw.random() < 0.2:
        return key.default  # an own value all the same
    choices = [3_600_000, 86_400_000, 90_061_001, 2**30, 10**6, 123_457, 100, 3, 1, 0, -1, 2**63 - 1]
    return str(draw.choice([number for number in choices if allowed(key, number)]))


def allowed(key: ConfigKey, number: int) -> bool:
    """Whether Kafka takes the number, by type and by range."""
    most = {ConfigType.INT: 2**31, ConfigType.SHORT: 2**15}.get(key.type, 2**63) - 1
    ranges = key.ranges or ((0, None),)
    return any(
        (low is None or low <= number) and number <= (most if high is None else high) for low, high in ranges
    )


def varied(prefix: str, count: int, replicas: int) -> list[NewTopic]:
    """Topics with every sort of config, each several times, the same at every call."""
    draw = random.Random(6)
    usable = [
        key
        for key in topic_configs().values()
        if not key.internal
        and key.name not in REASSIGNMENT_KEYS | NEEDS_MORE
        and (key.ranges or key.valid_values or key.type in {ConfigType.BOOLEAN, ConfigType.DOUBLE})
    ]
    topics = []
    for number in range(count):
        configs = {key.name: spellings(key, draw) for key in draw.sample(usable, number % 7)}
        configs.update(
            {
                0: {"cleanup.policy": "compact"},
                1: {"cleanup.policy": "compact,delete"},
                2: {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1073741824"},
                3: {"retention.ms": "604800000"},  # Kafka's own default
                4: {"min.insync.replicas": "1"},
            }.get(number % 9, {})
        )
        configs = sound(configs)
        topics.append(
            NewTopic(f"{prefix}{number:03d}", 1 + number % 3, 1 + number % replicas, config=configs)
        )
    return topics


def sound(configs: dict[str, str]) -> dict[str, str]:
    """Without what Kafka refuses in combination."""
    for low, high in (
        ("local.retention.ms", "retention.ms"),
        ("local.retention.bytes", "retention.bytes"),
        ("min.compaction.lag.ms", "max.compaction.lag.ms"),
    ):
        configs.pop(low, None)
        if low.startswith("min"):
            configs.pop(high, None)
    return configs


def test_the_plan_of_200_imported_topics_is_empty(project3: Project, prefix: str) -> None:
    topics = varied(prefix, 200, replicas=3)
    used = {name for topic in topics for name in topic.config or ()}
    assert len(used) >= 20, "every sort of config is among them"
    create(project3, topics)
    call = project3.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    assert call.said == ""
    assert call.out == "Written: 200 topics in 200 files below topics.\nNext: kafkaform plan\n"
    assert empty_plan(project3, "topics")["summary"]["unchanged"] == 200
    found = manifests(project3)
    assert {found[topic.topic]["spec"]["replicationFactor"] for topic in topics} == {1, 2, 3}


# --- what is written -------------------------------------------------------------------------------


def test_a_manifest_as_people_write_it(project: Project, prefix: str) -> None:
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


def test_a_group_with_its_topics_protocol_and_configs(
    project: Project, prefix: str, group_configs: Callable[..., None]
) -> None:
    create(project, [new(f"{prefix}orders"), new(f"{prefix}carts")])
    name = f"{prefix}shop/eu 1"
    commit(project, name, f"{prefix}orders", f"{prefix}carts")
    group_configs(name, {"consumer.session.timeout.ms": "50000"})
    call = eventually(
        lambda: project.run("import", "--match", f"{prefix}*", "--overwrite"),
        lambda _: "50s" in (project.folder / "topics/groups").joinpath(only_group(project)).read_text(),
    )
    assert call.out.startswith("Written: 2 topics and 1 group in 3 files below topics.\n")
    assert manifests(project, "topics/groups")[name]["spec"] == {
        "topics": [f"{prefix}carts", f"{prefix}orders"],
        "protocol": "consumer",
        "config": {"consumer.session.timeout.ms": "50s"},
    }
    assert "KF214" not in called("validate", "topics", cwd=project.folder).needs(0).both
    empty_plan(project)


def only_group(project: Project) -> str:
    (file,) = (project.folder / "topics/groups").iterdir()
    return file.name


def test_a_group_with_the_name_of_a_topic_and_odd_names(project: Project, prefix: str) -> None:
    longest = f"{prefix}{'x' * (249 - len(prefix))}"
    names = [f"{prefix}Orders", f"{prefix}orders", longest]
    create(project, [new(name) for name in names])
    commit(project, names[0], names[0])
    project.run("import", "--match", f"{prefix}*").needs(0)
    files = sorted(file.name for file in (project.folder / "topics").glob("*.yaml"))
    assert len({name.casefold() for name in files}) == 3
    assert f"{longest}.yaml" in files
    assert empty_plan(project)["summary"]["unchanged"] == 4


def test_the_same_cluster_gives_the_same_files(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}", retention_ms="1", segment_ms="9") for name in "cab"])
    texts = []
    for folder in ("one", "two"):
        project.run("import", "--match", f"{prefix}*", "--out", folder).needs(0)
        texts.append({file.name: file.read_bytes() for file in (project.folder / folder).iterdir()})
    assert texts[0] == texts[1]


# --- defaults and environments ---------------------------------------------------------------------


def test_the_defaults_of_an_environment_are_not_said_again_and_taken_away_where_they_do_not_hold(
    project: Project, prefix: str
) -> None:
    create(
        project,
        [
            new(f"{prefix}as-defaults", 2, min_insync_replicas="1", retention_ms="86400000"),
            new(f"{prefix}bare", 5),
            new(f"{prefix}other", 2, min_insync_replicas="1", retention_ms="1000", segment_ms="60000"),
        ],
    )
    project.config(
        environments=["dev", "prod"],
        clusters={"dev": {"environment": "dev", "client": {"bootstrap.servers": project.servers}}},
        defaults={
            "Topic": {
                "partitions": 2,
                "replicationFactor": 3,
                "retention": "7d",
                "config": {"min.insync.replicas": 2},
                "overrides": {
                    "dev": {"replicationFactor": 1, "retention": "1d", "config": {"min.insync.replicas": 1}}
                },
            }
        },
        undeclared="reset",
    )
    project.run("import", "--match", f"{prefix}*").needs(0)
    found = {name.removeprefix(prefix): each["spec"] for name, each in manifests(project).items()}
    assert found == {
        "as-defaults": {},
        "bare": {"partitions": 5, "config": {"min.insync.replicas": None, "retention.ms": None}},
        "other": {"retention": "1s", "config": {"segment.ms": "1m"}},
    }
    assert empty_plan(project)["summary"]["unchanged"] == 3


# --- what is left out ------------------------------------------------------------------------------


def test_what_is_declared_ignored_or_internal_is_left_out_and_counted(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in ("new", "known", "app-changelog")])
    project.topic("known")
    call = project.run("import", "--match", f"{prefix}*", "--kind", "topic").needs(0)
    assert call.out == (
        "Written: 1 topic in 1 file below topics.\n"
        "Left out: 1 topic already declared in topics/known.yaml.\n"
        f"Left out: 1 topic ignored by `ignore:` ({prefix}app-changelog).\n"
        "Next: kafkaform plan\n"
    )
    assert empty_plan(project)["summary"]["unchanged"] == 2
    project.run("import", "--match", f"{prefix}app-changelog", "--out", "asked").needs(0)
    assert [*manifests(project, "asked")] == [f"{prefix}app-changelog"]
    project.config(ignore=[])
    call = project.run("import", "--match", "__consumer_offsets", "--dry-run").needs(0)
    assert call.out == (
        "Nothing to write.\nLeft out: 1 topic that Kafka or kafkaform uses internally (__consumer_offsets).\n"
    )


def test_a_group_that_reads_nothing_is_left_out_and_told(
    project: Project, prefix: str, group_configs: Callable[..., None]
) -> None:
    group_configs(f"{prefix}idle", {"consumer.session.timeout.ms": "50000"})
    call = eventually(
        lambda: project.run("import", "--match", f"{prefix}*"), lambda call: "idle" in call.out
    ).needs(0)
    assert f"Left out: 1 group without committed offsets or members ({prefix}idle)" in call.out


def test_what_the_account_may_not_see_in_full_is_told_by_name(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    known = Project(tmp_path, kafka_acl.bootstrap_servers, prefix)
    create(known, [new(f"{prefix}{name}", retention_ms="1000") for name in ("seen", "half-seen")])
    commit(known, f"{prefix}group", f"{prefix}seen")
    user = account(
        f"TOPIC:{prefix}*:DESCRIBE", f"TOPIC:{prefix}seen:DESCRIBE_CONFIGS", f"GROUP:{prefix}*:DESCRIBE"
    )
    java = tmp_path / "client.properties"
    java.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user.properties["sasl.username"]}" password="{user.properties["sasl.password"]}";\n'
    )
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    call = project.run("import", "--match", f"{prefix}*", "--command-config", java).needs(1)
    assert [*manifests(project)] == [f"{prefix}seen"]
    assert "Written: 1 topic in 1 file below topics." in call.out
    assert f"not read: Topic/{prefix}half-seen: " in call.err
    assert f"not read: ConsumerGroup/{prefix}group: " in call.err
    empty_plan(project, "topics", "--command-config", java)


def test_a_glob_that_matches_nothing_is_an_error(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}payments")])
    call = project.run("import", "--match", f"{prefix}payment").needs(1)
    assert f"nothing on the cluster matches '{prefix}payment'; nothing was written" in call.err
    assert f"hint: did you mean {prefix}payments?" in call.err
    assert not (project.folder / "topics").exists()


# --- files that are there --------------------------------------------------------------------------


def test_a_file_that_exists_stops_the_import_before_a_file_is_written(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "abc"])
    project.write(f"live/{prefix}b.yaml", "mine")
    call = project.run("import", "--match", f"{prefix}*", "--out", "live").needs(1)
    assert f"live/{prefix}b.yaml already exists; nothing was written" in call.err
    assert [file.name for file in (project.folder / "live").iterdir()] == [f"{prefix}b.yaml"]
    assert (project.folder / f"live/{prefix}b.yaml").read_text() == "mine"


def test_overwriting_brings_files_up_to_date(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "ab"])
    project.run("import", "--match", f"{prefix}*").needs(0)
    project.set_config("a", "retention.ms", "3600000")
    call = project.run("import", "--match", f"{prefix}*").needs(0)
    assert "Nothing to write.\nLeft out: 2 topics already declared" in call.out
    call = project.run("import", "--match", f"{prefix}*", "--overwrite").needs(0)
    assert "Written: 2 topics in 2 files below topics." in call.out
    assert manifests(project)[f"{prefix}a"]["spec"]["retention"] == "1h"
    empty_plan(project)


def test_overwriting_never_loses_another_manifest(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "ab"])
    text = manifest(f"{prefix}a", {"partitions": 1, "replicationFactor": 1})
    file = project.write(
        f"topics/{prefix}a.yaml",
        text + "---\n" + manifest(f"{prefix}z", {"partitions": 1, "replicationFactor": 1}),
    )
    before = file.read_text()
    call = project.run("import", "--match", f"{prefix}*", "--overwrite").needs(1)
    assert f"topics/{prefix}a.yaml also declares Topic/{prefix}z, which would be lost" in call.err
    assert file.read_text() == before
    assert not (project.folder / f"topics/{prefix}b.yaml").exists()


def test_a_dry_run_names_the_files_and_writes_none(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}{name}") for name in "ab"])
    project.write("topics/.gitkeep", "")
    call = project.run("import", "--match", f"{prefix}*", "--dry-run").needs(0)
    assert call.out == (
        f"topics/{prefix}a.yaml  {prefix}a\ntopics/{prefix}b.yaml  {prefix}b\n"
        "Would write: 2 topics in 2 files below topics.\n"
    )
    assert [file.name for file in (project.folder / "topics").iterdir()] == [".gitkeep"]


def test_a_wrong_manifest_stops_the_import_as_it_may_declare_anything(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a")])
    project.write("topics/wrong.yaml", "kind: Topic\nmetadata: {nam: x}\n")
    project.run("import", "--match", f"{prefix}*").needs(1)
    assert [file.name for file in (project.folder / "topics").iterdir()] == ["wrong.yaml"]


def test_editors_find_the_schemas_that_init_wrote(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a")])
    commit(project, f"{prefix}g", f"{prefix}a")
    project.write("schemas/topic.schema.json", "{}")
    project.run("import", "--match", f"{prefix}*").needs(0)
    first = {
        file.stem: file.read_text().split("\n")[0] for file in (project.folder / "topics").rglob("*.yaml")
    }
    assert first == {
        f"{prefix}a": "# yaml-language-server: $schema=../schemas/topic.schema.json",
        f"{prefix}g": "# yaml-language-server: $schema=../../schemas/consumergroup.schema.json",
    }
    empty_plan(project)


def test_a_folder_that_no_plan_reads_by_itself_is_told(project: Project, prefix: str) -> None:
    create(project, [new(f"{prefix}a")])
    project.config()
    call = project.run("import", "--match", f"{prefix}*", "--out", "some where").needs(0)
    assert "Next: kafkaform plan 'some where'\n" in call.out
    assert "some where is not listed in `manifests:` of the configuration" in call.err
