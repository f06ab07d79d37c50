"""Applies of 1,000 creates, config changes and partition increases against the raw calls, in one run.

Each round makes 1,000 topics of three partitions with one config, changes that config of each, and raises
each to six partitions. What a round has made is deleted before the next way has its turn, so that every way
finds the same broker; rounds alternate between the ways, and medians are compared. An answer to a request
says that the controller has written it down; brokers take it up after that, and an apply is over only when
they show it.

Whole processes, with their start, imports and connections:

- `apply` is `kafkaform apply --auto-approve` of a manifest file for each topic: it reads these, plans, has
  the broker check every change, compares each with the cluster once more, keeps the lock and the record,
  prints the plan and the result. `bare` is the same without the lock and the record.
- `saved` applies a plan that was made before, as after a review.
- `raw` makes the same requests with confluent-kafka and ends with the last answer. `raw, read` reads the
  topics then until the broker shows all that was asked for: configs after creates and config changes,
  partitions after creates and partition increases. An apply reads the same of them.
- `raw, compared` also reads the topics before it asks for anything, as an apply does: the metadata of all,
  and all configs of those of the plan. An apply does so twice: it judges the plan, and compares right before
  the first request what it judged. It also reads what the raw calls never do: the configs of the brokers,
  the record of earlier applies, throttles that a dead one has left, and before partitions are added the
  health of the cluster and the groups that read the topics.

The record is emptied after each round of each way: an apply reads and understands all of it, and a record
that grows from round to round would tell rather how many rounds there were.

Within one process that has connected, imported and held the lock before:

- `done` is an apply of a plan from its first request that changes anything, the proof of the lock before it,
  to the moment when all of it is verified: the part of an apply that the raw calls have, too.
- `asked` and `shown` are `raw` and `raw, read` in the same way, and of the same calls.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks import raw_apply, scene
from benchmarks.rounds import KAFKAFORM, Figures, measure_process, summarise_runs
from benchmarks.table import report_rows
from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.apply.moves.throttle_journal import open_throttle_journal
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.config.settings import AuditSettings
from kafkaform.core.lock import Holder
from kafkaform.core.operations import MAX_WEIGHT
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster
from kafkaform.plan.plan_file import plan_from_json
from kafkaform.resources.topic.operations import DeleteTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROCESSES = ("apply", "bare", "saved", "raw", "read", "compared")
RAW = {"raw": raw_apply.UNREAD, "read": raw_apply.READ, "compared": raw_apply.COMPARED}
WAYS = (*PROCESSES, "done", "shown")
PROPERTIES = {"log.segment.delete.delay.ms": "100"}
"""What a round has made is gone when it is deleted, not a minute later in the middle of another."""

HEADINGS = (
    *("", "apply s", "bare s", "saved s", "raw s", "raw, read s", "raw, compared s"),
    *("saved/read", "saved/compared", "done s", "asked s", "shown s", "done/asked", "done/shown"),
    *("apply CPU s", "saved CPU s", "read CPU s", "compared CPU s", "peak MB"),
)
RECORDS = {"create": 5, "configs": 2, "partitions": 4}
"""What is measured, and how many records a controller writes for one topic of it (see core/operations.py)."""
LONGEST_S = 300.0
"""How long a broker may be busy with one piece of work."""


def main() -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    gc.set_threshold(100_000, 50, 50)  # as processes of kafkaform have it
    with (
        tempfile.TemporaryDirectory(prefix="kafkaform-bench-") as folder,
        DevCluster.start(
            Path(folder) / "kafka", ClusterSpec(heap_mb=2048, full_jit=True, properties=PROPERTIES)
        ) as kafka,
    ):
        taken = measure(kafka, Path(folder), options.topics, options.rounds)
    rows = [row(work, {way: taken[way, work] for way in (*WAYS, "asked")}) for work in RECORDS]
    report_rows("apply", HEADINGS, *rows)
    return 0


def measure(kafka: DevCluster, folder: Path, count: int, rounds: int) -> dict[tuple[str, str], Figures]:
    """Return the times of each way for each piece of work: medians over the rounds that count."""
    scene.write_manifests(folder / "create", count, keyed=False)
    scene.write_manifests(folder / "configs", count, retention="2d", keyed=False)
    scene.write_manifests(
        folder / "partitions", count, partitions=raw_apply.MORE_PARTITIONS, retention="2d", keyed=False
    )
    taken = {(way, work): list[Figures]() for way in (*WAYS, "asked") for work in RECORDS}
    address = kafka.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": address})
    for number in range(rounds + 1):
        for way in WAYS:
            for work in RECORDS:
                if way in PROCESSES:
                    figures = {way: measure_process(command(way, work, address, folder, count))}
                elif way == "done":
                    figures = {way: carried_out(address, made_plan(address, work, folder))}
                else:
                    figures = measure_raw_calls(admin, work, count)
                for name, value in figures.items() if number else ():  # the first round warms the broker up
                    taken[name, work].append(value)
                settle(kafka, count, work)
            delete(kafka, count)
            forget(admin)
    return {key: summarise_runs(figures) for key, figures in taken.items()}


def command(way: str, work: str, address: str, folder: Path, count: int) -> list[str]:
    """The command line of one way to do a piece of work; a plan that it is to carry out is made here."""
    if way in RAW:
        numbers = (count, MAX_WEIGHT // RECORDS[work], RAW[way])
        return [sys.executable, raw_apply.__file__, address, work, *map(str, numbers)]
    manifests = made_plan(address, work, folder) if way == "saved" else folder / work
    bare = ["--no-lock", "--no-audit"] if way == "bare" else []
    return [*KAFKAFORM, "apply", str(manifests), "--bootstrap-server", address, "--auto-approve", *bare]


def made_plan(address: str, work: str, folder: Path) -> Path:
    """The file of a plan made now."""
    plan = folder / "plan.json"
    arguments = [str(folder / work), "--bootstrap-server", address, "--no-strict", "--out", str(plan)]
    measure_process([*KAFKAFORM, "plan", *arguments])
    return plan


def carried_out(address: str, file: Path) -> Figures:
    """Apply a plan in this process; what its requests took, and to prove what they did."""
    plan, _ = plan_from_json(file.read_text("utf-8"), file.name)
    begun: list[tuple[float, float]] = []
    holder = Holder("bench", "benchmark", 0)
    with scene.connect(address) as cluster, cluster.lock(holder, timeout_s=LONGEST_S, tell=print) as prove:

        def guard() -> None:
            begun.append(clocks())
            prove()

        throttle_journal = open_throttle_journal(cluster, AuditSettings(), "bench", plan.cluster_id)
        report = apply(plan, cluster, ApplyOptions(guard=guard, throttle_journal=throttle_journal))
        ended = clocks()
    assert report.complete, report
    return took(begun[0], ended)


def measure_raw_calls(admin: AdminClient, work: str, count: int) -> dict[str, Figures]:
    """The raw calls in this process: up to the last answer, and until brokers show it."""
    admin.list_topics(timeout=LONGEST_S)  # connects
    begun = clocks()
    raw_apply.request_work(admin, work, count, MAX_WEIGHT // RECORDS[work])
    answered = clocks()
    raw_apply.read_back(admin, work, count)
    return {"asked": took(begun, answered), "shown": took(begun, clocks())}


def clocks() -> tuple[float, float]:
    """The time, and the processor time of this process, in seconds."""
    return time.perf_counter(), time.process_time()


def took(begun: tuple[float, float], ended: tuple[float, float]) -> Figures:
    """Return the difference between two looks at the clocks; the peak of this process is left out."""
    return Figures(ended[0] - begun[0], 0.0, ended[1] - begun[1])


def settle(kafka: DevCluster, count: int, work: str) -> None:
    """Wait until the broker is done with what was asked for, and shows it."""
    partitions = raw_apply.MORE_PARTITIONS if work == "partitions" else scene.PARTITIONS
    await_condition(lambda: scene.count_logs(kafka) == count * partitions)
    with scene.connect(kafka.bootstrap_servers) as cluster:
        retention = str(scene.DAY_MS if work == "create" else 2 * scene.DAY_MS)
        await_condition(
            lambda: all(
                resource.state["config.retention.ms"] == retention
                for resource in cluster.observe(scene.list_refs(count)).resources.values()
            )
        )


def delete(kafka: DevCluster, count: int) -> None:
    """Delete all topics, and wait until nothing is left of them."""
    with scene.connect(kafka.bootstrap_servers) as cluster:
        seen = cluster.observe(scene.list_refs(count)).resources
        scene.execute(cluster, [DeleteTopic(ref, value.uid) for ref, value in seen.items()])
    await_condition(lambda: scene.count_logs(kafka) == 0)


def forget(admin: AdminClient) -> None:
    """Empty the record of applies, once there is one."""
    if AUDIT_TOPIC.name in admin.list_topics(timeout=LONGEST_S).topics:
        (emptied,) = admin.delete_records([TopicPartition(AUDIT_TOPIC.name, 0, OFFSET_END)]).values()
        emptied.result()


def await_condition(done: Callable[[], bool]) -> None:
    """Wait until something is done; ends the benchmark where it never is."""
    deadline = time.monotonic() + LONGEST_S
    while not done():
        if time.monotonic() > deadline:
            sys.exit(f"bench: the broker was not done within {LONGEST_S:.0f} s")
        time.sleep(0.2)


def row(work: str, taken: Mapping[str, Figures]) -> dict[str, float | str]:
    """A row of the table."""
    seconds = {way: figures.seconds for way, figures in taken.items()}
    return {
        "work": work,
        **{f"{way}_s": seconds[way] for way in PROCESSES},
        "saved_ratio": seconds["saved"] / seconds["read"],
        "compared_ratio": seconds["saved"] / seconds["compared"],
        **{f"{way}_s": seconds[way] for way in ("done", "asked", "shown")},
        "done_asked_ratio": seconds["done"] / seconds["asked"],
        "done_ratio": seconds["done"] / seconds["shown"],
        **{f"{way}_cpu_s": taken[way].cpu for way in ("apply", "saved", "read", "compared")},
        "peak": taken["apply"].peak,
    }


if __name__ == "__main__":
    sys.exit(main())
