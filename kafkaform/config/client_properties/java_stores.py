"""The TLS stores of a Java properties file, as PEM and PKCS#12."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_JKS = "JKS"
_PEM = "PEM"
_PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with one Java property."""

    name: str
    message: str
    hint: str


@dataclass(slots=True)
class Outcome:
    """What a translation found: values under our names, each with the Java name it came from."""

    values: dict[str, tuple[str, str]] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)

    def add(self, name: str, value: str | None, source: str) -> None:
        """Take a value, where there is one."""
        if value is not None:
            self.values[name] = (value, source)

    def refuse(self, name: str, message: str, hint: str) -> None:
        """Take a flaw."""
        self.flaws.append(Flaw(name, message, hint))


def tls(written: Mapping[str, str]) -> Outcome:
    """Translate everything about TLS; without TLS in `security.protocol` Java reads none of it."""
    outcome = Outcome()
    if "SSL" not in written.get("security.protocol", "").upper():
        return outcome
    truststore(written, outcome, "ssl.ca")
    _keystore(written, outcome)
    name = "ssl.endpoint.identification.algorithm"
    if name in written:
        outcome.add(name, written[name].strip() or "none", name)
    protocols = {word.strip() for word in written.get("ssl.enabled.protocols", "").split(",") if word.strip()}
    if protocols and not protocols & {"TLSv1.2", "TLSv1.1", "TLSv1"}:
        outcome.refuse(
            "ssl.enabled.protocols",
            "ssl.enabled.protocols: librdkafka cannot be kept from using TLS 1.2",
            "restrict the protocols on the broker, and leave it out here",
        )
    if written.get("ssl.cipher.suites", "").strip():
        outcome.refuse(
            "ssl.cipher.suites",
            "ssl.cipher.suites: Java and OpenSSL name these differently",
            "set ssl.cipher.suites in kafkaform.yaml, with OpenSSL's names",
        )
    return outcome


def truststore(written: Mapping[str, str], outcome: Outcome, prefix: str, source: str | None = None) -> None:
    """Translate a trust store into `PREFIX.location` or `PREFIX.pem`; `source` is where it was written."""
    location, certificates = "ssl.truststore.location", "ssl.truststore.certificates"
    kind = written.get("ssl.truststore.type", _JKS).strip().upper()
    if certificates in written:
        outcome.add(f"{prefix}.pem", written[certificates], source or certificates)
    if location not in written:
        return
    store = written[location]
    if kind == _PEM:
        outcome.add(f"{prefix}.location", store, source or location)
        return
    line = f"keytool -exportcert -rfc -alias ALIAS -keystore {store} -file ca.pem"
    if kind == _PKCS12:
        line = f"openssl pkcs12 -in {store} -nokeys -out ca.pem"
    outcome.refuse(
        source or location,
        f"{location}: a {kind} trust store can only be read by Java",
        f"convert it: {line}; then set ssl.truststore.type=PEM and {location}=ca.pem",
    )


def _keystore(written: Mapping[str, str], outcome: Outcome) -> None:
    location, chain, key = "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key"
    kind = written.get("ssl.keystore.type", _JKS).strip().upper()
    if chain in written or key in written:
        outcome.add("ssl.certificate.pem", written.get(chain), chain)
        outcome.add("ssl.key.pem", written.get(key), key)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    if location not in written:
        return
    store = written[location]
    if kind == _PEM:
        outcome.add("ssl.certificate.location", store, location)
        outcome.add("ssl.key.location", store, location)
        outcome.add("ssl.key.password", written.get("ssl.key.password"), "ssl.key.password")
    elif kind == _PKCS12:
        outcome.add(location, store, location)
        outcome.add("ssl.keystore.password", written.get("ssl.keystore.password"), "ssl.keystore.password")
    else:
        line = f"keytool -importkeystore -srckeystore {store} -destkeystore client.p12 -deststoretype PKCS12"
        outcome.refuse(
            location,
            f"{location}: a {kind} key store can only be read by Java",
            f"convert it: {line}; then openssl pkcs12 -in client.p12 -out client.pem, set "
            "ssl.keystore.type=PEM, ssl.keystore.location=client.pem and ssl.key.password",
        )
