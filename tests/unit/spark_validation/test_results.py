"""The skew report as JSON, by its schema, and its metrics as rows."""

import json
import types
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from spark_validation import results
from spark_validation.metrics import MetricRow, metric_rows
from spark_validation.results import ArrivalPeriod, Estimate, SkewReport, SkewVerdict, from_document, to_json
from tests.support.plans.strategies import examples
from tests.support.skew import samples
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


def index_by_metric(rows: tuple[MetricRow, ...], partition: int | None = None) -> dict[str, Estimate]:
    found = [row for row in rows if row.partition == partition]
    assert len({row.metric for row in found}) == len(found)
    return {row.metric: row.estimate for row in found}


def test_topic_metric_names_match_json_report() -> None:
    report = samples.report(samples.hot())
    found = index_by_metric(metric_rows(report))
    (topic,) = json.loads(to_json(report))["topics"]
    derived = {"records", "bytes", "hottest_key_share", "hottest_key_byte_share"}
    for name in found.keys() - derived:
        value = topic
        for part in name.split("."):
            value = value[part]
        expected = value if isinstance(value, dict) else dict.fromkeys(("value", "low", "high"), value)
        assert (found[name].value, found[name].low, found[name].high) == tuple(expected.values()), name
    assert derived < found.keys()
    assert {
        f"by_{kind}.{measure}"
        for kind in ("records", "bytes")
        for measure in ("max_mean_ratio", "cv", "gini", "entropy", "effective_parallelism")
    } < found.keys()
    assert {"distinct_keys", "null_key_share", "partitioners.murmur2", "sample.records"} < found.keys()
    assert found["hottest_key_share"] == report.topics[0].hot_keys[0].share


def test_arrivals_have_a_row_for_each_period() -> None:
    periods = (ArrivalPeriod("common", 1_000, 9_000, (30, 10)), ArrivalPeriod("made", None, 9_000, (0, 0)))
    found = index_by_metric(metric_rows(samples.report(replace(samples.hot(), arrivals=periods))))
    assert {name: row.value for name, row in found.items() if name.startswith("arrivals.")} == {
        "arrivals.common.records": 40.0,
        "arrivals.common.max_mean_ratio": 1.5,
        "arrivals.made.records": 0.0,
    }


def test_partition_rows_add_up_to_topic() -> None:
    topic = samples.hot()
    rows = metric_rows(samples.report(topic))
    numbers = {row.partition for row in rows} - {None}
    assert numbers == {partition.partition for partition in topic.partitions}
    per_partition = [index_by_metric(rows, partition.partition) for partition in topic.partitions]
    assert per_partition[0].keys() == {"records", "share", "bytes", "byte_share", "log_records", "log_bytes"}
    whole = index_by_metric(rows)
    for kind in ("records", "bytes"):
        assert sum(item[kind].value for item in per_partition) == whole[kind].value
        assert whole[kind].low < whole[kind].value < whole[kind].high
    unknown = replace(topic, partitions=(replace(topic.partitions[0], log_bytes=None),))
    assert "log_bytes" not in index_by_metric(metric_rows(samples.report(unknown)), 0)


def test_rows_have_the_reports_time_and_cluster() -> None:
    report = replace(samples.report(samples.hot()), created_at="2026-11-01T01:30:00+02:00")
    assert {(row.cluster_id, row.topic, row.sampled_at) for row in metric_rows(report)} == {
        (report.cluster_id, "payments.v1", datetime(2026, 10, 31, 23, 30, tzinfo=UTC))
    }
    naive = replace(report, created_at="2026-11-01T00:00:00")
    assert {row.sampled_at for row in metric_rows(naive)} == {datetime(2026, 11, 1, tzinfo=UTC)}


def test_rows_have_neither_keys_nor_hashes() -> None:
    key = samples.key("jane.doe", 0.3, shown=True)
    text = repr(metric_rows(samples.report(replace(samples.hot(), hot_keys=(key,)))))
    assert "jane" not in text
    assert key.key_hash not in text


def test_topic_without_records_has_sample_rows_only() -> None:
    rows = metric_rows(samples.report(samples.empty("a")))
    assert [(row.metric, row.estimate.value) for row in rows] == [
        ("sample.records", 0),
        ("sample.population", 0),
    ]
    assert metric_rows(samples.report()) == ()
