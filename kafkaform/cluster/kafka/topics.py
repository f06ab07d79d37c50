"""Reading topics from a real cluster, in a few requests however many there are.

Topics are read whole, or only the fields that a change concerns.

Asking about some fields of some topics: what a change concerns, again and again until it shows.

A broker takes 0.12 s to describe all configs of 1,000 topics, and 0.03 s for one config of each.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.cluster.kafka.answers import Answers, Configs, Description
from kafkaform.cluster.kafka.reassignments import read_reassignments
from kafkaform.cluster.kafka.topic_sources import (
    CHUNK,
    THERE,
    AdminReader,
    WireReader,
    check_answered,
    described,
    is_found,
)
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.wire.large_answers import METADATA, TOPIC_CONFIGS, TopicMetadata
from kafkaform.core.errors import ClusterError
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Observation,
    Observed,
    ResourceRef,
)
from kafkaform.resources.topic import topic_ref
from kafkaform.resources.topic.live import TopicLive

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )

    from kafkaform.cluster.kafka.answers import T, TopicSource
    from kafkaform.cluster.kafka.reassignments import Reassignments
    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.model import FieldValue


SETTLE_TIMEOUT_S = 10.0
"""How long brokers may deny a topic that the metadata shows, as they do after a mass create."""
LEAST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 1.0
"""How long to wait before asking again: a fifth of what was waited so far, and no less or more than this."""


def topic_source(connection: Connection) -> TopicSource:
    """The swiftest way of asking that these brokers and clients can do."""
    connection.reached  # noqa: B018 - raises in plain words if nobody is there
    return WireReader(connection) if WireReader.usable(connection) else AdminReader(connection)


class TopicReader:
    """Reads topics.

    Args:
        source: Who to ask; None: whoever `topic_source` finds.
    """

    def __init__(self, source: TopicSource | None = None) -> None:
        self._source = source

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """See `KindReader.observe`."""
        source = self._source or topic_source(connection)
        inventory = frozenset(map(topic_ref, source.names()))
        wanted = {*refs}
        present = sorted(ref.name for ref in inventory if ref in wanted or also(ref))
        absent = sorted(ref.name for ref in wanted - inventory)

        configs = _settled(present, source.configs)
        # A topic that has configs but is not in the metadata: made meanwhile, or this account lacks Describe.
        unseen = source.configs(absent)
        configs.found.update(unseen.found)
        descriptions = _settled(sorted({*present, *unseen.found}), source.descriptions)
        reassignments = read_reassignments(connection)
        prefixed = _Prefixed()
        resources = {}
        for name, description in descriptions.found.items():
            if name in configs.found:
                ref = topic_ref(name)
                resources[ref] = _observed(ref, description, configs.found[name], reassignments, prefixed)
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
        """See `KindReader.observe_fields`."""
        connection.reached  # noqa: B018 - raises in plain words if nobody is there
        if not WireReader.usable(connection):
            return self.observe(connection, fields.keys(), none_besides)
        configs = {
            ref.name: [path.removeprefix(CONFIG_PREFIX) for path in paths if path.startswith(CONFIG_PREFIX)]
            for ref, paths in fields.items()
        }
        return TopicReader(FieldSource(connection, configs)).observe(connection, fields.keys(), none_besides)


def _settled(names: Sequence[str], ask: Callable[[Sequence[str]], Answers[T]]) -> Answers[T]:
    """The answers for topics that the metadata shows; asks again for those a broker has not heard of yet.

    A topic that stays missing was deleted meanwhile.
    """
    answers: Answers[T] = Answers()
    begun = time.monotonic()
    while names:
        answers.update(ask(names))
        names = answers.missing
        waited = time.monotonic() - begun
        if not names or waited > SETTLE_TIMEOUT_S:
            break
        time.sleep(min(max(waited / 5, LEAST_PAUSE_S), LONGEST_PAUSE_S))
    return answers


class _Prefixed:
    """Effective configs under the paths of fields, made once for all topics that share them."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Mapping[str, str | None], dict[str, FieldValue]]] = {}

    def __call__(self, values: Mapping[str, str | None]) -> dict[str, FieldValue]:
        made = self._made.get(id(values))
        if made is None:  # the mapping is kept beside its result, so that its id stays its own
            made = values, {CONFIG_PREFIX + name: value for name, value in values.items()}
            self._made[id(values)] = made
        return made[1]


def _observed(
    ref: ResourceRef,
    description: Description,
    configs: Configs,
    reassignments: Reassignments,
    prefixed: _Prefixed,
) -> Observed:
    moving = reassignments.moving(ref.name)
    shown = {**description.replicas, **moving} if moving else description.replicas
    replicas = tuple(map(shown.__getitem__, sorted(shown)))
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
        TopicLive(replicas, frozenset(moving)),
    )


_NO_CONFIGS = Configs({}, {})


class FieldSource:
    """A source that knows of no other topics and configs than those that are wanted.

    Args:
        connection: The cluster's.
        wanted: The configs to read of each topic; the others count as if there were none.
    """

    def __init__(self, connection: Connection, wanted: Mapping[str, Sequence[str]]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._topics: Mapping[str, TopicMetadata] = {}
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
        requests = [
            {name: self._wanted[name] for name in asked[start : start + CHUNK]}
            for start in range(0, len(asked), CHUNK)
        ]
        for answer in self._connection.ask(TOPIC_CONFIGS, requests):
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
            raise ClusterError(f"the brokers' response does not contain topic {name}")
        return topic.error_code in THERE or is_found(name, topic.error_code, "", answers)

    def _metadata(self, names: Sequence[str]) -> Mapping[str, TopicMetadata]:
        requests = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
        answers = self._connection.ask(METADATA, requests)
        return {topic.name: topic for answer in answers for topic in answer.topics}
