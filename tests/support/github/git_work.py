"""Git repositories for tests."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafkaform.vcs.repository import Repository


def run_git(folder: Path, *arguments: str) -> str:
    """Run Git as somebody; return what it prints."""
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit_all(folder: Path, message: str = "a commit") -> None:
    """Commit all files as they are."""
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", message)


class Work:
    """A repository in the making."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main", *options)
        self.git("config", "user.name", "Somebody")
        self.git("config", "user.email", "somebody@example.com")

    def git(self, *arguments: str) -> str:
        return self.run_with_input(b"", *arguments)

    def run_with_input(self, content: bytes, *arguments: str) -> str:
        command = ["git", *arguments]
        done = subprocess.run(command, cwd=self.folder, input=content, capture_output=True, check=True)
        return done.stdout.decode().strip()

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
