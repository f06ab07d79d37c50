"""A saved plan when it is applied: judged by what is live then, whatever it says of itself."""

from collections.abc import Mapping
from typing import cast

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.model import (
    SAFE,
    Change,
    Desired,
    Intent,
    ResourceRef,
    Risk,
    RiskAssessment,
    Status,
    Update,
)
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.values import replace
from kafkaform.plan.conclusion import narrow
from kafkaform.plan.planning import Request, build_plan
from kafkaform.plan.policy import Policy
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from kafkaform.rules.catalogue import ProjectLimits
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import (
    DAY,
    QUIET,
    WEEK,
    absent,
    create_topic,
    declare_topic,
    judge_by,
    judge_saved,
    plan_for,
    save_plan,
    topic,
)


def judge_again(
    plan: Plan,
    cluster: Cluster,
    *grants: str,
    settings: Settings | None = None,
    intents: Mapping[ResourceRef, Intent] | None = None,
) -> Plan:
    allow = tuple(map(Grant.parse, grants))
    settings = settings or Settings(rules=QUIET)
    return judge_saved(plan, cluster, settings=settings, intents=intents, allow=allow).plan


def find_change(plan: Plan) -> PlannedChange:
    (change,) = plan.changes
    return change


def claim_risk(plan: Plan, claimed: RiskAssessment = SAFE) -> Plan:
    """Return the plan, edited by hand: all of it has this risk and is to be done."""
    planned = find_change(plan)
    change: Change = planned.change
    if isinstance(change, Update):
        change = replace(change, fields=tuple(replace(field, assessment=claimed) for field in change.fields))
    else:
        change = replace(change, assessment=claimed)
    planned = replace(planned, change=change, status=Status.PLANNED, reason=None)
    return save_plan(replace(plan, changes=(planned,), consents=()))


def alter_config(cluster: MemoryCluster, name: str, key: str, value: str) -> None:
    assert cluster.execute([AlterConfigs(topic(name), {key: value}, ())]) == [None]


CUT = declare_topic("t", retention_ms=DAY)
ELECTION = RiskAssessment(Risk.DESTRUCTIVE, "unclean-election")


@pytest.mark.parametrize(
    ("wanted", "claimed"),
    [(absent("t"), SAFE), (CUT, SAFE), (CUT, ELECTION)],
    ids=["deletion", "cut", "hazard"],
)
def test_loss_that_a_plan_does_not_name_is_refused(
    memory: MemoryCluster, wanted: Desired, claimed: RiskAssessment
) -> None:
    create_topic(memory, "t", retention_ms=WEEK)
    plan = claim_risk(plan_for(memory, wanted), claimed)
    assert find_change(plan).status is Status.PLANNED
    change = find_change(judge_again(plan, memory))
    assert change.status is Status.REFUSED
    assert "is destructive" in str(change.reason)
    assert f"and {claimed.risk.label}" in str(change.reason)
    assert KINDS["Topic"].operations(change.change) == KINDS["Topic"].operations(find_change(plan).change)


def test_cut_that_became_destructive_is_refused(memory: MemoryCluster) -> None:
    create_topic(memory, "t", retention_ms=WEEK, cleanup_policy="compact")
    plan = save_plan(plan_for(memory, declare_topic("t", retention_ms=DAY, cleanup_policy="compact")))
    assert find_change(plan).change.fields[0].assessment == SAFE  # type: ignore[union-attr]
    alter_config(memory, "t", "cleanup.policy", "delete")
    change = find_change(judge_again(plan, memory))
    assert change.status is Status.REFUSED
    assert "now, as cleanup.policy is delete and segment.ms is 7d, and safe in the plan" in str(change.reason)
    assert str(change.reason).endswith("(the topic holds no data)")
    assert "--allow Topic/t:retention-cut" in str(change.remedy)
    assert find_change(judge_again(plan, memory, "Topic/t:retention-cut")).status is Status.PLANNED
    assert find_change(judge_again(plan, memory, "Topic/t:cleanup-policy")).status is Status.REFUSED


def test_riskier_change_needs_a_new_plan(memory: MemoryCluster) -> None:
    create_topic(memory, "t", 2)
    plan = save_plan(plan_for(memory, declare_topic("t", 5)))
    assert find_change(plan).keyed is False
    change = find_change(judge_again(plan, memory, intents={topic("t"): Intent(keyed=True)}))
    assert (change.status, change.remedy) == (Status.REFUSED, "make a new plan, and review it")
    # A plan that does not say it is taken for the worst.
    silent = replace(plan, changes=(replace(find_change(plan), keyed=None),))
    assert find_change(judge_again(silent, memory)).status is Status.REFUSED
    # No other hazard of a disruptive change needs consent.
    waits = plan_for(memory, declare_topic("t", 2, flush_ms="5"))
    assert find_change(waits).change.fields[0].assessment.hazard == "flush-interval"  # type: ignore[union-attr]
    claimed = claim_risk(waits, RiskAssessment(Risk.DISRUPTIVE, "replica-move"))
    assert find_change(judge_again(claimed, memory)).status is Status.PLANNED


@pytest.mark.parametrize(("days", "status"), [(1, Status.REFUSED), (60, Status.PLANNED)])
def test_consent_of_plan_covers_planned_value_only(memory: MemoryCluster, days: int, status: Status) -> None:
    create_topic(memory, "t")
    wanted = declare_topic("t", retention_ms=str(days * int(DAY)))
    plan = save_plan(plan_for(memory, wanted, allow="Topic/t:retention-cut"))
    assert find_change(judge_again(plan, memory)).status is Status.PLANNED
    month = str(30 * int(DAY))
    facts, observed = memory.facts(), memory.observe([topic("t")])
    facts = replace(
        facts, config_defaults={"Topic": {**facts.config_defaults["Topic"], "retention.ms": month}}
    )
    live = observed.resources[topic("t")]
    live = replace(live, effective={**live.effective, "config.retention.ms": month})
    now = find_change(judge_by(plan, replace(observed, resources={topic("t"): live}), facts, Policy()))
    assert now.status is status
    risen = "retention.ms in force before the change is 30d now, and 7d in the plan"
    assert (risen in str(now.reason)) is (status is Status.REFUSED)


def test_current_settings_apply_to_saved_plan(memory: MemoryCluster) -> None:
    for name in ("cut", "gone"):
        create_topic(memory, name, retention_ms=WEEK)
    cuts = plan_for(memory, declare_topic("cut", retention_ms=DAY), absent("gone"), allow="destructive")
    plan = save_plan(cuts)
    assert {c.status for c in judge_again(plan, memory).changes} == {Status.PLANNED}
    settings = Settings(protected=("g*",), rules=QUIET)
    cut, gone = judge_again(plan, memory, "destructive", settings=settings).changes
    assert (cut.status, gone.status) == (Status.PLANNED, Status.REFUSED)
    assert gone.reason == "its name is protected in kafkaform.yaml"
    manifests = {topic("gone"): Intent(deletion_protection=True)}
    _, gone = judge_again(plan, memory, intents=manifests).changes
    assert gone.reason == "spec.deletionProtection is true"
    cut, gone = judge_again(plan, memory, settings=Settings(rules={**QUIET, "KF403": "error"})).changes
    assert (cut.status, gone.status) == (Status.REFUSED, Status.PLANNED)
    assert str(cut.reason).startswith("KF403:")


def test_blast_radius_applies_to_whole_plan_only(memory: MemoryCluster) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for name in names:
        create_topic(memory, name, retention_ms=WEEK)
    desired = [declare_topic(name, retention_ms=DAY if n < 6 else WEEK) for n, name in enumerate(names)]
    wide = Settings(rules=QUIET, limits=ProjectLimits(blast_radius=0.5))
    request = Request(desired, allow=(Grant.parse("destructive"),))
    plan = save_plan(build_plan(request, memory, wide, None))
    assert {c.status for c in judge_again(plan, memory, settings=wide).changes} == {Status.PLANNED}
    held = judge_again(plan, memory)
    assert {c.status for c in held.changes} == {Status.REFUSED}
    assert (held.changes[0].reason or "").startswith("KF404: 6 of 12 topics (50 %)")
    part = save_plan(build_plan(replace(request, subset=True), memory, Settings(rules=QUIET), None))
    assert part.subset
    assert {c.status for c in judge_again(part, memory).changes} == {Status.PLANNED}
    assert [narrow(plan, [glob]).subset for glob in ("Topic/t00", "*")] == [True, False]
    assert narrow(part, ["*"]).subset


CONSENTED = "retention-cut from 7d"
UNREAD = "unread-data from 7d"


def declare_cut(*allow: str) -> Desired:
    desired = declare_topic("a", 3, retention_ms=DAY)
    return replace(desired, intent=Intent(allow=dict.fromkeys(allow, "T-1")))


def list_missing_consents(plan: Plan) -> tuple[Status, tuple[str, ...]]:
    change = find_change(plan)
    return change.status, change.missing


def test_unread_data_consent_does_not_cover_readable_data() -> None:
    memory = MemoryCluster()
    create_topic(memory, "a", retention_ms=WEEK)
    memory.fill(topic("a"), 3_000)
    whole = plan_for(memory, declare_cut(CONSENTED))
    assert list_missing_consents(whole) == (Status.PLANNED, ())
    memory.stop_broker(2)
    waiting = (Status.NEEDS_CONSENT, ("unread-data",))
    assert list_missing_consents(plan_for(memory, declare_cut(CONSENTED))) == waiting
    assert list_missing_consents(plan_for(memory, declare_cut(), allow="Topic/a:retention-cut")) == waiting
    part = plan_for(memory, declare_cut(CONSENTED, UNREAD))
    assert list_missing_consents(part) == (Status.PLANNED, ())
    assert {found.code for found in part.diagnostics} & {"KF417"} == set()
    (field,) = cast("Update", find_change(part).change).fields
    assert "1 of 3 partitions could not be read (broker 2 does not answer)" in field.assessment.reason
    assert str(field.assessment.remedy).startswith("start broker 2, then plan again")
    assert list_missing_consents(judge_again(save_plan(whole), memory)) == waiting
    assert list_missing_consents(judge_again(save_plan(part), memory)) == (Status.PLANNED, ())
    memory.start_broker(2)
    cut_waits = (Status.NEEDS_CONSENT, ("retention-cut",))
    assert list_missing_consents(judge_again(save_plan(part), memory)) == cut_waits
    assert list_missing_consents(plan_for(memory, declare_cut(UNREAD))) == cut_waits
