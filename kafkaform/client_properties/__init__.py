"""Client properties: an allow-list under librdkafka's names, secrets by reference, three dialects.

`parse` checks what was written, `resolve` fills the secrets in at use, and `to_librdkafka`,
`to_kafka_python` and `to_java` say it in the words of one client. `from_java_properties` reads the
file that Kafka's own tools take as `--command-config`.
"""

from kafkaform.client_properties.catalogue import SENSITIVE
from kafkaform.client_properties.dialects import to_librdkafka
from kafkaform.client_properties.java import to_java
from kafkaform.client_properties.java_file import JavaProperties, from_java_properties
from kafkaform.client_properties.kafka_python import to_kafka_python
from kafkaform.client_properties.matrix import matrix_markdown
from kafkaform.client_properties.properties import HIDDEN, ClientProperties, parse
from kafkaform.client_properties.resolution import Resolved, read_secret_file, redact, resolve

__all__ = [
    "HIDDEN",
    "SENSITIVE",
    "ClientProperties",
    "JavaProperties",
    "Resolved",
    "from_java_properties",
    "matrix_markdown",
    "parse",
    "read_secret_file",
    "redact",
    "resolve",
    "to_java",
    "to_kafka_python",
    "to_librdkafka",
]
