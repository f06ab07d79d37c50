"""Reading resources of a real cluster: one reader for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka.admin import ConfigResource

from kafkaform.cluster.kafka.answers import Configs, GroupAnswers, gathered
from kafkaform.cluster.kafka.group_listing import groups_with_configs, list_groups
from kafkaform.cluster.kafka.groups import read_committed
from kafkaform.cluster.kafka.topics import TopicReader
from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.transport.broker_socket import READ_TIMEOUT_S
from kafkaform.cluster.transport.rights import name_right
from kafkaform.core.errors import PermissionDenied, RequestRejected
from kafkaform.core.groups import observed_state
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Diagnostic,
    Observation,
    Observed,
    ResourceRef,
    Severity,
)
from kafkaform.resources import kind_order
from kafkaform.resources.consumer_group import ConsumerGroupKind, group_ref
from kafkaform.resources.topic import TopicKind

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Mapping,
        Sequence,
    )

    from confluent_kafka.admin import ConfigEntry

    from kafkaform.cluster.transport.connection import Connection


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


CHUNK = 2_000
"""How many groups one request asks for the configs of."""

_DYNAMIC_GROUP_CONFIG = 8
"""The source of a config that is the group's own (DescribeConfigsResponse.ConfigSource)."""
_WITHOUT_GROUP_CONFIGS = frozenset({"INVALID_REQUEST", "UNSUPPORTED_VERSION"})
"""How brokers answer that have no group configs, those before Kafka 3.8."""


def observe_groups(
    connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
) -> Observation:
    """Read groups; see `Cluster.observe`."""
    listing = list_groups(connection)
    configured, unlisted = groups_with_configs(connection)
    inventory = frozenset(map(group_ref, {*listing.groups, *configured}))
    wanted = {*refs}
    names = sorted(ref.name for ref in wanted | {ref for ref in inventory - wanted if also(ref)})

    reading = read_committed(connection, listing, names)
    configs = _configs(connection, names)
    invisible = dict(reading.denied)
    resources = {}
    for name in names:
        failure = configs.failed.get(name)
        if isinstance(failure, PermissionDenied):
            invisible.setdefault(name, failure.message)
        elif failure is not None:
            raise failure
        if name in invisible:
            continue
        group, found = reading.groups.get(name), configs.found[name]
        if group is None and not found.own:
            continue
        effective = {CONFIG_PREFIX + config: value for config, value in found.effective.items()}
        ref = group_ref(name)
        resources[ref] = Observed(ref, None, observed_state(group, found.own), effective, live=group)
    return Observation(
        resources,
        inventory | resources.keys(),
        {group_ref(name): why for name, why in invisible.items()},
        tuple(_partial(why) for why in (listing.unread, unlisted) if why),
    )


def _partial(why: str) -> Diagnostic:
    return Diagnostic("KF421", Severity.INFO, f"not every group may be known: {why}")


def _configs(connection: Connection, names: Sequence[str]) -> GroupAnswers[Configs]:
    answers: GroupAnswers[Configs] = GroupAnswers()
    for start in range(0, len(names), CHUNK):
        asked = [ConfigResource(ConfigResource.Type.GROUP, name) for name in names[start : start + CHUNK]]
        futures = connection.reached.describe_configs(asked, request_timeout=READ_TIMEOUT_S)
        answers.update(gathered({resource.name: future for resource, future in futures.items()}, _told))
    for name, error in list(answers.failed.items()):
        answers.failed[name] = name_right(error, "DescribeConfigs", name)
        if isinstance(error, RequestRejected) and error.code in _WITHOUT_GROUP_CONFIGS:
            del answers.failed[name]
            answers.found[name] = Configs({}, {})
    return answers


def _told(entries: Mapping[str, ConfigEntry]) -> Configs:
    own: Any = _DYNAMIC_GROUP_CONFIG  # the client's enum lacks it, and the client gives numbers
    return Configs(
        {name: entry.value for name, entry in entries.items() if entry.source == own},
        {name: entry.value for name, entry in entries.items()},
    )
