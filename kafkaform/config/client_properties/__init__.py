"""Client properties: an allow-list with librdkafka's names; secrets are references.

`parse` checks the properties as written, `resolve` reads the secrets at use, and `to_librdkafka` and
`to_transport` translate them for one client. `java_file` translates the file that Kafka's own tools take as
`--command-config`.
"""

from kafkaform.config.client_properties.properties import ClientProperties, is_loopback, parse
from kafkaform.config.client_properties.resolution import Resolved, redact, resolve, to_librdkafka
from kafkaform.config.client_properties.table import SENSITIVE
from kafkaform.config.client_properties.transport import to_transport
from kafkaform.core.secrets import HIDDEN, read_secret_file

__all__ = [
    "HIDDEN",
    "SENSITIVE",
    "ClientProperties",
    "Resolved",
    "is_loopback",
    "parse",
    "read_secret_file",
    "redact",
    "resolve",
    "to_librdkafka",
    "to_transport",
]
