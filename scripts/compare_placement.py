"""Compare kafkaform's placement with Kafka's own tool on the same real clusters: `compare_placement.py`.

Kafka's tool is `kafka-reassign-partitions --generate`, run from its jar. It starts at a random broker, so it
runs several times, and the minimum and maximum are shown. It keeps the number of replicas; to raise that,
people write the list of replicas by hand, or by a script that assigns the brokers from the n-th on to
partition n, or the same brokers to all partitions: both are shown. New partitions are compared with the
placement of the controller. Nothing is moved: all figures are of the placements. Prints a Markdown table.

Three brokers are in three racks; six brokers are in pairs. Topics have records, so bytes are log sizes.
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
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaform.core.values import replace
from kafkaform.devcluster.cluster import ClusterSpec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkaform need not be installed

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pin_kafka_jars import LOG_BINDING, resolve

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_transport
from kafkaform.core.files import get_cache_directory
from kafkaform.devcluster import processes
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.jars.java import find_java
from kafkaform.devcluster.releases import KAFKA_VERSION
from kafkaform.plan.placement import PlacementRequest, Strategy, balance, moves, place, rebalance
from kafkaform.resources.replicas.layout import Assignment, Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkaform.core.partitions import TopicPartition

    Assignments = Mapping[str, Assignment]
    Sizes = Mapping[TopicPartition, int]

GENERATOR = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TIMEOUT_S = 60
COUNTS = (3, 4, 6, 6, 8, 9, 12, 12, 12, 18, 24, 30)
"""The numbers of partitions of the topics."""


@dataclass(frozen=True)
class Case:
    """A task on a cluster.

    Attributes:
        title: The name of the task.
        brokers: The number of brokers.
        topics: The assignments before it.
        ours: The function of kafkaform.
        generate: The brokers for Kafka's tool; None if the tool cannot do the task.
        factor: The new number of replicas, for scripts.
        growth: The factor for the number of partitions, for the controller.
        leaves: A broker that is removed.
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
class PlacementFigures:
    """The figures of one placement."""

    replicas: int
    size: int
    leaders: int
    replica_spread: int
    leader_spread: int
    narrow: int


def main() -> int:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="the number of runs of Kafka's tool")
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
            DevCluster.start(
                Path(folder) / "kafka", ClusterSpec(brokers=size, heap_mb=224), timeout_s=180
            ) as kafka,
        ):
            share_racks(kafka)
            bench = Bench(kafka, Path(folder))
            for case in list_cases():
                if case.brokers == size:
                    for way, figures in bench.run(case, options.runs):
                        print(render_row(case, way, figures), flush=True)
    return 0


def list_cases() -> list[Case]:
    """List the cases to compare."""
    return [
        Case("RF 1 → 3", 3, scatter_replicas(range(1, 4), 1), partial(raise_factor, 3), factor=3),
        Case("RF 2 → 3", 3, scatter_replicas(range(1, 4), 2), partial(raise_factor, 3), factor=3),
        Case(
            "drain broker 3",
            3,
            scatter_replicas(range(1, 4), 2),
            partial(drain_broker, 3),
            generate=(1, 2),
            leaves=3,
        ),
        Case("RF 1 → 3", 6, scatter_replicas(range(1, 7), 1), partial(raise_factor, 3), factor=3),
        Case("RF 2 → 3", 6, scatter_replicas(range(1, 7), 2), partial(raise_factor, 3), factor=3),
        Case(
            "drain broker 6",
            6,
            scatter_replicas(range(1, 7), 3),
            partial(drain_broker, 6),
            generate=(1, 2, 3, 4, 5),
            leaves=6,
        ),
        Case(
            "add broker 6",
            6,
            scatter_replicas(range(1, 6), 3),
            partial(add_broker, 6),
            generate=tuple(range(1, 7)),
        ),
        Case(
            "rebalance",
            6,
            scatter_replicas((1, 1, 1, *range(1, 7)), 3),
            rebalance_all,
            generate=tuple(range(1, 7)),
        ),
        Case(
            "twice as many partitions",
            6,
            scatter_replicas(range(1, 6), 3),
            partial(add_partitions, 2),
            growth=2,
        ),
    ]


def scatter_replicas(brokers: Sequence[int], factor: int) -> Assignments:
    """Place replicas of topics at random; brokers that are listed more often get more."""
    chance = random.Random(11)
    return {
        f"compared-{n:02d}": tuple(draw_brokers(chance, brokers, factor) for _ in range(c))
        for n, c in enumerate(COUNTS)
    }


def draw_brokers(chance: random.Random, brokers: Sequence[int], factor: int) -> tuple[int, ...]:
    """Draw different brokers for the replicas of a partition."""
    drawn: dict[int, None] = {}
    while len(drawn) < factor:
        drawn[chance.choice(brokers)] = None
    return tuple(drawn)


# --- kafkaform's ways ------------------------------------------------------------------------------


def raise_factor(factor: int, layout: Layout, _: Sizes) -> Assignments:
    """Place additional replicas of every topic."""
    return place(
        [PlacementRequest(t, len(layout.topics[t]), factor) for t in layout.topics], layout
    ).assignments


def add_partitions(growth: int, layout: Layout, _: Sizes) -> Assignments:
    """Place additional partitions of every topic."""
    wants = [
        PlacementRequest(t, growth * len(states), len(states[0].replicas))
        for t, states in layout.topics.items()
    ]
    return place(wants, layout).assignments


def drain_broker(broker: int, layout: Layout, sizes: Sizes) -> Assignments:
    """Move all replicas off a broker."""
    return rebalance(layout.topics, layout, remove=[broker], sizes=sizes).assignments


def add_broker(broker: int, layout: Layout, sizes: Sizes) -> Assignments:
    """Move a fair share of replicas to a new broker."""
    return rebalance(layout.topics, layout, add=[broker], sizes=sizes).assignments


def rebalance_all(layout: Layout, sizes: Sizes) -> Assignments:
    """Balance replicas and leaders over all brokers."""
    return rebalance(layout.topics, layout, sizes=sizes).assignments


def place_rack_aware(layout: Layout, sizes: Sizes) -> Assignments:
    """Spread replicas over all racks, then balance them over all brokers."""
    wants = [
        PlacementRequest(topic, len(states), len(states[0].replicas), Strategy.RACK_AWARE)
        for topic, states in layout.topics.items()
    ]
    placed = place(wants, layout).assignments
    return {**placed, **rebalance_all(apply_assignments(layout, placed), sizes)}


def apply_assignments(layout: Layout, placed: Assignments) -> Layout:
    """Return the layout after the assignments, with all replicas in sync and preferred leaders."""
    topics = dict(layout.topics)
    for topic, assignment in placed.items():
        topics[topic] = tuple(
            replace(state, leader=replicas[0], replicas=replicas, isr=replicas)
            for state, replicas in zip(topics[topic], assignment, strict=True)
        )
    return Layout(layout.brokers, topics)


# --- the ways of others ----------------------------------------------------------------------------


def assign_by_script(layout: Layout, factor: int, *, rotated: bool) -> Assignments:
    """Assign the brokers from the n-th on to partition n if `rotated`, else the same ones to all."""
    ids = sorted(broker.id for broker in layout.brokers)
    return {
        topic: tuple(
            tuple(ids[(number * rotated + turn) % len(ids)] for turn in range(factor))
            for number in range(len(states))
        )
        for topic, states in layout.topics.items()
    }


@cache
def fetch_tools() -> list[Path]:
    """Return the jars of Kafka's tool; download them on first use."""
    return resolve(
        [f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}", LOG_BINDING], get_cache_directory() / "tools"
    )


def run_generator(
    kafka: DevCluster, folder: Path, topics: Sequence[str], brokers: Sequence[int]
) -> Assignments:
    """Return the proposal of Kafka's tool."""
    java = find_java()
    wanted = folder / "topics.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
    command = [
        *processes.build_java_command(java, heap_mb=128), GENERATOR,
        "--bootstrap-server", kafka.bootstrap_servers,
        "--generate",
        "--topics-to-move-json-file", str(wanted),
        "--broker-list", ",".join(map(str, brokers)),
    ]  # fmt: skip
    environment = processes.build_environment(fetch_tools())
    run = subprocess.run(
        command, env=environment, cwd=kafka.directory / "node-1", capture_output=True, text=True, check=False
    )
    _, heading, proposal = run.stdout.partition("Proposed partition reassignment configuration")
    if run.returncode != 0 or not heading:
        sys.exit(run.stdout + run.stderr)
    assignments: dict[str, dict[int, tuple[int, ...]]] = {}
    for each in json.JSONDecoder().raw_decode(proposal.lstrip())[0]["partitions"]:
        assignments.setdefault(each["topic"], {})[each["partition"]] = tuple(each["replicas"])
    return {topic: tuple(parts[number] for number in sorted(parts)) for topic, parts in assignments.items()}


# --- on a real cluster -----------------------------------------------------------------------------


def share_racks(kafka: DevCluster) -> None:
    """Move the fourth node into the rack of the first one, and so on."""
    for node in kafka.nodes[3:]:
        kafka.stop_node(node.id)
        properties = kafka.directory / node.name / "server.properties"
        text = properties.read_text(encoding="ascii")
        properties.write_text(re.sub(r"rack-\d+", f"rack-{node.id - 3}", text), encoding="ascii")
        kafka.start_node(node.id, timeout_s=180)


class Bench:
    """A cluster with the topics of one case at a time."""

    def __init__(self, kafka: DevCluster, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._properties: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers}
        self._quiet = {**self._properties, "log_level": 0}
        self._admin = AdminClient(self._quiet)

    def run(self, case: Case, runs: int) -> list[tuple[str, list[PlacementFigures]]]:
        """Return the name of every way, with the figures of each run."""
        self._create(case.topics)
        layout = self._layout(case.topics)
        with self._cluster() as cluster:
            sizes = cluster.partition_sizes([(t, n) for t, a in case.topics.items() for n in range(len(a))])
        measured = partial(measure, layout, sizes, case.leaves)
        ours = case.ours(layout, sizes)
        rows = [("before", [measured({})]), ("kafkaform", [measured(ours)])]
        if case.growth is None:
            remaining = [broker for broker in layout.brokers if broker.id != case.leaves]
            after = apply_assignments(Layout(tuple(remaining), layout.topics), ours)
            if case.ours is not rebalance_all:
                further = rebalance_all(after, sizes)
                rows.append(("kafkaform, then rebalance", [measured({**ours, **further})]))
            spread = place_rack_aware(after, sizes)
            rows.append(("kafkaform, rack-aware, then rebalance", [measured({**ours, **spread})]))
        if case.generate is not None:
            tries = [
                run_generator(self._kafka, self._folder, list(case.topics), case.generate)
                for _ in range(runs)
            ]
            rows.append(("kafka-reassign-partitions", [measured(each) for each in tries]))
        if case.factor is not None:
            rows.append(
                ("a script, by turns", [measured(assign_by_script(layout, case.factor, rotated=True))])
            )
            rows.append(
                ("a script, the same", [measured(assign_by_script(layout, case.factor, rotated=False))])
            )
        if case.growth is not None:
            rows.append(("the controller", [measured(self._grow(case.topics, case.growth))]))
        self._await_all(self._admin.delete_topics(list(case.topics)))
        return rows

    def _create(self, topics: Assignments) -> None:
        new = [
            NewTopic(topic, len(assignment), replica_assignment=list(map(list, assignment)))
            for topic, assignment in topics.items()
        ]
        self._await_all(self._admin.create_topics(new))
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
        increases = [NewPartitions(topic, growth * len(assignment)) for topic, assignment in topics.items()]
        self._await_all(self._admin.create_partitions(increases))
        layout = self._layout(
            {topic: assignment * growth for topic, assignment in topics.items()}, exact=False
        )
        return {topic: layout.assignment(topic) for topic in topics}

    def _layout(self, topics: Assignments, *, exact: bool = True) -> Layout:
        """Wait for the layout to have the topics; return it without other topics."""
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
                    sys.exit("the brokers do not report the topics as they were created")
                time.sleep(0.2)

    def _cluster(self) -> KafkaCluster:
        given = {"bootstrap.servers": self._kafka.bootstrap_servers}
        return KafkaCluster(self._properties, lambda: to_transport(given))

    def _await_all(self, futures: Mapping[str, Any]) -> None:
        for future in futures.values():
            future.result(TIMEOUT_S)


def measure(layout: Layout, sizes: Sizes, leaves: int | None, after: Assignments) -> PlacementFigures:
    """Measure a placement; topics that are not in `after` keep theirs."""
    before = {topic: layout.assignment(topic) for topic in layout.topics}
    way = moves(before, after, sizes)
    counted = [broker for broker in layout.brokers if broker.id != leaves]
    then = balance({**before, **after}, counted)
    return PlacementFigures(
        way.replicas, way.size, way.leaders, then.replica_spread, then.leader_spread, then.narrow
    )


def render_row(case: Case, way: str, runs: Sequence[PlacementFigures]) -> str:
    """Render a row of the table."""

    def span(values: Sequence[float], digits: int = 0) -> str:
        least, most = (f"{value:.{digits}f}" for value in (min(values), max(values)))
        return least if least == most else f"{least}-{most}"

    cells = [
        f"{case.brokers} brokers, {case.title}",
        way,
        span([run.replicas for run in runs]),
        span([run.size / 1e6 for run in runs], 1),
        span([run.leaders for run in runs]),
        span([run.replica_spread for run in runs]),
        span([run.leader_spread for run in runs]),
        span([run.narrow for run in runs]),
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
