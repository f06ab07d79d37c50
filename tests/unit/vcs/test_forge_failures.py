"""Tests of transient failures, and of the waits for them."""

from __future__ import annotations

import pytest
import requests
from github import GithubException

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import find_transient_failure
from kafkaform.vcs.forge.publishing import TOTAL_S, RetryBudget, TransientFailure

NOW_S = 1_000_000.0


def build_response(status: int, **headers: str) -> GithubException:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return GithubException(status, {"message": "no"}, named)


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        (build_response(403, retry_after="7"), 7.0),
        (build_response(429, retry_after="0"), 1.0),
        (build_response(429, retry_after="soon"), 60.0),
        (build_response(429, retry_after="-5"), 60.0),
        (build_response(403, x_ratelimit_remaining="0", x_ratelimit_reset="1000030"), 31.0),
        (build_response(429, x_ratelimit_remaining="0", x_ratelimit_reset="999990"), 1.0),
        # GraphQL tells it as an error inside of an answer.
        (build_response(400, x_ratelimit_remaining="0", x_ratelimit_reset="1000001"), 2.0),
        (build_response(500), None),
        (build_response(503, retry_after="900"), None),
        (requests.ConnectionError(), None),
        (requests.ReadTimeout(), None),
        (requests.exceptions.ChunkedEncodingError(), None),
    ],
    ids=repr,
)
def test_transient_failure_has_waiting_time(error: Exception, wait_s: float | None) -> None:
    failure = find_transient_failure(error, NOW_S)
    assert failure is not None
    assert failure.wait_s == wait_s


@pytest.mark.parametrize(
    "error",
    [
        build_response(403),
        build_response(403, x_ratelimit_remaining="4999", x_ratelimit_reset="1000030"),
        build_response(404, x_ratelimit_remaining="0", x_ratelimit_reset="1000030"),
        build_response(422),
        requests.exceptions.SSLError(),
        requests.exceptions.InvalidURL(),
        ValueError(),
    ],
    ids=repr,
)
def test_lasting_failures_are_not_retried(error: Exception) -> None:
    assert find_transient_failure(error, NOW_S) is None


def test_total_waiting_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("kafkaform.vcs.forge.publishing.sleep", waited.append)
    messages: list[str] = []
    budget = RetryBudget(messages.append, "GitHub", "githubstatus.com")
    budget.wait(TransientFailure("a failure"))
    budget.wait(TransientFailure("the limit", TOTAL_S - 10))
    with pytest.raises(ForgeError, match="GitHub: the limit; it asks to wait 10 s"):
        budget.wait(TransientFailure("the limit", 10.0))
    assert waited == [1.0, TOTAL_S - 10]
    assert [line.split("; ")[1] for line in messages] == [
        "trying again in 1 s",
        f"trying again in {TOTAL_S - 10:.0f} s",
    ]
