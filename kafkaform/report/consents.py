"""Which consents a change still lacks, which it got, and how one gives them."""

from __future__ import annotations

import shlex
from glob import escape
from typing import TYPE_CHECKING

from kafkaform.model import Risk, Status, Update, judgements

if TYPE_CHECKING:
    from kafkaform.model import Consent, Plan, PlannedChange, ResourceRef


class Ledger:
    """The consents of one plan by resource."""

    def __init__(self, plan: Plan) -> None:
        self._by_resource: dict[str, list[Consent]] = {}
        for consent in plan.consents:
            self._by_resource.setdefault(consent.resource, []).append(consent)

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
        given = {consent.hazard for consent in self.given(planned)}
        needed = (j.hazard for j in due if j.risk is Risk.DESTRUCTIVE and j.hazard)
        return tuple(dict.fromkeys(hazard for hazard in needed if hazard not in given))


def allow_flags(planned: PlannedChange, hazards: tuple[str, ...]) -> str:
    """The command-line flags that consent, quoted for a shell."""
    return " ".join(shlex.join(("--allow", grant_of(planned.ref, hazard))) for hazard in hazards)


def grant_of(ref: ResourceRef, hazard: str) -> str:
    """The value of `--allow` for one hazard of this resource alone, also where its name is a pattern."""
    return f"{ref.kind}/{escape(ref.name)}:{hazard}"


def annotation(hazards: tuple[str, ...]) -> str:
    """The value of the manifest annotation that consents; the reasons are for its author to write."""
    return "; ".join(f'kafkaform/allow: "{hazard}: <why>"' for hazard in hazards)
