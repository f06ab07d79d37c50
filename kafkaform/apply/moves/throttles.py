"""The throttles of a batch (KIP-73): computing, setting and clearing them.

As with Kafka's own tool, a partition's present replicas are throttled as senders, and added ones as
receivers; present replicas are never throttled as receivers. Throttles of others are not changed: only the
record shows who set one, as Kafka keeps no owner of a config.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError, MovesUnfinished, Unreachable
from kafkaform.core.units import format_rate
from kafkaform.core.values import replace
from kafkaform.core.wording import counted, listed
from kafkaform.resources.replicas.moves import ALL, Rates, ThrottledReplicas, Throttles, union

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafkaform.apply.moves.batches import PartitionMove
    from kafkaform.apply.moves.context import MoveContext
    from kafkaform.apply.moves.throttle_journal import Announcement
    from kafkaform.core.partitions import TopicPartition
    from kafkaform.resources.replicas.layout import Layout


def compute_throttles(moves: Iterable[PartitionMove], rate: int, alive: Collection[int]) -> Throttles:
    """Compute the throttles of moves.

    Args:
        rate: Bytes per second.
        alive: The live brokers: others accept no rate.
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


def subtract_throttles(throttles: Throttles, kept: Throttles) -> Throttles:
    """Remove from throttles the rates, of whatever value, and the entries that are in `kept` too."""
    rates = {}
    for broker, rate in throttles.rates.items():
        kept_rates = kept.rates.get(broker, Rates())
        remaining = Rates(
            rate.leader if kept_rates.leader is None else None,
            rate.follower if kept_rates.follower is None else None,
        )
        if remaining != Rates():
            rates[broker] = remaining
    replicas = {}
    for topic, held in throttles.replicas.items():
        kept_entries = kept.replicas.get(topic, ThrottledReplicas())
        missing = ThrottledReplicas(
            _subtract_entries(held.leader, kept_entries.leader),
            _subtract_entries(held.follower, kept_entries.follower),
        )
        if missing != ThrottledReplicas():
            replicas[topic] = missing
    return Throttles(rates, replicas)


def select_unchanged(throttles: Throttles, present: Throttles) -> Throttles:
    """Return the part of throttles that is still set to the same values."""
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


def other_rates(wanted: Throttles, present: Throttles) -> Mapping[int, Rates]:
    """Return the present rates of brokers that differ from the requested ones."""
    return {
        broker: present.rates[broker]
        for broker, rate in wanted.rates.items()
        if broker in present.rates and present.rates[broker] != rate
    }


def list_partitions(throttles: Throttles) -> set[TopicPartition]:
    """Return the partitions in the lists of throttled replicas."""
    return {
        (topic, int(entry.partition(":")[0]))
        for topic, held in throttles.replicas.items()
        for entry in held.leader | held.follower
        if entry != ALL
    }


def _subtract_entries(held: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    # `*` covers every replica of the topic, so nothing of the other list is missing.
    return frozenset() if ALL in others else held - others


class ThrottleManager:
    """The throttles that this apply has set, and those that killed applies have left.

    Args:
        context: The context of every step.
    """

    def __init__(self, context: MoveContext) -> None:
        self._context = context
        self._set: list[Announcement] = []
        self._leftovers: list[Announcement] = []
        self._told: set[str] = set()
        self.recorded: frozenset[TopicPartition] = frozenset()

    @property
    def has_leftovers(self) -> bool:
        """Return whether throttles of killed applies may still be set."""
        return bool(self._leftovers)

    @property
    def ours(self) -> Throttles:
        """The throttles that this apply has set and not removed."""
        return union(announcement.throttles for announcement in self._set)

    def read_leftovers(self) -> None:
        """Read from the record the throttles that killed applies have left."""
        try:
            self._leftovers = [*self._context.throttle_journal.read_leftovers()]
            self.recorded = frozenset().union(
                *(list_partitions(leftover.throttles) for leftover in self._leftovers)
            )
        except KafkaformError as error:
            self._context.tell(f"cannot determine whether an earlier apply left throttles: {error.message}")

    def clear_leftovers(self, layout: Layout, joined: Collection[TopicPartition] = ()) -> None:
        """Remove throttles of killed applies whose moves have ended.

        Only throttles with the recorded values are removed. Those of a partition that is still being moved
        stay until that has ended.

        Args:
            joined: Running partitions that this apply has its own throttles for.
        """
        # A throttle is removed only after its moves: without it, they would copy at full speed.
        ended = self._find_ended(layout, joined)
        if not ended:
            return
        kept = [leftover for leftover in self._leftovers if leftover not in ended]
        # A broker has a single rate: an announcement that stays, or this apply, may still need it.
        in_use = union([self.ours, *(leftover.throttles for leftover in kept)])
        topics = {topic for leftover in ended for topic in leftover.throttles.replicas}
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(topics))
        still = subtract_throttles(
            union(select_unchanged(leftover.throttles, present) for leftover in ended), in_use
        )
        # An apply that died between emptying a list and unsetting it has left an empty list.
        lists = subtract_throttles(union(leftover.throttles for leftover in ended), in_use).replicas
        if still or lists:
            self._context.retry(lambda: cluster.clear_throttles(Throttles(still.rates, lists), guard))
        if still:
            self._context.tell(
                f"removed the throttles that an earlier apply left behind: {describe_throttles(still)}"
            )
        # Only a live broker accepts changes of its rates: those of a dead one stay in the record.
        alive = {broker.id for broker in layout.brokers}
        down = [leftover for leftover in ended if not alive.issuperset(leftover.throttles.rates)]
        for broker in sorted({broker for leftover in down for broker in leftover.throttles.rates} - alive):
            self._tell_once(f"broker {broker} is down, and may keep the throttle of an earlier apply")
        self._leftovers = kept + down
        self._note_removed([leftover for leftover in ended if leftover not in down])

    def _find_ended(self, layout: Layout, joined: Collection[TopicPartition]) -> list[Announcement]:
        """Find the throttles of killed applies whose partitions are no longer moved by others."""
        running = (layout.reassigning or {}).keys() - {*joined}
        return [
            leftover
            for leftover in self._leftovers
            if running.isdisjoint(list_partitions(leftover.throttles))
        ]

    def throttle(self, moves: Sequence[PartitionMove], layout: Layout) -> None:
        """Throttle moves, and replace the throttles that killed applies have set for them.

        Raises:
            ClusterError: Some moves are not throttled.
        """
        keys = {move.key for move in moves}
        rate = self._context.options.throttle
        if rate is not None and any(move.adding for move in moves):
            self._set_throttles(moves, rate, layout, keys)
        # After the new ones are set, so that moves of a killed apply are throttled all the time.
        self.clear_leftovers(layout, keys)

    def clear(self) -> None:
        """Remove all throttles that this apply has set, and no others.

        Raises:
            ClusterError: Some may still be set.
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
            replace(announcement, throttles=Throttles(_select_rates(announcement.throttles, kept), {}))
            for announcement in self._set
            if announcement not in done
        ]
        self._note_removed(done)

    def _clear_live(self) -> Mapping[int, Rates]:
        """Remove the throttles of live brokers; return the rates of those that are down.

        Only a live broker accepts changes of its rates: waiting for a dead one would delay a user who pressed
        Ctrl-C, and its rates have no effect once the lists are empty.
        """
        cluster, guard, ours = self._context.cluster, self._context.guard, self.ours
        try:
            cluster.clear_throttles(ours, guard)
        except Unreachable:
            alive = {broker.id for broker in cluster.layout(()).brokers}
            down = {broker: rates for broker, rates in ours.rates.items() if broker not in alive}
            if not down:
                raise
            still = select_unchanged(ours, cluster.throttles(ours.replicas))
            if still:
                cluster.clear_throttles(still, guard)
            return down
        return {}

    def find_left(self) -> Throttles:
        """Return the throttles of this apply that are still set, as far as brokers answer."""
        ours = self.ours
        if not ours:
            return ours
        try:
            present = self._context.cluster.throttles(ours.replicas)
            alive = {broker.id for broker in self._context.cluster.layout(()).brokers}
        except ClusterError:
            return ours
        # A broker that is down does not answer, and has the rates again once it is back.
        hidden = {broker: rates for broker, rates in ours.rates.items() if broker not in alive}
        return union([select_unchanged(ours, present), Throttles(hidden, {})])

    def _set_throttles(
        self, moves: Sequence[PartitionMove], rate: int, layout: Layout, keys: Collection[TopicPartition]
    ) -> None:
        wanted = compute_throttles(moves, rate, [broker.id for broker in layout.brokers])
        cluster, guard = self._context.cluster, self._context.guard
        present = self._context.retry(lambda: cluster.throttles(wanted.replicas))
        owned = self._find_ended(layout, keys) + self._set
        foreign = subtract_throttles(
            present, union(select_unchanged(entry.throttles, present) for entry in owned)
        )
        # A broker has one rate for all copies: one that others have set stays, and applies to these moves
        # too.
        for broker, kept in other_rates(wanted, foreign).items():
            self._tell_once(
                f"broker {broker} keeps the throttle that another client has set: {_format_rates(kept)}"
            )
        ours = subtract_throttles(wanted, foreign)
        if not ours:
            return
        if not self._context.throttle_journal.kept:
            self._tell_once("no record is kept: if this apply is killed, its throttles stay set")
        try:
            # Before it is set: an apply that is killed in between leaves an entry without a throttle, and not
            # a throttle that no later apply would remove.
            self._set += self._context.throttle_journal.announce(ours)
        except KafkaformError as error:
            raise MovesUnfinished(f"not throttled: {error.message}", hint=error.hint) from error
        self._context.retry(lambda: cluster.set_throttles(ours, guard))

    def _note_removed(self, announcements: Sequence[Announcement]) -> None:
        try:
            self._context.throttle_journal.record_removal(announcements)
        except KafkaformError as error:
            # The next apply finds none of them set, and records that.
            self._context.tell(f"the throttles were removed, but this could not be recorded: {error.message}")

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._context.tell(line)


def _select_rates(throttles: Throttles, brokers: Collection[int]) -> Mapping[int, Rates]:
    return {broker: rates for broker, rates in throttles.rates.items() if broker in brokers}


def describe_throttles(throttles: Throttles) -> str:
    """Describe throttles in a few words."""
    parts = []
    if throttles.rates:
        word = "broker" if len(throttles.rates) == 1 else "brokers"
        parts.append(f"the throttle of {word} {', '.join(map(str, sorted(throttles.rates)))}")
    if throttles.replicas:
        topics = f"{counted(len(throttles.replicas), 'topic')} ({listed(sorted(throttles.replicas))})"
        parts.append(f"throttled replicas of {topics}")
    return " and ".join(parts)


def _format_rates(rates: Rates) -> str:
    sides = {"sending": rates.leader, "receiving": rates.follower}
    return ", ".join(f"{format_rate(rate)} {side}" for side, rate in sides.items() if rate is not None)
