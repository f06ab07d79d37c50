"""Texts on GitHub: one comment on a pull request and one open issue, found again and updated in place."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cli.project import kafkaform
from tests.support.github.job import COMMENTS, DRIFT, ISSUES, MARKED, Job
from tests.support.github.server import REPOSITORY, SOMEBODY


def test_comment_is_created_once_and_kept(job: Job) -> None:
    url = "https://github.example/acme/kafka/issues/12#issuecomment-1001"
    assert job.comment().needs(0).out == f"comment created: {url}\n"
    assert job.hub.bodies(12) == [f"{MARKED}## Plan\n\nOne topic is created."]
    assert job.comment().needs(0).out.startswith("comment unchanged: ")
    assert job.hub.writes() == [("POST", COMMENTS)]


def test_comment_is_updated_in_place(job: Job) -> None:
    job.hub.comment(12, "looks good", by=SOMEBODY)
    ours = job.hub.comment(12, f"{MARKED}an earlier plan")
    assert job.comment().needs(0).out == f"comment updated: {ours['html_url']}\n"
    assert job.hub.bodies(12) == ["looks good", f"{MARKED}## Plan\n\nOne topic is created."]
    assert [method for method, _ in job.hub.writes()] == ["PATCH"]


@pytest.mark.parametrize("author", [SOMEBODY, None])
def test_comment_of_other_author_with_marker_is_kept(job: Job, author: int | None) -> None:
    job.hub.comment(12, f"{MARKED}No changes. Safe to merge!", by=author)
    job.comment().needs(0)
    theirs, ours = job.hub.bodies(12)
    assert theirs == f"{MARKED}No changes. Safe to merge!"
    assert ours.startswith(f"{MARKED}## Plan")


def test_every_comment_page_is_searched(job: Job) -> None:
    job.hub.page_size = 2
    for number in range(5):
        job.hub.comment(12, f"remark {number}", by=SOMEBODY)
    job.hub.comment(12, f"{MARKED}an earlier plan")
    assert job.comment().needs(0).out.startswith("comment updated")
    assert len(job.hub.bodies(12)) == 6


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


@pytest.mark.parametrize("status", [None, 502])
def test_comment_with_lost_response_is_created_once(job: Job, status: int | None) -> None:
    job.hub.fail("POST", COMMENTS, status=status, acts=True)
    call = job.comment().needs(0)
    assert len(job.hub.bodies(12)) == 1
    assert [method for method, _ in job.hub.writes()] == ["POST"]
    assert job.waits == [1.0]
    assert "trying again in 1 s" in call.err


@pytest.mark.parametrize("status", [None, 500])
def test_failed_comment_creation_is_retried(job: Job, status: int | None) -> None:
    job.hub.fail("POST", COMMENTS, status=status, times=2)
    assert job.comment().needs(0).out.startswith("comment created")
    assert len(job.hub.bodies(12)) == 1


def test_comment_listed_late_is_created_once(job: Job) -> None:
    job.hub.lag = 1
    job.comment().needs(0)
    assert job.comment().needs(0).out.startswith("comment unchanged")
    assert len(job.hub.bodies(12)) == 1


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
    job.issue().needs(0)
    job.close().needs(0)
    job.issue().needs(0)
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
