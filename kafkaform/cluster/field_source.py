"""Asking about some fields of some topics: what a change concerns, again and again until it shows.

A broker takes 0.12 s to describe all configs of 1,000 topics, and 0.03 s for one config of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster import wire
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.reader import read
from kafkaform.cluster.topic_answers import Answers, Configs, Description
from kafkaform.cluster.wire_reader import CHUNK, THERE, WireReader, check_answered, described, is_found
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import CONFIG_PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.topic_answers import TopicSource
    from kafkaform.core.model import Observation, ResourceRef

_NO_CONFIGS = Configs({}, {})


def read_fields(connection: Connection, fields: Mapping[ResourceRef, Collection[str]]) -> Observation:
    """See `Cluster.observe_fields`."""
    connection.reached  # noqa: B018 - raises in plain words if nobody is there
    configs = {
        ref.name: [path.removeprefix(CONFIG_PREFIX) for path in paths if path.startswith(CONFIG_PREFIX)]
        for ref, paths in fields.items()
        if ref.kind == "Topic"
    }
    source: TopicSource | None = None
    if WireReader.usable(connection):
        source = FieldSource(connection, configs)
    return read(connection, fields.keys(), none_besides, (), source)


class FieldSource:
    """A source that knows of no other topics and configs than those that are wanted.

    Args:
        connection: The cluster's.
        wanted: The configs to read of each topic; the others count as if there were none.
    """

    def __init__(self, connection: Connection, wanted: Mapping[str, Sequence[str]]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._topics: Mapping[str, wire.TopicMetadata] = {}
        self._is_new = False

    def names(self) -> list[str]:
        """The wanted topics that are there."""
        self._topics, self._is_new = self._metadata(list(self._wanted)), True
        return [name for name, topic in self._topics.items() if topic.error_code in THERE]

    def configs(self, names: Sequence[str]) -> Answers[Configs]:
        """See `TopicSource.configs`; a topic of which none are wanted is as the metadata last had it."""
        answers: Answers[Configs] = Answers()
        asked = []
        for name in names:
            if self._wanted[name]:
                asked.append(name)
            elif self._is_there(name, answers):
                answers.found[name] = _NO_CONFIGS
        bodies = [
            wire.describe_configs_of_topics(
                {name: self._wanted[name] for name in asked[start : start + CHUNK]}
            )
            for start in range(0, len(asked), CHUNK)
        ]
        for answer in self._connection.ask(wire.TOPIC_CONFIGS, bodies):
            for one in answer:
                if is_found(one.name, one.error_code, one.message, answers):
                    answers.found[one.name] = one.configs
        check_answered(names, answers)
        return answers

    def descriptions(self, names: Sequence[str]) -> Answers[Description]:
        """See `TopicSource.descriptions`; the first time from the metadata that gave the names."""
        if not self._is_new:
            self._topics = {**self._topics, **self._metadata(names)}
        self._is_new = False
        answers: Answers[Description] = Answers()
        for name in names:
            if self._is_there(name, answers):
                answers.found[name] = described(self._topics[name])
        return answers

    def _is_there(self, name: str, answers: Answers[Configs] | Answers[Description]) -> bool:
        """Whether the metadata shows a topic; if not, the answers say so."""
        topic = self._topics.get(name)
        if topic is None:
            raise ClusterError(f"the brokers were asked about topic {name}, and said nothing of it")
        return topic.error_code in THERE or is_found(name, topic.error_code, "", answers)

    def _metadata(self, names: Sequence[str]) -> Mapping[str, wire.TopicMetadata]:
        bodies = [
            wire.metadata_of_topics(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)
        ]
        told = self._connection.ask(wire.TOPICS, bodies)
        return {topic.name: topic for topics in told for topic in topics}
