"""The plan that was reviewed: the artefact that the plan workflow kept of a pull request's last commit.

Its name has the number of the pull request and the commit in it, since a run for `pull_request_target`
has the base branch's commit as its own. A name proves nothing, so the run that made it is looked at, too:
only a workflow file of the base branch is trusted, which is what that event runs.
"""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import requests
from github import GithubException

from kafkaform.core.errors import ForgeError
from kafkaform.core.wording import counted
from kafkaform.vcs.forge.address import is_safe
from kafkaform.vcs.forge.failures import RequestPurpose, Trouble

if TYPE_CHECKING:
    from datetime import datetime

    from kafkaform.vcs.forge.client import GitHub


NAME = "plan.json"
LARGEST_ARCHIVE = 64 * 1024**2
LARGEST_PLAN = 256 * 1024**2
"""Bytes; the plan of ten thousand new topics is less than a tenth of that."""

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""What upload-artifact uses, and what can be unpacked piece by piece."""


def read_plan(archive: bytes) -> str:
    """The text of the one plan.json in an archive; other files in it are not looked at.

    Raises:
        ForgeError: It is no zip archive, or has no plan.json, several of them, or one that is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            plans = [entry for entry in opened.infolist() if entry.filename == NAME]
            if len(plans) != 1:
                files = counted(len(plans), "file") if plans else "no files"
                raise ForgeError(f"the artifact has {files} named {NAME} instead of one")
            (entry,) = plans
            if entry.file_size > LARGEST_PLAN:
                raise too_large(NAME, entry.file_size, LARGEST_PLAN)
            if entry.compress_type not in _METHODS:
                raise ForgeError(f"the artifact's {NAME} uses an unsupported compression method")
            with opened.open(entry) as plan:
                # A size bounds what is unpacked, where the declared one is a lie; without, zipfile does all.
                return plan.read(entry.file_size + 1).decode("utf-8")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ForgeError(f"the artifact cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ForgeError(f"the artifact's {NAME} is not UTF-8") from error


def too_large(what: str, size: int, limit: int) -> ForgeError:
    """What to say of something that is not read because of its size, in bytes."""
    return ForgeError(f"{what} has {size:,} bytes, more than the limit of {limit:,}")


_PULLS_PERMISSION = "contents: read, pull-requests: read"
_LOOKS = 4
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Merged:
    """A pull request that was merged.

    Attributes:
        number: Of the pull request.
        head: Its last commit before the merge, in full: what was reviewed.
        at: When it was merged.
        is_from_fork: Whether its branch is (or was) in another repository.
    """

    number: int
    head: str
    at: datetime
    is_from_fork: bool


def merged_as(hub: GitHub, commit: str, branch: str | None) -> Merged:
    """The pull request whose merge made this commit: by a merge, a squash or a rebase.

    GitHub may know it only some seconds after the push, so it is asked more than once.

    Args:
        hub: The repository.
        commit: In full.
        branch: What it was merged into; None for the default branch.

    Raises:
        ForgeError: There is none, or GitHub does not say.
    """
    purpose = RequestPurpose(f"find the pull request for {commit[:12]}", _PULLS_PERMISSION)
    into = branch or hub.ask(purpose, lambda: hub.repository.default_branch)
    for look in range(_LOOKS):
        if look:
            hub.wait(Trouble(f"no pull request for {commit[:12]} is known yet", _PAUSE_S))
        if found := hub.ask(purpose, lambda: _find(hub, commit, into)):
            return found
    raise ForgeError(
        f"no pull request was merged into {into} as commit {commit[:12]}: no plan of it was reviewed",
        hint="if it was pushed directly, apply what `kafkaform plan` shows by hand, "
        "or revert it and open a pull request",
    )


def _find(hub: GitHub, commit: str, into: str) -> Merged | None:
    repository = hub.repository
    for pull in repository.get_commit(commit).get_pulls():
        if pull.merged_at and pull.merge_commit_sha == commit and pull.base.ref == into:
            source = pull.head.repo
            is_from_fork = source is None or source.id != repository.id
            return Merged(pull.number, pull.head.sha, pull.merged_at, is_from_fork)
    return None


EVENT = "pull_request_target"
_CONCLUSIONS = {"success", "failure"}
"""What needs consent fails the check and is a plan all the same; of a cancelled run's nobody was told."""
_PERMISSION = "actions: read"
_TIMEOUT_S = 60
_CHUNK = 1 << 16
_BY_HAND = "run `kafkaform plan` and apply it by hand, or open a new pull request with the change"
_REDIRECTS = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class FetchedPlan:
    """A plan that was reviewed.

    Attributes:
        plan: The text of the saved plan.
        pull_request: Its number.
        head: The pull request's last commit.
        run_url: The page of the run that made the plan.
    """

    plan: str
    pull_request: int
    head: str
    run_url: str


@dataclass(frozen=True, slots=True)
class _Artefact:
    id: int
    size: int
    made: datetime
    is_expired: bool
    run: int | None
    run_repository: int | None


def artefact_name(prefix: str, pull_request: int, head: str) -> str:
    """What the plan workflow calls the plan of a pull request's commit."""
    return f"{prefix}-{pull_request}-{head}"


def reviewed_plan(hub: GitHub, commit: str, prefix: str, workflow: str, branch: str | None) -> FetchedPlan:
    """The plan that was reviewed before a commit was merged.

    Args:
        hub: The repository.
        commit: What the merge made, in full.
        prefix: How the names of the plan's artefacts begin, such as `kafkaform-plan-prod`.
        workflow: The file name of the plan workflow.
        branch: What was merged into; None for the default branch.

    Raises:
        ForgeError: Nothing was reviewed, or it cannot be had any more; each case in words of its own.
    """
    merged = merged_as(hub, commit, branch)
    purpose = RequestPurpose(f"fetch the plan of #{merged.number}", _PERMISSION)
    name = artefact_name(prefix, merged.number, merged.head)
    found = hub.ask(purpose, lambda: _artefacts(hub, name))
    objections: list[str] = []
    for artefact in sorted(found, key=lambda one: (one.made, one.id), reverse=True):
        run_url, objection = _judge(hub, purpose, artefact, merged, workflow)
        if objection is None:
            if artefact.size > LARGEST_ARCHIVE:
                raise too_large(f"the artifact {name}", artefact.size, LARGEST_ARCHIVE)
            archive = hub.ask(purpose, partial(_download, hub, artefact.id))
            return FetchedPlan(read_plan(archive), merged.number, merged.head, run_url)
        objections.append(objection)
    if objections:
        raise ForgeError(f"the plan of #{merged.number} cannot be used: {objections[0]}", hint=_BY_HAND)
    raise _none_made(merged, name, workflow)


def _none_made(merged: Merged, name: str, workflow: str) -> ForgeError:
    if merged.is_from_fork:
        return ForgeError(
            f"#{merged.number} came from a fork, and plans are not made for forks: no plan was reviewed",
            hint=_BY_HAND,
        )
    return ForgeError(
        f"no plan was made for the last commit of #{merged.number}: there is no artifact {name}",
        hint=f"check that {workflow} ran for it and uploads its plan under this name",
    )


def _artefacts(hub: GitHub, name: str) -> list[_Artefact]:
    return [
        _Artefact(
            id=one.id,
            size=one.size_in_bytes,
            made=one.created_at,
            is_expired=one.expired,
            run=one.workflow_run.id if one.workflow_run else None,
            run_repository=one.workflow_run.head_repository_id if one.workflow_run else None,
        )
        for one in hub.repository.get_artifacts(name=name)
        if one.name == name
    ]


def _judge(
    hub: GitHub, purpose: RequestPurpose, artefact: _Artefact, merged: Merged, workflow: str
) -> tuple[str, str | None]:
    """The page of the run that made an artefact, and what speaks against using it."""
    if artefact.is_expired:
        return "", "it has expired and was deleted by GitHub"
    number, here = artefact.run, hub.ask(purpose, lambda: hub.repository.id)
    if number is None or artefact.run_repository != here:
        return "", "the workflow run that made it is not from this repository"

    def read() -> tuple[str, str, str, str, str | None]:
        run = hub.repository.get_workflow_run(number)
        return run.html_url, run.path.partition("@")[0], run.event, run.status, run.conclusion

    url, path, event, status, conclusion = hub.ask(purpose, read)
    expected = f".github/workflows/{workflow}"
    if path != expected or event != EVENT:
        return url, f"it was made by {path} on {event}, not by {expected} on {EVENT}"
    if artefact.made > merged.at:
        return url, "it was made after the merge, so it is not what was reviewed"
    if status != "completed":
        return url, f"the workflow run that makes it has not finished ({url})"
    if conclusion not in _CONCLUSIONS:
        return url, f"the workflow run that made it ended as {conclusion}, before its plan was posted ({url})"
    return url, None


def _download(hub: GitHub, artefact: int) -> bytes:
    requester = hub.repository.requester
    status, headers, answer = requester.requestJson(
        "GET", f"{hub.repository.url}/actions/artifacts/{artefact}/zip"
    )
    if status not in _REDIRECTS:
        raise GithubException(status, {"message": answer[:200]}, headers)
    place = headers.get("location", "")
    if not is_safe(place):
        raise ForgeError("GitHub returned no safe address to download the artifact from")
    # Without the token: the place is signed, and not always GitHub's.
    deadline = time.monotonic() + _TIMEOUT_S
    with requests.get(place, stream=True, timeout=_TIMEOUT_S, allow_redirects=False) as response:
        response.raise_for_status()
        pieces = bytearray()
        for piece in response.iter_content(_CHUNK):
            pieces += piece
            if len(pieces) > LARGEST_ARCHIVE:
                raise too_large("the artifact", len(pieces), LARGEST_ARCHIVE)
            if time.monotonic() > deadline:
                raise requests.Timeout("the download takes too long")
    return bytes(pieces)
