"""Reading the replication throttles of a real cluster: dynamic configs of brokers and topics.

A broker tells of its own rates alone, so nobody tells of those of one that is down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkaform.cluster.connection import READ_TIMEOUT_S
from kafkaform.cluster.controlled import ask_each, refusal, retried, with_hint
from kafkaform.cluster.reader import topic_source
from kafkaform.errors import ClusterError
from kafkaform.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    Rates,
    ThrottledReplicas,
    Throttles,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkaform.cluster.connection import Connection

BROKER = 4
"""What Kafka's protocol calls the configs of a broker (ConfigResource.Type)."""

_DYNAMIC_BROKER_CONFIG = 2
"""The source of a config that was set for one broker while it ran (DescribeConfigsResponse.ConfigSource)."""


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
    from kafka.protocol.admin import DescribeConfigsRequest

    def request(broker: int) -> Any:
        if brokers is not None and broker not in brokers:
            return None
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=BROKER,
            resource_name=str(broker),
            configuration_keys=[LEADER_RATE, FOLLOWER_RATE],
        )
        return DescribeConfigsRequest(
            resources=[resource], include_synonyms=False, include_documentation=False
        )

    answers = ask_each(connection, request, READ_TIMEOUT_S)
    return {broker: _own_rates(answer) for broker, answer in answers.items()}


def _own_rates(answer: Any) -> Rates | ClusterError:
    if isinstance(answer, ClusterError):
        return answer
    (result,) = answer.results
    if result.error_code:
        return with_hint(refusal(result), "grant DescribeConfigs on the cluster")
    own = {c.name: int(c.value) for c in result.configs if c.config_source == _DYNAMIC_BROKER_CONFIG}
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
