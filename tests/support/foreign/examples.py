"""A file of each other tool, after its public examples, and what the tool creates for it.

The ACLs were written down by hand from the sources of each tool, one a line: the principal, the permission,
the operation, and the type, pattern, name and host.
"""

from collections.abc import Mapping
from pathlib import Path

from kafkaform.core.acls import Acl, ResourceType

FOLDER = Path(__file__).parent
EXAMPLES = {path.stem: path for path in FOLDER.iterdir() if path.suffix in {".yaml", ".json"}}
NAME = "shop"
"""The start of all names."""

_EMPTY: Mapping[str, str] = {}
TOPICS: Mapping[str, Mapping[str, tuple[int, Mapping[str, str]]]] = {
    "kafka-gitops": {
        "shop.orders": (2, {"cleanup.policy": "compact", "segment.bytes": "2000000"}),
        "shop.payments": (1, _EMPTY),
    },
    "julieops": {
        "shop.acme.sales.orders": (2, {"retention.ms": "7000", "max.message.bytes": "7340116"}),
        "shop.acme.sales.payments.avro": (1, _EMPTY),
        "shop.special": (1, _EMPTY),
    },
    "topicctl": {
        "shop.orders": (
            2,
            {"cleanup.policy": "compact,delete", "max.message.bytes": "5542880", "retention.ms": "17400000"},
        ),
        "shop.payments": (1, _EMPTY),
        "shop.returns": (1, _EMPTY),
    },
    "jikkou": {
        "shop.orders": (2, {"cleanup.policy": "delete", "retention.ms": "3600000"}),
        "shop.payments": (1, _EMPTY),
    },
    "strimzi": {"shop.orders": (2, {"retention.ms": "7200000", "cleanup.policy": "compact,delete"})},
    "terraform": {
        "shop.orders": (2, {"cleanup.policy": "compact", "segment.ms": "20000"}),
        "shop.payments": (1, {"retention.ms": "3600000"}),
    },
}
"""The topics that each tool creates: the partitions, and the configs."""
QUOTAS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "julieops": {"user=shop.reader": {"consumer_byte_rate": "2048", "request_percentage": "80.5"}},
    "jikkou": {
        "user=shop.alice,client-id=app": {"request_percentage": "10", "producer_byte_rate": "1024"},
        "user=shop.alice,client-id=<default>": {"consumer_byte_rate": "2048"},
    },
    "strimzi": {
        "user=CN=shop.tls": {
            "producer_byte_rate": "1048576",
            "request_percentage": "55",
            "controller_mutation_rate": "10.5",
        }
    },
    "terraform": {
        "user=shop.alice": {"consumer_byte_rate": "5000000", "request_percentage": "200"},
        "user=shop.alice,client-id=<default>": {"producer_byte_rate": "1024"},
    },
}
"""The quotas that each tool creates."""


def list_acls(tool: str, name: str = NAME) -> list[Acl]:
    """The ACLs that a tool creates, with another start of all names."""
    lines = (FOLDER / f"{tool}.acls").read_text("utf-8").replace(NAME, name).splitlines()
    return [_parse(*line.split()) for line in lines]


def _parse(
    principal: str, permission: str, operation: str, kind: str, pattern: str, name: str, host: str
) -> Acl:
    return Acl(
        ResourceType(kind.lower().replace("_", "-")),
        name,
        pattern == "PREFIXED",
        principal,
        host,
        "".join(part.capitalize() for part in operation.split("_")),
        permission == "allow",
    )
