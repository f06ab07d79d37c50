"""Reading topics from a real cluster, in a few requests for any number of them.

Topics are read whole, or only the fields of a change, which are polled until it shows: a broker takes 0.12 s
to describe all configs of 1,000 topics, and 0.03 s for one config of each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.reassignments import Reassignments, read_reassignments
from kafkaform.cluster.kafka.responses import Description, T, TopicResponses, TopicSource
from kafkaform.cluster.kafka.topic_sources import (
    CHUNK,
    EXISTING_CODES,
    TopicRequests,
    check_complete,
    is_found,
    parse_description,
)
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.wire.large_responses import METADATA, TOPIC_CONFIGS, Configs, TopicMetadata
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, Observation, Observed, ResourceRef
from kafkaform.resources import topic_ref
from kafkaform.resources.replicas.facts import LiveReplicas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection

SETTLE_TIMEOUT_S = 10.0
"""How long brokers may report a topic of the metadata as missing, as they do after a mass create."""
MIN_PAUSE_S, MAX_PAUSE_S = 0.02, 1.0
"""The limits of the pause before a retry, which is a fifth of the time waited so far."""


class TopicReader:
    """Reads topics.

    Args:
        source: The source of topics; None: the brokers, each time.
    """

    def __init__(self, source: TopicSource | None = None) -> None:
        self._source = source

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """Read whole topics, as `KindReader.observe` does."""
        source = self._source or TopicRequests(connection)
        inventory = frozenset(map(topic_ref, source.names()))
        wanted = {*refs}
        present = sorted(ref.name for ref in inventory if ref in wanted or also(ref))
        absent = sorted(ref.name for ref in wanted - inventory)

        configs = _retry_until_settled(present, source.configs)
        # A topic with configs that is not in the metadata is new, or this account lacks Describe on it.
        unseen = source.configs(absent)
        configs.found.update(unseen.found)
        descriptions = _retry_until_settled(sorted({*present, *unseen.found}), source.descriptions)
        reassignments = read_reassignments(connection)
        prefixed = _Prefixed()
        resources = {}
        for name, description in descriptions.found.items():
            if name in configs.found:
                ref = topic_ref(name)
                resources[ref] = _make_observed(
                    ref, description, configs.found[name], reassignments, prefixed
                )
        invisible = {
            topic_ref(name): error.message
            for name, error in {**unseen.denied, **configs.denied, **descriptions.denied}.items()
        }
        return Observation(
            resources, inventory | resources.keys(), invisible, reassignments.diagnostics(resources)
        )

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        """Read some fields of topics, as `KindReader.observe_fields` does."""
        configs = {
            ref.name: [path.removeprefix(CONFIG_PREFIX) for path in paths if path.startswith(CONFIG_PREFIX)]
            for ref, paths in fields.items()
        }
        return TopicReader(FieldSource(connection, configs)).observe(connection, fields.keys(), none_besides)


def _retry_until_settled(
    names: Sequence[str], send: Callable[[Sequence[str]], TopicResponses[T]]
) -> TopicResponses[T]:
    """Ask for topics of the metadata, again for those that a broker does not know yet.

    A topic that remains missing has been deleted.
    """
    responses: TopicResponses[T] = TopicResponses()
    started = time.monotonic()
    while names:
        responses.update(send(names))
        names = responses.missing
        waited = time.monotonic() - started
        if not names or waited > SETTLE_TIMEOUT_S:
            break
        # A fifth of the time so far: topics that show within milliseconds are noticed at once, and brokers
        # that need seconds, as after a mass create, are asked rarely.
        time.sleep(min(max(waited / 5, MIN_PAUSE_S), MAX_PAUSE_S))
    return responses


class _Prefixed:
    """Converts effective configs to fields, once for all topics that share them."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Mapping[str, str | None], dict[str, FieldValue]]] = {}

    def __call__(self, values: Mapping[str, str | None]) -> dict[str, FieldValue]:
        made = self._made.get(id(values))
        if made is None:  # keeps the mapping too, so that its id is not reused
            made = values, {CONFIG_PREFIX + name: value for name, value in values.items()}
            self._made[id(values)] = made
        return made[1]


def _make_observed(
    ref: ResourceRef,
    description: Description,
    configs: Configs,
    reassignments: Reassignments,
    prefixed: _Prefixed,
) -> Observed:
    moving = reassignments.moving(ref.name)
    # While partitions are reassigned, metadata shows old and new replicas: the targets are what the topic
    # will have.
    merged = {**description.replicas, **moving} if moving else description.replicas
    replicas = tuple(map(merged.__getitem__, sorted(merged)))
    counts = {len(held) for held in replicas}
    state: dict[str, FieldValue] = {
        "partitions": len(replicas),
        "replicationFactor": counts.pop() if len(counts) == 1 else f"{min(counts)}-{max(counts)}",
        **{CONFIG_PREFIX + name: value for name, value in configs.own.items()},
    }
    return Observed(
        ref,
        description.uid,
        state,
        prefixed(configs.effective),
        description.internal,
        LiveReplicas(replicas, frozenset(moving)),
    )


_NO_CONFIGS = Configs({}, {})


class FieldSource:
    """A source of only some topics and some of their configs.

    Args:
        wanted: The configs to read of each topic.
    """

    def __init__(self, connection: Connection, wanted: Mapping[str, Sequence[str]]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._topics: Mapping[str, TopicMetadata] = {}
        self._is_new = False

    def names(self) -> list[str]:
        """Return those of the topics that exist."""
        self._topics, self._is_new = self._metadata(list(self._wanted)), True
        return [name for name, topic in self._topics.items() if topic.error_code in EXISTING_CODES]

    def configs(self, names: Sequence[str]) -> TopicResponses[Configs]:
        """Return the wanted configs; a topic without any is looked up in the last metadata."""
        responses: TopicResponses[Configs] = TopicResponses()
        requested = []
        for name in names:
            if self._wanted[name]:
                requested.append(name)
            elif self._is_there(name, responses):
                responses.found[name] = _NO_CONFIGS
        requests = [
            {name: self._wanted[name] for name in requested[start : start + CHUNK]}
            for start in range(0, len(requested), CHUNK)
        ]
        for response in self._connection.send(TOPIC_CONFIGS, requests):
            for topic in response:
                if is_found(topic.name, topic.error_code, topic.message, responses):
                    responses.found[topic.name] = topic.configs
        check_complete(names, responses)
        return responses

    def descriptions(self, names: Sequence[str]) -> TopicResponses[Description]:
        """Return descriptions, the first time from the metadata that `names` read."""
        if not self._is_new:
            self._topics = {**self._topics, **self._metadata(names)}
        self._is_new = False
        responses: TopicResponses[Description] = TopicResponses()
        for name in names:
            if self._is_there(name, responses):
                responses.found[name] = parse_description(self._topics[name])
        return responses

    def _is_there(self, name: str, responses: TopicResponses[Configs] | TopicResponses[Description]) -> bool:
        """Return whether the metadata has a topic; adds an error to the responses."""
        topic = self._topics.get(name)
        if topic is None:
            raise ClusterError(f"the brokers' response does not contain topic {name}")
        return topic.error_code in EXISTING_CODES or is_found(name, topic.error_code, "", responses)

    def _metadata(self, names: Sequence[str]) -> Mapping[str, TopicMetadata]:
        requests = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
        responses = self._connection.send(METADATA, requests)
        return {topic.name: topic for response in responses for topic in response.topics}
