"""What became of a plan that was applied: partial failure is data, not an accident."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.core.model import Diagnostic, FieldChange, PlannedChange, ResourceRef
    from kafkaform.core.operations import Operation


AGAIN = "run the same apply again: it skips what is already done"
"""What to do about work that was left half done."""


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
    """What became of one change.

    Attributes:
        planned: The change.
        result: What became of it.
        message: Why, where it did not go through.
        hint: What to do about it.
        done: The operations that were carried out, also where others of the change were not.
        not_done: Those that were due and were not, or of which it could not be told.
        unsure: Those of the latter that were sent: they may have been carried out, as a whole or in part.
        deferred: Fields that differ still, and that this version leaves as they are.
    """

    planned: PlannedChange
    result: Result
    message: str = ""
    hint: str | None = None
    done: tuple[Operation, ...] = ()
    not_done: tuple[Operation, ...] = ()
    unsure: tuple[Operation, ...] = ()
    deferred: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplyReport:
    """What became of a plan.

    Attributes:
        results: For each change of the plan, in its order.
        interrupted: Whether somebody stopped it half-way.
        unknown: Declared resources of which the account cannot tell whether they exist.
        errors: Errors of rules about resources without a change; those about a change refuse it.
    """

    results: tuple[ResourceResult, ...]
    interrupted: bool = False
    unknown: tuple[ResourceRef, ...] = ()
    errors: tuple[Diagnostic, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the cluster is as the manifests say, proven by reading it back."""
        if self.interrupted or self.unknown or self.errors:
            return False
        fine = {Result.APPLIED, Result.ALREADY}
        return all(r.result in fine and not r.deferred for r in self.results)
