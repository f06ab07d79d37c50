"""Tests of an apply after earlier ones: results that were never written, and plans that are spent."""

from __future__ import annotations

import signal
import subprocess
import sys

from kafkaform.devcluster.cluster import DevCluster
from tests.support.cli.project import ROOT, Project, environment
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import delete_group

AUDITED = {"KAFKAFORM_AUDIT": "true"}


KILLED = """
import os, signal, sys
from kafkaform.audit.journal import AuditJournal
from kafkaform.cli.main import run

def conclude(self, report):
    print(self.run, file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

AuditJournal.conclude = conclude
run(sys.argv[1:])
"""


def killed_apply(project: Project, *arguments: object) -> str:
    """Run an apply that is killed between the effect and the record of it; returns its id."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            KILLED,
            *map(str, project.add_cluster(["apply", *arguments, "--auto-approve"])),
        ],
        cwd=project.folder,
        env=environment(PYTHONPATH=str(ROOT), **AUDITED),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stderr.splitlines()[-1]


def history(project: Project, run: str) -> dict[str, tuple[str | None, str | None]]:
    changes = project.run("history", run, "--format", "json").needs(0).json["changes"]
    return {
        change["name"].removeprefix(project.prefix): (change["result"], change["message"])
        for change in changes
    }


def declare_group(project: Project) -> None:
    """Declare a group that begins at the end of `orders`."""
    project.group("g", topics=[f"{project.prefix}orders"], protocol="consumer", offsets={"initial": "latest"})


def test_offsets_committed_by_killed_apply_are_guarded(kafka: DevCluster, project: Project) -> None:
    """The rerun has nothing to do, and yet writes the result; the guard holds before it, and after."""
    project.topic("orders")
    project.run("apply", "topics", "--auto-approve").needs(0)
    produce(kafka.bootstrap_servers, f"{project.prefix}orders", {0: 3})
    declare_group(project)
    run = killed_apply(project, "topics")
    assert history(project, run) == {"g": (None, None)}
    assert "result unknown" in project.run("history", run).out
    again = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    assert "No changes" in again.out
    assert f"apply {run} " in again.err
    result, message = history(project, run)["g"]
    assert result == "applied"
    assert message
    delete_group(kafka.bootstrap_servers, f"{project.prefix}g")
    plan = eventually(lambda: project.run("plan", "topics"), lambda call: "No changes" not in call.out)
    assert "offset-recommit" in plan.out
