"""Placing the replicas of topics: those that come, those that go, and no others.

Where a topic has no place, the reason is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.layout import Strategy, describe_running
from kafkaform.core.wording import counted
from kafkaform.plan.placement.broker_load import BrokerLoad, Placements, Row
from kafkaform.plan.placement.shifts import LeaderShifts, ReplicaShifts, level

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaform.core.layout import Assignment, Layout, PartitionState
    from kafkaform.plan.placement.broker_load import PlacementRequest, Racks


UNSEEN = "this account cannot see whether replicas are being moved: it needs Describe on the cluster"


def refusal(want: PlacementRequest, layout: Layout, racks: Racks) -> str | None:
    """Why a topic cannot be placed as wanted; None if it can."""
    present = layout.assignment(want.topic) if want.topic in layout.topics else ()
    if want.partitions < len(present):
        return f"it has {len(present)} partitions, and Kafka takes none away"
    live = frozenset(broker.id for broker in layout.brokers)
    if want.strategy is Strategy.STATIC:
        bad = _bad_list(want, present, live)
    else:
        bad = _too_few_brokers(want, present, live)
    if bad is None and _moves(want, present, racks):
        return unsettled(want.topic, layout)
    return bad


def unsettled(topic: str, layout: Layout) -> str | None:
    """Why the present replicas of a topic may not be changed now; None if they may."""
    if layout.reassigning is None:
        return UNSEEN
    if running := layout.running(topic):
        return (
            f"somebody else, or an apply that was interrupted, is reassigning {describe_running(running)}: "
            "wait until that has finished, or cancel it, and plan again"
        )
    return None


def _moves(want: PlacementRequest, present: Assignment, racks: Racks) -> bool:
    """Whether replicas change that are there."""
    if want.strategy is Strategy.STATIC:
        return want.static[: len(present)] != present
    if any(len(replicas) != want.replication_factor for replicas in present):
        return True
    return want.strategy is Strategy.RACK_AWARE and any(map(racks.missing, present))


def _too_few_brokers(want: PlacementRequest, present: Assignment, live: frozenset[int]) -> str | None:
    """Whether some partition finds fewer brokers than it needs; what is down is no place for a new one."""
    if want.replication_factor < 1:
        return f"replicationFactor is {want.replication_factor}, but a partition needs at least one replica"
    new: Assignment = ((),) if want.partitions > len(present) else ()
    for replicas in (*present, *new):
        if want.replication_factor - len(replicas) > len(live.difference(replicas)):
            brokers = "1 broker is" if len(live) == 1 else f"{len(live)} brokers are"
            return f"replicationFactor is {want.replication_factor}, and {brokers} live"
    return None


def _bad_list(want: PlacementRequest, present: Assignment, live: Collection[int]) -> str | None:
    """What is wrong with a list of replicas."""
    if len(want.static) != want.partitions:
        listed = counted(len(want.static), "partition")
        return f"placement lists the replicas of {listed}, and partitions is {want.partitions}"
    for number, replicas in enumerate(want.static):
        if len(set(replicas)) < len(replicas):
            return f"placement lists a broker twice for partition {number}"
        if len(replicas) != want.replication_factor:
            return (
                f"placement lists {counted(len(replicas), 'broker')} for partition {number},"
                f" and replicationFactor is {want.replication_factor}"
            )
        held = present[number] if number < len(present) else ()
        for broker in replicas:
            if broker not in live and broker not in held:
                return f"placement lists broker {broker} for partition {number}, which is not live"
    return None


def place(wants: Sequence[PlacementRequest], layout: Layout) -> Placements:
    """Place topics, all together.

    A partition keeps what it has: one that gets more replicas keeps those that it has, in their order, with
    the new ones behind them; one that gets fewer keeps its leader, then what is in sync, then what is in
    other racks, then its preferred leader. New replicas are on live brokers, in as many racks as can be, and
    even over brokers, as preferred leaders of new partitions are; the whole layout counts. A replica on a
    broker that is down is one like any other: it is not replaced, as its broker may come back.

    Args:
        wants: What topics are to be like; one for each topic.
        layout: Where all replicas are.

    Raises:
        ValueError: A topic is named twice.
    """
    if len({want.topic for want in wants}) < len(wants):
        raise ValueError("a topic is wanted twice")
    board = BrokerLoad(layout)
    refused: dict[str, str] = {}
    accepted: list[PlacementRequest] = []
    for want in sorted(wants, key=lambda want: want.topic):
        reason = refusal(want, layout, board.racks)
        if reason is not None:
            refused[want.topic] = reason
        else:
            accepted.append(want)
    static = {want.topic: want.static for want in accepted if want.strategy is Strategy.STATIC}
    for topic, assignment in static.items():
        _set(board, topic, layout.assignment(topic) if topic in layout.topics else (), assignment)
    rows = _Rows(board, layout, [want for want in accepted if want.topic not in static])
    placed = rows.placed()
    return Placements({want.topic: {**static, **placed}[want.topic] for want in accepted}, refused)


def settle(board: BrokerLoad, rows: Sequence[Row]) -> None:
    """Even out what is free in partitions, and choose the leaders that are open."""
    level(board.replicas, ReplicaShifts(board, rows), targets=board.brokers)
    undecided = [row for row in rows if row.leader_open]
    for row in undecided:
        board.lead(row, board.best_leader(row))
    level(board.leaders, LeaderShifts(board, undecided), targets=board.brokers)


def _set(board: BrokerLoad, topic: str, before: Assignment, after: Assignment) -> None:
    for replicas in before:
        board.count(topic, replicas, -1)
    for replicas in after:
        board.count(topic, replicas)


class _Rows:
    """The partitions of topics, each with what is to be done to it."""

    def __init__(self, board: BrokerLoad, layout: Layout, wants: Iterable[PlacementRequest]) -> None:
        self._board = board
        self._of: dict[str, list[Row]] = {}
        self._orders: dict[Row, tuple[int, ...]] = {}
        changed: list[tuple[Row, PartitionState, PlacementRequest]] = []
        new: list[tuple[Row, PlacementRequest]] = []
        for want in wants:
            rows = self._of[want.topic] = []
            states = layout.topics.get(want.topic, ())
            for state in states:
                row = Row(want.topic, state.partition, layout.replicas((want.topic, state.partition)))
                rows.append(row)
                if (want.topic, state.partition) not in (layout.reassigning or {}):
                    changed.append((row, state, want))
            for number in range(len(states), want.partitions):
                row = Row(want.topic, number)
                rows.append(row)
                new.append((row, want))
        # What has the least choice comes first.
        for row, state, want in changed:
            self._shrink(row, state, want.replication_factor)
        for row, _, want in changed:
            self._grow(row, want.replication_factor)
        for row, state, want in changed:
            if want.strategy is Strategy.RACK_AWARE:
                self._use_racks(row, state)
        for row, want in new:
            row.leader_open = True
            self._grow(row, want.replication_factor)
        settle(board, [row for rows in self._of.values() for row in rows if row.free])

    def placed(self) -> dict[str, Assignment]:
        """Where the replicas of each topic are now to be."""
        return {topic: tuple(self._ordered(row) for row in rows) for topic, rows in self._of.items()}

    def _ordered(self, row: Row) -> tuple[int, ...]:
        """What a partition keeps stands in the order of before."""
        before = self._orders.get(row)
        if before is None:
            return tuple(row.replicas)
        first, *others = row.replicas
        kept = [broker for broker in before if broker in others]
        return first, *kept, *(broker for broker in others if broker not in before)

    def _grow(self, row: Row, replication_factor: int) -> None:
        while len(row.replicas) < replication_factor:
            broker = self._board.best(row)
            self._board.add(row, broker)
            row.free.add(broker)

    def _shrink(self, row: Row, state: PartitionState, replication_factor: int) -> None:
        before = tuple(row.replicas)
        if len(before) <= replication_factor:
            return
        self._orders[row] = before
        board, live = self._board, self._board.replicas

        def cost(broker: int) -> tuple[bool, bool, int, bool, int, int]:
            shared = board.racks.shared(broker, board.racks.used(row.replicas))
            turn = (before.index(broker) - row.turn) % len(before)
            loss = broker not in state.isr, broker not in live
            return *loss, shared, broker != before[0], live.get(broker, 0), turn

        while len(row.replicas) > replication_factor:
            board.drop(row, max((one for one in row.replicas if one != state.leader), key=cost))
        if row.replicas[0] != before[0] and state.leader in row.replicas:
            board.lead(row, state.leader)
        healthy = {broker for broker in before if broker in state.isr and broker in live}
        dropped = healthy.difference(row.replicas)
        if dropped:
            row.free = healthy.intersection(row.replicas) - {state.leader, before[0], row.replicas[0]}
            row.choices = dropped | row.free

    def _use_racks(self, row: Row, state: PartitionState) -> None:
        """Move replicas into racks that are not used yet, but never the present leader."""
        board = self._board
        for _ in range(board.racks.missing(row.replicas)):
            used = board.racks.used(row.replicas)
            crowded = [
                broker
                for broker in row.replicas
                if broker != state.leader and board.racks.shared(broker, used) > 1
            ]
            source = max(
                crowded,
                key=lambda broker: (
                    broker not in state.isr,
                    broker != row.replicas[0],
                    board.racks.shared(broker, used),
                    board.replicas[broker],
                    broker,
                ),
            )
            leads = source == row.replicas[0]
            board.exchange(row, source, board.best(row))
            if leads and state.leader in row.replicas:
                board.lead(row, state.leader)
