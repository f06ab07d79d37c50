"""Logging in with SASL: the messages of each mechanism, and the broker's proof in SCRAM.

The library of a mechanism is imported on use, which keeps a plan over plaintext fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaform.cluster.transport.translation import one_line
from kafkaform.config.client_properties import HIDDEN
from kafkaform.core.errors import AuthenticationFailed, ClusterError, KafkaformError, LoginRefused

if TYPE_CHECKING:
    from kafkaform.cluster.transport.tokens import Token, TokenSource
    from kafkaform.config.client_properties.transport import SaslSettings

Send: TypeAlias = Callable[[bytes], bytes]
"""Sends a message of a mechanism (SaslAuthenticate) and returns the broker's; raises RejectedError."""

_MAX_QUOTED_LENGTH = 300
"""The most characters of a broker's message that an error quotes."""


class RejectedError(Exception):
    """The broker refused a login message (SASL_AUTHENTICATION_FAILED); has the broker's message."""


class _UnprovenError(Exception):
    """The broker did not prove that it knows the password, or speaks another mechanism."""


def log_in(settings: SaslSettings, address: tuple[str, int], tokens: TokenSource | None, send: Send) -> None:
    """Log in to a broker that has accepted the mechanism (SaslHandshake).

    Also renews a login on the same connection before its session ends (KIP-368).

    Args:
        settings: How to log in.
        address: The broker's host and port.
        tokens: The source of OAUTHBEARER tokens.
        send: Sends one message and returns the response.

    Raises:
        LoginRefused: The broker refused the login.
        AuthenticationFailed: SCRAM's broker did not prove itself, or there is no token.
        KafkaformError: The mechanism is not supported or not installed.
    """
    mechanism = settings.mechanism
    token = _get_token(tokens) if mechanism == "OAUTHBEARER" else None
    try:
        if mechanism == "PLAIN":
            # RFC 4616: an empty authorization identity, the name, and the password.
            send(b"\0".join((b"", settings.username.encode(), settings.password.encode())))
        elif mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            _log_in_by_scram(settings, send)
        elif token is not None:
            _log_in_by_token(token, send)
        elif mechanism == "GSSAPI":
            _log_in_by_kerberos(settings.service, address[0], send)
        else:
            raise KafkaformError(f"client property sasl.mechanism: {mechanism} is not supported")
    except RejectedError as error:
        raise LoginRefused(
            f"{_describe_login(settings, address, token)} was refused: {_redact(error, settings, token)}",
            hint=_choose_hint(mechanism),
        ) from None
    except _UnprovenError as error:
        raise AuthenticationFailed(
            f"{_describe_login(settings, address, token)} failed: {_redact(error, settings, token)}",
            hint=_choose_hint(mechanism)
            if mechanism == "GSSAPI"
            else "check that this is the address of your broker, and that nothing intercepts connections",
        ) from None


def make_mechanism_error(
    settings: SaslSettings, address: tuple[str, int], enabled: Sequence[str]
) -> AuthenticationFailed:
    """Return the error for a broker that does not offer a mechanism (UNSUPPORTED_SASL_MECHANISM)."""
    offered = one_line(", ".join(enabled))[:_MAX_QUOTED_LENGTH] or "none"
    return AuthenticationFailed(
        f"{address[0]}:{address[1]}: the broker does not support {settings.mechanism}, only: {offered}",
        hint="set sasl.mechanism in the client properties to one of these",
    )


def _get_token(tokens: TokenSource | None) -> Token:
    if tokens is None:
        raise KafkaformError(
            "client property sasl.mechanism: OAUTHBEARER needs a source of tokens",
            hint="set the properties of a token endpoint, a token file or MSK IAM; see docs/clients.md",
        )
    return tokens.token()


def _log_in_by_scram(settings: SaslSettings, send: Send) -> None:
    from scramp import ScramClient, ScramException

    client = ScramClient([settings.mechanism], "-", "-")
    # Set here because the constructor normalises names and passwords by RFC 4013 ("½" becomes "1/2", and some
    # characters are refused), which Kafka (ScramFormatter) and librdkafka do not.
    client.username.username = settings.username
    client.password.password = settings.password
    try:
        client.set_server_first(send(client.get_client_first().encode()).decode())
        client.set_server_final(send(client.get_client_final().encode()).decode())
    except (ScramException, UnicodeDecodeError) as error:
        raise _UnprovenError(f"the broker did not prove that it has the password: {error}") from error


def _log_in_by_token(token: Token, send: Send) -> None:
    # RFC 7628, section 3.1, with the extensions of KIP-342.
    pairs = {"auth": f"Bearer {token.value}", **token.extensions}
    response = send(
        "\x01".join(("n,,", *(f"{key}={value}" for key, value in pairs.items()), "", "")).encode()
    )
    if not response:
        return
    with suppress(RejectedError, ClusterError):
        send(b"\x01")  # a broker expects this before it refuses; the reason was in the response
    raise RejectedError(response.decode(errors="replace"))  # JSON; RFC 7628, section 3.2.2


def _log_in_by_kerberos(service: str, host: str, send: Send) -> None:
    try:
        import gssapi
    except ImportError as error:
        raise KafkaformError(
            "client property sasl.mechanism: GSSAPI needs the Python package gssapi",
            hint="install kafkaform[gssapi]",
        ) from error
    # RFC 4752: the tokens of the context, then the choice of a security layer, which is none.
    try:
        context: Any = gssapi.SecurityContext(
            name=gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
        )
        response = send(context.step())
        while not context.complete:
            response = send(context.step(response) or b"")
        layers = context.unwrap(response).message
        if len(layers) < 4 or not layers[0] & 1:
            raise _UnprovenError(
                "the broker requires a Kerberos security layer; Kafka encrypts with TLS only"
            )
        # 1: no security layer; the three zero bytes are the size of its buffer (RFC 4752, section 3.1).
        send(context.wrap(b"\x01\0\0\0", False).message)
    except gssapi.exceptions.GSSError as error:
        # The major code is "unspecified" if Kerberos has a reason, which is in the minor code.
        code, is_major = (error.min_code, False) if error.min_code else (error.maj_code, True)
        raise _UnprovenError("; ".join(error.get_all_statuses(code, is_major))) from error


def _describe_login(settings: SaslSettings, address: tuple[str, int], token: Token | None) -> str:
    user = token.principal if token is not None else settings.username
    of = f" of {one_line(user)[:_MAX_QUOTED_LENGTH]}" if user else ""
    return f"{address[0]}:{address[1]}: the {settings.mechanism} login{of}"


def _redact(error: Exception, settings: SaslSettings, token: Token | None) -> str:
    """Return the text of an error in one line, without secrets that a broker may have repeated."""
    # A broker, or what claims to be one, may repeat what it was sent.
    text = one_line(str(error))
    for secret in (settings.password, token.value if token is not None else ""):
        if secret:
            text = text.replace(secret, HIDDEN)
    return text[:_MAX_QUOTED_LENGTH]


def _choose_hint(mechanism: str) -> str:
    if mechanism == "OAUTHBEARER":
        return "check the issuer, the audience and the subject of this token against what the brokers accept"
    if mechanism == "GSSAPI":
        return "check the ticket with `klist`, and sasl.kerberos.service.name in the client properties"
    return f"check sasl.username and sasl.password, and that this user exists on the brokers for {mechanism}"
