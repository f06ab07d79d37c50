"""TLS for kafkaform's own connections: resolved client properties as an SSLContext."""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

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
    _load_authorities(context, resolved, "ssl.ca")
    _load_own_certificate(context, resolved)
    if crl := resolved.get("ssl.crl.location"):
        with _naming("ssl.crl.location"):
            context.load_verify_locations(crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if ciphers := resolved.get("ssl.cipher.suites"):
        with _naming("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    return context


def https_context(resolved: Mapping[str, str]) -> ssl.SSLContext | None:
    """A context that verifies the token endpoint by `https.ca.*`; None for the system's authorities.

    Raises:
        KafkaformError: The authorities cannot be read; names the property.
    """
    if not {"https.ca.location", "https.ca.pem"} & resolved.keys():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_authorities(context, resolved, "https.ca")
    return context


def _load_authorities(context: ssl.SSLContext, resolved: Mapping[str, str], prefix: str) -> None:
    location = resolved.get(f"{prefix}.location")
    if pem := resolved.get(f"{prefix}.pem"):
        with _naming(f"{prefix}.pem"):
            context.load_verify_locations(cadata=pem)
    elif location in (None, "probe"):
        context.load_default_certs()
    elif Path(location).is_dir():
        with _naming(f"{prefix}.location"):
            context.load_verify_locations(capath=location)
    else:
        with _naming(f"{prefix}.location"):
            context.load_verify_locations(cafile=location)


def _load_own_certificate(context: ssl.SSLContext, resolved: Mapping[str, str]) -> None:
    certificate = resolved.get("ssl.certificate.location")
    key = resolved.get("ssl.key.location")
    password = resolved.get("ssl.key.password")
    with ExitStack() as stack:
        certificate_pem, key_pem = resolved.get("ssl.certificate.pem"), resolved.get("ssl.key.pem")
        if store := resolved.get("ssl.keystore.location"):
            certificate_pem, key_pem = _key_store(store, resolved["ssl.keystore.password"])
        if certificate_pem:
            certificate = stack.enter_context(_readable_once(certificate_pem))
        if key_pem:
            key = stack.enter_context(_readable_once(key_pem))
        if certificate is None:
            return
        stack.enter_context(_naming("the client certificate and key (ssl.certificate.*, ssl.key.*)"))
        # Without a password of its own, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(certificate, key, password if password is not None else _no_password)


def _key_store(location: str, password: str) -> tuple[str, str]:
    """The certificates, its own first, and the private key of a PKCS#12 file, as PEM text."""
    # Imported here: it takes 0.05 s, and few clients have such a file.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    with _naming("ssl.keystore.location", "a PKCS#12 file"):
        store = pkcs12.load_pkcs12(Path(location).read_bytes(), password.encode())
    if store.cert is None or store.key is None:
        raise KafkaformError(
            f"client property ssl.keystore.location: {location} holds no certificate with its private key",
            hint="export both: openssl pkcs12 -export -in client.crt -inkey client.key -out client.p12",
        )
    chain = [item.certificate.public_bytes(Encoding.PEM) for item in (store.cert, *store.additional_certs)]
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(chain).decode(), key.decode()


def _no_password() -> str:
    raise KafkaformError(
        "the client's private key is encrypted", hint="set ssl.key.password: ${env:NAME} or ${file:PATH}"
    )


@contextmanager
def _naming(what: str, form: str = "PEM text") -> Iterator[None]:
    """Errors of OpenSSL and the file system as the project's own; their text holds no secret."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise KafkaformError(
            f"client property {what}: cannot be used: {_detail(error, form)}",
            hint=f"give {form} that openssl can read",
        ) from None


def _detail(error: OSError | ValueError, form: str) -> str:
    if isinstance(error, ssl.SSLError):
        # An SSLError that Python raised by itself has a text, and no reason.
        return str(getattr(error, "reason", None) or error).replace("_", " ").lower().rstrip(".")
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error.strerror).lower()
    # What is left are OpenSSL's failures without a reason, under whatever errno was there before.
    return f"not {form}, or another password"


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
