"""The client of one repository on GitHub: PyGithub with retries and with kafkaform's errors."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self, TypeVar

import requests
from github import Auth, BadAttributeException, Github, GithubException

from kafkaform import __version__
from kafkaform.vcs.forge.failures import RequestPurpose, find_transient_failure, translate_error
from kafkaform.vcs.forge.publishing import RetryBudget, TransientFailure

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from github.NamedUser import NamedUser
    from github.Organization import Organization
    from github.Repository import Repository

    from kafkaform.vcs.forge.address import Address

_T = TypeVar("_T")
_TIMEOUT_S = 30
_BETWEEN_WRITES_S = 1.0
"""GitHub's advice for writes: faster ones meet its secondary rate limits."""
_FAILURES = (
    GithubException,
    requests.RequestException,
    # PyGithub raises these for responses that are not GitHub's: a proxy's page, another server.
    BadAttributeException,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
# GitHub's id of the account: names can be changed, and reused by others.
_VIEWER = "query { viewer { databaseId } }"


class GitHub:
    """The client of a repository; a context manager that closes its connections.

    Every request goes through `request`, or through `attempt` if repeating it could do its work twice.

    Attributes:
        repository: PyGithub's object. It fetches attributes on first use: they are read inside `request` too.
        address: The address of the repository.

    Args:
        address: The address of the repository.
        report: Called with a message before each wait.
    """

    def __init__(self, address: Address, report: Callable[[str], None]) -> None:
        self._client = Github(
            auth=Auth.Token(address.token),
            base_url=address.api_url,
            timeout=_TIMEOUT_S,
            user_agent=f"kafkaform/{__version__}",
            per_page=100,
            # PyGithub would repeat a POST whose response got lost, and silently wait for hours.
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=_BETWEEN_WRITES_S,
            # The repository is not fetched before one of its attributes is used.
            lazy=True,
        )
        self._retries = RetryBudget(report, "GitHub", "githubstatus.com")
        self._account: int | None = None
        self.address = address
        self.repository: Repository = self._client.get_repo(address.repository)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def request(self, purpose: RequestPurpose, call: Callable[[], _T]) -> _T:
        """Return the result of a call, which is repeated after transient failures.

        Raises:
            ForgeError: GitHub rejects the request, or does not recover in time.
        """
        while True:
            try:
                return call()
            except _FAILURES as error:
                self._wait_or_raise(error, purpose)

    def attempt(self, purpose: RequestPurpose, call: Callable[[], _T]) -> _T | None:
        """Return the result of one call; None after a transient failure, when it may have been carried out.

        The failure was waited for: check whether the object exists before trying again.

        Raises:
            ForgeError: GitHub rejects the request, or does not recover in time.
        """
        try:
            return call()
        except _FAILURES as error:
            self._wait_or_raise(error, purpose)
            return None

    def wait(self, failure: TransientFailure) -> None:
        """Wait for another transient condition, out of the same budget."""
        self._retries.wait(failure)

    def is_mine(self, author: NamedUser | Organization | None, purpose: RequestPurpose) -> bool:
        """Return whether the account of the token is the author; False for a deleted author.

        The token of a job is an app's, which cannot read its own account by REST, but by GraphQL.
        """
        if self._account is None:
            self._account = self.request(purpose, self._read_viewer)
        return author is not None and author.id == self._account

    def _read_viewer(self) -> int:
        _, answer = self._client.requester.graphql_query(_VIEWER, {})
        account = answer["data"]["viewer"]["databaseId"]
        if not isinstance(account, int):
            raise TypeError("GitHub does not report the owner of the token")
        return account

    def _wait_or_raise(self, error: Exception, purpose: RequestPurpose) -> None:
        failure = find_transient_failure(error, time.time())
        if failure is None:
            raise translate_error(error, purpose) from error
        self._retries.wait(failure)
