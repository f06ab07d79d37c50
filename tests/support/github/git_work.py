"""Git repositories for tests."""

import os
import subprocess
from pathlib import Path

from kafkaform.vcs.repository import Repository


def run_git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Run Git as somebody, without the settings of this machine; return what it prints."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments],
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        input=given,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stdout!r} {done.stderr!r}"
    return done.stdout.decode().strip()


def commit_all(folder: Path, message: str = "a commit") -> None:
    """Commit all files as they are."""
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", message)


class Work:
    """A repository in the making."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main", *options)

    def git(self, *arguments: str, given: bytes = b"") -> str:
        return run_git(self.folder, *arguments, given=given)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)

    def commit(self, **files: str) -> str:
        for path, text in files.items():
            self.write(path, text)
        commit_all(self.folder)
        return self.git("rev-parse", "HEAD")

    @property
    def repository(self) -> Repository:
        return Repository.find(self.folder)
