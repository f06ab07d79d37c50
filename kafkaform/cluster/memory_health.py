"""The health of a cluster in memory: pure rules of who leads and who is in sync once brokers have stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.health import Health, Quorum, Voter
from kafkaform.core.layout import PartitionState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Broker, Replicas

_CONTROLLERS = (3001, 3002, 3003)
"""Nodes of their own, which no broker takes along when it stops."""


def partition_state(
    partition: TopicPartition,
    replicas: Replicas,
    stopped: Sequence[int],
    *,
    behind: Collection[int] = (),
    led: int | None = None,
) -> PartitionState:
    """Who leads a partition, and who is in sync.

    The first of its replicas that lives and is in sync leads, so the preferred one soonest, unless another
    one keeps the lead. Real brokers give the lead back minutes after a restart only; here it is at once.

    Args:
        partition: Which.
        replicas: The brokers that hold it.
        stopped: The brokers that have stopped, in the order in which they did.
        behind: New replicas that are not full yet.
        led: The broker that leads it as long as it can; None for the preferred one.
    """
    full = [broker for broker in replicas if broker not in behind]
    alive = tuple(broker for broker in full if broker not in stopped)
    leader = led if led in alive else next(iter(alive), None)
    # The last one in sync stays so when it stops: nobody else may lead after it.
    return PartitionState(*partition, leader, replicas, alive or tuple(sorted(full, key=stopped.index)[-1:]))


def health_of(
    cluster_id: str,
    partitions: tuple[PartitionState, ...],
    alive: tuple[Broker, ...],
    min_insync_replicas: Mapping[str, int],
    reassigning: Mapping[TopicPartition, tuple[int, ...]],
) -> Health:
    """What the cluster says of itself; the controllers are always in sync."""
    return Health(
        controller=alive[0].id if alive else None,
        brokers=alive,
        partitions=partitions,
        min_insync_replicas=min_insync_replicas,
        quorum=Quorum(_CONTROLLERS[0], tuple(Voter(controller, lag=0) for controller in _CONTROLLERS)),
        reassigning=reassigning,
        cluster_id=cluster_id,
    )
