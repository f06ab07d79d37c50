"""Measure placing and rebalancing the replicas of a large cluster in three racks, without a cluster.

All replicas are placed at random, with ten partitions in each topic, so that they are far from balanced. The
time is CPU time, as the engine does no I/O.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.table import report_rows
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.plan.placement import PlacementRequest, Placements, Strategy, balance, moves, place, rebalance
from kafkaform.resources.replicas.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HEADINGS = ("brokers", "partitions", "task", "s", "moved", "leaders", "spread", "then", "of leaders", "then")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--brokers", type=int, nargs="+", default=[6, 30, 100])
    parser.add_argument("--partitions", type=int, nargs="+", default=[10_000])
    options = parser.parse_args()
    rows = [
        measure(title, layout, task)
        for brokers in options.brokers
        for partitions in options.partitions
        for layout in [scatter_replicas(brokers, partitions)]
        for title, task in list_tasks(layout)
    ]
    report_rows("placement", HEADINGS, *rows)
    return 0


def scatter_replicas(brokers: int, partitions: int) -> Layout:
    """Create topics with three replicas, each on three brokers drawn at random."""
    live = tuple(Broker(id_, f"rack-{id_ % 3}") for id_ in range(1, brokers + 1))
    chance = random.Random(7)
    topics: dict[str, tuple[PartitionState, ...]] = {}
    for number in range(partitions // 10):
        name = f"topic-{number:06d}"
        sets = [tuple(chance.sample(range(1, brokers + 1), 3)) for _ in range(10)]
        topics[name] = tuple(PartitionState(name, n, held[0], held, held) for n, held in enumerate(sets))
    return Layout(live, topics)


def list_tasks(layout: Layout) -> Iterator[tuple[str, Callable[[], Placements]]]:
    """Yield the name and the function of each task."""

    def request(prefix: str, partitions: int, factor: int, strategy: Strategy) -> Callable[[], Placements]:
        return lambda: place(
            [PlacementRequest(prefix + topic, partitions, factor, strategy) for topic in layout.topics],
            layout,
        )

    yield "RF 3 → 4", request("", 10, 4, Strategy.BALANCED)
    yield "RF 3 → 2", request("", 10, 2, Strategy.BALANCED)
    yield "rack-aware", request("", 10, 3, Strategy.RACK_AWARE)
    yield "twice as many partitions", request("", 20, 3, Strategy.BALANCED)
    yield "as many new topics", request("new-", 10, 3, Strategy.BALANCED)
    yield "rebalance", lambda: rebalance(layout.topics, layout)
    yield "drain broker 1", lambda: rebalance(layout.topics, layout, remove=[1])


def measure(title: str, layout: Layout, task: Callable[[], Placements]) -> dict[str, float | str]:
    """Time one task, and measure its result."""
    before = {topic: layout.assignment(topic) for topic in layout.topics}
    started = time.process_time()
    result = task()
    seconds = time.process_time() - started
    if result.refused:
        sys.exit(f"{len(result.refused)} topics were refused")
    counted = [broker for broker in layout.brokers if not (title.startswith("drain") and broker.id == 1)]
    first, last = balance(before, counted), balance({**before, **result.assignments}, counted)
    way = moves(before, result.assignments)
    return {
        "brokers": len(layout.brokers),
        "partitions": sum(map(len, before.values())),
        "task": title,
        "seconds": seconds,
        "moved": way.replicas,
        "leaders_changed": way.leaders,
        "replica_spread_before": first.replica_spread,
        "replica_spread": last.replica_spread,
        "leader_spread_before": first.leader_spread,
        "leader_spread": last.leader_spread,
    }


if __name__ == "__main__":
    sys.exit(main())
