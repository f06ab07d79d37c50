"""The risk of a change of a ClientQuota, assessed from the effective limits before and after it.

An entity without a limit of its own may have that of a default: removing a limit above it is a cut, too.
Removing a limit of a default removes the protection of the cluster from all entities that have no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import CONFIG_PREFIX, SAFE, FieldValue, Risk, RiskAssessment
from kafkaform.core.wording import listed
from kafkaform.resources.base import UpdateContext, explain_unclassified
from kafkaform.resources.client_quota.entity import describe_entity, parse_entity
from kafkaform.resources.client_quota.spec import KEYS, is_limit, limit_text

if TYPE_CHECKING:
    from kafkaform.core.model import Facts, Observed, ResourceRef, State

CUT, REMOVAL, DELETE, UNKNOWN = "quota-cut", "quota-removal", "delete", "unknown-config"
HAZARDS = frozenset({CUT, REMOVAL, DELETE, UNKNOWN})
"""The names by which a change of a ClientQuota can be consented to or forbidden."""

FALLBACK_PREFIX = "fallback."
"""The prefix of paths in `Observed.effective`, for limits that apply to an entity without its own."""

_REMEDY = "look at the rates of its clients first, and lower it in steps"


def judge(path: str, context: UpdateContext) -> RiskAssessment:
    """Assess the change of one limit."""
    name = path.removeprefix(CONFIG_PREFIX)
    # Under a prefix of their own: a plan must not show the limits of a default as those of the entity.
    fallback = context.before.get(FALLBACK_PREFIX + name)
    before, after = context.before.get(path), context.after.get(path)
    return _assess(
        context.ref,
        name,
        fallback if before is None else before,
        fallback if after is None else after,
        context.facts,
        is_removal=after is None,
    )


def judge_create(ref: ResourceRef, state: State, facts: Facts) -> RiskAssessment:
    """Assess the first limits of an entity: clients above them are throttled from now on."""
    limits = [
        limit_text(name, str(value), len(facts.brokers))
        for path, value in state.items()
        if value is not None and is_limit(name := path.removeprefix(CONFIG_PREFIX), value)
    ]
    reason = f"{describe_entity(ref.name)} is throttled above {'; above '.join(limits)}"
    return RiskAssessment(Risk.DISRUPTIVE, CUT, reason)


def judge_delete(observed: Observed, facts: Facts) -> RiskAssessment:
    """Assess the removal of all limits of an entity."""
    entity = parse_entity(observed.ref.name)
    names = [path.removeprefix(CONFIG_PREFIX) for path in observed.state]
    if entity.has_default:
        reason = f"{entity.words()} loses the limits {listed(names)}, which protect the cluster"
        return RiskAssessment(Risk.DESTRUCTIVE, DELETE, reason, "raise its limits instead")
    cuts = [
        assessment
        for path, value in observed.state.items()
        if (fallback := observed.effective.get(FALLBACK_PREFIX + path.removeprefix(CONFIG_PREFIX)))
        is not None
        and (
            assessment := _assess(
                observed.ref, path.removeprefix(CONFIG_PREFIX), value, fallback, facts, is_removal=True
            )
        ).risk
        > Risk.SAFE
    ]
    # One is enough for the status of the deletion; the removed limits are all in the plan.
    return cuts[0] if cuts else SAFE


def _assess(
    ref: ResourceRef, name: str, before: FieldValue, after: FieldValue, facts: Facts, *, is_removal: bool
) -> RiskAssessment:
    """Compare the limit in force before with the one after; None is no limit."""
    if name not in KEYS:
        return RiskAssessment(Risk.DISRUPTIVE, UNKNOWN, explain_unclassified(name, known=False))
    # Brokers keep NaN and infinity, and saved plans may hold anything.
    odd = next((value for value in (before, after) if not is_limit(name, value)), None)
    if odd is not None:
        reason = f"{odd} is not a valid {name}: the effect of the change is not known"
        return RiskAssessment(Risk.DISRUPTIVE, UNKNOWN, reason)
    who, brokers = describe_entity(ref.name), len(facts.brokers)
    if after is None:
        if before is None:
            return SAFE
        if parse_entity(ref.name).has_default:
            reason = f"{who} loses {name}, which protects the cluster"
            return RiskAssessment(Risk.DESTRUCTIVE, REMOVAL, reason, "raise it instead")
        return RiskAssessment(reason=f"{who} loses {name}")
    limit = limit_text(name, str(after), brokers)
    # float, as brokers store each limit as a double.
    if before is None or float(after) < float(before):
        source = ", by the limit of a default" if is_removal else ""
        return RiskAssessment(Risk.DISRUPTIVE, CUT, f"{who} is throttled above {limit}{source}", _REMEDY)
    return RiskAssessment(reason=limit)
