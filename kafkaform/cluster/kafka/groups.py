"""Reading groups from a real cluster, with the offsets that they have committed, and their configs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.cluster.kafka import coordinators
from kafkaform.cluster.kafka.group_description import describe_groups
from kafkaform.cluster.kafka.group_listing import ListedGroup, list_groups, list_groups_with_configs
from kafkaform.cluster.kafka.log_spans import query_leaders, require_spans
from kafkaform.cluster.kafka.responses import GroupResponses, is_missing, retry_until_ready
from kafkaform.cluster.kafka.topic_sources import describe_topics
from kafkaform.cluster.transport.rights import name_right
from kafkaform.cluster.transport.translation import translate_code
from kafkaform.cluster.wire.error_codes import ErrorCode
from kafkaform.cluster.wire.large_responses import GROUP_CONFIGS, Configs
from kafkaform.core.errors import ClusterError, PermissionDenied
from kafkaform.core.model import CONFIG_PREFIX, Diagnostic, Observation, Observed, ResourceRef, Severity
from kafkaform.core.values import replace
from kafkaform.core.wording import listed
from kafkaform.resources import group_ref
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.groups import Group, GroupReading, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from kafkaform.cluster.transport.connection import Connection
    from kafkaform.core.partitions import TopicPartition


def read_committed_offsets(
    connection: Connection, protocols: Mapping[str, str]
) -> GroupResponses[dict[TopicPartition, int]]:
    """Read the committed offsets of groups, and the start offsets of share groups.

    Args:
        protocols: The protocol of each group, by name.
    """
    share_groups = [name for name, protocol in protocols.items() if protocol == "share"]
    other_groups = [name for name in protocols if protocols[name] != "share"]
    responses = retry_until_ready(other_groups, lambda names: coordinators.read_committed(connection, names))
    responses.update(
        retry_until_ready(share_groups, lambda names: coordinators.read_starts(connection, names))
    )
    return responses


_MAX_REASONS = 2


def read_groups(connection: Connection, names: Collection[str] | None) -> GroupReading:
    """Read groups with their offsets and lag, as `Cluster.groups` does."""
    listing = list_groups(connection)
    reading = read_committed(connection, listing, listing if names is None else names)
    partitions = {(p.topic, p.partition) for group in reading.groups.values() for p in group.positions}
    logs = query_leaders(connection, partitions, None)
    spans = require_spans(logs)

    def add_span(position: Position) -> Position:
        span = spans.get((position.topic, position.partition))
        return position if span is None else replace(position, start=span.start, end=span.end)

    groups = {}
    for name, group in reading.groups.items():
        positions = tuple(map(add_span, group.positions))
        failures = [logs.failed[p.topic, p.partition].error.message for p in positions if p.end is None]
        unread = [group.unread] if group.unread else []
        if failures:
            unread.append(
                f"no log offsets: {listed([*dict.fromkeys(failures)], _MAX_REASONS, noun='partition')}"
            )
        groups[name] = replace(group, positions=positions, unread="; ".join(unread))
    return GroupReading(groups, reading.denied)


def read_committed(
    connection: Connection, listing: Mapping[str, ListedGroup], names: Collection[str]
) -> GroupReading:
    """Read groups with their committed offsets, but not the offsets of the logs.

    Args:
        listing: The groups that exist.
        names: The groups to read.

    Raises:
        ClusterError: It is not known whether one of them exists.
    """
    reading, failed = read_each_committed(connection, listing, names)
    for error in failed.values():
        raise error
    return reading


def read_each_committed(
    connection: Connection, listing: Mapping[str, ListedGroup], names: Collection[str]
) -> tuple[GroupReading, dict[str, ClusterError]]:
    """Read as `read_committed` does, but return errors by group instead of raising them."""
    requested = {name: listing[name] for name in names if name in listing}
    unlisted = [name for name in names if name not in listing]
    # Without the topic that stores groups there are none, and FindCoordinator would create it.
    if unlisted and not describe_topics(connection, [coordinators.OFFSETS_TOPIC]).missing:
        # Missing or hidden: only a request that names the group gets a response that distinguishes the two.
        requested |= dict.fromkeys(unlisted, ListedGroup())
    described = describe_groups(connection, requested)
    offsets = read_committed_offsets(
        connection, {name: group.protocol for name, group in described.found.items()}
    )
    groups = {
        name: _add_offsets(group, requested[name], offsets.found.get(name, {}), offsets.failed.get(name))
        for name, group in described.found.items()
    }
    denied: dict[str, str] = {}
    failed: dict[str, ClusterError] = {}
    for name, error in described.failed.items():
        listed = listing.get(name)
        if is_missing(error):
            continue
        if isinstance(error, PermissionDenied):
            denied[name] = error.message
        elif listed is not None:
            # It is listed, so that it exists: left out, it would look deleted.
            groups[name] = _make_undescribed(name, listed, error)
        else:
            failed[name] = error
    return GroupReading(groups, denied), failed


def _add_offsets(
    group: Group, listed: ListedGroup, committed: Mapping[TopicPartition, int], failure: ClusterError | None
) -> Group:
    assigned = {partition for member in group.members for partition in member.assignment}
    positions = tuple(
        Position(topic, partition, committed.get((topic, partition)))
        for topic, partition in sorted({*assigned, *committed})
    )
    return replace(
        group,
        protocol_type=listed.protocol_type or group.protocol_type,
        positions=positions,
        # An error is part of the reading: no offsets and unknown offsets lead to different plans.
        unread=f"no committed offsets: {failure.message}" if failure else "",
        # A group gets its protocol type from its first member, and keeps it after all have left.
        never_joined=(listed.protocol, listed.protocol_type) == ("classic", "")
        and (group.protocol, group.state) == ("classic", "Empty"),
    )


def _make_undescribed(name: str, listed: ListedGroup, error: ClusterError) -> Group:
    return Group(
        name,
        listed.protocol or "classic",
        listed.state,
        listed.protocol_type,
        unread=f"neither members nor offsets: {error.message}",
    )


CHUNK = 2_000
"""The most groups in one request for configs."""

_WITHOUT_GROUP_CONFIGS = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION})
"""The codes of brokers without group configs, before Kafka 3.8."""


def observe_groups(
    connection: Connection, refs: Collection[ResourceRef], also: Callable[[ResourceRef], bool]
) -> Observation:
    """Read groups, as `Cluster.observe` does."""
    listing = list_groups(connection)
    configured, unlisted = list_groups_with_configs(connection)
    # A group that was deleted keeps its configs, and is listed among the configs alone.
    inventory = frozenset(map(group_ref, {*listing, *configured}))
    wanted = {*refs}
    names = sorted(ref.name for ref in wanted | {ref for ref in inventory - wanted if also(ref)})

    reading = read_committed(connection, listing, names)
    configs = _read_configs(connection, names)
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
        group, group_configs = reading.groups.get(name), configs.found[name]
        # Brokers describe the configs of any name: without configs of its own, nothing shows that the group
        # exists.
        if group is None and not group_configs.own:
            continue
        effective = {CONFIG_PREFIX + config: value for config, value in group_configs.effective.items()}
        ref = group_ref(name)
        resources[ref] = Observed(ref, None, observed_state(group, group_configs.own), effective, live=group)
    return Observation(
        resources,
        inventory | resources.keys(),
        {group_ref(name): why for name, why in invisible.items()},
        (Diagnostic("KF421", Severity.INFO, f"some groups may be missing: {unlisted}"),) if unlisted else (),
    )


def _read_configs(connection: Connection, names: Sequence[str]) -> GroupResponses[Configs]:
    responses: GroupResponses[Configs] = GroupResponses()
    requests = [dict.fromkeys(names[start : start + CHUNK]) for start in range(0, len(names), CHUNK)]
    for response in connection.send(GROUP_CONFIGS, requests):
        for group in response:
            if not group.error_code or group.error_code in _WITHOUT_GROUP_CONFIGS:
                responses.found[group.name] = group.configs
            else:
                error = translate_code(group.error_code, group.message)
                responses.failed[group.name] = name_right(error, GROUP_CONFIGS.name, group.name)
    return responses
