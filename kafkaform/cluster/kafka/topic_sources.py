"""Reading whole topics from brokers: names, configs and descriptions."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.responses import Description, TopicResponses
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import METADATA, TOPIC_CONFIGS, Configs, TopicMetadata
from kafkaform.core.errors import ClusterError
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.transport.connection import Connection

CHUNK = 500
"""The most topics in one request: the broker works on the next request while a response is parsed."""


EXISTING_CODES = frozenset({ErrorCode.NO_ERROR, ErrorCode.LEADER_NOT_AVAILABLE})
"""The codes of topics that exist; one without a leader does."""


class TopicRequests:
    """A `TopicSource` that asks the brokers each time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._topics: dict[str, TopicMetadata] | None = None

    def names(self) -> list[str]:
        """Return the names of all visible topics."""
        self._topics = self._metadata()
        return list(self._topics)

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        """Return all configs of topics."""
        requests = [dict.fromkeys(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)]
        responses: TopicResponses[Configs] = TopicResponses()
        for response in self._connection.send(TOPIC_CONFIGS, requests):
            for topic in response:
                if is_found(topic.name, topic.error_code, topic.message, responses, TOPIC_CONFIGS.name):
                    responses.found[topic.name] = topic.configs
        check_complete(names, responses)
        return responses

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        """Return descriptions, the first time from the metadata that `names` read.

        Metadata of all topics omits those that this account may not describe: only a request that names such
        a topic gets an error.
        """
        # Used once: a retry asks the brokers again, as topics may be new to them.
        topics, self._topics = self._topics or self._metadata(), None
        responses: TopicResponses[Description] = TopicResponses()
        unseen = []
        for name in names:
            topic = topics.get(name)
            if topic is None or topic.error_code in MISSING:
                unseen.append(name)
            elif topic.error_code in EXISTING_CODES or is_found(name, topic.error_code, "", responses):
                responses.found[name] = parse_description(topic)
        if unseen:
            responses.update(describe_topics(self._connection, unseen))
        return responses

    def _metadata(self) -> dict[str, TopicMetadata]:
        (metadata,) = self._connection.send(METADATA, [None])
        return {topic.name: topic for topic in metadata.topics}


def describe_topics(connection: Connection, names: Sequence[str]) -> TopicResponses[Description]:
    """Describe topics by name, which does not make a broker create them."""
    responses: TopicResponses[Description] = TopicResponses()
    requests = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
    for metadata in connection.send(METADATA, requests):
        for topic in metadata.topics:
            if topic.error_code in EXISTING_CODES or is_found(topic.name, topic.error_code, "", responses):
                responses.found[topic.name] = parse_description(topic)
    return responses


def parse_description(topic: TopicMetadata) -> Description:
    """Return the description in a topic's metadata."""
    # As Kafka's tools print ids (Uuid.toString). All zeros: the topic was created before Kafka 2.8, or the
    # service has no ids (KIP-516).
    uid = urlsafe_b64encode(topic.topic_id).decode().rstrip("=") if any(topic.topic_id) else None
    return Description(
        uid, topic.internal, {partition.number: partition.replicas for partition in topic.partitions}
    )


def check_complete(names: Sequence[str], responses: TopicResponses[Configs]) -> None:
    """Raise ClusterError if a response omits a topic, which would else count as missing."""
    answered = {*responses.found, *responses.denied, *responses.missing}
    if pending := [name for name in names if name not in answered]:
        raise ClusterError(
            f"the brokers' response to a request for the configs of {counted(len(names), 'topic')} lacks "
            f"{len(pending):,} of them, such as {pending[0]}"
        )


def is_found(
    name: str,
    error_code: int,
    message: str,
    responses: TopicResponses[Configs] | TopicResponses[Description],
    request: str = METADATA.name,
) -> bool:
    """Return whether a response about a topic is no error; adds an error to the responses."""
    if error_code in MISSING:
        responses.missing.append(name)
    elif error_code:
        responses.deny(name, name_right(translate_code(error_code, message), request, name))
    return not error_code
