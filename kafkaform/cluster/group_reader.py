"""Reading groups from a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkaform.cluster.connection import Connection
    from kafkaform.groups import GroupReading


def read_groups(connection: Connection, names: Collection[str] | None) -> GroupReading:
    """See `Cluster.groups`."""
    raise NotImplementedError(connection, names)
