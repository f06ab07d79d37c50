"""Which throttles a batch needs, and arithmetic of throttles.

As with Kafka's own tool, a partition's present replicas are throttled as senders, and those that are added
as receivers; what a partition had before it moved is never held back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.core.throttles import ALL, Rates, ThrottledReplicas, Throttles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.apply.moves.partition_move import PartitionMove
    from kafkaform.core.groups import TopicPartition

NOTHING = Throttles()


def wanted(moves: Iterable[PartitionMove], rate: int, alive: Collection[int]) -> Throttles:
    """The throttles of moves.

    Args:
        moves: What is moved.
        rate: Bytes per second.
        alive: The brokers that are up: the others take no rate.
    """
    brokers: set[int] = set()
    leaders: dict[str, set[str]] = defaultdict(set)
    followers: dict[str, set[str]] = defaultdict(set)
    for move in moves:
        if move.adding:
            brokers |= move.brokers
            leaders[move.ref.name] |= {f"{move.partition}:{broker}" for broker in move.holding}
            followers[move.ref.name] |= {f"{move.partition}:{broker}" for broker in move.adding}
    return Throttles(
        {broker: Rates(rate, rate) for broker in sorted(brokers & {*alive})},
        {t: ThrottledReplicas(frozenset(leaders[t]), frozenset(followers[t])) for t in sorted(leaders)},
    )


def lacking(asked: Throttles, present: Throttles) -> Throttles:
    """What of the throttles asked for nobody has set: a rate that is there stays, whatever it is."""
    return without(asked, present)


def without(throttles: Throttles, kept: Throttles) -> Throttles:
    """Throttles without the rates that others have too, of whatever value, and without their entries."""
    rates = {}
    for broker, rate in throttles.rates.items():
        other = kept.rates.get(broker, Rates())
        left = Rates(
            rate.leader if other.leader is None else None,
            rate.follower if other.follower is None else None,
        )
        if left != Rates():
            rates[broker] = left
    replicas = {}
    for topic, listed in throttles.replicas.items():
        others = kept.replicas.get(topic, ThrottledReplicas())
        rest = ThrottledReplicas(
            _entries(listed.leader, others.leader), _entries(listed.follower, others.follower)
        )
        if rest != ThrottledReplicas():
            replicas[topic] = rest
    return Throttles(rates, replicas)


def unchanged(throttles: Throttles, present: Throttles) -> Throttles:
    """What of throttles is still set, and as it was."""
    rates = {}
    for broker, rate in throttles.rates.items():
        live = present.rates.get(broker, Rates())
        still = Rates(
            rate.leader if live.leader == rate.leader else None,
            rate.follower if live.follower == rate.follower else None,
        )
        if still != Rates():
            rates[broker] = still
    replicas = {}
    for topic, listed in throttles.replicas.items():
        on = present.replicas.get(topic, ThrottledReplicas())
        both = ThrottledReplicas(listed.leader & on.leader, listed.follower & on.follower)
        if both != ThrottledReplicas():
            replicas[topic] = both
    return Throttles(rates, replicas)


def union(many: Iterable[Throttles]) -> Throttles:
    """All of several throttles; of two rates of a broker, the later one."""
    rates: dict[int, Rates] = {}
    replicas: dict[str, ThrottledReplicas] = {}
    for throttles in many:
        for broker, rate in throttles.rates.items():
            known = rates.get(broker, Rates())
            rates[broker] = Rates(
                known.leader if rate.leader is None else rate.leader,
                known.follower if rate.follower is None else rate.follower,
            )
        for topic, listed in throttles.replicas.items():
            others = replicas.get(topic, ThrottledReplicas())
            replicas[topic] = ThrottledReplicas(
                others.leader | listed.leader, others.follower | listed.follower
            )
    return Throttles(rates, replicas)


def other_rates(asked: Throttles, present: Throttles) -> Mapping[int, Rates]:
    """The rates of brokers that are set already and are others than those asked for."""
    return {
        broker: present.rates[broker]
        for broker, rate in asked.rates.items()
        if broker in present.rates and present.rates[broker] != rate
    }


def partitions(throttles: Throttles) -> set[TopicPartition]:
    """The partitions in the lists of throttled replicas."""
    return {
        (topic, int(entry.partition(":")[0]))
        for topic, listed in throttles.replicas.items()
        for entry in listed.leader | listed.follower
        if entry != ALL
    }


def _entries(listed: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    return frozenset() if ALL in others else listed - others
