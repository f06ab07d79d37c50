"""The notes of one merge request of GitLab, on a local port, with pages, limits and failures."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_server import QuietHandler, run_server

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

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any, str]:
        if path == "/user":
            return 200, {"id": BOT}, ""
        if not path.startswith(NOTES):
            return 404, {"message": "404 Project Not Found"}, ""
        if method == "GET":
            page = int(query["page"][0])
            shown = self.notes[(page - 1) * self.page_size : page * self.page_size]
            return 200, shown, str(page + 1) if page * self.page_size < len(self.notes) else ""
        if method == "POST":
            return 201, self.note(body["body"]), ""
        [note] = [note for note in self.notes if note["id"] == int(path.rpartition("/")[2])]
        if method == "DELETE":
            self.notes.remove(note)
            return 204, None, ""
        note["body"] = body["body"]
        return 200, note, ""


@contextmanager
def fake_gitlab() -> Iterator[FakeGitLab]:
    gitlab = FakeGitLab("")

    class Handler(QuietHandler):
        def serve(self) -> None:
            parts = urlsplit(self.path)
            path = re.sub("^/api/v4", "", parts.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            gitlab.requests.append(f"{self.command} {path}")
            status, document, following = 401, {"message": "401 Unauthorized"}, ""
            failing = next((failure for failure in gitlab.failures if failure[0] == self.command), None)
            if self.headers.get("PRIVATE-TOKEN") == TOKEN and (failing is None or failing[2]):
                status, document, following = gitlab.answer(self.command, path, parse_qs(parts.query), body)
            if failing is not None:
                gitlab.failures.remove(failing)
                status, document = failing[1], {"message": "Retry later"}
            text = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("X-Next-Page", following)
            self.send_header("Retry-After", "3")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = serve  # noqa: N815 - the names that http.server calls

    with run_server(Handler) as address:
        gitlab.url = f"{address}/api/v4"
        yield gitlab
