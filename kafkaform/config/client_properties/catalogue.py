"""The closed list of client properties, under librdkafka's names, and what becomes of each elsewhere.

The ranges and names are those of librdkafka's CONFIGURATION.md; kafka-python's are the keyword
arguments of its KafkaAdminClient, Java's those of AdminClientConfig.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkaform.config.client_properties.connection_catalogue import CONNECTION
from kafkaform.config.client_properties.security_catalogue import OAUTHBEARER, SECURITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.config.client_properties.treatment import Property

PROPERTIES: Mapping[str, Property] = MappingProxyType(
    {p.name: p for p in (*CONNECTION, *SECURITY, *OAUTHBEARER)}
)
"""Every property that `client:` may hold."""

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "metadata.broker.list": "bootstrap.servers",
        "sasl.mechanisms": "sasl.mechanism",
        "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    }
)
"""librdkafka's second names."""

SENSITIVE: frozenset[str] = frozenset(p.name for p in PROPERTIES.values() if p.sensitive)
"""The properties whose value is never shown."""
