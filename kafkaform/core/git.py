"""Running the user's Git, without prompts."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kafkaform.core.errors import RepositoryError
from kafkaform.core.printable import clipped

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CREDENTIALS = (
    "the address of the repository contains credentials",
    "leave them out, and give them to Git by a credential helper, or use a key of ssh",
)
"""The refusal of such an address, and the hint."""
_TIMEOUT_S = 60  # a partial clone fetches missing objects
# In a hook, these variables name the hook's repository; here the given folder decides.
_REPOSITORY_VARIABLES = frozenset(
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


def run_git(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run Git in a folder, whatever its exit code.

    It does not prompt, and ignores a repository in the environment.

    Raises:
        RepositoryError: Git is not installed, or does not finish in time.
    """
    try:
        return subprocess.run(
            ["git", "-C", os.fspath(folder), "--no-pager", *arguments],  # noqa: S607 - the user's own git
            # Never the terminal: Git must not read what the user types.
            input=given,
            capture_output=True,
            env=_build_environment(os.environ),
            timeout=_TIMEOUT_S,
            # Without a terminal, ssh cannot ask for a password either.
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise RepositoryError(f"git cannot be run: {error.strerror}", hint="install Git") from error
    except subprocess.TimeoutExpired:
        raise RepositoryError(
            f"git {arguments[0]} did not finish within {_TIMEOUT_S} s in {clipped(str(folder), 200)}",
            hint="run the same command by hand: it may be waiting for the network or a disk",
        ) from None


def _build_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in inherited.items() if name not in _REPOSITORY_VARIABLES}
    return {
        **kept,
        "GIT_LITERAL_PATHSPECS": "1",  # names of files may contain * and ?
        "GIT_NO_REPLACE_OBJECTS": "1",  # replacement refs would change the content of commits
        "GIT_OPTIONAL_LOCKS": "0",  # another Git process may hold locks in this work tree
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",  # messages in English, which `build_read_error` matches
    }


def describe_failure(process: subprocess.CompletedProcess[bytes]) -> str:
    """Return the first line of an error of Git."""
    output = process.stderr.decode("utf-8", "replace").removeprefix("fatal: ")
    return clipped(next(iter(output.splitlines()), f"exit code {process.returncode}"), 200)


def has_credentials(url: str) -> bool:
    """Return whether the address of a repository has a password, or a user that may be a token."""
    try:
        parts = urlsplit(url)
    except ValueError:  # Git refuses such an address, too
        return "@" in url
    # A user alone is a token over https, and harmless with ssh.
    return bool(parts.password or (parts.username and parts.scheme.startswith("http")))
