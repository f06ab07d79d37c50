"""Import of 1,000 topics against a plan of the manifests that it writes, in one run.

Each topic has three partitions and four own configs; every import writes a file for each topic into a new
folder, and every plan reads those files. Rounds alternate between the two, and the medians are compared:
the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.plan import DAY_MS, timed
from benchmarks.table import tell
from kafkaform.batches import batches
from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.model import ResourceRef
from kafkaform.operations import CreateTopic


def main() -> int:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048) as kafka,
    ):
        build(kafka.bootstrap_servers, options.topics)
        row = measure(kafka.bootstrap_servers, Path(folder), options.topics, options.rounds)
    tell("imports", ("topics", "import s", "plan s", "ratio", "peak MB", "plan MB"), row)
    return 0


def build(address: str, count: int) -> None:
    """Create the topics."""
    work = [
        CreateTopic(
            ResourceRef("Topic", f"bench.{i:05d}"),
            3,
            1,
            {
                "retention.ms": str(DAY_MS * (1 + i % 30)),
                "retention.bytes": str(2**30),
                "cleanup.policy": "compact,delete" if i % 5 == 0 else "delete",
                "min.cleanable.dirty.ratio": "0.2",
            },
        )
        for i in range(count)
    ]
    with KafkaCluster({"bootstrap.servers": address}, lambda: {"bootstrap_servers": address}) as cluster:
        for batch in batches(work):
            errors = [error for error in cluster.execute(batch) if error is not None]
            assert not errors, errors[0]
        refs = [operation.ref for operation in work]
        while len(cluster.observe(refs).resources) < count:
            pass


def measure(address: str, folder: Path, count: int, rounds: int) -> dict[str, float]:
    """Medians over alternating rounds, after one round to warm the broker."""
    kafkaform = [sys.executable, "-m", "kafkaform"]
    rows = []
    for number in range(rounds + 1):
        topics = folder / f"topics-{number}"
        imported = timed([*kafkaform, "import", "--out", str(topics), "--bootstrap-server", address])
        assert len(list(topics.iterdir())) == count
        plan = [*kafkaform, "plan", str(topics), "--bootstrap-server", address, "--detailed-exitcode"]
        rows.append((imported, timed(plan)))
    import_s = statistics.median(one[0] for one, _ in rows[1:])
    plan_s = statistics.median(plan[0] for _, plan in rows[1:])
    return {
        "topics": count,
        "import": import_s,
        "plan": plan_s,
        "ratio": import_s / plan_s,
        "peak": max(one[1] for one, _ in rows[1:]),
        "plan_peak": max(plan[1] for _, plan in rows[1:]),
    }


if __name__ == "__main__":
    sys.exit(main())
