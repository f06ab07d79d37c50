"""A token endpoint on this machine (RFC 6749), and the tokens that it issues."""

import base64
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from tests.support.http_server import QuietHandler, run_server

CLIENT = "ada"
SECRET = "s3cret+/=%: for ada"
_REFUSAL = {"error": "invalid_client", "error_description": "no such client,\nor another secret"}


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

    answer: Callable[[], tuple[int, bytes]]
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    refused: int = 0
    url: str = ""

    def issue(self, make: Callable[[], str]) -> None:
        self.answer = lambda: (200, json.dumps({"access_token": make(), "token_type": "Bearer"}).encode())


@contextmanager
def token_endpoint(tls: ssl.SSLContext | None = None) -> Iterator[TokenEndpoint]:
    """An endpoint that issues tokens to CLIENT, and for any assertion (RFC 7523)."""
    endpoint = TokenEndpoint(lambda: (500, b""))
    endpoint.issue(jwt)
    login = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            if self.headers["Authorization"] != login and "assertion" not in form:
                endpoint.refused += 1
                status, answer = 401, json.dumps(_REFUSAL).encode()
            else:
                endpoint.asked.append(form)
                status, answer = endpoint.answer()
            self.send_response(status)
            own = {"Content-Type": "application/json", "Content-Length": str(len(answer))}
            for name, value in {**own, **endpoint.headers}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # a client that has given up
                self.end_headers()
                self.wfile.write(answer)

    with run_server(Handler, tls) as address:
        endpoint.url = f"{address}/token"
        yield endpoint
