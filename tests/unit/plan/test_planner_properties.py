"""Laws of the planner, over states of real configs with valid values as brokers spell them."""

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from kafkaform.core import kafka_configs
from kafkaform.core.model import (
    CONFIG_PREFIX,
    Create,
    Delete,
    Desired,
    Facts,
    FieldValue,
    Intent,
    Observation,
    Observed,
    Recreate,
    ResourceRef,
    Risk,
    State,
    Status,
    Undeclared,
    Update,
    risk_of,
)
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from kafkaform.plan.planning import plan_from
from kafkaform.plan.policy import Policy
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from kafkaform.resources.name_globs import NameGlobs
from tests.support.builds import builds
from tests.support.plans.scenes import judge_by
from tests.support.plans.strategies import examples

T = TypeVar("T")

DEFAULTS = kafka_configs.cluster_defaults({})
NAMES = ("a", "b", "c", "d.audit")
# Values as a broker may hold them; all of one line are different to Kafka.
VALUES: dict[str, tuple[str, ...]] = {
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
THROTTLE = CONFIG_PREFIX + "leader.replication.throttled.replicas"

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
    keys = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=5, unique=True))
    return {CONFIG_PREFIX + key: draw(st.sampled_from(VALUES[key])) for key in keys}


@st.composite
def draw_observed(draw: DrawFn, name: str) -> Observed:
    """A topic on the cluster, also with partitions whose replicas differ in number."""
    own: dict[str, FieldValue] = {
        "partitions": draw(counts),
        "replicationFactor": draw(counts | st.just("1-3")),
        **draw(configs()),
    }
    if draw(st.booleans()):
        own[THROTTLE] = "*"
    return build_observed(ResourceRef("Topic", name), own)


def build_observed(ref: ResourceRef, own: State) -> Observed:
    inherited = {CONFIG_PREFIX + key: value for key, value in DEFAULTS.items()}
    return Observed(ref, f"id-{ref.name}", own, {**inherited, **own})


def canonical(state: State) -> dict[str, FieldValue]:
    """Return the contents of a manifest that declares the same."""
    known = kafka_configs.topic_configs()
    return {
        path: kafka_configs.canonical(known.get(path.removeprefix(CONFIG_PREFIX)), str(value))
        if path.startswith(CONFIG_PREFIX)
        else value
        for path, value in state.items()
        if path != THROTTLE
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
    ref = ResourceRef("Topic", name)
    if draw(st.integers(0, 5)) == 0:
        return Desired(ref, None, intent)
    state: dict[str, FieldValue] = {"partitions": draw(counts), "replicationFactor": draw(counts)}
    if like is not None and draw(st.booleans()):
        state |= {path: v for path, v in canonical(like.state).items() if v != "1-3"}
    state |= canonical(draw(configs()))
    state |= dict.fromkeys(
        draw(st.lists(st.sampled_from(sorted(map(CONFIG_PREFIX.__add__, VALUES))), max_size=2))
    )
    return Desired(ref, state, intent)


@st.composite
def situations(draw: DrawFn) -> Situation:
    """Draw declared and observed topics: of either, of both, and of neither."""
    live = [draw(draw_observed(name)) for name in draw(st.lists(st.sampled_from(NAMES), unique=True))]
    by_name = {topic.ref.name: topic for topic in live}
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    wanted = [draw(draw_desired(name, by_name.get(name))) for name in names]
    return wanted, reading(live)


def reading(live: list[Observed]) -> Observation:
    return Observation({topic.ref: topic for topic in live}, frozenset(topic.ref for topic in live))


def apply_plan(plan: Plan, before: Observation) -> Observation:
    """Return the state after an apply has carried out a plan: a model of executor and cluster in one."""
    live = dict(before.resources)
    for planned in plan.select_by_status(Status.PLANNED):
        match planned.change:
            case Create(ref, state):
                live[ref] = build_observed(ref, state)
            case Delete(ref):
                del live[ref]
            case Recreate(ref, state=state):
                live[ref] = build_observed(ref, state)
            case Update(ref, _, fields):
                own = dict(live[ref].state)
                for field in fields:
                    if field.deferred is None:
                        assert own.pop(field.path, None) == field.before
                        own |= {} if field.after is None else {field.path: field.after}
                live[ref] = build_observed(ref, own)
    return reading(list(live.values()))


@given(
    st.lists(st.sampled_from(NAMES), unique=True).flatmap(
        lambda names: st.tuples(*map(draw_observed, names))
    ),
    facts,
)
def test_plan_for_declared_state_is_empty(live: tuple[Observed, ...], known: Facts) -> None:
    same = [Desired(t.ref, canonical({**t.state, "replicationFactor": 3})) for t in live]
    there = [build_observed(t.ref, {**t.state, "replicationFactor": 3}) for t in live]
    assert plan_from(same, reading(there), known) == Plan("c", unchanged=len(live))


@many
@given(situations(), facts, policies)
def test_plan_after_applied_plan_is_empty(situation: Situation, known: Facts, policy: Policy) -> None:
    wanted, before = situation
    plan = plan_from(wanted, before, known, policy)
    again = plan_from(wanted, apply_plan(plan, before), known, policy)
    done = {planned.ref for planned in plan.select_by_status(Status.PLANNED)}
    for planned in again.changes:
        if planned.ref in done:  # only what waits for replicas is left
            assert isinstance(planned.change, Update)
            assert all(field.deferred for field in planned.change.fields)
    # What was not carried out is planned again, word for word.
    left = [p for p in plan.changes if p.ref not in done]
    assert [p for p in again.changes if p.ref not in done] == left


@many
@given(situations(), facts, policies)
def test_refused_and_unconsented_resources_are_unchanged(
    situation: Situation, known: Facts, policy: Policy
) -> None:
    wanted, before = situation
    plan = plan_from(wanted, before, known, policy)
    after = apply_plan(plan, before)
    planned_ones = plan.select_by_status(Status.PLANNED)
    touched = {o.ref for planned in planned_ones for o in KINDS["Topic"].operations(planned.change)}
    assert touched == {planned.ref for planned in planned_ones}
    for planned in plan.changes:
        if planned.status is not Status.PLANNED:
            assert planned.reason
            assert after.resources.get(planned.ref) == before.resources.get(planned.ref)
        elif isinstance(planned.change, Update):
            assert all(f.assessment.risk < Risk.IMPOSSIBLE for f in planned.change.fields if not f.deferred)
        else:
            assert risk_of(planned.change) < Risk.IMPOSSIBLE


@given(st.data(), situations(), policies)
def test_order_of_the_input_does_not_matter(
    data: st.DataObject, situation: Situation, policy: Policy
) -> None:
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
    second = plan_from(declared, reading(topics), turned, policy)
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
def test_undeclared_topics_are_deleted_only_by_pruning(
    situation: Situation, known: Facts, policy: Policy
) -> None:
    wanted, there = situation
    declared = {d.ref for d in wanted}
    plan = plan_from(wanted, there, known, replace(policy, prune=False))
    assert {p.ref for p in plan.changes} <= declared
    assert set(plan.unmanaged) == there.inventory - declared
    pruned = plan_from(wanted, there, known, replace(policy, prune=True))
    gone = {p.ref for p in pruned.changes} - declared
    assert gone | set(pruned.unmanaged) == there.inventory - declared
    assert not (policy.protected and ResourceRef("Topic", "d.audit") in gone)
    assert policy.owns.names or not gone
