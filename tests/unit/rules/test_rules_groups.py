"""Tests of the suggestions of rules about groups, and of their places in a manifest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core import kafka_configs
from kafkaform.core.model import Location, Severity
from kafkaform.resources.groups import PROTOCOLS
from kafkaform.rules import RuleContext, Stage
from tests.support.plans.rules import check_rule, group, scene
from tests.support.plans.scenes import declare_topic
from tests.unit.rules.rows.groups import members, slow


@pytest.mark.parametrize("partitions", [5, 7, 9, 12, 17, 60])
def test_suggested_numbers_of_members_divide_the_partitions(partitions: int) -> None:
    for number in range(2, partitions):
        for finding in check_rule("KF202", scene(declare_topic("orders", partitions), members(number))):
            suggested = str(finding.suggestion).partition(" members,")[0]
            for better in map(int, re.findall(r"\d+", suggested)):
                assert partitions % better == 0 or better == number


@pytest.mark.parametrize("each", [600, 601, 7_001, 299_999])
def test_suggested_batch_is_the_largest_that_fits(each: int) -> None:
    (finding,) = check_rule("KF203", slow(each))
    (fitting,) = map(int, re.findall(r"max\.poll\.records: (\d+)", str(finding.suggestion)))
    assert not check_rule("KF203", slow(each, client={"max.poll.records": str(fitting)}))
    assert check_rule("KF203", slow(each, client={"max.poll.records": str(fitting + 1)}))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_suggested_replacement_settings_exist(protocol: str) -> None:
    known = {*kafka_configs.consumer_configs(), *kafka_configs.group_configs()}
    client = dict.fromkeys(kafka_configs.refused_by_client(protocol), "1")
    for finding in check_rule("KF211", scene(group(protocol=protocol, client=client))):
        assert {*re.findall(r"\{([\w.]+):", str(finding.suggestion))} <= known


def test_protocol_rules_have_stage_and_waivability() -> None:
    assert rules.RULES["KF213"].stage is Stage.LIVE
    assert not rules.RULES["KF211"].waivable


MANIFEST = """\
apiVersion: kafkaform/v1
kind: ConsumerGroup
metadata:
  name: checkout
  annotations: {kafkaform/waive.KF203: "a nightly batch", kafkaform/waive.KF210: "another team's"}
spec:
  topics: [orders]
  protocol: consumer
  client:
    max.poll.records: 2000
    max.poll.interval.ms: 5m
    session.timeout.ms: 30s
  processing:
    maxTimePerRecord: 200ms
  offsets:
    initial: earliest
"""


def test_manifest_findings_have_locations_and_waivers(tmp_path: Path) -> None:
    file = tmp_path / "g.yaml"
    file.write_text(MANIFEST, "utf-8")
    context = RuleContext(tuple(load([file], Context())))
    findings = {item.code: (item.location, item.severity, item.waived) for item in rules.check(context, {})}
    assert findings == {
        "KF203": (Location(str(file), 10, 5), Severity.INFO, "a nightly batch"),
        "KF210": (Location(str(file), 7, 3), Severity.INFO, "another team's"),
        "KF211": (Location(str(file), 12, 5), Severity.ERROR, None),
        "KF212": (Location(str(file), 16, 5), Severity.WARNING, None),
    }
