"""Subjects: what a manifest declares, what differs between schemas, and the risk of a change."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import yaml

from kafkaform.cli.session import Session
from kafkaform.cluster.schema_registry import RegistryResponse
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import Facts, FieldChange, Intent, ResourceRef, Risk, Update
from kafkaform.resources import KINDS
from kafkaform.resources.base import UpdateContext, UsageFacts
from kafkaform.resources.subject import SubjectKind
from kafkaform.resources.subject.operations import AlterSubject
from kafkaform.resources.subject.schema import (
    RegisteredSchema,
    SchemaReference,
    are_equal,
    describe_difference,
    parse_value,
)
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import ROOT, Project, manifest
from tests.support.github.git_work import Work
from tests.support.plans.scenes import QUIET

REF = ResourceRef("Subject", "orders-value")
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "spec.schema is missing"),
        ({"schema": "{nonsense"}, "not JSON"),
        ({"schema": '{"type": "record", "fields": []}'}, "has no name"),
        ({"schema": '{"type": "record", "name": "A"}'}, "no list of fields"),
        ({"schema": '{"type": "object", "properties": {}}'}, "schemaType: JSON"),
        ({"schema": AVRO.replace("}]", '}, {"name": "id", "type": "int"}]')}, "twice"),
        ({"schema": {"file": "none.avsc"}}, "No such file"),
        ({"schema": {"file": "/etc/hostname"}}, "outside"),
        ({"schema": {"file": "link.avsc"}}, "outside"),
        ({"schema": {"file": "large.avsc"}}, "larger than 1 MiB"),
        ({"schema": {"file": "binary.avsc"}}, "UTF-8"),
        ({"schema": {"path": "a"}}, "unknown field"),
        ({"schema": AVRO, "compatibility": "BACKWARDS"}, "BACKWARD"),
        ({"schema": AVRO, "references": [{"name": "a"}]}, "subject"),
    ],
)
def test_invalid_subject_is_refused(spec: dict[str, object], expected: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "topics").mkdir(parents=True)
    (tmp_path / "outside.avsc").write_text(AVRO)
    (project / "topics" / "link.avsc").symlink_to(tmp_path / "outside.avsc")
    (project / "topics" / "large.avsc").write_text(" " * (1 << 20) + AVRO)
    (project / "topics" / "binary.avsc").write_bytes(b"\xff\xfe")
    (project / "kafkaform.yaml").touch()
    path = project / "topics" / "subject.yaml"
    path.write_text(manifest("orders-value", spec, kind="Subject"))
    with pytest.raises(InvalidInput) as error:
        load([path], Context())
    assert any(expected in f"{each.message} {each.hint}" for each in error.value.problems)
    assert all(each.location is not None for each in error.value.problems)


def test_schema_file_outside_checkout_is_refused(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "secret.txt").write_text(AVRO)
    path = checkout / "subject.yaml"
    path.write_text(manifest("a-value", {"schema": {"file": "../secret.txt"}}, kind="Subject"))
    with pytest.raises(InvalidInput) as error:
        load([path], Context(root=checkout))
    assert "outside" in error.value.problems[0].message


def avro(*fields: str, reference: SchemaReference | None = None) -> RegisteredSchema:
    """Return a record of fields such as `id: "string" = "x"`, in Avro's terms."""
    listed = []
    for each in fields:
        declaration, _, default = each.partition(" = ")
        name, _, type_ = declaration.partition(": ")
        listed.append(
            {"name": name, "type": json.loads(type_)} | ({"default": json.loads(default)} if default else {})
        )
    text = json.dumps({"type": "record", "name": "Order", "fields": listed})
    return RegisteredSchema(text, references=() if reference is None else (reference,))


MONEY = '{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "long"}]}'
MONEY_2 = SchemaReference("Money", "money", 2)
CENTS = MONEY.replace("long", "int")
ARRAY, MAP = '{"type": "array", "items": "string"}', '{"type": "map", "values": "string"}'
ENUM = '{"type": "enum", "name": "E", "symbols": ["X"]}'
TIMESTAMP = '{"type": "long", "logicalType": "timestamp-millis"}'
BY_JSON = '{"properties": {"a": {"type": "string"}}}'
A_INT = avro('a: "int"')
ALL = avro(*(f'f{n}: "int"' for n in range(7)))
DIFFERENCES: dict[str, tuple[RegisteredSchema, RegisteredSchema, str]] = {
    "added": (A_INT, avro('a: "int"', 'total: "int"'), "field total added: int, no default"),
    "removed": (A_INT, avro(), "field a removed"),
    "type": (A_INT, avro('a: "long"'), "field a: int, no default → long, no default"),
    "default": (
        avro('a: ["null", "int"]'),
        avro('a: ["null", "int"] = null'),
        "field a: null or int, no default → null or int, default null",
    ),
    "nested": (avro(f"a: {MONEY}"), avro(f"a: {CENTS}"), "field a.cents: long, no default → int, no default"),
    "container": (
        avro(f"a: {ARRAY}"),
        avro(f"a: {MAP}"),
        "field a: array of string, no default → map of string, no default",
    ),
    "enum": (
        avro(f"a: {ENUM}"),
        avro(f"a: {ENUM}".replace('"X"', '"X", "Y"')),
        "field a: enum of X, no default → enum of X, Y, no default",
    ),
    "logical type": (
        avro(f"a: {TIMESTAMP}"),
        avro('a: "long"'),
        "field a: long (timestamp-millis), no default → long, no default",
    ),
    "primitive": (RegisteredSchema('"string"'), RegisteredSchema('"bytes"'), "schema: string → bytes"),
    "references": (A_INT, avro('a: "int"', reference=MONEY_2), "references changed"),
    "JSON schema": (
        RegisteredSchema(BY_JSON, "JSON"),
        RegisteredSchema(f'{BY_JSON[:-1]}, "required": ["a"]}}', "JSON"),
        "field a: string, optional → string, required",
    ),
    "Protobuf": (
        RegisteredSchema("message A {\n}\n", "PROTOBUF"),
        RegisteredSchema("message A {\n  int32 b = 1;\n}\n", "PROTOBUF"),
        "1 line added, 0 removed",
    ),
    "other type": (A_INT, RegisteredSchema("message A {}", "PROTOBUF"), "schemaType AVRO → PROTOBUF"),
    "many": (ALL, avro(), f"{'; '.join(f'field f{n} removed' for n in range(5))}; and 2 further differences"),
}


@pytest.mark.parametrize(("before", "after", "expected"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_difference_is_described(before: RegisteredSchema, after: RegisteredSchema, expected: str) -> None:
    assert describe_difference(before, after) == expected


def refer(*references: SchemaReference) -> RegisteredSchema:
    return RegisteredSchema("{}", references=references)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (RegisteredSchema('{"a": 1, "b": 2}'), RegisteredSchema('{"b":2,"a":1}'), True),
        (RegisteredSchema('["a", "b"]'), RegisteredSchema('["b", "a"]'), False),
        (RegisteredSchema("{}", "JSON"), RegisteredSchema("{}"), False),
        (RegisteredSchema("a", "PROTOBUF"), RegisteredSchema("b", "PROTOBUF"), False),
        # The latest version, whichever that is.
        (refer(SchemaReference("a", "s")), refer(SchemaReference("a", "s", 3)), True),
        (refer(SchemaReference("a", "s", 2)), refer(SchemaReference("a", "s", 3)), False),
        (refer(SchemaReference("a", "s")), refer(), False),
    ],
)
def test_schemas_equal_by_content(first: RegisteredSchema, second: RegisteredSchema, expected: bool) -> None:
    assert are_equal(first.to_value(), second.to_value()) == expected


@pytest.mark.parametrize(
    ("before", "after", "changes_schema", "hazards"),
    [
        ("BACKWARD", "BACKWARD_TRANSITIVE", False, set()),
        ("BACKWARD_TRANSITIVE", "BACKWARD", False, {"compatibility-lowered"}),
        ("BACKWARD", "FORWARD", False, {"compatibility-lowered"}),
        ("BACKWARD", "NONE", True, {"compatibility-lowered", "unchecked-schema"}),
        ("NONE", "NONE", True, {"unchecked-schema"}),
        ("FULL", "FULL", True, set()),
    ],
)
def test_compatibility_has_hazards(before: str, after: str, changes_schema: bool, hazards: set[str]) -> None:
    old, new = {"compatibility": before}, {"compatibility": after}
    paths = {path for path in old if old[path] != new[path]} | ({"schema"} if changes_schema else set())
    context = UpdateContext(REF, old, new, Intent(), Facts("c"))
    assessments = [KINDS["Subject"].field(path).judge(context) for path in paths]
    assert {each.hazard for each in assessments if each.risk is Risk.DESTRUCTIVE} == hazards


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("BACKWARD", "upgrade the consumers first: billing"),
        ("FORWARD_TRANSITIVE", "upgrade the producers first"),
        ("NONE", None),
    ],
)
def test_compatibility_note_names_first_upgrades(level: str, expected: str | None) -> None:
    fields = (
        FieldChange("compatibility", "FULL", level, "FULL", level),
        FieldChange("schema", avro().to_value(), avro('a: "int" = 0').to_value()),
    )
    facts = Facts("c").add_part(UsageFacts(readers={"billing": ["orders"], "other": ["payments"]}))
    notes = [note.message for note in SubjectKind().note_plan_wide([Update(REF, None, fields)], facts)]
    assert bool(notes) == (expected is not None)
    assert all(str(expected) in note for note in notes)


@pytest.mark.parametrize("value", ["", "{", "[]", '"x"', "{}", '{"schemaType": "AVRO", "references": [1]}'])
def test_invalid_recorded_schema_is_ignored(value: str) -> None:
    field = SubjectKind().field("schema")
    assert (parse_value(value), field.summarise(value), field.describe(value, value)) == (None, None, None)
    assert not field.equal(value, RegisteredSchema(AVRO).to_value())


CLIENT = {"client": {"bootstrap.servers": "broker:9092"}}
RECORDED = {**CLIENT, "audit": {"topic": False, "file": "record.jsonl"}}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Connected:
    memory = Connected()
    monkeypatch.setattr(Session, "cluster", lambda _: memory)
    return memory


def test_large_schema_is_recorded_by_digest(project: Project, cluster: Connected) -> None:
    project.config(clusters={"dev": RECORDED}, rules=QUIET)
    spec = {"schema": {"file": "../order.avsc"}, "compatibility": "FULL"}
    project.write("topics/orders.yaml", manifest("orders-value", spec, kind="Subject"))
    file = project.folder / "order.avsc"
    run = partial(project.run, env={"KAFKAFORM_AUDIT": "true"})

    def apply(name: str, default: int) -> str:
        fields = [{"name": f"{name}{'x' * 100}{n}", "type": "long", "default": default} for n in range(1000)]
        file.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
        run("apply", "--auto-approve").needs(0)
        change = run("history", "--format", "json").needs(0).json["changes"][0]
        assert change["live"] == {"version": default, "id": default}
        text = run("history", "--verbose").needs(0).out
        assert f"version {default}, id {default}" in text
        assert len(text) < 10_000
        return str(change["id"])

    apply("a", 1)
    before = json.loads(file.read_text())
    second = apply("b", 2)
    run("revert", second).needs(0)
    assert json.loads(file.read_text()) == before
    apply("b", 3)
    run("drift").needs(0)
    cluster.registry.forget("orders-value")
    lost = run("revert", second, "--force").needs(1)
    assert "schema registry no longer has" in lost.both


def test_subject_is_purged_after_deletion(project: Project) -> None:
    project.config(clusters={"dev": RECORDED}, rules=QUIET)
    run = partial(project.run, env={"KAFKAFORM_AUDIT": "true"})

    def declare(**spec: object) -> None:
        project.write("topics/orders.yaml", manifest("orders-value", spec, kind="Subject"))

    def plan() -> tuple[str, object]:
        (change,) = run("plan", "--format", "json", "--no-strict").needs(0).json["changes"]
        return change["status"], change["fields"][0]["before"]

    declare(schema=AVRO)
    run("apply", "--auto-approve").needs(0)
    declare(state="purged")
    assert plan() == ("refused", None)
    assert "state: absent" in run("drift", "--adopt").needs(1).both
    declare(state="absent")
    run("apply", "--auto-approve", "--allow", "Subject/orders-value:delete").needs(0)
    declare(state="purged")
    assert plan() == ("needs_consent", "deleted")
    run("apply", "--auto-approve", "--allow", "Subject/orders-value:delete").needs(1)
    run("apply", "--auto-approve", "--allow", "Subject/orders-value:delete-permanently").needs(0)
    run("plan", "--detailed-exitcode").needs(0)
    run("status").needs(0)
    purge = run("history", "--format", "json").needs(0).json["changes"][0]
    assert "not undone" in run("revert", purge["id"]).needs(1).both
    declare(state="purged", deletionProtection=True)
    assert "deletionProtection" in run("validate").needs(1).both


def test_changed_schema_file_changes_the_subject(project: Project) -> None:
    work = Work(project.folder)
    project.config(clusters={"dev": CLIENT}, rules=QUIET)
    spec = {"schema": {"file": "../schemas/order.avsc"}, "compatibility": "BACKWARD"}
    work.write("topics/orders.yaml", manifest("orders-value", spec, kind="Subject"))
    work.commit(**{"schemas/order.avsc": AVRO})
    project.run("apply", "--auto-approve").needs(0)
    work.git("checkout", "-q", "-b", "feature")
    added = AVRO.replace("}]", '}, {"name": "total", "type": "long", "default": 0}]')
    work.commit(**{"schemas/order.avsc": added})
    planned = project.run("plan", "--changed-since", "main", "--format", "json").needs(0).json
    (change,) = planned["changes"]
    assert (change["name"], change["action"]) == ("orders-value", "update")
    assert "KF444" in [each["code"] for each in planned["diagnostics"]]


@pytest.mark.parametrize(
    ("environments", "is_shared"), [((), False), (("dev",), False), (("dev", "prod"), False), ((), True)]
)
def test_adoption_writes_schema_file_or_override(
    environments: tuple[str, ...], is_shared: bool, project: Project, cluster: Connected
) -> None:
    settings = {"environments": [*environments]} if environments else {}
    where = {"environment": "dev"} if environments else {}
    project.config(clusters={"dev": {**CLIENT, **where}}, rules=QUIET, **settings)
    file = project.folder / "schemas" / "order.avsc"
    file.parent.mkdir()
    file.write_text(AVRO)
    names = ["orders-value", "orders-key"] if is_shared else ["orders-value"]
    for name in names:
        spec = {"schema": {"file": "../schemas/order.avsc"}}
        project.write(f"topics/{name}.yaml", manifest(name, spec, kind="Subject"))
    project.run("apply", "--auto-approve").needs(0)
    live = AVRO.replace("}]", '}, {"name": "total", "type": "long", "default": 0}]')
    cluster.execute([AlterSubject(REF, RegisteredSchema(live))])
    call = project.run("drift", "--adopt").needs(1 if is_shared else 0)
    is_written = json.loads(file.read_text()) == json.loads(live)
    overrides = yaml.safe_load((project.folder / "topics/orders-value.yaml").read_text())["spec"].get(
        "overrides"
    )
    assert (is_written, overrides is not None) == (
        len(environments) < 2 and not is_shared,
        len(environments) == 2,
    )
    assert ("Subject/orders-key" in call.both) is is_shared
    project.run("drift").needs(2 if is_shared else 0)


def test_example_of_the_documentation_is_applied(project: Project) -> None:
    shutil.copytree(ROOT / "docs" / "examples" / "subjects", project.folder, dirs_exist_ok=True)
    run = partial(project.run, env={"REGISTRY_URL": "http://memory"})
    assert "KF7" not in run("validate").needs(0).both
    run("apply", "--auto-approve").needs(0)
    run("plan", "--detailed-exitcode").needs(0)
    order = project.folder / "schemas" / "order.avsc"
    order.write_text(
        order.read_text().replace("\n  ]", ',\n    {"name": "note", "type": "string", "default": ""}\n  ]')
    )
    assert "upgrade the consumers first: billing" in run("plan").needs(0).out


def test_import_without_the_registry_is_incomplete(
    project: Project, cluster: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.registry, "handle", lambda *_: RegistryResponse(500, None))
    call = project.run("import", "--kind", "subject").needs(1)
    assert "could not list subjects" in call.both
