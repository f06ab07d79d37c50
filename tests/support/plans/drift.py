"""Drift without a broker: of a small cluster in memory, and of any plan at all."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from kafkaform.audit.trail import Trail
from kafkaform.cluster.protocol import Cluster
from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.inspect.drift import Drift, Unmanaged, find_drift
from kafkaform.plan.planning import Request, build_plan
from kafkaform.report.remediation import CommandContext
from kafkaform.resources.values import fields_of
from tests.support.plans import strategies
from tests.support.plans.audit import Story
from tests.support.plans.scenes import QUIET

NO_RECORD = "nothing was recorded"
HERE = CommandContext()
ELSEWHERE = CommandContext(("my topics",), ("--bootstrap-server", "kafka:9092"), "prod")
_COUNTS = st.integers(0, 2)
_ACTIONS = st.sampled_from(("create", "update", "delete"))
_COMMITS = st.none() | strategies.hostile_text()
_SEEN = st.sampled_from(("before", "after", None))
_UNMANAGED = st.sampled_from(Unmanaged)


def drift_in(
    cluster: Cluster,
    *desired: Desired,
    trail: Trail | str = NO_RECORD,
    unmanaged: Unmanaged = Unmanaged.REPORT,
) -> Drift:
    """Return the resources that are not as declared."""
    kinds = ("Topic", "ConsumerGroup")
    request = Request(desired, inventory=kinds, reading=True)
    plan = build_plan(request, cluster, Settings(rules=QUIET), None)
    return find_drift(plan, desired, trail, unmanaged=unmanaged)


def declared_in(plan: Plan) -> list[Desired]:
    """Return the declarations that a plan must come from."""
    desired = {item.ref: Desired(item.ref, {}) for item in plan.undeclared}
    for change in plan.changes:
        state = {field.path: field.after for field in fields_of(change.change)}
        desired[change.ref] = Desired(change.ref, state, location=change.location)
    return list(desired.values())


@st.composite
def trails(draw: DrawFn, plan: Plan) -> Trail | str:
    """Records in which some of the fields of a plan were set by somebody, to one side of it or to neither."""
    if draw(st.booleans()):
        return draw(strategies.hostile_text(min_size=1))
    story = Story()
    for change in plan.changes:
        for field in fields_of(change.change):
            for _ in range(draw(_COUNTS)):
                seen = draw(_SEEN)
                value = getattr(field, seen) if seen else draw(strategies.values())
                story.add(
                    draw(_ACTIONS),
                    change.ref.name,
                    {field.path: (None, value)},
                    kind=change.ref.kind,
                    who=draw(strategies.hostile_text()),
                    commit=draw(_COMMITS),
                )
    return Trail(story.entries)


@st.composite
def drifts(draw: DrawFn, max_changes: int = 6) -> Drift:
    """Any drift at all, hostile names, values and reasons in it."""
    plan = draw(strategies.plans(max_changes=max_changes, columns=True))
    # What differs in nothing but undeclared configs is no change of the plan.
    plan = replace(plan, unchanged=plan.unchanged + len({item.ref for item in plan.undeclared}))
    trail = draw(trails(plan))
    return find_drift(plan, declared_in(plan), trail, unmanaged=draw(_UNMANAGED))
