"""The workflows do what they are for: their scripts run on a real Kafka and a real repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform.core.files import get_cache_directory
from kafkaform.devcluster.cluster import DevCluster
from tests.support.skew.producers import send
from tests.support.workflows.jobs import Event, Run
from tests.support.workflows.scene import GROUP, PASSWORD, WRITER, Team, scene


@pytest.fixture
def team(tmp_path: Path, kafka: DevCluster, prefix: str) -> Iterator[Team]:
    with scene(tmp_path, kafka.bootstrap_servers, prefix) as made:
        yield made
        assert made.find_leaks() == []


def results(run: Run, **expected: str) -> Run:
    assert run.results == expected, run.log
    return run


def test_workflows_journey_from_pull_request_to_drift(team: Team) -> None:
    live = team.project.live
    pull = team.push(team.topic("second", partitions=3), "more")
    planned = results(team.plan(pull), validate="success", plan="success", comment="success")
    [comment] = team.comments(pull)
    assert f"{team.project.prefix}second" in comment
    assert "1 to create" in comment
    assert pull.head in comment
    assert "1 to create" in planned.summary
    assert f"kafkaform-plan-prod-{pull.number}-{pull.head}" in planned.artifacts
    assert set(live()) == {"first"}

    team.merge(pull)
    applied = results(team.apply(), apply="success", issue="success")
    assert live()["second"]["partitions"] == 3
    assert "## Applied to prod" in applied.summary
    assert team.open_issues() == []
    # Once more, as by hand: there is nothing left to do, which is no failure.
    by_hand = Event("workflow_dispatch", team.hosted.main)
    results(team.run("apply.yml", by_hand), apply="success", issue="success")

    team.project.set_config("second", "retention.ms", "1234567")
    results(team.drift(), drift="success", issue="success")
    assert team.open_issues() == ["kafkaform: prod is not as declared"]
    assert "second" in team.hub.issues[0]["body"]
    results(team.drift(), drift="success", issue="success")
    assert len(team.hub.issues) == 1

    account = {"KAFKA_USERNAME": "a", "KAFKA_PASSWORD": "person"}
    adopted = team.push(lambda _: team.project.run("drift", "--adopt", env=account).needs(0), "adopt")
    results(team.plan(adopted), validate="success", plan="success", comment="success")
    team.merge(adopted)
    results(team.apply(), apply="success", issue="success")
    results(team.drift(), drift="success", issue="success")
    assert team.open_issues() == []
    assert live()["second"]["retention.ms"] == "1234567"
    # Of all these steps, the credentials are given to those that need them.
    having = {
        (run.file, job, step.name, account)
        for run in team.runs
        for job, result in run.jobs.items()
        for step in result.steps
        for account in (GROUP, WRITER)
        if account in step.environ.values()
    }
    assert having == {
        ("plan.yml", "plan", "Plan", GROUP),
        ("apply.yml", "apply", "Apply", WRITER),
        ("drift.yml", "drift", "Drift", GROUP),
    }


def test_comment_follows_the_branch(team: Team) -> None:
    pull = team.push(team.topic("first", config={"retention.ms": "1d"}), "cut")
    cut = results(team.plan(pull), validate="success", plan="failure", comment="success")
    [comment] = team.comments(pull)
    assert "retention-cut" in comment
    assert comment.index("Held back") < comment.index("Changes")
    assert f"kafkaform-plan-prod-{pull.number}-{pull.head}" in cut.artifacts

    pull = team.push(lambda folder: (folder / "topics/first.yaml").write_text("kind: [Topic"), "cut")
    broken = results(team.plan(pull), validate="failure", plan="failure", comment="success")
    [comment] = team.comments(pull)
    assert "The plan for prod failed" in comment
    assert "topics/first.yaml:2:1: " in comment
    assert "retention-cut" not in comment
    assert [*broken.artifacts] == ["kafkaform-comment-prod"]
    [error] = [command for command in broken.jobs["validate"].commands if command.name == "error"]
    assert "file=topics/first.yaml,line=2" in error.properties


@pytest.mark.nightly("one more way for a comment to be replaced")
def test_comment_is_replaced_when_plan_does_not_start(team: Team) -> None:
    pull = team.push(team.topic("second"), "more")
    team.plan(pull)
    team.hosted.forget(pull)  # as where the branch conflicts with main
    results(team.plan(pull), validate="failure", plan="failure", comment="success")
    [comment] = team.comments(pull)
    assert "was not started: see [the run]" in comment
    assert "second" not in comment


def test_fork_gets_offline_validation_only(team: Team) -> None:
    pull = team.push(team.topic("second", partitions="many"), "more")
    run = results(team.plan(pull, fork=True), validate="failure", plan="skipped", comment="skipped")
    assert [command.name for command in run.jobs["validate"].commands] == ["error"]
    assert team.hub.writes() == []
    pull = team.push(team.topic("second"), "more")
    results(team.plan(pull, fork=True), validate="success", plan="skipped", comment="skipped")
    given = {value for job in run.jobs.values() for step in job.steps for value in step.environ.values()}
    assert not given & {PASSWORD, GROUP}


def test_changed_or_missing_plan_is_not_applied(team: Team) -> None:
    pull = team.push(team.topic("second"), "more")
    team.plan(pull)
    # Somebody changes the cluster between the review and the merge: the plan is another one now.
    team.project.set_config("first", "retention.ms", "1234567")
    team.merge(pull)
    refused = results(team.apply(), apply="failure", issue="success")
    assert "first" in refused.summary
    assert set(team.project.live()) == {"first"}
    assert team.open_issues() == ["kafkaform could not apply to prod"]

    team.project.set_config("first", "retention.ms", "604800000")
    results(team.apply(), apply="success", issue="success")
    assert set(team.project.live()) == {"first", "second"}
    assert team.open_issues() == []
    # Nor is a commit without a plan.
    team.hosted.commit("main", team.topic("third"))
    refused = results(team.apply(), apply="failure", issue="success")
    assert "no plan of it" in refused.summary
    assert "no plan of it" in team.hub.issues[-1]["body"]
    assert set(team.project.live()) == {"first", "second"}


@pytest.mark.nightly("unit/vcs has when an issue is closed")
def test_unknown_drift_leaves_the_issue(team: Team) -> None:
    team.project.set_config("first", "retention.ms", "1234567")
    team.drift()
    before = [dict(issue) for issue in team.hub.issues]
    team.hosted.commit("main", lambda folder: (folder / "kafkaform.yaml").write_text("kind: ["))
    results(team.drift(), drift="failure", issue="skipped")
    assert team.hub.issues == before


@pytest.mark.nightly("the same steps as in this repository")
def test_another_repository_can_call_the_workflows(team: Team) -> None:
    team.hosted.commit("main", lambda folder: (folder / "kafkaform.yaml").rename(folder / "kafka.yaml"))
    inputs = {"cluster": "prod", "environment": "kafka-plan", "config": "kafka.yaml"}
    pull = team.push(team.topic("second"), "more")
    called = team.run("plan.yml", team.hosted.event(pull), inputs)
    results(called, validate="success", plan="success", comment="success")
    schedule = Event("schedule", team.hosted.main)
    results(team.run("drift.yml", schedule, inputs), drift="success", issue="success")
    # Called on an event on which the pull request could have edited the caller, it does not plan.
    event = Event("pull_request", team.hosted.main, team.hosted.event(pull).payload)
    results(team.run("plan.yml", event, inputs), validate="success", plan="skipped", comment="skipped")


@pytest.mark.nightly(
    "a session of Spark; tests/kafka/test_cli_skew.py has one every day, drift.yml the same steps"
)
def test_skew_is_measured_reported_and_kept(team: Team) -> None:
    name = team.create("hot", partitions=2)
    team.hosted.commit("main", team.topic("hot", partitions=2, skew={"maxPartitionRatio": 1.5}))
    send(team.project.servers, name, [b"hot"] * 1_000 + [b"%d" % key for key in range(100)])
    jars = {"KAFKAFORM_CACHE": str(get_cache_directory())}
    run = team.run("skew.yml", Event("schedule", team.hosted.main), environ=jars)
    results(run, skew="success", issue="success")
    assert {file.name for file in run.artifacts["kafkaform-skew-prod"].iterdir()} == {
        "skew.html",
        "skew.json",
        "skew.md",
    }
    assert name in run.summary
    assert team.open_issues() == ["kafkaform: keys are skewed on prod"]
