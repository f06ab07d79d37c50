"""A job of GitHub Actions that calls `kafkaform ci` on GitHub, with a GitHub of its own on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cli.project import Call, run_in_process
from tests.support.github.server import REPOSITORY, FakeGitHub, fake_github

TEXT = "## Plan\n\nOne topic is created."
MARKED = "<!-- kafkaform:plan -->\n"
DRIFT = "<!-- kafkaform:drift-prod -->\n"
COMMENTS = f"/repos/{REPOSITORY}/issues/12/comments"
ISSUES = f"/repos/{REPOSITORY}/issues"
MERGE = "c" * 40
HEAD = "b" * 40
ARTEFACT = f"kafkaform-plan-prod-12-{HEAD}"


@dataclass(frozen=True)
class Job:
    """A folder with a plan.md, a GitHub, and what would have been waited for it.

    Attributes:
        waits: In seconds.
    """

    folder: Path
    hub: FakeGitHub
    waits: list[float]

    def run(self, *arguments: object, **env: str) -> Call:
        return run_in_process("ci", *arguments, cwd=self.folder, env=self.hub.environment(**env))

    def write(self, text: str) -> None:
        (self.folder / "plan.md").write_text(text, "utf-8")

    def comment(self, *more: object, **env: str) -> Call:
        return self.run("comment", "plan.md", "--pull-request", 12, *more, **env)

    def issue(self, *more: object) -> Call:
        return self.run("issue", "plan.md", "--id", "drift-prod", "--title", "Drift in prod", *more)

    def close(self) -> Call:
        return self.run("issue", "--id", "drift-prod", "--close")

    def plan(self, *more: object) -> Call:
        arguments = ("--commit", MERGE, "--artifact", "kafkaform-plan-prod", "--out", "plan.json")
        return self.run("reviewed-plan", *arguments, *more)


@contextmanager
def github_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job that waits for nothing, and writes as often as it likes."""
    waits: list[float] = []
    monkeypatch.setattr("kafkaform.vcs.forge.publishing.sleep", waits.append)
    monkeypatch.setattr("kafkaform.vcs.forge.client._BETWEEN_WRITES_S", 0.0)
    with fake_github() as hub:
        job = Job(folder, hub, waits)
        job.write(f"{TEXT}\n")
        yield job
