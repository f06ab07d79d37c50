"""Writing the record: before anything is sent, and after; and what happens where it cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkaform.cluster.kafka.cluster import KafkaCluster
from kafkaform.cluster.protocol import TOPIC
from kafkaform.core.errors import AuditError
from kafkaform.devcluster.cluster import DevCluster
from tests.support.audit_scenes import ALICE, HEADER, ends, entries_of, recorded_apply
from tests.support.kafka_fixtures import Account, eventually
from tests.support.scenes import (
    DAY,
    WEEK,
    absent,
    declared,
    plan_for,
    state_of,
)

# --- what is written -------------------------------------------------------------------------------


def test_a_whole_apply_on_a_real_cluster(real_cluster: KafkaCluster, prefix: str) -> None:
    """Creates, updates and deletes, with who, before, after, consent and result."""
    a, b, c = (prefix + name for name in "abc")
    first, _ = recorded_apply(
        plan_for(real_cluster, declared(a, retention_ms=WEEK), declared(b)), real_cluster
    )
    assert ends(entries_of(real_cluster, first)) == {a: "applied", b: "applied"}
    eventually(lambda: state_of(real_cluster, b), lambda state: state is not None)
    plan = plan_for(
        real_cluster,
        declared(a, 6, retention_ms=DAY),
        absent(b),
        declared(c),
        allow=f"Topic/{a}:retention-cut",
    )
    second, report = recorded_apply(plan, real_cluster)
    assert report.complete
    entries = entries_of(real_cluster, second)
    assert second != first
    assert list(entries) == [a, b, c]
    assert [entry.id for entry in entries.values()] == [f"{second}.{n}" for n in (1, 2, 3)]
    assert ends(entries) == dict.fromkeys((a, b, c), "applied")
    changed, deleted, created = entries.values()
    assert [(one.path, one.before, one.after) for one in changed.carried_out] == [
        ("partitions", 3, 6),
        ("placement", "1,1,1", "1,1,1,1,1,1"),
        ("config.retention.ms", WEEK, DAY),
    ]
    assert (changed.who, changed.host, changed.ci, changed.url) == ("alice", "ci-3", "github", ALICE.url)
    assert (changed.commit, changed.plan, changed.tool_version) == (HEADER.commit, "sha256:0", "1.2.3")
    assert (changed.environment, changed.cluster_id) == ("dev", real_cluster.facts().cluster_id)
    assert (changed.action, changed.risk) == ("update", "destructive")
    assert changed.consents == (("retention-cut", "--allow"),)
    assert deleted.consents == (("delete", "--allow"),)
    assert (deleted.action, deleted.uid) == ("delete", plan.changes[1].change.uid)  # type: ignore[union-attr]
    assert {one.path: one.before for one in deleted.carried_out} == {"partitions": 3, "replicationFactor": 1}
    assert (created.action, created.uid) == ("create", None)
    assert {one.path: one.after for one in created.carried_out} == {"partitions": 3, "replicationFactor": 1}


# --- killed ----------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from kafkaform.apply.executor import apply
from kafkaform.apply.change_execution import Observer
from tests.support.audit_scenes import ALICE, HEADER
from tests.support.kafka_fixtures import connect
from tests.support.scenes import declared, plan_for
from kafkaform.audit.journal import open_journal
from kafkaform.config.settings import AuditSettings

class Killing(Observer):
    def started(self, operations):
        os.kill(os.getpid(), signal.SIGKILL)

cluster = connect(sys.argv[1])
plan = plan_for(cluster, declared(sys.argv[2]))
journal = open_journal(cluster, AuditSettings(), plan, HEADER, "sha256:0", ALICE)
print(journal.run, flush=True)
apply(plan, cluster, journal=journal, observer=Killing())
"""


def test_a_killed_apply_leaves_its_intent(kafka: DevCluster, real_cluster: KafkaCluster, prefix: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, kafka.bootstrap_servers, f"{prefix}a"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert ends(entries_of(real_cluster, done.stdout.strip())) == {f"{prefix}a": None}
    assert state_of(real_cluster, f"{prefix}a") is None


def test_an_account_that_may_not_write_is_told_each_way_out(
    account: Callable[..., Account], prefix: str
) -> None:
    cluster = account(f"TOPIC:{prefix}*:ALL").cluster
    plan = plan_for(cluster, declared(f"{prefix}a"))
    with pytest.raises(
        AuditError, match=f"the record in the topic {TOPIC.name} cannot be written: "
    ) as raised:
        recorded_apply(plan, cluster)
    assert raised.value.message.endswith("; nothing was applied")
    assert raised.value.hint is not None
    for way in (f"grant Write on the topic {TOPIC.name}", "audit: {topic: false, file: PATH}", "--no-audit"):
        assert way in raised.value.hint
    assert state_of(cluster, f"{prefix}a") is None
