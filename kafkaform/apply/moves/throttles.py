"""The throttles of a batch (KIP-73): which it needs, and setting, keeping and clearing them.

As with Kafka's own tool, a partition's present replicas are throttled as senders, and those that are added
as receivers; what a partition had before it moved is never held back. Nobody else's throttle is changed: who
has set one is known from the record alone, as Kafka keeps no owner of a config.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError, MovesUnfinished, Unreachable
from kafkaform.core.moves import ALL, Rates, ThrottledReplicas, Throttles, union
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
    from kafkaform.core.layout import Layout, TopicPartition


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
    """The part of throttles that is still set, and as it was."""
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
    """The throttles that this apply has set, and those that dead applies have left.

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
        """Return whether anything that dead applies have left may still be set."""
        return bool(self._leftovers)

    @property
    def ours(self) -> Throttles:
        """The throttles that this apply has set and not taken off."""
        return union(announcement.throttles for announcement in self._set)

    def read_leftovers(self) -> None:
        """Read from the record what dead applies have left."""
        try:
            self._leftovers = [*self._context.throttle_journal.left()]
            self.recorded = frozenset().union(
                *(partitions(leftover.throttles) for leftover in self._leftovers)
            )
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
        ended = self._ended(layout, joined)
        if not ended:
            return
        kept = [leftover for leftover in self._leftovers if leftover not in ended]
        # A rate is one per broker: it may be held for an announcement that stays, or for this apply.
        in_use = union([self.ours, *(leftover.throttles for leftover in kept)])
        topics = {topic for leftover in ended for topic in leftover.throttles.replicas}
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(topics))
        still = without(union(unchanged(leftover.throttles, present) for leftover in ended), in_use)
        # An apply that died between taking entries out of a list and unsetting it has left an empty list.
        lists = without(union(leftover.throttles for leftover in ended), in_use).replicas
        if still or lists:
            self._context.retry(lambda: cluster.clear_throttles(Throttles(still.rates, lists), guard))
        if still:
            self._context.tell(f"removed the throttles that an earlier apply left behind: {described(still)}")
        # Only a broker itself takes its rates: those of one that is down stay announced in the record.
        alive = {broker.id for broker in layout.brokers}
        down = [leftover for leftover in ended if not alive.issuperset(leftover.throttles.rates)]
        for broker in sorted({broker for leftover in down for broker in leftover.throttles.rates} - alive):
            self._tell_once(f"broker {broker} is down, and may keep the throttle of an earlier apply")
        self._leftovers = kept + down
        self._note_removed([leftover for leftover in ended if leftover not in down])

    def _ended(self, layout: Layout, joined: Collection[TopicPartition]) -> list[Announcement]:
        """The throttles of dead applies that are for nothing that somebody else is still moving."""
        running = (layout.reassigning or {}).keys() - {*joined}
        return [
            leftover for leftover in self._leftovers if running.isdisjoint(partitions(leftover.throttles))
        ]

    def throttle(self, moves: Sequence[PartitionMove], layout: Layout) -> None:
        """Throttle moves, and take over what dead applies have set for them.

        Raises:
            ClusterError: They are not throttled, or not all of them.
        """
        keys = {move.key for move in moves}
        rate = self._context.options.throttle
        if rate is not None and any(move.adding for move in moves):
            self._set_throttles(moves, rate, layout, keys)
        # After the new ones are set, so that what a dead apply has begun is held back all the time.
        self.clear_leftovers(layout, keys)

    def clear(self) -> None:
        """Take off all that this apply has set, and nothing else.

        Raises:
            ClusterError: Some of it may still be set.
        """
        if not self._set:
            return
        kept = self._context.retry_after_stop(self._clear_live)
        for broker in sorted(kept):
            self._tell_once(f"broker {broker} is down, and keeps its throttle")
        done = [
            announcement for announcement in self._set if kept.keys().isdisjoint(announcement.throttles.rates)
        ]
        self._set = [
            replace(announcement, throttles=Throttles(_rates_of(announcement.throttles, kept), {}))
            for announcement in self._set
            if announcement not in done
        ]
        self._note_removed(done)

    def _clear_live(self) -> Mapping[int, Rates]:
        """Take off what brokers that are up have; returns the rates of those that are down.

        Only a broker itself takes its rates: to wait for one that is down would keep whoever has pressed
        Ctrl-C waiting, and its rates hold nothing back once the lists are empty.
        """
        cluster, guard, ours = self._context.cluster, self._context.guard, self.ours
        try:
            cluster.clear_throttles(ours, guard)
        except Unreachable:
            alive = {broker.id for broker in cluster.layout(()).brokers}
            down = {broker: rates for broker, rates in ours.rates.items() if broker not in alive}
            if not down:
                raise
            still = unchanged(ours, cluster.throttles(ours.replicas))
            if still:
                cluster.clear_throttles(still, guard)
            return down
        return {}

    def find_left(self) -> Throttles:
        """Return what is still set of this apply's throttles, as far as brokers can be asked."""
        ours = self.ours
        if not ours:
            return ours
        try:
            present = self._context.cluster.throttles(ours.replicas)
            alive = {broker.id for broker in self._context.cluster.layout(()).brokers}
        except ClusterError:
            return ours
        hidden = {broker: rates for broker, rates in ours.rates.items() if broker not in alive}
        return union([unchanged(ours, present), Throttles(hidden, {})])

    def _set_throttles(
        self, moves: Sequence[PartitionMove], rate: int, layout: Layout, keys: Collection[TopicPartition]
    ) -> None:
        asked = wanted(moves, rate, [broker.id for broker in layout.brokers])
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(asked.replicas))
        owned = self._ended(layout, keys) + self._set
        others = without(present, union(unchanged(entry.throttles, present) for entry in owned))
        # A broker has one rate for all that it copies: somebody else's goes on to hold, for these moves too.
        for broker, kept in other_rates(asked, others).items():
            self._tell_once(f"broker {broker} keeps the throttle that somebody else has set: {_rates(kept)}")
        ours = without(asked, others)
        if not ours:
            return
        if not self._context.throttle_journal.kept:
            self._tell_once("no record is kept: if this apply is killed, its throttles stay set")
        try:
            # Before it is set: an apply that is killed in between leaves an entry without a throttle, and not
            # a throttle that nobody would ever take off.
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


def _rates_of(throttles: Throttles, brokers: Collection[int]) -> Mapping[int, Rates]:
    return {broker: rates for broker, rates in throttles.rates.items() if broker in brokers}


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
