"""The record as it is read back: what each apply meant to do, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkaform.core.model import FieldValue, ResourceRef
    from kafkaform.core.throttles import Throttles


@dataclass(frozen=True, slots=True)
class RecordedField:
    """One field of a recorded change; `cut`: a value of many pages, of which only the start was kept."""

    path: str
    before: FieldValue
    after: FieldValue
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a recorded change.

    Attributes:
        result: One of `kafkaform.audit.record.RESULTS`.
        at: When that was known (RFC 3339 in UTC).
        message: Why, where it did not go through.
        done: The paths of the fields that were carried out, also where others were not.
        unsure: Those of which no answer came: they may have been carried out or not.
    """

    result: str
    at: str
    message: str = ""
    done: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of one apply; all text in it may have been written by anybody who may write to the record.

    Attributes:
        id: The id of the change, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to be carried out (RFC 3339 in UTC).
        who: Whoever applied.
        host: Where.
        ci: The CI system; None if it was none.
        url: The page of the CI job.
        commit: The Git commit of the manifests.
        plan: The digest of the plan.
        tool_version: The version of kafkaform.
        cluster_id: The cluster.
        environment: Whose overrides held.
        ref: The resource.
        uid: The identity of the resource that was to be updated or deleted.
        action: `create`, `update` or `delete`.
        risk: The worst risk.
        fields: What was to change.
        consents: Hazards that somebody consented to, with the reasons.
        outcome: What became of it; None if nobody lived to write that down.
        whole: Whether all parts of it are there.
    """

    id: str
    run: str
    at: str
    who: str
    host: str
    ci: str | None
    url: str | None
    commit: str | None
    plan: str | None
    tool_version: str
    cluster_id: str
    environment: str | None
    ref: ResourceRef
    uid: str | None
    action: str
    risk: str
    fields: tuple[RecordedField, ...]
    consents: tuple[tuple[str, str], ...] = ()
    outcome: Outcome | None = None
    whole: bool = True

    @property
    def carried_out(self) -> tuple[RecordedField, ...]:
        """The fields that were changed for sure."""
        done = self.outcome.done if self.outcome is not None else frozenset()
        return tuple(field for field in self.fields if field.path in done)

    @property
    def in_doubt(self) -> tuple[RecordedField, ...]:
        """The fields that were changed or not: nobody knows."""
        if self.outcome is None:
            return self.fields
        unsure = self.outcome.unsure - self.outcome.done
        return tuple(field for field in self.fields if field.path in unsure)

    @property
    def is_open(self) -> bool:
        """Whether a later apply may yet find out what became of it."""
        return self.outcome is None or bool(self.in_doubt)

    @property
    def took_place(self) -> bool:
        """Whether anything of it was changed for sure."""
        if self.outcome is None:
            return False
        return self.outcome.result == "applied" or not self.outcome.done.isdisjoint(
            field.path for field in self.fields
        )

    @property
    def may_have_taken_place(self) -> bool:
        """Whether anything of it was changed, or may have been: no answer came, or no result was written."""
        return self.is_open or self.took_place


@dataclass(frozen=True, slots=True)
class ThrottleEntry:
    """Throttles that an apply was about to set.

    Attributes:
        id: The id, `RUN.NUMBER`.
        run: The id of the apply.
        at: When it was about to set them (RFC 3339 in UTC).
        cluster_id: The cluster.
        throttles: The throttles.
        removed: Whether they were taken off since.
    """

    id: str
    run: str
    at: str
    cluster_id: str
    throttles: Throttles
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Log:
    """A reading of the record.

    Attributes:
        entries: Oldest first.
        problems: What of it could not be read, a line each.
        throttles: What applies throttled, oldest first.
    """

    entries: tuple[Entry, ...] = ()
    problems: tuple[str, ...] = ()
    throttles: tuple[ThrottleEntry, ...] = ()
