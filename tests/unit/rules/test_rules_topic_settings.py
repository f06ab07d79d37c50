"""The rule about topic configs as such: KF115."""

from __future__ import annotations

import pytest

from kafkaform.core import kafka_configs
from kafkaform.core.model import Facts
from kafkaform.core.values import replace
from kafkaform.rules import RuleContext
from tests.support.golden import wording
from tests.support.plans.rules import Said, configured, said, silent
from tests.support.plans.scenes import DAY, absent, declared

EMPTY_FACTS = Facts("c", config_defaults={"Topic": {}})


@pytest.mark.parametrize("name", sorted(kafka_configs.retired_configs("topics")))
def test_a_retired_config(name: str) -> None:
    desired = (configured({name: "1"}),)
    for facts in (None, EMPTY_FACTS):
        assert said("KF115", RuleContext(desired, facts)) == [
            Said("a", "warning", wording, "remove it", f"config.{name}")
        ]


@pytest.mark.parametrize("name", ["segment.bytes", "segment.index.bytes", "flush.messages"])
def test_a_value_that_only_earlier_versions_accept_is_for_the_brokers_to_judge(name: str) -> None:
    key = kafka_configs.topic_configs()[name]
    (least, _), (newest, _) = key.ranges[0], key.newest_ranges[0]
    assert least is not None
    assert newest is not None
    assert least < newest
    desired = (configured({name: str(least)}),)
    assert said("KF115", RuleContext(desired)) == [Said("a", "warning", wording, wording, f"config.{name}")]
    assert silent("KF115", RuleContext(desired, EMPTY_FACTS))
    assert silent("KF115", RuleContext((configured({name: str(newest)}),)))


def test_a_retention_without_its_unit_and_configs_that_are_fine() -> None:
    assert silent("KF115", RuleContext((declared("a", message_format_version=None),)))
    assert said("KF115", RuleContext((declared("a", retention_ms="7"),))) == [
        Said("a", "warning", wording, wording, "config.retention.ms")
    ]
    assert silent("KF115", RuleContext((configured(kafka_configs.cluster_defaults({})), absent("b"))))


def test_a_deprecated_config(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict(kafka_configs.topic_configs())
    known["flush.ms"] = replace(known["flush.ms"], deprecated=True)
    desired = (declared("a", flush_ms="1000", flush_messages="1"),)
    assert silent("KF115", RuleContext(desired))
    monkeypatch.setattr(kafka_configs, "topic_configs", lambda: known)
    assert said("KF115", RuleContext(desired)) == [Said("a", "warning", wording, wording, "config.flush.ms")]


@pytest.mark.parametrize("name", ["confluent.tier.enable", "redpanda.remote.read", "write.caching"])
def test_a_vendors_config_is_noted_until_brokers_are_asked(name: str) -> None:
    desired = (configured({name: "true"}),)
    assert said("KF115", RuleContext(desired)) == [Said("a", "info", wording, wording, f"config.{name}")]
    assert silent("KF115", RuleContext(desired, EMPTY_FACTS))


@pytest.mark.parametrize(
    ("retention", "trips"), [("0", True), ("299999", True), ("300000", False), ("-1", False), (DAY, False)]
)
def test_where_a_retention_begins_to_mean_something(retention: str, trips: bool) -> None:
    assert silent("KF115", RuleContext((declared("a", retention_ms=retention),))) is not trips
