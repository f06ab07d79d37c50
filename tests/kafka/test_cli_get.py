"""`kafkaform get` on a real Kafka: manifests of what is there, and what is said where nothing is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs, CreateTopic
from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli_helpers import Project
from tests.support.kafka_fixtures import TIMEOUT_S, Account, admin_client, eventually

CONFIGS = {
    "retention.ms": "1209600000",
    "retention.bytes": "1073741824",
    "cleanup.policy": "delete,compact",
    "min.cleanable.dirty.ratio": "0.250",
    "max.message.bytes": "1000001",
    "compression.type": "zstd",
    "unclean.leader.election.enable": "FALSE",
    "segment.ms": "9223372036854775807",
    "delete.retention.ms": "100",
}


def create(cluster: KafkaCluster, name: str, partitions: int = 1, **configs: str) -> str:
    """A topic made by hand."""
    ref = ResourceRef("Topic", name)
    assert cluster.execute([CreateTopic(ref, partitions, 1, configs)]) == [None]
    eventually(lambda: cluster.observe([ref]).resources, lambda found: ref in found)
    return name


def commit(project: Project, group: str, topic: str, offset: int = 0) -> None:
    """An offset of a group, which thereby exists."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    admin = admin_client(project.servers)  # without a name it would be gone before its answer

    def error() -> object:
        (future,) = admin.alter_consumer_group_offsets([wanted]).values()
        return future.result(TIMEOUT_S).topic_partitions[0].error

    eventually(error, lambda found: found is None)  # the first group of a broker waits for its coordinator


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_a_plan_of_what_was_printed_is_empty(
    project: Project, real_cluster: KafkaCluster, prefix: str, output: str
) -> None:
    name = create(real_cluster, f"{prefix}full", 3, **CONFIGS)
    call = project.run("get", "topic", name, "--format", output).needs(0)
    assert call.said == ""
    project.run("get", "topic", name, "--format", output, "-o", "topics/full.yaml").needs(1)
    project.write("topics/full.yaml", "")
    assert project.run("get", "topic", name, "--format", output, "-o", "topics/full.yaml").needs(0).out == ""
    assert (project.folder / "topics/full.yaml").read_text("utf-8") == call.out
    plan = project.run("plan", "topics", "--detailed-exitcode").needs(0)
    assert "No changes" in plan.out
    spec = yaml.safe_load(call.out)["spec"]
    assert spec["retention"] == {"time": "14d", "bytes": "1GiB"}
    assert spec["config"]["delete.retention.ms"] == "100ms"
    assert len(spec["config"]) == len(CONFIGS) - 2


def test_a_topic_without_own_configs(project: Project, real_cluster: KafkaCluster, prefix: str) -> None:
    name = create(real_cluster, f"{prefix}bare", 2)
    assert project.run("get", "topics", name).needs(0).out == (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
        f"  name: {name}\nspec:\n  partitions: 2\n  replicationFactor: 1\n"
    )


def test_a_group_with_its_topics_and_configs(
    project: Project, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = create(real_cluster, f"{prefix}orders")
    group = f"{prefix}shop"
    commit(project, group, name)
    ref = ResourceRef("ConsumerGroup", group)
    assert real_cluster.execute([AlterConfigs(ref, {"consumer.session.timeout.ms": "50000"})]) == [None]
    call = eventually(lambda: project.run("get", "group", group), lambda call: "50s" in call.out).needs(0)
    assert yaml.safe_load(call.out) == {
        "apiVersion": "kafkaform/v1",
        "kind": "ConsumerGroup",
        "metadata": {"name": group},
        "spec": {
            "topics": [name],
            "protocol": "consumer",
            "config": {"consumer.session.timeout.ms": "50s"},
        },
    }
    project.write("topics/group.yaml", call.out)
    project.run("plan", "topics", "--detailed-exitcode").needs(0)


def test_a_group_that_has_only_configs_says_what_is_missing(
    project: Project, real_cluster: KafkaCluster, prefix: str
) -> None:
    ref = ResourceRef("ConsumerGroup", f"{prefix}configs")
    assert real_cluster.execute([AlterConfigs(ref, {"consumer.session.timeout.ms": "50000"})]) == [None]
    call = eventually(lambda: project.run("get", "group", ref.name), lambda call: call.code == 0)
    assert yaml.safe_load(call.out)["spec"] == {
        "protocol": "consumer",
        "config": {"consumer.session.timeout.ms": "50s"},
    }
    assert call.said.startswith("left out: topics: the group has no offset or member in any")
    assert real_cluster.execute([AlterConfigs(ref, {}, ("consumer.session.timeout.ms",))]) == [None]


def test_what_does_not_exist_is_said_with_the_nearest_name(
    project: Project, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = create(real_cluster, f"{prefix}payments")
    commit(project, f"{prefix}accountants", name)
    call = project.run("get", "topic", f"{prefix}payment").needs(1)
    assert call.said == (
        f"Error: topic '{prefix}payment' does not exist\nhint: did you mean {prefix}payments?\n"
    )
    call = project.run("get", "group", f"{prefix}accountant").needs(1)
    assert call.said == (
        f"Error: group '{prefix}accountant' does not exist\nhint: did you mean {prefix}accountants?\n"
    )
    assert call.out == ""
    assert f"{prefix}payment" not in real_cluster.partition_counts([f"{prefix}payment"])


def test_names_one_a_line_and_as_json(project: Project, real_cluster: KafkaCluster, prefix: str) -> None:
    names = [create(real_cluster, f"{prefix}{name}") for name in ("a", "b-changelog", "c")]
    for name in ("g", "h"):
        commit(project, f"{prefix}{name}", names[0])

    def mine(*arguments: str) -> list[str]:
        return [n for n in project.run("get", *arguments).needs(0).out.split("\n") if n.startswith(prefix)]

    assert mine("topics") == [names[0], names[2]]
    assert mine("topics", "--all") == names
    assert mine("groups") == [f"{prefix}g", f"{prefix}h"]
    assert {*names} <= {*project.run("get", "topics", "--all", "--format", "json").needs(0).json}
    assert "__consumer_offsets" in project.run("get", "topic", "--all").needs(0).out


def test_wrong_usage(project: Project) -> None:
    unknown = project.run("get", "brokers").needs(64)
    assert "'brokers' is not one of 'topic', 'topics', 'group', 'groups'" in unknown.err
    assert (
        "a list of names cannot be printed as a manifest"
        in project.run("get", "topics", "--format", "yaml").needs(64).err
    )
    for form in ("json", "yaml"):
        refused = project.run("get", "topics", "-o", form).needs(64)
        assert f"hint: --format {form} chooses the format\n" in refused.err


def test_what_this_account_may_not_see_is_not_said_to_be_missing(
    account: Callable[..., Account], kafka_acl: DevCluster, prefix: str, tmp_path: Path
) -> None:
    stranger = account()
    java = tmp_path / "client.properties"
    user, password = stranger.properties["sasl.username"], stranger.properties["sasl.password"]
    java.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    project = Project(tmp_path, kafka_acl.sasl_bootstrap_servers, prefix)
    for kind in ("topic", "group"):
        call = project.run("get", kind, f"{prefix}secret", "--command-config", java).needs(1)
        assert f"{kind} '{prefix}secret' may or may not exist" in call.err
        assert "does not exist" not in call.err
