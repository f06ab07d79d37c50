"""Compare kafkaform's placement with Kafka's own tool on the same real clusters: `compare_placement.py`.

Kafka's tool is `kafka-reassign-partitions --generate`, run from its own jar. It chooses where to begin at
random, so it is asked several times, and the least and the most are shown. It keeps the number of replicas;
whoever raises that writes the list of replicas by hand, or by a script that gives partition n the brokers
from the n-th on, or all partitions the same ones: both are shown. New partitions are compared with where the
controller puts them. Nothing is moved: all figures are of the placements. Prints a Markdown table.

Three brokers are in three racks; of six, every two share one. Topics hold records, so bytes are log sizes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # it also runs where nothing is installed

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_transport
from kafkaform.core.layout import Layout
from kafkaform.devcluster import processes
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.jars.cache import fetched
from kafkaform.devcluster.jars.ivy import Dependency, JarSet
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.releases import KAFKA_VERSION
from kafkaform.plan.placement import PlacementRequest, Strategy, balance, moves, place, rebalance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.core.layout import Assignment, TopicPartition

    Assignments = Mapping[str, Assignment]
    Sizes = Mapping[TopicPartition, int]

TOOLS = JarSet(
    "Apache Kafka's tools",
    "kafka-tools",
    KAFKA_VERSION,
    (
        Dependency("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
        Dependency("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    ),
)
GENERATOR = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TIMEOUT_S = 60
COUNTS = (3, 4, 6, 6, 8, 9, 12, 12, 12, 18, 24, 30)
"""How many partitions the topics have."""


@dataclass(frozen=True)
class Case:
    """Something to do to a cluster.

    Attributes:
        title: What.
        brokers: On how many brokers.
        topics: What is there before.
        ours: How kafkaform does it.
        generate: The brokers that Kafka's tool is told to use; None where it has no answer.
        factor: The number of replicas to be raised to, which scripts do.
        growth: The factor by which partitions become more, which the controller does.
        leaves: A broker that is not counted afterwards.
    """

    title: str
    brokers: int
    topics: Assignments
    ours: Callable[[Layout, Sizes], Assignments]
    generate: tuple[int, ...] | None = None
    factor: int | None = None
    growth: int | None = None
    leaves: int | None = None


@dataclass(frozen=True)
class Measured:
    """The figures of one placement."""

    replicas: int
    size: int
    leaders: int
    replica_spread: int
    leader_spread: int
    narrow: int


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="how often Kafka's tool is asked")
    parser.add_argument("--brokers", type=int, nargs="+", default=[3, 6], choices=[3, 6])
    options = parser.parse_args()
    print(
        "| case | way | replicas moved | MB moved | leaders changed | spread of replicas | of leaders |",
        end="",
    )
    print(" too few racks |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in options.brokers:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-placement-") as folder,
            DevCluster.start(Path(folder) / "kafka", brokers=size, heap_mb=224, timeout_s=180) as kafka,
        ):
            share_racks(kafka)
            bench = Bench(kafka, Path(folder))
            for case in cases():
                if case.brokers == size:
                    for way, found in bench.run(case, options.runs):
                        print(row(case, way, found), flush=True)
    return 0


def cases() -> list[Case]:
    """All that is compared."""
    return [
        Case("RF 1 → 3", 3, at_random(range(1, 4), 1), partial(raised, 3), factor=3),
        Case("RF 2 → 3", 3, at_random(range(1, 4), 2), partial(raised, 3), factor=3),
        Case("drain broker 3", 3, at_random(range(1, 4), 2), partial(drained, 3), generate=(1, 2), leaves=3),
        Case("RF 1 → 3", 6, at_random(range(1, 7), 1), partial(raised, 3), factor=3),
        Case("RF 2 → 3", 6, at_random(range(1, 7), 2), partial(raised, 3), factor=3),
        Case(
            "drain broker 6",
            6,
            at_random(range(1, 7), 3),
            partial(drained, 6),
            generate=(1, 2, 3, 4, 5),
            leaves=6,
        ),
        Case("add broker 6", 6, at_random(range(1, 6), 3), partial(added, 6), generate=tuple(range(1, 7))),
        Case("rebalance", 6, at_random((1, 1, 1, *range(1, 7)), 3), evened, generate=tuple(range(1, 7))),
        Case("twice as many partitions", 6, at_random(range(1, 6), 3), partial(grown, 2), growth=2),
    ]


def at_random(brokers: Sequence[int], factor: int) -> Assignments:
    """Topics whose replicas lie at random; brokers that are named more often get more."""
    chance = random.Random(11)
    return {
        f"compared-{n:02d}": tuple(some(chance, brokers, factor) for _ in range(c))
        for n, c in enumerate(COUNTS)
    }


def some(chance: random.Random, brokers: Sequence[int], factor: int) -> tuple[int, ...]:
    """So many different ones."""
    found: dict[int, None] = {}
    while len(found) < factor:
        found[chance.choice(brokers)] = None
    return tuple(found)


# --- kafkaform's ways ------------------------------------------------------------------------------


def raised(factor: int, layout: Layout, _: Sizes) -> Assignments:
    """Every topic with more replicas."""
    return place(
        [PlacementRequest(t, len(layout.topics[t]), factor) for t in layout.topics], layout
    ).assignments


def grown(growth: int, layout: Layout, _: Sizes) -> Assignments:
    """Every topic with more partitions."""
    wants = [
        PlacementRequest(t, growth * len(states), len(states[0].replicas))
        for t, states in layout.topics.items()
    ]
    return place(wants, layout).assignments


def drained(broker: int, layout: Layout, sizes: Sizes) -> Assignments:
    """Nothing on a broker."""
    return rebalance(layout.topics, layout, remove=[broker], sizes=sizes).assignments


def added(broker: int, layout: Layout, sizes: Sizes) -> Assignments:
    """A new broker's fair share."""
    return rebalance(layout.topics, layout, add=[broker], sizes=sizes).assignments


def evened(layout: Layout, sizes: Sizes) -> Assignments:
    """All brokers alike."""
    return rebalance(layout.topics, layout, sizes=sizes).assignments


def rack_aware(layout: Layout, sizes: Sizes) -> Assignments:
    """All racks used, then all brokers alike."""
    wants = [
        PlacementRequest(topic, len(states), len(states[0].replicas), Strategy.RACK_AWARE)
        for topic, states in layout.topics.items()
    ]
    placed = place(wants, layout).assignments
    return {**placed, **evened(settled(layout, placed), sizes)}


def settled(layout: Layout, placed: Assignments) -> Layout:
    """The layout once topics are placed so, and all is in sync and led as preferred."""
    topics = dict(layout.topics)
    for topic, assignment in placed.items():
        topics[topic] = tuple(
            replace(state, leader=replicas[0], replicas=replicas, isr=replicas)
            for state, replicas in zip(topics[topic], assignment, strict=True)
        )
    return Layout(layout.brokers, topics)


# --- the ways of others ----------------------------------------------------------------------------


def listed(layout: Layout, factor: int, *, rotated: bool) -> Assignments:
    """What a script writes: the brokers from the n-th on for partition n, or the same ones for all."""
    ids = sorted(broker.id for broker in layout.brokers)
    return {
        topic: tuple(
            tuple(ids[(number * rotated + turn) % len(ids)] for turn in range(factor))
            for number in range(len(states))
        )
        for topic, states in layout.topics.items()
    }


def generated(kafka: DevCluster, folder: Path, topics: Sequence[str], brokers: Sequence[int]) -> Assignments:
    """What Kafka's tool proposes."""
    java = find_java()
    wanted = folder / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
    command = [
        *processes.jvm(java, heap_mb=128), GENERATOR,
        "--bootstrap-server", kafka.bootstrap_servers,
        "--generate",
        "--topics-to-move-json-file", str(wanted),
        "--broker-list", ",".join(map(str, brokers)),
    ]  # fmt: skip
    environment = processes.environment(fetched(TOOLS, java=java))
    run = subprocess.run(
        command, env=environment, cwd=kafka.directory / "node-1", capture_output=True, text=True, check=False
    )
    _, told, proposal = run.stdout.partition("Proposed partition reassignment configuration")
    if run.returncode != 0 or not told:
        sys.exit(run.stdout + run.stderr)
    found: dict[str, dict[int, tuple[int, ...]]] = {}
    for each in json.JSONDecoder().raw_decode(proposal.lstrip())[0]["partitions"]:
        found.setdefault(each["topic"], {})[each["partition"]] = tuple(each["replicas"])
    return {topic: tuple(parts[number] for number in sorted(parts)) for topic, parts in found.items()}


# --- on a real cluster -----------------------------------------------------------------------------


def share_racks(kafka: DevCluster) -> None:
    """Put the fourth node into the rack of the first one, and so on."""
    for node in kafka.nodes[3:]:
        kafka.stop_node(node.id)
        properties = kafka.directory / node.name / "server.properties"
        text = properties.read_text(encoding="ascii")
        properties.write_text(re.sub(r"rack-\d+", f"rack-{node.id - 3}", text), encoding="ascii")
        kafka.start_node(node.id, timeout_s=180)


class Bench:
    """A cluster that holds the topics of one case at a time."""

    def __init__(self, kafka: DevCluster, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._properties: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers}
        self._quiet = {**self._properties, "log_level": 0}
        self._admin = AdminClient(self._quiet)

    def run(self, case: Case, runs: int) -> list[tuple[str, list[Measured]]]:
        """Every way's name, with the figures of each time it was tried."""
        self._create(case.topics)
        layout = self._layout(case.topics)
        with self._cluster() as cluster:
            sizes = cluster.partition_sizes([(t, n) for t, a in case.topics.items() for n in range(len(a))])
        measured = partial(measure, layout, sizes, case.leaves)
        ours = case.ours(layout, sizes)
        found = [("before", [measured({})]), ("kafkaform", [measured(ours)])]
        if case.growth is None:
            left = [broker for broker in layout.brokers if broker.id != case.leaves]
            after = settled(Layout(tuple(left), layout.topics), ours)
            if case.ours is not evened:
                further = evened(after, sizes)
                found.append(("kafkaform, then rebalance", [measured({**ours, **further})]))
            spread = rack_aware(after, sizes)
            found.append(("kafkaform, rack-aware, then rebalance", [measured({**ours, **spread})]))
        if case.generate is not None:
            tries = [
                generated(self._kafka, self._folder, list(case.topics), case.generate) for _ in range(runs)
            ]
            found.append(("kafka-reassign-partitions", [measured(each) for each in tries]))
        if case.factor is not None:
            found.append(("a script, by turns", [measured(listed(layout, case.factor, rotated=True))]))
            found.append(("a script, the same", [measured(listed(layout, case.factor, rotated=False))]))
        if case.growth is not None:
            found.append(("the controller", [measured(self._grow(case.topics, case.growth))]))
        self._finish(self._admin.delete_topics(list(case.topics)))
        return found

    def _create(self, topics: Assignments) -> None:
        new = [
            NewTopic(topic, len(assignment), replica_assignment=list(map(list, assignment)))
            for topic, assignment in topics.items()
        ]
        self._finish(self._admin.create_topics(new))
        self._layout(topics)
        chance = random.Random(5)
        producer = Producer({**self._quiet, "linger.ms": 50})
        for topic, assignment in topics.items():
            for number in range(len(assignment)):
                for _ in range(chance.choice((2, 8, 32))):
                    producer.produce(topic, chance.randbytes(10_000), partition=number)
        if producer.flush(TIMEOUT_S):
            sys.exit("not every record was written")

    def _grow(self, topics: Assignments, growth: int) -> Assignments:
        more = [NewPartitions(topic, growth * len(assignment)) for topic, assignment in topics.items()]
        self._finish(self._admin.create_partitions(more))
        layout = self._layout(
            {topic: assignment * growth for topic, assignment in topics.items()}, exact=False
        )
        return {topic: layout.assignment(topic) for topic in topics}

    def _layout(self, topics: Assignments, *, exact: bool = True) -> Layout:
        """The layout once it shows the topics, and no others."""
        deadline = time.monotonic() + TIMEOUT_S
        with self._cluster() as cluster:
            while True:
                layout = cluster.layout()
                shown = {topic: layout.assignment(topic) for topic in layout.topics if topic in topics}
                whole = all(
                    len(shown.get(topic, ())) == len(assignment) for topic, assignment in topics.items()
                )
                if whole and (shown == dict(topics) or not exact):
                    return Layout(layout.brokers, {topic: layout.topics[topic] for topic in topics})
                if time.monotonic() > deadline:
                    sys.exit("the topics did not appear as they were made")
                time.sleep(0.2)

    def _cluster(self) -> KafkaCluster:
        given = {"bootstrap.servers": self._kafka.bootstrap_servers}
        return KafkaCluster(self._properties, lambda: to_transport(given))

    def _finish(self, futures: Mapping[str, Any]) -> None:
        for future in futures.values():
            future.result(TIMEOUT_S)


def measure(layout: Layout, sizes: Sizes, leaves: int | None, after: Assignments) -> Measured:
    """The figures of a placement; what is not in it stays."""
    before = {topic: layout.assignment(topic) for topic in layout.topics}
    way = moves(before, after, sizes)
    counted = [broker for broker in layout.brokers if broker.id != leaves]
    then = balance({**before, **after}, counted)
    return Measured(way.replicas, way.size, way.leaders, then.replica_spread, then.leader_spread, then.narrow)


def row(case: Case, way: str, found: Sequence[Measured]) -> str:
    """One line of the table."""

    def span(values: Sequence[float], digits: int = 0) -> str:
        least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
        return least if least == most else f"{least}-{most}"

    cells = [
        f"{case.brokers} brokers, {case.title}",
        way,
        span([one.replicas for one in found]),
        span([one.size / 1e6 for one in found], 1),
        span([one.leaders for one in found]),
        span([one.replica_spread for one in found]),
        span([one.leader_spread for one in found]),
        span([one.narrow for one in found]),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
