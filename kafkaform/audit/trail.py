"""The audit trail: the record by resource, newest first."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafkaform.audit.entries import AuditEntry, AuditRecord, merge_records, parse_record
from kafkaform.audit.record import read_lines
from kafkaform.cluster.audit_layout import AUDIT_TOPIC
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied
from kafkaform.core.model import CONFIG_PREFIX, FieldValue, ResourceRef, Setting
from kafkaform.core.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kafkaform.cluster.protocol import AuditReader
    from kafkaform.config.settings import AuditSettings

_log = logging.getLogger(__name__)


class Trail:
    """The changes that applies made to each resource, or may have made.

    Args:
        entries: Entries of one cluster, oldest first.
    """

    def __init__(self, entries: Iterable[AuditEntry] = ()) -> None:
        self._entries: dict[ResourceRef, list[AuditEntry]] = {}
        for entry in entries:
            # A change that was certainly not made has no effect on the values of a resource.
            if entry.may_have_taken_place:
                self._entries.setdefault(entry.ref, []).append(entry)

    def settings(self, ref: ResourceRef, path: str) -> tuple[Setting, ...]:
        """Return the values that applies set a field to since one last created the resource, newest first."""
        return tuple(self._find_settings(ref, path))

    def replaced_since(self, ref: ResourceRef, at: str, uid: str | None = None) -> bool:
        """Return whether an apply certainly created or deleted a resource after a time (RFC 3339 in UTC).

        Args:
            uid: Its live id, if known: a recreation whose result is not known, of another id, took place.
        """
        return any(
            # RFC 3339 in UTC with a fixed number of digits: text sorts as time does.
            entry.action != "update"
            and (entry.took_place or (entry.action == "recreate" and uid not in {None, entry.uid}))
            and entry.at > at
            for entry in self._entries.get(ref, ())
        )

    def was_recreated_by(self, ref: ResourceRef, run: str) -> bool:
        """Return whether an apply recreated a resource, or may have."""
        return any(entry.action == "recreate" and entry.run == run for entry in self._entries.get(ref, ()))

    def find_open(self, ref: ResourceRef, action: str) -> Setting | None:
        """Return the latest change of a resource if it is such an action (`create` or `delete`) in doubt."""
        for entry in self._entries.get(ref, ())[-1:]:
            if entry.action == action and not entry.took_place:
                return replace(_build_setting(entry, None, certain=False), unended=entry.outcome is None)
        return None

    def _find_settings(self, ref: ResourceRef, path: str) -> Iterator[Setting]:
        for entry in reversed(self._entries.get(ref, ())):
            if entry.action == "delete":
                # What was set before belonged to the resource that was deleted.
                if entry.took_place:
                    return
                continue  # a deletion in doubt: earlier values may still be set
            set_here = [
                (field.before, field.after, True) for field in entry.carried_out if field.path == path
            ]
            set_here += [(field.before, field.after, False) for field in entry.in_doubt if field.path == path]
            creates = entry.action in {"create", "recreate"}
            if not set_here and creates and path.startswith(CONFIG_PREFIX):
                set_here = [(None, None, entry.took_place)]  # created without this config
            for before, value, certain in set_here:
                unended = entry.outcome is None
                yield replace(_build_setting(entry, value, certain=certain), before=before, unended=unended)
            if creates and entry.took_place:
                return


def _build_setting(entry: AuditEntry, value: FieldValue, *, certain: bool) -> Setting:
    return Setting(value, entry.at, entry.who, entry.commit, entry.run, certain)


def read_trail(cluster: AuditReader, audit: AuditSettings, cluster_id: str) -> Trail:
    """Read the trail of a cluster from its record; empty if none is kept.

    Args:
        audit: The settings of its record.

    Raises:
        AuditError: The record exists, but cannot be read.
    """
    if not audit.enabled:
        return Trail()
    entries = read_record(cluster, audit).entries
    # A file may be kept for several clusters, and a topic may have been copied from another one.
    return Trail(entry for entry in entries if entry.cluster_id == cluster_id)


def read_record(cluster: AuditReader, audit: AuditSettings) -> AuditRecord:
    """Read the record of a cluster from its topic, its file or both; empty if there is none.

    Raises:
        AuditError: The record exists, but cannot be read.
    """
    log = AuditRecord()
    if audit.topic:
        log = _read_topic(cluster)
    if audit.file is not None:
        log = merge_records(log, read_record_file(audit.file))
    return log


def read_record_file(file: Path) -> AuditRecord:
    """Read the record in a file; empty if the file does not exist.

    Raises:
        AuditError: The file cannot be read.
    """
    begun = time.monotonic()
    return _parse(read_lines(file), str(file), begun)


def _parse(lines: Sequence[str], where: str, begun: float) -> AuditRecord:
    log = parse_record(lines, where)
    _log.debug("audit: read %d lines from %s in %d ms", len(lines), where, (time.monotonic() - begun) * 1000)
    return log


def _read_topic(cluster: AuditReader) -> AuditRecord:
    begun = time.monotonic()
    try:
        lines = cluster.read_audit()
    except PermissionDenied as error:
        raise AuditError(
            f"the record in the topic {AUDIT_TOPIC.name} cannot be read: {error.message}",
            hint=f"grant Read on the topic {AUDIT_TOPIC.name}; if no record is kept, "
            "set `audit: {topic: false}`" + (f"; {error.hint}" if error.hint else ""),
        ) from error
    except ClusterError as error:
        raise AuditError(
            f"the record in the topic {AUDIT_TOPIC.name} cannot be read: {error.message}", hint=error.hint
        ) from error
    return _parse(lines, f"topic {AUDIT_TOPIC.name}", begun)
