"""Setting throttles and taking them off again, those that dead applies have left included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.apply.moves.throttling import (
    lacking,
    other_rates,
    partitions,
    unchanged,
    union,
    wanted,
    without,
)
from kafkaform.core.errors import KafkaformError, MovesUnfinished
from kafkaform.core.units import format_size
from kafkaform.core.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkaform.apply.moves.context import Conduct
    from kafkaform.apply.moves.partition_move import PartitionMove
    from kafkaform.apply.moves.throttle_journal import Announcement
    from kafkaform.core.groups import TopicPartition
    from kafkaform.core.layout import Layout
    from kafkaform.core.throttles import Rates, Throttles


class ThrottleKeeper:
    """Knows what this apply has set, and what earlier ones have.

    Args:
        conduct: What every step goes by.
    """

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._set: list[Announcement] = []
        self._left: list[Announcement] = []
        self._told: set[str] = set()
        self.recorded: frozenset[TopicPartition] = frozenset()

    @property
    def recalls(self) -> bool:
        """Whether anything that dead applies have left may still be set."""
        return bool(self._left)

    @property
    def ours(self) -> Throttles:
        """What this apply has set and not taken off."""
        return union(announcement.throttles for announcement in self._set)

    def recall(self) -> None:
        """Find out what dead applies have left."""
        try:
            self._left = [*self._conduct.ledger.left()]
            self.recorded = frozenset().union(*(partitions(one.throttles) for one in self._left))
        except KafkaformError as error:
            self._conduct.tell(f"whether an earlier apply left throttles is not known: {error.message}")

    def sweep(self, layout: Layout, joined: Collection[TopicPartition] = ()) -> None:
        """Take off what dead applies have left, where nothing that it is for is running any more.

        Only what is as the record says is touched. What is for a partition that is still being moved stays
        until that is over.

        Args:
            layout: Where replicas are.
            joined: Partitions that are running and that this apply has throttles of its own for.
        """
        running = (layout.reassigning or {}).keys() - {*joined}
        due = [one for one in self._left if running.isdisjoint(partitions(one.throttles))]
        if not due:
            return
        stays = [one for one in self._left if one not in due]
        in_use = union([self.ours, *(one.throttles for one in stays)])
        topics = {topic for one in due for topic in one.throttles.replicas}
        cluster, guard = self._conduct.cluster, self._conduct.guard
        present = self._conduct.patiently(lambda: cluster.throttles(topics))
        still = without(union(unchanged(one.throttles, present) for one in due), in_use)
        if still:
            self._conduct.patiently(lambda: cluster.clear_throttles(still, guard))
            self._conduct.tell(f"taken off what an earlier apply left behind: {described(still)}")
        alive = {broker.id for broker in layout.brokers}
        silent = [one for one in due if not alive.issuperset(one.throttles.rates)]
        for broker in sorted({b for one in silent for b in one.throttles.rates} - alive):
            self._tell_once(f"broker {broker} is down, and may keep the throttle of an earlier apply")
        self._left = stays + silent
        self._note_removed([one for one in due if one not in silent])

    def throttle(self, moves: Sequence[PartitionMove], layout: Layout) -> None:
        """Throttle moves, and take over what dead applies have set for them.

        Raises:
            ClusterError: They are not throttled, or not all of them.
        """
        keys = {move.key for move in moves}
        rate = self._conduct.options.throttle
        if rate is not None and any(move.adding for move in moves):
            self._set_throttles(moves, rate, layout, keys)
        self.sweep(layout, keys)

    def clear(self) -> None:
        """Take off all that this apply has set, and nothing else.

        Raises:
            ClusterError: Some of it may still be set.
        """
        if not self._set:
            return
        ours, cluster, guard = self.ours, self._conduct.cluster, self._conduct.guard
        self._conduct.persistently(lambda: cluster.clear_throttles(ours, guard))
        done, self._set = self._set, []
        self._note_removed(done)

    def _set_throttles(
        self, moves: Sequence[PartitionMove], rate: int, layout: Layout, keys: Collection[TopicPartition]
    ) -> None:
        asked = wanted(moves, rate, [broker.id for broker in layout.brokers])
        cluster, guard = self._conduct.cluster, self._conduct.guard
        present = self._conduct.patiently(lambda: cluster.throttles(asked.replicas))
        running = (layout.reassigning or {}).keys() - {*keys}
        owned = [one for one in self._left if running.isdisjoint(partitions(one.throttles))] + self._set
        others = without(present, union(unchanged(one.throttles, present) for one in owned))
        for broker, kept in other_rates(asked, others).items():
            self._tell_once(f"broker {broker} keeps the throttle that somebody else has set: {_rates(kept)}")
        ours = lacking(asked, others)
        if not ours:
            return
        if not self._conduct.ledger.kept:
            self._tell_once("no record is kept: if this apply is killed, its throttles stay set")
        try:
            self._set += self._conduct.ledger.announce(ours)
        except KafkaformError as error:
            raise MovesUnfinished(f"not throttled: {error.message}", hint=error.hint) from error
        self._conduct.patiently(lambda: cluster.set_throttles(ours, guard))

    def _note_removed(self, announcements: Sequence[Announcement]) -> None:
        try:
            self._conduct.ledger.removed(announcements)
        except KafkaformError as error:
            # The next apply looks for them, finds none, and notes it.
            self._conduct.tell(f"throttles are off, but that is not on record: {error.message}")

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._conduct.tell(line)


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
