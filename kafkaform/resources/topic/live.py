"""What is known of live topics, how many replicas they have.

What is known of a cluster for topics alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkaform.core.model import KindFacts, Live
from kafkaform.core.moves import Throttles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Assignment, Layout, TopicPartition
    from kafkaform.core.model import (
        Facts,
        FieldChange,
        FieldValue,
        Observed,
        ResourceRef,
    )
    from kafkaform.resources.base import UpdateContext
    from spark_validation.results import TopicResult


NAME = "Topic"
"""The name of the kind."""


@dataclass(frozen=True, slots=True)
class TopicLive(Live):
    """The replicas of a live topic.

    Attributes:
        replicas: Where they are, once nothing is reassigned any more.
        moving: The partitions that a running reassignment moves.
    """

    replicas: Assignment = ()
    moving: frozenset[int] = frozenset()


_UNREAD = TopicLive()


def topic_live(observed: Observed) -> TopicLive:
    """What is known of the replicas of a topic; nothing where they were not read."""
    return observed.live if isinstance(observed.live, TopicLive) else _UNREAD


@dataclass(frozen=True, slots=True)
class TopicFacts(KindFacts):
    """What a plan knows of a cluster for its topics.

    Attributes:
        skew: Measurements of topics; empty without a skew report.
        layout: Where all replicas are; None where nobody asked, as nothing is to be moved.
        placements: Where the replicas of topics are to be, partitions to be added included.
        unplaceable: Topics whose replicas have no place, and why.
        partition_sizes: Bytes of the partitions whose replicas are to be moved, one replica counted.
        throttle: The bytes per second that a broker may send and receive for moves; None: no limit.
        throttles: The replication throttles that are set already, of brokers and of topics to be moved.
        disk_shortages: Topics whose copies do not fit on the disks of a broker, and why.
        disk_doubts: Topics of which that is not known, and why.
    """

    skew: Mapping[ResourceRef, TopicResult] = field(default_factory=dict)
    layout: Layout | None = None
    placements: Mapping[ResourceRef, Assignment] = field(default_factory=dict)
    unplaceable: Mapping[ResourceRef, str] = field(default_factory=dict)
    partition_sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    throttle: int | None = None
    throttles: Throttles = field(default_factory=Throttles)
    disk_shortages: Mapping[str, str] = field(default_factory=dict)
    disk_doubts: Mapping[str, str] = field(default_factory=dict)

    def beside(self, facts: Facts) -> Facts:
        """These with all else that is known of the cluster."""
        return replace(facts, of_kinds={**facts.of_kinds, NAME: self})


_UNKNOWN = TopicFacts()


def topic_facts(facts: Facts) -> TopicFacts:
    """What is known of the cluster for its topics."""
    found = facts.of_kinds.get(NAME)
    return found if isinstance(found, TopicFacts) else _UNKNOWN


REPLICATION_FACTOR = "replicationFactor"
MIN_ISR = "config.min.insync.replicas"


def is_on_the_way(field: FieldChange, value: FieldValue) -> bool:
    """Whether partitions differ within what the change goes from and to."""
    # A plan is read from a file, where anything may stand.
    if not isinstance(value, str) or not all(map(_is_count, (value, field.before, field.after))):
        return False
    fewest, most = bounds(value)
    ends = (*bounds(field.before), *bounds(field.after))
    return min(ends) <= fewest and most <= max(ends)


def deferred_min_isr(context: UpdateContext) -> str | None:
    """Why min.insync.replicas waits for replicas that nobody is going to add; None if it does not."""
    present, wanted = context.before.get(REPLICATION_FACTOR), context.after.get(MIN_ISR)
    if wanted is None or present is None or context.after.get(REPLICATION_FACTOR) == present:
        return None
    fewest, _ = bounds(present)
    if int(wanted) > fewest:
        return f"waits for the replication factor: a partition has {fewest} of them now"
    return None


def _is_count(value: FieldValue) -> bool:
    return re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9})?", str(value)) is not None


def bounds(value: FieldValue) -> tuple[int, int]:
    """The fewest and the most replicas that a partition has."""
    fewest, _, most = str(value).partition("-")
    return int(fewest), int(most or fewest)
