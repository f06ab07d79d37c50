"""Topics as librdkafka's admin client describes them, to compare our own requests with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from kafkaform.cluster.kafka.record_clients import get_kafka_error, make_client, translate
from kafkaform.cluster.kafka.responses import Configs, Description, TopicResponses
from kafkaform.cluster.transport.connection import Connection
from kafkaform.cluster.transport.translation import MISSING

T = TypeVar("T")
TIMEOUT_S = 30.0
NO_ID = "A" * 22
"""The id of zeros, which librdkafka gives where brokers have none."""


class AdminSource:
    def __init__(self, connection: Connection) -> None:
        self._admin: Any = make_client(connection, AdminClient, {})

    def names(self) -> list[str]:
        return list(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
        answers = self._admin.describe_configs(asked, request_timeout=TIMEOUT_S)
        return _sorted_out({resource.name: future for resource, future in answers.items()}, _configs)

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        futures = self._admin.describe_topics(TopicCollection(list(names)), request_timeout=TIMEOUT_S)
        return _sorted_out(futures, _description)


def _sorted_out(futures: Mapping[str, Future[Any]], convert: Callable[[Any], T]) -> TopicResponses[T]:
    answers: TopicResponses[T] = TopicResponses()
    for name, future in futures.items():
        try:
            answers.found[name] = convert(future.result())
        except KafkaException as exception:
            reason = get_kafka_error(exception)
            if reason is not None and reason.code() in MISSING:
                answers.missing.append(name)
            else:
                answers.deny(name, translate(exception))
    return answers


def _configs(entries: Mapping[str, Any]) -> Configs:
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return Configs(
        {name: entry.value for name, entry in entries.items() if entry.source == own},
        {name: entry.value for name, entry in entries.items()},
    )


def _description(description: Any) -> Description:
    # Kafka writes an id in URL-safe base64, librdkafka in the other alphabet.
    uid = str(description.topic_id).replace("+", "-").replace("/", "_")
    replicas = {p.id: tuple(node.id for node in p.replicas) for p in description.partitions}
    return Description(uid if uid != NO_ID else None, bool(description.is_internal), replicas)
