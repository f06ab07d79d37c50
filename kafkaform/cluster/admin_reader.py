"""Asking about topics through librdkafka: slower, and understood by every broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource

from kafkaform.cluster.api import READ_TIMEOUT_S
from kafkaform.cluster.topic_answers import Answers, Configs, Description
from kafkaform.cluster.translation import MISSING, kafka_error, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import ConfigEntry, TopicDescription

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.topic_answers import T

CHUNK = 2_000
"""How many topics one request asks for: the answer stays far below a client's response limit."""


class AdminReader:
    """See `TopicSource`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def names(self) -> list[str]:
        """See `TopicSource.names`; asking for one by name would create it where brokers auto-create."""
        try:
            return list(self._connection.reached.list_topics(timeout=READ_TIMEOUT_S).topics)
        except KafkaException as error:
            raise translate(error) from error

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """See `TopicSource.configs`."""
        futures: dict[str, Future[Any]] = {}
        for start in range(0, len(names), CHUNK):
            asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names[start : start + CHUNK]]
            answers = self._connection.reached.describe_configs(asked, request_timeout=READ_TIMEOUT_S)
            futures.update({resource.name: future for resource, future in answers.items()})
        return _sorted_out(futures, _configs)

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """See `TopicSource.descriptions`."""
        futures: dict[str, Future[Any]] = {}
        for start in range(0, len(names), CHUNK):
            asked = TopicCollection(list(names[start : start + CHUNK]))
            futures.update(self._connection.reached.describe_topics(asked, request_timeout=READ_TIMEOUT_S))
        return _sorted_out(futures, _description)


def _sorted_out(futures: Mapping[str, Future[Any]], convert: Callable[[Any], T]) -> Answers[T]:
    answers: Answers[T] = Answers()
    for name, future in futures.items():
        try:
            answers.found[name] = convert(future.result())
        except KafkaException as exception:
            reason = kafka_error(exception)
            if reason is not None and reason.code() in MISSING:
                answers.missing.append(name)
            else:
                answers.deny(name, translate(exception))
    return answers


def _configs(entries: Mapping[str, ConfigEntry]) -> Configs:
    # The client's stub declares the enum, and the client gives the enum's number.
    own: Any = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return Configs(
        {name: entry.value for name, entry in entries.items() if entry.source == own},
        {name: entry.value for name, entry in entries.items()},
    )


def _description(description: TopicDescription) -> Description:
    # Kafka writes an id in URL-safe base64, librdkafka in the other alphabet.
    uid = str(description.topic_id).replace("+", "-").replace("/", "_")
    replicas = {p.id: tuple(node.id for node in p.replicas) for p in description.partitions}
    return Description(uid, bool(description.is_internal), replicas)
