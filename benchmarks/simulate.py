"""Applies that are too large for one machine's brokers, carried out on the cluster in memory.

Three applies, each at three sizes, to see whether anything grows faster than the work: creates of topics
with five partitions, partition increases from 5 to 15, and emptying one of three brokers, which moves every
replica that it holds. Each runs in a process of its own, with the record and the throttles of a real apply.
Time passes only where the apply waits: the waiting is in simulated seconds. Partitions hold 10 MB each, and
the broker that is emptied sends those of a batch at the rate of the default throttle.

Beside them the same applies at a size that fits three brokers on this machine, on these and in memory, where
the partitions that are moved hold nothing: what is asked of both clusters has to agree. The cluster in memory
shows each change at once; real brokers lag behind, and are read again until they show it.

- `calls` are those of the cluster's interface (`kafkaform.cluster.protocol`) that an apply makes; `by kind`
  are the most frequent. An `execute` is one request, a `layout` three.
- `CPU` is that of the apply: in memory without the cluster's part, on real brokers with that of the client.
- `plan s` is the processor time to make the plan, to write it as a file and to read that.
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
from benchmarks.table import tell
from kafkaform.apply.executor import apply
from kafkaform.apply.moves.throttle_journal import open_throttle_journal
from kafkaform.audit.journal import open_journal
from kafkaform.audit.record import Author, timestamp
from kafkaform.cluster.testing.memory import MemoryCluster
from kafkaform.config.settings import AuditSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.layout import Broker
from kafkaform.core.model import Desired, Intent
from kafkaform.core.moves import MoveOptions
from kafkaform.core.operations import CreateTopic, batches
from kafkaform.core.progress import Clock
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan.plan_file import digest_of_plan, plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.rebalancing import RebalanceRequest, make_rebalance
from kafkaform.report.apply import render_apply
from kafkaform.report.text import render_plan
from kafkaform.resources.topic import topic_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkaform.cluster.protocol import Cluster
    from kafkaform.core.model import Plan

WORKS = ("creates", "partitions", "moves")
SIZES = {
    "creates": (25_000, 50_000, 100_000),
    "partitions": (25_000, 50_000, 100_000),
    "moves": (2_500, 5_000, 10_000),
}
"""How many partitions come to be, and how many replicas are moved."""
REAL = {"creates": 5_000, "partitions": 5_000, "moves": 500}
PARTITIONS = 5
ADDED = 10
BROKERS = 3
PARTITION_BYTES = 10_000_000
STEP_S = 0.1
"""The simulated time in which the brokers copy one step, and in which a reading is answered."""
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
    parser.add_argument("--share", type=float, default=1.0, help="of the sizes; 0.1 for a quick look")
    parser.add_argument("--no-kafka", action="store_true", help="only in memory")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run is not None:
        work, size, address = options.run
        print(json.dumps(measured(work, int(size), address)))
        return 0
    rows = []
    if not options.no_kafka:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
            DevCluster.start(
                Path(folder) / "kafka",
                brokers=BROKERS,
                heap_mb=1024,
                full_jit=True,
                properties=scene.PROPERTIES,
            ) as kafka,
        ):
            for work in options.works:
                size = int(REAL[work] * options.share)
                rows += [in_own_process(work, size, where) for where in (kafka.bootstrap_servers, "empty")]
    for work in options.works:
        rows += [in_own_process(work, int(size * options.share), "memory") for size in SIZES[work]]
    tell("simulate", HEADINGS, *rows)
    return 0


def in_own_process(work: str, size: int, where: str) -> dict[str, float | str]:
    """A row of the table; memory is the peak of a process that does nothing else."""
    command = [sys.executable, "-m", "benchmarks.simulate", "--run", work, str(size), where]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    row: dict[str, float | str] = json.loads(ran.stdout)
    return row


class Counted:
    """A cluster of which the calls are counted, with the processor time that they take.

    Args:
        cluster: Who answers.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.calls: Counter[str] = Counter()
        self.cpu = 0.0
        self.record: list[int] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The method of the cluster, counted."""
        method = getattr(self._cluster, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name == "append_audit":
                self.record += map(len, arguments[0])
            begun = time.process_time()
            try:
                return method(*arguments, **named)
            finally:
                self.cpu += time.process_time() - begun

        return counted


class Waiting:
    """Time that passes only where somebody sleeps, or none of it where the brokers are real.

    Args:
        memory: The cluster in memory, whose replicas are filled meanwhile; None: the time is the real one.
    """

    def __init__(self, memory: MemoryCluster | None) -> None:
        self._memory = memory
        self._now = 0.0
        self.pauses = 0
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self.pauses += 1
        self.seconds += seconds
        if self._memory is None:
            time.sleep(seconds)
        else:
            self._now += seconds
            self._memory.advance(round(seconds / STEP_S))

    @property
    def clock(self) -> Clock:
        """The time for an apply."""
        return Clock(now=time.monotonic if self._memory is None else lambda: self._now, sleep=self.sleep)


def measured(work: str, size: int, where: str) -> dict[str, float | str]:
    """Make the cluster, plan, apply; what that took."""
    gc.set_threshold(100_000, 50, 50)  # as processes of kafkaform have it
    if where not in ("memory", "empty"):
        with scene.reached(where) as kafka:
            return carried_out(work, size, kafka, Waiting(None), f"{BROKERS} brokers")
    memory = MemoryCluster(brokers=[Broker(number) for number in range(1, BROKERS + 1)])
    if where == "memory":
        memory.pace(steps_to_fill())
    return carried_out(work, size, memory, Waiting(memory), where if where == "memory" else "memory, as real")


def steps_to_fill() -> int:
    """The steps in which one broker sends a batch at the default throttle."""
    options = MoveOptions()
    assert options.throttle is not None
    return round(options.batch_partitions * PARTITION_BYTES / options.throttle / STEP_S)


def carried_out(
    work: str, size: int, cluster: Cluster, waiting: Waiting, where: str
) -> dict[str, float | str]:
    """One row: the plan of some work and its apply."""
    names = made(work, size, cluster)
    counted = Counted(cluster)
    watched = cast("Cluster", counted)
    begun = time.process_time()
    plan = planned(work, names, watched)
    header = PlanHeader("benchmark", None, None, None, timestamp(datetime.now(UTC)))
    text = plan_to_json(plan, header)
    plan, _ = plan_from_json(text, "plan.json")
    plan_s = time.process_time() - begun - (counted.cpu if isinstance(cluster, MemoryCluster) else 0.0)
    counted.calls.clear()
    counted.cpu = 0.0
    begun = time.process_time()
    journal = open_journal(
        watched, AuditSettings(), plan, header, digest_of_plan(plan, header), Author("bench", "benchmark")
    )
    report = apply(
        plan,
        watched,
        clock=waiting.clock,
        guard=lambda: counted.calls.update(["guard"]),
        journal=journal,
        throttle_journal=open_throttle_journal(watched, AuditSettings(), journal.run, plan.cluster_id),
    )
    journal.conclude(report)
    cpu_s = time.process_time() - begun - (counted.cpu if isinstance(cluster, MemoryCluster) else 0.0)
    assert {one.result for one in report.results} == {Result.APPLIED}, render_apply(report).plain[:2_000]
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


def made(work: str, size: int, cluster: Cluster) -> list[str]:
    """The topics that the work is about, made unless it is the work to make them."""
    each = {"creates": PARTITIONS, "partitions": ADDED, "moves": PARTITIONS}[work]
    # One of three brokers holds a third of all replicas.
    names = [f"{work}.{number:05d}" for number in range(size * (BROKERS if work == "moves" else 1) // each)]
    if work != "creates":
        for batch in batches(CreateTopic(topic_ref(name), PARTITIONS, 1, {}) for name in names):
            assert not any(cluster.execute(batch))
            shown = 0
            while shown < len(batch):  # brokers that lag by several requests fall further behind
                shown = len(cluster.observe_fields({one.ref: ("partitions",) for one in batch}).resources)
    if isinstance(cluster, MemoryCluster):
        for name in names:
            cluster.fill(topic_ref(name), PARTITIONS * PARTITION_BYTES)
    return names


def planned(work: str, names: Sequence[str], cluster: Cluster) -> Plan:
    """The plan of the work."""
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
