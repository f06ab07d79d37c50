from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import Draft202012Validator

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
from tests.support.golden import wording
from tests.support.plans import strategies
from tests.support.plans.damage import damage_json
from tests.support.plans.json_places import places
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
            None,
            "needs consent",
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


def document(plan: Plan = PLAN, header: PlanHeader = HEADER) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(plan_to_json(plan, header))
    return parsed


def sealed(edited: dict[str, Any]) -> str:
    """The document with a digest that fits, as somebody who means harm would leave it."""
    return json.dumps({**edited, "digest": digest_of(edited)})


def refusal(text: str, file: str = "plan.json") -> str:
    with pytest.raises(PlanFileError) as caught:
        plan_from_json(text, file)
    assert caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value.message


# --- there and back --------------------------------------------------------------------------------


@given(strategies.plans(), strategies.headers())
def test_a_plan_survives_the_round_trip(plan: Plan, header: PlanHeader) -> None:
    text = plan_to_json(plan, header)
    assert plan_from_json(text, "plan.json") == (plan, header)
    assert plan_to_json(*plan_from_json(text, "plan.json")) == text
    assert plan_from_json(text, "plan.json")[1].digest == compute_plan_digest(plan, header)


@given(strategies.plans(columns=True), strategies.headers())
def test_every_plan_fits_the_schema_and_is_safe_to_show(plan: Plan, header: PlanHeader) -> None:
    text = plan_to_json(plan, header)
    SCHEMA.validate(json.loads(text))
    assert all(char == "\n" or is_plain(char) for char in text)
    text.encode()  # no lone surrogates
    assert text.endswith("}\n")


ADDED_LATER = {
    "unvalidated",
    "also",
    "data_unread",
    "about",
    "bootstrap_servers",
    "configuration",
    "figure",
    "keyed",
    "origin",
    "readers",
    "signature",
    "signed_for",
    "subset",
    "team",
}
"""Keys that a plan of format 1 may go without."""


def test_the_schema_is_a_strict_schema() -> None:
    schema = load_schema("plan")
    jsonschema.Draft202012Validator.check_schema(schema)

    def objects(node: object) -> list[dict[str, Any]]:
        if isinstance(node, list):
            return [found for item in node for found in objects(item)]
        if not isinstance(node, dict):
            return []
        here = [node] if "object" in json.dumps(node.get("type")) else []
        return here + [found for item in node.values() for found in objects(item)]

    found = objects(schema)
    assert len(found) >= 10
    for node in found:
        assert node["additionalProperties"] is False
        assert sorted(node["required"]) == sorted(node["properties"].keys() - ADDED_LATER)


def test_the_shape_of_the_document() -> None:
    d = document()
    assert list(d) == [
        *("format_version", "tool_version", "commit", "cluster", "environment", "created_at", "digest"),
        *("consent", "summary", "changes", "undeclared", "unmanaged", "unknown", "diagnostics"),
        "broker_validated",
    ]
    assert d["format_version"] == 1
    assert d["cluster"] == {"id": "cluster-1", "name": "prod"}
    assert d["summary"] == {
        "create": 1,
        "update": 1,
        "delete": 0,
        "unchanged": 14,
        "refused": 1,
        "needs_consent": 1,
        "unmanaged": 1,
        "undeclared": 1,
        "unknown": 1,
        "deferred": 1,
    }
    assert d["consent"] == [{"resource": "Topic/c", "hazard": "delete", "reason": "TICKET-1"}]
    assert d["undeclared"] == [{"kind": "Topic", "name": "b", "path": "config.segment.ms", "value": "null"}]
    assert d["unmanaged"] == [{"kind": "Topic", "name": "x"}]
    assert d["unknown"] == [{"kind": "Topic", "name": "y"}]
    assert d["diagnostics"][0]["source"] == {"file": "a.yaml", "line": 9}
    create, update, delete = d["changes"]
    assert (create["action"], create["id"], create["risk"]) == ("create", None, "safe")
    assert (update["action"], update["id"], update["risk"]) == ("update", "id-b", "destructive")
    assert update["source"] is None
    assert update["fields"][1] == {
        "path": "config.retention.ms",
        "before": None,
        "after": "86400000",
        "effective_before": "604800000",
        "effective_after": "86400000",
        "risk": "destructive",
        "hazard": "retention-cut",
        "reason": CUT.reason,
        "remedy": "keep 7d",
        "deferred": None,
    }
    assert update["fields"][2]["deferred"] == "later"
    assert (delete["action"], delete["status"], delete["hazard"]) == ("delete", "refused", "delete")


def test_the_fields_of_a_create_are_in_natural_order_without_a_before() -> None:
    fields = document()["changes"][0]["fields"]
    order = ["partitions", "replicationFactor", "config.b", "config.z", "zoo"]
    assert [f["path"] for f in fields] == order
    assert [f["before"] for f in fields] == [None] * 5
    assert [f["after"] for f in fields] == [6, 3, None, "1", "1"]


def test_a_refused_delete_keeps_its_judgement_beside_its_refusal() -> None:
    delete = document()["changes"][2]
    assert (delete["risk_reason"], delete["risk_remedy"]) == ("all records are lost", "export them")
    assert (delete["reason"], delete["remedy"]) == ("it is protected", wording)
    assert {f["risk"] for f in delete["fields"]} == {"destructive"}
    assert {f["path"]: (f["before"], f["after"]) for f in delete["fields"]} == {
        "partitions": (1, None),
        "config.x": ("", None),
    }
    change = plan_from_json(plan_to_json(PLAN, HEADER), "plan.json")[0].changes[2].change
    assert isinstance(change, Delete)
    assert change.assessment == DELETION


@pytest.mark.parametrize("value", [None, "null", "", "0", 0, "true", -1, "9223372036854775808"])
def test_values_keep_their_type(value: str | int | None) -> None:
    plan = Plan("c", (PlannedChange(Create(topic("a"), {"config.k": value}), Status.PLANNED),))
    change = plan_from_json(plan_to_json(plan, HEADER), "plan.json")[0].changes[0].change
    assert isinstance(change, Create)
    assert change.state["config.k"] == value
    assert type(change.state["config.k"]) is type(value)


# --- the digest ------------------------------------------------------------------------------------


def test_the_digest_covers_what_is_done_and_where_and_not_when() -> None:
    # The digest ignores when where and by what the plan was made.
    moved = replace(
        PLAN,
        changes=tuple(
            replace(c, location=Location("elsewhere.yaml", 77), team="other") for c in PLAN.changes
        ),
        diagnostics=(),
        readers=(AffectedConsumer(ResourceRef("ConsumerGroup", "g"), ("a",), "other"),),
        unchanged=3,
        broker_validated=False,
    )
    header = PlanHeader("9.9.9", None, "other name", "prod", "2031-01-01T00:00:00Z")
    assert document(moved, header)["digest"] == document()["digest"]
    assert document(header=replace(HEADER, environment="dev"))["digest"] != document()["digest"]


@pytest.mark.parametrize(
    "edited",
    [
        replace(PLAN, cluster_id="cluster-2"),
        replace(PLAN, consents=()),
        replace(PLAN, undeclared=()),
        replace(PLAN, unmanaged=()),
        replace(PLAN, unknown=()),
        replace(PLAN, changes=PLAN.changes[:-1]),
        replace(PLAN, changes=(replace(PLAN.changes[0], status=Status.REFUSED), *PLAN.changes[1:])),
        replace(
            PLAN,
            changes=(
                replace(PLAN.changes[0], change=Create(topic("a"), {"partitions": 7})),
                *PLAN.changes[1:],
            ),
        ),
    ],
)
def test_the_digest_covers_the_content(edited: Plan) -> None:
    assert document(edited)["digest"] != document()["digest"]


NOT_IN_THE_DIGEST = {
    *("tool_version", "commit", "created_at", "digest", "broker_validated", "configuration"),
    *("cluster.name", "cluster.bootstrap_servers"),
    *(f"summary.{count}" for count in document()["summary"]),
    *("changes[].source.file", "changes[].source.line", "changes[].team"),
    *("changes[].origin.from", "changes[].origin.earlier[]"),
    *(f"diagnostics[].{key}" for key in ("code", "severity", "message", "suggestion", "waived")),
    *("diagnostics[].source.file", "diagnostics[].source.line", "diagnostics[].about.kind"),
    *("diagnostics[].about.name", "readers[].kind", "readers[].name", "readers[].topics[]", "readers[].team"),
}
"""What says when, where, by whom and for whom a plan was made, and what was found."""


def full_document() -> dict[str, Any]:
    """A plan in which every member has a value that can be changed."""
    create, update, delete = PLAN.changes
    whole = replace(
        PLAN,
        changes=(
            create,
            replace(update, origin=ChangeOrigin.MIXED, earlier=("partitions",), keyed=False, team="orders"),
            delete,
        ),
        diagnostics=(replace(PLAN.diagnostics[0], ref=topic("a")),),
        readers=(AffectedConsumer(ResourceRef("ConsumerGroup", "g"), ("a",), "orders"),),
        subset=True,
    )
    return document(whole, replace(HEADER, configuration="kafkaform.yaml", servers="k:9092"))


def _tampered(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case _:
            return "x"


def test_the_digest_covers_every_member_but_those_that_are_named() -> None:
    original = full_document()
    uncovered: set[str] = set()
    covered: set[str] = set()
    for path in places(original)[1:]:
        edited = copy.deepcopy(original)
        parent: Any = edited
        for step in path[:-1]:
            parent = parent[step]
        if isinstance(parent[path[-1]], dict | list):
            continue  # what it consists of is changed
        parent[path[-1]] = _tampered(parent[path[-1]])
        name = "".join("[]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        (covered if digest_of(edited) != original["digest"] else uncovered).add(name)
    assert uncovered - {"changes[].source", "diagnostics[].source"} == NOT_IN_THE_DIGEST
    assert covered.isdisjoint(NOT_IN_THE_DIGEST)
    assert {"changes[].remedy", "changes[].fields[].remedy", "changes[].keyed", "subset"} <= covered


def _set_partitions(d: dict[str, Any]) -> None:
    d["changes"][0]["fields"][0]["after"] = 60


def _consent(d: dict[str, Any]) -> None:
    d["changes"][1]["status"] = "planned"
    d["summary"]["needs_consent"] = 0


def _summary(d: dict[str, Any]) -> None:
    d["summary"]["refused"] = 0


def _cluster(d: dict[str, Any]) -> None:
    d["cluster"]["id"] = "cluster-2"


@pytest.mark.parametrize("edit", [_set_partitions, _consent, _summary, _cluster])
def test_an_edited_plan_is_refused(edit: Callable[[dict[str, Any]], None]) -> None:
    d = document()
    edit(d)
    assert refusal(json.dumps(d)) == wording


# --- what is not a plan ----------------------------------------------------------------------------


def test_files_that_are_no_plan_of_this_version_say_so_in_a_line() -> None:
    assert refusal('{\n  "format_version": 1,\n  oops\n}').startswith(
        "plan.json:3:3: not a valid plan: not JSON"
    )
    message = refusal(json.dumps({"format_version": 2, "steps": []}))
    assert "format 2" in message
    assert "formats up to 1" in message
    # What another version made and this one cannot read.
    edited = {**document(), "later": 1}
    with pytest.raises(PlanFileError, match="unknown key 'later'") as caught:
        plan_from_json(json.dumps({**edited, "tool_version": "0.9.1\x1b"}), "plan.json")
    assert caught.value.hint == wording
    with pytest.raises(PlanFileError, match="unknown key 'later'") as caught:
        plan_from_json(json.dumps(edited), "plan.json")
    assert caught.value.hint == wording
    assert refusal("{}", "p\n\x1b[31m.json").startswith(r"p\n\x1b[31m.json: ")


DAMAGED = damage_json(sealed(full_document()))


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_plan_is_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for content in DAMAGED[kind]:
        file.write_bytes(content)
        with pytest.raises(PlanFileError, match=r"plan\.json(:\d+:\d+)?: not a valid plan: ") as caught:
            read_plan_file(file)
        assert "\n" not in caught.value.message
        assert len(caught.value.message) < 400
        assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "place", "named"),
    [
        ('{\n "format_version": 1.0}', "2:20", "1.0 is not a whole number"),
        ('{"a": "1.0",\n\n  "b": -1.0}', "3:8", "-1.0 is not a whole number"),
        ('{"a": "NaN", "b": NaN}', "1:19", "NaN is not a number of JSON"),
        ('{"a": "\\ud83d\\ude00 \\\\ud800",\n "b\\ud83d": 1}', "2:2", "surrogate"),
        ("[" * 200_000, "", "nested too deeply"),
    ],
)
def test_the_place_and_the_reason_are_named(text: str, place: str, named: str) -> None:
    message = refusal(text)
    assert message.startswith(f"plan.json:{place}: " if place else "plan.json: ")
    assert named in message


def test_letters_that_are_no_half_pairs_are_read() -> None:
    text = json.dumps({**document(), "tool_version": "\U0001f600 \\ud800"})
    assert plan_from_json(text, "plan.json")[1].tool_version == "\U0001f600 \\ud800"


def test_a_duplicate_key_is_shown_without_what_a_terminal_acts_on() -> None:
    twice = plan_to_json(PLAN, HEADER).replace('"file":', '"x\\u001b": 1, "x\\u001b": 1, "file":', 1)
    assert refusal(twice) == r"plan.json: not a valid plan: duplicate key 'x\x1b'"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), "commit"),
        (("extra",), 1),
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
    ],
)
def test_a_violation_names_its_place(path: tuple[str | int, ...], value: Any) -> None:
    d: Any = document()
    if path:
        parent = d
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = value
    else:
        del d[value]
    assert refusal(json.dumps(d)) == wording


@pytest.mark.parametrize("place", [("changes", 0), ("undeclared", 0), ("unmanaged", 0), ("unknown", 0)])
def test_a_kind_that_nobody_knows(place: tuple[str, int]) -> None:
    d = document()
    key, index = place
    d[key][index]["kind"] = "Quota"
    assert f"{key}[0].kind: unknown kind 'Quota'" in refusal(sealed(d))


def test_one_resource_cannot_change_twice_nor_one_field() -> None:
    d = document()
    d["changes"].append(copy.deepcopy(d["changes"][0]))
    assert refusal(sealed(d)) == wording
    d = document()
    d["changes"][0]["fields"].append(copy.deepcopy(d["changes"][0]["fields"][0]))
    assert refusal(sealed(d)) == wording


JUNK = st.sampled_from([None, True, 0, -1, 7, "", "x", "safe", "create", "refused", [], {}, [None], {"a": 1}])


@pytest.mark.parametrize("configuration", [None, "a/kafkaform.yaml", NO_CONFIG_FILE])
def test_where_the_configuration_was_is_read_back(configuration: str | None) -> None:
    header = replace(HEADER, configuration=configuration)
    assert plan_from_json(plan_to_json(PLAN, header), "plan.json")[1].configuration == configuration


@examples(5)
@given(st.data())
def test_the_reader_and_the_schema_refuse_the_same(data: st.DataObject) -> None:
    d: Any = document()
    *parents, key = data.draw(st.sampled_from([p for p in places(d) if p]))
    node = d
    for step in parents:
        node = node[step]
    what = data.draw(st.sampled_from(["set", "remove", "add"]))
    if what == "remove":
        del node[key]
    elif what == "add" and isinstance(node, dict):
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


# --- where the schemas are -------------------------------------------------------------------------


def test_an_unknown_schema_is_a_clear_error() -> None:
    with pytest.raises(KafkaformError, check=lambda error: str(error) == wording) as caught:
        load_schema("nonsense")
    assert caught.value.hint


def test_a_schema_that_is_not_json_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.schema.json").write_text("{", encoding="utf-8")
    monkeypatch.setattr(schema_files, "FOLDERS", (tmp_path,))
    with pytest.raises(KafkaformError, match="cannot read the JSON Schema"):
        load_schema("bad")


def test_package_data_comes_before_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "s.schema.json").write_text(json.dumps({"title": name}), encoding="utf-8")
    monkeypatch.setattr(schema_files, "FOLDERS", (tmp_path / "none", tmp_path / "one", tmp_path / "two"))
    load_schema.cache_clear()
    assert load_schema("s") == {"title": "one"}
    load_schema.cache_clear()


def test_the_digest_is_over_ascii_json_with_sorted_keys_and_no_spaces() -> None:
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


# --- replicas --------------------------------------------------------------------------------------


def placing(before: FieldValue, after: FieldValue) -> str:
    moved = Update(topic("a"), "id", (FieldChange("placement", before, after),))
    return plan_to_json(Plan("c", (PlannedChange(moved, Status.PLANNED),)), HEADER)


@pytest.mark.parametrize(("before", "after"), [("1,2", "1:2,2:3"), ("1", "2,3"), ("2147483647", "1:2")])
def test_replicas_are_read_again(before: str, after: str) -> None:
    plan, _ = plan_from_json(placing(before, after), "plan.json")
    (change,) = plan.changes
    assert change.change == Update(topic("a"), "id", (FieldChange("placement", before, after),))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("1,2", "1:2"),
        ("1", "1:1"),
        ("1", "x"),
        ("1", ""),
        ("1", None),
        (None, "1"),
        ("1", 2),
        ("1", "1: 2"),
        ("1", "01"),
        ("1", "-1"),
        ("1", "2147483648"),
    ],
)
def test_replicas_that_nobody_could_carry_out_are_refused(before: FieldValue, after: FieldValue) -> None:
    with pytest.raises(PlanFileError, check=lambda error: str(error) == wording):
        plan_from_json(placing(before, after), "plan.json")


def test_a_file_name_that_is_not_utf_8_is_written_as_text() -> None:
    odd = "é/\udc80.yaml"
    change = replace(PLAN.changes[0], location=Location(odd, 3))
    text = plan_to_json(replace(PLAN, changes=(change,)), replace(HEADER, configuration=odd))
    read, header = plan_from_json(text, "plan.json")
    assert read.changes[0].location == Location("é/\\udc80.yaml", 3)
    assert header.configuration == "é/\\udc80.yaml"
    # Reports for programs keep the bytes of the name.
    assert format_json({"file": odd}) == f'{{\n  "file": "{odd}"\n}}\n'
