"""Resolved client properties as Kafka's Java client wants them, without Spark's `kafka.` prefix.

Certificates and keys are passed as PEM, which Kafka reads since 2.7.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.jaas import LoginModule
from kafkaform.config.client_properties.resolution import extensions, read_secret_file, renamed
from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECURITY = "org.apache.kafka.common.security"
PLAIN_MODULE = f"{_SECURITY}.plain.PlainLoginModule"
SCRAM_MODULE = f"{_SECURITY}.scram.ScramLoginModule"
OAUTH_MODULE = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
OAUTH_HANDLER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler"

_CERTIFICATE = ("ssl.certificate.location", "ssl.certificate.pem")
_KEY = ("ssl.key.location", "ssl.key.pem")


def to_java(resolved: Mapping[str, str]) -> dict[str, str]:
    """Properties for Kafka's Java clients, secrets included: never log them.

    Since Kafka 4.0 a JVM takes OAuth tokens only from the URLs in its system property
    `org.apache.kafka.sasl.oauthbearer.allowed.urls`, those of files too (tried with 3.8.1 to 4.3.1); that is
    for whoever starts the JVM to set.

    Args:
        resolved: Properties under librdkafka's names.

    Raises:
        KafkaformError: Java cannot do what a property asks for, or a file cannot be read.
    """
    result = renamed(resolved, lambda property_: property_.java)
    if resolved.get("enable.ssl.certificate.verification") == "false":
        raise KafkaformError(
            "client property enable.ssl.certificate.verification: Java always verifies certificates",
            hint="give its authority in ssl.ca.location instead",
        )
    if resolved.get("sasl.mechanism") == "AWS_MSK_IAM":
        raise KafkaformError(
            "client property sasl.mechanism: Spark's Kafka client has no AWS_MSK_IAM",
            hint="use a SASL/SCRAM or TLS client certificate account for this command",
        )
    if "SSL" in resolved.get("security.protocol", ""):
        algorithm = resolved.get("ssl.endpoint.identification.algorithm", "https")
        result["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
        result |= {f"ssl.{name}": value for name, value in _trust_store(resolved, "ssl.ca").items()}
        result |= _key_store(resolved)
    if (mechanism := resolved.get("sasl.mechanism")) is not None:
        result["sasl.mechanism"] = mechanism
        result["sasl.jaas.config"] = str(_login_module(mechanism, resolved))
    if mechanism == "OAUTHBEARER":
        result["sasl.login.callback.handler.class"] = OAUTH_HANDLER
    return result


def _trust_store(resolved: Mapping[str, str], prefix: str) -> dict[str, str]:
    location = resolved.get(f"{prefix}.location")
    if pem := resolved.get(f"{prefix}.pem"):
        return {"truststore.type": "PEM", "truststore.certificates": pem}
    if location in (None, "probe"):
        return {}
    if Path(location).is_dir():
        raise KafkaformError(
            f"client property {prefix}.location: Java reads a file of certificates, not a directory",
            hint=f"put them into one: cat {location}/*.pem > ca.pem",
        )
    return {"truststore.type": "PEM", "truststore.location": location}


def _key_store(resolved: Mapping[str, str]) -> dict[str, str]:
    if store := resolved.get("ssl.keystore.location"):
        # A PKCS#12 store has one password for itself and for its keys.
        password = resolved["ssl.keystore.password"]
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store,
            "ssl.keystore.password": password,
            "ssl.key.password": password,
        }
    if not any(name in resolved for name in _CERTIFICATE):
        return {}
    result = {"ssl.keystore.type": "PEM"}
    if key_password := resolved.get("ssl.key.password"):
        result["ssl.key.password"] = key_password
    key = _pem(resolved, _KEY)
    if re.search(r"-----BEGIN (RSA|EC|DSA) PRIVATE KEY-----", key):
        raise KafkaformError(
            f"client property {_present(resolved, _KEY)}: Java reads private keys in PKCS#8 form only",
            hint="convert it: openssl pkcs8 -topk8 -in client.key -out client.pk8.key",
        )
    if "-----BEGIN ENCRYPTED" in key and "ssl.key.password" not in resolved:
        raise KafkaformError(
            f"client property {_present(resolved, _KEY)}: the private key is encrypted",
            hint="set ssl.key.password: ${env:NAME} or ${file:PATH}",
        )
    if (place := resolved.get("ssl.key.location")) and place == resolved.get("ssl.certificate.location"):
        return {**result, "ssl.keystore.location": place}
    chain = _pem(resolved, _CERTIFICATE)
    return {**result, "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _present(resolved: Mapping[str, str], names: tuple[str, str]) -> str:
    return next(name for name in names if name in resolved)


def _pem(resolved: Mapping[str, str], names: tuple[str, str]) -> str:
    location, inline = names
    if inline in resolved:
        return resolved[inline]
    try:
        return read_secret_file(resolved[location])
    except OSError as error:
        raise KafkaformError(
            f"client property {location}: cannot read {resolved[location]}: {error.strerror}",
            hint="give the path of a PEM file",
        ) from None
    except ValueError:
        raise KafkaformError(
            f"client property {location}: {resolved[location]} is not PEM text",
            hint="give the path of a PEM file",
        ) from None


def _login_module(mechanism: str, resolved: Mapping[str, str]) -> LoginModule:
    if mechanism == "OAUTHBEARER":
        return LoginModule(OAUTH_MODULE, _oauth_options(resolved))
    if mechanism == "GSSAPI":
        return LoginModule(KERBEROS_MODULE, _kerberos_options(resolved))
    options = {"username": resolved["sasl.username"], "password": resolved["sasl.password"]}
    return LoginModule(PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE, options)


def _kerberos_options(resolved: Mapping[str, str]) -> dict[str, str]:
    principal = resolved.get("sasl.kerberos.principal")
    named = {"principal": principal} if principal else {}
    if keytab := resolved.get("sasl.kerberos.keytab"):
        return {"useKeyTab": "true", "storeKey": "true", "keyTab": keytab, **named}
    return {"useTicketCache": "true", **named}


def _oauth_options(resolved: Mapping[str, str]) -> dict[str, str]:
    names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    properties = {java: resolved.get(f"sasl.oauthbearer.{name}") for java, name in names.items()}
    options = {java: value for java, value in properties.items() if value is not None}
    options |= {f"extension_{name}": value for name, value in extensions(resolved).items()}
    return options | {f"ssl.{name}": value for name, value in _trust_store(resolved, "https.ca").items()}
