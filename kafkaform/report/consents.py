"""Which consents a change still lacks, which it got, and how one gives them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafkaform import consent
from kafkaform.gates import bindings
from kafkaform.model import Risk, Status, Update, judgements

if TYPE_CHECKING:
    from kafkaform.model import Consent, Plan, PlannedChange


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


def annotation(planned: PlannedChange, hazards: tuple[str, ...]) -> str:
    """The line of a manifest that consents, to be pasted; the reasons are for its author to write."""
    places = bindings(planned.change)
    lines = [consent.consent_line(h, place, consent.WHY) for h in hazards for place in places[h]]
    return f"{consent.ANNOTATION}: {json.dumps(chr(10).join(lines), ensure_ascii=False)}"
