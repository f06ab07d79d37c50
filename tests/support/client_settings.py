"""Groups with client settings, and every setting that a client of a classic group takes."""

from collections.abc import Mapping

from kafkaform.core.kafka_configs import ASSIGNMENT, consumer_configs, refused_by_client
from kafkaform.core.model import Desired, Intent, ResourceRef
from kafkaform.resources.consumer_group.client import is_taken

EVERYTHING = {
    name: key.default
    for name, key in consumer_configs().items()
    if is_taken(name) and key.default and name not in refused_by_client("classic")
} | {
    ASSIGNMENT: "cooperative-sticky,range",
    "group.instance.id": "one",
    "client.id": "a=b:c#d!",
    "auto.offset.reset": "by_duration:PT6H",
}


def build_group(
    client: Mapping[str, str] | None = None, protocol: str = "classic", name: str = "g"
) -> Desired:
    intent = Intent(spec={"protocol": protocol, "topics": ["t"], "client": client or {}})
    return Desired(ResourceRef("ConsumerGroup", name), {}, intent)
