"""What a measurement of a topic's records adds to the judgement of a partition increase."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.resources.skew_policy import policy_unit
from kafkaform.resources.skew_prediction import predicted, worded

if TYPE_CHECKING:
    from kafkaform.core.model import RiskAssessment
    from kafkaform.resources.base import UpdateContext


def measured(judgement: RiskAssessment, context: UpdateContext) -> RiskAssessment:
    """The judgement with what a skew report says of the planned count, where there is one that does."""
    result = context.facts.skew.get(context.ref)
    before, after = context.before.get("partitions"), context.after.get("partitions")
    if result is None or not isinstance(before, int) or not isinstance(after, int) or after <= before:
        return judgement
    found = predicted(result, before, after, policy_unit(context.intent))
    if found is None:
        return judgement
    told = worded(found)
    return replace(judgement, reason=f"{judgement.reason}; {told}" if judgement.reason else told)
