"""One open issue: kept while something lasts, closed when it is over."""

from __future__ import annotations

import re

import pytest

from tests.support.github.job import DRIFT, ISSUES, Job
from tests.support.github.server import REPOSITORY, SOMEBODY


class TestIssue:
    def test_issue_is_opened_once_and_updated(self, job: Job) -> None:
        assert job.issue("--label", "kafka", "--label", "drift").needs(0).out.startswith("issue created")
        assert job.issue().needs(0).out.startswith("issue unchanged")
        job.write("More drift.")
        assert job.issue().needs(0).out.startswith("issue updated")
        (only,) = job.hub.issues
        assert only["title"] == "Drift in prod"
        assert only["body"] == f"{DRIFT}More drift."
        assert only["labels"] == [{"name": "kafka"}, {"name": "drift"}]
        assert job.hub.comments == {}

    def test_issue_title_is_updated(self, job: Job) -> None:
        job.hub.issue(f"{DRIFT}## Plan\n\nOne topic is created.", title="Drift")
        assert job.issue().needs(0).out.startswith("issue updated")
        assert job.hub.issues[0]["title"] == "Drift in prod"

    def test_foreign_issues_and_pull_requests_are_not_changed(self, job: Job) -> None:
        job.hub.issue(f"{DRIFT}a decoy", by=SOMEBODY)
        job.hub.issue(f"{DRIFT}a pull request of the bot", is_pull=True)
        job.hub.issue(DRIFT.replace("prod", "dev"))
        job.hub.issue("no body of ours")
        before = [dict(issue) for issue in job.hub.issues]
        assert job.issue().needs(0).out.startswith("issue created")
        assert job.hub.issues[:-1] == before

    def test_every_issue_page_is_searched(self, job: Job) -> None:
        job.hub.page_size = 2
        job.hub.issue(f"{DRIFT}ours")
        for number in range(5):
            job.hub.issue(f"issue {number}", by=SOMEBODY)
        assert job.issue().needs(0).out.startswith("issue updated")
        assert len(job.hub.issues) == 6

    def test_recurring_drift_opens_new_issue(self, job: Job) -> None:
        job.issue().needs(0)
        job.close().needs(0)
        job.issue().needs(0)
        assert [issue["state"] for issue in job.hub.issues] == ["closed", "open"]

    def test_oldest_of_several_open_issues_stays_open(self, job: Job) -> None:
        for text in ("one", "two"):
            job.hub.issue(DRIFT + text)
        job.issue().needs(0)
        first, second = job.hub.issues
        assert (first["state"], first["body"]) == ("open", f"{DRIFT}## Plan\n\nOne topic is created.")
        assert (second["state"], second["state_reason"]) == ("closed", "not_planned")
        assert job.hub.bodies(second["number"])[0].endswith(f"Duplicate of #{first['number']}.")

    @pytest.mark.parametrize("status", [None, 502])
    def test_issue_with_lost_response_is_opened_once(self, job: Job, status: int | None) -> None:
        job.hub.fail("POST", f"{ISSUES}$", status=status, acts=True)
        job.issue().needs(0)
        assert len(job.hub.issues) == 1
        assert [method for method, _ in job.hub.writes()] == ["POST"]

    def test_issue_is_closed_with_comment(self, job: Job) -> None:
        made = job.hub.issue(f"{DRIFT}drift")
        assert job.close().needs(0).out.startswith("issue closed: ")
        assert (made["state"], made["state_reason"]) == ("closed", "completed")
        (comment,) = job.hub.bodies(made["number"])
        assert re.fullmatch(
            r"<!-- kafkaform:drift-prod:closed -->\n"
            rf"Clean since \d{{4}}-\d\d-\d\dT[\d:]+Z \(https://github.example/{REPOSITORY}/actions/runs/99\)\.",
            comment,
        )

    def test_close_without_open_issue_writes_nothing(self, job: Job) -> None:
        job.hub.issue(f"{DRIFT}a decoy", by=SOMEBODY)
        job.hub.issue(f"{DRIFT}of last week", state="closed")
        assert job.close().needs(0).out == "no issue is open\n"
        assert job.hub.writes() == []

    def test_interrupted_close_is_completed_by_next_run(self, job: Job) -> None:
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
    def test_wrong_issue_usage_is_refused(self, job: Job, arguments: list[str], said: str) -> None:
        assert said in job.run("issue", *arguments).needs(64).err
        assert job.hub.requests == []
