"""GitHub's errors: which of them are retried and after how long, and the messages of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import requests
from github import GithubException, RateLimitExceededException

from kafkaform.core.errors import ForgeError
from kafkaform.core.values import Value
from kafkaform.vcs.forge.publishing import TransientFailure

if TYPE_CHECKING:
    from collections.abc import Mapping


_MIN_WAIT_S = 60.0
"""GitHub's advice for secondary rate limits without an end."""
_MAYBE_LIMITED = {400, 403, 429}
_SERVER_ERROR = 500


class RequestPurpose(Value):
    """The purpose of a request, for error messages.

    Attributes:
        action: The action as it follows "cannot": `comment on #12`.
        permission: The permission that the token needs, as a workflow's `permissions:` spell it.
    """

    action: str
    permission: str


def find_transient_failure(error: Exception, now_s: float) -> TransientFailure | None:
    """Return the transient failure behind an error; None if the request would fail again.

    Args:
        error: An error of PyGithub, or of requests below it.
        now_s: The current time in seconds since 1970, as GitHub gives the end of a rate limit.
    """
    match error:
        # SSLError is a ConnectionError, but not transient.
        case requests.exceptions.SSLError() | requests.exceptions.InvalidURL():
            return None
        case requests.HTTPError(response=requests.Response() as response):
            if response.status_code >= _SERVER_ERROR:
                return TransientFailure(f"an internal error ({response.status_code})")
            return None
        case requests.Timeout():
            return TransientFailure("no response in time")
        case requests.ConnectionError() | requests.exceptions.ChunkedEncodingError():
            return TransientFailure("the connection failed")
        case GithubException():
            headers = {name.lower(): value for name, value in (error.headers or {}).items()}
            if (wait_s := _read_rate_limit_s(error, headers, now_s)) is not None:
                return TransientFailure("the rate limit is reached", wait_s)
            if error.status >= _SERVER_ERROR:
                return TransientFailure(f"an internal error ({error.status})")
        case _:
            pass
    return None


def _read_rate_limit_s(error: GithubException, headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the seconds until a rate limit ends; None if there is none.

    In the order of docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api.
    """
    if error.status not in _MAYBE_LIMITED:
        return None
    # First: a secondary rate limit sends it, even while the primary one has requests left.
    if (after := _parse_number(headers.get("retry-after"))) is not None:
        return max(1.0, after)
    reset = _parse_number(headers.get("x-ratelimit-reset"))
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None:
        return max(0.0, reset - now_s) + 1  # the reset is rounded to seconds
    if error.status == requests.codes.too_many_requests or isinstance(error, RateLimitExceededException):
        return _MIN_WAIT_S
    return None


def _parse_number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and value >= 0 else None


def translate_error(error: Exception, purpose: RequestPurpose) -> ForgeError:
    """Return the error for a request that GitHub will not carry out."""
    if not isinstance(error, GithubException):
        return _translate_transport_error(error, purpose)
    reason = _read_message(error)
    needed = f"the job needs `permissions: {{{purpose.permission}}}`"
    match error.status:
        case 401:
            return ForgeError(
                f"cannot {purpose.action}: GitHub rejects GITHUB_TOKEN ({reason})",
                hint="it has expired or was revoked; a job's token is valid only while the job runs",
            )
        case 403:
            return ForgeError(f"cannot {purpose.action}: GitHub denies it ({reason})", hint=needed)
        case 404:
            return ForgeError(
                f"cannot {purpose.action}: it does not exist, or the token has no access to it ({reason})",
                hint=f"check the number and the repository; {needed}",
            )
        case 410:
            return ForgeError(
                f"cannot {purpose.action}: it no longer exists ({reason})",
                hint="it has expired or was deleted, or issues are disabled in the repository's settings",
            )
        case _:
            pass
    return ForgeError(f"cannot {purpose.action}: GitHub returned status {error.status} ({reason})")


def _translate_transport_error(error: Exception, purpose: RequestPurpose) -> ForgeError:
    match error:
        case requests.exceptions.SSLError():
            return ForgeError(
                f"cannot {purpose.action}: GitHub's certificate is not trusted here",
                hint="set REQUESTS_CA_BUNDLE to a file with the certificates of your own authority",
            )
        case requests.HTTPError(response=requests.Response() as response):
            # The message omits the URL: it is signed, so it would grant access to its reader.
            return ForgeError(
                f"cannot {purpose.action}: GitHub's storage returned status {response.status_code}"
            )
        case _:
            return ForgeError(
                f"cannot {purpose.action}: the response is not one of GitHub's API ({type(error).__name__})",
                hint="check GITHUB_API_URL: https://api.github.com, or https://HOST/api/v3",
            )


def _read_message(error: GithubException) -> str:
    """Return GitHub's error message, with those on single fields."""
    data = error.data if isinstance(error.data, dict) else {}
    messages = [str(data.get("message") or error.message or "no reason given")]
    details = data.get("errors")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict):
            field, why = detail.get("field"), detail.get("message") or detail.get("code")
            messages.append(f"{field}: {why}" if field else str(why))
        else:
            messages.append(str(detail))
    return "; ".join(messages)
