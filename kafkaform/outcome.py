"""What became of a plan that was applied: partial failure is data, not an accident."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kafkaform.model import FieldChange, Operation, PlannedChange, Update


class Result(StrEnum):
    """What became of a change."""

    APPLIED = "applied"
    ALREADY = "already_done"
    MOVED = "moved_since_plan"
    FAILED = "failed"
    REFUSED = "refused"
    NEEDS_CONSENT = "needs_consent"
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class ResourceResult:
    """What became of one change: why, where it did not go through, and what was done all the same."""

    planned: PlannedChange
    result: Result
    message: str = ""
    hint: str | None = None
    done: tuple[Operation, ...] = ()

    @property
    def deferred(self) -> tuple[FieldChange, ...]:
        """The fields of a carried-out update that this version leaves as they are."""
        change = self.planned.change
        return tuple(f for f in change.fields if f.deferred) if isinstance(change, Update) else ()


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What became of a plan.

    Attributes:
        results: For each change of the plan, in its order.
        interrupted: Whether somebody stopped it half-way.
    """

    results: tuple[ResourceResult, ...]
    interrupted: bool = False

    @property
    def complete(self) -> bool:
        """Whether the cluster now is as the manifests say, proven by reading it back."""
        fine = {Result.APPLIED, Result.ALREADY}
        return not self.interrupted and all(r.result in fine and not r.deferred for r in self.results)
