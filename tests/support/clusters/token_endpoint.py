"""A token endpoint on this machine (RFC 6749), and the tokens that it issues."""

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qsl

CLIENT = "ada"
SECRET = "s3cret+/=%: for ada"


def jwt(lifetime_s: float = 60.0, subject: str = CLIENT, **claims: object) -> str:
    """An unsecured JWT, as Kafka's own validator for tests takes it."""
    now = time.time()
    payload = {"sub": subject, "iat": now, "exp": now + lifetime_s, "scope": "kafka", **claims}
    return f"{_encode_part({'alg': 'none'})}.{_encode_part(payload)}."


def _encode_part(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


@dataclass
class TokenEndpoint:
    """The endpoint's answer, and the requests that it got.

    Attributes:
        answer: Makes the status and the body of an answer to a client that has shown its secret.
        headers: What goes with each answer.
        asked: The form of each request, by a client with the right secret.
        refused: How many came with a wrong one.
    """

    port: int
    answer: Callable[[], tuple[int, bytes]]
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    refused: int = 0
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/token"

    def issue(self, make: Callable[[], str]) -> None:
        self.answer = lambda: (200, json.dumps({"access_token": make(), "token_type": "Bearer"}).encode())


@contextmanager
def token_endpoint(tls: ssl.SSLContext | None = None) -> Iterator[TokenEndpoint]:
    """An endpoint that issues tokens to CLIENT, and for any assertion (RFC 7523)."""
    endpoint = TokenEndpoint(0, lambda: (500, b""), scheme="http" if tls is None else "https")
    endpoint.issue(jwt)
    login = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            if self.headers["Authorization"] != login and "assertion" not in form:
                endpoint.refused += 1
                document = {
                    "error": "invalid_client",
                    "error_description": "no such client,\nor another secret",
                }
                status, answer = 401, json.dumps(document).encode()
            else:
                endpoint.asked.append(form)
                status, answer = endpoint.answer()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(answer)),
                **endpoint.headers,
            }.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # a client that has given up
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    endpoint.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
