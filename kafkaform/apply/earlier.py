"""Earlier applies in the record: changes without a result, and plans that were applied already."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.audit.journal import create_sinks
from kafkaform.audit.record import format_timestamp
from kafkaform.audit.trail import read_record
from kafkaform.config.settings import AuditSettings
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, Recreate, Status, Update
from kafkaform.core.values import Value, replace
from kafkaform.plan.preconditions import RemainingChange, find_remaining, hide_offsets, list_fields
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import AuditReader, Cluster
    from kafkaform.core.model import Change, FieldValue, Observation, ResourceRef
    from kafkaform.core.plans import Plan

_NOWHERE = AuditSettings(topic=False)


class EarlierApplies(Value):
    """The earlier applies to a cluster.

    Attributes:
        entries: The entries of this cluster, oldest first.
        kept: The settings of the record of the next apply.
    """

    entries: Sequence[AuditEntry] = ()
    kept: AuditSettings = _NOWHERE

    def record_results(self, cluster: Cluster, run: str) -> tuple[AuditEntry, ...]:
        """Record the result of every change in doubt that the cluster shows as carried out.

        A change that the cluster shows only in part, or not at all, stays open: it may have been made and
        undone since. This apply must not have sent anything yet, or that would be taken for an earlier apply.

        Args:
            run: The id of this apply.

        Returns:
            The changes whose result was recorded.

        Raises:
            AuditError: The record cannot be written.
            ClusterError: The cluster cannot be read.
        """
        changes = {entry.id: (entry, _rebuild_change(entry)) for entry in self._find_open()}
        # Without a record to write to, the result could not be kept, so the cluster is not read.
        if not changes or not self.kept.enabled:
            return ()
        fields: dict[ResourceRef, dict[str, FieldValue]] = {}
        for _, change in changes.values():
            fields.setdefault(change.ref, {}).update(list_fields(change))
        # One reading for all of them, as every apply does this.
        observation = hide_offsets(cluster.observe_fields(fields), [change for _, change in changes.values()])
        recorded = [
            entry
            for entry, change in changes.values()
            if find_remaining(change, observation, unseen_is_open=True) == RemainingChange(None)
        ]
        at = format_timestamp(datetime.now(UTC))
        lines = [line for entry in recorded for line in entry.render_confirmation(at, run)]
        for sink in create_sinks(cluster, self.kept) if lines else ():
            sink.append(lines)
        return tuple(recorded)

    def find_spent(self, digest: str, created_at: str) -> dict[ResourceRef, AuditEntry]:
        """Return the changes of a plan that an apply has carried out in full, each with its latest entry.

        Plans with the same content have the same digest. A plan that was made after the apply had ended is a
        new one, made from the state after that apply: it is not spent.

        Args:
            digest: The digest of the plan.
            created_at: The creation time of the plan.
        """
        made = _parse_time(created_at)
        return {
            entry.ref: entry
            for entry in self.entries
            if entry.plan == digest
            and entry.outcome is not None
            and entry.outcome.result == "applied"
            and not _is_after(made, _parse_time(entry.outcome.at))
        }

    def _find_open(self) -> list[AuditEntry]:
        """Find the changes in doubt that no later apply has superseded; oldest first.

        A later apply that changes a field, or creates a resource, has seen that the cluster lacks it: the
        earlier change of it no longer exists. So at most one change, the latest, leaves a field in doubt.
        """
        unsettled: list[AuditEntry] = []
        later: dict[ResourceRef, set[str]] = {}
        uids: dict[ResourceRef, str] = {}
        replaced: set[ResourceRef] = set()
        # Newest first, so that what later applies changed is known when an earlier entry is looked at.
        for entry in reversed(self.entries):
            # A later entry has another id: the resource that this entry is about is gone.
            recreated = entry.uid is not None and uids.setdefault(entry.ref, entry.uid) != entry.uid
            if entry.is_open and entry.ref not in replaced and not recreated and _is_comparable(entry):
                superseded = later.get(entry.ref, ())
                fields = tuple(field for field in entry.in_doubt if field.path not in superseded)
                if fields or entry.action == "delete":
                    unsettled.append(replace(entry, fields=fields))
            if entry.action == "create" or (entry.action != "update" and entry.took_place):
                replaced.add(entry.ref)
            elif entry.action == "update":
                later.setdefault(entry.ref, set()).update(field.path for field in entry.fields)
        return unsettled[::-1]


def _is_comparable(entry: AuditEntry) -> bool:
    """Return whether all of a change is recorded, and this version supports its kind."""
    return entry.complete and entry.ref.kind in KINDS and not any(field.cut for field in entry.fields)


def read_earlier(
    cluster: AuditReader, audit: AuditSettings, cluster_id: str, kept: AuditSettings | None = None
) -> EarlierApplies:
    """Read the earlier applies to a cluster from its record.

    Args:
        audit: The settings of its record.
        kept: The settings of the record of the next apply; None for the same.

    Raises:
        AuditError: The record cannot be read.
    """
    kept = audit if kept is None else kept
    if not audit.enabled:
        return EarlierApplies((), kept)
    entries = read_record(cluster, audit).entries
    return EarlierApplies([entry for entry in entries if entry.cluster_id == cluster_id], kept)


def find_done(plan: Plan, refs: Collection[ResourceRef], observation: Observation) -> frozenset[ResourceRef]:
    """Find the changes of a plan that are done on the cluster.

    Args:
        refs: The resources whose changes are compared.
        observation: The reading that the plan was assessed by.
    """
    changes = [
        planned.change
        for planned in plan.changes
        if planned.ref in refs and planned.status is not Status.REFUSED
    ]
    return frozenset(
        change.ref for change in changes if find_remaining(change, observation) == RemainingChange(None)
    )


def _parse_time(time: str) -> datetime | None:
    """Parse a time; None if it is invalid."""
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def _is_after(first: datetime | None, second: datetime | None) -> bool:
    return first is not None and second is not None and first > second


def _rebuild_change(entry: AuditEntry) -> Change:
    """Rebuild a planned change from its entry."""
    match entry.action:
        case "create":
            return Create(entry.ref, {field.path: field.after for field in entry.fields})
        case "delete":
            return Delete(entry.ref, entry.uid, {field.path: field.before for field in entry.fields}, SAFE)
        case "recreate":
            before = {field.path: field.before for field in entry.fields if field.before is not None}
            state = {field.path: field.after for field in entry.fields if field.after is not None}
            return Recreate(entry.ref, entry.uid or "", before, state)
        case _:
            fields = (FieldChange(field.path, field.before, field.after) for field in entry.fields)
            return Update(entry.ref, entry.uid, tuple(fields))
