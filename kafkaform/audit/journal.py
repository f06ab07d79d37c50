"""Writing down what an apply means to do, before it does anything, and what became of it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from kafkaform.audit.record import (
    RESULTS,
    about,
    append_to_file,
    intent_lines,
    new_run,
    result_lines,
    timestamp,
)
from kafkaform.cluster.protocol import TOPIC
from kafkaform.core.apply_result import ResourceResult, Result
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from kafkaform.audit.record import Author
    from kafkaform.cluster.protocol import AuditLog
    from kafkaform.config.settings import AuditSettings
    from kafkaform.core.apply_result import ApplyReport
    from kafkaform.core.model import Consent, Plan, PlannedChange, ResourceRef

_log = logging.getLogger(__name__)
_OTHERWISE = "or apply without a record: --no-audit"


class PlanProvenance(Protocol):
    """Where a plan is from; see `PlanHeader`."""

    @property
    def tool_version(self) -> str:
        """The version of kafkaform."""

    @property
    def commit(self) -> str | None:
        """The Git commit of the manifests, where known."""

    @property
    def environment(self) -> str | None:
        """The environment whose overrides were merged."""


class Sink(Protocol):
    """Where lines of the record go."""

    def append(self, lines: Sequence[str]) -> None:
        """Add lines to what is there, and return once they are safe; raises AuditError."""


@dataclass(frozen=True, slots=True)
class TopicSink:
    """The topic on the cluster itself."""

    cluster: AuditLog

    def append(self, lines: Sequence[str]) -> None:
        """See `Sink.append`."""
        begun = time.monotonic()
        try:
            self.cluster.append_audit(lines)
        except ClusterError as error:
            hint = error.hint
            if isinstance(error, PermissionDenied):
                hint = (
                    f"grant Write on the topic {TOPIC.name} (and Create, until it is there), keep the record "
                    f"in a file instead (`audit: {{topic: false, file: PATH}}`), {_OTHERWISE}"
                ) + (f"; {error.hint}" if error.hint else "")
            raise AuditError(
                f"the record in the topic {TOPIC.name} cannot be written: {error.message}", hint=hint
            ) from error
        _log_written(lines, f"topic {TOPIC.name}", begun)


@dataclass(frozen=True, slots=True)
class FileSink:
    """A file of JSON lines."""

    file: Path

    def append(self, lines: Sequence[str]) -> None:
        """See `Sink.append`."""
        begun = time.monotonic()
        append_to_file(self.file, lines)
        _log_written(lines, str(self.file), begun)


class AuditJournal:
    """The record of one apply; without a sink, none is kept.

    Args:
        sinks: Where to write.
        plan: The plan, for the consents that its changes have.
        common: What all changes of it have in common; see `record.about`.
        clock: Tells the time.

    Attributes:
        run: The id of this apply.
        written: Whether anything was written down.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        plan: Plan,
        common: dict[str, Any],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.run = new_run(clock())
        self._sinks = sinks
        self._plan = plan
        self._common = common
        self._clock = clock
        self._ids: dict[ResourceRef, str] = {}

    @property
    def written(self) -> bool:
        """Whether anything was written down."""
        return bool(self._sinks and self._ids)

    def intend(self, changes: Sequence[PlannedChange]) -> None:
        """See `Journal.intend`.

        Raises:
            AuditError: It cannot be written.
        """
        at = timestamp(self._clock())
        ids = {planned.ref: f"{self.run}.{number}" for number, planned in enumerate(changes, 1)}
        consents: dict[str, list[Consent]] = {}
        for consent in self._plan.consents:
            consents.setdefault(consent.resource, []).append(consent)
        lines = [
            line
            for planned in changes
            for line in intent_lines(
                ids[planned.ref],
                at,
                self._common,
                planned,
                consents.get(str(planned.ref), ()),
            )
        ]
        for number, sink in enumerate(self._sinks):
            try:
                sink.append(lines)
            except AuditError as error:
                self._take_back(self._sinks[:number], ids, changes, error)
                raise AuditError(f"{error.message}; nothing was applied", hint=error.hint) from error
        self._ids = ids

    def conclude(self, report: ApplyReport) -> None:
        """See `Journal.conclude`.

        Raises:
            AuditError: It cannot be written.
        """
        ended = [one for one in report.results if one.planned.ref in self._ids and one.result in RESULTS]
        at = timestamp(self._clock())
        lines = [line for one in ended for line in result_lines(self._ids[one.planned.ref], at, one)]
        failures = []
        for sink in self._sinks if lines else ():
            try:
                sink.append(lines)
            except AuditError as error:
                failures.append(error)
        if failures:
            raise AuditError(
                f"the result of apply {self.run} is not recorded: {failures[0].message}",
                hint=failures[0].hint,
            )

    def _take_back(
        self,
        sinks: Sequence[Sink],
        ids: dict[ResourceRef, str],
        changes: Sequence[PlannedChange],
        error: AuditError,
    ) -> None:
        """Say where the intent was written already that nothing came of it."""
        at = timestamp(self._clock())
        lines = [
            line
            for planned in changes
            for line in result_lines(
                ids[planned.ref], at, ResourceResult(planned, Result.NOT_TRIED, error.message)
            )
        ]
        for sink in sinks:
            try:
                sink.append(lines)
            except AuditError as second:
                error.add_note(second.message)  # the first is the one to tell: nothing was applied


def _log_written(lines: Sequence[str], where: str, begun: float) -> None:
    _log.debug("audit: wrote %d lines to %s in %d ms", len(lines), where, (time.monotonic() - begun) * 1000)


def sinks_of(cluster: AuditLog, audit: AuditSettings) -> Sequence[Sink]:
    """Where the record of a cluster is written to."""
    sinks: list[Sink] = [TopicSink(cluster)] if audit.topic else []
    if audit.file is not None:
        sinks.append(FileSink(audit.file))
    return sinks


def open_journal(
    cluster: AuditLog, audit: AuditSettings, plan: Plan, origin: PlanProvenance, digest: str, author: Author
) -> AuditJournal:
    """The journal of an apply.

    Args:
        cluster: The cluster that is applied to.
        audit: Where its record is kept.
        plan: What is applied.
        origin: Where the plan is from.
        digest: The digest of the plan as it was reviewed.
        author: Who applies.
    """
    common = about(
        author,
        commit=origin.commit,
        plan=digest,
        tool=origin.tool_version,
        cluster=plan.cluster_id,
        environment=origin.environment,
    )
    return AuditJournal(sinks_of(cluster, audit), plan, common)
