"""The cluster in memory as a session of the command line takes it."""

from __future__ import annotations

from collections.abc import Callable

from kafkaform.core.model import ResourceRef
from tests.support.memory_cluster.memory import MemoryCluster


class Connected(MemoryCluster):
    """As a session takes it: everything is at hand already."""

    def prefetch(self) -> Callable[[ResourceRef], None]:
        return lambda _: None

    def begin_audit(self) -> None:
        pass
