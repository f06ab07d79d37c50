"""The raw calls that an apply is compared with: confluent-kafka's, in batches.

As a process of its own this takes no more than such a script must: it imports nothing else. It looks at one
config and at counts of partitions; an apply compares all that its plan says, and ids and replicas with it.
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
"""What is to be seen after each piece of work: partitions, and configs."""
_EARLIER = {"configs": BEFORE_MS, "partitions": AFTER_MS}
"""The config before each piece of work; before the creates, there is no topic."""
UNREAD, READ, COMPARED = range(3)
"""How much a process reads: nothing, afterwards until all is shown, or before that, too."""
TIMEOUT_S = 60
_PAUSE_S = 0.02  # as long as an apply waits at first


def ask(admin: AdminClient, work: str, count: int, batch: int) -> None:
    """Ask for a piece of work on so many topics, and wait for the answers.

    Args:
        admin: The client.
        work: `create`, `configs` or `partitions`.
        count: How many topics.
        batch: How many of them one request has.
    """
    names = _names(count)
    for first in range(0, count, batch):
        for future in _asked(admin, work, names[first : first + batch]).values():
            future.result()


def read_back(admin: AdminClient, work: str, count: int) -> None:
    """Read so many topics until the brokers show all that was asked for."""
    while not _shown(admin, work, _names(count)):
        time.sleep(_PAUSE_S)


def compare(admin: AdminClient, work: str, count: int) -> None:
    """Read so many topics before anything is asked for; ends the process if they are not as expected."""
    names, wanted = _names(count), _EARLIER.get(work)
    topics = admin.list_topics(timeout=TIMEOUT_S).topics
    partitions = {len(topics[name].partitions) if name in topics else 0 for name in names}
    futures = admin.describe_configs([_resource(name) for name in names], request_timeout=TIMEOUT_S)
    values = {_value(future) for future in futures.values()}
    if partitions != {PARTITIONS if wanted else 0} or values != {wanted}:
        sys.exit(f"bench: topics have {partitions} partitions and {values} before {work}")


def _value(future: Any) -> str | None:
    """The config of a topic; None if there is no such topic."""
    try:
        value: str = future.result()["retention.ms"].value
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None
    return value


def _names(count: int) -> list[str]:
    return [f"{PREFIX}{number:05d}" for number in range(count)]


def _asked(admin: AdminClient, work: str, names: Sequence[str]) -> Mapping[Any, Any]:
    if work == "create":
        topics = [NewTopic(name, PARTITIONS, 1, config={"retention.ms": BEFORE_MS}) for name in names]
        return admin.create_topics(topics, request_timeout=TIMEOUT_S)
    if work == "configs":
        entry = ConfigEntry("retention.ms", AFTER_MS, incremental_operation=AlterConfigOpType.SET)
        changes = [_resource(name, incremental_configs=[entry]) for name in names]
        return admin.incremental_alter_configs(changes, request_timeout=TIMEOUT_S)
    more = [NewPartitions(name, MORE_PARTITIONS) for name in names]
    return admin.create_partitions(more, request_timeout=TIMEOUT_S)


def _shown(admin: AdminClient, work: str, names: Sequence[str]) -> bool:
    if work in _PARTITIONS:
        wanted, topics = _PARTITIONS[work], admin.list_topics(timeout=TIMEOUT_S).topics
        if not all(name in topics and len(topics[name].partitions) == wanted for name in names):
            return False
    if work not in _CONFIGS:
        return True
    futures = admin.describe_configs([_resource(name) for name in names], request_timeout=TIMEOUT_S)
    return all(future.result()["retention.ms"].value == _CONFIGS[work] for future in futures.values())


def _resource(name: str, **more: Any) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.TOPIC, name, **more)


if __name__ == "__main__":
    address, wanted, *numbers = sys.argv[1:]
    topics, at_a_time, reads = map(int, numbers)
    client = AdminClient({"bootstrap.servers": address})
    if reads == COMPARED:
        compare(client, wanted, topics)
    ask(client, wanted, topics, at_a_time)
    if reads:
        read_back(client, wanted, topics)
