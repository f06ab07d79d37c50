"""The skew report as JSON: its schema fits what is written, and no more than that."""

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from spark_validation import results
from spark_validation.results import Estimate, SkewReport, SkewVerdict, from_document, to_json
from tests.support.plans.strategies import examples
from tests.support.skew.scenes import build_result, hot, report, what_if

SCHEMA = load_schema("skew")
VALIDATOR = Draft202012Validator(SCHEMA)
CLASSES = {
    name: value for name, value in vars(results).items() if is_dataclass(value) and name != "SkewLimits"
}


def plain(one: SkewReport) -> Any:
    return json.loads(to_json(one))


def draw_of_type(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a type as the dataclasses annotate it."""
    if isinstance(hint, types.UnionType):
        return st.one_of(
            [st.none() if arg is types.NoneType else draw_of_type(arg) for arg in get_args(hint)]
        )
    if get_origin(hint) is tuple:
        return st.lists(draw_of_type(get_args(hint)[0]), max_size=2).map(tuple)
    if get_origin(hint) is dict:
        return st.dictionaries(st.text(max_size=4), draw_of_type(get_args(hint)[1]), max_size=2)
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        parts = {item.name: field(hint.__name__, item.name, hints[item.name]) for item in fields(hint)}
        return st.builds(hint, **parts)
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    plain = {str: st.text(max_size=6), int: st.integers(0, 2**63 - 1), float: numbers, bool: st.booleans()}
    return plain[hint]


def field(kind: str, name: str, hint: Any) -> st.SearchStrategy[Any]:
    schema = SCHEMA["$defs"].get(kind, SCHEMA)["properties"][name]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).map(lambda text: text.rstrip("\n"))
    if schema.get("minLength"):
        return st.text(min_size=1, max_size=6)
    return st.integers(1, 1000) if schema.get("minimum") else draw_of_type(hint)


@examples(0.5)
@given(draw_of_type(SkewReport))
def test_report_document_round_trips(one: SkewReport) -> None:
    document = plain(one)
    VALIDATOR.validate(document)
    assert from_document(document) == one


def test_schema_and_dataclasses_have_the_same_fields() -> None:
    """The schema is generated: this holds its generator to its promise."""
    assert set(SCHEMA["$defs"]) == CLASSES.keys() - {"SkewReport"}
    for name, kind in CLASSES.items():
        schema = SCHEMA["$defs"].get(name, SCHEMA)
        expected = [item.name for item in fields(kind)]
        expected = ["format_version", *expected] if name == "SkewReport" else expected
        assert list(schema["properties"]) == expected
        optional = {field.name for field in fields(CLASSES[name]) if field.metadata == results.OMITTED}
        assert schema["required"] == [item for item in expected if item not in optional]
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format_version",), 2),
        (("created_at",), "yesterday"),
        (("topics", 0, "causes", 0, "name"), "fine"),
        (("topics", 0, "hot_keys", 0, "key_hash"), "alice"),
        (("topics", 0, "partitions", 0, "partition"), -1),
        (("topics", 0, "policy", "status"), "maybe"),
        (("topics", 0, "partitioners", "murmur2"), "all"),
    ],
)
def test_invalid_report_values_are_refused(path: tuple[str | int, ...], value: object) -> None:
    shown = [hot("a", Estimate(0.3, 0.2, 0.4))]
    topic = build_result(hot_keys=shown, what_ifs=[what_if(6, Estimate(1.4, 1.2, 1.6))])
    document = plain(report(replace(topic, policy=SkewVerdict("fail", ("m",)))))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    assert inner[path[-1]] != value
    inner[path[-1]] = value
    assert not VALIDATOR.is_valid(document)
