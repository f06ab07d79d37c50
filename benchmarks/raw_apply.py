"""Raw calls of confluent-kafka in batches, with which an apply is compared.

It runs as a separate process and imports nothing else, so that it costs no more than such a script must. It
checks one config and the counts of partitions; an apply checks all fields of its plan, ids and replicas.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "bench."
PARTITIONS, MORE_PARTITIONS = 3, 6
_PARTITIONS = {"create": PARTITIONS, "partitions": MORE_PARTITIONS}
BEFORE_MS, AFTER_MS = "86400000", "172800000"
_CONFIGS = {"create": BEFORE_MS, "configs": AFTER_MS}
"""The expected config after each kind of work; _PARTITIONS has the expected partitions."""
_EARLIER = {"configs": BEFORE_MS, "partitions": AFTER_MS}
"""The config before each kind of work; before the creates, there is no topic."""
UNREAD, READ, COMPARED = range(3)
"""What a process reads: nothing, the result until it is complete, or also the state before."""
TIMEOUT_S = 60
_PAUSE_S = 0.02  # the first pause of an apply


def request_work(admin: AdminClient, work: str, count: int, batch: int) -> None:
    """Request a kind of work for topics, and wait for the responses.

    Args:
        admin: The client.
        work: `create`, `configs` or `partitions`.
        count: The number of topics.
        batch: The number of topics in a request.
    """
    names = _list_names(count)
    for first in range(0, count, batch):
        for future in _send_requests(admin, work, names[first : first + batch]).values():
            future.result()


def read_back(admin: AdminClient, work: str, count: int) -> None:
    """Read the topics until the brokers report all changes."""
    while not _shown(admin, work, _list_names(count)):
        time.sleep(_PAUSE_S)


def compare(admin: AdminClient, work: str, count: int) -> None:
    """Read the topics before the work; exits if they are not as expected."""
    names, wanted = _list_names(count), _EARLIER.get(work)
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    partitions = {len(topics[name].partitions) if name in topics else 0 for name in names}
    futures = admin.describe_configs([_build_resource(name) for name in names], request_timeout=TIMEOUT_S)
    values = {_read_value(future) for future in futures.values()}
    if partitions != {PARTITIONS if wanted else 0} or values != {wanted}:
        sys.exit(f"bench: topics have {partitions} partitions and {values} before {work}")


def _read_value(future: Any) -> str | None:
    """Return the config of a topic; None if there is no such topic."""
    try:
        value: str = future.result()["retention.ms"].value
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None
    return value


def _list_names(count: int) -> list[str]:
    return [f"{PREFIX}{number:05d}" for number in range(count)]


def _send_requests(admin: AdminClient, work: str, names: Sequence[str]) -> Mapping[Any, Any]:
    if work == "create":
        topics = [NewTopic(name, PARTITIONS, 1, config={"retention.ms": BEFORE_MS}) for name in names]
        return admin.create_topics(topics, request_timeout=TIMEOUT_S)
    if work == "configs":
        entry = ConfigEntry("retention.ms", AFTER_MS, incremental_operation=AlterConfigOpType.SET)
        changes = [_build_resource(name, incremental_configs=[entry]) for name in names]
        return admin.incremental_alter_configs(changes, request_timeout=TIMEOUT_S)
    increases = [NewPartitions(name, MORE_PARTITIONS) for name in names]
    return admin.create_partitions(increases, request_timeout=TIMEOUT_S)


def _shown(admin: AdminClient, work: str, names: Sequence[str]) -> bool:
    if work in _PARTITIONS:
        wanted, topics = _PARTITIONS[work], admin.list_topics(timeout=TIMEOUT_S).topics
        if not all(name in topics and len(topics[name].partitions) == wanted for name in names):
            return False
    if work not in _CONFIGS:
        return True
    futures = admin.describe_configs([_build_resource(name) for name in names], request_timeout=TIMEOUT_S)
    return all(future.result()["retention.ms"].value == _CONFIGS[work] for future in futures.values())


def _build_resource(name: str, **options: Any) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.TOPIC, name, **options)


if __name__ == "__main__":
    address, wanted, *numbers = sys.argv[1:]
    topics, at_a_time, reads = map(int, numbers)
    client = AdminClient({"bootstrap.servers": address})
    if reads == COMPARED:
        compare(client, wanted, topics)
    request_work(client, wanted, topics, at_a_time)
    if reads:
        read_back(client, wanted, topics)
