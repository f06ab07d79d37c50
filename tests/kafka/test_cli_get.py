"""`kafkaform get` on a real Kafka: manifests of what is there, and what is said where nothing is."""

from __future__ import annotations

import pytest
import yaml

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import AlterConfigs
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.group_clients import commit
from tests.support.clusters.topics import make_topic

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


@pytest.mark.parametrize("output", ["yaml", "json"])
def test_plan_of_what_get_printed_is_empty(
    project: Project, real_cluster: KafkaCluster, prefix: str, output: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}full", 3, 1, (), **CONFIGS)
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


def test_topic_without_own_configs(project: Project, real_cluster: KafkaCluster, prefix: str) -> None:
    name = make_topic(real_cluster, f"{prefix}bare", 2)
    manifest = (
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
        f"  name: {name}\nspec:\n  partitions: 2\n  replicationFactor: 1\n"
    )
    for given in (["topics", name], [f"Topic/{name}"], [f"topic/{name}"], ["Topic", name]):
        assert project.run("get", *given).needs(0).out == manifest


def test_group_of_configs_alone_reports_what_is_missing(
    project: Project, real_cluster: KafkaCluster, prefix: str
) -> None:
    ref = ResourceRef("ConsumerGroup", f"{prefix}configs")
    assert real_cluster.execute([AlterConfigs(ref, {"consumer.session.timeout.ms": "50000"})]) == [None]
    call = eventually(lambda: project.run("get", "group", ref.name), lambda call: call.code == 0)
    assert yaml.safe_load(call.out)["spec"] == {
        "protocol": "consumer",
        "config": {"consumer.session.timeout.ms": "50s"},
    }
    assert call.said.startswith("left out: topics: ")
    assert real_cluster.execute([AlterConfigs(ref, {}, ("consumer.session.timeout.ms",))]) == [None]


def test_missing_resource_suggests_the_nearest_name(
    project: Project, real_cluster: KafkaCluster, prefix: str
) -> None:
    name = make_topic(real_cluster, f"{prefix}payments")
    commit(project.servers, f"{prefix}accountants", {(name, 0): 0})
    call = project.run("get", "topic", f"{prefix}payment").needs(1)
    assert call.said.startswith(f"Error: topic '{prefix}payment' ")
    assert f"did you mean {prefix}payments?" in call.said
    call = project.run("get", "group", f"{prefix}accountant").needs(1)
    assert call.said.startswith(f"Error: group '{prefix}accountant' ")
    assert f"did you mean {prefix}accountants?" in call.said
    assert call.out == ""
    assert f"{prefix}payment" not in real_cluster.partition_counts([f"{prefix}payment"])


def test_names_one_a_line_and_as_json(project: Project, real_cluster: KafkaCluster, prefix: str) -> None:
    names = [make_topic(real_cluster, f"{prefix}{name}") for name in ("a", "b-changelog", "c")]
    for name in ("g", "h"):
        commit(project.servers, f"{prefix}{name}", {(names[0], 0): 0})

    def mine(*arguments: str) -> list[str]:
        return [n for n in project.run("get", *arguments).needs(0).out.split("\n") if n.startswith(prefix)]

    assert mine("topics") == [names[0], names[2]]
    assert mine("topics", "--all") == names
    assert mine("groups") == [f"{prefix}g", f"{prefix}h"]
    assert {*names} <= {*project.run("get", "topics", "--all", "--format", "json").needs(0).json}
    assert "__consumer_offsets" in project.run("get", "topic", "--all").needs(0).out
