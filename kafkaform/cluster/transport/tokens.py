"""Tokens for OAUTHBEARER, from an OAuth 2.0 endpoint, a file or AWS; one source for all clients."""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from http.client import HTTPException
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from kafkaform.cluster.transport.translation import one_line
from kafkaform.config.client_properties import HIDDEN
from kafkaform.config.client_properties.transport import MskIamSettings, OidcSettings, TokenFileSettings
from kafkaform.core.errors import AuthenticationFailed, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from urllib.request import OpenerDirector

    from kafkaform.config.client_properties.transport import SaslSettings


T = TypeVar("T")

_log = logging.getLogger(__name__)

_RENEWED_AFTER = 0.8
"""Of a token's lifetime, as in librdkafka and Kafka's Java client (sasl.login.refresh.window.factor)."""
_RETRY_S = 10.0
"""The time between attempts to renew a token that is still valid, as in librdkafka."""
_LEAST_S = 1.0
"""The least lifetime left of a token that is used: a new client of librdkafka fails without a valid one."""
_TIMEOUT_S = 5.0
_ATTEMPTS = 2
"""An unreachable cluster is reported within 10 s, and an unreachable endpoint is no better."""
_PAUSE_S = 0.5
_LARGEST = 1 << 20
"""The bytes of a token and what comes with it; Kafka's Java client takes no more either."""
_LONGEST = 300
"""The characters of an endpoint's own words that an error quotes."""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""The statuses of HTTP after which librdkafka asks again."""
_PRINTABLE = r"[\x20-\x7e\t\r\n]"


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A token, as it is sent to brokers.

    Attributes:
        value: The token; secret.
        expires_at: In seconds since the epoch.
        principal: Whom it names, for messages; empty if nobody.
        extensions: SASL extensions to send with it (KIP-342).
    """

    value: str
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """The current token: got on first use, renewed before it expires. Any thread may ask.

    Args:
        fetch: Gets a new token; raises AuthenticationFailed.
    """

    def __init__(self, fetch: Callable[[], Token]) -> None:
        self._fetch = fetch
        self._token: Token | None = None
        self._renew_at = 0.0
        self._failure: KafkaformError | None = None
        self._fetches = 0
        self._fetching = Lock()

    def token(self) -> Token:
        """Return a token that has not expired.

        Raises:
            AuthenticationFailed: None can be had.
            KafkaformError: A package is missing.
        """
        fetches = self._fetches
        with self._fetching:
            now = time.time()
            if self._token is not None and now < self._renew_at:
                return self._token
            if fetches != self._fetches and self._failure is not None:
                raise self._failure  # it came while this thread waited: another attempt would take as long
            try:
                token = self._fetch()
                if token.expires_at <= time.time():
                    raise AuthenticationFailed(
                        f"the token for {token.principal or 'OAUTHBEARER'} has expired",
                        hint="check what issues the token, and the clock of this machine",
                    )
            except KafkaformError as error:
                self._fetches += 1
                if self._token is not None and time.time() < self._token.expires_at - _LEAST_S:
                    _log.warning("the OAUTHBEARER token was not renewed, and is used as it is: %s", error)
                    self._renew_at = min(now + _RETRY_S, self._token.expires_at - _LEAST_S)
                    return self._token
                self._failure = error
                raise
            self._fetches += 1
            self._failure = None
            self._token = token
            self._renew_at = now + _RENEWED_AFTER * (token.expires_at - now)
            return token


def token_source(settings: SaslSettings) -> TokenSource | None:
    """The source of the tokens that client properties ask for; None where librdkafka gets its own, if any.

    Raises:
        KafkaformError: An extension cannot be sent.
    """
    extensions = settings.extensions
    for name, value in extensions.items():
        # RFC 7628, section 3.1; `auth` is the token itself.
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth" or not re.fullmatch(f"{_PRINTABLE}*", value):
            raise KafkaformError(
                f"client property sasl.oauthbearer.extensions: {one_line(name)} cannot be sent",
                hint="names have ASCII letters only and are not `auth`; values are printable ASCII",
            )
    of = settings.tokens
    match of:
        case None:
            return None
        case OidcSettings():
            opener = _opener(of)
            return TokenSource(lambda: _from_endpoint(of, opener, extensions))
        case TokenFileSettings():
            return TokenSource(lambda: _from_file(of.path, extensions))
        case MskIamSettings():
            return TokenSource(lambda: _from_aws(of.region, extensions))
        case _:
            assert_never(of)


def librdkafka_options(tokens: TokenSource) -> dict[str, Any]:
    """The options that have a librdkafka client take its tokens from a source.

    confluent-kafka calls `oauth_cb` on a thread of librdkafka, also to renew the token, from version 2.13 on;
    before, only while somebody polled the client.

    Raises:
        AuthenticationFailed: There is no token: a client would wait for it for 10 s, and not say why.
    """
    tokens.token()

    def current(_: str) -> tuple[str, float, str, dict[str, str]]:
        try:
            token = tokens.token()
        except KafkaformError as error:  # which confluent-kafka keeps to itself
            _log.warning("librdkafka gets no OAUTHBEARER token: %s", error)
            raise
        return token.value, token.expires_at, token.principal, dict(token.extensions)

    return {"oauth_cb": current}


def _opener(settings: OidcSettings) -> OpenerDirector:
    """Speaks http and https only, and follows no redirect: the secret goes to the endpoint only."""
    from urllib import request

    opener = request.OpenerDirector()
    for handler in (
        # Plain http stays on this machine, or on a network that the user trusts: http_proxy would leave it.
        request.ProxyHandler({} if settings.endpoint.lower().startswith("http:") else None),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(context=settings.tls),
    ):
        opener.add_handler(handler)
    return opener


def _from_endpoint(settings: OidcSettings, opener: OpenerDirector, extensions: Mapping[str, str]) -> Token:
    where = f"the token endpoint {settings.endpoint}"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            status, body = _within(_TIMEOUT_S, lambda: _posted(settings, opener))
        except (OSError, HTTPException, ValueError) as error:  # ValueError: a host that no name can be
            reason = getattr(error, "reason", None) or error
            text = one_line(str(getattr(reason, "strerror", None) or reason)) or "timed out"
            raise AuthenticationFailed(
                f"{where} cannot be used: {text}",
                hint="check sasl.oauthbearer.token.endpoint.url, the network, and https.ca.location for TLS",
            ) from None  # its traceback has the request, with the secret
        if status not in _TRANSIENT or attempt == _ATTEMPTS:
            break
        time.sleep(_PAUSE_S)
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    answer: dict[str, object] = said if isinstance(said, dict) else {}
    if status != 200:
        raise _no_token(settings, where, status, answer)
    value = answer.get("access_token")
    if not isinstance(value, str):
        raise AuthenticationFailed(
            f"{where} gave no access token", hint="check sasl.oauthbearer.token.endpoint.url"
        )
    return _jwt(value, where, extensions)


def _no_token(
    settings: OidcSettings, where: str, status: int, answer: Mapping[str, object]
) -> AuthenticationFailed:
    """The error for a status of HTTP, with the endpoint's words (RFC 6749, section 5.2)."""
    words = [f"HTTP {status}", *(str(answer[key]) for key in ("error", "error_description") if key in answer)]
    if 300 <= status < 400:
        words.append("redirects are not followed")
    text = one_line(": ".join(words).replace(settings.client_secret, HIDDEN))
    return AuthenticationFailed(
        f"{where} gave no token to the client {settings.client_id}: {text[:_LONGEST]}",
        hint="ask who runs this endpoint, or try again later"
        if status in _TRANSIENT
        else "check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope",
    )


def _posted(settings: OidcSettings, opener: OpenerDirector) -> tuple[int, bytes]:
    from urllib.parse import urlencode
    from urllib.request import Request

    form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    # RFC 6749, section 2.3.1, but for the encoding of special characters: librdkafka does not encode them,
    # nor does Kafka's Java client by default (sasl.oauthbearer.header.urlencode).
    login = base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()
    request = Request(  # noqa: S310 - the opener speaks http and https only
        settings.endpoint,
        urlencode(form).encode(),
        {"Accept": "application/json", "Authorization": f"Basic {login}"},
    )
    with opener.open(request, timeout=_TIMEOUT_S) as response:
        status: int = response.status
        body: bytes = response.read(_LARGEST + 1)
    if len(body) > _LARGEST:
        raise OSError(f"the answer is larger than {_LARGEST:,} bytes")
    return status, body


def _within(timeout_s: float, work: Callable[[], T]) -> T:
    """Return what some work returns, or raise TimeoutError: that of a socket starts anew with every byte."""
    result: Future[T] = Future()

    def settle() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            result.set_exception(error)

    Thread(target=settle, daemon=True).start()
    return result.result(timeout_s)


def _from_file(path: Path, extensions: Mapping[str, str]) -> Token:
    where = f"the token file {path}"
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise AuthenticationFailed(
            f"{where} cannot be read: {error.strerror}", hint="check its path and who may read it"
        ) from error
    if len(data) > _LARGEST:
        raise _unusable(where, f"it is larger than {_LARGEST:,} bytes")
    return _jwt(data.decode(errors="replace").strip(), where, extensions)


def _from_aws(region: str, extensions: Mapping[str, str]) -> Token:
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise KafkaformError(
            "MSK IAM needs the Python package aws-msk-iam-sasl-signer-python",
            hint="install kafkaform[msk-iam]",
        ) from error
    try:
        value, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except (BotoCoreError, ClientError, ValueError, AttributeError) as error:
        # Without credentials, the signer stumbles over None (AttributeError).
        text = "there are no AWS credentials" if isinstance(error, AttributeError) else one_line(str(error))
        raise AuthenticationFailed(
            f"no token for MSK IAM: {text}",
            hint="check the AWS credentials of this environment with `aws sts get-caller-identity`",
        ) from error
    return Token(value, expires_ms / 1000, "AWS IAM", extensions)


def _jwt(value: str, where: str, extensions: Mapping[str, str]) -> Token:
    """Read a token in JWS compact serialization; its signature is for the brokers to check."""
    if not re.fullmatch(f"{_PRINTABLE}+", value) or value.count(".") != 2:
        raise _unusable(where, "it is not a JWT")
    payload = value.split(".")[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        expires_at = float(claims["exp"])
    except (ValueError, TypeError):
        raise _unusable(where, "it is not a JWT") from None
    except KeyError:
        raise _unusable(where, "the JWT does not say when it expires (`exp`)") from None
    return Token(value, expires_at, one_line(str(claims.get("sub") or "")), extensions)


def _unusable(where: str, why: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token of {where} cannot be used: {why}", hint="Kafka needs a JWT with the claim `exp`"
    )
