"""Import of 1,000 topics against a plan of the manifests that it writes, in one run.

Each topic has three partitions and four own configs; every import writes a file for each topic into a new
folder, and every plan reads those files. Rounds alternate between the two, and the medians are compared:
the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.rounds import KAFKAFORM, Figures, compared, timed
from benchmarks.scene import DAY_MS, PARTITIONS, carried_out, reached, refs
from benchmarks.table import tell
from kafkaform.core.operations import CreateTopic
from kafkaform.devcluster.cluster import DevCluster


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
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048, full_jit=True) as kafka,
    ):
        build(kafka.bootstrap_servers, options.topics)
        row = measure(kafka.bootstrap_servers, Path(folder), options.topics, options.rounds)
    tell("imports", ("topics", "import s", "plan s", "ratio", "peak MB", "plan MB"), row)
    return 0


def build(address: str, count: int) -> None:
    """Create the topics."""
    topics = refs(count)
    with reached(address) as cluster:
        carried_out(
            cluster,
            [
                CreateTopic(
                    ref,
                    PARTITIONS,
                    1,
                    {
                        "retention.ms": str(DAY_MS * (1 + i % 30)),
                        "retention.bytes": str(2**30),
                        "cleanup.policy": "compact,delete" if i % 5 == 0 else "delete",
                        "min.cleanable.dirty.ratio": "0.2",
                    },
                )
                for i, ref in enumerate(topics)
            ],
        )
        while len(cluster.observe(topics).resources) < count:
            pass


def measure(address: str, folder: Path, count: int, rounds: int) -> dict[str, float]:
    """The line."""
    where = ("--bootstrap-server", address)

    def imported(number: int) -> Figures:
        topics = folder / f"topics-{number}"
        figures = timed([*KAFKAFORM, "import", "--out", str(topics), *where])
        assert len(list(topics.iterdir())) == count
        return figures

    def planned(number: int) -> Figures:
        topics = folder / f"topics-{number}"
        return timed([*KAFKAFORM, "plan", str(topics), *where, "--detailed-exitcode", "--no-strict"])

    taken = compared({"import": imported, "plan": planned}, rounds)
    return {
        "topics": count,
        "import": taken["import"].seconds,
        "plan": taken["plan"].seconds,
        "ratio": taken["import"].seconds / taken["plan"].seconds,
        "peak": taken["import"].peak,
        "plan_peak": taken["plan"].peak,
    }


if __name__ == "__main__":
    sys.exit(main())
