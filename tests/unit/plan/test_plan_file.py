"""Plan files: what they hold, what the digest covers, and what is no plan."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform.cli.show import read_plan_file
from kafkaform.config.manifests.files import NO_CONFIG_FILE
from kafkaform.core import schema_files
from kafkaform.core.errors import KafkaformError, PlanFileError
from kafkaform.core.model import (
    Create,
    Delete,
    Diagnostic,
    FieldChange,
    FieldValue,
    Location,
    ResourceRef,
    Risk,
    RiskAssessment,
    Severity,
    Status,
    Update,
)
from kafkaform.core.plans import (
    AffectedConsumer,
    ChangeOrigin,
    Consent,
    Plan,
    PlannedChange,
    UndeclaredConfig,
)
from kafkaform.core.printable import is_plain
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import compute_plan_digest, digest_of, format_json, plan_from_json, plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.plan_signature import encode_signed_content
from tests.support.golden import format_json as golden_json
from tests.support.plans import strategies
from tests.support.plans.damage import damage_json
from tests.support.plans.risk import render_catalogue
from tests.support.plans.scenes import topic
from tests.support.plans.strategies import examples

SCHEMA = Draft202012Validator(load_schema("plan"))
HEADER = PlanHeader("0.1.0", "1a2b3c", "prod", "prod", "2025-06-01T12:00:00Z")
CUT = RiskAssessment(Risk.DESTRUCTIVE, "retention-cut", "records older than 1d are deleted", "keep 7d")
DELETION = RiskAssessment(
    Risk.DESTRUCTIVE, "delete", "all records are lost", "export them", also=("opens-access",)
)


PLAN = Plan(
    "cluster-1",
    changes=(
        PlannedChange(
            Create(
                topic("a"),
                {"config.z": "1", "config.b": None, "zoo": "1", "replicationFactor": 3, "partitions": 6},
            ),
            Status.PLANNED,
            Location("a.yaml", 3),
        ),
        PlannedChange(
            Update(
                topic("b"),
                "id-b",
                (
                    FieldChange("partitions", 3, 6, 3, 6),
                    FieldChange("config.retention.ms", None, "86400000", "604800000", "86400000", CUT),
                    FieldChange("replicationFactor", 2, 3, deferred="later"),
                ),
            ),
            Status.NEEDS_CONSENT,
            reason="needs consent",
        ),
        PlannedChange(
            Delete(topic("c"), "id-c", {"partitions": 1, "config.x": ""}, DELETION),
            Status.REFUSED,
            Location("c.yaml", 1),
            "it is protected",
            "take the protection out first",
        ),
    ),
    unchanged=14,
    unmanaged=(topic("x"),),
    undeclared=(UndeclaredConfig(topic("b"), "config.segment.ms", "null"),),
    consents=(Consent("Topic/c", "delete", "TICKET-1"),),
    diagnostics=(
        Diagnostic("KF109", Severity.WARNING, "odd", Location("a.yaml", 9), "even"),
        Diagnostic("KF104", Severity.INFO, "few divisors", Location("a.yaml", 2), None, "TICKET-2"),
    ),
    broker_validated=True,
    unknown=(topic("y"),),
)


JsonPath = tuple[str | int, ...]


def list_places(node: Any, path: JsonPath = ()) -> dict[JsonPath, Any]:
    """List all values by their paths, the whole among them."""
    children = node.items() if isinstance(node, dict) else enumerate(node if isinstance(node, list) else ())
    below = [list_places(child, (*path, key)) for key, child in children]
    return {path: node, **dict(pair for found in below for pair in found.items())}


def build_document(plan: Plan = PLAN, header: PlanHeader = HEADER) -> Any:
    return json.loads(plan_to_json(plan, header))


def seal(edited: Any) -> str:
    """The document with a digest that fits, as somebody who means harm would leave it."""
    return json.dumps({**edited, "digest": digest_of(edited)})


def read_refusal(text: str, file: str = "plan.json") -> str:
    with pytest.raises(PlanFileError) as error:
        plan_from_json(text, file)
    assert error.value.hint
    assert "\n" not in error.value.message
    return error.value.message


CONFIGURATIONS = st.sampled_from([None, "a/kafkaform.yaml", NO_CONFIG_FILE])


@given(strategies.plans(columns=True), strategies.headers(), CONFIGURATIONS)
def test_plan_file_is_read_as_written(plan: Plan, header: PlanHeader, configuration: str | None) -> None:
    header = replace(header, configuration=configuration)
    text = plan_to_json(plan, header)
    read, made = plan_from_json(text, "plan.json")
    assert (read, made) == (plan, header)
    assert plan_to_json(read, made) == text
    assert made.digest == compute_plan_digest(plan, header)
    SCHEMA.validate(json.loads(text))
    assert all(char == "\n" or is_plain(char) for char in text)
    text.encode()  # no lone surrogates
    assert text.endswith("}\n")


ADDED_LATER = {
    "cost",
    "recreate",
    "column",
    *("unvalidated", "also", "data_unread", "about", "bootstrap_servers", "configuration", "figure", "keyed"),
    *("layer", "origin", "readers", "signature", "signed_for", "subset", "successions", "team"),
}
"""Keys that a plan of format 1 may go without."""


def test_plan_schema_is_strict() -> None:
    schema = load_schema("plan")
    jsonschema.Draft202012Validator.check_schema(schema)
    nodes = [node for node in list_places(schema).values() if isinstance(node, dict)]
    objects = [node for node in nodes if "object" in json.dumps(node.get("type"))]
    assert len(objects) >= 10
    for node in objects:
        assert node["additionalProperties"] is False
        assert sorted(node["required"]) == sorted(node["properties"].keys() - ADDED_LATER)


def test_plan_document_matches_golden(golden: SnapshotAssertion) -> None:
    text = plan_to_json(PLAN, HEADER)
    assert [*json.loads(text)] == [
        *("format_version", "tool_version", "commit", "cluster", "environment", "created_at", "digest"),
        *("consent", "summary", "changes", "undeclared", "unmanaged", "unknown", "diagnostics"),
        "broker_validated",
    ]
    assert golden_json(text) == golden(name="plan.json")


NOT_IN_THE_DIGEST = {
    *("tool_version", "commit", "created_at", "digest", "broker_validated", "configuration"),
    *("cluster.name", "cluster.bootstrap_servers"),
    *(f"summary.{count}" for count in build_document()["summary"]),
    *("changes[].source.file", "changes[].source.line", "changes[].team", "changes[].layer"),
    *("changes[].origin.from", "changes[].origin.earlier[]"),
    *(f"diagnostics[].{key}" for key in ("code", "severity", "message", "suggestion", "waived")),
    *("diagnostics[].source.file", "diagnostics[].source.line", "diagnostics[].about.kind"),
    *("diagnostics[].about.name", "readers[].kind", "readers[].name", "readers[].topics[]", "readers[].team"),
}
"""What says when, where, by whom and for whom a plan was made, and what was found."""


def build_full_document() -> Any:
    """A plan in which every member has a value that can be changed."""
    create, update, delete = PLAN.changes
    mixed = replace(update, origin=ChangeOrigin.MIXED, earlier=("partitions",), keyed=False)
    whole = replace(
        PLAN,
        changes=(create, replace(mixed, team="orders", layer="defaults"), delete),
        diagnostics=(replace(PLAN.diagnostics[0], ref=topic("a")),),
        readers=(AffectedConsumer(ResourceRef("ConsumerGroup", "g"), ("a",), "orders"),),
        subset=True,
    )
    return build_document(whole, replace(HEADER, configuration="kafkaform.yaml", servers="k:9092"))


def _tamper_with(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case dict() | list():
            return value  # what it consists of is changed
        case _:
            return f"{value or ''}x"


def edit_document(*edits: tuple[JsonPath, Any], document: Any = None) -> Any:
    """Build a document with other values, or what a function makes of the present ones, at some paths."""
    edited = copy.deepcopy(document) if document else build_document()
    for (*parents, last), value in edits:
        parent = edited
        for step in parents:
            parent = parent[step]
        parent[last] = value(parent[last]) if callable(value) else value
    return edited


def test_digest_covers_every_member_except_listed() -> None:
    original = build_full_document()
    uncovered: set[str] = set()
    covered: set[str] = set()
    for path in [*list_places(original)][1:]:
        edited = edit_document((path, _tamper_with), document=original)
        name = "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        if edited != original:
            assert encode_signed_content(edited) != encode_signed_content(original)
            (covered if digest_of(edited) != original["digest"] else uncovered).add(name)
    assert uncovered - {"changes[].source", "diagnostics[].source"} == NOT_IN_THE_DIGEST
    assert covered.isdisjoint(NOT_IN_THE_DIGEST)
    assert {"changes[].remedy", "changes[].fields[].remedy", "changes[].keyed", "subset"} <= covered


def test_file_of_another_format_or_version_is_refused() -> None:
    message = read_refusal(json.dumps({"format_version": 2, "steps": []}))
    assert "format 2" in message
    assert "formats up to 1" in message
    assert read_refusal("{}", "p\n\x1b[31m.json").startswith(r"p\n\x1b[31m.json: ")
    for version, hint in (("0.9.1\x1b", "kafkaform 0.9.1\\x1b"), ("0.1.0", "kafkaform plan --out")):
        edited = {**build_document(), "later": 1, "tool_version": version}
        with pytest.raises(PlanFileError, match="unknown key 'later'") as error:
            plan_from_json(json.dumps(edited), "plan.json")
        assert hint in str(error.value.hint)


DAMAGED = damage_json(seal(build_full_document()))


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_plan_file_is_refused(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for content in DAMAGED[kind]:
        file.write_bytes(content)
        with pytest.raises(PlanFileError, match=r"plan\.json(:\d+:\d+)?: not a valid plan: ") as error:
            read_plan_file(file)
        assert "\n" not in error.value.message
        assert len(error.value.message) < 400
        assert error.value.hint


SYNTAX = {
    "not JSON": '{\n  "format_version": 1,\n  oops\n}',
    "fraction": '{\n "format_version": 1.0}',
    "negative fraction": '{"a": "1.0",\n\n  "b": -1.0}',
    "not a number": '{"a": "NaN", "b": NaN}',
    "half of a pair": '{"a": "\\ud83d\\ude00 \\\\ud800",\n "b\\ud83d": 1}',
    "deep": "[" * 200_000,
}
PROBLEMS: list[tuple[JsonPath, object]] = [
    (("created_at",), "yesterday"),
    (("cluster", "id"), None),
    (("changes",), {}),
    (("changes", 1, "fields", 1, "after"), True),
    (("changes", 1, "fields", 1, "risk"), "mild"),
    (("changes", 0, "action"), "replace"),
    (("changes", 0, "id"), "x"),
    (("changes", 0, "fields", 0, "before"), 3),
    (("changes", 2, "fields", 0, "after"), 3),
    (("changes", 1, "fields"), []),
    (("changes", 1, "risk"), "safe"),
    (("changes", 2, "fields", 0, "risk"), "safe"),
    (("changes", 0, "source", "line"), 0),
    (("changes", 0, "hazard"), ""),
    (("summary", "unchanged"), -1),
    (("diagnostics", 0, "severity"), "fatal"),
    (("broker_validated",), "yes"),
]


def name_place(path: JsonPath) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def test_plan_file_problem_messages_match_golden(golden: SnapshotAssertion) -> None:
    change = build_document()["changes"][0]
    repeated = {**change, "fields": [*change["fields"], change["fields"][0]]}
    texts = {
        "missing": json.dumps({key: value for key, value in build_document().items() if key != "commit"}),
        "unknown key": json.dumps(edit_document((("extra",), 1))),
        "edited": json.dumps(edit_document((("summary", "refused"), 0))),
        "edited fields": json.dumps(edit_document((("changes", 1, "fields", 0, "after"), 9))),
        "resource twice": seal(edit_document((("changes",), [change, change]))),
        "field twice": seal(edit_document((("changes", 0), repeated))),
        "unknown kind": seal(edit_document((("unmanaged", 0, "kind"), "Quota"))),
        "placement": write_placement("1,2", "1:2"),
        **SYNTAX,
    }
    texts |= {
        f"{name_place(path)}={value}": json.dumps(edit_document((path, value))) for path, value in PROBLEMS
    }
    messages = {name: read_refusal(text).removeprefix("plan.json: ") for name, text in texts.items()}
    assert render_catalogue(messages) == golden(name="problems.txt")


JUNK = st.sampled_from([None, True, 0, -1, 7, "", "x", "safe", "create", "refused", [], {}, [None], {"a": 1}])


@examples(5)
@given(st.data())
def test_reader_and_schema_refuse_equal_documents(data: st.DataObject) -> None:
    d: Any = build_document()
    *parents, key = data.draw(st.sampled_from([p for p in list_places(d) if p]))
    node = d
    for step in parents:
        node = node[step]
    mutation = data.draw(st.sampled_from(["set", "remove", "add"]))
    if mutation == "remove":
        del node[key]
    elif mutation == "add" and isinstance(node, dict):
        node["extra"] = data.draw(JUNK)
    else:
        node[key] = data.draw(JUNK)
    fits = SCHEMA.is_valid(d)
    try:
        plan_from_json(json.dumps(d), "plan.json")
    except PlanFileError as error:
        structural = "not a valid plan" in error.message or "has no format_version" in error.message
        # Beyond the schema the reader checks that it knows the kinds, and that no parts contradict others.
        contradiction = ("worst risk", "risk of the whole", "more than one", "unknown kind")
        known = "damaged" in error.message or any(part in error.message for part in contradiction)
        newer = "reads formats up to" in error.message
        assert known if fits else structural or newer
    else:
        assert fits


def test_unknown_or_invalid_schema_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaformError, match="'nonsense' is not part of this installation") as error:
        load_schema("nonsense")
    assert error.value.hint
    (tmp_path / "bad.schema.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(schema_files, "FOLDERS", (tmp_path,))
    with pytest.raises(KafkaformError, match="cannot read the JSON Schema"):
        load_schema("bad")


def test_digest_uses_canonical_json() -> None:
    """As schemas/plan.schema.json says, so that others can check it."""
    made = {
        "format_version": 1,
        "environment": None,
        "cluster": {"id": "c", "name": "of no account"},
        "consent": [{"resource": "Topic/a", "hazard": "delete", "reason": "für immer"}],
        "changes": [{"name": "a", "kind": "Topic", "source": None, "team": "of no account"}],
        **{key: [] for key in ("undeclared", "unmanaged", "unknown")},
    }
    text = (
        '{"changes":[{"kind":"Topic","name":"a"}],"cluster":"c","consent":[{"hazard":"delete","reason":'
        '"f\\u00fcr immer","resource":"Topic/a"}],"environment":null,"format_version":1,"undeclared":[],'
        '"unknown":[],"unmanaged":[]}'
    )
    assert digest_of(made) == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def write_placement(before: FieldValue, after: FieldValue) -> str:
    moved = Update(topic("a"), "id", (FieldChange("placement", before, after),))
    return plan_to_json(Plan("c", (PlannedChange(moved, Status.PLANNED),)), HEADER)


INVALID = ("1:2", "1:1,1", "x", "", None, 2, "1: 2,2", "01,2", "-1,2", "2147483648,1")


@pytest.mark.parametrize(("before", "after"), [(None, "1"), *(("1,2", after) for after in INVALID)])
def test_invalid_placement_is_refused(before: FieldValue, after: FieldValue) -> None:
    with pytest.raises(PlanFileError, match="an invalid placement"):
        plan_from_json(write_placement(before, after), "plan.json")


def test_non_utf_8_file_name_is_escaped() -> None:
    odd = "é/\udfff\ud800.yaml"
    change = replace(PLAN.changes[0], location=Location(odd, 3))
    text = plan_to_json(replace(PLAN, changes=(change,)), replace(HEADER, configuration=odd))
    read, header = plan_from_json(text, "plan.json")
    assert read.changes[0].location == Location("é/\\udfff\\ud800.yaml", 3)
    assert header.configuration == "é/\\udfff\\ud800.yaml"
    control = replace(change, location=Location("a\x7f.yaml", 3))
    assert "\x7f" not in plan_to_json(replace(PLAN, changes=(control,)), HEADER)
    # Reports for programs keep the bytes of the name.
    for name in (odd, "é"):
        assert format_json({"file": name}) == f'{{\n  "file": "{name}"\n}}\n'
