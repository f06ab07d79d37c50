"""Draw docs/plan.svg, the plan in the README, from a real run: `make picture`.

A real Kafka is started and given topics that have drifted; what `kafkaform plan` says is drawn by rich.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from kafkaform.cluster.kafka import KafkaCluster
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.model import CreateTopic, ResourceRef

ROOT = Path(__file__).resolve().parent.parent
DAY_MS = 86_400_000
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
"""
LIVE = {"orders.v1": (6, 7), "payments.v1": (12, 3), "shipments.v1": (6, 30)}


def main() -> int:
    """Start Kafka, plan, draw."""
    with tempfile.TemporaryDirectory(prefix="kafkaform-picture-") as folder:
        (Path(folder) / "topics").mkdir()
        (Path(folder) / "topics" / "shop.yaml").write_text(MANIFESTS)
        with DevCluster.start(Path(folder) / "kafka") as kafka:
            address = kafka.bootstrap_servers
            with KafkaCluster(
                {"bootstrap.servers": address}, lambda: {"bootstrap_servers": address}
            ) as cluster:
                cluster.execute(
                    [
                        CreateTopic(
                            ResourceRef("Topic", name), partitions, 1, {"retention.ms": str(days * DAY_MS)}
                        )
                        for name, (partitions, days) in LIVE.items()
                    ]
                )
            plan = subprocess.run(
                [sys.executable, "-m", "kafkaform", "plan", "--bootstrap-server", address],
                cwd=folder,
                env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "132"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
    console = Console(record=True, width=132, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(plan))
    # rich names a web font of a foreign host: a reader's own monospaced font will do.
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    style = style.replace("font-family: Fira Code, monospace", "font-family: monospace")
    svg = console.export_svg(title="kafkaform plan", code_format=style)
    (ROOT / "docs" / "plan.svg").write_text(svg, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
