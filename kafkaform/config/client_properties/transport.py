"""Resolved client properties as the settings of kafkaform's own connections to brokers."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.resolution import (
    extensions,
    refuse_unsupported,
    token_file,
)
from kafkaform.config.client_properties.tls import authorities, client_certificate, https_context, tls_context
from kafkaform.core.errors import KafkaformError

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
        certificate: The property and path of the client's certificate, for messages; empty if it has none.
        authorities: The property and path of the authorities of brokers; empty for those of the system.
        sasl: How to log in; None where nobody does, or only by TLS.
        socket_options: Level, name and value of each.
        address_family: The addresses to use: of IPv4, of IPv6, or any.
    """

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "kafkaform"
    tls: ssl.SSLContext | None = None
    certificate: str = ""
    authorities: str = ""
    sasl: SaslSettings | None = None
    socket_options: tuple[tuple[int, int, int], ...] = ()
    address_family: socket.AddressFamily = socket.AF_UNSPEC


_DEFAULT_PORT = "9092"
_FAMILIES = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_BUFFERS = {
    "socket.send.buffer.bytes": socket.SO_SNDBUF,
    "socket.receive.buffer.bytes": socket.SO_RCVBUF,
}
_OAUTHBEARER = "sasl.oauthbearer."
_AWS_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
"""The name of a broker of MSK; the group is its region."""


def to_transport(resolved: Mapping[str, str]) -> TransportSettings:
    """The settings of kafkaform's own connections, secrets included: never log them.

    Raises:
        UnusableCertificate: A certificate cannot be used, by any client; names the property and the file.
        KafkaformError: These connections cannot do what a property asks for; names the property.
    """
    protocol = resolved.get("security.protocol", "PLAINTEXT")
    tls = tls_context(resolved) if "SSL" in protocol else None
    refuse_unsupported(resolved)
    servers = resolved.get("bootstrap.servers", "").split(",")
    bootstrap = tuple(address(server) for server in servers if server.strip())
    return TransportSettings(
        bootstrap=bootstrap,
        client_id=resolved.get("client.id", "kafkaform"),
        tls=tls,
        certificate=client_certificate(resolved) if tls is not None else "",
        authorities=authorities(resolved) if tls is not None else "",
        sasl=_sasl(resolved, bootstrap) if protocol.startswith("SASL_") else None,
        socket_options=_socket_options(resolved),
        address_family=_FAMILIES[resolved.get("broker.address.family", "any")],
    )


def address(server: str) -> tuple[str, int]:
    """Host and port, as lists of bootstrap servers have them: `host`, `host:9092`, `[::1]:9092`."""
    named = server.strip().rpartition("://")[2]
    host, _, port = named.rpartition(":")
    if not host or not port.isdecimal() or (host.count(":") > 0 and not host.endswith("]")):
        host, port = named, _DEFAULT_PORT
    return host.strip("[]"), int(port)


def _socket_options(resolved: Mapping[str, str]) -> tuple[tuple[int, int, int], ...]:
    options: list[tuple[int, int, int]] = []
    if resolved.get("socket.keepalive.enable") == "true":
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    for name, option in _BUFFERS.items():
        if size := int(resolved.get(name, "0")):
            options.append((socket.SOL_SOCKET, option, size))
    return tuple(options)


def _sasl(resolved: Mapping[str, str], bootstrap: tuple[tuple[str, int], ...]) -> SaslSettings:
    mechanism = resolved["sasl.mechanism"]
    if mechanism == "AWS_MSK_IAM":  # Java's name; brokers of MSK take its tokens by OAUTHBEARER, too
        return SaslSettings("OAUTHBEARER", tokens=MskIamSettings(_region(bootstrap)))
    if mechanism == "OAUTHBEARER":
        return SaslSettings(mechanism, tokens=_tokens(resolved), extensions=extensions(resolved))
    return SaslSettings(
        mechanism,
        username=resolved.get("sasl.username", ""),
        password=resolved.get("sasl.password", ""),
        service=resolved.get("sasl.kerberos.service.name", "kafka"),
    )


def _tokens(resolved: Mapping[str, str]) -> OidcSettings | TokenFileSettings:
    endpoint = resolved[f"{_OAUTHBEARER}token.endpoint.url"]
    if (path := token_file(resolved)) is not None:
        return TokenFileSettings(path)
    return OidcSettings(
        endpoint,
        resolved[f"{_OAUTHBEARER}client.id"],
        resolved[f"{_OAUTHBEARER}client.secret"],
        resolved.get(f"{_OAUTHBEARER}scope"),
        https_context(resolved),
    )


def _region(bootstrap: tuple[tuple[str, int], ...]) -> str:
    """The AWS region, by the name of a broker; where that is one's own, by the variables of AWS."""
    for host, _ in bootstrap:
        if named := _AWS_HOST.search(host.lower()):
            return named.group(1)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise KafkaformError(
            "client property sasl.mechanism: AWS_MSK_IAM needs the cluster's region, "
            "and bootstrap.servers does not name it",
            hint="set the environment variable AWS_REGION",
        )
    return region
