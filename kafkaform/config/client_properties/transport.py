"""The settings of kafkaform's own connections to brokers, from resolved client properties."""

from __future__ import annotations

import os
import re
import socket
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.resolution import get_token_file, parse_extensions, refuse_unsupported
from kafkaform.config.client_properties.tls import (
    create_https_context,
    create_tls_context,
    describe_authorities,
    describe_client_certificate,
)
from kafkaform.core.errors import KafkaformError
from kafkaform.core.values import HiddenValue, Value, field

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from pathlib import Path


class OidcSettings(HiddenValue):
    """The OAuth 2.0 client credentials grant (RFC 6749, section 4.4).

    Attributes:
        endpoint: The URL of the token endpoint.
        client_id: The client's id at the endpoint.
        scope: The scope to request; None for the endpoint's default.
        tls: The context that verifies an https endpoint; None for the system's authorities.
    """

    endpoint: str
    client_id: str
    client_secret: str
    scope: str | None = None
    tls: ssl.SSLContext | None = None


class TokenFileSettings(Value):
    """A file with a token (a JWT) that another program renews.

    Attributes:
        path: The file; it is read again before its token expires.
    """

    path: Path


class MskIamSettings(Value):
    """Tokens signed with the credentials of AWS (MSK IAM).

    Attributes:
        region: The AWS region of the cluster.
    """

    region: str


class SaslSettings(HiddenValue):
    """The settings of a SASL login.

    Attributes:
        mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI.
        username: For PLAIN and SCRAM.
        password: For PLAIN and SCRAM.
        tokens: For OAUTHBEARER: the source of tokens.
        extensions: For OAUTHBEARER: SASL extensions (KIP-342).
        service: For GSSAPI: the service name of the brokers.
    """

    mechanism: str
    username: str = ""
    password: str = ""
    tokens: OidcSettings | TokenFileSettings | MskIamSettings | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    service: str = "kafka"


class TransportSettings(HiddenValue):
    """The settings of kafkaform's own connections to brokers.

    Attributes:
        bootstrap: Host and port of each bootstrap server.
        client_id: The client id in requests.
        tls: The TLS context; None for plain text.
        certificate: The property and path of the client's certificate, for messages; empty if it has none.
        authorities: The property and path of the authorities of brokers; empty for those of the system.
        sasl: The SASL login; None without one.
        socket_options: The level, name and value of each option.
        address_family: The addresses to use: IPv4, IPv6 or any.
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
_BUFFERS = {"socket.send.buffer.bytes": socket.SO_SNDBUF, "socket.receive.buffer.bytes": socket.SO_RCVBUF}
_OAUTHBEARER = "sasl.oauthbearer."
_AWS_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
"""Matches the host name of an MSK broker; its group is the region."""


def to_transport(resolved: Mapping[str, str]) -> TransportSettings:
    """Build the settings of kafkaform's own connections, with secrets: never log them.

    Raises:
        UnusableCertificate: A certificate cannot be used by any client; names the property and the file.
        KafkaformError: These connections do not support a property; names the property.
    """
    protocol = resolved.get("security.protocol", "PLAINTEXT")
    # Before the check of support: a certificate that cannot be used fails with every client.
    tls = create_tls_context(resolved) if "SSL" in protocol else None
    refuse_unsupported(resolved)
    servers = resolved.get("bootstrap.servers", "").split(",")
    bootstrap = tuple(parse_address(server) for server in servers if server.strip())
    return TransportSettings(
        bootstrap=bootstrap,
        client_id=resolved.get("client.id", "kafkaform"),
        tls=tls,
        certificate=describe_client_certificate(resolved) if tls is not None else "",
        authorities=describe_authorities(resolved) if tls is not None else "",
        sasl=_build_sasl(resolved, bootstrap) if protocol.startswith("SASL_") else None,
        socket_options=_build_socket_options(resolved),
        address_family=_FAMILIES[resolved.get("broker.address.family", "any")],
    )


def parse_address(server: str) -> tuple[str, int]:
    """Parse the host and port of a bootstrap server: `host`, `host:9092`, `[::1]:9092`."""
    host_and_port = server.strip().rpartition("://")[2]
    host, _, port = host_and_port.rpartition(":")
    if not host or not port.isdecimal() or (host.count(":") > 0 and not host.endswith("]")):
        host, port = host_and_port, _DEFAULT_PORT
    return host.strip("[]"), int(port)


def _build_socket_options(resolved: Mapping[str, str]) -> tuple[tuple[int, int, int], ...]:
    options: list[tuple[int, int, int]] = []
    if resolved.get("socket.keepalive.enable") == "true":
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    for name, option in _BUFFERS.items():
        # 0 leaves the size to the operating system, in librdkafka too.
        if size := int(resolved.get(name, "0")):
            options.append((socket.SOL_SOCKET, option, size))
    return tuple(options)


def _build_sasl(resolved: Mapping[str, str], bootstrap: tuple[tuple[str, int], ...]) -> SaslSettings:
    mechanism = resolved["sasl.mechanism"]
    # AWS_MSK_IAM is the mechanism of AWS's Java library. MSK also accepts IAM tokens by OAUTHBEARER.
    if mechanism == "AWS_MSK_IAM":
        return SaslSettings("OAUTHBEARER", tokens=MskIamSettings(_find_region(bootstrap)))
    if mechanism == "OAUTHBEARER":
        return SaslSettings(
            mechanism, tokens=_build_token_settings(resolved), extensions=parse_extensions(resolved)
        )
    return SaslSettings(
        mechanism,
        username=resolved.get("sasl.username", ""),
        password=resolved.get("sasl.password", ""),
        service=resolved.get("sasl.kerberos.service.name", "kafka"),
    )


def _build_token_settings(resolved: Mapping[str, str]) -> OidcSettings | TokenFileSettings:
    endpoint = resolved[f"{_OAUTHBEARER}token.endpoint.url"]
    if (path := get_token_file(resolved)) is not None:
        return TokenFileSettings(path)
    return OidcSettings(
        endpoint,
        resolved[f"{_OAUTHBEARER}client.id"],
        resolved[f"{_OAUTHBEARER}client.secret"],
        resolved.get(f"{_OAUTHBEARER}scope"),
        create_https_context(resolved),
    )


def _find_region(bootstrap: tuple[tuple[str, int], ...]) -> str:
    """Return the AWS region in the host name of a broker, or else in the environment variables of AWS."""
    # A cluster is in one region, so that any of its hosts will do.
    for host, _ in bootstrap:
        if match := _AWS_HOST.search(host.lower()):
            return match.group(1)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        raise KafkaformError(
            "client property sasl.mechanism: AWS_MSK_IAM needs the cluster's region, "
            "which bootstrap.servers does not contain",
            hint="set the environment variable AWS_REGION",
        )
    return region
