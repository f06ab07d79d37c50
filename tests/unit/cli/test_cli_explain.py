"""`kafkaform explain`, `rules` and `client-config`: what fields, rules and groups mean, without a cluster."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.cli.explain import CONFIG
from kafkaform.core.schema_files import FieldSchema, find_field, list_fields, load_schema
from kafkaform.resources import KINDS
from tests.support.cli.project import Call, Project, manifest, run_in_process

SCHEMAS = {CONFIG: "config", **{name: kind.schema for name, kind in KINDS.items()}}


def list_all_fields(schema: str, field: FieldSchema, depth: int = 0) -> Iterator[FieldSchema]:
    """Yield all fields below a field; those of overrides and defaults are those of specs."""
    for below in list_fields(schema, field).values():
        yield below
        if depth < 4 and below.path not in {"spec.overrides", "defaults", "profiles"}:
            yield from list_all_fields(schema, below, depth + 1)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_field_is_explained(kind: str, tmp_path: Path) -> None:
    schema = SCHEMAS[kind]
    fields = list(list_all_fields(schema, FieldSchema("", load_schema(schema))))
    assert len(fields) > 5
    for field in fields:
        assert find_field(schema, field.path) == field
    json = run_in_process("explain", kind, "--format", "json", cwd=tmp_path).needs(0).json
    assert {below["path"] for below in json["fields"]} <= {field.path for field in fields}


@pytest.mark.parametrize(
    ("subject", "facts"),
    [
        ("Topic.spec.partitions", {"type": "a whole number", "bounds": "at least 1 and at most 100000"}),
        ("topics.spec.state", {"type": "present | absent", "default": "present"}),
        ("Topic.spec.config.retention.ms", {"type": "a duration", "default": "7d", "bounds": "at least -1"}),
        ("Topic.spec.config.cleanup.policy", {"type": "a list of texts", "values": "compact, delete"}),
        ("Topic.metadata.name", {"type": "text", "required": "yes"}),
        ("Topic.spec.overrides.retention.bytes", {"type": "a size or null"}),
        ("ConsumerGroup.spec.lag.maxTime", {"type": "a duration or null", "examples": "10m"}),
        ("access.spec.consumes.group", {"type": "text or a mapping", "required": "yes"}),
        ("config.clusters.moves.whenBusy", {"type": "refuse | wait", "default": "refuse"}),
    ],
)
def test_field_has_type_units_values_and_default(subject: str, facts: dict[str, str], tmp_path: Path) -> None:
    json = run_in_process("explain", subject, "--format", "json", cwd=tmp_path).needs(0).json
    assert json["description"]
    assert json.items() >= facts.items()
    assert ("units" in json) == any(unit in json["type"] for unit in ("duration", "size"))
    text = run_in_process("explain", subject, cwd=tmp_path).needs(0).words
    assert all(fact in text for fact in facts.values() if fact != "yes")


@pytest.mark.parametrize(
    ("subject", "suggested"),
    [
        ("Topic.spec.retenton", "did you mean `kafkaform explain Topic.spec.retention`?"),
        ("Topic.retention", "explain Topic.spec.retention`?"),
        ("Topic.spec.config.retention.m", "explain Topic.spec.config.retention.ms`?"),
        ("Topic.spec.partitions.x", "lists its fields"),
        ("Config.cluster", "explain Config.clusters`?"),
        ("topc.spec", "did you mean 'topic'?"),
        ("orders.v1", "a resource is written KIND/NAME"),
    ],
)
def test_unknown_field_or_kind_suggests_another(subject: str, suggested: str, tmp_path: Path) -> None:
    assert suggested in run_in_process("explain", subject, cwd=tmp_path).needs(64).err


def test_principal_suggests_manifest_that_declares_its_rights(project: Project) -> None:
    project.config()
    spec = {"principals": ["User:ada"], "produces": ["orders"]}
    project.write("topics/access.yaml", manifest("checkout", spec, kind="Access"))
    error = run_in_process("explain", "Access/User:ada", cwd=project.folder).needs(64).err
    assert "`kafkaform explain Access/checkout`" in error


POLICY = {"name": "wide", "message": "Topics are wide.", "require": {"fields": {"partitions": {"min": 3}}}}


def list_rules(project: Project, *arguments: str) -> Call:
    return run_in_process("rules", *arguments, cwd=project.folder)


def test_rules_json_has_kind_stage_and_waivability(project: Project) -> None:
    project.config(policies=[POLICY], rules={"policy/wide": "warning"})
    entries = {item["code"]: item for item in list_rules(project, "--format", "json").json}
    assert set(entries) == {*rules.list_entries(), "policy/wide"}
    wide = entries["policy/wide"]
    assert "partitions is at least 3" in wide["explanation"]
    assert {name: value for name, value in wide.items() if name != "explanation"} == {
        "code": "policy/wide",
        "kind": "policy",
        "severity": "error",
        "in_force": "warning",
        "stage": "manifests",
        "waivable": True,
        "origin": "kafkaform.yaml",
        "summary": "Topics are wide.",
    }
    kinds = {code: (entry["kind"], entry["stage"], entry["waivable"]) for code, entry in entries.items()}
    assert kinds["KF101"] == ("rule", "manifests", False)
    assert kinds["KF404"] == ("rule", "changes", entries["KF404"]["waivable"])
    assert kinds["KF410"] == ("note", None, False)


def test_rule_that_cannot_be_waived_is_marked(project: Project) -> None:
    assert "waiver     none: fix what it reports\n" in list_rules(project, "KF101").out
    note = list_rules(project, "KF410").out
    assert note.endswith("severity   fixed: this is a note, not a rule\n")
    assert "waiver" not in note


def test_policy_is_found_by_short_name(project: Project) -> None:
    project.config(policies=[POLICY])
    assert list_rules(project, "wide").out == list_rules(project, "policy/wide").out
    call = list_rules(project, "policy/wid").needs(64)
    assert "did you mean policy/wide?" in call.err


def test_broken_configuration_does_not_hide_the_rules(project: Project) -> None:
    project.config(rules={"KF1099": "info"})
    call = list_rules(project).needs(0)
    assert "kafkaform.yaml:8:3: there is no rule 'KF1099'" in call.err
    assert "KF109  error" in call.out


@pytest.fixture
def project(project: Project) -> Project:
    project.config()
    client = {"max.poll.interval.ms": "5m", "fetch.max.wait.ms": "1s"}
    client["partition.assignment.strategy"] = "cooperative-sticky"
    project.group("checkout", topics=["orders"], client=client)
    return project


def config(project: Project, name: str, *arguments: object) -> Call:
    return project.run("client-config", project.prefix + name, *arguments)


def test_each_format_uses_reader_specific_settings(project: Project) -> None:
    head = f"group.id={project.prefix}checkout\ngroup.protocol=classic\n"
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    assert config(project, "checkout").needs(0).out == (
        f"{head}fetch.max.wait.ms=1000\nmax.poll.interval.ms=300000\npartition.assignment.strategy={java}\n"
    )
    assert config(project, "checkout", "--format", "librdkafka").needs(0).out == (
        f"{head}fetch.wait.max.ms=1000\nmax.poll.interval.ms=300000\n"
        "partition.assignment.strategy=cooperative-sticky\n"
    )
    shown = {name: config(project, "checkout", "--format", name).needs(0) for name in ("json", "yaml", "env")}
    assert shown["json"].json["max.poll.interval.ms"] == "300000"
    assert "max.poll.interval.ms: '300000'\n" in shown["yaml"].out
    assert "KAFKA_CONSUMER_MAX_POLL_INTERVAL_MS=300000\n" in shown["env"].out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("x.chekout", "no manifest declares a group 'x.chekout'"),
        ("x.chekout", "did you mean 'x.checkout'?"),
        ("x.orders", "groups: x.checkout"),
        ("x.orders topics/orders.yaml", "no manifest declares a group"),
        ("x.gone", "declared to be absent"),
        ("x.checkout --without fetch.max.wait", "--without fetch.max.wait: "),
        ("x.checkout --without fetch.max.wait", "did you mean 'fetch.max.wait.ms'?"),
    ],
)
def test_unknown_group_or_setting_suggests_another(project: Project, arguments: str, words: str) -> None:
    project.topic("orders")
    project.group("gone", state="absent")
    assert words in project.run("client-config", *arguments.split()).needs(64).err
