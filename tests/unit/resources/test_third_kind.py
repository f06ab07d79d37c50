"""A third kind, added by its own package, goes through everything that kafkaform does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.audit.trail import read_record, read_trail
from kafkaform.cluster.testing.memory import MemoryCluster
from kafkaform.config.manifest_text import live_manifest
from kafkaform.config.manifests.editing import edit, write
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import AuditSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import Create, Desired, Plan, ResourceRef, Status
from kafkaform.core.operations import CreateTopic
from kafkaform.inspect.comparison import Side, compare_sides, live_things
from kafkaform.inspect.drift import DriftCause, find_drift
from kafkaform.inspect.importing import ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.inspect.reversal import reversal
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.apply import apply_to_json, render_apply
from kafkaform.report.drift_json import drift_to_json
from kafkaform.report.drift_markdown import render_drift_markdown
from kafkaform.report.drift_text import render_drift
from kafkaform.report.drift_ways import Reach
from kafkaform.report.history import history_to_json, render_history
from kafkaform.report.markdown import render_markdown
from kafkaform.report.prometheus import drift_metrics
from kafkaform.report.text import render_plan
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from kafkaform.rules import RuleContext
from kafkaform.rules.policies import read_policies
from tests.support.audit_scenes import HEADER, recorded_apply
from tests.support.cli_helpers import ROOT, Call, environment
from tests.support.client_quota import AlterQuotas, ClientQuotaKind, QuotaLive, registered
from tests.support.scenes import QUIET, topic

ALICE = ResourceRef("ClientQuota", "user=alice")
HERE = Reach()
TEXT = """\
apiVersion: kafkaform/v1
kind: ClientQuota
metadata:
  name: user=alice
  labels: {team: checkout}
spec:
  config:
    producer_byte_rate: 1000000
    consumer_byte_rate: 2000000
"""


@pytest.fixture(autouse=True)
def third_kind() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quotas" / "alice.yaml"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def rewritten(file: Path, before: str, after: str) -> list[Desired]:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    return load([file], Context())


def plan_of(cluster: MemoryCluster, desired: list[Desired], *allow: str) -> Plan:
    request = Request(desired, allow=tuple(map(Grant.parse, allow)), inventory=tuple(KINDS))
    return build_plan(request, cluster, Settings(rules=QUIET), None)


def applied(cluster: MemoryCluster, desired: list[Desired], *allow: str) -> str:
    """Apply manifests, and keep the record; returns the id of the apply."""
    run, report = recorded_apply(plan_of(cluster, desired, *allow), cluster)
    assert report.complete, report
    return run


def quotas(cluster: MemoryCluster) -> dict[str, object]:
    observed = cluster.observe([ALICE]).resources.get(ALICE)
    return dict(observed.state) if observed is not None else {}


def by_hand(cluster: MemoryCluster, *unset: str, **given: str) -> None:
    assert cluster.execute([AlterQuotas(ALICE, given, unset)]) == [None]


# --- manifests, plan and apply -----------------------------------------------------------------------


def test_a_manifest_is_checked_by_the_schema_and_by_the_kind(file: Path) -> None:
    (desired,) = load([file], Context())
    assert desired.ref == ALICE
    assert desired.state == {"config.consumer_byte_rate": "2000000", "config.producer_byte_rate": "1000000"}
    with pytest.raises(InvalidManifests) as wrong:
        rewritten(file, "config:", "confg:")
    assert "did you mean 'config'" in str([problem.hint for problem in wrong.value.problems])
    with pytest.raises(InvalidManifests) as wrong:
        rewritten(file, "confg:\n    producer_byte_rate", "config:\n    bytes_out")
    assert [problem.message for problem in wrong.value.problems] == ["unknown quota bytes_out"]


def test_it_is_planned_shown_saved_applied_and_verified(cluster: MemoryCluster, file: Path) -> None:
    cluster.execute([CreateTopic(topic("orders"), 1, 1, {})])
    plan = plan_of(cluster, load([file], Context()))
    (planned,) = plan.changes
    assert isinstance(planned.change, Create)
    assert (planned.status, planned.team, plan.broker_validated) == (Status.PLANNED, "checkout", True)
    assert plan.unmanaged == (topic("orders"),)

    text = render_plan(plan).plain
    assert "+ ClientQuota/user=alice" in text
    assert "producer_byte_rate" in text
    assert "1000000" in text
    assert "ClientQuota/user=alice" in render_markdown(plan)
    saved = plan_to_json(plan, HEADER)
    (change,) = json.loads(saved)["changes"]
    assert (change["kind"], change["name"], change["action"]) == ("ClientQuota", "user=alice", "create")
    read, _ = plan_from_json(saved, "plan.json")
    assert read.changes[0].change == planned.change

    _, report = recorded_apply(read, cluster)
    assert [result.result for result in report.results] == [Result.APPLIED]
    assert quotas(cluster) == {
        "config.producer_byte_rate": "1000000",
        "config.consumer_byte_rate": "2000000",
    }
    shown = render_apply(report).plain
    assert "ClientQuota/user=alice  created: consumer_byte_rate = 2000000, producer_byte_rate = 100" in shown
    (result,) = json.loads(apply_to_json(report))["results"]
    assert result["done"] == ["consumer_byte_rate = 2000000, producer_byte_rate = 1000000"]

    again = plan_of(cluster, load([file], Context()))
    assert (again.changes, again.unchanged) == ((), 1)
    _, repeated = recorded_apply(read, cluster)
    assert [result.result for result in repeated.results] == [Result.ALREADY]


def test_an_update_is_judged_needs_consent_and_changes_nothing_else(
    cluster: MemoryCluster, file: Path
) -> None:
    applied(cluster, load([file], Context()))
    desired = rewritten(file, "producer_byte_rate: 1000000", "producer_byte_rate: 500000")
    (held,) = plan_of(cluster, desired).changes
    assert (held.status, held.reason) == (Status.NEEDS_CONSENT, "needs consent to quota-cut")
    assert "clients above 500000 are throttled" in render_plan(plan_of(cluster, desired)).plain
    # On the command line, or in the manifest, where it is for one value only.
    (allowed,) = plan_of(cluster, desired, "ClientQuota/user=*:quota-cut").changes
    assert allowed.status is Status.PLANNED
    note = "annotations: {kafkaform/allow: 'quota-cut from 1000000: TICKET-1'}"
    desired = rewritten(file, "metadata:\n", f"metadata:\n  {note}\n")
    applied(cluster, desired)
    assert quotas(cluster)["config.producer_byte_rate"] == "500000"
    assert quotas(cluster)["config.consumer_byte_rate"] == "2000000"
    (spent,) = plan_of(cluster, rewritten(file, "500000", "400000")).changes
    assert spent.status is Status.NEEDS_CONSENT


def test_what_is_no_longer_set_and_what_is_absent_is_taken_away(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    applied(cluster, rewritten(file, "consumer_byte_rate: 2000000", "consumer_byte_rate: null"))
    assert quotas(cluster) == {"config.producer_byte_rate": "1000000"}
    desired = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    (held,) = plan_of(cluster, desired).changes
    assert (held.status, held.reason) == (Status.NEEDS_CONSENT, "needs consent to delete")
    applied(cluster, desired, "ClientQuota/user=alice:delete")
    assert quotas(cluster) == {}


def test_what_brokers_say_against_it_is_in_the_plan_and_in_the_result(
    cluster: MemoryCluster, file: Path
) -> None:
    (refused,) = plan_of(cluster, rewritten(file, "user=alice", "alice")).changes
    assert refused.status is Status.REFUSED
    assert "names no type of entity" in str(refused.reason)
    plan = plan_of(cluster, rewritten(file, "name: alice", "name: user=alice"))
    cluster.fail_next(RequestRejected("a policy says no", code="POLICY_VIOLATION"), ALICE)
    _, report = recorded_apply(plan, cluster)
    assert [result.result for result in report.results] == [Result.FAILED]
    cluster.hide(ALICE)
    assert plan_of(cluster, load([file], Context())).unknown == (ALICE,)


# --- rules and policies ------------------------------------------------------------------------------


def test_a_policy_can_ask_about_it(file: Path) -> None:
    given = {
        "name": "rate",
        "kind": "ClientQuota",
        "message": "Too fast.",
        "require": {"labels": ["team", "tier"], "fields": {"config.producer_byte_rate": {"max": "500000"}}},
    }

    def wrong(*problem: object, **more: object) -> None:
        raise AssertionError((problem, more))

    policies = read_policies([given], wrong)
    found = rules.check(RuleContext(tuple(load([file], Context()))), QUIET, more=policies)
    messages = [(diagnostic.code, diagnostic.message) for diagnostic in found]
    assert messages == [
        ("policy/rate", "Too fast: the label tier of user=alice is missing"),
        ("policy/rate", "Too fast: producer_byte_rate is 1000000; it must be at most 500000"),
    ]


# --- drift, comparison, import and get ---------------------------------------------------------------


def test_drift_says_what_changed_since_and_by_whom(cluster: MemoryCluster, file: Path) -> None:
    run = applied(cluster, load([file], Context()))
    by_hand(cluster, producer_byte_rate="9000000", request_percentage="50")
    desired = load([file], Context())
    request = Request(desired, inventory=tuple(KINDS), reading=True)
    plan = build_plan(request, cluster, Settings(rules=QUIET), None)
    drift = find_drift(plan, desired, read_trail(cluster, AuditSettings(), plan.cluster_id))
    (drifted,) = drift.resources
    (field,) = [one for one in drifted.fields if one.declared]
    assert (field.change.before, field.change.after) == ("9000000", "1000000")
    assert field.past is not None
    assert field.past.cause is DriftCause.CLUSTER
    assert field.past.last is not None
    assert field.past.last.run == run
    assert [one.change.path for one in drifted.fields if not one.declared] == ["config.request_percentage"]
    assert "ClientQuota/user=alice" in render_drift(drift, HEADER, HERE).plain
    assert "ClientQuota/user=alice" in render_drift_markdown(drift, HEADER, HERE)
    (told,) = json.loads(drift_to_json(drift, HEADER, HERE))["resources"]
    assert (told["kind"], told["name"]) == ("ClientQuota", "user=alice")
    assert 'quota="user=alice"' in drift_metrics(drift, "dev", 0)


def test_two_clusters_are_compared(cluster: MemoryCluster) -> None:
    by_hand(cluster, producer_byte_rate="1")
    other = MemoryCluster("other")
    by_hand(other, producer_byte_rate="2")
    things = [live_things(each.observe([ALICE]), {ALICE}) for each in (cluster, other)]
    found = compare_sides(*(Side(name, one) for name, one in zip("ab", things, strict=True)))
    (difference,) = found.differences
    assert difference.ref == ALICE


def test_a_live_one_is_imported_and_printed(cluster: MemoryCluster, tmp_path: Path) -> None:
    by_hand(cluster, producer_byte_rate="1000")
    read = cluster.observe((), lambda _: True, kinds=KINDS)
    observed = read.resources[ALICE]
    assert observed.live == QuotaLive((("user", "alice"),))
    made = make_import(read, Selection(kinds=tuple(KINDS)), {}, Context(), ImportLayout(tmp_path))
    (imported,) = made.files
    assert imported.path.parent == tmp_path / "quotas"
    imported.path.parent.mkdir()
    imported.path.write_text(imported.text)
    plan = plan_of(cluster, load([imported.path], Context()))
    assert (plan.changes, plan.undeclared, plan.unchanged) == ((), (), 1)
    assert (made.partial, made.idle, dict(made.unlike), dict(made.unread)) == ((), (), {}, {})
    assert live_manifest(observed).to_yaml() in imported.text
    assert json.loads(live_manifest(observed).to_json())["spec"] == {"config": {"producer_byte_rate": 1000}}


def test_the_command_line_knows_it(file: Path) -> None:
    """In a process of its own: what commands are called for each kind is settled when they are imported."""

    def kafkaform(*arguments: str) -> Call:
        program = (sys.executable, "-m", "tests.support.client_quota")
        done = subprocess.run(
            [*program, *arguments, "--bootstrap-server", "memory:9092"],
            cwd=file.parent,
            env=environment(PYTHONPATH=str(ROOT)),
            capture_output=True,
            text=True,
            check=False,
        )
        return Call(done.returncode, done.stdout, done.stderr)

    assert kafkaform("get", "quotas").needs(0).out == "user=alice\n"
    shown = kafkaform("get", "quota", "user=alice").needs(0).out
    assert "kind: ClientQuota" in shown
    assert "producer_byte_rate: 1000\n" in shown
    plan = kafkaform("plan", "alice.yaml", "--format", "json").needs(0).json
    assert [(change["name"], change["status"]) for change in plan["changes"]] == [("user=alice", "planned")]
    told = kafkaform("apply", "alice.yaml", "--auto-approve").needs(0).out
    assert "ClientQuota/user=alice  updated" in told
    assert "Apply: 1 updated. Verified" in told
    kafkaform("plan", "alice.yaml", "--out", "plan.json").needs(0)
    assert "ClientQuota/user=alice  updated" in kafkaform("apply", "plan.json", "--auto-approve").needs(0).out
    assert "ClientQuota/user=alice" in kafkaform("drift", "alice.yaml").needs(2).out
    written = kafkaform("import", "--kind", "quota", "--dry-run", "--out", "live").needs(0)
    assert "user=alice" in written.both


# --- record, history and revert ----------------------------------------------------------------------


def test_the_record_shows_it_and_a_revert_goes_back(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    desired = rewritten(file, "producer_byte_rate: 1000000", "producer_byte_rate: 3000000")
    run = applied(cluster, desired)
    log = read_record(cluster, AuditSettings())
    assert log.problems == ()
    (entry,) = [entry for entry in log.entries if entry.run == run]
    assert [field.path for field in entry.carried_out] == ["config.producer_byte_rate"]
    assert "ClientQuota/user=alice" in render_history(log.entries, 0).plain
    assert json.loads(history_to_json(log.entries, log))["changes"][-1]["kind"] == "ClientQuota"

    found = reversal([entry], log.entries, {one.ref: one for one in desired})
    assert found.refused == []
    write(edit(found.edits, desired, Context(root=file.parent)))
    assert "producer_byte_rate: 1000000" in file.read_text()
    (change,) = plan_of(cluster, load([file], Context())).changes
    assert change.reason == "needs consent to quota-cut"


def test_a_deleted_one_comes_back_with_a_new_manifest(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    run = applied(cluster, rewritten(file, "spec:\n", "spec:\n  state: absent\n"), f"{ALICE}:delete")
    log = read_record(cluster, AuditSettings())
    found = reversal([entry for entry in log.entries if entry.run == run], log.entries, {})
    (restored,) = found.restored
    assert live_manifest(restored).data["spec"] == {
        "config": {"consumer_byte_rate": 2000000, "producer_byte_rate": 1000000}
    }


def test_its_kind_is_in_the_table_only_here() -> None:
    assert KINDS["ClientQuota"].name == ClientQuotaKind.name
    assert list(KINDS) == ["Topic", "ConsumerGroup", "ClientQuota"]
