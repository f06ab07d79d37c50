"""Tokens for OAUTHBEARER from an OAuth 2.0 endpoint, a file or AWS, shared by all clients."""

from __future__ import annotations

import base64
import json
import logging
import re
import time
from threading import Lock
from typing import TYPE_CHECKING, Any, assert_never

from kafkaform.cluster.transport.translation import one_line
from kafkaform.config.client_properties import HIDDEN
from kafkaform.config.client_properties.transport import MskIamSettings, OidcSettings, TokenFileSettings
from kafkaform.core.errors import AuthenticationFailed, KafkaformError
from kafkaform.core.files import read_file
from kafkaform.core.http import HttpResponse, send_request
from kafkaform.core.values import HiddenValue, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from kafkaform.config.client_properties.transport import SaslSettings

_log = logging.getLogger(__name__)

_RENEWED_AFTER = 0.8
"""The share of a token's lifetime, as in librdkafka and Java (sasl.login.refresh.window.factor)."""
_RETRY_S = 10.0
"""The time between attempts to renew a valid token, as in librdkafka."""
_MIN_LIFETIME_S = 1.0
"""The least remaining lifetime of a usable token: a new librdkafka client fails without a valid one."""
_TIMEOUT_S = 5.0
_ATTEMPTS = 2
"""Two, so that an unreachable endpoint is reported within 10 s, like an unreachable cluster."""
_PAUSE_S = 0.5
_MAX_RESPONSE_BYTES = 1 << 20
"""The most bytes of a response or file with a token, as in Kafka's Java client."""
_MAX_QUOTED_LENGTH = 300
"""The most characters of an endpoint's message that an error quotes."""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
"""The HTTP statuses after which librdkafka retries."""
_PRINTABLE = r"[\x20-\x7e\t\r\n]"


class Token(HiddenValue):
    """A token for brokers.

    Attributes:
        value: The token; secret.
        expires_at: In seconds since the epoch.
        principal: The name of its subject, for messages; empty if none.
        extensions: SASL extensions to send with it (KIP-342).
    """

    value: str
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class TokenSource:
    """The current token, fetched on first use and renewed before it expires; thread-safe.

    Args:
        fetch: Fetches a new token; raises AuthenticationFailed.
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
            AuthenticationFailed: No token could be fetched.
            KafkaformError: A package is missing.
        """
        fetches = self._fetches
        with self._fetching:
            now = time.time()
            if self._token is not None and now < self._renew_at:
                return self._token
            if fetches != self._fetches and self._failure is not None:
                raise self._failure  # from an attempt during this wait: another would take as long
            try:
                token = self._fetch()
                # An expired token would be refused by every broker, with a worse message.
                if token.expires_at <= time.time():
                    raise AuthenticationFailed(
                        f"the token for {token.principal or 'OAUTHBEARER'} has expired",
                        hint="check what issues the token, and the clock of this machine",
                    )
            except KafkaformError as error:
                self._fetches += 1
                if self._token is not None and time.time() < self._token.expires_at - _MIN_LIFETIME_S:
                    # The old token is valid for now: a failure of the endpoint must not end an apply that has
                    # begun.
                    _log.warning("the OAUTHBEARER token was not renewed, and is used as it is: %s", error)
                    self._renew_at = min(now + _RETRY_S, self._token.expires_at - _MIN_LIFETIME_S)
                    return self._token
                self._failure = error
                raise
            self._fetches += 1
            self._failure = None
            self._token = token
            self._renew_at = now + _RENEWED_AFTER * (token.expires_at - now)
            return token


def make_token_source(settings: SaslSettings) -> TokenSource | None:
    """Return the source of tokens that client properties configure; None if they need none.

    Raises:
        KafkaformError: A SASL extension is invalid.
    """
    extensions = settings.extensions
    for name, value in extensions.items():
        # RFC 7628, section 3.1; `auth` is the token itself.
        if not re.fullmatch("[A-Za-z]+", name) or name == "auth" or not re.fullmatch(f"{_PRINTABLE}*", value):
            raise KafkaformError(
                f"client property sasl.oauthbearer.extensions: {one_line(name)} cannot be sent",
                hint="names have ASCII letters only and are not `auth`; values are printable ASCII",
            )
    source = settings.tokens
    match source:
        case None:
            return None
        case OidcSettings():
            return TokenSource(lambda: _fetch_from_endpoint(source, extensions))
        case TokenFileSettings():
            return TokenSource(lambda: _read_from_file(source.path, extensions))
        case MskIamSettings():
            return TokenSource(lambda: _sign_with_aws(source.region, extensions))
        case _:
            assert_never(source)


def make_librdkafka_options(tokens: TokenSource) -> dict[str, Any]:
    """Return the options by which a librdkafka client takes its tokens from a source.

    Since version 2.13, confluent-kafka calls `oauth_cb` on a librdkafka thread, also to renew the token;
    before, only while the client was polled.

    Raises:
        AuthenticationFailed: There is no token: a client would wait 10 s for it, and give no reason.
    """
    tokens.token()

    def get_token(_: str) -> tuple[str, float, str, dict[str, str]]:
        try:
            token = tokens.token()
        except KafkaformError as error:  # confluent-kafka does not report it
            _log.warning("librdkafka gets no OAUTHBEARER token: %s", error)
            raise
        return token.value, token.expires_at, token.principal, dict(token.extensions)

    return {"oauth_cb": get_token}


def _fetch_from_endpoint(settings: OidcSettings, extensions: Mapping[str, str]) -> Token:
    where = f"the token endpoint {settings.endpoint}"
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            response = _post(settings)
        except OSError as error:
            raise AuthenticationFailed(
                f"{where} cannot be used: {error}",
                hint="check sasl.oauthbearer.token.endpoint.url, the network, and https.ca.location for TLS",
            ) from None
        if response.status not in _TRANSIENT or attempt == _ATTEMPTS:
            break
        time.sleep(_PAUSE_S)
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        document = None
    fields: dict[str, object] = document if isinstance(document, dict) else {}
    if response.status != 200:
        raise _make_refusal(settings, where, response.status, fields)
    value = fields.get("access_token")
    if not isinstance(value, str):
        raise AuthenticationFailed(
            f"{where} gave no access token", hint="check sasl.oauthbearer.token.endpoint.url"
        )
    return _parse_jwt(value, where, extensions)


def _make_refusal(
    settings: OidcSettings, where: str, status: int, fields: Mapping[str, object]
) -> AuthenticationFailed:
    """Return the error for an HTTP status, with the endpoint's message (RFC 6749, section 5.2)."""
    words = [f"HTTP {status}", *(str(fields[key]) for key in ("error", "error_description") if key in fields)]
    if 300 <= status < 400:
        words.append("redirects are not followed")
    # An endpoint may repeat the request, and with it the secret.
    text = one_line(": ".join(words).replace(settings.client_secret, HIDDEN))
    return AuthenticationFailed(
        f"{where} gave no token to the client {settings.client_id}: {text[:_MAX_QUOTED_LENGTH]}",
        hint="ask who runs this endpoint, or try again later"
        if status in _TRANSIENT
        else "check sasl.oauthbearer.client.id, sasl.oauthbearer.client.secret and sasl.oauthbearer.scope",
    )


def _post(settings: OidcSettings) -> HttpResponse:
    from urllib.parse import urlencode

    form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
    # RFC 6749, section 2.3.1, except that special characters are not encoded: librdkafka does not, nor does
    # Kafka's Java client by default (sasl.oauthbearer.header.urlencode).
    login = base64.b64encode(f"{settings.client_id}:{settings.client_secret}".encode()).decode()
    return send_request(
        "POST",
        settings.endpoint,
        _TIMEOUT_S,
        body=urlencode(form).encode(),
        headers={"Accept": "application/json", "Authorization": f"Basic {login}"},
        tls=settings.tls,
        largest=_MAX_RESPONSE_BYTES,
    )


def _read_from_file(path: Path, extensions: Mapping[str, str]) -> Token:
    where = f"the token file {path}"
    try:
        data = read_file(path, _MAX_RESPONSE_BYTES)
    except OSError as error:
        raise AuthenticationFailed(
            f"{where} cannot be read: {error.strerror}", hint="check its path and who may read it"
        ) from error
    return _parse_jwt(data.decode(errors="replace").strip(), where, extensions)


def _sign_with_aws(region: str, extensions: Mapping[str, str]) -> Token:
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
        # Without credentials, the signer raises AttributeError on None.
        text = "there are no AWS credentials" if isinstance(error, AttributeError) else one_line(str(error))
        raise AuthenticationFailed(
            f"no token for MSK IAM: {text}",
            hint="check the AWS credentials of this environment with `aws sts get-caller-identity`",
        ) from error
    return Token(value, expires_ms / 1000, "AWS IAM", extensions)


def _parse_jwt(value: str, where: str, extensions: Mapping[str, str]) -> Token:
    """Parse a token in JWS compact serialization; the brokers check its signature."""
    if not re.fullmatch(f"{_PRINTABLE}+", value) or value.count(".") != 2:
        raise _make_unusable_error(where, "it is not a JWT")
    payload = value.split(".")[1]
    try:
        # JWTs are encoded without padding, which Python's decoder requires.
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        expires_at = float(claims["exp"])
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _make_unusable_error(where, "it is not a JWT") from None
    except KeyError:
        raise _make_unusable_error(where, "the JWT has no expiry time (`exp`)") from None
    return Token(value, expires_at, one_line(str(claims.get("sub") or "")), extensions)


def _make_unusable_error(where: str, why: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token of {where} cannot be used: {why}", hint="Kafka needs a JWT with the claim `exp`"
    )
