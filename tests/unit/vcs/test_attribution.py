"""Tests of the changes that a branch asks for, apart from those that exist without it."""

import json
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.config.settings import Settings
from kafkaform.core.model import (
    Create,
    DataSize,
    Desired,
    Facts,
    Intent,
    Location,
    Observed,
    ResourceRef,
    Status,
)
from kafkaform.core.plans import ChangeOrigin, Plan, PlannedChange
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import Request, make_plan
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources import KINDS
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.resources.subject.schema import RegisteredSchema, SchemaReference
from kafkaform.resources.user.operations import SetCredentials
from kafkaform.rules import RuleContext
from kafkaform.vcs.branch import BranchComparison, attribute_changes, merge_declarations
from tests.support.builds import builds
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import (
    DAY,
    WEEK,
    absent,
    create_topic,
    declare_topic,
    group_ref,
    plan_for,
    topic,
)

UNREAD = RuleContext(())
NAMES = st.sampled_from("abc")
TOPICS = builds(
    lambda name, partitions, retention: declare_topic(name, partitions, retention_ms=retention),
    NAMES,
    st.sampled_from([3, 6]),
    st.sampled_from([DAY, WEEK, None]),
)
SETS = st.lists(st.one_of(TOPICS, NAMES.map(absent)), max_size=3, unique_by=lambda one: one.ref)


def attribute_origins(
    memory: MemoryCluster, earlier: list[Desired], now: list[Desired]
) -> dict[str, tuple[ChangeOrigin | None, tuple[str, ...]]]:
    plan = attribute_changes(plan_for(memory, *now), earlier, now, UNREAD)
    return {change.ref.name: (change.origin, change.earlier) for change in plan.changes}


def test_each_change_has_origin(memory: MemoryCluster) -> None:
    for name in ("drifted", "edited", "both", "doomed", "doomed-before"):
        create_topic(memory, name, retention_ms=DAY)
    kept = [declare_topic("drifted", retention_ms=WEEK), absent("doomed-before"), declare_topic("missing")]
    earlier = [
        *kept,
        declare_topic("edited", retention_ms=DAY),
        declare_topic("both", retention_ms=WEEK),
        declare_topic("doomed", retention_ms=DAY),
        declare_topic("missing-and-edited", 3),
    ]
    now = [
        *kept,
        declare_topic("edited", retention_ms=WEEK),
        declare_topic("both", 6, retention_ms=WEEK),
        absent("doomed"),
        declare_topic("missing-and-edited", 6),
        declare_topic("new"),
    ]
    assert attribute_origins(memory, earlier, now) == {
        **dict.fromkeys(("drifted", "doomed-before", "missing"), (ChangeOrigin.DRIFT, ())),
        **dict.fromkeys(("edited", "doomed", "new"), (ChangeOrigin.BRANCH, ())),
        "both": (ChangeOrigin.MIXED, ("config.retention.ms",)),
        "missing-and-edited": (ChangeOrigin.MIXED, ("replicationFactor",)),
    }


@given(SETS, SETS)
def test_cluster_as_declared_gives_branch_origin(before: list[Desired], declared: list[Desired]) -> None:
    plan = plan_for(_living(before), *declared)
    changes = attribute_changes(plan, before, declared, UNREAD).changes
    assert all(change.origin is ChangeOrigin.BRANCH for change in changes)


def merge(
    before: list[Desired], since: list[Desired], mine: list[Desired]
) -> tuple[dict[str, object], list[str], list[str]]:
    desired, taken, conflicts = merge_declarations(before, since, mine)
    return {item.ref.name: item.state for item in desired}, taken, conflicts


def test_changes_of_both_branches_are_merged() -> None:
    before = [declare_topic("a", 3, retention_ms=DAY), declare_topic("b"), declare_topic("c"), absent("d")]
    since = [declare_topic("a", 3, retention_ms=WEEK), declare_topic("b", 6)]
    since += map(declare_topic, ("new", "d"))
    mine = [declare_topic("a", 6, retention_ms=DAY), *map(declare_topic, ("b", "mine", "c")), absent("d")]
    states, taken, conflicts = merge(before, since, mine)
    expected = [declare_topic("a", 6, retention_ms=WEEK), declare_topic("b", 6)]
    expected += map(declare_topic, ("new", "mine", "d"))
    assert states == {item.ref.name: item.state for item in expected}
    assert (taken, conflicts) == (["Topic/a", "Topic/b", "Topic/c", "Topic/d", "Topic/new"], [])


def test_branch_overrides_conflicting_field() -> None:
    before = [declare_topic("a", 3), declare_topic("gone"), declare_topic("kept")]
    since = [declare_topic("a", 6), declare_topic("gone", 6), declare_topic("kept", 6)]
    states, taken, conflicts = merge(before, since, [declare_topic("a", 9), absent("gone")])
    assert states == {"a": declare_topic("a", 9).state, "gone": None}
    assert (taken, conflicts) == ([], ["Topic/a", "Topic/gone"])


@given(SETS, SETS)
def test_merge_with_unchanged_side_changes_nothing(before: list[Desired], mine: list[Desired]) -> None:
    desired = {item.ref: item for item in mine}
    for since, branch in ((before, mine), (mine, before), (mine, mine)):
        assert {d.ref: d for d in merge_declarations(before, since, branch)[0]} == desired


def _living(wanted: list[Desired]) -> MemoryCluster:
    memory = MemoryCluster()
    for item in wanted:
        if item.state is not None:
            retention = item.state.get("config.retention.ms")
            configs: Any = {"retention_ms": retention} if retention else {}
            create_topic(memory, item.ref.name, cast("int", item.state["partitions"]), **configs)
    return memory


def test_resource_moved_between_teams_is_noted(memory: MemoryCluster) -> None:
    def build_owned(name: str, **labels: str) -> Desired:
        desired = declare_topic(name)
        return replace(desired, intent=replace(desired.intent, labels=labels))

    for name in ("handed-over", "same"):
        create_topic(memory, name)
    earlier = [build_owned("handed-over", team="checkout"), build_owned("same", team="a")]
    now = [build_owned("handed-over", team="payments"), build_owned("same", owner="a")]
    earlier, now = [*earlier, build_owned("adopted")], [*now, build_owned("adopted", team="b")]
    plan = attribute_changes(plan_for(memory, *now), earlier, now, UNREAD)
    (note,) = [found for found in plan.diagnostics if found.code == "KF440"]
    assert note.message.startswith("Topic/handed-over ")
    assert "from team checkout to payments" in note.message
    assert note.ref is None  # which every report of a plan shows


CHECKOUT = ResourceRef("User", "checkout")
SHA_512 = "scram.SCRAM-SHA-512"


def user(password: str, iterations: int = 4096, **allow: str) -> Desired:
    state = {SHA_512: f"iterations={iterations},password=${{env:{password}}}"}
    consents = {f"{hazard.replace('_', '-')} of SCRAM-SHA-512": reason for hazard, reason in allow.items()}
    return Desired(CHECKOUT, state, Intent(allow=consents))


def attribute(memory: MemoryCluster, before: Desired, now: Desired) -> Plan:
    return attribute_changes(plan_for(memory, now), [before], [now], UNREAD)


def find_notes(plan: Plan) -> list[str]:
    return [diagnostic.message for diagnostic in plan.diagnostics if diagnostic.code == "KF451"]


@pytest.mark.parametrize("variables", [{}, {"NEW": "b"}, {"OLD": "c"}, {"OLD": "a", "NEW": "a"}])
@pytest.mark.parametrize("new", ["OLD", "NEW"])
def test_password_is_not_reported_as_changed_on_the_cluster(
    memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch, new: str, variables: dict[str, str]
) -> None:
    monkeypatch.setenv("OLD", "a")
    memory.execute([SetCredentials(CHECKOUT, user("OLD").state or {})])
    monkeypatch.delenv("OLD")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    consented = user(new, password_change="TICKET-1")
    for now in (user(new), user(new, 8192), consented):
        assert find_notes(attribute(memory, user("OLD"), now)) == []
    # Of credentials, a reading shows the iterations.
    (note,) = find_notes(attribute(memory, user("OLD", 16384), user(new, 8192)))
    assert re.search(r"is iterations=4096 .* iterations=16384 .* sets iterations=8192$", note)
    assert "password" not in note


def test_password_by_consent_has_branch_origin(
    memory: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD", "a")
    memory.execute([SetCredentials(CHECKOUT, user("OLD").state or {})])
    monkeypatch.delenv("OLD")
    consented = user("OLD", password_change="TICKET-1")
    for before, origin in ((user("OLD"), ChangeOrigin.BRANCH), (consented, ChangeOrigin.DRIFT)):
        assert attribute_origins(memory, [before], [consented]) == {"checkout": (origin, ())}


ORDERS = "allow Read on topic orders.v1"
MEMBER = Member("m-1", "client", "/10.0.0.1", None, frozenset({("orders.v1", 0)}))
GROUP = Group(
    "billing", "classic", "Stable", members=(MEMBER,), positions=(Position("orders.v1", 0, 5, 0, 9),)
)
ACCESS = Desired(
    ResourceRef("Access", "User:shop"), {ORDERS: "granted", "allow Read on group billing": "granted"}
)
QUOTA = Desired(ResourceRef("ClientQuota", "user=shop"), {"config.producer_byte_rate": "1"})
BILLING = Desired(group_ref("billing"), {}, Intent(spec={"topics": ["orders.v1"]}))


def declare_subject(name: str, *references: str) -> Desired:
    schema = RegisteredSchema(
        '"string"', references=tuple(SchemaReference(each, each) for each in references)
    )
    return Desired(ResourceRef("Subject", name), {"schema": schema.to_value()})


DROPPED = {
    "Topic": (declare_topic("orders.v1"), [BILLING, ACCESS], None),
    "ConsumerGroup": (BILLING, [ACCESS], GROUP),
    "User": (Desired(ResourceRef("User", "shop"), {"scram.SCRAM-SHA-512": "x"}), [ACCESS, QUOTA], None),
    "ClientQuota": (QUOTA, [], None),
    "Access": (ACCESS, [], None),
    "Subject": (declare_subject("money"), [declare_subject("orders-value", "money")], None),
}


@pytest.mark.parametrize("renamed", [False, True], ids=["deleted", "renamed"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_dropped_manifest_is_noted_first_with_dependents(kind: str, renamed: bool) -> None:
    gone, users, live = DROPPED[kind]
    gone = replace(gone, location=Location("a.yaml", 1))
    successor = replace(gone, ref=ResourceRef(kind, f"{gone.ref.name}2"))
    now = [*users, *([successor] if renamed else [])]
    observed = Observed(gone.ref, None, gone.state or {}, live=live)
    facts = Facts("c", sizes={gone.ref: DataSize(5 << 30, 1)} if kind == "Topic" else {})
    context = RuleContext(tuple(now), facts, live={gone.ref: observed}, groups={"billing": GROUP})
    change = PlannedChange(Create(topic("other"), {"partitions": 1}), Status.PLANNED)
    earlier = [gone, *users]
    plan = attribute_changes(Plan("c", (change,), unchanged=1), earlier, now, context)
    (found,) = [each for each in plan.diagnostics if each.code == "KF424"]
    assert (found.ref, found.by_branch) == (gone.ref, True)
    assert (str(successor.ref) in found.message) is renamed
    assert all(str(user.ref) in found.message for user in users)
    expected = {"Topic": ["5.0 GiB", "billing (1 member)"], "ConsumerGroup": ["1 member"], "Access": [ORDERS]}
    assert all(text in found.message for text in expected.get(kind, []))
    text, markdown = render_plan(plan).plain, render_plan_markdown(plan)
    assert text.index("KF424") < text.index("Topic/other")
    assert markdown.index("KF424") < markdown.index("### Changes")
    assert "1 no longer declared" in markdown.splitlines()[0]
    header = PlanHeader("0.1.0", None, None, None, "2026-01-01T00:00:00Z")
    saved = json.loads(plan_to_json(plan, header))
    assert [d["origin"] for d in saved["diagnostics"] if d["code"] == "KF424"] == ["branch"]
    assert plan_from_json(json.dumps(saved), "p.json")[0].diagnostics == plan.diagnostics


def test_findings_caused_by_branch_are_printed(memory: MemoryCluster) -> None:
    """A warning on an unchanged resource is shown if the branch causes it, beside dozens that it does not."""
    for name in ("orders.v1", *(f"t{number}" for number in range(20))):
        create_topic(memory, name)
    old = [declare_topic(f"t{number}", min_insync_replicas=None) for number in range(20)]
    missing = replace(BILLING, ref=group_ref("old"), intent=Intent(spec={"topics": ["never-declared"]}))
    earlier, now = [declare_topic("orders.v1"), BILLING, missing, *old], [BILLING, missing, *old]
    request = Request(now, dropped=frozenset({topic("orders.v1")}))
    result = make_plan(request, memory, Settings(), None)
    plan = BranchComparison(earlier, now, Settings()).attribute(result.plan, result.context)
    caused = {(each.code, each.ref) for each in plan.diagnostics if each.by_branch}
    assert caused == {("KF210", BILLING.ref), ("KF424", topic("orders.v1"))}
    assert ("KF210", missing.ref) in {(each.code, each.ref) for each in plan.diagnostics}
    first = render_plan(plan).plain.split("Findings")[0]
    assert "no manifest declares orders.v1" in first
    assert "never-declared" not in first
