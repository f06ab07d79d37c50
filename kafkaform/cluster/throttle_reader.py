"""Reading the replication throttles of a real cluster: dynamic configs of brokers and topics.

A broker tells of its own rates alone, so nobody tells of those of one that is down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster import wire
from kafkaform.cluster.api import READ_TIMEOUT_S
from kafkaform.cluster.controlled import retried, with_hint
from kafkaform.cluster.reader import topic_source
from kafkaform.cluster.translation import one_line, translate_code
from kafkaform.core.errors import ClusterError
from kafkaform.core.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Rates,
    ThrottledReplicas,
    Throttles,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.connection import Connection
    from kafkaform.cluster.wire import DescribedConfigs

BROKER = 4
"""What Kafka's protocol calls the configs of a broker (ConfigResource.Type)."""


def read_throttles(connection: Connection, topics: Collection[str]) -> Throttles:
    """See `Cluster.throttles`."""
    rates = read_rates(connection)
    for error in rates.values():
        if isinstance(error, ClusterError):
            raise error
    lists = {
        name: ThrottledReplicas(entries(own, LEADER_REPLICAS), entries(own, FOLLOWER_REPLICAS))
        for name, own in read_lists(connection, topics).items()
    }
    return Throttles(
        {broker: one for broker, one in rates.items() if isinstance(one, Rates) and one != Rates()},
        {name: one for name, one in lists.items() if one != ThrottledReplicas()},
    )


def read_rates(
    connection: Connection, brokers: Collection[int] | None = None
) -> dict[int, Rates | ClusterError]:
    """The rates of live brokers, as they were set dynamically for each alone, or why it does not tell.

    Args:
        connection: The cluster.
        brokers: Which; those that are down are left out. None: all.
    """
    answers = retried(lambda: _told(connection))
    return {broker: one for broker, one in answers.items() if brokers is None or broker in brokers}


def _told(connection: Connection) -> dict[int, Rates | ClusterError]:
    (addresses,) = connection.ask(wire.ADDRESSES, [wire.metadata_of_no_topic()])
    brokers = sorted(addresses)
    body = wire.describe_configs_of_brokers(brokers, [LEADER_RATE, FOLLOWER_RATE])
    answers = connection.ask_each(wire.BROKER_CONFIGS, body, READ_TIMEOUT_S)
    # One that has come up meanwhile was not asked about itself.
    return {broker: _own_rates(broker, answer) for broker, answer in answers.items() if broker in brokers}


def _own_rates(broker: int, answer: Sequence[DescribedConfigs] | ClusterError) -> Rates | ClusterError:
    """What a broker says of itself; asked about others, it refuses."""
    if isinstance(answer, ClusterError):
        return answer
    result = next((one for one in answer if one.name == str(broker)), None)
    if result is None:
        return ClusterError(f"broker {broker} tells of others' configs, not of its own")
    if result.error_code:
        error = translate_code(result.error_code, one_line(result.message))
        return with_hint(error, "grant DescribeConfigs on the cluster")
    try:
        own = {name: int(value) for name, value in result.configs.own.items() if value is not None}
    except ValueError as error:
        return ClusterError(f"broker {broker} tells a rate that is no number: {one_line(str(error))}")
    return Rates(own.get(LEADER_RATE), own.get(FOLLOWER_RATE))


def read_lists(connection: Connection, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """The lists of throttled replicas by topic and config, as they are set; others have none."""
    if not topics:
        return {}
    source = topic_source(connection)
    answers = retried(lambda: source.configs(sorted(topics)))
    for error in answers.denied.values():
        raise with_hint(error, "grant DescribeConfigs on the topics whose replicas are throttled")
    lists = {
        name: {
            key: configs.own[key] or "" for key in (LEADER_REPLICAS, FOLLOWER_REPLICAS) if key in configs.own
        }
        for name, configs in answers.found.items()
    }
    return {name: own for name, own in lists.items() if own}


def entries(own: Mapping[str, str], config: str) -> frozenset[str]:
    """The entries of a list."""
    return frozenset(filter(None, (entry.strip() for entry in own.get(config, "").split(","))))
