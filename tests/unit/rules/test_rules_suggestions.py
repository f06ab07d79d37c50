"""Tests that remedies, consents and waivers can be pasted: lines of a manifest, and commands."""

from pathlib import Path

import click
import pytest

from kafkaform import rules
from kafkaform.config.manifests.loader import Context, load_all
from kafkaform.config.settings import Settings
from kafkaform.core.model import Facts, ResourceRef, RiskAssessment, Status
from kafkaform.core.plans import Plan
from kafkaform.core.wording import code, command, setting
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.page import Page
from kafkaform.report.plan import render_plan, write_annotation
from kafkaform.resources.consent import ANNOTATION, annotation
from kafkaform.resources.consumer_group.risk import judge_delete
from tests.support.golden import ROOT
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.pasting import check_suggestion, find_commands, parse_command
from tests.support.plans.risk import judge_topic_change
from tests.support.plans.scenes import create_topic

DAY = 86_400_000


@pytest.mark.parametrize(
    "text",
    [
        "write partitions: many",
        "write config: {min.insync.replica: 2}",
        "write client: {partition.assignment.strategy: range,cooperative-sticky}",
        "write config: {segment.ms: 6 hours}",
        "write minIsr: 2",
        "declare config.share.isolation.level, or protocol: consumer",
        "set keyed to true",
        "leave unclean.leader.election.enable=false",
        "read more: kafkaform skew a --recordss",
        "read more (kafkaform skew --records or --precision)",
        "wait for its end: --rule KF309 --wait 1h",
        "wait: kafkaform docter --wait 1h",
        "look: kafkaform reset --to earliest",
        f"write {ANNOTATION}: delete of id: why",
    ],
)
def test_invalid_suggestion_is_detected(text: str) -> None:
    with pytest.raises((AssertionError, click.ClickException, ValueError)):
        check_suggestion(text)


def test_commands_of_golden_sentences_can_be_run() -> None:
    """A sentence around a command stays outside of it, in all rooms."""
    texts = {
        line.strip(" ,\"'").replace("\\'", "'").removeprefix("hint: ")
        for suffix in ("ambr", "txt")
        for file in (ROOT / "tests/unit").rglob(f"__snapshots__/**/*.{suffix}")
        for line in file.read_text("utf-8").splitlines()
    }
    commands = [(verb, arguments) for text in texts for verb, arguments in find_commands(text) if arguments]
    assert len(commands) > 5
    for verb, arguments in commands:
        if verb != "--debug" and "--help" not in arguments:
            parse_command(verb, arguments)


ON = {"remote.storage.enable": "true"}
DELETE = "remote.log.delete.on.disable"


@pytest.mark.parametrize(
    "assessment",
    [
        judge_topic_change({"partitions": 12}, {"partitions": 6}),
        judge_topic_change({"partitions": 6, "cleanup.policy": "delete"}, {"partitions": 12}),
        judge_topic_change(
            {"unclean.leader.election.enable": "false"}, {"unclean.leader.election.enable": "true"}
        ),
        judge_topic_change({**ON, DELETE: "true"}, {"remote.storage.enable": "false"}),
        judge_topic_change(
            {**ON, "remote.log.delete.on.disable": "false"}, {"remote.log.delete.on.disable": "true"}
        ),
        judge_delete(ResourceRef("ConsumerGroup", "g"), {"offsets.a:0": 5}, Facts("c")),
    ],
    ids=lambda assessment: assessment.hazard,
)
def test_remedy_of_a_risky_change_can_be_pasted(assessment: RiskAssessment) -> None:
    assert assessment.remedy is not None
    assert check_suggestion(assessment.remedy)


@pytest.mark.parametrize(
    "pasted",
    [
        command("reset", "a; b", options=("--to", "current")),
        setting("config.min.insync.replicas", 2),
        code(annotation(["delete of id: <why>"])),
    ],
)
def test_pasted_text_stays_on_single_line(pasted: str) -> None:
    for width in range(32, 80):
        page = Page(width)
        page.note("safer: ", f"stop its members, then: {pasted}, and then wait")
        assert pasted in page.text.plain, page.text.plain


CUT = """\
apiVersion: kafkaform/v1
kind: Topic
metadata:
  name: a
  annotations: {annotations}
spec:
  partitions: 3
  replicationFactor: 1
  retention: {{time: 1h, bytes: 1GiB}}
  config: {{min.insync.replicas: 1, unclean.leader.election.enable: true}}
"""


def plan_file(file: Path, annotation: str) -> Plan:
    memory = MemoryCluster()
    kept = {"retention_ms": str(DAY), "retention_bytes": str(2**40)}
    create_topic(memory, "a", 3, 1, min_insync_replicas="2", unclean_leader_election_enable="false", **kept)
    below = f"\n    {annotation}" if annotation else "{}"
    file.write_text(CUT.format(annotations=below), encoding="utf-8")
    (desired,) = load_all([file], [Context()])
    remaining = dict.fromkeys(rules.RULES, "off")
    return build_plan(Request(tuple(desired)), memory, Settings(rules=remaining), None)


@pytest.mark.parametrize(
    "given",
    ["", f'{ANNOTATION}: "min-isr-cut from 2: it\'s \\"meant\\" \U0001f642 \\ufeff: # {{x}}, \\x7f"'],
    ids=["none", "one"],
)
def test_suggested_annotation_gives_every_consent(tmp_path: Path, given: str) -> None:
    """Also of several hazards, of one in two places, and where some are given already."""
    plan = plan_file(tmp_path / "a.yaml", given)
    (change,) = plan.changes
    missing, given_before = change.missing, change.given
    assert {"retention-cut", "unclean-election"} <= {*missing}
    assert ("min-isr-cut" in missing) is not bool(given)
    line = write_annotation(change)
    assert line in " ".join(render_plan(plan, width=10_000).plain.split("\n"))
    assert check_suggestion(line)
    (after,) = plan_file(tmp_path / "a.yaml", line).changes
    assert after.status is Status.PLANNED
    reasons = {consent.hazard: consent.reason for consent in plan_file(tmp_path / "a.yaml", line).consents}
    assert {item.hazard: item.reason for item in given_before}.items() <= reasons.items()
