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

    def by_config(self) -> dict[str, int]:
        """The rates that are set, by the config that holds each."""
        named = {LEADER_RATE: self.leader, FOLLOWER_RATE: self.follower}
        return {config: rate for config, rate in named.items() if rate is not None}


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """The throttled replicas of one topic, each as Kafka writes it: `PARTITION:BROKER`, or `*` for all."""

    leader: frozenset[str] = frozenset()
    follower: frozenset[str] = frozenset()

    def by_config(self) -> dict[str, frozenset[str]]:
        """The entries of both lists, by the config that holds each."""
        return {LEADER_REPLICAS: self.leader, FOLLOWER_REPLICAS: self.follower}


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
