"""Resolved client properties as keyword arguments of kafka-python, while the transport still uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.config.client_properties.transport import to_transport
from kafkaform.core.errors import KafkaformError

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_kafka_python(resolved: Mapping[str, str]) -> dict[str, object]:
    """Keyword arguments for KafkaAdminClient, secrets included: never log them.

    Raises:
        KafkaformError: kafka-python cannot do what a property asks for, or a certificate cannot be read.
    """
    settings = to_transport(resolved)
    result: dict[str, object] = {
        "bootstrap_servers": [
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in settings.bootstrap
        ],
        "security_protocol": resolved.get("security.protocol", "PLAINTEXT"),
        "client_id": settings.client_id,
    }
    if settings.socket_options:
        result["socket_options"] = [*settings.socket_options]
    if settings.tls is not None:
        result["ssl_context"] = settings.tls
        result["ssl_check_hostname"] = settings.tls.check_hostname
    if (sasl := settings.sasl) is not None:
        if sasl.mechanism == "OAUTHBEARER":
            raise KafkaformError(
                "client property sasl.mechanism: kafka-python cannot fetch OAuth tokens",
                hint="use a SASL/SCRAM or TLS client certificate account for this cluster",
            )
        result["sasl_mechanism"] = sasl.mechanism
        if sasl.username:
            result |= {"sasl_plain_username": sasl.username, "sasl_plain_password": sasl.password}
        result["sasl_kerberos_service_name"] = sasl.service
    return result
