"""Reassignments on small clusters, a throttle journal in memory, and a reassigner that notes what it says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from kafkaform.apply.change_execution import Observer
from kafkaform.apply.moves.batches import PartitionMove
from kafkaform.apply.moves.context import MoveContext
from kafkaform.apply.moves.reassignment import Reassigner, ReassignmentReport
from kafkaform.apply.moves.throttle_journal import Announcement
from kafkaform.cluster.protocol import Cluster
from kafkaform.core.lock import Guard, lock_lost_error, unguarded
from kafkaform.core.partitions import Replicas
from kafkaform.core.progress import Clock
from kafkaform.resources.replicas.layout import Assignment
from kafkaform.resources.replicas.moves import MoveOptions, MoveProgress, Throttles
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.plans.scenes import FakeClock, Watched, topic

MB = 1_000_000


def laid_out(cluster: Cluster, name: str, assignment: Assignment, **configs: str) -> None:
    """Create a topic whose replicas are where it is said."""
    given = {key.replace("_", "."): value for key, value in configs.items()}
    made = CreateTopic(topic(name), len(assignment), len(assignment[0]), given, assignment)
    assert cluster.execute([made]) == [None]


def work(name: str, before: Assignment, after: Assignment) -> Reassign:
    """The reassignment of a topic's partitions."""
    return Reassign(topic(name), dict(enumerate(before)), dict(enumerate(after)))


def build_move(
    partition: int, before: Replicas, after: Replicas, size: int = 0, name: str = "a"
) -> PartitionMove:
    """Build the move of a partition."""
    return PartitionMove(topic(name), partition, before, after, size, frozenset(after) - {*before})


def now_on(cluster: Cluster, name: str) -> Assignment:
    """The replicas that metadata shows."""
    return tuple(state.replicas for state in cluster.layout().topics[name])


def override(cluster: Cluster, **methods: Callable[..., Any]) -> Watched:
    """Return a cluster with other methods in the place of some."""
    watched = Watched(cluster)
    for name, method in methods.items():
        setattr(watched, name, method)
    return watched


def fail(error: BaseException) -> Callable[..., Any]:
    """Return a method that raises an error."""

    def raise_error(*_: object, **__: object) -> Any:
        raise error

    return raise_error


class LimitedGuard:
    """A guard that lets so many requests through before another apply has the lock, and counts them."""

    def __init__(self, requests: int) -> None:
        self.asked = 0
        self._requests = requests

    def __call__(self) -> None:
        self.asked += 1
        if self.asked > self._requests:
            raise lock_lost_error("bob has it")


class MemoryThrottleJournal:
    """Remembers throttles."""

    kept = True

    def __init__(self) -> None:
        self.announced: dict[str, Announcement] = {}
        self.gone: list[str] = []
        self.run = 1

    def announce(self, throttles: Throttles) -> Sequence[Announcement]:
        announcement = Announcement(f"{self.run}.{len(self.announced)}", throttles)
        self.announced[announcement.id] = announcement
        return [announcement]

    def record_removal(self, announcements: Sequence[Announcement]) -> None:
        self.gone += [announcement.id for announcement in announcements]

    def read_leftovers(self) -> Sequence[Announcement]:
        mine = f"{self.run}."
        return [a for a in self.announced.values() if a.id not in self.gone and not a.id.startswith(mine)]


@dataclass
class Notes(Observer):
    """A reassigner's progress; `on_progress` lets a test step in."""

    lines: list[str] = field(default_factory=list)
    progress: list[MoveProgress] = field(default_factory=list)
    on_progress: Callable[[MoveProgress], object] | None = None

    def moving(self, progress: MoveProgress) -> None:
        self.progress.append(progress)
        if self.on_progress is not None:
            self.on_progress(progress)

    def show_line(self, line: str) -> None:
        self.lines.append(line)


@dataclass
class Crew:
    """A reassigner with all that it needs; its time is made up unless a real clock is given."""

    cluster: Cluster
    options: MoveOptions = field(default_factory=lambda: MoveOptions(throttle=MB))
    throttle_journal: Any = field(default_factory=MemoryThrottleJournal)
    notes: Notes = field(default_factory=Notes)
    stop: Event = field(default_factory=Event)
    time: FakeClock = field(default_factory=FakeClock)
    guard: Guard = unguarded
    clock: Clock | None = None

    def reassigner(self) -> Reassigner:
        surroundings = self.notes, self.guard, self.stop, self.clock or self.time.clock
        return Reassigner(MoveContext(self.cluster, self.options, self.throttle_journal, *surroundings))

    def move(self, *reassignments: Reassign) -> ReassignmentReport:
        return self.reassigner().run(reassignments)
