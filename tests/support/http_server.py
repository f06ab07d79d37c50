"""A server of HTTP on a local port."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext
from typing import Any

from requests.structures import CaseInsensitiveDict


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that keeps no log."""

    def log_message(self, *_: object) -> None: ...


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that hangs up is what some tests are about."""


@contextmanager
def run_server(handler: type[QuietHandler], tls: SSLContext | None = None) -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True)
class Answer:
    """A status, a body (JSON unless it is bytes) and headers."""

    status: int
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def run_json_server(
    answer: Callable[[str, str, Mapping[str, str], Any], Answer | None], tls: SSLContext | None = None
) -> AbstractContextManager[str]:
    """Answer by method, path, headers and document; None closes the connection."""

    class Handler(QuietHandler):
        def serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            given = answer(self.command, self.path, CaseInsensitiveDict(self.headers.items()), body)
            if given is None:
                self.close_connection = True
                return
            content = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.send_response(given.status)
            for name, value in {**given.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve  # noqa: N815 - the names of http.server

    return run_server(Handler, tls)
