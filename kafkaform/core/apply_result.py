"""The results of an apply, as plain data; partial failure is data, not an exception."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from kafkaform.core.values import Value, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.model import Diagnostic, FieldChange, ResourceRef
    from kafkaform.core.operations import Operation
    from kafkaform.core.plans import PlannedChange


RETRY_HINT = "run the same apply again: it skips what is already done"
"""The hint after an incomplete apply."""
RECORD_TOPIC = "__kafkaform_audit"
"""The topic in which a cluster keeps the record of its applies."""


class Result(StrEnum):
    """The outcome of applying a change."""

    APPLIED = "applied"
    ALREADY = "already_done"
    # The resource was changed or replaced by others after the plan was made; see `Superseded`.
    MOVED = "moved_since_plan"
    FAILED = "failed"
    REFUSED = "refused"
    NEEDS_CONSENT = "needs_consent"
    NOT_TRIED = "not_tried"


class ResourceResult(Value):
    """The result of one change.

    Attributes:
        message: The reason where it was not applied.
        hint: What to do about it.
        done: The operations that were carried out, even if others of the change were not.
        not_done: The operations that were not carried out, or whose outcome is unknown.
        in_doubt: The operations of `not_done` that were sent: they may have taken effect, in full or in part.
        deferred: Fields that still differ, and that this version does not change.
        live: The numbers of the changed resource that the record keeps, by name.
    """

    planned: PlannedChange
    result: Result
    message: str = ""
    hint: str | None = None
    done: tuple[Operation, ...] = ()
    not_done: tuple[Operation, ...] = ()
    in_doubt: tuple[Operation, ...] = ()
    deferred: tuple[FieldChange, ...] = ()
    live: Mapping[str, int] = field(default_factory=dict)


class ApplyReport(Value):
    """The results of applying a plan.

    Attributes:
        results: The result of each change, in the order of the plan.
        interrupted: Whether the user stopped it half-way.
        unknown: Declared resources whose existence this account cannot determine.
        errors: Errors of rules about resources without a change; those about a change refuse it.
    """

    results: tuple[ResourceResult, ...]
    interrupted: bool = False
    unknown: tuple[ResourceRef, ...] = ()
    errors: tuple[Diagnostic, ...] = ()

    @property
    def complete(self) -> bool:
        """True if the cluster, read back, matches the manifests."""
        # An unknown resource or an error of a rule has no result of its own: without this check, an apply
        # that skipped it would count as complete.
        if self.interrupted or self.unknown or self.errors:
            return False
        fine = {Result.APPLIED, Result.ALREADY}
        return all(r.result in fine and not r.deferred for r in self.results)
