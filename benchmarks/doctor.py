"""Doctor on 1,000 topics with 50 groups against the raw client calls, in one run.

The cluster is that of benchmarks.status, and so are the raw calls. Each topic has a manifest, and every tenth
has drifted: that is 100 findings, each of its own. Doctor reads besides what the raw calls do: the quorum,
running reassignments, and the first offset of each log. A third row has the rules that need no groups and no
manifests, as before an apply. Rounds alternate, and the medians are compared: the machine's other work hits
all of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.plan import build, timed, write_manifests
from benchmarks.status import PARTITIONS, RAW, TOPICS_OF_A_GROUP, commit
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
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048) as kafka,
    ):
        build(kafka.bootstrap_servers, options.topics)
        commit(kafka.bootstrap_servers, options.topics, options.groups)
        manifests = write_manifests(Path(folder) / "topics", options.topics)
        rows = measure(kafka.bootstrap_servers, manifests, options.topics, options.groups, options.rounds)
    print(f"{options.topics:,} topics, {options.groups:,} groups")
    print(f"{'':>12} {'s':>6} {'ratio':>6} {'peak MB':>8}")
    for name, (seconds, peak) in rows.items():
        print(f"{name:>12} {seconds:>6.2f} {seconds / rows['raw'][0]:>6.2f} {peak:>8.0f}")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "doctor.json").write_text(json.dumps(rows, indent=2))
    return 0


def measure(
    address: str, manifests: Path, topics: int, groups: int, rounds: int
) -> dict[str, tuple[float, float]]:
    """Median seconds and peak memory over alternating rounds, after one round to warm the broker."""
    doctor = [sys.executable, "-m", "kafkaform", "doctor", "--bootstrap-server", address, "--format", "json"]
    before_apply = [f"--rule={code}" for code in ("KF301", "KF303", "KF304", "KF305")]
    offsets = groups * TOPICS_OF_A_GROUP * PARTITIONS
    commands = {
        "doctor": ([*doctor, str(manifests)], 2),
        "health only": ([*doctor, *before_apply], 0),
        "raw": ([sys.executable, "-c", RAW, address, *map(str, (topics, groups, offsets))], 0),
    }
    taken = [
        {name: timed(command, expect) for name, (command, expect) in commands.items()}
        for _ in range(rounds + 1)
    ][1:]
    return {
        name: (
            statistics.median(one[name][0] for one in taken),
            max(one[name][1] for one in taken),
        )
        for name in commands
    }


if __name__ == "__main__":
    sys.exit(main())
