"""Notes on merge requests of GitLab, by its REST API (docs.gitlab.com/api/notes)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kafkaform import __version__
from kafkaform.core.errors import ForgeError, UsageError
from kafkaform.core.http import HttpResponse, is_safe, send_request
from kafkaform.core.printable import clipped
from kafkaform.vcs.forge.markers import Marker, is_same
from kafkaform.vcs.forge.publishing import Publication, RetryBudget, TransientFailure, find_or_create

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TIMEOUT_S = 30.0
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_SECONDS = re.compile(r"\d{1,6}")
_MAX_REASON_LENGTH = 300
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class GitLabProject:
    """A project, the address of GitLab's API, and a token.

    Attributes:
        project: The number, or the path such as kafka/topics.
        api_url: The address of the REST API (v4), without a slash at the end.
        token: A token with the scope `api`; never printed.
    """

    project: str
    api_url: str
    token: str = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], project: str | None) -> GitLabProject:
        """Read the address and the token from the environment of a job.

        Raises:
            ForgeError: There is no token, or it would be sent unencrypted.
            UsageError: The project is missing.
        """
        project = project or environment.get("CI_PROJECT_ID")
        if not project:
            raise UsageError("no project is given", hint="give --project, or set CI_PROJECT_ID")
        token = environment.get("GITLAB_TOKEN", "").strip()
        if not token:
            raise ForgeError(
                "GITLAB_TOKEN is not set",
                hint="create a project access token with the scope api and the role Reporter, and give it to "
                "the job as a masked variable; the CI_JOB_TOKEN of a job cannot write notes",
            )
        # It goes into a header, where a line break would begin another one.
        if not (token.isascii() and token.isprintable()):
            raise ForgeError("GITLAB_TOKEN is not a valid token: it contains invalid characters")
        api_url = (environment.get("CI_API_V4_URL") or "https://gitlab.com/api/v4").rstrip("/")
        if not is_safe(api_url):
            raise ForgeError(
                f"CI_API_V4_URL is {clipped(api_url, 200)}, which is not safe for the token",
                hint="it must start with https://",
            )
        return cls(project, api_url, token)


def publish_note(
    gitlab: GitLabProject, number: int, marker: Marker, text: str, report: Callable[[str], None]
) -> Publication:
    """Create the note with this marker on a merge request, or update it; of duplicates, keep the oldest.

    Notes of other accounts are ignored, even if they have the marker.

    Args:
        number: The number of the merge request in its project (IID).
        marker: The marker of the note.
        report: Called with a message before each wait.

    Raises:
        ForgeError: GitLab rejects a request, or does not respond.
    """
    client = _Client(gitlab, f"comment on !{number}", report)
    notes = f"/projects/{quote(gitlab.project, safe='')}/merge_requests/{number}/notes"
    body = marker.render_body(text)
    account = client.request("GET", "/user")["id"]

    def find() -> Sequence[dict[str, Any]]:
        # Anybody who can comment can copy a marker: edits are limited to notes of our own.
        return [
            note
            for note in client.list_all(notes)
            if note["author"]["id"] == account and marker.marks(note["body"])
        ]

    matching, is_new = find_or_create(find, lambda: client.attempt("POST", notes, {"body": body}))
    # Runs that overlap may each create one. All of them keep the oldest, so that they agree without a lock.
    oldest, *duplicates = sorted(matching, key=lambda note: note["id"])
    is_changed = not is_same(oldest["body"], body)
    if is_changed:
        client.request("PUT", f"{notes}/{oldest['id']}", {"body": body})
    for note in duplicates:
        client.request("DELETE", f"{notes}/{note['id']}", missing_ok=True)
    return Publication(
        "created" if is_new else "updated" if is_changed else "unchanged", f"!{number}#note_{oldest['id']}"
    )


class _Client:
    """The client of one command: `request` is for requests that may be repeated, `attempt` for others."""

    def __init__(self, gitlab: GitLabProject, purpose: str, report: Callable[[str], None]) -> None:
        self._gitlab = gitlab
        self._purpose = purpose
        self._retries = RetryBudget(report, "GitLab", "status.gitlab.com")

    def request(self, method: str, path: str, content: object = None, *, missing_ok: bool = False) -> Any:
        """Return the content of a response, after retries."""
        return self._parse(self._repeat(method, path, content), missing_ok=missing_ok)

    def attempt(self, method: str, path: str, content: object) -> Any:
        """Return the content of a response; None after a transient failure, which was waited for."""
        response = self._send(method, path, content)
        return None if response is None else self._parse(response)

    def list_all(self, path: str) -> list[Any]:
        """Return the items of all pages of a list."""
        items: list[Any] = []
        page = "1"
        while page:
            response = self._repeat("GET", f"{path}?per_page=100&page={quote(page, safe='')}")
            items += self._parse(response)
            page = response.headers.get("x-next-page", "")
        return items

    def _repeat(self, method: str, path: str, content: object = None) -> HttpResponse:
        while (response := self._send(method, path, content)) is None:
            pass
        return response

    def _send(self, method: str, path: str, content: object) -> HttpResponse | None:
        """Send a request once; None after a transient failure, which was waited for."""
        headers = {
            "PRIVATE-TOKEN": self._gitlab.token,
            "Content-Type": "application/json",
            "User-Agent": f"kafkaform/{__version__}",
        }
        body = None if content is None else json.dumps(content).encode()
        try:
            response = send_request(
                method, f"{self._gitlab.api_url}{path}", _TIMEOUT_S, body=body, headers=headers
            )
        except OSError as error:
            self._retries.wait(TransientFailure(str(error)))
            return None
        if response.status not in _TRANSIENT:
            return response
        after = response.headers.get("retry-after", "")
        wait_s = float(after) if _SECONDS.fullmatch(after) else None
        self._retries.wait(TransientFailure(f"status {response.status}", wait_s))
        return None

    def _parse(self, response: HttpResponse, *, missing_ok: bool = False) -> Any:
        try:
            content = json.loads(response.body) if response.body else None
        except (ValueError, RecursionError):
            content = None
        if 200 <= response.status < 300 or (missing_ok and response.status == _NOT_FOUND):
            return content
        message = content.get("message") or content.get("error") if isinstance(content, dict) else None
        reason = f" ({clipped(str(message), _MAX_REASON_LENGTH)})" if message else ""
        raise ForgeError(
            f"cannot {self._purpose}: GitLab returned status {response.status}{reason}",
            hint="check the project and the number, and that GITLAB_TOKEN is valid and has the scope api and "
            "the role Reporter in this project",
        )
