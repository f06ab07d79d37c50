"""A broker that acknowledges a change and does not make it, for each sort of change: nobody is blamed."""

from pathlib import Path

import pytest

from kafkaform.audit.trail import read_record, read_trail
from kafkaform.config.manifests.loader import Context, load
from kafkaform.config.settings import AuditSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Desired
from kafkaform.core.plans import Plan
from kafkaform.inspect.drift import Drift, DriftCause, Form, find_drift
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.apply import render_apply
from kafkaform.report.drift import render_drift
from kafkaform.report.history import render_history
from kafkaform.report.remediation import CommandContext
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER, recorded_apply
from tests.support.plans.scenes import QUIET, create_topic

WEEK, NINE = "retention: 7d", "retention: 9d"
TOPIC = "kind: Topic\nmetadata: {name: a}\nspec: {partitions: 3, replicationFactor: 1, keyed: false, %s}"
GROUP = "kind: ConsumerGroup\nmetadata: {name: g}\nspec: {topics: [t], %s}"
ACCESS = "kind: Access\nmetadata: {name: a}\nspec: {principals: [User:a], %s}"
QUOTA = (
    "kind: ClientQuota\nmetadata: {name: user=a}\nspec: {entity: {user: a}, config: {producer_byte_rate: %s}}"
)
USER = (
    "kind: User\nmetadata: {name: a}\n"
    "spec: {scram: [{mechanism: SCRAM-SHA-512, iterations: %s, password: '${env:ACKNOWLEDGED}'}]}"
)
SESSION = "config: {consumer.session.timeout.ms: %s}"
GONE = "kind: Topic\nmetadata: {name: a}\nspec: {state: absent}"

CHANGES: dict[str, tuple[str | None, str]] = {
    "create a topic": (None, TOPIC % NINE),
    "delete a topic": (TOPIC % NINE, GONE),
    "set a config": (TOPIC % WEEK, TOPIC % NINE),
    "add a config": (TOPIC % WEEK, TOPIC % "retention: 7d, config: {cleanup.policy: compact}"),
    "add partitions": (TOPIC % WEEK, TOPIC.replace("partitions: 3", "partitions: 6") % WEEK),
    "grant": (ACCESS % "produces: [t]", ACCESS % "produces: [t, u]"),
    "grant the first ACLs": (None, ACCESS % "produces: [t]"),
    "revoke": (ACCESS % "produces: [t, u]", ACCESS % "produces: [t]"),
    "revoke all": (ACCESS % "produces: [t]", ACCESS % "state: absent"),
    "set a quota": (QUOTA % "1MiB", QUOTA % "2MiB"),
    "create a quota": (None, QUOTA % "1MiB"),
    "set a group config": (GROUP % (SESSION % "50s"), GROUP % (SESSION % "55s")),
    "commit first offsets": (None, GROUP % "offsets: {initial: earliest}"),
    "create a user": (None, USER % 4096),
    "set iterations": (USER % 4096, USER % 8192),
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    monkeypatch.setenv("ACKNOWLEDGED", "s3cr3t")
    memory = MemoryCluster()
    create_topic(memory, "t")
    return memory


def read(folder: Path, text: str) -> list[Desired]:
    (folder / "m.yaml").write_text(f"apiVersion: kafkaform/v1\n{text}\n")
    return load([folder], Context())


def plan_of(cluster: MemoryCluster, desired: list[Desired], *, reading: bool = False) -> Plan:
    request = Request(desired, allow=(Grant.parse("destructive"),), inventory=tuple(KINDS), reading=reading)
    return build_plan(request, cluster, Settings(rules=QUIET), None)


def drift_of(cluster: MemoryCluster, desired: list[Desired]) -> Drift:
    plan = plan_of(cluster, desired, reading=True)
    return find_drift(plan, desired, read_trail(cluster, AuditSettings(), plan.cluster_id))


@pytest.mark.parametrize("change", CHANGES)
def test_acknowledged_change_is_in_doubt(cluster: MemoryCluster, tmp_path: Path, change: str) -> None:
    before, after = CHANGES[change]
    if before is not None:
        assert recorded_apply(plan_of(cluster, read(tmp_path, before)), cluster)[1].complete
    desired = read(tmp_path, after)
    plan = plan_of(cluster, desired)
    (planned,) = plan.changes
    for _ in planned.operations or ():
        cluster.pretend(planned.ref)
    run, report = recorded_apply(plan, cluster)

    (result,) = report.results
    assert result.result is Result.FAILED
    assert result.message.startswith("accepted, not visible: ")
    assert (result.done, result.in_doubt) == ((), result.not_done)
    assert result.in_doubt
    assert "    done:" not in render_apply(report).plain
    entries = {entry.run: entry for entry in read_record(cluster, AuditSettings()).entries}
    assert entries[run].carried_out == ()
    assert entries[run].in_doubt == entries[run].fields
    history = render_history([entries[run]], 0).plain
    assert "accepted, not visible" in history

    drift = drift_of(cluster, desired)
    (drifted,) = drift.resources
    parts = drifted.fields if drifted.form is Form.DIFFERS else [drifted]
    pasts = [part.history for part in parts if part.history is not None]
    assert {past.cause for past in pasts} == {DriftCause.NOT_VISIBLE}
    assert {past.last.run for past in pasts if past.last is not None} == {run}
    text = render_drift(drift, HEADER, CommandContext()).plain
    assert "not by a recorded apply" not in text
    assert "no reading has shown it" in " ".join(text.split())
    undone = plan_reversal([entries[run]], [*entries.values()], {item.ref: item for item in desired})
    assert undone.edits == []
    assert all("its result is not known" in line for line in undone.refused)

    # Applied again, it is done, and nothing is left to blame.
    assert recorded_apply(plan_of(cluster, desired), cluster)[1].complete
    assert drift_of(cluster, desired).resources == ()
