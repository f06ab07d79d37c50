"""Resolved client properties as keyword arguments of kafka-python's clients, an SSLContext among them."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.catalogue import PROPERTIES
from kafkaform.config.client_properties.resolution import renamed
from kafkaform.config.client_properties.treatment import Number, Renamed
from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def tls_context(resolved: Mapping[str, str]) -> ssl.SSLContext:
    """A context that verifies the broker's certificate and name unless the user wrote otherwise.

    Raises:
        KafkaformError: A certificate, key or list cannot be used; names the property.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if resolved.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if resolved.get("enable.ssl.certificate.verification") == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, resolved)
    _load_own_certificate(context, resolved)
    if crl := resolved.get("ssl.crl.location"):
        with _naming("ssl.crl.location"):
            context.load_verify_locations(crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if ciphers := resolved.get("ssl.cipher.suites"):
        with _naming("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    return context


def _load_authorities(context: ssl.SSLContext, resolved: Mapping[str, str]) -> None:
    location = resolved.get("ssl.ca.location")
    if pem := resolved.get("ssl.ca.pem"):
        with _naming("ssl.ca.pem"):
            context.load_verify_locations(cadata=pem)
    elif location in (None, "probe"):
        context.load_default_certs()
    elif Path(location).is_dir():
        with _naming("ssl.ca.location"):
            context.load_verify_locations(capath=location)
    else:
        with _naming("ssl.ca.location"):
            context.load_verify_locations(cafile=location)


def _load_own_certificate(context: ssl.SSLContext, resolved: Mapping[str, str]) -> None:
    certificate = resolved.get("ssl.certificate.location")
    key = resolved.get("ssl.key.location")
    password = resolved.get("ssl.key.password")
    with ExitStack() as stack:
        if pem := resolved.get("ssl.certificate.pem"):
            certificate = stack.enter_context(_readable_once(pem))
        if pem := resolved.get("ssl.key.pem"):
            key = stack.enter_context(_readable_once(pem))
        if certificate is None:
            return
        stack.enter_context(_naming("the client certificate and key (ssl.certificate.*, ssl.key.*)"))
        # Without a password of its own, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password if password is not None else _no_password)


def _no_password() -> str:
    raise KafkaformError(
        "the client's private key is encrypted", hint="set ssl.key.password: ${env:NAME} or ${file:PATH}"
    )


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Errors of OpenSSL and the file system as the project's own; their text holds no secret."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise KafkaformError(
            f"client property {what}: cannot be used: {_detail(error)}",
            hint="give PEM text that openssl can read",
        ) from None


def _detail(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        # An SSLError that Python raised by itself has a text, and no reason.
        return str(getattr(error, "reason", None) or error).replace("_", " ").lower().rstrip(".")
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error.strerror).lower()
    # What is left are OpenSSL's failures without a reason, under whatever errno was there before.
    return "not valid PEM text, or another password"


@contextmanager
def _readable_once(text: str) -> Iterator[str]:
    """A path from which OpenSSL reads the text through a pipe, so that no key ever lies on a disk."""
    read_end, write_end = os.pipe()
    writer = threading.Thread(target=_write_all, args=(write_end, text.encode()), daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{read_end}"
    finally:
        os.close(read_end)
        writer.join()


def _write_all(descriptor: int, data: bytes) -> None:
    # A reader that gives up early, on a broken certificate, reports that itself.
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


_NUMBERS = frozenset(
    p.kafka_python.name
    for p in PROPERTIES.values()
    if isinstance(p.kafka_python, Renamed) and isinstance(p.kind, Number)
)


def to_kafka_python(resolved: Mapping[str, str]) -> dict[str, object]:
    """Keyword arguments for KafkaAdminClient, secrets included: never log them.

    TLS always comes as a ready SSLContext, which is the only way to give PEM text, a directory of
    authorities, or to turn verification off.

    Raises:
        KafkaformError: kafka-python cannot do what a property asks for, or a certificate cannot be read.
    """
    mechanism = resolved.get("sasl.mechanism")
    if mechanism == "OAUTHBEARER":
        raise KafkaformError(
            "client property sasl.mechanism: kafka-python cannot fetch OAuth tokens",
            hint="use a SASL/SCRAM or TLS client certificate account for this cluster",
        )
    result: dict[str, object] = {
        name: int(value) if name in _NUMBERS else value
        for name, value in renamed(resolved, lambda property_: property_.kafka_python).items()
    }
    if mechanism is not None:
        result["sasl_mechanism"] = mechanism
    if servers := resolved.get("bootstrap.servers"):
        result["bootstrap_servers"] = [server.strip() for server in servers.split(",") if server.strip()]
    if options := _socket_options(resolved):
        result["socket_options"] = options
    if "SSL" in resolved.get("security.protocol", ""):
        context = tls_context(resolved)
        result["ssl_context"] = context
        # kafka-python goes by the context; this keeps its own record of it true.
        result["ssl_check_hostname"] = context.check_hostname
    return result


def _socket_options(resolved: Mapping[str, str]) -> list[tuple[int, int, int]]:
    options: list[tuple[int, int, int]] = []
    named = {"socket.keepalive.enable", "socket.nagle.disable"} & resolved.keys()
    if named and resolved.get("socket.nagle.disable", "true") == "true":
        options.append((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    if resolved.get("socket.keepalive.enable") == "true":
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    return options
