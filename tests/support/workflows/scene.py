"""A team's repository on GitHub and its cluster: people push, GitHub runs this repository's workflows."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kafkaform.core.values import replace
from tests.support.cli.project import Project
from tests.support.cli.signing import write_keys
from tests.support.clusters.fixtures import connect
from tests.support.clusters.topics import make_topic
from tests.support.github.repository import HostedRepository, PullRequest
from tests.support.github.server import FORK_ID, REPOSITORY, REPOSITORY_ID, FakeGitHub, fake_github
from tests.support.workflows.jobs import Event, Run, Runner

PASSWORD = "a-password-that-stands-nowhere"
GROUP, WRITER = "reader-account", "writer-account"
FORK = "eve/kafka"
CLUSTER = "prod"


@dataclass
class Team:
    """The repository, the cluster that it is for, and what happens to both.

    Attributes:
        project: The clone in which people work, and its live topics.
        hosted: The repository as GitHub has it.
        hub: GitHub's API.
        runner: GitHub's machines.
        secrets: Every value that must stand nowhere.
    """

    project: Project
    hosted: HostedRepository
    hub: FakeGitHub
    runner: Runner
    secrets: tuple[str, ...]
    runs: list[Run] = field(default_factory=list)

    def topic(self, name: str, **spec: Any) -> Callable[[Path], object]:
        return lambda _folder: self.project.topic(name, **spec)

    def push(self, edit: Callable[[Path], object], branch: str) -> PullRequest:
        """Push an edit to a branch, and open a pull request for it, or bring it up to date."""
        self.hosted.commit(branch, edit)
        return self.hosted.pull_request(branch)

    def plan(self, pull: PullRequest, *, fork: bool = False) -> Run:
        """Run the workflows of a pull request that is opened or gets another commit."""
        event = self.hosted.event(pull, source=FORK if fork else REPOSITORY)
        run = self.run("plan.yml", event)
        source = FORK_ID if fork else REPOSITORY_ID
        conclusion = "failure" if "failure" in run.results.values() else "success"
        for name, folder in run.artifacts.items():
            files = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
            self.hub.plan(name, files, conclusion=conclusion, run_repository=source)
        return run

    def merge(self, pull: PullRequest) -> str:
        commit = self.hosted.merge(pull)
        self.hub.pull(commit, number=pull.number, head=pull.head)
        return commit

    def apply(self) -> Run:
        return self.run("apply.yml", Event("push", self.hosted.main))

    def drift(self) -> Run:
        return self.run("drift.yml", Event("schedule", self.hosted.main))

    def comments(self, pull: PullRequest) -> list[str]:
        return self.hub.bodies(pull.number)

    def open_issues(self) -> list[str]:
        return [issue["title"] for issue in self.hub.issues if issue["state"] == "open"]

    def find_leaks(self) -> list[str]:
        """Return the secrets in what anybody can read: logs, summaries, artefacts, comments and issues."""
        files = [
            file.read_text("utf-8", "replace")
            for run in self.runs
            for folder in run.artifacts.values()
            for file in folder.iterdir()
        ]
        logs = [text for run in self.runs for text in (run.log, run.summary)]
        comments = [body for number in self.hub.comments for body in self.hub.bodies(number)]
        issues = [f"{issue['title']} {issue['body']}" for issue in self.hub.issues]
        output = "\n".join([*files, *logs, *comments, *issues])
        return [secret for secret in self.secrets if secret in output]

    def run(
        self,
        file: str,
        event: Event,
        inputs: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Run:
        """Let GitHub run a workflow, on machines that have this in their environment besides."""
        given = {**self.runner.environ, **(environ or {})}
        run = replace(self.runner, environ=given).run(file, event, inputs)
        self.runs.append(run)
        return run

    def create(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic on the cluster by other means than kafkaform; returns its full name."""
        with connect(self.project.servers) as cluster:
            return make_topic(cluster, self.project.prefix + name, partitions, 1, (), **configs)


@contextmanager
def scene(folder: Path, servers: str, prefix: str) -> Iterator[Team]:
    """A repository with one topic, `first`, that is on the cluster as declared."""
    private, public_key = write_keys(folder, "plans")
    key, public = private.read_text(), public_key.read_text()
    hosted = HostedRepository(folder / "repository")
    project = Project(hosted.clone, servers, prefix)

    def begin(_folder: Path) -> None:
        client = {"bootstrap.servers": servers, "client.id": "${env:KAFKA_USERNAME}-${env:KAFKA_PASSWORD}"}
        cluster = {"client": client, "verifyKey": "plans.pem", "lock": False, "audit": {"topic": False}}
        project.config(clusters={CLUSTER: cluster}, ignore=["*"])
        project.write("plans.pem", public)
        project.topic("first", config={"retention.ms": "7d"})

    hosted.commit("main", begin, "Begin")
    secrets = {
        "kafka-plan": {"KAFKA_USERNAME": GROUP, "KAFKA_PASSWORD": PASSWORD, "KAFKAFORM_SIGN_KEY": key},
        "production": {"KAFKA_USERNAME": WRITER, "KAFKA_PASSWORD": PASSWORD},
    }
    with fake_github() as hub:
        runner = Runner(
            folder / "machines", hosted.url, secrets, {"GITHUB_API_URL": hub.url}, partial(_grant, hub)
        )
        core = key.splitlines()[1]
        made = Team(project, hosted, hub, runner, (PASSWORD, GROUP, WRITER, core))
        made.create("first", retention_ms="604800000")
        yield made


def _grant(hub: FakeGitHub, permissions: Mapping[str, str]) -> None:
    """GitHub's tokens may do what the job says, and no more."""
    hub.permissions = set(permissions)
