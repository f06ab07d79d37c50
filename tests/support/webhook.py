"""A webhook on a local port, which keeps what was posted to it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from tests.support.http_server import QuietHandler, run_server

SECRET = "T0000-s3cret-path"


@dataclass
class Webhook:
    """The address, the answer, and the requests so far: headers and documents."""

    url: str
    status: int = 204
    silent: bool = False
    """Whether it keeps its callers waiting."""
    headers: list[dict[str, str]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    end: threading.Event = field(default_factory=threading.Event)


@contextmanager
def webhook(tls: SSLContext | None = None) -> Iterator[Webhook]:
    hook = Webhook("")

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.silent:
                hook.end.wait()
            hook.headers.append(dict(self.headers.items()))
            hook.received.append(json.loads(body))
            self.send_response(hook.status)
            self.send_header("Location", hook.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with run_server(Handler, tls) as address:
        hook.url = f"{address}/hook/{SECRET}"
        try:
            yield hook
        finally:
            hook.end.set()
