"""What a set of client properties must hold together, whatever the client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kafkaform.core.model import Location

_EITHER = (
    ("ssl.ca.location", "ssl.ca.pem"),
    ("ssl.certificate.location", "ssl.certificate.pem"),
    ("ssl.key.location", "ssl.key.pem"),
    ("https.ca.location", "https.ca.pem"),
    ("ssl.keystore.location", "ssl.certificate.location"),
    ("ssl.keystore.location", "ssl.certificate.pem"),
)
_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")
_AUTHORITIES = ("ssl.ca.location", "ssl.ca.pem", "ssl.crl.location")
_MEANS_TLS = (*_AUTHORITIES, *_CERTIFICATE, *_KEY, "ssl.keystore.location")


def incoherences(
    values: Mapping[str, str | None], locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    """Everything that cannot be meant together; a value of None is set, but not known yet."""
    for first, second in _EITHER:
        if first in values and second in values:
            yield Problem(f"{second} and {first} exclude each other", locate(second), "keep one of the two")
    yield from _pairs(values, locate)
    protocol = values.get("security.protocol", "PLAINTEXT")
    if protocol is None:
        return
    if "SSL" not in protocol:
        yield from _without_effect(values, _MEANS_TLS, protocol, "SSL or SASL_SSL", locate)
    if protocol.startswith("SASL_"):
        yield from _sasl(values, protocol, locate)
    else:
        sasl = tuple(name for name in values if name.startswith("sasl."))
        yield from _without_effect(values, sasl, protocol, "SASL_SSL", locate)


def _pairs(values: Mapping[str, str | None], locate: Callable[[str], Location | None]) -> Iterator[Problem]:
    certificate = next((name for name in _CERTIFICATE if name in values), None)
    key = next((name for name in _KEY if name in values), None)
    if certificate and not key:
        yield Problem(f"{certificate} needs its private key", locate(certificate), "set ssl.key.location too")
    if key and not certificate:
        yield Problem(f"{key} needs its certificate", locate(key), "set ssl.certificate.location too")
    if "ssl.keystore.location" in values and "ssl.keystore.password" not in values:
        yield Problem(
            "ssl.keystore.location needs ssl.keystore.password",
            locate("ssl.keystore.location"),
            "set ssl.keystore.password: ${env:NAME} or ${file:PATH}",
        )


def _without_effect(
    values: Mapping[str, str | None],
    names: tuple[str, ...],
    protocol: str,
    wanted: str,
    locate: Callable[[str], Location | None],
) -> Iterator[Problem]:
    name = next((name for name in names if name in values), None)
    if name is not None:
        said = "is" if "security.protocol" in values else "is by default"
        yield Problem(
            f"{name} has no effect: security.protocol {said} {protocol}",
            locate(name),
            f"set security.protocol to {wanted}",
        )


def _sasl(
    values: Mapping[str, str | None], protocol: str, locate: Callable[[str], Location | None]
) -> Iterator[Problem]:
    at = locate("security.protocol")
    if "sasl.mechanism" not in values:
        hint = "one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI"
        yield Problem(f"security.protocol {protocol} needs sasl.mechanism", at, hint)
        return
    mechanism = values["sasl.mechanism"]
    at = locate("sasl.mechanism")
    if mechanism == "PLAIN" or (mechanism or "").startswith("SCRAM-"):
        for name in ("sasl.username", "sasl.password"):
            if name not in values:
                yield Problem(f"sasl.mechanism {mechanism} needs {name}", at, f"set {name}: ${{env:NAME}}")
    if mechanism == "OAUTHBEARER":
        yield from _oauthbearer(values, at)


def _oauthbearer(values: Mapping[str, str | None], at: Location | None) -> Iterator[Problem]:
    prefix = "sasl.oauthbearer."
    needed = [f"{prefix}method"]
    # Both other ways to a token need their own properties, which librdkafka checks itself.
    other_grant = f"{prefix}grant.type" in values and values[f"{prefix}grant.type"] != "client_credentials"
    metadata = values.get(f"{prefix}metadata.authentication.type", "none") != "none"
    if not other_grant and not metadata:
        needed += [f"{prefix}client.id", f"{prefix}client.secret", f"{prefix}token.endpoint.url"]
    for name in needed:
        if name not in values:
            hint = f"set {name}: oidc" if name.endswith("method") else f"set {name}"
            yield Problem(f"sasl.mechanism OAUTHBEARER needs {name}", at, hint)
