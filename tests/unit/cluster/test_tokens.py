"""Tokens for OAUTHBEARER: where they come from, when they are renewed, and what is said without any."""

import base64
import logging
import ssl
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock, Semaphore

import pytest

from kafkaform.cluster.transport import tokens as module
from kafkaform.cluster.transport.tokens import Token, TokenSource, make_librdkafka_options, make_token_source
from kafkaform.config.client_properties.transport import (
    MskIamSettings,
    OidcSettings,
    SaslSettings,
    TokenFileSettings,
)
from kafkaform.core.errors import AuthenticationFailed, KafkaformError
from tests.support.clusters.certificates import self_signed
from tests.support.clusters.token_endpoint import CLIENT, SECRET, TokenEndpoint, jwt, token_endpoint
from tests.support.plans.scenes import read_log_lines


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as running:
        yield running


def source(
    of: OidcSettings | TokenFileSettings | MskIamSettings, extensions: dict[str, str] | None = None
) -> TokenSource:
    made = make_token_source(SaslSettings("OAUTHBEARER", tokens=of, extensions=extensions or {}))
    assert made is not None
    return made


def oidc(endpoint: TokenEndpoint, secret: str = SECRET, scope: str | None = None) -> OidcSettings:
    return OidcSettings(endpoint.url, CLIENT, secret, scope)


def failure(tokens: TokenSource, hint: str = "") -> str:
    with pytest.raises(AuthenticationFailed) as caught:
        tokens.token()
    message = caught.value.message
    assert SECRET not in message
    assert "\n" not in message
    assert caught.value.hint
    assert hint in caught.value.hint
    return message


# The endpoint


def test_oidc_token_is_requested_once_without_proxy(
    endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Plain http stays on this machine, or on a network that the user trusts with the client's secret.
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    tokens = source(oidc(endpoint, scope="kafka read/all"), {"logicalCluster": "lkc-1"})
    token = tokens.token()
    assert endpoint.asked == [{"grant_type": "client_credentials", "scope": "kafka read/all"}]
    assert (token.principal, token.extensions) == (CLIENT, {"logicalCluster": "lkc-1"})
    assert token.expires_at == pytest.approx(time.time() + 60, abs=5)
    assert tokens.token() is token
    assert len(endpoint.asked) == 1
    assert token.value not in repr(token)
    assert make_token_source(SaslSettings("PLAIN", "alice", "x")) is None


def test_endpoint_error_hides_secret(endpoint: TokenEndpoint) -> None:
    assert "client ada: HTTP 401: invalid_client" in failure(source(oidc(endpoint, "hunter2-4711")))
    assert endpoint.refused == 1
    endpoint.answer = lambda: (400, b'{"error": "' + SECRET.encode() + b'"}')
    assert failure(source(oidc(endpoint))).endswith("HTTP 400: <hidden>")
    endpoint.issue(lambda: jwt(-1))
    assert "ada has expired" in failure(source(oidc(endpoint)))


def test_endpoint_redirect_is_not_followed(endpoint: TokenEndpoint) -> None:
    with token_endpoint() as second:
        endpoint.headers["Location"] = second.url
        endpoint.answer = lambda: (302, b"")
        assert failure(source(oidc(endpoint))).endswith("HTTP 302: redirects are not followed")
        assert (second.asked, second.refused) == ([], 0)


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://127.0.0.1/token", "http://a..b/", "http://127.0.0.1:x/", "http://"]
)
def test_unsupported_token_endpoint_is_refused(url: str) -> None:
    assert f"the token endpoint {url} cannot be used: " in failure(source(OidcSettings(url, CLIENT, SECRET)))


NO_TOKEN, NO_JWT = "gave no access token", "not a JWT"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", NO_TOKEN),
        (b'{"access_token": 1}', NO_TOKEN),
        (b"<html>", NO_TOKEN),
        (b"[" * 100_000, NO_TOKEN),
        (b'{"access_token": "opaque"}', NO_JWT),
        (b'{"access_token": "a.MTI.c"}', NO_JWT),
        (b'{"access_token": "a.e30.\\u0001"}', NO_JWT),
        (b'{"access_token": "a.' + base64.b64encode(b"[" * 100_000) + b'.c"}', NO_JWT),
        (b'{"access_token": "a.e30.c"}', "`exp`"),
        (b" " * ((1 << 20) + 1), "larger than 1,048,576 bytes"),
    ],
)
def test_response_without_usable_token_is_an_error(endpoint: TokenEndpoint, body: bytes, reason: str) -> None:
    endpoint.answer = lambda: (200, body)
    assert reason in failure(source(oidc(endpoint)))


def test_busy_endpoint_is_retried(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    issue, answers = endpoint.answer, [(503, b"")]
    endpoint.answer = lambda: answers.pop() if answers else issue()
    assert source(oidc(endpoint)).token().principal == CLIENT
    endpoint.answer = lambda: (503, b"")
    assert failure(source(oidc(endpoint)), "try again later").endswith("HTTP 503")


def test_slow_endpoint_times_out(endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 0.2)
    ended = Event()
    waited: list[bool] = []

    def silent() -> tuple[int, bytes]:
        waited.append(ended.wait(60))
        return 200, b""

    endpoint.answer = silent
    assert failure(source(oidc(endpoint))).endswith("timed out")
    assert not waited, "the source waited for the answer"
    ended.set()


def test_untrusted_endpoint_certificate_is_refused(tmp_path: Path) -> None:
    with token_endpoint(self_signed(tmp_path)) as endpoint:
        assert "certificate verify failed" in failure(source(oidc(endpoint)))
        trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        settings = OidcSettings(endpoint.url, CLIENT, SECRET, None, trusting)
        assert source(settings).token().principal == CLIENT


# A file


class Clock:
    now = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    return clock


def test_token_file_is_reread_before_expiry(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "token"
    path.write_text(jwt(100) + "\n")
    tokens = source(TokenFileSettings(path))
    first = tokens.token()
    path.write_text(jwt(200, "grace"))
    clock.now += 79
    assert tokens.token() is first
    clock.now += 20.5
    assert tokens.token().principal == "grace"


def test_missing_or_invalid_token_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert f"{path} cannot be read" in failure(source(TokenFileSettings(path)))
    path.write_bytes(b"\xff" * 10)
    assert "not a JWT" in failure(source(TokenFileSettings(path)))
    path.write_bytes(b"a" * ((1 << 20) + 1))
    assert "larger than" in failure(source(TokenFileSettings(path)))


# AWS


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials, where nobody is asked for any."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.mark.usefixtures("no_aws")
def test_msk_iam_signs_with_environment_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-real-one")
    token = source(MskIamSettings("eu-west-1")).token()
    signed = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    assert signed.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    assert "X-Amz-Credential=AKIDEXAMPLE%2F" in signed
    assert "not-a-real-one" not in signed
    assert token.expires_at == pytest.approx(time.time() + 900, abs=5)


@pytest.mark.usefixtures("no_aws")
def test_msk_iam_needs_credentials() -> None:
    assert "no AWS credentials" in failure(source(MskIamSettings("eu-west-1")))


def test_missing_msk_iam_package_names_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(KafkaformError, match="aws-msk-iam-sasl-signer-python") as caught:
        source(MskIamSettings("eu-west-1")).token()
    assert caught.value.hint == "install kafkaform[msk-iam]"


# Renewal


def test_unrenewable_token_is_used_until_expiry(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    fetches: list[Token | None] = [Token("first", 1_100.0), None, None, None, Token("last", 1_300.0)]
    asked: list[float] = []

    def fetch() -> Token:
        asked.append(clock.now)
        token = fetches.pop(0)
        if token is None:
            raise AuthenticationFailed("the endpoint is down")
        return token

    tokens = TokenSource(fetch)
    tokens.token()
    with caplog.at_level(logging.WARNING):
        for clock.now in (1_080.0, 1_085.0, 1_090.0, 1_098.9):
            assert tokens.token().value == "first"
    assert asked == [1_000.0, 1_080.0, 1_090.0]
    assert "not renewed" in read_log_lines(caplog, "kafkaform.cluster.transport.tokens")[0]
    clock.now = 1_099.0
    with pytest.raises(AuthenticationFailed, match="the endpoint is down"):
        tokens.token()
    assert tokens.token().value == "last"


def test_waiting_threads_share_token_fetch_and_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    go = Event()
    fetched: list[int] = []

    def fetch() -> Token:
        fetched.append(1)
        go.wait(60)
        raise AuthenticationFailed("the endpoint is down")

    class CountedLock:
        def __init__(self) -> None:
            self._lock, self.asked = Lock(), Semaphore(0)

        def __enter__(self) -> None:
            self.asked.release()
            self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    tokens, lock = TokenSource(fetch), CountedLock()
    monkeypatch.setattr(tokens, "_fetching", lock)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(tokens.token) for _ in range(4)]
        # All four have asked by then: one that asks later fetches again, and may.
        assert all(lock.asked.acquire(timeout=60) for _ in waiting)
        go.set()
        errors = [future.exception() for future in waiting]
    assert fetched == [1]
    assert {str(error) for error in errors} == {"the endpoint is down"}


# What goes to the clients


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"": "x"}, {"a b": "x"}, {"name": "a\x01auth=Bearer b"}]
)
def test_ambiguous_extension_is_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(KafkaformError, match=r"sasl\.oauthbearer\.extensions"):
        source(MskIamSettings("eu-west-1"), extensions)


def test_librdkafka_gets_equal_token(endpoint: TokenEndpoint) -> None:
    tokens = source(oidc(endpoint), {"name": "value"})
    given = make_librdkafka_options(tokens)["oauth_cb"]("")
    token = tokens.token()
    assert given == (token.value, token.expires_at, CLIENT, {"name": "value"})
    assert len(endpoint.asked) == 1
    with pytest.raises(AuthenticationFailed, match="invalid_client"):
        make_librdkafka_options(source(oidc(endpoint, "wrong")))


def test_failed_librdkafka_token_is_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    tokens = [Token("first", clock.now + 100)]

    def fetch() -> Token:
        if not tokens:
            raise AuthenticationFailed("the endpoint is down")
        return tokens.pop()

    current = make_librdkafka_options(TokenSource(fetch))["oauth_cb"]
    clock.now += 200
    with caplog.at_level(logging.WARNING), pytest.raises(AuthenticationFailed):
        current("")
    (line,) = read_log_lines(caplog, "kafkaform.cluster.transport.tokens")
    assert line.endswith("the endpoint is down")
