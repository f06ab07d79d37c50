"""One repository on GitHub, asked through PyGithub: with patience, and with errors in kafkaform's words."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self, TypeVar

import requests
from github import Auth, BadAttributeException, Github, GithubException

from kafkaform import __version__
from kafkaform.vcs.forge.failures import Patience, RequestPurpose, Trouble, passing_trouble, refusal

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
"""GitHub's own advice, below which its secondary limits begin."""
_FAILURES = (
    GithubException,
    requests.RequestException,
    # What PyGithub raises of an answer that is not GitHub's: the page of a proxy, another server.
    BadAttributeException,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
_VIEWER = "query { viewer { databaseId } }"


class GitHub:
    """A repository; a context manager, which closes its connections.

    Every request goes through `ask`, or through `attempt` where a second one could do the thing twice.

    Attributes:
        repository: PyGithub's own object. Its attributes are fetched on first use: also only inside `ask`.
        address: Where it is.

    Args:
        address: Where it is.
        tell: Is told what is being waited for.
    """

    def __init__(self, address: Address, tell: Callable[[str], None]) -> None:
        self._client = Github(
            auth=Auth.Token(address.token),
            base_url=address.api_url,
            timeout=_TIMEOUT_S,
            user_agent=f"kafkaform/{__version__}",
            per_page=100,
            # PyGithub would send a POST again whose answer got lost, and wait for hours without a word.
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=_BETWEEN_WRITES_S,
            lazy=True,
        )
        self._patience = Patience(tell)
        self._account: int | None = None
        self.address = address
        self.repository: Repository = self._client.get_repo(address.repository)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def ask(self, purpose: RequestPurpose, call: Callable[[], _T]) -> _T:
        """What the call returns; it is repeated while GitHub has trouble that passes.

        Raises:
            ForgeError: GitHub refuses, or its trouble does not pass.
        """
        while True:
            try:
                return call()
            except _FAILURES as error:
                self._wait_or_raise(error, purpose)

    def attempt(self, purpose: RequestPurpose, call: Callable[[], _T]) -> _T | None:
        """What one call returns; None if GitHub had trouble, and nobody knows whether it was carried out.

        By then the trouble was waited for: look whether the thing is there before trying again.

        Raises:
            ForgeError: GitHub refuses, or its trouble does not pass.
        """
        try:
            return call()
        except _FAILURES as error:
            self._wait_or_raise(error, purpose)
            return None

    def wait(self, trouble: Trouble) -> None:
        """Wait for something else that passes, out of the same patience."""
        self._patience.wait(trouble)

    def is_mine(self, author: NamedUser | Organization | None, purpose: RequestPurpose) -> bool:
        """Whether the account of the token wrote this; never true of an author who was deleted.

        The token of a job is an app's: it may not ask the REST API who it is, but it may ask GraphQL.
        """
        if self._account is None:
            self._account = self.ask(purpose, self._viewer)
        return author is not None and author.id == self._account

    def _viewer(self) -> int:
        _, answer = self._client.requester.graphql_query(_VIEWER, {})
        account = answer["data"]["viewer"]["databaseId"]
        if not isinstance(account, int):
            raise TypeError("GitHub does not report the owner of the token")
        return account

    def _wait_or_raise(self, error: Exception, purpose: RequestPurpose) -> None:
        trouble = passing_trouble(error, time.time())
        if trouble is None:
            raise refusal(error, purpose) from error
        self._patience.wait(trouble)
