"""A webhook on a local port, which keeps what was posted to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

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
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if hook.silent:
                hook.end.wait()
            hook.headers.append(dict(self.headers.items()))
            hook.received.append(json.loads(body))
            self.send_response(hook.status)
            self.send_header("Location", hook.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    hook = Webhook(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}/hook/{SECRET}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield hook
    finally:
        hook.end.set()
        server.shutdown()
        thread.join()
        server.server_close()
