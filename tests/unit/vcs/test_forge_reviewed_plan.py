"""The plan that was reviewed: of which pull request, made by whom, and out of an archive that others made."""

import io
import random
import re
import struct
import tracemalloc
import warnings
import zipfile
from typing import Any

import pytest

from kafkaform.core.errors import ForgeError
from kafkaform.vcs.forge.reviewed_plan import read_plan
from tests.support.github.job import ARTEFACT, HEAD, MERGE, Job
from tests.support.github.server import FORK_ID, zip_texts


@pytest.fixture
def merged(job: Job) -> Job:
    """A job after the merge of its pull request."""
    job.hub.pull(MERGE)
    return job


def test_plan_is_artifact_of_last_commit(merged: Job) -> None:
    merged.hub.plan("kafkaform-plan-prod-12-" + "a" * 40, {"plan.json": "an earlier one"})
    merged.hub.plan("kafkaform-plan-dev-12-" + HEAD, {"plan.json": "another cluster's"})
    merged.hub.plan(ARTEFACT, {"plan.json": '{"é": 1}', "plan.md": "## Plan"})
    out = merged.plan().needs(0).out
    assert out.startswith("plan.json: the plan of #12 at bbbbbbbbbbbb, made by https://github.example/")
    assert (merged.folder / "plan.json").read_text("utf-8") == '{"é": 1}'
    assert merged.hub.writes() == []


def test_newest_of_several_artifacts_is_used(merged: Job) -> None:
    merged.hub.page_size = 1
    merged.hub.plan(ARTEFACT, {"plan.json": "old"}, made_at="2026-11-01T10:00:00Z")
    merged.hub.plan(ARTEFACT, {"plan.json": "new"}, made_at="2026-11-01T12:00:00Z", conclusion="failure")
    merged.hub.plan(ARTEFACT, {"plan.json": "older"}, made_at="2026-11-01T09:00:00Z")
    merged.hub.plan(
        ARTEFACT, {"plan.json": "cut off"}, made_at="2026-11-01T12:30:00Z", conclusion="cancelled"
    )
    merged.plan().needs(0)
    assert (merged.folder / "plan.json").read_text() == "new"


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"is_expired": True}, "it has expired"),
        ({"path": ".github/workflows/evil.yml"}, "it was made by .github/workflows/evil.yml"),
        ({"event": "pull_request"}, "on pull_request, not by .github/workflows/plan.yml on pull_request_t"),
        ({"run_repository": FORK_ID}, "is not from this repository"),
        ({"made_at": "2026-11-01T13:00:01Z"}, "it was made after the merge"),
        (
            {"status": "in_progress", "conclusion": None},
            "the workflow run that makes it has not finished (https://git",
        ),
        ({"conclusion": "cancelled"}, "ended as cancelled, before its plan was posted"),
    ],
)
def test_unreviewed_plan_is_refused(merged: Job, how: dict[str, Any], said: str) -> None:
    merged.hub.plan(ARTEFACT, {"plan.json": "{}"}, **how)
    call = merged.plan().needs(1)
    assert call.err.startswith("Error: the plan of #12 cannot be used: ")
    assert said in call.err
    assert "hint: run `kafkaform plan` and apply it by hand" in call.err
    assert not (merged.folder / "plan.json").exists()


def test_artifact_of_workflow_on_branch_is_accepted_and_needed(merged: Job) -> None:
    assert f"there is no artifact {ARTEFACT}" in merged.plan().needs(1).err
    merged.hub.plan(ARTEFACT, {"plan.json": "{}"}, path=".github/workflows/plan-kafka.yml@refs/heads/main")
    merged.plan().needs(1)
    merged.plan("--workflow", "plan-kafka.yml").needs(0)


def test_storage_may_fail_for_a_while(merged: Job) -> None:
    merged.hub.plan(ARTEFACT, {"plan.json": "{}"})
    merged.hub.fail("GET", "/blob/", status=503)
    merged.hub.fail("GET", "/blob/", status=None)
    merged.hub.fail("GET", "/zip$", status=502)
    merged.plan().needs(0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"path": "/blob/", "status": 403}, "GitHub's storage returned status 403"),
        (
            {"path": "/zip$", "status": 302, "headers": {"Location": "http://storage.example/x"}},
            "no safe address to download the artifact from",
        ),
    ],
)
def test_failed_download_hides_signed_address(merged: Job, how: dict[str, Any], said: str) -> None:
    merged.hub.plan(ARTEFACT, {"plan.json": "{}"})
    merged.hub.fail("GET", **how)
    call = merged.plan().needs(1)
    assert said in call.err
    assert "signed" not in call.both


@pytest.mark.parametrize("told", [True, False])
def test_oversized_artifact_is_refused(merged: Job, monkeypatch: pytest.MonkeyPatch, told: bool) -> None:
    monkeypatch.setattr("kafkaform.vcs.forge.reviewed_plan.MAX_ARCHIVE_BYTES", 100_000)
    merged.hub.plan(ARTEFACT, random.Random(1).randbytes(300_000), size=None if told else 10)
    assert re.search(r"has \d+,\d+ bytes, more than the limit of 100,000", merged.plan().needs(1).err)
    assert any("/blob/" in request.path for request in merged.hub.requests) is not told


def test_damaged_archive_keeps_earlier_plan(merged: Job) -> None:
    (merged.folder / "plan.json").write_text("an earlier one")
    merged.hub.plan(ARTEFACT, b"<html>")
    assert merged.plan().needs(1).err == "Error: the artifact cannot be read: File is not a zip file\n"
    assert (merged.folder / "plan.json").read_text() == "an earlier one"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--commit", "abc123", "--artifact", "x"], "--commit 'abc123' is not a full commit id"),
        (["--commit", "main", "--artifact", "x"], "--commit 'main' is not a full commit id"),
        (["--commit", MERGE, "--artifact", "../x"], "--artifact '../x' is not the name of an artifact"),
        (["--commit", MERGE, "--artifact", "x", "--workflow", "a/b.yml"], "--workflow 'a/b.yml' is not"),
    ],
)
def test_wrong_reviewed_plan_usage_is_refused(merged: Job, arguments: list[str], said: str) -> None:
    assert said in merged.run("reviewed-plan", "--out", "plan.json", *arguments).needs(64).err
    assert merged.hub.requests == []


@pytest.mark.parametrize("source", [FORK_ID, None])
def test_pull_request_from_fork_is_refused(job: Job, source: int | None) -> None:
    job.hub.pull(MERGE, source=source)
    assert "#12 came from a fork" in job.plan().needs(1).err


@pytest.mark.parametrize(
    "how", [None, {"merged_at": None}, {"base": "release"}, {"merge_commit": "d" * 40}], ids=str
)
def test_commit_of_no_merged_pull_request_is_refused(job: Job, how: dict[str, Any] | None) -> None:
    if how:
        job.hub.pull(MERGE, **how)
    job.hub.plan(ARTEFACT, {"plan.json": "{}"})
    error = job.plan().needs(1).err.partition("Error: ")[2]
    assert error.startswith("no pull request was merged into main as commit cccccccccccc")
    assert job.hub.writes() == []
    assert how or job.waits == [5.0, 5.0, 5.0]


def test_merge_listed_late_is_awaited(job: Job) -> None:
    looks: list[str] = []

    def before(_method: str, path: str) -> None:
        if path.endswith("/pulls"):
            looks.append(path)
            if len(looks) == 3:
                job.hub.pull(MERGE)

    job.hub.before = before
    job.hub.plan(ARTEFACT, {"plan.json": "{}"})
    lines = job.plan().needs(0).err.splitlines()
    assert [line.split("; ")[1] for line in lines] == ["trying again in 5 s"] * 2
    assert job.waits == [5.0, 5.0]


def test_only_the_plan_is_read() -> None:
    assert read_plan(zip_texts({"plan.json": "{}", "plan.md": "## Plan", "../../etc/passwd": "x"})) == "{}"


def test_large_plan_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.vcs.forge.reviewed_plan.MAX_PLAN_BYTES", 1_000_000)
    with pytest.raises(ForgeError, match=r"1,000,001 bytes, more than the limit of 1,000,000"):
        read_plan(zip_texts({"plan.json": " " * 1_000_001}))


def test_plan_larger_than_its_declared_size_is_not_unpacked() -> None:
    archive = bytearray(zip_texts({"plan.json": " " * 20_000_000}))
    for header, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", archive, archive.index(header) + offset, 10)
    tracemalloc.start()
    try:
        with pytest.raises(ForgeError, match="Bad CRC-32"):
            read_plan(bytes(archive))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def build_archive(*plans: bytes, method: int = zipfile.ZIP_STORED, encrypted: bool = False) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of two files of one name
        for plan in plans:
            archive.writestr("plan.json", plan)
    made = bytearray(content.getvalue())
    for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        struct.pack_into("<H", made, made.index(header) + offset, int(encrypted))
    return bytes(made)


_ELSEWHERE = ("../plan.json", "/plan.json", "a/plan.json", "PLAN.json", "plan.json\n")
UNREADABLE = [
    *((zip_texts({name: "{}"}), r"no files named plan\.json") for name in _ELSEWHERE),
    *((zip_texts({"plan.json": '{"a": 1}'})[:size], "the artifact") for size in range(1, 100, 7)),
    (build_archive(b"{}", b"[]"), "has 2 files named"),
    (build_archive(b"{}", encrypted=True), "is encrypted"),
    (build_archive(b"{}" * 1000, method=zipfile.ZIP_BZIP2), "unsupported compression method"),
    (build_archive(b"{}" * 1000, method=zipfile.ZIP_LZMA), "unsupported compression method"),
    (build_archive(b"\xff\xfe"), "is not UTF-8"),
]


@pytest.mark.parametrize(("archive", "why"), UNREADABLE)
def test_unreadable_or_ambiguous_plan_is_refused(archive: bytes, why: str) -> None:
    with pytest.raises(ForgeError, match=why):
        read_plan(archive)
