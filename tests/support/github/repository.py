"""A Git repository as GitHub hosts it: a bare one with pull requests, and a clone in which a person works."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.github.server import REPOSITORY
from tests.support.workflows.jobs import Event

_PERSON = {
    name: value
    for role in ("AUTHOR", "COMMITTER")
    for name, value in {f"GIT_{role}_NAME": "Ada", f"GIT_{role}_EMAIL": "ada@example.com"}.items()
}


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
        self._git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        # As GitHub has it: any commit can be fetched by its id.
        self._git(self.bare, "config", "uploadpack.allowAnySHA1InWant", "true")
        self._git(folder, "init", "--quiet", "--initial-branch=main", str(self.clone))
        self._git(self.clone, "remote", "add", "origin", str(self.bare))

    @property
    def url(self) -> str:
        return self.bare.as_uri()

    @property
    def main(self) -> str:
        return self._git(self.bare, "rev-parse", "refs/heads/main")

    def commit(self, branch: str, edit: Callable[[Path], object], message: str = "Edit") -> str:
        """Edit the files of a branch (a new one begins at `main`), commit and push; returns the commit."""
        known = self._git(self.bare, "for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        if branch in known:
            self._git(self.clone, "fetch", "--quiet", "origin")
            self._git(self.clone, "checkout", "--quiet", "-B", branch, f"origin/{branch}")
        elif known:
            self._git(self.clone, "fetch", "--quiet", "origin")
            self._git(self.clone, "checkout", "--quiet", "-B", branch, "origin/main")
        edit(self.clone)
        self._git(self.clone, "add", "--all", "--force", ".")
        self._git(self.clone, "commit", "--quiet", "--allow-empty", "--message", message)
        self._git(self.clone, "push", "--quiet", "origin", branch)
        return self._git(self.clone, "rev-parse", "HEAD")

    def pull_request(self, branch: str) -> PullRequest:
        """Open a pull request for a branch, or bring it up to date."""
        number = self._numbers.setdefault(branch, len(self._numbers) + 1)
        head = self._git(self.bare, "rev-parse", f"refs/heads/{branch}")
        self._git(self.bare, "update-ref", f"refs/pull/{number}/head", head)
        self._git(self.bare, "update-ref", f"refs/pull/{number}/merge", self._build_merge(self.main, head))
        return PullRequest(number, branch, head)

    def forget(self, pull: PullRequest) -> None:
        """Take away what the pull request would be merged as: GitHub has none where the two conflict."""
        self._git(self.bare, "update-ref", "-d", f"refs/pull/{pull.number}/merge")

    def merge(self, pull: PullRequest) -> str:
        merged = self._build_merge(self.main, pull.head)
        self._git(self.bare, "update-ref", "refs/heads/main", merged)
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
        tree = self._git(self.bare, "merge-tree", "--write-tree", base, head)
        return self._git(self.bare, "commit-tree", tree, "-p", base, "-p", head, "-m", "Merge")

    def _git(self, folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env={**os.environ, **_PERSON, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout.strip()
