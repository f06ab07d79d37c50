"""Our own connections to brokers: frames, what goes wrong, and who is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kafkaform.cluster.api import Api, Question
from kafkaform.devcluster.cluster import DevCluster

TAGGED = Question(Api(1_001, 0, flexible=True), bytes)
FLEXIBLE = (TAGGED.api.key, 3, 46)
VERSIONS = {18: (0, 4), 3: (0, 12), 46: (0, 0), 1_000: (0, 3)}


def test_a_plan_needs_no_kafka_python(kafka: DevCluster, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: a}\n"
        "spec: {partitions: 1, replicationFactor: 1}\n"
    )
    script = (
        "import sys; from kafkaform.cli.main import run\n"
        f"code = run(['plan', '.', '--bootstrap-server', '{kafka.bootstrap_servers}'])\n"
        "print('kafka' in sys.modules, 'confluent_kafka' in sys.modules)\n"
        "sys.exit(code)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False True"
