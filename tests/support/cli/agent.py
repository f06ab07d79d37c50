"""A team that writes manifests for an agent, and the agent."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cli.project import Call, Project
from tests.support.cli.signing import write_keys
from tests.support.github.git_work import commit_all, run_git
from tests.support.plans.scenes import QUIET


@dataclass(frozen=True)
class Team:
    """A clone to write manifests in, the bare repository it is pushed to, and the agent's own folder."""

    work: Project
    agent: Project
    origin: Path
    key: Path

    def plan(self, *arguments: object, key: Path | None = None, code: int = 0) -> None:
        """Commit the manifests, and then a signed plan of them."""
        self.commit("manifests")
        (self.work.folder / "plans").mkdir(exist_ok=True)
        signing = ("--sign-key", key or self.key) if "unsigned" not in arguments else ()
        self.work.run("plan", "--out", "plans/prod.json", *signing).needs(code)
        self.commit("plan")

    def commit(self, message: str) -> None:
        commit_all(self.work.folder, message)

    def publish(self, message: str) -> None:
        """Push the files as they are, without a plan of them."""
        self.commit(message)
        self.push()

    def push(self, *arguments: str) -> None:
        run_git(self.work.folder, "push", "-q", *arguments, "origin", "HEAD:main")

    def release(self, *, code: int = 0, **topics: int) -> None:
        """Push manifests with these numbers of partitions, and their plan."""
        for name, partitions in topics.items():
            self.work.topic(name, partitions=partitions, keyed=False)
        self.plan(code=code)
        self.push()

    def arguments(self, *more: object) -> list[object]:
        return ["agent", "--once", "--repository", self.origin, *more]

    def run(self, *more: object, **env: str) -> Call:
        return self.agent.run(*self.arguments(*more), env=env)

    def check_refusal(self, reason: str) -> None:
        """The agent says why in one line, and changes nothing."""
        before = self.work.live()
        call = self.run().needs(1)
        assert reason in call.err
        assert len(re.findall("^Error: ", call.err, re.MULTILINE)) == 1
        assert self.work.live() == before


def build_team(servers: str, prefix: str, tmp_path: Path) -> Team:
    origin = tmp_path / "origin.git"
    run_git(tmp_path, "init", "-q", "--bare", "-b", "main", str(origin))
    work = Project(tmp_path / "work", servers, prefix)
    agent = Project(tmp_path / "agent", servers, prefix)
    key, public = write_keys(tmp_path, "review")
    agent.write("verify.pem", public.read_text())
    settings: dict[str, Any] = {"environments": ["prod"], "rules": QUIET}
    prod = {"environment": "prod", "client": {"bootstrap.servers": servers}}
    work.config(clusters={"prod": prod}, **settings)
    agent.config(clusters={"prod": {**prod, "verifyKey": "verify.pem"}}, **settings)
    run_git(tmp_path, "clone", "-q", str(origin), str(tmp_path / "clone"))
    (tmp_path / "clone" / ".git").rename(work.folder / ".git")
    return Team(work, agent, origin, key)
