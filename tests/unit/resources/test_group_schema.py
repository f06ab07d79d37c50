"""The schema of ConsumerGroup manifests, and what its mistakes are answered with."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from kafkaform.core import kafka_configs
from kafkaform.core.kafka_configs import ASSIGNMENT, ASSIGNORS
from kafkaform.core.schema_files import load_schema
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group.client import is_taken
from kafkaform.resources.groups import PROTOCOLS
from tests.support.plans.specs import normalise_group

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
