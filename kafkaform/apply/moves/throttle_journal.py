"""The record of the throttles that applies set: written before they are set, and after they are off.

An apply that is killed leaves its throttles behind, and Kafka keeps no owner of a config. By the record the
next apply finds them, and knows them from those of other people: nothing else is ever taken off.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from kafkaform.audit.journal import sinks_of
from kafkaform.audit.record import (
    FORMAT_VERSION,
    LONGEST_LINE,
    dumped,
    timestamp,
)
from kafkaform.audit.trail import read_record
from kafkaform.core.moves import ThrottledReplicas, Throttles, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkaform.audit.entries import ThrottleEntry
    from kafkaform.audit.journal import Sink
    from kafkaform.cluster.protocol import AuditLog
    from kafkaform.config.settings import AuditSettings


@dataclass(frozen=True, slots=True)
class Announcement:
    """Throttles that an apply was about to set.

    Attributes:
        id: What tells it from every other.
        throttles: The throttles: what was not set before.
        at: When (RFC 3339 in UTC).
    """

    id: str
    throttles: Throttles
    at: str = ""


class ThrottleJournal(Protocol):
    """Remembers throttles beyond the death of the process that has set them."""

    @property
    def kept(self) -> bool:
        """Return whether it remembers anything."""

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        """Note what is about to be set; if this raises a `KafkaformError`, nothing is."""

    def removed(self, announcements: Sequence[Announcement]) -> None:
        """Note that they are set no longer; raises a `KafkaformError` where that cannot be written."""

    def left(self) -> Sequence[Announcement]:
        """The throttles that earlier applies left set; raises a `KafkaformError` if it cannot tell."""


class _NoThrottleJournal:
    kept = False

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        return (Announcement("", throttles),)

    def removed(self, announcements: Sequence[Announcement]) -> None:
        pass

    def left(self) -> Sequence[Announcement]:
        return ()


NO_THROTTLE_JOURNAL: ThrottleJournal = _NoThrottleJournal()
"""Remembers nothing: throttles of an apply that is killed stay."""


@dataclass(slots=True)
class AuditedThrottles:
    """The throttles of one apply, in its record; see `ThrottleJournal`.

    Attributes:
        sinks: Where to write.
        recorded: Reads what applies to any cluster have written.
        run: The id of this apply.
        cluster_id: The cluster.
        clock: Tells the time.
    """

    sinks: Sequence[Sink]
    recorded: Callable[[], Sequence[ThrottleEntry]]
    run: str
    cluster_id: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _count: int = 0

    @property
    def kept(self) -> bool:
        """See `ThrottleJournal.kept`."""
        return bool(self.sinks)

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        """See `ThrottleJournal.announce`.

        Raises:
            AuditError: It cannot be written.
        """
        at = timestamp(self.clock())
        announced = []
        for part in _parts(throttles):
            self._count += 1
            announced.append(Announcement(f"{self.run}.{self._count}", part, at))
        self._write([self._line(entry.id, at, "set", entry.throttles) for entry in announced])
        return announced

    def removed(self, announcements: Sequence[Announcement]) -> None:
        """See `ThrottleJournal.removed`.

        Raises:
            AuditError: It cannot be written.
        """
        at = timestamp(self.clock())
        self._write([self._line(entry.id, at, "removed", Throttles()) for entry in announcements])

    def left(self) -> Sequence[Announcement]:
        """See `ThrottleJournal.left`.

        Raises:
            AuditError: There is a record, and it cannot be read.
        """
        return [
            Announcement(entry.id, entry.throttles, entry.at)
            for entry in self.recorded()
            # A file may be kept for several clusters, and a topic may have been copied from another one.
            if entry.cluster_id == self.cluster_id and not entry.removed and entry.run != self.run
        ]

    def _write(self, lines: Sequence[str]) -> None:
        for sink in self.sinks if lines else ():
            sink.append(lines)

    def _line(self, entry_id: str, at: str, state: str, throttles: Throttles) -> str:
        # The run is that of the announcement, also where another apply takes its throttles off.
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
            document |= _json(throttles)
        return dumped(document)


def open_throttle_journal(
    cluster: AuditLog, audit: AuditSettings, run: str, cluster_id: str
) -> AuditedThrottles:
    """Open the throttle journal of an apply.

    Args:
        cluster: The cluster that is applied to.
        audit: Where its record is kept.
        run: The id of the apply, as in its journal.
        cluster_id: The id of the cluster.
    """
    return AuditedThrottles(
        sinks_of(cluster, audit), lambda: read_record(cluster, audit).throttles, run, cluster_id
    )


def _json(throttles: Throttles) -> dict[str, Any]:
    """Throttles as a record has them."""
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


def _parts(throttles: Throttles) -> Iterator[Throttles]:
    """Throttles in parts that fit into a line each, which is one message of the audit topic.

    The rates go with the first part alone, as a broker has one for all topics.
    """
    part = [Throttles(throttles.rates)]
    room = LONGEST_LINE // 2
    used = 0
    for name, listed in throttles.replicas.items():
        for piece in _pieces(listed, room):
            more = Throttles(replicas={name: piece})
            size = len(dumped(_json(more)))
            if used and used + size > room:
                yield union(part)
                part, used = [], 0
            part.append(more)
            used += size
    yield union(part)


def _pieces(listed: ThrottledReplicas, room: int) -> Iterator[ThrottledReplicas]:
    """The entries of one topic, in as many pieces as it takes."""
    most = room // 32  # bytes of an entry: two numbers of ten digits, a colon, quotes, a comma
    both = [(True, entry) for entry in sorted(listed.leader)]
    both += [(False, entry) for entry in sorted(listed.follower)]
    for start in range(0, len(both), most):
        piece = both[start : start + most]
        yield ThrottledReplicas(
            frozenset(entry for leads, entry in piece if leads),
            frozenset(entry for leads, entry in piece if not leads),
        )
