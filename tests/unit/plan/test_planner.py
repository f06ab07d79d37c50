"""The planner: what it plans, what it refuses, the traps that other tools fell into, and its laws."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from syrupy.assertion import SnapshotAssertion

from kafkaform.core import kafka_configs
from kafkaform.core.authorizer import AuthorizerSettings
from kafkaform.core.model import (
    BEING_CREATED,
    CONFIG_PREFIX,
    Create,
    Delete,
    Desired,
    Facts,
    FieldValue,
    Intent,
    Location,
    Observation,
    Observed,
    Recreate,
    ResourceRef,
    Risk,
    Severity,
    State,
    Status,
    Undeclared,
    Update,
    risk_of,
)
from kafkaform.core.partitions import Broker
from kafkaform.core.plans import Plan, PlannedChange, UndeclaredConfig
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import plan_from
from kafkaform.plan.policy import Policy
from kafkaform.plan.risk_assessment import foresee
from kafkaform.resources import KINDS
from kafkaform.resources.base import UsageFacts
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.topic.operations import DeleteTopic
from kafkaform.resources.values import fields_of
from tests.support.builds import builds
from tests.support.plans.risk import render_catalogue
from tests.support.plans.rules import PathAsLocation
from tests.support.plans.scenes import declare_reader, group_ref, judge_by
from tests.support.plans.strategies import examples

DAY = 86_400_000
DEFAULTS = kafka_configs.cluster_defaults({})
FACTS = Facts("cluster", (Broker(1), Broker(2), Broker(3)), {"Topic": DEFAULTS})
PLACE = Location("t.yaml", 3, 1)

Values = dict[str, FieldValue]


def ref(name: str = "t") -> ResourceRef:
    return ResourceRef("Topic", name)


def full(values: Values) -> State:
    """One replica of one partition, and configs by their names."""
    counts = {"partitions": 1, "replicationFactor": 1}
    return {
        path if path in counts else f"config.{path}": value for path, value in {**counts, **values}.items()
    }


def declare(values: Values | None = None, name: str = "t", **intent: Any) -> Desired:
    return Desired(ref(name), full(values or {}), Intent(**intent), PLACE)


def tombstone(name: str = "t", **intent: Any) -> Desired:
    return Desired(ref(name), None, Intent(**intent), PLACE)


def live(values: Values | None = None, name: str = "t", *, internal: bool = False) -> Observed:
    return replace(build_observed(ref(name), full(values or {})), internal=internal)


def build_observed(topic: ResourceRef, own: State) -> Observed:
    inherited = {CONFIG_PREFIX + key: value for key, value in DEFAULTS.items()}
    return Observed(topic, f"id-{topic.name}", own, {**inherited, **own})


def build_reading(*topics: Observed, **more: Any) -> Observation:
    resources = {topic.ref: topic for topic in topics}
    return Observation(resources, frozenset(resources) | more.pop("inventory", frozenset()), **more)


def build_plan(desired: Iterable[Desired], *topics: Observed, **policy: Any) -> Plan:
    return plan_from(desired, build_reading(*topics), FACTS, Policy(**policy))


def plan_change(desired: Desired, *topics: Observed, **policy: Any) -> PlannedChange:
    (change,) = build_plan([desired], *topics, **policy).changes
    return change


def judge_again(plan: Plan, *topics: Observed, **policy: Any) -> Plan:
    return judge_by(plan, build_reading(*topics), FACTS, Policy(**policy))


def test_delete_needs_consent() -> None:
    change = plan_change(tombstone(), live())
    assert isinstance(change.change, Delete)
    assert (change.status, change.missing) == (Status.NEEDS_CONSENT, ("delete",))
    unused = tombstone(allow={"delete of id-t": "unused"})
    allowed = plan_change(unused, live())
    assert allowed.status is Status.PLANNED
    assert build_plan([unused]).diagnostics == (), "it stays for a topic that is made again with the id"
    for second in ("delete", "delete of id-u", "delete from id-t"):  # of a topic that was there before
        assert plan_change(tombstone(allow={second: "unused"}), live()).status is Status.NEEDS_CONSENT
    assert KINDS["Topic"].operations(allowed.change) == (DeleteTopic(ref(), "id-t"),)
    saved = build_plan([tombstone()], live())
    assert judge_again(saved, replace(live(), uid="id-u")) == saved, "the apply refuses it"


def test_deletion_without_id_needs_second_consent() -> None:
    """A topic without an id may have been made again under its name."""
    nameless, both = replace(live(), uid=None), {"delete": "unused", "delete-by-name": "no ids here"}
    change = plan_change(tombstone(), nameless)
    assert (change.status, change.missing) == (Status.NEEDS_CONSENT, ("delete", "delete-by-name"))
    allowed = plan_change(tombstone(allow=both), nameless)
    assert allowed.status is Status.PLANNED
    assert KINDS["Topic"].operations(allowed.change) == (DeleteTopic(ref(), None),)
    for hazard in both:
        half = plan_change(tombstone(allow={hazard: "unused"}), nameless)
        assert half.status is Status.NEEDS_CONSENT
        refused = plan_change(tombstone(allow=both), nameless, forbid=(hazard,))
        assert (refused.status, refused.reason) == (Status.REFUSED, f"{hazard} is forbidden on this cluster")


CUT: Values = {"retention.ms": "5"}
CUTS: Values = {**CUT, "retention.bytes": "5"}
TWO_HAZARDS: Values = {"retention.ms": "1", "unclean.leader.election.enable": "true"}


def test_consents_keep_their_reasons() -> None:
    desired = declare(TWO_HAZARDS, allow={"retention-cut from 7d": "hold ended", "delete": "not needed here"})
    plan = build_plan([desired], live(), allow=(Grant.parse("destructive"),))
    assert [(c.resource, c.hazard, c.reason) for c in plan.consents] == [
        ("Topic/t", "retention-cut", "hold ended"),
        ("Topic/t", "unclean-election", "--allow"),
    ]
    # A later grant adds to the consent of the manifest, and to no refusal.
    granted = judge_again(build_plan([desired], live()), live(), allow=(Grant.parse("destructive"),))
    assert (granted.changes, granted.consents) == (plan.changes, plan.consents)
    two = live({"partitions": 2})
    refused = build_plan([declare({"partitions": 1})], two)
    assert judge_again(refused, two, allow=(Grant.parse("destructive"),)) == refused
    assert "id-t" in str(refused.changes[0].remedy), "a recreation names it"


def test_saved_plan_keeps_consents_of_applied_changes() -> None:
    desired = [declare(CUT, name, allow={"retention-cut from 7d": name}) for name in ("t", "u")]
    plan = build_plan(desired, live(), live(name="u"))
    assert [c.reason for c in judge_again(plan, live(CUT), live(name="u")).consents] == ["t", "u"]


EXTRA: Values = {"retention.ms": str(30 * DAY), "segment.ms": "5"}
THROTTLE: Values = {
    "leader.replication.throttled.replicas": "*",
    "follower.replication.throttled.replicas": "0:1",
}


def test_undeclared_configs_are_reported_or_kept() -> None:
    plan = build_plan([declare({"segment.ms": "5"})], live({**EXTRA, **THROTTLE}))
    undeclared = UndeclaredConfig(ref(), "config.retention.ms", str(30 * DAY))
    assert plan == Plan("cluster", unchanged=1, undeclared=(undeclared,))
    plan = build_plan([declare({"partitions": 2})], live(EXTRA))
    assert [u.path for u in plan.undeclared] == ["config.retention.ms", "config.segment.ms"]
    assert [f.path for change in plan.changes for f in fields_of(change.change)] == ["partitions"]
    plan = build_plan([declare(undeclared=Undeclared.KEEP)], live({**EXTRA, **THROTTLE}))
    assert plan == Plan("cluster", unchanged=1)


def test_undeclared_configs_are_reset_with_risk_except_throttles() -> None:
    change = plan_change(declare(undeclared=Undeclared.RESET), live({**EXTRA, **THROTTLE}))
    assert change.status is Status.NEEDS_CONSENT
    paths = ["config.retention.ms", "config.segment.ms"]
    assert [(f.path, f.after) for f in fields_of(change.change)] == [(path, None) for path in paths]
    for undeclared in Undeclared:
        unset = plan_change(declare({"segment.ms": None}, undeclared=undeclared), live({"segment.ms": "5"}))
        assert [(f.path, f.after) for f in fields_of(unset.change)] == [("config.segment.ms", None)]
    assert build_plan([declare(dict.fromkeys(THROTTLE))], live(THROTTLE)) == Plan("cluster", unchanged=1)


@pytest.mark.parametrize(
    ("desired", "uid", "changes", "codes"),
    [
        (declare, "id-t", [Recreate], []),
        (declare, None, [], ["KF445"]),
        (declare, "id-u", [], []),
        (tombstone, "id-t", [Delete], []),
        (tombstone, None, [Delete], []),
    ],
)
def test_recreation_needs_ids(desired: Any, uid: str | None, changes: list[type], codes: list[str]) -> None:
    plan = build_plan([desired(spec={"recreate": "id-t"})], replace(live(), uid=uid))
    assert [type(planned.change) for planned in plan.changes] == changes
    assert [found.code for found in plan.diagnostics] == codes


def test_pruning_deletes_owned_topics_only() -> None:
    topics = [live(name=n) for n in ("a.1", "a.2", "a.audit", "b.1", "a-ignored")]
    group = Observed(ResourceRef("ConsumerGroup", "a.g"), None, {})
    topics += [live(name="a.internal", internal=True), group]
    globs: dict[str, Any] = {"owns": NameGlobs(("a*",)), "ignore": NameGlobs(("*-ignored",))}
    plan = build_plan([declare(name="a.2")], *topics, prune=True, protected=("*.audit",), **globs)
    assert [(c.ref.name, c.status, c.location) for c in plan.changes] == [("a.1", Status.NEEDS_CONSENT, None)]
    # What is protected stays listed, and is no refused change, which would fail every apply.
    assert [r.name for r in plan.unmanaged] == ["a.audit", "a.internal", "b.1", "a.g"]
    assert plan.unchanged == 1
    everything: dict[str, Any] = {"owns": NameGlobs(("*",)), "prune": True, "allow": (Grant("*", "*"),)}
    own = [live(name=name) for name in ("__kafkaform_lock", "__kafkaform_audit")]
    assert build_plan([], *own, **everything) == Plan("cluster")
    hidden = build_reading(inventory=frozenset({ref("x")}))
    plan = plan_from([], hidden, FACTS, Policy(**everything))
    assert (plan.changes, plan.unmanaged) == ((), (ref("x"),))


@pytest.mark.parametrize(
    ("intent", "internal", "policy", "reason"),
    [
        ({"deletion_protection": True}, False, {}, "spec.deletionProtection is true"),
        ({}, False, {"protected": ("t*",)}, "protected in kafkaform.yaml"),
        ({}, True, {}, "internal to Kafka"),
        ({}, False, {"forbid": ("delete",)}, "delete is forbidden"),
    ],
)
def test_protected_or_internal_topic_stays(intent: Any, internal: bool, policy: Any, reason: str) -> None:
    observed = live(internal=internal)
    change = plan_change(tombstone(**intent), observed, allow=(Grant("*", "*"),), **policy)
    assert change.status is Status.REFUSED
    assert reason in str(change.reason)


@pytest.mark.parametrize("desired", [declare(), tombstone(), declare({"partitions": 9})])
def test_invisible_topic_is_never_created(desired: Desired) -> None:
    observation = build_reading(invisible={ref(): "not authorised"})
    plan = plan_from([desired, declare(name="u")], observation, FACTS)
    assert [c.ref.name for c in plan.changes] == ["u"]
    assert plan.unknown == (ref(),)
    (found,) = plan.diagnostics
    assert (found.code, found.severity, found.location) == ("KF410", Severity.ERROR, PLACE)


INVISIBLE: dict[str, tuple[str, str, frozenset[str]]] = {
    "without a right": ("t", "not authorised", frozenset()),
    "to a declared super user": ("t", "not authorised", frozenset({"User:me"})),
    "one of the brokers": ("t", BEING_CREATED, frozenset()),
    "two of the brokers": ("tu", BEING_CREATED, frozenset()),
}


def test_invisible_topic_messages_match_golden(golden: SnapshotAssertion) -> None:
    messages = {}
    for row, (names, why, super_users) in INVISIBLE.items():
        facts = FACTS.add_part(AuthorizerSettings(super_users or None, principal="User:me"))
        observation = build_reading(invisible={ref(name): why for name in names})
        (found,) = plan_from([declare(name=name) for name in names], observation, facts).diagnostics
        messages[row] = f"{found.message} ({found.suggestion}) {found.ref}"
    assert render_catalogue(messages) == golden(name="invisible.txt")


IDLE: dict[str, tuple[Desired, Values]] = {
    "for what is done": (declare(CUT, allow={"retention-cut from 9ms": "T-1"}), CUT),
    "for another kind": (declare(allow={"offset-recommit": "meant"}), {}),
    "for any value": (declare(CUT, allow={"retention-cut": "hold ended"}), {}),
    "for any value, beside one for this": (
        declare(CUT, allow={"retention-cut": "T-1", "retention-cut from 9ms": "T-2"}),
        {"retention.ms": "9"},
    ),
    "for any value, beside one for the other": (
        declare(CUTS, allow={"retention-cut": "T-1", "retention-cut from 9ms": "T-2"}),
        {"retention.ms": "9"},
    ),
    "for another value": (
        declare(CUT, allow={"retention-cut from 7d": "T-1"}),
        {"retention.ms": str(30 * DAY)},
    ),
    "for any topic of the name": (tombstone(allow={"delete": "unused"}), {}),
}


def test_idle_consent_messages_match_golden(golden: SnapshotAssertion) -> None:
    messages = {}
    for name, (desired, values) in IDLE.items():
        (finding,) = build_plan([desired], live(values)).diagnostics
        assert finding.code == "KF417"
        messages[name] = f"{finding.severity.value}, {finding.message} ({finding.suggestion})"
    assert render_catalogue(messages) == golden(name="idle_consents.txt")


WEEK, MONTH = str(7 * DAY), str(30 * DAY)


@pytest.mark.parametrize("value", ["7d", WEEK, f"0{WEEK}", "168h"])
def test_consent_applies_to_named_value_only(value: str) -> None:
    cut = declare({"retention.ms": str(DAY)}, allow={f"retention-cut from {value}": "T-1"})
    for topic in (live({"retention.ms": WEEK}), live()):  # the value in force may be the default
        plan = build_plan([cut], topic)
        assert ([c.status for c in plan.changes], plan.diagnostics) == ([Status.PLANNED], ())
    # Somebody has raised it since: that nobody consented to.
    assert plan_change(cut, live({"retention.ms": MONTH})).status is Status.NEEDS_CONSENT


def test_each_field_of_hazard_needs_consent() -> None:
    cut = declare({"retention.ms": str(DAY)}, allow={"retention-cut": "hold ended"})
    assert plan_change(cut, live()).status is Status.NEEDS_CONSENT, "it names no value"
    both: Values = {"retention.ms": str(DAY), "retention.bytes": str(2**30)}
    there = live({"retention.bytes": str(2**40)})
    half = declare(both, allow={"retention-cut from 7d": "T-1"})
    assert plan_change(half, there).missing == ("retention-cut",)
    whole = declare(both, allow={"retention-cut from 7d": "T-1", "retention-cut from 1 TiB": "T-2"})
    plan = build_plan([whole], there)
    assert [change.status for change in plan.changes] == [Status.PLANNED]
    assert [consent.reason for consent in plan.consents] == ["T-2; T-1"]


@pytest.mark.parametrize(
    ("count", "status"), [("6", Status.PLANNED), ("3", Status.NEEDS_CONSENT), ("x", Status.NEEDS_CONSENT)]
)
def test_consent_may_be_for_a_count(count: str, status: Status) -> None:
    allow = {f"partition-increase-compacted from {count}": "T-1"}
    extra = declare({"partitions": 12, "cleanup.policy": "compact"}, allow=allow)
    assert plan_change(extra, live({"partitions": 6, "cleanup.policy": "compact"})).status is status


VALUES: Values = {"segment.ms": "5", "retention.bytes": "5", "flush.ms": None, "replicationFactor": 2}
EVENTS = "profile/events"


@pytest.mark.parametrize(
    ("layers", "layer"),
    [
        ({"segment.ms": ""}, ""),
        ({"segment.ms": EVENTS}, EVENTS),
        ({"segment.ms": EVENTS, "retention.bytes": ""}, ""),
        ({"segment.ms": EVENTS, "retention.bytes": "profile/other"}, ""),
        ({"segment.ms": EVENTS, "retention.bytes": None}, EVENTS),  # chosen, as the brokers of partitions are
        ({"segment.ms": EVENTS, "flush.ms": None}, ""),  # removed, as no layer has it
        ({"segment.ms": EVENTS, "replicationFactor": ""}, EVENTS),  # deferred
    ],
)
def test_change_of_one_layer_is_located_there(layers: Mapping[str, str | None], layer: str) -> None:
    class InLayers(PathAsLocation):
        def find_layer(self, path: str) -> str | None:
            return layers[path.removeprefix("config.")]

    desired = replace(declare({path: VALUES[path] for path in layers}), locations=InLayers())
    planned = plan_change(desired, live({"flush.ms": "7"}))
    assert (planned.layer, planned.location) == (layer, Location("config.segment.ms") if layer else PLACE)


def test_deleted_group_reads_no_topic() -> None:
    groups = [declare_reader("a"), Desired(group_ref("gone"), None, Intent(spec={"topics": ["a"]}))]
    facts = foresee((), groups, build_reading(), FACTS)
    assert facts.get(UsageFacts).readers == {"g": ("a",)}


T = TypeVar("T")

NAMES = ("a", "b", "c", "d.audit")
# Values as a broker may hold them; all of one line are different to Kafka.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "cleanup.policy": ("delete", "compact", "delete,compact"),
    "compression.type": ("zstd", "producer"),
    "confluent.tier.enable": ("true", "TRUE"),
    "delete.retention.ms": ("086400000", "1"),
    "max.message.bytes": ("1048588", "10485760", "1"),
    "min.cleanable.dirty.ratio": ("0.50", "0.501", "1"),
    "min.insync.replicas": ("1", "2", "3"),
    "remote.storage.enable": ("true", "false"),
    "retention.bytes": ("-1", "1073741824"),
    "retention.ms": ("-1", "604800000", "086400000"),
    "segment.ms": ("060000", "1"),
    "unclean.leader.election.enable": ("true", "False"),
}
Situation = tuple[list[Desired], Observation]
KNOWN = Facts("c", config_defaults={"Topic": DEFAULTS})
THROTTLED = CONFIG_PREFIX + "leader.replication.throttled.replicas"

counts = st.sampled_from((1, 2, 3, 6))
many = examples(3)

grants = st.lists(
    builds(
        Grant,
        st.sampled_from(("Topic/a", "Topic/*", "*", "Topic/d.*")),
        st.sampled_from(("retention-cut", "delete", "cleanup-policy", "*")),
    ),
    max_size=2,
).map(tuple)
policies = builds(
    Policy,
    forbid=st.sampled_from(((), ("partition-increase",), ("*-cut",))),
    protected=st.sampled_from(((), ("*.audit",))),
    owns=builds(NameGlobs, st.sampled_from(((), ("*",), ("a", "d.*")))),
    prune=st.booleans(),
    allow=grants,
)
facts = st.sampled_from((KNOWN, Facts("c")))


@st.composite
def configs(draw: DrawFn) -> dict[str, str]:
    keys = draw(st.lists(st.sampled_from(sorted(SPELLINGS)), max_size=5, unique=True))
    return {CONFIG_PREFIX + key: draw(st.sampled_from(SPELLINGS[key])) for key in keys}


@st.composite
def draw_observed(draw: DrawFn, name: str) -> Observed:
    """A topic on the cluster, also with partitions whose replicas differ in number."""
    own: dict[str, FieldValue] = {
        "partitions": draw(counts),
        "replicationFactor": draw(counts | st.just("1-3")),
        **draw(configs()),
    }
    if draw(st.booleans()):
        own[THROTTLED] = "*"
    return build_observed(ref(name), own)


def canonical(state: State) -> dict[str, FieldValue]:
    """Return the contents of a manifest that declares the same."""
    known = kafka_configs.topic_configs()
    return {
        path: kafka_configs.canonical(known.get(path.removeprefix(CONFIG_PREFIX)), str(value))
        if path.startswith(CONFIG_PREFIX)
        else value
        for path, value in state.items()
        if path != THROTTLED
    }


@st.composite
def draw_desired(draw: DrawFn, name: str, like: Observed | None) -> Desired:
    """A declaration, often near to what is there."""
    intent = Intent(
        keyed=draw(st.sampled_from((None, True, False))),
        allow=draw(st.sampled_from(({}, {"retention-cut": "T-1"}, {"delete": "T-2", "min-isr-cut": "T-3"}))),
        deletion_protection=draw(st.booleans()),
        undeclared=draw(st.sampled_from(Undeclared)),
    )
    if draw(st.integers(0, 5)) == 0:
        return Desired(ref(name), None, intent)
    state: dict[str, FieldValue] = {"partitions": draw(counts), "replicationFactor": draw(counts)}
    if like is not None and draw(st.booleans()):
        state |= {path: v for path, v in canonical(like.state).items() if v != "1-3"}
    state |= canonical(draw(configs()))
    state |= dict.fromkeys(
        draw(st.lists(st.sampled_from(sorted(map(CONFIG_PREFIX.__add__, SPELLINGS))), max_size=2))
    )
    return Desired(ref(name), state, intent)


@st.composite
def situations(draw: DrawFn) -> Situation:
    """Draw declared and observed topics: of either, of both, and of neither."""
    live = [draw(draw_observed(name)) for name in draw(st.lists(st.sampled_from(NAMES), unique=True))]
    by_name = {topic.ref.name: topic for topic in live}
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    wanted = [draw(draw_desired(name, by_name.get(name))) for name in names]
    return wanted, build_reading(*live)


def apply_plan(plan: Plan, before: Observation) -> Observation:
    """Return the state after an apply has carried out a plan: a model of executor and cluster in one."""
    live = dict(before.resources)
    for planned in plan.select_by_status(Status.PLANNED):
        match planned.change:
            case Create(topic, state) | Recreate(topic, state=state):
                live[topic] = build_observed(topic, state)
            case Delete(topic):
                del live[topic]
            case Update(topic, _, fields):
                own = dict(live[topic].state)
                for field in fields:
                    if field.deferred is None:
                        assert own.pop(field.path, None) == field.before
                        own |= {} if field.after is None else {field.path: field.after}
                live[topic] = build_observed(topic, own)
    return build_reading(*live.values())


@given(
    st.lists(st.sampled_from(NAMES), unique=True).flatmap(
        lambda names: st.tuples(*map(draw_observed, names))
    ),
    facts,
)
def test_plan_for_declared_state_is_empty(live: tuple[Observed, ...], known: Facts) -> None:
    same = [Desired(t.ref, canonical({**t.state, "replicationFactor": 3})) for t in live]
    there = [build_observed(t.ref, {**t.state, "replicationFactor": 3}) for t in live]
    assert plan_from(same, build_reading(*there), known) == Plan("c", unchanged=len(live))


@many
@given(situations(), facts, policies)
def test_only_planned_changes_are_done_by_apply(situation: Situation, known: Facts, policy: Policy) -> None:
    wanted, before = situation
    plan = plan_from(wanted, before, known, policy)
    after = apply_plan(plan, before)
    again = plan_from(wanted, after, known, policy)
    planned_ones = plan.select_by_status(Status.PLANNED)
    done = {planned.ref for planned in planned_ones}
    for planned in again.changes:
        if planned.ref in done:  # only what waits for replicas is left
            assert isinstance(planned.change, Update)
            assert all(field.deferred for field in planned.change.fields)
    # What was not carried out is planned again, word for word.
    left = [p for p in plan.changes if p.ref not in done]
    assert [p for p in again.changes if p.ref not in done] == left
    assert {o.ref for planned in planned_ones for o in KINDS["Topic"].operations(planned.change)} == done
    for planned in plan.changes:
        if planned.status is not Status.PLANNED:
            assert planned.reason
            assert after.resources.get(planned.ref) == before.resources.get(planned.ref)
        elif isinstance(planned.change, Update):
            assert all(f.assessment.risk < Risk.IMPOSSIBLE for f in planned.change.fields if not f.deferred)
        else:
            assert risk_of(planned.change) < Risk.IMPOSSIBLE


@given(st.data(), situations(), policies)
def test_order_of_input_does_not_matter(data: st.DataObject, situation: Situation, policy: Policy) -> None:
    def shuffle(items: Iterable[T]) -> list[T]:
        return data.draw(st.permutations([*items]))

    wanted, there = situation
    topics = [
        replace(t, state=dict(shuffle(t.state.items())), effective=dict(shuffle(t.effective.items())))
        for t in shuffle(there.resources.values())
    ]
    declared = [replace(d, state=d.state and dict(shuffle(d.state.items()))) for d in shuffle(wanted)]
    plan = plan_from(wanted, there, KNOWN, policy)
    turned = replace(KNOWN, config_defaults={"Topic": dict(reversed(DEFAULTS.items()))})
    second = plan_from(declared, build_reading(*topics), turned, policy)
    assert second == plan
    header = PlanHeader("1", None, None, None, "2025-01-01T00:00:00Z")
    assert plan_to_json(second, header) == plan_to_json(plan, header)


@many
@given(situations(), policies)
def test_later_consent_gives_equal_plan(situation: Situation, policy: Policy) -> None:
    wanted, there = situation
    saved = plan_from(wanted, there, KNOWN, replace(policy, allow=()))
    assert judge_by(saved, there, KNOWN, policy) == plan_from(wanted, there, KNOWN, policy)


@given(situations(), facts, policies)
def test_only_pruning_deletes_undeclared_topics(situation: Situation, known: Facts, policy: Policy) -> None:
    wanted, there = situation
    declared = {d.ref for d in wanted}
    plan = plan_from(wanted, there, known, replace(policy, prune=False))
    assert {p.ref for p in plan.changes} <= declared
    assert set(plan.unmanaged) == there.inventory - declared
    pruned = plan_from(wanted, there, known, replace(policy, prune=True))
    gone = {p.ref for p in pruned.changes} - declared
    assert gone | set(pruned.unmanaged) == there.inventory - declared
    assert not (policy.protected and ref("d.audit") in gone)
    assert policy.owns.names or not gone
