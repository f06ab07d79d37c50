"""Users: what manifests mean, what a login shows of a password, and what needs consent."""

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.trail import read_record, read_trail
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import AuditSettings, ClusterSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.model import Desired, FieldChange, Observed, ResourceRef, Risk, State, Status
from kafkaform.core.plans import Plan
from kafkaform.inspect.drift import DriftCause, find_drift
from kafkaform.inspect.importing import ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.plan.reviewed import compare
from kafkaform.report.drift_wording import describe_field_since
from kafkaform.report.plan import render_plan
from kafkaform.resources import KINDS, listed_kinds
from kafkaform.resources.base import FieldOutcome
from kafkaform.resources.user.operations import SetCredentials
from kafkaform.resources.user.risk import OwnLogin
from tests.support.cli.project import manifest
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER, recorded_apply
from tests.support.plans.manifests import ManifestFile
from tests.support.plans.risk import join_reasons, judge_deletion, list_assessments, render_catalogue
from tests.support.plans.scenes import QUIET, judge_saved, topic

CHECKOUT = ResourceRef("User", "checkout")
P256, P512 = "scram.SCRAM-SHA-256", "scram.SCRAM-SHA-512"
FIRST, SECOND = "first-s3cr3t", "second-s3cr3t"
CONSENT = "password-change of SCRAM-SHA-512: TICKET-1"
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
def file(tmp_path: Path, memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> ManifestFile:
    monkeypatch.setenv("CHECKOUT", FIRST)
    path = tmp_path / "checkout.yaml"
    path.write_text(TEXT)
    return ManifestFile(path, memory)


@pytest.fixture
def applied(file: ManifestFile) -> ManifestFile:
    file.apply()
    return file


def set_by_hand(memory: MemoryCluster, password: str, path: str = P512, iterations: int = 8192) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BY_HAND", password)
        value = f"iterations={iterations},password=${{env:BY_HAND}}"
        assert memory.execute([SetCredentials(CHECKOUT, {path: value})]) == [None]


PROBLEMS = {
    "a password in the manifest": ("${env:CHECKOUT}", "hunter2"),
    "a reference and more": ("${env:CHECKOUT}", "${env:CHECKOUT}hunter2"),
    "an unknown reference": ("${env:CHECKOUT}", "${hunter2}"),
    "an unknown source": ("${env:CHECKOUT}", "${vault:hunter2}"),
    "a number": ("${env:CHECKOUT}", "0x1234567"),
    "a list": ("${env:CHECKOUT}", "[hunter2]"),
    "no password": ("      password: ${env:CHECKOUT}\n", ""),
    "few iterations": ("8192", "4095"),
    "many iterations": ("8192", "16385"),
    "an unknown mechanism": ("SCRAM-SHA-512", "SCRAM-SHA-1"),
    "a principal": ("checkout\n  labels", "User:checkout\n  labels"),
    "a mechanism twice": (
        "    - mech",
        "    - {mechanism: SCRAM-SHA-512, password: '${file:/p}'}\n    - mech",
    ),
    "no credential": (TEXT[TEXT.index("  scram") :], "  deletionProtection: true\n"),
    "a reference elsewhere": ("{team: checkout}", "{team: '${env:TEAM}'}"),
}


def test_problems_match_golden_without_password(file: ManifestFile, golden: SnapshotAssertion) -> None:
    texts = {name: TEXT.replace(before, after) for name, (before, after) in PROBLEMS.items()}
    catalogue = render_catalogue({name: file.describe_problems(text) for name, text in texts.items()})
    assert "hunter2" not in catalogue
    assert catalogue == golden(name="manifest_problems.txt")


def test_credentials_are_declared_by_reference_per_environment(file: ManifestFile) -> None:
    (desired,) = file.load()
    assert (desired.ref, desired.state) == (CHECKOUT, {P512: "iterations=8192,password=${env:CHECKOUT}"})
    assert listed_kinds([CHECKOUT]) == ("Topic", "ConsumerGroup", "User")
    second = "{mechanism: SCRAM-SHA-256, password: '${file:/run/secrets/pw}'}"
    file.path.write_text(f"{TEXT}  overrides:\n    prod: {{scram: [{second}]}}\n")
    (desired,) = load([file.path], Context(environments=("prod",), environment="prod"))
    assert desired.state == {P256: "iterations=4096,password=${file:/run/secrets/pw}"}


def test_topic_config_references_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "topic.yaml"
    path.write_text(manifest("a", {"partitions": 1, "config": {"confluent.x": "${env:A}"}}))
    with pytest.raises(InvalidManifests):
        load([path], Context())
    state: State = {"partitions": 1, "replicationFactor": 1, "config.confluent.x": "${env:A}"}
    assert "${" not in build_live_manifest(Observed(topic("a"), None, state)).to_yaml()


ROTATION = (Risk.DESTRUCTIVE, "password-change")


@pytest.mark.parametrize(
    ("iterations", "password", "expected"),
    [("16384", FIRST, (Risk.SAFE, "")), ("16384", None, ROTATION), ("4096", SECOND, ROTATION)],
    ids=["the same password", "no password to compare", "another password"],
)
def test_credential_change_risk_follows_login_result(
    applied: ManifestFile,
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
    iterations: str,
    password: str | None,
    expected: tuple[Risk, str],
) -> None:
    applied.edit("8192", iterations)
    if password is None:
        monkeypatch.delenv("CHECKOUT")
    else:
        monkeypatch.setenv("CHECKOUT", password)
    plan = applied.plan()
    assert list_assessments(plan) == [expected]
    assert (plan.changes[0].status is Status.NEEDS_CONSENT) is (expected == ROTATION)
    assert join_reasons(plan) == snapshot


def test_plan_shows_iterations_and_unchanged_password(applied: ManifestFile) -> None:
    applied.edit("8192", "16384")
    assert "8192 → 16384 iterations, password same" in render_plan(applied.plan()).plain


def test_missing_password_is_neither_compared_nor_set(
    memory: MemoryCluster, file: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = file.plan()
    monkeypatch.delenv("CHECKOUT")
    _, report = recorded_apply(create, memory)
    ((result, message),) = [(each.result, str(each.message)) for each in report.results]
    assert result is Result.FAILED
    assert "CHECKOUT is not set" in message
    assert memory.observe([CHECKOUT]).resources == {}
    set_by_hand(memory, SECOND)
    assert file.plan().changes == ()


def test_saved_plan_compares_password_when_applied(
    memory: MemoryCluster, applied: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied.edit("8192", "4096")
    safe = applied.plan()
    monkeypatch.delenv("CHECKOUT")
    in_doubt = applied.plan("User/checkout:password-change")

    def judge_again(plan: Plan) -> list[Status]:
        judged = judge_saved(plan, memory, settings=Settings(rules=QUIET)).plan
        return [change.status for change in judged.changes]

    monkeypatch.setenv("CHECKOUT", SECOND)
    assert judge_again(safe) == [Status.REFUSED]
    assert judge_again(in_doubt) == [Status.PLANNED]
    monkeypatch.setenv("CHECKOUT", FIRST)
    assert judge_again(safe) == [Status.PLANNED]
    # What was done is done: a plan can be applied twice.
    assert recorded_apply(safe, memory)[1].complete
    assert [each.result for each in recorded_apply(safe, memory)[1].results] == [Result.ALREADY]


def compare_with_reviewed(reviewed: Plan, now: Plan, desired: list[Desired]) -> tuple[str, ...]:
    return compare((reviewed, HEADER), (now, HEADER), desired).differences


def test_rotation_can_be_reviewed_without_password(
    memory: MemoryCluster, applied: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHECKOUT")
    # Without consent, nothing is planned; with it, the plan says what it cannot compare.
    nothing = applied.plan()
    desired = applied.consent(CONSENT)
    reviewed = applied.plan()
    assert nothing.changes == ()
    assert list_assessments(reviewed) == [ROTATION]
    assert [(each.hazard, each.reason) for each in reviewed.consents] == [("password-change", "TICKET-1")]
    assert "8192 iterations, password unknown → ${env:CHECKOUT}" in render_plan(reviewed).plain
    assert applied.plan(reading=True).changes == ()  # no drift was seen

    # Where it is applied: the password is the same, another one, or unknown there as well.
    monkeypatch.setenv("CHECKOUT", FIRST)
    same = applied.plan()
    assert same.changes == ()
    assert compare_with_reviewed(reviewed, same, desired) == ()
    monkeypatch.setenv("CHECKOUT", SECOND)
    second = applied.plan()
    assert compare_with_reviewed(reviewed, second, desired) == ()
    monkeypatch.delenv("CHECKOUT")
    assert compare_with_reviewed(reviewed, applied.plan(), desired) == ()
    _, failed = recorded_apply(reviewed, memory)
    assert [each.result for each in failed.results] == [Result.FAILED]

    monkeypatch.setenv("CHECKOUT", SECOND)
    assert recorded_apply(second, memory)[1].complete
    assert applied.plan().changes == ()


def test_unverifiable_password_is_set_once_by_consent(
    memory: MemoryCluster, applied: ManifestFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied.consent(CONSENT)
    monkeypatch.setenv("CHECKOUT", SECOND)
    with monkeypatch.context() as patch:
        patch.setattr("tests.support.memory_cluster.users.log_in", lambda *_: None)
        plan = applied.plan()
        assert "password unknown" in render_plan(plan).plain
        forbidding = ClusterSettings("dev", ClientProperties(), forbid=("*",))
        (change,) = judge_saved(plan, memory, target=forbidding).plan.changes
        assert change.status is Status.REFUSED
        _, report = recorded_apply(plan, memory)
        assert [each.result for each in report.results] == [Result.APPLIED]
        # Once more: the record shows that it was done, and no reading that it was undone.
        again = apply(plan, memory, ApplyOptions(done=[CHECKOUT]))
        assert [(each.result, each.done) for each in again.results] == [(Result.ALREADY, ())]
    assert applied.plan().changes == ()


def test_rotation_without_verified_login_is_not_done() -> None:
    field = KINDS["User"].field(P512)
    before, after = "iterations=4096,password=changed", "iterations=4096,password=${env:A}"
    live = Observed(CHECKOUT, None, {P512: "iterations=4096,password=unknown"})
    assert field.remaining(FieldChange(P512, before, after), live) is FieldOutcome.MOVED
    assert field.remaining(FieldChange(P512, None, after), live) is FieldOutcome.DONE


def test_undeclared_mechanism_is_removed_with_consent(memory: MemoryCluster, applied: ManifestFile) -> None:
    set_by_hand(memory, FIRST, P256)
    removal = applied.plan()
    assert list_assessments(removal) == [(Risk.DESTRUCTIVE, "credential-removal")]
    assert "can no longer log in by SCRAM-SHA-256" in join_reasons(removal)
    applied.apply("User/checkout:credential-removal")
    assert [*memory.observe([CHECKOUT]).resources[CHECKOUT].state] == [P512]


@pytest.mark.parametrize(
    ("own", "absent"), [("SCRAM-SHA-512", Status.REFUSED), ("SCRAM-SHA-256", Status.PLANNED)]
)
def test_applying_account_keeps_own_login(
    memory: MemoryCluster, applied: ManifestFile, monkeypatch: pytest.MonkeyPatch, own: str, absent: Status
) -> None:
    memory.own_login = OwnLogin("checkout", own)
    applied.edit("8192", "4096")
    assert list_assessments(applied.plan())[0][0] is Risk.SAFE
    monkeypatch.setenv("CHECKOUT", SECOND)
    (rotation,) = applied.plan("destructive").changes
    assert rotation.status is absent
    applied.edit("spec:\n", "spec:\n  state: absent\n")
    (deletion,) = applied.plan("destructive").changes
    assert deletion.status is absent
    assert ("the account that applies" in (deletion.reason or "")) is (absent is Status.REFUSED)


def test_edited_user_plan_is_judged(memory: MemoryCluster) -> None:
    kind, change = KINDS["User"], FieldChange(P512, "iterations=1", "password=hunter2")
    assert kind.field(P512).describe(change.before, change.after) is None
    assert not kind.field(P512).equal(change.before, change.after)
    observed = Observed(CHECKOUT, None, {P512: "hunter2"})
    assert kind.write(observed, {}, {}).spec == {"scram": []}
    assert judge_deletion(observed, memory.facts()).risk is Risk.DESTRUCTIVE


def test_cause_of_a_refused_login_is_undecided(memory: MemoryCluster, applied: ManifestFile) -> None:
    set_by_hand(memory, SECOND)
    plan = applied.plan(reading=True)
    drift = find_drift(plan, applied.load(), read_trail(memory, AuditSettings(), plan.cluster_id))
    (field,) = drift.resources[0].fields
    assert field.change.before == "iterations=8192,password=changed"
    assert field.history is not None
    assert field.history.cause is DriftCause.UNDECIDED
    # A refused login shows that one of the two changed, and not which.
    assert "the password, or the variable or file" in str(describe_field_since(CHECKOUT, field))


def test_deleted_user_is_restored_without_password(memory: MemoryCluster, applied: ManifestFile) -> None:
    applied.edit("spec:\n", "spec:\n  state: absent\n")
    run = applied.apply("User/checkout:credential-removal")
    log = read_record(memory, AuditSettings())
    undone = plan_reversal([entry for entry in log.entries if entry.run == run], log.entries, {})
    (note,) = undone.notes
    assert "Kafka does not return passwords" in note
    (restored,) = undone.restored
    assert "CHECKOUT" in build_live_manifest(restored).to_yaml()


@pytest.mark.parametrize(
    ("name", "variable"), [("checkout", "CHECKOUT_PASSWORD"), ("1.a-b ü", "_1_A_B___PASSWORD")]
)
def test_imported_user_has_password_reference(
    tmp_path: Path, memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    monkeypatch.setenv("CHECKOUT", FIRST)
    ref = ResourceRef("User", name)
    memory.execute([SetCredentials(ref, {P512: "iterations=8192,password=${env:CHECKOUT}"})])
    read = memory.observe((), lambda _: True, kinds=KINDS)
    imported = make_import(read, Selection(kinds=tuple(KINDS)), {}, Context(), ImportLayout(tmp_path))
    assert f'password: "${{env:{variable}}}"' in imported.files[0].text
    assert json.loads(build_live_manifest(read.resources[ref]).to_json())["spec"] == {
        "scram": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192, "password": f"${{env:{variable}}}"}]
    }
