"""Tests of an apply after earlier ones: results that were never written, and plans that are spent."""

import signal
from typing import Any

from tests.support.cli.kills import AUDITED, Kill, run_killed_apply
from tests.support.cli.project import Project
from tests.support.clusters.fixtures import eventually
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import delete_group


def test_offsets_committed_by_killed_apply_are_guarded(project: Project) -> None:
    """The rerun has nothing to do, and yet writes the result; the guard holds before it, and after."""

    def read_change() -> dict[str, Any]:
        (change,) = project.run("history", group, "--format", "json").needs(0).json["changes"]
        return dict(change)

    topic = project.topic("orders")
    project.apply("topics").needs(0)
    produce(project.servers, topic, {0: 3})
    group = project.group("g", topics=[topic], protocol="consumer", offsets={"initial": "latest"})
    run_killed_apply(project, Kill("result"), "topics").needs(-signal.SIGKILL)
    change = read_change()
    assert (change["result"], change["message"]) == (None, None)
    assert "result unknown" in project.run("history", group).out
    again = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    assert "No changes" in again.out
    assert f"apply {change['id'].rpartition('.')[0]} " in again.err
    assert read_change()["result"] == "applied"
    assert read_change()["message"]
    delete_group(project.servers, group)
    plan = eventually(lambda: project.run("plan", "topics"), lambda call: "No changes" not in call.out)
    assert "offset-recommit" in plan.out
