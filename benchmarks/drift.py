"""Drift of 1,000 topics against their plan, in one run.

The cluster and the manifests are those of `benchmarks.plan`: each topic has three partitions and one declared
config, and every tenth has drifted. Drift also lists the groups that nobody declares and reads the record of
applies, in which every topic has a change; the plan has the brokers validate its changes. Rounds alternate
between the two, and the medians are compared: the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.plan import DAY_MS, build, settled, timed, write_manifests
from benchmarks.table import tell
from kafkaform.batches import batches
from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.model import ResourceRef
from kafkaform.operations import AlterConfigs


def main() -> int:
    """Measure and print a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-record", action="store_true", help="No apply was recorded.")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048) as kafka,
    ):
        build(kafka.bootstrap_servers, options.topics)
        manifests = write_manifests(Path(folder) / "topics", options.topics)
        if not options.no_record:
            record(kafka.bootstrap_servers, manifests, options.topics)
        row = measure(kafka.bootstrap_servers, manifests, options.topics, options.rounds)
    tell("drift", ("topics", "drift s", "plan s", "ratio", "peak MB", "plan MB"), row)
    return 0


def record(address: str, manifests: Path, count: int) -> None:
    """Apply every topic, so that there is a record of it, and have every tenth drift again."""
    refs = [ResourceRef("Topic", f"bench.{i:05d}") for i in range(count)]
    with KafkaCluster({"bootstrap.servers": address}, lambda: {"bootstrap_servers": address}) as cluster:
        alter(cluster, refs, DAY_MS // 2)
        apply = [sys.executable, "-m", "kafkaform", "apply", str(manifests), "--bootstrap-server", address]
        apply += ["--auto-approve", "--no-lock"]
        subprocess.run(apply, cwd=manifests.parent, stdout=subprocess.DEVNULL, check=True)
        alter(cluster, refs[::10], 2 * DAY_MS)
        while not settled(cluster, refs):
            time.sleep(2)


def alter(cluster: KafkaCluster, refs: list[ResourceRef], retention_ms: int) -> None:
    """Give topics another retention, by hand as it were."""
    for batch in batches([AlterConfigs(ref, {"retention.ms": str(retention_ms)}) for ref in refs]):
        errors = [error for error in cluster.execute(batch) if error is not None]
        assert not errors, errors[0]


def measure(address: str, manifests: Path, count: int, rounds: int) -> dict[str, float]:
    """Medians over alternating rounds, after one round to warm the broker."""
    where = (str(manifests), "--bootstrap-server", address, "--format", "json")
    drift = [sys.executable, "-m", "kafkaform", "drift", *where]
    plan = [sys.executable, "-m", "kafkaform", "plan", *where, "--detailed-exitcode"]
    rows = [(timed(drift, expect=2), timed(plan, expect=2)) for _ in range(rounds + 1)][1:]
    drift_s = statistics.median(d[0] for d, _ in rows)
    plan_s = statistics.median(p[0] for _, p in rows)
    return {
        "topics": count,
        "drift": drift_s,
        "plan": plan_s,
        "ratio": drift_s / plan_s,
        "peak": max(d[1] for d, _ in rows),
        "plan_peak": max(p[1] for _, p in rows),
    }


if __name__ == "__main__":
    sys.exit(main())
