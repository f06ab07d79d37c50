"""Commands on several clusters: which are selected, and in which order they are applied."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Self

import pytest

from kafkaform.cli.session import Session
from kafkaform.core.errors import ClusterError
from kafkaform.core.operations import AlterConfigs
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Call, Project
from tests.support.plans.scenes import state_of, topic

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
    """Return the outcome of each cluster, from the last table."""
    rows = [line.split(maxsplit=2) for line in call.out.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0].isdigit() and row[1] in CLUSTERS}


def test_stages_are_applied_in_order(project: Project, fleet: dict[str, Connected]) -> None:
    call = apply(project, "*").needs(0)
    order = [line.rpartition(" ")[2] for line in call.err.splitlines() if line.startswith("stage ")]
    assert order == ["staging", "eu", "asia", "us"]
    assert set(list_outcomes(call).values()) == {"complete"}
    assert all(state_of(cluster, f"{project.prefix}t") for cluster in fleet.values())


def test_apply_stops_after_a_stage_that_is_not_complete_and_goes_on_from_there(
    project: Project, fleet: dict[str, Connected]
) -> None:
    fleet["eu"] = Down("eu")
    call = apply(project, "*").needs(1)
    assert list_outcomes(call) == {
        "staging": "complete",
        "eu": "failed: see above",
        "us": "not started",
        "asia": "not started",
    }
    assert "no broker answers" in call.err
    assert "Stopped after stage 2" in call.out
    fleet["eu"] = Connected("eu")
    assert set(list_outcomes(apply(project, "*").needs(0)).values()) == {"complete"}


def test_stages_are_reported_in_every_format(project: Project, fleet: dict[str, Connected]) -> None:
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


def test_clusters_of_one_stage_do_not_stop_each_other(project: Project, fleet: dict[str, Connected]) -> None:
    fleet["us"] = Down("us")
    outcomes = list_outcomes(apply(project, "us", "asia").needs(1))
    assert outcomes == {"us": "failed: see above", "asia": "complete"}


def test_next_stage_waits_for_health(project: Project, fleet: dict[str, Connected]) -> None:
    project.config(clusters=CLUSTERS, stages=[{"clusters": ["staging"], "waitHealthy": "1ms"}, ["*"]])
    fleet["staging"] = Restarting("staging")
    call = apply(project, "staging", "eu").needs(1)
    assert list_outcomes(call) == {"staging": "applied, but not healthy", "eu": "not started"}
    fleet["staging"] = Connected("staging")
    call = apply(project, "staging", "eu").needs(0)
    assert "until cluster staging is healthy" in call.err
    assert set(list_outcomes(call).values()) == {"complete"}


def test_each_cluster_has_its_saved_plan(project: Project, fleet: dict[str, Connected]) -> None:
    project.run("plan", "--clusters", "eu", "--clusters", "us", "--out", "p.json").needs(0)
    assert sorted(path.name for path in project.folder.glob("p.*.json")) == ["p.eu.json", "p.us.json"]
    apply(project, "eu", "us", more=("p.json",)).needs(0)
    assert [bool(state_of(fleet[name], f"{project.prefix}t")) for name in ("staging", "eu", "us")] == [
        False,
        True,
        True,
    ]


class Counted(Connected):
    """A cluster that counts how many are open at the same time."""

    opened: ClassVar[list[int]] = []

    def __enter__(self) -> Self:
        self.opened.append((self.opened or [0])[-1] + 1)
        time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.append(self.opened[-1] - 1)


def test_overview_has_a_line_for_each_of_fifty_clusters(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c{number:02}" for number in range(50)]
    clusters: dict[str, Connected] = {name: Counted(name) for name in names}
    clusters["c30"] = Down("c30")
    monkeypatch.setattr(Session, "cluster", lambda session: clusters[session.require_cluster().name])
    project.config(clusters={name: {"client": {"bootstrap.servers": f"{name}:9092"}} for name in names})
    project.topic("t")
    project.run("apply", "--cluster", "c07", "--auto-approve").needs(0)
    project.run("apply", "--cluster", "c08", "--auto-approve").needs(0)
    clusters["c08"].execute([AlterConfigs(topic(f"{project.prefix}t"), {"retention.ms": "1"})])
    overview = ("status", "--clusters", "*", "--overview")
    call = project.run(*overview).needs(1)
    lines = call.out.splitlines()
    assert lines[1].split() == ["c30", "not", "read"]
    assert [line.split()[0] for line in lines[2:51]] == [name for name in names if name != "c30"]
    table = {line.split()[0]: line.split()[1:] for line in lines[2:51]}
    assert table["c00"] == ["1", "-", "0", "unhealthy", "-"]
    assert table["c07"] == ["0", "-", "0", "healthy", "-"]
    # A declared topic that is missing is unhealthy, too.
    assert call.out.endswith("50 clusters: 47 changes, 1 drifted, 47 unhealthy, 1 not read.\n")
    assert 1 < max(Counted.opened) <= 8
    data = project.run(*overview, "--format", "json").needs(1).json["clusters"]
    assert (data["c00"]["plan"]["create"], data["c08"]["drift"]["resources"]) == (1, 1)
    assert "no broker answers" in data["c30"]["error"]["message"]
    assert "| `c30` |" in project.run(*overview, "--format", "markdown").needs(1).out
    project.run("status", "--clusters", "c07", "--overview").needs(0)
    project.run("status", "--clusters", "c08", "--overview").needs(2)


def test_arrivals_and_comparisons_of_several_clusters(project: Project, fleet: dict[str, Connected]) -> None:
    apply(project, "staging", "eu").needs(0)
    fleet["asia"] = Down("asia")
    compared = (
        project.run("compare", "staging", "--clusters", "*", "--format", "json").needs(1).json["clusters"]
    )
    assert {name: len(each.get("differences", "?")) for name, each in compared.items()} == {
        "asia": 1,
        "eu": 0,
        "us": 1,
    }
    project.run("compare", "staging", "--clusters", "eu").needs(0)
    counted = project.run("arrivals", "--clusters", "*").needs(1)
    # One is down, and one has no topics yet.
    assert counted.out.endswith("4 clusters: 2 too little data, 2 not read.\n")


@pytest.mark.usefixtures("fleet")
def test_cluster_in_no_stage_is_refused_before_anything_is_applied(project: Project) -> None:
    project.config(clusters=CLUSTERS, stages=[["staging"], ["region=eu"]])
    call = apply(project, "*").needs(64)
    assert "asia, us" in call.err
    assert "stage 1" not in call.err
