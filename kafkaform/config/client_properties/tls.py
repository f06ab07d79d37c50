"""TLS for kafkaform's own connections: resolved client properties as an SSLContext."""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import UnusableCertificate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def tls_context(resolved: Mapping[str, str]) -> ssl.SSLContext:
    """A context that verifies the broker's certificate and name unless the user wrote otherwise.

    Raises:
        UnusableCertificate: A certificate, key or list cannot be used; names the property and the file.
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
        with _naming("ssl.crl.location", crl):
            context.load_verify_locations(crl)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if ciphers := resolved.get("ssl.cipher.suites"):
        with _naming("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    return context


def https_context(resolved: Mapping[str, str]) -> ssl.SSLContext | None:
    """A context that verifies the token endpoint by `https.ca.*`; None for the system's authorities.

    Raises:
        UnusableCertificate: The authorities cannot be read; names the property and the file.
    """
    if not {"https.ca.location", "https.ca.pem"} & resolved.keys():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_authorities(context, resolved, "https.ca")
    return context


def client_certificate(resolved: Mapping[str, str]) -> str:
    """Return which properties the client's certificate comes from, with its path; empty if it has none."""
    for name in ("ssl.keystore.location", "ssl.certificate.location"):
        if location := resolved.get(name):
            return f"{name} ({location})"
    return "ssl.certificate.pem" if "ssl.certificate.pem" in resolved else ""


def authorities(resolved: Mapping[str, str]) -> str:
    """Return which property names the authorities of brokers, with its path; empty for the system's."""
    if "ssl.ca.pem" not in resolved and resolved.get("ssl.ca.location", "probe") == "probe":
        return ""
    return _place(resolved, "ssl.ca")


def _load_authorities(context: ssl.SSLContext, resolved: Mapping[str, str], prefix: str) -> None:
    location = resolved.get(f"{prefix}.location")
    if pem := resolved.get(f"{prefix}.pem"):
        with _naming(f"{prefix}.pem"):
            context.load_verify_locations(cadata=pem)
    elif location in (None, "probe"):
        context.load_default_certs()
    elif Path(location).is_dir():
        with _naming(f"{prefix}.location", location):
            context.load_verify_locations(capath=location)
    else:
        with _naming(f"{prefix}.location", location):
            context.load_verify_locations(cafile=location)


def _load_own_certificate(context: ssl.SSLContext, resolved: Mapping[str, str]) -> None:
    if store := resolved.get("ssl.keystore.location"):
        certificate, key = _key_store(store, resolved["ssl.keystore.password"])
    elif not client_certificate(resolved):
        return
    else:
        certificate = _content(resolved, "ssl.certificate")
        key = _content(resolved, "ssl.key")
    password = resolved.get("ssl.key.password")
    with ExitStack() as stack:
        try:
            # Without a password of its own, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(
                stack.enter_context(_readable_once(certificate)),
                stack.enter_context(_readable_once(key)),
                password if password is not None else _no_password,
            )
        except (OSError, ValueError, _EncryptedError) as error:
            failure = error
        else:
            return
    raise _explain_failure(resolved, certificate, key, failure)


def _content(resolved: Mapping[str, str], prefix: str) -> bytes:
    """The PEM text of a property `PREFIX.pem`, or of the file `PREFIX.location`."""
    if (pem := resolved.get(f"{prefix}.pem")) is not None:
        return pem.encode()
    location = resolved[f"{prefix}.location"]
    with _naming(f"{prefix}.location", location):
        return Path(location).read_bytes()


def _explain_failure(
    resolved: Mapping[str, str], certificate: bytes, key: bytes, failure: Exception
) -> UnusableCertificate:
    """Find out why OpenSSL does not take a certificate with its key, of which it has no words."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    of_certificate, of_key = (_place(resolved, prefix) for prefix in ("ssl.certificate", "ssl.key"))
    try:
        (issued, *_) = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        return _unusable(of_certificate, "is not a certificate in PEM", "give a certificate in PEM")
    password = resolved.get("ssl.key.password")
    if password is None and isinstance(failure, _EncryptedError):
        return _unusable(of_key, "is encrypted", "set ssl.key.password: ${env:NAME} or ${file:PATH}")
    encrypted = b"ENCRYPTED" in key
    try:
        private = load_pem_private_key(key, password.encode() if password and encrypted else None)
    except (ValueError, TypeError):
        if encrypted:
            return _unusable("ssl.key.password", f"does not open the key of {of_key}", "give its password")
        return _unusable(of_key, "is not a private key in PEM", "give the private key in PEM")
    if private.public_key() != issued.public_key():
        return _unusable(of_key, f"is not the key of {of_certificate}", "give both of one client")
    return _unusable(f"{of_certificate} with {of_key}", f"cannot be used: {_detail(failure)}", _OPENSSL)


def _place(resolved: Mapping[str, str], prefix: str) -> str:
    location = resolved.get(f"{prefix}.location")
    return f"{prefix}.location ({location})" if location is not None else f"{prefix}.pem"


def _key_store(location: str, password: str) -> tuple[bytes, bytes]:
    """The certificates, its own first, and the private key of a PKCS#12 file, as PEM text."""
    # Imported here: it takes 0.05 s, and few clients have such a file.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    with _naming("ssl.keystore.location", location):
        data = Path(location).read_bytes()
    place = f"ssl.keystore.location ({location})"
    try:
        store = pkcs12.load_pkcs12(data, password.encode())
    except ValueError:
        raise _unusable(
            place,
            "cannot be used: it is not a PKCS#12 file, or ssl.keystore.password is not its password",
            "give a PKCS#12 file that openssl can read, and its password",
        ) from None
    if store.cert is None or store.key is None:
        raise _unusable(
            place,
            "holds no certificate with its private key",
            "export both: openssl pkcs12 -export -in client.crt -inkey client.key -out client.p12",
        )
    chain = [item.certificate.public_bytes(Encoding.PEM) for item in (store.cert, *store.additional_certs)]
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(chain), key


class _EncryptedError(Exception):
    """A private key needs a password, and there is none."""


def _no_password() -> str:
    raise _EncryptedError


_OPENSSL = "give PEM text that openssl can read"


@contextmanager
def _naming(name: str, location: str | None = None) -> Iterator[None]:
    """Errors of OpenSSL and the file system as the project's own; their text holds no secret."""
    try:
        yield
    except (OSError, ValueError) as error:
        place = f"{name} ({location})" if location is not None else name
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            hint = "check the path, and who may read the file"
            raise _unusable(place, f"cannot be read: {_detail(error)}", hint) from None
        raise _unusable(place, f"cannot be used: {_detail(error)}", _OPENSSL) from None


def _unusable(place: str, reason: str, hint: str) -> UnusableCertificate:
    return UnusableCertificate(f"client property {place} {reason}", hint=hint)


def _detail(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        # An SSLError that Python raised by itself has a text, and no reason.
        return str(getattr(error, "reason", None) or error).replace("_", " ").lower().rstrip(".")
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error.strerror).lower()
    # What is left are OpenSSL's failures without a reason, under whatever errno was there before.
    return "not PEM text"


@contextmanager
def _readable_once(text: bytes) -> Iterator[str]:
    """A path from which OpenSSL reads the text through a pipe, so that no key ever lies on a disk."""
    read_end, write_end = os.pipe()
    writer = threading.Thread(target=_write_all, args=(write_end, text), daemon=True)
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
