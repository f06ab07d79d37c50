"""Plans of one cluster that grows to 20,000 topics, in one run, against the raw calls of `benchmarks.plan`.

Topics have three partitions, or as many as are asked for, and one replica; every tenth has drifted, and each
has a manifest file. `--topics 5000 --partitions 20` is one of 100,000 partitions.

A broker has one file open and two index files mapped for each partition that it holds, and a process may have
only so many of both (`ulimit -Hn`, `vm.max_map_count`): as many brokers are started as that takes, with small
index files. The cluster is in memory where there is room (/dev/shm). It is not made where the machine has too
little memory for the brokers, and given up when the machine runs short of it or after `--minutes`.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil

from benchmarks import plan, scene
from benchmarks.table import tell
from kafkaform.core.operations import CreateTopic, batches
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.processes import has_ended

FILES = 1
"""How many files a broker keeps open for a partition."""
MAPS = 2
"""How many files it keeps mapped for one."""
SHARE = 0.85
"""How much of what a process may have is for partitions; the rest is for the uneven and the broker itself."""
RESERVE_MB = 2_048
"""How much memory is left to the rest of the machine."""
IN_MEMORY = Path("/dev/shm")
LOOK_S = 1.0
"""How long to wait between two looks at how far the brokers have come."""

PROPERTIES = {
    "log.index.size.max.bytes": "4096",
    # A broker that is busy with thousands of new logs is not dead.
    "broker.session.timeout.ms": "60000",
}


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, nargs="+", default=[5_000, 10_000, 20_000])
    parser.add_argument("--partitions", type=int, default=scene.PARTITIONS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    brokers, heap_mb = fitting(max(options.topics) * options.partitions)
    rows = []
    with (
        tempfile.TemporaryDirectory(
            prefix="kafkaform-bench-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None
        ) as folder,
        DevCluster.start(
            Path(folder) / "kafka", brokers=brokers, heap_mb=heap_mb, full_jit=True, properties=PROPERTIES
        ) as kafka,
    ):
        nodes = tuple(psutil.Process(node.pid) for node in kafka.status().nodes)
        bounds = Bounds(time.monotonic() + options.minutes * 60, nodes)
        for before, count in pairwise([0, *sorted(options.topics)]):
            made_s = grow(kafka, before, count, options.partitions, bounds)
            manifests = scene.write_manifests(
                Path(folder) / f"topics-{count}", count, partitions=options.partitions
            )
            bounds.check()
            row = plan.measure(kafka.bootstrap_servers, manifests, count, options.rounds)
            rows.append({**row, "each": row["plan"] / count * 1_000, "made": made_s, "brokers": brokers})
            print(f"{count:,} topics, {count * options.partitions:,} partitions: {row}", flush=True)
    tell("large", (*plan.HEADINGS, "ms/topic", "made in s", "brokers"), *rows)
    return 0


def fitting(partitions: int) -> tuple[int, int]:
    """How many brokers it takes, and how large the heap of each is in MiB; exits where that is too much."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    maps = Path("/proc/sys/vm/max_map_count")
    limits = [files / FILES] if files != resource.RLIM_INFINITY else []
    limits += [int(maps.read_text()) / MAPS] if maps.exists() else []
    brokers = math.ceil(partitions / (min(limits, default=math.inf) * SHARE)) if limits else 1
    # Measured: 50 KB of heap for a partition that a broker holds, and 4 KB for each that it knows of.
    heap_mb = 768 + math.ceil(partitions / brokers * 0.05 + partitions * 0.004)
    needed, available = brokers * (heap_mb + 256) + RESERVE_MB, psutil.virtual_memory().available / 2**20
    print(f"{partitions:,} partitions on {brokers} brokers with {heap_mb:,} MB of heap each", flush=True)
    if needed > available:
        sys.exit(f"bench: that takes {needed:,} MB of memory, and {available:,.0f} MB are free")
    return brokers, heap_mb


@dataclass(frozen=True, slots=True)
class Bounds:
    """What ends the benchmark before its end."""

    deadline: float
    brokers: tuple[psutil.Process, ...]

    def check(self) -> None:
        """Exit where no time or no memory is left, or a broker has died."""
        if any(map(has_ended, self.brokers)):
            sys.exit("bench: a broker has died; see why in its log")
        if time.monotonic() > self.deadline:
            sys.exit("bench: out of time; give more --minutes, or ask for fewer topics")
        if psutil.virtual_memory().available < RESERVE_MB / 2 * 2**20:
            sys.exit("bench: the machine runs short of memory; ask for fewer topics")


def grow(kafka: DevCluster, before: int, count: int, partitions: int, bounds: Bounds) -> float:
    """Create topics up to a count, and drift every tenth; returns the seconds until all of it is there."""
    begin = time.monotonic()
    configs = {"retention.ms": str(scene.DAY_MS)}
    made = before
    with scene.reached(kafka.bootstrap_servers) as cluster:
        for batch in batches(CreateTopic(ref, partitions, 1, configs) for ref in scene.refs(count)[before:]):
            scene.carried_out(cluster, batch)
            made += len(batch)
            # One batch at a time: brokers that lag by several fall further behind the more they are asked.
            while scene.logs(kafka) < made * partitions:
                bounds.check()
                time.sleep(LOOK_S)
        scene.drift(cluster, scene.refs(count))
    return time.monotonic() - begin


if __name__ == "__main__":
    sys.exit(main())
