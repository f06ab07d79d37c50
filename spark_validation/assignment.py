"""What each member of a consumer group gets of one topic.

Only this topic is looked at, in a group whose members all subscribe to it and have no partitions yet. With
more topics, or after members came and went, an assignor may give other partitions to other members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_validation.results import GroupResult, MemberShare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Group:
    """A declared group that reads the topic.

    Attributes:
        name: The group.
        assignor: The short name of its assignor: one of ASSIGNORS.
        members: How many members it is expected to have, at least 1.
    """

    name: str
    assignor: str
    members: int


def _runs(partitions: int, members: int) -> list[range]:
    """Neighbouring partitions together; the first members have one more where it does not come out even."""
    size, more = divmod(partitions, members)
    starts = [member * size + min(member, more) for member in range(members + 1)]
    return [range(starts[member], starts[member + 1]) for member in range(members)]


def _turns(partitions: int, members: int) -> list[range]:
    """One partition after the other to one member after the other."""
    return [range(member, partitions, members) for member in range(members)]


ASSIGNORS: Mapping[str, Callable[[int, int], list[range]]] = {
    "range": _runs,
    "roundrobin": _turns,
    "sticky": _turns,
    "cooperative-sticky": _turns,
    "uniform": _runs,
}
"""As Kafka's assignors of these names give partitions to a new group; `uniform` is KIP-848's."""


def assign(group: Group, shares: Sequence[float]) -> GroupResult:
    """What the members would get.

    Args:
        group: The group.
        shares: The share of the topic's records of each partition.

    Raises:
        ValueError: The assignor is not known, or the group has no members.
    """
    if group.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise ValueError(f"group {group.name}: assignor {group.assignor!r} is not known ({known})")
    if group.members < 1:
        raise ValueError(f"group {group.name}: it needs at least one member, not {group.members}")
    members = tuple(
        MemberShare(tuple(given), sum(shares[partition] for partition in given))
        for given in ASSIGNORS[group.assignor](len(shares), group.members)
    )
    whole = sum(shares)
    busiest = max(member.share for member in members)
    return GroupResult(
        group.name, group.assignor, members, busiest * group.members / whole if whole > 0 else 0.0
    )
