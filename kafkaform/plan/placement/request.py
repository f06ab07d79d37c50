"""What is asked of the placement of topics, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkaform.core.layout import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.layout import Assignment


@dataclass(frozen=True, slots=True)
class Want:
    """What one topic is to be like.

    Attributes:
        topic: Its name; one that is not in the layout is new.
        partitions: How many it has afterwards.
        replication_factor: How many replicas each of them has afterwards.
        strategy: How they are placed.
        static: With STATIC, the replicas of every partition.
    """

    topic: str
    partitions: int
    replication_factor: int
    strategy: Strategy = Strategy.BALANCED
    static: Assignment = ()


@dataclass(frozen=True, slots=True)
class Placements:
    """Where replicas are to be.

    Attributes:
        assignments: Every partition of a topic, those that stay as they are included.
        refused: Topics that have no place, and why; nothing of them is placed.
    """

    assignments: Mapping[str, Assignment] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
