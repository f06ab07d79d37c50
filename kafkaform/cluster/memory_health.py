"""The health of a cluster in memory: pure rules of who leads and who is in sync once brokers have stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.health import Health, PartitionState, Quorum, Voter

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.cluster.controller import Topic
    from kafkaform.model import Broker

_CONTROLLERS = (3001, 3002, 3003)
"""Nodes of their own, which no broker takes along when it stops."""


def partition_states(topics: Mapping[str, Topic], stopped: Sequence[int]) -> tuple[PartitionState, ...]:
    """Every partition, in order.

    Args:
        topics: The topics.
        stopped: The brokers that have stopped, in the order in which they did.
    """
    return tuple(
        PartitionState(name, number, leader(replicas, stopped), replicas, _in_sync(replicas, stopped))
        for name, topic in sorted(topics.items())
        for number, replicas in enumerate(topic.replicas)
    )


def leader(replicas: Sequence[int], stopped: Collection[int]) -> int | None:
    """The broker that leads a partition: the first of its replicas that lives, so the preferred one soonest.

    Real brokers give the lead back minutes after a restart only; here it is at once.
    """
    return next((broker for broker in replicas if broker not in stopped), None)


def health_of(
    cluster_id: str,
    topics: Mapping[str, Topic],
    brokers: Sequence[Broker],
    stopped: Sequence[int],
    min_insync_replicas: Mapping[str, int],
) -> Health:
    """What the cluster says of itself: followers that run are in sync, and the controllers always are."""
    alive = tuple(broker for broker in brokers if broker.id not in stopped)
    return Health(
        controller=alive[0].id if alive else None,
        brokers=alive,
        partitions=partition_states(topics, stopped),
        min_insync_replicas=min_insync_replicas,
        quorum=Quorum(_CONTROLLERS[0], tuple(Voter(controller, lag=0) for controller in _CONTROLLERS)),
        cluster_id=cluster_id,
    )


def _in_sync(replicas: Sequence[int], stopped: Sequence[int]) -> tuple[int, ...]:
    alive = tuple(broker for broker in replicas if broker not in stopped)
    # The last one in sync stays so when it stops: nobody else may lead after it.
    return alive or tuple(sorted(replicas, key=stopped.index)[-1:])
