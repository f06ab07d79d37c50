"""The reviewed plan: the artefact that the plan workflow uploaded for a pull request's last commit.

Its name includes the pull request and the commit, as a run for `pull_request_target` is recorded under a
commit of the base branch. A name proves nothing, so the run that uploaded it is checked too: only workflow
files of the base branch are trusted, which are what that event runs.
"""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from functools import partial
from typing import TYPE_CHECKING

import requests
from github import GithubException

from kafkaform.core.errors import ForgeError
from kafkaform.core.http import is_safe
from kafkaform.core.values import Value
from kafkaform.core.wording import counted
from kafkaform.vcs.forge.failures import RequestPurpose
from kafkaform.vcs.forge.publishing import TransientFailure

if TYPE_CHECKING:
    from datetime import datetime

    from kafkaform.vcs.forge.client import GitHub


NAME = "plan.json"
MAX_ARCHIVE_BYTES = 64 * 1024**2
MAX_PLAN_BYTES = 256 * 1024**2
"""In bytes; the plan of ten thousand new topics has less than a tenth of it."""

_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""The methods that upload-artifact uses; both can be decompressed in bounded chunks."""


def read_plan(archive: bytes) -> str:
    """Read the text of the one plan.json in an archive; other files are ignored.

    Raises:
        ForgeError: It is not a zip archive, or does not have exactly one plan.json of an acceptable size.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            plans = [entry for entry in opened.infolist() if entry.filename == NAME]
            if len(plans) != 1:
                files = counted(len(plans), "file") if plans else "no files"
                raise ForgeError(f"the artifact has {files} named {NAME} instead of one")
            (entry,) = plans
            if entry.file_size > MAX_PLAN_BYTES:
                raise build_size_error(NAME, entry.file_size, MAX_PLAN_BYTES)
            if entry.compress_type not in _METHODS:
                raise ForgeError(f"the artifact's {NAME} uses an unsupported compression method")
            with opened.open(entry) as plan:
                # The declared size may be false, so it limits the read: without a limit, zipfile unpacks all.
                return plan.read(entry.file_size + 1).decode("utf-8")
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ForgeError(f"the artifact cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise ForgeError(f"the artifact's {NAME} is not UTF-8") from error


def build_size_error(name: str, size: int, limit: int) -> ForgeError:
    """Return the error for a file that is not read because of its size in bytes."""
    return ForgeError(f"{name} has {size:,} bytes, more than the limit of {limit:,}")


_PULLS_PERMISSION = "contents: read, pull-requests: read"
_TRIES = 4
_PAUSE_S = 5.0


class MergedPullRequest(Value):
    """A pull request that was merged.

    Attributes:
        number: The number of the pull request.
        head: Its last commit before the merge, which was reviewed; the full id.
        at: The time of the merge.
        is_from_fork: Whether its branch is (or was) in another repository.
    """

    number: int
    head: str
    at: datetime
    is_from_fork: bool


def find_merged_pull_request(github: GitHub, commit: str, branch: str | None) -> MergedPullRequest:
    """Find the pull request whose merge, squash or rebase made this commit.

    GitHub may list it only some seconds after the push, so the request is repeated.

    Args:
        commit: The full id of the commit.
        branch: The branch that it was merged into; None for the default branch.

    Raises:
        ForgeError: There is none, or GitHub does not respond.
    """
    purpose = RequestPurpose(f"find the pull request for {commit[:12]}", _PULLS_PERMISSION)
    base = branch or github.request(purpose, lambda: github.repository.default_branch)
    for attempt in range(_TRIES):
        if attempt:
            github.wait(TransientFailure(f"no pull request is listed for {commit[:12]} yet", _PAUSE_S))
        if merged := github.request(purpose, lambda: _find_pull_request(github, commit, base)):
            return merged
    raise ForgeError(
        f"no pull request was merged into {base} as commit {commit[:12]}: no plan of it was reviewed",
        hint="if it was pushed directly, apply what `kafkaform plan` shows by hand, "
        "or revert it and open a pull request",
    )


def _find_pull_request(github: GitHub, commit: str, base: str) -> MergedPullRequest | None:
    repository = github.repository
    for pull in repository.get_commit(commit).get_pulls():
        # GitHub lists every pull request that contains the commit: only the one that made it is the one
        # reviewed.
        if pull.merged_at and pull.merge_commit_sha == commit and pull.base.ref == base:
            source = pull.head.repo
            is_from_fork = source is None or source.id != repository.id
            return MergedPullRequest(pull.number, pull.head.sha, pull.merged_at, is_from_fork)
    return None


EVENT = "pull_request_target"
_CONCLUSIONS = {"success", "failure"}
"""A check fails if its plan needs consent, which is still a plan; a cancelled run did not post its plan."""
_PERMISSION = "actions: read"
_TIMEOUT_S = 60
_CHUNK = 1 << 16
_BY_HAND = "run `kafkaform plan` and apply it by hand, or open a new pull request with the change"
_REDIRECTS = {301, 302, 303, 307, 308}


class FetchedPlan(Value):
    """A downloaded plan that was reviewed.

    Attributes:
        plan: The text of the saved plan.
        pull_request: The number of the pull request.
        head: The last commit of the pull request.
        run_url: The page of the run that made the plan.
    """

    plan: str
    pull_request: int
    head: str
    run_url: str


class _Artefact(Value):
    id: int
    size: int
    made: datetime
    is_expired: bool
    run: int | None
    run_repository: int | None


def build_artefact_name(prefix: str, pull_request: int, head: str) -> str:
    """Return the name that the plan workflow gives to the plan of a pull request's commit."""
    return f"{prefix}-{pull_request}-{head}"


def fetch_reviewed_plan(
    github: GitHub, commit: str, prefix: str, workflow: str, branch: str | None
) -> FetchedPlan:
    """Download the plan that was reviewed before a commit was merged.

    Args:
        commit: The full id of the commit that the merge made.
        prefix: The prefix of the artefact names, such as `kafkaform-plan-prod`.
        workflow: The file name of the plan workflow.
        branch: The branch that it was merged into; None for the default branch.

    Raises:
        ForgeError: No plan was reviewed, or it is no longer available.
    """
    merged = find_merged_pull_request(github, commit, branch)
    purpose = RequestPurpose(f"fetch the plan of #{merged.number}", _PERMISSION)
    name = build_artefact_name(prefix, merged.number, merged.head)
    artefacts = github.request(purpose, lambda: _list_artefacts(github, name))
    objections: list[str] = []
    # The newest first: a run that was started again makes another plan for the same commit.
    for artefact in sorted(artefacts, key=lambda artefact: (artefact.made, artefact.id), reverse=True):
        run_url, objection = _check_artefact(github, purpose, artefact, merged, workflow)
        if objection is None:
            if artefact.size > MAX_ARCHIVE_BYTES:
                raise build_size_error(f"the artifact {name}", artefact.size, MAX_ARCHIVE_BYTES)
            archive = github.request(purpose, partial(_download, github, artefact.id))
            return FetchedPlan(read_plan(archive), merged.number, merged.head, run_url)
        objections.append(objection)
    if objections:
        raise ForgeError(f"the plan of #{merged.number} cannot be used: {objections[0]}", hint=_BY_HAND)
    raise _explain_missing_plan(merged, name, workflow)


def _explain_missing_plan(merged: MergedPullRequest, name: str, workflow: str) -> ForgeError:
    if merged.is_from_fork:
        return ForgeError(
            f"#{merged.number} came from a fork, and plans are not made for forks: no plan was reviewed",
            hint=_BY_HAND,
        )
    return ForgeError(
        f"no plan was made for the last commit of #{merged.number}: there is no artifact {name}",
        hint=f"check that {workflow} ran for it and uploads its plan under this name",
    )


def _list_artefacts(github: GitHub, name: str) -> list[_Artefact]:
    return [
        _Artefact(
            id=artefact.id,
            size=artefact.size_in_bytes,
            made=artefact.created_at,
            is_expired=artefact.expired,
            run=artefact.workflow_run.id if artefact.workflow_run else None,
            run_repository=artefact.workflow_run.head_repository_id if artefact.workflow_run else None,
        )
        for artefact in github.repository.get_artifacts(name=name)
        if artefact.name == name
    ]


def _check_artefact(
    github: GitHub, purpose: RequestPurpose, artefact: _Artefact, merged: MergedPullRequest, workflow: str
) -> tuple[str, str | None]:
    """Return the page of the run that made an artefact, and the reason not to use it, if any."""
    if artefact.is_expired:
        return "", "it has expired and was deleted by GitHub"
    number, here = artefact.run, github.request(purpose, lambda: github.repository.id)
    if number is None or artefact.run_repository != here:
        return "", "the workflow run that made it is not from this repository"

    def read() -> tuple[str, str, str, str, str | None]:
        run = github.repository.get_workflow_run(number)
        return run.html_url, run.path.partition("@")[0], run.event, run.status, run.conclusion

    url, path, event, status, conclusion = github.request(purpose, read)
    expected = f".github/workflows/{workflow}"
    # A workflow file of the pull request itself could upload anything under this name.
    if path != expected or event != EVENT:
        return url, f"it was made by {path} on {event}, not by {expected} on {EVENT}"
    # Nobody has reviewed it, even if it is a plan for the same commit.
    if artefact.made > merged.at:
        return url, "it was made after the merge, so it is not what was reviewed"
    if status != "completed":
        return url, f"the workflow run that makes it has not finished ({url})"
    # A run that was cancelled may have uploaded its plan, but nobody saw it in a comment.
    if conclusion not in _CONCLUSIONS:
        return url, f"the workflow run that made it ended as {conclusion}, before its plan was posted ({url})"
    return url, None


def _download(github: GitHub, artefact: int) -> bytes:
    requester = github.repository.requester
    status, headers, answer = requester.requestJson(
        "GET", f"{github.repository.url}/actions/artifacts/{artefact}/zip"
    )
    if status not in _REDIRECTS:
        raise GithubException(status, {"message": answer[:200]}, headers)
    url = headers.get("location", "")
    if not is_safe(url):
        raise ForgeError("GitHub returned no safe address to download the artifact from")
    # Sent without the token: the URL is signed, and its host is not always GitHub's. A further redirect could
    # lead to an address without TLS, so it is not followed.
    deadline = time.monotonic() + _TIMEOUT_S
    with requests.get(url, stream=True, timeout=_TIMEOUT_S, allow_redirects=False) as response:
        response.raise_for_status()
        pieces = bytearray()
        for piece in response.iter_content(_CHUNK):
            pieces += piece
            if len(pieces) > MAX_ARCHIVE_BYTES:
                raise build_size_error("the artifact", len(pieces), MAX_ARCHIVE_BYTES)
            # The timeout of requests restarts with each piece.
            if time.monotonic() > deadline:
                raise requests.Timeout("the download takes too long")
    return bytes(pieces)
