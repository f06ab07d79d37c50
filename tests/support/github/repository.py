"""A Git repository as GitHub hosts it: a bare one with pull requests, and a clone in which a person works."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.github.git_work import run_git
from tests.support.github.server import REPOSITORY
from tests.support.workflows.jobs import Event


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
