"""A webhook on a local port, which keeps what was posted to it."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any

from tests.support.http_server import Answer, run_json_server

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

    def receive(_method: str, _path: str, headers: Mapping[str, str], document: Any) -> Answer:
        if hook.silent:
            hook.end.wait()
        hook.headers.append(dict(headers))
        hook.received.append(document)
        return Answer(hook.status, headers={"Location": hook.url})

    with run_json_server(receive, tls) as address:
        hook.url = f"{address}/hook/{SECRET}"
        try:
            yield hook
        finally:
            hook.end.set()
