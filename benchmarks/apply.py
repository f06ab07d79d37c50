"""Applies of 1,000 creates, config changes and partition increases against the raw calls, in one run.

Each round makes 1,000 topics of three partitions with one config, changes that config of each, and raises
each to six partitions: once by `kafkaform apply --auto-approve` of a manifest file for each topic, and once
by a script that makes the same requests with confluent-kafka and waits for their answers. Both are processes
of their own. What a round has made is deleted before the next way has its turn, so that every way finds the
same broker.

An answer to a request says that the controller has written it down; brokers take it up after that, and an
apply is over only when they show it. So there are two scripts: `raw` ends with the last answer, and `raw,
read` reads all of the topics until the broker shows what was asked for, as whoever must know would.

An apply also reads manifests, makes the plan, has the broker check every change, compares each with the
cluster once more, and keeps the lock and the record. `bare` is one without the lock and the record;
`saved` one of a plan that was made before, as after a review.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, RAW, Figures, summed_up, timed
from benchmarks.table import tell
from kafkaform.batches import MAX_WEIGHT
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.operations import DeleteTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WAYS = ("apply", "bare", "saved", "raw", "read")
MORE_PARTITIONS = 6
PROPERTIES = {"log.segment.delete.delay.ms": "100"}
"""What a round has made is gone when it is deleted, not a minute later in the middle of another."""

CALLS = """
import sys, time
from confluent_kafka.admin import *
address, work, count, batch, read = *sys.argv[1:3], *map(int, sys.argv[3:])
admin = AdminClient({"bootstrap.servers": address})
names = [f"bench.{number:05d}" for number in range(count)]
def resource(name, **more):
    return ConfigResource(ConfigResource.Type.TOPIC, name, **more)
def retention(ms):
    return ConfigEntry("retention.ms", str(ms), incremental_operation=AlterConfigOpType.SET)
def ask(some):
    if work == "create":
        topics = [NewTopic(n, 3, 1, config={"retention.ms": "86400000"}) for n in some]
        return admin.create_topics(topics, request_timeout=60)
    if work == "configs":
        changes = [resource(n, incremental_configs=[retention(172800000)]) for n in some]
        return admin.incremental_alter_configs(changes, request_timeout=60)
    return admin.create_partitions([NewPartitions(n, 6) for n in some], request_timeout=60)
def shown():
    if work == "configs":
        futures = admin.describe_configs([resource(n) for n in names], request_timeout=60)
        return all(f.result()["retention.ms"].value == "172800000" for f in futures.values())
    wanted, topics = 3 if work == "create" else 6, admin.list_topics(timeout=60).topics
    return all(n in topics and len(topics[n].partitions) == wanted for n in names)
for first in range(0, count, batch):
    for future in ask(names[first : first + batch]).values():
        future.result()
while read and not shown():
    time.sleep(0.05)
"""

HEADINGS = (
    *("", "apply s", "bare s", "saved s", "raw s", "raw, read s", "apply/read", "saved/read"),
    *("apply CPU s", "saved CPU s", "read CPU s", "peak MB"),
)
RECORDS = {"create": 5, "configs": 2, "partitions": 4}
"""What is measured, and how many records a controller writes for one topic of it; see `kafkaform.batches`."""
LONGEST_S = 300.0
"""How long a broker may be busy with one piece of work."""


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048, properties=PROPERTIES) as kafka,
    ):
        taken = measure(kafka, Path(folder), options.topics, options.rounds)
    rows = [row(work, {way: taken[way, work] for way in WAYS}) for work in RECORDS]
    tell("apply", HEADINGS, *rows)
    return 0


def measure(kafka: DevCluster, folder: Path, count: int, rounds: int) -> dict[tuple[str, str], Figures]:
    """What each way took for each piece of work: medians over the rounds that count."""
    scene.write_manifests(folder / "create", count, keyed=False)
    scene.write_manifests(folder / "configs", count, retention="2d", keyed=False)
    scene.write_manifests(
        folder / "partitions", count, partitions=MORE_PARTITIONS, retention="2d", keyed=False
    )
    taken: dict[tuple[str, str], list[Figures]] = {(way, work): [] for way in WAYS for work in RECORDS}
    for number in range(rounds + 1):
        for way in WAYS:
            for work in RECORDS:
                figures = timed(command(way, work, kafka.bootstrap_servers, folder, count))
                if number:  # the first round warms the broker up
                    taken[way, work].append(figures)
                settle(kafka, count, work)
            delete(kafka, count)
    return {key: summed_up(figures) for key, figures in taken.items()}


def command(way: str, work: str, address: str, folder: Path, count: int) -> list[str]:
    """The command line of one way to do a piece of work; a plan that it is to carry out is made here."""
    if way in ("raw", "read"):
        batch = MAX_WEIGHT // RECORDS[work]
        return [*RAW, CALLS, address, work, *map(str, (count, batch, int(way == "read")))]
    manifests, where = str(folder / work), ("--bootstrap-server", address)
    if way == "saved":
        plan = str(folder / "plan.json")
        timed([*KAFKAFORM, "plan", manifests, *where, "--out", plan])
        manifests = plan
    bare = ["--no-lock", "--no-audit"] if way == "bare" else []
    return [*KAFKAFORM, "apply", manifests, *where, "--auto-approve", *bare]


def settle(kafka: DevCluster, count: int, work: str) -> None:
    """Wait until the broker is done with what was asked for, and shows it."""
    partitions = MORE_PARTITIONS if work == "partitions" else scene.PARTITIONS
    awaited(lambda: scene.logs(kafka) == count * partitions)
    with scene.reached(kafka.bootstrap_servers) as cluster:
        retention = str(scene.DAY_MS if work == "create" else 2 * scene.DAY_MS)
        awaited(
            lambda: all(
                one.state["config.retention.ms"] == retention
                for one in cluster.observe(scene.refs(count)).resources.values()
            )
        )


def delete(kafka: DevCluster, count: int) -> None:
    """Delete all topics, and wait until nothing is left of them."""
    with scene.reached(kafka.bootstrap_servers) as cluster:
        seen = cluster.observe(scene.refs(count)).resources
        scene.carried_out(cluster, [DeleteTopic(ref, one.uid) for ref, one in seen.items()])
    awaited(lambda: scene.logs(kafka) == 0)


def awaited(done: Callable[[], bool]) -> None:
    """Wait until something is done; ends the benchmark where it never is."""
    deadline = time.monotonic() + LONGEST_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"bench: the broker was not done within {LONGEST_S:.0f} s")
        time.sleep(0.2)


def row(work: str, taken: Mapping[str, Figures]) -> dict[str, float | str]:
    """A row of the table."""
    seconds = {way: figures.seconds for way, figures in taken.items()}
    return {
        "work": work,
        **{f"{way}_s": one for way, one in seconds.items()},
        "apply_ratio": seconds["apply"] / seconds["read"],
        "saved_ratio": seconds["saved"] / seconds["read"],
        **{f"{way}_cpu_s": taken[way].cpu for way in ("apply", "saved", "read")},
        "peak": taken["apply"].peak,
    }


if __name__ == "__main__":
    sys.exit(main())
