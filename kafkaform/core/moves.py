"""Options and progress of moving replicas, and replication throttles (KIP-73), as plain data.

A throttle is a rate of a broker and the lists of replicas that it holds for: Kafka holds back only replicas
that are in these lists and out of sync.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from kafkaform.core.disk_space import DISK_RESERVE
from kafkaform.core.units import parse_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


GIB = 1024**3
MOST_PARTITIONS = 1_000
"""The most partitions of a batch."""
LONGEST_LIST = 32_767
"""The most bytes of a topic's list of throttled replicas; controllers refuse a longer config."""


class WhenBusy(StrEnum):
    """What to do about a reassignment that somebody else has started."""

    WAIT = "wait"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """How replicas are moved.

    Attributes:
        throttle: The bytes per second that each broker may send, and may receive, for it; None: no limit.
        batch_partitions: How many partitions are moved at a time.
        batch_bytes: How many bytes are copied at a time; a partition that is larger goes alone.
        timeout_s: How long all moves of an apply may take; None: as long as it takes.
        when_busy: What to do about a reassignment that somebody else has started.
        disk_reserve: The share of each log directory's volume that moves leave free.
    """

    throttle: int | None = 50_000_000
    batch_partitions: int = 50
    batch_bytes: int = 50 * GIB
    timeout_s: float | None = None
    when_busy: WhenBusy = WhenBusy.REFUSE
    disk_reserve: float = DISK_RESERVE


def parse_rate(text: str) -> int | None:
    """Read a rate as bytes per second: `50MB`, `50MB/s`, or `none` (None).

    Raises:
        ValueError: It is not a rate, or it is 0, with which nothing would ever arrive.
    """
    if text.strip() == "none":
        return None
    rate = parse_size(text.strip().removesuffix("/s"))
    if rate == 0:
        raise ValueError("a rate of 0 lets nothing through; write none for no limit")
    return rate


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """How far the moves of an apply have come.

    Attributes:
        batch: The batch under way, from 1 on.
        batches: How many there are.
        partitions_done: Partitions that are where they are to be.
        partitions: All that are to be moved.
        bytes_done: Bytes that are copied, those of partitions under way included.
        bytes_total: Bytes that are to be copied, as far as sizes are known.
        throttle: The bytes per second that each broker may send and receive; None: no limit.
        stalled: Why no progress for a while; empty if something does.
    """

    batch: int
    batches: int
    partitions_done: int
    partitions: int
    bytes_done: int
    bytes_total: int
    throttle: int | None
    stalled: str = ""


class MoveObserver(Protocol):
    """Is told of moves."""

    def moving(self, progress: MoveProgress) -> None:
        """So far they have come; told about once a second."""

    def told(self, line: str) -> None:
        """One line for a person who waits: what is waited for, and what is odd."""


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


def union(several: Iterable[Throttles]) -> Throttles:
    """Add several throttles up; of two rates of a broker, the later one counts."""
    rates: dict[int, Rates] = {}
    replicas: dict[str, ThrottledReplicas] = {}
    for throttles in several:
        for broker, rate in throttles.rates.items():
            known = rates.get(broker, Rates())
            rates[broker] = Rates(
                known.leader if rate.leader is None else rate.leader,
                known.follower if rate.follower is None else rate.follower,
            )
        for topic, held in throttles.replicas.items():
            others = replicas.get(topic, ThrottledReplicas())
            replicas[topic] = ThrottledReplicas(others.leader | held.leader, others.follower | held.follower)
    return Throttles(rates, replicas)
