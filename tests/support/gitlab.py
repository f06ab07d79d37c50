"""The notes of one merge request of GitLab, on a local port, with pages, limits and failures."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import Answer, run_json_server

TOKEN = "glpat-16C7e42F292c6912E771"
BOT, SOMEBODY = 41, 7
NOTES = "/projects/kafka%2Ftopics/merge_requests/12/notes"


@dataclass
class FakeGitLab:
    """A fake GitLab: the state that tests put into it, and its requests, are plain attributes."""

    url: str
    page_size: int = 2
    notes: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    failures: list[tuple[str, int, bool]] = field(default_factory=list)
    """Of the next requests by method: the status, and whether the request is carried out all the same."""
    ids: Iterator[int] = field(default_factory=lambda: count(101))

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "GITLAB_TOKEN": TOKEN,
            "CI_API_V4_URL": self.url,
            "CI_PROJECT_ID": "kafka/topics",
            "CI_MERGE_REQUEST_IID": "12",
            **more,
        }

    def note(self, body: str, by: int = BOT) -> dict[str, Any]:
        self.notes.append({"id": next(self.ids), "body": body, "author": {"id": by}})
        return self.notes[-1]

    def bodies(self) -> list[str]:
        return [note["body"] for note in self.notes]

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: Any) -> Answer:
        """Answer, or fail, before or after the request is carried out."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/api/v4")
        self.requests.append(f"{method} {path}")
        failing = next((failure for failure in self.failures if failure[0] == method), None)
        answer = Answer(401, {"message": "401 Unauthorized"})
        if headers.get("PRIVATE-TOKEN") == TOKEN and (failing is None or failing[2]):
            answer = self._carry_out(method, path, parse_qs(parts.query), body)
        if failing is not None:
            self.failures.remove(failing)
            answer = Answer(failing[1], {"message": "Retry later"})
        return Answer(answer.status, answer.body, {**answer.headers, "Retry-After": "3"})

    def _carry_out(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if path == "/user":
            return Answer(200, {"id": BOT})
        if not path.startswith(NOTES):
            return Answer(404, {"message": "404 Project Not Found"})
        if method == "GET":
            page = int(query["page"][0])
            shown = self.notes[(page - 1) * self.page_size : page * self.page_size]
            following = str(page + 1) if page * self.page_size < len(self.notes) else ""
            return Answer(200, shown, {"X-Next-Page": following})
        if method == "POST":
            return Answer(201, self.note(body["body"]))
        [note] = [note for note in self.notes if note["id"] == int(path.rpartition("/")[2])]
        if method == "DELETE":
            self.notes.remove(note)
            return Answer(204)
        note["body"] = body["body"]
        return Answer(200, note)


@contextmanager
def fake_gitlab() -> Iterator[FakeGitLab]:
    gitlab = FakeGitLab("")
    with run_json_server(gitlab.answer) as address:
        gitlab.url = f"{address}/api/v4"
        yield gitlab
