"""The free space of brokers' log directories, and the copies of replicas that do not fit.

Kafka puts a new replica into the log directory with the fewest partitions, whatever its free space, and
another one cannot be chosen beforehand. So only what is certain counts as a lack of space: more bytes than
all directories of a broker can take, or a replica that is too large for the one with the most space. Bytes
that moves free do not count: Kafka deletes replicas after the new ones are in sync, and a minute later
(file.delete.delay.ms).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from kafkaform.core.units import rounded_size
from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkaform.core.errors import ClusterError
    from kafkaform.core.health import LogDir

# More than the 10 % below which doctor reports a volume as nearly full (KF310).
DISK_RESERVE = 0.15
"""The share of a log directory's volume that moves leave free by default."""
DISK_REMEDY = (
    "enlarge its volume, place the replicas on other brokers (spec.placement), or cut retention first and "
    "wait until the space is free; smaller batches do not help; limits.diskReserve sets the reserve"
)
# Brokers do not report which directories share a volume. Those with the same total bytes, and usable bytes
# that differ by less than this share of the total, are assumed to be on one: counting it twice would report
# space that does not exist. Not exactly equal, as producers write between the two measurements.
_SAME_VOLUME = 0.001


class Copies(Value):
    """The copies of replicas to one broker.

    Attributes:
        size: Bytes that are still to be copied.
        growth: Bytes that producers are expected to write to these replicas meanwhile.
        largest: The bytes of the largest replica.
    """

    size: int = 0
    growth: int = 0
    largest: int = 0

    def __add__(self, other: Copies) -> Copies:
        """Return the sum of both."""
        return Copies(self.size + other.size, self.growth + other.growth, max(self.largest, other.largest))


NO_COPIES = Copies()


class DiskSpace(Value):
    """The log directories of live brokers.

    Attributes:
        log_dirs: The directories by broker.
        unread: The brokers whose directories could not be read, and why.
        reserve: The share of each volume that must stay free.
    """

    log_dirs: Mapping[int, tuple[LogDir, ...]]
    unread: Mapping[int, str]
    reserve: float = DISK_RESERVE

    @classmethod
    def from_reading(
        cls, log_dirs: Iterable[LogDir], unread: Mapping[int, ClusterError], reserve: float
    ) -> DiskSpace:
        """Return the disk space of directories that `Cluster.log_dirs` has read."""
        by_broker: dict[int, list[LogDir]] = defaultdict(list)
        for log_dir in log_dirs:
            by_broker[log_dir.broker].append(log_dir)
        return cls(
            {broker: tuple(each) for broker, each in by_broker.items()},
            {broker: error.message for broker, error in unread.items()},
            reserve,
        )

    def unknown(self, broker: int) -> str | None:
        """Return the reason why the free space of a broker is unknown, or None."""
        if broker in self.unread:
            return self.unread[broker]
        if any(log_dir.total is not None for log_dir in self.log_dirs.get(broker, ())):
            return None
        return "brokers report it since Kafka 3.3, while they are up"

    def available(self, log_dir: LogDir) -> int:
        """Return the bytes that may be filled without the reserve."""
        return max(0, log_dir.usable - self._reserve_of(log_dir))

    def shortage(self, broker: int, copies: Copies, others: Copies = NO_COPIES) -> str | None:
        """Return the reason why copies certainly do not fit on a broker; None if that is not certain.

        Args:
            copies: The copies to it.
            others: Other copies to it.
        """
        volumes = self._volumes(broker)
        if not copies.size or not volumes:
            return None
        roomiest = max(volumes, key=self.available)
        # Even the emptiest directory cannot take it, whichever one Kafka chooses.
        if copies.largest > self.available(roomiest):
            return (
                f"broker {broker} cannot hold its largest replica: {rounded_size(copies.largest)}; "
                f"{self._free([roomiest])}"
            )
        together = copies + others
        if together.size + together.growth <= sum(map(self.available, volumes)):
            return None
        parts = [f"{rounded_size(copies.size)} to copy"]
        if others.size:
            parts.append(f"{rounded_size(others.size)} of other moves")
        if together.growth:
            # From the writes of the last minutes, as far as retention does not delete as much.
            parts.append(f"about {rounded_size(together.growth)} written meanwhile")
        return f"broker {broker} cannot hold its replicas: {', '.join(parts)}; {self._free(volumes)}"

    def doubt(self, broker: int, copies: Copies) -> str | None:
        """Return the reason why copies may not fit on a broker; None if they certainly do."""
        if not copies.size:
            return None
        if (why := self.unknown(broker)) is not None:
            return f"cannot determine whether broker {broker} has enough disk space: {why}"
        volumes = self._volumes(broker)
        # With a single volume, `shortage` has decided.
        if len(volumes) == 1:
            return None
        tightest = min(volumes, key=self.available)
        if copies.size + copies.growth <= self.available(tightest):
            return None
        return (
            f"broker {broker} has enough disk space in total, but Kafka chooses the log directory with the "
            f"fewest partitions: {tightest.path} has {self._free([tightest])}"
        )

    def _volumes(self, broker: int) -> list[LogDir]:
        """Return the online directories; of those on one volume, the one that reports the least space."""
        volumes: list[LogDir] = []
        online = [log_dir for log_dir in self.log_dirs.get(broker, ()) if log_dir.total is not None]
        # Sorted, so that directories of one volume are neighbours, the one that reports the least space
        # first.
        for log_dir in sorted(online, key=lambda log_dir: (log_dir.total or 0, log_dir.usable)):
            last = volumes[-1] if volumes else None
            if last is None or last.total != log_dir.total or not _is_same_volume(last, log_dir):
                volumes.append(log_dir)
        return volumes

    def _reserve_of(self, log_dir: LogDir) -> int:
        return int(self.reserve * (log_dir.total or 0))

    def _free(self, volumes: list[LogDir]) -> str:
        reserved = sum(map(self._reserve_of, volumes))
        total = sum(volume.total or 0 for volume in volumes)
        return (
            f"{_size(sum(volume.usable for volume in volumes))} usable, less a reserve of "
            f"{_size(reserved)} ({self.reserve:.0%} of {_size(total)})"
        )


def _size(size: int) -> str:
    return rounded_size(size) if size else "0 B"


def _is_same_volume(a: LogDir, b: LogDir) -> bool:
    return abs(a.usable - b.usable) <= _SAME_VOLUME * (a.total or 0)


def find_shortages(
    copies: Mapping[str, Mapping[int, Copies]], others: Mapping[int, Copies], space: DiskSpace
) -> dict[str, str]:
    """Return the topics whose copies do not fit, and why; the smallest are placed first, so that most fit.

    Args:
        copies: The copies by topic and broker.
        others: Other copies by broker.
        space: The free space of the brokers.
    """
    taken = dict(others)
    shortages = {}
    for name in sorted(copies, key=lambda name: (total_size(copies[name].values()), name)):
        reasons = [
            why
            for broker, needed in sorted(copies[name].items())
            if (why := space.shortage(broker, needed, taken.get(broker, NO_COPIES))) is not None
        ]
        # A topic that does not fit is not moved, so its copies take no space from the next ones.
        if reasons:
            shortages[name] = "; ".join(reasons)
            continue
        for broker, needed in copies[name].items():
            taken[broker] = taken.get(broker, NO_COPIES) + needed
    return shortages


def find_doubts(copies: Mapping[str, Mapping[int, Copies]], space: DiskSpace) -> dict[str, str]:
    """Return the topics whose copies may not fit, and why."""
    together: dict[int, Copies] = {}
    for by_broker in copies.values():
        for broker, needed in by_broker.items():
            together[broker] = together.get(broker, NO_COPIES) + needed
    doubts = {broker: why for broker, needed in together.items() if (why := space.doubt(broker, needed))}
    by_topic = {}
    for name, by_broker in copies.items():
        if reasons := [doubts[broker] for broker in sorted(by_broker) if broker in doubts]:
            by_topic[name] = "; ".join(reasons)
    return by_topic


def total_size(copies: Iterable[Copies]) -> int:
    """Return the bytes of several copies."""
    return sum(needed.size for needed in copies)
