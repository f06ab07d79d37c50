"""Asking about topics in our own bytes: a tenth of what the clients need for it."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from kafkaform.cluster import wire
from kafkaform.cluster.admin_reader import AdminReader
from kafkaform.cluster.topic_answers import Answers, Configs, Description
from kafkaform.cluster.translation import MISSING, one_line, translate_code
from kafkaform.core.errors import ClusterError, KafkaformError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkaform.cluster.connection import Connection

CHUNK = 2_000
"""How many topics one request asks for: the broker works on the next while an answer is read."""

_LEADER_NOT_AVAILABLE = 5
THERE = frozenset({0, _LEADER_NOT_AVAILABLE})
"""The error codes of topics that are there: one without a leader is, too."""


class WireReader:
    """See `TopicSource`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._topics: dict[str, wire.TopicMetadata] | None = None

    @classmethod
    def usable(cls, connection: Connection) -> bool:
        """Whether our own bytes reach the brokers, and the brokers speak the versions that are read here."""
        try:
            return connection.speaks(wire.METADATA) and connection.speaks(wire.DESCRIBE_CONFIGS)
        except KafkaformError:
            return False  # what cannot do all that librdkafka can; nothing is lost but speed

    def names(self) -> list[str]:
        """See `TopicSource.names`."""
        self._topics = self._metadata()
        return list(self._topics)

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """See `TopicSource.configs`."""
        bodies = [
            wire.describe_topic_configs(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)
        ]
        answers: Answers[Configs] = Answers()
        for answer in self._connection.ask(wire.TOPIC_CONFIGS, bodies):
            for topic in answer:
                if is_found(topic.name, topic.error_code, topic.message, answers):
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
            answers.update(AdminReader(self._connection).descriptions(unseen))
        return answers

    def _metadata(self) -> dict[str, wire.TopicMetadata]:
        (topics,) = self._connection.ask(wire.TOPICS, [wire.metadata_of_all_topics()])
        return {topic.name: topic for topic in topics}


def described(topic: wire.TopicMetadata) -> Description:
    """A topic as its metadata describes it."""
    uid = urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
    return Description(uid, topic.internal, topic.replicas)


def check_answered(names: Sequence[str], answers: Answers[Configs]) -> None:
    """Raise ClusterError if a topic was asked about of which nothing was said: it would count as missing."""
    said = {*answers.found, *answers.denied, *answers.missing}
    if silent := [name for name in names if name not in said]:
        raise ClusterError(
            f"the brokers were asked for the configs of {len(names):,} topics, and said nothing of "
            f"{len(silent):,} of them, such as {silent[0]}"
        )


def is_found(
    name: str, error_code: int, message: str, answers: Answers[Configs] | Answers[Description]
) -> bool:
    """Whether an answer about a topic is no error; if it is one, the answers say so."""
    if error_code in MISSING:
        answers.missing.append(name)
    elif error_code:
        answers.deny(name, translate_code(error_code, one_line(message)))
    return not error_code
