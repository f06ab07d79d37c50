"""Which nodes a cluster gets, and on which ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster.ports import consecutive_ports, free_ports, is_free
from kafkaform.devcluster.state import Node

if TYPE_CHECKING:
    from kafkaform.devcluster.state import ClusterState


def place(
    kept: ClusterState | None, *, brokers: int | None, port: int | None, sasl: bool
) -> tuple[Node, ...]:
    """The nodes of a start.

    Args:
        kept: What the directory holds from before.
        brokers: How many nodes; None for as many as before, or one.
        port: Of the first plaintext listener; None for the ports of before if they are free, else any.
        sasl: Whether each node needs a port for SASL too.

    Raises:
        DevClusterError: The number of nodes does not fit the data, or a port is taken.
    """
    before = kept.nodes if kept else ()
    count = brokers or len(before) or 1
    if before and count != len(before):
        raise DevClusterError(
            f"the data there is of a cluster of {len(before)}, and cannot be used by {count}",
            hint=f"use --brokers {len(before)}, another --data, or first `kafkaform dev down --wipe`",
        )
    if port is not None:
        clients = consecutive_ports(port, count)
    elif before and all(is_free(node.port) for node in before):
        clients = tuple(node.port for node in before)
    else:
        clients = free_ports(count)
    others = free_ports(2 * count, avoid=frozenset(clients))
    return tuple(
        Node(
            id=index + 1,
            port=clients[index],
            controller_port=others[index],
            sasl_port=others[count + index] if sasl else None,
        )
        for index in range(count)
    )
