"""The TLS contexts of kafkaform's own connections, from resolved client properties."""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import UnusableCertificate
from kafkaform.core.files import UnsuitableFileError, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_FILE_BYTES = 16 * 1024**2
"""In bytes; the authorities of a system have a fiftieth of it."""
_READ_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError, UnsuitableFileError)


def create_tls_context(resolved: Mapping[str, str]) -> ssl.SSLContext:
    """Create a context that verifies the broker's certificate and name, unless the properties disable it.

    Raises:
        UnusableCertificate: A certificate, key or list cannot be used; names the property and the file.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # TLS 1.0 and 1.1 are deprecated (RFC 8996); Python versions differ in their default.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if resolved.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if resolved.get("enable.ssl.certificate.verification") == "false":
        # In this order: Python refuses CERT_NONE while names are checked.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_authorities(context, resolved, "ssl.ca")
    _load_own_certificate(context, resolved)
    if crl := resolved.get("ssl.crl.location"):
        with _translate_errors("ssl.crl.location", crl):
            _load_file(context, crl)
        # The broker's certificate only: checking the chain would need the list of every authority in it.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if ciphers := resolved.get("ssl.cipher.suites"):
        with _translate_errors("ssl.cipher.suites"):
            context.set_ciphers(ciphers)
    return context


def create_https_context(resolved: Mapping[str, str]) -> ssl.SSLContext | None:
    """Create a context that verifies the token endpoint by `https.ca.*`; None for the system's authorities.

    Raises:
        UnusableCertificate: The authorities cannot be read; names the property and the file.
    """
    if not {"https.ca.location", "https.ca.pem"} & resolved.keys():
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_authorities(context, resolved, "https.ca")
    return context


def describe_client_certificate(resolved: Mapping[str, str]) -> str:
    """Return the property and the path of the client's certificate; empty if it has none."""
    for name in ("ssl.keystore.location", "ssl.certificate.location"):
        if location := resolved.get(name):
            return f"{name} ({location})"
    return "ssl.certificate.pem" if "ssl.certificate.pem" in resolved else ""


def describe_authorities(resolved: Mapping[str, str]) -> str:
    """Return the property and the path of the brokers' authorities; empty for those of the system."""
    if "ssl.ca.pem" not in resolved and resolved.get("ssl.ca.location", "probe") == "probe":
        return ""
    return _describe_source(resolved, "ssl.ca")


def _load_authorities(context: ssl.SSLContext, resolved: Mapping[str, str], prefix: str) -> None:
    location = resolved.get(f"{prefix}.location")
    if pem := resolved.get(f"{prefix}.pem"):
        with _translate_errors(f"{prefix}.pem"):
            context.load_verify_locations(cadata=pem)
    # `probe` is librdkafka's word for the authorities of the system.
    elif location in (None, "probe"):
        context.load_default_certs()
    elif Path(location).is_dir():
        with _translate_errors(f"{prefix}.location", location):
            context.load_verify_locations(capath=location)
    else:
        with _translate_errors(f"{prefix}.location", location):
            _load_file(context, location)


def _load_file(context: ssl.SSLContext, location: str) -> None:
    with _open_pipe(read_file(location, _MAX_FILE_BYTES)) as pipe:
        context.load_verify_locations(cafile=pipe)


def _load_own_certificate(context: ssl.SSLContext, resolved: Mapping[str, str]) -> None:
    if store := resolved.get("ssl.keystore.location"):
        # Python's ssl reads PEM only: the store is converted.
        certificate, key = _read_key_store(store, resolved["ssl.keystore.password"])
    elif not describe_client_certificate(resolved):
        return
    else:
        certificate = _read_pem(resolved, "ssl.certificate")
        key = _read_pem(resolved, "ssl.key")
    password = resolved.get("ssl.key.password")
    with ExitStack() as stack:
        try:
            # If no password is passed, OpenSSL prompts for one on the terminal.
            context.load_cert_chain(
                stack.enter_context(_open_pipe(certificate)),
                stack.enter_context(_open_pipe(key)),
                password if password is not None else _refuse_prompt,
            )
        except (OSError, ValueError, _EncryptedError) as error:
            failure = error
        else:
            return
    # Only after a failure: cryptography takes 0.05 s to import.
    raise _explain_failure(resolved, certificate, key, failure)


def _read_pem(resolved: Mapping[str, str], prefix: str) -> bytes:
    """Return the PEM text of the property `PREFIX.pem`, or of the file `PREFIX.location`."""
    if (pem := resolved.get(f"{prefix}.pem")) is not None:
        return pem.encode()
    location = resolved[f"{prefix}.location"]
    with _translate_errors(f"{prefix}.location", location):
        return read_file(location, _MAX_FILE_BYTES)


def _explain_failure(
    resolved: Mapping[str, str], certificate: bytes, key: bytes, failure: Exception
) -> UnusableCertificate:
    """Find the reason why OpenSSL rejects a certificate with its key, which its error does not contain."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificate_source, key_source = (_describe_source(resolved, p) for p in ("ssl.certificate", "ssl.key"))
    try:
        (issued, *_) = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        return _build_error(certificate_source, "is not a certificate in PEM", "give a certificate in PEM")
    password = resolved.get("ssl.key.password")
    if password is None and isinstance(failure, _EncryptedError):
        return _build_error(
            key_source, "is encrypted", "set `ssl.key.password: ${env:NAME}` or `${file:PATH}`"
        )
    encrypted = b"ENCRYPTED" in key
    try:
        # cryptography refuses a password for a key that is not encrypted.
        private = load_pem_private_key(key, password.encode() if password and encrypted else None)
    except (ValueError, TypeError):
        if encrypted:
            return _build_error("ssl.key.password", f"does not decrypt {key_source}", "give its password")
        return _build_error(key_source, "is not a private key in PEM", "give the private key in PEM")
    if private.public_key() != issued.public_key():
        return _build_error(key_source, f"is not the key of {certificate_source}", "give a matching pair")
    subject = f"{certificate_source} with {key_source}"
    return _build_error(subject, f"cannot be used: {_describe_error(failure)}", _OPENSSL)


def _describe_source(resolved: Mapping[str, str], prefix: str) -> str:
    location = resolved.get(f"{prefix}.location")
    return f"{prefix}.location ({location})" if location is not None else f"{prefix}.pem"


def _read_key_store(location: str, password: str) -> tuple[bytes, bytes]:
    """Read the certificates, the client's first, and the private key of a PKCS#12 file, as PEM text."""
    # Imported here: it takes 0.05 s, and few clients have such a file.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    with _translate_errors("ssl.keystore.location", location):
        data = read_file(location, _MAX_FILE_BYTES)
    subject = f"ssl.keystore.location ({location})"
    try:
        store = pkcs12.load_pkcs12(data, password.encode())
    except ValueError:
        raise _build_error(
            subject,
            "cannot be used: it is not a PKCS#12 file, or ssl.keystore.password is not its password",
            "give a PKCS#12 file that openssl can read, and its password",
        ) from None
    if store.cert is None or store.key is None:
        raise _build_error(
            subject,
            "has no certificate with a private key",
            "export both: `openssl pkcs12 -export -in client.crt -inkey client.key -out client.p12`",
        )
    chain = [item.certificate.public_bytes(Encoding.PEM) for item in (store.cert, *store.additional_certs)]
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return b"".join(chain), key


class _EncryptedError(Exception):
    """A private key is encrypted, and no password is set."""


def _refuse_prompt() -> str:
    raise _EncryptedError


_OPENSSL = "give PEM text that openssl can read"


@contextmanager
def _translate_errors(name: str, location: str | None = None) -> Iterator[None]:
    """Translate errors of OpenSSL and the file system; their text contains no secret."""
    try:
        yield
    except (OSError, ValueError) as error:
        subject = f"{name} ({location})" if location is not None else name
        if isinstance(error, _READ_ERRORS):
            hint = "check the path, and who may read the file"
            raise _build_error(subject, f"cannot be read: {_describe_error(error)}", hint) from None
        raise _build_error(subject, f"cannot be used: {_describe_error(error)}", _OPENSSL) from None


def _build_error(subject: str, reason: str, hint: str) -> UnusableCertificate:
    return UnusableCertificate(f"client property {subject} {reason}", hint=hint)


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        # An SSLError that Python itself raises has a text, but no reason.
        return str(getattr(error, "reason", None) or error).replace("_", " ").lower().rstrip(".")
    if isinstance(error, _READ_ERRORS):
        return str(error.strerror).lower()
    # OpenSSL's failures without a reason become an OSError with an unrelated errno.
    return "not PEM text"


@contextmanager
def _open_pipe(text: bytes) -> Iterator[str]:
    """Yield the path of a pipe from which OpenSSL can read the text, so that no key is written to disk."""
    read_end, write_end = os.pipe()
    # A thread: the text may be larger than the pipe's buffer, and OpenSSL reads only in `load_cert_chain`.
    writer = threading.Thread(target=_write_all, args=(write_end, text), daemon=True)
    writer.start()
    try:
        yield f"/dev/fd/{read_end}"
    finally:
        # Before the join: the writer ends by BrokenPipeError if OpenSSL has not read all.
        os.close(read_end)
        writer.join()


def _write_all(descriptor: int, data: bytes) -> None:
    # OpenSSL stops reading at an invalid certificate, which it reports itself.
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
