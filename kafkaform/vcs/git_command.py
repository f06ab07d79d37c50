"""Calling Git: the user's own, as a list of arguments, without a terminal and for a bounded time."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from kafkaform.core.errors import RepositoryError
from kafkaform.core.printable import clipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TIMEOUT_S = 60  # a partial clone fetches what it has not
# A hook's environment names the repository of that hook; the folder that is asked about decides here.
_ELSEWHERE = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
    }
)


def git(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command of Git in a folder, and return whatever it came to.

    It neither asks for anything nor takes its repository from the environment.

    Raises:
        RepositoryError: There is no Git, or it does not come to an end.
    """
    try:
        return subprocess.run(
            ["git", "-C", os.fspath(folder), "--no-pager", *arguments],  # noqa: S607 - the user's own git
            input=given,
            capture_output=True,
            env=_environment(os.environ),
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise RepositoryError(f"git cannot be run: {error.strerror}", hint="install Git") from error
    except subprocess.TimeoutExpired:
        raise RepositoryError(
            f"git {arguments[0]} did not end within {_TIMEOUT_S} s in {clipped(str(folder), 200)}",
            hint="try the same command by hand: it may wait for a network or a disk",
        ) from None


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if name not in _ELSEWHERE}
    return {
        **kept,
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def unreadable(folder: Path, answer: subprocess.CompletedProcess[bytes]) -> RepositoryError:
    """What to raise where Git failed in a folder."""
    told = answer.stderr.decode("utf-8", "replace")
    if "safe.directory" in told:
        return RepositoryError(
            f"Git does not trust the repository in {clipped(str(folder), 200)}: somebody else owns it",
            hint="if that is as it should be: git config --global --add safe.directory FOLDER",
        )
    first = next(iter(told.removeprefix("fatal: ").splitlines()), f"exit code {answer.returncode}")
    return RepositoryError(
        f"Git cannot read {clipped(str(folder), 200)}: {clipped(first, 200)}",
        hint="run kafkaform in a clone of the repository that the manifests are in",
    )
