"""The few endpoints of GitHub that kafkaform uses, on a local port, with its limits and failures."""

import io
import re
import threading
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from ssl import SSLContext
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.http_server import Answer, run_json_server

REPOSITORY = "acme/kafka"
REPOSITORY_ID = 4711
FORK_ID = 4712
TOKEN = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
BOT = 41898282
"""The account of a job's own token, github-actions[bot]."""
SOMEBODY = 77
ALL_PERMISSIONS = frozenset({"pull-requests", "issues", "actions", "contents"})
WHEN = "2026-11-01T12:00:00Z"
LATER = "2026-11-01T13:00:00Z"


class Request(NamedTuple):
    """A request that was made."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Any


@dataclass
class Failure:
    """A fault instead of, or after, the effect of a request.

    Attributes:
        status: Of the answer; None to close the connection without one.
        acts: Whether the request is carried out all the same.
    """

    method: str
    path: str
    status: int | None = 500
    message: str = "Server Error"
    headers: Mapping[str, str] = field(default_factory=dict)
    acts: bool = False
    times: int = 1


class FakeGitHub:
    """One repository. What tests put into it, and what was asked of it, are plain attributes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.permissions: set[str] = set(ALL_PERMISSIONS)
        self.page_size = 100
        self.knows_names = True
        """Whether artefacts can be asked for by name: old versions of GitHub Enterprise Server list all."""
        self.longest = 65_536
        """The most UTF-16 units of a body."""
        self.lag = 0
        """How many times a list is still given without what was created last."""
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.issues: list[dict[str, Any]] = []
        self.pulls: dict[str, list[dict[str, Any]]] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.runs: dict[int, dict[str, Any]] = {}
        self.archives: dict[int, bytes] = {}
        self.failures: list[Failure] = []
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        """Called with every request before it is carried out."""
        self.requests: list[Request] = []
        self._ids = count(1001)
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._hidden: dict[int, int] = {}

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_API_URL": self.url,
            "GITHUB_SERVER_URL": "https://github.example",
            "GITHUB_RUN_ID": "99",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            **more,
        }

    def fail(self, method: str, path: str, **how: Any) -> None:
        """Let the next requests whose path matches the pattern fail."""
        self.failures.append(Failure(method, path, **how))

    def writes(self) -> list[tuple[str, str]]:
        return [
            (request.method, request.path)
            for request in self.requests
            if request.method != "GET" and not request.path.endswith("/graphql")
        ]

    def comment(self, number: int, body: str, *, by: int | None = BOT) -> dict[str, Any]:
        made = next(self._ids)
        comment = {
            "id": made,
            "url": f"{self._here}/issues/comments/{made}",
            "html_url": f"https://github.example/{REPOSITORY}/issues/{number}#issuecomment-{made}",
            "body": body,
            "user": _user(by),
        }
        self.comments.setdefault(number, []).append(comment)
        return comment

    def bodies(self, number: int) -> list[str]:
        return [comment["body"] for comment in self.comments.get(number, [])]

    def issue(
        self,
        body: str,
        *,
        title: str = "Drift",
        by: int | None = BOT,
        state: str = "open",
        labels: Sequence[str] = (),
        is_pull: bool = False,
    ) -> dict[str, Any]:
        number = next(self._numbers)
        issue: dict[str, Any] = {
            "id": next(self._ids),
            "number": number,
            "url": f"{self._here}/issues/{number}",
            "html_url": f"https://github.example/{REPOSITORY}/issues/{number}",
            "title": title,
            "body": body,
            "state": state,
            "state_reason": None,
            "labels": [{"name": name} for name in labels],
            "user": _user(by),
        }
        if is_pull:
            issue["pull_request"] = {"url": f"{self._here}/pulls/{number}"}
        self.issues.append(issue)
        return issue

    def pull(
        self,
        commit: str,
        *,
        number: int = 12,
        head: str = "b" * 40,
        merged_at: str | None = LATER,
        base: str = "main",
        source: int | None = REPOSITORY_ID,
        merge_commit: str | None = None,
    ) -> None:
        self.pulls.setdefault(commit, []).append(
            {
                "number": number,
                "url": f"{self._here}/pulls/{number}",
                "merged_at": merged_at,
                "merge_commit_sha": merge_commit or commit,
                "base": {"ref": base, "sha": "0" * 40},
                "head": {"ref": "more", "sha": head, "repo": {"id": source} if source else None},
            }
        )

    def plan(
        self,
        name: str,
        files: Mapping[str, str] | bytes,
        *,
        made_at: str = WHEN,
        is_expired: bool = False,
        run_repository: int = REPOSITORY_ID,
        size: int | None = None,
        **run: Any,
    ) -> int:
        """Let a run of a workflow keep an artefact; returns the artefact's id."""
        archive = files if isinstance(files, bytes) else zip_texts(files)
        made, number = next(self._ids), next(self._ids)
        self.runs[number] = {
            "id": number,
            "url": f"{self._here}/actions/runs/{number}",
            "html_url": f"https://github.example/{REPOSITORY}/actions/runs/{number}",
            "path": ".github/workflows/plan.yml",
            "event": "pull_request_target",
            "status": "completed",
            "conclusion": "success",
            **run,
        }
        self.archives[made] = archive
        self.artifacts.append(
            {
                "id": made,
                "name": name,
                "url": f"{self._here}/actions/artifacts/{made}",
                "archive_download_url": f"{self._here}/actions/artifacts/{made}/zip",
                "size_in_bytes": len(archive) if size is None else size,
                "expired": is_expired,
                "created_at": made_at,
                "workflow_run": {"id": number, "head_repository_id": run_repository, "head_sha": "0" * 40},
            }
        )
        return made

    @property
    def _here(self) -> str:
        return f"{self.url}/repos/{REPOSITORY}"

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: Any) -> Answer | None:
        """Return the answer to a request; None to hang up."""
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.before(method, parts.path)
        with self._lock:
            self.requests.append(Request(method, parts.path, query, body))
            failure = self._failure(method, parts.path)
            if failure and not failure.acts:
                return _build_failure(failure)
            answer = self._route(method, parts.path, query, headers, body)
            return _build_failure(failure) if failure else answer

    def _failure(self, method: str, path: str) -> Failure | None:
        for failure in self.failures:
            if failure.times and failure.method == method and re.search(failure.path, path):
                failure.times -= 1
                return failure
        return None

    def _route(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> Answer:
        if match := re.fullmatch(r"/blob/(\d+)", path):
            return self._blob(int(match[1]), query, headers)
        if headers.get("Authorization") not in {f"token {TOKEN}", f"Bearer {TOKEN}"}:
            return _build_refusal(401, "Bad credentials")
        routes: list[tuple[str, str, str | None, Callable[..., Answer]]] = [
            ("POST", "/graphql", None, self._graphql),
            ("GET", "", None, self._repository),
            ("GET", r"/issues/(\d+)/comments", None, self._list_comments),
            ("POST", r"/issues/(\d+)/comments", "pull-requests|issues", self._create_comment),
            ("PATCH", r"/issues/comments/(\d+)", "pull-requests|issues", self._edit_comment),
            ("DELETE", r"/issues/comments/(\d+)", "pull-requests|issues", self._delete_comment),
            ("GET", "/issues", None, self._list_issues),
            ("GET", r"/issues/(\d+)", None, self._get_issue),
            ("POST", "/issues", "issues", self._create_issue),
            ("PATCH", r"/issues/(\d+)", "issues", self._edit_issue),
            ("GET", r"/commits/([0-9a-f]+)/pulls", "pull-requests", self._list_pulls),
            ("GET", "/actions/artifacts", "actions", self._list_artifacts),
            ("GET", r"/actions/artifacts/(\d+)/zip", "actions", self._download),
            ("GET", r"/actions/runs/(\d+)", "actions", self._get_run),
        ]
        for verb, pattern, permission, handle in routes:
            prefix = "" if pattern == "/graphql" else f"/repos/{REPOSITORY}"
            if verb == method and (match := re.fullmatch(re.escape(prefix) + pattern, path)):
                if permission and not self.permissions & {*permission.split("|")}:
                    return _build_refusal(403, "Resource not accessible by integration")
                if len(str((body or {}).get("body", "")).encode("utf-16-le")) // 2 > self.longest:
                    error = {"field": "body", "message": f"body is too long (maximum is {self.longest})"}
                    return _build_refusal(422, "Validation Failed", errors=[error])
                with suppress(LookupError):
                    return handle(*map(_number, match.groups()), query=query, body=body)
        return _build_refusal(404, "Not Found")

    def _graphql(self, *, query: Mapping[str, str], body: Any) -> Answer:
        del query
        assert re.fullmatch(r"query \{ viewer \{ databaseId \} \}", body["query"])
        return Answer(200, {"data": {"viewer": {"databaseId": BOT}}})

    def _repository(self, **_: Any) -> Answer:
        return Answer(200, {"id": REPOSITORY_ID, "url": self._here, "default_branch": "main"})

    def _list_comments(self, number: int, *, query: Mapping[str, str], **_: Any) -> Answer:
        visible = self._list_visible(self.comments.get(number, []))
        return self._page(visible, f"issues/{number}/comments", query)

    def _create_comment(self, number: int, *, body: Any, **_: Any) -> Answer:
        comment = self.comment(number, body["body"])
        self._hidden[comment["id"]] = self.lag
        return Answer(201, comment)

    def _edit_comment(self, made: int, *, body: Any, **_: Any) -> Answer:
        comment = _find([each for some in self.comments.values() for each in some], "id", made)
        comment["body"] = body["body"]
        return Answer(200, comment)

    def _delete_comment(self, made: int, **_: Any) -> Answer:
        for some in self.comments.values():
            some[:] = [comment for comment in some if comment["id"] != made]
        return Answer(204)

    def _list_issues(self, *, query: Mapping[str, str], **_: Any) -> Answer:
        state = query.get("state", "open")
        newest_first = [issue for issue in reversed(self.issues) if state in ("all", issue["state"])]
        return self._page(self._list_visible(newest_first), "issues", query)

    def _get_issue(self, number: int, **_: Any) -> Answer:
        return Answer(200, _find(self.issues, "number", number))

    def _create_issue(self, *, body: Any, **_: Any) -> Answer:
        issue = self.issue(body["body"], title=body["title"], labels=body.get("labels", ()))
        self._hidden[issue["id"]] = self.lag
        return Answer(201, issue)

    def _edit_issue(self, number: int, *, body: Any, **_: Any) -> Answer:
        issue = _find(self.issues, "number", number)
        issue.update(body)
        return Answer(200, issue)

    def _list_pulls(self, commit: str, *, query: Mapping[str, str], **_: Any) -> Answer:
        return self._page(self.pulls.get(commit, []), f"commits/{commit}/pulls", query)

    def _list_artifacts(self, *, query: Mapping[str, str], **_: Any) -> Answer:
        name = query.get("name") if self.knows_names else None
        found = [artifact for artifact in self.artifacts if name in (None, artifact["name"])]
        page = self._page(found, "actions/artifacts", query)
        return Answer(200, {"total_count": len(found), "artifacts": page.body}, page.headers)

    def _download(self, made: int, **_: Any) -> Answer:
        if any(artifact["id"] == made and artifact["expired"] for artifact in self.artifacts):
            return _build_refusal(410, "Artifact has expired")
        return Answer(302, b"", {"Location": f"{self.url}/blob/{made}?sig=signed"})

    def _blob(self, made: int, query: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        if "Authorization" in headers or query.get("sig") != "signed":
            return Answer(403, b"<Error>InvalidAuthenticationInfo</Error>")
        return Answer(200, self.archives[made])

    def _get_run(self, number: int, **_: Any) -> Answer:
        return Answer(200, self.runs[number])

    def _list_visible(self, items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        seen = [item for item in items if not self._hidden.get(item["id"])]
        self._hidden = {key: max(0, times - 1) for key, times in self._hidden.items()}
        return seen

    def _page(self, items: Sequence[dict[str, Any]], path: str, query: Mapping[str, str]) -> Answer:
        size = min(int(query.get("per_page", 30)), self.page_size)
        page = int(query.get("page", 1))
        last = max(1, -(-len(items) // size))
        links = [
            f'<{self._here}/{path}?{urlencode({**query, "page": second})}>; rel="{name}"'
            for name, second in (("next", page + 1), ("last", last))
            if page < last
        ]
        headers = {"Link": ", ".join(links)} if links else {}
        return Answer(200, items[(page - 1) * size : page * size], headers)


def zip_texts(files: Mapping[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


@contextmanager
def fake_github(*, tls: SSLContext | None = None) -> Iterator[FakeGitHub]:
    hub = FakeGitHub("")
    with run_json_server(hub.answer, tls) as hub.url:
        yield hub


def _build_failure(failure: Failure) -> Answer | None:
    answer = Answer(failure.status or 0, {"message": failure.message}, failure.headers)
    return answer if failure.status else None


def _build_refusal(status: int, message: str, **more: Any) -> Answer:
    return Answer(status, {"message": message, **more})


def _find(items: Iterable[dict[str, Any]], key: str, value: int) -> dict[str, Any]:
    """Return the item; a LookupError is the status 404."""
    return {item[key]: item for item in items}[value]


def _user(account: int | None) -> dict[str, Any] | None:
    if account is None:
        return None
    return {"id": account, "login": "github-actions[bot]" if account == BOT else f"user{account}"}


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() and len(text) < 20 else text
