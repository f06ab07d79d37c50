"""Measure applies that are too large for brokers on one machine, on the cluster in memory.

Three applies, each at three sizes, show whether anything grows faster than the work: creating topics with
five partitions, increasing partitions from 5 to 15, and draining one of three brokers, which moves all of its
replicas. Each runs in a separate process, with the record and the throttles of a real apply. Time passes only
while the apply waits, in simulated seconds. Partitions have 10 MB each, and the drained broker sends a batch
at the rate of the default throttle.

The same applies also run at a size that fits three brokers on this machine, on these and in memory, where the
moved partitions are empty: the calls to both clusters should agree. The cluster in memory reports each change
at once; real brokers lag behind, and are read again until they report it.

- `calls` are an apply's calls of the cluster interface (`kafkaform.cluster.protocol`); `by kind` are the most
  frequent. An `execute` is one request, a `layout` three.
- `CPU` is that of the apply: in memory without that of the cluster, on real brokers with that of the client.
- `plan s` is the CPU time to make the plan, to write it to a file and to read it.
- `shown` are the lines of the plan and of the result as text.
- `longest` is the longest line of the record, which is one message (1,048,588 bytes are allowed).
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from benchmarks import scene
from benchmarks.table import report_rows
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.apply.moves.throttle_journal import open_throttle_journal
from kafkaform.audit.journal import open_journal
from kafkaform.audit.record import Author, format_timestamp
from kafkaform.config.settings import AuditSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Desired, Intent
from kafkaform.core.operations import batches
from kafkaform.core.partitions import Broker
from kafkaform.core.progress import Clock
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster
from kafkaform.plan.plan_file import compute_plan_digest, plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.rebalancing import RebalanceRequest, make_rebalance
from kafkaform.report.apply import render_apply
from kafkaform.report.plan import render_plan
from kafkaform.resources import topic_ref
from kafkaform.resources.replicas.moves import MoveOptions
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.cluster.protocol import Cluster
    from kafkaform.core.plans import Plan

WORKS = ("creates", "partitions", "moves")
SIZES = {
    "creates": (25_000, 50_000, 100_000),
    "partitions": (25_000, 50_000, 100_000),
    "moves": (2_500, 5_000, 10_000),
}
"""The number of partitions that are created, or of replicas that are moved."""
REAL = {"creates": 5_000, "partitions": 5_000, "moves": 500}
PARTITIONS = 5
ADDED = 10
BROKERS = 3
PARTITION_BYTES = 10_000_000
STEP_S = 0.1
"""The simulated time of one step of copying, and of one read."""
HEADINGS = (
    *("work", "cluster", "size", "calls", "by kind", "pauses", "waited s", "CPU s", "µs for each"),
    *("peak MB", "plan s", "plan MB", "shown", "record MB", "longest"),
)


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument(
        "--share", type=float, default=1.0, help="the share of the sizes; 0.1 for a quick run"
    )
    parser.add_argument("--no-kafka", action="store_true", help="only in memory")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        work, size, address = options.run
        print(json.dumps(run_simulation(work, int(size), address)))
        return 0
    rows = []
    if not options.no_kafka:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
            DevCluster.start(
                Path(folder) / "kafka",
                ClusterSpec(brokers=BROKERS, heap_mb=1024, full_jit=True, properties=scene.PROPERTIES),
            ) as kafka,
        ):
            for work in options.works:
                size = int(REAL[work] * options.share)
                rows += [run_in_subprocess(work, size, where) for where in (kafka.bootstrap_servers, "empty")]
    for work in options.works:
        rows += [run_in_subprocess(work, int(size * options.share), "memory") for size in SIZES[work]]
    report_rows("simulate", HEADINGS, *rows)
    return 0


def run_in_subprocess(work: str, size: int, where: str) -> dict[str, float | str]:
    """Measure one row of the table in a separate process, so that its peak memory is that of the apply."""
    command = [sys.executable, "-m", "benchmarks.simulate", "--run", work, str(size), where]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    row: dict[str, float | str] = json.loads(ran.stdout)
    return row


class CountingCluster:
    """A cluster that counts the calls and their CPU time.

    Args:
        cluster: The cluster that the calls are passed to.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.calls: Counter[str] = Counter()
        self.cpu = 0.0
        self.record: list[int] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a method of the cluster that counts its calls."""
        method = getattr(self._cluster, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            if name == "append_audit":
                self.record += map(len, arguments[0])
            begun = time.process_time()
            try:
                return method(*arguments, **options)
            finally:
                self.cpu += time.process_time() - begun

        return call


class SimulatedTime:
    """The time of an apply, which passes only in sleeps; with real brokers, the real time.

    Args:
        memory: The cluster in memory, whose replicas are copied during sleeps; None for real brokers.
    """

    def __init__(self, memory: MemoryCluster | None) -> None:
        self._memory = memory
        self._now = 0.0
        self.pauses = 0
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        """Count a pause, and let its time pass."""
        self.pauses += 1
        self.seconds += seconds
        if self._memory is None:
            time.sleep(seconds)
        else:
            self._now += seconds
            self._memory.advance(round(seconds / STEP_S))

    @property
    def clock(self) -> Clock:
        """The clock for an apply."""
        return Clock(now=time.monotonic if self._memory is None else lambda: self._now, sleep=self.sleep)


def run_simulation(work: str, size: int, where: str) -> dict[str, float | str]:
    """Create the cluster, plan and apply; return the row of measurements."""
    gc.set_threshold(100_000, 50, 50)  # as in processes of kafkaform
    if where not in ("memory", "empty"):
        with scene.connect(where) as kafka:
            return measure_apply(work, size, kafka, SimulatedTime(None), f"{BROKERS} brokers")
    memory = MemoryCluster(brokers=[Broker(number) for number in range(1, BROKERS + 1)])
    if where == "memory":
        memory.pace(count_fill_steps())
    return measure_apply(
        work, size, memory, SimulatedTime(memory), where if where == "memory" else "memory, as real"
    )


def count_fill_steps() -> int:
    """Return the number of steps in which one broker sends a batch at the default throttle."""
    options = MoveOptions()
    assert options.throttle is not None
    return round(options.batch_partitions * PARTITION_BYTES / options.throttle / STEP_S)


def measure_apply(
    work: str, size: int, cluster: Cluster, waiting: SimulatedTime, where: str
) -> dict[str, float | str]:
    """Measure the plan and the apply of some work; return a row of the table."""
    names = create_topics(work, size, cluster)
    counted = CountingCluster(cluster)
    watched = cast("Cluster", counted)
    begun = time.process_time()
    plan = make_plan(work, names, watched)
    header = PlanHeader("benchmark", None, None, None, format_timestamp(datetime.now(UTC)))
    text = plan_to_json(plan, header)
    plan, _ = plan_from_json(text, "plan.json")
    plan_s = time.process_time() - begun - (counted.cpu if isinstance(cluster, MemoryCluster) else 0.0)
    counted.calls.clear()
    counted.cpu = 0.0
    begun = time.process_time()
    journal = open_journal(
        watched,
        AuditSettings(),
        plan,
        header,
        compute_plan_digest(plan, header),
        Author("bench", "benchmark"),
    )
    report = apply(
        plan,
        watched,
        ApplyOptions(
            clock=waiting.clock,
            guard=lambda: counted.calls.update(["guard"]),
            journal=journal,
            throttle_journal=open_throttle_journal(watched, AuditSettings(), journal.run, plan.cluster_id),
        ),
    )
    journal.conclude(report)
    cpu_s = time.process_time() - begun - (counted.cpu if isinstance(cluster, MemoryCluster) else 0.0)
    assert {result.result for result in report.results} == {Result.APPLIED}, render_apply(report).plain[
        :2_000
    ]
    del counted.calls["guard"]
    shown = render_plan(plan).plain.count("\n"), render_apply(report).plain.count("\n")
    return {
        "work": work,
        "cluster": where,
        "size": size,
        "calls": counted.calls.total(),
        "by_kind": ", ".join(f"{name} {count:,}" for name, count in counted.calls.most_common(4)),
        "pauses": waiting.pauses,
        "waited_s": waiting.seconds,
        "cpu_s": cpu_s,
        "each_us": cpu_s / size * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "plan_s": plan_s,
        "plan_mb": len(text) / 1e6,
        "shown": " + ".join(f"{lines:,}" for lines in shown),
        "record_mb": sum(counted.record) / 1e6,
        "longest": max(counted.record),
    }


def create_topics(work: str, size: int, cluster: Cluster) -> list[str]:
    """Return the names of the topics of some work, which are created unless the work creates them."""
    each = {"creates": PARTITIONS, "partitions": ADDED, "moves": PARTITIONS}[work]
    # One of three brokers holds a third of all replicas.
    names = [f"{work}.{number:05d}" for number in range(size * (BROKERS if work == "moves" else 1) // each)]
    if work != "creates":
        for batch in batches(CreateTopic(topic_ref(name), PARTITIONS, 1, {}) for name in names):
            assert not any(cluster.execute(batch))
            shown = 0
            while shown < len(batch):  # brokers that lag behind by several requests become even slower
                shown = len(
                    cluster.observe_fields({topic.ref: {"partitions": None} for topic in batch}).resources
                )
    if isinstance(cluster, MemoryCluster):
        for name in names:
            cluster.fill(topic_ref(name), PARTITIONS * PARTITION_BYTES)
    return names


def make_plan(work: str, names: Sequence[str], cluster: Cluster) -> Plan:
    """Make the plan of some work."""
    if work == "moves":
        return make_rebalance(RebalanceRequest(("moves.*",), remove=frozenset({BROKERS})), cluster, None).plan
    count = PARTITIONS + ADDED * (work == "partitions")
    desired = [
        Desired(topic_ref(name), {"partitions": count, "replicationFactor": 1}, Intent(keyed=False))
        for name in names
    ]
    return build_plan(Request(desired, subset=True), cluster, Settings(), None)


if __name__ == "__main__":
    sys.exit(main())
