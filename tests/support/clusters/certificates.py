"""Certificates for servers of tests."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority: its certificate is `ca.pem` in a folder, beside all that it makes.

    Args:
        folder: Where to write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _build_name("the authority")
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = _sign_certificate(self._name, self._key, self._name, self._key, constraints)
        self._write("ca.pem", self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, password: str | None = None) -> x509.Certificate:
        """Write NAME.pem and NAME.key, by a password where there is one; both are for that host or client."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        certificate = _sign_certificate(_build_name(name), key, self._name, self._key, names)
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        self._write(f"{name}.pem", certificate.public_bytes(Encoding.PEM))
        self._write(f"{name}.key", key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return certificate

    def revoke(self, *certificates: x509.Certificate) -> None:
        """Write crl.pem, a list of these certificates."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - timedelta(hours=1))
            .next_update(now + timedelta(hours=1))
        )
        for certificate in certificates:
            revoked = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
            builder = builder.add_revoked_certificate(revoked.revocation_date(now).build())
        crl = builder.sign(self._key, hashes.SHA256())
        self._write("crl.pem", crl.public_bytes(Encoding.PEM))

    def _write(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)


def _build_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _sign_certificate(
    subject: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(extension, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that only its own file vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _build_name("127.0.0.1")
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = _sign_certificate(name, key, name, key, names)
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context
