"""Requests to a schema registry: login, and answers that are no answers."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.schema_registry import RegistryResponse, SchemaRegistry, open_registry
from kafkaform.cluster.services import Services
from kafkaform.core import errors
from kafkaform.core.lock import unguarded
from kafkaform.core.model import ResourceRef
from kafkaform.resources.subject.operations import AlterSubject
from kafkaform.resources.subject.schema import RegisteredSchema

REF = ResourceRef("Subject", "orders-value")
REGISTER = AlterSubject(REF, RegisteredSchema('"string"'), is_new=True)


@contextmanager
def serve(status: int, body: bytes, seen: list[str] | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if seen is not None:
                seen.append(self.headers.get("Authorization", ""))
                if self.command == "CONNECT":
                    seen[-1] = f"{self.path} {self.headers.get('Proxy-Authorization')}"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_CONNECT = answer  # noqa: N815 - the names that are called

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("properties", "header"),
    [
        ({}, ""),
        ({"basic.auth.user.info": "me:s:3"}, f"Basic {base64.b64encode(b'me:s:3').decode()}"),
        ({"bearer.auth.token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_login_is_sent(properties: dict[str, str], header: str) -> None:
    seen: list[str] = []
    with serve(200, b"[]", seen) as url:
        registry = open_registry({"schema.registry.url": url, **properties})
        assert registry.observe({}, none_besides, listed=True).inventory == frozenset()
    assert seen == [header]


@pytest.mark.parametrize(
    ("status", "body", "reading", "writing"),
    [
        (401, b'{"message": "no"}', errors.AuthenticationFailed, errors.AuthenticationFailed),
        (500, b"<html>", errors.Unreachable, errors.OutcomeUnknown),
        (200, b"<html>", errors.MalformedResponse, errors.MalformedResponse),
        (302, b"", errors.Unreachable, errors.OutcomeUnknown),
        (200, b'{"subjects": []}', errors.MalformedResponse, type(None)),
    ],
)
def test_invalid_registry_response_is_error(
    status: int, body: bytes, reading: type[errors.ClusterError], writing: type[errors.ClusterError | None]
) -> None:
    with serve(status, body) as url:
        registry = open_registry({"schema.registry.url": url})
        with pytest.raises(reading):
            registry.observe({}, none_besides, listed=True)
        (outcome,) = registry.execute([REGISTER], unguarded)
        assert type(outcome) is writing


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"schema": 5, "version": 1, "id": 1}', b'"x"'])
def test_malformed_subject_is_invisible(body: bytes) -> None:
    with serve(200, body) as url:
        registry = open_registry({"schema.registry.url": url})
        reading = registry.observe({REF: {}}, none_besides, listed=False)
        assert [*reading.invisible] == [REF]
        (outcome,) = registry.validate([AlterSubject(REF, RegisteredSchema('"string"'))])
        assert isinstance(outcome, errors.MalformedResponse)


@pytest.mark.parametrize(("excluded", "count"), [("", 2), ("example.com,127.0.0.1", 0)])
def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, excluded: str, count: int) -> None:
    seen: list[str] = []
    with serve(502, b"", seen) as url:
        monkeypatch.setenv("https_proxy", url.replace("http://", "me:s%403@"))
        monkeypatch.setenv("no_proxy", excluded)
        registry = open_registry({"schema.registry.url": "https://127.0.0.1:1"})
        with pytest.raises(errors.Unreachable) as error:
            registry.observe({}, none_besides, listed=True)
        assert "s@3" not in error.value.message
        (outcome,) = registry.execute([REGISTER], unguarded)
    assert type(outcome) is errors.Unreachable  # nothing was sent to the registry
    assert seen == [f"127.0.0.1:1 Basic {base64.b64encode(b'me:s@3').decode()}"] * count


def test_unusable_proxy_or_authority_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"schema.registry.url": "https://127.0.0.1:1"}
    missing = {"schema.registry.ssl.ca.location": str(tmp_path / "none.pem")}
    with pytest.raises(errors.UnusableCertificate, match=r"schema registry: .*none\.pem"):
        open_registry({**properties, **missing})
    monkeypatch.setenv("https_proxy", "socks5://proxy:1080")
    with pytest.raises(errors.UsageError, match="https_proxy"):
        open_registry(properties)


def test_unreachable_registry_error_has_no_secret() -> None:
    registry = open_registry(
        {"schema.registry.url": "http://127.0.0.1:1", "basic.auth.user.info": "me:hunter2"}
    )
    with pytest.raises(errors.Unreachable, match=r"http://127\.0\.0\.1:1") as error:
        registry.observe({}, none_besides, listed=True)
    assert "hunter2" not in json.dumps([error.value.message, error.value.hint])
    (outcome,) = registry.execute([REGISTER], unguarded)
    assert type(outcome) is errors.Unreachable  # no connection: surely not carried out


def test_subject_without_configured_registry_is_not_visible() -> None:
    services = Services({"Subject": lambda: open_registry({})})
    reading = services.observe({REF: {}}, none_besides, ["Subject"])
    assert "schema.registry.url" in reading.invisible[REF]
    assert reading.diagnostics == ()
    with pytest.raises(errors.UsageError):
        open_registry({})


def test_unreachable_registry_makes_only_subjects_invisible() -> None:
    services = Services({"Subject": lambda: open_registry({"schema.registry.url": "http://127.0.0.1:1"})})
    reading = services.observe({REF: {}}, none_besides, ["Subject"])
    assert [*reading.invisible] == [REF]
    assert [(note.code, note.severity) for note in reading.diagnostics] == [("KF430", "warning")]
    second = ResourceRef("Topic", "orders")
    assert services.exclude({REF: {}, second: {}}) == {second: {}}


@pytest.mark.parametrize(("next_page", "codes"), [([], []), (["t"], ["KF430"]), (None, ["KF430"])])
def test_next_page_shows_whether_a_list_was_cut(next_page: list[str] | None, codes: list[str]) -> None:
    def respond(_method: str, path: str, _body: object) -> RegistryResponse:
        is_next = path.endswith("?offset=1000")
        return RegistryResponse(200, next_page if is_next else [f"t{number}" for number in range(1000)])

    reading = SchemaRegistry(respond, "registry").observe({}, none_besides, listed=True)
    assert [note.code for note in reading.diagnostics] == codes
