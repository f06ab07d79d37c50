"""`kafkaform ci comment` on GitLab: one note on a merge request, kept up to date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.project import Call, run_in_process
from tests.support.gitlab import SOMEBODY, TOKEN, FakeGitLab, fake_gitlab

MARKED = "<!-- kafkaform:plan -->\n"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with fake_gitlab() as running:
        yield running


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("kafkaform.vcs.forge.publishing.sleep", waited.append)
    return waited


def comment(gitlab: FakeGitLab, folder: Path, text: str = "a plan", **env: str) -> Call:
    (folder / "plan.md").write_text(text, "utf-8")
    call = run_in_process("ci", "comment", "plan.md", cwd=folder, env=gitlab.environment(**env))
    assert TOKEN not in call.both
    return call


def writes(gitlab: FakeGitLab) -> list[str]:
    return [request.split()[0] for request in gitlab.requests if not request.startswith("GET")]


def test_gitlab_note_is_created_once_and_updated(gitlab: FakeGitLab, tmp_path: Path) -> None:
    remaining = [gitlab.note(text, by=SOMEBODY) for text in ("hello", f"{MARKED}forged", "well", "done")]
    before = [note["body"] for note in remaining]
    outputs = [comment(gitlab, tmp_path, text).needs(0).out for text in ("one", "one", "two")]
    assert outputs == [
        "note created: !12#note_105\n",
        "note unchanged: !12#note_105\n",
        "note updated: !12#note_105\n",
    ]
    assert gitlab.bodies() == [*before, f"{MARKED}two"]
    assert writes(gitlab) == ["POST", "PUT"]


def test_note_with_lost_response_is_not_duplicated(
    gitlab: FakeGitLab, tmp_path: Path, waits: list[float]
) -> None:
    gitlab.failures += [("GET", 500, False), ("POST", 502, True)]
    retries = comment(gitlab, tmp_path).needs(0).err.splitlines()
    assert retries == [f"GitLab: status {status}; trying again in 3 s" for status in (500, 502)]
    assert gitlab.bodies() == [f"{MARKED}a plan"]
    assert waits == [3.0, 3.0]


def test_oldest_of_several_notes_is_kept(gitlab: FakeGitLab, tmp_path: Path) -> None:
    for text in ("one", "two", "three"):
        gitlab.note(f"{MARKED}{text}")
    comment(gitlab, tmp_path, "four").needs(0)
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
    ids=["no token", "wrong token", "token of two lines", "unencrypted", "another project"],
)
def test_invalid_setting_is_named(
    gitlab: FakeGitLab, tmp_path: Path, env: dict[str, str], words: str
) -> None:
    error = comment(gitlab, tmp_path, **env).needs(1).err
    assert error.startswith("Error: ")
    assert words in error
    assert gitlab.notes == []


def test_persistent_gitlab_error_ends_retries(gitlab: FakeGitLab, tmp_path: Path, waits: list[float]) -> None:
    gitlab.failures += [("GET", 503, False)] * 200
    assert "too long" in comment(gitlab, tmp_path).needs(1).err
    assert sum(waits) <= 300
