"""Status of 1,000 topics with 50 groups against the raw client calls, in one run.

Each topic has three partitions; each group has an offset in every partition of 20 topics, so that 3,000
offsets are read, and the ends of 3,000 logs. The raw calls are confluent-kafka's list_topics and
describe_configs of all topics, list and describe of all groups, the offsets of each group, and one
list_offsets of all partitions, in a process of their own like the status: both pay for their imports and
connections. Sizes on disk are not among the raw calls: that client cannot ask for them. Rounds alternate
between the two, and the medians are compared: the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.rounds import KAFKAFORM, RAW, compared, timed
from benchmarks.scene import PARTITIONS, build
from benchmarks.table import tell
from kafkaform.devcluster.cluster import DevCluster

TOPICS_OF_A_GROUP = 20
TIMEOUT_S = 60

CALLS = """
import sys
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
topics = {n: t for n, t in admin.list_topics(timeout=30).topics.items() if n.startswith("bench.")}
asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
configs = [f.result() for f in admin.describe_configs(asked, request_timeout=60).values()]
listed = admin.list_consumer_groups(request_timeout=60).result().valid
names = [group.group_id for group in listed]
groups = [f.result() for f in admin.describe_consumer_groups(names, request_timeout=60).values()]
offsets = 0
for name in names:
    wanted = ConsumerGroupTopicPartitions(name)
    (future,) = admin.list_consumer_group_offsets([wanted], request_timeout=60).values()
    offsets += len(future.result().topic_partitions)
ends = {TopicPartition(n, p): OffsetSpec.latest() for n, t in topics.items() for p in t.partitions}
for future in admin.list_offsets(ends, request_timeout=60).values():
    future.result()
assert (len(configs), len(groups), offsets) == tuple(map(int, sys.argv[2:])), (len(groups), offsets)
"""


def main() -> int:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048, full_jit=True) as kafka,
    ):
        build(kafka.bootstrap_servers, options.topics)
        commit(kafka.bootstrap_servers, options.topics, options.groups)
        row = measure(kafka.bootstrap_servers, options.topics, options.groups, options.rounds)
    tell("status", ("topics", "groups", "status s", "raw s", "ratio", "peak MB", "raw MB"), row)
    return 0


def commit(address: str, topics: int, groups: int) -> None:
    """Give every group an offset in every partition of its topics."""
    admin = AdminClient({"bootstrap.servers": address})
    for number in range(groups):
        first = number * TOPICS_OF_A_GROUP
        offsets = [
            TopicPartition(f"bench.{(first + i) % topics:05d}", partition, 0)
            for i in range(TOPICS_OF_A_GROUP)
            for partition in range(PARTITIONS)
        ]
        wanted = ConsumerGroupTopicPartitions(f"bench.group.{number:03d}", offsets)
        while not committed(admin, wanted):  # the first group waits for its coordinator
            pass


def committed(admin: AdminClient, wanted: ConsumerGroupTopicPartitions) -> bool:
    """Whether every offset was taken."""
    (future,) = admin.alter_consumer_group_offsets([wanted], request_timeout=TIMEOUT_S).values()
    return all(part.error is None for part in future.result(TIMEOUT_S).topic_partitions)


def measure(address: str, topics: int, groups: int, rounds: int) -> dict[str, float]:
    """The line."""
    status = [*KAFKAFORM, "status", "--bootstrap-server", address]
    calls = [*RAW, CALLS, address, *map(str, (topics, groups, offsets(groups)))]
    taken = compared({"status": lambda _: timed(status), "raw": lambda _: timed(calls)}, rounds)
    return {
        "topics": topics,
        "groups": groups,
        "status": taken["status"].seconds,
        "raw": taken["raw"].seconds,
        "ratio": taken["status"].seconds / taken["raw"].seconds,
        "peak": taken["status"].peak,
        "raw_peak": taken["raw"].peak,
    }


def offsets(groups: int) -> int:
    """How many offsets so many groups have."""
    return groups * TOPICS_OF_A_GROUP * PARTITIONS


if __name__ == "__main__":
    sys.exit(main())
