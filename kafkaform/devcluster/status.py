"""What can be said about a development cluster at a moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Health(StrEnum):
    """The state of a cluster as a whole."""

    RUNNING = "running"
    UNRESPONSIVE = "unresponsive"
    PARTIAL = "partial"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node; `pid` is None when it has no process, and `answers` is whether it serves requests."""

    id: int
    address: str
    rack: str
    pid: int | None
    answers: bool
    log: Path


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All nodes of a cluster, and how they are together."""

    cluster_id: str
    bootstrap_servers: str
    nodes: tuple[NodeStatus, ...]

    @property
    def health(self) -> Health:
        """Running only if every node has a process and answers."""
        alive = [node for node in self.nodes if node.pid is not None]
        if not alive:
            return Health.STOPPED
        if len(alive) < len(self.nodes):
            return Health.PARTIAL
        return Health.RUNNING if all(node.answers for node in alive) else Health.UNRESPONSIVE
