"""Profiles on the command line: what is validated, planned, consented to and explained."""

from typing import Any

import pytest
import yaml

from kafkaform.core.operations import AlterConfigs
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project, manifest
from tests.support.github.git_work import Work
from tests.support.plans.scenes import create_topic, topic

pytestmark = pytest.mark.usefixtures("connected")
CLUSTERS = {
    name: {"environment": "prod", "client": {"bootstrap.servers": f"{name}:9092"}} for name in ("eu", "us")
}
PROFILES: dict[str, Any] = {
    "standard": {"Topic": {"partitions": 3, "config": {"segment.ms": "1h"}}},
    "events": {
        "extends": "standard",
        "Topic": {"retention": "7d", "overrides": {"us": {"retention": "5d"}}},
        "ConsumerGroup": {"lag": {"maxRecords": 10}},
        "limits": {"retention.ms": {"max": "30d"}, "partitions": {"max": 12}},
    },
}
DEFAULTS = {"Topic": {"replicationFactor": 1}}


QUIET = {"KF108": "off", "KF110": "off"}


def configure(project: Project, profiles: dict[str, Any] = PROFILES, **more: Any) -> None:
    project.config(clusters=CLUSTERS, defaults=DEFAULTS, profiles=profiles, rules=QUIET, **more)


def write_topics(project: Project, count: int, **spec: Any) -> None:
    for number in range(count):
        text = manifest(f"t{number}", {"profile": "events", **spec}, {"labels": {"team": "a"}})
        project.write(f"topics/t{number}.yaml", text)


def apply_topics(project: Project, count: int, profiles: dict[str, Any] = PROFILES, **more: Any) -> None:
    configure(project, profiles, **more)
    write_topics(project, count)
    project.apply("--cluster", "eu").needs(0)


def explain(project: Project, cluster: str, name: str = "t0") -> dict[str, Any]:
    call = project.run("explain", f"Topic/{name}", "--cluster", cluster, "--format", "json").needs(0)
    return {field["path"]: field["settings"] for field in call.json["fields"]}


def test_profile_change_is_planned_and_consented_by_profile_name(project: Project) -> None:
    configure(project)
    write_topics(project, 3)
    # This one sets the value itself, and another one sets a second value with that of the profile.
    project.write("topics/own.yaml", manifest("own", {"profile": "events", "retention": "9d"}))
    project.write("topics/both.yaml", manifest("both", {"profile": "events", "keyed": False}))
    project.apply("--cluster", "eu").needs(0)
    events = {**PROFILES["events"], "Topic": {**PROFILES["events"]["Topic"], "retention": "3d"}}
    configure(project, {**PROFILES, "events": events})
    both = {"profile": "events", "config": {"segment.ms": "2h"}}
    project.write("topics/both.yaml", manifest("both", both))
    planned = project.run("plan", "--cluster", "eu")
    assert "profile events: 3 topics  kafkaform.yaml:" in planned.out
    assert planned.out.count("profile events") == 1
    assert "consent: --allow profile/events:retention-cut" in planned.out
    saved = project.run("plan", "--cluster", "eu", "--format", "json").json
    layers = {change["name"]: change.get("layer") for change in saved["changes"]}
    assert layers == {"both": None, "t0": "profile/events", "t1": "profile/events", "t2": "profile/events"}
    # The consent does not cover the change that the manifest asks for, too.
    applied = project.apply("--cluster", "eu", "--allow", "profile/events:retention-cut")
    assert applied.code == 1
    after = project.run("plan", "--cluster", "eu", "--format", "json").json
    assert [change["name"] for change in after["changes"]] == ["both"]


def test_increased_risk_needs_new_profile_consent(project: Project, connected: Connected) -> None:
    apply_topics(project, 1)
    configure(project, {**PROFILES, "standard": {"Topic": {"partitions": 6, "config": {"segment.ms": "1h"}}}})
    project.run("plan", "--cluster", "eu", "--out", "p.json").needs(0)
    assert connected.execute([AlterConfigs(topic("t0"), {"cleanup.policy": "compact"})]) == [None]
    refused = project.apply("p.json").needs(1)
    assert "riskier than in the plan" in refused.out
    project.apply("p.json", "--allow", "profile/standard:partition-increase-compacted").needs(0)


def test_explanation_lists_each_layer_with_location(project: Project) -> None:
    configure(project)
    write_topics(project, 1, retention="2d")
    settings = explain(project, "us")
    assert [(each["layer"], each["value"]) for each in settings["config.retention.ms"]] == [
        ("manifest", "2d"),
        ("profile/events, in us", "5d"),
        ("profile/events", "7d"),
    ]
    assert settings["replicationFactor"][0]["layer"] == "defaults"
    assert settings["partitions"][0]["layer"] == "profile/standard"
    lines = (project.folder / "kafkaform.yaml").read_text().splitlines()
    assert "7d" in lines[settings["config.retention.ms"][2]["source"]["line"] - 1]
    text = project.run("explain", "Topic/t0", "--cluster", "us").needs(0)
    assert "profile events, in us" in text.out
    assert "did you mean" in project.run("explain", "Topic/t9", "--cluster", "us").needs(64).err


LIMITS: list[tuple[dict[str, Any], list[list[str] | None]]] = [
    ({"retention": "60d"}, [None]),
    # Without a limit is more than any limit.
    ({"retention": -1}, [None]),
    ({"partitions": 24}, [None]),
    ({"retention": "30d", "partitions": 12}, []),
    ({"overrides": {"us": {"partitions": 24}}}, [["us"]]),
]


@pytest.mark.parametrize(("spec", "scopes"), LIMITS)
def test_profile_limit_is_reported_per_environment(
    spec: dict[str, Any], scopes: list[list[str] | None], project: Project
) -> None:
    configure(project)
    write_topics(project, 1, **spec)
    found = project.run("validate", "--format", "json").json["diagnostics"]
    beyond = [each["environments"] for each in found if each["code"] == "profile/events"]
    assert beyond == scopes


def test_import_derives_profiles(project: Project, connected: Connected) -> None:
    event = {"retention_ms": "604800000", "segment_ms": "3600000"}
    for number in range(6):
        create_topic(connected, f"e{number}", 12, 1, **event)
    for number in range(5):
        create_topic(connected, f"t{number}", 6, 1, cleanup_policy="compact")
    create_topic(connected, "e7", 12, 1, **event, compression_type="zstd")
    configure(project, {}, manifests=["topics"])
    found = yaml.safe_load(project.run("import", "--profiles", "--cluster", "eu").needs(0).out)["profiles"]
    assert {name: profile["Topic"]["partitions"] for name, profile in found.items()} == {
        "delete-7d-12": 12,
        "compact-6": 6,
    }
    # One that says what no cluster stores is the choice of a person.
    configure(project, {**found, "unkeyed": {"Topic": {**found["compact-6"]["Topic"], "keyed": False}}})
    project.run("import", "--cluster", "eu").needs(0)
    written = (project.folder / "topics").rglob("*.yaml")
    specs = {path.stem: yaml.safe_load(path.read_text())["spec"] for path in written}
    assert specs["e1"] == {"profile": "delete-7d-12"}
    assert specs["e7"] == {"config": {"compression.type": "zstd"}, "profile": "delete-7d-12"}
    assert specs["t1"] == {"profile": "compact-6"}
    project.run("plan", "--cluster", "eu", "--detailed-exitcode").needs(0)
    assert "besides those of the profiles" in project.run("import", "--profiles", "--cluster", "eu").err


def set_retention(connected: Connected, value: str, *names: str) -> None:
    for name in names:
        assert connected.execute([AlterConfigs(topic(name), {"retention.ms": value})]) == [None]


def read_retention(project: Project, cluster: str, name: str) -> list[tuple[str, object]]:
    settings = explain(project, cluster, name)["config.retention.ms"]
    return [(setting["layer"], setting["value"]) for setting in settings]


TWO_DAYS = "172800000"


def test_adopted_drift_of_whole_profile_edits_profile(project: Project, connected: Connected) -> None:
    apply_topics(project, 3)
    set_retention(connected, TWO_DAYS, "t0", "t1", "t2")
    manifests = [path.read_text() for path in sorted(project.folder.glob("topics/*.yaml"))]
    adopted = project.run("drift", "--cluster", "eu", "--adopt").needs(0)
    assert "kafkaform.yaml" in adopted.out
    assert [path.read_text() for path in sorted(project.folder.glob("topics/*.yaml"))] == manifests
    # The other cluster of the environment keeps its own value.
    assert read_retention(project, "eu", "t0")[0] == ("profile/events", "2d")
    assert read_retention(project, "us", "t0")[0] == ("profile/events, in us", "5d")
    project.run("drift", "--cluster", "eu").needs(0)


@pytest.mark.parametrize("paths", [("topics/t0.yaml", "topics/t1.yaml"), ()])
def test_adopted_drift_of_some_resources_edits_manifests(
    paths: tuple[str, ...], project: Project, connected: Connected
) -> None:
    apply_topics(project, 3)
    # With paths, others that are not read may inherit the value.
    set_retention(connected, TWO_DAYS, *(("t0", "t1") if not paths else ("t0", "t1", "t2")))
    before = (project.folder / "kafkaform.yaml").read_text()
    Work(project.folder).commit()
    file = project.folder / "topics/t0.yaml"
    file.write_text(file.read_text() + "# not applied\n")
    adopted = project.run("drift", *paths, "--cluster", "eu", "--adopt").needs(0)
    assert "warning: topics/t0.yaml has changes of this branch" in adopted.err
    assert "topics/t1.yaml has changes" not in adopted.err
    assert (project.folder / "kafkaform.yaml").read_text() == before
    assert read_retention(project, "eu", "t0")[0][0].startswith("manifest")
    assert read_retention(project, "eu", "t2")[0] == ("profile/events", "7d")


def test_profiles_of_another_repository_are_not_edited(
    project: Project, connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKAFORM_CACHE", str(project.folder / "cache"))
    (project.folder / "platform").mkdir()
    platform = Work(project.folder / "platform")
    shared = {"apiVersion": "kafkaform/v1", "kind": "Config", "profiles": PROFILES}
    commit = platform.commit(**{"profiles.yaml": yaml.safe_dump(shared)})
    source = {"repository": str(platform.folder), "commit": commit, "path": "profiles.yaml"}
    apply_topics(project, 2, {}, profilesFrom=source)
    (setting,) = explain(project, "eu")["config.retention.ms"]
    assert (setting["layer"], setting["source"]["file"]) == ("profile/events", f"profiles.yaml@{commit[:12]}")
    set_retention(connected, TWO_DAYS, "t0", "t1")
    project.run("drift", "--cluster", "eu", "--adopt").needs(0)
    assert read_retention(project, "eu", "t0")[0] == ("manifest, in eu", "2d")
    assert platform.git("status", "--porcelain") == ""


@pytest.mark.parametrize("names", [("t0", "t1"), ("t0",)])
def test_adopted_drift_leaves_other_clusters_of_environment(
    names: tuple[str, ...], project: Project, connected: Connected
) -> None:
    apply_topics(project, 2, {"events": {"Topic": {"partitions": 3, "retention": "7d"}}})
    set_retention(connected, TWO_DAYS, *names)
    assert "in spec.overrides.eu.config" in project.run("drift", "--cluster", "eu").needs(2).out
    project.run("drift", "--cluster", "eu", "--adopt").needs(0)
    layer = "profile/events" if len(names) == 2 else "manifest"
    assert read_retention(project, "eu", "t0")[0] == (f"{layer}, in eu", "2d")
    assert read_retention(project, "us", "t0") == [("profile/events", "7d")]
