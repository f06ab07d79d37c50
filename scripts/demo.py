"""Run the tour of `make demo`: a real Kafka, the manifests of topics/, and the main commands.

Every step is a kafkaform command as a user would type it; its exit code is checked.
"""

from __future__ import annotations

import json
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

from kafkaform.cli.init import NEXT_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the tour; 0 if every step had the expected exit code."""
    with tempfile.TemporaryDirectory(prefix="kafkaform-demo-") as folder:
        data = Path(folder) / "kafka"
        try:
            run_tour(Path(folder), data)
        finally:
            run("dev", "down", "--data", str(data), title="Stop Kafka")
        data = Path(folder) / "three"
        try:
            show_replicas(Path(folder) / "replicas", data)
        finally:
            run("dev", "down", "--data", str(data), title="Stop Kafka")
    say("That is all. Next, a repository of your own, after `. .venv/bin/activate`:")
    print("\n".join(["kafkaform init my-topics && cd my-topics", *NEXT_COMMANDS]))
    return 0


def run_tour(folder: Path, data: Path) -> None:
    """Run the steps on one broker, in order."""
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
    run("doctor", title="Is the cluster healthy? Some groups have no members (exit code 2)", expect=2)
    run("rules", "KF203", title="The explanation of a rule")
    run("client-config", "payment-service", title="The client settings of an application, from its manifest")

    say("Somebody raises the retention of orders.v1 by hand, at 3 a.m.")
    set_config(address, "orders.v1", "retention.ms", "1209600000")
    run("plan", title="The plan finds it; reverting it needs consent (exit code 1)", expect=1)
    run(
        "apply",
        "--auto-approve",
        title="Reverting it deletes records, so it is refused without consent",
        expect=1,
    )
    run("apply", "--auto-approve", "--allow", "Topic/orders.v1:retention-cut", title="With consent")

    copy = copy_edited(folder)
    say(
        "A change asks for 2 instead of 3 partitions of orders.v1 (impossible) and a longer retention, "
        "and for another segment time of carts.v1."
    )
    run(
        "apply",
        "--auto-approve",
        copy,
        title="carts.v1 is applied, orders.v1 is refused as a whole",
        expect=1,
    )
    plan = folder / "refused.json"
    run(
        *("plan", copy, "--out", str(plan)),
        title="orders.v1 was not changed: its retention is still in the plan",
        expect=1,
    )
    uid = next(c["id"] for c in json.loads(plan.read_text("utf-8"))["changes"] if c["name"] == "orders.v1")
    orders = folder / "topics" / "checkout" / "orders.yaml"
    replace_once(orders, "dev: {partitions: 2,", f"dev: {{partitions: 2, recreate: {uid},")
    run(
        *("plan", copy, "--target", "Topic/orders.v1"),
        title="The way out, if its records may go: the topic is created again, with consent (exit code 1)",
        expect=1,
    )
    replace_once(orders, f"partitions: 2, recreate: {uid},", "partitions: 2,")

    say(
        "A release of the shop writes orders.v1 with the shop's id as the key, instead of the order's. "
        "One shop makes 30 % of all orders."
    )
    produce_orders(address, "orders.v1", records=200_000)
    with tempfile.NamedTemporaryFile(prefix="kafkaform-demo-skew-", suffix=".html", delete=False) as kept:
        report, page = folder / "skew.json", Path(kept.name)  # created here, so it is not another user's file
    run(
        *("skew", "orders.v1", "--what-if", "6,12", "--out", "-", "--out", str(report), "--out", str(page)),
        title="Why is one partition hot? Spark reads a sample (exit code 2: beyond the topic's skew policy)",
        expect=2,
    )
    say(f"The same as an HTML page: {page}")
    replace_once(
        folder / "topics" / "checkout" / "orders.yaml", "dev: {partitions: 2,", "dev: {partitions: 6,"
    )
    run(
        *("plan", copy, "--no-strict", "--skew", str(report), "--target", "Topic/orders.v1"),
        title="Would 6 partitions help? The plan uses the measured keys",
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


def show_replicas(folder: Path, data: Path) -> None:
    """Run the steps that add replicas to a topic with data, on three brokers."""
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
        title="The same repository for prod: 3 replicas, groups with first offsets",
    )
    run("apply", str(folder), "--auto-approve", title="A topic whose partitions have one replica each")
    say("60 MB are written to it. Then the manifest asks for 3 replicas, of which 2 must be in sync.")
    produce(address, "archive.v1", ((str(number), os.urandom(1_000)) for number in range(60_000)))
    replace_once(manifest, "replicationFactor: 1", "replicationFactor: 3")
    replace_once(manifest, "min.insync.replicas: 1", "min.insync.replicas: 2")
    run(
        "plan",
        str(folder),
        "--verbose",
        title="The plan: what is copied, from where to where, and how long it takes",
    )
    run(
        *("apply", str(folder), "--auto-approve", "--throttle", "10MB"),
        title="The copies at 10 MB a second for each broker; only then must 2 replicas be in sync",
    )
    run("rebalance", title="Are replicas and leaders balanced now, and which moves would balance them?")


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


def copy_edited(folder: Path) -> str:
    """Copy topics/ with fewer partitions of orders.v1 and another config of carts.v1; return its path."""
    copy = folder / "topics"
    shutil.copytree(ROOT / "topics", copy)
    shutil.copytree(ROOT / "schemas", folder / "schemas")
    orders, carts = copy / "checkout" / "orders.yaml", copy / "checkout" / "carts.yaml"
    replace_once(orders, "dev: {retention: 7d,", "dev: {partitions: 2, retention: 10d,")
    replace_once(carts, "segment.ms: 6h", "segment.ms: 12h")
    return str(copy)


def replace_once(path: Path, old: str, new: str) -> None:
    """Replace a text in a file; exits unless the file has it exactly once."""
    text = path.read_text("utf-8")
    if text.count(old) != 1:
        sys.exit(f"demo: {path.name} does not contain {old!r} exactly once")
    path.write_text(text.replace(old, new), "utf-8")


def run(*arguments: str, title: str, expect: int = 0, capture: bool = False) -> str:
    """Print and run a kafkaform command; exits if its exit code is not `expect`."""
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
    """Print a line of the narration."""
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
