"""What GitHub's errors mean, and how long it is waited for."""

from __future__ import annotations

from dataclasses import dataclass
from time import sleep
from typing import TYPE_CHECKING

import requests
from github import GithubException, RateLimitExceededException

from kafkaform.core.errors import ForgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


TOTAL_S = 300.0
"""The longest that one call waits in all: a job is paid by the minute."""
_MOST_TRIES = 6


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why GitHub did not do it this time, though it may the next.

    Attributes:
        reason: In a few words.
        wait_s: How long GitHub asks to wait; None where it does not say.
    """

    reason: str
    wait_s: float | None = None


class Patience:
    """Waits until GitHub can be asked again.

    Args:
        tell: Is told of every wait before it begins.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._left_s = TOTAL_S
        self._tries = 0

    def wait(self, trouble: Trouble) -> None:
        """Wait as long as GitHub asks, or else longer from one time to the next.

        Raises:
            ForgeError: That would be longer than it is worth.
        """
        if trouble.wait_s is None:
            self._tries += 1
            if self._tries >= _MOST_TRIES:
                raise ForgeError(
                    f"GitHub: {trouble.reason}; tried {self._tries} times",
                    hint="run the job again later; githubstatus.com shows whether GitHub has an incident",
                )
        delay = 2.0 ** (self._tries - 1) if trouble.wait_s is None else trouble.wait_s
        if delay > self._left_s:
            raise ForgeError(
                f"GitHub: {trouble.reason}; it asks to wait {delay:,.0f} s, which is too long",
                hint="run the job again after that time",
            )
        self._left_s -= delay
        self._tell(f"GitHub: {trouble.reason}; trying again in {delay:.0f} s")
        sleep(delay)


_LEAST_WAIT_S = 60.0
"""GitHub's own advice where a secondary rate limit says nothing of its end."""
_MAYBE_LIMITED = {400, 403, 429}
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class RequestPurpose:
    """What a request is for.

    Attributes:
        doing: As it follows "cannot": `comment on #12`.
        permission: What the token must be allowed, as a workflow's `permissions:` spell it.
    """

    doing: str
    permission: str


def passing_trouble(error: Exception, now_s: float) -> Trouble | None:
    """What to wait for before the request is sent again; None where it would fail again.

    Args:
        error: What PyGithub, or requests below it, raised.
        now_s: The time now, in seconds since 1970, which the end of a rate limit is given in.
    """
    match error:
        case requests.exceptions.SSLError() | requests.exceptions.InvalidURL():
            return None
        case requests.HTTPError(response=requests.Response() as response):
            if response.status_code >= _SERVER_ERROR:
                return Trouble(f"an internal error ({response.status_code})")
            return None
        case requests.Timeout():
            return Trouble("no response in time")
        case requests.ConnectionError() | requests.exceptions.ChunkedEncodingError():
            return Trouble("the connection failed")
        case GithubException():
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            if (wait_s := _limited_s(error, headers, now_s)) is not None:
                return Trouble("the rate limit is reached", wait_s)
            if error.status >= _SERVER_ERROR:
                return Trouble(f"an internal error ({error.status})")
        case _:
            pass
    return None


def _limited_s(error: GithubException, headers: Mapping[str, str], now_s: float) -> float | None:
    """How long a rate limit holds yet; None if there is none.

    In the order of docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api.
    """
    if error.status not in _MAYBE_LIMITED:
        return None
    if (after := _number(headers.get("retry-after"))) is not None:
        return max(1.0, after)
    reset = _number(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
        return max(0.0, reset - now_s) + 1  # nobody knows when within that second
    if error.status == requests.codes.too_many_requests or isinstance(error, RateLimitExceededException):
        return _LEAST_WAIT_S
    return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and value >= 0 else None


def refusal(error: Exception, purpose: RequestPurpose) -> ForgeError:
    """What to tell the user of a request that GitHub will not carry out."""
    if not isinstance(error, GithubException):
        return _no_answer(error, purpose)
    said = _words(error)
    needed = f"the job needs `permissions: {{{purpose.permission}}}`"
    match error.status:
        case 401:
            return ForgeError(
                f"cannot {purpose.doing}: GitHub rejects GITHUB_TOKEN ({said})",
                hint="it has expired or was revoked; a job's token is valid only while the job runs",
            )
        case 403:
            return ForgeError(f"cannot {purpose.doing}: GitHub denies it ({said})", hint=needed)
        case 404:
            return ForgeError(
                f"cannot {purpose.doing}: it does not exist, or the token has no access to it ({said})",
                hint=f"check the number and the repository; {needed}",
            )
        case 410:
            return ForgeError(
                f"cannot {purpose.doing}: it no longer exists ({said})",
                hint="it has expired or was deleted, or issues are disabled in the repository's settings",
            )
        case _:
            pass
    return ForgeError(f"cannot {purpose.doing}: GitHub returned status {error.status} ({said})")


def _no_answer(error: Exception, purpose: RequestPurpose) -> ForgeError:
    match error:
        case requests.exceptions.SSLError():
            return ForgeError(
                f"cannot {purpose.doing}: GitHub's certificate is not trusted here",
                hint="set REQUESTS_CA_BUNDLE to a file with the certificates of your own authority",
            )
        case requests.HTTPError(response=requests.Response() as response):
            # Without its address, which is signed: whoever has it may fetch the same.
            return ForgeError(
                f"cannot {purpose.doing}: GitHub's storage returned status {response.status_code}"
            )
        case _:
            return ForgeError(
                f"cannot {purpose.doing}: the response is not one of GitHub's API ({type(error).__name__})",
                hint="check GITHUB_API_URL: https://api.github.com, or https://HOST/api/v3",
            )


def _words(error: GithubException) -> str:
    """GitHub's own words, with those on single fields."""
    data = error.data if isinstance(error.data, dict) else {}
    said = [str(data.get("message") or error.message or "no reason given")]
    details = data.get("errors")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            field, why = detail.get("field"), detail.get("message") or detail.get("code")
            said.append(f"{field}: {why}" if field else str(why))
        else:
            said.append(str(detail))
    return "; ".join(said)
