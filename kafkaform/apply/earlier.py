"""What the record says of earlier applies: results that were never written, and plans that are spent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kafkaform.apply.preconditions import Left, concerned, remaining
from kafkaform.audit.journal import sinks_of
from kafkaform.audit.record import timestamp
from kafkaform.audit.trail import read_record
from kafkaform.config.settings import AuditSettings
from kafkaform.core.model import SAFE, Create, Delete, FieldChange, Status, Update
from kafkaform.resources import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import AuditReader, Cluster, ResourceReader
    from kafkaform.core.model import Change, Plan, ResourceRef

_NOWHERE = AuditSettings(topic=False)


@dataclass(frozen=True, slots=True)
class EarlierApplies:
    """The applies to a cluster, as the next one finds them.

    Attributes:
        entries: Of this cluster, oldest first.
        kept: Where the next one is recorded.
    """

    entries: Sequence[AuditEntry] = ()
    kept: AuditSettings = _NOWHERE

    def settle(self, cluster: Cluster, run: str) -> tuple[AuditEntry, ...]:
        """Write the result of every change that is in doubt, and that the cluster shows as carried out.

        A change that the cluster does not show, or only a part of it, stays open: it may have been made and
        undone since. Nothing of this apply must have been sent yet, or it would be taken for an earlier one.

        Args:
            cluster: The cluster.
            run: The id of the apply that looks.

        Returns:
            What was settled.

        Raises:
            AuditError: It cannot be written.
            ClusterError: The cluster cannot be read.
        """
        changes = {entry.id: (entry, _change(entry)) for entry in self._unsettled()}
        if not changes or not self.kept.enabled:
            return ()
        fields: dict[ResourceRef, set[str]] = {}
        for _, change in changes.values():
            fields.setdefault(change.ref, set()).update(concerned(change))
        observation = cluster.observe_fields(fields)
        found = [entry for entry, change in changes.values() if remaining(change, observation) == Left(None)]
        at = timestamp(datetime.now(UTC))
        lines = [line for entry in found for line in entry.settled(at, run)]
        for sink in sinks_of(cluster, self.kept) if lines else ():
            sink.append(lines)
        return tuple(found)

    def spent(self, digest: str, created_at: str) -> dict[ResourceRef, AuditEntry]:
        """The changes of a plan that an apply has carried out as a whole, each with the latest of these.

        Plans with the same content have the same digest. One that was made after an apply had ended is a new
        one, whose reader saw what that apply had left: it is not spent.

        Args:
            digest: The plan's.
            created_at: When the plan was made.
        """
        made = _moment(created_at)
        return {
            entry.ref: entry
            for entry in self.entries
            if entry.plan == digest
            and entry.outcome is not None
            and entry.outcome.result == "applied"
            and not _is_after(made, _moment(entry.outcome.at))
        }

    def _unsettled(self) -> list[AuditEntry]:
        """Changes that are in doubt, less what later applies have dealt with; oldest first.

        A later apply was about to change a field as the cluster did not have it as it was wanted, and to
        create a resource as there was none: whatever this one had made of them, it no longer exists. So
        each field of each resource is left in doubt by one change at most, the latest.
        """
        found: list[AuditEntry] = []
        later: dict[ResourceRef, set[str]] = {}
        uids: dict[ResourceRef, str] = {}
        replaced: set[ResourceRef] = set()
        for entry in reversed(self.entries):
            anew = entry.uid is not None and uids.setdefault(entry.ref, entry.uid) != entry.uid
            if entry.is_open and entry.ref not in replaced and not anew and _is_comparable(entry):
                dealt_with = later.get(entry.ref, ())
                left = tuple(field for field in entry.in_doubt if field.path not in dealt_with)
                if left or entry.action == "delete":
                    found.append(replace(entry, fields=left))
            if entry.action == "create" or (entry.action == "delete" and entry.took_place):
                replaced.add(entry.ref)
            elif entry.action == "update":
                later.setdefault(entry.ref, set()).update(field.path for field in entry.fields)
        return found[::-1]


def _is_comparable(entry: AuditEntry) -> bool:
    """Whether all of a change is recorded, and means something to this version."""
    return entry.whole and entry.ref.kind in KINDS and not any(field.cut for field in entry.fields)


def read_earlier(
    cluster: AuditReader, audit: AuditSettings, cluster_id: str, kept: AuditSettings | None = None
) -> EarlierApplies:
    """The applies to a cluster, as far as a record was kept.

    Args:
        cluster: The cluster.
        audit: Where its record is.
        cluster_id: The id of the cluster.
        kept: Where the next apply is recorded; None for the same place.

    Raises:
        AuditError: There is a record, and it cannot be read.
    """
    kept = audit if kept is None else kept
    if not audit.enabled:
        return EarlierApplies((), kept)
    entries = read_record(cluster, audit).entries
    return EarlierApplies([entry for entry in entries if entry.cluster_id == cluster_id], kept)


def already_there(plan: Plan, refs: Iterable[ResourceRef], cluster: ResourceReader) -> frozenset[ResourceRef]:
    """Those of some changes of a plan of which the cluster lacks nothing.

    Raises:
        ClusterError: The cluster cannot be read.
    """
    asked = {*refs}
    changes = [
        planned.change
        for planned in plan.changes
        if planned.ref in asked and planned.status is not Status.REFUSED
    ]
    if not changes:
        return frozenset()
    observation = cluster.observe_fields({change.ref: concerned(change) for change in changes})
    return frozenset(change.ref for change in changes if remaining(change, observation) == Left(None))


def _moment(time: str) -> datetime | None:
    """A time; None for one that no calendar has, which is proof of nothing."""
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def _is_after(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and one > other


def _change(entry: AuditEntry) -> Change:
    """A recorded change as it was planned."""
    match entry.action:
        case "create":
            return Create(entry.ref, {field.path: field.after for field in entry.fields})
        case "delete":
            return Delete(entry.ref, entry.uid, {field.path: field.before for field in entry.fields}, SAFE)
        case _:
            fields = (FieldChange(field.path, field.before, field.after) for field in entry.fields)
            return Update(entry.ref, entry.uid, tuple(fields))
