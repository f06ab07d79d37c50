"""Asking about topics: on our own connections, in a tenth of the time that librdkafka takes.

Every broker understands what librdkafka sends.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource

from kafkaform.cluster.kafka.answers import Answers, Configs, Description
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, kafka_error, one_line, translate, translate_code
from kafkaform.cluster.wire.large_answers import METADATA, TOPIC_CONFIGS
from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from confluent_kafka.admin import ConfigEntry, TopicDescription

    from kafkaform.cluster.kafka.answers import T
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.large_answers import TopicMetadata


CHUNK = 500
"""The most topics that one request asks for: the answer stays far below a client's response limit."""


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
        return _sorted_out(futures, _configs, "DescribeConfigs")

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """See `TopicSource.descriptions`."""
        futures: dict[str, Future[Any]] = {}
        for start in range(0, len(names), CHUNK):
            asked = TopicCollection(list(names[start : start + CHUNK]))
            futures.update(self._connection.reached.describe_topics(asked, request_timeout=READ_TIMEOUT_S))
        return _sorted_out(futures, _description, METADATA.name)


def _sorted_out(futures: Mapping[str, Future[Any]], convert: Callable[[Any], T], request: str) -> Answers[T]:
    answers: Answers[T] = Answers()
    for name, future in futures.items():
        try:
            answers.found[name] = convert(future.result())
        except KafkaException as exception:
            reason = kafka_error(exception)
            if reason is not None and reason.code() in MISSING:
                answers.missing.append(name)
            else:
                answers.deny(name, name_right(translate(exception), request, name))
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
    return Description(uid if uid != _NO_ID else None, bool(description.is_internal), replicas)


"""The most topics that one request asks for: the broker works on the next while an answer is read."""

_NO_ID = "A" * 22
"""The id of zeros, which librdkafka gives where brokers have none."""
_LEADER_NOT_AVAILABLE = 5
THERE = frozenset({0, _LEADER_NOT_AVAILABLE})
"""The error codes of topics that are there: one without a leader is, too."""


class WireReader:
    """See `TopicSource`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._topics: dict[str, TopicMetadata] | None = None

    @classmethod
    def usable(cls, connection: Connection) -> bool:
        """Return whether our own connections reach brokers that offer the versions which are read here."""
        try:
            return connection.offers(METADATA) and connection.offers(TOPIC_CONFIGS)
        except KafkaformError:
            return False  # what cannot do all that librdkafka can; nothing is lost but speed

    def names(self) -> list[str]:
        """See `TopicSource.names`."""
        self._topics = self._metadata()
        return list(self._topics)

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """See `TopicSource.configs`."""
        requests = [dict.fromkeys(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)]
        answers: Answers[Configs] = Answers()
        for answer in self._connection.ask(TOPIC_CONFIGS, requests):
            for topic in answer:
                if is_found(topic.name, topic.error_code, topic.message, answers, TOPIC_CONFIGS.name):
                    answers.found[topic.name] = topic.configs
        check_answered(names, answers)
        return answers

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """See `TopicSource.descriptions`; the first time from the metadata that gave the names.

        Metadata of all topics leaves out what this account may not describe: only a request that names
        such a topic is told so.
        """
        topics, self._topics = self._topics or self._metadata(), None
        answers: Answers[Description] = Answers()
        unseen = []
        for name in names:
            topic = topics.get(name)
            if topic is None or topic.error_code in MISSING:
                unseen.append(name)
            elif topic.error_code in THERE or is_found(name, topic.error_code, "", answers):
                answers.found[name] = described(topic)
        if unseen:
            answers.update(_describe_named(self._connection, unseen))
        return answers

    def _metadata(self) -> dict[str, TopicMetadata]:
        (metadata,) = self._connection.ask(METADATA, [None])
        return {topic.name: topic for topic in metadata.topics}


def describe_topics(connection: Connection, names: Sequence[str]) -> Answers[Description]:
    """Describe topics by name, which does not make a broker create them."""
    if not names:
        return Answers()
    if WireReader.usable(connection):
        return _describe_named(connection, names)
    return AdminReader(connection).descriptions(names)


def _describe_named(connection: Connection, names: Sequence[str]) -> Answers[Description]:
    answers: Answers[Description] = Answers()
    requests = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
    for metadata in connection.ask(METADATA, requests):
        for topic in metadata.topics:
            if topic.error_code in THERE or is_found(topic.name, topic.error_code, "", answers):
                answers.found[topic.name] = described(topic)
    return answers


def described(topic: TopicMetadata) -> Description:
    """A topic as its metadata describes it."""
    uid = urlsafe_b64encode(topic.topic_id).decode().rstrip("=") if any(topic.topic_id) else None
    return Description(
        uid, topic.internal, {partition.number: partition.replicas for partition in topic.partitions}
    )


def check_answered(names: Sequence[str], answers: Answers[Configs]) -> None:
    """Raise ClusterError if a topic was asked about of which nothing was said: it would count as missing."""
    said = {*answers.found, *answers.denied, *answers.missing}
    if silent := [name for name in names if name not in said]:
        raise ClusterError(
            f"the brokers' response to a request for the configs of {counted(len(names), 'topic')} lacks "
            f"{len(silent):,} of them, such as {silent[0]}"
        )


def is_found(
    name: str,
    error_code: int,
    message: str,
    answers: Answers[Configs] | Answers[Description],
    request: str = METADATA.name,
) -> bool:
    """Return whether an answer to a request about a topic is no error; if it is one, the answers say so."""
    if error_code in MISSING:
        answers.missing.append(name)
    elif error_code:
        answers.deny(name, name_right(translate_code(error_code, one_line(message)), request, name))
    return not error_code
