"""`kafkaform apply` on a real Kafka: from manifests, from saved plans, half-way and back."""

import json
import re
import signal
import subprocess
import sys
from typing import Any

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.core.operations import batches
from tests.support.cli.project import Project, environment, manifest
from tests.support.clusters.topics import make_topic


def test_tombstone_spares_recreated_topic(project: Project, real_cluster: KafkaCluster) -> None:
    def consent(text: str) -> None:
        project.topic("a", state="absent", metadata={"annotations": {"kafkaform/allow": f"{text}: unused"}})

    name = project.topic("a")
    project.apply("topics").needs(0)
    consent("delete")
    output = project.apply("topics").needs(1).words
    line = re.search(r'kafkaform/allow: "(delete of \S{22}): <why>"', output)
    assert line is not None, output
    consent(line[1])
    project.apply("topics").needs(0)
    assert project.live() == {}
    make_topic(real_cluster, name)
    assert f"consents to {line[1]}, which" in project.apply("topics").needs(1).words
    assert set(project.live()) == {"a"}


def test_apply_without_terminal_needs_auto_approve(project: Project) -> None:
    project.topic("a", retention="7d")
    project.run("plan", "topics", "--out", "plan.json").needs(0)
    for target in ("topics", "plan.json"):
        assert "--auto-approve" in project.run("apply", target).needs(1).err
    assert project.live() == {}
    project.apply("topics").needs(0)
    project.run("apply", "topics").needs(0)


MANY = 300
SMALL_REQUESTS = f"""
import sys
from {batches.__module__} import batches
batches.__defaults__ = (12,)
from kafkaform.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
"""Fifty requests of six topics: as many as large ones would take tens of thousands of partitions."""


def test_interrupted_apply_is_completed_by_next_apply(project: Project) -> None:
    spec = {"partitions": 1, "replicationFactor": 1}
    text = "---\n".join(manifest(f"{project.prefix}{n:04}", spec) for n in range(MANY))
    project.write("topics/many.yaml", text)
    # At the start, before or while the first request is under way; and once the first was answered.
    first = apply_and_stop(project, signal.SIGINT, after="applying: ")
    second = apply_and_stop(project, signal.SIGTERM, after=" of ")
    done = 0
    for report in (first, second):
        applied, left = report["summary"]["applied"], report["summary"]["not_tried"]
        assert report["interrupted"] is True
        assert left > 0
        assert done + applied + left == MANY
        done += applied
    assert second["summary"]["applied"] > 0
    assert len(project.live()) == done
    again = project.apply("topics", "--format", "json").needs(0)
    assert again.json["summary"]["applied"] == MANY - done
    assert len(project.live()) == MANY


def apply_and_stop(project: Project, number: signal.Signals, *, after: str) -> dict[str, Any]:
    """Apply, and send a signal after a line of the progress; returns the report."""
    arguments = project.add_cluster(["apply", "topics", "--auto-approve", "--format", "json"])
    process = subprocess.Popen(
        [sys.executable, "-c", SMALL_REQUESTS, *map(str, arguments)],
        cwd=project.folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if after in line:
            process.send_signal(number)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "stopping after" in err
    assert "Traceback" not in err
    found: dict[str, Any] = json.loads(out)
    return found
