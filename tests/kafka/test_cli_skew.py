"""`kafkaform skew`: its exit codes, with an engine that answers at once."""

from contextlib import nullcontext

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.values import replace
from spark_validation.results import Estimate
from tests.support.cli.project import Project
from tests.support.skew import scenes
from tests.support.skew.producers import produce_keys

BROKEN = scenes.imbalance(Estimate(9.0, 8.5, 9.5))


def test_only_failed_skew_policy_exits_2(
    project: Project, real_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}orders", 3, ["a"])
    project.topic("orders", partitions=3, skew={"maxPartitionRatio": 2.0})
    codes = {
        "pass": (scenes.build_result(), 0),
        "warn": (replace(scenes.build_result(), by_records=scenes.imbalance(Estimate(2.1, 1.9, 2.3))), 0),
        "fail": (replace(scenes.build_result(), by_records=BROKEN), 2),
    }
    monkeypatch.setattr("spark_validation.session.start", lambda _: nullcontext())
    for status, (result, code) in codes.items():
        answer = {name: replace(result, name=name)}
        monkeypatch.setattr("spark_validation.job.run_topics", lambda *_, answer=answer, **__: answer)
        call = project.run("skew", "--format", "json").needs(code)
        (topic,) = call.json["topics"]
        assert (topic["name"], topic["policy"]["status"]) == (name, status)
        assert call.json["cluster_name"] is None
        assert call.json["cluster_id"] == real_cluster.facts().cluster_id
