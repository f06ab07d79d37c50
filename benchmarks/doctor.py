"""Doctor on 1,000 topics with 50 groups against the raw client calls, in one run.

The cluster is that of benchmarks.status, and so are the raw calls. Each topic has a manifest, and every tenth
has drifted: that is 100 findings, each of its own. Doctor reads besides what the raw calls do: the quorum,
running reassignments, and the first offset of each log. Another row has the rules that need no groups and no
manifests, as before an apply. Rounds alternate, and the medians are compared: the machine's other work hits
all of them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.rounds import KAFKAFORM, RAW, compared, timed
from benchmarks.scene import build, write_manifests
from benchmarks.status import CALLS, commit, offsets
from benchmarks.table import tell
from kafkaform.devcluster.cluster import DevCluster


def main() -> int:
    """Measure and print a table."""
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
        manifests = write_manifests(Path(folder) / "topics", options.topics)
        rows = measure(kafka.bootstrap_servers, manifests, options.topics, options.groups, options.rounds)
    print(f"{options.topics:,} topics, {options.groups:,} groups")
    tell("doctor", ("", "s", "ratio", "peak MB"), *rows)
    return 0


def measure(
    address: str, manifests: Path, topics: int, groups: int, rounds: int
) -> list[dict[str, float | str]]:
    """The rows of the table."""
    doctor = [*KAFKAFORM, "doctor", "--bootstrap-server", address, "--format", "json"]
    before_apply = [f"--rule={code}" for code in ("KF301", "KF303", "KF304", "KF305")]
    calls = [*RAW, CALLS, address, *map(str, (topics, groups, offsets(groups)))]
    taken = compared(
        {
            "doctor": lambda _: timed([*doctor, str(manifests)], expect=2),
            "health only": lambda _: timed([*doctor, *before_apply]),
            "raw": lambda _: timed(calls),
        },
        rounds,
    )
    return [
        {"way": way, "s": one.seconds, "ratio": one.seconds / taken["raw"].seconds, "peak": one.peak}
        for way, one in taken.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
