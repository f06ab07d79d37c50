"""One comment and one open issue, found again and updated in place; their length, and transient failures."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from github import GithubException
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.failures import find_transient_failure
from kafkaform.vcs.forge.markers import LIMIT, Marker, is_same
from kafkaform.vcs.forge.publishing import TOTAL_S, RetryBudget, TransientFailure
from tests.support.cli.project import kafkaform
from tests.support.github.job import COMMENTS, DRIFT, ISSUES, MARKED, Job
from tests.support.github.server import REPOSITORY, SOMEBODY


@pytest.mark.parametrize("lag", [0, 1])
def test_comment_is_created_once_and_kept(job: Job, lag: int) -> None:
    """Also if GitHub lists it late."""
    job.hub.lag = lag
    url = "https://github.example/acme/kafka/issues/12#issuecomment-1001"
    assert job.comment().needs(0).out == f"comment created: {url}\n"
    assert job.hub.bodies(12) == [f"{MARKED}## Plan\n\nOne topic is created."]
    assert job.comment().needs(0).out.startswith("comment unchanged: ")
    assert job.hub.writes() == [("POST", COMMENTS)]


def test_comment_is_updated_in_place(job: Job) -> None:
    """On whichever page it is."""
    job.hub.page_size = 2
    for _ in range(5):
        job.hub.comment(12, "looks good", by=SOMEBODY)
    ours = job.hub.comment(12, f"{MARKED}an earlier plan")
    assert job.comment().needs(0).out == f"comment updated: {ours['html_url']}\n"
    assert job.hub.bodies(12) == [*["looks good"] * 5, f"{MARKED}## Plan\n\nOne topic is created."]
    assert [method for method, _ in job.hub.writes()] == ["PATCH"]


@pytest.mark.parametrize("author", [SOMEBODY, None])
def test_comment_of_other_author_with_marker_is_kept(job: Job, author: int | None) -> None:
    job.hub.comment(12, f"{MARKED}No changes. Safe to merge!", by=author)
    job.comment().needs(0)
    theirs, ours = job.hub.bodies(12)
    assert theirs == f"{MARKED}No changes. Safe to merge!"
    assert ours.startswith(f"{MARKED}## Plan")


def test_oldest_of_several_comments_is_kept(job: Job) -> None:
    for text in ("one", "two", "three"):
        job.hub.comment(12, MARKED + text)
    oldest = job.hub.comments[12][0]["id"]
    job.hub.comments[12].reverse()
    job.comment().needs(0)
    assert [comment["id"] for comment in job.hub.comments[12]] == [oldest]
    assert job.hub.bodies(12)[0].startswith(f"{MARKED}## Plan")


def test_concurrently_deleted_duplicate_is_ignored(job: Job) -> None:
    job.hub.comment(12, f"{MARKED}one")
    job.hub.comment(12, f"{MARKED}two")
    job.hub.fail("DELETE", r"/issues/comments/\d+", status=404, message="Not Found", acts=True)
    job.comment().needs(0)
    assert len(job.hub.bodies(12)) == 1


@pytest.mark.parametrize(
    ("status", "acts", "times"), [(None, True, 1), (502, True, 1), (None, False, 2), (500, False, 2)]
)
def test_failed_comment_creation_is_retried_without_duplicate(
    job: Job, status: int | None, acts: bool, times: int
) -> None:
    job.hub.fail("POST", COMMENTS, status=status, acts=acts, times=times)
    call = job.comment().needs(0)
    assert len(job.hub.bodies(12)) == 1
    assert [method for method, _ in job.hub.writes()] == ["POST"] * (1 if acts else 3)
    assert job.waits == [1.0, 2.0][:times]
    assert "trying again in 1 s" in call.err
    assert acts or call.out.startswith("comment created")


def test_concurrent_runs_leave_single_comment(job: Job) -> None:
    job.write("the plan")
    both = threading.Barrier(2)

    def meet(method: str, path: str) -> None:
        if method == "POST" and path == COMMENTS:
            both.wait(30)

    job.hub.before = meet
    with ThreadPoolExecutor(2) as pool:
        arguments = ("ci", "comment", "plan.md", "--pull-request", 12)
        calls = [
            pool.submit(kafkaform, *arguments, cwd=job.folder, env=job.hub.environment()) for _ in range(2)
        ]
    for call in calls:
        call.result().needs(0)
    assert [method for method, _ in job.hub.writes()].count("POST") == 2
    assert job.hub.bodies(12) == [f"{MARKED}the plan"]


def test_issue_is_opened_once_and_updated(job: Job) -> None:
    assert job.issue("--label", "kafka", "--label", "drift").needs(0).out.startswith("issue created")
    assert job.issue().needs(0).out.startswith("issue unchanged")
    job.write("More drift.")
    assert job.issue().needs(0).out.startswith("issue updated")
    (only,) = job.hub.issues
    only["title"] = "Drift"
    assert job.issue().needs(0).out.startswith("issue updated")
    assert only["title"] == "Drift in prod"
    assert only["body"] == f"{DRIFT}More drift."
    assert only["labels"] == [{"name": "kafka"}, {"name": "drift"}]
    assert job.hub.comments == {}


def test_foreign_issues_and_pull_requests_are_not_changed(job: Job) -> None:
    job.hub.issue(f"{DRIFT}a decoy", by=SOMEBODY)
    job.hub.issue(f"{DRIFT}a pull request of the bot", is_pull=True)
    job.hub.issue(DRIFT.replace("prod", "dev"))
    job.hub.issue("no body of ours")
    before = [dict(issue) for issue in job.hub.issues]
    assert job.issue().needs(0).out.startswith("issue created")
    assert job.hub.issues[:-1] == before


def test_recurring_drift_opens_new_issue(job: Job) -> None:
    for run in (job.issue, job.close, job.issue):
        run().needs(0)
    assert [issue["state"] for issue in job.hub.issues] == ["closed", "open"]


def test_oldest_of_several_open_issues_stays_open(job: Job) -> None:
    for text in ("one", "two"):
        job.hub.issue(DRIFT + text)
    job.issue().needs(0)
    first, second = job.hub.issues
    assert (first["state"], first["body"]) == ("open", f"{DRIFT}## Plan\n\nOne topic is created.")
    assert (second["state"], second["state_reason"]) == ("closed", "not_planned")
    assert job.hub.bodies(second["number"])[0].endswith(f"Duplicate of #{first['number']}.")


def test_issue_is_closed_with_comment(job: Job) -> None:
    made = job.hub.issue(f"{DRIFT}drift")
    assert job.close().needs(0).out.startswith("issue closed: ")
    assert (made["state"], made["state_reason"]) == ("closed", "completed")
    (comment,) = job.hub.bodies(made["number"])
    assert re.fullmatch(
        r"<!-- kafkaform:drift-prod:closed -->\n"
        rf"Clean since \d{{4}}-\d\d-\d\dT[\d:]+Z \(https://github.example/{REPOSITORY}/actions/runs/99\)\.",
        comment,
    )


def test_close_without_open_issue_writes_nothing(job: Job) -> None:
    job.hub.issue(f"{DRIFT}a decoy", by=SOMEBODY)
    job.hub.issue(f"{DRIFT}of last week", state="closed")
    assert job.close().needs(0).out == "no issue is open\n"
    assert job.hub.writes() == []


def test_interrupted_close_is_completed_by_next_run(job: Job) -> None:
    made = job.hub.issue(f"{DRIFT}drift")
    job.hub.fail("PATCH", rf"{ISSUES}/\d+$", status=403, message="no")
    job.close().needs(1)
    assert made["state"] == "open"
    job.close().needs(0)
    assert made["state"] == "closed"
    assert len(job.hub.bodies(made["number"])) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan.md", "--id", "drift"], "FILE.md and --title are required"),
        (["--id", "drift", "--title", "T"], "FILE.md and --title are required"),
        (["plan.md", "--id", "drift", "--close"], "--close takes no FILE.md"),
        (["plan.md", "--id", "Drift!", "--title", "T"], "--id: 'Drift!' is not a valid id"),
    ],
)
def test_wrong_issue_usage_is_refused(job: Job, arguments: list[str], said: str) -> None:
    assert said in job.run("issue", *arguments).needs(64).err
    assert job.hub.requests == []


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


def test_single_long_line_is_truncated() -> None:
    body = PLAN.render_body("🌈" * LIMIT)
    assert LIMIT - 2 < units(body) <= LIMIT
    assert body.endswith("🌈🌈")


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


LASTING = "not retried"


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
        (build_response(403), LASTING),
        (build_response(403, x_ratelimit_remaining="4999", x_ratelimit_reset="1000030"), LASTING),
        (build_response(404, x_ratelimit_remaining="0", x_ratelimit_reset="1000030"), LASTING),
        (build_response(422), LASTING),
        (requests.exceptions.SSLError(), LASTING),
        (requests.exceptions.InvalidURL(), LASTING),
        (ValueError(), LASTING),
    ],
    ids=repr,
)
def test_only_transient_failure_has_waiting_time(error: Exception, wait_s: float | str | None) -> None:
    failure = find_transient_failure(error, NOW_S)
    assert (failure.wait_s if failure else LASTING) == wait_s


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
