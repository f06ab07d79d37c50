"""A ConsumerGroup's spec in normal form, its split into what is held and what is meant, and its schema."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from syrupy.assertion import SnapshotAssertion

from kafkaform.config.manifests.loader import Context, load
from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import GROUP, KINDS
from kafkaform.resources.base import Layer
from kafkaform.resources.consumer_group.client import is_taken
from kafkaform.resources.consumer_group.fields import partition_of, partition_path
from kafkaform.resources.consumer_group.spec import resolve
from kafkaform.resources.groups import PROTOCOLS
from tests.support.plans.specs import Reports, normalise_group, report_group, resolve_group

WHOLE: Layer = {
    "topics": ["orders.v1", "payments.v1"],
    "protocol": "consumer",
    "members": {"expected": 6.0, "max": 12},
    "config": {"consumer.session.timeout.ms": "50s"},
    "client": {"max.poll.records": "200", "max.poll.interval.ms": "5m", "enable.auto.commit": "False"},
    "processing": {"maxTimePerRecord": "200ms"},
    "offsets": {"initial": "earliest"},
    "lag": {"maxRecords": 100_000, "maxTime": "10m"},
    "guarantees": {"delivery": "at-least-once"},
    "downtime": {"max": "2d"},
}


def test_group_state_has_configs_and_initial_offsets() -> None:
    state, _ = resolve_group(WHOLE)
    assert state == {
        "config.consumer.session.timeout.ms": "50000",
        "offsets.orders.v1": "earliest",
        "offsets.payments.v1": "earliest",
    }
    assert resolve_group({"topics": ["t"], "client": {"max.poll.records": "1"}})[0] == {}
    state, intent = resolve_group({"state": "absent"})
    assert state is None
    assert GROUP.reads(intent) == ()
    assert normalise_group({"config": {"confluent.group.x": " 1 "}})["config"] == {"confluent.group.x": "1"}


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("cooperative-sticky", "cooperative-sticky"),
        (["range", "cooperative-sticky"], "range,cooperative-sticky"),
        ("org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "cooperative-sticky"),
        ("com.example.Own, org.apache.kafka.clients.consumer.RangeAssignor", "com.example.Own,range"),
    ],
)
def test_kafka_assignors_have_short_names(written: object, canonical: str) -> None:
    client = normalise_group({"client": {"partition.assignment.strategy": written}})["client"]
    assert client == {"partition.assignment.strategy": canonical}


BELONG_TO_THE_APPLICATION = (
    *("bootstrap.servers", "config.providers", "interceptor.classes", "key.deserializer", "metric.reporters"),
    *("sasl.jaas.config", "security.protocol", "ssl.keystore.location", "ssl.not.known.yet"),
    "value.deserializer",
)
SHARE: Layer = {"protocol": "share", "offsets": {"initial": "earliest"}}
ASSIGNOR = "partition.assignment.strategy"

TOPICS = ("orders.*", "", ".", "..", "a:1", "a b", "x" * 250)
PROPERTIES = (
    *("max.poll.record", "consumer.session.timeout.ms", "zzz", "group.id", "group.protocol"),
    "internal.throw.on.fetch.stable.offset.unsupported",
    *BELONG_TO_THE_APPLICATION,
)


def build_layer(section: str, value: object) -> Layer:
    return {section: value}


PROBLEMS: list[Layer] = [
    {"members": {"expected": 3, "max": 2}},
    SHARE,
    *(build_layer("topics", ["fine", name]) for name in TOPICS),
    # values
    {"config": {"consumer.session.timeout.ms": "x"}},
    {"config": {"share.delivery.count.limit": "1"}},
    {"client": {"max.poll.records": "many"}},
    {"client": {"max.poll.records": ["1"]}},
    {"client": {"auto.offset.reset": "oldest"}},
    {"client": {ASSIGNOR: "cooperative_sticky"}},
    {"client": {ASSIGNOR: "zzz"}},
    {"processing": {"maxTimePerRecord": "soon"}},
    {"lag": {"maxTime": -1}},
    {"downtime": {"max": "2 months"}},
    {"offsets": {"initial": "erliest"}},
    {"offsets": {"initial": "17"}},
    {"offsets": {"initial": "2026-11-01T00:00:00"}},
    # names that do not belong there
    {"config": {"consumer.session.timout.ms": "1"}},
    {"config": {"max.poll.records": "1"}},
    {"config": {"zzz": "1"}},
    *(build_layer("client", {name: "hunter2"}) for name in PROPERTIES),
]


def test_spec_problem_messages_match_golden(golden: SnapshotAssertion) -> None:
    """Each with its path, and whether the key is wrong or its value."""
    reports = Reports()
    resolve({}, reports)
    for layer in PROBLEMS:
        (report,) = report_group(layer)
        reports.append(report)
    assert "hunter2" not in str(reports)
    assert reports.describe() == golden(name="problems.txt")


def test_accepted_properties_are_neither_classes_nor_secrets() -> None:
    forbidden = (".class", ".classes", ".reporters", ".providers", ".password")
    for key in filter(lambda key: is_taken(key.name), kafka_configs.consumer_configs().values()):
        assert key.type not in {kafka_configs.ConfigType.CLASS, kafka_configs.ConfigType.PASSWORD}, key.name
        assert not key.name.endswith(forbidden), key.name


HEAD = "apiVersion: kafkaform/v1\nkind: ConsumerGroup\nmetadata: {name: g}\nspec:\n  topics: [t]\n"


@pytest.mark.parametrize("quote", ["", '"'])
def test_timestamp_needs_no_quotes(tmp_path: Path, quote: str) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(f"{HEAD}  offsets: {{initial: {quote}2026-11-01T00:00:00Z{quote}}}\n")
    (desired,) = load([path], Context())
    assert desired.state == {"offsets.t": "2026-11-01T00:00:00Z"}


SCHEMA = load_schema("consumergroup")
PARTS = SCHEMA["$defs"]


def is_valid(spec: dict[str, Any]) -> bool:
    head = {"apiVersion": "kafkaform/v1", "kind": "ConsumerGroup", "metadata": {"name": "g"}}
    return Draft202012Validator(SCHEMA).is_valid({**head, "spec": spec})


@pytest.mark.parametrize(
    "spec",
    [
        {"topic": "a"},
        {"topics": "a"},
        {"topics": []},
        {"topics": ["a", "a"]},
        {"topics": [1]},
        {"protocol": "Consumer"},
        {"members": 3},
        {"members": {"expected": -1}},
        {"members": {"max": 0}},
        {"members": {"min": 1}},
        {"processing": {"maxTimePerRecord": 0.5}},
        {"processing": {"concurrency": 1}},
        {"offsets": {"initial": 17}},
        {"offsets": {"a": "earliest"}},
        {"lag": {"maxRecords": "many"}},
        {"guarantees": {"delivery": "at_least_once"}},
        {"state": "gone"},
        {"client": ["max.poll.records"]},
        {"overrides": {"dev": {"overrides": {}}}},
        {"overrides": {"dev": {"partitions": 3}}},
    ],
    ids=str,
)
def test_invalid_group_specs_do_not_match_schema(spec: dict[str, Any]) -> None:
    assert not is_valid(spec)


def test_schema_of_groups_has_every_protocol_config_and_property() -> None:
    assert set(PARTS["spec"]["properties"]) == {*PARTS["override"]["properties"], "overrides", "profile"}
    assert tuple(PARTS["protocol"]["enum"]) == PROTOCOLS
    assert KINDS["ConsumerGroup"].schema == "consumergroup"
    assert set(PARTS["config"]["properties"]) == set(kafka_configs.group_configs())
    assert set(PARTS["client"]["properties"]) == set(filter(is_taken, kafka_configs.consumer_configs()))
    assert PARTS["client"]["properties"][ASSIGNMENT]["examples"] == list(ASSIGNORS.values())
    assert PARTS["config"]["properties"]["consumer.session.timeout.ms"]["default"] == "45s"
    assert "detect client failures" in str(PARTS["config"]["properties"]["consumer.session.timeout.ms"])


@pytest.mark.parametrize(
    ("part", "keys"), [("config", kafka_configs.group_configs), ("client", kafka_configs.consumer_configs)]
)
def test_schema_defaults_match_kafka_defaults(part: str, keys: Any) -> None:
    offered = {n: p["default"] for n, p in PARTS[part]["properties"].items() if p.get("default", "") != ""}
    assert len(offered) > 15
    for name, value in offered.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert normalise_group({part: {name: text}}) == normalise_group(
            {part: {name: keys()[name].default}}
        ), name


@given(st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1))
def test_partition_path_is_parsed_back(topic: str, number: int) -> None:
    assert partition_of(partition_path((topic, number))) == (topic, number)
    assert partition_of(f"config.{topic}:{number}") is None
