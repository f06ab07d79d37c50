"""What findings and remedies suggest can be pasted: lines of a manifest, and commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import click
import pytest

from kafkaform import rules
from kafkaform.cli.main import COMMANDS, LazyGroup
from kafkaform.config.manifests.field_locations import FieldLocations
from kafkaform.config.manifests.loader import VERBATIM, Context, load_all
from kafkaform.config.manifests.structure import check_structure
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.config.settings import Settings
from kafkaform.core.errors import Problem
from kafkaform.core.health import Health, LogDir, Quorum, ThrottleConfigs
from kafkaform.core.model import Desired, Facts, Intent, Location, ResourceRef, RiskAssessment, Status, Update
from kafkaform.core.partitions import Broker, PartitionState
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.printable import split_code
from kafkaform.core.schema_files import load_schema
from kafkaform.core.values import replace
from kafkaform.core.wording import code, command, setting
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.page import Page
from kafkaform.report.plan import render_plan, write_annotation
from kafkaform.resources import KINDS
from kafkaform.resources.consent import ANNOTATION, Grant, annotation, parse_annotation
from kafkaform.resources.consumer_group.risk import judge_delete
from kafkaform.resources.replicas.facts import ReplicaFacts
from kafkaform.resources.replicas.layout import Layout
from kafkaform.rules import RuleContext
from kafkaform.rules.catalogue import ProjectLimits
from kafkaform.rules.waivers import find_idle_waivers
from spark_validation.arrivals import TopicArrivals
from spark_validation.results import ArrivalPeriod, Estimate, NewestPart
from tests.support.golden import ROOT, wording
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.risk import judge_topic_change as judged
from tests.support.plans.rules import configured, living, observed
from tests.support.plans.rules import group as reading
from tests.support.plans.scenes import absent, declared, group_ref, made, topic
from tests.support.plans.scenes import declare_reader as reader
from tests.support.skew.scenes import FINE, SURE, UNSURE, hot, measured, policed, what_if
from tests.support.skew.scenes import scene as of_records
from tests.unit.rules import test_rules_changes as changes
from tests.unit.rules import test_rules_health as health
from tests.unit.rules.test_rules_acknowledged_writes import RAISE, TWO_OF_THREE
from tests.unit.rules.test_rules_group import (
    DAY,
    FIXED,
    HOUR,
    ORDERS,
    beating,
    delivering,
    group,
    live_group,
    lives,
    slow,
)

# --- what can be pasted ------------------------------------------------------------------------------

_LINE = re.compile(r'(?<![\w./-])([A-Za-z][\w./-]*): (\{[^}]*\}|"(?:[^"\\]|\\.)*"|[^\s,;`]+)')
_VALUE = re.compile(r'[{"\d]|(?:true|false|null)\b')
"""What only a value begins with, not the rest of a sentence."""
_PATH = re.compile(r"\b(?:config|client|members|offsets)\.\w|\bset [\w.]+ to\b")
"""What a reader has to turn into YAML: `declare client.session.timeout.ms`, `set keyed to true`."""
_PROPERTY = re.compile(r"[\w.]+=[\w.]+")
_CLIENTS = {"auto.offset.reset=earliest", "partitioner=murmur2_random"}
"""Settings of applications, which are no manifests."""
_COMMAND = re.compile(r"kafkaform ([a-z-]+)")
_TOOL = re.compile(
    r"kafka-transactions\.sh --bootstrap-server HOST:PORT "
    r"(?:abort --topic \S+ --partition \d+ --start-offset \d+|describe-producers --topic \S+ --partition \d+)"
    r"|kafka-configs\.sh --bootstrap-server HOST:PORT --alter --entity-type (?:topics|brokers) "
    r"--entity-name \S+ --delete-config [a-z.,]+"
)
"""Commands of Kafka's own tools, as TransactionsCommand and ConfigCommand take them."""
_KINDS = {"Topic": "topic", "ConsumerGroup": "consumergroup"}


def fields_of(kind: str) -> set[str]:
    """The fields that a manifest's spec may have."""
    return {*load_schema(_KINDS[kind])["$defs"]["spec"]["properties"]}


FIELDS = {kind: fields_of(kind) for kind in _KINDS}


def snippets(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a manifest that a text has, each with its key."""
    for found in _LINE.finditer(text):
        key, value = found.groups()
        if key == ANNOTATION or any(key in fields for fields in FIELDS.values()) or _VALUE.match(value):
            yield key, found[0]


def is_line_of_a_manifest(key: str, line: str) -> bool:
    """Whether the line can stand below `spec:`, or `metadata.annotations:`, as it is."""
    if key == ANNOTATION:
        problems: list[Problem] = []
        (document,) = read_documents(line.encode(), "f", problems.append, verbatim=VERBATIM)
        _, bad = parse_annotation(cast("dict[str, str]", document.data)[ANNOTATION])
        return not problems and not bad
    return any(_fits(kind, line) for kind, fields in FIELDS.items() if key in fields)


def _fits(kind: str, line: str) -> bool:
    problems: list[Problem] = []
    text = f"apiVersion: kafkaform/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n{indent(line, '  ')}"
    documents = read_documents(text.encode(), "f", problems.append, verbatim=VERBATIM)
    if problems or check_structure(documents[0], _KINDS[kind])[0]:
        return False
    spec = cast("dict[str, dict[str, object]]", documents[0].data)["spec"]
    KINDS[kind].normalise(spec, documents[0].create_reporter(("spec",), problems))
    return not problems


def commands(text: str) -> Iterator[tuple[str, str | None]]:
    """The verb of each command that a text names, and what follows it where it is marked as code."""
    for piece, is_code in split_code(text):
        for found in _COMMAND.finditer(piece):
            yield found[1], piece[found.end() :] if is_code else None


def check_suggestion(text: str) -> int:
    """Check everything in a suggestion that looks like YAML or like a command; how much that is."""
    lines = list(snippets(text))
    for key, line in lines:
        assert is_line_of_a_manifest(key, line), f"{line!r} in {text!r}"
    assert {*_PROPERTY.findall(text)} <= _CLIENTS, text
    assert not _PATH.search(text), text
    tools = _TOOL.findall(text)
    checked = _TOOL.sub("", text)
    told = list(commands(text))
    for verb, rest in told:
        assert verb in COMMANDS, text
        if rest is not None:
            command = LazyGroup("kafkaform").get_command(click.Context(click.Command("x")), verb)
            assert command is not None
            command.make_context(verb, shlex.split(rest))  # raises where it does not take them
            checked = checked.replace(rest, "")
    assert {*re.findall(r"--[a-z-]+", checked)} <= {"--target"}, f"an option without its command: {text!r}"
    return len(lines) + len(tools) + sum(rest is not None for _, rest in told)


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
        "read more: kafkaform skew a --fully",
        "read more (kafkaform skew --records or --full)",
        "wait for its end: --rule KF309 --wait 1h",
        "wait: kafkaform docter --wait 1h",
        "look: kafkaform reset --to earliest",
        f"write {ANNOTATION}: delete of id: why",
    ],
)
def test_what_cannot_be_pasted_is_noticed(text: str) -> None:
    with pytest.raises((AssertionError, click.ClickException, ValueError)):
        check_suggestion(text)


# --- the suggestions of rules ------------------------------------------------------------------------


def access(principal: str, *paths: str) -> Desired:
    return Desired(ResourceRef("Access", principal), dict.fromkeys(paths, "granted"))


def limited(topic: Desired) -> Desired:
    return replace(topic, intent=replace(topic.intent, spec={"access": {"write": []}}))


def offline(*desired: Desired, **more: Any) -> RuleContext:
    return RuleContext(desired, **more)


def of_topic(partitions: int = 12, replicas: int = 3, **configs: str) -> RuleContext:
    own = {f"config.{name.replace('_', '.')}": value for name, value in configs.items()}
    topic = declared("a", partitions, replicas)
    return offline(replace(topic, state={**(topic.state or {}), **own}))


def sick(*partitions: PartitionState, **more: Any) -> RuleContext:
    return RuleContext((), health=health.cluster(*partitions, **more))


def refusing(protocol: str, **client: str) -> RuleContext:
    settings = {name.replace("_", "."): value for name, value in client.items()}
    return offline(group(protocol=protocol, client=settings))


def having(protocol: str, name: str, value: str) -> RuleContext:
    return offline(group(protocol=protocol, config={name: value}))


def rising(**more: Any) -> RuleContext:
    change = PlannedChange(Update(topic("a"), "id", (RAISE,)), Status.PLANNED)
    return replace(
        RuleContext((TWO_OF_THREE,), Facts("c", config_defaults={"Topic": {}}), changes=(change,)), **more
    )


def short_of_replicas() -> RuleContext:
    brokers = tuple(Broker(number) for number in (1, 2, 3))
    layout = Layout(brokers, {"a": (health.part(0, 1, 1),)}, {})
    return rising(facts=Facts("c", config_defaults={"Topic": {}}).add_part(ReplicaFacts(layout=layout)))


def with_gaps() -> RuleContext:
    own = changes.group("g", changes.at("a", 0), members=1)
    desired = changes.reader()
    refs = {topic("a"): changes.live(topic("a"), partitions=3), desired.ref: changes.live(desired.ref, own)}
    return RuleContext((desired,), live=refs)


def moving_alone() -> RuleContext:
    before, after = (changes.group("g", changes.at("a", 0, offset)) for offset in (5, 9))
    ref = group_ref("g")
    return RuleContext(
        (), live={ref: changes.live(ref, before)}, groups={"g": after}, changes=(changes.deleted(ref),)
    )


def increased(*what_ifs: Any, of: str = "period") -> RuleContext:
    change = changes.updated("a")
    found = measured(partitions=6, ratio=FINE, what_ifs=what_ifs)
    if of == "now":
        shares = (Estimate.exact(1 / 6),) * 6
        found = replace(found, now=NewestPart(0, 1, shares, shares, FINE, FINE))
    return replace(of_records(policed(partitions=12, maxPartitionRatio=2.0, of=of), found), changes=(change,))


def judged_as(hazard: str, path: str, assessment: RiskAssessment) -> RuleContext:
    return offline(declared("a"), changes=(changes.updated("a", path, replace(assessment, hazard=hazard)),))


def starting(name: str, *others: Desired) -> RuleContext:
    """A new group with first offsets in a topic that does not exist."""
    desired = (reader(name), *others)
    memory = MemoryCluster()
    made(memory, "orders")
    refs = [topic("orders")]
    changes = build_plan(Request(desired), memory, Settings(), None).changes
    return RuleContext(desired, live=memory.observe(refs).resources, changes=changes)


WITH_PARTITIONS = FieldLocations(
    read_documents(b"spec: {partitions: 6}", "a.yaml", lambda _: None, verbatim=VERBATIM)[0], {}, None
)
KEYED = replace(configured({"cleanup.policy": "compact"}), intent=Intent(keyed=False))
LIVE = living(observed("a", 10, 3))
BROKEN = policed(maxPartitionRatio=2.0, maxKeyShare=0.05, minDistinctKeys=5_000)
NOW = 1_790_000_000_000


def kept_unevenly(retention_bytes: int | None, records: int = 20) -> RuleContext:
    """Partition 0 keeps an hour, and so many records; the others keep a day."""
    result = measured("a", partitions=4)
    times = (NOW - HOUR, *(NOW - DAY,) * 3)
    partitions = tuple(
        replace(one, kept_from=100, end_offset=100 + records, kept_since_ms=time)
        for one, time in zip(result.partitions, times, strict=True)
    )
    arrivals = (ArrivalPeriod("common", NOW - HOUR, NOW, (900, 100, 100, 100)),)
    result = replace(result, partitions=partitions, arrivals=arrivals, retention_bytes=retention_bytes)
    return of_records(declared("a"), result)


def test_a_partition_that_keeps_less_is_told_with_what_trims_it() -> None:
    found = [list(rules.RULES["KF510"].check(kept_unevenly(limit))) for limit in (10 * 2**20, -1, None)]
    assert [(one.message, one.suggestion) for (one,) in found] == [
        (wording, wording),
        (wording, wording),
        (wording, wording),
    ]
    assert not list(rules.RULES["KF510"].check(kept_unevenly(-1, records=19))), "seldom written to"


SCENES: dict[str, list[RuleContext]] = {
    "KF101": [offline(declared("a b"))],
    "KF102": [
        offline(declared("a.b"), declared("a_b")),
        offline(declared("a.b"), absent("a_b"), inventory=frozenset({topic("a_b")})),
    ],
    "KF103": [offline(declared("a"), limits=ProjectLimits(topic_name="b"))],
    "KF104": [of_topic(10), offline(declared("a", 10), live=LIVE)],
    "KF105": [offline(declared("a", 10), brokers=3), offline(declared("a", 10), brokers=3, live=LIVE)],
    "KF106": [
        offline(declared("a", 10), limits=ProjectLimits(partitions=9)),
        offline(declared("a", 5), declared("b", 5), limits=ProjectLimits(partitions=9)),
    ],
    "KF107": [offline(declared("a", 1), reading("g", expected=6))],
    "KF108": [
        offline(declared("a", 12, 4), brokers=3),
        *(offline(declared("a", 12, 1), environment="prod", brokers=n) for n in (None, 1, 2, 3)),
        of_topic(12, 2),
        of_topic(12, 4),
    ],
    "KF109": [of_topic(12, 3, min_insync_replicas=n) for n in ("1", "3", "4")],
    "KF110": [
        offline(declared("a", retention_ms="60000"), limits=ProjectLimits(recovery_window_ms=n))
        for n in (7 * DAY, 90_061_001)
    ],
    "KF111": [
        *(of_topic(retention_ms=str(n)) for n in (DAY, 90_061_001, 300_001)),
        *(of_topic(retention_bytes=str(n)) for n in (2**20, 2**20 + 1, 2**29, 10**9 - 1)),
    ],
    "KF112": [offline(KEYED), of_topic(cleanup_policy="compact", retention_ms="1", retention_bytes="1")],
    "KF113": [of_topic(unclean_leader_election_enable="true")],
    "KF114": [offline(declared("a"), limits=ProjectLimits(topics=0))],
    "KF115": [of_topic(retention_ms="7"), of_topic(message_format_version="2.8")],
    "KF116": [of_topic(2_000)],
    "KF117": [
        RuleContext(
            (replace(declared("a", 6), locations=WITH_PARTITIONS),),
            defaults={("Topic", "partitions"): Location("kafkaform.yaml", 4, 5)},
        )
    ],
    "KF201": [offline(ORDERS, group(members={"expected": 13}))],
    "KF202": [
        offline(ORDERS, group(members={"expected": 5})),
        offline(declared("orders", 7), group(members={"expected": 3})),
    ],
    "KF203": [offline(slow(n, protocol)) for n in (HOUR, 10_000) for protocol in ("classic", "share")],
    "KF204": [
        offline(group(client=client))
        for client in ({}, {"partition.assignment.strategy": "roundrobin,com.example.Own"})
    ],
    "KF205": [
        offline(group(members=FIXED)),
        offline(group(members=FIXED, client={"group.instance.id": "a"})),
    ],
    "KF206": [
        offline(beating(protocol, 8_999, 3_000)) for protocol in ("classic", "consumer", "share", "streams")
    ],
    "KF207": [offline(declared("orders", 900), group(members={"expected": 900}))],
    "KF208": [
        offline(ORDERS, group(downtime={"max": 8 * DAY + 1})),
        offline(
            group(downtime={"max": 2 * HOUR}),
            live={
                topic("orders"): replace(
                    observed("orders"),
                    effective={"config.retention.ms": "1", "config.cleanup.policy": "delete"},
                )
            },
        ),
    ],
    "KF209": [
        *(offline(delivering(one)) for one in ("at-most-once", "at-least-once", "exactly-once")),
        offline(delivering("exactly-once", "share")),
    ],
    "KF210": [
        offline(group(topics=("order",)), ORDERS),
        offline(group()),
        offline(group(), absent("orders")),
        offline(group(), subset=True),
    ],
    "KF211": [
        refusing("consumer", session_timeout_ms="45000", heartbeat_interval_ms="3000"),
        *(refusing("consumer", partition_assignment_strategy=one) for one in ("range", "cooperative-sticky")),
        refusing("classic", group_remote_assignor="uniform"),
        *(refusing("share", auto_offset_reset=one) for one in ("latest", "none")),
        refusing("share", isolation_level="read_committed", enable_auto_commit="false"),
        refusing("share", session_timeout_ms="45000", heartbeat_interval_ms="3000", group_instance_id="a"),
    ],
    "KF212": [
        offline(group(offsets={"initial": initial}, client={"auto.offset.reset": reset}))
        for initial in ("earliest", "latest")
        for reset in ("none", "latest", "earliest")
        if initial != reset
    ],
    "KF213": [
        offline(group(protocol=protocol), live=lives(live_group(there, members=members)))
        for protocol, there in (("consumer", "classic"), ("share", "consumer"), ("classic", "streams"))
        for members in (1,)
    ],
    "KF216": [
        offline(group(protocol=protocol), facts=Facts("id", group_protocols=frozenset({"classic"})))
        for protocol in ("consumer", "share", "streams")
    ],
    "KF214": [
        having(protocol, name, value)
        for protocol in ("classic", "consumer", "share")
        for name, value in (
            ("consumer.session.timeout.ms", "50000"),
            ("share.auto.offset.reset", "latest"),
            ("share.isolation.level", "read_committed"),
            ("streams.num.standby.replicas", "1"),
        )
        if not name.startswith(protocol)
    ],
    "KF215": [
        starting("order"),
        starting("nowhere"),
        starting("gone", absent("gone")),
        starting("a b", declared("a b")),
        replace(starting("nowhere"), invisible=frozenset({topic("nowhere")})),
    ],
    "KF301": [
        sick(quorum=Quorum(None, ())),
        sick(
            quorum=Quorum(11, (*health.QUORUM.voters[:2], replace(health.QUORUM.voters[2], silent_ms=60_000)))
        ),
        RuleContext((), health=Health(None, health.SOUND.brokers)),
    ],
    "KF302": [replace(sick(), brokers=4)],
    "KF303": [sick(health.part(0, 1, 1, 2)), sick(health.part(0, 1, 1, 2), brokers=2)],
    "KF304": [sick(health.part(0, None, 3)), sick(health.part(0, None, 3), brokers=2)],
    "KF305": [sick(health.part(0, 1, 1), min_insync_replicas={"a": 2})],
    "KF306": [
        replace(health.live("a"), desired=(declared("a", 6, 3),)),
        replace(health.live("b"), desired=(declared("a"),)),
    ],
    "KF307": [
        RuleContext((health.wants(lag=50),), groups={"g": health.group(1, 2, lag=51)}),
        RuleContext((health.wants(expected=2),), groups={"g": health.group(0, 0, state="Empty")}),
        RuleContext((), groups={"g": health.group(3, 2)}),
    ],
    "KF308": [RuleContext((), health=health.leaders(14, 8, 8)), sick(health.part(0, 2))],
    "KF309": [sick(reassigning={("a", 0): (4,)})],
    "KF310": [sick(log_dirs=(LogDir(1, "/data", 100, 9), LogDir(2, "/data", None)))],
    "KF311": [
        sick(transactions=(hanging,))
        for hanging in (
            health.HANGING,
            replace(health.HANGING, coordinated=False, transactional_id=None),
            replace(health.HANGING, producer=None, unknown="denied"),
        )
    ],
    "KF313": [
        sick(throttles=(ThrottleConfigs("topics", "a", {health.LISTS[0]: entries}),)) for entries in ("*", "")
    ],
    "KF312": [
        RuleContext(
            (), arrivals=tuple(TopicArrivals(f"t-{n}", 1, (900, 90, 10), (0, 0, 0), 1.0) for n in range(k))
        )
        for k in (1, 6)
    ],
    "KF401": [
        judged_as(
            "partition-increase",
            "partitions",
            judged({"partitions": 6, "cleanup.policy": "delete"}, {"partitions": 12}),
        )
    ],
    "KF402": [
        judged_as(
            "partition-increase-compacted",
            "partitions",
            judged({"partitions": 6, "cleanup.policy": "compact"}, {"partitions": 12}),
        )
    ],
    "KF403": [
        judged_as(
            "retention-cut",
            "config.retention.ms",
            judged({"retention.ms": str(DAY), "cleanup.policy": "delete"}, {"retention.ms": str(HOUR)}),
        )
    ],
    "KF404": [changes.scene_of(10, 4)],
    "KF405": [
        changes.with_groups(change, *(changes.group(name, changes.at("a", 0), members=1) for name in names))
        for change in (changes.updated("a"), changes.deleted(topic("a")))
        for names in ("g", ("g, then (h)", "i"))
    ],
    "KF406": [with_gaps()],
    "KF407": [moving_alone()],
    "KF409": [rising(desired=(declared("a", 1, 1, min_insync_replicas="2"),)), short_of_replicas()],
    "KF501": [of_records(BROKEN, measured(ratio=ratio)) for ratio in (SURE, UNSURE)],
    "KF502": [
        of_records(BROKEN, measured(hot_keys=[hot("a", replace(SURE, value=0.06, low=low, high=0.07))]))
        for low in (0.04, 0.055)
    ],
    "KF503": [
        *(
            of_records(BROKEN, measured(distinct=replace(SURE, value=900.0, low=800.0, high=high)))
            for high in (999.0, 9_999.0)
        ),
        of_records(
            declared("a"), measured(partitions=12, distinct=replace(SURE, value=9.0, low=9.0, high=9.0))
        ),
    ],
    "KF504": [
        of_records(policed(keyed=True), measured(diagnosis=one))
        for one in ("mixed_partitioners", "repartitioned")
    ],
    "KF505": [of_records(policed(keyed=True), measured(null_share=0.1))],
    "KF506": [
        increased(what_if(12, SURE)),
        increased(what_if(12, UNSURE)),
        increased(what_if(12, SURE), what_if(8, FINE)),
        increased(what_if(12, SURE), of="now"),
    ],
    "KF510": [kept_unevenly(10 * 2**20)],
    "KF601": [offline(access("User:*", "allow Write on topic orders"))],
    "KF602": [offline(access("User:a", "allow Write on topic prefix order"), ORDERS)],
    "KF603": [offline(access("User:a", f"allow Read on group {group().ref.name}"), group(), ORDERS)],
    "KF604": [offline(access("User:a", "allow Write on topic order"), ORDERS)],
    "KF605": [offline(access("User:a", "allow Write on topic orders", "allow Write on topic *"), ORDERS)],
    "KF606": [
        offline(access("User:a", f"allow Read on group {group().ref.name}", "allow Read on topic x"), group())
    ],
    "KF607": [
        offline(
            replace(access("User:a", "allow Write on topic orders"), intent=Intent(labels={"team": "a"})),
            replace(ORDERS, intent=Intent(labels={"team": "b"})),
        )
    ],
    "KF608": [offline(access("User:a", "allow Write on topic orders"), absent("orders"))],
    "KF609": [offline(access("User:a", "allow Write on topic orders", "deny All on topic *"), ORDERS)],
    "KF610": [offline(access("User:a", "allow Write on topic prefix orders."), declared("orders_v1"))],
    "KF612": [offline(access("User:a", "allow Write on group g"))],
    "KF611": [offline(access("User:a", "allow Write on topic orders"), limited(ORDERS))],
}
"""Cluster states and manifests that trip each rule, in each of its ways."""

WORDS = {
    "KF601": "the principals that need it are for its owners to name",
    "KF602": "which delimiter names have is for their owners to say",
    "KF603": "list the topic, or leave the list out: a choice",
    "KF604": "correct the name, remove the right, or declare the topic: a choice",
    "KF612": "which operation is meant is for its author to say",
    "KF611": "remove the right, or extend the limit: a choice",
    "KF605": "which of two rights goes is for their owners to say",
    "KF606": "remove the right, or add the topic to the group: a choice",
    "KF607": "whose manifest declares it is for the teams to say",
    "KF608": "the right goes with the topic",
    "KF609": "which of two rights goes is for their owners to say",
    "KF610": "which prefix is meant is for its author to say",
    "KF101": "a name is for its author to choose",
    "KF102": "which of two names goes is for their owners to say",
    "KF103": "a name is for its author to choose",
    "KF106": "which topics need fewer partitions is for their owners to say",
    "KF114": "which topics are merged is for their owners to say",
    "KF116": "how many are needed depends on the traffic",
    "KF117": "which of the two is meant is not known",
    "KF201": "members, partitions or a waiver: a choice",
    "KF202": "members or partitions: a choice",
    "KF205": "the application sets it",
    "KF210": "declare it, mend the name, or waive: a choice",
    "KF215": "declare it, mend the name, or wait: a choice",
    "KF301": "on the controllers' machines",
    "KF302": "on the brokers' machines",
    "KF304": "on the brokers' machines",
    "KF305": "on the brokers' machines",
    "KF402": "a new topic",
    "KF403": "a copy of the records",
    "KF404": "smaller steps: which, is for the author to say",
    "KF407": "find an application",
    "KF504": "the application sets it",
}
"""Rules that suggest neither a line of a manifest nor a command, with the reason."""


def suggestions(code: str) -> list[str]:
    found: list[str] = []
    for scene in SCENES[code]:
        told = list(rules.RULES[code].check(scene))
        assert told, f"{code} does not trip: {scene}"
        found += [one.suggestion for one in told if one.suggestion is not None]
    return found


@pytest.mark.parametrize("code", sorted(SCENES))
def test_what_a_rule_suggests_can_be_pasted(code: str) -> None:
    texts = suggestions(code)
    assert texts
    assert (sum(check_suggestion(text) for text in texts) == 0) is (code in WORDS), texts


def test_a_command_in_a_message_is_marked_alone() -> None:
    """What tests compare with `wording`, of all rooms: a sentence around a command stays outside of it."""
    sentences = {
        line.strip(" ,\"'").replace("\\'", "'").removeprefix("hint: ")
        for file in (ROOT / "tests/unit").rglob("*.ambr")
        for line in file.read_text().splitlines()
    }
    marked = [text for text in sentences if any(rest is not None for _, rest in commands(text))]
    assert len(marked) > 5
    for text in marked:
        for verb, rest in commands(text):
            if rest and verb != "--debug" and "--help" not in rest:
                command = LazyGroup("kafkaform").get_command(click.Context(click.Command("x")), verb)
                assert command is not None, text
                command.make_context(verb, shlex.split(rest))


def test_every_rule_is_here() -> None:
    assert SCENES.keys() == rules.RULES.keys()
    assert WORDS.keys() <= rules.RULES.keys()


MANIFEST = """\
apiVersion: kafkaform/v1
kind: Topic
metadata: {{name: a}}
spec:
  partitions: 12
  replicationFactor: 3
  {line}
"""


@pytest.mark.parametrize(
    "line", ["retention: 60s", "retention: {time: 60s}", "config: {retention.ms: 60000}"]
)
@pytest.mark.parametrize("code", ["KF110", "KF115"])
def test_a_setting_takes_the_place_of_the_one_that_is_there(tmp_path: Path, line: str, code: str) -> None:
    limits, file = ProjectLimits(recovery_window_ms=7 * DAY), tmp_path / "a.yaml"
    for text, trips in ((line, True), (None, False)):
        if text is not None:
            file.write_text(MANIFEST.format(line=text))
        (desired,) = load_all([file], [Context()])
        found = list(rules.RULES[code].check(RuleContext(tuple(desired), limits=limits)))
        assert bool(found) is trips
        for one in found:
            (pasted,) = snippets(str(one.suggestion))
            assert pasted[0] == line.partition(":")[0]
            file.write_text(MANIFEST.format(line=pasted[1]))


# --- remedies of risky changes -----------------------------------------------------------------------

ON = {"remote.storage.enable": "true"}


@pytest.mark.parametrize(
    "assessment",
    [
        judged({"partitions": 12}, {"partitions": 6}),
        judged({"partitions": 6, "cleanup.policy": "delete"}, {"partitions": 12}),
        judged({"unclean.leader.election.enable": "false"}, {"unclean.leader.election.enable": "true"}),
        judged({**ON, "remote.log.delete.on.disable": "true"}, {"remote.storage.enable": "false"}),
        judged({**ON, "remote.log.delete.on.disable": "false"}, {"remote.log.delete.on.disable": "true"}),
        judge_delete(ResourceRef("ConsumerGroup", "g"), {"offsets.a:0": 5}, Facts("c")),
    ],
    ids=lambda assessment: assessment.hazard,
)
def test_the_remedy_of_a_risky_change_can_be_pasted(assessment: RiskAssessment) -> None:
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
def test_what_is_pasted_is_on_one_line_of_a_narrow_terminal(pasted: str) -> None:
    for width in range(32, 80):
        page = Page(width)
        page.note("safer: ", f"stop its members, then: {pasted}, and then wait")
        assert pasted in page.text.plain, page.text.plain


# --- consents ----------------------------------------------------------------------------------------

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


def planned(file: Path, annotation: str) -> Plan:
    memory = MemoryCluster()
    kept = {"retention_ms": str(DAY), "retention_bytes": str(2**40)}
    made(memory, "a", 3, 1, min_insync_replicas="2", unclean_leader_election_enable="false", **kept)
    below = f"\n    {annotation}" if annotation else "{}"
    file.write_text(CUT.format(annotations=below), encoding="utf-8")
    (desired,) = load_all([file], [Context()])
    rest = dict.fromkeys(rules.RULES, "off")
    return build_plan(Request(tuple(desired)), memory, Settings(rules=rest), None)


@pytest.mark.parametrize(
    "given",
    ["", f'{ANNOTATION}: "min-isr-cut from 2: it\'s \\"meant\\" \U0001f642 \\ufeff: # {{x}}, \\x7f"'],
    ids=["none", "one"],
)
def test_the_annotation_that_a_plan_asks_for_gives_every_consent(tmp_path: Path, given: str) -> None:
    """Also of several hazards, of one in two places, and where some are given already."""
    plan = planned(tmp_path / "a.yaml", given)
    (change,) = plan.changes
    missing, there = change.missing, change.given
    assert {"retention-cut", "unclean-election"} <= {*missing}
    assert ("min-isr-cut" in missing) is not bool(given)
    line = write_annotation(change)
    assert line in " ".join(render_plan(plan, width=10_000).plain.split("\n"))
    assert check_suggestion(line)
    (after,) = planned(tmp_path / "a.yaml", line).changes
    assert after.status is Status.PLANNED
    reasons = {one.hazard: one.reason for one in planned(tmp_path / "a.yaml", line).consents}
    assert {one.hazard: one.reason for one in there}.items() <= reasons.items()


def test_a_consent_of_the_command_line_is_no_reason_for_a_manifest() -> None:
    memory = MemoryCluster()
    made(memory, "a", retention_ms=str(DAY), min_insync_replicas="2")
    desired = declared("a", retention_ms="1", min_insync_replicas="1")
    request = Request((desired,), allow=(Grant.parse("Topic/a:min-isr-cut"),))
    plan = build_plan(request, memory, Settings(rules=dict.fromkeys(rules.RULES, "off")), None)
    (change,) = plan.changes
    assert write_annotation(change) == f'{ANNOTATION}: "retention-cut from 1d: <why>"'


# --- notes -------------------------------------------------------------------------------------------


def test_what_a_consent_that_covers_nothing_suggests_can_be_pasted(tmp_path: Path) -> None:
    for given in ("retention-cut: T-1", "retention-cut from 2d: dev"):
        notes = planned(tmp_path / "a.yaml", f'{ANNOTATION}: "{given}"').diagnostics
        texts = [str(one.suggestion) for one in notes if one.code == "KF417"]
        assert texts
        for text in texts:
            assert check_suggestion(text)
            ((_, line),) = snippets(text)
            assert ("from 2d: dev" in line) is ("2d" in given), "what is for another cluster stays"
            left = planned(tmp_path / "a.yaml", line).diagnostics
            assert [one.message for one in left if "retention-cut" in one.message] == []


def test_what_a_useless_waiver_suggests_can_be_pasted() -> None:
    waived = replace(declared("a"), intent=Intent(waivers=dict.fromkeys(("KF101", "KF417", "KF9"), "x")))
    stages = (rules.Stage.MANIFESTS,)
    found = list(find_idle_waivers(RuleContext((waived,)), (), {}, stages, rules.list_entries()))
    assert [check_suggestion(str(one.suggestion)) for one in found] == [1, 0, 0]
