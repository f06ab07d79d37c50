"""`kafkaform skew`: what a person, a CI job and a cron job are told of a cluster; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.values import replace
from kafkaform.plan.skew_report import parse_skew_report
from spark_validation.configuration import SessionSettings
from spark_validation.errors import SkewError
from spark_validation.job import TopicRequest
from spark_validation.results import Estimate, TopicResult
from tests.support.cli.project import Project
from tests.support.skew import scenes
from tests.support.skew.producers import produce_keys

BROKEN = scenes.imbalance(Estimate(9.0, 8.5, 9.5))


def test_missing_topics_are_reported_before_spark(project: Project, real_cluster: KafkaCluster) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}orders", 1, ["a"])
    error, hint = project.run("skew", name[:-1]).read_error()
    assert error == f"there is no topic {name[:-1]!r} on the cluster"
    assert hint == f"did you mean {name}?"
    error, _ = project.run("skew", f"{project.prefix}x*").read_error()
    assert error == f"no topic matches '{project.prefix}x*'"
    error, hint = project.run("skew").read_error()
    assert error.startswith("no declared topic")
    project.topic("new", partitions=3, skew={"maxPartitionRatio": 2.0})
    error, _ = project.run("skew").read_error()
    assert error == f"there is no topic '{project.prefix}new' on the cluster"


# --- exit codes, with an engine that answers at once -----------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, TopicResult | SkewError]:
    """Return the result of each topic, by its full name."""
    made: dict[str, TopicResult | SkewError] = {}

    @contextmanager
    def start(_: SessionSettings) -> Iterator[None]:
        yield None

    def run_topics(
        _: object, requests: Sequence[TopicRequest], *__: object, **___: object
    ) -> dict[str, TopicResult | SkewError]:
        answers = {request.name: made[request.name] for request in requests}
        return {
            name: replace(answer, name=name) if isinstance(answer, TopicResult) else answer
            for name, answer in answers.items()
        }

    monkeypatch.setattr("spark_validation.session.start", start)
    monkeypatch.setattr("spark_validation.job.run_topics", run_topics)
    return made


def test_only_failed_skew_policy_exits_2(
    project: Project, real_cluster: KafkaCluster, answers: dict[str, TopicResult | SkewError]
) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}orders", 3, ["a"])
    project.topic("orders", partitions=3, skew={"maxPartitionRatio": 2.0})
    codes = {
        "pass": (scenes.build_result(), 0),
        "warn": (replace(scenes.build_result(), by_records=scenes.imbalance(Estimate(2.1, 1.9, 2.3))), 0),
        "fail": (replace(scenes.build_result(), by_records=BROKEN), 2),
    }
    for status, (result, code) in codes.items():
        answers[name] = result
        call = project.run("skew", "--format", "json").needs(code)
        (topic,) = call.json["topics"]
        assert (topic["name"], topic["policy"]["status"]) == (name, status)
        assert call.json["cluster_name"] is None
        assert call.json["cluster_id"] == real_cluster.facts().cluster_id


def test_skew_reports_are_kept_and_damaged_ones_reported(
    project: Project, real_cluster: KafkaCluster, answers: dict[str, TopicResult | SkewError]
) -> None:
    name = produce_keys(real_cluster, project.servers, f"{project.prefix}orders", 3, ["a"])
    answers[name] = scenes.build_result()
    project.write("old/skew-0.json", "{")
    arguments = (
        "skew",
        name,
        "--history",
        "old",
        "--out",
        "out.txt",
        "--out",
        "page.html",
        "--out",
        "a.json",
    )
    for number in (1, 2):
        call = project.run(*arguments).needs(0)
        assert call.out == ""
        assert call.said.startswith("not read: an earlier report: old")
        kept = sorted((project.folder / "old").glob("skew-2*.json"))
        assert len(kept) == number
    assert kept[-1].read_text() == (project.folder / "a.json").read_text()
    assert parse_skew_report(kept[0].read_text(), "a").topics[0].name == name
    assert name in (project.folder / "out.txt").read_text()
    assert (project.folder / "page.html").read_text().lstrip().lower().startswith("<!doctype html>")
