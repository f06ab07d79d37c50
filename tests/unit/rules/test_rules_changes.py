"""Each rule about changes, on a plan that it is about and on one that it is not."""

from __future__ import annotations

import pytest

from kafkaform import rules
from kafkaform.core.model import (
    Create,
    Delete,
    Desired,
    Diagnostic,
    FieldChange,
    FieldValue,
    Intent,
    Observed,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import PlannedChange
from kafkaform.core.values import replace
from kafkaform.resources.consumer_group.fields import observed_state
from kafkaform.resources.groups import Group, Member, Position
from kafkaform.rules import RuleContext, Stage
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.golden import wording
from tests.support.plans.scenes import declared, group_ref, topic

RISKY = RiskAssessment(Risk.DISRUPTIVE, "partition-increase", "50 % of keys move", "declare keyed: false")
CUT = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "retention.ms is cut")


def group(name: str, *positions: Position, members: int = 0, protocol: str = "classic") -> Group:
    joined = tuple(Member(f"m{number}") for number in range(members))
    return Group(name, protocol, "Stable" if members else "Empty", members=joined, positions=positions)


def at(topic_name: str, partition: int, committed: int | None = 5) -> Position:
    return Position(topic_name, partition, committed)


def updated(
    name: str, path: str = "partitions", assessment: RiskAssessment = RISKY, status: Status = Status.PLANNED
) -> PlannedChange:
    field = FieldChange(path, 6, 12, 6, 12, assessment)
    return PlannedChange(Update(topic(name), "id", (field,)), status)


def deleted(ref: ResourceRef, status: Status = Status.PLANNED) -> PlannedChange:
    return PlannedChange(Delete(ref, "id", {}, RiskAssessment(Risk.DESTRUCTIVE, "delete", "gone")), status)


def live(ref: ResourceRef, own: Group | None = None, **state: FieldValue) -> Observed:
    fields = observed_state(own, {}) if own else state
    return Observed(ref, "id", fields, live=own)


def tripped(scene: RuleContext, severities: dict[str, str] | None = None) -> list[Diagnostic]:
    return list(rules.check(scene, severities or {}, (Stage.CHANGES,)))


def codes(scene: RuleContext) -> list[str]:
    return [found.code for found in tripped(scene)]


# --- KF401 to KF403: judgements with a code ---------------------------------------------------------


@pytest.mark.parametrize(
    ("hazard", "path", "code"),
    [
        ("partition-increase", "partitions", "KF401"),
        ("partition-increase-compacted", "partitions", "KF402"),
        ("retention-cut", "config.retention.ms", "KF403"),
    ],
)
def test_a_judgement_of_a_change_has_a_code(hazard: str, path: str, code: str) -> None:
    assessment = RiskAssessment(Risk.DESTRUCTIVE, hazard, "what happens", "what to do")
    (found,) = tripped(RuleContext((declared("a"),), changes=(updated("a", path, assessment),)))
    assert (found.code, found.severity) == (code, Severity.INFO)
    assert (found.message, found.suggestion) == ("a: what happens", "what to do")


def test_only_risky_changes_have_a_code_and_its_severity_is_the_projects() -> None:
    assert codes(RuleContext((declared("a"),), changes=(deleted(topic("a")),))) == []
    assert codes(RuleContext((declared("a"),), changes=(updated("a", assessment=RiskAssessment()),))) == []
    scene = RuleContext((declared("a"),), changes=(updated("a"),))
    (found,) = tripped(scene, {"KF401": "error"})
    assert found.severity is Severity.ERROR


# --- KF404 -----------------------------------------------------------------------------------------


def scene_of(present: int, risky: int, **more: object) -> RuleContext:
    names = [f"t{number:02}" for number in range(present)]
    scene = RuleContext(
        tuple(map(declared, names)),
        live={topic(name): live(topic(name), partitions=6) for name in names},
        changes=tuple(updated(name, "config.retention.ms", CUT) for name in names[:risky]),
    )
    return replace(scene, **more)


def radius(scene: RuleContext) -> list[Diagnostic]:
    return [found for found in tripped(scene) if found.code == "KF404"]


def test_risky_changes_of_too_many_topics_at_once_are_an_error() -> None:
    (found,) = radius(scene_of(10, 4))
    assert found.severity is Severity.ERROR
    assert "4 of 10 topics (40 %)" in found.message
    assert "30 %" in found.message
    assert radius(scene_of(10, 4, limits=ProjectLimits(blast_radius=0.4))) == []
    assert radius(scene_of(10, 2, limits=ProjectLimits(blast_radius=0.1))) != []
    assert radius(scene_of(10, 9, subset=True)) == []
    # New topics safe changes refused ones and groups do not count.
    scene = scene_of(10, 0)
    names = [desired.ref.name for desired in scene.desired]
    harmless = (
        *(PlannedChange(Create(topic(f"new{n}"), {}), Status.PLANNED) for n in range(20)),
        *(updated(name, assessment=RiskAssessment()) for name in names[:5]),
        *(updated(name, status=Status.REFUSED) for name in names[5:]),
        *(deleted(group_ref(f"g{n}")) for n in range(20)),
    )
    assert radius(replace(scene, changes=harmless)) == []
    scene = scene_of(8, 0)
    assert radius(replace(scene, changes=tuple(deleted(topic(f"old{n}")) for n in range(4)))) != []


@pytest.mark.parametrize(("present", "risky"), [(10, 3), (9, 9), (100, 30)])
def test_up_to_the_share_or_with_few_topics_it_is_none(present: int, risky: int) -> None:
    assert radius(scene_of(present, risky)) == []


@pytest.mark.parametrize("assessment", [RISKY, CUT], ids=["disruptive", "destructive"])
def test_all_that_is_not_safe_counts(assessment: RiskAssessment) -> None:
    scene = scene_of(10, 0)
    risky = tuple(updated(desired.ref.name, assessment=assessment) for desired in scene.desired[:4])
    (found,) = radius(replace(scene, changes=risky))
    assert "4 of 10 topics (40 %)" in found.message


# --- KF405 -----------------------------------------------------------------------------------------


def affected(scene: RuleContext) -> list[Diagnostic]:
    return [found for found in tripped(scene) if found.code == "KF405"]


def with_groups(change: PlannedChange, *groups: Group) -> RuleContext:
    return RuleContext((declared("a"),), changes=(change,), groups={one.name: one for one in groups})


def test_groups_that_read_a_changed_topic_are_named_with_what_to_do() -> None:
    # Running groups are named where partitions are added.
    groups = [group("g1", at("a", 0), members=1), group("g2", at("a", 0), members=2)]
    (found,) = affected(with_groups(updated("a"), *groups))
    assert (found.message, found.suggestion) == (wording, wording)
    # Stopped groups with commits in the topic are named too.
    groups = [group("g1", at("a", 0)), group("g2", at("a", 0), members=1), group("g3", at("a", 0, None))]
    running, stopped = affected(with_groups(updated("a"), *groups))
    assert running.message == wording
    assert (stopped.message, stopped.suggestion) == (wording, wording)
    groups = [group(f"g{number}", at("a", 0), members=1) for number in range(8)]
    (found,) = affected(with_groups(updated("a"), *groups))
    assert "groups g0, g1, g2, g3, g4 and 3 more" in found.message
    change = updated("a", "config.retention.ms", CUT)
    assert affected(with_groups(change, group("g", at("a", 0), members=1))) == []
    (found,) = affected(with_groups(deleted(topic("a")), group("g", at("a", 0))))
    assert found.message == wording


@pytest.mark.parametrize(
    "bystander",
    [
        group("without-commits", at("a", 0, None)),
        group("elsewhere", at("b", 0), members=1),
        group("shared", at("a", 0), members=1, protocol="share"),
    ],
    ids=lambda one: one.name,
)
def test_groups_that_lose_nothing_by_new_partitions_are_not_named(bystander: Group) -> None:
    assert affected(with_groups(updated("a"), bystander)) == []


# --- KF406 -----------------------------------------------------------------------------------------


def reader(client: dict[str, str] | None = None) -> Desired:
    return Desired(group_ref("g"), {}, Intent(spec={"topics": ["a"], "client": client or {}}))


def gaps(desired: Desired, own: Group, partitions: int = 3) -> list[Diagnostic]:
    refs = {topic("a"): live(topic("a"), partitions=partitions), desired.ref: live(desired.ref, own)}
    return [found for found in tripped(RuleContext((desired,), live=refs)) if found.code == "KF406"]


def test_partitions_without_an_offset_are_told_with_the_way_out() -> None:
    (found,) = gaps(reader(), group("g", at("a", 0), members=1))
    assert (found.message, found.suggestion) == (wording, wording)
    (found,) = gaps(reader({"auto.offset.reset": "earliest"}), group("g", at("a", 0)))
    assert "auto.offset.reset=earliest" in found.message
    (found,) = gaps(reader(), group("g", at("a", 0), at("a", 1)))
    assert found.message == wording
    assert gaps(replace(reader(), state=None), group("g", at("a", 0))) == []


@pytest.mark.parametrize(
    "own",
    [
        group("g", *(at("a", number) for number in range(3))),
        group("g", at("b", 0)),
        group("g", at("b", 0), at("a", 0, None), members=1),
        group("g", at("a", 0, None), members=1),
        group("g", at("a", 0), protocol="share"),
    ],
    ids=["all", "another topic", "none of this topic", "none at all", "share"],
)
def test_groups_that_have_all_or_none_are_not_told_of(own: Group) -> None:
    assert gaps(reader(), own) == []


# --- KF407 -----------------------------------------------------------------------------------------


def watched(before: Group, after: Group) -> list[Diagnostic]:
    refs = {group_ref("g"): live(group_ref("g"), before)}
    scene = RuleContext((), live=refs, groups={"g": after}, changes=(deleted(group_ref("g")),))
    return [found for found in tripped(scene) if found.code == "KF407"]


def test_offsets_that_move_under_an_empty_group_are_told() -> None:
    (found,) = watched(group("g", at("a", 0, 5), at("a", 1, 7)), group("g", at("a", 0, 5), at("a", 1, 1_009)))
    assert (found.message, found.severity) == (wording, Severity.WARNING)
    assert watched(group("g", at("a", 0, 5)), group("g", at("a", 0, 5))) == []
    assert watched(group("g", at("a", 0, 5), members=1), group("g", at("a", 0, 6), members=1)) == []
