"""How topics and groups stand: what a live cluster says of them, beside what manifests do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.groups import GroupReading
from kafkaform.core.model import CONFIG_PREFIX, Observation
from kafkaform.core.wording import nearest
from kafkaform.inspect.arrivals import read_arrivals
from kafkaform.resources import KINDS
from kafkaform.resources.consumer_group import ConsumerGroupKind, group_ref, is_group
from kafkaform.resources.topic import TopicKind, is_topic
from spark_validation.arrivals import Spread

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.core.groups import Group
    from kafkaform.core.model import DataSize, Desired, Intent, Observed, ResourceRef
    from spark_validation.arrivals import TopicArrivals

SHOWN = (TopicKind.name, ConsumerGroupKind.name)
"""The kinds whose status is read."""
_NAMED = 3
"""How many names a line about what could not be read has room for."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which resources are looked at.

    Attributes:
        globs: Of their names; empty for all.
        kinds: Of these kinds.
        ignore: Globs of resources that are left out, unless they are declared or named in full.
    """

    globs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)
    ignore: tuple[str, ...] = ()

    def includes(self, kind: str) -> bool:
        """Tell whether resources of a kind are looked at."""
        return kind in self.kinds

    def takes(self, ref: ResourceRef, declared: Collection[ResourceRef] = ()) -> bool:
        """Whether a resource is looked at."""
        if not self.includes(ref.kind):
            return False
        if self.globs and not any(fnmatchcase(ref.name, glob) for glob in self.globs):
            return False
        shown = ref in declared or ref.name in self.globs
        return shown or not any(fnmatchcase(ref.name, glob) for glob in self.ignore)


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic.

    Attributes:
        name: Its name.
        observed: What the cluster has; None if it does not exist.
        declared: Whether a manifest declares it; None if no manifests were read.
        team: Whose it is, by its labels; empty if they do not say.
        size: How much data it holds; None if it is not known.
        groups: The groups that read it, or have an offset in it.
        arrivals: What was written to its partitions; None if that was not read.
    """

    name: str
    observed: Observed | None
    declared: bool | None = None
    team: str = ""
    size: DataSize | None = None
    groups: tuple[str, ...] = ()
    arrivals: TopicArrivals | None = None

    def config(self, name: str) -> str | None:
        """The value in force of a config."""
        value = self.observed.effective.get(CONFIG_PREFIX + name) if self.observed is not None else None
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        """The value in force of a config that is a number."""
        value = self.config(name)
        return int(value) if value is not None and value.removeprefix("-").isdecimal() else None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group.

    Attributes:
        name: Its name.
        group: What its coordinator knows; None if it does not exist, or may not be seen.
        only_configs: Whether it does not exist, and the brokers hold configs for it.
        declared: Whether a manifest declares it; None if no manifests were read.
        team: Whose it is, by its labels; empty if they do not say.
        expected: How many members its manifest expects; None if it does not say.
        denied: Why this account may not see it; empty if it may.
    """

    name: str
    group: Group | None
    only_configs: bool = False
    declared: bool | None = None
    team: str = ""
    expected: int | None = None
    denied: str = ""

    @property
    def lag(self) -> int | None:
        """The records between its commits and the ends of the logs, where that is known."""
        return self.group.lag if self.group is not None else None


class Order(StrEnum):
    """A sort order of resources."""

    NAME = "name"
    LAG = "lag"
    SIZE = "size"
    SKEW = "skew"


@dataclass(frozen=True, slots=True)
class StatusReport:
    """One reading of what was selected, by name.

    Attributes:
        topics: The topics.
        groups: The groups.
        unread: What could not be read, a line each.
        notes: What else is to be known of the reading, a line each.
        hidden: How many resources fit the globs and are left out by `ignore`.
        missed: The globs that nothing fits, each with the nearest name that there is.
        without_lag: How many groups `only_lagging` left out.
    """

    topics: tuple[TopicStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: int = 0
    missed: Mapping[str, str | None] | None = None
    without_lag: int = 0

    def sorted_by(self, order: Order) -> StatusReport:
        """Sort topics by size or skew, or groups by lag, largest first and the unknown last."""
        topics, groups = self.topics, self.groups
        if order is Order.SIZE:
            topics = tuple(sorted(topics, key=lambda topic: -topic.size.bytes if topic.size else 1))
        if order is Order.SKEW:
            topics = tuple(sorted(topics, key=_skew_order))
        if order is Order.LAG:
            groups = tuple(
                sorted(groups, key=lambda group: -(group.lag or 0) if group.lag is not None else 1)
            )
        return replace(self, topics=topics, groups=groups)

    def only_lagging(self) -> StatusReport:
        """Leave out the groups that are not known to have lag."""
        lagging = tuple(group for group in self.groups if group.lag)
        return replace(self, groups=lagging, without_lag=len(self.groups) - len(lagging))


def _skew_order(topic: TopicStatus) -> tuple[bool, float, str]:
    """The key to sort by: uneven topics first, by ratio times rate."""
    arrivals = topic.arrivals
    if arrivals is None:
        return True, 0.0, topic.name
    return arrivals.spread is not Spread.UNEVEN, -arrivals.weight, topic.name


def add_arrivals(cluster: ClusterReader, report: StatusReport, now_ms: int) -> StatusReport:
    """Read what was written to the partitions of a report's topics, by offsets.

    Args:
        cluster: Who is asked.
        report: The report.
        now_ms: The time, in milliseconds since 1970.
    """
    counts = {
        topic.name: int(str(topic.observed.state["partitions"]))
        for topic in report.topics
        if topic.observed is not None
    }
    try:
        arrivals = {topic.name: topic for topic in read_arrivals(cluster, counts, now_ms)}
    except ClusterError as error:
        return replace(report, unread=(*report.unread, f"what was written to topics: {error.message}"))
    topics = tuple(replace(topic, arrivals=arrivals.get(topic.name)) for topic in report.topics)
    return replace(report, topics=topics)


def members_of(intent: Intent) -> int | None:
    """How many members the manifest of a group expects; None if it does not say."""
    members = intent.spec.get("members")
    expected = members.get("expected") if isinstance(members, Mapping) else None
    return expected if isinstance(expected, int) else None


def read_status(
    cluster: ClusterReader, desired: Sequence[Desired] | None, selection: Selection
) -> StatusReport:
    """Read what is selected from a cluster, in a few calls.

    Args:
        cluster: Who is asked.
        desired: What manifests declare; None if there are none, or they could not be read.
        selection: What is looked at.

    Raises:
        ClusterError: It cannot be read at all. What is missing besides is told in `StatusReport.unread`.
    """
    declared = {one.ref for one in desired or () if one.state is not None}
    wanted = [ref for ref in sorted(declared) if is_topic(ref) and selection.takes(ref, declared)]
    observation = cluster.observe(
        wanted,
        lambda ref: is_topic(ref) and selection.takes(ref, declared),
        kinds=selection.kinds,
    )
    unread: list[str] = []
    topics = [seen for ref, seen in observation.resources.items() if is_topic(ref)]
    sizes: Mapping[ResourceRef, DataSize] = {}
    if topics:
        try:
            sizes = cluster.sizes(topics)
        except ClusterError as error:
            unread.append(f"the sizes of topics: {error.message}")
        else:
            untold = [topic.ref.name for topic in topics if topic.ref not in sizes]
            if untold:
                unread.append(f"the size of {_named(untold, 'topic')}: not visible to this account")
            unread += [f"the size of {ref.name}: {size.gap}" for ref, size in sizes.items() if size.unread]
    try:
        reading = cluster.groups(_group_names(observation, declared, selection))
        reading = _add_protocols(reading, cluster)
    except ClusterError as error:
        if not selection.includes(TopicKind.name):
            raise
        reading = GroupReading({})
        unread.append(f"groups: {error.message}")
    else:
        if reading.unread:
            unread.append(f"groups: {reading.unread}")
    return assemble(observation, reading, sizes, desired, selection, unread)


def check_visible(cluster: ClusterReader, selection: Selection) -> None:
    """Refuse to call a cluster empty of which nothing was seen, if this account may not see all of it.

    Raises:
        KafkaformError: The account may not describe the cluster.
    """
    if cluster.facts().restricted:
        nouns = " or ".join(KINDS[kind].noun for kind in selection.kinds)
        raise KafkaformError(
            f"this account sees no {nouns}: there is none, or the account lacks Describe on it",
            hint="docs/permissions.md lists the rights that each command needs",
        )


def _add_protocols(reading: GroupReading, cluster: ClusterReader) -> GroupReading:
    """Return the reading with the protocols that groups without any member so far are meant for.

    Their own configs name it; where they name none, it is not known.
    """
    unjoined = {group_ref(name): group for name, group in reading.groups.items() if group.never_joined}
    if not unjoined:
        return reading
    configured = cluster.observe(unjoined, kinds=()).resources
    groups = {
        ref.name: replace(
            group, protocol=group.intended_protocol(configured[ref].state if ref in configured else {})
        )
        for ref, group in unjoined.items()
    }
    return replace(reading, groups={**reading.groups, **groups})


def _group_names(
    observation: Observation, declared: Collection[ResourceRef], selection: Selection
) -> list[str] | None:
    """The groups to ask for, also those that are declared and not listed: only who asks hears of a denial.

    None for all that there are. A topic that is shown may be read by any of them.
    """
    if not selection.includes(ConsumerGroupKind.name):
        return None
    refs = {*observation.inventory, *(ref for ref in declared if selection.takes(ref, declared))}
    every = selection.includes(TopicKind.name) or not selection.globs
    return sorted(ref.name for ref in refs if is_group(ref) and (every or selection.takes(ref, declared)))


def assemble(
    observation: Observation,
    reading: GroupReading,
    sizes: Mapping[ResourceRef, DataSize],
    desired: Sequence[Desired] | None,
    selection: Selection,
    unread: Iterable[str] = (),
) -> StatusReport:
    """Put what was read of a cluster beside what manifests declare."""
    declared = {one.ref: one.intent for one in desired or () if one.state is not None}
    live = {
        *observation.inventory,
        *observation.resources,
        *(group_ref(name) for name in (*reading.groups, *reading.denied)),
    }
    known = sorted(ref for ref in {*live, *declared} if selection.includes(ref.kind))
    chosen = [ref for ref in known if selection.takes(ref, declared)]
    everything = Selection(selection.globs, selection.kinds)
    readers = _readers(reading.groups.values())
    topics = tuple(
        TopicStatus(
            ref.name,
            observation.resources.get(ref),
            None if desired is None else ref in declared,
            declared[ref].team if ref in declared else "",
            sizes.get(ref),
            tuple(sorted(readers.get(ref.name, ()))),
        )
        for ref in chosen
        if is_topic(ref) and (ref in observation.resources or ref not in observation.invisible)
    )
    groups = tuple(
        GroupStatus(
            ref.name,
            reading.groups.get(ref.name),
            ref in live and ref.name not in reading.groups and ref.name not in reading.denied,
            None if desired is None else ref in declared,
            declared[ref].team if ref in declared else "",
            members_of(declared[ref]) if ref in declared else None,
            reading.denied.get(ref.name, ""),
        )
        for ref in chosen
        if is_group(ref)
    )
    names = [ref.name for ref in chosen]
    return StatusReport(
        topics,
        groups,
        (*unread, *_unread(observation, reading, chosen)),
        tuple(note.message for note in observation.diagnostics),
        sum(everything.takes(ref) for ref in known) - len(chosen),
        {
            glob: nearest(glob, [ref.name for ref in known])
            for glob in selection.globs
            if not any(fnmatchcase(name, glob) for name in names)
        },
    )


def _readers(groups: Iterable[Group]) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        for topic in group.topics:
            readers[topic].add(group.name)
    return readers


def _unread(observation: Observation, reading: GroupReading, chosen: Sequence[ResourceRef]) -> Iterable[str]:
    """A line for each reason why something was not read."""
    reasons: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for ref in chosen:
        if ref in observation.invisible and ref not in observation.resources:
            reasons["", KINDS[ref.kind].noun, observation.invisible[ref]].append(ref.name)
        if not is_group(ref):
            continue
        if ref.name in reading.denied and ref not in observation.invisible:
            reasons["", "group", reading.denied[ref.name]].append(ref.name)
        group = reading.groups.get(ref.name)
        if group is not None and group.unread:
            reasons["a part of ", "group", group.unread].append(ref.name)
    for (lead, noun, reason), names in reasons.items():
        yield f"{lead}{_named(names, noun)}: {reason}"


def _named(names: Sequence[str], noun: str) -> str:
    """`group a`, or `5 groups (a, b, c, …)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    more = ", …" if len(names) > _NAMED else ""
    return f"{len(names):,} {noun}s ({', '.join(names[:_NAMED])}{more})"
