"""The tour behind `make demo`: a real Kafka, the manifests of topics/, and everything the tool is for.

Every step is a kafkaform command as a user would type it; the exit code of each is checked.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the tour; 0 if every step went as announced."""
    with tempfile.TemporaryDirectory(prefix="kafkaform-demo-") as folder:
        data = Path(folder) / "kafka"
        try:
            tour(Path(folder), data)
        finally:
            run("dev", "down", "--data", str(data), title="Stop Kafka")
        data = Path(folder) / "three"
        try:
            replicas(Path(folder) / "replicas", data)
        finally:
            run("dev", "down", "--data", str(data), title="Stop Kafka")
    say("That was all. Next: README.md, and `kafkaform init` for a repository of your own.")
    return 0


def tour(folder: Path, data: Path) -> None:
    """The steps in order."""
    address = run("dev", "up", "--data", str(data), title="Start a real Kafka", capture=True).strip()
    os.environ["KAFKAFORM_BOOTSTRAP_SERVER"] = address
    os.environ["KAFKAFORM_ENVIRONMENT"] = "dev"

    run("validate", title="Check the manifests, offline")
    run("plan", title="What would change?")
    run(
        "apply",
        "--auto-approve",
        title="Apply it: topics, and the first offsets of the groups that read them",
    )
    run("plan", "--detailed-exitcode", title="Plan again: nothing is left to do (exit code 0)")

    run("status", title="Topics, and the groups that read them")
    run("doctor", title="Is the cluster healthy? It tells of groups that nobody runs (exit code 2)", expect=2)
    run("rules", "KF203", title="What a rule says, and why")
    run("client-config", "payment-service", title="What the manifest says to the application")

    say("Somebody raises the retention of orders.v1 by hand, at 3 a.m.")
    set_config(address, "orders.v1", "retention.ms", "1209600000")
    run("plan", title="The plan finds it; taking it back needs consent (exit code 1)", expect=1)
    run("apply", "--auto-approve", title="Taking it back deletes records: not without consent", expect=1)
    run("apply", "--auto-approve", "--allow", "Topic/orders.v1:retention-cut", title="With consent")

    copy = edited_copy(folder)
    say(
        "A change asks for 2 instead of 3 partitions of orders.v1 (impossible), a longer retention with it, "
        "and for another segment time of carts.v1."
    )
    run("apply", "--auto-approve", copy, title="carts.v1 is applied, orders.v1 refused whole", expect=1)
    run(
        "plan", copy, title="Nothing of orders.v1 was touched: its retention is still to be changed", expect=1
    )

    say(
        "A release of the shop writes orders.v1 with the shop's id as the key, instead of the order's. "
        "One shop makes 30 % of all orders."
    )
    produce_orders(address, "orders.v1", records=200_000)
    with tempfile.NamedTemporaryFile(prefix="kafkaform-demo-skew-", suffix=".html", delete=False) as kept:
        report, page = folder / "skew.json", Path(kept.name)  # nobody else can have put it there
    run(
        *("skew", "orders.v1", "--what-if", "6,12", "--json", str(report), "--html", str(page)),
        title="Why is one partition hot? Spark reads a sample (exit code 2: beyond the topic's skew policy)",
        expect=2,
    )
    say(f"The same as a page for a browser: {page}")
    replace_once(
        folder / "topics" / "checkout" / "orders.yaml", "dev: {partitions: 2,", "dev: {partitions: 6,"
    )
    run(
        *("plan", copy, "--no-strict", "--skew", str(report), "--target", "Topic/orders.v1"),
        title="Would 6 partitions help? The plan knows what was measured",
    )


ARCHIVE = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: archive.v1}
spec:
  partitions: 6
  replicationFactor: 1
  config: {min.insync.replicas: 1}
"""


def replicas(folder: Path, data: Path) -> None:
    """More replicas for a topic that holds data, on three brokers."""
    folder.mkdir()
    manifest = folder / "archive.yaml"
    manifest.write_text(ARCHIVE, "utf-8")
    os.environ["KAFKAFORM_BOOTSTRAP_SERVER"] = address = run(
        *("dev", "up", "--brokers", "3", "--data", str(data)),
        title="Three brokers, in three racks",
        capture=True,
    ).strip()
    run(
        *("apply", "--auto-approve", "--environment", "prod"),
        title="The same repository as prod wants it: 3 replicas, groups with first offsets",
    )
    run("apply", str(folder), "--auto-approve", title="A topic whose partitions have one replica each")
    say("60 MB are written to it. Then the manifest asks for 3 replicas, of which 2 must be in sync.")
    produce(address, "archive.v1", ((str(number), os.urandom(1_000)) for number in range(60_000)))
    replace_once(manifest, "replicationFactor: 1", "replicationFactor: 3")
    replace_once(manifest, "min.insync.replicas: 1", "min.insync.replicas: 2")
    run("plan", str(folder), "--verbose", title="What is copied, from where to where, and how long it takes")
    run(
        *("apply", str(folder), "--auto-approve", "--throttle", "10MB"),
        title="Copied at 10 MB a second and broker; then, and not before, 2 replicas must be in sync",
    )
    run("rebalance", title="Are replicas and leaders even now, and what would be done about it?")


def produce_orders(address: str, topic: str, *, records: int) -> None:
    """Write orders with a real producer that places keys as Java's does."""
    random = Random(1)
    shops = (1 if random.random() < 0.3 else random.randrange(2, 5_000) for _ in range(records))
    totals = (random.randrange(500, 20_000) for _ in range(records))
    orders = (
        (f"shop-{shop}", f'{{"order": {number}, "total": {total}}}'.encode())
        for number, (shop, total) in enumerate(zip(shops, totals, strict=True))
    )
    produce(address, topic, orders)


def produce(address: str, topic: str, records: Iterable[tuple[str, bytes]]) -> None:
    """Write records by key, with a real producer."""
    producer = Producer({"bootstrap.servers": address, "partitioner": "murmur2_random", "linger.ms": 50})
    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(60):
        sys.exit("demo: not every record was written")


def edited_copy(folder: Path) -> str:
    """A copy of topics/ in which orders.v1 shrinks and carts.v1 changes."""
    copy = folder / "topics"
    shutil.copytree(ROOT / "topics", copy)
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    orders, carts = copy / "checkout" / "orders.yaml", copy / "checkout" / "carts.yaml"
    replace_once(orders, "dev: {partitions: 3, retention: 7d,", "dev: {partitions: 2, retention: 10d,")
    replace_once(carts, "segment.ms: 6h", "segment.ms: 12h")
    return str(copy)


def replace_once(path: Path, old: str, new: str) -> None:
    """Edit a file; fail loudly where the text is not there."""
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        sys.exit(f"demo: {path.name} does not hold {old!r} exactly once")
    path.write_text(text.replace(old, new), "utf-8")


def run(*arguments: str, title: str, expect: int = 0, capture: bool = False) -> str:
    """Run one kafkaform command, show it, and insist on its exit code."""
    say(title)
    shown = " ".join(shlex.quote(a) for a in arguments)
    print(f"\033[2m$ kafkaform {shown}\033[0m" if sys.stdout.isatty() else f"$ kafkaform {shown}", flush=True)
    command = [sys.executable, "-m", "kafkaform", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE if capture else None, text=True, check=False
    )
    if capture:
        print(done.stdout, end="", flush=True)
    if done.returncode != expect:
        sys.exit(f"demo: expected exit code {expect}, got {done.returncode}")
    return done.stdout or ""


def say(text: str) -> None:
    """A line of the narrator."""
    print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)


def set_config(address: str, topic: str, name: str, value: str) -> None:
    """Change a topic behind kafkaform's back."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


if __name__ == "__main__":
    sys.exit(main())
