"""Draw the pictures of docs/ from a real run: `make picture`.

A real Kafka is started with topics that have drifted. rich draws what commands print on a terminal, and a
browser what they write as pages.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from confluent_kafka import Consumer
from markdown_it import MarkdownIt
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic.operations import CreateTopic
from scripts.demo import produce_orders, set_config
from tests.support.browser import draw_page

DOCS = Path(__file__).resolve().parent.parent / "docs"
DAY_MS = 86_400_000
COLUMNS = 120
CONFIGURATION = """\
apiVersion: kafkaform/v1
kind: Config
environments: [dev]
clusters:
  dev:
    environment: dev
    client: {{bootstrap.servers: "{address}"}}
"""
MANIFESTS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: orders.v1}
spec: {partitions: 12, replicationFactor: 1, retention: 14d, keyed: true}
---
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: payments.v1}
spec: {partitions: 6, replicationFactor: 1, retention: 7d}
---
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: refunds.v1}
spec: {partitions: 3, replicationFactor: 1, retention: 30d}
---
apiVersion: kafkaform/v1
kind: Topic
metadata: {name: shipments.v1}
spec: {partitions: 6, replicationFactor: 1, retention: 7d}
---
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: shipment-planner}
spec:
  topics: [orders.v1]
  protocol: consumer
  config: {consumer.session.timeout.ms: 60s}
  client: {auto.offset.reset: earliest, max.poll.records: 500, max.poll.interval.ms: 5m}
  processing: {maxTimePerRecord: 700ms}
  offsets: {initial: earliest}
"""
COMMENT = """\
<!doctype html><meta charset="utf-8"><style>
body {{font: 14px/1.5 sans-serif; margin: 16px; color: #1f2328}}
table {{border-collapse: collapse}} th, td {{border: 1px solid #d1d9e0; padding: 6px 13px}}
code {{font: 85% monospace; background: #f6f8fa; border-radius: 6px; padding: .2em .4em}}
</style>{}
"""
LIVE = {"orders.v1": (6, 7), "payments.v1": (12, 3), "shipments.v1": (6, 30)}


def consume_records(address: str, count: int) -> Consumer:
    """Return a member of the group that has read and committed this many orders."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "shipment-planner", "group.protocol": "consumer"}
    )
    consumer.subscribe(["orders.v1"])
    for _ in range(count):
        consumer.poll(30)
    consumer.commit(asynchronous=False)
    return consumer


def capture_terminal(command: list[str], folder: str) -> str:
    """Return the output of a command on a terminal of COLUMNS, with its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    environ.pop("NO_COLOR", None)
    shown = b""
    with subprocess.Popen(command, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        try:
            while chunk := os.read(ours, 65_536):
                shown += chunk
        except OSError:  # raised when the other side of the terminal is closed
            os.close(ours)
    return shown.decode().replace("\r\n", "\n")


def draw_terminal(folder: str, *arguments: str) -> None:
    """Draw what a command prints on a terminal; the picture has the command's name."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    shown = capture_terminal([sys.executable, "-m", "kafkaform", *arguments], folder)
    console.print(Text.from_ansi(shown))
    # rich refers to a web font on another host; use the reader's monospaced font instead.
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    style = style.replace("font-family: Fira Code, monospace", "font-family: monospace")
    svg = console.export_svg(title=f"kafkaform {arguments[0]}", code_format=style)
    (DOCS / f"{arguments[0]}.svg").write_text(svg, "utf-8")


def run(folder: str, *arguments: str, expect: int = 0) -> str:
    """Return what a kafkaform command prints; exits if its exit code is not `expect`."""
    command = [sys.executable, "-m", "kafkaform", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != expect:
        sys.exit(f"picture: expected exit code {expect} of {arguments[0]}, got {done.returncode}")
    return done.stdout


def draw_comment(folder: str) -> None:
    """Draw the comment of a pull request, with the look of Markdown on GitHub."""
    # As many resources as a reader of the page takes in.
    markdown = run(folder, "plan", "--format", "markdown", "--target", "Topic/[ors]*", expect=1)
    page = Path(folder) / "comment.html"
    page.write_text(COMMENT.format(MarkdownIt("gfm-like", {"linkify": False}).render(markdown)), "utf-8")
    draw_page(page, DOCS / "comment.png", width=900, height=820)


def draw_skew(folder: str) -> None:
    """Draw the top of the page of skew, light and dark."""
    page = Path(folder) / "skew.html"
    run(folder, "skew", "orders.v1", "--records", "all", "--out", str(page))
    for number, scheme in enumerate(("dark", "light")):
        flag = f"--blink-settings=preferredColorScheme={number}"
        draw_page(page, DOCS / f"skew-{scheme}.png", flag, width=900, height=950)


def main() -> int:
    """Start Kafka, and draw the commands in the order of their use."""
    os.environ["LOGNAME"] = "alice"  # who applies, in the record
    with tempfile.TemporaryDirectory(prefix="kafkaform-picture-") as folder:
        (Path(folder) / "topics").mkdir()
        (Path(folder) / "topics" / "shop.yaml").write_text(MANIFESTS)
        with DevCluster.start(Path(folder) / "kafka") as kafka:
            address = kafka.bootstrap_servers
            given = {"bootstrap.servers": address}
            with KafkaCluster(to_librdkafka(given), lambda: to_transport(given)) as cluster:
                cluster.execute(
                    [
                        CreateTopic(
                            ResourceRef("Topic", name), partitions, 1, {"retention.ms": str(days * DAY_MS)}
                        )
                        for name, (partitions, days) in LIVE.items()
                    ]
                )
            for topic in LIVE:
                produce_orders(address, topic, records=200_000)
            (Path(folder) / "kafkaform.yaml").write_text(CONFIGURATION.format(address=address))
            draw_terminal(folder, "rules", "KF109")
            draw_terminal(folder, "plan")
            draw_comment(folder)
            draw_skew(folder)
            run(folder, "apply", "--auto-approve", "--target", "*/[ors]*", "--allow", "destructive")
            consumer = consume_records(address, 150_000)
            draw_terminal(folder, "status")
            consumer.close()
            set_config(address, "shipments.v1", "retention.ms", str(30 * DAY_MS))
            draw_terminal(folder, "drift")
    return 0


if __name__ == "__main__":
    sys.exit(main())
