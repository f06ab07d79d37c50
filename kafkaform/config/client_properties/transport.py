"""Resolved client properties as the settings of kafkaform's own connections to brokers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, repr=False)
class OidcSettings:
    """The OAuth 2.0 client credentials grant (RFC 6749, section 4.4).

    Attributes:
        endpoint: The URL of the token endpoint.
        client_id: The client's name there.
        client_secret: Its secret.
        scope: The scope to ask for; None for the endpoint's default.
        tls: How to verify an https endpoint; None for the system's authorities.
    """

    endpoint: str
    client_id: str
    client_secret: str
    scope: str | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class TokenFileSettings:
    """A file that holds a token (a JWT), which somebody else renews.

    Attributes:
        path: The file; read again before a token in it expires.
    """

    path: Path


@dataclass(frozen=True, slots=True)
class MskIamSettings:
    """Tokens signed with the credentials of AWS (MSK IAM).

    Attributes:
        region: The AWS region of the cluster.
    """

    region: str


@dataclass(frozen=True, slots=True, repr=False)
class SaslSettings:
    """How to log in with SASL.

    Attributes:
        mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.
        username: For PLAIN and SCRAM.
        password: For PLAIN and SCRAM.
        tokens: For OAUTHBEARER: where tokens come from.
        extensions: For OAUTHBEARER: SASL extensions (KIP-342).
        service: For GSSAPI: the service's name.
    """

    mechanism: str
    username: str = ""
    password: str = ""
    tokens: OidcSettings | TokenFileSettings | MskIamSettings | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    service: str = "kafka"


@dataclass(frozen=True, slots=True, repr=False)
class TransportSettings:
    """How kafkaform's own connections reach brokers.

    Attributes:
        bootstrap: Host and port of each bootstrap server.
        client_id: The name that brokers know this client by.
        tls: The TLS context; None for plain text.
        sasl: How to log in; None where nobody does, or only by TLS.
        socket_options: Level, name and value of each.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "kafkaform"
    tls: ssl.SSLContext | None = None
    sasl: SaslSettings | None = None
    socket_options: tuple[tuple[int, int, int], ...] = ()
