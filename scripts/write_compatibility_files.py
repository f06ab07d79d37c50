"""Keep what this version writes, for all later versions to read: `write_compatibility_files.py`.

Applies manifests of all kinds to a real Kafka, changes and measures it, and keeps in tests/data/VERSION/ the
manifests, a saved plan, the record of the applies, and a skew report with its metrics. Run it once for each
release, before its tag; the files of a version that was released are never written again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # kafkaform need not be installed

from confluent_kafka import Producer

from kafkaform import __version__
from kafkaform.devcluster.cluster import ClusterSpec, DevCluster
from tests.support.golden import format_json

ROOT = Path(__file__).resolve().parent.parent
CONFIG = """\
apiVersion: kafkaform/v1
kind: Config
manifests: [manifests]
environments: [small, large]
clusters:
  dev:
    client: {bootstrap.servers: "SERVERS"}
    audit: {topic: false, file: audit.jsonl}
defaults:
  Topic: {replicationFactor: 1}
owns: [orders.*]
protected: ["audit.*"]
"""
MANIFESTS = """\
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: orders.v1
  labels: {team: checkout}
spec:
  partitions: 6
  retention: {time: 14d, bytes: 50GiB}
  config: {cleanup.policy: delete, compression.type: lz4, min.insync.replicas: 1}
  keyed: true
  deletionProtection: true
  skew: {maxPartitionRatio: 3.0, maxKeyShare: 0.05}
  overrides:
    small: {partitions: 3, retention: {time: 7d}}
---
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {name: checkout}
spec:
  topics: [orders.v1]
  protocol: classic
  members: {expected: 3, max: 6}
  client: {max.poll.records: 200, partition.assignment.strategy: cooperative-sticky}
  offsets: {initial: earliest}
  lag: {maxRecords: 100000}
---
apiVersion: kafkaform/v1
kind: ClientQuota
metadata: {name: user=reporting}
spec:
  entity: {user: reporting}
  config: {consumer_byte_rate: 20MiB}
  overrides:
    small: {config: {consumer_byte_rate: 40MiB}}
---
apiVersion: kafkaform/v1
kind: Access
metadata:
  name: checkout
  annotations: {kafkaform/allow: "closes-access: all applications have their manifests"}
spec:
  principals: [User:checkout]
  produces: [orders.v1]
  consumes: [{group: checkout}]
"""


def main() -> int:
    """Write the files of this version."""
    folder = ROOT / "tests" / "data" / __version__
    if folder.exists():
        print(f"{folder} exists, and the files of a released version are kept as they are", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary, "work")
        (work / "manifests").mkdir(parents=True)
        (work / "manifests" / "all.yaml").write_text(MANIFESTS, "utf-8")
        # The authorizer that ACLs need.
        with DevCluster.start(Path(temporary, "kafka"), ClusterSpec(sasl_users={"ada": "secret"})) as kafka:
            (work / "kafkaform.yaml").write_text(CONFIG.replace("SERVERS", kafka.bootstrap_servers), "utf-8")
            run(work, "apply", "-e", "small", "--auto-approve")
            send_records(kafka)
            run(work, "plan", "-e", "large", "--out", "plan.json")
            # One key has more of the records than the policy allows.
            measured = ("--out", "skew.json", "--history", "metrics", "--history-format", "parquet")
            run(work, "skew", "orders.v1", "-e", "large", *measured, code=2)
            run(work, "apply", "plan.json", "--auto-approve")
            run(work, "plan", "-e", "large", "--detailed-exitcode")
        record = work / "audit.jsonl"
        # The record names the machine.
        record.write_text(record.read_text("utf-8").replace(socket.gethostname(), "host"), "utf-8")
        for document in (work / "plan.json", work / "skew.json"):
            document.write_text(format_json(document.read_text("utf-8")), "utf-8")
        shutil.copytree(work, folder, ignore=shutil.ignore_patterns(".*", "_SUCCESS"))
    print(f"wrote {folder.relative_to(ROOT)}")
    return 0


def run(work: Path, *arguments: str, code: int = 0) -> None:
    """Run a command that must exit with the code."""
    line = [sys.executable, "-m", "kafkaform", *arguments]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "LOGNAME": "ada"}
    done = subprocess.run(line, cwd=work, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{line} exits {done.returncode}:\n{done.stdout}{done.stderr}")


def send_records(kafka: DevCluster) -> None:
    """Send records whose keys have a hot one among them."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(3000):
        producer.produce("orders.v1", b"value", "hot" if number % 4 == 0 else f"key-{number % 500}")
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
