"""The record of the throttles of applies, written before they are set and after they are removed.

An apply that is killed leaves its throttles behind, and Kafka keeps no owner of a config. The record lets the
next apply find them, and distinguish them from those of others, which are never removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from kafkaform.audit.journal import Sink, create_sinks
from kafkaform.audit.record import FORMAT_VERSION, MAX_LINE_BYTES, encode_json, format_timestamp
from kafkaform.audit.trail import read_record
from kafkaform.core.values import Value
from kafkaform.resources.replicas.moves import ThrottledReplicas, Throttles, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.audit.entries import ThrottleEntry
    from kafkaform.cluster.protocol import AuditLog
    from kafkaform.config.settings import AuditSettings


class Announcement(Value):
    """Throttles that an apply was about to set.

    Attributes:
        throttles: The throttles that were not set before.
        at: The time (RFC 3339 in UTC).
    """

    id: str
    throttles: Throttles
    at: str = ""


class ThrottleJournal(Protocol):
    """A record of throttles that outlives the process that set them."""

    @property
    def kept(self) -> bool:
        """Return whether anything is recorded."""

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        """Record throttles that are about to be set; if this raises a `KafkaformError`, none is set."""

    def record_removal(self, announcements: Sequence[Announcement]) -> None:
        """Record that throttles are removed; raises a `KafkaformError` if that cannot be written."""

    def read_leftovers(self) -> Sequence[Announcement]:
        """Read the throttles that earlier applies left; raises a `KafkaformError` if that fails."""


class _NoThrottleJournal:
    kept = False

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        return (Announcement("", throttles),)

    def record_removal(self, announcements: Sequence[Announcement]) -> None:
        pass

    def read_leftovers(self) -> Sequence[Announcement]:
        return ()


NO_THROTTLE_JOURNAL: ThrottleJournal = _NoThrottleJournal()
"""A journal that records nothing: throttles of an apply that is killed stay."""


@dataclass(slots=True)
class AuditedThrottles:
    """The throttle journal of one apply, in its record.

    Attributes:
        sinks: The sinks to write to.
        recorded: Reads the entries of applies to all clusters.
        run: The id of this apply.
        clock: Returns the time.
    """

    sinks: Sequence[Sink]
    recorded: Callable[[], Sequence[ThrottleEntry]]
    run: str
    cluster_id: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _count: int = 0

    @property
    def kept(self) -> bool:
        """Return whether there is a sink."""
        return bool(self.sinks)

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        """Record throttles that are about to be set.

        Raises:
            AuditError: The record cannot be written.
        """
        at = format_timestamp(self.clock())
        announced = []
        for part in _split(throttles):
            self._count += 1
            announced.append(Announcement(f"{self.run}.{self._count}", part, at))
        self._write([self._render_line(entry.id, at, "set", entry.throttles) for entry in announced])
        return announced

    def record_removal(self, announcements: Sequence[Announcement]) -> None:
        """Record that throttles are removed.

        Raises:
            AuditError: The record cannot be written.
        """
        at = format_timestamp(self.clock())
        self._write([self._render_line(entry.id, at, "removed", Throttles()) for entry in announcements])

    def read_leftovers(self) -> Sequence[Announcement]:
        """Read the throttles that earlier applies to this cluster left.

        Raises:
            AuditError: The record cannot be read.
        """
        return [
            Announcement(entry.id, entry.throttles, entry.at)
            for entry in self.recorded()
            # A file may be shared by several clusters, and a topic may be a copy from another one.
            if entry.cluster_id == self.cluster_id and not entry.removed and entry.run != self.run
        ]

    def _write(self, lines: Sequence[str]) -> None:
        for sink in self.sinks if lines else ():
            sink.append(lines)

    def _render_line(self, entry_id: str, at: str, state: str, throttles: Throttles) -> str:
        # The run is that of the announcement, also if another apply removes its throttles.
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "record": "throttle",
            "id": entry_id,
            "run": entry_id.partition(".")[0],
            "at": at,
            "cluster": self.cluster_id,
            "state": state,
        }
        if state == "set":
            document |= _encode(throttles)
        return encode_json(document)


def open_throttle_journal(
    cluster: AuditLog, audit: AuditSettings, run: str, cluster_id: str
) -> AuditedThrottles:
    """Open the throttle journal of an apply.

    Args:
        audit: The settings of its record.
        run: The id of the apply, as in its journal.
    """
    return AuditedThrottles(
        create_sinks(cluster, audit), lambda: read_record(cluster, audit).throttles, run, cluster_id
    )


def _encode(throttles: Throttles) -> dict[str, Any]:
    """Convert throttles to JSON."""
    return {
        "brokers": [
            {"id": broker, "leader": rates.leader, "follower": rates.follower}
            for broker, rates in sorted(throttles.rates.items())
        ],
        "topics": [
            {"name": name, "leader": sorted(listed.leader), "follower": sorted(listed.follower)}
            for name, listed in sorted(throttles.replicas.items())
        ],
    }


def _split(throttles: Throttles) -> Iterator[Throttles]:
    """Split throttles into parts that fit into one line, which is one message of the audit topic.

    The first part alone contains the rates, as a broker has one for all topics.
    """
    part = [Throttles(throttles.rates)]
    # Half of a line leaves more than enough for its other members.
    room = MAX_LINE_BYTES // 2
    used = 0
    for name, listed in throttles.replicas.items():
        for piece in _split_topic(listed, room):
            entry = Throttles(replicas={name: piece})
            size = len(encode_json(_encode(entry)))
            if used and used + size > room:
                yield union(part)
                part, used = [], 0
            part.append(entry)
            used += size
    yield union(part)


def _split_topic(listed: ThrottledReplicas, room: int) -> Iterator[ThrottledReplicas]:
    """Split the entries of one topic."""
    most = room // 32  # 32 bytes an entry: two numbers of ten digits, a colon, quotes, a comma
    both = [(True, entry) for entry in sorted(listed.leader)]
    both += [(False, entry) for entry in sorted(listed.follower)]
    for start in range(0, len(both), most):
        piece = both[start : start + most]
        yield ThrottledReplicas(
            frozenset(entry for leads, entry in piece if leads),
            frozenset(entry for leads, entry in piece if not leads),
        )
