"""Replication throttles as plain data: rates of brokers, and the replicas that they hold for (KIP-73).

Kafka holds back only replicas that are in these lists and out of sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"

ALL = "*"
"""The entry that stands for all replicas of a topic, alone in its list."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The dynamic rates of one broker, in bytes per second; None is unset."""

    leader: int | None = None
    follower: int | None = None


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The throttled replicas of one topic, each as Kafka writes it: `PARTITION:BROKER`, or `*` for all."""

    leader: frozenset[str] = frozenset()
    follower: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Throttles:
    """What is throttled.

    Attributes:
        rates: By broker id; brokers without any are not in it.
        replicas: By topic; topics without any are not in it.
    """

    rates: Mapping[int, Rates] = field(default_factory=dict)
    replicas: Mapping[str, ThrottledReplicas] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.rates or self.replicas)
