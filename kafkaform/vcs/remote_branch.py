"""A branch of a remote repository, and the clone by which an agent follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from kafkaform.core.errors import RepositoryError, UsageError
from kafkaform.core.git import CREDENTIALS, describe_failure, has_credentials, run_git
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value
from kafkaform.vcs.repository import Repository

_HEAD = "refs/kafkaform/head"
_MARKER = "kafkaform-agent"
"""The file in `.git` of a clone that this module made, whose work tree may be overwritten."""
_SETTINGS = (
    # A link in the branch could lead out of the clone: it is checked out as a file that contains its target.
    ("core.symlinks", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.autocrlf", "false"),
)


class RemoteBranch(Value):
    """A branch of a remote repository.

    Attributes:
        url: The address of the repository, without credentials.
    """

    url: str
    name: str

    @classmethod
    def parse(cls, url: str, name: str) -> Self:
        """Check an address and the name of a branch.

        Raises:
            UsageError: One of them is invalid, or the address contains credentials.
        """
        # It is printed and recorded, and other users of the machine can read command lines.
        if has_credentials(url):
            message, hint = CREDENTIALS
            raise UsageError(message, hint=hint)
        if run_git(Path.cwd(), "check-ref-format", f"refs/heads/{name}").returncode != 0:
            raise UsageError(f"{name!r} is not a valid name of a branch")
        # Git would take a relative path for one from the clone.
        return cls(str(Path(url).resolve()) if Path(url).exists() else url, name)

    def __str__(self) -> str:
        return f"{self.url}#{self.name}"

    def fetch(self, folder: Path) -> Repository:
        """Check out the newest commit of the branch in a folder, and return its repository.

        Args:
            folder: A clone that an earlier call made, whose files are overwritten; or an empty or new folder.

        Raises:
            RepositoryError: The branch cannot be fetched, or the folder contains something else.
        """
        marker = folder / ".git" / _MARKER
        if not marker.exists() and folder.exists() and any(folder.iterdir()):
            raise RepositoryError(
                f"{clipped(str(folder), 200)} is not empty, and not a clone of the agent",
                hint="give the agent a folder of its own: its files are overwritten",
            )
        folder.mkdir(parents=True, exist_ok=True)
        self._run(folder, "init", "--quiet", "--template=")
        marker.touch()
        for name, value in _SETTINGS:
            self._run(folder, "config", name, value)
        refspec = f"+refs/heads/{self.name}:{_HEAD}"
        self._run(folder, "fetch", "--quiet", "--no-tags", "--end-of-options", self.url, refspec)
        self._run(folder, "checkout", "--quiet", "--force", "--detach", _HEAD)
        self._run(folder, "clean", "--quiet", "-ffdx")
        return Repository.find(folder)

    def _run(self, folder: Path, *arguments: str) -> None:
        answer = run_git(folder, *arguments)
        if answer.returncode != 0:
            raise RepositoryError(
                f"cannot fetch {clipped(str(self), 200)}: {describe_failure(answer)}",
                hint="check the address, the branch, and the access of this account: git ls-remote URL",
            )
