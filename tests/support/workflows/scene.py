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
from tests.support.github.git_work import run_git
from tests.support.github.server import FORK_ID, REPOSITORY, REPOSITORY_ID, FakeGitHub, fake_github
from tests.support.workflows.jobs import Event, Run, Runner


@dataclass(frozen=True)
class PullRequest:
    """A pull request: its number, its branch and the newest commit of that."""

    number: int
    branch: str
    head: str


class HostedRepository:
    """A repository with the branch `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bare = folder / "hosted.git"
        self.clone = folder / "clone"
        self._numbers: dict[str, int] = {}
        folder.mkdir()
        run_git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        # As GitHub has it: any commit can be fetched by its id.
        run_git(self.bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        run_git(folder, "init", "--quiet", "--initial-branch=main", str(self.clone))
        run_git(self.clone, "remote", "add", "origin", str(self.bare))

    @property
    def url(self) -> str:
        return self.bare.as_uri()

    @property
    def main(self) -> str:
        return run_git(self.bare, "rev-parse", "refs/heads/main")

    def commit(self, branch: str, edit: Callable[[Path], object], message: str = "Edit") -> str:
        """Edit the files of a branch (a new one begins at `main`), commit and push; returns the commit."""
        known = run_git(self.bare, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        if known:
            start = f"origin/{branch if branch in known else 'main'}"
            run_git(self.clone, "fetch", "--quiet", "origin")
            run_git(self.clone, "checkout", "--quiet", "-B", branch, start)
        edit(self.clone)
        run_git(self.clone, "add", "--all", "--force", ".")
        run_git(self.clone, "commit", "--quiet", "--allow-empty", "--message", message)
        run_git(self.clone, "push", "--quiet", "origin", branch)
        return run_git(self.clone, "rev-parse", "HEAD")

    def pull_request(self, branch: str) -> PullRequest:
        """Open a pull request for a branch, or bring it up to date."""
        number = self._numbers.setdefault(branch, len(self._numbers) + 1)
        head = run_git(self.bare, "rev-parse", f"refs/heads/{branch}")
        run_git(self.bare, "update-ref", f"refs/pull/{number}/head", head)
        run_git(self.bare, "update-ref", f"refs/pull/{number}/merge", self._build_merge(self.main, head))
        return PullRequest(number, branch, head)

    def forget(self, pull: PullRequest) -> None:
        """Take away what the pull request would be merged as: GitHub has none where the two conflict."""
        run_git(self.bare, "update-ref", "-d", f"refs/pull/{pull.number}/merge")

    def merge(self, pull: PullRequest) -> str:
        merged = self._build_merge(self.main, pull.head)
        run_git(self.bare, "update-ref", "refs/heads/main", merged)
        return merged

    def event(self, pull: PullRequest, *, source: str = REPOSITORY) -> Event:
        """Return the event of a pull request as GitHub sends it; `source` is the fork that it comes from."""
        about: dict[str, Any] = {
            "number": pull.number,
            "head": {"ref": pull.branch, "sha": pull.head, "repo": {"full_name": source}},
            "base": {"ref": "main", "repo": {"full_name": REPOSITORY}},
        }
        return Event("pull_request_target", self.main, {"action": "synchronize", "pull_request": about})

    def _build_merge(self, base: str, head: str) -> str:
        tree = run_git(self.bare, "merge-tree", "--write-tree", base, head)
        return run_git(self.bare, "commit-tree", tree, "-p", base, "-p", head, "-m", "Merge")


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
