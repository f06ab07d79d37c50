"""The placement of added and removed replicas of topics, or the reason why a topic cannot be placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.wording import counted
from kafkaform.plan.placement.broker_load import BrokerLoad, PlacementRequest, Placements, Racks, Row
from kafkaform.plan.placement.shifts import LeaderShifts, ReplicaShifts, level
from kafkaform.resources.replicas.layout import Assignment, Layout, Strategy, describe_running

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaform.core.partitions import PartitionState

UNSEEN = "this account cannot see whether replicas are being moved: it needs Describe on the cluster"


def refusal(request: PlacementRequest, layout: Layout, racks: Racks) -> str | None:
    """Return why a topic cannot be placed as requested; None if it can."""
    present = layout.assignment(request.topic) if request.topic in layout.topics else ()
    if request.partitions < len(present):
        return f"it has {len(present)} partitions, and Kafka cannot remove any"
    live = frozenset(broker.id for broker in layout.brokers)
    if request.strategy is Strategy.STATIC:
        bad = _check_static(request, present, live)
    else:
        bad = _check_broker_count(request, present, live)
    if bad is None and _moves(request, present, racks):
        return find_obstacle(request.topic, layout)
    return bad


def find_obstacle(topic: str, layout: Layout) -> str | None:
    """Return why the present replicas of a topic must not be changed now; None if they may."""
    # A second target for a partition that is being moved may never be reached (Kafka 4.3.1 waits for a broker
    # that it both adds and removes), so nothing is moved blindly.
    if layout.reassigning is None:
        return UNSEEN
    if running := layout.running(topic):
        return (
            f"another client, or an interrupted apply, is reassigning {describe_running(running)}: "
            "wait until that has finished, or cancel it, and plan again"
        )
    return None


def _moves(request: PlacementRequest, present: Assignment, racks: Racks) -> bool:
    """Return whether present replicas change."""
    if request.strategy is Strategy.STATIC:
        return request.static[: len(present)] != present
    if any(len(replicas) != request.replication_factor for replicas in present):
        return True
    return request.strategy is Strategy.RACK_AWARE and any(map(racks.missing, present))


def _check_broker_count(request: PlacementRequest, present: Assignment, live: frozenset[int]) -> str | None:
    """Return why the live brokers are too few for the new replicas; None if they are enough."""
    if request.replication_factor < 1:
        return (
            f"replicationFactor is {request.replication_factor}, but a partition needs at least one replica"
        )
    # One empty partition stands for all new ones: each needs the same number of brokers.
    new: Assignment = ((),) if request.partitions > len(present) else ()
    for replicas in (*present, *new):
        if request.replication_factor - len(replicas) > len(live.difference(replicas)):
            brokers = "1 broker is" if len(live) == 1 else f"{len(live)} brokers are"
            return f"replicationFactor is {request.replication_factor}, but only {brokers} live"
    return None


def _check_static(request: PlacementRequest, present: Assignment, live: Collection[int]) -> str | None:
    """Return the problem of a static placement; None if it is valid."""
    if len(request.static) != request.partitions:
        listed = counted(len(request.static), "partition")
        return f"placement lists the replicas of {listed}, but partitions is {request.partitions}"
    for number, replicas in enumerate(request.static):
        if len(set(replicas)) < len(replicas):
            return f"placement lists a broker twice for partition {number}"
        if len(replicas) != request.replication_factor:
            return (
                f"placement lists {counted(len(replicas), 'broker')} for partition {number},"
                f" but replicationFactor is {request.replication_factor}"
            )
        held = present[number] if number < len(present) else ()
        # A replica that the broker has already may stay, also while the broker is down.
        for broker in replicas:
            if broker not in live and broker not in held:
                return f"placement lists broker {broker} for partition {number}, which is not live"
    return None


def place(requests: Sequence[PlacementRequest], layout: Layout) -> Placements:
    """Place the replicas of topics, balanced over the whole layout.

    A partition keeps its replicas: new ones are appended, in order; if there are to be fewer, it keeps its
    leader, then replicas in sync, then those in other racks, then its preferred leader. New replicas are on
    live brokers, in as many racks as possible, and evenly over brokers, as are the preferred leaders of new
    partitions. A replica on a broker that is down is not replaced, as the broker may come back.

    Args:
        requests: One request per topic.

    Raises:
        ValueError: A topic is requested twice.
    """
    if len({request.topic for request in requests}) < len(requests):
        raise ValueError("duplicate topic")
    load = BrokerLoad(layout)
    refused: dict[str, str] = {}
    accepted: list[PlacementRequest] = []
    # In the order of names, so that the same requests in any order give the same placements.
    for request in sorted(requests, key=lambda request: request.topic):
        reason = refusal(request, layout, load.racks)
        if reason is not None:
            refused[request.topic] = reason
        else:
            accepted.append(request)
    # Static topics first: where they go is fixed, so the others are balanced around them.
    static = {request.topic: request.static for request in accepted if request.strategy is Strategy.STATIC}
    for topic, assignment in static.items():
        _replace_counts(load, topic, layout.assignment(topic) if topic in layout.topics else (), assignment)
    rows = _Rows(load, layout, [request for request in accepted if request.topic not in static])
    placed = rows.build_assignments()
    return Placements({request.topic: {**static, **placed}[request.topic] for request in accepted}, refused)


def balance_rows(load: BrokerLoad, rows: Sequence[Row]) -> None:
    """Balance the free replicas of partitions, and choose the open leaders."""
    # Replicas first: a leader can only be chosen among the brokers that hold the partition.
    level(load.replicas, ReplicaShifts(load, rows), targets=load.brokers)
    undecided = [row for row in rows if row.leader_open]
    for row in undecided:
        load.lead(row, load.best_leader(row))
    level(load.leaders, LeaderShifts(load, undecided), targets=load.brokers)


def _replace_counts(load: BrokerLoad, topic: str, before: Assignment, after: Assignment) -> None:
    for replicas in before:
        load.count(topic, replicas, -1)
    for replicas in after:
        load.count(topic, replicas)


class _Rows:
    """The partitions of topics, whose replicas are placed on construction."""

    def __init__(self, load: BrokerLoad, layout: Layout, requests: Iterable[PlacementRequest]) -> None:
        self._load = load
        self._of: dict[str, list[Row]] = {}
        self._orders: dict[Row, tuple[int, ...]] = {}
        changed: list[tuple[Row, PartitionState, PlacementRequest]] = []
        new: list[tuple[Row, PlacementRequest]] = []
        for request in requests:
            rows = self._of[request.topic] = []
            states = layout.topics.get(request.topic, ())
            for state in states:
                row = Row(request.topic, state.partition, layout.replicas((request.topic, state.partition)))
                rows.append(row)
                # A partition that is being moved keeps the target of that move.
                if (request.topic, state.partition) not in (layout.reassigning or {}):
                    changed.append((row, state, request))
            for number in range(len(states), request.partitions):
                row = Row(request.topic, number)
                rows.append(row)
                new.append((row, request))
        # Partitions with the fewest choices come first: a replica can only be dropped where there is one, and
        # a new partition fits anywhere.
        for row, state, request in changed:
            self._shrink(row, state, request.replication_factor)
        for row, _, request in changed:
            self._grow(row, request.replication_factor)
        for row, state, request in changed:
            if request.strategy is Strategy.RACK_AWARE:
                self._use_racks(row, state)
        for row, request in new:
            row.leader_open = True
            self._grow(row, request.replication_factor)
        balance_rows(load, [row for rows in self._of.values() for row in rows if row.free])

    def build_assignments(self) -> dict[str, Assignment]:
        """Return the target replicas of each topic."""
        return {topic: tuple(self._order_replicas(row) for row in rows) for topic, rows in self._of.items()}

    def _order_replicas(self, row: Row) -> tuple[int, ...]:
        """Return the replicas of a partition, the kept ones in their former order."""
        before = self._orders.get(row)
        if before is None:
            return tuple(row.replicas)
        first, *followers = row.replicas
        kept = [broker for broker in before if broker in followers]
        return first, *kept, *(broker for broker in followers if broker not in before)

    def _grow(self, row: Row, replication_factor: int) -> None:
        while len(row.replicas) < replication_factor:
            broker = self._load.best(row)
            self._load.add(row, broker)
            row.free.add(broker)

    def _shrink(self, row: Row, state: PartitionState, replication_factor: int) -> None:
        before = tuple(row.replicas)
        if len(before) <= replication_factor:
            return
        self._orders[row] = before
        load, live = self._load, self._load.replicas

        def cost(broker: int) -> tuple[bool, bool, int, bool, int, int]:
            shared = load.racks.count_in_rack(broker, load.racks.count_by_rack(row.replicas))
            turn = (before.index(broker) - row.turn) % len(before)
            # The order of the docstring of `place`: out of sync first, then one on a broker that is down,
            # then one whose rack has another, then a follower, then the fullest broker.
            loss = broker not in state.isr, broker not in live
            return *loss, shared, broker != before[0], live.get(broker, 0), turn

        # Never the present leader, so that no other one has to be elected.
        while len(row.replicas) > replication_factor:
            load.drop(row, max((b for b in row.replicas if b != state.leader), key=cost))
        # If the preferred leader was dropped, the present one takes its place, so that leadership does not
        # move.
        if row.replicas[0] != before[0] and state.leader in row.replicas:
            load.lead(row, state.leader)
        healthy = {broker for broker in before if broker in state.isr and broker in live}
        dropped = healthy.difference(row.replicas)
        if dropped:
            # Which of the equal replicas is dropped is open until all topics are placed: `balance_rows`
            # chooses by the load of brokers. Only replicas in sync may be exchanged, as nothing is copied
            # for that.
            row.free = healthy.intersection(row.replicas) - {state.leader, before[0], row.replicas[0]}
            row.choices = dropped | row.free

    def _use_racks(self, row: Row, state: PartitionState) -> None:
        """Move replicas to unused racks, but never that of the present leader."""
        load = self._load
        for _ in range(load.racks.missing(row.replicas)):
            used = load.racks.count_by_rack(row.replicas)
            crowded = [
                broker
                for broker in row.replicas
                if broker != state.leader and load.racks.count_in_rack(broker, used) > 1
            ]
            source = max(
                crowded,
                key=lambda broker: (
                    broker not in state.isr,
                    broker != row.replicas[0],
                    load.racks.count_in_rack(broker, used),
                    load.replicas[broker],
                    broker,
                ),
            )
            leads = source == row.replicas[0]
            load.exchange(row, source, load.best(row))
            if leads and state.leader in row.replicas:
                load.lead(row, state.leader)
