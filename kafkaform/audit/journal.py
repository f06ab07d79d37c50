"""The journal of an apply: its intended changes, written before the first request, and their results."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from kafkaform.audit.record import (
    RESULTS,
    Author,
    append_to_file,
    create_run_id,
    describe_apply,
    format_timestamp,
    render_intent,
    render_result,
)
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.core.apply_result import ApplyReport, ResourceResult, Result
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafkaform.cluster.protocol import AuditLog
    from kafkaform.config.settings import AuditSettings
    from kafkaform.core.model import ResourceRef
    from kafkaform.core.plans import Consent, Plan, PlannedChange

_log = logging.getLogger(__name__)
_OTHERWISE = "or apply without a record: --no-audit"


class PlanProvenance(Protocol):
    """The origin of a plan; `PlanHeader` has it."""

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
    """A place that lines of the record are written to."""

    def append(self, lines: Sequence[str]) -> None:
        """Append lines, and return once they are durable; raises AuditError."""


class TopicSink(Value):
    """The audit topic on the cluster itself."""

    cluster: AuditLog

    def append(self, lines: Sequence[str]) -> None:
        """Append lines to the topic."""
        begun = time.monotonic()
        try:
            self.cluster.append_audit(lines)
        except ClusterError as error:
            hint = error.hint
            if isinstance(error, PermissionDenied):
                hint = (
                    f"grant Write on the topic {AUDIT_TOPIC.name} (and Create, until it exists), keep the "
                    f"record in a file instead (`audit: {{topic: false, file: PATH}}`), {_OTHERWISE}"
                ) + (f"; {error.hint}" if error.hint else "")
            raise AuditError(
                f"the record in the topic {AUDIT_TOPIC.name} cannot be written: {error.message}", hint=hint
            ) from error
        _log_written(lines, f"topic {AUDIT_TOPIC.name}", begun)


class FileSink(Value):
    """A file of JSON lines."""

    file: Path

    def append(self, lines: Sequence[str]) -> None:
        """Append lines to the file."""
        begun = time.monotonic()
        append_to_file(self.file, lines)
        _log_written(lines, str(self.file), begun)


class AuditJournal:
    """The record of one apply; without a sink, none is kept.

    Args:
        sinks: The places to write to.
        plan: The plan, which has the consents to its changes.
        common: The part that all intents share, as `record.describe_apply` returns it.
        clock: Returns the current time.

    Attributes:
        run: The id of this apply.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        plan: Plan,
        common: dict[str, Any],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.run = create_run_id(clock())
        self._sinks = sinks
        self._plan = plan
        self._common = common
        self._clock = clock
        self._ids: dict[ResourceRef, str] = {}

    @property
    def written(self) -> bool:
        """True if anything was written."""
        return bool(self._sinks and self._ids)

    def intend(self, changes: Sequence[PlannedChange]) -> None:
        """Write the intended changes; if a sink fails, mark them as not tried in those written before.

        Raises:
            AuditError: A sink cannot be written.
        """
        at = format_timestamp(self._clock())
        ids = {planned.ref: f"{self.run}.{number}" for number, planned in enumerate(changes, 1)}
        consents: dict[str, list[Consent]] = {}
        for consent in self._plan.consents:
            consents.setdefault(consent.resource, []).append(consent)
        lines = [
            line
            for planned in changes
            for line in render_intent(
                ids[planned.ref],
                at,
                self._common,
                planned,
                consents.get(str(planned.ref), ()),
                self._plan.successions,
            )
        ]
        for number, sink in enumerate(self._sinks):
            try:
                sink.append(lines)
            except AuditError as error:
                # Otherwise the intents in these sinks would have no result, and every later apply would look
                # for their changes.
                self._cancel_intents(self._sinks[:number], ids, changes, error)
                raise AuditError(f"{error.message}; nothing was applied", hint=error.hint) from error
        # Only now: `conclude` writes results for these ids, and there must be none without an intent.
        self._ids = ids

    def conclude(self, report: ApplyReport) -> None:
        """Write the results of the changes to all sinks, even if one of them fails.

        Raises:
            AuditError: A sink cannot be written.
        """
        at = format_timestamp(self._clock())
        lines = [
            line
            for result in report.results
            if result.planned.ref in self._ids and result.result in RESULTS
            for line in render_result(self._ids[result.planned.ref], at, result)
        ]
        # Each sink has its own copy, so one that fails must not cost the others their results.
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

    def _cancel_intents(
        self,
        sinks: Sequence[Sink],
        ids: dict[ResourceRef, str],
        changes: Sequence[PlannedChange],
        error: AuditError,
    ) -> None:
        """Mark the changes as not tried in the sinks that their intents were written to."""
        at = format_timestamp(self._clock())
        lines = [
            line
            for planned in changes
            for line in render_result(
                ids[planned.ref], at, ResourceResult(planned, Result.NOT_TRIED, error.message)
            )
        ]
        for sink in sinks:
            try:
                sink.append(lines)
            except AuditError as second:
                error.add_note(second.message)  # the first error is raised: it is why nothing was applied


def _log_written(lines: Sequence[str], where: str, begun: float) -> None:
    _log.debug("audit: wrote %d lines to %s in %d ms", len(lines), where, (time.monotonic() - begun) * 1000)


def create_sinks(cluster: AuditLog, audit: AuditSettings) -> Sequence[Sink]:
    """Create the sinks that the settings of a cluster ask for; none if it keeps no record."""
    sinks: list[Sink] = [TopicSink(cluster)] if audit.topic else []
    if audit.file is not None:
        sinks.append(FileSink(audit.file))
    return sinks


def open_journal(
    cluster: AuditLog, audit: AuditSettings, plan: Plan, origin: PlanProvenance, digest: str, author: Author
) -> AuditJournal:
    """Create the journal of an apply; nothing is written yet.

    Args:
        cluster: The cluster to change.
        audit: The settings of its record.
        plan: The plan to apply.
        origin: The origin of the plan.
        digest: The digest of the plan as it was reviewed.
        author: The user that applies.
    """
    common = describe_apply(
        author,
        commit=origin.commit,
        plan=digest,
        tool=origin.tool_version,
        cluster=plan.cluster_id,
        environment=origin.environment,
    )
    return AuditJournal(create_sinks(cluster, audit), plan, common)
