"""Remedies, consents and waivers can be pasted; once the advice of rules is carried out, they are silent."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

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
from kafkaform.rules import RULES
from tests.support.cli.memory_program import use_memory
from tests.support.cli.project import Project, manifest
from tests.support.golden import ROOT
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.pasting import (
    FIELDS,
    WORDS,
    check_suggestion,
    find_commands,
    find_lines,
    parse_command,
)
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
DELETE, UNCLEAN = "remote.log.delete.on.disable", "unclean.leader.election.enable"


@pytest.mark.parametrize(
    "assessment",
    [
        judge_topic_change({"partitions": 12}, {"partitions": 6}),
        judge_topic_change({"partitions": 6, "cleanup.policy": "delete"}, {"partitions": 12}),
        judge_topic_change({UNCLEAN: "false"}, {UNCLEAN: "true"}),
        judge_topic_change({**ON, DELETE: "true"}, {"remote.storage.enable": "false"}),
        judge_topic_change({**ON, DELETE: "false"}, {DELETE: "true"}),
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


Spec = dict[str, Any]

TOPICS: dict[str, list[Spec]] = {
    "KF104": [{"partitions": 10}],
    "KF105": [{"partitions": 10}],
    "KF108": [{"replicationFactor": 2}],
    "KF109": [
        {"config": {"min.insync.replicas": 1}},
        {"config": {"min.insync.replicas": 3}},
        {"replicationFactor": 2, "config": {"min.insync.replicas": 2}},
    ],
    "KF110": [{"retention": "1m"}],
    "KF111": [{"retention": "1d"}, {"retention": {"bytes": "512MiB"}}],
    "KF112": [{"config": {"cleanup.policy": "compact"}, "retention": "1d"}],
    "KF113": [{"config": {"unclean.leader.election.enable": True}}],
    "KF115": [{"config": {"retention.ms": 7}}],
}
"""Specs of topics that trip a rule, beside 6 partitions with 3 replicas and a min.insync.replicas of 2."""

GROUPS: dict[str, list[Spec]] = {
    "KF107": [{"members": {"expected": 6}, "topics": ["narrow"]}],
    "KF203": [
        {"protocol": protocol, "processing": {"maxTimePerRecord": "10s"}} for protocol in ("classic", "share")
    ],
    "KF204": [{"client": {"partition.assignment.strategy": "roundrobin"}}],
    "KF206": [{"protocol": "classic", "client": {"session.timeout.ms": 8999, "heartbeat.interval.ms": 3000}}],
    "KF208": [{"downtime": {"max": "9d"}}],
    "KF209": [
        *({"guarantees": {"delivery": item}} for item in ("at-most-once", "at-least-once", "exactly-once"))
    ],
    "KF211": [
        {"protocol": "consumer", "client": {"session.timeout.ms": 10000, "heartbeat.interval.ms": 1000}},
        {"protocol": "consumer", "client": {"session.timeout.ms": 300000}},
        {"protocol": "share", "client": {"auto.offset.reset": "latest"}},
        {"protocol": "share", "client": {"isolation.level": "read_committed"}},
    ],
    "KF212": [{"offsets": {"initial": "earliest"}, "client": {"auto.offset.reset": "latest"}}],
    "KF214": [{"protocol": "classic", "config": {"consumer.session.timeout.ms": 50000}}],
}
"""Specs of groups that trip a rule, of a topic with 12 partitions."""

ELSEWHERE = {
    "KF119": "needs a topic to succeed: test_advice_for_a_succession_can_be_carried_out",
    "KF120": "advises to wait: tests/kafka/test_cli_succession.py",
    "KF217": "needs a topic to succeed: test_advice_for_a_succession_can_be_carried_out",
    "KF218": "advises to wait: tests/kafka/test_cli_succession.py",
    "KF207": "900 partitions and members: the advice is a client setting",
    "KF213": "needs members of another protocol: tests/kafka/test_cli_groups.py",
    "KF216": "needs an older broker: tests/versions",
    "KF303": "advises to start a broker: tests/kafka/test_cli_doctor.py",
    "KF306": "advises `plan` and `apply` without arguments, which every test of commands runs",
    "KF307": "advises to start members: tests/kafka/test_cli_doctor.py",
    "KF308": "names `kafkaform rebalance`, which tests/kafka/test_three_brokers.py runs; the brokers do it",
    "KF309": "advises a command, which tests/kafka/test_three_brokers.py runs",
    "KF310": "advises a command, which tests/kafka/test_three_brokers.py runs",
    "KF311": "advises a command of Kafka's: tests/unit/inspect/test_health_check.py",
    "KF312": "advises commands, which tests/kafka/test_cli_skew.py and tests/spark run",
    "KF313": "advises commands of Kafka: tests/unit/inspect/test_health_check.py",
    "KF314": "names `kafkaform succession`, which tests/kafka/test_cli_succession.py runs",
    "KF315": "advises a reset, which tests/kafka/test_cli_doctor.py runs",
    "KF401": "advises consent or stopping, which tests/kafka/test_cli_terminal.py does",
    "KF405": "advises stop, apply, reset, start: tests/kafka/test_cli_groups.py",
    "KF406": "advises consent in words of the group's owner: tests/unit/rules/rows/changes.py",
    "KF409": "advises more replicas first, as KF109 does",
    "KF501": "measured skew: advises keys, which only an application changes",
    "KF502": "measured skew: advises keys, which only an application changes",
    "KF503": "measured skew: advises keys, which only an application changes",
    "KF505": "measured skew: advises keys, which only an application changes",
    "KF506": "measured skew: advises another count, which tests/kafka/test_cli_apply.py plans",
    "KF510": "measured skew: advises a limit in proportion to what each partition keeps",
}
"""Rules whose advice is not carried out here, with the reason; `WORDS` are the ones that advise no line."""


def test_every_rule_is_tested_or_has_reason() -> None:
    assert {*TOPICS, *GROUPS, *ELSEWHERE} | WORDS.keys() == RULES.keys()
    assert not ({*TOPICS, *GROUPS} & {*ELSEWHERE, *WORDS})


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project on a cluster of three brokers in memory."""
    use_memory(monkeypatch, brokers=3)
    project.config(limits={"recoveryWindow": "3d"})
    return project


def findings(project: Project, code: str, name: str) -> list[dict[str, Any]]:
    plan = project.run("plan", "--no-strict", "--format", "json").needs(0).json
    return [
        item
        for item in plan["diagnostics"]
        if item["code"] == code and (item["about"] or {}).get("name") == name
    ]


def merge_specs(under: Spec, over: Spec) -> Spec:
    """A spec with the fields of another one; null takes a field away."""
    result = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merge_specs(result[key], value) if both else value
    return result


def parse_advice(suggestion: str, kind: str) -> list[Spec]:
    """The lines of a manifest that an advice has, each an alternative."""
    found = [yaml.safe_load(line) for key, line in find_lines(suggestion) if key in FIELDS[kind]]
    assert found, suggestion
    return found


@pytest.mark.parametrize(
    ("code", "spec"), [pytest.param(code, spec, id=code) for code, specs in TOPICS.items() for spec in specs]
)
def test_advice_for_live_topic_resolves_finding(project: Project, code: str, spec: Spec) -> None:
    base = {"partitions": 6, "replicationFactor": 3, "config": {"min.insync.replicas": 2}}
    wrong = merge_specs(base, spec)
    names = [project.topic("t0", **wrong)]
    project.apply("--allow", "destructive").needs(0)
    (finding,) = findings(project, code, names[0])
    choices = parse_advice(finding["suggestion"], "Topic")
    names += [project.topic(f"t{number}", **wrong) for number in range(1, len(choices))]
    if choices[1:]:
        project.apply("--allow", "destructive").needs(0)
    for number, choice in enumerate(choices):
        project.topic(f"t{number}", **merge_specs(wrong, choice))
    project.apply("--allow", "destructive").needs(0)
    assert [findings(project, code, name) for name in names] == [[]] * len(names), choices


def test_advice_for_a_succession_can_be_carried_out(project: Project) -> None:
    base: Spec = {"partitions": 6, "replicationFactor": 3, "config": {"min.insync.replicas": 2}}
    old = project.topic("old", **base, retention="30d")
    project.apply().needs(0)
    successor: Spec = {**base, "succeeds": old}
    new = project.topic("new", **successor)
    spec: Spec = {"topics": [new]}
    group = project.group("g", **spec)
    (settings,), (start,) = findings(project, "KF119", new), findings(project, "KF217", group)
    project.topic("new", **merge_specs(successor, *parse_advice(settings["suggestion"], "Topic")))
    project.group("g", **merge_specs(spec, *parse_advice(start["suggestion"], "ConsumerGroup")))
    assert findings(project, "KF119", new) + findings(project, "KF217", group) == []


class Scene:
    """A group and its topics, as manifests that advice changes."""

    def __init__(self, project: Project, code: str, spec: Spec) -> None:
        self._project, self._code = project, code
        safe = {"replicationFactor": 3, "config": {"min.insync.replicas": 2}}
        sizes = {"wide": 12, "narrow": 1}
        self._topics: dict[str, Spec] = {name: {**safe, "partitions": n} for name, n in sizes.items()}
        read = [project.prefix + name for name in spec.get("topics", ["wide"])]
        self._group = {"protocol": "classic", **spec, "topics": read}
        self._about = project.prefix + ("narrow" if code == "KF107" else "g")
        self._write()

    def _write(self) -> None:
        for name, spec in self._topics.items():
            self._project.topic(name, **spec)
        self._project.write(
            "topics/g.yaml", manifest(f"{self._project.prefix}g", self._group, kind="ConsumerGroup")
        )

    def findings(self) -> list[dict[str, Any]]:
        return findings(self._project, self._code, self._about)

    def choices(self, finding: dict[str, Any]) -> list[Spec]:
        return parse_advice(finding["suggestion"], "Topic" if self._code in ON_TOPICS else "ConsumerGroup")

    def follow(self, finding: dict[str, Any], choice: Spec) -> None:
        """Do what an advice says: `instead` takes the setting away that the message names."""
        if self._code in ON_TOPICS:
            name = ON_TOPICS[self._code]
            self._topics[name] = merge_specs(self._topics[name], choice)
        else:
            if "instead" in finding["suggestion"]:
                for section in ("client", "config"):
                    settings = self._group.get(section, {})
                    named = {*re.findall(r"[\w.]*\w", finding["message"])}
                    self._group[section] = {n: v for n, v in settings.items() if n not in named}
            self._group = merge_specs(self._group, choice)
        self._write()


ON_TOPICS = {"KF107": "narrow", "KF208": "wide"}
"""Rules about groups whose advice is for a topic."""
STEPS = {"KF204"}
"""Rules whose advice is to be done one line after the other, with a restart between."""


@pytest.mark.parametrize(
    ("code", "spec"), [pytest.param(code, spec, id=code) for code, specs in GROUPS.items() for spec in specs]
)
def test_advice_for_group_resolves_finding(project: Project, code: str, spec: Spec) -> None:
    first = Scene(project, code, spec)
    (finding, *_) = first.findings()
    choices = first.choices(finding)
    for number, choice in enumerate(choices):
        scene = first if code in STEPS else Scene(project, code, spec)
        scene.follow(finding, choice)
        if code in STEPS and number < len(choices) - 1:
            continue
        for second in scene.findings():
            scene.follow(second, scene.choices(second)[0])
        assert scene.findings() == [], choice
        project.apply("--allow", "destructive").needs(0)
