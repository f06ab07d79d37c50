"""Profiles in kafkaform.yaml: what is read, and what is refused."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import load
from kafkaform.config.settings import read_settings
from kafkaform.core.errors import InvalidInput
from tests.support.cli.project import manifest
from tests.support.golden import list_texts

HEAD = "apiVersion: kafkaform/v1\nkind: Config\nenvironments: [dev, prod]\n"
EVENTS = "profiles:\n  events: {Topic: {partitions: 2, replicationFactor: 1}}\n"


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("topics").mkdir()


def list_problems(config: str, **specs: dict[str, object]) -> list[str]:
    """Read a configuration and one manifest a kind; return the places and the hints of all problems."""
    Path("kafkaform.yaml").write_text(HEAD + config)
    for kind, spec in specs.items():
        Path(f"topics/{kind}.yaml").write_text(manifest("a", spec, kind=kind))
    try:
        settings = read_settings(Path("kafkaform.yaml"))
        load([Path("topics")], settings.build_context("dev"))
    except InvalidInput as error:
        return [str(problem) for problem in error.problems]
    return []


INVALID = (
    "profiles: {standard: {Topic: {}}, c: {extends: standrad}}",
    "profiles: {a: {extends: a}}",
    "profiles: {a: {extends: b}, b: {extends: a}, c: {extends: a}}",
    "profiles: {a: {Topic: {partitons: 3}}}",
    "profiles: {a: {Topic: {config: {retention.ms: x}}}}",
    "profiles: {a: {Topic: {overrides: {stagin: {}}}}}",
    "profiles: {a: {Topic: {state: absent}}}",
    "profiles: {a: {Topic: {succeeds: b}}}",
    "profiles: {a: {User: {}}}",
    "profiles: {a: {Topics: {}}}",
    "profiles: {a b: {}}",
    "profiles: {a: {limits: {retention.m: {max: 3d}}}}",
    "profiles: {a: {limits: {retention: {max: 3d}}}}",
    "profiles: {a: {limits: {partitions: {max: many}}}}",
    "profilesFrom: missing.yaml",
)


def test_invalid_profile_messages_match_golden(golden: SnapshotAssertion) -> None:
    assert list_texts({config: list_problems(config) for config in INVALID}) == golden(name="invalid.txt")


def test_unknown_profile_or_kind_is_refused() -> None:
    assert list_problems(EVENTS, Topic={"profile": "events"}) == []
    (problem,) = list_problems(EVENTS, Topic={"profile": "event"})
    assert problem.startswith("topics/Topic.yaml:")
    assert "did you mean 'events'?" in problem
    (problem,) = list_problems(
        EVENTS, Topic={"profile": "events"}, ConsumerGroup={"profile": "events", "topics": ["a"]}
    )
    assert problem.startswith("topics/ConsumerGroup.yaml:")
    Path("topics/ConsumerGroup.yaml").unlink()
    # Profiles are chosen once, for all environments.
    (problem,) = list_problems(EVENTS, Topic={"overrides": {"dev": {"profile": "events"}}})
    assert "profile" in problem


def test_resources_of_three_kinds_take_values_of_profile() -> None:
    Path("kafkaform.yaml").write_text(f"""{HEAD}
profiles:
  base:
    Topic: {{partitions: 2, retention: 7d, overrides: {{dev: {{partitions: 1}}}}}}
    ConsumerGroup: {{lag: {{maxRecords: 5}}}}
    Subject: {{compatibility: FULL}}
  own: {{extends: base, Topic: {{retention: 3d}}}}
""")
    specs: dict[str, dict[str, object]] = {
        "Topic": {"replicationFactor": 1},
        "ConsumerGroup": {"topics": ["a"], "lag": {"maxTime": "1h"}},
        "Subject": {"schema": '"string"'},
    }
    for kind, spec in specs.items():
        Path(f"topics/{kind}.yaml").write_text(manifest("a", {"profile": "own", **spec}, kind=kind))
    context = read_settings(Path("kafkaform.yaml")).build_context("dev")
    loaded = {declared.ref.kind: declared for declared in load([Path("topics")], context)}
    state = loaded["Topic"].state or {}
    assert (state["partitions"], state["config.retention.ms"]) == (1, "259200000")
    assert loaded["ConsumerGroup"].intent.spec["lag"] == {"maxRecords": 5, "maxTime": 3_600_000}
    assert (loaded["Subject"].state or {})["compatibility"] == "FULL"


def test_profiles_from_file_are_located() -> None:
    Path("shared").mkdir()
    shared = Path("shared/profiles.yaml")
    shared.write_text("apiVersion: kafkaform/v1\nkind: Config\n" + EVENTS)
    source = "profilesFrom: shared/profiles.yaml\n"
    assert list_problems(source + "profiles: {own: {extends: events}}", Topic={"profile": "own"}) == []
    # One name, one profile; and nothing but profiles is read from there.
    (problem,) = list_problems(source + "profiles: {events: {}}", Topic={"profile": "events"})
    assert problem.startswith("shared/profiles.yaml:4:3: ")
    assert "kafkaform.yaml:5:12" in problem
    shared.write_text(shared.read_text() + "clusters: {a: {client: {bootstrap.servers: 'a:1'}}}\n")
    assert [text.split(": ")[0] for text in list_problems(source)] == ["shared/profiles.yaml:5:1"]


def test_overrides_must_name_environment_or_cluster() -> None:
    clusters = "clusters: {eu: {environment: prod, client: {bootstrap.servers: 'a:1'}}}\n"
    counts = {"partitions": 1, "replicationFactor": 1}
    assert list_problems(clusters, Topic={**counts, "overrides": {"eu": {"partitions": 2}}}) == []
    (problem,) = list_problems(clusters, Topic={**counts, "overrides": {"us": {"partitions": 2}}})
    assert "known names: dev, prod, eu" in problem


def test_branch_profiles_outside_branch_are_refused(tmp_path: Path) -> None:
    branch = tmp_path / "branch"
    branch.mkdir()
    outside = HEAD.replace("environments: [dev, prod]\n", "") + EVENTS
    Path("outside.yaml").write_text(outside)
    Path("kafkaform.yaml").write_text(HEAD)
    trusted = read_settings(Path("kafkaform.yaml"))
    (branch / "kafkaform.yaml").write_text(HEAD + "profilesFrom: ../outside.yaml\n")
    with pytest.raises(InvalidInput) as caught:
        trusted.read_branch_settings(branch)
    assert str(caught.value.problems[0]).startswith("kafkaform.yaml:4:15: ")
    (branch / "inside.yaml").write_text(outside)
    (branch / "kafkaform.yaml").write_text(HEAD + "profilesFrom: inside.yaml\n")
    settings = trusted.read_branch_settings(branch)
    assert settings.branch is not None
    assert settings.branch.sections == {"profilesFrom"}
    assert "events" in settings.profiles
