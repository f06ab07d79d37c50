"""Options and progress of moving replicas, and replication throttles (KIP-73), as plain data.

A throttle is a rate of a broker and the lists of replicas that it holds for: Kafka holds back only replicas
that are in these lists and out of sync.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from kafkaform.core.units import parse_size
from kafkaform.core.values import Value, field
from kafkaform.resources.replicas.disk_space import DISK_RESERVE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


GIB = 1024**3
# Controllers refuse a longer config: they did so for lists with long numbers of partitions or brokers.
MAX_THROTTLE_LIST_BYTES = 32_767
"""The most bytes of a topic's list of throttled replicas."""

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
# Kafka accepts it as the whole list only, not beside other entries.
ALL = "*"
"""The entry for all replicas of a topic."""


class WhenBusy(StrEnum):
    """The reaction to a reassignment that another process has started."""

    WAIT = "wait"
    REFUSE = "refuse"


class MoveOptions(Value):
    """The options of moving replicas.

    Attributes:
        throttle: The bytes per second that each broker may send, and may receive, for moves; None: no limit.
        batch_partitions: The most partitions that are moved at a time.
        batch_bytes: The most bytes that are copied at a time; a larger partition is moved alone.
        timeout_s: The most seconds for all moves of an apply; None: no limit.
        when_busy: The reaction to a reassignment that another process has started.
        disk_reserve: The share of each log directory's volume that moves leave free.
    """

    throttle: int | None = 50_000_000
    batch_partitions: int = 50
    batch_bytes: int = 50 * GIB
    timeout_s: float | None = None
    when_busy: WhenBusy = WhenBusy.REFUSE
    disk_reserve: float = DISK_RESERVE


def parse_rate(text: str) -> int | None:
    """Parse a rate into bytes per second: `50MB`, `50MB/s`, or `none` (None).

    Raises:
        ValueError: It is not a rate, or it is 0, with which moves would never end.
    """
    if text.strip() == "none":
        return None
    rate = parse_size(text.strip().removesuffix("/s"))
    # Kafka accepts it, and copies nothing.
    if rate == 0:
        raise ValueError("a rate of 0 lets nothing through; write none for no limit")
    return rate


class MoveProgress(Value):
    """The progress of the moves of an apply.

    Attributes:
        batch: The number of the current batch, from 1 on.
        batches: The number of batches.
        partitions_done: The number of partitions that have been moved.
        partitions: The number of partitions to move.
        bytes_done: The bytes copied so far, including those of the current batch.
        bytes_total: The bytes to copy, as far as sizes are known.
        throttle: The bytes per second that each broker may send and receive; None: no limit.
        stalled: The reason why there has been no progress for a while; empty if there is.
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
    """Receives the progress of moves."""

    def moving(self, progress: MoveProgress) -> None:
        """Take the progress, about once a second."""

    def show_line(self, line: str) -> None:
        """Take a line for a waiting user, such as a reason for waiting."""


class Rates(Value):
    """The dynamic throttle rates of one broker, in bytes per second; None is unset."""

    leader: int | None = None
    follower: int | None = None

    def to_configs(self) -> dict[str, int]:
        """Return the rates that are set, by the config that holds each."""
        rates = {LEADER_RATE: self.leader, FOLLOWER_RATE: self.follower}
        return {config: rate for config, rate in rates.items() if rate is not None}


class ThrottledReplicas(Value):
    """The throttled replicas of one topic, each as Kafka writes it: `PARTITION:BROKER`, or `*` for all."""

    leader: frozenset[str] = frozenset()
    follower: frozenset[str] = frozenset()

    def to_configs(self) -> dict[str, frozenset[str]]:
        """Return the entries of both lists, by the config that holds each."""
        return {LEADER_REPLICAS: self.leader, FOLLOWER_REPLICAS: self.follower}


class Throttles(Value):
    """The replication throttles of a cluster.

    Attributes:
        rates: The rates by broker id, without brokers that have none.
        replicas: The throttled replicas by topic, without topics that have none.
    """

    rates: Mapping[int, Rates] = field(default_factory=dict)
    replicas: Mapping[str, ThrottledReplicas] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.rates or self.replicas)


def union(several: Iterable[Throttles]) -> Throttles:
    """Merge throttles; of two rates of a broker, the later one counts."""
    rates: dict[int, Rates] = {}
    replicas: dict[str, ThrottledReplicas] = {}
    for throttles in several:
        for broker, rate in throttles.rates.items():
            known = rates.get(broker, Rates())
            rates[broker] = Rates(
                known.leader if rate.leader is None else rate.leader,
                known.follower if rate.follower is None else rate.follower,
            )
        for topic, added in throttles.replicas.items():
            known_replicas = replicas.get(topic, ThrottledReplicas())
            replicas[topic] = ThrottledReplicas(
                known_replicas.leader | added.leader, known_replicas.follower | added.follower
            )
    return Throttles(rates, replicas)
