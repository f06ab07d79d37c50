"""Users go through everything that kafkaform does, and their passwords through none of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.trail import read_record, read_trail
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import AuditSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Desired, FieldChange, Observed, ResourceRef, Risk, Status, assessments
from kafkaform.core.plans import Plan
from kafkaform.inspect.comparison import Side, compare_sides, select_live_resources
from kafkaform.inspect.drift import DriftCause, find_drift, plan_adoption
from kafkaform.inspect.importing import ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.plan.difference import SavedPlan
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.reviewed import compare
from kafkaform.report.apply import apply_to_json, render_apply
from kafkaform.report.drift import render_drift, render_drift_markdown
from kafkaform.report.drift_json import drift_to_json
from kafkaform.report.drift_wording import describe_field_since
from kafkaform.report.history import history_to_json, render_history
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.report.prometheus import drift_metrics
from kafkaform.report.remediation import CommandContext
from kafkaform.resources import KINDS, listed_kinds
from kafkaform.resources.access.operations import GrantAccess, RevokeAccess
from kafkaform.resources.base import FieldOutcome
from kafkaform.resources.consent import Grant
from kafkaform.resources.user.operations import RemoveCredentials, SetCredentials
from kafkaform.resources.user.risk import OwnLogin
from tests.support.cli.project import ROOT, Call, environment, manifest
from tests.support.golden import wording
from tests.support.kinds import judge_deletion
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER, recorded_apply
from tests.support.plans.scenes import QUIET, topic

CHECKOUT = ResourceRef("User", "checkout")
P256, P512 = "scram.SCRAM-SHA-256", "scram.SCRAM-SHA-512"
FIRST, SECOND = "first-s3cr3t", "second-s3cr3t"
HERE = CommandContext()
TEXT = """\
apiVersion: kafkaform/v1
kind: User
metadata:
  name: checkout
  labels: {team: checkout}
spec:
  scram:
    - mechanism: SCRAM-SHA-512
      iterations: 8192
      password: ${env:CHECKOUT}
"""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    monkeypatch.setenv("CHECKOUT", FIRST)
    return MemoryCluster()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users" / "checkout.yaml"
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


def assessed(plan: Plan) -> list[tuple[Risk, str, str]]:
    (planned,) = plan.changes
    return [(one.risk, one.hazard, one.reason) for one in assessments(planned.change)]


def set_by_hand(cluster: MemoryCluster, password: str, path: str = P512, iterations: int = 8192) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BY_HAND", password)
        value = f"iterations={iterations},password=${{env:BY_HAND}}"
        assert cluster.execute([SetCredentials(CHECKOUT, {path: value})]) == [None]


# --- manifests -----------------------------------------------------------------------------------------


def problems_of(file: Path, text: str) -> list[str]:
    """What is wrong with a manifest: its place and message, and the hint."""
    file.write_text(text)
    with pytest.raises(InvalidManifests) as wrong:
        load([file], Context())
    assert "hunter2" not in str(wrong.value.problems)
    return [
        f"{one.location.line}:{one.location.column} {one.message} ({one.hint})"
        for one in wrong.value.problems
        if one.location is not None
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("${env:CHECKOUT}", "hunter2"),
        ("${env:CHECKOUT}", "${env:CHECKOUT}hunter2"),
        ("${env:CHECKOUT}", "${hunter2}"),
        ("${env:CHECKOUT}", "${vault:hunter2}"),
        ("${env:CHECKOUT}", "0x1234567"),
        ("${env:CHECKOUT}", "[hunter2]"),
        ("      password: ${env:CHECKOUT}\n", ""),
        ("8192", "4095"),
        ("8192", "16385"),
        ("SCRAM-SHA-512", "SCRAM-SHA-1"),
        ("checkout\n  labels", "User:checkout\n  labels"),
        ("    - mech", "    - {mechanism: SCRAM-SHA-512, password: '${file:/p}'}\n    - mech"),
        (TEXT[TEXT.index("  scram") :], "  deletionProtection: true\n"),
        ("{team: checkout}", "{team: '${env:TEAM}'}"),
    ],
)
def test_what_is_wrong_is_told_at_its_place_and_never_the_password(
    file: Path, before: str, after: str
) -> None:
    assert problems_of(file, TEXT.replace(before, after)) == wording


def test_credentials_are_declared_with_references_and_replaced_per_environment(file: Path) -> None:
    (desired,) = load([file], Context())
    assert (desired.ref, desired.state) == (CHECKOUT, {P512: "iterations=8192,password=${env:CHECKOUT}"})
    other = "{mechanism: SCRAM-SHA-256, password: '${file:/run/secrets/pw}'}"
    file.write_text(f"{TEXT}  overrides:\n    prod: {{scram: [{other}]}}\n")
    (desired,) = load([file], Context(environments=("prod",), environment="prod"))
    assert desired.state == {P256: "iterations=4096,password=${file:/run/secrets/pw}"}


# --- plan and apply -------------------------------------------------------------------------------------


def test_a_user_is_planned_shown_saved_applied_and_verified(cluster: MemoryCluster, file: Path) -> None:
    plan = plan_of(cluster, load([file], Context()))
    assert assessed(plan) == [(Risk.SAFE, "", "")]
    assert " ".join(render_plan(plan).plain.split()) == wording
    assert "User/checkout" in render_plan_markdown(plan)
    saved, _ = plan_from_json(plan_to_json(plan, HEADER), "plan.json")
    assert [planned.change for planned in saved.changes] == [planned.change for planned in plan.changes]
    _, report = recorded_apply(saved, cluster)
    assert "User/checkout  created" in render_apply(report).plain
    assert json.loads(apply_to_json(report))["results"][0]["result"] == "applied"
    assert plan_of(cluster, load([file], Context())).unchanged == 1
    assert listed_kinds([CHECKOUT]) == ("Topic", "ConsumerGroup", "User")


def test_a_change_is_judged_by_what_a_login_shows(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    more = rewritten(file, "8192", "16384")
    same = plan_of(cluster, more)
    assert assessed(same) == [(Risk.SAFE, "", wording)]
    assert "8192 → 16384 iterations, password same" in render_plan(same).plain
    monkeypatch.delenv("CHECKOUT")
    assert assessed(plan_of(cluster, more)) == [(Risk.DESTRUCTIVE, "password-change", wording)]
    monkeypatch.setenv("CHECKOUT", SECOND)
    other = rewritten(file, "16384", "8192")
    held = plan_of(cluster, other)
    assert assessed(held) == [(Risk.DESTRUCTIVE, "password-change", wording)]
    assert held.changes[0].status is Status.NEEDS_CONSENT
    note = "annotations: {kafkaform/allow: 'password-change of SCRAM-SHA-512: TICKET-1'}"
    applied(cluster, rewritten(file, "metadata:\n", f"metadata:\n  {note}\n"))
    assert plan_of(cluster, other).changes == ()


def test_without_the_password_nothing_is_compared_and_nothing_is_set(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = plan_of(cluster, load([file], Context()))
    monkeypatch.delenv("CHECKOUT")
    _, report = recorded_apply(create, cluster)
    assert [(result.result, result.message) for result in report.results] == [(Result.FAILED, wording)]
    assert cluster.observe([CHECKOUT]).resources == {}
    set_by_hand(cluster, SECOND)
    assert plan_of(cluster, load([file], Context())).changes == ()


def test_a_saved_plan_is_compared_again_where_it_is_applied(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    desired = rewritten(file, "8192", "4096")
    safe = plan_of(cluster, desired)
    monkeypatch.delenv("CHECKOUT")
    in_doubt = plan_of(cluster, desired, "User/checkout:password-change")

    def judged(plan: Plan) -> list[tuple[Status, str]]:
        request = Request((), saved=SavedPlan(plan, {}))
        changes = build_plan(request, cluster, Settings(rules=QUIET), None).changes
        return [(change.status, change.reason or "") for change in changes]

    monkeypatch.setenv("CHECKOUT", SECOND)
    assert judged(safe) == [(Status.REFUSED, wording)]
    assert judged(in_doubt) == [(Status.PLANNED, "")]
    monkeypatch.setenv("CHECKOUT", FIRST)
    assert judged(safe) == [(Status.PLANNED, "")]
    # What was done is done: a plan can be applied twice.
    assert recorded_apply(safe, cluster)[1].complete
    assert [one.result for one in recorded_apply(safe, cluster)[1].results] == [Result.ALREADY]


CONSENT = "annotations: {kafkaform/allow: 'password-change of SCRAM-SHA-512: TICKET-1'}"


def compare_with_reviewed(reviewed: Plan, now: Plan, desired: list[Desired]) -> tuple[str, ...]:
    return compare((reviewed, HEADER), (now, HEADER), desired).differences


def test_a_rotation_is_reviewed_without_the_password(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    silent = load([file], Context())
    desired = rewritten(file, "metadata:\n", f"metadata:\n  {CONSENT}\n")
    monkeypatch.delenv("CHECKOUT")
    # Without consent, nothing is planned; with it, the plan says what it cannot compare.
    nothing, reviewed = plan_of(cluster, silent), plan_of(cluster, desired)
    assert nothing.changes == ()
    assert assessed(reviewed) == [(Risk.DESTRUCTIVE, "password-change", wording)]
    assert [(one.hazard, one.reason) for one in reviewed.consents] == [("password-change", "TICKET-1")]
    assert " ".join(render_plan(reviewed).plain.split()) == wording
    assert "password-change of SCRAM-SHA-256" not in render_plan_markdown(reviewed)
    reading = Request(desired, inventory=tuple(KINDS), reading=True)
    assert build_plan(reading, cluster, Settings(rules=QUIET), None).changes == ()  # no drift was seen

    # Where it is applied: the password is the same, another one, or unknown there as well.
    monkeypatch.setenv("CHECKOUT", FIRST)
    same = plan_of(cluster, desired)
    assert same.changes == ()
    assert compare_with_reviewed(reviewed, same, desired) == ()
    monkeypatch.setenv("CHECKOUT", SECOND)
    other = plan_of(cluster, desired)
    assert compare_with_reviewed(reviewed, other, desired) == ()
    assert compare_with_reviewed(nothing, other, desired) == wording
    assert compare_with_reviewed(reviewed, plan_of(cluster, silent), silent) == wording
    monkeypatch.delenv("CHECKOUT")
    assert compare_with_reviewed(reviewed, plan_of(cluster, desired), desired) == ()
    _, failed = recorded_apply(reviewed, cluster)
    assert [(one.result, one.message) for one in failed.results] == [(Result.FAILED, wording)]

    monkeypatch.setenv("CHECKOUT", SECOND)
    assert recorded_apply(other, cluster)[1].complete
    assert plan_of(cluster, desired).changes == ()
    # Nothing is set again by a plan that was applied.
    before = cluster.observe([CHECKOUT])
    _, again = recorded_apply(reviewed, cluster)
    assert [one.result for one in again.results] == [Result.ALREADY]
    assert cluster.observe([CHECKOUT]).resources == before.resources


def test_a_consent_for_another_mechanism_sets_nothing(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    monkeypatch.delenv("CHECKOUT")
    text = file.read_text()
    for line in ("password-change of SCRAM-SHA-256: T", "password-change: T", "credential-removal: T"):
        file.write_text(
            text.replace("metadata:\n", f"metadata:\n  annotations: {{kafkaform/allow: '{line}'}}\n")
        )
        assert plan_of(cluster, load([file], Context())).changes == ()
    file.write_text(text)
    # Nor does one on the command line, which may be meant for every hazard.
    assert (
        plan_of(cluster, load([file], Context()), "destructive", "User/checkout:password-change").changes
        == ()
    )


def test_a_password_that_no_listener_compares_is_set_once_by_consent(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    desired = rewritten(file, "metadata:\n", f"metadata:\n  {CONSENT}\n")
    monkeypatch.setenv("CHECKOUT", SECOND)
    with monkeypatch.context() as patch:
        patch.setattr("tests.support.memory_cluster.users.log_in", lambda *_: None)
        plan = plan_of(cluster, desired)
        assert "password unknown" in render_plan(plan).plain
        _, report = recorded_apply(plan, cluster)
        assert [one.result for one in report.results] == [Result.APPLIED]
        # Once more: the record shows that it was done, and no reading that it was undone.
        again = apply(plan, cluster, ApplyOptions(done=[CHECKOUT]))
        assert [(one.result, one.done) for one in again.results] == [(Result.ALREADY, ())]
    assert plan_of(cluster, desired).changes == ()


def test_a_change_that_a_refused_login_led_to_is_not_done_without_another_login() -> None:
    field = KINDS["User"].field(P512)
    before, after = "iterations=4096,password=changed", "iterations=4096,password=${env:A}"
    live = Observed(CHECKOUT, None, {P512: "iterations=4096,password=unknown"})
    assert field.remaining(FieldChange(P512, before, after), live) is FieldOutcome.MOVED
    assert field.remaining(FieldChange(P512, None, after), live) is FieldOutcome.DONE


def test_undeclared_mechanisms_and_absent_users_go_with_consent(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    set_by_hand(cluster, FIRST, P256)
    held = plan_of(cluster, load([file], Context()))
    assert assessed(held) == [(Risk.DESTRUCTIVE, "credential-removal", wording)]
    applied(cluster, load([file], Context()), "User/checkout:credential-removal")
    assert [*cluster.observe([CHECKOUT]).resources[CHECKOUT].state] == [P512]
    absent = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    assert assessed(plan_of(cluster, absent)) == [(Risk.DESTRUCTIVE, "credential-removal", wording)]
    applied(cluster, absent, "User/checkout:credential-removal")
    assert cluster.observe([CHECKOUT]).resources == {}


def test_the_account_that_applies_keeps_its_login(
    cluster: MemoryCluster, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(cluster, load([file], Context()))
    cluster.own_login = OwnLogin("checkout", "SCRAM-SHA-512")
    assert assessed(plan_of(cluster, rewritten(file, "8192", "4096")))[0][0] is Risk.SAFE
    monkeypatch.setenv("CHECKOUT", SECOND)
    (refused,) = plan_of(cluster, load([file], Context()), "destructive").changes
    assert (refused.status, refused.reason) == (Status.REFUSED, wording)
    absent = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    assert plan_of(cluster, absent, "destructive").changes[0].status is Status.REFUSED
    cluster.own_login = OwnLogin("checkout", "SCRAM-SHA-256")
    assert plan_of(cluster, absent, "destructive").changes[0].status is Status.PLANNED


def test_users_come_before_their_rights_and_go_after_them() -> None:
    phases = [SetCredentials.phase, GrantAccess.phase, RevokeAccess.phase, RemoveCredentials.phase]
    assert phases == sorted(phases)


def test_a_plan_that_was_changed_by_hand_is_refused_all_the_same(cluster: MemoryCluster) -> None:
    kind, change = KINDS["User"], FieldChange(P512, "iterations=1", "password=hunter2")
    assert kind.field(P512).describe(change.before, change.after) is None
    assert not kind.field(P512).equal(change.before, change.after)
    observed = Observed(CHECKOUT, None, {P512: "hunter2"})
    assert kind.write(observed, {}, {}).spec == {"scram": []}
    assert judge_deletion(observed, cluster.facts()).risk is Risk.DESTRUCTIVE


# --- drift, comparison, import, get, record and revert ----------------------------------------------------


def test_drift_says_that_a_password_was_changed(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    set_by_hand(cluster, SECOND)
    desired = load([file], Context())
    plan = build_plan(
        Request(desired, inventory=tuple(KINDS), reading=True), cluster, Settings(rules=QUIET), None
    )
    drift = find_drift(plan, desired, read_trail(cluster, AuditSettings(), plan.cluster_id))
    (field,) = drift.resources[0].fields
    assert field.change.before == "iterations=8192,password=changed"
    assert field.history is not None
    assert field.history.cause is DriftCause.UNDECIDED
    assert plan_adoption(drift).refused == ((CHECKOUT, wording),)
    assert "User/checkout" in render_drift(drift, HEADER, HERE).plain
    # A refused login shows that one of the two changed, and not which.
    assert (describe_field_since(CHECKOUT, field) or "").partition("; ")[2] == wording
    assert "User/checkout" in render_drift_markdown(drift, HEADER, HERE)
    assert json.loads(drift_to_json(drift, HEADER, HERE))["resources"][0]["name"] == "checkout"
    assert 'user="checkout"' in drift_metrics(drift, "dev", 0)


def test_two_clusters_are_compared_by_iterations() -> None:
    def differences(*iterations: int) -> list[ResourceRef]:
        sides = []
        for number, each in enumerate(iterations):
            other = MemoryCluster(str(number))
            set_by_hand(other, str(number), iterations=each)
            sides.append(Side(str(number), select_live_resources(other.observe([CHECKOUT]), {CHECKOUT})))
        return [found.ref for found in compare_sides(*sides).differences]

    assert differences(4096, 4096) == []
    assert differences(4096, 8192) == [CHECKOUT]


@pytest.mark.parametrize(
    ("name", "variable"), [("checkout", "CHECKOUT_PASSWORD"), ("1.a-b ü", "_1_A_B___PASSWORD")]
)
def test_a_live_user_is_imported_with_a_reference_to_fill_in(
    tmp_path: Path, cluster: MemoryCluster, name: str, variable: str
) -> None:
    ref = ResourceRef("User", name)
    cluster.execute([SetCredentials(ref, {P512: "iterations=8192,password=${env:CHECKOUT}"})])
    read = cluster.observe((), lambda _: True, kinds=KINDS)
    made = make_import(read, Selection(kinds=tuple(KINDS)), {}, Context(), ImportLayout(tmp_path))
    (imported,) = made.files
    assert (made.partial, made.idle, dict(made.not_converged), dict(made.unread)) == ((), (), {}, {})
    assert f'password: "${{env:{variable}}}"' in imported.text
    imported.path.parent.mkdir()
    imported.path.write_text(imported.text)
    plan = plan_of(cluster, load([imported.path], Context()))
    assert (plan.changes, plan.unchanged) == ((), 1)
    assert json.loads(build_live_manifest(read.resources[ref]).to_json())["spec"] == {
        "scram": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192, "password": f"${{env:{variable}}}"}]
    }


def test_a_revert_says_that_passwords_do_not_come_back(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    desired = rewritten(file, "8192", "4096")
    update = applied(cluster, desired)
    log = read_record(cluster, AuditSettings())
    assert "User/checkout" in render_history(log.entries, 0).plain
    assert json.loads(history_to_json(log.entries, log))["changes"][-1]["kind"] == "User"
    entries = [entry for entry in log.entries if entry.run == update]
    undone = plan_reversal(entries, log.entries, {one.ref: one for one in desired})
    assert undone.edits == []
    assert [text.partition(": ")[2] for text in undone.refused] == wording
    absent = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    delete = applied(cluster, absent, "User/checkout:credential-removal")
    log = read_record(cluster, AuditSettings())
    undone = plan_reversal([entry for entry in log.entries if entry.run == delete], log.entries, {})
    assert [text.partition(": ")[2] for text in undone.notes] == wording
    (restored,) = undone.restored
    assert "CHECKOUT" in build_live_manifest(restored).to_yaml()


def test_the_command_line_knows_it(file: Path) -> None:
    """In a process of its own: what commands are called for each kind is settled when they are imported."""

    def kafkaform(*arguments: str, password: str = "s3cr3t-in-memory") -> Call:
        program = (sys.executable, "-m", "tests.support.cli.memory_program")
        done = subprocess.run(
            [*program, *arguments, "--bootstrap-server", "memory:9092"],
            cwd=file.parent,
            env=environment(PYTHONPATH=str(ROOT), CHECKOUT=password),
            capture_output=True,
            text=True,
            check=False,
        )
        call = Call(done.returncode, done.stdout, done.stderr)
        assert password not in call.both
        return call

    assert kafkaform("get", "users").needs(0).out == "checkout\n"
    assert "iterations: 4096" in kafkaform("get", "user", "checkout").needs(0).out
    assert "iterations=4096" in kafkaform("status", "--kind", "user").needs(0).out
    kafkaform("plan", "checkout.yaml", "--out", "plan.json").needs(0)
    assert "User/checkout  updated" in kafkaform("apply", "plan.json", "--auto-approve").needs(0).out
    drift = kafkaform("drift", "checkout.yaml", password="another-s3cr3t").needs(2).out
    assert "password=changed" in drift
    assert "checkout" in kafkaform("import", "--kind", "user", "--dry-run", "--out", "live").needs(0).both


def test_a_topic_may_still_not_have_references(tmp_path: Path) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text(manifest("a", {"partitions": 1, "config": {"confluent.x": "${env:A}"}}))
    with pytest.raises(InvalidManifests):
        load([path], Context())
    observed = Observed(
        topic("a"), None, {"partitions": 1, "replicationFactor": 1, "config.confluent.x": "${env:A}"}
    )
    assert "${" not in build_live_manifest(observed).to_yaml()
