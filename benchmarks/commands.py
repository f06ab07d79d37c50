"""Status, doctor, drift and import of large clusters against the raw client calls, in one run.

Each topic has three partitions; each of the groups has an offset in every partition of 20 topics. Every topic
has a manifest file and a line in the record of applies, and every tenth has drifted since. The raw calls are
confluent-kafka's list_topics and describe_configs of all topics, list and describe of all groups, the offsets
of each group, and one list_offsets of all partitions, in a process of their own. They are what a status
reads, but for sizes on disk, which that client cannot ask for. Doctor reads the quorum, running reassignments
and the first offsets besides; "health only" has the rules that an apply looks at. Drift lists the groups and
reads the record. An import writes a file for each topic, and a plan of these finds no change.

Rounds alternate, and the medians are compared: the machine's other work hits all of them.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, RAW, compared, timed
from benchmarks.table import tell
from kafkaform.core.operations import ResetOffsets
from kafkaform.resources.consumer_group import group_ref

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.rounds import Figures

TOPICS_OF_A_GROUP = 20

CALLS = """
import sys
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
topics = {n: t for n, t in admin.list_topics(timeout=120).topics.items() if n.startswith("bench.")}
asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
configs = [f.result() for f in admin.describe_configs(asked, request_timeout=600).values()]
listed = admin.list_consumer_groups(request_timeout=60).result().valid
names = [group.group_id for group in listed]
groups = []
if names:
    groups = [f.result() for f in admin.describe_consumer_groups(names, request_timeout=60).values()]
offsets = 0
for name in names:
    wanted = ConsumerGroupTopicPartitions(name)
    (future,) = admin.list_consumer_group_offsets([wanted], request_timeout=60).values()
    offsets += len(future.result().topic_partitions)
ends = {TopicPartition(n, p): OffsetSpec.latest() for n, t in topics.items() for p in t.partitions}
for future in admin.list_offsets(ends, request_timeout=600).values():
    future.result()
assert (len(configs), len(groups), offsets) == tuple(map(int, sys.argv[2:])), (len(groups), offsets)
"""

HEADINGS = ("topics", "", "seconds", "to raw calls", "CPU s", "peak MB", "ms a topic")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, float | str]] = []
    for count in options.topics:
        with scene.brokers(count * scene.PARTITIONS) as (folder, kafka):
            address = kafka.bootstrap_servers
            scene.build(kafka, count)
            commit(address, count, options.groups)
            manifests = scene.write_manifests(folder / "topics", count)
            record(address, manifests, count)
            taken = measure(address, manifests, count, options.groups, options.rounds)
            print(f"{count:,} topics: {taken}", flush=True)
            rows += [
                {
                    "topics": count,
                    "way": way,
                    "seconds": figures.seconds,
                    "ratio": figures.seconds / taken["raw calls"].seconds,
                    "cpu": figures.cpu,
                    "peak": figures.peak,
                    "each": figures.seconds / count * 1_000,
                }
                for way, figures in taken.items()
            ]
    tell("commands", HEADINGS, *rows)
    return 0


def commit(address: str, topics: int, groups: int) -> None:
    """Give every group an offset in every partition of its topics."""
    resets = []
    for number in range(groups):
        read = [f"bench.{(number * TOPICS_OF_A_GROUP + i) % topics:05d}" for i in range(TOPICS_OF_A_GROUP)]
        offsets = {(name, partition): 0 for name in read for partition in range(scene.PARTITIONS)}
        resets.append(ResetOffsets(group_ref(f"bench.group.{number:03d}"), offsets))
    with scene.reached(address) as cluster:
        outcomes = cluster.execute(resets)
    assert not any(outcomes), outcomes


def record(address: str, manifests: Path, count: int) -> None:
    """Apply every topic, so that there is a record of it, and have every tenth drift again."""
    topics = scene.refs(count)
    with scene.reached(address) as cluster:
        scene.retain(cluster, topics, scene.DAY_MS // 2)
        apply = [*KAFKAFORM, "apply", str(manifests), "--bootstrap-server", address]
        timed([*apply, "--auto-approve", "--no-lock"])
        scene.drift(cluster, topics)


def measure(address: str, manifests: Path, topics: int, groups: int, rounds: int) -> dict[str, Figures]:
    """Medians of each command, and of the raw calls."""

    def command(name: str, *more: str) -> Sequence[str]:
        return [*KAFKAFORM, name, "--bootstrap-server", address, *more]

    def imported(number: int) -> Figures:
        folder = manifests.with_name(f"imported-{number}")
        figures = timed(command("import", "--out", str(folder), "--kind", "topic"))
        assert len(list(folder.glob("**/*.yaml"))) == topics
        if not number:
            timed(command("plan", str(folder), "--detailed-exitcode", "--no-strict"))
        return figures

    offsets = groups * TOPICS_OF_A_GROUP * scene.PARTITIONS
    calls = [*RAW, CALLS, address, *map(str, (topics, groups, offsets))]
    doctor = command("doctor", "--format", "json")
    before_apply = [f"--rule={code}" for code in ("KF301", "KF303", "KF304", "KF305")]
    drift = command("drift", "--format", "json", str(manifests))
    return compared(
        {
            "status": lambda _: timed(command("status")),
            "doctor": lambda _: timed([*doctor, str(manifests)], expect=2),
            "doctor, health only": lambda _: timed([*doctor, *before_apply]),
            "drift": lambda _: timed(drift, expect=2),
            "import": imported,
            "raw calls": lambda _: timed(calls),
        },
        rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
