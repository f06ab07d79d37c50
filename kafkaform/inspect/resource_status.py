"""Status of topics, groups and quotas of a live cluster, with what manifests declare about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkaform.core.errors import ClusterError, KafkaformError
from kafkaform.core.model import CONFIG_PREFIX, DataSize, Desired, Intent, Observation, Observed, ResourceRef
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import join_alternatives
from kafkaform.inspect.arrivals import read_arrivals
from kafkaform.inspect.usage import TopicUsage, read_usage
from kafkaform.resources import (
    GROUP,
    KINDS,
    TOPIC,
    find_topic_of,
    group_ref,
    is_group,
    is_topic,
    nearest_name,
)
from kafkaform.resources.groups import Group, GroupReading
from kafkaform.resources.name_globs import NO_GLOBS, NameGlobs
from kafkaform.resources.replicas.facts import count_replicas
from spark_validation.arrivals import Spread, TopicArrivals

if TYPE_CHECKING:
    from kafkaform.cluster.protocol import ClusterReader
    from kafkaform.config.settings import Costs

_MAX_NAMES = 3
"""The number of names in a line about resources that could not be read."""


class Selection(Value):
    """A selection of resources.

    Attributes:
        globs: Globs of names; empty for all.
        ignore: Globs of resources to leave out, unless they are declared or named in full.
    """

    globs: tuple[str, ...] = ()
    kinds: tuple[str, ...] = tuple(KINDS)
    ignore: NameGlobs = NO_GLOBS

    def includes(self, kind: str) -> bool:
        """Return whether the selection includes a kind."""
        return kind in self.kinds

    def takes(self, ref: ResourceRef, declared: Collection[ResourceRef] = ()) -> bool:
        """Return whether the selection includes a resource."""
        if not self.includes(ref.kind):
            return False
        if self.globs and not any(fnmatchcase(ref.name, glob) for glob in self.globs):
            return False
        # Named in full, a topic that is ignored is wanted.
        shown = ref in declared or ref.name in self.globs
        return shown or not self.ignore.match(ref)


class TopicStatus(Value):
    """The status of a topic.

    Attributes:
        observed: The live resource; None if it does not exist.
        declared: Whether a manifest declares it; None if no manifests were read.
        team: The team in its labels; may be empty.
        size: The size of its data; None if it is not known.
        groups: The groups that read it, or have an offset in it.
        arrivals: The records written to its partitions; None if that was not read.
        subjects: The subjects with the schemas of its keys and values, if subjects were read.
        usage: Its use in a period; None if that was not read.
    """

    name: str
    observed: Observed | None
    declared: bool | None = None
    team: str = ""
    size: DataSize | None = None
    groups: tuple[str, ...] = ()
    arrivals: TopicArrivals | None = None
    subjects: tuple[Observed, ...] = ()
    usage: TopicUsage | None = None

    @property
    def replicas(self) -> int | None:
        """The number of replicas of all of its partitions; None if it is not known."""
        return None if self.observed is None else count_replicas(self.observed.state, self.observed)

    @property
    def stored_bytes(self) -> int | None:
        """The bytes of all of its replicas; None if they are not known."""
        if self.size is None or not self.replicas or not self.size.partitions:
            return None
        return self.size.bytes * self.replicas // self.size.partitions

    def config(self, name: str) -> str | None:
        """Return the value in force of a config; None if it is not known."""
        value = self.observed.effective.get(CONFIG_PREFIX + name) if self.observed is not None else None
        return None if value is None else str(value)

    def number(self, name: str) -> int | None:
        """Return the value in force of a config as a number; None if it is not one."""
        value = self.config(name)
        return int(value) if value is not None and value.removeprefix("-").isdecimal() else None


class GroupStatus(Value):
    """The status of a group.

    Attributes:
        group: The reading from its coordinator; None if it does not exist or is not visible.
        only_configs: Whether it does not exist, but has configs on the brokers.
        declared: Whether a manifest declares it; None if no manifests were read.
        team: The team in its labels; may be empty.
        expected: The number of members in its manifest; None without one.
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
        """The number of records after its committed offsets; None if it is not known."""
        return self.group.lag if self.group is not None else None


class ResourceStatus(Value):
    """The status of a resource without replicas and members, such as a quota.

    Attributes:
        observed: The live resource; None if it does not exist.
        declared: Whether a manifest declares it; None if no manifests were read.
        team: The team in its labels; may be empty.
    """

    ref: ResourceRef
    observed: Observed | None
    declared: bool | None = None
    team: str = ""


class Order(StrEnum):
    """A sort order of resources."""

    NAME = "name"
    LAG = "lag"
    SIZE = "size"
    SKEW = "skew"


class StatusReport(Value):
    """One reading of the selected resources, by name.

    Attributes:
        unread: A line for each part that could not be read.
        notes: Other notes on the reading, a line each.
        hidden: The number of matching resources that `ignore` leaves out.
        missed: The globs without a match, each with the nearest existing name.
        without_lag: The number of groups that `only_lagging` left out.
        others: The resources of all other kinds.
        reading: The reading of the groups.
        is_restricted: Whether this account may not see the sizes of topics, and so not all groups either.
        period_ms: The period whose use of topics was read; None if it was not.
        costs: The prices of the cluster; None if they are not declared.
    """

    topics: tuple[TopicStatus, ...] = ()
    groups: tuple[GroupStatus, ...] = ()
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: int = 0
    missed: Mapping[str, str | None] | None = None
    without_lag: int = 0
    others: tuple[ResourceStatus, ...] = ()
    reading: GroupReading = GroupReading({})
    is_restricted: bool = False
    period_ms: int | None = None
    costs: Costs | None = None

    def compute_cost(self, topic: TopicStatus) -> float | None:
        """Return the price of a topic for a month; None if its size or the prices are not known."""
        if self.costs is None or topic.replicas is None or topic.stored_bytes is None:
            return None
        return self.costs.compute(topic.replicas, topic.stored_bytes)

    def sorted_by(self, order: Order) -> StatusReport:
        """Sort topics by size or skew, or groups by lag: largest first, unknown last."""
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
        """Leave out the groups without lag, or with unknown lag."""
        lagging = tuple(group for group in self.groups if group.lag)
        return replace(self, groups=lagging, without_lag=len(self.groups) - len(lagging))


def _skew_order(topic: TopicStatus) -> tuple[bool, float, str]:
    """Return the sort key of a topic: uneven topics first, by ratio times rate."""
    arrivals = topic.arrivals
    if arrivals is None:
        return True, 0.0, topic.name
    return arrivals.spread is not Spread.UNEVEN, -arrivals.weight, topic.name


def add_arrivals(cluster: ClusterReader, report: StatusReport, now_ms: int) -> StatusReport:
    """Add the numbers of records written to the partitions of a report's topics, by offsets.

    Args:
        now_ms: The present, in milliseconds since 1970.
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


def add_usage(cluster: ClusterReader, report: StatusReport, period_ms: int, now_ms: int) -> StatusReport:
    """Add the use of a report's topics in the last `period_ms` milliseconds, by offsets."""
    observed = [topic.observed for topic in report.topics if topic.observed is not None]
    reading = read_usage(cluster, observed, report.reading, period_ms, now_ms)
    if report.is_restricted:
        reading = replace(reading, is_restricted=True)
    topics = tuple(
        topic if topic.observed is None else replace(topic, usage=reading.judge(topic.observed))
        for topic in report.topics
    )
    return replace(report, topics=topics, period_ms=period_ms)


def get_expected_members(intent: Intent) -> int | None:
    """Return the number of members that the manifest of a group expects; None without one."""
    members = intent.spec.get("members")
    expected = members.get("expected") if isinstance(members, Mapping) else None
    return expected if isinstance(expected, int) else None


def list_shown_kinds(desired: Iterable[Desired] | None) -> tuple[str, ...]:
    """Return the kinds whose status is read: topics, groups, and any other kind that is declared."""
    managed = {declared.ref.kind for declared in desired or () if declared.state is not None}
    return tuple(name for name, kind in KINDS.items() if kind in (TOPIC, GROUP) or name in managed)


def read_status(
    cluster: ClusterReader, desired: Sequence[Desired] | None, selection: Selection
) -> StatusReport:
    """Read the selected resources of a cluster, in a few calls.

    Args:
        desired: The declared resources; None if there are no readable manifests.
        selection: The resources to read.

    Raises:
        ClusterError: The cluster cannot be read at all; smaller gaps are in `StatusReport.unread`.
    """
    declared = {resource.ref for resource in desired or () if resource.state is not None}

    def takes(ref: ResourceRef) -> bool:
        if is_group(ref):
            return False  # groups are read below
        topic = find_topic_of(ref)
        return selection.takes(ref, declared) or (topic is not None and selection.takes(topic, declared))

    observation = cluster.observe([*filter(takes, sorted(declared))], takes, kinds=selection.kinds)
    unread: list[str] = []
    # Only these have data: asking for the sizes of other kinds would cost a request to every broker.
    topics = [observed for ref, observed in observation.resources.items() if is_topic(ref)]
    sizes: Mapping[ResourceRef, DataSize] = {}
    unsized: list[str] = []
    if topics:
        try:
            sizes = cluster.sizes(topics)
        except ClusterError as error:
            unread.append(f"the sizes of topics: {error.message}")
        else:
            unsized = [topic.ref.name for topic in topics if topic.ref not in sizes]
            if unsized:
                unread.append(f"the size of {_list_names(unsized, 'topic')}: not visible to this account")
            unread += [f"the size of {ref.name}: {size.gap}" for ref, size in sizes.items() if size.unread]
    try:
        reading = cluster.groups(_list_group_names(observation, declared, selection))
        reading = _add_protocols(reading, cluster)
    except ClusterError as error:
        # Only groups were asked for: without them, there is nothing to report.
        if not selection.includes(TOPIC.name):
            raise
        reading = GroupReading({}, unread=error.message)
    if reading.unread:
        unread.append(f"groups: {reading.unread}")
    report = assemble(observation, reading, sizes, desired, selection, unread)
    return replace(report, is_restricted=bool(unsized))


def check_visible(cluster: ClusterReader, selection: Selection) -> None:
    """Refuse to report an empty cluster to an account that may not see all of it.

    Raises:
        KafkaformError: The account may not describe the cluster.
    """
    if cluster.facts().restricted:
        nouns = join_alternatives([KINDS[kind].words.noun for kind in selection.kinds])
        raise KafkaformError(
            f"no {nouns} is visible to this account: there is none, or the account lacks Describe on it",
            hint="docs/permissions.md lists the rights that each command needs",
        )


def _add_protocols(reading: GroupReading, cluster: ClusterReader) -> GroupReading:
    """Add the intended protocols of groups that no member has joined, from their configs, to the reading.

    Where the configs do not imply a protocol, it stays unknown.
    """
    unjoined = {group_ref(name): group for name, group in reading.groups.items() if group.never_joined}
    if not unjoined:
        return reading
    # A group that only has offsets has no protocol yet; its configs are of the protocol that it is meant for.
    configured = cluster.observe(unjoined, kinds=()).resources
    groups = {
        ref.name: replace(
            group, protocol=group.intended_protocol(configured[ref].state if ref in configured else {})
        )
        for ref, group in unjoined.items()
    }
    return replace(reading, groups={**reading.groups, **groups})


def _list_group_names(
    observation: Observation, declared: Collection[ResourceRef], selection: Selection
) -> list[str] | None:
    """Return the names of the groups to read; None for all.

    Declared groups that are not listed are included, as only a request by name reports a denial. For topics,
    all groups are read, as any of them may read a topic.
    """
    if not selection.includes(GROUP.name):
        return None
    refs = {*observation.inventory, *(ref for ref in declared if selection.takes(ref, declared))}
    # The groups that read a topic are part of its status, whatever their names are.
    every = selection.includes(TOPIC.name) or not selection.globs
    return sorted(ref.name for ref in refs if is_group(ref) and (every or selection.takes(ref, declared)))


def assemble(
    observation: Observation,
    reading: GroupReading,
    sizes: Mapping[ResourceRef, DataSize],
    desired: Sequence[Desired] | None,
    selection: Selection,
    unread: Iterable[str] = (),
) -> StatusReport:
    """Build the report from the readings of a cluster and the declared resources."""
    declared = {resource.ref: resource.intent for resource in desired or () if resource.state is not None}
    live = {
        *observation.inventory,
        *observation.resources,
        *(group_ref(name) for name in (*reading.groups, *reading.denied)),
    }
    candidates = sorted(ref for ref in {*live, *declared} if selection.includes(ref.kind))
    chosen = [ref for ref in candidates if selection.takes(ref, declared)]
    # The difference of the two is what `ignore` hides.
    without_ignore = Selection(selection.globs, selection.kinds)
    readers = _group_by_topic(reading.groups.values())
    subjects: dict[ResourceRef | None, list[Observed]] = defaultdict(list)
    for ref, observed in sorted(observation.resources.items()):
        subjects[find_topic_of(ref)].append(observed)
    topics = tuple(
        TopicStatus(
            ref.name,
            observation.resources.get(ref),
            None if desired is None else ref in declared,
            declared[ref].team if ref in declared else "",
            sizes.get(ref),
            tuple(sorted(readers.get(ref.name, ()))),
            subjects=tuple(subjects.get(ref, ())),
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
            get_expected_members(declared[ref]) if ref in declared else None,
            reading.denied.get(ref.name, ""),
        )
        for ref in chosen
        if is_group(ref)
    )
    others = tuple(
        ResourceStatus(
            ref,
            observation.resources.get(ref),
            None if desired is None else ref in declared,
            declared[ref].team if ref in declared else "",
        )
        for ref in chosen
        if not (is_topic(ref) or is_group(ref))
        and (ref in observation.resources or ref not in observation.invisible)
    )
    names = [ref.name for ref in chosen]
    return StatusReport(
        topics,
        groups,
        (*unread, *_list_unread(observation, reading, chosen)),
        tuple(note.message for note in observation.diagnostics),
        sum(without_ignore.takes(ref) for ref in candidates) - len(chosen),
        {
            glob: nearest_name(glob, [ref.name for ref in candidates])
            for glob in selection.globs
            if not any(fnmatchcase(name, glob) for name in names)
        },
        others=others,
        reading=reading,
    )


def _group_by_topic(groups: Iterable[Group]) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        for topic in group.topics:
            readers[topic].add(group.name)
    return readers


def _list_unread(
    observation: Observation, reading: GroupReading, chosen: Sequence[ResourceRef]
) -> Iterable[str]:
    """Return a line for each reason why resources were not read."""
    reasons: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for ref in chosen:
        if ref in observation.invisible and ref not in observation.resources:
            reasons["", KINDS[ref.kind].words.noun, observation.invisible[ref]].append(ref.name)
        if not is_group(ref):
            continue
        if ref.name in reading.denied and ref not in observation.invisible:
            reasons["", "group", reading.denied[ref.name]].append(ref.name)
        group = reading.groups.get(ref.name)
        if group is not None and group.unread:
            reasons["a part of ", "group", group.unread].append(ref.name)
    for (lead, noun, reason), names in reasons.items():
        yield f"{lead}{_list_names(names, noun)}: {reason}"


def _list_names(names: Sequence[str], noun: str) -> str:
    """Render names as `group a`, or `5 groups (a, b, c, …)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    ellipsis = ", …" if len(names) > _MAX_NAMES else ""
    return f"{len(names):,} {noun}s ({', '.join(names[:_MAX_NAMES])}{ellipsis})"
