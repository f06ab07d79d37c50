"""Which throttles a batch needs, and setting them.

They are taken off again, those that dead applies have left included.

Which throttles a batch needs, and arithmetic of throttles.

As with Kafka's own tool, a partition's present replicas are throttled as senders, and those that are added
as receivers; what a partition had before it moved is never held back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.core.errors import KafkaformError, MovesUnfinished
from kafkaform.core.moves import ALL, Rates, ThrottledReplicas, Throttles
from kafkaform.core.units import format_size
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from kafkaform.apply.moves.batches import PartitionMove
    from kafkaform.apply.moves.context import MoveContext
    from kafkaform.apply.moves.throttle_journal import Announcement
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Layout


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
    for topic, held in throttles.replicas.items():
        others = kept.replicas.get(topic, ThrottledReplicas())
        rest = ThrottledReplicas(
            _entries(held.leader, others.leader), _entries(held.follower, others.follower)
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
    for topic, held in throttles.replicas.items():
        on = present.replicas.get(topic, ThrottledReplicas())
        both = ThrottledReplicas(held.leader & on.leader, held.follower & on.follower)
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
        for topic, held in throttles.replicas.items():
            others = replicas.get(topic, ThrottledReplicas())
            replicas[topic] = ThrottledReplicas(others.leader | held.leader, others.follower | held.follower)
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
        for topic, held in throttles.replicas.items()
        for entry in held.leader | held.follower
        if entry != ALL
    }


def _entries(held: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    return frozenset() if ALL in others else held - others


class ThrottleManager:
    """Knows what this apply has set, and what earlier ones have.

    Args:
        context: What every step goes by.
    """

    def __init__(self, context: MoveContext) -> None:
        self._context = context
        self._set: list[Announcement] = []
        self._leftovers: list[Announcement] = []
        self._told: set[str] = set()
        self.recorded: frozenset[TopicPartition] = frozenset()

    @property
    def has_leftovers(self) -> bool:
        """Whether anything that dead applies have left may still be set."""
        return bool(self._leftovers)

    @property
    def ours(self) -> Throttles:
        """What this apply has set and not taken off."""
        return union(announcement.throttles for announcement in self._set)

    def read_leftovers(self) -> None:
        """Find out what dead applies have left."""
        try:
            self._leftovers = [*self._context.throttle_journal.left()]
            self.recorded = frozenset().union(*(partitions(one.throttles) for one in self._leftovers))
        except KafkaformError as error:
            self._context.tell(f"cannot determine whether an earlier apply left throttles: {error.message}")

    def clear_leftovers(self, layout: Layout, joined: Collection[TopicPartition] = ()) -> None:
        """Take off what dead applies have left, where nothing that it is for is running any more.

        Only what is as the record says is touched. What is for a partition that is still being moved stays
        until that is over.

        Args:
            layout: Where replicas are.
            joined: Partitions that are running and that this apply has throttles of its own for.
        """
        running = (layout.reassigning or {}).keys() - {*joined}
        due = [one for one in self._leftovers if running.isdisjoint(partitions(one.throttles))]
        if not due:
            return
        stays = [one for one in self._leftovers if one not in due]
        in_use = union([self.ours, *(one.throttles for one in stays)])
        topics = {topic for one in due for topic in one.throttles.replicas}
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(topics))
        still = without(union(unchanged(one.throttles, present) for one in due), in_use)
        if still:
            self._context.retry(lambda: cluster.clear_throttles(still, guard))
            self._context.tell(f"removed the throttles that an earlier apply left behind: {described(still)}")
        alive = {broker.id for broker in layout.brokers}
        silent = [one for one in due if not alive.issuperset(one.throttles.rates)]
        for broker in sorted({b for one in silent for b in one.throttles.rates} - alive):
            self._tell_once(f"broker {broker} is down, and may keep the throttle of an earlier apply")
        self._leftovers = stays + silent
        self._note_removed([one for one in due if one not in silent])

    def throttle(self, moves: Sequence[PartitionMove], layout: Layout) -> None:
        """Throttle moves, and take over what dead applies have set for them.

        Raises:
            ClusterError: They are not throttled, or not all of them.
        """
        keys = {move.key for move in moves}
        rate = self._context.options.throttle
        if rate is not None and any(move.adding for move in moves):
            self._set_throttles(moves, rate, layout, keys)
        self.clear_leftovers(layout, keys)

    def clear(self) -> None:
        """Take off all that this apply has set, and nothing else.

        Raises:
            ClusterError: Some of it may still be set.
        """
        if not self._set:
            return
        ours, cluster, guard = self.ours, self._context.cluster, self._context.guard
        self._context.retry_after_stop(lambda: cluster.clear_throttles(ours, guard))
        done, self._set = self._set, []
        self._note_removed(done)

    def _set_throttles(
        self, moves: Sequence[PartitionMove], rate: int, layout: Layout, keys: Collection[TopicPartition]
    ) -> None:
        asked = wanted(moves, rate, [broker.id for broker in layout.brokers])
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(asked.replicas))
        running = (layout.reassigning or {}).keys() - {*keys}
        owned = [one for one in self._leftovers if running.isdisjoint(partitions(one.throttles))] + self._set
        others = without(present, union(unchanged(one.throttles, present) for one in owned))
        for broker, kept in other_rates(asked, others).items():
            self._tell_once(f"broker {broker} keeps the throttle that somebody else has set: {_rates(kept)}")
        ours = lacking(asked, others)
        if not ours:
            return
        if not self._context.throttle_journal.kept:
            self._tell_once("no record is kept: if this apply is killed, its throttles stay set")
        try:
            self._set += self._context.throttle_journal.announce(ours)
        except KafkaformError as error:
            raise MovesUnfinished(f"not throttled: {error.message}", hint=error.hint) from error
        self._context.retry(lambda: cluster.set_throttles(ours, guard))

    def _note_removed(self, announcements: Sequence[Announcement]) -> None:
        try:
            self._context.throttle_journal.removed(announcements)
        except KafkaformError as error:
            # The next apply looks for them, finds none, and notes it.
            self._context.tell(f"throttles are off, but that is not on record: {error.message}")

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._context.tell(line)


def described(throttles: Throttles) -> str:
    """Throttles in a few words."""
    parts = []
    if throttles.rates:
        word = "broker" if len(throttles.rates) == 1 else "brokers"
        parts.append(f"the throttle of {word} {', '.join(map(str, sorted(throttles.rates)))}")
    if throttles.replicas:
        topics = f"{counted(len(throttles.replicas), 'topic')} ({listed(sorted(throttles.replicas))})"
        parts.append(f"throttled replicas of {topics}")
    return " and ".join(parts)


def _rates(rates: Rates) -> str:
    sides = {"sending": rates.leader, "receiving": rates.follower}
    return ", ".join(f"{format_size(rate)}/s {side}" for side, rate in sides.items() if rate is not None)
