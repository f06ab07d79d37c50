"""Reading resources of a real cluster: one reader for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkaform.cluster.kafka.topics import TopicReader
from kafkaform.cluster.protocol import none_besides
from kafkaform.core.model import Observation
from kafkaform.resources import kind_order
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.model import ResourceRef


class KindReader(Protocol):
    """Reads the resources of one kind."""

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """See `Cluster.observe`; the references are all to resources of the kind."""

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        """See `Cluster.observe_fields`; likewise."""


class _GroupReader:
    """Reads groups, whole: their offsets come in one answer."""

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """See `KindReader.observe`."""
        from kafkaform.cluster.kafka.group_observer import observe_groups

        return observe_groups(connection, refs, also)

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        """See `KindReader.observe_fields`."""
        return self.observe(connection, fields.keys(), none_besides)


READERS: dict[str, KindReader] = {TopicKind.name: TopicReader(), ConsumerGroupKind.name: _GroupReader()}
"""Who reads the resources of each kind."""


def read(
    connection: Connection,
    refs: Collection[ResourceRef],
    also: Callable[[ResourceRef], bool],
    kinds: Collection[str],
    prefetched: Mapping[str, KindReader],
) -> Observation:
    """Read resources, kind by kind; see `Cluster.observe`.

    Args:
        connection: The cluster's.
        refs: See `Cluster.observe`.
        also: See there.
        kinds: See there.
        prefetched: Readers that have read a part already, in the place of those of their kinds.
    """
    asked: dict[str, set[ResourceRef]] = {kind: set() for kind in kinds}
    for ref in refs:
        asked.setdefault(ref.kind, set()).add(ref)
    readers = {**READERS, **prefetched}
    return _together(
        [readers[kind].observe(connection, asked[kind], also) for kind in sorted(asked, key=kind_order)]
    )


def read_fields(connection: Connection, fields: Mapping[ResourceRef, Collection[str]]) -> Observation:
    """See `Cluster.observe_fields`."""
    asked: dict[str, dict[ResourceRef, Collection[str]]] = {}
    for ref, paths in fields.items():
        asked.setdefault(ref.kind, {})[ref] = paths
    return _together(
        [READERS[kind].observe_fields(connection, asked[kind]) for kind in sorted(asked, key=kind_order)]
    )


def _together(readings: Collection[Observation]) -> Observation:
    return Observation(
        {ref: one for reading in readings for ref, one in reading.resources.items()},
        frozenset().union(*(reading.inventory for reading in readings)),
        {ref: why for reading in readings for ref, why in reading.invisible.items()},
        tuple(note for reading in readings for note in reading.diagnostics),
    )
