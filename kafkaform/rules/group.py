"""Rules about the members of a group, and the partitions that they share."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from kafkaform.core import kafka_configs
from kafkaform.core.model import Severity
from kafkaform.core.wording import counted, setting
from kafkaform.rules.catalogue import Finding
from kafkaform.rules.group_values import CLASSIC, CONSUMER, DeclaredGroup, group_rule, human

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_INSTANCE = "group.instance.id"
_WAIT = "fetch.max.wait.ms"
_DEALT = frozenset({CLASSIC, CONSUMER})
"""The protocols in which each partition belongs to one member, and only topics are assigned."""
_PLACEHOLDER = frozenset("{<%$")
"""Characters of a placeholder that the application replaces for each member."""

# Well below request.timeout.ms (30 s by default), after which a client considers the broker dead.
_MAX_WAIT_S = 10

IDLE_REQUESTS = 500
"""The number of empty fetch requests a second from which KF207 reports them."""


@group_rule("KF201", Severity.WARNING)
def more_members_than_partitions(group: DeclaredGroup) -> Iterator[Finding]:
    """A group has more members than partitions.

    One member reads a partition, so the other members are idle. Add partitions, or run fewer members; for
    hot spares, waive the rule. Share groups and Kafka Streams are not reported.
    """
    capacity = _find_capacity(group)
    for field, many in (("expected", "{} expected members"), ("max", "at most {} members")):
        members = group.amount("members", field)
        if capacity is not None and members is not None and members > capacity:
            idle = members - capacity
            yield Finding(
                f"{many.format(members)}, {_describe_capacity(group, capacity)}: "
                f"{idle} {'is' if idle == 1 else 'are'} idle",
                f"use at most {capacity}, or raise the partitions; waive the rule for hot spares",
                path=f"members.{field}",
            )


@group_rule("KF202", Severity.INFO, "members.expected")
def uneven_shares(group: DeclaredGroup) -> Iterator[Finding]:
    """The expected members do not divide the partitions.

    Some members read more partitions than others, and the group is as slow as those. Choose a number that
    divides the partition count. Share groups and Kafka Streams are not reported.
    """
    members, capacity = group.amount("members", "expected"), _find_capacity(group)
    # KF201 reports members beyond the number of partitions.
    if members is None or capacity is None or group.partitions is None or not 0 < members <= capacity:
        return
    loads = _compute_loads(group.partitions, members, apart=group.ranges)
    most, least = max(loads), min(loads)
    if most != least:
        factor = f"{most / least:.2f}".rstrip("0").rstrip(".")
        yield Finding(
            f"{sum(group.partitions.values())} partitions over {members} members: "
            f"{_get(loads.count(most), most)}, {_get(loads.count(least), least)}: "
            f"up to {factor} times the work of others",
            _even(group, members, capacity),
        )


@group_rule("KF205", Severity.INFO, "members.expected")
def static_membership(group: DeclaredGroup) -> Iterator[Finding]:
    """A group of fixed size has no static members.

    Each restart of a member assigns the partitions anew. With a group.instance.id of its own, a member
    that returns within the session timeout gets them back. Reported if members.expected and members.max
    are equal and at least two, unless all live members are static. An id in the manifest is the same for
    all members, which then fence each other (warning), unless it is completed as in `checkout-{pod}`. If
    the application sets an id, waive the rule.
    """
    members = group.amount("members", "expected")
    # No other member can take the partitions of a single one: its restart always interrupts the group.
    if group.protocol not in _DEALT or members is None or members < 2:
        return
    shared = group.declared_client.get(_INSTANCE)
    if shared is not None:
        if not _PLACEHOLDER & set(shared):
            text = f"{_INSTANCE} is {shared!r} for all of {members} members: each new member fences the "
            hint = "give each member its own id in the application"
            yield Finding(f"{text}previous one", hint, Severity.WARNING, f"client.{_INSTANCE}")
    elif group.amount("members", "max") == members and not _all_static(group):
        yield Finding(
            f"the group always has {members} members, but no {_INSTANCE}: each restart causes two rebalances",
            "set one for each member in the application, such as the name of its pod; "
            "waive the rule where it does",
        )


@group_rule("KF207", Severity.INFO)
def idle_fetches(group: DeclaredGroup) -> Iterator[Finding]:
    """Many members with the default fetch.max.wait.ms send many requests while there are no records.

    Without records, a broker answers a fetch after fetch.max.wait.ms. A longer wait adds no latency while
    fetch.min.bytes is 1. Reported from 500 requests a second on. If records always flow, waive the rule.
    """
    default = int(kafka_configs.consumer_configs()[_WAIT].default or 0)
    members, wait = group.amount("members", "expected"), int(group.client(_WAIT))
    if not members or not 0 < wait <= default:
        return
    is_known, partitions = bool(group.context.brokers), group.partitions
    brokers = group.context.brokers or 1
    if partitions is not None and group.protocol in _DEALT:
        total = sum(partitions.values())
        members = min(members, total)
        # A member with two partitions fetches from two brokers at most.
        brokers = min(brokers, -(-total // members))
    requests = members * brokers * 1000 // wait
    if requests >= IDLE_REQUESTS:
        known = counted(brokers, "broker") if is_known else "1 broker (the broker count is not known)"
        longer = min(_MAX_WAIT_S, members * brokers // IDLE_REQUESTS + 1) * 1000
        yield Finding(
            f"without traffic, {counted(members, 'member')} x {known} ÷ {human(_WAIT, wait)} "
            f"are {requests} fetch requests a second",
            f"write {setting(f'client.{_WAIT}', human(_WAIT, longer))}",
            path=group.client_path(_WAIT, "members.expected"),
        )


def _find_capacity(group: DeclaredGroup) -> int | None:
    """Return the most members that can get a partition; None if unknown, or not limited by partitions."""
    if group.protocol not in _DEALT or group.partitions is None:
        return None
    # The range assignor starts each topic at the same first member, so a member beyond the largest topic gets
    # nothing.
    return (max if group.ranges else sum)(group.partitions.values())


def _describe_capacity(group: DeclaredGroup, capacity: int) -> str:
    """Describe the partitions that limit the number of members."""
    if group.ranges and len(group.topics) > 1:
        return f"{counted(capacity, 'partition')} in the largest topic (range assignor)"
    return counted(capacity, "partition")


def _compute_loads(partitions: Mapping[str, int], members: int, *, apart: bool) -> list[int]:
    """Return the number of partitions of each member; with `apart`, each topic is assigned by itself."""
    counts = partitions.values() if apart else (sum(partitions.values()),)
    return [
        sum(count // members + (member < count % members) for count in counts) for member in range(members)
    ]


def _even(group: DeclaredGroup, members: int, capacity: int) -> str:
    """Suggest numbers of members that share the partitions evenly."""
    counts = group.partitions.values() if group.partitions else ()
    # With the range assignor, the number has to divide the partitions of every topic.
    common = gcd(*counts) if group.ranges else sum(counts)
    dividing = [number for number in range(2, capacity + 1) if common % number == 0]
    near = [number for number in dividing if number < members][-1:]
    near += [number for number in dividing if number > members][:1]
    if not near:
        return f"make the partitions a multiple of {members}"
    return f"use {' or '.join(map(str, near))} members, or make the partitions a multiple of {members}"


def _all_static(group: DeclaredGroup) -> bool:
    """Return whether the group is live and has static members only."""
    live = group.live
    return live is not None and bool(live.members) and all(m.instance_id is not None for m in live.members)


def _get(members: int, partitions: int) -> str:
    return f"{members} {'gets' if members == 1 else 'get'} {partitions}"
