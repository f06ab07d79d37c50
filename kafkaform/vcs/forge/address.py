"""The address of a repository on GitHub and its token, as a job's environment gives them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.errors import ForgeError, UsageError
from kafkaform.core.http import is_safe

if TYPE_CHECKING:
    from collections.abc import Mapping

_API_URL = "https://api.github.com"
_SERVER_URL = "https://github.com"
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Address:
    """A repository and the address of its API.

    Attributes:
        repository: OWNER/NAME.
        token: GITHUB_TOKEN; never printed.
        api_url: The URL of the REST API, without a slash at the end.
        run_url: The page of this workflow run; None outside of GitHub Actions.
    """

    repository: str
    token: str = field(repr=False)
    api_url: str = _API_URL
    run_url: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], repository: str | None) -> Address:
        """Read the address from the environment of a job, as GitHub Actions sets it.

        Raises:
            ForgeError: There is no token, or it would be sent unencrypted.
            UsageError: The repository is missing, or not OWNER/NAME.
        """
        if repository is None:
            repository = environment.get("GITHUB_REPOSITORY") or None
        if repository is None:
            raise UsageError(
                "no repository is given", hint="give --repository OWNER/NAME, or set GITHUB_REPOSITORY"
            )
        if not _REPOSITORY.fullmatch(repository):
            raise UsageError(f"the repository {repository!r} does not have the form OWNER/NAME")
        token = environment.get("GITHUB_TOKEN", "").strip()
        if not token:
            raise ForgeError(
                "GITHUB_TOKEN is not set",
                hint="in a workflow, add `env: {GITHUB_TOKEN: ${{ github.token }}}` to this step",
            )
        # It goes into a header, where a line break would begin another one.
        if not (token.isascii() and token.isprintable()):
            raise ForgeError("GITHUB_TOKEN is not a valid token: it contains invalid characters")
        api_url = (environment.get("GITHUB_API_URL") or _API_URL).rstrip("/")
        if not is_safe(api_url):
            raise ForgeError(
                f"GITHUB_API_URL is {api_url}, which is not safe for the token",
                hint="it must start with https://",
            )
        return cls(repository, token, api_url, _build_run_url(environment))


def _build_run_url(environment: Mapping[str, str]) -> str | None:
    repository, run = environment.get("GITHUB_REPOSITORY"), environment.get("GITHUB_RUN_ID")
    if not repository or not run:
        return None
    return f"{environment.get('GITHUB_SERVER_URL') or _SERVER_URL}/{repository}/actions/runs/{run}"
