"""Drift of 1,000 topics against their plan, in one run.

The cluster and the manifests are those of `benchmarks.plan`: each topic has three partitions and one declared
config, and every tenth has drifted. Drift also lists the groups that nobody declares and reads the record of
applies, in which every topic has a change; the plan has the brokers validate its changes. Rounds alternate
between the two, and the medians are compared: the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks import scene
from benchmarks.rounds import KAFKAFORM, compared, timed
from benchmarks.table import tell
from kafkaform.core.operations import AlterConfigs
from kafkaform.devcluster.cluster import DevCluster


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
        DevCluster.start(Path(folder) / "kafka", heap_mb=2048, full_jit=True) as kafka,
    ):
        scene.build(kafka.bootstrap_servers, options.topics)
        manifests = scene.write_manifests(Path(folder) / "topics", options.topics)
        if not options.no_record:
            record(kafka.bootstrap_servers, manifests, options.topics)
        row = measure(kafka.bootstrap_servers, manifests, options.topics, options.rounds)
    tell("drift", ("topics", "drift s", "plan s", "ratio", "peak MB", "plan MB"), row)
    return 0


def record(address: str, manifests: Path, count: int) -> None:
    """Apply every topic, so that there is a record of it, and have every tenth drift again."""
    topics = scene.refs(count)
    with scene.reached(address) as cluster:
        half = {"retention.ms": str(scene.DAY_MS // 2)}
        scene.carried_out(cluster, [AlterConfigs(ref, half) for ref in topics])
        apply = [*KAFKAFORM, "apply", str(manifests), "--bootstrap-server", address]
        apply += ["--auto-approve", "--no-lock"]
        timed(apply)
        scene.drift(cluster, topics)


def measure(address: str, manifests: Path, count: int, rounds: int) -> dict[str, float]:
    """The line."""
    where = (str(manifests), "--bootstrap-server", address, "--format", "json")
    drift = [*KAFKAFORM, "drift", *where]
    plan = [*KAFKAFORM, "plan", *where, "--detailed-exitcode", "--no-strict"]
    taken = compared(
        {"drift": lambda _: timed(drift, expect=2), "plan": lambda _: timed(plan, expect=2)}, rounds
    )
    return {
        "topics": count,
        "drift": taken["drift"].seconds,
        "plan": taken["plan"].seconds,
        "ratio": taken["drift"].seconds / taken["plan"].seconds,
        "peak": taken["drift"].peak,
        "plan_peak": taken["plan"].peak,
    }


if __name__ == "__main__":
    sys.exit(main())
