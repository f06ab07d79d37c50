"""Waiting until started nodes really serve requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafkaform.core.errors import DevClusterError
from kafkaform.devcluster import logs, probe, processes
from kafkaform.devcluster.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import psutil

    from kafkaform.devcluster.state import Node

_POLL_S = 0.1
_ANSWER_S = 2.0


def answers(node: Node, cluster_id: str, *, expected: Collection[int]) -> bool:
    """Whether a node answers as a member of this cluster, and sees all the expected brokers in service."""
    try:
        found = probe.membership(HOST, node.port, timeout_s=_ANSWER_S)
    except (OSError, probe.BadAnswer):
        return False
    return found.cluster_id == cluster_id and found.broker_ids.issuperset(expected)


def await_nodes(
    started: Mapping[Node, psutil.Process],
    *,
    cluster_id: str,
    expected: Collection[int],
    log_files: Mapping[Node, Path],
    timeout_s: float,
) -> None:
    """Wait until each node that was started answers and sees all the expected brokers.

    Raises:
        DevClusterError: A node's process ended, or the time is over.
    """
    deadline = time.monotonic() + timeout_s
    waiting = list(started)
    while waiting:
        for node in waiting:
            if processes.has_ended(started[node]):
                log = log_files[node]
                raise DevClusterError(
                    f"node {node.id} ended while it was starting: {logs.last_words(log)}", hint=f"see {log}"
                )
        waiting = [node for node in waiting if not answers(node, cluster_id, expected=expected)]
        if waiting and time.monotonic() > deadline:
            log = log_files[waiting[0]]
            raise DevClusterError(
                f"node {waiting[0].id} did not answer within {timeout_s:g} s: {logs.last_words(log)}",
                hint=f"see {log}",
            )
        if waiting:
            time.sleep(_POLL_S)
