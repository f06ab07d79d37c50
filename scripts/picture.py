"""Draw docs/plan.svg, the plan in the README, from a real run: `make picture`.

A real Kafka is started with topics that have drifted; rich draws the output of `kafkaform plan`.
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

from confluent_kafka import Producer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.config.client_properties import to_librdkafka, to_transport
from kafkaform.core.model import ResourceRef
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.resources.topic.operations import CreateTopic

ROOT = Path(__file__).resolve().parent.parent
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
LIVE = {"orders.v1": (6, 7), "payments.v1": (12, 3), "shipments.v1": (6, 30)}


def produce_records(address: str) -> None:
    """Write records to the topics, so that the plan has sizes."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
    for number in range(20_000):
        for topic in LIVE:
            producer.produce(topic, key=str(number), value=os.urandom(700))
        producer.poll(0)
    producer.flush(60)


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


def main() -> int:
    """Start Kafka, run a plan, and draw it."""
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
            produce_records(address)
            (Path(folder) / "kafkaform.yaml").write_text(CONFIGURATION.format(address=address))
            plan = capture_terminal([sys.executable, "-m", "kafkaform", "plan"], folder)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(plan))
    # rich refers to a web font on another host; use the reader's monospaced font instead.
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    style = style.replace("font-family: Fira Code, monospace", "font-family: monospace")
    svg = console.export_svg(title="kafkaform plan", code_format=style)
    (ROOT / "docs" / "plan.svg").write_text(svg, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
