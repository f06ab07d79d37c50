"""What tests ask of kinds."""

from __future__ import annotations

from kafkaform.core.model import SAFE, Delete, Facts, Observed, RiskAssessment
from kafkaform.resources import KINDS


def judge_deletion(observed: Observed, facts: Facts) -> RiskAssessment:
    """Assess the deletion of a live resource."""
    change = Delete(observed.ref, observed.uid, observed.state, SAFE)
    return KINDS[observed.ref.kind].judge(change, observed, facts)
