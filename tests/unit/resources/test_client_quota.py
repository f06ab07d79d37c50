"""Quotas of clients go through everything that kafkaform does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform import rules
from kafkaform.audit.trail import read_record, read_trail
from kafkaform.config.client_properties import ClientProperties
from kafkaform.config.manifest_text import build_live_manifest
from kafkaform.config.manifests.editing import edit_manifests, write_edits
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import AuditSettings, ClusterSettings, Settings
from kafkaform.core.apply_result import Result
from kafkaform.core.errors import RequestRejected
from kafkaform.core.model import (
    Create,
    Desired,
    Facts,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    Status,
    assessments,
)
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.inspect.comparison import Side, compare_sides, select_live_resources
from kafkaform.inspect.drift import DriftCause, find_drift
from kafkaform.inspect.importing import ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.apply import apply_to_json, render_apply
from kafkaform.report.drift import render_drift, render_drift_markdown
from kafkaform.report.drift_json import drift_to_json
from kafkaform.report.history import history_to_json, render_history
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.report.prometheus import drift_metrics
from kafkaform.report.remediation import CommandContext
from kafkaform.resources import KINDS, listed_kinds
from kafkaform.resources.base import UpdateContext
from kafkaform.resources.client_quota.entity import parse_entity
from kafkaform.resources.client_quota.operations import AlterQuota
from kafkaform.resources.consent import Grant
from kafkaform.resources.topic.operations import CreateTopic
from kafkaform.rules import RuleContext
from kafkaform.rules.policies import read_policies
from tests.support.cli.project import ROOT, Call, environment
from tests.support.golden import wording
from tests.support.kinds import judge_deletion
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER, recorded_apply
from tests.support.plans.scenes import QUIET, topic

ALICE = ResourceRef("ClientQuota", "user=alice")
HERE = CommandContext()
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


def by_hand(cluster: MemoryCluster, *unset: str, of: ResourceRef = ALICE, **given: str) -> None:
    assert cluster.execute([AlterQuota(of, given, unset)]) == [None]


# --- manifests, plan and apply -----------------------------------------------------------------------


def problems_of(file: Path, text: str) -> list[tuple[str, str | None]]:
    """What is wrong with a manifest: its place and message, and the hint."""
    file.write_text(text)
    with pytest.raises(InvalidManifests) as wrong:
        load([file], Context())
    return [
        (f"{one.location.line}:{one.location.column} {one.message}", one.hint)
        for one in wrong.value.problems
        if one.location is not None
    ]


def test_a_manifest_is_checked_by_the_schema_and_by_the_kind(file: Path) -> None:
    (desired,) = load([file], Context())
    assert desired.ref == ALICE
    assert desired.state == {"config.consumer_byte_rate": "2000000", "config.producer_byte_rate": "1000000"}
    assert problems_of(file, TEXT.replace("config:", "confg:"))[0] == wording
    assert problems_of(file, TEXT.replace("producer_byte_rate", "producer_byterate")) == [
        ("8:5 unknown limit 'producer_byterate'", "did you mean 'producer_byte_rate'?")
    ]
    ((message, hint),) = problems_of(file, TEXT.replace("producer_byte_rate", "bytes_out"))
    assert (message, hint) == (
        "8:5 unknown limit 'bytes_out'",
        (
            "limits: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate, "
            "connection_creation_rate"
        ),
    )


@pytest.mark.parametrize(
    ("name", "value", "canonical"),
    [
        ("producer_byte_rate", "10MiB", "10485760"),
        ("consumer_byte_rate", "10 MB/s", "10000000"),
        ("consumer_byte_rate", "9223372036854775807", "9223372036854775807"),
        ("request_percentage", "200", "200"),
        ("request_percentage", "12.50%", "12.5"),
        ("controller_mutation_rate", "0.5/s", "0.5"),
        ("producer_byte_rate", "0", "0"),
    ],
)
def test_values_have_units(file: Path, name: str, value: str, canonical: str) -> None:
    file.write_text(
        TEXT.replace("producer_byte_rate: 1000000", f"{name}: {value}").replace(
            "consumer_byte_rate: 2000000", ""
        )
    )
    (desired,) = load([file], Context())
    assert desired.state == {f"config.{name}": canonical}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("-1", "-1 is below the minimum 0"),
        ("fast", "'fast' is not a size"),
        ("10M", "'10M' is ambiguous; write MB (powers of 1000) or MiB (powers of 1024)"),
        ("50%", "'50%' is not a size"),
        ("[1, 2]", "must be text, a number or null, not a list"),
    ],
)
def test_values_that_are_none_are_refused_at_their_place(file: Path, value: str, message: str) -> None:
    ((found, _),) = problems_of(file, TEXT.replace("1000000", value))
    assert found.startswith("8:25 ")
    assert message in found


def test_a_name_that_is_no_entity_is_refused_with_the_one_that_is_meant(file: Path) -> None:
    assert problems_of(file, TEXT.replace("user=alice", "usr=alice")) == [(wording, None)]
    named = TEXT.replace("user=alice", "alice").replace("spec:", "spec:\n  entity: {user: alice}")
    assert problems_of(file, named)[0][1] == wording


@pytest.mark.parametrize(
    ("name", "entity"),
    [
        ("user=alice", "{user: alice}"),
        ("user=<default>", "{user: {default: true}}"),
        ("user=%3Cdefault%3E", "{user: <default>}"),
        ("user=default,client-id=<default>", "{user: default, clientId: {default: true}}"),
        ("client-id=app", "{clientId: app}"),
        ("ip=<default>", "{ip: {default: true}}"),
        ("ip=10.0.0.1", "{ip: 10.0.0.1}"),
    ],
)
def test_the_entity_says_what_the_name_says(file: Path, name: str, entity: str) -> None:
    text = TEXT.replace("user=alice", name).replace("spec:", f"spec:\n  entity: {entity}")
    if name.startswith("ip="):
        text = text.replace("producer_byte_rate", "connection_creation_rate").replace(
            "    consumer_byte_rate: 2000000\n", ""
        )
    file.write_text(text)
    (desired,) = load([file], Context())
    assert desired.ref.name == name
    written = build_live_manifest(Observed(desired.ref, None, desired.state or {})).data["spec"]
    assert written["entity"] == desired.intent.spec["entity"]


def test_an_entity_of_another_name_is_refused(file: Path) -> None:
    def wrong(entity: str) -> tuple[str, str | None]:
        (problem,) = problems_of(file, TEXT.replace("spec:", f"spec:\n  entity: {entity}"))
        return problem

    assert wrong("{user: bob}") == wording
    assert wrong("{user: {default: true}}")[0] == wording
    assert wrong("{user: alice, ip: 10.0.0.1}")[0] == wording
    assert wrong("{user: 7}")[0] == wording
    assert wrong("{usr: alice}")[1] == "did you mean 'user'?"


def test_an_address_has_a_limit_of_its_own_and_no_other(file: Path) -> None:
    limits = "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate"
    assert problems_of(file, TEXT.replace("user=alice", "ip=10.0.0.1")) == [
        (f"{line}:5 {name} is a limit of users and client ids, not of ip=10.0.0.1", hint)
        for line, name, hint in (
            (8, "producer_byte_rate", "limits of ip=10.0.0.1: connection_creation_rate"),
            (9, "consumer_byte_rate", "limits of ip=10.0.0.1: connection_creation_rate"),
        )
    ]
    assert problems_of(file, TEXT.replace("producer_byte_rate", "connection_creation_rate")) == [
        (wording, f"limits of user=alice: {limits}")
    ]


def test_a_quota_without_a_limit_is_refused_unless_it_is_to_be_gone(file: Path) -> None:
    text = TEXT.replace("1000000", "null").replace("2000000", "null")
    assert problems_of(file, text) == [(wording, wording)]
    file.write_text(text.replace("spec:", "spec:\n  state: absent"))
    (desired,) = load([file], Context())
    assert desired.state is None


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
    assert "1 MB (1000000)" in text
    assert "disruptive: quota-cut" in text
    assert " ".join(text.split()) == wording
    assert "ClientQuota/user=alice" in render_plan_markdown(plan)
    saved = plan_to_json(plan, HEADER)
    (change,) = json.loads(saved)["changes"]
    assert (change["kind"], change["name"], change["action"]) == ("ClientQuota", "user=alice", "create")
    read, _ = plan_from_json(saved, "plan.json")
    assert read.changes[0].change == planned.change

    _, report = recorded_apply(read, cluster)
    assert [result.result for result in report.results] == [Result.APPLIED]
    assert quotas(cluster) == {"config.producer_byte_rate": "1000000", "config.consumer_byte_rate": "2000000"}
    shown = render_apply(report).plain
    done = "consumer_byte_rate = 2 MB (2000000), producer_byte_rate = 1 MB (1000000)"
    assert f"ClientQuota/user=alice  created: {done}" in shown
    (result,) = json.loads(apply_to_json(report))["results"]
    assert result["done"] == [done]

    again = plan_of(cluster, load([file], Context()))
    assert (again.changes, again.unchanged) == ((), 1)
    _, repeated = recorded_apply(read, cluster)
    assert [result.result for result in repeated.results] == [Result.ALREADY]


def assessed(plan: Plan) -> list[tuple[Risk, str, str]]:
    (planned,) = plan.changes
    return [(one.risk, one.hazard, one.reason) for one in assessments(planned.change)]


def test_lowering_a_limit_is_disruptive_and_raising_or_removing_it_is_safe(
    cluster: MemoryCluster, file: Path
) -> None:
    applied(cluster, load([file], Context()))
    plan = plan_of(cluster, rewritten(file, "producer_byte_rate: 1000000", "producer_byte_rate: 512KiB"))
    assert assessed(plan) == [(Risk.DISRUPTIVE, "quota-cut", wording)]
    assert plan.changes[0].status is Status.PLANNED
    plan = plan_of(cluster, rewritten(file, "512KiB", "10MiB"))
    assert assessed(plan) == [(Risk.SAFE, "", wording)]
    assert "30 MiB/s on all 3" in render_plan(plan).plain
    plan = plan_of(cluster, rewritten(file, "10MiB", "null"))
    assert assessed(plan) == [(Risk.SAFE, "", wording)]
    plan = plan_of(
        cluster,
        rewritten(file, "null", "1MB\n    request_percentage: 150%\n    controller_mutation_rate: 10"),
    )
    assert [reason for _, _, reason in assessed(plan)] == wording
    assert quotas(cluster)["config.producer_byte_rate"] == "1000000"


def test_a_cluster_may_forbid_cuts(cluster: MemoryCluster, file: Path) -> None:
    request = Request(load([file], Context()), inventory=tuple(KINDS))
    forbidding = ClusterSettings("prod", ClientProperties(), forbid=("quota-cut",))
    (held,) = build_plan(request, cluster, Settings(rules=QUIET), forbidding).changes
    assert (held.status, held.reason) == (Status.REFUSED, wording)


def test_the_limit_of_a_default_counts_where_there_is_no_other(cluster: MemoryCluster, file: Path) -> None:
    """To remove a limit is a cut where that of a default is lower; to set one above that is a raise."""
    default = ResourceRef("ClientQuota", "user=<default>")
    by_hand(cluster, of=default, producer_byte_rate="524288")
    applied(cluster, load([file], Context()))
    unset = plan_of(cluster, rewritten(file, "producer_byte_rate: 1000000", "producer_byte_rate: null"))
    assert assessed(unset) == [(Risk.DISRUPTIVE, "quota-cut", wording)]
    applied(cluster, load([file], Context()))
    raised = plan_of(cluster, rewritten(file, "producer_byte_rate: null", "producer_byte_rate: 600000"))
    assert [risk for risk, _, _ in assessed(raised)] == [Risk.SAFE]
    applied(cluster, load([file], Context()))
    deleted = plan_of(cluster, rewritten(file, "spec:\n", "spec:\n  state: absent\n"))
    assert [(risk, hazard) for risk, hazard, _ in assessed(deleted)] == [(Risk.DISRUPTIVE, "quota-cut")]


def test_what_is_no_longer_set_and_what_is_absent_is_taken_away(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    applied(cluster, rewritten(file, "consumer_byte_rate: 2000000", "consumer_byte_rate: null"))
    assert quotas(cluster) == {"config.producer_byte_rate": "1000000"}
    desired = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    assert assessed(plan_of(cluster, desired)) == [(Risk.SAFE, "", "")]
    applied(cluster, desired)
    assert quotas(cluster) == {}
    again = plan_of(cluster, desired)
    assert (again.changes, again.unchanged) == ((), 1)


@pytest.mark.parametrize("name", ["user=<default>", "user=alice,client-id=<default>", "client-id=<default>"])
def test_what_protects_the_cluster_goes_with_consent_only(
    cluster: MemoryCluster, file: Path, name: str
) -> None:
    ref = ResourceRef("ClientQuota", name)
    applied(cluster, rewritten(file, "user=alice", name))
    desired = rewritten(file, "producer_byte_rate: 1000000", "producer_byte_rate: null")
    (held,) = plan_of(cluster, desired).changes
    assert (held.status, held.reason) == (Status.NEEDS_CONSENT, wording)
    assert "which protects the cluster" in render_plan(plan_of(cluster, desired)).plain
    note = "annotations: {kafkaform/allow: 'quota-removal from 1MB: TICKET-1'}"
    applied(cluster, rewritten(file, "metadata:\n", f"metadata:\n  {note}\n"))
    (spent,) = plan_of(
        cluster,
        rewritten(file, "consumer_byte_rate: 2000000", "consumer_byte_rate: null\n    request_percentage: 1"),
    ).changes
    assert spent.status is Status.NEEDS_CONSENT
    desired = rewritten(file, "spec:\n", "spec:\n  state: absent\n")
    (held,) = plan_of(cluster, desired).changes
    assert (held.status, held.reason) == (Status.NEEDS_CONSENT, "needs consent to delete")
    assert f"{parse_entity(name).words()} loses the limits consumer_byte_rate" in str(
        assessed(plan_of(cluster, desired))
    )
    applied(cluster, desired, f"{ref}:delete")
    assert cluster.observe([ref]).resources == {}


def test_what_brokers_say_against_it_is_in_the_plan_and_in_the_result(
    cluster: MemoryCluster, file: Path
) -> None:
    text = TEXT.replace("user=alice", "ip=nowhere").replace("producer_byte_rate", "connection_creation_rate")
    file.write_text(text.replace("    consumer_byte_rate: 2000000\n", ""))
    (refused,) = plan_of(cluster, load([file], Context())).changes
    assert refused.status is Status.REFUSED
    assert str(refused.reason) == wording
    file.write_text(TEXT)
    plan = plan_of(cluster, load([file], Context()))
    cluster.fail_next(RequestRejected("a policy says no", code="POLICY_VIOLATION"), ALICE)
    _, report = recorded_apply(plan, cluster)
    assert [result.result for result in report.results] == [Result.FAILED]
    cluster.hide(ALICE)
    plan = plan_of(cluster, load([file], Context()))
    assert plan.unknown == (ALICE,)
    (note,) = [note for note in plan.diagnostics if note.code == "KF410"]
    assert str(note.suggestion).endswith("--operation DescribeConfigs --cluster`")


def test_nobody_is_asked_for_quotas_where_none_is_declared(file: Path) -> None:
    (alice,) = load([file], Context())
    assert listed_kinds([topic("orders")]) == ("Topic", "ConsumerGroup")
    assert listed_kinds([]) == ("Topic", "ConsumerGroup")
    assert listed_kinds([alice.ref]) == ("Topic", "ConsumerGroup", "ClientQuota")


def test_a_saved_plan_that_was_changed_by_hand_is_judged_all_the_same(
    cluster: MemoryCluster, file: Path
) -> None:
    plan = plan_of(cluster, load([file], Context()))
    (planned,) = plan.changes
    assert isinstance(planned.change, Create)
    odd = replace(planned.change, ref=ResourceRef("ClientQuota", "alice"), state={"config.speed": "fast"})
    kind = KINDS["ClientQuota"]
    assert kind.judge(odd, None, cluster.facts()).risk is Risk.DISRUPTIVE
    (operation,) = kind.operations(odd)
    (objection,) = cluster.validate([operation])
    assert isinstance(objection, RequestRejected)
    assert objection.code == "INVALID_REQUEST"
    context = UpdateContext(
        ALICE,
        {"config.producer_byte_rate": "1"},
        {"config.producer_byte_rate": "x"},
        Intent(),
        cluster.facts(),
    )
    assert kind.field("config.producer_byte_rate").judge(context).hazard == "unknown-config"


@given(
    st.none() | st.integers(0, 10**9),
    st.none() | st.integers(0, 10**9),
    st.none() | st.integers(0, 10**9),
    st.sampled_from(["user=alice", "user=<default>"]),
)
def test_a_change_is_safe_unless_it_lowers_what_is_in_force(
    before: int | None, after: int | None, fallback: int | None, name: str
) -> None:
    path = "config.producer_byte_rate"
    own = {path: str(before)} if before is not None else {}
    inherited = {"fallback.producer_byte_rate": str(fallback)} if fallback is not None else {}
    context = UpdateContext(
        ResourceRef("ClientQuota", name),
        {**inherited, **own},
        {**inherited, path: None if after is None else str(after)},
        Intent(),
        Facts("c"),
    )
    assessment = KINDS["ClientQuota"].field(path).judge(context)
    in_force, then = (fallback if value is None else value for value in (before, after))
    if then is None:
        protects = name == "user=<default>" and in_force is not None
        assert assessment.risk is (Risk.DESTRUCTIVE if protects else Risk.SAFE)
    elif in_force is None or then < in_force:
        assert (assessment.risk, assessment.hazard) == (Risk.DISRUPTIVE, "quota-cut")
        assert "is throttled above" in assessment.reason
    else:
        assert assessment.risk is Risk.SAFE


@pytest.mark.parametrize(
    ("limit", "odd"),
    [
        ("producer_byte_rate", "nan"),
        ("producer_byte_rate", "5e-324"),
        ("request_percentage", "nan"),
        ("request_percentage", "inf"),
    ],
)
def test_a_live_value_that_is_no_limit_is_judged_and_not_adopted(limit: str, odd: str) -> None:
    """Brokers keep NaN and infinity (4.3.1): as a limit of its own, and as that of a default."""
    path, fallback = f"config.{limit}", f"fallback.{limit}"
    kind, ref = KINDS["ClientQuota"], ResourceRef("ClientQuota", "user=alice")
    for before, after in (
        ({path: odd}, {path: "5"}),
        ({path: "5", fallback: odd}, {path: None, fallback: odd}),
    ):
        context = UpdateContext(ref, before, after, Intent(), Facts("x"))
        assert kind.field(path).judge(context).hazard == "unknown-config"
    deleted = Observed(ref, None, {path: "5"}, {path: "5", fallback: odd})
    assert judge_deletion(deleted, Facts("x")).hazard == "unknown-config"
    assert kind.field(path).undeclarable(odd) is not None
    assert kind.field(path).undeclarable("5") is None


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
    assert messages == [("policy/rate", wording), ("policy/rate", wording)]


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
    assert field.history is not None
    assert field.history.cause is DriftCause.CLUSTER
    assert field.history.last is not None
    assert field.history.last.run == run
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
    things = [select_live_resources(each.observe([ALICE]), {ALICE}) for each in (cluster, other)]
    found = compare_sides(*(Side(name, one) for name, one in zip("ab", things, strict=True)))
    (difference,) = found.differences
    assert difference.ref == ALICE


def test_a_live_one_is_imported_and_printed(cluster: MemoryCluster, tmp_path: Path) -> None:
    by_hand(cluster, producer_byte_rate="1000")
    read = cluster.observe((), lambda _: True, kinds=KINDS)
    observed = read.resources[ALICE]
    assert observed.live is None
    made = make_import(read, Selection(kinds=tuple(KINDS)), {}, Context(), ImportLayout(tmp_path))
    (imported,) = made.files
    assert imported.path.parent == tmp_path / "quotas"
    imported.path.parent.mkdir()
    imported.path.write_text(imported.text)
    plan = plan_of(cluster, load([imported.path], Context()))
    assert (plan.changes, plan.undeclared, plan.unchanged) == ((), (), 1)
    assert (made.partial, made.idle, dict(made.not_converged), dict(made.unread)) == ((), (), {}, {})
    assert build_live_manifest(observed).to_yaml() in imported.text
    assert json.loads(build_live_manifest(observed).to_json())["spec"] == {
        "entity": {"user": "alice"},
        "config": {"producer_byte_rate": 1000},
    }


def test_the_command_line_knows_it(file: Path) -> None:
    """In a process of its own: what commands are called for each kind is settled when they are imported."""

    def kafkaform(*arguments: str) -> Call:
        program = (sys.executable, "-m", "tests.support.cli.memory_program")
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
    kafkaform("plan", "alice.yaml", "--out", "plan.json").needs(0)
    plan = json.loads((file.parent / "plan.json").read_text())
    assert [(change["name"], change["status"]) for change in plan["changes"]] == [("user=alice", "planned")]
    told = kafkaform("apply", "plan.json", "--auto-approve").needs(0).out
    assert "ClientQuota/user=alice  updated" in told
    assert "Apply: 1 updated. Verified" in told
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

    found = plan_reversal([entry], log.entries, {one.ref: one for one in desired})
    assert found.refused == []
    write_edits(edit_manifests(found.edits, desired, Context(root=file.parent)))
    assert "producer_byte_rate: 1000000" in file.read_text()
    (change,) = plan_of(cluster, load([file], Context())).changes
    assert [one.hazard for one in assessments(change.change)] == ["quota-cut"]


def test_a_deleted_one_comes_back_with_a_new_manifest(cluster: MemoryCluster, file: Path) -> None:
    applied(cluster, load([file], Context()))
    run = applied(cluster, rewritten(file, "spec:\n", "spec:\n  state: absent\n"), f"{ALICE}:delete")
    log = read_record(cluster, AuditSettings())
    found = plan_reversal([entry for entry in log.entries if entry.run == run], log.entries, {})
    (restored,) = found.restored
    assert build_live_manifest(restored).data["spec"] == {
        "entity": {"user": "alice"},
        "config": {"consumer_byte_rate": "2MB", "producer_byte_rate": "1MB"},
    }
