"""Reading resources of a real cluster: one reader for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkaform.cluster.kafka.acls import AccessReader
from kafkaform.cluster.kafka.client_quotas import QuotaReader
from kafkaform.cluster.kafka.topics import TopicReader
from kafkaform.cluster.kafka.users import UserReader
from kafkaform.cluster.protocol import none_besides
from kafkaform.core.model import Observation, ResourceRef, State, merge_observations
from kafkaform.resources import kind_order
from kafkaform.resources.access import AccessKind
from kafkaform.resources.client_quota import ClientQuotaKind
from kafkaform.resources.consumer_group import ConsumerGroupKind
from kafkaform.resources.topic import TopicKind
from kafkaform.resources.user import UserKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kafkaform.cluster.transport.connection import Connection


class KindReader(Protocol):
    """Reads the resources of one kind."""

    def observe(
        self, connection: Connection, refs: Mapping[ResourceRef, State], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        """Read resources as `Cluster.observe` does; all references are of this kind, with declared values."""

    def observe_fields(self, connection: Connection, fields: Mapping[ResourceRef, State]) -> Observation:
        """Read fields as `Cluster.observe_fields` does; all references are of this kind."""


class _GroupReader:
    """Reads whole groups: one response has all of their offsets."""

    def observe(
        self, connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
    ) -> Observation:
        from kafkaform.cluster.kafka.groups import observe_groups  # imports many messages

        return observe_groups(connection, refs, also)

    def observe_fields(
        self, connection: Connection, fields: Mapping[ResourceRef, Collection[str]]
    ) -> Observation:
        return self.observe(connection, fields.keys(), none_besides)


READERS: dict[str, KindReader] = {
    TopicKind.name: TopicReader(),
    ConsumerGroupKind.name: _GroupReader(),
    ClientQuotaKind.name: QuotaReader(),
    UserKind.name: UserReader(),
    AccessKind.name: AccessReader(),
}
"""The readers of each kind."""


def read(
    connection: Connection,
    refs: Mapping[ResourceRef, State],
    also: Callable[[ResourceRef], bool],
    kinds: Collection[str],
    prefetched: Mapping[str, KindReader],
) -> Observation:
    """Read resources kind by kind, as `Cluster.observe` does.

    Args:
        refs: The resources to read, whether they exist or not, with their declared values.
        also: Selects other visible resources to read.
        kinds: Kinds whose inventory is read in any case.
        prefetched: Readers by kind to use instead of the usual ones.
    """
    # Kinds without resources are not asked for: groups and quotas need rights that an account for topics may
    # lack.
    by_kind: dict[str, dict[ResourceRef, State]] = {kind: {} for kind in kinds}
    for ref, state in refs.items():
        by_kind.setdefault(ref.kind, {})[ref] = state
    readers = {**READERS, **prefetched}
    return merge_observations(
        [readers[kind].observe(connection, by_kind[kind], also) for kind in sorted(by_kind, key=kind_order)]
    )


def read_fields(connection: Connection, fields: Mapping[ResourceRef, State]) -> Observation:
    """Read fields kind by kind, as `Cluster.observe_fields` does."""
    by_kind: dict[str, dict[ResourceRef, State]] = {}
    for ref, state in fields.items():
        by_kind.setdefault(ref.kind, {})[ref] = state
    return merge_observations(
        [READERS[kind].observe_fields(connection, by_kind[kind]) for kind in sorted(by_kind, key=kind_order)]
    )
