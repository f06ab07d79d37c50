"""What an apply makes of earlier ones: results that were never written, and plans that are spent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkaform.audit.journal import TopicSink
from kafkaform.core.errors import AuditError
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.plan import measuring
from tests.support.cli_helpers import Project
from tests.support.group_clients import produce
from tests.support.kafka_fixtures import TIMEOUT_S, admin_client, eventually
from tests.support.scenes import DAY, WEEK

AUDITED = {"KAFKAFORM_AUDIT": "true"}


# --- on the command line, and on Kafka -------------------------------------------------------------


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
        [sys.executable, "-c", KILLED, *map(str, project.aimed(["apply", *arguments, "--auto-approve"]))],
        cwd=project.folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "KAFKAFORM_LOCK": "false",
            **AUDITED,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return done.stderr.splitlines()[-1]


def history(project: Project, run: str) -> dict[str, tuple[str | None, str | None]]:
    changes = project.run("history", run, "--format", "json").needs(0).json["changes"]
    return {one["name"].removeprefix(project.prefix): (one["result"], one["message"]) for one in changes}


GROUP = """
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata: {{name: {prefix}g}}
spec:
  topics: [{prefix}orders]
  protocol: consumer
  offsets: {{initial: latest}}
"""


def test_offsets_that_a_killed_apply_committed_are_guarded(kafka: DevCluster, project: Project) -> None:
    """The rerun has nothing to do, and yet writes the result; the guard holds before it, and after."""
    project.topic("orders")
    project.run("apply", "topics", "--auto-approve").needs(0)
    produce(kafka.bootstrap_servers, f"{project.prefix}orders", {0: 3})
    project.write("topics/g.yaml", GROUP.format(prefix=project.prefix))
    run = killed_apply(project, "topics")
    assert history(project, run) == {"g": (None, None)}
    assert "create: result unknown (killed, or still running)" in project.run("history", run).out
    again = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    assert "No changes" in again.out
    assert f"apply {run} left the result of 1 change open: found done, and recorded" in again.err
    result, message = history(project, run)["g"]
    assert result == "applied"
    assert message is not None
    assert message.endswith("this one ended before it could write its result")
    name = f"{project.prefix}g"
    admin = admin_client(kafka.bootstrap_servers)
    admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    plan = eventually(lambda: project.run("plan", "topics"), lambda call: "No changes" not in call.out)
    assert "needs consent to offset-recommit" in plan.out


def test_an_apply_that_was_killed_before_it_committed_is_no_reason_to_ask(
    kafka: DevCluster, project: Project
) -> None:
    """Seconds later the offsets cannot have expired: a group that is not there never had any."""
    project.topic("orders")
    project.run("apply", "topics", "--auto-approve").needs(0)
    project.write("topics/g.yaml", GROUP.format(prefix=project.prefix))
    killed_apply(project, "topics")
    name = f"{project.prefix}g"
    admin = admin_client(kafka.bootstrap_servers)
    admin.delete_consumer_groups([name], request_timeout=TIMEOUT_S)[name].result(TIMEOUT_S)
    plan = eventually(lambda: project.run("plan", "topics"), lambda call: "No changes" not in call.out)
    assert "offset-recommit" not in plan.needs(0).out
    project.run("apply", "topics", "--auto-approve").needs(0)


def test_a_saved_plan_that_a_killed_apply_carried_out_is_settled_by_the_next(project: Project) -> None:
    project.topic("orders")
    project.run("plan", "topics", "--out", "plan.json").needs(0)
    run = killed_apply(project, "plan.json")
    again = project.run("apply", "plan.json", "--auto-approve", env=AUDITED).needs(0)
    assert "already exists" in again.out
    assert history(project, run)["orders"][0] == "applied"


def test_a_result_that_could_not_be_recorded_is_recorded_by_the_next_apply(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the broker that leads the record's partition dies while an apply is at work."""
    project.topic("orders")
    append = TopicSink.append

    def fail_on_results(sink: TopicSink, lines: Sequence[str]) -> None:
        if any(json.loads(line)["record"] == "result" for line in lines):
            raise AuditError("the record cannot be written: no leader")
        append(sink, lines)

    monkeypatch.setattr(TopicSink, "append", fail_on_results)
    first = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    assert "is not recorded: the record cannot be written: no leader; the next apply" in first.err
    monkeypatch.undo()
    again = project.run("apply", "topics", "--auto-approve", env=AUDITED).needs(0)
    found = re.search(r"apply (\S+) left the result of 1 change open: found done, and recorded", again.err)
    assert found is not None, again.err
    assert history(project, found[1])["orders"][0] == "applied"


@pytest.fixture
def applied(project: Project) -> Project:
    """A saved plan that cut the retention of `a`, with consent, and made `b`; both are undone by hand."""
    project.topic("a", retention="7d")
    project.run("apply", "topics", "--auto-approve").needs(0)
    project.topic("a", retention="1d")
    project.topic("b")
    project.run("plan", "topics", "--out", "plan.json", "--allow", "Topic/*a:retention-cut")
    project.run("apply", "plan.json", "--auto-approve", env=AUDITED).needs(0)
    return project


def test_a_plan_that_was_applied_is_a_no_op_while_its_changes_are_there(applied: Project) -> None:
    again = applied.run("apply", "plan.json", env=AUDITED).needs(0)
    assert "the plan was applied on " in again.err
    assert "already in place" in again.out
    assert "needs consent" not in again.both


def test_a_plan_that_was_applied_is_not_applied_again(applied: Project) -> None:
    applied.set_config("a", "retention.ms", WEEK)
    for env in (AUDITED, None):
        again = applied.run("apply", "plan.json", "--auto-approve", env=env).needs(1)
        assert "the plan was applied on " in again.err
        assert f"changed since: Topic/{applied.prefix}a; nothing was applied" in again.err
        assert "make a new plan and review it, or use --again" in again.err
    assert applied.live()["a"]["retention.ms"] == WEEK
    applied.run("apply", "plan.json", "--again", "--auto-approve", env=AUDITED).needs(0)
    assert applied.live()["a"]["retention.ms"] == DAY


def test_a_new_plan_of_the_same_content_is_applied(project: Project) -> None:
    project.topic("a", retention="7d")
    project.run("apply", "topics", "--auto-approve").needs(0)
    project.topic("a", retention="1d")
    for file in ("first.json", "second.json"):
        project.run("plan", "topics", "--out", file, "--allow", "Topic/*a:retention-cut")
        project.run("apply", file, "--auto-approve", env=AUDITED).needs(0)
        assert project.live()["a"]["retention.ms"] == DAY
        project.set_config("a", "retention.ms", WEEK)
    first, second = (
        json.loads((project.folder / f"{name}.json").read_text()) for name in ("first", "second")
    )
    assert first["digest"] == second["digest"]
    for file in ("first.json", "second.json"):
        assert "changed since" in project.run("apply", file, "--auto-approve", env=AUDITED).needs(1).err


def test_a_plan_that_was_applied_in_part_is_finished(project: Project) -> None:
    """What was carried out and undone is refused, and the rest goes through."""
    for name in ("a", "b"):
        project.topic(name, retention="7d")
    project.run("apply", "topics", "--auto-approve").needs(0)
    for name in ("a", "b"):
        project.topic(name, retention="8d")
    project.run("plan", "topics", "--out", "plan.json").needs(0)
    target = ("--target", f"Topic/{project.prefix}a")
    project.run("apply", "plan.json", *target, "--auto-approve", env=AUDITED).needs(0)
    project.set_config("a", "retention.ms", WEEK)
    rest = project.run("apply", "plan.json", "--auto-approve", env=AUDITED).needs(1)
    assert "refused" in rest.out
    assert "1 updated" in rest.out
    live = project.live()
    assert (live["a"]["retention.ms"], live["b"]["retention.ms"]) == (WEEK, "691200000")
    assert "--again" in project.run("apply", "topics", "--again", "--auto-approve").needs(64).err


def test_a_reset_that_was_applied_says_one_thing_the_second_time(
    kafka: DevCluster, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "WATCH_S", 0.0)
    project.topic("orders")
    project.write("topics/g.yaml", GROUP.format(prefix=project.prefix).replace("latest", "earliest"))
    project.run("apply", "topics", "--auto-approve").needs(0)
    produce(kafka.bootstrap_servers, f"{project.prefix}orders", {0: 3})
    name = f"{project.prefix}g"
    project.run("reset", name, "--to", "latest", "--out", "reset.json").needs(1)
    consent = ("--allow", f"ConsumerGroup/{name}:offset-reset")
    project.run("apply", "reset.json", *consent, "--auto-approve", env=AUDITED).needs(0)
    for more in (consent, ()):
        again = project.run("apply", "reset.json", *more, "--auto-approve", env=AUDITED).needs(0)
        assert "already in place" in again.out
        assert "consent" not in again.both
    unrecorded = project.run("apply", "reset.json", "--auto-approve", "--no-audit").needs(0)
    assert "consent" not in unrecorded.both
