"""A Topic's spec in normal form, and its split into what the cluster holds and what is only meant."""

import pytest

from kafkaform.core import kafka_configs
from kafkaform.resources import KINDS
from kafkaform.resources.base import Layer
from kafkaform.resources.topic.spec import normalise
from tests.support.plans.specs import Reports


def normalise_topic(layer: Layer) -> Layer:
    reports = Reports()
    normal = normalise(layer, reports)
    assert reports == []
    return normal


@pytest.mark.parametrize(
    ("layer", "config"),
    [
        ({"retention": "7d"}, {"retention.ms": "604800000"}),
        ({"retention": 1000}, {"retention.ms": "1000"}),
        ({"retention": {"bytes": "1KiB"}}, {"retention.bytes": "1024"}),
        (
            {"retention": {"time": None, "bytes": "unlimited"}},
            {"retention.ms": None, "retention.bytes": "-1"},
        ),
        ({"config": {"cleanup.policy": ["delete", "compact"]}}, {"cleanup.policy": "compact,delete"}),
        ({"config": {"min.cleanable.dirty.ratio": 0.5}}, {"min.cleanable.dirty.ratio": "0.5"}),
        (
            {"config": {"min.cleanable.dirty.ratio": "0.123456789"}},
            {"min.cleanable.dirty.ratio": "0.123456789"},
        ),
        ({"config": {"preallocate": "True"}}, {"preallocate": "true"}),
        ({"config": {"confluent.tier.enable": "True"}}, {"confluent.tier.enable": "True"}),
        ({"config": {"write.caching": ["a", "b"]}}, {"write.caching": "a,b"}),
    ],
)
def test_settings_have_canonical_spelling(layer: Layer, config: dict[str, str | None]) -> None:
    assert normalise_topic(layer) == {"config": config}


def test_access_accepts_principals_and_teams_only() -> None:
    reports = Reports()
    assert "access" in normalise({"access": {"read": ["team:a", "User:b"], "write": ["c"]}}, reports)
    ((path, message, hint, _),) = reports
    assert path == ("access", "write", 0)
    assert "'c' is not a principal" in message
    assert "team:c" in str(hint)


def test_every_kafka_config_accepts_own_default() -> None:
    for key in kafka_configs.topic_configs().values():
        if key.internal or key.default is None or key.name in kafka_configs.REASSIGNMENT_KEYS:
            continue
        assert normalise_topic({"config": {key.name: key.default}}) == {
            "config": {key.name: kafka_configs.canonical(key, key.default)}
        }


@pytest.mark.parametrize("name", sorted(kafka_configs.REASSIGNMENT_KEYS))
def test_throttles_cannot_be_declared(name: str) -> None:
    reports = Reports()
    assert normalise({"config": {name: "*"}}, reports) == {}
    assert [hint for _, _, hint, _ in reports] == ["remove it"]


TOPIC = KINDS["Topic"]


@pytest.mark.parametrize(
    ("path", "a", "b", "same"),
    [
        ("config.min.cleanable.dirty.ratio", "0.50", "0.5", True),
        ("config.segment.ms", "060000", "60000", True),
        ("config.cleanup.policy", "delete,compact", "compact, delete", True),
        ("config.cleanup.policy", "delete", "compact,delete", False),
        ("config.preallocate", "TRUE", "true", True),
        ("config.confluent.x", "0.50", "0.5", False),
        ("config.retention.ms", None, "-1", False),
        ("config.retention.ms", None, None, True),
        ("partitions", 3, 4, False),
        ("replicationFactor", "1-3", 3, False),
    ],
)
def test_values_are_equal_by_meaning(path: str, a: int | str | None, b: int | str | None, same: bool) -> None:
    assert TOPIC.field(path).equal(a, b) is same
    assert TOPIC.field(path).equal(b, a) is same
