"""Who is at work: the person or the CI job behind this process."""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody who applies.

    Attributes:
        who: Whoever set the CI job off, or the user of this machine.
        host: This machine.
        ci: `github` or `gitlab`; None outside of both.
        url: The page of the CI job; None if there is none.
    """

    who: str
    host: str
    ci: str | None = None
    url: str | None = None


def author_here(environ: Mapping[str, str]) -> Author:
    """Who is at work, as far as the system and the CI job's environment say."""
    host = socket.gethostname()
    if environ.get("GITHUB_ACTIONS") == "true":
        who = environ.get("GITHUB_TRIGGERING_ACTOR") or environ.get("GITHUB_ACTOR")
        page = [environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
        url = "{}/{}/actions/runs/{}".format(*page) if all(page) else None
        return Author(who or _user(), host, "github", url)
    if environ.get("GITLAB_CI") == "true":
        url = environ.get("CI_JOB_URL") or environ.get("CI_PIPELINE_URL")
        return Author(environ.get("GITLAB_USER_LOGIN") or _user(), host, "gitlab", url)
    return Author(_user(), host)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return "unknown"
