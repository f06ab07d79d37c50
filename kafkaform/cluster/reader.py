"""Reading topics from a real cluster, in a few requests however many there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeAlias, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import ConfigEntry, ConfigResource, ConfigSource, TopicDescription

from kafkaform.cluster.connection import READ_TIMEOUT_S, Connection
from kafkaform.cluster.reassignments import Reassignments, read_reassignments
from kafkaform.cluster.translation import MISSING, kafka_error, translate
from kafkaform.errors import ClusterError, PermissionDenied
from kafkaform.model import CONFIG_PREFIX, FieldValue, Observation, Observed, ResourceRef

CHUNK = 2_000
"""How many topics one request asks for: the answer stays far below a client's response limit."""
SETTLE_TIMEOUT_S = 10.0
"""How long brokers may deny a topic that the metadata shows, as they do after a mass create."""

T = TypeVar("T")
Entries: TypeAlias = Mapping[str, ConfigEntry]


def read(
    connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
) -> Observation:
    """Read topics; see `Cluster.observe`."""
    inventory = frozenset(ResourceRef("Topic", name) for name in connection.topic_names())
    wanted = {ref for ref in refs if ref.kind == "Topic"}
    present = sorted(ref.name for ref in inventory if ref in wanted or also(ref))
    absent = sorted(ref.name for ref in wanted - inventory)

    configs, hidden_configs = _settled(present, lambda names: _describe_configs(connection, names))
    descriptions, hidden = _settled(present, lambda names: _describe_topics(connection, names))
    _, unseen, _ = _sorted_out(_describe_configs(connection, absent))
    reassignments = read_reassignments(connection)
    resources = {}
    for name in present:
        if name in descriptions and name in configs:
            ref = ResourceRef("Topic", name)
            resources[ref] = _observed(ref, descriptions[name], configs[name], reassignments)
    invisible = {
        ResourceRef("Topic", name): error.message
        for name, error in {**unseen, **hidden_configs, **hidden}.items()
    }
    return Observation(resources, inventory, invisible, reassignments.diagnostics(resources))


def _describe_configs(connection: Connection, names: Sequence[str]) -> dict[str, Future[Entries]]:
    futures = {}
    for start in range(0, len(names), CHUNK):
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names[start : start + CHUNK]]
        answers = connection.reached.describe_configs(asked, request_timeout=READ_TIMEOUT_S)
        futures.update({resource.name: future for resource, future in answers.items()})
    return futures


def _describe_topics(connection: Connection, names: Sequence[str]) -> dict[str, Future[TopicDescription]]:
    futures: dict[str, Future[TopicDescription]] = {}
    for start in range(0, len(names), CHUNK):
        asked = TopicCollection(list(names[start : start + CHUNK]))
        futures.update(connection.reached.describe_topics(asked, request_timeout=READ_TIMEOUT_S))
    return futures


def _settled(
    names: Sequence[str], ask: Callable[[Sequence[str]], Mapping[str, Future[T]]]
) -> tuple[dict[str, T], dict[str, PermissionDenied]]:
    """The answers for topics that the metadata shows; asks again for those a broker has not heard of yet.

    A topic that stays unknown was deleted meanwhile, and is in neither result.
    """
    answers: dict[str, T] = {}
    denied: dict[str, PermissionDenied] = {}
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    pause = 0.05
    while names:
        answered, refused, names = _sorted_out(ask(names))
        answers.update(answered)
        denied.update(refused)
        if not names or time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(pause * 2, 1.0)
    return answers, denied


def _sorted_out(
    futures: Mapping[str, Future[T]],
) -> tuple[dict[str, T], dict[str, PermissionDenied], list[str]]:
    """Answers, denials, and the names nobody knows; any other error is raised."""
    answers: dict[str, T] = {}
    denied: dict[str, PermissionDenied] = {}
    missing: list[str] = []
    for name, future in futures.items():
        try:
            answers[name] = future.result()
        except KafkaException as exception:
            reason = kafka_error(exception)
            if reason is not None and reason.code() in MISSING:
                missing.append(name)
                continue
            error: ClusterError = translate(exception)
            if not isinstance(error, PermissionDenied):
                raise error from exception
            denied[name] = error
    return answers, denied, missing


def _observed(
    ref: ResourceRef, description: TopicDescription, entries: Entries, reassignments: Reassignments
) -> Observed:
    counts = {
        reassignments.replicas(ref.name, partition.id, len(partition.replicas))
        for partition in description.partitions
    }
    state: dict[str, FieldValue] = {
        "partitions": len(description.partitions),
        "replicationFactor": counts.pop() if len(counts) == 1 else f"{min(counts)}-{max(counts)}",
    }
    effective: dict[str, FieldValue] = {}
    for name, entry in entries.items():
        effective[CONFIG_PREFIX + name] = entry.value
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value:
            state[CONFIG_PREFIX + name] = entry.value
    return Observed(ref, str(description.topic_id), state, effective, bool(description.is_internal))
