"""The rule about topic configs as such: KF115."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaform.core import kafka_configs
from kafkaform.core.model import Facts
from kafkaform.rules import RuleContext
from tests.support.rule_scenes import Said, configured, said, silent
from tests.support.scenes import DAY, absent, declared

EMPTY_FACTS = Facts("c", config_defaults={"Topic": {}})


@pytest.mark.parametrize("name", sorted(kafka_configs.RETIRED_KEYS))
def test_a_retired_config(name: str) -> None:
    desired = (configured({name: "1"}),)
    for facts in (None, EMPTY_FACTS):
        assert said("KF115", RuleContext(desired, facts)) == [
            Said(
                "a",
                "warning",
                f"{name} is retired: brokers of Kafka 4 refuse it",
                "remove it",
                f"config.{name}",
            )
        ]


def test_a_config_that_is_unset_is_as_good_as_out() -> None:
    assert silent("KF115", RuleContext((declared("a", message_format_version=None),)))


def test_a_deprecated_config(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(kafka_configs.topic_configs())
    known["flush.ms"] = replace(known["flush.ms"], deprecated=True)
    desired = (declared("a", flush_ms="1000", flush_messages="1"),)
    assert silent("KF115", RuleContext(desired))
    monkeypatch.setattr(kafka_configs, "topic_configs", lambda: known)
    version = kafka_configs.kafka_version()
    assert said("KF115", RuleContext(desired)) == [
        Said(
            "a",
            "warning",
            f"flush.ms is deprecated in Kafka {version}",
            "remove it: a later release will not support it",
            "config.flush.ms",
        )
    ]


@pytest.mark.parametrize("name", ["confluent.tier.enable", "redpanda.remote.read", "write.caching"])
def test_a_vendors_config_is_noted_until_brokers_are_asked(name: str) -> None:
    desired = (configured({name: "true"}),)
    assert said("KF115", RuleContext(desired)) == [
        Said(
            "a",
            "info",
            f"{name} is a vendor's config: only that vendor's brokers can judge it",
            "plan against such a cluster before you merge",
            f"config.{name}",
        )
    ]
    assert silent("KF115", RuleContext(desired, EMPTY_FACTS))


def test_a_retention_without_its_unit() -> None:
    assert said("KF115", RuleContext((declared("a", retention_ms="7"),))) == [
        Said(
            "a",
            "warning",
            "retention.ms is 7 milliseconds, but brokers look for old records only every 5 minutes",
            "write the unit, such as config: {retention.ms: 7d}; to empty a topic, delete its records",
            "config.retention.ms",
        )
    ]


@pytest.mark.parametrize(
    ("retention", "trips"), [("0", True), ("299999", True), ("300000", False), ("-1", False), (DAY, False)]
)
def test_where_a_retention_begins_to_mean_something(retention: str, trips: bool) -> None:
    assert silent("KF115", RuleContext((declared("a", retention_ms=retention),))) is not trips


def test_kafkas_own_configs_and_tombstones() -> None:
    assert silent("KF115", RuleContext((configured(kafka_configs.cluster_defaults({})), absent("b"))))
