"""Successions on a cluster in memory: groups wait, and the predecessor stays, until its records are read."""

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkaform.apply.executor import ApplyOptions, apply
from kafkaform.audit.entries import SuccessionStep
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import Settings
from kafkaform.core.acl_fields import parse_path, write_path
from kafkaform.core.acls import EVERYONE, Acl, ResourceType
from kafkaform.core.authorizer import AccessReading, AuthorizerSettings
from kafkaform.core.errors import NotOffered, RequestRejected, Unreachable
from kafkaform.core.model import Desired, Diagnostic, Intent, Location, ResourceRef, Status
from kafkaform.core.plans import Plan
from kafkaform.core.transactions import ProducerReading
from kafkaform.core.values import replace
from kafkaform.inspect.drift import DriftVerdict
from kafkaform.inspect.health_check import Examination
from kafkaform.inspect.successions import add_writers, read_successions
from kafkaform.plan.planning import Request, make_plan
from kafkaform.report.history import render_history
from kafkaform.report.plan import render_plan
from kafkaform.resources import ACCESS
from kafkaform.resources.groups import Group, Position
from kafkaform.resources.succession import (
    GroupStage,
    Predecessor,
    Succession,
    SuccessionFacts,
    SuccessionVerdict,
)
from kafkaform.vcs.branch import attribute_changes
from spark_validation.durations import parse_duration
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import entries_of, recorded_apply
from tests.support.plans.drift import drift_in
from tests.support.plans.moves import fail
from tests.support.plans.scenes import (
    QUIET,
    FakeClock,
    absent,
    create_topic,
    declare_reader,
    declare_topic,
    judge_saved,
    list_statuses,
    plan_for,
    save_plan,
    topic,
)


def declare_successor(name: str, before: str) -> Desired:
    return replace(declare_topic(name, 1), intent=Intent(keyed=False, spec={"succeeds": before}))


SUCCESSOR = declare_successor("new", "old")
NEXT = declare_successor("next", "new")
GROUP = declare_reader("new")
READ_ALL = {("old", 0): 10, ("old", 1): 0}


@pytest.fixture
def cluster(memory: MemoryCluster) -> MemoryCluster:
    """A predecessor of two partitions with ten records of 1970, of which a group has read four."""
    create_topic(memory, "old", 2)
    create_topic(memory, "new", 1)
    memory.write("old", 0, 10)
    memory.commit("g", {("old", 0): 4})
    return memory


def plan(cluster: MemoryCluster) -> Plan:
    return plan_for(cluster, declare_topic("old", 2), SUCCESSOR, GROUP)


def follow(cluster: MemoryCluster) -> Succession:
    (succession,) = read_successions(cluster, [SUCCESSOR, GROUP], {"new": "old"}, pause=lambda _: None)
    return succession


def carry_out(cluster: MemoryCluster, *desired: Desired) -> list[str]:
    """Plan and apply manifests; returns the resources that changed."""
    plan = plan_for(cluster, *desired)
    assert apply(plan, cluster, ApplyOptions(clock=FakeClock().clock)).complete
    return [str(change.ref) for change in plan.changes]


def write_now(cluster: MemoryCluster, producer: int | None = None) -> None:
    cluster.write("old", 1, 1, time.time_ns() // 1_000_000, producer)


def test_group_starts_on_successor_after_end_of_predecessor(cluster: MemoryCluster) -> None:
    assert plan(cluster).changes == ()
    text = render_plan(plan(cluster), width=200).plain
    assert "the group does not start on new yet: 6 records of old are left to read" in text
    cluster.commit("g", READ_ALL)
    (change,) = plan(cluster).changes
    assert (str(change.ref), change.status) == ("ConsumerGroup/g", Status.PLANNED)


def test_group_waits_for_open_transaction(cluster: MemoryCluster) -> None:
    cluster.commit("g", {("old", 0): 11, ("old", 1): 0})
    with cluster.transaction("old", 0):
        cluster.write("old", 0, 1)
        assert plan(cluster).changes == ()
        assert "transaction 'tx' (producer 1, epoch 0)" in follow(cluster).notes[0]


def test_group_waits_if_logs_are_not_read(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.commit("g", READ_ALL)
    monkeypatch.setattr(cluster, "log_spans", fail(Unreachable("no leader answers")))
    assert plan(cluster).changes == ()


@pytest.mark.parametrize(
    ("committed", "written_ago", "status"),
    [
        ({("old", 0): 4}, None, Status.REFUSED),
        (READ_ALL, None, Status.PLANNED),
        ({("old", 0): 10, ("old", 1): 1}, "6d", Status.REFUSED),
        ({("old", 0): 10, ("old", 1): 1}, "8d", Status.PLANNED),
    ],
    ids=("unread", "over", "in the recovery window", "after it"),
)
def test_predecessor_is_deleted_after_succession(
    cluster: MemoryCluster, committed: Mapping[tuple[str, int], int], written_ago: str | None, status: Status
) -> None:
    if written_ago is not None:
        cluster.write("old", 1, 1, time.time_ns() // 1_000_000 - parse_duration(written_ago))
    cluster.commit("g", {**committed, ("new", 0): 0})
    changes = plan_for(cluster, absent("old"), SUCCESSOR, GROUP).changes
    assert [(change.ref, change.status) for change in changes] == [(topic("old"), status)]


@pytest.mark.parametrize(
    ("committed", "joined", "stage", "verdict"),
    [
        ({("old", 0): 4}, None, GroupStage.STOPPED, SuccessionVerdict.STUCK),
        ({("old", 0): 4}, "old", GroupStage.READING, SuccessionVerdict.UNDER_WAY),
        (READ_ALL, None, GroupStage.READY, SuccessionVerdict.UNDER_WAY),
        (READ_ALL, "old", GroupStage.READY, SuccessionVerdict.UNDER_WAY),
        ({**READ_ALL, ("new", 0): 0}, None, GroupStage.MOVED, SuccessionVerdict.OVER),
        ({("old", 0): 4, ("new", 0): 0}, None, GroupStage.MOVED_EARLY, SuccessionVerdict.STUCK),
    ],
)
def test_stage_of_group_follows_offsets_and_members(
    cluster: MemoryCluster,
    committed: Mapping[tuple[str, int], int],
    joined: str | None,
    stage: GroupStage,
    verdict: SuccessionVerdict,
) -> None:
    cluster.commit("g", committed)
    if joined is not None:
        cluster.join("g", [joined])
    succession = follow(cluster)
    assert ([group.stage for group in succession.groups], succession.verdict) == ([stage], verdict)


def test_producers_of_late_records_are_named(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.write("old", 0, 1, producer=3)  # long ago
    assert follow(cluster).notes == []
    write_now(cluster)
    assert "only idempotent and transactional ones" in follow(cluster).notes[0]
    write_now(cluster, producer=4)
    succession = follow(cluster)
    assert succession.notes[0].endswith("in partition 1, from producer 4, epoch 0")
    assert succession.predecessor is not None
    assert [(p.id, p.partition, p.sequence) for p in succession.predecessor.producers] == [(4, ("old", 1), 0)]
    monkeypatch.setattr(cluster, "producers", lambda _: ProducerReading((), "no broker offers it"))
    assert follow(cluster).notes[0].endswith("no broker offers it")
    cluster.commit("g", {("old", 0): 11, ("old", 1): 2, ("new", 0): 0})
    assert follow(cluster).verdict is SuccessionVerdict.UNDER_WAY, "more records may come"


def test_undeclared_group_is_named(cluster: MemoryCluster) -> None:
    cluster.commit("other", READ_ALL)
    stages = {group.name: group.stage for group in follow(cluster).groups}
    assert stages == {"g": GroupStage.STOPPED, "other": GroupStage.UNDECLARED}


@pytest.mark.parametrize("change", ["start", "deletion"])
def test_saved_succession_is_refused_after_new_records(cluster: MemoryCluster, change: str) -> None:
    cluster.commit("g", READ_ALL)
    saved = plan(cluster) if change == "start" else plan_for(cluster, absent("old"), SUCCESSOR)
    assert [planned.status for planned in saved.changes] == [Status.PLANNED]
    write_now(cluster)
    for intents in ({}, {SUCCESSOR.ref: SUCCESSOR.intent}):
        judged = judge_saved(save_plan(saved), cluster, intents=intents).plan
        assert ["KF120" in str(planned.reason) for planned in judged.changes] == [True]
    # A manifest that no longer has `succeeds` gives the records up.
    without = {SUCCESSOR.ref: declare_topic("new", 1).intent}
    judged = judge_saved(save_plan(saved), cluster, intents=without).plan
    assert [planned.status for planned in judged.changes] == [Status.PLANNED]


def test_unread_succession_is_not_over(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.commit("g", {**READ_ALL, ("new", 0): 0})
    examination = Examination((declare_topic("old", 2), SUCCESSOR, GROUP))
    for read in ("groups", "observe"):
        monkeypatch.setattr(cluster, read, fail(Unreachable("no leader answers")))
        assert "under way" in str([f.message for f in examination.examine(cluster).findings])


def test_principals_that_may_write_are_named_with_their_manifests(cluster: MemoryCluster) -> None:
    def allow(principal: str, name: str, operation: str = "Write", *, is_prefix: bool = False) -> Acl:
        return Acl(ResourceType.TOPIC, name, is_prefix, principal, "*", operation, is_allowed=True)

    location = Location("access.yaml", 7)
    paths = [write_path(allow("User:a", name)) for name in ("old", "new")]
    access = Desired(ResourceRef("Access", "User:a"), dict.fromkeys(paths, "granted"), location=location)
    prefixed, reads = allow("User:b", "o", "All", is_prefix=True), allow("User:c", "old", "Read")
    reading = AccessReading((allow("User:a", "old"), prefixed, reads), AuthorizerSettings())
    (succession,) = add_writers([follow(cluster)], [access], lambda: reading)
    found = [(each.principal, each.location) for each in succession.writers]
    assert found == [("User:a", location), ("User:b", None)]
    assert succession.writers[1].right == "All on topics that start with o"

    for error, notes in ((NotOffered("ACLs"), 0), (Unreachable("no answer"), 1)):
        (succession,) = add_writers([follow(cluster)], [access], fail(error))
        assert (succession.writers, len(succession.notes)) == ((), notes)


def test_record_has_each_step(cluster: MemoryCluster) -> None:
    cluster.commit("g", READ_ALL)
    run, _ = recorded_apply(plan(cluster), cluster)
    entry = entries_of(cluster, run)["g"]
    assert entry.successions == (SuccessionStep("old", "new", "first offsets"),)
    page = render_history([entry], 0, verbose=False)
    assert "succession: first offsets, new succeeds old" in page.plain
    saved = save_plan(plan_for(cluster, absent("old"), SUCCESSOR, GROUP))
    run, _ = recorded_apply(judge_saved(saved, cluster).plan, cluster)
    (step,) = entries_of(cluster, run)["old"].successions
    assert step.step == "predecessor deleted"


def test_later_succession_waits_for_earlier_groups(cluster: MemoryCluster) -> None:
    create_topic(cluster, "next", 1)
    cluster.commit("g", READ_ALL)
    desired = [SUCCESSOR, NEXT, declare_reader("next")]
    _, later = read_successions(cluster, desired, {"new": "old", "next": "new"})
    assert later.verdict is SuccessionVerdict.UNDER_WAY
    assert later.notes == ["keep new: g has not moved from old yet"]
    cluster.commit("g", {("new", 0): 0, ("next", 0): 0})
    _, later = read_successions(cluster, desired, {"new": "old", "next": "new"})
    assert later.verdict is SuccessionVerdict.OVER


def test_group_outside_a_circle_of_successors_does_not_wait() -> None:
    circle = {"a": "b", "b": "c", "c": "a"}
    facts = SuccessionFacts({name: Predecessor(before, name) for name, before in circle.items()})
    assert facts.find_waits(Group("g", "classic", "Empty", positions=(Position("other", 0, 4),))) == {}


def test_succession_is_not_over_if_a_declared_group_is_hidden(cluster: MemoryCluster) -> None:
    cluster.hide(GROUP.ref)
    succession = follow(cluster)
    assert succession.verdict is SuccessionVerdict.UNDER_WAY
    assert "some groups may be missing" in succession.notes[0]


def test_tombstone_in_the_middle_of_a_chain_waits_for_earlier_groups(cluster: MemoryCluster) -> None:
    cluster.commit("g", READ_ALL)
    middle = replace(absent("new"), intent=SUCCESSOR.intent)
    manifests = declare_topic("old", 2), middle, NEXT, declare_reader("next")
    (planned,) = (change for change in plan_for(cluster, *manifests).changes if change.ref == topic("new"))
    assert planned.status is Status.REFUSED
    assert "g has not come to it: it reads old, and has not moved to new yet" in str(planned.reason)
    cluster.commit("g", {("new", 0): 0})
    assert list_statuses(plan_for(cluster, *manifests))["new"] is Status.PLANNED


DENIAL = "deny Write on topic old"
CONSENT = f"access-removal of {DENIAL}: TICKET-1"


def load_closing(
    folder: Path, closes: bool | None, *further: dict[str, Any], old: str = "present", allow: str = ""
) -> list[Desired]:
    """Load the manifests of the predecessor, of its successor, and further ones."""
    counts = {"partitions": 1, "replicationFactor": 1, "keyed": False}
    spec = {**counts, "succeeds": "old", **({} if closes is None else {"closeWrites": closes})}
    annotations = {"annotations": {"kafkaform/allow": allow}} if allow else {}
    manifests = [
        {"kind": "Topic", "metadata": {"name": "old"}, "spec": {**counts, "partitions": 2, "state": old}},
        {"kind": "Topic", "metadata": {"name": "new", **annotations}, "spec": spec},
        *further,
    ]
    documents = [{"apiVersion": "kafkaform/v1", **each} for each in manifests]
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return load([folder], Context())


def give(cluster: MemoryCluster, principal: str, *paths: str) -> None:
    cluster._contents.acls |= {parse_path(path, principal) for path in paths}


def list_denials(cluster: MemoryCluster) -> list[str]:
    return [str(acl) for acl in cluster.access().acls if not acl.is_allowed]


def list_changes(plan: Plan) -> list[tuple[str, Status]]:
    return [(str(change.ref), change.status) for change in plan.changes]


@pytest.fixture
def closed(cluster: MemoryCluster, tmp_path: Path) -> MemoryCluster:
    """A predecessor that is closed to producers, and that its group has read."""
    cluster.commit("g", {**READ_ALL, ("new", 0): 0})
    give(cluster, "User:a", "allow Write on topic old", "allow Read on topic old")
    give(cluster, EVERYONE, "allow Describe on topic other", "deny Write on topic other")
    assert carry_out(cluster, *load_closing(tmp_path, True, allow=CONSENT)) == ["Access/User:*"]
    return cluster


@pytest.mark.parametrize("others", [(), ("allow Describe on topic other",)], ids=("created", "updated"))
@pytest.mark.parametrize(
    ("allow", "status", "idle"),
    [
        (CONSENT, Status.PLANNED, ["Topic/new"]),
        ("access-removal: x", Status.NEEDS_CONSENT, ["Topic/new", "Topic/new"]),
        (
            "access-removal of allow Describe on topic other: x",
            Status.NEEDS_CONSENT,
            ["Topic/new", "Topic/new"],
        ),
    ],
)
def test_topic_consents_to_its_own_denial_only(
    cluster: MemoryCluster, tmp_path: Path, others: Iterable[str], allow: str, status: Status, idle: list[str]
) -> None:
    give(cluster, EVERYONE, *others)
    plan = plan_for(cluster, *load_closing(tmp_path, True, allow=f"{allow}\nretention-cut from 7d: y"))
    assert list_changes(plan) == [("Access/User:*", status)]
    assert [str(note.ref) for note in plan.diagnostics if note.code == "KF417"] == idle


def test_closing_needs_consent_and_names_writers(cluster: MemoryCluster, tmp_path: Path) -> None:
    give(cluster, "User:a", "allow Write on topic old")
    application = {"kind": "Access", "metadata": {"name": "b"}}
    application["spec"] = {"principals": ["User:a"], "produces": ["old"]}
    plan = plan_for(cluster, *load_closing(tmp_path, True, application))
    (planned,) = plan.changes
    assert (str(planned.ref), planned.missing) == ("Access/User:*", ("access-removal",))
    assert planned.location is not None
    assert "closeWrites" in (tmp_path / "all.yaml").read_text().splitlines()[planned.location.line - 1]
    text = render_plan(plan, width=250).plain
    assert "User:* is denied Write on topic old, which User:a may do now; super users keep it" in text
    notes = [note.code for note in plan.diagnostics if note.ref == ResourceRef("Access", "User:a")]
    assert notes == ["KF609"]


def test_closing_is_shown_and_drift_finds_its_removal(closed: MemoryCluster, tmp_path: Path) -> None:
    declared = load_closing(tmp_path, True)
    assert carry_out(closed, *declared) == []
    (succession,) = read_successions(closed, declared, {"new": "old"})
    (succession,) = add_writers([succession], declared, closed.access)
    assert not succession.writers
    assert succession.notes[0] == "old is closed to producers, except for super users"
    assert drift_in(closed, *declared).verdict is DriftVerdict.CLEAN
    closed._contents.acls.remove(parse_path(DENIAL, EVERYONE))
    (drifted,) = drift_in(closed, *declared).resources
    assert str(drifted.ref) == "Access/User:*"
    # An adoption edits no manifest of a topic.
    (everyone,) = (each for each in declared if each.ref == drifted.ref)
    assert [type(ACCESS.locate_edit(everyone, path, None)) for path in (DENIAL, "state")] == [str, str]
    (succession,) = add_writers([succession], declared, closed.access)
    assert [writer.principal for writer in succession.writers] == ["User:a"]


ACCESS_OF_EVERYONE = {
    "kind": "Access",
    "metadata": {
        "name": "everyone",
        "annotations": {"kafkaform/allow": "access-removal of allow Describe on topic other: TICKET-1"},
    },
    "spec": {
        "principals": [EVERYONE],
        "acls": [{"resource": "topic", "name": "old", "operations": ["Write"], "permission": "deny"}],
    },
}


@pytest.mark.parametrize(
    ("closes", "further", "left"),
    [
        (False, (), [f"deny {EVERYONE} Write on topic other"]),
        (None, (), [f"deny {EVERYONE} Write on topic old", f"deny {EVERYONE} Write on topic other"]),
        (False, (ACCESS_OF_EVERYONE,), [f"deny {EVERYONE} Write on topic old"]),
    ],
    ids=("opened", "no longer said", "declared by an Access manifest"),
)
def test_opening_removes_only_the_denial(
    closed: MemoryCluster, tmp_path: Path, closes: bool, further: Iterable[dict[str, Any]], left: list[str]
) -> None:
    declared = load_closing(tmp_path, closes, *further)
    carry_out(closed, *declared)
    assert list_denials(closed) == left
    assert carry_out(closed, *declared) == []


def test_denial_that_is_no_longer_declared_is_named(closed: MemoryCluster, tmp_path: Path) -> None:
    earlier, now = load_closing(tmp_path, True), load_closing(tmp_path, None)

    def note_dropped() -> list[Diagnostic]:
        request = Request(now, dropped=frozenset({ResourceRef("Access", EVERYONE)}))
        result = make_plan(request, closed, Settings(rules=QUIET), None)
        attributed = attribute_changes(result.plan, earlier, now, result.context)
        return [note for note in attributed.diagnostics if note.code == "KF424"]

    (note,) = note_dropped()
    assert DENIAL in note.message
    assert "`closeWrites: false`" in str(note.suggestion)
    closed._contents.acls.remove(parse_path(DENIAL, EVERYONE))
    assert note_dropped() == []


def test_tombstone_takes_the_denial_along(closed: MemoryCluster, tmp_path: Path) -> None:
    declared = load_closing(tmp_path, True, old="absent")
    give(closed, "User:a", "allow Write on topic new")
    plan = plan_for(closed, *declared)
    assert list_changes(plan) == [("Topic/old", Status.PLANNED), ("Access/User:*", Status.PLANNED)]
    closed.fail_next(RequestRejected("no", code="POLICY_VIOLATION"), topic("old"))
    report = apply(plan, closed, ApplyOptions(clock=FakeClock().clock))
    assert "waits for Topic/old, which was not deleted" in [result.message for result in report.results]
    assert f"deny {EVERYONE} Write on topic old" in list_denials(closed)
    assert carry_out(closed, *declared) == ["Topic/old", "Access/User:*"]
    assert list_denials(closed) == [f"deny {EVERYONE} Write on topic other"]
    assert carry_out(closed, *declared) == []


@pytest.mark.parametrize("closes", [True, False])
def test_denial_stays_with_its_predecessor(closed: MemoryCluster, tmp_path: Path, closes: bool) -> None:
    declared = load_closing(tmp_path, closes, old="absent")
    closed.write("old", 0, 1)
    plan = plan_for(closed, *declared)
    assert list_changes(plan) == [("Topic/old", Status.REFUSED), ("Access/User:*", Status.REFUSED)]
    assert "it stays until the deletion of Topic/old is applied" in str(plan.changes[1].reason)


def test_opening_does_not_wait_for_other_changes(closed: MemoryCluster, tmp_path: Path) -> None:
    declared = load_closing(tmp_path, False)
    cut = [replace(each, state={**(each.state or {}), "config.retention.ms": "1"}) for each in declared[:1]]
    statuses = [("Topic/old", Status.NEEDS_CONSENT), ("Access/User:*", Status.PLANNED)]
    assert list_changes(plan_for(closed, *cut, *declared[1:])) == statuses


@pytest.mark.parametrize(("closes", "old"), [(False, "present"), (True, "absent")])
def test_nothing_opens_without_acls(cluster: MemoryCluster, tmp_path: Path, closes: bool, old: str) -> None:
    plan = plan_for(cluster, *load_closing(tmp_path, closes, old=old))
    assert "Access/User:*" not in [str(change.ref) for change in plan.changes]
    assert "KF420" not in [note.code for note in plan.diagnostics]


def test_closing_without_predecessor_is_invalid(tmp_path: Path) -> None:
    spec = {"partitions": 1, "replicationFactor": 1, "closeWrites": True}
    with pytest.raises(InvalidManifests) as raised:
        load_closing(tmp_path, None, {"kind": "Topic", "metadata": {"name": "x"}, "spec": spec})
    assert [problem.message for problem in raised.value.problems] == ["there is no topic to close"]
