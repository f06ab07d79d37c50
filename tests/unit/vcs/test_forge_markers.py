"""Texts with a marker, never longer than GitHub takes; transient failures, and the waits for them."""

import re

import pytest
import requests
from github import GithubException
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import find_transient_failure
from kafkaform.vcs.forge.markers import LIMIT, Marker, is_same
from kafkaform.vcs.forge.publishing import TOTAL_S, RetryBudget, TransientFailure

PLAN = Marker("plan-prod")
NOTE = re.compile(r"\*\*Truncated: ([\d,]+) of ([\d,]+) lines are shown\.\*\*\n\n")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(texts)
def test_short_text_is_kept_completely(text: str) -> None:
    body = PLAN.render_body(text)
    assert PLAN.marks(body)
    assert is_same(body, f"{PLAN.line}\n{text}")
    assert PLAN.render_body(text) == body


@given(texts.filter(bool), st.integers(1, 2_000), texts)
@example("x" * LIMIT, 1, "")
@example("🌈" * LIMIT, 1, "")
@example("🌈\n" * LIMIT, 1, "")
@example("", 1, "\n" * LIMIT + "end")
def test_body_is_within_github_limit(line: str, times: int, end: str) -> None:
    body = PLAN.render_body((line + "\n") * times * (LIMIT // 300 // len(line or "x") + 1) + end)
    assert units(body) <= LIMIT
    assert PLAN.marks(body)
    assert len(body.encode()) <= 4 * LIMIT


@given(st.lists(texts.map(lambda text: "".join(text.split()) or "x"), min_size=1, max_size=20))
def test_truncated_text_has_whole_lines_and_counts(lines: list[str]) -> None:
    many = lines * (LIMIT // sum(units(line) + 1 for line in lines) + 1)
    body = PLAN.render_body("\n".join(many))
    first, remaining = body.split("\n", 1)
    assert first == PLAN.line
    note = NOTE.match(remaining)
    assert note is not None
    shown = remaining[note.end() :].split("\n")
    assert shown == many[: len(shown)]
    assert note[1] == f"{len(shown):,}"
    assert note[2] == f"{len(many):,}"
    assert units(body) > LIMIT - 400


def test_single_long_line_is_truncated() -> None:
    body = PLAN.render_body("🌈" * LIMIT)
    assert LIMIT - 2 < units(body) <= LIMIT
    assert body.endswith("🌈🌈")


@pytest.mark.parametrize(
    ("body", "is_ours"),
    [
        ("<!-- kafkaform:plan-prod -->\nx", True),
        ("<!-- kafkaform:plan-prod -->\r\nx", True),
        ("<!-- kafkaform:plan-prod -->", True),
        ("<!-- kafkaform:plan-Prod -->", False),
        ("<!-- kafkaform:plan-prod-eu -->\nx", False),
        ("<!-- kafkaform:plan-prod:closed -->\nx", False),
        (" <!-- kafkaform:plan-prod -->\nx", False),
        ("x\n<!-- kafkaform:plan-prod -->", False),
        ("", False),
        (None, False),
    ],
)
def test_only_own_first_line_marks_text(body: str | None, is_ours: bool) -> None:
    assert PLAN.marks(body) is is_ours


@pytest.mark.parametrize("name", ["", "-plan", "a b", "a:b", "a>b", "--><b>", "plan\n", "é", "x" * 65])
def test_invalid_marker_id_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid id"):
        Marker(name)


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
