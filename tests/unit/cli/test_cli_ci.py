"""`kafkaform ci` on GitHub and GitLab: their limits and errors, and what it is given."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaform.cli.ci import ci
from tests.support.cli.command_lines import calls
from tests.support.cli.project import ROOT, Call, kafkaform, run_in_process
from tests.support.clusters.certificates import self_signed
from tests.support.github.job import ARTEFACT, COMMENTS, ISSUES, MERGE, Job
from tests.support.github.server import REPOSITORY, TOKEN, fake_github
from tests.support.gitlab import SOMEBODY, FakeGitLab, fake_gitlab
from tests.support.gitlab import TOKEN as GITLAB_TOKEN

GUIDE = (ROOT / "docs" / "github.md").read_text("utf-8")
REVIEWED = ("reviewed-plan", "--commit", MERGE, "--artifact", "p", "--out", "p.json")


def fail(status: int, message: str) -> dict[str, Any]:
    return {"method": "POST", "path": f"{COMMENTS}|{ISSUES}$", "status": status, "message": message}


MOVED = fail(307, "Moved Permanently")
REFUSALS: list[tuple[dict[str, Any], str, str]] = [
    (fail(401, "Bad credentials"), "GitHub rejects GITHUB_TOKEN (Bad", "hint: it has expired"),
    (fail(403, "Not accessible"), "GitHub denies it (Not accessible)", "the job needs `permissions: {"),
    (fail(404, "Not Found"), "it does not exist, or the token has no access to it", "check the number"),
    (fail(410, "Disabled"), "it no longer exists (Disabled)", "hint: it has expired or was deleted, or"),
    (fail(422, "Validation Failed"), "GitHub returned status 422 (Validation Failed)", ""),
    (fail(422, "\x1b[2J\n::error::gone"), "", r"\x1b[2J\n::error::gone"),
    (MOVED, f"{REPOSITORY} has moved", ""),
    (
        {"method": "GET", "path": COMMENTS, "status": 200, "message": "<html>sign in</html>"},
        "",
        "is not one of GitHub's API (TypeError)\nhint: check GITHUB_API_URL: ",
    ),
]
"""The failure, the beginning of its message and a part of it with its hint."""


@pytest.mark.parametrize(("how", "begin", "part"), REFUSALS)
def test_github_errors_have_message_and_hint(job: Job, how: dict[str, Any], begin: str, part: str) -> None:
    job.hub.fail(**how)
    call = job.comment().needs(1)
    assert call.err.startswith(f"Error: cannot comment on #12: {begin}")
    assert part in call.err
    assert job.waits == []


def test_refused_issue_is_reported(job: Job) -> None:
    job.hub.fail(**MOVED)
    assert f"{REPOSITORY} has moved" in job.issue().needs(1).err
    job.hub.longest = 10
    assert "status 422 (Validation Failed; body: body is too long" in job.issue().needs(1).err


def test_persistent_server_error_ends_retries(job: Job) -> None:
    job.hub.fail("GET", COMMENTS, status=503, times=100)
    call = job.comment().needs(1)
    assert "GitHub: an internal error (503); tried 6 times" in call.err
    assert "githubstatus.com" in call.err
    assert job.waits == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_untrusted_certificate_is_refused(job: Job, tmp_path: Path) -> None:
    with fake_github(tls=self_signed(tmp_path)) as hub:
        call = job.comment(GITHUB_API_URL=hub.url)
        assert "REQUESTS_CA_BUNDLE" in call.needs(1).err
        assert hub.requests == []
        assert job.waits == []
        trusted = {"GITHUB_API_URL": hub.url, "REQUESTS_CA_BUNDLE": str(tmp_path / "certificate.pem")}
        job.comment(**trusted).needs(0)


def test_token_is_in_no_output(job: Job, tmp_path: Path) -> None:
    job.hub.fail("POST", COMMENTS, status=422)
    arguments = ("--debug", "ci", "comment", "plan.md", "--pull-request", 12)
    call = kafkaform(*arguments, cwd=tmp_path, env=job.hub.environment())
    assert call.code == 1
    assert "Traceback" in call.err
    assert TOKEN not in call.both


_URLS = ("http://api.example.com", "ftp://127.0.0.1", "api.github.com", "http://127.0.0.1.example.com")
_NAMES = ("kafka", "acme/kafka/x", "acme/..", "https://github.com/acme/kafka", "")
UNSUITABLE: list[tuple[dict[str, str], tuple[str, ...], int, str]] = [
    ({"GITHUB_TOKEN": " "}, ("plan.md",), 1, "GITHUB_TOKEN is not set"),
    # A token is never sent unencrypted.
    *(({"GITHUB_API_URL": url}, ("plan.md",), 1, f"GITHUB_API_URL is {url}, ") for url in _URLS),
    *(({}, ("plan.md", "--repository", name), 64, f"{name!r} does not have the form O") for name in _NAMES),
    ({}, ("none.md",), 1, "No such file"),
    ({}, ("empty.md",), 1, "is empty"),
    ({}, ("latin.md",), 1, "not UTF-8"),
]


@pytest.mark.parametrize(("env", "arguments", "code", "said"), UNSUITABLE)
def test_unsuitable_setting_is_reported_before_any_request(
    job: Job, env: dict[str, str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    (job.folder / "empty.md").write_bytes(b" \n")
    (job.folder / "latin.md").write_bytes(b"\xff")
    assert said in job.run("comment", *arguments, "--pull-request", 12, **env).needs(code).err
    assert (job.hub.requests, job.waits) == ([], [])


@pytest.mark.parametrize(
    ("env", "arguments", "said"),
    [
        ({}, (), "no forge is given"),
        ({"GITHUB_TOKEN": "a", "GITLAB_TOKEN": "a"}, (), "no forge is given"),
        ({"GITHUB_TOKEN": "a", "GITLAB_TOKEN": "a", "GITLAB_CI": "true"}, (), "no project is given"),
        ({"GITLAB_TOKEN": "a"}, (), "no project is given"),
        ({"GITHUB_ACTIONS": "true", "CI_PROJECT_ID": "7"}, (), "no repository is given"),
        ({"GITHUB_ACTIONS": "true"}, ("--forge", "gitlab"), "no project is given"),
    ],
)
def test_forge_is_detected_from_environment_or_refused(
    tmp_path: Path, env: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "plan.md").write_text("a plan", "utf-8")
    call = run_in_process("ci", "comment", "plan.md", "--pull-request", 12, *arguments, cwd=tmp_path, env=env)
    assert said in call.needs(64).err


@pytest.mark.parametrize("arguments", [("issue", "--id", "drift-prod", "--close"), REVIEWED])
def test_gitlab_job_refuses_issues_and_reviewed_plans(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    call = run_in_process("ci", *arguments, cwd=tmp_path, env={"GITLAB_CI": "true"})
    assert f"`kafkaform ci {arguments[0]}` works on GitHub" in call.needs(64).err


def test_missing_pygithub_names_extra(job: Job, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['github'] = None")
    arguments = ("ci", "comment", "plan.md", "--pull-request", 12)
    env = job.hub.environment(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    call = kafkaform(*arguments, cwd=tmp_path, env=env).needs(1)
    assert "`pip install 'kafkaform[github]'`" in call.err


def test_steps_of_the_guide_run(job: Job) -> None:
    job.hub.pull(MERGE)
    job.hub.plan(ARTEFACT, {"plan.json": "{}"})
    (job.folder / "drift.md").write_text("## Drift")
    shown = [*calls("".join(re.findall(r"^```yaml\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)))]
    assert {name for _, name, *_ in shown} == {*ci.commands}
    variables = {"$NUMBER": "12", "$GITHUB_SHA": MERGE}
    for line in shown:
        job.run(*(variables.get(word, word) for word in line[1:])).needs(0)


MARKED = "<!-- kafkaform:plan -->\n"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with fake_gitlab() as running:
        yield running


def comment(job: Job, gitlab: FakeGitLab, text: str = "a plan", **env: str) -> Call:
    job.write(text)
    call = run_in_process("ci", "comment", "plan.md", cwd=job.folder, env=gitlab.environment(**env))
    assert GITLAB_TOKEN not in call.both
    return call


def test_gitlab_note_is_created_once_and_updated(job: Job, gitlab: FakeGitLab) -> None:
    remaining = [gitlab.note(text, by=SOMEBODY) for text in ("hello", f"{MARKED}forged", "well", "done")]
    before = [note["body"] for note in remaining]
    outputs = [comment(job, gitlab, text).needs(0).out for text in ("one", "one", "two")]
    assert outputs == [
        "note created: !12#note_105\n",
        "note unchanged: !12#note_105\n",
        "note updated: !12#note_105\n",
    ]
    assert gitlab.bodies() == [*before, f"{MARKED}two"]
    assert [line.split()[0] for line in gitlab.requests if not line.startswith("GET")] == ["POST", "PUT"]


def test_note_with_lost_response_is_not_duplicated(job: Job, gitlab: FakeGitLab) -> None:
    gitlab.failures += [("GET", 500, False), ("POST", 502, True)]
    retries = comment(job, gitlab).needs(0).err.splitlines()
    assert retries == [f"GitLab: status {status}; trying again in 3 s" for status in (500, 502)]
    assert gitlab.bodies() == [f"{MARKED}a plan"]
    assert job.waits == [3.0, 3.0]


def test_oldest_of_several_notes_is_kept(job: Job, gitlab: FakeGitLab) -> None:
    for text in ("one", "two", "three"):
        gitlab.note(f"{MARKED}{text}")
    comment(job, gitlab, "four").needs(0)
    assert gitlab.bodies() == [f"{MARKED}four"]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"GITLAB_TOKEN": ""}, "GITLAB_TOKEN is not set"),
        ({"GITLAB_TOKEN": "wrong"}, "status 401 "),
        ({"GITLAB_TOKEN": "two\nlines"}, "contains invalid characters"),
        ({"CI_API_V4_URL": "http://gitlab.example/api/v4"}, "must start with https://"),
        ({"CI_PROJECT_ID": "another"}, "status 404 "),
    ],
)
def test_invalid_setting_is_named(job: Job, gitlab: FakeGitLab, env: dict[str, str], words: str) -> None:
    error = comment(job, gitlab, **env).needs(1).err
    assert error.startswith("Error: ")
    assert words in error
    assert gitlab.notes == []


def test_persistent_gitlab_error_ends_retries(job: Job, gitlab: FakeGitLab) -> None:
    gitlab.failures += [("GET", 503, False)] * 200
    assert "too long" in comment(job, gitlab).needs(1).err
    assert sum(job.waits) <= 300
