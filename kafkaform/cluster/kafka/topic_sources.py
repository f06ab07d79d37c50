"""Reading whole topics from brokers: names, configs and descriptions."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.answers import Answers, Configs, Description
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import MISSING, translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_answers import METADATA, TOPIC_CONFIGS
from kafkaform.core.errors import ClusterError
from kafkaform.core.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.cluster.wire.large_answers import TopicMetadata


CHUNK = 500
"""The most topics in one request: the broker works on the next request while an answer is parsed."""


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

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """Return all configs of topics."""
        requests = [dict.fromkeys(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)]
        answers: Answers[Configs] = Answers()
        for answer in self._connection.ask(TOPIC_CONFIGS, requests):
            for topic in answer:
                if is_found(topic.name, topic.error_code, topic.message, answers, TOPIC_CONFIGS.name):
                    answers.found[topic.name] = topic.configs
        check_answered(names, answers)
        return answers

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """Return descriptions, the first time from the metadata that `names` read.

        Metadata of all topics omits those that this account may not describe: only a request that names such
        a topic gets an error.
        """
        # Used once: a retry asks the brokers again, as topics may be new to them.
        topics, self._topics = self._topics or self._metadata(), None
        answers: Answers[Description] = Answers()
        unseen = []
        for name in names:
            topic = topics.get(name)
            if topic is None or topic.error_code in MISSING:
                unseen.append(name)
            elif topic.error_code in EXISTING_CODES or is_found(name, topic.error_code, "", answers):
                answers.found[name] = parse_description(topic)
        if unseen:
            answers.update(describe_topics(self._connection, unseen))
        return answers

    def _metadata(self) -> dict[str, TopicMetadata]:
        (metadata,) = self._connection.ask(METADATA, [None])
        return {topic.name: topic for topic in metadata.topics}


def describe_topics(connection: Connection, names: Sequence[str]) -> Answers[Description]:
    """Describe topics by name, which does not make a broker create them."""
    answers: Answers[Description] = Answers()
    requests = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
    for metadata in connection.ask(METADATA, requests):
        for topic in metadata.topics:
            if topic.error_code in EXISTING_CODES or is_found(topic.name, topic.error_code, "", answers):
                answers.found[topic.name] = parse_description(topic)
    return answers


def parse_description(topic: TopicMetadata) -> Description:
    """Return the description in a topic's metadata."""
    # As Kafka's tools print ids (Uuid.toString). All zeros: the topic was created before Kafka 2.8, or the
    # service has no ids (KIP-516).
    uid = urlsafe_b64encode(topic.topic_id).decode().rstrip("=") if any(topic.topic_id) else None
    return Description(
        uid, topic.internal, {partition.number: partition.replicas for partition in topic.partitions}
    )


def check_answered(names: Sequence[str], answers: Answers[Configs]) -> None:
    """Raise ClusterError if a response omits a topic, which would else count as missing."""
    answered = {*answers.found, *answers.denied, *answers.missing}
    if unanswered := [name for name in names if name not in answered]:
        raise ClusterError(
            f"the brokers' response to a request for the configs of {counted(len(names), 'topic')} lacks "
            f"{len(unanswered):,} of them, such as {unanswered[0]}"
        )


def is_found(
    name: str,
    error_code: int,
    message: str,
    answers: Answers[Configs] | Answers[Description],
    request: str = METADATA.name,
) -> bool:
    """Return whether an answer about a topic is no error; adds an error to the answers."""
    if error_code in MISSING:
        answers.missing.append(name)
    elif error_code:
        answers.deny(name, name_right(translate_code(error_code, message), request, name))
    return not error_code
