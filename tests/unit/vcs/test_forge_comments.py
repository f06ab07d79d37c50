"""One comment on a pull request: found again, updated in place, never two."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cli.project import kafkaform, run_in_process
from tests.support.github.job import COMMENTS, MARKED, Job
from tests.support.github.server import REPOSITORY, SOMEBODY


class TestComment:
    def test_comment_is_created_once_and_kept(self, job: Job) -> None:
        url = "https://github.example/acme/kafka/issues/12#issuecomment-1001"
        assert job.comment().needs(0).out == f"comment created: {url}\n"
        assert job.hub.bodies(12) == [f"{MARKED}## Plan\n\nOne topic is created."]
        assert job.comment().needs(0).out.startswith("comment unchanged: ")
        assert job.hub.writes() == [("POST", COMMENTS)]

    def test_comment_is_updated_in_place(self, job: Job) -> None:
        job.hub.comment(12, "looks good", by=SOMEBODY)
        ours = job.hub.comment(12, f"{MARKED}an earlier plan")
        assert job.comment().needs(0).out == f"comment updated: {ours['html_url']}\n"
        assert job.hub.bodies(12) == ["looks good", f"{MARKED}## Plan\n\nOne topic is created."]
        assert [method for method, _ in job.hub.writes()] == ["PATCH"]

    @pytest.mark.parametrize("author", [SOMEBODY, None])
    def test_comment_of_other_author_with_marker_is_kept(self, job: Job, author: int | None) -> None:
        job.hub.comment(12, f"{MARKED}No changes. Safe to merge!", by=author)
        job.comment().needs(0)
        theirs, ours = job.hub.bodies(12)
        assert theirs == f"{MARKED}No changes. Safe to merge!"
        assert ours.startswith(f"{MARKED}## Plan")

    def test_every_comment_page_is_searched(self, job: Job) -> None:
        job.hub.page_size = 2
        for number in range(5):
            job.hub.comment(12, f"remark {number}", by=SOMEBODY)
        job.hub.comment(12, f"{MARKED}an earlier plan")
        assert job.comment().needs(0).out.startswith("comment updated")
        assert len(job.hub.bodies(12)) == 6

    def test_oldest_of_several_comments_is_kept(self, job: Job) -> None:
        for text in ("one", "two", "three"):
            job.hub.comment(12, MARKED + text)
        oldest = job.hub.comments[12][0]["id"]
        job.hub.comments[12].reverse()
        job.comment().needs(0)
        assert [comment["id"] for comment in job.hub.comments[12]] == [oldest]
        assert job.hub.bodies(12)[0].startswith(f"{MARKED}## Plan")

    def test_concurrently_deleted_duplicate_is_ignored(self, job: Job) -> None:
        job.hub.comment(12, f"{MARKED}one")
        job.hub.comment(12, f"{MARKED}two")
        job.hub.fail("DELETE", r"/issues/comments/\d+", status=404, message="Not Found", acts=True)
        job.comment().needs(0)
        assert len(job.hub.bodies(12)) == 1

    def test_comment_text_is_read_from_stdin(self, job: Job) -> None:
        arguments = ("ci", "comment", "-", "--pull-request", 12)
        env = job.hub.environment()
        done = run_in_process(*arguments, cwd=job.folder, env=env, given="from a pipe: é").needs(0)
        assert done.out.startswith("comment created")
        assert job.hub.bodies(12) == [f"{MARKED}from a pipe: é"]

    def test_repository_may_be_named(self, job: Job) -> None:
        call = job.run(
            "comment", "plan.md", "--pull-request", 12, "--repository", REPOSITORY, GITHUB_REPOSITORY="x/y"
        )
        call.needs(0)
        assert len(job.hub.bodies(12)) == 1


class TestAtMostOneComment:
    @pytest.mark.parametrize("status", [None, 502])
    def test_comment_with_lost_response_is_created_once(self, job: Job, status: int | None) -> None:
        job.hub.fail("POST", COMMENTS, status=status, acts=True)
        call = job.comment().needs(0)
        assert len(job.hub.bodies(12)) == 1
        assert [method for method, _ in job.hub.writes()] == ["POST"]
        assert job.waits == [1.0]
        assert "trying again in 1 s" in call.err

    @pytest.mark.parametrize("status", [None, 500])
    def test_failed_comment_creation_is_retried(self, job: Job, status: int | None) -> None:
        job.hub.fail("POST", COMMENTS, status=status, times=2)
        assert job.comment().needs(0).out.startswith("comment created")
        assert len(job.hub.bodies(12)) == 1

    def test_comment_listed_late_is_created_once(self, job: Job) -> None:
        job.hub.lag = 1
        job.comment().needs(0)
        assert job.comment().needs(0).out.startswith("comment unchanged")
        assert len(job.hub.bodies(12)) == 1

    def test_concurrent_runs_leave_single_comment(self, job: Job) -> None:
        job.write("the plan")
        both = threading.Barrier(2)

        def meet(method: str, path: str) -> None:
            if method == "POST" and path == COMMENTS:
                both.wait(30)

        job.hub.before = meet
        with ThreadPoolExecutor(2) as pool:
            arguments = ("ci", "comment", "plan.md", "--pull-request", 12)
            calls = [
                pool.submit(kafkaform, *arguments, cwd=job.folder, env=job.hub.environment())
                for _ in range(2)
            ]
        for call in calls:
            call.result().needs(0)
        assert [method for method, _ in job.hub.writes()].count("POST") == 2
        assert job.hub.bodies(12) == [f"{MARKED}the plan"]
