"""Commands on several clusters: which are selected, their order, and their plans side by side."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self
from unittest.mock import patch

import pytest

from kafkaform.cli.fleet import combine_exit_codes, plan_path
from kafkaform.cli.output import render
from kafkaform.cli.session import Session
from kafkaform.config.manifests import loader
from kafkaform.core.errors import ClusterError, UsageError
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.plans import Plan
from kafkaform.report.fleet import (
    ClusterReport,
    FailedCluster,
    fleet_sentence,
    fleet_to_json,
    fleet_to_markdown,
    render_fleet,
)
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project
from tests.support.cli.signing import write_keys
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import HEADER
from tests.support.plans.scenes import declare_topic, plan_for, state_of, topic

LABELS = {"staging": {}, "eu": {"region": "eu"}, "us": {"region": "us"}, "asia": {"region": "asia"}}
CLUSTERS = {
    name: {"labels": labels, "client": {"bootstrap.servers": f"{name}:9092"}}
    for name, labels in LABELS.items()
}
STAGES = [["staging"], {"clusters": ["region=eu"]}, ["*"]]


class Down(Connected):
    """A cluster of which no broker answers."""

    def facts(self, *_: object, **__: object) -> Any:
        raise ClusterError("no broker answers")

    observe = facts


class Restarting(Connected):
    """A cluster whose health cannot be read any more once it was applied to."""

    def health(self) -> Any:
        if self.executed:
            raise ClusterError("no broker answers")
        return super().health()


@pytest.fixture
def fleet(project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, Connected]:
    fleet = {name: Connected(name) for name in CLUSTERS}
    monkeypatch.setattr(Session, "cluster", lambda session: fleet[session.require_cluster().name])
    project.config(clusters=CLUSTERS, stages=STAGES)
    project.topic("t")
    return fleet


def apply(project: Project, *selectors: str, more: tuple[str, ...] = ()) -> Call:
    chosen = [word for selector in selectors for word in ("--clusters", selector)]
    return project.run("apply", *chosen, "--auto-approve", *more)


def list_outcomes(call: Call) -> dict[str, str]:
    rows = [line.split(maxsplit=2) for line in call.out.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0].isdigit() and row[1] in CLUSTERS}


def test_stages_are_applied_in_order(project: Project, fleet: dict[str, Connected]) -> None:
    call = apply(project, "*").needs(0)
    order = [line.rpartition(" ")[2] for line in call.err.splitlines() if line.startswith("stage ")]
    assert order == ["staging", "eu", "asia", "us"]
    assert set(list_outcomes(call).values()) == {"complete"}
    assert "\n\nSTAGE  CLUSTER" in call.out
    assert all(state_of(cluster, f"{project.prefix}t") for cluster in fleet.values())


def test_failed_cluster_does_not_stop_own_stage(project: Project, fleet: dict[str, Connected]) -> None:
    fleet["us"] = Down("us")
    outcomes = list_outcomes(apply(project, "us", "asia").needs(1))
    assert outcomes == {"us": "failed: see above", "asia": "complete"}


def test_failed_stage_is_reported_and_stops_apply(project: Project, fleet: dict[str, Connected]) -> None:
    fleet["eu"] = Down("eu")
    clusters = apply(project, "*", more=("--format", "json")).needs(1).json["clusters"]
    assert {name: each["outcome"] for name, each in clusters.items()} == {
        "staging": "applied",
        "eu": "failed",
        "us": "not_started",
        "asia": "not_started",
    }
    assert clusters["staging"]["result"]["summary"]["applied"] == 1
    assert clusters["eu"]["error"] == "no broker answers"
    markdown = apply(project, "*", more=("--format", "markdown")).needs(1).out
    assert "| 2 | `eu` | failed: no broker answers |" in markdown
    assert markdown.count("## kafkaform apply") == 2
    assert "Stopped after stage 2" in apply(project, "*").needs(1).out
    fleet["eu"] = Connected("eu")
    assert set(list_outcomes(apply(project, "*").needs(0)).values()) == {"complete"}


def test_next_stage_waits_for_health(project: Project, fleet: dict[str, Connected]) -> None:
    project.config(clusters=CLUSTERS, stages=[{"clusters": ["staging"], "waitHealthy": "1ms"}, ["*"]])
    fleet["staging"] = Restarting("staging")
    call = apply(project, "staging", "eu").needs(1)
    assert list_outcomes(call) == {"staging": "applied, but not healthy", "eu": "not started"}
    fleet["staging"] = Connected("staging")
    call = apply(project, "staging", "eu").needs(0)
    assert "until cluster staging is healthy" in call.err
    assert set(list_outcomes(call).values()) == {"complete"}


def save_plans(project: Project, *more: object) -> None:
    project.run("plan", "--clusters", "eu", "--clusters", "us", "--out", "p.json", *more).needs(0)


def check_refusal(project: Project, fleet: dict[str, Connected], reason: str, *more: str) -> None:
    call = apply(project, "eu", "us", more=("p.json", *more)).needs(1)
    assert reason in call.err
    assert not any(state_of(cluster, f"{project.prefix}t") for cluster in fleet.values())
    assert "stage 1" not in call.err


def test_exchanged_or_missing_plan_of_a_set_is_refused(project: Project, fleet: dict[str, Connected]) -> None:
    save_plans(project)
    file = project.folder / "p.us.json"
    older = file.read_bytes()
    project.topic("more")
    save_plans(project)
    file.write_bytes(older)
    check_refusal(project, fleet, "p.us.json: not the plan of us that was saved with p.json")
    for name in ("p.us.json", "p.json"):
        (project.folder / name).unlink()
        check_refusal(project, fleet, f"{name}: No such file")


def test_cluster_without_a_plan_in_the_set_is_refused(project: Project, fleet: dict[str, Connected]) -> None:
    fleet["asia"] = Down("asia")
    project.run("plan", "--clusters", "*", "--out", "p.json").needs(1)
    call = apply(project, "*", more=("p.json",)).needs(1)
    assert "p.json: it has no plan of asia" in call.err
    assert "stage 1" not in call.err
    apply(project, "eu", "us", more=("p.json",)).needs(0)


def test_set_is_signed_and_verified(project: Project, fleet: dict[str, Connected]) -> None:
    private, public = write_keys(project.folder, "ci")
    _, other_key = write_keys(project.folder, "other")
    save_plans(project)
    check_refusal(project, fleet, "p.json: the plan is not signed", "--verify-key", str(public))
    save_plans(project, "--sign-key", private)
    check_refusal(project, fleet, "p.json: the plan is signed for review", "--verify-key", str(public))
    save_plans(project, "--sign-key", private, "--sign-for", "apply")
    check_refusal(project, fleet, "p.json: the plan is signed with the key", "--verify-key", str(other_key))
    whole = json.loads((project.folder / "p.json").read_text())
    forged = {**whole, "plans": {**whole["plans"], "us": whole["plans"]["eu"]}}
    (project.folder / "p.json").write_text(json.dumps(forged))
    check_refusal(project, fleet, "p.json: the signature does not match", "--verify-key", str(public))
    (project.folder / "p.json").write_text(json.dumps(whole))
    apply(project, "eu", "us", more=("p.json", "--verify-key", str(public))).needs(0)


def test_key_of_each_cluster_verifies_the_set(project: Project, fleet: dict[str, Connected]) -> None:
    private, public = write_keys(project.folder, "ci")
    save_plans(project)
    signed = {**CLUSTERS, "us": {**CLUSTERS["us"], "verifyKey": str(public)}}
    project.config(clusters=signed, stages=STAGES)
    check_refusal(project, fleet, "p.json: the plan is not signed")
    save_plans(project, "--sign-key", private, "--sign-for", "apply")
    apply(project, "eu", "us", more=("p.json",)).needs(0)


def test_plan_exchanged_during_apply_is_refused(project: Project, fleet: dict[str, Connected]) -> None:
    save_plans(project)

    class Exchanging(Connected):
        """A cluster whose apply replaces the plan of the next one."""

        def execute(self, *arguments: Any, **options: Any) -> Any:
            file = project.folder / "p.us.json"
            file.write_text(file.read_text() + "\n")
            return super().execute(*arguments, **options)

    fleet["eu"] = Exchanging("eu")
    save_plans(project)
    call = apply(project, "eu", "us", more=("p.json",)).needs(1)
    assert list_outcomes(call) == {"eu": "complete", "us": "failed: see above"}
    assert "p.us.json: not the plan of us" in call.err


def test_set_of_reviewed_plans_is_compared(project: Project, fleet: dict[str, Connected]) -> None:
    save_plans(project)
    project.topic("more")
    call = apply(project, "eu", more=("--reviewed", "p.json")).needs(1)
    assert "not as reviewed: Topic/" in call.err
    save_plans(project)
    apply(project, "eu", "us", more=("--reviewed", "p.json")).needs(0)
    assert state_of(fleet["us"], f"{project.prefix}more")


@pytest.mark.usefixtures("fleet")
def test_set_is_no_plan_of_one_cluster(project: Project) -> None:
    save_plans(project)
    for command in (("apply", "p.json", "--auto-approve"), ("show", "p.json")):
        assert "p.json: it is the set of the plans of several clusters" in project.run(*command).needs(1).err
    call = apply(project, "eu", more=("p.eu.json",)).needs(1)
    assert "p.eu.json: not a valid set of plans" in call.err


class Counted(Connected):
    """A cluster that counts how many are open at the same time."""

    opened: ClassVar[list[int]] = []

    def __enter__(self) -> Self:
        self.opened.append((self.opened or [0])[-1] + 1)
        time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.append(self.opened[-1] - 1)


def test_overview_has_line_per_cluster(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"c{number:02}" for number in range(20)]
    clusters: dict[str, Connected] = {name: Counted(name) for name in names}
    clusters["c15"] = Down("c15")
    monkeypatch.setattr(Session, "cluster", lambda session: clusters[session.require_cluster().name])
    project.config(clusters={name: {"client": {"bootstrap.servers": f"{name}:9092"}} for name in names})
    project.topic("t")
    project.run("apply", "--cluster", "c07", "--auto-approve").needs(0)
    project.run("apply", "--cluster", "c08", "--auto-approve").needs(0)
    clusters["c08"].execute([AlterConfigs(topic(f"{project.prefix}t"), {"retention.ms": "1"})])
    overview = ("status", "--clusters", "*", "--overview")
    with patch.object(loader, "parse", side_effect=loader.parse) as parse:
        call = project.run(*overview).needs(1)
    assert parse.call_count == 1
    lines = call.out.splitlines()
    assert lines[1].split() == ["c15", "not", "read"]
    assert [line.split()[0] for line in lines[2:21]] == [name for name in names if name != "c15"]
    table = {line.split()[0]: line.split()[1:] for line in lines[2:21]}
    assert table["c00"] == ["1", "-", "0", "unhealthy", "-"]
    assert table["c07"] == ["0", "-", "0", "healthy", "-"]
    # A declared topic that is missing is unhealthy, too.
    assert call.out.endswith("20 clusters: 17 changes, 1 drifted, 17 unhealthy, 1 not read.\n")
    assert 1 < max(Counted.opened) <= 8
    data = project.run(*overview, "--format", "json").needs(1).json["clusters"]
    assert (data["c00"]["plan"]["create"], data["c08"]["drift"]["resources"]) == (1, 1)
    assert "no broker answers" in data["c15"]["error"]["message"]
    assert "| `c15` |" in project.run(*overview, "--format", "markdown").needs(1).out
    project.run("status", "--clusters", "c07", "--overview").needs(0)
    project.run("status", "--clusters", "c08", "--overview").needs(2)


def test_compare_and_arrivals_cover_several_clusters(project: Project, fleet: dict[str, Connected]) -> None:
    apply(project, "staging", "eu").needs(0)
    fleet["asia"] = Down("asia")
    compared = project.run("compare", "staging", "--clusters", "*", "--format", "json").needs(1).json
    counts = {name: len(each.get("differences", "?")) for name, each in compared["clusters"].items()}
    assert counts == {"asia": 1, "eu": 0, "us": 1}
    project.run("compare", "staging", "--clusters", "eu").needs(0)
    counted = project.run("arrivals", "--clusters", "*").needs(1)
    # One is down, and one has no topics yet.
    assert counted.out.endswith("4 clusters: 2 too little data, 2 not read.\n")


@pytest.mark.usefixtures("fleet")
def test_cluster_without_stage_is_refused_before_apply(project: Project) -> None:
    project.config(clusters=CLUSTERS, stages=[["staging"], ["region=eu"]])
    call = apply(project, "*").needs(64)
    assert ("asia, us" in call.err, "stage 1" in call.err) == (True, False)


def build_cluster_report(name: str, plan: Plan, output_format: str = "text") -> ClusterReport:
    return ClusterReport(name, "prod", plan, partial(render, "plan", output_format, plan, header=HEADER))


def test_worst_exit_code_wins() -> None:
    assert [combine_exit_codes(codes) for codes in ([0, 2, 0], [2, 1, 0], [0, 0])] == [2, 1, 0]


def test_fleet_plan_files_are_named_by_cluster() -> None:
    assert plan_path(Path("out/plan.json"), "prod eu") == Path("out/plan.prod eu.json")
    with pytest.raises(UsageError, match="cannot be part"):
        plan_path(Path("plan.json"), "../../etc")


def test_fleet_markdown_stays_within_comment_limit(memory: MemoryCluster) -> None:
    big, small = (plan_for(memory, *(declare_topic(f"t{n}" * 3) for n in range(count))) for count in (400, 1))
    members = [build_cluster_report(f"c{n}", big if n % 2 else small, "markdown") for n in range(14)]
    text = fleet_to_markdown(members)
    assert len(text) <= 65_536
    shown = text.count("### Changes")
    assert shown + text.count("report left out: too long") == 14
    assert shown >= 7


def test_fleet_output_is_printable_and_counts_held_back(memory: MemoryCluster) -> None:
    # What came from outside is printable.
    failed = [FailedCluster("c\x1b[2J", "e\x1b", "no\x1b[31m answer", "h\x07", ("p\x1b",))]
    assert not {"\x1b", "\x07"} & {
        *render_fleet(failed).plain,
        *fleet_to_json(failed),
        *fleet_to_markdown(failed),
    }
    assert json.loads(fleet_to_json(failed))["clusters"]["c\x1b[2J"]["error"]["problems"] == ["p\x1b"]
    plan = plan_for(memory, declare_topic("a", replicas=9))
    assert fleet_sentence([build_cluster_report("a", plan)]) == "1 cluster: 1 change on 1 (1 held back)."
