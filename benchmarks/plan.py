"""Plan of 1,000 and 5,000 topics against the raw admin calls, in one run: `make bench`.

Each topic has three partitions and one declared config, and a manifest file of its own; every tenth has
drifted. The raw calls are confluent-kafka's list_topics and describe_configs of the same topics, in a
process of their own like the plan, so that both pay for their imports and connections. Rounds alternate
between the two, and the medians are compared: the machine's other work hits both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kafkaform.batches import batches
from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.model import ResourceRef
from kafkaform.operations import AlterConfigs, CreateTopic

DAY_MS = 86_400_000

RAW = """
import sys
from confluent_kafka.admin import AdminClient, ConfigResource
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(sys.argv[2])]
asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
futures = admin.describe_configs(asked, request_timeout=60)
entries = [future.result() for future in futures.values()]
assert len(entries) == int(sys.argv[3]), len(entries)
"""


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = []
    for count in options.topics:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
            DevCluster.start(Path(folder) / "kafka", heap_mb=3072) as kafka,
        ):
            build(kafka.bootstrap_servers, count)
            manifests = write_manifests(Path(folder) / "topics", count)
            rows.append(measure(kafka.bootstrap_servers, manifests, count, options.rounds))
    starts = [timed([sys.executable, "-m", "kafkaform", "--help"])[0] for _ in range(options.rounds)]
    print(f"{'topics':>7} {'plan s':>8} {'raw s':>8} {'ratio':>6} {'peak MB':>8} {'raw MB':>7}")
    for row in rows:
        print(
            "{topics:>7} {plan:>8.2f} {raw:>8.2f} {ratio:>6.2f} {peak:>8.0f} {raw_peak:>7.0f}".format(**row)
        )
    print(f"kafkaform --help: {statistics.median(starts):.3f} s")
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "plan.json").write_text(
        json.dumps({"rows": rows, "help_s": statistics.median(starts)}, indent=2)
    )
    return 0


def build(address: str, count: int) -> None:
    """Create the topics, and drift every tenth."""
    refs = [ResourceRef("Topic", f"bench.{i:05d}") for i in range(count)]
    with KafkaCluster({"bootstrap.servers": address}, lambda: {"bootstrap_servers": address}) as cluster:
        work = [CreateTopic(ref, 3, 1, {"retention.ms": str(DAY_MS)}) for ref in refs]
        drift = [AlterConfigs(ref, {"retention.ms": str(2 * DAY_MS)}) for ref in refs[::10]]
        for batch in [*batches(work), *batches(drift)]:
            errors = [error for error in cluster.execute(batch) if error is not None]
            assert not errors, errors[0]
        # A broker hears of what a controller has done with seconds of delay when it is that much.
        while not settled(cluster, refs):
            time.sleep(2)


def settled(cluster: KafkaCluster, refs: list[ResourceRef]) -> bool:
    """Whether a reading shows every topic, and every tenth drifted."""
    seen = cluster.observe(refs).resources
    return len(seen) == len(refs) and all(
        seen[ref].state["config.retention.ms"] == str(2 * DAY_MS) for ref in refs[::10]
    )


def write_manifests(folder: Path, count: int) -> Path:
    """One file for each topic."""
    folder.mkdir()
    for i in range(count):
        (folder / f"{i:05d}.yaml").write_text(
            "apiVersion: kafkaform/v1\nkind: Topic\nmetadata:\n"
            f"  name: bench.{i:05d}\nspec:\n  partitions: 3\n  replicationFactor: 1\n"
            "  config:\n    retention.ms: 1d\n"
        )
    return folder


def measure(address: str, manifests: Path, count: int, rounds: int) -> dict[str, float]:
    """Medians over alternating rounds, after one round to warm the broker."""
    plan = [
        *(sys.executable, "-m", "kafkaform", "plan", str(manifests), "--bootstrap-server", address),
        *("--format", "json", "--detailed-exitcode"),
    ]
    raw = [sys.executable, "-c", RAW, address, "bench.", str(count)]
    rows = [(timed(plan, expect=2), timed(raw)) for _ in range(rounds + 1)][1:]
    plan_s = statistics.median(p[0] for p, _ in rows)
    raw_s = statistics.median(r[0] for _, r in rows)
    return {
        "topics": count,
        "plan": plan_s,
        "raw": raw_s,
        "ratio": plan_s / raw_s,
        "peak": max(p[1] for p, _ in rows),
        "raw_peak": max(r[1] for _, r in rows),
    }


def timed(command: list[str], expect: int = 0) -> tuple[float, float]:
    """Wall time in seconds and peak memory in MB of one process."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == expect, f"exit code {process.returncode} of {command[:4]}"
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
