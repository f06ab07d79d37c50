"""Reading the health of a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.cluster.connection import Connection
    from kafkaform.health import Health


def read_health(connection: Connection) -> Health:
    """See `Cluster.health`."""
    raise NotImplementedError(connection)
