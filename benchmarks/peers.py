"""Plans beside those of other tools, on one broker and in one run; see peers.md for how to get the tools.

Every tool is given the same topics in files of its own: one for each topic, or one for all where that is how
it is used; kafkaform both. Every tenth topic has drifted in one config. Rounds alternate between the tools,
and medians are compared.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.plan import CALLS, PASSWORD, USER, secured_listener, write_config
from benchmarks.rounds import KAFKAFORM, RAW, compared, timed
from benchmarks.scene import DAY_MS, PARTITIONS, build, refs, write_manifests
from benchmarks.table import tell
from kafkaform.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.rounds import Figures

HEADINGS = ("topics", "plan", "seconds", "to fastest peer", "CPU s", "peak MB")


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topicctl", type=Path, help="its program")
    parser.add_argument("--kafka-gitops", type=Path, help="a folder of its jar and those that it needs")
    parser.add_argument("--topics", type=int, nargs="+", default=[1_000, 5_000, 20_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, float | str]] = []
    for count in options.topics:
        with (
            tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as temporary,
            DevCluster.start(
                Path(temporary) / "kafka",
                heap_mb=4096,
                full_jit=True,
                sasl_users={USER: PASSWORD},
                properties=secured_listener(Path(temporary)),
            ) as kafka,
        ):
            build(kafka.bootstrap_servers, count)
            folder = Path(temporary)
            ours = _kafkaform(folder, kafka, count)
            theirs = {}
            if options.topicctl is not None:
                theirs["topicctl check"] = _topicctl(options.topicctl, folder, kafka.bootstrap_servers, count)
            if options.kafka_gitops is not None:
                theirs["kafka-gitops plan"] = _kafka_gitops(
                    options.kafka_gitops, folder, kafka.bootstrap_servers, count
                )
            calls = [*RAW, CALLS, kafka.bootstrap_servers, "bench.", str(count)]
            raw = {"raw calls": partial(_run, calls)}
            taken = compared({**ours, **theirs, **raw}, options.rounds)
            fastest = min((taken[name].seconds for name in theirs), default=taken["raw calls"].seconds)
            rows += [
                {
                    "topics": count,
                    "plan": name,
                    "seconds": figures.seconds,
                    "ratio": figures.seconds / fastest,
                    "cpu": figures.cpu,
                    "peak": figures.peak,
                }
                for name, figures in taken.items()
            ]
    tell("peers", HEADINGS, *rows)
    return 0


def _run(command: Sequence[str], _: int) -> Figures:
    return timed(command)


def _kafkaform(folder: Path, kafka: DevCluster, count: int) -> dict[str, Callable[[int], Figures]]:
    config = write_config(folder, kafka)
    files = write_manifests(folder / "topics", count)
    one = folder / "one"
    one.mkdir()
    (one / "topics.yaml").write_text("---\n".join(path.read_text() for path in sorted(files.iterdir())))

    def plan(manifests: Path, cluster: str) -> Callable[[int], Figures]:
        command = [*KAFKAFORM, "plan", str(manifests), "--config", str(config), "--cluster", cluster]
        command += ["--format", "json", "--detailed-exitcode", "--no-strict"]
        return lambda _: timed(command, expect=2)

    return {
        "kafkaform": plan(files, "plaintext"),
        "kafkaform, one file": plan(one, "plaintext"),
        "kafkaform, SASL_SSL": plan(files, "plain"),
    }


def _topicctl(program: Path, folder: Path, address: str, count: int) -> Callable[[int], Figures]:
    place = folder / "topicctl"
    (place / "topics").mkdir(parents=True)
    about = "environment: local\n  region: local\n  description: of a benchmark\n"
    (place / "cluster.yaml").write_text(
        f"meta:\n  name: bench\n  {about}spec:\n  bootstrapAddrs: ['{address}']\n"
    )
    for ref in refs(count):
        (place / "topics" / f"{ref.name}.yaml").write_text(
            f"meta:\n  name: {ref.name}\n  cluster: bench\n  {about}"
            f"spec:\n  partitions: {PARTITIONS}\n  replicationFactor: 1\n"
            f"  retentionMinutes: {DAY_MS // 60_000}\n  placement: {{strategy: any}}\n"
        )
    command = [str(program), "check", "--no-spinner", str(place / "topics" / "*.yaml")]
    # It says with 1 that topics differ.
    return lambda _: timed(command, expect=1)


def _kafka_gitops(jars: Path, folder: Path, address: str, count: int) -> Callable[[int], Figures]:
    state = folder / "state.yaml"
    state.write_text(
        "topics:\n"
        + "".join(
            f"  {ref.name}:\n    partitions: {PARTITIONS}\n    replication: 1\n"
            f"    configs:\n      retention.ms: {DAY_MS}\n"
            for ref in refs(count)
        )
    )
    properties = folder / "gitops.properties"
    properties.write_text("")  # it needs such a file, but the environment's address, if only a default, wins
    program = ["env", f"KAFKA_BOOTSTRAP_SERVERS={address}", "java", "-cp", str(jars / "*")]
    files = ["-c", str(properties), "-f", str(state)]
    command = [*program, "com.devshawn.kafka.gitops.MainCommand", *files, "--skip-acls", "plan"]
    return partial(_run, command)


if __name__ == "__main__":
    sys.exit(main())
