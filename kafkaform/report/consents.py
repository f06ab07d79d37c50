"""Which consents a change still lacks, which it got, and how one gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.model import Risk, Status, Update, judgements
from kafkaform.plan.gates import bindings
from kafkaform.resources import consent

if TYPE_CHECKING:
    from kafkaform.core.model import Consent, Plan, PlannedChange


class Ledger:
    """The consents of one plan by resource."""

    def __init__(self, plan: Plan) -> None:
        self._by_resource: dict[str, list[Consent]] = {}
        for given in plan.consents:
            self._by_resource.setdefault(given.resource, []).append(given)

    def given(self, planned: PlannedChange) -> tuple[Consent, ...]:
        """The consents that the change got."""
        return tuple(self._by_resource.get(str(planned.ref), ()))

    def missing(self, planned: PlannedChange) -> tuple[str, ...]:
        """The hazards that still need consent; none unless the change waits for it."""
        if planned.status is not Status.NEEDS_CONSENT:
            return ()
        if isinstance(planned.change, Update):
            due = [f.judgement for f in planned.change.fields if f.deferred is None]
        else:
            due = list(judgements(planned.change))
        given = {one.hazard for one in self.given(planned)}
        needed = (j.hazard for j in due if j.risk is Risk.DESTRUCTIVE and j.hazard)
        return tuple(dict.fromkeys(hazard for hazard in needed if hazard not in given))


def allow_flags(planned: PlannedChange, hazards: tuple[str, ...]) -> str:
    """The command-line flags that consent, quoted for a shell."""
    return consent.allow_flags(planned.ref, hazards)


def annotation(planned: PlannedChange, hazards: tuple[str, ...], given: tuple[Consent, ...]) -> str:
    """The line of a manifest that consents, to be pasted; the reasons are for its author to write.

    Args:
        planned: The change.
        hazards: The hazards that still need consent.
        given: The consents that it has: those of the manifest are repeated, as there is one annotation.
    """
    reasons = {one.hazard: one.reason for one in given if one.reason != consent.BY_FLAG}
    reasons |= dict.fromkeys(hazards, consent.WHY)
    places = bindings(planned.change)
    lines = [consent.consent_line(h, place, why) for h, why in reasons.items() for place in places.get(h, ())]
    return consent.annotation(lines)
