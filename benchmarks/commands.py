"""Compare status, doctor, drift and import of large clusters with raw client calls.

Each topic has three partitions; each group has an offset in every partition of 20 topics. Every topic has a
manifest file and an entry in the audit record, and every tenth has drifted since. The raw calls are
confluent-kafka's list_topics and describe_configs of all topics, list and describe of all groups, the offsets
of each group, and one list_offsets of all partitions, in a separate process. They read what a status reads,
except for sizes on disk, which that client does not support. Doctor also reads the quorum, running
reassignments and the first offsets; "health only" checks the rules that an apply checks. Drift lists the
groups and reads the record. An import writes a file for each topic, and a plan of these has no change.

Rounds alternate and medians are compared, so that other load on the machine affects all of them alike.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, RAW, Figures, compare_medians, measure_process
from benchmarks.table import report_rows
from kafkaform.resources import group_ref
from kafkaform.resources.consumer_group.operations import ResetOffsets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
        with scene.start_brokers(count * scene.PARTITIONS) as (folder, kafka):
            address = kafka.bootstrap_servers
            scene.create_topics(kafka, count)
            commit_offsets(address, count, options.groups)
            manifests = scene.write_manifests(folder / "topics", count)
            record_applies(address, manifests, count)
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
    report_rows("commands", HEADINGS, *rows)
    return 0


def commit_offsets(address: str, topics: int, groups: int) -> None:
    """Give every group an offset in every partition of its topics."""
    resets = []
    for number in range(groups):
        read = [f"bench.{(number * TOPICS_OF_A_GROUP + i) % topics:05d}" for i in range(TOPICS_OF_A_GROUP)]
        offsets = {(name, partition): 0 for name in read for partition in range(scene.PARTITIONS)}
        resets.append(ResetOffsets(group_ref(f"bench.group.{number:03d}"), offsets))
    with scene.connect(address) as cluster:
        outcomes = cluster.execute(resets)
    assert not any(outcomes), outcomes


def record_applies(address: str, manifests: Path, count: int) -> None:
    """Apply every topic, so that the record has it, and let every tenth drift again."""
    topics = scene.list_refs(count)
    with scene.connect(address) as cluster:
        scene.set_retention(cluster, topics, scene.DAY_MS // 2)
        apply = [*KAFKAFORM, "apply", str(manifests), "--bootstrap-server", address]
        measure_process([*apply, "--auto-approve", "--no-lock"])
        scene.cause_drift(cluster, topics)


def measure(address: str, manifests: Path, topics: int, groups: int, rounds: int) -> dict[str, Figures]:
    """Measure the medians of each command and of the raw calls."""

    def build_command(name: str, *arguments: str) -> Sequence[str]:
        return [*KAFKAFORM, name, "--bootstrap-server", address, *arguments]

    def run_import(number: int) -> Figures:
        folder = manifests.with_name(f"imported-{number}")
        figures = measure_process(build_command("import", "--out", str(folder), "--kind", "topic"))
        assert len(list(folder.glob("**/*.yaml"))) == topics
        if not number:
            measure_process(build_command("plan", str(folder), "--detailed-exitcode", "--no-strict"))
        return figures

    offsets = groups * TOPICS_OF_A_GROUP * scene.PARTITIONS
    calls = [*RAW, CALLS, address, *map(str, (topics, groups, offsets))]
    doctor = build_command("doctor", "--format", "json")
    before_apply = [f"--rule={code}" for code in ("KF301", "KF303", "KF304", "KF305")]
    drift = build_command("drift", "--format", "json", str(manifests))
    return compare_medians(
        {
            "status": lambda _: measure_process(build_command("status")),
            "doctor": lambda _: measure_process([*doctor, str(manifests)], expect=2),
            "doctor, health only": lambda _: measure_process([*doctor, *before_apply]),
            "drift": lambda _: measure_process(drift, expect=2),
            "import": run_import,
            "raw calls": lambda _: measure_process(calls),
        },
        rounds,
    )


if __name__ == "__main__":
    sys.exit(main())
