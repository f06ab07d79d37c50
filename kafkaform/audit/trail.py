"""Who set what: the record by resource, newest first."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkaform.audit.entries import AuditRecord, merged, read_log
from kafkaform.audit.record import read_file
from kafkaform.cluster.protocol import TOPIC
from kafkaform.core.errors import AuditError, ClusterError, PermissionDenied
from kafkaform.core.model import CONFIG_PREFIX, Setting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from kafkaform.audit.entries import AuditEntry
    from kafkaform.cluster.protocol import AuditReader
    from kafkaform.config.settings import AuditSettings
    from kafkaform.core.model import FieldValue, ResourceRef

_log = logging.getLogger(__name__)


class Trail:
    """What applies did to each resource, or may have done.

    Args:
        entries: Of one cluster, oldest first.
    """

    def __init__(self, entries: Iterable[AuditEntry] = ()) -> None:
        self._entries: dict[ResourceRef, list[AuditEntry]] = {}
        for entry in entries:
            if entry.may_have_taken_place:
                self._entries.setdefault(entry.ref, []).append(entry)

    def settings(self, ref: ResourceRef, path: str) -> tuple[Setting, ...]:
        """What applies set a field to, newest first, since the resource was last made or deleted by one."""
        return tuple(self._settings(ref, path))

    def replaced_since(self, ref: ResourceRef, at: str) -> bool:
        """Whether an apply made or deleted a resource for sure after a time (RFC 3339 in UTC)."""
        return any(
            entry.action != "update" and entry.took_place and entry.at > at
            for entry in self._entries.get(ref, ())
        )

    def open_deletion(self, ref: ResourceRef) -> Setting | None:
        """The apply that was about to delete a resource, and may have, if none came after it."""
        latest = self._entries.get(ref, ())[-1:]
        for entry in latest:
            if entry.action == "delete" and not entry.took_place:
                return _setting(entry, None, certain=False)
        return None

    def _settings(self, ref: ResourceRef, path: str) -> Iterator[Setting]:
        for entry in reversed(self._entries.get(ref, ())):
            if entry.action == "delete":
                if entry.took_place:
                    return
                continue  # what was set before it may still be so
            set_here = [
                (field.before, field.after, True) for field in entry.carried_out if field.path == path
            ]
            set_here += [(field.before, field.after, False) for field in entry.in_doubt if field.path == path]
            if not set_here and entry.action == "create" and path.startswith(CONFIG_PREFIX):
                set_here = [(None, None, entry.took_place)]  # it was made without
            for before, value, certain in set_here:
                unended = entry.outcome is None
                yield replace(_setting(entry, value, certain=certain), before=before, unended=unended)
            if entry.action == "create" and entry.took_place:
                return


def _setting(entry: AuditEntry, value: FieldValue, *, certain: bool) -> Setting:
    return Setting(value, entry.at, entry.who, entry.commit, entry.run, certain)


def read_trail(cluster: AuditReader, audit: AuditSettings, cluster_id: str) -> Trail:
    """What applies to a cluster did, as far as a record was kept.

    Args:
        cluster: The cluster.
        audit: Where its record is.
        cluster_id: The id of the cluster.

    Raises:
        AuditError: There is a record, and it cannot be read.
    """
    if not audit.enabled:
        return Trail()
    entries = read_record(cluster, audit).entries
    # A file may be kept for several clusters, and a topic may have been copied from another one.
    return Trail(entry for entry in entries if entry.cluster_id == cluster_id)


def read_record(cluster: AuditReader, audit: AuditSettings) -> AuditRecord:
    """The record of a cluster, whether in its topic, in a file or in both; none is an empty one.

    Raises:
        AuditError: There is a record, and it cannot be read.
    """
    log = AuditRecord()
    if audit.topic:
        log = _read_topic(cluster)
    if audit.file is not None:
        log = merged(log, read_record_file(audit.file))
    return log


def read_record_file(file: Path) -> AuditRecord:
    """The record in a file; one that does not exist is an empty one.

    Raises:
        AuditError: It cannot be read.
    """
    begun = time.monotonic()
    return _read(read_file(file), str(file), begun)


def _read(lines: Sequence[str], where: str, begun: float) -> AuditRecord:
    log = read_log(lines, where)
    _log.debug("audit: read %d lines from %s in %d ms", len(lines), where, (time.monotonic() - begun) * 1000)
    return log


def _read_topic(cluster: AuditReader) -> AuditRecord:
    begun = time.monotonic()
    try:
        lines = cluster.read_audit()
    except PermissionDenied as error:
        raise AuditError(
            f"the record in the topic {TOPIC.name} cannot be read: {error.message}",
            hint=f"grant Read on the topic {TOPIC.name}; if no record is kept: `audit: {{topic: false}}`"
            + (f"; {error.hint}" if error.hint else ""),
        ) from error
    except ClusterError as error:
        raise AuditError(
            f"the record in the topic {TOPIC.name} cannot be read: {error.message}", hint=error.hint
        ) from error
    return _read(lines, f"topic {TOPIC.name}", begun)
